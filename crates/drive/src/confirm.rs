//! Confirming: a predicted anomaly is made to happen, or it is not shown.
//!
//! The order that an analysis gives becomes a course ([`crate::course`]), and a run is steered through it. What came of it is
//! a schedule like any other; it is replayed with a record, and the record says whether the anomaly was there
//! (the paper's section 6.3, with the check made on what the run did instead of on whether it followed the
//! schedule: a run that took another way and shows the anomaly all the same is no less true).
//!
//! The paper runs each schedule once. Whether an anomaly does harm depends on what comes after it, so where the first run
//! ends well a few others go on by chance from the same place, and a race is tried in both orders.

use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_analyze::{EventNo, Goal, History};
use selvedge_events::control::{RunState, SeatState};
use selvedge_findings::Outcome;
use selvedge_sched::{Leg, OpKind, Spec, StrategyKind};
use selvedge_trace::state::Heap;
use selvedge_trace::{Event, EventBody, Place, Process, Run};

use crate::clip::Clip;
use crate::control::{ControlRequest, Log, Seat};
use crate::course::{Chart, Position};
use crate::explore::{Bench, switches};
use crate::failure::Wrong;
use crate::intervene::Interventions;
use crate::replay::{Alone, ReplayError, ready};
use crate::run::Stop;
use crate::server::ControlledRun;

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs that go on by chance where the anomaly did no harm.
    pub chances: u64,
    /// Most time for one prediction.
    pub limit: Duration,
    /// Most time for one run.
    pub timeout: Duration,
    /// Decides what is left to chance.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { chances: 6, limit: Duration::from_secs(5), timeout: Duration::from_secs(10), seed: 1 }
    }
}

/// An anomaly and the runs that could show it.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// What is to happen.
    pub goal: &'a Goal,
    /// The history that it was predicted from.
    pub history: &'a History,
    /// Where its events are.
    pub chart: &'a Chart,
    /// Orders that lead to it, best first.
    pub orders: Vec<Vec<EventNo>>,
}

/// What became of a prediction.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It was made to happen.
    Confirmed(Box<Happened>),
    /// It was not.
    Refuted(Refuted),
}

/// An anomaly that was made to happen.
#[derive(Clone, Debug)]
pub struct Happened {
    /// How to make it happen again.
    pub clip: Clip,
    /// Its events in a record of the clip.
    pub shown: Shown,
    /// Runs that it took.
    pub runs: u32,
    /// Whether the first run already showed it.
    pub first_try: bool,
}

/// Events of an anomaly in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// The last one, where the run failed before it could come.
    pub never: Option<Position>,
}

/// Why a prediction is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refuted {
    /// No order leads there.
    NoOrder,
    /// A thread took another way.
    Diverged,
    /// A thread had to wait where it should have gone on.
    Blocked,
    /// All went as planned, and it did not happen.
    DidNotHappen,
    /// There was no time left.
    TimedOut,
}

impl Refuted {
    /// Every reason.
    pub const ALL: [Refuted; 5] =
        [Refuted::NoOrder, Refuted::Diverged, Refuted::Blocked, Refuted::DidNotHappen, Refuted::TimedOut];

    /// In reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Refuted::NoOrder => "no-order",
            Refuted::Diverged => "diverged",
            Refuted::Blocked => "blocked",
            Refuted::DidNotHappen => "did-not-happen",
            Refuted::TimedOut => "timed-out",
        }
    }
}

/// A run that was steered.
struct Steered {
    run: ControlledRun,
    outcome: Outcome,
    wrong: Option<Wrong>,
}

/// Tries to make an anomaly happen, until `stop` says otherwise. `clip` has everything but the schedule; files go to `dir`.
pub fn confirm(
    attempt: &Attempt<'_>,
    clip: &Clip,
    bench: &mut Bench<'_>,
    dir: &Path,
    effort: &Effort,
    stop: &Stop,
) -> Result<Verdict, ReplayError> {
    let begin = Instant::now();
    let mut why = Refuted::NoOrder;
    let mut best: Option<Happened> = None;
    let mut runs = 0;
    for order in &attempt.orders {
        let Some(legs) = attempt.chart.course(attempt.history, order, attempt.goal) else { continue };
        for seed in 0..=effort.chances {
            if begin.elapsed() >= effort.limit || stop.is_set() {
                why = if best.is_none() { Refuted::TimedOut } else { why };
                return Ok(best.map_or(Verdict::Refuted(why), |best| Verdict::Confirmed(Box::new(best))));
            }
            let seed = if seed == 0 { 0 } else { effort.seed.wrapping_mul(0x9e37_79b9).wrapping_add(seed) | 1 };
            let steered = steer(&legs, seed, clip, bench)?;
            runs += 1;
            if steered.outcome == Outcome::Unknown {
                // It was cut short.
                continue;
            }
            let harmful = steered.wrong.is_some();
            // One that does no harm is as good as the one we have.
            if best.is_some() && !harmful {
                continue;
            }
            let made = as_clip(clip, &steered);
            let left = stop.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match seen(attempt, &made, dir, left.map_or(effort.timeout, |left| left.min(effort.timeout)))? {
                Some(shown) => {
                    let first_try = best.as_ref().map_or(runs == 1, |best| best.first_try);
                    let happened = Happened { clip: made, shown, runs, first_try };
                    if harmful {
                        return Ok(Verdict::Confirmed(Box::new(happened)));
                    }
                    best = Some(happened);
                }
                // Nobody knows what a run that was cut short would have shown.
                None if stop.is_set() => {}
                None if best.is_none() => {
                    why = reason(&steered.run);
                    // Chance comes after the anomaly: what did not happen will not.
                    break;
                }
                None => {}
            }
        }
    }
    Ok(best.map_or(Verdict::Refuted(why), |best| Verdict::Confirmed(Box::new(best))))
}

