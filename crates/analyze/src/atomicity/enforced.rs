//! What the inserted locks do: the meaning of a placement, which the runtime keeps to and the interpreter runs.
//!
//! Paper: sections 7 and 9. A lock is held by threads, in each thread by *activations* of functions, in each activation by slots. A
//! thread has it in the strongest mode of its slots. So
//! - a lock may be taken many times and is given back when the last slot goes (re-entrant);
//! - a release asks whether its own slot is held, which is the paper's test of the origin (path-sensitive);
//! - a callee's slots come and go without touching its caller's. The paper keeps one origin for a thread, which would let a callee
//!   give back what its caller needs.
//!
//! A thread that wants a lock more strongly than it has it waits until the others' modes allow it. Two threads that both hold for
//! reading and both want to write would wait for each other; [`Mode::Update`] is for those.
//!
//! Readers are let in while a writer waits: dropping the order of read locks (section 8) rests on it.
//!
//! A thread that waits for another one otherwise than for a lock has its slots revoked, and so has one that waits for a lock of
//! the program whose holder does, and so on (section 9). They are not taken again: the pairs that they kept are
//! broken, knowingly. What a function or a thread leaves behind when it ends is gone.

use std::collections::BTreeMap;

use super::place::{InsertedId, Mode, SlotId};

/// All inserted locks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EnforcedLocks {
    /// By lock and thread, by the depth of the activation and the slot. No map is empty.
    held: BTreeMap<(InsertedId, usize), BTreeMap<(usize, SlotId), Mode>>,
}

impl EnforcedLocks {
    /// How a thread has a lock.
    pub fn mode(&self, lock: InsertedId, thread: usize) -> Option<Mode> {
        self.held.get(&(lock, thread)).and_then(|slots| slots.values().max().copied())
    }

    /// Whether an acquisition would change nothing for others: the thread has the lock already, as strongly.
    pub fn has(&self, lock: InsertedId, thread: usize, mode: Mode) -> bool {
        self.mode(lock, thread).is_some_and(|held| held >= mode)
    }

    /// The threads that are in the way of an acquisition.
    pub fn in_the_way(&self, lock: InsertedId, thread: usize, mode: Mode) -> Vec<usize> {
        if self.has(lock, thread, mode) {
            return Vec::new();
        }
        let all = (lock, 0)..=(lock, usize::MAX);
        let others = self.held.range(all).filter(|((_, other), _)| *other != thread);
        let conflicts = others.filter(|(_, slots)| slots.values().any(|held| mode.conflicts(*held)));
        conflicts.map(|((_, other), _)| *other).collect()
    }

    /// Takes a lock; nobody is in the way. The slots of `absorbs` go.
    pub fn acquire(
        &mut self,
        (lock, thread): (InsertedId, usize),
        (depth, slot): (usize, SlotId),
        mode: Mode,
        absorbs: &[SlotId],
    ) {
        debug_assert_eq!(self.in_the_way(lock, thread, mode), Vec::<usize>::new(), "nobody is in the way");
        let slots = self.held.entry((lock, thread)).or_default();
        for gone in absorbs {
            slots.remove(&(depth, *gone));
        }
        slots.insert((depth, slot), mode);
    }

    /// Gives a slot back if it is held.
    pub fn release(&mut self, lock: InsertedId, thread: usize, depth: usize, slot: SlotId) {
        if let Some(slots) = self.held.get_mut(&(lock, thread)) {
            slots.remove(&(depth, slot));
            if slots.is_empty() {
                self.held.remove(&(lock, thread));
            }
        }
    }

    /// Weakens a slot if it is held more strongly.
    pub fn degrade(&mut self, lock: InsertedId, thread: usize, depth: usize, slot: SlotId, mode: Mode) {
        if let Some(held) = self.held.get_mut(&(lock, thread)).and_then(|slots| slots.get_mut(&(depth, slot))) {
            *held = mode.min(*held);
        }
    }

    /// A thread's activations at this depth and deeper are gone. Says whether one of them held something, which no placement
    /// leaves to a return.
    pub fn leave(&mut self, thread: usize, depth: usize) -> bool {
        let mut held = false;
        self.held.retain(|(_, of), slots| {
            if *of == thread {
                let before = slots.len();
                slots.retain(|(at, _), _| *at < depth);
                held |= before != slots.len();
            }
            !slots.is_empty()
        });
        held
    }

    /// Takes everything from a thread.
    pub fn revoke(&mut self, thread: usize) {
        self.leave(thread, 0);
    }

    /// Whether nobody holds anything.
    pub fn is_free(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: InsertedId = InsertedId(0);
    const Y: InsertedId = InsertedId(1);
    const A: SlotId = SlotId(0);
    const B: SlotId = SlotId(1);

    #[test]
    fn modes_exclude_each_other_as_they_should() {
        for held in Mode::ALL {
            for wanted in Mode::ALL {
                let mut locks = EnforcedLocks::default();
                locks.acquire((X, 0), (1, A), held, &[]);
                let free = matches!(
                    (held, wanted),
                    (Mode::Read, Mode::Read) | (Mode::Read, Mode::Update) | (Mode::Update, Mode::Read)
                );
                assert_eq!(locks.in_the_way(X, 1, wanted).is_empty(), free, "{held} {wanted}");
                assert_eq!(locks.in_the_way(Y, 1, wanted), [0; 0]);
                assert_eq!(locks.in_the_way(X, 0, wanted), [0; 0], "nobody is in his own way");
            }
        }
    }

    #[test]
    fn a_lock_is_given_back_with_its_last_slot_and_only_by_its_own() {
        let mut locks = EnforcedLocks::default();
        locks.acquire((X, 0), (1, A), Mode::Read, &[]);
        locks.release(X, 0, 1, B);
        assert_eq!(locks.mode(X, 0), Some(Mode::Read), "the other path's release");
        locks.acquire((X, 0), (2, A), Mode::Exclusive, &[]);
        assert_eq!(locks.mode(X, 0), Some(Mode::Exclusive));
        locks.release(X, 0, 2, A);
        assert_eq!(locks.mode(X, 0), Some(Mode::Read), "the callee leaves the caller's");
        locks.acquire((X, 0), (1, B), Mode::Exclusive, &[A]);
        locks.degrade(X, 0, 1, B, Mode::Read);
        locks.degrade(X, 0, 1, A, Mode::Read);
        assert_eq!(locks.in_the_way(X, 1, Mode::Exclusive), [0]);
        locks.release(X, 0, 1, B);
        assert!(locks.is_free());
    }

    #[test]
    fn what_ends_or_waits_holds_nothing() {
        let mut locks = EnforcedLocks::default();
        locks.acquire((X, 0), (1, A), Mode::Read, &[]);
        locks.acquire((X, 0), (3, A), Mode::Read, &[]);
        locks.acquire((Y, 1), (3, A), Mode::Read, &[]);
        assert!(locks.leave(0, 2));
        assert!(!locks.leave(0, 2));
        assert_eq!(locks.mode(X, 0), Some(Mode::Read));
        locks.revoke(0);
        assert_eq!((locks.mode(X, 0), locks.mode(Y, 1)), (None, Some(Mode::Read)));
    }
}
