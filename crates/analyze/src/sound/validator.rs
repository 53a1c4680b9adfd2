//! Whether a witness is what it claims: a correct reordering of the history that reaches its goal.
//!
//! This is the last word on every proof, so it shares nothing with the analyses that find them: it steps through the
//! witness once and holds each event against the rules of NOTE \[Correct reorderings\]. What it adds to the note:
//!
//! - *Reads of the goal.* A run ends at its goal, so a read that is an event of a race or of an order and the last
//!   of its thread may see another write. What an update writes after such a read is not what it wrote before: nobody
//!   else may read it.
//! - *Race.* The two are the last of the witness, conflict and are not both atomic. Accesses wait for nothing but
//!   their own thread, so what lets them come last in one order lets them come last in the other.
//! - *Order.* The events come in the goal's order, and the last of them is the last of the witness.
//! - *Deadlock.* Each acquisition is the next of its thread, and its lock is held by the thread of another
//!   acquisition of the goal, in a mode that excludes it. Then none of them can ever go on.
//! - *Lost wake-up.* The program releases the mutex and begins to wait in one step: the *step of the wait* starts
//!   with its first event of the same source, or with the release just before it. No event of the step is in the
//!   witness, and the step is next in its thread. The wake-up is either the next event of its own thread, or already
//!   in the witness (as it must be where the waiter still has to take a lock that the waking thread holds). A wake-up
//!   waits for nobody, so of this one event the rule for those that take is not asked.

use crate::history::{Event, EventNo, History, Op};
use crate::prediction::Goal;

/// The rule that a witness breaks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// It names an event that the history does not have.
    #[error("no such event")]
    NoSuchEvent,
    /// The event is not the next of its thread.
    #[error("not the next event of its thread")]
    ThreadOrder,
    /// The thread was not made yet.
    #[error("the thread has not been forked")]
    Fork,
    /// The thread that is waited for has not ended.
    #[error("the joined thread has events left")]
    Join,
    /// A read sees another write than in the history.
    #[error("the read sees {seen:?} instead of {due:?}")]
    ReadsFrom {
        /// What it saw in the history.
        due: Option<EventNo>,
        /// What it sees in the witness.
        seen: Option<EventNo>,
    },
    /// A read sees what an update wrote that itself saw something else.
    #[error("the read sees the result of {0}, which saw another write than in the history")]
    Tainted(EventNo),
    /// The lock is held in a mode that excludes this one.
    #[error("the lock is held")]
    LockHeld,
    /// Who gives the lock back does not hold it.
    #[error("the lock is not held by the thread")]
    NotHeld,
    /// It takes what was not posted yet.
    #[error("takes before the post {0}")]
    TakeBeforePost(EventNo),
    /// The goal makes no sense for this history.
    #[error("the goal's events are not of the sort that it is about")]
    Goal,
    /// The goal's events are not where they have to be.
    #[error("the witness does not reach the goal")]
    NotReached,
    /// An acquisition of a deadlock can be done.
    #[error("the acquisition {0} is not blocked by the others")]
    NotBlocked(EventNo),
}

/// Why a witness proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {position} of the witness: {rule}")]
pub struct Flaw {
    /// Where in the witness; its length for what is wrong at its end.
    pub position: usize,
    /// What is wrong there.
    pub rule: Rule,
}

/// What the rules need to know about a history; made once for many witnesses.
#[derive(Debug)]
pub struct Validator<'h> {
    history: &'h History,
    /// For each event how many of its thread come before it.
    places: Vec<u32>,
    /// For each event that reads, the write that it sees, or `None`.
    seen: Vec<Option<EventNo>>,
    /// For each thread the number of its events.
    totals: Vec<u32>,
    /// For each thread the event that makes it.
    forks: Vec<Option<EventNo>>,
    /// For each object its posts in the history's order.
    posts: Vec<Vec<EventNo>>,
}

/// How far a witness has come.
struct Run {
    /// For each thread how many of its events are done.
    done: Vec<u32>,
    /// For each variable the last write.
    last: Vec<Option<EventNo>>,
    /// For each lock who holds it: exclusively, or some in shared mode.
    held: Vec<Holders>,
    /// For each object the number of posts, from its first, that are done without a gap.
    posted: Vec<usize>,
    /// Updates of the goal that saw another write.
    tainted: Vec<EventNo>,
}

#[derive(Clone, Debug, Default)]
struct Holders {
    exclusive: Option<u16>,
    shared: Vec<u16>,
}