fn steer(legs: &[Leg], seed: u64, clip: &Clip, bench: &mut Bench<'_>) -> Result<Steered, ReplayError> {
    let request = ControlRequest {
        spec: Spec { kind: StrategyKind::Steer, seed, ..Spec::default() },
        script: legs.iter().copied().map(Leg::to_step).collect(),
        log: Log::Switches,
        most_steps: clip.most_steps,
        until: None,
        world: clip.world,
    };
    let (run, outcome, wrong) = bench.run(&request)?;
    Ok(Steered { run, outcome, wrong })
}

fn as_clip(clip: &Clip, steered: &Steered) -> Clip {
    clip_of(clip, &steered.run, steered.outcome, steered.wrong.clone())
}

/// A run of a clip's program as a clip of its own.
pub fn clip_of(clip: &Clip, run: &ControlledRun, outcome: Outcome, wrong: Option<Wrong>) -> Clip {
    Clip {
        script: switches(run),
        by_strategy: None,
        outcome,
        wrong,
        steps: run.answer.steps,
        digest: run.answer.digest,
        ..clip.clone()
    }
}

fn reason(run: &ControlledRun) -> Refuted {
    match (run.answer.divergences, run.answer.unmet) {
        (1.., _) => Refuted::Blocked,
        (0, 2..) => Refuted::Diverged,
        _ => Refuted::DidNotHappen,
    }
}

/// Replays a clip with a record, and looks whether the anomaly is there.
///
/// A failure may come before the last event can: whoever reads what is not there yet crashes, and its maker never comes to
/// make it. Then the others are enough, if the last was next (of a race) or had not come (of an order).
fn seen(attempt: &Attempt<'_>, clip: &Clip, dir: &Path, timeout: Duration) -> Result<Option<Shown>, ReplayError> {
    let record = dir.join("confirm");
    let _ = std::fs::remove_dir_all(&record);
    std::fs::create_dir_all(&record).map_err(ReplayError::Prepare)?;
    let (_, answer) =
        ready(clip, &Interventions::default(), &record, Alone { record: true, ..Alone::default() })?.run(timeout)?;
    let Ok(run) = Run::open(&record) else { return Ok(None) };
    let Some(process) = run.processes.iter().find(|process| process.is_controlled()) else { return Ok(None) };
    let targets: Option<Vec<Target>> =
        attempt.goal.events().into_iter().map(|event| Target::of(attempt, event)).collect();
    let Some(targets) = targets else { return Ok(None) };
    let failed = clip.wrong.is_some();
    let all = |numbers| Shown { numbers, never: None };
    Ok(match attempt.goal {
        Goal::Race(..) => race(process, &targets).map(all).or_else(|| {
            let next = |target: &Target| {
                let here = |seat: &&Seat| seat.thread == target.position.thread;
                let site = target.position.place;
                answer.threads.iter().find(here).is_some_and(|seat| {
                    seat.operation == target.position.operation && seat.site.map(Place::Site) == Some(site)
                })
            };
            targets.iter().rev().filter(|_| failed).find_map(|last| {
                let first = targets.iter().find(|target| target.position != last.position)?;
                let number = find(process, std::slice::from_ref(first))?.first()?.number;
                let quiet =
                    process.thread_events(last.position.thread).all(|event| process.number(event.time) < number);
                (next(last) && quiet).then(|| Shown { numbers: vec![number], never: Some(last.position) })
            })
        }),
        Goal::Order(_) => order(process, &targets).map(all).or_else(|| {
            let (last, others) = targets.split_last().filter(|_| failed)?;
            let never = find(process, std::slice::from_ref(last)).is_none();
            let numbers = order(process, others).filter(|_| never)?;
            Some(Shown { numbers, never: Some(last.position) })
        }),
        Goal::Deadlock(_) | Goal::LostWakeup { .. } => {
            let stuck = |target: &Target| {
                answer.threads.iter().any(|seat| {
                    seat.thread == target.position.thread
                        && seat.operation == target.position.operation
                        && seat.state == SeatState::Blocked
                        && matches!(seat.kind, OpKind::Lock | OpKind::LockShared | OpKind::Wait | OpKind::Join)
                })
            };
            let waiting = match attempt.goal {
                Goal::LostWakeup { .. } => targets.last().is_some_and(stuck),
                _ => targets.iter().all(stuck),
            };
            (answer.state == RunState::Deadlock && waiting).then(|| all(last_of(process, &targets)))
        }
    })
}

