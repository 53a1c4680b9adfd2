//! Orders of events that bring a goal about (section 6, Algorithms 3 and 4, for any number of events).
//!
//! The paper moves events of the trace behind others and then cuts off the rest. We run the history forward instead and
//! hold threads back, which comes to the same order and cannot break a rule on the way: a thread whose next event of the goal
//! is not due yet stops before the *outermost lock* around it (the paper's OML rule), between two events of the goal where
//! it holds the fewest locks; all others go on in the order of the history. What depends on a thread that is held back
//! stays behind, as in the paper. Then the events of the goal are made due one after another, and each thread that
//! blocks the one that is due runs as far as is needed. Where this ends in a dead end, other ways are tried in turn: only what
//! is needed instead of all; holding threads directly before their event; the two events of a race from the other side;
//! and all threads come to where they are held before any of them goes on.
//!
//! Every result keeps program order, fork and join, locks in both modes, and post and take. Values are not looked at: a
//! read may see another write than in the history; that is what is to be tried. Events with one source stay together.
//! One rule of NOTE \[Correct reorderings\] is given up as a last resort: that a wake-up comes after all waits that came
//! before it. Then whoever waits too late is not woken.
//!
//! Theorem 1 holds for nested locks. Without them an order may not be found although there is one.
//!
//! Cost: what precedes the first event that is held back is copied; from there to the last event of the goal each event
//! costs a constant, times the ways that are tried.

use crate::history::{EventNo, History, Op};
use crate::prediction::Goal;

use super::graph::Graph;
use super::hash::Map;

/// An order of events that reaches a goal. For many goals of one history use a [`Scheduler`].
pub fn schedule(history: &History, goal: &Goal) -> Option<Vec<EventNo>> {
    let graph = Graph::new(history, 0);
    Scheduler::new(&graph).schedule(goal)
}

/// What scheduling needs to know of a history, made once.
#[derive(Debug)]
pub struct Scheduler<'a, 'h> {
    graph: &'a Graph<'h>,
    /// The events that post to each object.
    posts: Vec<Vec<EventNo>>,
    /// The event that makes each thread.
    forks: Vec<Option<EventNo>>,
    waits: bool,
}

/// A thread is to come as far as an event.
#[derive(Clone, Copy, Debug)]
struct Stage {
    thread: u16,
    event: EventNo,
    /// Whether the event itself is to happen.
    done: bool,
    /// The first event of the thread that is not to happen: where the step that the event is part of begins or ends.
    bound: EventNo,
    /// Whether it is only where the thread is held.
    gathers: bool,
}

/// One way to try.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Whether all threads go on, or only those that are needed.
    all: bool,
    /// Whether threads are held before the outermost lock, or directly before their event.
    outermost: bool,
    /// Whether a wake-up comes after all waits before it.
    strict: bool,
}

impl<'a, 'h> Scheduler<'a, 'h> {
    /// Of a history's graph.
    pub fn new(graph: &'a Graph<'h>) -> Scheduler<'a, 'h> {
        let history = graph.history;
        let mut posts = vec![Vec::new(); history.objects as usize];
        let mut forks = vec![None; history.threads as usize];
        let mut waits = false;
        for (number, event) in history.events.iter().enumerate() {
            let number = number as EventNo;
            if event.op.posts() {
                posts[event.target as usize].push(number);
                waits |= event.op == Op::Wait;
            } else if event.op == Op::Fork {
                forks[event.target as usize].get_or_insert(number);
            }
        }
        Scheduler { graph, posts, forks, waits }
    }

