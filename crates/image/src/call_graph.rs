//! Who calls whom in an image.
//!
//! A call through a register or a table may reach every function whose address is taken somewhere: by an instruction that
//! names it, by a word in the data that is it, or by a name that the loader fills in. Runs may know more (a function
//! that was looked up by name) and better (which of them it was): what they saw is added by
//! [`CallGraph::observe`], and [`CallGraph::observed`] has that alone.
//!
//! Too much rather than too little, but for: functions of other images that call back (their callers are
//! [`Callee::Name`] here), and addresses that are computed from others.

use std::collections::{BTreeMap, BTreeSet};

use crate::cfg::{Call, Callee, Cfg, Code, Leave};
use crate::image::Bound;
use crate::x86;

/// The call graph of an image.
#[derive(Clone, Debug, Default)]
pub struct CallGraph {
    /// By caller: its direct callees.
    direct: BTreeMap<u32, BTreeSet<u32>>,
    /// By caller: callees by name.
    named: BTreeMap<u32, BTreeSet<String>>,
    /// Functions with a call that only the run knows.
    indirect: BTreeSet<u32>,
    /// Functions whose address is taken.
    taken: BTreeSet<u32>,
    /// By call: where runs saw it go.
    observed: BTreeMap<u64, BTreeSet<u32>>,
    /// By caller: the same.
    observed_by: BTreeMap<u32, BTreeSet<u32>>,
}

impl CallGraph {
    /// Of an image and the graphs of its functions.
    pub fn new(code: &Code<'_>, graphs: &[Cfg]) -> CallGraph {
        let mut out = CallGraph { taken: taken(code), ..CallGraph::default() };
        for graph in graphs {
            let caller = graph.group();
            let tails = graph.exits().filter_map(|(_, leave)| match leave {
                Leave::TailCall(callee) => Some(callee),
                _ => None,
            });
            for callee in graph.calls().map(|(_, call)| &call.callee).chain(tails) {
                match callee {
                    Callee::Function(group) => {
                        out.direct.entry(caller).or_default().insert(*group);
                    }
                    Callee::Name(name) => {
                        out.named.entry(caller).or_default().insert(name.clone());
                    }
                    Callee::Unknown => {
                        out.indirect.insert(caller);
                    }
                }
            }
        }
        out
    }

    /// Adds that a run saw the call at this offset, in this function, go to `callee`.
    pub fn observe(&mut self, caller: u32, call: u64, callee: u32) {
        self.observed.entry(call).or_default().insert(callee);
        self.observed_by.entry(caller).or_default().insert(callee);
    }

    /// Where runs saw a call go.
    pub fn observed(&self, call: u64) -> impl Iterator<Item = u32> + '_ {
        self.observed.get(&call).into_iter().flatten().copied()
    }

    /// Functions of the image that a call may reach, each once, ascending; none for a call by name.
    pub fn targets(&self, call: &Call) -> Vec<u32> {
        match &call.callee {
            Callee::Function(group) => vec![*group],
            Callee::Name(_) => self.observed(call.at).collect(),
            Callee::Unknown => {
                let all: BTreeSet<u32> = self.taken.iter().copied().chain(self.observed(call.at)).collect();
                all.into_iter().collect()
            }
        }
    }

    /// Functions of the image that a function may call, each once, ascending.
    pub fn callees(&self, caller: u32) -> Vec<u32> {
        let mut out: BTreeSet<u32> = self.direct.get(&caller).cloned().unwrap_or_default();
        out.extend(self.observed_by.get(&caller).into_iter().flatten());
        if self.indirect.contains(&caller) {
            out.extend(&self.taken);
        }
        out.into_iter().collect()
    }

    /// Functions of the image that a function calls by their address alone, ascending.
    pub fn direct_callees(&self, caller: u32) -> impl Iterator<Item = u32> + '_ {
        self.direct.get(&caller).into_iter().flatten().copied()
    }

    /// Functions that a function calls by name, outside the image or before which the runtime stands.
    pub fn named_callees(&self, caller: u32) -> impl Iterator<Item = &str> {
        self.named.get(&caller).into_iter().flatten().map(String::as_str)
    }

    /// Whether a function has a call that only the run knows.
    pub fn calls_unknown(&self, caller: u32) -> bool {
        self.indirect.contains(&caller)
    }

    /// Functions whose address is taken, ascending.
    pub fn address_taken(&self) -> impl Iterator<Item = u32> + '_ {
        self.taken.iter().copied()
    }

    /// Whether a function's address is taken.
    pub fn is_address_taken(&self, group: u32) -> bool {
        self.taken.contains(&group)
    }

    /// All functions that can be reached from these by calls, they themselves included.
    pub fn reachable(&self, from: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        let mut out = BTreeSet::new();
        let mut work: Vec<u32> = from.into_iter().collect();
        while let Some(group) = work.pop() {
            if out.insert(group) {
                work.extend(self.callees(group));
            }
        }
        out
    }
}

/// The functions whose address is taken.
fn taken(code: &Code<'_>) -> BTreeSet<u32> {
    let image = code.image();
    let mut out = BTreeSet::new();
    let mut take = |callee: Option<Callee>| {
        if let Some(Callee::Function(group)) = callee {
            out.insert(group);
        }
    };
    let by_name: BTreeMap<&str, u32> = (0_u32..)
        .zip(code.functions().groups())
        .filter_map(|(at, group)| Some((group.symbol.as_deref()?, at)))
        .collect();
    let bound = |bound: &Bound| match bound {
        Bound::Address(vaddr) => code.at(*vaddr),
        Bound::Name(name) => by_name.get(name.as_str()).map(|group| Callee::Function(*group)),
        Bound::Resolver(_) => None,
    };
    for (slot, value) in image.slots().iter().filter(|row| !image.is_linkage_slot(row.0)) {
        take(if *slot == 0 { None } else { bound(value) });
    }
    for function in code.functions().all().iter().filter(|function| !function.runtime) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        let Some(bytes) = image.loaded_bytes(function.start, len) else { continue };
        x86::references(bytes, function.start + image.base(), |_, address| {
            // A slot of the linker's table is only that: calls through it name it too.
            let slot = image.slots().binary_search_by_key(&address, |row| row.0).ok();
            take(match slot.and_then(|slot| image.slots().get(slot)) {
                Some((_, value)) => bound(value),
                None => code.at(address),
            });
        });
        if !image.is_position_independent() {
            x86::constants(bytes, function.start + image.base(), |constant| take(code.at(constant)));
        }
    }
    if !image.is_position_independent() {
        for (_, words) in image.data_sections() {
            for word in words.chunks_exact(8) {
                take(selvedge_events::bytes::u64_at(word, 0).filter(|word| *word != 0).and_then(|word| code.at(word)));
            }
        }
    }
    out
}