/// An event that is to be found again in another run.
struct Target {
    position: Position,
    /// Of the history: targets with the same one must touch the same memory.
    variable: Option<u32>,
}

impl Target {
    fn of(attempt: &Attempt<'_>, event: EventNo) -> Option<Target> {
        let found = attempt.history.event(event)?;
        let position = attempt.chart.position(attempt.history, event)?;
        Some(Target { position, variable: found.op.is_access().then_some(found.target) })
    }

    fn is(&self, event: &Event) -> bool {
        event.thread == self.position.thread
            && event.operation == self.position.operation
            && event.place == self.position.place
    }
}

/// What an event of a run touches, and whether it changes it.
struct Touched {
    number: u64,
    range: (u64, u64),
    changes: bool,
    atomic: bool,
}

impl Touched {
    fn meets(&self, other: &Touched) -> bool {
        self.range.0 < other.range.1 && other.range.0 < self.range.1
    }
}

/// The events of the targets, in the order of the run; `None` where one is missing.
fn find(process: &Process, targets: &[Target]) -> Option<Vec<Touched>> {
    let mut found: Vec<Option<Touched>> = targets.iter().map(|_| None).collect();
    let mut heap = Heap::default();
    for event in process.events() {
        for (target, slot) in targets.iter().zip(&mut found) {
            if slot.is_none() && target.is(&event) {
                *slot = touched(process, &heap, &event);
            }
        }
        heap.apply(&event);
    }
    found.into_iter().collect()
}

fn touched(process: &Process, heap: &Heap, event: &Event) -> Option<Touched> {
    let number = process.number(event.time);
    if let Some(access) = process.access(event) {
        let range = (access.addr, access.addr.saturating_add(access.size.max(1)));
        let changes = access.rw != selvedge_events::hooks::Rw::Read;
        return Some(Touched { number, range, changes, atomic: access.atomic });
    }
    let range = match event.body {
        EventBody::Free { addr } => {
            let size = heap.block_of(addr.0).map_or(1, |block| block.size.max(1));
            (addr.0, addr.0.saturating_add(size))
        }
        _ => (0, 0),
    };
    Some(Touched { number, range, changes: true, atomic: false })
}

/// Both accesses, with nothing of either thread between them but what belongs to the first.
fn race(process: &Process, targets: &[Target]) -> Option<Vec<u64>> {
    let found = find(process, targets)?;
    let [first, second] = found.as_slice() else { return None };
    let (early, late, by) = if first.number <= second.number { (first, second, 0) } else { (second, first, 1) };
    let conflict = early.meets(late) && (early.changes || late.changes) && !(early.atomic && late.atomic);
    let one = targets.get(by)?.position;
    let other = targets.get(1 - by)?.position;
    let between = |event: &Event| (early.number + 1..late.number).contains(&process.number(event.time));
    let apart = process
        .events()
        .filter(between)
        .any(|event| event.thread == other.thread || (event.thread == one.thread && event.operation != one.operation));
    (conflict && !apart).then(|| vec![early.number, late.number])
}

/// All of them, one after the other, where they touch the same memory that they touched together before.
fn order(process: &Process, targets: &[Target]) -> Option<Vec<u64>> {
    let found = find(process, targets)?;
    let ascends = found.is_sorted_by(|one, next| one.number < next.number);
    let together = targets.iter().zip(&found).enumerate().all(|(at, (target, touched))| {
        let mut others = targets.iter().zip(&found).skip(at + 1);
        others
            .all(|(other, with)| target.variable.is_none() || target.variable != other.variable || touched.meets(with))
    });
    (ascends && together).then(|| found.iter().map(|touched| touched.number).collect())
}

/// The last event that each thread of the targets did.
fn last_of(process: &Process, targets: &[Target]) -> Vec<u64> {
    let last = |target: &Target| process.thread_events(target.position.thread).last();
    targets.iter().filter_map(last).map(|event| process.number(event.time)).collect()
}
