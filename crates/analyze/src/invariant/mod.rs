//! Anticipating invariants: which access may come right after which access of another thread.
//!
//! Paper: Zhang et al., "A Lightweight System for Detecting and Tolerating Concurrency Bugs" (TSE 2016), section 2. The
//! *remote predecessor* of an access is the last access to the same location by another thread, or *nil*; whether
//! they read or write does not matter. The *belonging set* of a site has every remote predecessor that its accesses
//! had in correct runs.
//!
//! Departures:
//! - A location is a byte: an access of several bytes has a predecessor for each, and all of them belong.
//! - Whether the thread itself has accessed the location since counts too: one bit of the context that the paper's section
//!   5.2.5 speaks of. What belongs right before need not belong with accesses of the thread's own in between.
//! - Memory that is freed begins anew, with nil.
//! - Sites are named by [`SiteKey`]s, which are the same after a rebuild of unchanged code.
//! - Variables that belong together have one *colour*: their accesses count as accesses to one location (the paper's
//!   section 5.2.5, after ColorSafe).
//!
//! [`learn`](mod@learn) takes them from a recorded run, [`converge`] says whether more runs would add to them, [`text`] is the file
//! that keeps them, [`group`] and [`select`] say which sites are worth guarding, and [`relax`](mod@relax) takes in what turned out
//! to be right.

pub mod converge;
mod disjoint;
pub mod doubt;
pub mod group;
mod key;
pub mod learn;
pub mod recorder;
pub mod relax;
pub mod select;
pub mod text;

pub mod accesses;
pub mod colour;
pub mod expose;
pub mod rivals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use disjoint::DisjointSites;
pub use learn::learn;
pub use relax::relax;

/// The name of a site that survives a rebuild of unchanged code, such as `bank.c:withdraw+3:12:w4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey(pub String);

impl fmt::Display for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belonging {
    /// What belongs right before: nobody else accessed the location in between. `None` is nil.
    pub direct: BTreeSet<Option<SiteKey>>,
    /// What belongs where the thread itself has accessed the location since.
    pub beyond: BTreeSet<Option<SiteKey>>,
    /// Sites that touched the same memory, as far as `members` does not say so: enough to know the site's group.
    pub touches: BTreeSet<SiteKey>,
    /// How often the site ran, over all runs.
    pub hits: u64,
    /// Whether the program asks that it be guarded (`selvedge.h`).
    pub asked: bool,
    /// Whether its set is known not to be whole ([`converge::unsettled`]): then it may follow anything.
    pub unsettled: bool,
}

/// Variables that belong together: accesses at these sites count as accesses to one location, found by adding the
/// number to the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour {
    /// What a person calls it: the variables.
    pub name: String,
    /// Its sites with their shifts in bytes.
    pub sites: BTreeMap<SiteKey, i32>,
}

/// What correct runs showed. Sets unite and counts add up, so merging is commutative and associative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invariants {
    /// The program's name, for people.
    pub program: String,
    /// Runs that it was learnt from.
    pub runs: u64,
    /// Processor time in nanoseconds that these runs would have taken by themselves, with nothing learnt; 0 where it is not known.
    pub time: u64,
    /// By function, the hooks that these runs would have met with all its accesses hooked; without functions that hardly run.
    pub hooks: BTreeMap<String, u64>,
    /// The sites.
    pub sites: BTreeMap<SiteKey, Belonging>,
    /// The colours that it was learnt with.
    pub colours: BTreeSet<Colour>,
    /// Critical sections, by the key of the call that takes the outermost lock.
    pub sections: BTreeMap<SiteKey, Section>,
}

/// What critical sections that begin at one call do first. A thread that must not do so yet had better wait before it
/// takes the lock: whom it waits for may need it (the paper's section 4.1 says so of exposing).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// How often it was entered.
    pub entered: u64,
    /// The sites that were the first to touch a location in it.
    pub first: BTreeMap<SiteKey, First>,
}

/// A site that is the first in a critical section to touch a location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// How often.
    pub count: u64,
    /// Bytes from the lock to the location; `None` where that varies.
    pub distance: Option<i64>,
}

impl Section {
    /// The sites that always come, at a place that is known when the lock is about to be taken.
    pub fn certain(&self) -> impl Iterator<Item = (&SiteKey, i64)> {
        let certain = |(key, first): (_, &First)| Some((key, first.distance.filter(|_| first.count == self.entered)?));
        self.first.iter().filter_map(certain)
    }

