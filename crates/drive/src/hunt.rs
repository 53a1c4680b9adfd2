//! The hunt: record under varied schedules, predict what did not happen, make it happen.
//!
//! Only runs that passed are predicted from: what they hide is what nobody has seen yet. A run that fails by itself is
//! kept as a clip.

pub mod kept;

use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_analyze::Prediction;
use selvedge_analyze::predict::Pattern;
use selvedge_findings::{Outcome, Tally};
use selvedge_sched::{Spec, StrategyKind};
use selvedge_trace::Run;

use crate::clip::Clip;
use crate::confirm::{Effort, Verdict};
use crate::control::World;
use crate::controlled::Prepared;
use crate::failure::{Wrong, outcome, wrong};
use crate::intervene::Interventions;
use crate::pursue::{Ground, pursue};
use crate::replay::{Alone, ReplayError, ready};
use crate::run::{RunGuestError, Stop, ask_oracle};
use crate::server::ControlledRun;
use kept::Kept;

/// How to hunt.
#[derive(Clone, Debug)]
pub struct HuntOptions {
    /// Recorded runs.
    pub runs: u32,
    /// Most time for all.
    pub budget: Duration,
    /// Of this, what is left over for others where harm was found.
    pub keep_back: Duration,
    /// A shell command that says whether a run passed.
    pub oracle: Option<String>,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How hard each prediction is tried.
    pub effort: Effort,
    /// Most steps of a run.
    pub most_steps: u64,
    /// What the world looks like.
    pub world: World,
    /// The user's own patterns.
    pub patterns: Vec<Pattern>,
    /// Predictions that are tried at once.
    pub jobs: usize,
}

