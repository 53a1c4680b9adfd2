//! Fewer switches, same failure; and the one switch that decides.
//!
//! [`minimize`] is delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
//! input", TSE 2002) over the switches: chunks are taken away, halves first, single ones last. Then pairs are
//! tried, because a switch away from a thread and the one back to it often go only together. What is left is
//! 1-minimal: without any one of its switches the run does not fail.
//!
//! [`critical_switch`] walks from a schedule that passes to one that fails, one switch at a time, and bisects
//! that walk. At its turn one switch makes the difference: the operation that it delays and those that
//! go ahead of it ([`overtaking`]) are the events whose order decides.
//!
//! Both run schedules from which switches were taken, so a replay has to match them
//! [by thread](crate::replay::Matching::ByThread). They believe the runs: a program that is not under control
//! makes them wrong.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use crate::schedule::{LoggedPoint, Switch};
use crate::text::Schedule;

/// Up to so many switches all pairs are tried, past it only neighbours.
const ALL_PAIRS: usize = 12;

/// How a run came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With the failure that is looked for.
    Fails,
    /// Well.
    Passes,
    /// Neither: another failure, or no answer.
    Other,
}

/// What minimising has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimized {
    /// The shortest schedule that was seen to fail, or the given one.
    pub schedule: Schedule,
    /// Runs that were made.
    pub runs: u32,
    /// Whether the schedule is 1-minimal; otherwise the budget ran out.
    pub minimal: bool,
}

/// Takes switches away from a schedule that fails, as long as it fails, with at most `budget` runs.
pub fn minimize(failing: &[Switch], budget: u32, run: impl FnMut(&[Switch]) -> Verdict) -> Minimized {
    let mut trial = Trial { run, left: budget, runs: 0, refused: BTreeSet::new() };
    let mut current = failing.to_vec();
    let minimal = trial.shrink(&mut current).is_some();
    Minimized { schedule: Schedule(current), runs: trial.runs, minimal }
}

struct Trial<R> {
    run: R,
    left: u32,
    runs: u32,
    /// Schedules that did not fail.
    refused: BTreeSet<Vec<Switch>>,
}

impl<R: FnMut(&[Switch]) -> Verdict> Trial<R> {
    /// Whether the schedule fails; `None` if the budget is used up.
    fn fails(&mut self, switches: &[Switch]) -> Option<bool> {
        if self.refused.contains(switches) {
            return Some(false);
        }
        self.left = self.left.checked_sub(1)?;
        self.runs += 1;
        let fails = (self.run)(switches) == Verdict::Fails;
        if !fails {
            self.refused.insert(switches.to_vec());
        }
        Some(fails)
    }

    /// `None` if the budget is used up; what is left is in `current` either way.
    fn shrink(&mut self, current: &mut Vec<Switch>) -> Option<()> {
        let mut size = current.len();
        while size > 1 {
            self.pass(current, size)?;
            size = (size / 2).min(current.len());
        }
        // When something went, what was needed before may be free to go.
        while self.pass(current, 1)? || self.pairs(current)? {}
        Some(())
    }

