//! Training as `selvedge train --until-converged` does it.

use selvedge_analyze::invariant::{Belonging, Colour, Invariants};
use selvedge_drive::controlled::Prepared;
use selvedge_drive::guard::train::{Schedules, TrainOptions, Trained, train};
use selvedge_drive::run::Stop;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

use super::runs::{LIMIT, Subject, world};
use crate::error::{Result, tool};

/// What training came to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Training {
    /// Runs.
    pub runs: u64,
    /// Those that passed, and were learnt from.
    pub passed: usize,
    /// New members of each of these; written down as pairs of a run, from 1, and its members, where there are some.
    #[serde(serialize_with = "sparse")]
    pub curve: Vec<usize>,
    /// All members.
    pub members: usize,
    /// Sites.
    pub sites: usize,
    /// Whether the last runs showed nothing new.
    pub converged: bool,
    /// Sites that are guarded against nothing, because these runs did not show all that they may follow.
    pub unsettled: usize,
    /// Pairs that did not fit in logs.
    pub not_logged: u64,
}

fn sparse<S: Serializer>(curve: &[usize], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq((1_usize..).zip(curve).filter(|(_, new)| **new > 0))
}

impl Training {
    /// What there is to say of a training.
    pub fn of(trained: &Trained) -> Training {
        Training {
            runs: trained.tally.total(),
            passed: trained.curve.len(),
            curve: trained.curve.clone(),
            members: trained.invariants.members(),
            sites: trained.invariants.sites.len(),
            converged: trained.converged,
            unsettled: trained.unsettled,
            not_logged: trained.not_logged,
        }
    }

    /// What is to be said of its end.
    pub fn reserve(&self) -> String {
        match (self.converged, self.unsettled) {
            (true, _) => String::new(),
            (false, 0) => " (not converged)".to_owned(),
            (false, some) => format!(" (not converged: {some} of {} sites left alone)", self.sites),
        }
    }

    /// The passing run that showed the last new member, from 1; 0 where there is none.
    pub fn last_new(&self) -> usize {
        self.curve.iter().rposition(|new| *new > 0).map_or(0, |at| at + 1)
    }
}

/// How programs of the corpus are trained.
pub fn how(most_runs: u32, most_steps: u64) -> TrainOptions {
    TrainOptions {
        runs: most_runs,
        until_converged: true,
        enough: None,
        oracle: None,
        timeout: LIMIT,
        schedules: Schedules::Both,
        seed: 1,
        most_steps,
        world: world(),
        colours: BTreeSet::new(),
        selection: Default::default(),
    }
}

/// Trains until nothing is new.
pub fn trained(subject: &Subject<'_>, most_runs: u32, colours: BTreeSet<Colour>) -> Result<Trained> {
    let options = TrainOptions { colours, ..how(most_runs, subject.schedules.most_steps) };
    on(subject.prepared, &options)
}

/// Trains.
pub fn on(prepared: &Prepared, options: &TrainOptions) -> Result<Trained> {
    tool("train", train(prepared, Invariants::default(), options, &Stop::default(), &mut |_| {}))
}

/// The paper's belonging sets: what belongs in one context belongs in the other, and nobody waits before a lock.
pub fn as_in_the_paper(invariants: &Invariants) -> Invariants {
    let mut all = invariants.clone();
    all.sections.clear();
    for site in all.sites.values_mut() {
        let both = Belonging::of(site.predecessors().into_iter().map(|one| one.cloned()));
        (site.direct, site.beyond) = (both.direct, both.beyond);
    }
    all
}

#[cfg(test)]
mod tests {
    use selvedge_analyze::invariant::SiteKey;

    use super::*;

    #[test]
    fn contexts_are_forgotten() {
        let key = |name: &str| SiteKey(name.to_owned());
        let mut site = Belonging { hits: 7, ..Belonging::default() };
        site.add(Some(&key("p")), false);
        site.add(None, true);
        let all = Invariants { sites: [(key("s"), site)].into(), ..Invariants::default() };
        let plain = as_in_the_paper(&all);
        let site = plain.sites.get(&key("s")).expect("kept");
        assert!(site.allows(Some(&key("p")), true) && site.allows(None, false) && site.hits == 7);
        assert_eq!(plain.members(), 4);
    }

    #[test]
    fn runs_without_new_members_are_not_written_down() {
        let training = Training { curve: vec![5, 0, 0, 2, 0], ..Training::default() };
        let json = serde_json::to_value(&training).expect("JSON");
        assert_eq!(json["curve"], serde_json::json!([[1, 5], [4, 2]]));
    }

    #[test]
    fn what_did_not_converge_is_said() {
        let with = |converged, unsettled| Training { converged, unsettled, sites: 9, ..Training::default() }.reserve();
        let rows =
            [(true, 3, ""), (false, 0, " (not converged)"), (false, 3, " (not converged: 3 of 9 sites left alone)")];
        for (converged, unsettled, text) in rows {
            assert_eq!(with(converged, unsettled), text);
        }
    }

    #[test]
    fn the_last_new_member_counts() {
        let with = |curve: &[usize]| Training { curve: curve.to_vec(), ..Training::default() };
        assert_eq!((with(&[5, 0, 1, 0]).last_new(), with(&[0, 0]).last_new(), with(&[]).last_new()), (3, 0, 0));
    }
}
