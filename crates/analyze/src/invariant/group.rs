//! Groups of sites that touch the same memory, and which of them are too hot to guard.
//!
//! Paper: section 3.4.1 and Algorithm 2. Sites of different groups never touched the same memory. A group is *shared*
//! where some site of it followed another thread's; only shared ones are worth guarding. The *proportion* of a group is
//! its part of all accesses by shared groups. Hot code is well tested, so by the cold-region hypothesis a group
//! above a threshold is left out as a whole: what is left out touches no memory that is still guarded.
//!
//! Departures:
//! - The paper unites sites with addresses. Here a site is united with the site that touched the memory last, which gives
//!   the same groups and needs no address.
//! - A group that hardly runs costs nothing, however large its proportion: most small programs share one variable, which
//!   has all of their shared accesses. [`Heat`] has a floor for that.
//! - Many groups below the threshold can cost as much as one above it (FFT has ten, each with a tenth). So after the paper's rule the
//!   hottest go until what is left can hardly be felt: where training knows how long runs take by themselves, until guarding the rest takes a
//!   small part of that; where it does not, until the rest of the accesses of those above the floor is a small part of all.
//! - A site that never runs costs, too, where it makes a hot function run with hooks ([`Switching`]). So what counts is what a group takes
//!   with the functions that it switches and that no group before it did.
//! - A guard is told of every lock that a thread takes, whatever it guards: that comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::disjoint::DisjointSites;
use super::{Invariants, SiteKey};

/// Sites that touch the same memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The sites.
    pub sites: BTreeSet<SiteKey>,
    /// How often they ran, over all runs.
    pub hits: u64,
    /// Whether a site of it followed another thread's.
    pub is_shared: bool,
}

/// A group that is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupShare {
    /// Its part of all accesses by shared groups, from 0 to 1.
    pub proportion: f64,
    /// Its sites.
    pub sites: BTreeSet<SiteKey>,
    /// How often they ran, over all runs.
    pub hits: u64,
    /// Hooks that these runs would have met in the functions that it switches.
    pub hooks: u64,
}

impl GroupShare {
    /// What guarding it takes, in nanoseconds over all runs.
    pub fn cost(&self) -> u128 {
        cost(self.hits, self.hooks)
    }
}

/// Which code runs with hooks where sites are armed: a function has two bodies, and is switched as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// By site: the stretches of code that run with hooks then.
    pub by_site: BTreeMap<SiteKey, BTreeSet<u32>>,
    /// By stretch of code: the hooks that the runs would have met in it.
    pub hooks: Vec<u64>,
}

impl Switching {
    /// What the sites of a group switch.
    fn stretches(&self, sites: &BTreeSet<SiteKey>) -> BTreeSet<u32> {
        sites.iter().filter_map(|key| self.by_site.get(key)).flatten().copied().collect()
    }

    fn sum<'a>(&self, stretches: impl IntoIterator<Item = &'a u32>) -> u64 {
        let hooks = stretches.into_iter().filter_map(|stretch| self.hooks.get(*stretch as usize));
        hooks.fold(0, |sum, hooks| sum.saturating_add(*hooks))
    }
}

/// Which sites are guarded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bias {
    /// Sites of shared groups that are not too hot.
    pub kept: BTreeSet<SiteKey>,
    /// The others, the hottest first.
    pub left_out: Vec<GroupShare>,
}

/// When a group is too hot to guard: where it has more than one of the parts, and more accesses in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Part of all accesses by shared groups, from 0 to 1.
    pub proportion: f64,
    /// Part of the runs' own time that guarding it takes, from 0, together with those that are less hot.
    pub cost: f64,
    /// Part of all accesses by shared groups, from 0 to 1, together with those that are less hot, where the runs' time is not known.
    pub together: f64,
    /// Accesses in a run, on average.
    pub hits_a_run: u64,
}

/// The paper's threshold.
pub const HOT: f64 = 0.3;

/// What groups below the threshold may have together.
pub const WARM: f64 = 0.05;

/// What part of a run's own time guarding may take.
pub const COST: f64 = 0.01;

/// What guarding an access takes, in nanoseconds, where threads now and then meet at its location.
pub const ACCESS_NS: u64 = 20;

/// What a hook that does nothing takes, in tenths of a nanosecond, with how code is compiled around it: in tight loops two to four,
/// as measured.
const HOOK_TENTHS_NS: u64 = 3;

