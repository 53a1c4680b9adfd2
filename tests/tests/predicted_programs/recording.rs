//! A run of a program as the analyses see it, and what becomes of what they predict.

use std::collections::BTreeMap;

use selvedge_analyze::foresee::{Foreseen, foresee, orders};
use selvedge_analyze::{Event, EventNo, Goal, History, Op as Does, Relation};
use selvedge_drive::course::{Chart, Position};
use selvedge_events::{Order, SiteId, ThreadIx};
use selvedge_sched::random::Random;
use selvedge_sched::{Leg, Script, Steer, Step, default_choice};
use selvedge_trace::Place;

use crate::machine::{Done, How, LOCKS, MOST_LINES, MOST_THREADS, Machine, Op, Program, Run, Spot, VARIABLES};

/// A run that ended well, and its history.
#[derive(Debug)]
pub(crate) struct Recording<'p> {
    program: &'p Program,
    pub(crate) run: Run,
    pub(crate) history: History,
    chart: Chart,
}

/// A prediction that was tried.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) goal: Goal,
    /// Its operations, in the order of the goal.
    pub(crate) spots: Vec<Spot>,
    /// Whether there is something to reorder and the reordering is proved possible.
    pub(crate) proved: bool,
    /// The number of the first order that made it happen.
    pub(crate) shown: Option<usize>,
}

impl<'p> Recording<'p> {
    /// Of a run under the default policy, or by chance with a seed that is not 0; `None` where it does not end well.
    pub(crate) fn of(program: &'p Program, seed: u64) -> Option<Recording<'p>> {
        let mut random = Random::new(seed);
        let run = Machine::run(program, |moment, machine| match seed {
            0 => default_choice(moment, machine),
            _ => random.choose(moment, machine),
        });
        if !run.stuck.is_empty() {
            return None;
        }
        let mut history = History {
            threads: MOST_THREADS as u32,
            variables: VARIABLES.into(),
            locks: LOCKS.into(),
            objects: 1,
            locations: (MOST_THREADS * MOST_LINES) as u32,
            ..History::default()
        };
        for (source, done) in (0..).zip(&run.executed) {
            if let Some(event) = program.op(done.spot).and_then(|op| event(done.spot, op)) {
                history.events.push(event);
                history.sources.push(source);
            }
        }
        let position = |done: &Done| Position {
            thread: ThreadIx(done.spot.thread.into()),
            operation: done.operation,
            place: Place::Site(SiteId(done.spot.number())),
        };
        let chart = Chart::new(run.executed.iter().map(position).collect(), &history);
        Some(Recording { program, run, history, chart })
    }

    /// The event of each operation that has one.
    pub(crate) fn events(&self) -> BTreeMap<Spot, EventNo> {
        (0..self.history.len() as EventNo).map(|event| (self.done(event).spot, event)).collect()
    }

    /// Everything that is predicted, tried as `selvedge-drive` does.
    pub(crate) fn tried(&self) -> Vec<Tried> {
        let outlook = foresee(&self.history, &[]);
        let scheduler = outlook.scheduler();
        let tried = |foreseen: &Foreseen| {
            let prediction = &foreseen.prediction;
            let goal = prediction.goal.clone();
            let shown = orders(&scheduler, foreseen).iter().position(|order| {
                let legs = self.chart.course(&self.history, order, &goal).expect("every event has an operation");
                self.shows(&goal, &steered(self.program, &legs))
            });
            let proved = prediction.proof.as_ref().is_some_and(|proof| proof.relation != Relation::Observed);
            let spots = goal.events().into_iter().map(|event| self.done(event).spot).collect();
            Tried { goal, spots, proved, shown }
        };
        outlook.foreseen.iter().map(tried).collect()
    }

    fn done(&self, event: EventNo) -> Done {
        self.run.executed[self.history.sources[event as usize] as usize]
    }

    /// Whether the goal is in a run, as `confirm` in `selvedge-drive` sees it.
    fn shows(&self, goal: &Goal, run: &Run) -> bool {
        let targets: Vec<Done> = goal.events().into_iter().map(|event| self.done(event)).collect();
        let places: Option<Vec<usize>> =
            targets.iter().map(|target| run.executed.iter().position(|done| done == target)).collect();
        let is_of = |done: &Done, target: &Done| done.spot.thread == target.spot.thread;
        match (goal, places.as_deref()) {
            (Goal::Race(..), Some(&[one, other])) => {
                let between = &run.executed[one.min(other) + 1..one.max(other)];
                let apart = between.iter().any(|done| targets.iter().any(|target| is_of(done, target)));
                self.program.could_race(targets[0].spot, targets[1].spot) && !apart
            }
            (Goal::Order(_), Some(places)) => places.is_sorted(),
            (Goal::Deadlock(_), _) => targets.iter().all(|target| run.stuck.contains(target)),
            _ => false,
        }
    }
}

fn steered(program: &Program, legs: &[Leg]) -> Run {
    let steps: Vec<Step> = legs.iter().copied().map(Leg::to_step).collect();
    let mut steer = Steer::new(Script::Steps(&steps), 0);
    Machine::run(program, |moment, machine| steer.choose(moment, machine))
}

/// The event that an operation leaves in a history. The begin of a thread leaves none: it is known from what made it.
fn event(spot: Spot, op: Op) -> Option<Event> {
    let event = |does, target| Event::new(spot.thread.into(), does, target, spot.number());
    Some(match op {
        Op::Access(variable, how, order) => {
            let does = match (how, order) {
                (How::Reads, None) => Does::Read,
                (How::Writes(_) | How::Updates, None) => Does::Write,
                (How::Reads, Some(_)) => Does::AtomicRead,
                (How::Writes(_), Some(_)) => Does::AtomicWrite,
                (How::Updates, Some(_)) => Does::AtomicUpdate,
            };
            Event { order: order.unwrap_or(Order::Relaxed), ..event(does, variable.into()) }
        }
        Op::Lock(lock) => event(Does::Acquire, lock.into()),
        Op::Unlock(lock) => event(Does::Release, lock.into()),
        Op::Post => event(Does::Post, 0),
        Op::Take => event(Does::Take, 0),
        Op::Begin => return None,
        Op::Fork(child) => event(Does::Fork, child.into()),
        Op::Join(child) => event(Does::Join, child.into()),
    })
}
