//! Partial order sampling: Yuan, Yang and Gu, "Partial order aware concurrency sampling", CAV 2018.
//!
//! Each pending operation has a random priority and the highest enabled one runs. After it, pending
//! operations of other threads that conflict with it draw anew. Orders that matter are sampled more
//! evenly than by a random walk, which spends its choices on orders that do not.
//!
//! Departures:
//! 1. An operation that is disabled while the conflicting one runs draws anew only if that enabled it.
//! 2. A thread that yields goes below every other, until its next point or until it draws anew, for which it has a
//!    chance of one in `YIELDED` at each moment. Without the first, the wait of the thread that it waits for would
//!    have no finite mean: a spinning thread draws again and again, the other keeps its priority, however low.
//!    Without the second, two threads that conflict for ever would never let it run again.
//! 3. Every `PATIENCE` moments all operations draw anew. The paper's runs end; but two threads that conflict for
//!    ever draw at every step, and an operation of a third that conflicts with nobody, of priority p in 0 to 1, waits
//!    for a moment at which both draw less: 1 / p² steps, which has no finite mean over p. Cut off after n steps, it
//!    has, about 2 √n. Runs of fewer moments, and so the chance of a delay that is shorter, are the paper's.

use selvedge_events::ThreadIx;

use crate::moment::{Moment, Pending, Standing, Threads, conflicts};
use crate::rng::Rng;

/// Priorities of operations have this bit.
const DRAWN: u64 = 1 << 63;
/// Moments for which an operation keeps a priority at most.
const PATIENCE: u64 = 1 << 16;
/// One in so many moments ends the modesty of a thread that yielded.
const YIELDED: u64 = 64;

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
            if self.draws(thread, moment, threads) {
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

    /// Whether the pending operation of an enabled thread gets a priority now.
    fn draws(&mut self, thread: ThreadIx, moment: &Moment, threads: &impl Threads) -> bool {
        let note = threads.note(thread);
        if note == 0 || thread == moment.current {
            return note == 0;
        }
        conflicts(&threads.pending(thread), &self.executed)
            || moment.step.is_multiple_of(PATIENCE)
            || note < DRAWN && self.rng.below(YIELDED) == 0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::sim::{End, Op, private, run, run_long, run_spec};
    use crate::strategy::{Spec, StrategyKind};

    /// In how many of 10,000 runs thread 0 is the last to do something.
    fn last_runs(program: &[Vec<Op>], kind: StrategyKind) -> usize {
        let runs = (0..10_000).map(|seed| run_spec(program, &Spec { kind, seed, ..Spec::default() }));
        runs.filter(|run| run.executed.last().is_some_and(|done| done.0 == 0)).count()
    }

    #[test]
    fn orders_that_do_not_matter_cost_no_chance() {
        // Thread 1 has eight operations of its own, then the one that matters.
        let program = [vec![Op::Read(0)], [private(1, 8), vec![Op::Write(0)]].concat()];
        // POS: thread 0's priority has to be the lowest of ten; mean 1,000, standard deviation 30.
        let pos = last_runs(&program, StrategyKind::Pos);
        assert!((880..1_120).contains(&pos), "{pos}");
        // The walk: nine coins; mean 20, standard deviation 4.
        let random = last_runs(&program, StrategyKind::Random);
        assert!((4..36).contains(&random), "{random}");
    }

    #[test]
    fn conflicting_operations_draw_anew() {
        // Two threads that each write one variable many times: all interleavings stay likely, the
        // number of turns of thread 0 before thread 1's first is not stretched by a priority that stays.
        let program = vec![vec![Op::Write(0); 6], vec![Op::Write(0); 6]];
        let mut first = [0_u32; 7];
        for seed in 0..12_000 {
            let mut pos = Pos::new(seed);
            let run = run(&program, |moment, sim| pos.choose(moment, sim));
            first[run.executed.iter().position(|done| done.0 == 1).unwrap()] += 1;
        }
        // Fair coins: half of the runs begin with thread 1, a quarter have one write before it, …
        for (at, count) in first.into_iter().enumerate() {
            let chance: f64 = if at == 6 { 1.0 / 64.0 } else { 0.5_f64.powi(at as i32 + 1) };
            let expected = 12_000.0 * chance;
            let margin = 4.0 * (expected * (1.0 - chance)).sqrt();
            assert!((f64::from(count) - expected).abs() < margin, "{at}: {count} instead of {expected}");
        }
    }

    /// How long two threads that conflict for ever let a third wait, with which neither conflicts and which ends
    /// them: the steps of runs under 300 seeds.
    fn waits(third: Vec<Op>) -> Vec<usize> {
        let program = [vec![Op::Hammer(0, 1)], vec![Op::Hammer(0, 1)], [third, vec![Op::Write(1)]].concat()];
        let steps = (0..300).map(|seed| {
            let mut pos = Pos::new(seed);
            let run = run_long(&program, 4 * PATIENCE as usize, |moment, sim| pos.choose(moment, sim));
            assert_eq!(run.end, End::Done, "seed {seed}");
            run.executed.len()
        });
        steps.collect()
    }

    #[test]
    fn a_conflict_without_end_starves_nobody() {
        // Ten operations, each with a mean wait of 2 √65,536 = 512 steps; standard deviation of the mean of 300 runs:
        // each wait has a second moment of about 2/3 n^(3/2), so √(10 · 1.1e7 / 300) = 610.
        let steps = waits(private(2, 9));
        let mean = steps.iter().sum::<usize>() / steps.len();
        assert!((2_000..9_000).contains(&mean), "{mean}");
    }

    #[test]
    fn nor_those_who_yield() {
        let steps = waits(vec![Op::Yield; 9]);
        let mean = steps.iter().sum::<usize>() / steps.len();
        // The same, and 64 steps more for each.
        assert!((2_000..10_000).contains(&mean), "{mean}");
    }
}
