//! Steering: a run is led through the legs of a *course*, each of them one thread up to one of its operations.
//!
//! A course comes from an analysis: it is an order of recorded events that nobody has run yet. Replay cannot follow it, for
//! the points of a schedule count attempts at locks, and which attempts fail is what a new order changes. A
//! leg names a thread's *operation*, which depends on the thread alone. What came of it is logged like any other run,
//! and its switches are a schedule to replay.
//!
//! Where a thread cannot go on before its leg is done, the course is *off*: the next leg whose thread can run is taken ahead
//! of it, and that is counted. After the last leg the default policy goes on, or chance with a seed that is not 0.

use selvedge_events::ThreadIx;

use crate::moment::{Moment, NO_SITE, OpKind, Standing, Threads, default_choice};
use crate::random::Random;
use crate::replay::Script;
use crate::schedule::Step;

/// Lets a thread run until it has done an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg {
    /// The thread.
    pub thread: ThreadIx,
    /// Its operation, from 1; [`Leg::END`] for its last.
    pub operation: u32,
    /// Whether being stuck in the operation is enough: it has begun to wait.
    pub begun: bool,
}

/// What a [`Leg`] says with the flags of its packed form.
const BEGUN: u8 = 1;

impl Leg {
    /// The thread runs as long as it can.
    pub const END: u32 = u32::MAX;

    /// The packed form, as an entry of a script.
    pub fn to_step(self) -> Step {
        let thread = u16::try_from(self.thread.0).unwrap_or(u16::MAX);
        let flags = if self.begun { BEGUN } else { 0 };
        Step { thread, to: thread, point: self.operation, site: NO_SITE, kind: OpKind::Other, flags }
    }

    fn of_step(step: &Step) -> Leg {
        Leg { thread: ThreadIx(step.thread.into()), operation: step.point, begun: step.flags & BEGUN != 0 }
    }

    fn is_done(&self, threads: &impl Threads) -> bool {
        let at = threads.operation(self.thread);
        let stuck = || !threads.is_enabled(self.thread);
        match self.operation {
            Leg::END => at > 0 && stuck(),
            operation => at > operation || (at == operation && self.begun && stuck()),
        }
    }
}

/// Follows a course.
#[derive(Clone, Debug)]
pub struct Steer<'a> {
    script: Script<'a>,
    cursor: usize,
    off: u32,
    after: Option<Random>,
}

/// Legs that are looked at for one that can go on where the next one cannot.
const LOOK_AHEAD: usize = 256;

impl<'a> Steer<'a> {
    /// Follows these legs; then chance decides if `seed` is not 0, else the default policy.
    pub fn new(script: Script<'a>, seed: u64) -> Self {
        Self { script, cursor: 0, off: 0, after: (seed != 0).then(|| Random::new(seed)) }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        while let Some(leg) = self.leg(self.cursor) {
            if leg.is_done(threads) {
                self.cursor = self.cursor.saturating_add(1);
                continue;
            }
            // A thread that waits for others by looking again and again is stuck in all but name.
            let spins = || !matches!(threads.pending(leg.thread).kind, OpKind::Yield | OpKind::Sleep);
            let waits = moment.standing == Standing::Yielding && moment.current == leg.thread && spins();
            if threads.is_enabled(leg.thread) && !waits {
                return leg.thread;
            }
            self.off = self.off.saturating_add(1);
            let ahead = (1..LOOK_AHEAD).map_while(|by| self.leg(self.cursor.saturating_add(by)));
            let mut able = ahead.filter(|other| other.thread != leg.thread && threads.is_enabled(other.thread));
            return match able.find(|other| !other.is_done(threads)) {
                Some(other) => other.thread,
                None => default_choice(moment, threads),
            };
        }
        match &mut self.after {
            Some(random) => random.choose(moment, threads),
            None => default_choice(moment, threads),
        }
    }

    /// Legs that are not done yet.
    pub fn remaining(&self) -> u32 {
        u32::try_from(self.script.len().saturating_sub(self.cursor)).unwrap_or(u32::MAX)
    }

    /// How often a leg could not be taken in its turn.
    pub fn off(&self) -> u32 {
        self.off
    }