    /// Tries to do without each chunk of this size in turn, last ones first: what came late depends on
    /// what came early. Says whether anything went.
    fn pass(&mut self, current: &mut Vec<Switch>, size: usize) -> Option<bool> {
        let mut removed = false;
        let mut end = current.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            removed |= self.remove(current, |at| (start..end).contains(&at))?;
            end = start;
        }
        Some(removed)
    }

    /// Tries to do without two at a time. Says whether any went.
    fn pairs(&mut self, current: &mut Vec<Switch>) -> Option<bool> {
        for second in (0..current.len()).rev() {
            let nearest = if current.len() <= ALL_PAIRS { 0 } else { second.saturating_sub(1) };
            for first in (nearest..second).rev() {
                if self.remove(current, |at| at == first || at == second)? {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Removes the switches at these places if it fails without them. Says whether it did.
    fn remove(&mut self, current: &mut Vec<Switch>, places: impl Fn(usize) -> bool) -> Option<bool> {
        let kept = |(at, switch): (usize, &Switch)| (!places(at)).then_some(*switch);
        let without: Vec<Switch> = current.iter().enumerate().filter_map(kept).collect();
        let fails = self.fails(&without)?;
        if fails {
            *current = without;
        }
        Some(fails)
    }
}

/// What the critical switch does to the schedule that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// With it, the run fails.
    Added,
    /// Without it, the run fails.
    Removed,
}

/// Two schedules that differ by little and come out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The one that passes.
    pub passing: Schedule,
    /// The one that fails.
    pub failing: Schedule,
    /// The switch that only one of them has; the first, where there are several.
    pub switch: Switch,
    /// Which one has it.
    pub change: Change,
    /// Switches that only one of them has: 1, unless runs in between came out as [`Verdict::Other`] or the
    /// budget ran out.
    pub differing: usize,
    /// Runs that were made.
    pub runs: u32,
}

/// Bisects between a schedule that passes and one that fails, with at most `budget` runs. `None` if
/// they have the same switches.
pub fn critical_switch(
    passing: &[Switch],
    failing: &[Switch],
    budget: u32,
    mut run: impl FnMut(&[Switch]) -> Verdict,
) -> Option<Critical> {
    let walk = Walk::new(passing, failing);
    let (mut low, mut high) = (0, walk.len());
    let mut runs = 0;
    'bisect: while high.saturating_sub(low) > 1 {
        // The middle, or the nearest place to it that has an answer.
        let middle = low + (high - low) / 2;
        let mut places: Vec<usize> = (low + 1..high).collect();
        places.sort_by_key(|place| place.abs_diff(middle));
        for place in places {
            if runs == budget {
                break 'bisect;
            }
            runs += 1;
            match run(&walk.schedule(place)) {
                Verdict::Fails => high = place,
                Verdict::Passes => low = place,
                Verdict::Other => continue,
            }
            continue 'bisect;
        }
        break;
    }
    let (switch, change) = walk.edit(low)?;
    Some(Critical {
        passing: Schedule(walk.schedule(low)),
        failing: Schedule(walk.schedule(high)),
        switch,
        change,
        differing: high - low,
        runs,
    })
}

/// The walk from one schedule to another: first what only the first has is taken away, from its end; then
/// what only the second has is added, from its start.
struct Walk<'a> {
    from: &'a [Switch],
    to: &'a [Switch],
    removed: Vec<Switch>,
    added: Vec<Switch>,
}

impl<'a> Walk<'a> {
    fn new(from: &'a [Switch], to: &'a [Switch]) -> Self {
        let only = |a: &[Switch], b: &[Switch]| -> Vec<Switch> {
            let b: BTreeSet<&Switch> = b.iter().collect();
            a.iter().filter(|switch| !b.contains(switch)).copied().collect()
        };
        let mut removed = only(from, to);
        removed.reverse();
        Self { from, to, removed, added: only(to, from) }
    }

    fn len(&self) -> usize {
        self.removed.len() + self.added.len()
    }

    /// The schedule after so many edits.
    fn schedule(&self, edits: usize) -> Vec<Switch> {
        let (whole, missing) = match edits.checked_sub(self.removed.len()) {
            None => (self.from, self.removed.get(..edits)),
            Some(added) => (self.to, self.added.get(added..)),
        };
        let missing: BTreeSet<&Switch> = missing.unwrap_or_default().iter().collect();
        whole.iter().filter(|switch| !missing.contains(switch)).copied().collect()
    }

    /// The edit that follows so many edits.
    fn edit(&self, edits: usize) -> Option<(Switch, Change)> {
        match edits.checked_sub(self.removed.len()) {
            None => self.removed.get(edits).map(|switch| (*switch, Change::Removed)),
            Some(added) => self.added.get(added).map(|switch| (*switch, Change::Added)),
        }
    }
}

