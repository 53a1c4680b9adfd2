//! What analyses predict: a goal that did not happen, and what is known about reaching it.

use selvedge_findings::Kind;

use crate::history::EventNo;

/// What a run would have to show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Goal {
    /// Two accesses are both next, in either order: the last two of the order that reaches it, first one first.
    Race(EventNo, EventNo),
    /// These events happen in this order; others may come between, but none that the pattern forbids.
    Order(Vec<EventNo>),
    /// Each of these acquisitions is the next event of its thread, and none can be done: each lock is held by the
    /// thread of another. A join, the end of a wait or a take may stand for an acquisition: it waits for what the thread
    /// of another has still to do.
    Deadlock(Vec<EventNo>),
    /// The wake-up comes before the wait that it was meant for.
    LostWakeup {
        /// The signal or broadcast.
        wake: EventNo,
        /// The wait that then misses it.
        wait: EventNo,
    },
}

impl Goal {
    /// The events that it is about, in the order that goes wrong.
    pub fn events(&self) -> Vec<EventNo> {
        match self {
            Goal::Race(first, second) => vec![*first, *second],
            Goal::Order(events) | Goal::Deadlock(events) => events.clone(),
            Goal::LostWakeup { wake, wait } => vec![*wake, *wait],
        }
    }
}

/// What proves that a goal can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Relation {
    /// Schedulable happens-before: nothing orders the two.
    Shb,
    /// A reordering that keeps the order of critical sections on every lock.
    SyncPreserving,
    /// A reordering that turns critical sections around, built and checked.
    LockReversing,
    /// It is in the history, as it happened: there is nothing to reorder, and the witness is empty.
    Observed,
}

impl Relation {
    /// Its name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Relation::Shb => "shb",
            Relation::SyncPreserving => "sync-preserving",
            Relation::LockReversing => "lock-reversing",
            Relation::Observed => "observed",
        }
    }
}

/// A correct reordering that reaches a goal, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// What proves it.
    pub relation: Relation,
    /// The reordering: events in the order in which they are to happen. Of a race and of an order, the goal's own events
    /// are the last; of a deadlock and a lost wake-up they are left out, and come next; a wake-up
    /// that the waiter needs to get there is in it.
    pub witness: Vec<EventNo>,
}

/// Something that may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// What sort of bug.
    pub kind: Kind,
    /// The name of the pattern.
    pub pattern: String,
    /// What would have to happen.
    pub goal: Goal,
    /// What proves that it can; `None` where it is to be tried.
    pub proof: Option<Proof>,
    /// Whether the schedule may be wrong because locks are not nested: without guarantee.
    pub unnested: bool,
}
