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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::sim::{Done, End, Op, Program, private, run};

    /// A bug: it shows when all these orders come together. Their number is its depth.
    struct Bug {
        program: Program,
        orders: &'static [(Done, Done)],
    }

    fn bugs() -> [Bug; 5] {
        let pair = |count| vec![private(0, count), private(1, count)];
        [
            // An order violation: a value is used before it is there.
            Bug { program: pair(4), orders: &[((1, 3), (0, 0))] },
            // One of five threads has to be the last.
            Bug {
                program: vec![private(0, 3), private(1, 3), private(2, 3), private(3, 3), private(4, 3)],
                orders: &[((4, 2), (3, 0))],
            },
            // An atomicity violation: a pair of operations is split by another.
            Bug { program: pair(5), orders: &[((0, 2), (1, 1)), ((1, 3), (0, 3))] },
            Bug { program: pair(4), orders: &[((0, 1), (1, 1)), ((1, 2), (0, 2)), ((0, 2), (1, 3))] },
            Bug { program: pair(4), orders: &[((0, 0), (1, 1)), ((1, 1), (0, 1)), ((0, 2), (1, 2)), ((1, 2), (0, 3))] },
        ]
    }

    #[test]
    fn the_papers_bound_holds() {
        for bug in bugs() {
            let depth = bug.orders.len() as u32;
            let threads = bug.program.len() as f64;
            let length = bug.program.iter().map(|ops| ops.len() as u64).sum::<u64>();
            // Enough to expect some dozens of the deepest.
            let runs = 5_000_u32 << (depth - 1);
            let found = (0..runs).filter(|seed| {
                let mut pct = Pct::new((*seed).into(), depth, length);
                let run = run(&bug.program, |moment, sim| pct.choose(moment, sim));
                assert_eq!((run.log.len() as u64, run.end), (length, End::Done));
                bug.orders.iter().all(|(first, second)| run.before(*first, *second))
            });
            let found = found.count() as f64;
            // 1 / (n k^(d-1)), less four standard deviations of a sample of this size.
            let bound = 1.0 / (threads * (length as f64).powi(depth as i32 - 1));
            let expected = f64::from(runs) * bound;
            let margin = 4.0 * (expected * (1.0 - bound)).sqrt();
            assert!(found >= expected - margin, "depth {depth}: {found} of at least {expected}");
        }
    }

    #[test]
    fn without_change_points_threads_run_one_after_the_other() {
        let program = vec![private(0, 3), private(1, 3), private(2, 3)];
        let mut orders = alloc::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut pct = Pct::new(seed, 1, 9);
            let mut order: alloc::vec::Vec<u32> =
                run(&program, |moment, sim| pct.choose(moment, sim)).executed.iter().map(|done| done.0).collect();
            order.dedup();
            assert_eq!(order.len(), 3, "{order:?}");
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn past_its_length_it_gives_everybody_a_turn() {
        let program = vec![vec![Op::Poll(0)], vec![Op::Poll(0)], private(2, 20), vec![Op::Read(0), Op::Write(0)]];
        for seed in 0..300 {
            let mut pct = Pct::new(seed, 3, 20);
            let run = run(&program, |moment, sim| pct.choose(moment, sim));
            assert_eq!(run.end, End::Done, "seed {seed}");
            assert!(run.log.len() < 400, "seed {seed}: {} steps", run.log.len());
        }
    }

    #[test]
    fn any_parameters_will_do() {
        for (depth, length) in [(0, 0), (1, 1), (100, 1), (u32::MAX, u64::MAX)] {
            let mut pct = Pct::new(1, depth, length);
            let program = vec![private(0, 5), private(1, 5)];
            assert_eq!(run(&program, |moment, sim| pct.choose(moment, sim)).end, End::Done);
        }
    }
}
