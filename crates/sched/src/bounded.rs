//! Every schedule with few preemptions: Musuvathi and Qadeer, "Iterative context bounding for systematic
//! testing of multithreaded programs", PLDI 2007.
//!
//! All schedules without a preemption are run, then all with one, and so on. To run another thread where the
//! current one is ready is a preemption; where it is stuck or yields, every choice is free. One thing else counts as a
//! preemption: to run a thread that has yielded before those that it gave way to. Otherwise a program that
//! spins would have endless schedules for free.
//!
//! The search is depth first, over a stack of the choices of the last run. The paper keeps a queue of
//! schedules for the next bound, which grows with every run; here each bound starts over, and goes through the
//! schedules below it by the logs of their runs, which are kept up to a limit of memory. Only
//! past that limit is a schedule run again to see where it leads.
//!
//! Threads past the first [`MASKED_THREADS`](crate::schedule::MASKED_THREADS) are never switched to, and
//! the search is not [`complete`](Search::complete).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::determinism::Difference;
use crate::fair::{Fair, bit, threads};
use crate::moment::Standing;
use crate::schedule::{LoggedPoint, Step, Switch, flags};
use crate::source::{Fault, Source};
use crate::text::Schedule;

/// Bytes of logs that a search keeps, if nothing else is said.
pub const DEFAULT_MEMORY: usize = 64 << 20;

/// A place in the last run at which another thread may be chosen.
#[derive(Clone, Debug)]
struct Node {
    /// Its number in the log.
    at: usize,
    /// The moment, and the choice that is being explored.
    step: Step,
    /// The default policy's choice.
    default: u16,
    /// Choices that were not explored at this bound.
    untried: u64,
    /// Choices that cost nothing; the others are preemptions.
    free: u64,
    /// Preemptions before it.
    spent: u32,
}

impl Node {
    /// The next choice with at most so many preemptions in all, and how many they are then.
    fn next(&self, bound: u32) -> Option<(u16, u32)> {
        let preempted = self.spent.saturating_add(1);
        let affordable = if preempted <= bound { self.untried } else { self.untried & self.free };
        let to = threads(affordable).next()?;
        Some((to, if bit(to) & self.free != 0 { self.spent } else { preempted }))
    }
}

/// What the search is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// To begin the schedules of a bound.
    Begin,
    /// To learn from a run of a schedule with this many preemptions.
    Learn { schedule: Schedule, spent: u32 },
    /// To look for the next choice.
    Advance,
    /// Nothing.
    Done,
}

/// A search through the schedules with at most some number of preemptions.
#[derive(Clone, Debug)]
pub struct Search {
    most: u32,
    /// Preemptions of the schedules that are run at present.
    bound: u32,
    phase: Phase,
    /// Choices from the first to the last; all of the log `last`, up to the one that is being explored.
    stack: Vec<Node>,
    last: Vec<LoggedPoint>,
    count: u64,
    /// Schedules that were run first at this bound.
    new: u64,
    revisits: u64,
    missed: u64,
    crowded: bool,
    kept: BTreeMap<Schedule, Vec<LoggedPoint>>,
    /// Bytes that may still be kept.
    memory: usize,
}

impl Search {
    /// All schedules with at most this many preemptions.
    pub fn new(preemptions: u32) -> Self {
        Self::with_memory(preemptions, DEFAULT_MEMORY)
    }

    /// The same, keeping at most so many bytes of logs.
    pub fn with_memory(preemptions: u32, bytes: usize) -> Self {
        Self {
            most: preemptions,
            bound: 0,
            phase: Phase::Begin,
            stack: Vec::new(),
            last: Vec::new(),
            count: 0,
            new: 0,
            revisits: 0,
            missed: 0,
            crowded: false,
            kept: BTreeMap::new(),
            memory: bytes,
        }
    }

    /// Preemptions of the schedules that are run at present.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// Different schedules handed out so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Schedules handed out once more, for want of memory.
    pub fn revisits(&self) -> u64 {
        self.revisits
    }

    /// Whether every schedule with at most the given number of preemptions was run and learned from.
    pub fn complete(&self) -> bool {
        self.phase == Phase::Done && self.missed == 0 && !self.crowded
    }

    /// Whether it is complete and no schedule has more preemptions: every fair schedule was run.
    pub fn exhaustive(&self) -> bool {
        self.complete() && self.new == 0
    }

    /// Moves to the next choice within the bound: its schedule, and its preemptions.
    fn advance(&mut self) -> Option<(Schedule, u32)> {
        while let Some(node) = self.stack.last_mut() {
            if let Some((to, spent)) = node.next(self.bound) {
                node.untried &= !bit(to);
                node.step.to = to;
                let departures = self.stack.iter().filter(|node| node.step.to != node.default);
                return Some((departures.map(|node| node.step.switch()).collect(), spent));
            }
            self.stack.pop();
        }
        None
    }

