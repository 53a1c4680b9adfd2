//! Wake-ups that nobody would hear, and wake-ups that the wrong one would.
//!
//! A condition remembers nothing: a thread that begins to wait after the wake-up that was meant for it waits for
//! another. After the hybrid order of PECAN and its kind: of what orders events, only what no run can change (start
//! and end of threads, posts before takes, wake-ups before the waits that they end; not locks, which can be taken
//! in another order, and not reads). See `clocks`.
//!
//! Departure: a waiter that looks at something first, under its mutex, and a waker that changes it under the
//! same mutex, are a proper use. Had the wake-up come first, the waiter would have seen the change, unless
//! somebody could have overwritten it in between: what the waiter saw has to go back, through writes that each
//! looked before under the mutex, to the beginning, to the waker, or to what always comes before it. Such pairs
//! are counted, not returned, unless asked for.
//!
//! Finds, to be tried:
//! - `lost-wakeup`: a wake-up that came while a thread waited and that could have come before; of several that do not
//!   depend on the waiter the last, so that none is left to come.
//! - `signal-one-of-many`: two threads that could wait on a condition at once, at different places and after looking at
//!   different things, and a signal, which wakes only one of them.
//!
//! Never reports: waits that ended by themselves (a time limit); pairs of which the history shows a check that no
//! correct reordering gets around; semaphores, barriers and other objects that count what is posted.
//!
//! Cannot see: a check that is not recorded; whether a thread that misses a wake-up is woken by something outside the
//! history.
//!
//! Cost: one pass for the events of conditions; where there are any, one for clocks and one for pairs, each linear
//! in events, times the threads that wait at once. Results are unique by source locations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use selvedge_findings::Kind;

use crate::clocks::{Clocks, Rule};
use crate::history::{Event, EventNo, History, Op};
use crate::prediction::{Goal, Prediction};

/// What to return.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether pairs that a check seems to guard are returned too.
    pub guarded: bool,
    /// How many results are kept.
    pub results: usize,
    /// How many numbers all clocks together may have.
    pub clock_numbers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { guarded: false, results: 1000, clock_numbers: 1 << 27 }
    }
}

/// What was found, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct LostWakeups {
    /// By source locations, each to be tried.
    pub predictions: Vec<Prediction>,
    /// How many pairs of a wait and a wake-up were left out because a check guards them.
    pub guarded: u64,
    /// How many results were dropped.
    pub dropped: u64,
    /// Whether there were too many threads and waits to look at all.
    pub was_cut: bool,
}

/// How many places of waits on one condition are remembered.
const PLACES: usize = 16;

/// Looks for wake-ups that could be lost.
///
/// ```
/// use selvedge_analyze::{Event, Goal, History, Op, lost_wakeup};
///
/// // A thread waits without a look at anything; another wakes it.
/// let ops = [(0, Op::Acquire), (0, Op::Release), (0, Op::Wait), (1, Op::Signal), (0, Op::Woken), (0, Op::Acquire)];
/// let events = ops.iter().map(|(thread, op)| Event::new(*thread, *op, 0, 0)).collect();
/// let sources = vec![0, 1, 1, 2, 3, 3];
/// let history =
///     History { events, sources, threads: 2, locks: 1, objects: 1, locations: 1, ..History::default() };
///
/// let found = lost_wakeup::lost_wakeups(&history, &lost_wakeup::Options::default());
/// assert_eq!(found.predictions[0].goal, Goal::LostWakeup { wake: 3, wait: 2 });
/// ```
pub fn lost_wakeups(history: &History, options: &Options) -> LostWakeups {
    let is_of_condition = |op| matches!(op, Op::Wait | Op::Woken | Op::Signal | Op::Broadcast);
    let numbered = || (0..).zip(&history.events);
    if !history.events.iter().any(|event| event.op == Op::Wait) {
        return LostWakeups::default();
    }
    let slots: Vec<(EventNo, u32)> =
        numbered().filter(|(_, event)| is_of_condition(event.op)).map(|(number, _)| number).zip(0..).collect();
    let Some(clocks) = Clocks::new(history, Rule::Must, &slots, options.clock_numbers) else {
        return LostWakeups { was_cut: true, ..LostWakeups::default() };
    };
    let mut pass = Pass {
        history,
        options,
        clocks,
        slots,
        threads: vec![Thread::default(); history.threads as usize],
        conditions: BTreeMap::new(),
        looked_at: HashMap::new(),
        values: vec![Value { seen: Seen { base: 0, lock: NO_LOCK }, reader: 0, read: 0 }; history.variables as usize],
        lost: BTreeMap::new(),
        one_of_many: BTreeMap::new(),
        guarded: BTreeSet::new(),
        dropped: 0,
    };
    for (number, event) in numbered() {
        pass.step(number, event);
    }
    pass.finish()
}

