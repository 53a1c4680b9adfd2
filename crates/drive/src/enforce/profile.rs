//! Runs of a program under control, by strategies in turn, and the profile of those that passed.
//!
//! Paper: section 11.2, which lets threads sleep at random where they synchronise, to see more orders. Departure: schedules are controlled
//! instead, which shows more orders in fewer runs, and their traces are exact.

use std::time::Duration;

use selvedge_analyze::atomicity::profile::Profile;
use selvedge_findings::{Outcome, Tally};

use super::learn::{Builds, learn};
use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::hunt::{HuntError, record_clip, spec};
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
}

/// What profiling came to.
#[derive(Clone, Debug, Default)]
pub struct Profiled {
    /// What the runs that passed showed.
    pub profile: Profile,
    /// How the runs ended.
    pub tally: Tally,
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
    let mut builds = Builds::default();
    let dir = prepared.scratch.path().join("profile");
    for number in 0..options.runs {
        if stop.is_set() {
            break;
        }
        let clip = Clip { by_strategy: spec(options.seed, number), ..base.clone() };
        let recorded = record_clip(clip, &dir, options.timeout, Alone { record: true, ..Alone::default() })?;
        profiled.tally.add(&recorded.clip.outcome);
        if recorded.clip.outcome == Outcome::Pass
            && let Some(process) = recorded.process()
        {
            profiled.profile.merge(&learn(process, &mut builds, &name));
        }
        each(&profiled);
        std::fs::remove_dir_all(&dir).map_err(HuntError::Dir)?;
    }
    Ok(profiled)
}
