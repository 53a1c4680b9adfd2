//! Proofs: a reordering that reaches a goal, found in tiers and checked before it is handed out.
//!
//! 1. For a race the least sync-preserving ideal, in the history's order.
//! 2. The least set of events that the goal needs, arranged anew: sections may change places. If the search gets
//!    stuck, what must come before what is worked out for the part of the history where it did, and the search starts
//!    again there.
//! 3. Events that nothing needs may come too (a release that sets a lock free needs what its thread does before it): a
//!    search with a bound on its steps, which settles small histories.
//!
//! Work is bounded: the whole of one call is a few passes over the needed events, and so many steps of the searches.
//! What the [`Validator`] does not take is not a proof. The relation of a proof is read off the witness: one that keeps
//! the order of all sections is sync-preserving, whatever found it.

use std::sync::OnceLock;

use super::arrange::arrange;
use super::ideals::{Growing, Hit, Ideals};
use super::needs::{Ending, Task, excludes};
use super::saturate::{Before, MOST_EVENTS};
use super::validator::{Validator, step_of_wait};
use crate::history::{EventNo, History};
use crate::prediction::{Goal, Proof, Relation};

/// From how many events on a search that got stuck starts again.
const MOST_CULPRITS: usize = 6;

/// How much is tried for one goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Steps of a search among needed events, from its first dead end on.
    pub steps: usize,
    /// Steps of the search that also does what nobody needs.
    pub wide_steps: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { steps: 5000, wide_steps: 20_000 }
    }
}

/// Proves goals of one history.
#[derive(Debug)]
pub struct Prover<'h> {
    ideals: Ideals<'h>,
    /// Made where a race is first proved.
    happens_before: OnceLock<Ideals<'h>>,
    validator: Validator<'h>,
    effort: Effort,
}

/// A reordering that reaches the goal, if one is found.
pub fn prove(history: &History, goal: &Goal) -> Option<Proof> {
    Prover::new(history).prove(goal)
}

