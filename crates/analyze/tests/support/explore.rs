//! Every correct reordering of a small history, one step after the other: slow and plain.

use std::collections::{BTreeSet, HashSet};

use selvedge_analyze::{EventNo, History, Op};

/// Which reorderings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All correct ones.
    All,
    /// Those that keep the order of acquisitions that exclude each other.
    SyncPreserving,
    /// All in which every read sees what it saw; wake-ups need not come after waits. A mutex is given back and its
    /// condition waited for in one step.
    LooseWakes,
}

/// How far a reordering has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// By thread: how many of its events have happened.
    pub(crate) done: Vec<usize>,
    /// By variable: the last write.
    last: Vec<Option<EventNo>>,
}

/// A history, prepared.
pub(crate) struct Explorer<'a> {
    pub(crate) history: &'a History,
    /// By thread: its events.
    pub(crate) of_thread: Vec<Vec<EventNo>>,
    /// By event: the write that it sees.
    sees: Vec<Option<EventNo>>,
    /// By event: how many events of its thread come before it.
    position: Vec<usize>,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(history: &'a History) -> Explorer<'a> {
        let mut of_thread = vec![Vec::new(); history.threads as usize];
        let mut last = vec![None; history.variables as usize];
        let (mut sees, mut position) = (Vec::new(), Vec::new());
        for (number, event) in (0..).zip(&history.events) {
            let mine: &mut Vec<EventNo> = &mut of_thread[usize::from(event.thread)];
            position.push(mine.len());
            mine.push(number);
            sees.push(if event.op.reads() { last[event.target as usize] } else { None });
            if event.op.writes() {
                last[event.target as usize] = Some(number);
            }
        }
        Explorer { history, of_thread, sees, position }
    }

    pub(crate) fn start(&self) -> State {
        State { done: vec![0; self.of_thread.len()], last: vec![None; self.history.variables as usize] }
    }

    pub(crate) fn happened(&self, state: &State, event: EventNo) -> bool {
        self.position[event as usize] < state.done[usize::from(self.history.events[event as usize].thread)]
    }

    /// A thread's next event.
    pub(crate) fn next(&self, state: &State, thread: usize) -> Option<EventNo> {
        self.of_thread[thread].get(state.done[thread]).copied()
    }

    /// The locks that a thread holds, with whether shared.
    pub(crate) fn holds(&self, state: &State, thread: usize) -> Vec<(u32, bool)> {
        let mut held = Vec::new();
        for &number in &self.of_thread[thread][..state.done[thread]] {
            let event = &self.history.events[number as usize];
            let hold = (event.target, matches!(event.op, Op::AcquireShared | Op::ReleaseShared));
            if event.op.acquires() {
                held.push(hold);
            } else if event.op.releases() {
                held.retain(|&h| h != hold);
            }
        }
        held
    }

    /// Whom a thread's next event waits for; empty where it waits for nobody. Locks, ends and posts only.
    pub(crate) fn waits_for(&self, state: &State, thread: usize) -> Vec<usize> {
        let Some(number) = self.next(state, thread) else { return Vec::new() };
        let event = &self.history.events[number as usize];
        let others = (0..self.of_thread.len()).filter(|&other| other != thread);
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                let shared = event.op == Op::AcquireShared;
                let has = |&other: &usize| {
                    self.holds(state, other).iter().any(|&(lock, s)| lock == event.target && !(s && shared))
                };
                others.filter(has).collect()
            }
            Op::Join => {
                let child = event.target as usize;
                if state.done[child] < self.of_thread[child].len() { vec![child] } else { Vec::new() }
            }
            _ if event.op.takes() => {
                let missing = |&other: &usize| {
                    self.of_thread[other].iter().any(|&post| {
                        let to = &self.history.events[post as usize];
                        post < number && to.op.posts() && to.target == event.target && !self.happened(state, post)
                    })
                };
                others.filter(missing).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_born(&self, state: &State, thread: usize) -> bool {
        self.history
            .events
            .iter()
            .zip(0..)
            .find(|(event, _)| event.op == Op::Fork && event.target as usize == thread)
            .is_none_or(|(_, fork)| self.happened(state, fork))
    }

    /// Does a thread's next event, where that is allowed.
    pub(crate) fn step(&self, state: &State, thread: usize, which: Which) -> Option<State> {
        let number = self.next(state, thread)?;
        let event = &self.history.events[number as usize];
        let loose = which == Which::LooseWakes && matches!(event.op, Op::Signal | Op::Broadcast);
        if !self.is_born(state, thread) || (!loose && !self.waits_for(state, thread).is_empty()) {
            return None;
        }
        if event.op == Op::Join && !self.is_born(state, event.target as usize) {
            return None;
        }
        if event.op.reads() && state.last[event.target as usize] != self.sees[number as usize] {
            return None;
        }
        if which == Which::SyncPreserving && event.op.acquires() {
            let overtaken = (number + 1..self.history.len() as EventNo).any(|later| {
                let other = &self.history.events[later as usize];
                other.op.acquires()
                    && other.target == event.target
                    && other.thread != event.thread
                    && !(other.op == Op::AcquireShared && event.op == Op::AcquireShared)
                    && self.happened(state, later)
            });
            if overtaken {
                return None;
            }
        }
        let mut state = state.clone();
        state.done[thread] += 1;
        if event.op.writes() {
            state.last[event.target as usize] = Some(number);
        }
        if which == Which::LooseWakes
            && self.next(&state, thread).is_some_and(|next| {
                self.history.sources[next as usize] == self.history.sources[number as usize]
                    && self.history.events[next as usize].op == Op::Wait
            })
        {
            state.done[thread] += 1;
        }
        Some(state)
    }

    /// All states that can be reached; `None` where they are more than `most`.
    pub(crate) fn states(&self, which: Which, most: usize) -> Option<Vec<State>> {
        let mut seen = HashSet::from([self.start()]);
        let mut all = vec![self.start()];
        let mut at = 0;
        while at < all.len() {
            for thread in 0..self.of_thread.len() {
                if let Some(state) = self.step(&all[at], thread, which)
                    && seen.insert(state.clone())
                {
                    all.push(state);
                }
            }
            at += 1;
            if all.len() > most {
                return None;
            }
        }
        Some(all)
    }

    /// Does events in an order; `None` where that is not a correct reordering.
    pub(crate) fn replay(&self, order: &[EventNo]) -> Option<State> {
        let mut state = self.start();
        for &number in order {
            let thread = usize::from(self.history.events[number as usize].thread);
            if self.next(&state, thread) != Some(number) {
                return None;
            }
            state = self.step(&state, thread, Which::All)?;
        }
        Some(state)
    }

    /// The circles of threads in a state that wait for locks or ends, as their next events from the least one; only
    /// those in which no shorter one is.
    pub(crate) fn circles(&self, state: &State) -> BTreeSet<Vec<EventNo>> {
        let is_plain = |&thread: &usize| {
            let next = self.next(state, thread).map(|n| self.history.events[n as usize].op);
            self.is_born(state, thread) && next.is_some_and(|op| op.acquires() || op == Op::Join)
        };
        let threads: Vec<usize> = (0..self.of_thread.len()).filter(is_plain).collect();
        let waits: Vec<Vec<usize>> = (0..self.of_thread.len()).map(|t| self.waits_for(state, t)).collect();
        let mut circles = BTreeSet::new();
        for &first in &threads {
            let mut paths = vec![vec![first]];
            while let Some(path) = paths.pop() {
                for &next in &waits[path[path.len() - 1]] {
                    if next == first {
                        let chord = |a: usize| {
                            let follows = path[(a + 1) % path.len()];
                            waits[path[a]].iter().any(|to| *to != follows && path.contains(to))
                        };
                        if !(0..path.len()).any(chord) {
                            circles.insert(path.iter().filter_map(|&t| self.next(state, t)).collect());
                        }
                    } else if next > first && threads.contains(&next) && !path.contains(&next) {
                        paths.push(path.iter().copied().chain([next]).collect());
                    }
                }
            }
        }
        circles
    }
}

/// The same circle from its least element.
pub(crate) fn rotated<T: Ord + Clone>(circle: &[T]) -> Vec<T> {
    let all = (0..circle.len()).map(|at| circle[at..].iter().chain(&circle[..at]).cloned().collect::<Vec<T>>());
    all.min().unwrap_or_default()
}

/// A history on a line for each event.
pub(crate) fn show(history: &History) -> String {
    let line = |(number, event): (usize, &selvedge_analyze::Event)| {
        format!("{number}: T{} {:?} {} @{}\n", event.thread, event.op, event.target, event.location)
    };
    history.events.iter().enumerate().map(line).collect()
}
