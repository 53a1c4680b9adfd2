//! Probabilistic concurrency testing: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized
//! scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010.
//!
//! Each thread has a random priority and the highest enabled one runs. At `depth - 1` steps, drawn
//! from the first `length`, the thread that is about to run drops below all initial priorities, to a
//! level that the number of the change point decides. A bug of depth d (d ordering constraints
//! suffice for it) in a program of n threads and at most k steps is found with a probability of at least
//! 1 / (n k^(d-1)).
//!
//! Departures:
//! 1. The threads are not known beforehand: each draws its priority when it is first seen enabled.
//!    Priorities are 63-bit numbers instead of a permutation of 1 to n.
//! 2. A thread that yields drops below every other thread, so a spinning thread does not starve the
//!    one that it waits for. Schedules in which it goes on at once are out of reach.
//! 3. A run that is longer than `length` has no guarantee any more, but it may hang in a loop that spins
//!    without being seen to. So change points go on past it, with gaps drawn from 1 to `length`; there the
//!    running thread drops below every other.

use selvedge_events::ThreadIx;

use crate::moment::{Moment, Standing, Threads};
use crate::rng::Rng;

/// Most ordering constraints that can be asked for.
pub const MAX_DEPTH: u32 = 16;
const MAX_CHANGES: usize = MAX_DEPTH as usize - 1;

/// Initial priorities have this bit.
const INITIAL: u64 = 1 << 63;
/// Change point number i drops a thread to this and i.
const CHANGED: u64 = 1 << 62;

/// The PCT scheduler. A thread's note is its priority; no two threads have the same but by a chance
/// of one in 2^63.
#[derive(Clone, Debug)]
pub struct Pct {
    rng: Rng,
    /// Steps of the change points; 0 is none.
    changes: [u64; MAX_CHANGES],
    length: u64,
    /// The step of the next change point past `length`.
    further: u64,
    /// The step that is chosen next, from 1.
    step: u64,
    /// The lowest priority that was given, below [`CHANGED`] and all others.
    bottom: u64,
}

impl Pct {
    /// The schedule of a seed for bugs of this depth (1 to [`MAX_DEPTH`]) in runs of at most `length` steps.
    pub fn new(seed: u64, depth: u32, length: u64) -> Self {
        let mut rng = Rng::new(seed);
        let length = length.max(1);
        let wanted = depth.clamp(1, MAX_DEPTH) as usize - 1;
        let mut changes = [0; MAX_CHANGES];
        for change in changes.iter_mut().take(wanted) {
            *change = rng.below(length).wrapping_add(1);
        }
        let further = length.saturating_add(rng.below(length)).saturating_add(1);
        Self { rng, changes, length, further, step: 0, bottom: CHANGED }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        self.step = self.step.saturating_add(1);
        if moment.standing == Standing::Yielding {
            self.sink(moment.current, threads);
        }
        let mut first = self.highest(moment, threads);
        for level in 0..MAX_CHANGES {
            if self.changes.get(level) == Some(&self.step) {
                threads.set_note(first, CHANGED | level as u64);
                first = self.highest(moment, threads);
            }
        }
        if self.step == self.further {
            self.sink(first, threads);
            first = self.highest(moment, threads);
            self.further = self.step.saturating_add(self.rng.below(self.length)).saturating_add(1);
        }
        first
    }

    /// The enabled thread of the highest priority. Threads that are new get theirs.
    fn highest(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        let mut best = (0, moment.current);
        let mut next = threads.enabled_after(None);
        while let Some(thread) = next {
            if threads.note(thread) == 0 {
                threads.set_note(thread, INITIAL | self.rng.next_u64());
            }
            let priority = threads.note(thread);
            if priority > best.0 {
                best = (priority, thread);
            }
            next = threads.enabled_after(Some(thread));
        }
        best.1
    }

    /// Drops a thread below every other.
    fn sink(&mut self, thread: ThreadIx, threads: &mut impl Threads) {
        self.bottom = self.bottom.saturating_sub(1).max(1);
        threads.set_note(thread, self.bottom);
    }
}
