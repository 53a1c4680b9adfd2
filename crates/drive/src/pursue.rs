//! Pursuing: what recorded runs foretell is made to happen, one prediction after the other, each sort of source once.
//!
//! Predictions of different runs that have the same pattern at the same places are one. Where its first instance is refuted,
//! those of other runs are tried: a reason to diverge in one may not be there in another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge_analyze::foresee::{Foreseen, Outlook, foresee_unproved, orders};
use selvedge_analyze::import::{Options, import};
use selvedge_analyze::predict::Scheduler;
use selvedge_analyze::sound::Prover;
use selvedge_analyze::{Goal, History};
use selvedge_findings::{Kind, Outcome};
use selvedge_trace::Place;

use crate::clip::Clip;
use crate::confirm::{Attempt, Refuted, Verdict, confirm};
use crate::course::Chart;
use crate::explore::Bench;
use crate::hunt::kept::{Kept, KeptVerdict};
use crate::hunt::{Figures, HuntError, HuntOptions, Hunted, Recorded, Step, Tried};
use crate::intervene::Interventions;
use crate::replay::bench;
use crate::run::Stop;

/// What a recorded run foretells.
#[derive(Debug)]
struct Told<'a> {
    history: &'a History,
    chart: &'a Chart,
    outlook: Outlook<'a>,
}

/// What tells one prediction from another: the paper's rule, by source.
type Key = (Kind, String, Vec<(u32, u32)>);

/// The instances of one prediction.
#[derive(Debug, Default)]
struct Group<'a> {
    /// What it is called where it is kept.
    name: String,
    /// Whether one of them is proved.
    proved: bool,
    /// When it was first met.
    met: usize,
    /// The run that each is from, and the prediction; the one that is proved first.
    instances: Vec<(usize, Cow<'a, Foreseen>)>,
}

/// Instances of a prediction that are tried.
const INSTANCES: usize = 3;

/// Where a pursuit takes place: `base` has everything but a schedule, files go to `dir`, what was found out before is in
/// `kept`.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The program with its inputs.
    pub base: &'a Clip,
    /// For files.
    pub dir: &'a Path,
    /// What is known from before, and where what is found out goes.
    pub kept: Option<&'a Kept>,
}

