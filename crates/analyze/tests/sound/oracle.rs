//! The exact answer for small histories: every correct reordering is walked through.
//!
//! Written from NOTE \[Correct reorderings\] alone, state by state: two reorderings that lead to the same places and the
//! same last writes have the same future.

use std::collections::HashSet;

use selvedge_analyze::{EventNo, Goal, History, Op};

/// Which reorderings count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reorderings {
    /// All correct ones.
    All,
    /// Those that keep the order of critical sections on every lock.
    SyncPreserving,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    done: Vec<usize>,
    last: Vec<Option<EventNo>>,
    /// How many of an order's events are done.
    reached: usize,
    /// Threads whose last read was free: they go no further.
    frozen: Vec<bool>,
    /// Updates that saw something else.
    tainted: Vec<EventNo>,
}

pub(crate) struct Oracle<'h> {
    history: &'h History,
    threads: Vec<Vec<EventNo>>,
    seen: Vec<Option<EventNo>>,
    reorderings: Reorderings,
}

impl<'h> Oracle<'h> {
    pub(crate) fn new(history: &'h History, reorderings: Reorderings) -> Oracle<'h> {
        let mut threads = vec![Vec::new(); history.threads as usize];
        let mut seen = vec![None; history.len()];
        for (number, event) in history.events.iter().enumerate() {
            threads[usize::from(event.thread)].push(number as EventNo);
            let writes =
                |&other: &usize| history.events[other].op.writes() && history.events[other].target == event.target;
            if event.op.reads() {
                seen[number] = (0..number).rev().find(writes).map(|write| write as EventNo);
            }
        }
        Oracle { history, threads, seen, reorderings }
    }

    /// All races, as pairs in the history's order.
    pub(crate) fn races(&self) -> Vec<(EventNo, EventNo)> {
        let mut races = HashSet::new();
        self.walk(&Goal::Order(Vec::new()), |state| {
            let next: Vec<EventNo> = self.next(state).filter(|&event| self.forked(state, event)).collect();
            for &first in &next {
                for &second in next.iter().filter(|&&second| second > first) {
                    if self.history.events[first as usize].could_race(&self.history.events[second as usize]) {
                        races.insert((first, second));
                    }
                }
            }
            false
        });
        let mut races: Vec<_> = races.into_iter().collect();
        races.sort_unstable();
        races
    }

    /// Whether some reordering reaches the goal.
    pub(crate) fn reaches(&self, goal: &Goal) -> bool {
        match goal {
            Goal::Race(first, second) => self.races().contains(&(*first.min(second), *first.max(second))),
            Goal::Order(events) => self.walk(goal, |state| state.reached == events.len()),
            Goal::Deadlock(events) => self.walk(goal, |state| {
                events.iter().all(|&event| {
                    self.is_next(state, event)
                        && events.iter().any(|&other| other != event && self.blocks(state, other, event))
                })
            }),
            Goal::LostWakeup { wake, wait } => {
                let step = selvedge_analyze::sound::validator::step_of_wait(self.history, *wait);
                self.walk(goal, |state| {
                    self.is_next(state, step) && (self.is_done(state, *wake) || self.is_next(state, *wake))
                })
            }
        }
    }

    fn next<'s>(&'s self, state: &'s State) -> impl Iterator<Item = EventNo> + 's {
        self.threads.iter().zip(&state.done).filter_map(|(events, &done)| events.get(done).copied())
    }

    fn is_done(&self, state: &State, event: EventNo) -> bool {
        let thread = usize::from(self.history.events[event as usize].thread);
        self.threads[thread][..state.done[thread]].contains(&event)
    }

    fn is_next(&self, state: &State, event: EventNo) -> bool {
        let thread = usize::from(self.history.events[event as usize].thread);
        self.threads[thread].get(state.done[thread]) == Some(&event) && self.forked(state, event)
    }

    fn forked(&self, state: &State, event: EventNo) -> bool {
        let thread = u32::from(self.history.events[event as usize].thread);
        let fork = self.history.events.iter().position(|other| other.op == Op::Fork && other.target == thread);
        fork.is_none_or(|fork| self.is_done(state, fork as EventNo))
    }

    /// Whether the thread of `other` holds what `event` would take.
    fn blocks(&self, state: &State, other: EventNo, event: EventNo) -> bool {
        let event = self.history.events[event as usize];
        let thread = usize::from(self.history.events[other as usize].thread);
        thread != usize::from(event.thread) && self.holds(state, thread, event.target, event.op == Op::Acquire)
    }

    /// Whether a thread holds a lock exclusively, or in any mode.
    fn holds(&self, state: &State, thread: usize, lock: u32, any_mode: bool) -> bool {
        let done = self.threads[thread][..state.done[thread]].iter().map(|&event| self.history.events[event as usize]);
        let last = done.rev().find(|event| (event.op.acquires() || event.op.releases()) && event.target == lock);
        last.is_some_and(|event| event.op == Op::Acquire || (any_mode && event.op == Op::AcquireShared))
    }

    /// Steps through every state; ends where `found` says so.
    fn walk(&self, goal: &Goal, mut found: impl FnMut(&State) -> bool) -> bool {
        let start = State {
            done: vec![0; self.threads.len()],
            last: vec![None; self.history.variables as usize],
            reached: 0,
            frozen: vec![false; self.threads.len()],
            tainted: Vec::new(),
        };
        let mut visited = HashSet::from([start.clone()]);
        let mut stack = vec![start];
        while let Some(state) = stack.pop() {
            if found(&state) {
                return true;
            }
            for event in self.next(&state) {
                stack.extend(self.step(goal, &state, event).into_iter().filter(|after| visited.insert(after.clone())));
            }
        }
        false
    }

    /// The states that come of one event; none where it cannot come next.
    fn step(&self, goal: &Goal, state: &State, number: EventNo) -> Option<State> {
        let event = self.history.events[number as usize];
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        let mut after = state.clone();
        if state.frozen[thread] || !self.forked(state, number) {
            return None;
        }
        let mut free = false;
        if let Goal::Order(events) = goal
            && let Some(at) = events.iter().position(|&other| other == number)
        {
            if at != state.reached {
                return None;
            }
            after.reached += 1;
            // The goal's later events are not of this thread, so it may stop here.
            free = events[at + 1..].iter().all(|&later| self.history.events[later as usize].thread != event.thread);
        }
        if event.op.reads() {
            let sees = state.last[target];
            let same = sees == self.seen[number as usize] && !sees.is_some_and(|write| state.tainted.contains(&write));
            if !same {
                if !free {
                    return None;
                }
                after.frozen[thread] = true;
                if event.op.writes() {
                    after.tainted.push(number);
                }
            }
        }
        if event.op.writes() {
            after.last[target] = Some(number);
        }
        if event.op.acquires() {
            for other in (0..self.threads.len()).filter(|&other| other != thread) {
                if self.holds(state, other, event.target, event.op == Op::Acquire) {
                    return None;
                }
            }
            if self.reorderings == Reorderings::SyncPreserving {
                let later = |&(other, at): &(&selvedge_analyze::Event, EventNo)| {
                    at > number
                        && other.op.acquires()
                        && other.target == event.target
                        && (other.op == Op::Acquire || event.op == Op::Acquire)
                        && self.is_done(state, at)
                };
                if self.history.events.iter().zip(0..).any(|pair| later(&pair)) {
                    return None;
                }
            }
        }
        if event.op == Op::Join && state.done[target] < self.threads[target].len() {
            return None;
        }
        let wake = matches!(goal, Goal::LostWakeup { wake, .. } if *wake == number);
        if event.op.takes() && !wake {
            for (post, at) in self.history.events[..number as usize].iter().zip(0..) {
                if post.op.posts() && post.target == event.target && !self.is_done(state, at) {
                    return None;
                }
            }
        }
        after.done[thread] += 1;
        Some(after)
    }
}
