//! Members that luck taught: a run may meet the order that a bug needs, and still pass.
//!
//! The paper learns from every run that passes (section 3.2). Runs of a program with a bug, under schedules that are made to
//! be unkind, pass now and then although the order that does the harm has happened: then that order would belong.
//! Runs that fail tell: what they nearly all show and runs that pass hardly ever do is doubted, and left out. A program
//! whose runs all pass has no doubts. What is left out costs a stall where it was right after all, never more.

use std::collections::BTreeMap;

use super::{Invariants, SiteKey};

/// Failing runs that must have shown a member before it is doubted.
const FAILING: u64 = 3;
/// How much more of the failing runs than of the passing ones must show it.
const MORE: u64 = 5;
/// Of so many passing runs, at most one may show it.
const RARE: u64 = 10;

/// A member: the site, what it followed, and whether with accesses of the thread's own in between.
type Member = (SiteKey, Option<SiteKey>, bool);

/// Which runs showed which members.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    passed: u64,
    failed: u64,
    /// Passing and failing runs.
    seen: BTreeMap<Member, (u64, u64)>,
}

impl Doubts {
    /// Takes in what one run showed.
    pub fn see(&mut self, run: &Invariants, passed: bool) {
        *(if passed { &mut self.passed } else { &mut self.failed }) += 1;
        for (key, site) in &run.sites {
            let direct = site.direct.iter().map(|one| (one, false));
            for (one, own) in direct.chain(site.beyond.iter().map(|one| (one, true))) {
                let (pass, fail) = self.seen.entry((key.clone(), one.clone(), own)).or_default();
                *(if passed { pass } else { fail }) += 1;
            }
        }
    }

    /// Leaves out what is doubted; answers how many members that were.
    pub fn leave_out(&self, all: &mut Invariants) -> usize {
        let is_doubted = |(pass, fail): (u64, u64)| {
            fail >= FAILING && pass * RARE <= self.passed && fail * self.passed > MORE * pass * self.failed
        };
        let mut left = 0;
        for ((key, one, own), _) in self.seen.iter().filter(|(_, seen)| is_doubted(**seen)) {
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
        let mut see = |members: &[&str], passed: bool, times: usize| {
            for _ in 0..times {
                doubts.see(&run(members), passed);
                if passed {
                    all.merge(&run(members));
                }
            }
        };
        see(&["usual"], true, 97);
        // By luck, and rare in both.
        see(&["usual", "turning"], true, 2);
        see(&["usual", "rare"], true, 1);
        see(&["usual", "turning"], false, 40);
        see(&["usual", "turning", "rare"], false, 1);
        assert_eq!(doubts.leave_out(&mut all), 1);
        let left: Vec<String> = all.sites[&key("s")].members().into_iter().map(|one| one.0.clone()).collect();
        assert_eq!(left, ["rare", "usual"]);
    }

    #[test]
    fn without_failing_runs_nothing_is_doubted() {
        let mut doubts = Doubts::default();
        let mut all = run(&["once"]);
        doubts.see(&all, true);
        (0..1000).for_each(|_| doubts.see(&run(&["usual"]), true));
        assert_eq!(doubts.leave_out(&mut all), 0);
        assert_eq!(all.members(), 1);
    }
}
