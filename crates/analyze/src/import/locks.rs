//! Locks: who holds which, so that each acquisition and release of the history is a real one.

use rustc_hash::FxHashMap;
use selvedge_events::{Mode, Primitive};

/// A lock of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its address.
    pub addr: u64,
    /// What it is, as it was first seen.
    pub primitive: Primitive,
}

/// A lock while the trace is read.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lock: Lock,
    owner: Option<(u16, u32)>,
    readers: Vec<(u16, u32)>,
    /// Released by a thread that did not hold it, or taken while another held it: not a lock that analyses know.
    pub(crate) irregular: bool,
    /// The variable that says whether it is held, or 0: only where an attempt to take it failed.
    pub(crate) state: u32,
}

impl Held {
    /// Whether somebody holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.owner.is_some() || !self.readers.is_empty()
    }
}

/// What an acquisition or a release means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It changes hands, in this mode.
    Real(Mode),
    /// It is held already, or still.
    Nested,
}

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// The lock that is now at an address. Only looked up.
    at: FxHashMap<u64, u32>,
    pub(crate) all: Vec<Held>,
}

impl Locks {
    /// The lock at an address, and whether it is new.
    pub(crate) fn number(&mut self, addr: u64, primitive: Primitive) -> (u32, bool) {
        let next = self.all.len() as u32;
        let number = *self.at.entry(addr).or_insert(next);
        if number == next {
            let lock = Lock { addr, primitive };
            self.all.push(Held { lock, owner: None, readers: Vec::new(), irregular: false, state: 0 });
        }
        (number, number == next)
    }

    /// What is at this address later is another lock.
    pub(crate) fn forget(&mut self, addr: u64) {
        self.at.remove(&addr);
    }

    pub(crate) fn acquire(&mut self, lock: u32, thread: u16, mode: Mode) -> Change {
        let held = &mut self.all[lock as usize];
        if held.irregular {
            return Change::Real(mode);
        }
        if let Some((owner, depth)) = &mut held.owner {
            if *owner == thread {
                *depth = depth.saturating_add(1);
                return Change::Nested;
            }
            held.irregular = true;
            return Change::Real(mode);
        }
        match mode {
            Mode::Exclusive if held.readers.is_empty() => held.owner = Some((thread, 1)),
            Mode::Exclusive => held.irregular = true,
            Mode::Shared => match held.readers.iter_mut().find(|(reader, _)| *reader == thread) {
                Some((_, depth)) => {
                    *depth = depth.saturating_add(1);
                    return Change::Nested;
                }
                None => held.readers.push((thread, 1)),
            },
        }
        Change::Real(mode)
    }

    /// A release; a wait releases `fully`, however often the lock is held.
    pub(crate) fn release(&mut self, lock: u32, thread: u16, fully: bool) -> Change {
        let held = &mut self.all[lock as usize];
        if held.irregular {
            return Change::Real(Mode::Exclusive);
        }
        let inner = |depth: &mut u32| {
            let nested = *depth > 1 && !fully;
            *depth -= u32::from(nested);
            nested
        };
        if let Some((_, depth)) = held.owner.as_mut().filter(|(owner, _)| *owner == thread) {
            if inner(depth) {
                return Change::Nested;
            }
            held.owner = None;
            return Change::Real(Mode::Exclusive);
        }
        let Some(at) = held.readers.iter().position(|(reader, _)| *reader == thread) else {
            held.irregular = true;
            return Change::Real(Mode::Exclusive);
        };
        if inner(&mut held.readers[at].1) {
            return Change::Nested;
        }
        held.readers.swap_remove(at);
        Change::Real(Mode::Shared)
    }
}