/// What a thread does.
#[derive(Clone, Debug, Default)]
struct Thread {
    held: Vec<Held>,
    /// What it has read since it held no lock.
    reads: Vec<(u32, Seen)>,
    /// The lock that it has just given back.
    released: Option<Held>,
    waiting: Option<Waiting>,
    /// How many of its events learnt something from others.
    learnt: u32,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    lock: u32,
    /// When it was taken.
    since: EventNo,
    /// How long `Thread::reads` was then.
    reads: usize,
}

/// Where the value of a variable goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    /// One more than the write that began with it, without a look at what was there; 0 for the start of the program.
    base: u32,
    /// Under which lock later writes looked before; [`NO_LOCK`] where there are none.
    lock: u32,
}

const NO_LOCK: u32 = u32::MAX;

/// The value of a variable.
#[derive(Clone, Copy, Debug)]
struct Value {
    seen: Seen,
    /// Who read it last.
    reader: u16,
    /// One more than the event that did.
    read: u32,
}

/// A write that changed what a waiter had looked at.
#[derive(Clone, Copy, Debug)]
struct Change {
    thread: u16,
    /// What has to come before it in every run, as in [`Seen::base`].
    base: u32,
    /// The writer's `Thread::learnt` at that time.
    learnt: u32,
}

/// A wait that goes on.
#[derive(Clone, Debug)]
struct Waiting {
    wait: EventNo,
    condition: u32,
    mutex: Option<u32>,
    /// What was read under the mutex before.
    guard: Vec<(u32, Seen)>,
    /// Who has written some of that since, under the mutex.
    changes: Vec<Change>,
    /// Keys of `Pass::lost` that are about it.
    found: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Condition {
    waiters: Vec<u16>,
    /// By thread: its last wake-up.
    wakes: BTreeMap<u16, EventNo>,
    /// The last wait at each place.
    waits: Vec<PastWait>,
    /// Those that could wait at once, for which no signal has come yet.
    together: Vec<(PastWait, PastWait)>,
}

/// A wait, also one that is over.
#[derive(Clone, Debug)]
struct PastWait {
    wait: EventNo,
    thread: u16,
    location: u32,
    /// The event that ended it; [`EventNo::MAX`] while it lasts.
    woken: EventNo,
    /// What was read under the mutex before.
    guard: Vec<u32>,
}

/// A wake-up that could be lost.
#[derive(Clone, Copy, Debug)]
struct Lost {
    wake: EventNo,
    wait: EventNo,
    /// The end of the wait.
    woken: EventNo,
}

struct Pass<'a> {
    history: &'a History,
    options: &'a Options,
    clocks: Clocks,
    slots: Vec<(EventNo, u32)>,
    threads: Vec<Thread>,
    conditions: BTreeMap<u32, Condition>,
    /// By variable: who waits after having read it. Only looked up.
    looked_at: HashMap<u32, Vec<u16>>,
    values: Vec<Value>,
    /// By the locations of wait and wake-up.
    lost: BTreeMap<(u32, u32), Lost>,
    /// By the locations of both waits and the signal.
    one_of_many: BTreeMap<(u32, u32, u32), [EventNo; 3]>,
    guarded: BTreeSet<(u32, u32)>,
    dropped: u64,
}

