//! A guard for a bug that a hunt found: made from its lead, checked against its failing clips and fresh schedules, in a share of the
//! time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use selvedge_findings::{Access, Finding, Guarded, Kind, Outcome};

use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::guard::compile::GuardHow;
use crate::guard::deploy::deploy;
use crate::guard::file::save;
use crate::guard::patch::{CheckOptions, Checked, Line, PatchError, Target, check, make};
use crate::guard::train::TrainOptions;
use crate::intervene::Interventions;
use crate::plan::WritePlanError;
use crate::replay::{bench, replay};
use crate::run::Stop;
use crate::store::Store;

/// How to make and check a guard.
#[derive(Clone, Debug)]
pub struct TolerateOptions {
    /// How it is learnt.
    pub training: TrainOptions,
    /// How long threads wait.
    pub how: GuardHow,
    /// How it is checked.
    pub checks: CheckOptions,
    /// Where invariants and plans go.
    pub dir: PathBuf,
}

/// What a guard for this finding is for: its lines and functions.
pub fn target(finding: &Finding) -> Target {
    let line = |access: &Access| Some(Line { file: access.file.clone()?, line: access.line? });
    Target {
        lines: finding.accesses.iter().filter_map(line).collect(),
        functions: finding.accesses.iter().filter_map(|access| access.function.clone()).collect(),
    }
}

/// Makes a guard against a bug and checks it. What keeps it from being made is told in the result: a hunt goes on without it.
pub fn tolerate(
    prepared: &Prepared,
    store: &Store,
    finding: &Finding,
    clips: &[Clip],
    options: &TolerateOptions,
    (share, stop): (Duration, &Stop),
) -> Guarded {
    let none = |why: String| Guarded { why: Some(why), ..Guarded::default() };
    if matches!(finding.kind, Kind::Deadlock | Kind::LostWakeup) {
        return none(format!("a guard puts accesses in order; that keeps nobody from a {}", finding.kind.words()));
    }
    let target = target(finding);
    if target.lines.is_empty() {
        return none("which lines decide is not known".to_owned());
    }
    let begin = Instant::now();
    let stop = stop.by(begin + share);
    // Half of the time for making it: one that is not checked is worth nothing.
    let making = stop.by(begin + share / 2);
    let first = clips.first();
    let guarded = || -> Result<Guarded, PatchError> {
        let patch = make(prepared, first, &target, (&options.training, &options.how), &options.checks, &making)?;
        let on_clip = |clip: &Clip| Ok(Interventions::guard(patch.guard.beside(&clip.images).0.to_bytes()?));
        let clips = with_clips(prepared, clips, &on_clip, options.checks.explore.timeout, &stop)?;
        let checked = check(&patch.guard, prepared, None, &options.checks, &stop, &mut |_| {})?;
        let name = format!("{}.invariants", finding.id.get(..8).unwrap_or("guard"));
        let file = options.dir.join(name);
        save(&file, &patch.invariants)?;
        let plan = file.with_extension("plan");
        let deployed = deploy(store, &patch.guard, &patch.images, (&prepared.program, &file), Some(&plan))?;
        let against = options.checks.against.then_some(checked.without.fail + checked.without.hang);
        let plan = deployed.plan.display().to_string();
        Ok(Guarded { failures_without: against, ..came_to(clips, &checked, plan) })
    };
    match guarded() {
        Ok(guarded) => guarded,
        Err(_) if stop.is_set() || making.is_set() => none("there was no time for one".to_owned()),
        Err(error) => none(error.to_string()),
    }
}

/// How a bug's failing clips end with an intervention: how many were run, and how many still fail.
pub(crate) fn with_clips(
    prepared: &Prepared,
    clips: &[Clip],
    on_clip: &dyn Fn(&Clip) -> Result<Interventions, WritePlanError>,
    timeout: Duration,
    stop: &Stop,
) -> Result<(u64, u64), PatchError> {
    let (mut ran, mut failed) = (0, 0);
    for clip in clips {
        let dir = prepared.scratch.path().join("guard-clips");
        let again = replay(clip, &mut bench(clip, &on_clip(clip)?, &dir, timeout)?.until(stop))?;
        if again.outcome == Outcome::Unknown {
            break;
        }
        ran += 1;
        failed += u64::from(again.outcome != Outcome::Pass);
    }
    Ok((ran, failed))
}

/// What an intervention came to, by its clips (those that ran, and those that failed) and by fresh schedules.
pub(crate) fn came_to((ran, failed): (u64, u64), checked: &Checked, plan: String) -> Guarded {
    let schedules = checked.with.total();
    let failures = schedules - checked.with.pass;
    let why = match &checked.failure {
        Some(wrong) => Some(wrong.to_string()),
        None if failed > 0 => Some("the bug's own schedule still fails".to_owned()),
        None if ran == 0 || schedules == 0 => Some("there was no time to check it".to_owned()),
        None => None,
    };
    Guarded {
        plan: Some(plan),
        verified: ran > 0 && failed == 0 && schedules > 0 && failures == 0,
        clips: ran,
        clips_failed: failed,
        schedules,
        failures,
        failures_without: None,
        why,
    }
}