    fn merge(&mut self, other: &Section) {
        self.entered = self.entered.saturating_add(other.entered);
        for (key, from) in &other.first {
            match self.first.get_mut(key) {
                Some(known) => {
                    known.count = known.count.saturating_add(from.count);
                    known.distance = known.distance.filter(|distance| from.distance == Some(*distance));
                }
                None => drop(self.first.insert(key.clone(), *from)),
            }
        }
    }
}

impl Belonging {
    /// What belongs in either context.
    pub fn of(predecessors: impl IntoIterator<Item = Option<SiteKey>>) -> Belonging {
        let direct: BTreeSet<Option<SiteKey>> = predecessors.into_iter().collect();
        Belonging { beyond: direct.clone(), direct, ..Belonging::default() }
    }

    /// How many belong, each context by itself.
    pub fn len(&self) -> usize {
        self.direct.len() + self.beyond.len()
    }

    /// Whether nothing belongs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What belongs in some context: the paper's belonging set.
    pub fn predecessors(&self) -> BTreeSet<Option<&SiteKey>> {
        self.direct.iter().chain(&self.beyond).map(Option::as_ref).collect()
    }

    /// The sites that belong in some context.
    pub fn members(&self) -> BTreeSet<&SiteKey> {
        self.predecessors().into_iter().flatten().collect()
    }

    /// Whether a site, or nil, belongs in some context.
    pub fn has(&self, predecessor: Option<&SiteKey>) -> bool {
        self.allows(predecessor, false) || self.allows(predecessor, true)
    }

    /// Whether a site, or nil, belongs right before (`own` false) or with accesses of the thread's own in between.
    pub fn allows(&self, predecessor: Option<&SiteKey>, own: bool) -> bool {
        let context = if own { &self.beyond } else { &self.direct };
        context.contains(&predecessor.cloned())
    }

    /// Takes in what an access followed; false where that belonged already.
    pub fn add(&mut self, predecessor: Option<&SiteKey>, own: bool) -> bool {
        let context = if own { &mut self.beyond } else { &mut self.direct };
        context.insert(predecessor.cloned())
    }
}

impl Invariants {
    /// Takes in what other runs showed. The order of merging does not matter. Of two names of programs the first by
    /// spelling stays; colours are only told, so merge what was learnt with the same ones.
    pub fn merge(&mut self, other: &Invariants) {
        let is_better = self.program.is_empty() || !other.program.is_empty() && other.program < self.program;
        if is_better {
            self.program.clone_from(&other.program);
        }
        self.runs = self.runs.saturating_add(other.runs);
        self.time = self.time.saturating_add(other.time);
        for (function, hooks) in &other.hooks {
            let known = self.hooks.entry(function.clone()).or_default();
            *known = known.saturating_add(*hooks);
        }
        self.colours.extend(other.colours.iter().cloned());
        for (key, from) in &other.sections {
            self.sections.entry(key.clone()).or_default().merge(from);
        }
        for (key, from) in &other.sites {
            let site = self.sites.entry(key.clone()).or_default();
            site.direct.extend(from.direct.iter().cloned());
            site.beyond.extend(from.beyond.iter().cloned());
            site.touches.extend(from.touches.iter().cloned());
            site.asked |= from.asked;
            site.unsettled |= from.unsettled;
            site.hits = site.hits.saturating_add(from.hits);
        }
    }

    /// How many members all sets have, with nil, each context by itself.
    pub fn members(&self) -> usize {
        self.sites.values().map(Belonging::len).sum()
    }

    /// How many members of `of` are not members here: what merging it would add.
    pub fn new_members(&self, of: &Invariants) -> usize {
        let nothing = Belonging::default();
        let new = of.sites.iter().map(|(key, from)| {
            let known = self.sites.get(key).unwrap_or(&nothing);
            from.direct.difference(&known.direct).count() + from.beyond.difference(&known.beyond).count()
        });
        new.sum()
    }

