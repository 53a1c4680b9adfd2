//! Whether a circle of abstract acquisitions can be: all its concrete events in one pass.
//!
//! The events of each abstract acquisition are gone through together, from the first ones. Where the set of all
//! that has to happen before them contains one of them, that one is too early, now and for all later ones of the
//! others, and its successor takes its place; the set need not be built again (SPDOffline, algorithm 2).

use crate::clocks::{Clocks, Rule};
use crate::history::{EventNo, History, Op};

use super::Options;
use super::acquisitions::{Abstract, Node, Wanted};
use super::closure::{Closed, Closure, Growing, SectionIndex};
use super::cycles::Circle;

/// What can be said of a circle.
#[derive(Debug)]
pub(super) enum Verdict {
    /// No run can have it.
    Excluded,
    /// It may be.
    Possible {
        /// Events that would wait for each other.
        events: Vec<EventNo>,
        /// Whether there were no steps left to look for a proof.
        unchecked: bool,
    },
    /// A sync-preserving reordering reaches it.
    Proved {
        /// The events that then wait for each other.
        events: Vec<EventNo>,
        /// By thread: its events below this have happened.
        bounds: Vec<u32>,
    },
}

/// What checks need of a history.
pub(super) struct Checker<'a> {
    history: &'a History,
    nodes: &'a Abstract,
    /// The clock slots of `kept`.
    slots: Vec<(EventNo, u32)>,
    /// `None` where there was no room.
    reads: Option<(Clocks, SectionIndex)>,
    /// Made when it is needed; within, `None` where there was no room.
    must: Option<Option<Clocks>>,
    clock_numbers: usize,
    /// All wake-ups of conditions that somebody waits for with a lock held, by condition; made when needed.
    wakes: Option<Vec<(u32, EventNo)>>,
    /// Room for sets, and the steps that are left.
    set: Growing,
}