    /// Checks that the run did as it was told, and puts its choices on the stack.
    fn follow(&mut self, log: &[LoggedPoint], spent: u32) -> Result<(), Fault> {
        let pivot = self.stack.last().map(|node| (node.at, node.step.to));
        if let Some((at, to)) = pivot {
            self.compare(log, at, to)?;
        }
        let from = pivot.map_or(0, |(at, _)| at.saturating_add(1));
        let mut fair = Fair::new();
        let mut nodes = Vec::new();
        let mut places = BTreeMap::new();
        for (at, point) in log.iter().enumerate() {
            let turn = fair.arrive(point);
            let Switch { thread, point: number, when, .. } = point.step.switch();
            if places.insert(thread, (number, when)).is_some_and(|last| last >= (number, when)) {
                return Err(Fault::Ambiguous { step: at, came: *point });
            }
            if at < from {
                continue;
            }
            let LoggedPoint { step, enabled } = *point;
            if !step.has(flags::DEFAULT) {
                return Err(Fault::NotDefault { step: at, came: *point });
            }
            self.crowded |= step.has(flags::CROWDED);
            let free = if step.standing() == Standing::Ready { 0 } else { turn };
            let node = Node { at, step, default: step.to, untried: enabled & !bit(step.to), free, spent };
            if node.next(self.bound).is_some() {
                nodes.push(node);
            }
        }
        self.stack.append(&mut nodes);
        self.last.clear();
        self.last.extend_from_slice(log);
        Ok(())
    }

    /// Checks that a log is the last one up to the choice at `at`, and has `to` there.
    fn compare(&self, log: &[LoggedPoint], at: usize, to: u16) -> Result<(), Fault> {
        for (step, before) in self.last.iter().enumerate().take(at.saturating_add(1)) {
            let mut expected = *before;
            if step == at {
                expected.step.to = to;
                expected.step.flags &= !flags::DEFAULT;
            }
            let came = log.get(step).copied();
            if came != Some(expected) {
                return Err(Fault::Diverged(Difference { step, expected: Some(expected), came }));
            }
        }
        Ok(())
    }

    fn keep(&mut self, schedule: Schedule, log: &[LoggedPoint]) {
        // A rough figure for the tree's own share.
        let bytes = size_of_val(log) + size_of_val(&*schedule) + 128;
        if self.bound < self.most && bytes <= self.memory {
            self.memory -= bytes;
            self.kept.insert(schedule, log.to_vec());
        }
    }
}

impl Source for Search {
    type Order = Schedule;

    fn next(&mut self) -> Option<Schedule> {
        if matches!(self.phase, Phase::Learn { .. }) {
            self.missed += 1;
            self.phase = Phase::Advance;
        }
        loop {
            let (schedule, spent) = match self.phase {
                Phase::Done => return None,
                Phase::Begin => (Schedule::default(), 0),
                Phase::Advance | Phase::Learn { .. } => match self.advance() {
                    Some(next) => next,
                    None if self.bound == self.most || self.new == 0 => {
                        self.phase = Phase::Done;
                        return None;
                    }
                    None => {
                        self.bound += 1;
                        self.new = 0;
                        self.phase = Phase::Begin;
                        continue;
                    }
                },
            };
            self.phase = Phase::Advance;
            if spent == self.bound {
                self.count += 1;
                self.new += 1;
            } else if let Some(log) = self.kept.get(&schedule).cloned() {
                // Learned from before; it can only do as it was told.
                self.missed += u64::from(self.follow(&log, spent).is_err());
                continue;
            } else {
                self.revisits += 1;
            }
            self.phase = Phase::Learn { schedule: schedule.clone(), spent };
            return Some(schedule);
        }
    }

