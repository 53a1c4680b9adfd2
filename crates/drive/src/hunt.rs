//! The hunt: record under varied schedules, predict what did not happen, make it happen.
//!
//! Only runs that passed are predicted from: what they hide is what nobody has seen yet. A run that fails by itself is
//! kept as a clip.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_analyze::foresee::{Foreseen, Outlook, foresee, orders};
use selvedge_analyze::import::{Options, import};
use selvedge_analyze::predict::Pattern;
use selvedge_analyze::{History, Prediction};
use selvedge_findings::{Outcome, Tally};
use selvedge_sched::{Spec, StrategyKind};
use selvedge_trace::{Place, Run};

use crate::clip::{Clip, ClipInputs};
use crate::confirm::{Attempt, Effort, Refuted, Verdict, confirm};
use crate::control::World;
use crate::controlled::Prepared;
use crate::course::Chart;
use crate::failure::{Wrong, outcome, wrong};
use crate::intervene::Interventions;
use crate::replay::{Alone, ReplayError, bench, ready};
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

/// What a recorded run foretells.
#[derive(Debug)]
struct Told<'a> {
    history: &'a History,
    chart: &'a Chart,
    outlook: Outlook<'a>,
}

/// What tells one prediction from another: the paper's rule, by source.
pub type Key = (selvedge_findings::Kind, String, Vec<Spot>);

/// A place as a key.
pub type Spot = (u32, u32);

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
    /// Of the confirmed ones, how many the first run showed.
    pub first_try: u64,
    /// Runs made to confirm.
    pub runs: u64,
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

