//! Exposing: orders that correct runs always had are turned around, to see whether anything but luck sees to them.
//!
//! Paper: Zhang et al., TSE 2016, section 4.1. Where to hold a thread is [`selvedge_analyze::invariant::expose`]'s. Departures: the paper
//! sleeps and hopes; here a controlled run is led to the point, the thread is held there, and all others run until they
//! wait or end. A guard that watches says whether the order was turned around, so nothing is claimed that did not happen. A
//! failure is run again by its schedule alone before it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use selvedge_analyze::EventNo;
use selvedge_analyze::Goal;
use selvedge_analyze::import::{Options, import};
use selvedge_analyze::invariant::expose::{StallingPoint, one_way, role_points, stalling_points};
use selvedge_analyze::invariant::rivals::Ai;
use selvedge_analyze::invariant::{Invariants, SiteKey};
use selvedge_events::ThreadIx;
use selvedge_events::guard::Note;
use selvedge_findings::Tally;
use selvedge_sched::{Leg, Spec, StrategyKind};
use selvedge_trace::Process;

use crate::clip::Clip;
use crate::confirm::clip_of;
use crate::control::{ControlRequest, Log};
use crate::controlled::Prepared;
use crate::course::Chart;
use crate::explore::Bench;
use crate::guard::choose::{Choice, choose};
use crate::guard::compile::{CompileError, Guard, GuardHow, Mode};
use crate::guard::keys::Keyed;
use crate::guard::log::take_logs;
use crate::guard::site_names::{SiteName, SiteNames};
use crate::guard::traced::{Numbers, record_passing};
use crate::hunt::{HuntError, Recorded};
use crate::intervene::Interventions;
use crate::plan::WritePlanError;
use crate::replay::{ReplayError, bench, replay};
use crate::run::Stop;