    fn leg(&self, at: usize) -> Option<Leg> {
        self.script.step(at).as_ref().map(Leg::of_step)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::sim::{End, Op, Run, private, programs, run, run_spec, specs};

    fn steered(program: &[Vec<Op>], legs: &[(u32, u32)]) -> (Run, u32, u32) {
        let steps: Vec<Step> =
            legs.iter().map(|(t, op)| Leg { thread: ThreadIx(*t), operation: *op, begun: false }.to_step()).collect();
        let mut steer = Steer::new(Script::Steps(&steps), 0);
        let run = run(program, |moment, sim| steer.choose(moment, sim));
        let (off, remaining) = (steer.off(), steer.remaining());
        (run, off, remaining)
    }

    fn order(run: &Run) -> Vec<u32> {
        run.executed.iter().map(|done| done.0).collect()
    }

    #[test]
    fn legs_are_taken_in_turn() {
        let pair = vec![private(0, 4), private(1, 4)];
        let rows = [
            (vec![], [0, 0, 0, 0, 1, 1, 1, 1]),
            (vec![(1, 2), (0, 1), (1, 3)], [1, 1, 0, 1, 1, 0, 0, 0]),
            (vec![(1, Leg::END), (0, 2)], [1, 1, 1, 1, 0, 0, 0, 0]),
        ];
        for (legs, expected) in rows {
            let (run, off, remaining) = steered(&pair, &legs);
            assert_eq!((order(&run), off, remaining), (expected.to_vec(), 0, 0), "{legs:?}");
        }
    }

    #[test]
    fn the_numbers_of_operations_do_not_depend_on_who_is_in_the_way() {
        // Recorded with thread 1 waiting for the lock; run with nobody in its way.
        let critical = |variable| vec![Op::Lock(0), Op::Write(variable), Op::Unlock(0), Op::Read(2)];
        let program = vec![critical(0), critical(1)];
        let (run, off, _) = steered(&program, &[(1, 3), (0, 2), (1, 4)]);
        assert_eq!((order(&run), off), (vec![1, 1, 1, 0, 0, 1, 0, 0], 0));
    }

    #[test]
    fn a_leg_that_cannot_be_done_is_counted_and_passed() {
        let program = vec![vec![Op::Lock(0), Op::Read(0), Op::Unlock(0)], vec![Op::Lock(0), Op::Unlock(0)]];
        let (run, off, remaining) = steered(&program, &[(0, 2), (1, 1), (0, 3)]);
        assert_eq!(run.end, End::Done);
        assert_eq!((order(&run), off, remaining), (vec![0, 0, 0, 1, 1], 1, 0));
    }

    #[test]
    fn to_have_begun_a_wait_is_enough_where_the_leg_says_so() {
        let program = vec![vec![Op::Wait(0), Op::Read(0)], vec![Op::Write(0), Op::Signal(0)]];
        let legs = [
            Leg { thread: ThreadIx(0), operation: 1, begun: true },
            Leg { thread: ThreadIx(1), operation: 2, begun: false },
            Leg { thread: ThreadIx(0), operation: 2, begun: false },
        ];
        let steps = legs.map(Leg::to_step);
        let mut steer = Steer::new(Script::Steps(&steps), 0);
        let run = run(&program, |moment, sim| steer.choose(moment, sim));
        // Whoever has done its last operation is not asked again.
        assert_eq!((run.end, steer.off(), steer.remaining()), (End::Done, 0, 1));
    }

    proptest! {
        /// Whatever order a run had, its course leads to the same order again.
        #[test]
        fn the_course_of_any_run_gives_the_same_run(program in programs(), spec in specs()) {
            let spins = program.iter().flatten().any(|op| matches!(op, Op::Spin(_) | Op::Poll(_)));
            let waits = program.iter().flatten().any(|op| matches!(op, Op::Wait(_)));
            prop_assume!(!spins && !waits);
            let original = run_spec(&program, &spec);
            let legs: Vec<(u32, u32)> = original.executed.iter().map(|(t, op)| (*t, *op as u32 + 1)).collect();
            let (again, off, remaining) = steered(&program, &legs);
            prop_assert_eq!((again.executed, again.end, off), (original.executed, original.end, 0));
            // A thread is at its next operation only when it has gone on; the last ones have none.
            prop_assert!(remaining as usize <= program.len());
        }

        #[test]
        fn any_course_is_survived(program in programs(), bytes in prop::collection::vec(0..6_u8, 0..200), seed in 0..3_u64) {
            let mut steer = Steer::new(Script::Packed(&bytes), seed);
            run(&program, |moment, sim| steer.choose(moment, sim));
        }
    }
}
