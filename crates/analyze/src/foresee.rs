//! All predictions of a history together: patterns, deadlocks, lost wake-ups and broken regions, each with the strongest proof
//! that there is.
//!
//! Candidates come from the hybrid model, which promises nothing; a candidate whose schedule the validator accepts is proved,
//! whichever way the schedule was found. What is proved comes first: whoever tries predictions in this order spends its
//! time where it pays.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_findings::Kind;

use crate::history::{EventNo, History, Op};
use crate::predict::{Graph, Options, Pattern, Scheduler, predictions};
use crate::prediction::{Goal, Prediction, Proof, Relation};
use crate::sound::{Prover, sync_preserving};
use crate::{deadlock, lost_wakeup, serializability};

/// A prediction, with what is known before it is tried.
#[derive(Clone, Debug)]
pub struct Foreseen {
    /// The prediction.
    pub prediction: Prediction,
    /// Whether it is what happened, as far as the order of its own events goes.
    pub seen: bool,
}

/// What a history foretells.
#[derive(Debug)]
pub struct Outlook<'h> {
    /// Predictions, to be tried in this order. Several of one pattern may have the same source locations: where the first
    /// cannot be made to happen, the next one may.
    pub foreseen: Vec<Foreseen>,
    /// Predictions for which no proof was looked for: the history is long, and the work would have been too much.
    pub unexamined: u64,
    graph: Graph<'h>,
}

/// Steps that proofs may take, all together: there may be thousands, each linear in the history.
const WORK: u64 = 200_000_000;
/// Steps of one proof beside those through the history: what its search may take.
const SEARCH: u64 = 25_000;

/// Everything that a history foretells, with these patterns beside our own, and with what can be proved proved.
pub fn foresee<'h>(history: &'h History, user: &[Pattern]) -> Outlook<'h> {
    let mut outlook = foresee_unproved(history, user);
    let prover = Prover::new(history);
    let mut work = WORK;
    let mut foreseen = std::mem::take(&mut outlook.foreseen);
    for foreseen in foreseen.iter_mut().filter(|foreseen| foreseen.prediction.proof.is_none()) {
        match work.checked_sub(history.len() as u64 + SEARCH) {
            Some(left) => {
                work = left;
                foreseen.prediction.proof = outlook.prove(&prover, &foreseen.prediction.goal);
            }
            None => outlook.unexamined += 1,
        }
    }
    // Proved ones first; each sort in the order in which it was found.
    foreseen.sort_by_key(|foreseen| foreseen.prediction.proof.is_none());
    outlook.foreseen = foreseen;
    outlook
}

/// The same without looking for proofs, but for those that an analysis has at hand: for whoever wants few of them proved.
pub fn foresee_unproved<'h>(history: &'h History, user: &[Pattern]) -> Outlook<'h> {
    let mut options = Options::default();
    // Of patterns that fit the same events the first is taken: the user's own.
    options.patterns.splice(0..0, user.iter().cloned());
    let graph = Graph::new(history, options.near);
    let mut outlook = Outlook { foreseen: Vec::new(), unexamined: 0, graph };
    outlook.predict(history, &options);
    outlook
}

impl<'h> Outlook<'h> {
    /// What makes orders of events for predictions that nothing proves.
    pub fn scheduler(&self) -> Scheduler<'_, 'h> {
        Scheduler::new(&self.graph)
    }

    fn predict(&mut self, history: &History, options: &Options) {
        let circles = deadlock::deadlocks(history, &deadlock::Options::default()).predictions;
        let lost = lost_wakeup::lost_wakeups(history, &lost_wakeup::Options::default()).predictions;
        let broken = serializability::violations(history, &serializability::Options::default()).predictions;
        let unseen = |prediction| Foreseen { prediction, seen: false };
        self.foreseen.extend(circles.into_iter().chain(lost).map(unseen));
        for candidate in &predictions::search(&self.graph, options).candidates {
            for (number, goal) in candidate.goals.iter().enumerate() {
                let seen = candidate.seen && number == 0;
                self.foreseen.push(Foreseen { prediction: candidate.prediction(goal), seen });
            }
        }
        let known: BTreeSet<Goal> = self.foreseen.iter().map(|foreseen| foreseen.prediction.goal.clone()).collect();
        let broken = broken.into_iter().filter(|prediction| !known.contains(&prediction.goal));
        self.foreseen.extend(broken.map(|prediction| Foreseen { prediction, seen: true }));
    }

    /// A proof that a goal can be reached, if one is found. The prover is of the same history.
    pub fn prove(&self, prover: &Prover<'_>, goal: &Goal) -> Option<Proof> {
        prover.prove(goal).or_else(|| {
            let scheduler = self.scheduler();
            let witness = scheduler.schedule(goal)?;
            prover.validator().check(goal, &witness).ok()?;
            Some(Proof { relation: relation(scheduler.history(), &witness), witness })
        })
    }
}