    /// Drops every touch that is not needed to know the groups, the same ones always.
    pub fn normalise(&mut self) {
        let mut sets = DisjointSites::of_members(self);
        for (key, site) in &mut self.sites {
            site.touches.retain(|other| sets.unite(key, other));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn key(name: &str) -> SiteKey {
        SiteKey(name.to_owned())
    }

    pub(crate) fn keys(names: &[&str]) -> BTreeSet<SiteKey> {
        names.iter().map(|name| key(name)).collect()
    }

    /// What belongs in either context.
    pub(crate) fn belonging(nil: bool, members: &[&str]) -> Belonging {
        Belonging::of(nil.then_some(None).into_iter().chain(members.iter().map(|name| Some(key(name)))))
    }

    /// Few names, so that they meet.
    pub(crate) fn some_key() -> impl Strategy<Value = SiteKey> {
        (0..12_u8).prop_map(|number| SiteKey(format!("f.c:g+{number}:1:w4")))
    }

    fn some_site() -> impl Strategy<Value = Belonging> {
        let some = || btree_set(proptest::option::of(some_key()), 0..4);
        (some(), some(), btree_set(some_key(), 0..3), 0..1000_u64).prop_map(|(direct, beyond, touches, hits)| {
            Belonging { direct, beyond, touches, hits, asked: hits % 2 == 1, unsettled: hits % 3 == 1 }
        })
    }

    pub(crate) fn some_invariants() -> impl Strategy<Value = Invariants> {
        let colours = btree_map(some_key(), -64..64_i32, 1..3);
        let colours = btree_set(("[a-z]{1,3}", colours).prop_map(|(name, sites)| Colour { name, sites }), 0..2);
        ("[ab]{0,2}", (0..9_u64, 0..9_u64), btree_map(some_key(), some_site(), 0..10), colours).prop_map(
            |(program, (runs, time), sites, colours)| {
                let sections = sections(&sites);
                let hooks = sites.iter().map(|(key, site)| (key.0.clone(), site.hits)).collect();
                Invariants { program, runs, time, hooks, sites, colours, sections }
            },
        )
    }

    /// Some sections of these sites.
    fn sections(sites: &BTreeMap<SiteKey, Belonging>) -> BTreeMap<SiteKey, Section> {
        let first = |(key, site): (&SiteKey, &Belonging)| {
            let distance = (site.hits % 3 != 0).then_some(site.hits as i64 - 500);
            (key.clone(), First { count: site.hits % 4, distance })
        };
        let section = |name: &str| (key(name), Section { entered: 3, first: sites.iter().map(first).collect() });
        [section("f.c:g+1:2:lock"), section("f.c:h+1:2:lock")].into_iter().filter(|_| !sites.is_empty()).collect()
    }

    fn merged(of: &[&Invariants]) -> Invariants {
        of.iter().fold(Invariants::default(), |mut all, one| {
            all.merge(one);
            all
        })
    }

    proptest! {
        #[test]
        fn merging_has_no_order(runs in vec(some_invariants(), 3), swap in 0..3_usize) {
            let [a, b, c] = &runs[..] else { unreachable!("three were made") };
            let mut grouped = b.clone();
            grouped.merge(c);
            prop_assert_eq!(merged(&[a, &grouped]), merged(&[a, b, c]));
            let mut order = [a, b, c];
            order.swap(swap, (swap + 1) % 3);
            prop_assert_eq!(merged(&order), merged(&[a, b, c]));
        }

        #[test]
        fn what_is_known_adds_no_member(a in some_invariants(), b in some_invariants()) {
            let both = merged(&[&a, &b]);
            prop_assert_eq!(both.members(), a.members() + a.new_members(&b));
            prop_assert_eq!(both.new_members(&a) + both.new_members(&b), 0);
            let again = merged(&[&both, &a]);
            let sets = |all: &Invariants| all.sites.iter().map(|(key, site)| {
                (key.clone(), site.direct.clone(), site.beyond.clone(), site.touches.clone())
            }).collect::<Vec<_>>();
            prop_assert_eq!(sets(&again), sets(&both));
        }

        #[test]
        fn normalising_keeps_the_groups(mut all in some_invariants()) {
            let before = group::groups(&all);
            all.normalise();
            prop_assert_eq!(&group::groups(&all), &before);
            let once = all.clone();
            all.normalise();
            prop_assert_eq!(&all, &once);
            // No touch can go any more.
            for (key, site) in &once.sites {
                for other in &site.touches {
                    let mut less = once.clone();
                    less.sites.entry(key.clone()).or_default().touches.remove(other);
                    prop_assert_ne!(&group::groups(&less), &before);
                }
            }
        }
    }

    #[test]
    fn merging_unites_and_adds_up() {
        let site = |nil: bool, members: &[&str], hits| Belonging { hits, ..belonging(nil, members) };
        let of = |runs, sites: [(&str, Belonging); 1]| Invariants {
            hooks: BTreeMap::new(),
            program: "bank".to_owned(),
            runs,
            time: runs * 5,
            sites: sites.into_iter().map(|(name, site)| (key(name), site)).collect(),
            colours: BTreeSet::new(),
            sections: BTreeMap::new(),
        };
        let (a, b) = (of(2, [("s", site(true, &["p"], 5))]), of(1, [("s", site(false, &["q", "p"], 7))]));
        assert_eq!(a.new_members(&b), 2, "in two contexts");
        assert_eq!(b.new_members(&a), 2);
        assert_eq!(merged(&[&a, &b]), of(3, [("s", site(true, &["p", "q"], 12))]));
    }
}
