//! CCI: whether others were here in between is as it was in correct runs (Jin et al., OOPSLA 2010; here as in Zhang et al.,
//! TSE 2016, section 5.2.3).
//!
//! - [`Prev`]: was the last access to this location another thread's?
//! - [`Havoc`]: did the value change since this thread's last access to this location?
//!
//! Departures:
//! - CCI samples predicates and ranks them over many failing and passing runs. Here an answer that no correct run gave at a site is
//!   a violation, as it has to be to compare them: nobody has failing runs of a bug that is to be tolerated.
//! - Who is first at a location finds no other thread before it: the answer of [`Prev`] is no. (As in CCI's table, where an
//!   address that is not in it counts as the thread's own.)
//! - A value counts as changed where another thread wrote, with the same value or not: accesses have no values here.

use std::collections::BTreeMap;

use super::dui::earliest;
use super::view::views;
use super::{Answers, Invariant, Violation};
use crate::invariant::accesses::Access;

/// Whether the last access was another thread's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prev {
    remote: BTreeMap<u32, Answers>,
}

impl Invariant for Prev {
    fn name(&self) -> &'static str {
        "CCI-Prev"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            let remote = view.last.is_some_and(|last| last.thread != access.thread);
            self.remote.entry(access.site).or_default().add(remote);
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let remote = view.last.is_some_and(|last| last.thread != access.thread);
            // Another thread can still come, but not have stayed away.
            self.remote.get(&access.site)?.excludes(remote).then(|| Violation::of(number, access, !remote))
        })
    }
}

/// Whether the value changed since the thread's last access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Havoc {
    changed: BTreeMap<u32, Answers>,
}

impl Invariant for Havoc {
    fn name(&self) -> &'static str {
        "CCI-Havoc"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run).filter(|(_, _, view)| view.local.is_some()) {
            self.changed.entry(access.site).or_default().add(view.write_between);
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).filter(|(_, _, view)| view.local.is_some()).find_map(|(number, access, view)| {
            let changed = view.write_between;
            self.changed.get(&access.site)?.excludes(changed).then(|| Violation::of(number, access, !changed))
        })
    }
}

/// Both; the first that is violated counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cci {
    /// CCI-Prev.
    pub prev: Prev,
    /// CCI-Havoc.
    pub havoc: Havoc,
}

impl Invariant for Cci {
    fn name(&self) -> &'static str {
        "CCI"
    }

    fn learn(&mut self, run: &[Access]) {
        self.prev.learn(run);
        self.havoc.learn(run);
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        let parts: [&dyn Invariant; 2] = [&self.prev, &self.havoc];
        earliest(parts.iter().filter_map(|part| part.first_violation(run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::rivals::table::run;

    #[test]
    fn prev_waits_for_others_but_not_for_solitude() {
        let mut prev = Prev::default();
        prev.learn(&run("1w1 1r2 2r3"));
        let found = |text: &str| prev.first_violation(&run(text)).map(|found| (found.access, found.before));
        assert_eq!(found("2r3"), Some((0, true)));
        assert_eq!(found("1w1 2r3 1r2"), Some((2, false)));
        assert_eq!(found("1w1 1r2 2r3 2r9"), None);
    }

    #[test]
    fn havoc_is_a_write_of_another_thread() {
        let mut havoc = Havoc::default();
        havoc.learn(&run("1r1 1r2 2w3 1r4"));
        let found = |text: &str| havoc.first_violation(&run(text)).map(|found| (found.access, found.before));
        assert_eq!(found("1r1 2w3 1r2"), Some((2, false)));
        assert_eq!(found("1r1 2r3 1r2"), None);
        assert_eq!(found("1r1 1r4"), Some((1, true)));
        assert_eq!(found("1r4 2w3 1r1"), None, "no correct run asked there");
    }
}
