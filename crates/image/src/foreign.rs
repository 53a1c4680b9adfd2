//! Sites next to code that was linked in without instrumentation and may synchronise: Rust's standard library, a
//! static library of somebody else's.
//!
//! Such code has no points of its own until it comes to a system call or a function of the C library, and by then it
//! may have looked at what it synchronises on. Between an atomic operation of the caller and the call, a controlled
//! schedule must be able to let others go first; so the atomic operations of functions that mention such code get a
//! point after them, too.
//!
//! Cannot see: code that is reached through a table of functions. Plain accesses have their hook before them, and so
//! stay together with a call that follows in the same block. Panics are not followed: what they lock is nobody's
//! business.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::hooks::HookClass;
use selvedge_events::interpose::{Family, INTERPOSED};
use selvedge_events::site_table::Entry;

use crate::functions::{Function, Functions};
use crate::image::{Bound, Image};
use crate::x86::{self, Target};

/// Ordinals of the atomic operations in functions that mention uninstrumented code which may synchronise. `entries`
/// are the image's sites, by ascending offset.
pub fn beside_foreign_code(image: &Image, functions: &Functions, entries: &[Entry]) -> BTreeSet<u32> {
    let code = Code::new(image, functions, entries);
    let mut near = BTreeSet::new();
    for function in functions.all().iter().filter(|function| code.instrumented.contains(&function.group)) {
        code.each(function, |callee| {
            if matches!(callee, Callee::Own(group) if code.waits.contains(&group)) {
                near.insert(function.group);
            }
        });
    }
    let is_atomic = |entry: &Entry| entry.hook.get().is_some_and(|hook| matches!(hook.class, HookClass::Atomic { .. }));
    let is_near = |entry: &Entry| code.group(entry).is_some_and(|group| near.contains(&group));
    (0_u32..).zip(entries).filter(|(_, entry)| is_atomic(entry) && is_near(entry)).map(|(at, _)| at).collect()
}

/// What a function mentions.
enum Callee {
    /// A function of the image, by its group.
    Own(u32),
    /// One that synchronises.
    Synchronises,
}

struct Code<'a> {
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

impl<'a> Code<'a> {
    fn new(image: &'a Image, functions: &'a Functions, entries: &[Entry]) -> Code<'a> {
        let mut code = Code {
            image,
            functions,
            slots: image.slots().iter().map(|(slot, bound)| (*slot, bound)).collect(),
            stubs: image.stubs().iter().copied().collect(),
            synchronising: INTERPOSED.iter().filter(|row| synchronises(row.family)).map(|row| row.name).collect(),
            instrumented: BTreeSet::new(),
            waits: BTreeSet::new(),
        };
        code.instrumented = entries.iter().filter_map(|entry| code.group(entry)).collect();
        // Callers by callee, among what is not instrumented.
        let mut callers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut reached = Vec::new();
        for function in functions.all() {
            if function.runtime || code.instrumented.contains(&function.group) || is_panic(function) {
                continue;
            }
            code.each(function, |callee| match callee {
                Callee::Own(callee) => callers.entry(callee).or_default().push(function.group),
                Callee::Synchronises => reached.push(function.group),
            });
        }
        while let Some(group) = reached.pop() {
            if code.waits.insert(group) {
                reached.extend(callers.get(&group).into_iter().flatten());
            }
        }
        code
    }

    fn group(&self, entry: &Entry) -> Option<u32> {
        self.functions.at(u64::from(entry.offset)).map(|function| function.group)
    }

    /// Calls `found` with every other function that a function calls, or loads the address of.
    fn each(&self, function: &Function, mut found: impl FnMut(Callee)) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        let Some(code) = self.image.loaded_bytes(function.start, len) else { return };
        let vaddr = function.start + self.image.base();
        let mut tell = |callee: Option<Callee>| match callee {
            Some(Callee::Own(group)) if group == function.group => {}
            Some(callee) => found(callee),
            None => {}
        };
        x86::branches(code, vaddr, |branch| {
            tell(match branch.target {
                Target::Direct(to) => self.at(to),
                Target::Slot(slot) => self.behind(slot),
            });
        });
        x86::references(code, vaddr, |_, address| tell(self.behind(address).or_else(|| self.at(address))));
    }

    fn behind(&self, slot: u64) -> Option<Callee> {
        match self.slots.get(&slot)? {
            Bound::Name(name) => self.synchronising.contains(name.as_str()).then_some(Callee::Synchronises),
            Bound::Address(vaddr) => self.at(*vaddr),
            Bound::Resolver(_) => None,
        }
    }

    /// The function that begins at an address, or whose stub is there.
    fn at(&self, vaddr: u64) -> Option<Callee> {
        if let Some(slot) = self.stubs.get(&vaddr) {
            return self.behind(*slot);
        }
        let offset = vaddr.checked_sub(self.image.base())?;
        let function = self.functions.at(offset).filter(|function| function.start == offset)?;
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