    fn learn(&mut self, log: &[LoggedPoint]) -> Result<(), Fault> {
        match core::mem::replace(&mut self.phase, Phase::Advance) {
            Phase::Learn { schedule, spent } => {
                let followed = self.follow(log, spent);
                match followed {
                    Ok(()) => self.keep(schedule, log),
                    Err(_) => self.missed += 1,
                }
                followed
            }
            other => {
                self.phase = other;
                Err(Fault::Unasked)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;

    use proptest::prelude::*;
    use selvedge_events::ThreadIx;

    use super::*;
    use crate::replay::{Matching, Replay, Script};
    use crate::sim::{End, Op, Program, Run, Sim, private, programs, run};

    fn run_schedule(program: &[Vec<Op>], schedule: &Schedule) -> Run {
        let mut replay = Replay::new(Script::Switches(schedule), Matching::InOrder);
        let run = run(program, |moment, sim| replay.choose(moment, sim));
        assert_eq!(replay.verdict(), None, "{schedule}");
        run
    }

    /// Runs a search to its end. Checks that no schedule and no run comes twice, that the bounds ascend and
    /// that each run has as many preemptions as the bound says.
    fn search(program: &[Vec<Op>], preemptions: u32, memory: usize) -> (Search, Vec<Run>) {
        let mut search = Search::with_memory(preemptions, memory);
        let (mut schedules, mut runs, mut revisits) = (BTreeSet::new(), Vec::new(), 0);
        let mut bound = 0;
        while let Some(schedule) = search.next() {
            let run = run_schedule(program, &schedule);
            assert_eq!(search.learn(&run.log), Ok(()));
            assert!(search.bound() >= bound);
            bound = search.bound();
            if search.revisits() > revisits {
                revisits = search.revisits();
                assert!(schedules.contains(&schedule), "{schedule}");
                continue;
            }
            assert_eq!(preempted(&run), bound, "{schedule}");
            assert!(schedules.insert(schedule.clone()), "{schedule} twice");
            assert_eq!(Schedule::of_run(run.log.iter().map(|point| &point.step)), schedule);
            runs.push(run);
        }
        assert_eq!(search.count(), schedules.len() as u64);
        assert_eq!(search.next(), None);
        (search, runs)
    }

    fn preempted(run: &Run) -> u32 {
        let mut fair = Fair::new();
        let mut preempted = 0;
        for point in &run.log {
            let out_of_turn = fair.arrive(point) & bit(point.step.to) == 0 && !point.step.has(flags::DEFAULT);
            let standing = point.step.standing();
            preempted += u32::from(point.step.is_preemption() || standing != Standing::Ready && out_of_turn);
        }
        preempted
    }

    /// Ways to choose `k` of `n`.
    fn choose(n: u64, k: u64) -> u64 {
        (0..k).fold(1, |ways, at| ways * n.saturating_sub(at) / (at + 1))
    }

    #[test]
    fn counts_by_hand() {
        // Threads of n and m operations, thread 0 first. A run is a word of n zeros and m ones. A word of B
        // blocks has B - 1 switches, of which only the last leaves a thread that is through; so it has B - 2
        // preemptions if it begins with 0, and one more if with 1. Blocks of one thread split its operations: there
        // are C(n-1, a-1) ways to have a blocks.
        let words = |first: u64, second: u64, blocks: u64| {
            choose(first - 1, blocks.div_ceil(2) - 1) * choose(second - 1, blocks / 2 - 1)
        };
        let by_hand = |n: u64, m: u64, preemptions: u64| {
            words(n, m, preemptions + 2) + if preemptions > 0 { words(m, n, preemptions + 1) } else { 0 }
        };
        assert_eq!((by_hand(5, 9, 0), by_hand(5, 9, 1)), (1, 5));
        for (n, m) in [(1, 1), (1, 4), (2, 2), (3, 5), (5, 3), (6, 6)] {
            let program = vec![private(0, n as usize), private(1, m as usize)];
            for most in 0..=3 {
                let (search, runs) = search(&program, most, DEFAULT_MEMORY);
                let expected: u64 = (0..=most.into()).map(|preemptions| by_hand(n, m, preemptions)).sum();
                assert_eq!(search.count(), expected, "{n} {m} {most}");
                assert!(search.complete() && runs.iter().all(|run| run.end == End::Done));
                assert_eq!(search.exhaustive(), by_hand(n, m, most.into()) == 0, "{n} {m} {most}");
            }
            // All interleavings in the end.
            let (search, _) = search(&program, 100, DEFAULT_MEMORY);
            assert_eq!((search.count(), search.exhaustive()), (choose(n + m, n), true));
        }
    }

    #[test]
    fn a_deadlock_takes_one_preemption() {
        let one = |a, b| vec![Op::Lock(a), Op::Lock(b), Op::Unlock(b), Op::Unlock(a)];
        let program = vec![one(0, 1), one(1, 0)];
        let ends =
            |most| search(&program, most, DEFAULT_MEMORY).1.iter().filter(|run| run.end == End::Deadlock).count();
        assert_eq!(ends(0), 0);
        assert!(ends(1) > 0);
    }

    #[test]
    fn programs_that_spin_have_finitely_many_schedules() {
        let setter = vec![Op::Read(1), Op::Write(0)];
        for (program, free) in [
            // Thread 0 looks, thread 1 sets, thread 0 goes on.
            (vec![vec![Op::Spin(0)], setter.clone()], 1),
            // Either of the others may come second.
            (vec![vec![Op::Spin(0)], vec![Op::Spin(0)], setter.clone()], 3),
            (vec![vec![Op::Spin(0)], setter.clone(), vec![Op::Spin(0)], vec![Op::Spin(0), Op::Read(0)]], 0),
            (vec![vec![Op::Spin(0), Op::Write(1)], vec![Op::Spin(1)], vec![Op::Write(0)]], 0),
        ] {
            for most in 0..3 {
                let (search, runs) = search(&program, most, DEFAULT_MEMORY);
                assert!(search.complete(), "{program:?}");
                assert!(runs.iter().all(|run| run.end == End::Done), "{program:?}");
                if free > 0 && most == 0 {
                    assert_eq!(search.count(), free, "{program:?}");
                }
            }
        }
    }

    #[test]
    fn without_memory_schedules_are_run_again() {
        let program = vec![private(0, 4), private(1, 4), private(2, 2)];
        let (with, mut runs) = search(&program, 2, DEFAULT_MEMORY);
        let (without, mut same) = search(&program, 2, 0);
        assert_eq!(with.revisits(), 0);
        assert!(without.revisits() > 0 && without.revisits() * 3 < without.count());
        assert!(without.complete() && with.complete());
        let key = |run: &Run| run.executed.clone();
        runs.sort_by_key(key);
        same.sort_by_key(key);
        assert_eq!(runs, same);
    }

    #[test]
    fn a_run_that_does_not_follow_is_a_fault_and_not_the_end() {
        let program = vec![private(0, 3), private(1, 3)];
        let mut search = Search::new(1);
        let first = search.next().unwrap();
        let log = run_schedule(&program, &first).log;
        assert_eq!(search.learn(&log), Ok(()));
        assert_eq!(search.learn(&log), Err(Fault::Unasked));
        // The same run again, although a switch was asked for.
        let second = search.next().unwrap();
        assert_eq!(second.len(), 1);
        let Err(Fault::Diverged(difference)) = search.learn(&log) else { panic!("not noticed") };
        assert_eq!((difference.step, difference.came), (2, Some(log[2])));
        // A switch that was not asked for.
        let third = search.next().unwrap();
        let mut more = run_schedule(&program, &third).log;
        more[5].step.flags &= !flags::DEFAULT;
        assert_eq!(search.learn(&more), Err(Fault::NotDefault { step: 5, came: more[5] }));
        // Two moments at one place: a switch could not name either.
        let third = search.next().unwrap();
        let mut twice = run_schedule(&program, &third).log;
        let last = twice.len() - 1;
        twice[last] = twice[last - 1];
        assert_eq!(search.learn(&twice), Err(Fault::Ambiguous { step: last, came: twice[last] }));
        let mut rest = 0;
        while let Some(schedule) = search.next() {
            assert_eq!(search.learn(&run_schedule(&program, &schedule).log), Ok(()));
            rest += 1;
        }
        assert_eq!((rest, search.complete()), (0, false));
    }

    #[test]
    fn a_run_that_is_never_learned_from_is_missed() {
        let mut search = Search::new(3);
        assert_eq!(search.next(), Some(Schedule::default()));
        // Once more, to see what the next bound has.
        assert_eq!(search.next(), Some(Schedule::default()));
        assert_eq!((search.next(), search.complete(), search.count()), (None, false, 1));
    }

    /// All runs with at most `left` more preemptions, by trying everything.
    fn brute_force(sim: &Sim<'_>, left: u32, all: &mut BTreeSet<Vec<(u32, usize)>>) {
        let Ok(moment) = sim.moment() else {
            assert!(all.insert(sim.executed.clone()));
            return;
        };
        for to in (0..4).map(ThreadIx).filter(|to| crate::Threads::is_enabled(sim, *to)) {
            let cost = u32::from(moment.standing == Standing::Ready && to != moment.current);
            if let Some(left) = left.checked_sub(cost) {
                let mut next = sim.clone();
                next.go(&moment, to);
                brute_force(&next, left, all);
            }
        }
    }

    fn small_programs() -> impl Strategy<Value = Program> {
        programs().prop_map(|program| {
            let short = |ops: &Vec<Op>| {
                ops.iter().filter(|op| !matches!(op, Op::Spin(_))).copied().take(4).collect::<Vec<Op>>()
            };
            program.iter().take(3).map(short).collect()
        })
    }

    proptest! {
        #[test]
        fn brute_force_finds_the_same(program in small_programs(), most in 0..4_u32, memory in 0..20_000_usize) {
            let mut expected = BTreeSet::new();
            brute_force(&Sim::new(&program), most, &mut expected);
            let (search, runs) = search(&program, most, memory);
            prop_assert!(search.complete() || expected.len() == 1);
            prop_assert_eq!(runs.len(), expected.len());
            let found: BTreeSet<_> = runs.into_iter().map(|run| run.executed).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
