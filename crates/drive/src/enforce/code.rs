//! A build as enforcement reads it: the graphs of its functions, what its accesses and calls are called, what its data is called.
//!
//! Compilers leave the entry hook out of functions that call nothing. Such a *bare* function has no activation that the runtime knows: what it
//! does is done by the activation of its caller, and points in it are points of the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use selvedge_events::hooks::HookClass;
use selvedge_image::{Callee, Cfg, Code, Functions, Loaded, Variables, call_keys, load_or_build, site_keys};

/// A point of a function: its function's name and its own.
pub type Label = (String, String);

/// A build that was read.
#[derive(Debug)]
pub struct ReadBuild {
    /// The image.
    pub loaded: Loaded,
    /// Its functions.
    pub functions: Functions,
    /// The graphs of its functions, without the runtime's.
    pub graphs: Vec<Cfg>,
    /// By ordinal: the key of a site.
    pub site_keys: Vec<String>,
    /// By where a call returns to: its key.
    pub calls: BTreeMap<u32, String>,
    /// By a site's offset: its ordinal.
    ordinals: BTreeMap<u32, u32>,
    /// Functions without an entry hook.
    bare: BTreeSet<u32>,
    /// By bare function: the functions that call it by its address.
    callers: BTreeMap<u32, BTreeSet<u32>>,
    /// By where a call returns to: the function that it calls, where the code says it.
    callees: BTreeMap<u32, u32>,
    variables: Variables,
}

impl ReadBuild {
    /// Reads an image; `None` where it cannot be read, or is another build.
    pub fn load(path: &Path, build_id: &[u8]) -> Option<ReadBuild> {
        let loaded = load_or_build(path).ok().filter(|loaded| loaded.image.build_id() == build_id)?;
        let functions = Functions::new(&loaded.image);
        let graphs: Vec<Cfg> = Code::new(&loaded, &functions).graphs().collect();
        let all = graphs.iter().flat_map(|graph| graph.calls().map(|(block, call)| (call.at, graph.block(block))));
        let calls: BTreeMap<u64, u64> = all.filter_map(|(at, block)| Some((at, block?.end))).collect();
        let offsets: Vec<u64> = calls.keys().copied().collect();
        let keys = call_keys(&loaded, &offsets);
        let calls = calls.values().zip(keys).filter_map(|(end, key)| Some((u32::try_from(*end).ok()?, key))).collect();
        let ordinals = (0_u32..).zip(&loaded.entries).map(|(ordinal, entry)| (entry.offset, ordinal)).collect();
        let variables = Variables::new(&loaded.image);
        let is_door = |ordinal: u32| {
            let hook = loaded.entries.get(ordinal as usize).and_then(|entry| entry.hook.get());
            hook.is_some_and(|hook| matches!(hook.class, HookClass::Function { .. }))
        };
        let has_door = |graph: &&Cfg| graph.blocks().iter().flat_map(|block| block.sites.clone()).any(is_door);
        let bare: BTreeSet<u32> = graphs.iter().filter(|graph| !has_door(graph)).map(Cfg::group).collect();
        let (mut callers, mut callees) = (BTreeMap::new(), BTreeMap::new());
        for graph in &graphs {
            for (block, call) in graph.calls() {
                let Callee::Function(callee) = call.callee else { continue };
                if bare.contains(&callee) {
                    callers.entry(callee).or_insert_with(BTreeSet::new).insert(graph.group());
                }
                let returns = graph.block(block).and_then(|block| u32::try_from(block.end).ok());
                callees.extend(returns.map(|returns| (returns, callee)));
            }
        }
        let site_keys = site_keys(&loaded);
        Some(ReadBuild { site_keys, functions, graphs, calls, ordinals, bare, callers, callees, variables, loaded })
    }

    /// Whether a function has no entry hook.
    pub fn is_bare(&self, group: u32) -> bool {
        self.bare.contains(&group)
    }

    /// The name of a function. Functions without a symbol are told apart by their offset.
    pub fn symbol(&self, group: u32) -> Option<String> {
        let group = self.functions.groups().get(group as usize)?;
        let first = self.functions.all().get(*group.parts.first()? as usize)?;
        Some(group.symbol.clone().unwrap_or_else(|| first.name()))
    }

    /// The function around an offset.
    pub fn group(&self, offset: u64) -> Option<u32> {
        self.functions.at(offset).map(|function| function.group)
    }

    /// The function that the call calls which returns to an offset, where the code says it.
    pub fn callee(&self, returns: u32) -> Option<u32> {
        self.callees.get(&returns).copied()
    }

    /// The only function that calls a bare one, if there is one.
    pub fn only_caller(&self, bare: u32) -> Option<u32> {
        let mut callers = self.callers.get(&bare)?.iter();
        callers.next().copied().filter(|_| callers.next().is_none())
    }

    /// The name of the function around an offset.
    pub fn function(&self, offset: u64) -> Option<String> {
        self.symbol(self.group(offset)?)
    }

    /// The key of the access at an offset.
    pub fn site(&self, offset: u32) -> Option<&str> {
        self.site_keys.get(*self.ordinals.get(&offset)? as usize).map(String::as_str)
    }

    /// The call that returns to an offset.
    pub fn call(&self, returns: u32) -> Option<Label> {
        Some((self.function(u64::from(returns).checked_sub(1)?)?, self.calls.get(&returns)?.clone()))
    }

    /// What the data at an offset is called; all elements of an array are one.
    pub fn variable(&self, offset: u64) -> Option<String> {
        Some(without_indices(&self.variables.variable(offset)?.name))
    }
}

/// `a[3].b` as `a[].b`.
fn without_indices(name: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for char in name.chars() {
        inside &= char != ']';
        if !inside {
            text.push(char);
        }
        inside |= char == '[';
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_an_array_are_one() {
        assert_eq!(without_indices("table[3].count[12]"), "table[].count[]");
        assert_eq!(without_indices("x"), "x");
    }
}