/// How to expose.
#[derive(Clone, Copy, Debug)]
pub struct ExposeOptions {
    /// Recorded runs.
    pub runs: u32,
    /// Most time.
    pub budget: Duration,
    /// Most time for one run.
    pub timeout: Duration,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// Why exposing ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExposeError {
    /// A recorded run.
    #[error(transparent)]
    Record(#[from] HuntError),
    /// The guard that watches.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Its plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// A run.
    #[error(transparent)]
    Run(#[from] ReplayError),
    /// Logs.
    #[error("cannot read the logs of the guard")]
    Logs(#[source] std::io::Error),
}

/// An order that was turned around.
#[derive(Clone, Debug)]
pub struct Turned {
    /// What came first now, and its thread.
    pub then: (SiteName, u32),
    /// What always came before it, and its thread.
    pub before: (SiteName, u32),
    /// The members that this would add.
    pub members: BTreeSet<(SiteKey, Option<SiteKey>)>,
    /// The run that failed so, where one did, and did so again by its schedule alone.
    pub failed: Option<Clip>,
}

/// What exposing came to.
#[derive(Clone, Debug, Default)]
pub struct Exposed {
    /// Recorded runs that passed.
    pub passed: usize,
    /// Sites that always came after accesses of other threads, as far as the invariants know.
    pub one_way: usize,
    /// Places to hold a thread at.
    pub points: usize,
    /// How the runs that tried them ended.
    pub tally: Tally,
    /// Orders that were turned around, each once; those that did harm where one did.
    pub turned: Vec<Turned>,
    /// Failures that did not come again by their schedule.
    pub unrepeated: usize,
}

/// Exposes. `base` has everything but a schedule.
pub fn expose(
    prepared: &Prepared,
    base: &Clip,
    invariants: &Invariants,
    options: &ExposeOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Exposed),
) -> Result<Exposed, ExposeError> {
    let begin = Instant::now();
    let recorded = record_passing(prepared, base, (options.runs, options.seed), options.timeout, stop)?;
    let mut numbers = Numbers::default();
    let mut known = Ai::default();
    for (key, site) in &invariants.sites {
        let set = site.predecessors().into_iter().map(|one| one.map(|member| numbers.of(member))).collect();
        known.sets.insert(numbers.of(key), set);
    }
    let processes: Vec<&Process> = recorded.iter().filter_map(Recorded::process).collect();
    let runs: Vec<_> = processes.iter().map(|process| numbers.read(process)).collect();
    let mut points = stalling_points(&runs, &known);
    points.extend(role_points(&runs, &known, |_, thread| thread));
    let (passed, one_way) = (processes.len(), one_way(&known));
    let mut exposed = Exposed { passed, one_way, points: points.len(), ..Exposed::default() };
    let images = Keyed::load_all(&prepared.surveyed.files());
    let watch = GuardHow { mode: Mode::Watch, ..GuardHow::default() };
    let guard = Guard::of(&choose(invariants, &Choice::default()).invariants, &images, &watch)?;
    let names = SiteNames::of(&guard, &images, &prepared.program, std::path::Path::new(""));
    let table = Interventions::guard(guard.beside(&prepared.images).0.to_bytes()?);
    let dir = prepared.scratch.path().join("expose");
    let mut watched = bench(base, &table, &dir.join("watched"), options.timeout)?;
    let mut plain = bench(base, &Interventions::default(), &dir.join("plain"), options.timeout)?;
    let mut turned: BTreeMap<(u32, u32), Turned> = BTreeMap::new();
    let courses: Vec<Course<'_>> = processes.iter().map(|process| Course::of(process)).collect();
    for point in &points {
        if stop.is_set() || begin.elapsed() >= options.budget {
            break;
        }
        let pair = (point.then, point.before);
        let (Some(course), Some(then)) = (courses.get(point.run), numbers.key(point.then)) else { continue };
        // One failure is enough.
        let Some(legs) = course.legs(point).filter(|_| turned.get(&pair).is_none_or(|known| known.failed.is_none()))
        else {
            continue;
        };
        let (clip, noted) = try_legs(&legs, base, &mut watched)?;
        exposed.tally.add(&clip.outcome);
        let members: BTreeSet<(SiteKey, Option<SiteKey>)> =
            noted.iter().filter_map(|(site, other, _)| Some((names.key(*site)?, names.key(*other)))).collect();
        let here = noted.iter().find(|(site, ..)| names.key(*site).as_ref() == Some(then));
        if let Some((_, _, thread)) = here {
            let name = |key: Option<&SiteKey>| {
                let found = key.and_then(|key| names.sites.iter().find(|site| site.key == key.0));
                found.cloned().unwrap_or_default()
            };
            let mut failed = None;
            if clip.wrong.is_some() {
                let again = replay(&clip, &mut plain)?;
                failed = again.is_as(&clip).then_some(clip);
                exposed.unrepeated += usize::from(failed.is_none());
            }
            let one = Turned {
                then: (name(Some(then)), *thread),
                before: (name(numbers.key(point.before)), point.thread),
                members,
                failed,
            };
            let better = turned.get(&pair).is_none_or(|known| known.failed.is_none() && one.failed.is_some());
            if better {
                turned.insert(pair, one);
            }
        }
        exposed.turned = turned.values().cloned().collect();
        each(&exposed);
    }
    Ok(exposed)
}

/// A violation: site, the site before it, the thread.
type Noted = (u32, u32, u32);

/// Makes a run that follows these legs; answers it as a clip, and what the guard noted.
fn try_legs(legs: &[Leg], base: &Clip, bench: &mut Bench<'_>) -> Result<(Clip, Vec<Noted>), ExposeError> {
    let request = ControlRequest {
        spec: Spec { kind: StrategyKind::Steer, ..Spec::default() },
        script: legs.iter().copied().map(Leg::to_step).collect(),
        log: Log::Switches,
        most_steps: base.most_steps,
        until: None,
        world: base.world,
    };
    let (run, outcome, wrong) = bench.run(&request).map_err(ReplayError::from)?;
    let logs = take_logs(bench.dir()).map_err(ExposeError::Logs)?;
    let entries = logs.iter().filter_map(|log| log.log()).flat_map(|log| log.entries());
    let violations = entries.filter(|entry| entry.note == Note::Violation);
    let noted = violations.map(|entry| (entry.site, entry.other, entry.thread)).collect();
    Ok((clip_of(base, &run, outcome, wrong), noted))
}

/// The course of a recorded run.
#[derive(Debug)]
pub struct Course<'a> {
    process: &'a Process,
    history: selvedge_analyze::History,
    chart: Chart,
}

impl<'a> Course<'a> {
    /// Reads it off the trace.
    pub fn of(process: &'a Process) -> Course<'a> {
        let history = import(process, &Options::default()).history;
        let chart = Chart::of(process, &history);
        Course { process, history, chart }
    }

    /// The legs that lead to a point, hold its thread there, and let the others go on as long as they can.
    fn legs(&self, point: &StallingPoint) -> Option<Vec<Leg>> {
        self.held(ThreadIx(point.thread), point.operation, point.index)
    }

    /// The legs that lead to an operation with this number in the merged order, hold its thread before it, and let the others go on
    /// as long as they can. `None` where the trace was not made under control.
    pub fn held(&self, held: ThreadIx, operation: u32, index: u64) -> Option<Vec<Leg>> {
        let last = operation.checked_sub(1)?;
        let sources = (0..).zip(&self.history.sources);
        let order: Vec<EventNo> = sources.filter(|(_, source)| **source < index).map(|(number, _)| number).collect();
        let mut legs = self.chart.course(&self.history, &order, &Goal::Order(Vec::new()))?;
        if last > 0 {
            legs.push(Leg { thread: held, operation: last, begun: false });
        }
        let threads: Vec<ThreadIx> = self.process.file().threads().filter(|thread| *thread != held).collect();
        // Twice: whoever waits for another goes on after it.
        for thread in threads.iter().chain(&threads) {
            legs.push(Leg { thread: *thread, operation: Leg::END, begun: true });
        }
        legs.push(Leg { thread: held, operation: Leg::END, begun: true });
        Some(legs)
    }
}