/// Predicts from recorded runs, and makes what is predicted happen. `base` has everything but a schedule; files go to `dir`.
pub fn pursue(
    recorded: Vec<Recorded>,
    base: &Clip,
    dir: &Path,
    options: &HuntOptions,
    budget: Duration,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Hunted, HuntError> {
    let begin = Instant::now();
    let over = || stop.is_set() || begin.elapsed() >= budget;
    let mut figures = Figures::default();
    recorded.iter().for_each(|run| figures.tally.add(&run.clip.outcome));
    let read: Vec<Option<(History, Chart)>> = recorded.iter().map(|run| read(run, &mut figures)).collect();
    let told: Vec<Option<Told<'_>>> = read
        .iter()
        .map(|read| read.as_ref().map(|(history, chart)| tell(history, chart, options, &mut figures)))
        .collect();
    let schedulers: Vec<_> = told.iter().map(|told| told.as_ref().map(|told| told.outlook.scheduler())).collect();
    let mut tried = unique(&recorded, &told);
    figures.predicted = tried.len() as u64;
    figures.proved =
        tried.iter().filter(|group| group.iter().any(|(_, f)| f.prediction.proof.is_some())).count() as u64;
    each(Step::Predicted(&figures));
    let mut bench = bench(base, &Interventions::default(), &dir.join("server"), options.effort.timeout)?;
    let mut results = Vec::new();
    let mut out_of_time = false;
    for group in tried.drain(..) {
        out_of_time |= over();
        let mut result = None;
        for (run, foreseen) in &group {
            let (Some(Some(told)), Some(Some(scheduler))) = (told.get(*run), schedulers.get(*run)) else { continue };
            let mut verdict = None;
            if !over() {
                let before = Instant::now();
                let orders = orders(scheduler, &foreseen.prediction);
                figures.scheduling += before.elapsed();
                let attempt =
                    Attempt { goal: &foreseen.prediction.goal, history: told.history, chart: told.chart, orders };
                verdict = Some(confirm(&attempt, base, &mut bench, dir, &options.effort)?);
            }
            let confirmed = matches!(verdict, Some(Verdict::Confirmed(_)));
            let settled = match &verdict {
                Some(Verdict::Refuted(why)) => *why == Refuted::TimedOut,
                _ => true,
            };
            if result.is_none() || confirmed {
                let sources = |event: &u32| told.history.sources.get(*event as usize).copied();
                let events = foreseen.prediction.goal.events().iter().filter_map(sources).collect();
                result = Some(Tried { prediction: foreseen.prediction.clone(), run: *run, events, verdict });
            }
            if settled {
                break;
            }
        }
        let Some(result) = result else { continue };
        count(&mut figures, &result);
        results.push(result);
        each(Step::Tried(&figures));
    }
    Ok(Hunted { recorded, tried: results, figures, elapsed: begin.elapsed(), out_of_time })
}

fn count(figures: &mut Figures, tried: &Tried) {
    figures.tried += u64::from(tried.verdict.is_some());
    if let Some(Verdict::Confirmed(happened)) = &tried.verdict {
        figures.confirmed += 1;
        figures.harmful += u64::from(happened.clip.wrong.is_some());
        figures.first_try += u64::from(happened.first_try);
        figures.runs += u64::from(happened.runs);
    }
}

/// Everything but a schedule.
pub fn base_clip(prepared: &Prepared, options: &HuntOptions) -> Clip {
    Clip {
        program: prepared.program.path.clone(),
        build_id: prepared.program.build_id.clone(),
        inputs: ClipInputs {
            argv: prepared.inputs.argv.clone(),
            dir: prepared.inputs.dir.clone(),
            env: prepared.inputs.env.clone(),
            stdin: prepared.stdin.clone(),
        },
        images: prepared.images.clone(),
        world: options.world,
        most_steps: options.most_steps,
        oracle: options.oracle.clone(),
        script: Vec::new(),
        by_strategy: None,
        outcome: Outcome::Unknown,
        wrong: None,
        steps: 0,
        digest: 0,
    }
}

/// The schedule of a recorded run: the default policy first, then chance in two ways.
fn spec(options: &HuntOptions, number: u32) -> Option<Spec> {
    let kind = match number {
        0 => return None,
        number if number % 2 == 1 => StrategyKind::Random,
        _ => StrategyKind::Pos,
    };
    let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    Some(Spec { kind, seed, ..Spec::default() })
}

fn record(prepared: &Prepared, options: &HuntOptions, base: &Clip, number: u32) -> Result<Recorded, HuntError> {
    let dir: PathBuf = prepared.scratch.path().join(format!("recorded-{number}"));
    std::fs::create_dir_all(&dir).map_err(HuntError::Dir)?;
    let clip = Clip { by_strategy: spec(options, number), ..base.clone() };
    let begin = Instant::now();
    let (end, answer) = ready(&clip, &dir, Alone { record: true, ..Alone::default() })?.run(options.effort.timeout)?;
    let duration = begin.elapsed();
    let run = ControlledRun { end, answer, duration };
    let mut label = outcome(&run);
    if let (Some(oracle), Outcome::Pass | Outcome::Fail { .. }) = (&options.oracle, label) {
        label = ask_oracle(oracle, &dir, end)?;
    }
    let wrong: Option<Wrong> = wrong(&run, &label, &dir);
    let opened = Run::open(&dir).unwrap_or(Run { processes: Vec::new() });
    let events = opened.processes.iter().map(|process| process.summary().events).sum();
    let clip = Clip { outcome: label, wrong, steps: run.answer.steps, digest: run.answer.digest, ..clip };
    Ok(Recorded { clip, run: opened, events, duration })
}

/// The history of a run that passed.
fn read(recorded: &Recorded, figures: &mut Figures) -> Option<(History, Chart)> {
    let process = recorded.process().filter(|_| recorded.clip.outcome == Outcome::Pass)?;
    let begin = Instant::now();
    let history = import(process, &Options::default()).history;
    let chart = Chart::of(process, &history);
    figures.analysis += begin.elapsed();
    figures.events += recorded.events;
    figures.threads = figures.threads.max(history.threads);
    figures.variables = figures.variables.max(history.variables);
    Some((history, chart))
}

/// What it foretells.
fn tell<'a>(history: &'a History, chart: &'a Chart, options: &HuntOptions, figures: &mut Figures) -> Told<'a> {
    let begin = Instant::now();
    let outlook = foresee(history, &options.patterns);
    figures.analysis += begin.elapsed();
    Told { history, chart, outlook }
}

/// Instances of the same prediction from other runs that are tried where the first is refuted.
const INSTANCES: usize = 3;

/// Predictions by source, each with a few instances; those that are proved first, each sort in the order of the analysis.
fn unique<'a>(recorded: &[Recorded], told: &'a [Option<Told<'_>>]) -> Vec<Vec<(usize, &'a Foreseen)>> {
    let mut groups: BTreeMap<Key, (bool, usize, Vec<(usize, &Foreseen)>)> = BTreeMap::new();
    let mut met = 0;
    for (run, told) in told.iter().enumerate().filter_map(|(run, told)| Some((run, told.as_ref()?))) {
        if recorded.get(run).is_none() {
            continue;
        }
        for foreseen in &told.outlook.foreseen {
            let prediction = &foreseen.prediction;
            let spots = prediction.goal.events().into_iter().map(|event| {
                let place = told.chart.position(told.history, event).map(|at| at.place);
                match place {
                    Some(Place::Site(site)) => (u32::MAX, site.0),
                    Some(Place::Code { module, offset }) => (module.0, offset),
                    _ => (u32::MAX, u32::MAX),
                }
            });
            let mut spots: Vec<Spot> = spots.collect();
            if matches!(prediction.goal, selvedge_analyze::Goal::Deadlock(_)) {
                spots.sort_unstable();
            }
            met += 1;
            let group = groups.entry((prediction.kind, prediction.pattern.clone(), spots));
            let (proved, _, instances) = group.or_insert((false, met, Vec::new()));
            *proved |= prediction.proof.is_some();
            match prediction.proof.is_some() {
                true => instances.insert(0, (run, foreseen)),
                false => instances.push((run, foreseen)),
            }
            instances.truncate(INSTANCES);
        }
    }
    let mut groups: Vec<(bool, usize, Vec<(usize, &Foreseen)>)> = groups.into_values().collect();
    groups.sort_by_key(|(proved, met, _)| (!proved, *met));
    groups.into_iter().map(|(_, _, instances)| instances).collect()
}
