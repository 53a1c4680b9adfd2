//! AVIO: two consecutive accesses of a thread to a location are not interleaved by an access of another thread that cannot be
//! moved out of the way (Lu et al., ASPLOS 2006; here as in Zhang et al., TSE 2016, section 5.2.1).
//!
//! With the remote access in the middle, `R-W-R`, `W-W-R`, `W-R-W` and `R-W-W` are unserializable. A pair of sites that was never
//! so interleaved in correct runs is an invariant, which is checked at the second access.
//!
//! Departures:
//! - Every access of other threads in between counts, not only the last: so do the paper's cache-line bits, and a
//!   trace loses none.
//! - An update is a read and a write: it is unserializable in the middle, before or after where either of them is.
//! - The paper's training counts how often a pair is checked before it trusts it. One correct run is enough here, as for the
//!   other invariants, so that all are compared on the same runs.

use std::collections::BTreeMap;

use super::view::{View, views};
use super::{Invariant, Violation};
use crate::invariant::accesses::Access;

/// Which pairs of sites were interleaved unserializably.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Avio {
    /// By first and second site: whether no interleaving was unserializable.
    pub pairs: BTreeMap<(u32, u32), bool>,
}

/// The pair that ends here, and whether it is interleaved unserializably.
fn pair(access: &Access, view: &View) -> Option<((u32, u32), bool)> {
    let local = view.local?;
    let broken = view.write_between && (access.read || local.read) || view.read_between && local.write && access.write;
    Some(((local.site, access.site), broken))
}

impl Invariant for Avio {
    fn name(&self) -> &'static str {
        "AVIO"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            if let Some((sites, broken)) = pair(access, &view) {
                *self.pairs.entry(sites).or_insert(true) &= !broken;
            }
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let (sites, broken) = pair(access, &view)?;
            let held = *self.pairs.get(&sites)?;
            // What came in between has happened.
            (held && broken).then(|| Violation::of(number, access, false))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::rivals::table::run;

    #[test]
    fn unserializable_are_four_of_eight() {
        for (text, broken) in [
            ("1r1 2r3 1r2", false),
            ("1r1 2r3 1w2", false),
            ("1w1 2r3 1r2", false),
            ("1w1 2r3 1w2", true),
            ("1r1 2w3 1r2", true),
            ("1r1 2w3 1w2", true),
            ("1w1 2w3 1r2", true),
            ("1w1 2w3 1w2", false),
            // An update in the middle reads and writes; others may follow it.
            ("1w1 2u3 1w2", true),
            ("1r1 2w3 2r4 1r2", true),
            ("1u1 2w3 1w2", true),
            ("1w1 2r3 1u2", true),
            ("1r1 2r3 1u2", false),
        ] {
            let mut avio = Avio::default();
            avio.learn(&run(text));
            assert_eq!(avio.pairs.get(&(1, 2)), Some(&!broken), "{text}");
        }
    }

    #[test]
    fn a_pair_that_was_broken_once_is_no_invariant() {
        let mut avio = Avio::default();
        avio.learn(&run("1r1 1r2"));
        assert_eq!(
            avio.first_violation(&run("1r1 2w3 1r2")).map(|found| (found.access, found.before)),
            Some((2, false))
        );
        avio.learn(&run("1r1 2w3 1r2"));
        avio.learn(&run("1r1 1r2"));
        assert_eq!(avio.first_violation(&run("1r1 2w3 1r2")), None);
    }
}