impl Pass<'_> {
    fn step(&mut self, number: EventNo, event: &Event) {
        let me = usize::from(event.thread);
        if self.threads[me].waiting.is_some() {
            self.end_wait(number, event);
        }
        let released = self.threads[me].released.take();
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                let thread = &mut self.threads[me];
                if thread.held.is_empty() {
                    thread.reads.clear();
                }
                thread.held.push(Held { lock: event.target, since: number, reads: thread.reads.len() });
            }
            Op::Release | Op::ReleaseShared => {
                let thread = &mut self.threads[me];
                if let Some(at) = thread.held.iter().rposition(|held| held.lock == event.target) {
                    thread.released = Some(thread.held.remove(at));
                }
            }
            Op::Wait => self.begin_wait(number, event, released),
            Op::Signal | Op::Broadcast => self.wake(number, event),
            _ if event.op.is_access() => {
                if event.op.reads() {
                    self.read(number, event);
                }
                if event.op.writes() {
                    self.write(number, event);
                }
            }
            Op::Take | Op::Woken | Op::Join => self.threads[me].learnt += 1,
            _ => {}
        }
    }

    fn begin_wait(&mut self, number: EventNo, event: &Event, released: Option<Held>) {
        let thread = &mut self.threads[usize::from(event.thread)];
        let mut guard = released.map_or(Vec::new(), |mutex| thread.reads[mutex.reads..].to_vec());
        guard.sort_unstable();
        guard.dedup_by_key(|(variable, _)| *variable);
        for (variable, _) in &guard {
            self.looked_at.entry(*variable).or_default().push(event.thread);
        }
        let wait = PastWait {
            wait: number,
            thread: event.thread,
            location: event.location,
            woken: EventNo::MAX,
            guard: guard.iter().map(|(variable, _)| *variable).collect(),
        };
        thread.waiting = Some(Waiting {
            wait: number,
            condition: event.target,
            mutex: released.map(|mutex| mutex.lock),
            guard,
            changes: Vec::new(),
            found: Vec::new(),
        });
        let slot = self.slot(number);
        let condition = self.conditions.entry(event.target).or_default();
        condition.waiters.push(event.thread);
        let clock = self.clocks.before(slot);
        for other in &condition.waits {
            let apart = other.thread == wait.thread || clock[usize::from(other.thread)] > other.woken;
            let same = other.location == wait.location || (!wait.guard.is_empty() && wait.guard == other.guard);
            if !apart && !same && condition.together.len() < PLACES {
                condition.together.push((other.clone(), wait.clone()));
            }
        }
        match condition.waits.iter().position(|other| other.location == wait.location) {
            Some(old) => condition.waits[old] = wait,
            None if condition.waits.len() < PLACES => condition.waits.push(wait),
            None => {}
        }
    }

    /// A thread that waited does something. Only a wake-up shows that it would wait for ever without one.
    fn end_wait(&mut self, number: EventNo, event: &Event) {
        let Some(waiting) = self.threads[usize::from(event.thread)].waiting.take() else { return };
        let condition = self.conditions.entry(waiting.condition).or_default();
        condition.waiters.retain(|&thread| thread != event.thread);
        let together = condition.together.iter_mut().flat_map(|(one, two)| [one, two]);
        for wait in condition.waits.iter_mut().chain(together).filter(|wait| wait.wait == waiting.wait) {
            wait.woken = number;
        }
        for (variable, _) in &waiting.guard {
            if let Some(threads) = self.looked_at.get_mut(variable) {
                threads.retain(|&thread| thread != event.thread);
                if threads.is_empty() {
                    self.looked_at.remove(variable);
                }
            }
        }
        for key in &waiting.found {
            if event.op == Op::Woken {
                self.lost.entry(*key).and_modify(|lost| lost.woken = number);
            } else {
                self.lost.remove(key);
            }
        }
    }

    fn read(&mut self, number: EventNo, event: &Event) {
        let value = &mut self.values[event.target as usize];
        (value.reader, value.read) = (event.thread, number + 1);
        let thread = &mut self.threads[usize::from(event.thread)];
        if !thread.held.is_empty() {
            thread.reads.push((event.target, value.seen));
        }
    }

    fn write(&mut self, number: EventNo, event: &Event) {
        let held = &self.threads[usize::from(event.thread)].held;
        let value = &mut self.values[event.target as usize];
        // The locks under which it looked before; the last one taken, or the one of those before.
        let looked = |held: &&Held| value.reader == event.thread && value.read > held.since;
        let mut looked = held.iter().rev().filter(looked).map(|held| held.lock);
        value.seen = match (value.seen.lock, looked.next()) {
            _ if event.op == Op::AtomicUpdate => value.seen,
            (NO_LOCK, Some(lock)) => Seen { lock, ..value.seen },
            (lock, Some(last)) if last == lock || looked.any(|other| other == lock) => value.seen,
            _ => Seen { base: number + 1, lock: NO_LOCK },
        };
        let Some(waiters) = self.looked_at.get(&event.target) else { return };
        let learnt = self.threads[usize::from(event.thread)].learnt;
        for &waiter in waiters.iter().filter(|&&waiter| waiter != event.thread) {
            let Some(waiting) = &self.threads[usize::from(waiter)].waiting else { continue };
            let Ok(at) = waiting.guard.binary_search_by_key(&event.target, |(variable, _)| *variable) else { continue };
            let (seen, Some(mutex)) = (waiting.guard[at].1, waiting.mutex) else { continue };
            let is_under = self.threads[usize::from(event.thread)].held.iter().any(|held| held.lock == mutex);
            let goes_back = seen.lock == NO_LOCK || seen.lock == mutex;
            let is_known = waiting.changes.iter().any(|c| c.thread == event.thread && c.base == seen.base);
            if is_under
                && goes_back
                && !is_known
                && let Some(waiting) = &mut self.threads[usize::from(waiter)].waiting
            {
                waiting.changes.push(Change { thread: event.thread, base: seen.base, learnt });
            }
        }
    }

    fn wake(&mut self, number: EventNo, event: &Event) {
        let slot = self.slot(number);
        let clock = self.clocks.before(slot);
        let condition = self.conditions.entry(event.target).or_default();
        condition.wakes.insert(event.thread, number);
        let learnt = self.threads[usize::from(event.thread)].learnt;
        for &waiter in condition.waiters.iter().filter(|&&waiter| waiter != event.thread) {
            let Some(waiting) = &mut self.threads[usize::from(waiter)].waiting else { continue };
            let key = (self.history.events[waiting.wait as usize].location, event.location);
            let is_forced = clock[usize::from(waiter)] > waiting.wait;
            let is_guarded = waiting.changes.iter().any(|change| {
                let base = change.base.checked_sub(1).map(|base| (base, self.history.events[base as usize].thread));
                change.thread == event.thread
                    && base.is_none_or(|(base, writer)| {
                        writer == event.thread || (change.learnt == learnt && clock[usize::from(writer)] > base)
                    })
            });
            if is_guarded {
                self.guarded.insert(key);
            }
            if is_forced || (is_guarded && !self.options.guarded) {
                continue;
            }
            if let Some(lost) = self.lost.get_mut(&key) {
                if lost.wait == waiting.wait {
                    lost.wake = number;
                }
                continue;
            }
            if self.lost.len() >= self.options.results {
                self.dropped += 1;
                continue;
            }
            self.lost.insert(key, Lost { wake: number, wait: waiting.wait, woken: EventNo::MAX });
            waiting.found.push(key);
        }
        if event.op != Op::Signal {
            return;
        }
        for (one, two) in condition.together.drain(..) {
            let waits = |wait: &PastWait| {
                let known = clock[usize::from(wait.thread)];
                // The first may have been woken in the meantime, but not before this signal in every run.
                wait.thread != event.thread && known <= wait.woken
            };
            let key = (one.location.min(two.location), one.location.max(two.location), event.location);
            if !waits(&one) || !waits(&two) || self.one_of_many.contains_key(&key) {
                continue;
            }
            if self.one_of_many.len() >= self.options.results {
                self.dropped += 1;
                continue;
            }
            self.one_of_many.insert(key, [one.wait, two.wait, number]);
        }
    }

    fn slot(&self, event: EventNo) -> usize {
        self.slots.partition_point(|(number, _)| *number < event)
    }

    fn finish(self) -> LostWakeups {
        let to_try = |pattern: &str, goal| Prediction {
            kind: Kind::LostWakeup,
            pattern: pattern.to_owned(),
            goal,
            proof: None,
            unnested: false,
        };
        let lost = self
            .lost
            .values()
            .map(|lost| to_try("lost-wakeup", Goal::LostWakeup { wake: self.last_wake(lost), wait: lost.wait }));
        let one_of_many =
            self.one_of_many.values().map(|events| to_try("signal-one-of-many", Goal::Order(events.to_vec())));
        LostWakeups {
            predictions: lost.chain(one_of_many).collect(),
            guarded: self.guarded.iter().filter(|key| !self.lost.contains_key(key)).count() as u64,
            dropped: self.dropped,
            was_cut: false,
        }
    }

    /// The last wake-up that comes whether or not the wait ends.
    fn last_wake(&self, lost: &Lost) -> EventNo {
        let wait = &self.history.events[lost.wait as usize];
        let Some(condition) = self.conditions.get(&wait.target) else { return lost.wake };
        let is_free = |wake: EventNo| {
            self.history.events[wake as usize].thread != wait.thread
                && self.clocks.before(self.slot(wake))[usize::from(wait.thread)] <= lost.woken
        };
        condition.wakes.values().copied().filter(|&wake| wake > lost.wake && is_free(wake)).max().unwrap_or(lost.wake)
    }
}