/// What it takes to tell others that a thread takes a lock and gives it back, in nanoseconds.
const LOCK_NS: u64 = 7;

/// What hooks that do nothing take, in nanoseconds.
pub fn hooks_ns(hooks: u64) -> u64 {
    hooks.saturating_mul(HOOK_TENTHS_NS) / 10
}

fn cost(hits: u64, hooks: u64) -> u128 {
    u128::from(hits) * u128::from(ACCESS_NS) + u128::from(hooks_ns(hooks))
}

/// What a guard takes whatever it guards: it is told of locks.
fn of_locks(all: &Invariants) -> u128 {
    let taken = all.sections.values().fold(0_u64, |sum, section| sum.saturating_add(section.entered));
    u128::from(taken) * u128::from(LOCK_NS)
}

/// Accesses in a run, on average, below which guarding a group cannot be felt: some milliseconds.
pub const FELT: u64 = 50_000;

impl Heat {
    /// That of a threshold for each group; where it allows more than the paper's, so may all together.
    pub fn above(proportion: f64) -> Heat {
        let (cost, together) = if proportion > HOT { (proportion, proportion) } else { (COST, WARM) };
        Heat { proportion, cost, together, hits_a_run: FELT }
    }

    /// That of nothing.
    pub const NONE: Heat = Heat { proportion: 1.0, cost: f64::INFINITY, together: 1.0, hits_a_run: 0 };
}

impl Default for Heat {
    fn default() -> Heat {
        Heat::above(HOT)
    }
}

/// The groups, in order of their first sites.
pub fn groups(all: &Invariants) -> Vec<Group> {
    let group = |sites: Vec<SiteKey>| {
        let known = || sites.iter().filter_map(|key| all.sites.get(key));
        let hits = known().fold(0_u64, |sum, site| sum.saturating_add(site.hits));
        let is_shared = known().any(|site| !site.members().is_empty());
        Group { hits, is_shared, sites: sites.into_iter().collect() }
    };
    DisjointSites::of(all).sets().into_iter().map(group).collect()
}

/// Leaves out the shared groups whose proportion is above the threshold, as the paper does.
pub fn bias(all: &Invariants, threshold: f64) -> Bias {
    bias_by(all, Heat { proportion: threshold, ..Heat::NONE }, &Switching::default())
}

