//! DUI, definition-use invariants: a read sees a definition of the sort that it saw in correct runs (Shi et al., OOPSLA 2010; here
//! as in Zhang et al., TSE 2016, section 5.2.2). A *definition* is the last write to the location.
//!
//! - [`LocalRemote`] (LR): a read that only saw definitions of its own thread, or only of others, goes on so.
//! - [`Follower`]: a read that always saw the same definition as its thread's read before it goes on so.
//! - [`DefinitionSet`] (DSet): a read sees the writes that it saw.
//!
//! Departures:
//! - What was there at the beginning is no definition: a read of it fits LR and DSet always. (The TSE paper needs it so:
//!   order violations are found only "if there exists another leading write".) For a follower it is one.
//! - The OOPSLA paper ranks and prunes what it reports by how often a read ran. Nothing is pruned here: the first
//!   violation is what a tool would have to act on.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{View, views};
use super::{Answers, Invariant, Violation};
use crate::invariant::accesses::Access;

/// Whether reads see definitions of their own thread or of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRemote {
    /// By site: whether its definitions were local.
    local: BTreeMap<u32, Answers>,
}

impl LocalRemote {
    fn is_local(access: &Access, view: &View) -> Option<bool> {
        view.definition.filter(|_| access.read).map(|write| write.thread == access.thread)
    }
}

impl Invariant for LocalRemote {
    fn name(&self) -> &'static str {
        "DUI-LR"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            if let Some(local) = LocalRemote::is_local(access, &view) {
                self.local.entry(access.site).or_default().add(local);
            }
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let local = LocalRemote::is_local(access, &view)?;
            // Another thread can overwrite what is local, but not make it local.
            self.local.get(&access.site)?.excludes(local).then(|| Violation::of(number, access, local))
        })
    }
}

/// Whether reads see what their thread's read before them saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follower {
    /// By site: whether it always did.
    pub follows: BTreeMap<u32, bool>,
}

impl Follower {
    fn follows(access: &Access, view: &View) -> Option<bool> {
        let seen = view.seen.filter(|_| access.read)?;
        Some(seen == view.definition.map(|write| write.number))
    }
}

impl Invariant for Follower {
    fn name(&self) -> &'static str {
        "DUI-Follower"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            if let Some(follows) = Follower::follows(access, &view) {
                *self.follows.entry(access.site).or_insert(true) &= follows;
            }
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let follows = Follower::follows(access, &view)?;
            let always = *self.follows.get(&access.site)?;
            (always && !follows).then(|| Violation::of(number, access, false))
        })
    }
}

/// Which writes reads see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionSet {
    /// By site of a read: the sites of the writes.
    pub sets: BTreeMap<u32, BTreeSet<u32>>,
}

impl Invariant for DefinitionSet {
    fn name(&self) -> &'static str {
        "DUI-DSet"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run).filter(|(_, access, _)| access.read) {
            self.sets.entry(access.site).or_default().extend(view.definition.map(|write| write.site));
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).filter(|(_, access, _)| access.read).find_map(|(number, access, view)| {
            let fits = self.sets.get(&access.site)?.contains(&view.definition?.site);
            (!fits).then(|| Violation::of(number, access, true))
        })
    }
}

/// All three; the first that is violated counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dui {
    /// LR.
    pub local_remote: LocalRemote,
    /// Follower.
    pub follower: Follower,
    /// DSet.
    pub definition_set: DefinitionSet,
}

impl Invariant for Dui {
    fn name(&self) -> &'static str {
        "DUI"
    }

    fn learn(&mut self, run: &[Access]) {
        self.local_remote.learn(run);
        self.follower.learn(run);
        self.definition_set.learn(run);
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        let parts: [&dyn Invariant; 3] = [&self.local_remote, &self.follower, &self.definition_set];
        earliest(parts.iter().filter_map(|part| part.first_violation(run)))
    }
}

/// The first violation; of several at one access, one that waiting can help only where it can help all.
pub(super) fn earliest(all: impl Iterator<Item = Violation>) -> Option<Violation> {
    all.min_by_key(|violation| (violation.access, violation.before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::rivals::table::run;

    fn found(invariant: &impl Invariant, text: &str) -> Option<(usize, bool)> {
        invariant.first_violation(&run(text)).map(|found| (found.access, found.before))
    }

    fn learnt<I: Invariant + Default>(runs: &[&str]) -> I {
        let mut invariant = I::default();
        for text in runs {
            invariant.learn(&run(text));
        }
        invariant
    }

    #[test]
    fn local_and_remote_definitions() {
        let local: LocalRemote = learnt(&["1w1 1r2"]);
        assert_eq!(found(&local, "1w1 2w3 1r2"), Some((2, false)));
        let remote: LocalRemote = learnt(&["2w3 1r2"]);
        assert_eq!(found(&remote, "1w1 1r2"), Some((1, true)));
        assert_eq!(found(&remote, "1r2"), None, "the beginning is no definition");
        let both: LocalRemote = learnt(&["2w3 1r2", "1w1 1r2"]);
        assert_eq!(found(&both, "1w1 1r2"), None);
    }

    #[test]
    fn followers() {
        let follower: Follower = learnt(&["1r1 1r2", "2w3 1r1 1r2"]);
        assert_eq!(found(&follower, "1r1 2w3 1r2"), Some((2, false)), "the beginning is a definition");
        assert_eq!(found(&follower, "2w3 1r2"), None, "nothing was read before");
        let none: Follower = learnt(&["1r1 2w3 1r2"]);
        assert_eq!(found(&none, "1r1 2w3 1r2"), None);
    }

    #[test]
    fn definition_sets() {
        let sets: DefinitionSet = learnt(&["1w1 2r2", "2r2"]);
        assert_eq!(found(&sets, "1w1 1w3 2r2"), Some((2, true)));
        assert_eq!(found(&sets, "1w1 1w3 1w1 2r2"), None);
        assert_eq!(found(&sets, "1w3 2r9"), None, "no correct run was there");
    }
}