    /// The history.
    pub fn history(&self) -> &'h History {
        self.graph.history
    }

    /// An order of events that reaches a goal, in the form of [`crate::Proof::witness`]: a race's events are the last two
    /// (with the rest of their steps), the last event of an order is the last; of other goals the events come next. `None` where no way leads there.
    pub fn schedule(&self, goal: &Goal) -> Option<Vec<EventNo>> {
        let events = goal.events();
        if events.is_empty() || events.iter().any(|event| *event as usize >= self.graph.history.len()) {
            return None;
        }
        let mut plans = self.plans(goal);
        for stages in &mut plans {
            // The last step ends with its event.
            if let Some(last) = stages.last_mut().filter(|last| last.done) {
                last.bound = last.event + 1;
            }
        }
        if self.torn(&events) {
            return None;
        }
        let gathered: Vec<Vec<Stage>> = plans.iter().map(|stages| self.gathered(stages)).collect();
        for strict in [true, false] {
            for (outermost, stages) in [(true, &plans), (false, &plans), (true, &gathered)] {
                for all in [true, false] {
                    for stages in stages {
                        let way = Way { all, outermost, strict };
                        if let Some(order) = Run::new(self, stages, way).finish() {
                            return Some(order);
                        }
                    }
                }
            }
            if !self.waits {
                break;
            }
        }
        None
    }

    /// The stages that lead to a goal, in one or two orders.
    fn plans(&self, goal: &Goal) -> Vec<Vec<Stage>> {
        let stage = |event: EventNo, done| {
            let bound = if done { self.step_end(event) } else { self.step_start(event) };
            Stage { thread: self.graph.event(event).thread, event, done, bound, gathers: false }
        };
        let reach = |events: &[EventNo]| -> Vec<Stage> { events.iter().map(|event| stage(*event, false)).collect() };
        match goal {
            Goal::Order(events) => vec![events.iter().map(|event| stage(*event, true)).collect()],
            Goal::Race(first, second) => {
                let last = [stage(*first, true), stage(*second, true)];
                [[*first, *second], [*second, *first]]
                    .iter()
                    .map(|events| reach(events).into_iter().chain(last).collect())
                    .collect()
            }
            Goal::Deadlock(events) => {
                let backwards: Vec<EventNo> = events.iter().rev().copied().collect();
                vec![reach(events), reach(&backwards)]
            }
            Goal::LostWakeup { wake, wait } => vec![reach(&[*wait, *wake]), reach(&[*wake, *wait])],
        }
    }

    /// The same stages after all threads have come to where they are held.
    fn gathered(&self, stages: &[Stage]) -> Vec<Stage> {
        let mut gathered: Vec<Stage> = Vec::new();
        for stage in stages {
            if gathered.iter().all(|other| other.thread != stage.thread) {
                let place = self.step_start(self.graph.outermost_lock(stage.event).unwrap_or(stage.event));
                gathered.push(Stage { event: place, done: false, bound: place, gathers: true, ..*stage });
            }
        }
        gathered.extend(stages);
        gathered
    }

    /// Where a thread waits until an event of it is due, after an earlier one that was.
    fn hold(&self, after: Option<EventNo>, event: EventNo, way: Way) -> EventNo {
        let graph = self.graph;
        let place = match after {
            _ if after == Some(event) => event,
            None if way.outermost => graph.outermost_lock(event).unwrap_or(event),
            None => event,
            Some(after) if !way.outermost => after + 1,
            Some(after) => {
                // The last place with the fewest locks: what is taken next is held at the event, or between.
                let mut fewest = graph.locksets.size(graph.lockset(after));
                let mut place = None;
                for change in graph.changes_between(after, event) {
                    place = place.or(Some(change.event));
                    if graph.locksets.size(change.after) <= fewest {
                        fewest = graph.locksets.size(change.after);
                        place = None;
                    }
                }
                place.unwrap_or(event)
            }
        };
        self.step_start(place)
    }

    /// Whether something is to happen within a step.
    fn torn(&self, events: &[EventNo]) -> bool {
        let step = |event: EventNo| self.step_start(event);
        (2..events.len())
            .any(|j| (0..j - 1).any(|i| step(events[i]) == step(events[j]) && step(events[j - 1]) != step(events[j])))
    }

    /// One after the last event of the step that an event is part of.
    fn step_end(&self, mut event: EventNo) -> EventNo {
        while self.one_step(event) {
            event += 1;
        }
        event + 1
    }

    /// The first event of the step that an event is part of.
    fn step_start(&self, mut event: EventNo) -> EventNo {
        while event > 0 && self.one_step(event - 1) {
            event -= 1;
        }
        event
    }

    /// Whether an event and the next one are of the same step of the program.
    fn one_step(&self, event: EventNo) -> bool {
        let (sources, events) = (&self.graph.history.sources, &self.graph.history.events);
        let next = event as usize + 1;
        next < events.len()
            && sources.get(next).is_some_and(|source| *source == sources[event as usize])
            && events[next].thread == events[event as usize].thread
    }
}