impl<'a> Checker<'a> {
    pub(super) fn new(history: &'a History, nodes: &'a Abstract, kept: Vec<Node>, options: &Options) -> Checker<'a> {
        let mut slots: Vec<(EventNo, u32)> = Vec::new();
        for node in kept {
            slots.extend(nodes.range(node).zip(nodes.events(node)).map(|(slot, event)| (*event, slot as u32)));
        }
        slots.sort_unstable();
        let clock_numbers = options.clock_numbers;
        let reads = Clocks::new(history, Rule::Reads, &slots, clock_numbers).map(|clocks| {
            let index = SectionIndex::new(&clocks);
            (clocks, index)
        });
        let set = Growing::new(history.threads, history.locks, options.proof_steps);
        Checker { history, nodes, slots, reads, must: None, clock_numbers, wakes: None, set }
    }

    /// Looks at one circle.
    pub(super) fn check(&mut self, circle: &Circle) -> Verdict {
        let mut unchecked = true;
        if let Some((clocks, index)) = &self.reads {
            if !self.set.is_spent() {
                let mut closure = Closure::new(clocks, index, &mut self.set);
                if let Some(events) = first_events(self.nodes, circle, clocks, &mut closure) {
                    let bounds = self.set.bounds().to_vec();
                    return match self.is_certain(circle, &events, &bounds) {
                        true => Verdict::Proved { events, bounds },
                        false => Verdict::Possible { events, unchecked: false },
                    };
                }
                unchecked = self.set.is_spent();
            }
            if let Some(events) = first_events(self.nodes, circle, clocks, &mut Plain::new(self.history)) {
                return Verdict::Possible { events, unchecked };
            }
        }
        let must = || Clocks::new(self.history, Rule::Must, &self.slots, self.clock_numbers);
        let Some(must) = self.must.get_or_insert_with(must) else {
            let events = circle.nodes.iter().map(|&node| self.nodes.events(node)[0]).collect();
            return Verdict::Possible { events, unchecked };
        };
        match first_events(self.nodes, circle, must, &mut Plain::new(self.history)) {
            Some(events) => Verdict::Possible { events, unchecked },
            None => Verdict::Excluded,
        }
    }

    /// Whether what is reached is a deadlock for certain, as far as the history tells: no reader waits only behind a
    /// writer, nobody for a semaphore that may have more, and nobody for a wake-up that others still have.
    fn is_certain(&mut self, circle: &Circle, events: &[EventNo], bounds: &[u32]) -> bool {
        if circle.queued {
            return false;
        }
        for (&node, &event) in circle.nodes.iter().zip(events) {
            match self.nodes.wanted(node) {
                Wanted::Lock(_) | Wanted::End(_) => {}
                Wanted::Post(_) => return false,
                Wanted::Wake(condition) => {
                    if !self.wakes_are_blocked(circle, condition, event, bounds) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Whether all wake-ups of a condition came before the wait or are of threads of the circle.
    fn wakes_are_blocked(&mut self, circle: &Circle, condition: u32, woken: EventNo, bounds: &[u32]) -> bool {
        let history = self.history;
        let waiter = history.events[woken as usize].thread;
        let begins = |event: &crate::Event| event.thread == waiter && event.op == Op::Wait && event.target == condition;
        let Some(wait) = history.events[..woken as usize].iter().rposition(begins) else { return false };
        let wakes = self.wakes.get_or_insert_with(|| {
            let of = |(number, event): (EventNo, &crate::Event)| (event.target, number);
            let is_wake = |(_, event): &(EventNo, &crate::Event)| matches!(event.op, Op::Signal | Op::Broadcast);
            let mut wakes: Vec<_> = (0..).zip(&history.events).filter(is_wake).map(of).collect();
            wakes.sort_unstable();
            wakes
        });
        let first = wakes.partition_point(|(of, _)| *of < condition);
        wakes[first..].iter().take_while(|(of, _)| *of == condition).all(|&(_, wake)| {
            let thread = history.events[wake as usize].thread;
            if wake < bounds[usize::from(thread)] {
                wake < wait as EventNo
            } else {
                circle.nodes.iter().any(|&node| self.nodes.thread(node) == thread)
            }
        })
    }
}

/// The first events of a circle that a set does not contain that has all before them.
fn first_events(nodes: &Abstract, circle: &Circle, clocks: &Clocks, set: &mut impl Set) -> Option<Vec<EventNo>> {
    let mut at = vec![0; circle.nodes.len()];
    let mut moved = true;
    while moved {
        for (&node, &at) in circle.nodes.iter().zip(&at) {
            let slot = nodes.range(node).start + at;
            let bound = nodes.events(node)[at];
            set.add(usize::from(nodes.thread(node)), bound, clocks.before(slot));
        }
        if !set.close() {
            return None;
        }
        moved = false;
        for (&node, at) in circle.nodes.iter().zip(&mut at) {
            let rest = &nodes.events(node)[*at..];
            let bound = set.bounds()[usize::from(nodes.thread(node))];
            let past = rest.partition_point(|&event| event < bound);
            if past == rest.len() {
                return None;
            }
            *at += past;
            moved |= past > 0;
        }
    }
    Some(circle.nodes.iter().zip(&at).map(|(&node, &at)| nodes.events(node)[at]).collect())
}

/// A growing set of events, as bounds.
trait Set {
    fn add(&mut self, thread: usize, bound: u32, clock: &[u32]);
    /// Whether all that has to be in it can be, and is.
    fn close(&mut self) -> bool;
    fn bounds(&self) -> &[u32];
}

impl Set for Closure<'_> {
    fn add(&mut self, thread: usize, bound: u32, clock: &[u32]) {
        Closure::add(self, thread, bound, clock);
    }

    fn close(&mut self) -> bool {
        Closure::close(self) == Closed::Yes
    }

    fn bounds(&self) -> &[u32] {
        Closure::bounds(self)
    }
}

/// A set without regard to locks.
struct Plain {
    bounds: Vec<u32>,
}

impl Plain {
    fn new(history: &History) -> Plain {
        Plain { bounds: vec![0; history.threads as usize] }
    }
}

impl Set for Plain {
    fn add(&mut self, thread: usize, bound: u32, clock: &[u32]) {
        for (mine, theirs) in self.bounds.iter_mut().zip(clock) {
            *mine = (*mine).max(*theirs);
        }
        self.bounds[thread] = self.bounds[thread].max(bound);
    }

    fn close(&mut self) -> bool {
        true
    }

    fn bounds(&self) -> &[u32] {
        &self.bounds
    }
}