impl<'h> Prover<'h> {
    /// Takes note of what all goals have in common.
    pub fn new(history: &'h History) -> Prover<'h> {
        Prover::with_effort(history, Effort::default())
    }

    /// The same with another bound on the work.
    pub fn with_effort(history: &'h History, effort: Effort) -> Prover<'h> {
        let (ideals, validator) = (Ideals::new(history), Validator::new(history));
        Prover { ideals, happens_before: OnceLock::new(), validator, effort }
    }

    /// The judge of all witnesses.
    pub fn validator(&self) -> &Validator<'h> {
        &self.validator
    }

    /// A reordering that reaches the goal, if one is found.
    pub fn prove(&self, goal: &Goal) -> Option<Proof> {
        if goal.events().iter().any(|&number| self.ideals.index.history.event(number).is_none()) {
            return None;
        }
        let witness = self.keeping_order(goal).or_else(|| self.arranged(goal))?;
        let relation = self.relation(goal, &witness);
        Some(Proof { relation, witness })
    }

    /// The least sync-preserving ideal, in the history's order.
    fn keeping_order(&self, goal: &Goal) -> Option<Vec<EventNo>> {
        let Goal::Race(first, second) = *goal else { return None };
        let ends = [first, second].map(|number| self.ideals.before(number));
        let mut growing = Growing::default();
        if !self.ideals.co_enabled(&mut growing, ends) {
            return None;
        }
        let mut witness = self.in_order(&growing.ideal);
        witness.extend([first, second]);
        self.validator.check(goal, &witness).is_ok().then_some(witness)
    }

    /// The events of an ideal in the history's order.
    fn in_order(&self, ideal: &[u32]) -> Vec<EventNo> {
        let index = &self.ideals.index;
        let mut events: Vec<EventNo> = ideal
            .iter()
            .enumerate()
            .flat_map(|(thread, &length)| &index.thread(thread)[..length as usize])
            .copied()
            .collect();
        events.sort_unstable();
        events
    }

    fn arranged(&self, goal: &Goal) -> Option<Vec<EventNo>> {
        let task = self.task(goal)?;
        for ending in [Ending::Followed, Ending::Least, Ending::All] {
            let mut exact = task.clone();
            if exact.end_sections(&self.ideals, ending).is_err() || self.refree(goal, &mut exact).is_err() {
                continue;
            }
            exact.cap.clone_from(&exact.need);
            if let Some(witness) = self.arrange_exactly(&exact).and_then(|order| self.finish(goal, order)) {
                return Some(witness);
            }
        }
        let order = arrange(&self.ideals, &task, None, &[], self.effort.wide_steps).ok()?;
        self.finish(goal, order)
    }

    fn arrange_exactly(&self, task: &Task) -> Option<Vec<EventNo>> {
        let mut culprits = match arrange(&self.ideals, task, None, &[], self.effort.steps / 10) {
            Ok(order) => return Some(order),
            Err(stuck) => stuck.culprits,
        };
        // Again from before each of those that came too early, and at last from the beginning.
        culprits.truncate(MOST_CULPRITS);
        culprits.push(0);
        let events = self.in_order(&task.need);
        for culprit in culprits {
            let prefix = &events[..events.partition_point(|&number| number < culprit)];
            if events.len() - prefix.len() > MOST_EVENTS {
                break;
            }
            let Ok(before) = Before::new(&self.ideals, task, culprit) else { continue };
            if let Ok(order) = arrange(&self.ideals, task, Some(&before), prefix, self.effort.steps) {
                return Some(order);
            }
        }
        None
    }

    /// What a goal needs; none where it is out of reach.
    fn task(&self, goal: &Goal) -> Option<Task> {
        let index = &self.ideals.index;
        let mut task = Task::new(&self.ideals);
        let mut ends: Vec<EventNo> = Vec::new();
        let mut wanted: Vec<EventNo> = Vec::new();
        match goal {
            Goal::Race(first, second) => ends.extend([*first, *second]),
            Goal::Deadlock(events) => ends.clone_from(events),
            Goal::LostWakeup { wake, wait } => {
                ends.push(step_of_wait(index.history, *wait));
                wanted.push(*wake);
                task.lifted = Some(*wake);
            }
            Goal::Order(events) => {
                let last = *events.last()?;
                task.cap[index.thread_of(last)] = index.place(last) + 1;
                task.chain.clone_from(events);
                task.ends_with_chain = true;
                wanted.clone_from(events);
                task.free = events.iter().copied().filter(|&event| self.may_be_free(events, event)).collect();
            }
        }
        for &end in &ends {
            let cap = &mut task.cap[index.thread_of(end)];
            *cap = (*cap).min(index.place(end));
        }
        for &end in &ends {
            task.want(&self.ideals, index.thread_of(end), index.place(end)).ok()?;
            // A thread that has done nothing yet must have been made.
            let fork = index.fork(index.thread_of(end)).into_iter();
            for fork in fork {
                task.want(&self.ideals, index.thread_of(fork), index.place(fork) + 1).ok()?;
            }
        }
        for &event in &wanted {
            task.want(&self.ideals, index.thread_of(event), index.place(event) + 1).ok()?;
        }
        self.refree(goal, &mut task).ok()?;
        Some(task)
    }

    /// Whether an event of an order is the goal's last of its thread.
    fn may_be_free(&self, events: &[EventNo], event: EventNo) -> bool {
        let index = &self.ideals.index;
        let later = |&other: &EventNo| {
            index.thread_of(other) == index.thread_of(event) && index.place(other) > index.place(event)
        };
        !events.iter().any(later)
    }

    /// Takes the freedom from reads whose thread has to go on, and from updates that others read.
    fn refree(&self, goal: &Goal, task: &mut Task) -> Result<(), Hit> {
        let Goal::Order(_) = goal else { return Ok(()) };
        let index = &self.ideals.index;
        loop {
            let bound = task.free.iter().position(|&event| {
                let goes_on = task.need[index.thread_of(event)] > index.place(event) + 1;
                goes_on || (index.history.events[event as usize].op.writes() && self.is_read(task, event))
            });
            let Some(at) = bound else { return Ok(()) };
            let event = task.free.remove(at);
            // What the read sees is needed after all.
            if let Some(write) = index.write_seen(event).filter(|_| index.history.events[event as usize].op.reads()) {
                task.want(&self.ideals, index.thread_of(write), index.place(write) + 1)?;
            }
        }
    }

    fn is_read(&self, task: &Task, write: EventNo) -> bool {
        let index = &self.ideals.index;
        let event = &index.history.events[write as usize];
        index.history.events[write as usize + 1..]
            .iter()
            .zip(write + 1..)
            .filter(|(other, _)| other.op.is_access() && other.target == event.target)
            .any(|(other, number)| {
                other.op.reads()
                    && index.write_seen(number) == Some(write)
                    && task.needs(&self.ideals, number)
                    && !task.free.contains(&number)
            })
    }

    /// Makes a witness of an order, if it is one.
    fn finish(&self, goal: &Goal, mut order: Vec<EventNo>) -> Option<Vec<EventNo>> {
        match goal {
            Goal::Race(first, second) => order.extend([*first, *second]),
            Goal::LostWakeup { wake, .. } => {
                // Left out where the waiter can do without.
                let without: Vec<EventNo> = order.iter().copied().filter(|event| event != wake).collect();
                if self.validator.check(goal, &without).is_ok() {
                    return Some(without);
                }
            }
            Goal::Order(_) | Goal::Deadlock(_) => {}
        }
        self.validator.check(goal, &order).is_ok().then_some(order)
    }

    fn relation(&self, goal: &Goal, witness: &[EventNo]) -> Relation {
        let history = self.ideals.index.history;
        if let Goal::Race(first, second) = *goal {
            let ideals = self.happens_before.get_or_init(|| Ideals::happens_before(history));
            if ideals.co_enabled(&mut Growing::default(), [first, second].map(|number| ideals.before(number))) {
                return Relation::Shb;
            }
        }
        if self.keeps_sections(witness) { Relation::SyncPreserving } else { Relation::LockReversing }
    }

    /// Whether all sections that exclude each other come in the history's order.
    fn keeps_sections(&self, witness: &[EventNo]) -> bool {
        let index = &self.ideals.index;
        // For each lock the latest section so far, and the latest exclusive one.
        let mut latest = vec![[None::<u32>; 2]; index.history.locks as usize];
        for &number in witness {
            let event = &index.history.events[number as usize];
            let Some(section) = index.section_of(number).filter(|_| event.op.acquires()) else { continue };
            let [any, exclusive] = &mut latest[event.target as usize];
            let shared = index.section(section).shared;
            let rival = if shared { *exclusive } else { *any };
            if rival.is_some_and(|rival| rival > section && excludes(index.section(section), index.section(rival))) {
                return false;
            }
            *any = (*any).max(Some(section));
            if !shared {
                *exclusive = (*exclusive).max(Some(section));
            }
        }
        true
    }
}
