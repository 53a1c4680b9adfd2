//! Blocks that call code which was linked in without instrumentation and may synchronise: Rust's standard library, a
//! static library of somebody else's.
//!
//! Such code has no points of its own until it comes to a system call or a function of the C library, and it may have
//! looked at what it synchronises on before. The hook of the block that calls it is the nearest place at which a
//! controlled schedule can let others go first.
//!
//! Cannot see: calls through registers. The hook is at the block's begin: accesses between it and the call stay
//! together with the call. Panics are not followed: what they lock is nobody's business.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::hooks::HookClass;
use selvedge_events::interpose::{Family, INTERPOSED};
use selvedge_events::site_table::Entry;

use crate::functions::{Function, Functions};
use crate::image::{Bound, Image};
use crate::x86::{self, Target};

/// Ordinals of the block sites whose block calls uninstrumented code that may synchronise. `entries` are the image's
/// sites, by ascending offset.
pub fn foreign_calls(image: &Image, functions: &Functions, entries: &[Entry]) -> BTreeSet<u32> {
    let calls = Calls::new(image, functions, entries);
    let mut out = BTreeSet::new();
    if calls.waits.is_empty() {
        return out;
    }
    let is_block = |entry: &Entry| entry.hook.get().is_some_and(|hook| hook.class == HookClass::Block);
    for function in functions.all().iter().filter(|function| calls.instrumented.contains(&function.group)) {
        let first = entries.partition_point(|entry| u64::from(entry.offset) < function.start);
        let last = entries.partition_point(|entry| u64::from(entry.offset) < function.end);
        let own = (0_u32..).skip(first).zip(entries.get(first..last).unwrap_or(&[]));
        let blocks: BTreeMap<u64, u32> = own
            .filter(|(_, entry)| is_block(entry))
            .map(|(ordinal, entry)| (u64::from(entry.offset), ordinal))
            .collect();
        if blocks.is_empty() {
            continue;
        }
        calls.each(function, |at, callee| {
            if matches!(callee, Callee::Own(group) if calls.waits.contains(&group)) {
                out.extend(blocks.range(..at).next_back().map(|(_, ordinal)| *ordinal));
            }
        });
    }
    out
}

/// Where a call leads.
enum Callee {
    /// To a function of the image, by its group.
    Own(u32),
    /// To one that synchronises.
    Synchronises,
}

struct Calls<'a> {
    image: &'a Image,
    functions: &'a Functions,
    slots: BTreeMap<u64, &'a Bound>,
    stubs: BTreeMap<u64, u64>,
    synchronising: BTreeSet<&'static str>,
    /// Groups with a site.
    instrumented: BTreeSet<u32>,
    /// Groups without, from which synchronisation can be reached.
    waits: BTreeSet<u32>,
}

impl<'a> Calls<'a> {
    fn new(image: &'a Image, functions: &'a Functions, entries: &[Entry]) -> Calls<'a> {
        let group = |entry: &Entry| functions.at(u64::from(entry.offset)).map(|function| function.group);
        let mut calls = Calls {
            image,
            functions,
            slots: image.slots().iter().map(|(slot, bound)| (*slot, bound)).collect(),
            stubs: image.stubs().iter().copied().collect(),
            synchronising: INTERPOSED.iter().filter(|row| synchronises(row.family)).map(|row| row.name).collect(),
            instrumented: entries.iter().filter_map(group).collect(),
            waits: BTreeSet::new(),
        };
        // Callers by callee, among what is not instrumented.
        let mut callers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut reached = Vec::new();
        for function in functions.all() {
            if function.runtime || calls.instrumented.contains(&function.group) || is_panic(function) {
                continue;
            }
            calls.each(function, |_, callee| match callee {
                Callee::Own(callee) => callers.entry(callee).or_default().push(function.group),
                Callee::Synchronises => reached.push(function.group),
            });
        }
        while let Some(group) = reached.pop() {
            if calls.waits.insert(group) {
                reached.extend(callers.get(&group).into_iter().flatten());
            }
        }
        calls
    }

    /// Calls `found` with every call of a function that leads somewhere known.
    fn each(&self, function: &Function, mut found: impl FnMut(u64, Callee)) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        let Some(code) = self.image.loaded_bytes(function.start, len) else { return };
        let base = self.image.base();
        x86::branches(code, function.start + base, |branch| {
            let callee = match branch.target {
                Target::Direct(vaddr) => match self.stubs.get(&vaddr) {
                    Some(slot) => self.behind(*slot),
                    None => self.at(vaddr),
                },
                Target::Slot(slot) => self.behind(slot),
            };
            match callee {
                Some(Callee::Own(group)) if group == function.group => {}
                Some(callee) => found(branch.at - base, callee),
                None => {}
            }
        });
    }

    fn behind(&self, slot: u64) -> Option<Callee> {
        match self.slots.get(&slot)? {
            Bound::Name(name) => self.synchronising.contains(name.as_str()).then_some(Callee::Synchronises),
            Bound::Address(vaddr) => self.at(*vaddr),
            Bound::Resolver(_) => None,
        }
    }

    fn at(&self, vaddr: u64) -> Option<Callee> {
        let function = self.functions.at(vaddr.checked_sub(self.image.base())?)?;
        if !function.runtime {
            return Some(Callee::Own(function.group));
        }
        // The runtime's own function of that name stands before the C library's.
        let name = function.symbol.as_deref()?;
        self.synchronising.contains(name).then_some(Callee::Synchronises)
    }
}

/// Whether what a thread waits for or wakes others with is in the family.
fn synchronises(family: Family) -> bool {
    matches!(
        family,
        Family::Thread
            | Family::Mutex
            | Family::Rwlock
            | Family::Spin
            | Family::Cond
            | Family::Barrier
            | Family::Semaphore
            | Family::Once
            | Family::Guard
            | Family::Futex
    )
}

fn is_panic(function: &Function) -> bool {
    let names = ["9panicking", "rust_begin_unwind", "rust_panic", "handle_alloc_error"];
    function.symbol.as_deref().is_some_and(|symbol| names.iter().any(|name| symbol.contains(name)))
}