/// What an order that was found by trying keeps.
fn relation(history: &History, order: &[EventNo]) -> Relation {
    let mut last: Vec<Option<EventNo>> = vec![None; history.locks as usize];
    let keeps = order.iter().all(|&number| {
        let Some(event) = history.event(number).filter(|event| event.op.acquires()) else { return true };
        let Some(before) = last.get_mut(event.target as usize) else { return true };
        before.replace(number).is_none_or(|before| before < number)
    });
    if keeps { Relation::SyncPreserving } else { Relation::LockReversing }
}

/// Pairs of accesses that are tried for one event, and for all events together.
const PAIRS_OF_ONE: usize = 64;
const PAIRS: usize = 200_000;

/// For every access that can race with an earlier one, one such race with its proof: what experts count. Of long histories
/// only those that are sync-preserving, which takes one pass.
pub fn every_race(history: &History) -> Vec<Prediction> {
    let prover = Prover::new(history);
    let mut found: BTreeMap<EventNo, Prediction> = BTreeMap::new();
    let prove = |first: EventNo, second: EventNo| {
        let goal = Goal::Race(first, second);
        let proof = Some(prover.prove(&goal)?);
        Some(Prediction { kind: Kind::DataRace, pattern: "race".to_owned(), goal, proof, unnested: false })
    };
    for pair in sync_preserving::racy_seconds(history) {
        found.extend(prove(pair.first, pair.second).map(|prediction| (pair.second, prediction)));
    }
    let mut accesses: BTreeMap<u32, Vec<EventNo>> = BTreeMap::new();
    let mut tried = 0;
    for (number, event) in (0..).zip(&history.events).filter(|(_, event)| event.op.is_access()) {
        let earlier = accesses.entry(event.target).or_default();
        if !found.contains_key(&number) && tried < PAIRS {
            let racy = |first: &EventNo| history.event(*first).is_some_and(|first| first.could_race(event));
            let firsts = earlier.iter().rev().copied().filter(racy).take(PAIRS_OF_ONE).inspect(|_| tried += 1);
            let race = firsts.into_iter().find_map(|first| prove(first, number));
            found.extend(race.map(|prediction| (number, prediction)));
        }
        earlier.push(number);
    }
    found.into_values().collect()
}

/// Events of a history up to which a goal that the scheduler knows no way to is searched for.
const SEARCHED: usize = 200_000;

/// An order that keeps all rules but one: reads may see anything. A search, where the scheduler's few ways all failed.
fn regardless_of_values(history: &History, goal: &Goal) -> Option<Vec<EventNo>> {
    if history.len() > SEARCHED {
        return None;
    }
    // What nobody reads, nobody has to see.
    let mut blind = history.clone();
    for event in &mut blind.events {
        event.op = match event.op {
            Op::Read => Op::Write,
            Op::AtomicRead | Op::AtomicUpdate => Op::AtomicWrite,
            op => op,
        };
    }
    Some(Prover::new(&blind).prove(goal)?.witness)
}

/// Orders of events that lead to a prediction, best first.
pub fn orders(scheduler: &Scheduler<'_, '_>, foreseen: &Foreseen) -> Vec<Vec<EventNo>> {
    let prediction = &foreseen.prediction;
    let mut orders: Vec<Vec<EventNo>> = Vec::new();
    // What has happened happens again if all goes as it went.
    if let (true, Goal::Order(events)) = (foreseen.seen, &prediction.goal) {
        orders.extend(events.iter().max().map(|last| (0..=*last).collect()));
    }
    let witness = prediction.proof.as_ref().map(|proof| &proof.witness).filter(|witness| !witness.is_empty());
    orders.extend(witness.cloned());
    let scheduled = scheduler.schedule(&prediction.goal);
    orders.extend(scheduled.filter(|order| witness != Some(order)));
    if orders.is_empty() {
        orders.extend(regardless_of_values(scheduler.history(), &prediction.goal));
    }
    // Both accesses of a race are next at once: the other order is as good.
    if let Goal::Race(..) = prediction.goal
        && let Some(mut turned) = orders.first().cloned()
        && let Some(last) = turned.len().checked_sub(2)
    {
        turned.get_mut(last..).unwrap_or(&mut []).reverse();
        orders.push(turned);
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::text::parse;

    /// To reach the race the threads take turns among their locks, and the second reads what was not written yet: the
    /// scheduler has no way, and no reordering is correct.
    #[test]
    fn orders_are_searched_for_where_the_scheduler_has_none() {
        let history = parse(
            "T0 acq a; T0 acq c; T0 rel c; T0 acq b; T0 w x; T0 rel b; T0 rel a; T0 w y; \
             T1 r y; T1 acq c; T1 acq b; T1 rel b; T1 w x; T1 rel c",
        );
        let goal = Goal::Race(4, 12);
        let outlook = foresee(&history, &[]);
        let foreseen = outlook.foreseen.iter().find(|foreseen| foreseen.prediction.goal == goal).expect("predicted");
        assert_eq!(foreseen.prediction.proof, None);
        assert_eq!(outlook.scheduler().schedule(&goal), None);
        let orders = orders(&outlook.scheduler(), foreseen);
        assert_eq!(orders[0], [0, 1, 2, 8, 9, 10, 11, 3, 4, 12]);
    }
}
