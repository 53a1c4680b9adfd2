//! The hunt: record under varied schedules, predict what did not happen, make it happen.
//!
//! Only runs that passed are predicted from: what they hide is what nobody has seen yet. A run that fails by itself is
//! kept as a clip.

use std::path::{Path, PathBuf};
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
use crate::pursue::pursue;
use crate::replay::{Alone, ReplayError, ready};
use crate::run::{RunGuestError, Stop, ask_oracle};
use crate::server::ControlledRun;

/// How to hunt.
#[derive(Clone, Debug)]
pub struct HuntOptions {
    /// Recorded runs.
    pub runs: u32,
    /// Most time for all.
    pub budget: Duration,
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

/// Hunts.
pub fn hunt(
    prepared: &Prepared,
    options: &HuntOptions,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Hunted, HuntError> {
    let begin = Instant::now();
    let base = base_clip(prepared, options);
    let mut figures = Figures::default();
    let mut recorded = Vec::new();
    for number in 0..options.runs {
        // Predictions need time too.
        if stop.is_set() || (number > 0 && begin.elapsed() >= options.budget / 3) {
            break;
        }
        let run = record(prepared, options, &base, number)?;
        figures.tally.add(&run.clip.outcome);
        figures.recording += run.duration;
        recorded.push(run);
        each(Step::Recorded(&figures));
    }
    // A run that takes many times as long as those that were recorded will not end.
    let longest = recorded.iter().filter(|run| run.clip.outcome == Outcome::Pass).map(|run| run.clip.steps).max();
    let base = Clip { most_steps: options.most_steps.min(longest.unwrap_or(0).saturating_mul(50).max(50_000)), ..base };
    let dir = prepared.scratch.path().join("hunt");
    let mut hunted =
        pursue(recorded, &base, &dir, options, options.budget.saturating_sub(begin.elapsed()), stop, each)?;
    hunted.figures.recording = figures.recording;
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

fn record(prepared: &Prepared, options: &HuntOptions, base: &Clip, number: u32) -> Result<Recorded, HuntError> {
    let dir: PathBuf = prepared.scratch.path().join(format!("recorded-{number}"));
    let clip = Clip { by_strategy: spec(options.seed, number), ..base.clone() };
    let how = Alone { record: true, ..Alone::default() };
    record_clip(clip, &dir, options.effort.timeout, how)
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