impl<'h> Validator<'h> {
    /// Takes note of what the history's events saw and waited for.
    pub fn new(history: &'h History) -> Validator<'h> {
        let mut places = Vec::with_capacity(history.len());
        let mut seen = vec![None; history.len()];
        let mut totals = vec![0; history.threads as usize];
        let mut forks = vec![None; history.threads as usize];
        let mut posts = vec![Vec::new(); history.objects as usize];
        let mut last = vec![None; history.variables as usize];
        for (event, number) in history.events.iter().zip(0..) {
            let total = &mut totals[usize::from(event.thread)];
            places.push(*total);
            *total += 1;
            let target = event.target as usize;
            if event.op.reads() {
                seen[number as usize] = last[target];
            }
            if event.op.writes() {
                last[target] = Some(number);
            }
            if event.op.posts() {
                posts[target].push(number);
            }
            if event.op == Op::Fork && forks[target].is_none() {
                forks[target] = Some(number);
            }
        }
        Validator { history, places, seen, totals, forks, posts }
    }

    /// Whether the witness is a correct reordering that reaches the goal.
    pub fn check(&self, goal: &Goal, witness: &[EventNo]) -> Result<(), Flaw> {
        let end = |rule| Flaw { position: witness.len(), rule };
        if goal.events().iter().any(|&number| self.history.event(number).is_none()) {
            return Err(end(Rule::NoSuchEvent));
        }
        let mut run = Run {
            done: vec![0; self.totals.len()],
            last: vec![None; self.history.variables as usize],
            held: vec![Holders::default(); self.history.locks as usize],
            posted: vec![0; self.posts.len()],
            tainted: Vec::new(),
        };
        let free = self.free_reads(goal, witness);
        let wake = if let Goal::LostWakeup { wake, .. } = goal { Some(*wake) } else { None };
        for (position, &number) in witness.iter().enumerate() {
            let flaw = |rule| Flaw { position, rule };
            let event = self.history.event(number).ok_or(flaw(Rule::NoSuchEvent))?;
            self.step(&mut run, number, event, free.contains(&number), wake == Some(number)).map_err(flaw)?;
        }
        match goal {
            Goal::Race(first, second) => self.race(*first, *second, witness),
            Goal::Order(events) => order(events, witness),
            Goal::Deadlock(events) => self.deadlock(&run, events),
            Goal::LostWakeup { wake, wait } => self.lost_wakeup(&run, *wake, *wait),
        }
        .map_err(end)
    }

    /// The events of the goal whose reads may see anything: each is the last of its thread.
    fn free_reads(&self, goal: &Goal, witness: &[EventNo]) -> Vec<EventNo> {
        let (Goal::Race(..) | Goal::Order(_)) = goal else { return Vec::new() };
        let thread = |number: EventNo| self.history.event(number).map(|event| event.thread);
        let last_of = |number: EventNo| witness.iter().rev().find(|&&other| thread(other) == thread(number));
        goal.events().into_iter().filter(|&number| last_of(number) == Some(&number)).collect()
    }

    fn step(&self, run: &mut Run, number: EventNo, event: &Event, free: bool, wake: bool) -> Result<(), Rule> {
        let thread = usize::from(event.thread);
        let target = event.target as usize;
        if run.done[thread] != self.places[number as usize] {
            return Err(Rule::ThreadOrder);
        }
        if run.done[thread] == 0 && self.forks[thread].is_some_and(|fork| !self.done(run, fork)) {
            return Err(Rule::Fork);
        }
        if event.op.reads() {
            let (due, sees) = (self.seen[number as usize], run.last[target]);
            let tainted = sees.filter(|update| run.tainted.contains(update));
            match tainted {
                _ if free && event.op.writes() && (due != sees || tainted.is_some()) => run.tainted.push(number),
                _ if free => {}
                Some(update) => return Err(Rule::Tainted(update)),
                None if due != sees => return Err(Rule::ReadsFrom { due, seen: sees }),
                None => {}
            }
        }
        if event.op.writes() {
            run.last[target] = Some(number);
        }
        match event.op {
            Op::Acquire | Op::AcquireShared if run.held[target].excludes(event.op, None) => return Err(Rule::LockHeld),
            Op::Acquire => run.held[target].exclusive = Some(event.thread),
            Op::AcquireShared => run.held[target].shared.push(event.thread),
            Op::Release if run.held[target].exclusive.take() != Some(event.thread) => return Err(Rule::NotHeld),
            Op::ReleaseShared => {
                let shared = &mut run.held[target].shared;
                let holder = shared.iter().position(|&holder| holder == event.thread).ok_or(Rule::NotHeld)?;
                shared.swap_remove(holder);
            }
            Op::Join if run.done[target] != self.totals[target] => return Err(Rule::Join),
            _ => {}
        }
        if event.op.takes() && !wake {
            let posts = &self.posts[target];
            while posts.get(run.posted[target]).is_some_and(|&post| self.done(run, post)) {
                run.posted[target] += 1;
            }
            if let Some(&post) = posts.get(run.posted[target]).filter(|&&post| post < number) {
                return Err(Rule::TakeBeforePost(post));
            }
        }
        run.done[thread] += 1;
        Ok(())
    }

    fn done(&self, run: &Run, number: EventNo) -> bool {
        self.places[number as usize] < run.done[usize::from(self.history.events[number as usize].thread)]
    }

    fn is_next(&self, run: &Run, number: EventNo) -> bool {
        let event = &self.history.events[number as usize];
        let thread = usize::from(event.thread);
        let made = self.forks[thread].is_none_or(|fork| self.done(run, fork));
        made && self.places[number as usize] == run.done[thread]
    }

    fn race(&self, first: EventNo, second: EventNo, witness: &[EventNo]) -> Result<(), Rule> {
        let event = |number: EventNo| &self.history.events[number as usize];
        if !event(first).could_race(event(second)) {
            return Err(Rule::Goal);
        }
        if !witness.ends_with(&[first, second]) {
            return Err(Rule::NotReached);
        }
        Ok(())
    }

    fn deadlock(&self, run: &Run, events: &[EventNo]) -> Result<(), Rule> {
        let event = |number: EventNo| &self.history.events[number as usize];
        if events.len() < 2 || events.iter().any(|&number| !event(number).op.acquires()) {
            return Err(Rule::Goal);
        }
        if events.iter().any(|&number| !self.is_next(run, number)) {
            return Err(Rule::NotReached);
        }
        let threads: Vec<u16> = events.iter().map(|&number| event(number).thread).collect();
        for &number in events {
            let Event { op, thread, target, .. } = *event(number);
            let others: Vec<u16> = threads.iter().copied().filter(|&other| other != thread).collect();
            if !run.held[target as usize].excludes(op, Some(&others)) {
                return Err(Rule::NotBlocked(number));
            }
        }
        Ok(())
    }

    fn lost_wakeup(&self, run: &Run, wake: EventNo, wait: EventNo) -> Result<(), Rule> {
        let (waker, waiter) = (&self.history.events[wake as usize], &self.history.events[wait as usize]);
        let sorts = matches!(waker.op, Op::Signal | Op::Broadcast) && waiter.op == Op::Wait;
        if !sorts || waker.target != waiter.target || waker.thread == waiter.thread {
            return Err(Rule::Goal);
        }
        let reached = self.is_next(run, step_of_wait(self.history, wait));
        if reached && (self.done(run, wake) || self.is_next(run, wake)) { Ok(()) } else { Err(Rule::NotReached) }
    }
}

impl Holders {
    /// Whether an acquisition has to wait for a holder, of these threads or of any.
    fn excludes(&self, op: Op, among: Option<&[u16]>) -> bool {
        let counts = |thread: &u16| among.is_none_or(|threads| threads.contains(thread));
        self.exclusive.iter().any(counts) || (op == Op::Acquire && self.shared.iter().any(counts))
    }
}

/// Whether the events come in this order, the last of them at the end.
fn order(events: &[EventNo], witness: &[EventNo]) -> Result<(), Rule> {
    if events.is_empty() {
        return Err(Rule::Goal);
    }
    let mut rest = witness.iter();
    if events.iter().all(|event| rest.any(|other| other == event)) && rest.next().is_none() {
        Ok(())
    } else {
        Err(Rule::NotReached)
    }
}

/// The first event of the step in which a thread gives up its mutex and begins to wait.
pub fn step_of_wait(history: &History, wait: EventNo) -> EventNo {
    let thread = history.events[wait as usize].thread;
    let source = history.sources.get(wait as usize);
    let mut first = wait;
    for number in (0..wait).rev().filter(|&number| history.events[number as usize].thread == thread) {
        let same_source = source.is_some() && history.sources.get(number as usize) == source;
        if !same_source && (first != wait || !history.events[number as usize].op.releases()) {
            break;
        }
        first = number;
    }
    first
}
