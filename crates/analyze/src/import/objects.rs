//! What is posted to and taken: conditions, barriers, semaphores, one-time initialisations, futexes, annotations.

use rustc_hash::FxHashMap;

/// What an object of a history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Sort {
    /// A condition variable.
    Condition,
    /// One generation of a barrier: all who enter, then all who leave.
    Barrier,
    /// A semaphore.
    Semaphore,
    /// A one-time initialisation, or a guard of one.
    Once,
    /// A futex word.
    Futex,
    /// An address of annotations.
    Annotated,
    /// Switches to a fiber; the address is its thread number.
    Fiber,
    /// A lock that is not used as one: it is posted where it is released and taken where it is acquired.
    Lock,
}

/// An object of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its address.
    pub addr: u64,
    /// What it is.
    pub sort: Sort,
}

/// What is known of an object while the trace is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Wake-ups of a condition so far.
    pub(super) wakes: u64,
    /// Of a one-time initialisation: it is done. Of a generation: somebody left.
    pub(super) done: bool,
    /// The variable that says whether it can be taken, or 0: only where an attempt failed.
    pub(super) state: u32,
}

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// The object that is now at an address. Only looked up.
    at: FxHashMap<(Sort, u64), u32>,
    pub(super) all: Vec<Object>,
    pub(super) known: Vec<Known>,
    /// Which generation a thread is in, or the wake-ups that were when it began to wait. Only looked up.
    waits: FxHashMap<(u16, u64), u64>,
}

impl Objects {
    /// The object at an address, and whether it is new.
    pub(super) fn number(&mut self, sort: Sort, addr: u64) -> (u32, bool) {
        let next = self.all.len() as u32;
        let number = *self.at.entry((sort, addr)).or_insert(next);
        if number == next {
            self.push(Object { addr, sort });
        }
        (number, number == next)
    }

    /// An object that no address leads to.
    pub(super) fn push(&mut self, object: Object) -> u32 {
        self.all.push(object);
        self.known.push(Known::default());
        self.all.len() as u32 - 1
    }

    /// What is at this address later is another object.
    pub(super) fn forget(&mut self, addr: u64) {
        use Sort::*;
        for sort in [Condition, Barrier, Semaphore, Once, Futex, Annotated] {
            self.at.remove(&(sort, addr));
        }
    }

    pub(super) fn known(&mut self, object: u32) -> &mut Known {
        &mut self.known[object as usize]
    }

    /// The generation of a barrier that a thread enters. Nobody leaves one before all have entered, so whoever
    /// enters after somebody left enters the next.
    pub(super) fn enter(&mut self, thread: u16, barrier: u64) -> (u32, bool) {
        let (mut object, mut is_new) = self.number(Sort::Barrier, barrier);
        if self.known(object).done {
            self.at.remove(&(Sort::Barrier, barrier));
            (object, is_new) = self.number(Sort::Barrier, barrier);
        }
        self.waits.insert((thread, barrier), u64::from(object));
        (object, is_new)
    }

    /// The generation that a thread leaves; `None` where it was not seen entering.
    pub(super) fn leave(&mut self, thread: u16, barrier: u64) -> Option<u32> {
        let object = self.waits.remove(&(thread, barrier))? as u32;
        self.known(object).done = true;
        Some(object)
    }

    /// A thread begins to wait on a condition.
    pub(super) fn wait(&mut self, thread: u16, cond: u64, object: u32) {
        let wakes = self.known(object).wakes;
        self.waits.insert((thread, cond), wakes);
    }

    /// Its wait ended: whether there was a wake-up since it began.
    pub(super) fn was_woken(&mut self, thread: u16, cond: u64, object: u32) -> bool {
        let before = self.waits.remove(&(thread, cond)).unwrap_or(0);
        self.known(object).wakes > before
    }
}
