//! From an order of recorded events to the course that leads a run through it.
//!
//! A history counts events, a run under control a thread's operations. A [`Chart`] knows which event of a controlled trace is
//! of which operation, and turns of events (a witness, or a schedule to be tried) into legs.

use selvedge_analyze::{EventNo, Goal, History, Op};
use selvedge_events::ThreadIx;
use selvedge_sched::Leg;
use selvedge_trace::{Place, Process};

/// Where an event of a trace is: whose, in which operation, at which place of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The thread.
    pub thread: ThreadIx,
    /// Its operation, from 1; 0 before its first.
    pub operation: u32,
    /// Where in the code.
    pub place: Place,
}

/// A history on the map of its run: where each of its events is.
#[derive(Clone, Debug)]
pub struct Chart {
    /// By the number of the event in the merged order.
    positions: Vec<Position>,
    /// For each event of the history whether the next one of its thread is of the same operation: a wait that has
    /// begun and has yet to end.
    goes_on: Vec<bool>,
    /// What the threads of the history are called in its run.
    names: Vec<Option<ThreadIx>>,
}

impl Chart {
    /// Reads it off the trace that the history was made from.
    pub fn of(process: &Process, history: &History) -> Chart {
        let position = |event: selvedge_trace::Event| Position {
            thread: event.thread,
            operation: event.operation,
            place: event.place,
        };
        let mut chart = Chart {
            positions: process.events().map(position).collect(),
            goes_on: vec![false; history.len()],
            names: vec![None; history.threads as usize],
        };
        let mut next: Vec<Option<Position>> = vec![None; history.threads as usize];
        for number in (0..history.len()).rev().filter_map(|at| EventNo::try_from(at).ok()) {
            let (Some(event), Some(at)) = (history.event(number), chart.position(history, number)) else { continue };
            let thread = usize::from(event.thread);
            let follower = next.get_mut(thread).map(|next| next.replace(at)).unwrap_or_default();
            if let Some(goes_on) = chart.goes_on.get_mut(number as usize) {
                *goes_on = at.operation > 0 && follower.is_some_and(|next| next.operation == at.operation);
            }
            if let Some(name) = chart.names.get_mut(thread) {
                *name = Some(at.thread);
            }
        }
        chart
    }

    /// Where an event of the history is.
    pub fn position(&self, history: &History, event: EventNo) -> Option<Position> {
        let source = usize::try_from(*history.sources.get(event as usize)?).ok()?;
        self.positions.get(source).copied()
    }

    /// The legs that lead a run through this order and to the goal. `None` where an event has no operation: the
    /// trace was not made under control.
    pub fn course(&self, history: &History, order: &[EventNo], goal: &Goal) -> Option<Vec<Leg>> {
        let mut legs = Vec::new();
        let leg = |number: EventNo, begun: bool| {
            let at = self.position(history, number)?;
            Some(Leg { thread: at.thread, operation: at.operation, begun })
        };
        for &number in order {
            let event = history.event(number)?;
            let child = self.names.get(event.target as usize).copied().flatten();
            if let Some(child) = child.filter(|_| event.op == Op::Join) {
                add(&mut legs, Leg { thread: child, operation: Leg::END, begun: true });
            }
            let goes_on = self.goes_on.get(number as usize).copied().unwrap_or(false);
            add(&mut legs, leg(number, goes_on)?);
        }
        match goal {
            Goal::Race(..) | Goal::Order(_) => {}
            Goal::Deadlock(events) => {
                for event in events {
                    add(&mut legs, leg(*event, true)?);
                }
            }
            Goal::LostWakeup { wake, wait } => {
                add(&mut legs, leg(*wake, false)?);
                add(&mut legs, leg(*wait, true)?);
            }
        }
        Some(legs)
    }
}

/// Legs of one thread in a row are one; what comes before a thread's first operation needs none.
fn add(legs: &mut Vec<Leg>, leg: Leg) {
    match legs.last_mut() {
        _ if leg.operation == 0 => {}
        Some(last) if last.thread == leg.thread && last.operation <= leg.operation => *last = leg,
        _ => legs.push(leg),
    }
}
