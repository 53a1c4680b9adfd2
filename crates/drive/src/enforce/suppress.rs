//! Locks for the bugs that a hunt found: learnt from schedules that pass, and checked against each bug's failing clips and against fresh
//! schedules, in a share of the time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use selvedge_findings::Guarded;

use super::compile::{EnforceError, Enforced};
use super::deploy::deploy;
use super::file::{ProfileFileError, save};
use super::profile::{ProfileOptions, profile};
use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::guard::deploy::DeployError;
use crate::guard::patch::{CheckOptions, Checked, PatchError, fresh};
use crate::guard::tolerate::{came_to, with_clips};
use crate::hunt::HuntError;
use crate::intervene::Interventions;
use crate::plan::WritePlanError;
use crate::run::Stop;
use crate::store::Store;

/// How to make and check locks.
#[derive(Clone, Debug)]
pub struct SuppressOptions {
    /// How they are learnt.
    pub profile: ProfileOptions,
    /// How they are checked.
    pub checks: CheckOptions,
    /// The file of the profile; the plan goes beside it.
    pub file: PathBuf,
}

/// Why there are no locks.
#[derive(Debug, thiserror::Error)]
enum SuppressError {
    #[error(transparent)]
    Profile(#[from] HuntError),
    #[error(transparent)]
    Save(#[from] ProfileFileError),
    #[error(transparent)]
    Place(#[from] EnforceError),
    #[error(transparent)]
    Deploy(#[from] DeployError),
    #[error(transparent)]
    Plan(#[from] WritePlanError),
    #[error(transparent)]
    Check(#[from] PatchError),
    #[error("none of {runs} runs passed: there is nothing to learn from")]
    NothingPassed { runs: u64 },
    #[error("passing runs show no atomic pair that the program's own locks do not keep")]
    NoPairs,
}

/// Makes locks for a program and checks them against each bug, of which there are some failing clips. What keeps them from being made is
/// told in the results: a hunt goes on without them.
pub fn suppress(
    prepared: &Prepared,
    store: &Store,
    bugs: &[Vec<Clip>],
    options: &SuppressOptions,
    (share, stop): (Duration, &Stop),
) -> Vec<Guarded> {
    let begin = Instant::now();
    let (stop, learning) = (stop.by(begin + share), stop.by(begin + share / 2));
    let none = |why: String| bugs.iter().map(|_| Guarded { why: Some(why.clone()), ..Guarded::default() }).collect();
    match made(prepared, store, bugs, options, (&learning, &stop)) {
        Ok(all) => all,
        Err(_) if stop.is_set() => none("there was no time for them".to_owned()),
        Err(error) => none(error.to_string()),
    }
}

fn made(
    prepared: &Prepared,
    store: &Store,
    bugs: &[Vec<Clip>],
    options: &SuppressOptions,
    (learning, stop): (&Stop, &Stop),
) -> Result<Vec<Guarded>, SuppressError> {
    let Some(base) = bugs.iter().flatten().next() else { return Ok(Vec::new()) };
    let learnt = profile(prepared, base, &options.profile, learning, &mut |_| {})?;
    if learnt.tally.pass == 0 {
        return Err(SuppressError::NothingPassed { runs: learnt.tally.total() });
    }
    if learnt.profile.atomic_pairs().next().is_none() {
        return Err(SuppressError::NoPairs);
    }
    save(&options.file, &learnt.profile)?;
    let enforced = Enforced::of(&learnt.profile, &prepared.surveyed.files())?;
    let plan = deploy(store, &enforced, Some(&options.file.with_extension("plan")))?.plan.display().to_string();
    let on = |images: &[_]| {
        let mut interventions = Interventions::default();
        interventions.enforce(&enforced, images).map(|()| interventions)
    };
    let timeout = options.checks.explore.timeout;
    let clips = bugs.iter().map(|clips| with_clips(prepared, clips, &|clip| on(&clip.images), timeout, stop));
    let clips = clips.collect::<Result<Vec<_>, _>>()?;
    let mut checked = Checked::default();
    fresh(&mut checked, &on(&prepared.images)?, prepared, &options.checks, stop, &mut |_| {})
        .map_err(PatchError::from)?;
    Ok(clips.into_iter().map(|clips| came_to(clips, &checked, plan.clone())).collect())
}
