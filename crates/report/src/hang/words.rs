//! Who presumably holds a lock that is made of a futex, as those of Rust's standard library are.
//!
//! Nothing says that a word is a lock, or who has it. But a thread that takes such a lock changes the word by a
//! compare-exchange that acquires, and when it gives it back it changes it again, by an operation that releases.
//! What others do meanwhile (mark the lock as wanted, fail to take it) is neither. How a thread takes the lock that
//! has to wait first cannot be told from a mark, and may happen inside the library, unseen: when its wait is over and
//! it goes on to something else, it has it.
//!
//! Never more than a presumption: a word with another meaning may be used in the same way. So it counts only for
//! words that somebody waits for at the end, and reports word it so.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::hooks::{AtomicOp, HookClass};
use selvedge_events::{Order, ThreadIx};
use selvedge_trace::{Event, EventBody, Process};

use super::ending::Spot;

/// The words of a process that were used like locks.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Who has changed the word last so as one does who takes a lock, and has not changed it since.
    holders: BTreeMap<u64, Spot>,
    /// Words that were ever taken.
    locks: BTreeSet<u64>,
    /// Threads that have it now, or wait for it next: their wait for the word has ended, or they have marked it.
    awake: BTreeMap<ThreadIx, u64>,
}

impl Words {
    /// The words that a thread presumably holds, and where it took them.
    pub(super) fn held(&self, thread: ThreadIx) -> impl Iterator<Item = (u64, Spot)> {
        self.holders.iter().map(|(word, spot)| (*word, *spot)).filter(move |(_, spot)| spot.thread == thread)
    }

    /// One event further.
    pub(super) fn apply(&mut self, process: &Process, event: &Event) {
        self.goes_on(event);
        if let EventBody::Atomic { addr, order, success: true, .. } = event.body
            && let Some(HookClass::Atomic { op, .. }) = process.hook(event).map(|hook| hook.class)
        {
            self.changed(addr.0, op, order, Spot::of(event));
        }
        if let EventBody::FutexWaitEnd { addr, .. } = event.body {
            self.awake.insert(event.thread, addr.0);
        }
        if event.body == EventBody::ThreadExit {
            // What it left locked, if anything, is too little to go by.
            self.holders.retain(|_, spot| spot.thread != event.thread);
        }
    }

    /// What follows a wait: another one, or the lock is taken.
    fn goes_on(&mut self, event: &Event) {
        let Some(word) = self.awake.get(&event.thread).copied() else { return };
        match event.body {
            EventBody::Atomic { addr, .. } if addr.0 == word => return,
            EventBody::FutexWaitBegin { addr, .. } if addr.0 == word => {}
            EventBody::ThreadExit => {}
            _ if self.locks.contains(&word) => {
                self.holders.entry(word).or_insert(Spot::of(event));
            }
            _ => {}
        }
        self.awake.remove(&event.thread);
    }

    fn changed(&mut self, word: u64, op: AtomicOp, order: Order, spot: Spot) {
        let own = self.holders.get(&word).is_some_and(|holder| holder.thread == spot.thread);
        let acquires = matches!(order, Order::Acquire | Order::AcqRel | Order::SeqCst);
        let releases = matches!(order, Order::Release | Order::AcqRel | Order::SeqCst);
        match op {
            AtomicOp::Load | AtomicOp::ThreadFence | AtomicOp::SignalFence => {}
            AtomicOp::CasStrong | AtomicOp::CasWeak | AtomicOp::CasVal if acquires && !own => {
                self.locks.insert(word);
                self.holders.insert(word, spot);
            }
            _ if own || releases => {
                self.holders.remove(&word);
            }
            // It marks the lock as wanted, and has taken it if it was free.
            AtomicOp::Exchange if acquires => {
                self.awake.insert(spot.thread, word);
            }
            _ => {}
        }
    }
}
