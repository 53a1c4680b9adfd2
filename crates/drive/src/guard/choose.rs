//! Which sites of the invariants are guarded: those that a person asks for, of groups that threads share and that are not
//! too hot. What the program asks for (`selvedge.h`) is guarded however hot it is.

use std::collections::BTreeSet;

use selvedge_analyze::invariant::group::{GroupShare, Heat, Switching, bias_by, groups};
use selvedge_analyze::invariant::select::{Selection, loosened, restrict};
use selvedge_analyze::invariant::{Invariants, SiteKey};

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// When a group is too hot; `None` where none is.
    pub heat: Option<Heat>,
    /// What code is switched, where that is to count as heat.
    pub switching: Switching,
    /// Sites by name.
    pub selection: Selection,
    /// Nothing but what the program asks for, and what touches the same memory.
    pub asked_only: bool,
}

/// What is guarded, and why not the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// What is known of the sites that are guarded.
    pub invariants: Invariants,
    /// Groups that are too hot.
    pub left_out: Vec<GroupShare>,
    /// Sites of groups that no two threads touched.
    pub unshared: usize,
    /// Sites that may follow anything, because what they followed is not guarded.
    pub loosened: BTreeSet<SiteKey>,
    /// What guarding takes, as a part of the program's own time, where nothing was left that takes as little as was asked for.
    pub costs: Option<f64>,
}

/// Parts of the program's own time that guarding may take where nothing is left that takes less. What is estimated is mostly more than
/// what is felt: beyond the last, a program would take twice as long or longer.
const MORE: [f64; 7] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];

/// Chooses.
pub fn choose(all: &Invariants, choice: &Choice) -> Chosen {
    let heat = choice.heat.unwrap_or(Heat::NONE);
    let mut bias = bias_by(all, heat, &choice.switching);
    let mut costs = None;
    for cost in MORE.into_iter().filter(|cost| *cost > heat.cost && all.time > 0) {
        if !bias.kept.is_empty() {
            break;
        }
        bias = bias_by(all, Heat { cost, ..heat }, &choice.switching);
        costs = (!bias.kept.is_empty()).then_some(cost);
    }
    let is_asked =
        |sites: &BTreeSet<SiteKey>| sites.iter().any(|key| all.sites.get(key).is_some_and(|site| site.asked));
    bias.left_out.retain(|group| !is_asked(&group.sites));
    let groups = groups(all);
    let mut kept = BTreeSet::new();
    for group in groups.iter().filter(|group| group.is_shared) {
        let asked = is_asked(&group.sites);
        let cool = !choice.asked_only && group.sites.first().is_some_and(|first| bias.kept.contains(first));
        if asked || cool {
            kept.extend(&group.sites);
        }
    }
    let keep = |key: &SiteKey| kept.contains(key) && choice.selection.keeps(key);
    let unshared = groups.iter().filter(|group| !group.is_shared).map(|group| group.sites.len()).sum();
    Chosen { invariants: restrict(all, keep), loosened: loosened(all, keep), left_out: bias.left_out, unshared, costs }
}

#[cfg(test)]
mod tests {
    use selvedge_analyze::invariant::Belonging;
    use selvedge_analyze::invariant::select::Pattern;

    use super::*;

    fn key(name: &str) -> SiteKey {
        SiteKey(format!("f.c:{name}+1:1:w4"))
    }

    #[test]
    fn what_is_private_hot_or_not_asked_for_is_left_out() {
        let site = |members: &[&str], hits| Belonging {
            hits,
            ..Belonging::of(members.iter().map(|name| Some(key(name))).chain([None]))
        };
        let rows = [("a", site(&["b"], 90)), ("b", site(&[], 5)), ("c", site(&["c"], 5)), ("own", site(&[], 1000))];
        let all =
            Invariants { runs: 1, sites: rows.map(|(name, site)| (key(name), site)).into(), ..Invariants::default() };
        let names =
            |chosen: &Chosen| -> Vec<String> { chosen.invariants.sites.keys().map(|key| key.0.clone()).collect() };
        let everything = choose(&all, &Choice::default());
        assert_eq!(names(&everything), [key("a").0, key("b").0, key("c").0]);
        assert_eq!((everything.unshared, everything.left_out.len()), (1, 0));
        let cool = Choice { heat: Some(Heat { proportion: 0.5, hits_a_run: 10, ..Heat::NONE }), ..Choice::default() };
        assert_eq!(names(&choose(&all, &cool)), [key("c").0]);
        assert_eq!(choose(&all, &cool).left_out.len(), 1);
        let only_asked = Choice { asked_only: true, ..cool.clone() };
        assert!(names(&choose(&all, &only_asked)).is_empty());
        let mut asking = all.clone();
        asking.sites.entry(key("b")).or_default().asked = true;
        assert_eq!(names(&choose(&asking, &cool)), [key("a").0, key("b").0, key("c").0]);
        assert_eq!(names(&choose(&asking, &only_asked)), [key("a").0, key("b").0]);
        let except = vec![Pattern::new("b").expect("a pattern")];
        let less = Choice { selection: Selection { except, ..Selection::default() }, ..Choice::default() };
        let less = choose(&all, &less);
        assert_eq!(names(&less), [key("a").0, key("c").0]);
        assert_eq!(less.loosened, [key("a")].into());
    }
}
