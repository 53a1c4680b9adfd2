//! The other invariants of the paper's Table 2, over traces: learnt from as many passing runs as the guard was, checked on
//! failing ones. Where one notices something before it is settled, that is tried: the run is led to the same point, the
//! thread is held there, and all others run until they wait or end.

use std::path::PathBuf;

use selvedge_analyze::invariant::rivals::{Invariant, all};
use selvedge_drive::clip::Clip;
use selvedge_drive::explore::Bench;
use selvedge_drive::guard::expose::Course;
use selvedge_drive::guard::traced::Numbers;
use selvedge_drive::hunt::{Recorded, record_clip};
use selvedge_drive::replay::Alone;
use selvedge_events::ThreadIx;
use selvedge_findings::Outcome;
use selvedge_sched::{Leg, Spec, StrategyKind};
use serde::Serialize;

use super::runs::{LIMIT, Schedules, Subject, asked, passes, world};
use crate::error::{Result, tool};

/// How an invariant did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rival {
    /// Its name.
    pub name: &'static str,
    /// Failing traces in which it was violated.
    pub detected: u64,
    /// Of these, before anything was settled: the thread was held.
    pub held: u64,
    /// Of these, runs that passed.
    pub tolerated: u64,
    /// Passing traces in which it was violated.
    pub noted_passing: u64,
}

/// What traces showed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Traced {
    /// Passing traces that all learnt from.
    pub learnt: u64,
    /// Failing traces that were checked.
    pub failing: u64,
    /// Fresh passing traces that were checked.
    pub passing: u64,
    /// The paper's AI, AVIO, DUI, CCI and PSet.
    pub rivals: Vec<Rival>,
}

/// Which schedules are recorded.
#[derive(Debug)]
pub struct Chosen {
    /// Passing ones to learn from, of a series of their own.
    pub learnt: Vec<u64>,
    /// Failing ones.
    pub failing: Vec<u64>,
    /// Passing ones.
    pub passing: Vec<u64>,
}

/// Evenly `most` of all.
pub fn spread<T: Clone>(all: &[T], most: usize) -> Vec<T> {
    let step = |at: usize| at * all.len() / most.max(1);
    if all.len() <= most { all.to_vec() } else { (0..most).filter_map(|at| all.get(step(at)).cloned()).collect() }
}

/// Records and checks.
pub fn compare(subject: &Subject<'_>, chosen: &Chosen, series: u64, server: &mut Bench<'_>) -> Result<Traced> {
    let mut rivals = all();
    let mut numbers = Numbers::default();
    let mut traced = Traced { rivals: rivals.iter().map(|one| named(one.as_ref())).collect(), ..Traced::default() };
    let judged = subject.schedules;
    for number in &chosen.learnt {
        let Some(recorded) = record(subject, &judged.series(series), *number)? else { continue };
        let Some(process) = recorded.process().filter(|_| recorded.clip.outcome == Outcome::Pass) else { continue };
        let run = numbers.read(process);
        rivals.iter_mut().for_each(|one| one.learn(&run.accesses));
        traced.learnt += 1;
    }
    for number in &chosen.failing {
        let Some(recorded) = record(subject, &judged, *number)? else { continue };
        let Some(process) = recorded.process().filter(|_| recorded.clip.outcome != Outcome::Pass) else { continue };
        let run = numbers.read(process);
        let course = Course::of(process);
        traced.failing += 1;
        for (one, did) in rivals.iter().zip(&mut traced.rivals) {
            let Some(violation) = one.first_violation(&run.accesses) else { continue };
            did.detected += 1;
            let index = run.accesses.get(violation.access).map(|access| access.index).filter(|_| violation.before);
            let legs = index.and_then(|index| course.held(ThreadIx(violation.thread), violation.operation, index));
            let Some(legs) = legs else { continue };
            did.held += 1;
            let script = legs.into_iter().map(Leg::to_step).collect();
            let request = asked(Spec { kind: StrategyKind::Steer, ..Spec::default() }, script, judged.most_steps);
            did.tolerated += u64::from(passes(server, &request)?);
        }
    }
    for number in &chosen.passing {
        let Some(recorded) = record(subject, &judged, *number)? else { continue };
        let Some(process) = recorded.process().filter(|_| recorded.clip.outcome == Outcome::Pass) else { continue };
        let run = numbers.read(process);
        traced.passing += 1;
        for (one, did) in rivals.iter().zip(&mut traced.rivals) {
            did.noted_passing += u64::from(one.first_violation(&run.accesses).is_some());
        }
    }
    Ok(traced)
}

fn named(invariant: &dyn Invariant) -> Rival {
    Rival { name: invariant.name(), ..Rival::default() }
}

/// Records a schedule; its files stay until the next one.
fn record(subject: &Subject<'_>, schedules: &Schedules, number: u64) -> Result<Option<Recorded>> {
    let prepared = subject.prepared;
    let dir: PathBuf = prepared.scratch.path().join("traced");
    if dir.exists() {
        crate::error::at("remove", &dir, std::fs::remove_dir_all(&dir))?;
    }
    let base = prepared.clip(world(), schedules.most_steps, None);
    let clip = Clip { by_strategy: Some(schedules.spec(number)), ..base };
    let how = Alone { record: true, ..Alone::default() };
    let recorded = tool("record a run", record_clip(clip, &dir, LIMIT, how))?;
    Ok(recorded.process().is_some().then_some(recorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_spread_over_all() {
        let all: Vec<u32> = (0..10).collect();
        assert_eq!(spread(&all, 20), all);
        assert_eq!(spread(&all, 4), [0, 2, 5, 7]);
        assert!(spread(&all, 0).is_empty());
    }
}