/// Who has a lock.
#[derive(Clone, Debug, Default)]
struct Holders {
    exclusive: Option<u16>,
    shared: Vec<u16>,
}

/// A run of the history in another order.
#[derive(Debug)]
struct Run<'r, 'a, 'h> {
    with: &'r Scheduler<'a, 'h>,
    way: Way,
    stages: &'r [Stage],
    stage: usize,
    order: Vec<EventNo>,
    /// Of each thread how many of its events have happened.
    done: Vec<u32>,
    /// Of each thread the first event that it may not do yet.
    limits: Vec<EventNo>,
    /// Threads that came to their last stage; they go on only where they are needed.
    over: Vec<bool>,
    held: Map<u32, Holders>,
    /// Of each object how many of its posts have happened, up to the first that has not.
    posted: Map<u32, u32>,
    /// Of each waiting thread how many wake-ups of its condition had happened; only where a wake-up may come too early.
    woken: Map<u16, u32>,
    wakes: Map<u32, u32>,
    from: EventNo,
    to: EventNo,
}

/// No limit.
const FREE: EventNo = EventNo::MAX;

impl<'r, 'a, 'h> Run<'r, 'a, 'h> {
    fn new(with: &'r Scheduler<'a, 'h>, stages: &'r [Stage], way: Way) -> Run<'r, 'a, 'h> {
        let threads = with.graph.history.threads as usize;
        let mut run = Run {
            with,
            way,
            stages,
            stage: 0,
            order: Vec::new(),
            done: vec![0; threads],
            limits: vec![FREE; threads],
            over: vec![false; threads],
            held: Map::default(),
            posted: Map::default(),
            woken: Map::default(),
            wakes: Map::default(),
            from: 0,
            to: stages.iter().map(|stage| stage.event).max().unwrap_or(0),
        };
        run.limit();
        // Until then everything is as it was.
        let first = stages.iter().map(|stage| run.limits[usize::from(stage.thread)].min(stage.event));
        let from = first.min().unwrap_or(0);
        run.start(with.step_start(from));
        run
    }

    /// Takes over the history up to an event.
    fn start(&mut self, from: EventNo) {
        self.from = from;
        let graph = self.with.graph;
        for thread in 0..self.done.len() as u16 {
            let events = graph.of_thread(thread);
            let done = events.partition_point(|event| *event < from);
            self.done[usize::from(thread)] = done as u32;
            // What the next event holds is what the thread holds now; after its last one look at that.
            let lockset = match (events.get(done), done.checked_sub(1)) {
                (Some(next), _) => graph.lockset(*next),
                (None, Some(last)) => graph.lockset_after(events[last]),
                (None, None) => continue,
            };
            for (lock, shared) in graph.locksets.locks(lockset) {
                let holders = self.held.entry(lock).or_default();
                if shared {
                    holders.shared.push(thread);
                } else {
                    holders.exclusive = Some(thread);
                }
            }
        }
        self.order = (0..from).collect();
    }

    fn finish(mut self) -> Option<Vec<EventNo>> {
        self.advance();
        if self.way.all {
            let mut lagging = false;
            for event in self.from..=self.to {
                if self.stage == self.stages.len() || self.racing() {
                    break;
                }
                let thread = self.with.graph.event(event).thread;
                if self.next(thread) != Some(event) {
                    continue;
                }
                if event >= self.limits[usize::from(thread)] || self.over[usize::from(thread)] || !self.ready(thread) {
                    lagging = true;
                    continue;
                }
                let opens = self.act(thread);
                let is_due = self.advance();
                if is_due {
                    self.catch_up_stage(event);
                }
                // What was done lets others go on, or what is due next does.
                if lagging && (opens || is_due) {
                    self.catch_up(event);
                }
            }
        }
        while self.stage < self.stages.len() && !self.racing() {
            if !self.act_for(self.stages[self.stage].thread) {
                return None;
            }
            self.advance();
        }
        while self.stage < self.stages.len() {
            // Both are next: nothing else may come between.
            let stage = self.stages[self.stage];
            if self.next(stage.thread) != Some(self.with.step_start(stage.event)) || !self.ready(stage.thread) {
                return None;
            }
            self.act(stage.thread);
            self.stage += 1;
            self.limit();
        }
        Some(self.order)
    }

    fn race(&self) -> bool {
        let first = self.stages.iter().find(|stage| !stage.gathers);
        first.is_some_and(|first| !first.done) && self.stages[self.stages.len() - 1].done
    }

    /// Whether the two events of a race are all that is left to do.
    fn racing(&self) -> bool {
        self.race() && self.stages.get(self.stage).is_some_and(|stage| stage.done)
    }

    /// Goes on to the next stage while the current one is reached; whether it did.
    fn advance(&mut self) -> bool {
        let before = self.stage;
        while let Some(stage) = self.stages.get(self.stage) {
            // The two events of a race must be possible, not only next.
            let waits = self.next(stage.thread).is_some_and(|next| {
                let possible = stage.done || stage.gathers || !self.race() || self.obstacle(stage.thread).is_none();
                next < stage.bound || !possible
            });
            if waits {
                break;
            }
            self.stage += 1;
            self.limit();
        }
        self.stage != before
    }

    /// Sets the limits of all threads that have stages.
    fn limit(&mut self) {
        for stage in self.stages {
            let thread = usize::from(stage.thread);
            let mut own = self.stages.iter().enumerate().filter(|(_, other)| other.thread == stage.thread);
            let due = own.clone().find(|(at, _)| *at >= self.stage);
            let past = own.rfind(|(at, past)| *at < self.stage && !past.gathers).map(|(_, past)| past.event);
            (self.limits[thread], self.over[thread]) = match due {
                Some((at, due)) if at == self.stage => (due.bound, false),
                Some((_, due)) => (self.with.hold(past, due.event, self.way), false),
                // A thread that is to stop before an event stays there.
                None => match self.stages.last() {
                    Some(last) if !last.done => (past.unwrap_or(FREE), true),
                    _ => (FREE, true),
                },
            };
        }
    }

    /// Brings the thread whose turn it is to where the others are.
    fn catch_up_stage(&mut self, now: EventNo) {
        while let Some(stage) = self.stages.get(self.stage).filter(|_| !self.racing()) {
            match self.next(stage.thread) {
                Some(next) if next <= now && self.act_for(stage.thread) => {}
                _ => return,
            }
            self.advance();
        }
    }

    /// Lets threads that were blocked go on to where the others are.
    fn catch_up(&mut self, now: EventNo) {
        let mut again = true;
        while again {
            again = false;
            for thread in 0..self.done.len() as u16 {
                while self.stage < self.stages.len()
                    && !self.racing()
                    && !self.over[usize::from(thread)]
                    && self.next(thread).is_some_and(|next| next <= now && next < self.limits[usize::from(thread)])
                    && self.ready(thread)
                {
                    again |= self.act(thread);
                    self.advance();
                }
            }
        }
    }

    /// Does one event that brings a thread closer to its next one; whether there is one.
    fn act_for(&mut self, mut thread: u16) -> bool {
        for _ in 0..=self.done.len() {
            match self.obstacle(thread) {
                None => {
                    let free = self.next(thread).is_some_and(|next| next < self.limits[usize::from(thread)]);
                    if free {
                        self.act(thread);
                    }
                    return free;
                }
                Some(Some(blocker)) => thread = blocker,
                Some(None) => return false,
            }
        }
        false
    }

    fn next(&self, thread: u16) -> Option<EventNo> {
        self.with.graph.of_thread(thread).get(self.done[usize::from(thread)] as usize).copied()
    }

    fn happened(&self, event: EventNo) -> bool {
        let graph = self.with.graph;
        self.done[usize::from(graph.event(event).thread)] > graph.own(event)
    }

    /// Whether a thread can do its next step.
    fn ready(&mut self, thread: u16) -> bool {
        self.obstacle(thread).is_none()
    }

    /// What keeps a thread from its next step, and who could remove it.
    fn obstacle(&mut self, thread: u16) -> Option<Option<u16>> {
        let Some(mut event) = self.next(thread) else { return Some(None) };
        if self.done[usize::from(thread)] == 0
            && let Some(fork) = self.with.forks[usize::from(thread)].filter(|fork| !self.happened(*fork))
        {
            return Some(Some(self.with.graph.event(fork).thread));
        }
        loop {
            if let Some(obstacle) = self.obstacle_to(thread, event) {
                return Some(obstacle);
            }
            if !self.with.one_step(event) || event + 1 >= self.limits[usize::from(thread)] {
                return None;
            }
            event += 1;
        }
    }

    fn obstacle_to(&mut self, thread: u16, number: EventNo) -> Option<Option<u16>> {
        let event = self.with.graph.event(number);
        match event.op {
            Op::Acquire => {
                let holders = self.held.get(&event.target)?;
                let holder = holders.exclusive.or(holders.shared.first().copied())?;
                Some(Some(holder).filter(|holder| *holder != thread))
            }
            Op::AcquireShared => {
                let holder = self.held.get(&event.target)?.exclusive?;
                Some(Some(holder).filter(|holder| *holder != thread))
            }
            Op::Join => {
                let child = event.target as u16;
                self.next(child).map(|_| Some(child))
            }
            Op::Woken if !self.way.strict && !self.wakes_since_wait(thread, event.target) => Some(None),
            op if op.takes() && (self.way.strict || !op.posts()) => {
                let post = self.missing_post(event.target, number)?;
                Some(Some(self.with.graph.event(post).thread))
            }
            _ => None,
        }
    }

    fn wakes_since_wait(&self, thread: u16, object: u32) -> bool {
        let wakes = self.wakes.get(&object).copied().unwrap_or(0);
        // A wait that began before this run took over was not missed.
        self.woken.get(&thread).is_none_or(|before| wakes > *before)
    }

    /// The first post to an object before an event in the history that has not happened.
    fn missing_post(&mut self, object: u32, event: EventNo) -> Option<EventNo> {
        let posts = &self.with.posts[object as usize];
        let from = self.from;
        let known = self.posted.get(&object).copied();
        let mut at = known.unwrap_or_else(|| posts.partition_point(|post| *post < from) as u32) as usize;
        let missing = loop {
            match posts.get(at) {
                None => break None,
                Some(post) if *post >= event => break None,
                Some(post) => {
                    let waits = !self.way.strict && self.with.graph.event(*post).op == Op::Wait;
                    if !waits && !self.happened(*post) {
                        break Some(*post);
                    }
                    at += 1;
                }
            }
        };
        self.posted.insert(object, at as u32);
        missing
    }

    /// Does a thread's next step; whether others may go on because of it.
    fn act(&mut self, thread: u16) -> bool {
        let mut opens = false;
        while let Some(number) = self.next(thread) {
            opens |= self.one(thread, number);
            if !self.with.one_step(number) || number + 1 >= self.limits[usize::from(thread)] {
                break;
            }
        }
        opens
    }

    fn one(&mut self, thread: u16, number: EventNo) -> bool {
        let event = *self.with.graph.event(number);
        self.order.push(number);
        self.done[usize::from(thread)] += 1;
        match event.op {
            Op::Acquire => self.held.entry(event.target).or_default().exclusive = Some(thread),
            Op::AcquireShared => self.held.entry(event.target).or_default().shared.push(thread),
            Op::Release => self.held.entry(event.target).or_default().exclusive = None,
            Op::ReleaseShared => {
                let shared = &mut self.held.entry(event.target).or_default().shared;
                if let Some(at) = shared.iter().position(|holder| *holder == thread) {
                    shared.remove(at);
                }
            }
            Op::Wait => {
                let wakes = self.wakes.get(&event.target).copied().unwrap_or(0);
                self.woken.insert(thread, wakes);
            }
            Op::Signal | Op::Broadcast => *self.wakes.entry(event.target).or_insert(0) += 1,
            _ => {}
        }
        let ended = self.next(thread).is_none();
        ended || event.op.releases() || event.op.posts() || event.op == Op::Fork
    }
}
