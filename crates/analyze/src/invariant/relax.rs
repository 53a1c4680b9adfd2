//! Violations that were no bug become members. Paper: section 3.3, "update the relevant AI to green-light this new
//! interleaving in future runs".

use super::{Invariants, SiteKey};

/// Adds what a run that turned out to be right did: each site with the access that it followed, or nil, in either context.
/// Returns how many members are new.
pub fn relax(all: &mut Invariants, violations: &[(SiteKey, Option<SiteKey>)]) -> usize {
    let mut added = 0;
    for (site, predecessor) in violations {
        let site = all.sites.entry(site.clone()).or_default();
        for own in [false, true] {
            added += usize::from(site.add(predecessor.as_ref(), own));
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::super::tests::{some_invariants, some_key};
    use super::*;

    proptest! {
        #[test]
        fn what_was_relaxed_belongs(mut all in some_invariants(), seen in vec((some_key(), option::of(some_key())), 0..8)) {
            let before = all.clone();
            let added = relax(&mut all, &seen);
            prop_assert_eq!(added, all.members() - before.members());
            prop_assert!(seen.iter().all(|(site, by)| all.sites[site].has(by.as_ref())));
            prop_assert_eq!(all.new_members(&before), 0);
            prop_assert_eq!(relax(&mut all, &seen), 0);
        }
    }
}