/// What went ahead of the operation that a switch delayed: the steps of a run's log from the switch until its
/// thread goes on. `None` if the run did not take the switch.
pub fn overtaking(log: &[LoggedPoint], switch: &Switch) -> Option<Range<usize>> {
    let start = log.iter().position(|point| point.step.switch() == *switch)?;
    let thread = switch.thread.0;
    let back = log.iter().skip(start + 1).position(|point| u32::from(point.step.to) == thread);
    Some(start..back.map_or(log.len(), |back| start + 1 + back))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;
    use selvedge_events::ThreadIx;

    use super::*;
    use crate::replay::{Matching, Replay, Script};
    use crate::schedule::When;
    use crate::sim::{Op, Program, Run, private, run, run_spec};
    use crate::strategy::{Spec, StrategyKind};

    fn switch(point: u32) -> Switch {
        Switch { thread: ThreadIx(0), point, when: When::Arriving, to: ThreadIx(1) }
    }

    fn switches(points: &[u32]) -> Vec<Switch> {
        points.iter().copied().map(switch).collect()
    }

    fn points(schedule: &[Switch]) -> Vec<u32> {
        schedule.iter().map(|switch| switch.point).collect()
    }

    fn verdict(fails: bool) -> Verdict {
        if fails { Verdict::Fails } else { Verdict::Passes }
    }

    #[test]
    fn what_is_needed_stays() {
        let all: Vec<u32> = (1..=40).collect();
        for needed in [&[][..], &[1], &[40], &[7, 8], &[1, 20, 40], &[3, 5, 7, 9, 11, 13]] {
            let fails = |given: &[Switch]| verdict(needed.iter().all(|point| points(given).contains(point)));
            let result = minimize(&switches(&all), 1_000, fails);
            assert_eq!((points(&result.schedule).as_slice(), result.minimal), (needed, true));
            assert!(result.runs < 150, "{needed:?}: {} runs", result.runs);
        }
    }

    #[test]
    fn a_budget_is_kept() {
        let all: Vec<u32> = (1..=40).collect();
        let mut runs = 0;
        let result = minimize(&switches(&all), 5, |given| {
            runs += 1;
            verdict(points(given).contains(&3))
        });
        assert_eq!((runs, result.runs, result.minimal), (5, 5, false));
        assert!(result.schedule.len() < 40 && points(&result.schedule).contains(&3));
    }

    #[test]
    fn another_failure_does_not_count() {
        let result = minimize(&switches(&[1, 2]), 100, |given| match points(given).as_slice() {
            [1, 2] => Verdict::Fails,
            _ => Verdict::Other,
        });
        assert_eq!((points(&result.schedule), result.minimal), (vec![1, 2], true));
    }

    #[test]
    fn the_critical_switch_is_found() {
        let walk = |passing: &[u32], failing: &[u32], fails: &dyn Fn(&[u32]) -> Verdict| {
            let run = |given: &[Switch]| fails(&points(given));
            critical_switch(&switches(passing), &switches(failing), 100, run)
        };
        let all: Vec<u32> = (1..=64).collect();
        // It fails as soon as 17 is there.
        let found = walk(&[], &all, &|given| verdict(given.contains(&17))).unwrap();
        assert_eq!((found.switch, found.change, found.differing), (switch(17), Change::Added, 1));
        assert_eq!((found.passing.len(), found.failing.len(), found.runs), (16, 17, 6));
        // It fails as soon as 17 is gone.
        let found = walk(&all, &[], &|given| verdict(!given.contains(&17))).unwrap();
        assert_eq!((found.switch, found.change, found.differing), (switch(17), Change::Removed, 1));
        // What both have stays.
        let found = walk(&[1, 2, 9], &[2, 3, 4], &|given| verdict(given.contains(&3))).unwrap();
        assert_eq!((found.switch, points(&found.passing), points(&found.failing)), (switch(3), vec![2], vec![2, 3]));
        // Places without an answer are walked around, as far as that goes.
        let found = walk(&[], &all, &|given| match given.len() {
            10..20 => Verdict::Other,
            length => verdict(length >= 20),
        });
        assert_eq!(found.map(|found| (found.differing, found.passing.len())), Some((11, 9)));
        assert_eq!(walk(&all, &all, &|_| Verdict::Other), None);
        // Two schedules that differ in one switch need no run.
        let found = walk(&[1], &[1, 2], &|_| panic!("not needed")).unwrap();
        assert_eq!((found.switch, found.runs), (switch(2), 0));
    }

    fn replay(program: &[Vec<Op>], given: &[Switch]) -> Run {
        let mut replay = Replay::new(Script::Switches(given), Matching::ByThread);
        run(program, |moment, sim| replay.choose(moment, sim))
    }

    /// An increment that is not atomic, among other things; it fails when one is lost.
    fn lost_update() -> (Program, impl Fn(&[Switch]) -> Verdict) {
        let increment = |thread| [private(thread, 6), vec![Op::Read(0), Op::Write(0)], private(thread, 6)].concat();
        let program: Program = vec![increment(1), increment(2)];
        let run = program.clone();
        (program, move |given: &[Switch]| verdict(replay(&run, given).variables[0] == 1))
    }

    #[test]
    fn a_lost_update_needs_two_switches_at_most() {
        let (program, fails) = lost_update();
        let runs =
            (0..200).map(|seed| run_spec(&program, &Spec { kind: StrategyKind::Random, seed, ..Spec::default() }));
        let mut found = 0;
        for run in runs.filter(|run| run.variables[0] == 1) {
            let original = Schedule::of_run(run.log.iter().map(|point| &point.step));
            let least = minimize(&original, 1_000, &fails);
            assert!(least.minimal);
            // Thread 0 is stopped between its read and its write, or thread 1 is, which has to begin first.
            assert!(least.schedule.len() <= 2, "{}", least.schedule);
            let critical = critical_switch(&[], &least.schedule, 100, &fails).unwrap();
            assert_eq!((fails(&critical.passing), fails(&critical.failing)), (Verdict::Passes, Verdict::Fails));
            let log = replay(&program, &critical.failing).log;
            let ahead = overtaking(&log, &critical.switch).unwrap();
            assert_eq!(log[ahead.start].step.switch(), critical.switch);
            assert!(log[ahead.clone()].iter().all(|point| u32::from(point.step.to) != critical.switch.thread.0));
            found += 1;
        }
        assert!(found > 20, "{found}");
    }

    proptest! {
        #[test]
        fn results_are_1_minimal(clauses in prop::collection::vec(prop::collection::btree_set(1..24_u32, 1..4), 1..5)) {
            // Fails if all switches of some clause are there: not every switch is needed on every way.
            let all: Vec<u32> = (1..24).collect();
            let fails = |given: &[u32]| clauses.iter().any(|clause| clause.iter().all(|point| given.contains(point)));
            let result = minimize(&switches(&all), 10_000, |given| verdict(fails(&points(given))));
            let left = points(&result.schedule);
            prop_assert!(result.minimal && fails(&left));
            for at in 0..left.len() {
                let mut without = left.clone();
                without.remove(at);
                prop_assert!(!fails(&without));
            }
        }

        #[test]
        fn runs_of_any_seed_are_made_1_minimal(seed in any::<u64>()) {
            let (program, fails) = lost_update();
            let runs = (0..).map(|more| Spec { kind: StrategyKind::Random, seed: seed.wrapping_add(more), ..Spec::default() });
            let original = runs.map(|spec| run_spec(&program, &spec)).find(|run| run.variables[0] == 1).unwrap();
            let schedule = Schedule::of_run(original.log.iter().map(|point| &point.step));
            let least = minimize(&schedule, 10_000, &fails).schedule;
            prop_assert_eq!(fails(&least), Verdict::Fails);
            for at in 0..least.len() {
                let mut without = least.0.clone();
                without.remove(at);
                prop_assert_eq!(fails(&without), Verdict::Passes);
            }
        }
    }
}