/// Leaves out the shared groups that are too hot.
pub fn bias_by(all: &Invariants, heat: Heat, switching: &Switching) -> Bias {
    let mut shared: Vec<(Group, BTreeSet<u32>)> = groups(all)
        .into_iter()
        .filter(|group| group.is_shared)
        .map(|group| {
            let stretches = switching.stretches(&group.sites);
            (group, stretches)
        })
        .collect();
    // Stable: equals stay in order of their first sites.
    shared.sort_by_key(|(group, stretches)| cost(group.hits, switching.sum(stretches)));
    let sum: u128 = shared.iter().map(|(group, _)| u128::from(group.hits)).sum();
    let runs = u128::from(all.runs.max(1));
    let floor = u128::from(heat.hits_a_run) * runs;
    let mut bias = Bias::default();
    let mut below = 0_u128;
    let (mut spent, mut switched) = (of_locks(all), BTreeSet::new());
    for (Group { sites, hits, .. }, stretches) in shared {
        let part = |hits: u128| if sum == 0 { 0.0 } else { hits as f64 / sum as f64 };
        below += u128::from(hits);
        let proportion = part(u128::from(hits));
        let is_felt = u128::from(hits) > floor;
        let with = spent + cost(hits, switching.sum(stretches.difference(&switched)));
        let is_too_much = match all.time {
            0 => part(below) > heat.together && is_felt,
            time => with as f64 > time as f64 * heat.cost && with > floor * u128::from(ACCESS_NS),
        };
        if proportion > heat.proportion && is_felt || is_too_much {
            bias.left_out.push(GroupShare { proportion, sites, hits, hooks: switching.sum(&stretches) });
        } else {
            bias.kept.extend(sites);
            spent = with;
            switched.extend(stretches);
        }
    }
    bias.left_out.sort_by_key(|group| Reverse(group.cost()));
    bias
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{belonging, key, keys, some_invariants};
    use super::super::{Belonging, Section};
    use super::*;

    /// Unites until nothing changes.
    fn naive(all: &Invariants) -> Vec<BTreeSet<SiteKey>> {
        let mut sets: Vec<BTreeSet<SiteKey>> = Vec::new();
        for (key, site) in &all.sites {
            sets.push(site.members().into_iter().chain(&site.touches).chain([key]).cloned().collect());
        }
        while let Some((a, b)) =
            (0..sets.len()).flat_map(|a| (0..a).map(move |b| (a, b))).find(|(a, b)| !sets[*a].is_disjoint(&sets[*b]))
        {
            let other = sets.remove(a);
            sets[b].extend(other);
        }
        sets.sort();
        sets
    }

    proptest! {
        #[test]
        fn groups_are_the_naive_ones(all in some_invariants()) {
            let found: Vec<BTreeSet<SiteKey>> = groups(&all).into_iter().map(|group| group.sites).collect();
            prop_assert_eq!(found, naive(&all));
        }

        #[test]
        fn every_shared_site_is_kept_or_listed(all in some_invariants(), threshold in 0.0..1.0_f64) {
            let bias = bias(&all, threshold);
            let mut seen = bias.kept.clone();
            for group in &bias.left_out {
                prop_assert!(group.proportion > threshold);
                prop_assert!(group.sites.is_disjoint(&seen));
                seen.extend(group.sites.iter().cloned());
            }
            let shared: BTreeSet<SiteKey> =
                groups(&all).into_iter().filter(|group| group.is_shared).flat_map(|group| group.sites).collect();
            prop_assert_eq!(seen, shared);
            prop_assert!(bias.left_out.is_sorted_by(|a, b| a.proportion >= b.proportion));
        }
    }

    /// `a b` shared 60 times, `c` alone 900 times, `d e f` shared 40 times, `f` only through `e`.
    fn three() -> Invariants {
        let mut all = Invariants { runs: 2, ..Invariants::default() };
        let rows: [(&str, &[&str], &[&str], u64); 6] = [
            ("a", &[], &[], 20),
            ("b", &["a"], &[], 40),
            ("c", &[], &["c"], 900),
            ("d", &["e"], &[], 10),
            ("e", &[], &[], 10),
            ("f", &[], &["e"], 20),
        ];
        for (name, members, touches, hits) in rows {
            let site = Belonging { touches: keys(touches), hits, ..belonging(true, members) };
            all.sites.insert(key(name), site);
        }
        all
    }

    #[test]
    fn hot_groups_are_left_out_as_a_whole() {
        let rows = [
            (0.3, keys(&[]), vec![(0.6, 60), (0.4, 40)]),
            (0.5, keys(&["d", "e", "f"]), vec![(0.6, 60)]),
            (0.6, keys(&["a", "b", "d", "e", "f"]), vec![]),
            (1.0, keys(&["a", "b", "d", "e", "f"]), vec![]),
        ];
        for (threshold, kept, left_out) in rows {
            let bias = bias(&three(), threshold);
            assert_eq!(bias.kept, kept, "{threshold}");
            let shares: Vec<(f64, u64)> = bias.left_out.iter().map(|group| (group.proportion, group.hits)).collect();
            assert_eq!(shares, left_out, "{threshold}");
        }
    }

    #[test]
    fn what_hardly_runs_is_kept() {
        let at = |hits_a_run| {
            let heat = Heat { proportion: 0.3, hits_a_run, ..Heat::NONE };
            bias_by(&three(), heat, &Switching::default()).left_out.len()
        };
        assert_eq!((at(0), at(19), at(20), at(29), at(30)), (2, 2, 1, 1, 0));
        assert_eq!(bias_by(&three(), Heat::default(), &Switching::default()).left_out, []);
    }

    #[test]
    fn many_warm_groups_are_left_out_until_the_rest_is_small() {
        // Ten groups of one site each; the first has 1,000 accesses, the tenth 10,000.
        let sites = (1..=10_u64).map(|number| {
            let name = format!("s{number}");
            (key(&name), Belonging { hits: 1000 * number, ..belonging(true, &[&name]) })
        });
        let all = Invariants { runs: 1, sites: sites.collect(), ..Invariants::default() };
        let kept = |together, hits_a_run| {
            let heat = Heat { proportion: 0.3, together, hits_a_run, ..Heat::NONE };
            bias_by(&all, heat, &Switching::default()).kept.len()
        };
        // 1 + 2 + 3 of 55 are 11 %.
        let rows = [(1.0, 0, 10), (0.12, 0, 3), (0.05, 0, 1), (0.01, 0, 0), (0.01, 4000, 4), (0.01, 10_000, 10)];
        for (together, hits_a_run, expected) in rows {
            assert_eq!(kept(together, hits_a_run), expected, "{together} {hits_a_run}");
        }
    }

    #[test]
    fn where_the_time_is_known_the_hottest_go_until_the_rest_is_a_small_part_of_it() {
        let sites = (1..=10_u64).map(|number| {
            let name = format!("s{number}");
            (key(&name), Belonging { hits: 1000 * number, ..belonging(true, &[&name]) })
        });
        let all = Invariants { runs: 1, sites: sites.collect(), ..Invariants::default() };
        let kept = |time, cost, hits_a_run| {
            let all = Invariants { time, ..all.clone() };
            bias_by(&all, Heat { proportion: 0.3, cost, hits_a_run, ..Heat::NONE }, &Switching::default()).kept.len()
        };
        // 1,000 + 2,000 + 3,000 accesses take 120 microseconds.
        let rows = [
            (12_000_000, 0.01, 0, 3),
            (11_999_999, 0.01, 0, 2),
            (12_000_000, 1.0, 0, 10),
            (1, 0.01, 0, 0),
            // All together are fewer than can be felt, or are not.
            (1, 0.01, 55_000, 10),
            (1, 0.01, 54_999, 9),
            (0, 0.01, 0, 10),
        ];
        for (time, cost, hits_a_run, expected) in rows {
            assert_eq!(kept(time, cost, hits_a_run), expected, "{time} {cost} {hits_a_run}");
        }
    }

    #[test]
    fn what_makes_a_hot_function_run_with_hooks_is_left_out() {
        // Four groups of one site each that hardly run; the last is the hottest.
        let sites = (1..=4_u64).map(|number| {
            let name = format!("s{number}");
            (key(&name), Belonging { hits: number, ..belonging(true, &[&name]) })
        });
        let all = Invariants { runs: 1, time: 10_000_000, sites: sites.collect(), ..Invariants::default() };
        let by_site =
            |rows: &[(&str, &[u32])]| rows.iter().map(|(name, on)| (key(name), on.iter().copied().collect())).collect();
        let left = |by_site, hooks: &[u64]| {
            let switching = Switching { by_site, hooks: hooks.to_vec() };
            let heat = Heat { hits_a_run: 0, ..Heat { cost: 0.01, ..Heat::NONE } };
            let bias = bias_by(&all, heat, &switching);
            let first = |group: &GroupShare| (group.sites.first().cloned().expect("a site").0, group.hooks);
            bias.left_out.iter().map(first).collect::<Vec<_>>()
        };
        let named =
            |rows: &[(&str, u64)]| rows.iter().map(|(name, hooks)| ((*name).to_owned(), *hooks)).collect::<Vec<_>>();
        // 100 microseconds may be taken.
        assert_eq!(left(by_site(&[]), &[]), []);
        assert_eq!(left(by_site(&[("s2", &[0])]), &[330_000]), []);
        assert_eq!(left(by_site(&[("s2", &[0])]), &[336_000]), named(&[("s2", 336_000)]));
        // Two that switch the same function pay once; a third that does not fit is passed over.
        let three = by_site(&[("s1", &[0]), ("s2", &[0]), ("s3", &[0, 1]), ("s4", &[2])]);
        assert_eq!(left(three, &[200_000, 160_000, 30_000]), named(&[("s3", 360_000)]));
    }

    #[test]
    fn locks_are_paid_for_first() {
        // 10,000 accesses take 200 microseconds, 1,000 locks take 7.
        let kept = |time, entered| {
            let sites = [(key("s"), Belonging { hits: 10_000, ..belonging(true, &["s"]) })].into();
            let sections = [(key("l"), Section { entered, ..Section::default() })].into();
            let all = Invariants { runs: 1, time, sites, sections, ..Invariants::default() };
            let heat = Heat { cost: 0.01, ..Heat::NONE };
            !bias_by(&all, heat, &Switching::default()).kept.is_empty()
        };
        assert_eq!((kept(20_000_000, 0), kept(20_000_000, 1000), kept(21_000_000, 1000)), (true, false, true));
    }
}
