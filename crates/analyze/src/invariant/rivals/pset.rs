//! PSet: the access that an access immediately depends on, if it is another thread's, was seen there in correct runs (Yu and
//! Narayanasamy, ISCA 2009; here as Zhang et al. describe it, TSE 2016, section 5.2.4).
//!
//! An access depends on the last one to its location where one of the two writes. Where the last one is the thread's own, or both
//! only read, or there is none, nothing is constrained.
//!
//! Departures:
//! - "Immediately" is as in the TSE paper: an access of *any* thread in between ends the dependence. The ISCA paper speaks of the
//!   two threads of the pair only; with two threads the readings agree.
//! - The ISCA hardware stalls or rolls back. Here a violation is only said; roll-back is what the comparison does without.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{View, views};
use super::{Invariant, Violation};
use crate::invariant::accesses::Access;

/// Predecessor sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PSet {
    /// By site: the sites of other threads that it may immediately depend on.
    pub sets: BTreeMap<u32, BTreeSet<u32>>,
}

/// The site of another thread that an access immediately depends on.
fn depends_on(access: &Access, view: &View) -> Option<u32> {
    let last = view.last.filter(|last| last.thread != access.thread)?;
    (last.write || access.write).then_some(last.site)
}

impl Invariant for PSet {
    fn name(&self) -> &'static str {
        "PSet"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            self.sets.entry(access.site).or_default().extend(depends_on(access, &view));
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let on = depends_on(access, &view)?;
            let fits = self.sets.get(&access.site)?.contains(&on);
            (!fits).then(|| Violation::of(number, access, true))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::rivals::table::run;

    #[test]
    fn depends_on_the_very_last_access_of_another_thread() {
        for (text, on) in [
            ("1w1 2r9", Some(1)),
            ("1r1 2w9", Some(1)),
            ("1r1 2r9", None),
            ("1w1 2r2 2r9", None),
            ("1w1 3r2 2r9", None),
            ("1w1 3r2 2w9", Some(2)),
            ("2w9", None),
        ] {
            let mut pset = PSet::default();
            pset.learn(&run(text));
            assert_eq!(pset.sets.get(&9).map(|set| set.iter().copied().collect::<Vec<_>>()), Some(Vec::from_iter(on)));
        }
    }
}
