//! One pass over a trace, for what holds at its end: locks held and where they were taken, who waits for a wake-up,
//! and which wake-ups found nobody.
//!
//! A wait begins in the trace before it begins in the program: `WaitBegin` is noted on the way into the function,
//! and the mutex is given back inside. So a wake-up that follows may have come too early all the same. It surely
//! found the waiter when somebody else took the waiter's mutex in between; else it is *doubtful*, and what the
//! waiter does at the end decides.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::{ModuleIx, ThreadIx, Ticks};
use selvedge_trace::state::{Heap, Held, LockChange, Locksets};
use selvedge_trace::{ContextId, Event, EventBody, Place, Process};

use super::words::Words;

/// Where an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) thread: ThreadIx,
    pub(super) place: Place,
    pub(super) context: ContextId,
    pub(super) time: Ticks,
}

impl Spot {
    pub(super) fn of(event: &Event) -> Spot {
        Spot { thread: event.thread, place: event.place, context: event.context, time: event.time }
    }
}

/// A lock that was taken and not given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) held: Held,
    pub(super) spot: Spot,
}

/// A thread in a condition or futex wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) object: u64,
    /// The mutex of a condition wait.
    pub(super) mutex: Option<u64>,
    since: u64,
    /// Whether the wait has surely begun.
    begun: bool,
    /// A wake-up was meant for it while it surely waited.
    pub(super) woken: bool,
    /// A wake-up came when it may not have waited yet.
    pub(super) doubtful: Option<Spot>,
}

/// What is known of the wake-ups of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wakeups {
    /// How many there were.
    pub(super) count: u64,
    /// The last that found nobody.
    pub(super) unheard: Option<Spot>,
    /// Successful waits, of semaphores.
    pub(super) taken: u64,
}

/// What holds at the end of a trace.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) heap: Heap,
    locksets: Locksets,
    spots: BTreeMap<(ThreadIx, u64), Spot>,
    /// Locks of threads that have ended.
    pub(super) left: Vec<Taken>,
    pub(super) waiters: BTreeMap<ThreadIx, Waiter>,
    pub(super) wakeups: BTreeMap<u64, Wakeups>,
    /// The last event of each thread in an instrumented image: what a library does on the way says little of where
    /// the program is.
    pub(super) last: BTreeMap<ThreadIx, Spot>,
    /// Locks that are made of a futex.
    pub(super) words: Words,
    count: u64,
}

impl Ending {
    /// Reads the whole trace.
    pub(super) fn of(process: &Process) -> Ending {
        let mut ending = Ending::default();
        let instrumented: BTreeSet<ModuleIx> = process.file().sites().values().map(|site| site.module).collect();
        for event in process.events() {
            ending.apply(&event);
            ending.words.apply(process, &event);
            let own = match event.place {
                Place::Site(_) => true,
                Place::Code { module, .. } => instrumented.is_empty() || instrumented.contains(&module),
                Place::Unknown => false,
            };
            if own {
                ending.last.insert(event.thread, Spot::of(&event));
            }
        }
        ending
    }

    /// The locks that a thread holds, in order of acquisition.
    pub(super) fn held(&self, thread: ThreadIx) -> Vec<Taken> {
        self.locksets.held(thread).iter().filter_map(|held| self.taken(thread, held)).collect()
    }

    fn taken(&self, thread: ThreadIx, held: &Held) -> Option<Taken> {
        let spot = self.spots.get(&(thread, held.lock))?;
        Some(Taken { held: *held, spot: *spot })
    }

    fn apply(&mut self, event: &Event) {
        let spot = Spot::of(event);
        self.count += 1;
        if event.body == EventBody::ThreadExit {
            self.left.extend(self.held(event.thread));
            self.waiters.remove(&event.thread);
        }
        self.heap.apply(event);
        match self.locksets.apply(event) {
            Some(LockChange::Taken(held)) => {
                self.spots.insert((event.thread, held.lock), spot);
                self.left.retain(|left| left.held.lock != held.lock);
                let others = self.waiters.iter_mut().filter(|(thread, _)| **thread != event.thread);
                for (_, waiter) in others.filter(|(_, waiter)| waiter.mutex == Some(held.lock)) {
                    waiter.begun = true;
                }
            }
            Some(LockChange::Given(held)) => {
                self.spots.remove(&(event.thread, held.lock));
            }
            _ => {}
        }
        let waits = |object: u64, mutex: Option<u64>| {
            let since = self.count;
            Waiter { object, mutex, since, begun: false, woken: false, doubtful: None }
        };
        match event.body {
            EventBody::WaitBegin { cond, mutex } => {
                self.waiters.insert(event.thread, waits(cond.0, Some(mutex.0)));
            }
            EventBody::FutexWaitBegin { addr, .. } => {
                self.waiters.insert(event.thread, waits(addr.0, None));
            }
            EventBody::WaitEnd { .. } | EventBody::FutexWaitEnd { .. } => {
                self.waiters.remove(&event.thread);
            }
            EventBody::Signal { cond } => self.wake(cond.0, 1, spot),
            EventBody::Broadcast { cond } => self.wake(cond.0, u64::MAX, spot),
            EventBody::FutexWake { addr, most } => self.wake(addr.0, most, spot),
            // A post that nobody waits for is kept by the semaphore.
            EventBody::SemPost { semaphore } => self.wakeups.entry(semaphore.0).or_default().count += 1,
            EventBody::SemWait { semaphore, result: 0 } => self.wakeups.entry(semaphore.0).or_default().taken += 1,
            _ => {}
        }
    }

    fn wake(&mut self, object: u64, most: u64, spot: Spot) {
        let mut asleep: Vec<&mut Waiter> =
            self.waiters.values_mut().filter(|waiter| waiter.object == object && !waiter.woken).collect();
        asleep.sort_by_key(|waiter| (!waiter.begun, waiter.since));
        let wakeups = self.wakeups.entry(object).or_default();
        wakeups.count += 1;
        if asleep.is_empty() {
            wakeups.unheard = Some(spot);
        }
        for waiter in asleep.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            if waiter.begun {
                waiter.woken = true;
            } else {
                waiter.doubtful = Some(spot);
            }
        }
    }
}
