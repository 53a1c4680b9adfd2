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
        Chart::new(process.events().map(position).collect(), history)
    }

    /// The same, where it is known what the sources of the history are.
    pub fn new(positions: Vec<Position>, history: &History) -> Chart {
        let mut chart =
            Chart { positions, goes_on: vec![false; history.len()], names: vec![None; history.threads as usize] };
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
        let mut race = self.race(history, order, goal);
        for &number in order {
            let event = history.event(number)?;
            // Whoever comes second stands at its access before the first is done: what it does on the way is not between.
            if let Some((_, late)) = race.take_if(|(early, _)| self.position(history, number) == Some(*early)) {
                let leg = Leg { thread: late.thread, operation: late.operation.saturating_sub(1), begun: false };
                // Its access may be the first thing that it does: then it has to begin.
                if leg.operation == 0 { legs.push(leg) } else { add(&mut legs, leg) }
            }
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

    /// Where the accesses of a race are, in this order.
    fn race(&self, history: &History, order: &[EventNo], goal: &Goal) -> Option<(Position, Position)> {
        let Goal::Race(one, other) = *goal else { return None };
        let early = *order.iter().find(|number| [one, other].contains(number))?;
        let late = if early == one { other } else { one };
        Some((self.position(history, early)?, self.position(history, late)?))
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

#[cfg(test)]
mod tests {
    use selvedge_analyze::Event;

    use super::*;

    /// Thread, what it does to which target, and the operation that this is of.
    type Row = (u16, Op, u32, u32);

    fn charted(rows: &[Row]) -> (History, Chart) {
        let events = rows.iter().map(|(thread, op, target, _)| Event::new(*thread, *op, *target, 0)).collect();
        let sources = (0..rows.len() as u64).collect();
        let (threads, variables, locks, objects, locations) = (3, 3, 3, 3, 1);
        let history = History { events, sources, threads, variables, locks, objects, locations };
        let position = |(thread, _, _, operation): &Row| Position {
            thread: name(*thread),
            operation: *operation,
            place: Place::Unknown,
        };
        let chart = Chart::new(rows.iter().map(position).collect(), &history);
        (history, chart)
    }

    /// Threads are called otherwise in their run.
    fn name(thread: u16) -> ThreadIx {
        ThreadIx(u32::from(thread) + 4)
    }

    fn check(rows: &[Row], order: &[EventNo], goal: &Goal, expected: &[(u16, u32, bool)]) {
        let (history, chart) = charted(rows);
        let leg = |(thread, operation, begun): &(u16, u32, bool)| Leg {
            thread: name(*thread),
            operation: *operation,
            begun: *begun,
        };
        let expected: Vec<Leg> = expected.iter().map(leg).collect();
        assert_eq!(chart.course(&history, order, goal), Some(expected), "{order:?} {goal:?}");
    }

    #[test]
    fn legs_of_one_thread_in_a_row_are_one() {
        let rows = [(0, Op::Write, 0, 0), (0, Op::Write, 1, 2), (0, Op::Read, 1, 3), (1, Op::Write, 1, 7)];
        check(&rows, &[0], &Goal::Order(vec![0]), &[]);
        check(&rows, &[0, 1, 2, 3], &Goal::Order(vec![2, 3]), &[(0, 3, false), (1, 7, false)]);
        check(&rows, &[0, 1, 3, 2], &Goal::Order(vec![3, 2]), &[(0, 2, false), (1, 7, false), (0, 3, false)]);
    }

    #[test]
    fn a_join_comes_after_the_end_of_the_child() {
        let rows = [(0, Op::Fork, 1, 1), (1, Op::Write, 0, 2), (0, Op::Join, 1, 2), (0, Op::Read, 0, 3)];
        let expected = [(0, 1, false), (1, Leg::END, true), (0, 3, false)];
        check(&rows, &[0, 1, 2, 3], &Goal::Order(vec![1, 3]), &expected);
        check(&rows, &[0], &Goal::Deadlock(vec![2]), &[(0, 2, true)]);
    }

    #[test]
    fn a_wait_that_is_not_over_need_only_have_begun() {
        let wait = [(0, Op::Acquire, 0, 1), (0, Op::Release, 0, 2), (0, Op::Wait, 0, 2)];
        let wake = [(1, Op::Write, 0, 1), (1, Op::Signal, 0, 2)];
        let woken = [(0, Op::Woken, 0, 2), (0, Op::Acquire, 0, 2), (0, Op::Read, 0, 3)];
        let rows = [&wait[..], &wake, &woken].concat();
        let expected = [(0, 2, true), (1, 2, false), (0, 3, false)];
        check(&rows, &[0, 1, 2, 3, 4, 5, 6, 7], &Goal::Order(vec![3, 7]), &expected);
        check(&rows, &[0, 3], &Goal::LostWakeup { wake: 4, wait: 2 }, &[(0, 1, false), (1, 2, false), (0, 2, true)]);
    }

    #[test]
    fn whoever_deadlocks_need_only_have_begun() {
        let one = [(0, Op::Acquire, 0, 1), (0, Op::Acquire, 1, 2)];
        let other = [(1, Op::Acquire, 1, 1), (1, Op::Acquire, 0, 2)];
        let expected = [(0, 1, false), (1, 1, false), (0, 2, true), (1, 2, true)];
        check(&[one, other].concat(), &[0, 2], &Goal::Deadlock(vec![1, 3]), &expected);
    }

    #[test]
    fn both_accesses_of_a_race_are_next_before_one_is_done() {
        // What the second thread does before its access leaves no event.
        let rows = [(0, Op::Write, 1, 1), (0, Op::Write, 0, 2), (1, Op::Write, 0, 4)];
        let race = Goal::Race(1, 2);
        check(&rows, &[0, 1, 2], &race, &[(0, 1, false), (1, 3, false), (0, 2, false), (1, 4, false)]);
        check(&rows, &[0, 2, 1], &race, &[(0, 1, false), (1, 4, false), (0, 2, false)]);
        // A step with two events is one operation.
        let rows = [(0, Op::Read, 1, 2), (0, Op::Write, 0, 2), (1, Op::Write, 0, 4)];
        check(&rows, &[0, 1, 2], &race, &[(1, 3, false), (0, 2, false), (1, 4, false)]);
    }
}