/// Why a hunt ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HuntError {
    /// A run.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The oracle.
    #[error(transparent)]
    Oracle(#[from] RunGuestError),
    /// A directory.
    #[error("cannot make a directory for recorded runs")]
    Dir(#[source] std::io::Error),
    /// What was found out cannot be kept.
    #[error("cannot keep what was found out")]
    Keep(#[source] std::io::Error),
    /// Another part of the hunt ended it.
    #[error("stopped")]
    Stopped,
}

/// A run that was recorded under control.
#[derive(Debug)]
pub struct Recorded {
    /// The schedule that it had, and how it ended.
    pub clip: Clip,
    /// What it left.
    pub run: Run,
    /// Its events.
    pub events: u64,
    /// Time that it took.
    pub duration: Duration,
}

impl Recorded {
    /// The process that was under control.
    pub fn process(&self) -> Option<&selvedge_trace::Process> {
        self.run.processes.iter().find(|process| process.is_controlled())
    }
}

/// A prediction and what became of it.
#[derive(Debug)]
pub struct Tried {
    /// The prediction.
    pub prediction: Prediction,
    /// The recorded run that it is from.
    pub run: usize,
    /// The numbers of its events in the merged order of that run, from 0.
    pub events: Vec<u64>,
    /// What became of it; `None` where there was no time.
    pub verdict: Option<Verdict>,
}

/// Figures of a hunt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// How recorded runs ended.
    pub tally: Tally,
    /// Threads of the history with the most.
    pub threads: u32,
    /// Variables of the history with the most.
    pub variables: u32,
    /// Events of the runs that were predicted from.
    pub events: u64,
    /// Time for recording.
    pub recording: Duration,
    /// Time for searching.
    pub analysis: Duration,
    /// Time for making orders of events.
    pub scheduling: Duration,
    /// Predictions that differ by source.
    pub predicted: u64,
    /// Of these, proved before anything was run.
    pub proved: u64,
    /// Tried so far.
    pub tried: u64,
    /// Confirmed so far.
    pub confirmed: u64,
    /// Of these, with harm.
    pub harmful: u64,
    /// Of the confirmed ones, those that are wrong by themselves or did harm.
    pub errors: u64,
    /// Of the confirmed ones, how many the first run showed.
    pub first_try: u64,
    /// Runs made to confirm.
    pub runs: u64,
}

impl Figures {
    /// Adds a prediction that was tried.
    pub(crate) fn count(&mut self, tried: &Tried) {
        self.tried += u64::from(tried.verdict.is_some());
        if let Some(Verdict::Confirmed(happened)) = &tried.verdict {
            self.confirmed += 1;
            let harmful = happened.clip.wrong.is_some();
            self.harmful += u64::from(harmful);
            self.errors += u64::from(harmful || tried.prediction.kind.is_wrong_by_itself());
            self.first_try += u64::from(happened.first_try);
            self.runs += u64::from(happened.runs);
        }
    }
}

/// What a hunt came to.
#[derive(Debug)]
pub struct Hunted {
    /// The recorded runs.
    pub recorded: Vec<Recorded>,
    /// Every prediction, those to be tried first ahead.
    pub tried: Vec<Tried>,
    /// Figures.
    pub figures: Figures,
    /// Time taken.
    pub elapsed: Duration,
    /// Whether the budget ended it.
    pub out_of_time: bool,
}

/// What happens in a hunt.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A run was recorded.
    Recorded(&'a Figures),
    /// Predictions were made.
    Predicted(&'a Figures),
    /// One was tried.
    Tried(&'a Figures),
}

/// Hunts; goes on with what is kept, and keeps what it finds out.
pub fn hunt(
    prepared: &Prepared,
    options: &HuntOptions,
    kept: Option<&Kept>,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Hunted, HuntError> {
    let begin = Instant::now();
    let base = base_clip(prepared, options);
    let mut figures = Figures::default();
    let mut recorded: Vec<Recorded> = Vec::new();
    let cut = stop.by(begin + options.budget);
    for number in 0..options.runs {
        let before = kept.and_then(|kept| kept.recorded(number));
        // Predictions need time too; without a run there are none.
        let late = number > 0 && (cut.is_set() || begin.elapsed() >= options.budget / 3);
        if before.is_none() && (stop.is_asked() || late) {
            break;
        }
        let Some(run) =
            before.map_or_else(|| record(prepared, options, &base, number, kept, &cut), |run| Ok(Some(run)))?
        else {
            break;
        };
        figures.tally.add(&run.clip.outcome);
        figures.recording += run.duration;
        recorded.push(run);
        each(Step::Recorded(&figures));
    }
    let passed = || recorded.iter().filter(|run| run.clip.outcome == Outcome::Pass);
    // A run that takes many times as long as those that were recorded will not end.
    let longest = passed().map(|run| run.clip.steps).max();
    let base = Clip { most_steps: options.most_steps.min(longest.unwrap_or(0).saturating_mul(50).max(50_000)), ..base };
    // One that takes a little longer may.
    let slowest = passed().map(|run| run.duration).max().unwrap_or_default();
    let mut options = options.clone();
    options.effort.timeout = options.effort.timeout.max(slowest * 10);
    options.effort.limit = options.effort.limit.max(slowest * 4);
    let dir = prepared.scratch.path().join("hunt");
    let ground = Ground { base: &base, dir: &dir, kept };
    let left = options.budget.saturating_sub(begin.elapsed());
    let mut hunted = pursue(recorded, ground, &options, left, stop, each)?;
    hunted.figures.recording = figures.recording;
    hunted.out_of_time |= hunted.recorded.len() < options.runs as usize;
    hunted.elapsed = begin.elapsed();
    Ok(hunted)
}

/// Everything but a schedule.
pub fn base_clip(prepared: &Prepared, options: &HuntOptions) -> Clip {
    prepared.clip(options.world, options.most_steps, options.oracle.clone())
}

/// The schedule of a recorded run: the default policy first, then chance in two ways.
pub fn spec(seed: u64, number: u32) -> Option<Spec> {
    let kind = match number {
        0 => return None,
        number if number % 2 == 1 => StrategyKind::Random,
        _ => StrategyKind::Pos,
    };
    let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    Some(Spec { kind, seed, ..Spec::default() })
}

/// Time that a recorded run has at least, however short the budget is.
const FIRST: Duration = Duration::from_secs(2);

/// Records a run; `None` where it was cut short.
fn record(
    prepared: &Prepared,
    options: &HuntOptions,
    base: &Clip,
    number: u32,
    kept: Option<&Kept>,
    stop: &Stop,
) -> Result<Option<Recorded>, HuntError> {
    let dir = match kept {
        Some(kept) => kept.run_dir(number),
        None => prepared.scratch.path().join(format!("recorded-{number}")),
    };
    // What is there was not finished.
    let _ = std::fs::remove_dir_all(&dir);
    let clip = Clip { by_strategy: spec(options.seed, number), ..base.clone() };
    let how = Alone { record: true, ..Alone::default() };
    let left = stop.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = left.map_or(options.effort.timeout, |left| left.max(FIRST).min(options.effort.timeout));
    let recorded = record_clip(clip, &dir, timeout, how)?;
    if recorded.clip.outcome == Outcome::Hang && stop.is_set() {
        return Ok(None);
    }
    if let Some(kept) = kept {
        kept.keep_run(number, &recorded).map_err(HuntError::Keep)?;
    }
    Ok(Some(recorded))
}

/// Observes a run of a clip, which says how it is judged; its files go to `dir`.
pub fn record_clip(clip: Clip, dir: &Path, timeout: Duration, how: Alone) -> Result<Recorded, HuntError> {
    std::fs::create_dir_all(dir).map_err(HuntError::Dir)?;
    let begin = Instant::now();
    let (end, answer) = ready(&clip, &Interventions::default(), dir, how)?.run(timeout)?;
    let duration = begin.elapsed();
    let run = ControlledRun { end, answer, duration };
    let mut label = outcome(&run);
    if let (Some(oracle), Outcome::Pass | Outcome::Fail { .. }) = (&clip.oracle, label) {
        label = ask_oracle(oracle, dir, end)?;
    }
    let wrong: Option<Wrong> = wrong(&run, &label, dir);
    let opened = Run::open(dir).unwrap_or(Run { processes: Vec::new() });
    let events = opened.processes.iter().map(|process| process.summary().events).sum();
    let clip = Clip { outcome: label, wrong, steps: run.answer.steps, digest: run.answer.digest, ..clip };
    Ok(Recorded { clip, run: opened, events, duration })
}
