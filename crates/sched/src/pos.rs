//! Partial order sampling: Yuan, Yang and Gu, "Partial order aware concurrency sampling", CAV 2018.
//!
//! Each pending operation has a random priority and the highest enabled one runs. After it, pending
//! operations of other threads that conflict with it draw anew. Orders that matter are sampled more
//! evenly than by a random walk, which spends its choices on orders that do not.
//!
//! Departures:
//! 1. An operation that is disabled while the conflicting one runs draws anew only if that enabled it.
//! 2. A thread that yields goes below every other, until its next point. Without this the wait of the
//!    thread that it waits for would have no finite mean: a spinning thread draws again and again, the other
//!    keeps its priority, however low.

use selvedge_events::ThreadIx;

use crate::moment::{Moment, Pending, Standing, Threads, conflicts};
use crate::rng::Rng;

/// Priorities of operations have this bit.
const DRAWN: u64 = 1 << 63;

/// The POS scheduler. A thread's note is the priority of its pending operation, 0 where it has to be drawn.
#[derive(Clone, Debug)]
pub struct Pos {
    rng: Rng,
    /// What the thread that was chosen last was about to do.
    executed: Pending,
    /// The lowest priority that was given to one that yielded; below [`DRAWN`].
    bottom: u64,
}

impl Pos {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), executed: Pending::NONE, bottom: DRAWN }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        // The current thread is at a new operation.
        threads.set_note(moment.current, 0);
        if moment.standing == Standing::Yielding {
            self.bottom = self.bottom.saturating_sub(1).max(1);
            threads.set_note(moment.current, self.bottom);
        }
        let mut best = (0, moment.current);
        let mut next = threads.enabled_after(None);
        while let Some(thread) = next {
            let other = thread != moment.current;
            if threads.note(thread) == 0 || other && conflicts(&threads.pending(thread), &self.executed) {
                threads.set_note(thread, DRAWN | self.rng.next_u64());
            }
            let priority = threads.note(thread);
            if priority > best.0 {
                best = (priority, thread);
            }
            next = threads.enabled_after(Some(thread));
        }
        self.executed = threads.pending(best.1);
        best.1
    }
}
