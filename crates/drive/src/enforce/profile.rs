//! Runs of a program under control, by strategies in turn, and the profile of those that passed.
//!
//! Paper: section 11.2, which lets threads sleep at random where they synchronise, to see more orders. Departure: schedules are controlled
//! instead, which shows more orders in fewer runs, and their traces are exact.
//!
//! Which variables belong together must be known before a run is read. So the first runs that pass are kept until they have shown it, then read.

use std::time::Duration;

use selvedge_analyze::atomicity::profile::Profile;
use selvedge_findings::{Outcome, Tally};

use super::groups::{Grouping, Groups, Said, prune};
use super::learn::{Builds, learn, nearby};
use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::hunt::{HuntError, Recorded, record_clip, spec};
use crate::replay::Alone;
use crate::run::Stop;

/// How to profile.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Most runs.
    pub runs: u32,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Most time for each run.
    pub timeout: Duration,
    /// What people say about variables that belong together.
    pub said: Said,
    /// Groups of variables that are there already.
    pub groups: Groups,
}

/// Runs that pass and show which variables belong together.
pub const GROUPING_RUNS: usize = 12;

/// What profiling came to.
#[derive(Clone, Debug, Default)]
pub struct Profiled {
    /// What the runs that passed showed.
    pub profile: Profile,
    /// How the runs ended.
    pub tally: Tally,
    /// Variables that belong together.
    pub groups: Groups,
}

/// Runs a program and profiles the runs that pass. `base` has everything but a schedule.
pub fn profile(
    prepared: &Prepared,
    base: &Clip,
    options: &ProfileOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Profiled),
) -> Result<Profiled, HuntError> {
    let name = prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut profiled = Profiled::default();
    let mut reading = Reading::new(name, options);
    let dir = prepared.scratch.path().join("profile");
    for number in 0..options.runs {
        if stop.is_set() {
            break;
        }
        let clip = Clip { by_strategy: spec(options.seed, number), ..base.clone() };
        let own = dir.join(number.to_string());
        let recorded = record_clip(clip, &own, options.timeout, Alone { record: true, ..Alone::default() })?;
        profiled.tally.add(&recorded.clip.outcome);
        if recorded.clip.outcome == Outcome::Pass {
            reading.add(recorded);
        }
        each(&profiled);
        // What was mapped stays until it has been read.
        std::fs::remove_dir_all(&own).map_err(HuntError::Dir)?;
    }
    (profiled.profile, profiled.groups) = reading.finish();
    Ok(profiled)
}

/// Reads runs: first for what belongs together, then for what is atomic.
struct Reading<'a> {
    name: String,
    options: &'a ProfileOptions,
    builds: Builds,
    grouping: Grouping,
    waiting: Vec<Recorded>,
    groups: Option<Groups>,
    profile: Profile,
}

impl<'a> Reading<'a> {
    fn new(name: String, options: &'a ProfileOptions) -> Reading<'a> {
        let (builds, grouping) = (Builds::default(), Grouping::default());
        Reading { name, options, builds, grouping, waiting: Vec::new(), groups: None, profile: Profile::default() }
    }

    fn add(&mut self, recorded: Recorded) {
        if self.groups.is_some() {
            return self.learn(&recorded);
        }
        if let Some(process) = recorded.process() {
            let grouping = &mut self.grouping;
            let accesses = nearby(process, &mut self.builds, &mut |name| grouping.number(name));
            self.grouping.run(accesses);
        }
        self.waiting.push(recorded);
        if self.waiting.len() == GROUPING_RUNS {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let mut groups = self.grouping.decide(&self.options.said);
        self.options.groups.iter().for_each(|(a, b)| groups.insert(a, b));
        self.groups = Some(groups);
        for recorded in std::mem::take(&mut self.waiting) {
            self.learn(&recorded);
        }
    }

    fn learn(&mut self, recorded: &Recorded) {
        if let (Some(process), Some(groups)) = (recorded.process(), &self.groups) {
            self.profile.merge(&learn(process, &mut self.builds, &self.name, groups));
        }
    }

    fn finish(mut self) -> (Profile, Groups) {
        if self.groups.is_none() {
            self.decide();
        }
        prune(&mut self.profile);
        (self.profile, self.groups.unwrap_or_default())
    }
}
