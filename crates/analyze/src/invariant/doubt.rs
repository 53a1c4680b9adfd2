//! Members that luck taught: a run may meet the order that a bug needs, and still pass.
//!
//! The paper learns from every run that passes (section 3.2). Runs of a program with a bug, under schedules that are made to
//! be unkind, pass now and then although the order that does the harm has happened: then that order would belong.
//! Runs that fail tell: what they nearly all show and runs that pass hardly ever do is doubted, and left out. A program
//! whose runs all pass has no doubts. What is left out costs a stall where it was right after all, never more.
//!
//! The order that a free run notes need not be the order that it had: a hook comes before its access, and another thread may come in
//! between. So what no run with an exact order (one under control) shows that passed, free runs show rarely, and a failing run shows, is
//! doubted too.

use std::collections::BTreeMap;

use super::{Invariants, SiteKey};

/// Failing runs that must have shown a member before it is doubted.
const FAILING: u64 = 3;
/// How much more of the failing runs than of the passing ones must show it.
const MORE: u64 = 5;
/// Of so many passing runs, at most one may show it.
const RARE: u64 = 10;
/// The same, of free runs that passed, for what no passing run under control shows.
const RARE_FREE: u64 = 20;

/// What so many passing runs show, or fewer, hardly any does.
const HARDLY: u64 = 3;

/// How a run was made that passed, or that it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showed {
    /// It passed, and the order that it noted is the one that it had.
    PassedExact,
    /// It passed, and the order that it noted may not be.
    PassedFree,
    /// It failed.
    Failed,
}

/// How many runs of each sort.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    exact: u64,
    free: u64,
    failed: u64,
}

impl Runs {
    fn add(&mut self, showed: Showed) {
        match showed {
            Showed::PassedExact => self.exact += 1,
            Showed::PassedFree => self.free += 1,
            Showed::Failed => self.failed += 1,
        }
    }

    fn passed(self) -> u64 {
        self.exact + self.free
    }

    /// Whether what was shown by so many of all runs is doubted.
    fn is_doubted(self, all: Runs) -> bool {
        let by_failing = self.failed >= FAILING
            && self.passed() * RARE <= all.passed()
            && self.failed * all.passed() > MORE * self.passed() * all.failed;
        let by_order = self.failed > 0 && self.exact == 0 && all.exact > 0 && self.free * RARE_FREE <= all.free;
        by_failing || by_order
    }
}

/// A member: the site, what it followed, and whether with accesses of the thread's own in between.
type Member = (SiteKey, Option<SiteKey>, bool);

/// Which runs showed which members.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    all: Runs,
    seen: BTreeMap<Member, Runs>,
}

impl Doubts {
    /// Takes in what one run showed.
    pub fn see(&mut self, run: &Invariants, showed: Showed) {
        self.all.add(showed);
        for (key, site) in &run.sites {
            let direct = site.direct.iter().map(|one| (one, false));
            for (one, own) in direct.chain(site.beyond.iter().map(|one| (one, true))) {
                self.seen.entry((key.clone(), one.clone(), own)).or_default().add(showed);
            }
        }
    }

    /// Passing runs, and those that failed.
    pub fn runs(&self) -> (u64, u64) {
        (self.all.passed(), self.all.failed)
    }

    /// By site, how many members hardly any passing run showed, without those that were known before.
    pub fn rare(&self, known: &Invariants) -> BTreeMap<SiteKey, u64> {
        let mut rare: BTreeMap<SiteKey, u64> = BTreeMap::new();
        for ((key, one, own), runs) in &self.seen {
            let is_known = known.sites.get(key).is_some_and(|site| site.allows(one.as_ref(), *own));
            if (1..=HARDLY).contains(&runs.passed()) && !is_known {
                *rare.entry(key.clone()).or_default() += 1;
            }
        }
        rare
    }

    /// Leaves out what is doubted; answers how many members that were.
    pub fn leave_out(&self, all: &mut Invariants) -> usize {
        let mut left = 0;
        for ((key, one, own), _) in self.seen.iter().filter(|(_, seen)| seen.is_doubted(self.all)) {
            if let Some(site) = all.sites.get_mut(key) {
                let context = if *own { &mut site.beyond } else { &mut site.direct };
                left += usize::from(context.remove(one));
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::key;
    use super::*;

    fn run(members: &[&str]) -> Invariants {
        let mut all = Invariants { runs: 1, ..Invariants::default() };
        let site = all.sites.entry(key("s")).or_default();
        for member in members {
            site.add(Some(&key(member)), false);
        }
        all
    }

    #[test]
    fn what_failing_runs_show_and_passing_ones_hardly_is_left_out() {
        let mut doubts = Doubts::default();
        let mut all = Invariants::default();
        let mut see = |members: &[&str], showed: Showed, times: usize| {
            for _ in 0..times {
                doubts.see(&run(members), showed);
                if showed != Showed::Failed {
                    all.merge(&run(members));
                }
            }
        };
        see(&["usual"], Showed::PassedExact, 97);
        // By luck, and rare in both.
        see(&["usual", "turning"], Showed::PassedExact, 2);
        see(&["usual", "rare"], Showed::PassedExact, 1);
        see(&["usual", "turning"], Showed::Failed, 40);
        see(&["usual", "turning", "rare"], Showed::Failed, 1);
        assert_eq!(doubts.leave_out(&mut all), 1);
        let left: Vec<String> = all.sites[&key("s")].members().into_iter().map(|one| one.0.clone()).collect();
        assert_eq!(left, ["rare", "usual"]);
    }

    #[test]
    fn what_hardly_any_passing_run_showed_is_rare_unless_it_was_known() {
        let mut doubts = Doubts::default();
        doubts.see(&run(&["usual", "once", "known"]), Showed::PassedFree);
        (0..3).for_each(|_| doubts.see(&run(&["usual", "other"]), Showed::PassedExact));
        doubts.see(&run(&["usual", "failing"]), Showed::Failed);
        assert_eq!(doubts.runs(), (4, 1));
        assert_eq!(doubts.rare(&run(&["known"])), [(key("s"), 2)].into());
        assert_eq!(doubts.rare(&run(&["known", "once", "other"])), BTreeMap::new());
    }

    #[test]
    fn without_failing_runs_nothing_is_doubted() {
        let mut doubts = Doubts::default();
        let mut all = run(&["once"]);
        doubts.see(&all, Showed::PassedFree);
        (0..1000).for_each(|_| doubts.see(&run(&["usual"]), Showed::PassedExact));
        assert_eq!(doubts.leave_out(&mut all), 0);
        assert_eq!(all.members(), 1);
    }

    #[test]
    fn what_a_free_run_noted_and_no_exact_one_is_doubted_where_a_failing_run_shows_it() {
        let left = |exact: usize, free: usize| {
            let mut doubts = Doubts::default();
            let mut all = run(&["usual", "turning"]);
            let mut see = |members: &[&str], showed, times| (0..times).for_each(|_| doubts.see(&run(members), showed));
            see(&["usual"], Showed::PassedExact, 50);
            see(&["usual"], Showed::PassedFree, 50);
            see(&["usual", "turning"], Showed::PassedExact, exact);
            see(&["usual", "turning"], Showed::PassedFree, free);
            see(&["usual", "turning"], Showed::Failed, 1);
            doubts.leave_out(&mut all)
        };
        assert_eq!((left(0, 1), left(1, 1), left(0, 10)), (1, 0, 0));
    }
}
