//! A trace as analyses read it: events with dense numbers, in the order in which they happened.
//!
//! NOTE \[Correct reorderings\]
//!
//! What a history says about other runs of the same program: a sequence of some of its events, each at most once, is a
//! *correct reordering* where
//! - of every thread it has a prefix of what that thread did, in that order;
//! - every read (plain or atomic, and the read of an update) sees the same write as in the history, or none in both;
//! - a lock is held by one thread exclusively or by several in shared mode, never both;
//! - a thread's events come after its [`Op::Fork`], and a [`Op::Join`] after all events of the thread it waits for;
//! - an event that takes ([`Op::takes`]) comes after every event that posts ([`Op::posts`]) to the same object before
//!   it in the history.
//!
//! A thread that reads what it read before does what it did before, so the program can be made to run every correct
//! reordering, as far as its behaviour depends on what the history shows. The converse does not hold: runs in
//! which a read sees another value are not described.
//!
//! The last rule is more than semaphores, barriers and conditions need. It is enough: a semaphore's takers never
//! outnumber its posts, a barrier's leavers come after all who enter, and whoever is woken waits before the
//! wake-up.

use selvedge_events::Order;

/// The number of an event in its history, from 0.
pub type EventNo = u32;

/// What an event does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// A plain read of a variable.
    Read,
    /// A plain write of a variable, or its end: a block that is freed writes all that it holds.
    Write,
    /// An atomic load.
    AtomicRead,
    /// An atomic store.
    AtomicWrite,
    /// An atomic read-modify-write.
    AtomicUpdate,
    /// A fence; no target.
    Fence,
    /// A lock is taken exclusively. Re-entrant acquisitions are not in a history.
    Acquire,
    /// It is given back.
    Release,
    /// A lock is taken in shared mode.
    AcquireShared,
    /// It is given back.
    ReleaseShared,
    /// The target thread is made.
    Fork,
    /// The target thread has ended.
    Join,
    /// Something that others may wait for: a semaphore's post, a barrier entered, an annotated release.
    Post,
    /// Waited for it: a semaphore taken, a barrier left, an annotated acquisition.
    Take,
    /// A wait on the target condition begins; the release of its mutex comes before it.
    Wait,
    /// One waiter of the target condition is woken.
    Signal,
    /// All waiters of the target condition are woken.
    Broadcast,
    /// A wait on the target condition was ended by a wake-up; the acquisition of its mutex follows.
    Woken,
    /// An atomic region begins, which somebody announced; no target.
    Enter,
    /// It ends.
    Exit,
}

impl Op {
    /// Whether it reads a variable.
    pub const fn reads(self) -> bool {
        matches!(self, Op::Read | Op::AtomicRead | Op::AtomicUpdate)
    }

    /// Whether it writes a variable.
    pub const fn writes(self) -> bool {
        matches!(self, Op::Write | Op::AtomicWrite | Op::AtomicUpdate)
    }

    /// Whether its target is a variable.
    pub const fn is_access(self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether it is an atomic access.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Op::AtomicRead | Op::AtomicWrite | Op::AtomicUpdate)
    }

    /// Whether it takes a lock, in either mode.
    pub const fn acquires(self) -> bool {
        matches!(self, Op::Acquire | Op::AcquireShared)
    }

    /// Whether it gives a lock back.
    pub const fn releases(self) -> bool {
        matches!(self, Op::Release | Op::ReleaseShared)
    }

    /// Whether later events that take the same object come after it.
    pub const fn posts(self) -> bool {
        matches!(self, Op::Post | Op::Wait | Op::Signal | Op::Broadcast)
    }

    /// Whether it comes after all earlier events that post to the same object.
    pub const fn takes(self) -> bool {
        matches!(self, Op::Take | Op::Signal | Op::Broadcast | Op::Woken)
    }
}

/// One event of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it does.
    pub op: Op,
    /// The memory order of an atomic operation or fence; of no meaning for others.
    pub order: Order,
    /// Whose, below [`History::threads`].
    pub thread: u16,
    /// To which variable, lock, thread or object; each sort is numbered from 0 by itself.
    pub target: u32,
    /// Where in the source, below [`History::locations`].
    pub location: u32,
}

const _: () = assert!(size_of::<Event>() == 12);

impl Event {
    /// A plain event.
    pub const fn new(thread: u16, op: Op, target: u32, location: u32) -> Event {
        Event { op, order: Order::SeqCst, thread, target, location }
    }

    /// Whether the two are of different threads, touch the same variable, and one writes it.
    pub fn conflicts(&self, other: &Event) -> bool {
        self.thread != other.thread
            && self.op.is_access()
            && other.op.is_access()
            && self.target == other.target
            && (self.op.writes() || other.op.writes())
    }

    /// Whether the two conflict and are not both atomic: they race where nothing orders them.
    pub fn could_race(&self, other: &Event) -> bool {
        self.conflicts(other) && !(self.op.is_atomic() && other.op.is_atomic())
    }
}

/// A trace in the order in which it happened. See NOTE \[Correct reorderings\].
///
/// Invariants, which importers see to: every number is below its count; a thread has no event before its fork;
/// locks are taken and given in turn, each by its holder (a lock that is held at the end of the trace stays open).
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
    /// For each event the number of what it was made from: an event of a recorded trace, or a line of a file, from 0.
    /// Events with the same source are one step of the program and stand together. Ascends.
    pub sources: Vec<u64>,
    /// How many threads there are.
    pub threads: u32,
    /// How many variables.
    pub variables: u32,
    /// How many locks.
    pub locks: u32,
    /// How many objects that are posted to and taken: semaphores, barriers, conditions, …
    pub objects: u32,
    /// How many places in the source.
    pub locations: u32,
}

impl History {
    /// An event.
    pub fn event(&self, number: EventNo) -> Option<&Event> {
        self.events.get(number as usize)
    }

    /// How many events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