/// Predicts from recorded runs, and makes what is predicted happen.
pub fn pursue(
    recorded: Vec<Recorded>,
    ground: Ground<'_>,
    options: &HuntOptions,
    budget: Duration,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Hunted, HuntError> {
    let begin = Instant::now();
    let stop = &stop.by(begin + budget);
    let harmful = AtomicBool::new(false);
    let early = budget.saturating_sub(options.keep_back);
    let over = || stop.is_set() || (harmful.load(Ordering::Relaxed) && begin.elapsed() >= early);
    let mut figures = Figures::default();
    recorded.iter().for_each(|run| figures.tally.add(&run.clip.outcome));
    figures.events = recorded.iter().map(|run| run.events).sum();
    // The first is always looked at; of others as many as there is time for.
    let in_time = |at: usize| at == 0 || (begin.elapsed() < budget / 4 && !stop.is_asked());
    let read: Vec<Option<(History, Chart)>> =
        (0..).zip(&recorded).map(|(at, run)| if in_time(at) { read(run, &mut figures) } else { None }).collect();
    let told: Vec<Option<Told<'_>>> = (0..)
        .zip(&read)
        .map(|(at, read)| {
            let (history, chart) = read.as_ref().filter(|_| in_time(at))?;
            Some(tell(history, chart, options, &mut figures))
        })
        .collect();
    let mut groups = unique(&told);
    let before = Instant::now();
    prove(&told, &mut groups, &stop.by(before + budget / 4));
    figures.analysis += before.elapsed();
    figures.predicted = groups.len() as u64;
    figures.proved = groups.iter().filter(|group| group.proved).count() as u64;
    each(Step::Predicted(&figures));
    let mut tried: Vec<(usize, Tried)> = Vec::new();
    let mut problem = None;
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, results) = mpsc::sync_channel(64);
        for job in 0..options.jobs.clamp(1, 64).min(groups.len().max(1)) {
            let (send, told, groups, next, failed) = (send.clone(), &told, &groups, &next, &failed);
            let over = &over;
            scope.spawn(move || {
                let dir = ground.dir.join(format!("job-{job}"));
                let mut pursuit = Pursuit::start(told, Ground { dir: &dir, ..ground }, options, stop);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(group) = groups.get(number).filter(|_| !failed.load(Ordering::Relaxed)) else { break };
                    let result = match &mut pursuit {
                        Ok(pursuit) => pursuit.try_group(group, over),
                        Err(error) => Err(std::mem::replace(error, HuntError::Stopped)),
                    };
                    if send.send((number, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        while let Ok((number, result)) = results.recv() {
            match result {
                Ok(Some((one, scheduling))) => {
                    figures.scheduling += scheduling;
                    figures.count(&one);
                    harmful.store(figures.harmful > 0, Ordering::Relaxed);
                    tried.push((number, one));
                    each(Step::Tried(&figures));
                }
                Ok(None) => {}
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    problem.get_or_insert(error);
                }
            }
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    tried.sort_by_key(|(number, _)| *number);
    let tried: Vec<Tried> = tried.into_iter().map(|(_, one)| one).collect();
    let out_of_time = tried.iter().any(|one| one.verdict.is_none());
    Ok(Hunted { recorded, tried, figures, elapsed: begin.elapsed(), out_of_time })
}

/// What is needed to try predictions.
struct Pursuit<'a, 'c> {
    told: &'a [Option<Told<'a>>],
    schedulers: Vec<Option<Scheduler<'a, 'a>>>,
    ground: Ground<'c>,
    options: &'c HuntOptions,
    server: Bench<'c>,
    stop: &'c Stop,
}

impl<'a, 'c> Pursuit<'a, 'c> {
    /// Starts a server of its own in `dir`.
    fn start(
        told: &'a [Option<Told<'a>>],
        ground: Ground<'c>,
        options: &'c HuntOptions,
        stop: &'c Stop,
    ) -> Result<Pursuit<'a, 'c>, HuntError> {
        let schedulers = told.iter().map(|told| told.as_ref().map(|told| told.outlook.scheduler())).collect();
        let dir = ground.dir.join("server");
        let server = bench(ground.base, &Interventions::default(), &dir, options.effort.timeout)?.until(stop);
        Ok(Pursuit { told, schedulers, ground, options, server, stop })
    }

    /// Tries the instances of a prediction until one happens; with the time that orders of events took.
    fn try_group(
        &mut self,
        group: &Group<'_>,
        over: &dyn Fn() -> bool,
    ) -> Result<Option<(Tried, Duration)>, HuntError> {
        let mut result = None;
        let mut scheduling = Duration::ZERO;
        let is_there = |known: &&KeptVerdict| group.instances.iter().any(|(run, _)| *run == known.run);
        let known = self.ground.kept.and_then(|kept| kept.verdict(&group.name)).filter(is_there);
        for (number, (run, foreseen)) in group.instances.iter().enumerate() {
            let (Some(Some(told)), Some(Some(scheduler))) = (self.told.get(*run), self.schedulers.get(*run)) else {
                continue;
            };
            let mut verdict = None;
            let sources = |event: &u32| told.history.sources.get(*event as usize).copied();
            let events: Vec<u64> = foreseen.prediction.goal.events().iter().filter_map(sources).collect();
            if let Some(known) = &known {
                if (known.run, &known.events) != (*run, &events) {
                    continue;
                }
                verdict = Some(known.verdict.clone());
            } else if !over() {
                let before = Instant::now();
                let orders = orders(scheduler, foreseen);
                scheduling += before.elapsed();
                let goal = &foreseen.prediction.goal;
                let attempt = Attempt { goal, history: told.history, chart: told.chart, orders };
                let (base, dir) = (self.ground.base, self.ground.dir);
                let mut came = confirm(&attempt, base, &mut self.server, dir, &self.options.effort, self.stop)?;
                if let Verdict::Confirmed(happened) = &mut came {
                    happened.first_try &= number == 0;
                }
                // What had no time was not tried.
                let is_cut = self.stop.is_set() && matches!(came, Verdict::Refuted(Refuted::TimedOut));
                verdict = Some(came).filter(|_| !is_cut);
            }
            let settled = !matches!(&verdict, Some(Verdict::Refuted(why)) if *why != Refuted::TimedOut);
            if result.is_none() || matches!(verdict, Some(Verdict::Confirmed(_))) {
                result = Some(Tried { prediction: foreseen.prediction.clone(), run: *run, events, verdict });
            }
            if settled || known.is_some() {
                break;
            }
        }
        if let (Some(kept), None, Some(tried)) = (self.ground.kept, &known, &result) {
            kept.keep(&group.name, tried).map_err(HuntError::Keep)?;
        }
        Ok(result.map(|tried| (tried, scheduling)))
    }
}

/// The history of a run that passed.
fn read(recorded: &Recorded, figures: &mut Figures) -> Option<(History, Chart)> {
    let process = recorded.process().filter(|_| recorded.clip.outcome == Outcome::Pass)?;
    let begin = Instant::now();
    let history = import(process, &Options::default()).history;
    let chart = Chart::of(process, &history);
    figures.analysis += begin.elapsed();
    figures.threads = figures.threads.max(history.threads);
    figures.variables = figures.variables.max(history.variables);
    Some((history, chart))
}

/// What it foretells.
fn tell<'a>(history: &'a History, chart: &'a Chart, options: &HuntOptions, figures: &mut Figures) -> Told<'a> {
    let begin = Instant::now();
    let outlook = foresee_unproved(history, &options.patterns);
    figures.analysis += begin.elapsed();
    Told { history, chart, outlook }
}

/// Predictions by source; those that are proved first, each sort in the order of the analysis.
fn unique<'a>(told: &'a [Option<Told<'a>>]) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<Key, Group<'a>> = BTreeMap::new();
    let mut met = 0;
    for (run, told) in told.iter().enumerate().filter_map(|(run, told)| Some((run, told.as_ref()?))) {
        for foreseen in &told.outlook.foreseen {
            met += 1;
            let key = key(told, foreseen);
            let name = || format!("{} {} {:?}", key.0.name(), key.1, key.2);
            let group = match groups.entry(key.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(Group { name: name(), met, ..Group::default() }),
            };
            let proved = foreseen.prediction.proof.is_some();
            group.proved |= proved;
            // What is proved first, then what has happened: both need no luck.
            let rank = |foreseen: &Foreseen| (foreseen.prediction.proof.is_none(), !foreseen.seen);
            let at = group.instances.partition_point(|(_, other)| rank(other) <= rank(foreseen));
            group.instances.insert(at, (run, Cow::Borrowed(foreseen)));
            group.instances.truncate(INSTANCES);
        }
    }
    let mut groups: Vec<Group<'a>> = groups.into_values().collect();
    groups.sort_by_key(|group| group.met);
    groups
}

/// Looks for a proof of one instance of each prediction, while there is time; those that have one come first.
fn prove<'a>(told: &'a [Option<Told<'a>>], groups: &mut [Group<'a>], stop: &Stop) {
    let mut provers: Vec<Option<Prover<'_>>> = told.iter().map(|_| None).collect();
    for group in groups.iter_mut().filter(|group| !group.proved) {
        for at in 0..group.instances.len() {
            let Some((run, foreseen)) = group.instances.get_mut(at).filter(|_| !stop.is_set()) else { break };
            let (Some(Some(told)), Some(prover)) = (told.get(*run), provers.get_mut(*run)) else { continue };
            let prover = prover.get_or_insert_with(|| Prover::new(told.history));
            if let Some(proof) = told.outlook.prove(prover, &foreseen.prediction.goal) {
                foreseen.to_mut().prediction.proof = Some(proof);
                group.proved = true;
                group.instances.swap(0, at);
                break;
            }
        }
    }
    groups.sort_by_key(|group| (!group.proved, group.met));
}

fn key(told: &Told<'_>, foreseen: &Foreseen) -> Key {
    let prediction = &foreseen.prediction;
    let spot = |event| match told.chart.position(told.history, event).map(|at| at.place) {
        Some(Place::Site(site)) => (u32::MAX, site.0),
        Some(Place::Code { module, offset }) => (module.0, offset),
        _ => (u32::MAX, u32::MAX),
    };
    let mut spots: Vec<(u32, u32)> = prediction.goal.events().into_iter().map(spot).collect();
    if matches!(prediction.goal, Goal::Deadlock(_)) {
        // A circle is the same wherever it is entered.
        spots.sort_unstable();
    }
    (prediction.kind, prediction.pattern.clone(), spots)
}
