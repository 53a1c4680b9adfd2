//! Whether training is enough: how many members each run added.
//!
//! Paper: section 5.6. Sets that have not grown for many runs are taken to be whole. That is a guess, so the curve is shown with it.
//!
//! Some never are: sites that follow any of hundreds, in ever new ways. How likely the next run is to show something new can be
//! estimated by how many members hardly any run has shown (after Good, "The population frequencies of species and the estimation of population
//! parameters", Biometrika 1953). Groups that have most of these are [`unsettled`]: they are left alone, the others are guarded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::group::{Group, groups};
use super::{Invariants, SiteKey};

/// Most columns of a plot.
pub const COLUMNS: usize = 60;

/// Merges a run and returns how many members it added: the curve's next value.
pub fn fold(all: &mut Invariants, run: &Invariants) -> usize {
    let new = all.new_members(run);
    all.merge(run);
    new
}

/// How many runs without a new member are enough, unless asked otherwise: half of all, and not below 200. Measured on
/// programs that use every kind of synchronisation: what is new after that is met about once in a thousand runs.
pub fn default_quiet(runs: usize) -> usize {
    (runs / 2).max(200)
}

/// Whether the last runs added nothing: `quiet` of them, or [`default_quiet`].
pub fn is_converged(curve: &[usize], quiet: Option<usize>) -> bool {
    quiet_runs(curve) >= quiet.unwrap_or_else(|| default_quiet(curve.len())).max(1)
}

/// Runs without a new member that training goes on for as long as they cost little: what 200 quiet runs have not shown may still come
/// once in a few hundred.
const CHEAP_RUNS: usize = 2000;

/// Time in which runs cost little, all together.
const CHEAP_TIME: Duration = Duration::from_secs(20);

/// Whether training that ends by itself has had enough: [`is_converged`], and many more quiet runs where these are cheap.
pub fn is_enough(curve: &[usize], elapsed: Duration) -> bool {
    is_converged(curve, None) && (elapsed >= CHEAP_TIME || quiet_runs(curve) >= CHEAP_RUNS)
}

/// Passing runs from which [`unsettled`] tells.
pub const TELLING: u64 = 1000;

/// In so many runs the sites that are not [`unsettled`] may have a member that hardly any run has shown.
const ONE_RARE_IN: u64 = 2000;

/// The sites whose sets so many runs have not shown to be whole, given how many of the members of each hardly any run has shown: those of the groups that
/// have most of these, until the others have next to none. What comes in a new order shows at any site of a group.
/// Fewer than [`TELLING`] runs do not tell.
pub fn unsettled(all: &Invariants, rare: &BTreeMap<SiteKey, u64>, runs: u64) -> BTreeSet<SiteKey> {
    let rare_of = |group: &Group| group.sites.iter().filter_map(|key| rare.get(key)).sum::<u64>();
    let mut most: Vec<(u64, Group)> = groups(all).into_iter().map(|group| (rare_of(&group), group)).collect();
    // Stable: equals go in the order of their first sites.
    most.sort_by_key(|(members, _)| Reverse(*members));
    let mut left: u64 = most.iter().map(|(members, _)| members).sum();
    let may_stay = (runs / ONE_RARE_IN).max(1);
    let mut sites = BTreeSet::new();
    for (members, group) in most {
        if left <= may_stay || runs < TELLING {
            break;
        }
        left -= members;
        sites.extend(group.sites);
    }
    sites
}

/// How many runs at the end added nothing.
pub fn quiet_runs(curve: &[usize]) -> usize {
    curve.iter().rev().take_while(|new| **new == 0).count()
}

/// The curve as one line of blocks, one for each run or for some runs together, with the numbers below it. Heights grow with the
/// logarithm, and whatever is not nothing can be seen.
pub fn plot(curve: &[usize]) -> String {
    let together = curve.len().div_ceil(COLUMNS).max(1);
    let sums: Vec<usize> = curve.chunks(together).map(|runs| runs.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0);
    let mut out: String = sums.iter().map(|sum| block(*sum, most)).collect();
    out.push('\n');
    let members: usize = curve.iter().sum();
    let _ = write!(out, "{} runs, {members} members; ", curve.len());
    let _ = match curve.iter().rposition(|new| *new > 0) {
        Some(last) => writeln!(out, "the last new one in run {}, {} runs without", last + 1, quiet_runs(curve)),
        None => writeln!(out, "none"),
    };
    if together > 1 {
        let _ = writeln!(out, "new members, {together} runs a column, at most {most}");
    } else if most > 0 {
        let _ = writeln!(out, "new members, a run a column, at most {most}");
    }
    out
}

