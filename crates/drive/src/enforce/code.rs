//! A build as enforcement reads it: the graphs of its functions, what its accesses and calls are called, what its data is called.

use std::collections::BTreeMap;
use std::path::Path;

use selvedge_image::{Cfg, Code, Functions, Loaded, Variables, call_keys, load_or_build, site_keys};

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
        Some(ReadBuild { site_keys: site_keys(&loaded), functions, graphs, calls, ordinals, variables, loaded })
    }

    /// The name of the function around an offset. Functions of one name are told apart by their offset.
    pub fn function(&self, offset: u64) -> Option<String> {
        let function = self.functions.at(offset)?;
        let group = self.functions.groups().get(function.group as usize)?;
        Some(group.symbol.clone().unwrap_or_else(|| function.name()))
    }

    /// The access at an offset.
    pub fn site(&self, offset: u32) -> Option<Label> {
        let key = self.site_keys.get(*self.ordinals.get(&offset)? as usize)?;
        Some((self.function(u64::from(offset))?, key.clone()))
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