fn block(new: usize, most: usize) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if new == 0 {
        return '·';
    }
    let height = (1.0 + new as f64).ln() / (1.0 + most as f64).ln() * 7.0;
    BLOCKS.get(height.round() as usize).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{belonging, key, some_invariants};
    use super::*;

    #[test]
    fn cheap_runs_are_made_in_numbers() {
        let curve = |zeros: usize| [&[5][..], &vec![0; zeros]].concat();
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(60));
        let rows = [(199, late, false), (200, late, true), (200, soon, false), (1999, soon, false), (2000, soon, true)];
        for (zeros, elapsed, is) in rows {
            assert_eq!(is_enough(&curve(zeros), elapsed), is, "{zeros} quiet runs, {elapsed:?}");
        }
    }

    #[test]
    fn quiet_runs_at_the_end_count() {
        let curve = |new: &[usize], zeros: usize| [new, &vec![0; zeros]].concat();
        let rows = [
            (curve(&[], 0), None, false),
            (curve(&[5], 199), None, false),
            (curve(&[5], 200), None, true),
            (curve(&[5, 0, 0, 1], 200), None, true),
            (curve(&[1; 302], 300), None, false),
            (curve(&[1; 300], 300), None, true),
            (curve(&[1], 3), Some(3), true),
            (curve(&[1], 2), Some(3), false),
            (curve(&[1], 0), Some(0), false),
            (curve(&[], 0), Some(0), false),
            (curve(&[], 200), None, true),
        ];
        for (curve, quiet, is) in rows {
            assert_eq!(is_converged(&curve, quiet), is, "{curve:?} {quiet:?}");
        }
    }

    #[test]
    fn groups_with_the_most_rare_members_are_unsettled() {
        let all = Invariants {
            sites: [("a", &[][..]), ("b", &["e"]), ("c", &[]), ("d", &[]), ("e", &[])]
                .map(|(name, members)| (key(name), belonging(true, members)))
                .into(),
            ..Invariants::default()
        };
        let rare: BTreeMap<SiteKey, u64> =
            [("a", 1), ("b", 30), ("c", 1), ("d", 2)].map(|(name, members)| (key(name), members)).into();
        let names = |runs| unsettled(&all, &rare, runs).into_iter().collect::<Vec<_>>();
        assert_eq!(names(999), []);
        assert_eq!(names(1000), [key("a"), key("b"), key("d"), key("e")]);
        assert_eq!(names(4000), [key("b"), key("d"), key("e")]);
        assert_eq!(names(8000), [key("b"), key("e")]);
        assert_eq!(unsettled(&all, &[(key("a"), 1)].into(), 2000), BTreeSet::new());
    }

    #[test]
    fn plots_show_every_new_member() {
        let curve = [40, 6, 0, 1, 0, 0];
        let text = "█▅·▂··\n6 runs, 47 members; the last new one in run 4, 2 runs without\nnew members, a run a column, at most 40\n";
        assert_eq!(plot(&curve), text);
        assert_eq!(plot(&[]), "\n0 runs, 0 members; none\n");
        assert_eq!(plot(&[0]), "·\n1 runs, 0 members; none\n");
    }

    proptest! {
        #[test]
        fn plots_fit(curve in vec(prop_oneof![Just(0), 0..5000_usize], 0..400)) {
            let text = plot(&curve);
            let line = text.lines().next().unwrap_or_default();
            prop_assert!(line.chars().count() <= COLUMNS);
            prop_assert_eq!(line.chars().all(|c| c == '·'), curve.iter().all(|new| *new == 0));
        }

        #[test]
        fn the_curve_sums_up_to_the_members(runs in vec(some_invariants(), 0..6)) {
            let mut all = Invariants::default();
            let curve: Vec<usize> = runs.iter().map(|run| fold(&mut all, run)).collect();
            prop_assert_eq!(curve.iter().sum::<usize>(), all.members());
        }
    }
}
