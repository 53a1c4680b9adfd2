//! Races by schedulable happens-before (Mathur, Kini, Viswanathan: What happens-after the first race?, OOPSLA 2018).
//!
//! Finds: pairs of conflicting accesses that nothing orders, where what orders is the thread, locks, forks and joins,
//! posts and takes, and every read after the write that it saw (section 4). Each pair can be next at once, not only the
//! first of the trace. Never reports what no reordering shows. Cannot see races that need critical sections to come in
//! another order, or without one that came before.
//!
//! Departures:
//! - The time of a thread is the number of its last event in the history, so a pair of events and the test whether they
//!   are ordered need nothing but the numbers.
//! - The clock of the last write is not copied at each write: writes between two changes of a thread's clock share one
//!   copy, which goes when the last of them is overwritten.
//! - Accesses are remembered as in FastTrack, one number as long as they are ordered; plain and atomic ones apart,
//!   since two atomic accesses do not race and one must not hide a plain one.
//! - Locks in shared mode, and objects that are posted to and taken.
//!
//! One pass. Memory: a clock for each thread, lock and object, and for each variable its last write's and, where its
//! accesses are not ordered, one number for each thread; nothing grows with the trace.

use super::pair::{RacePair, Told};
use crate::history::{Event, EventNo, History, Op};

/// Races of a history, the first of each pair of places, in the order of the second.
pub fn races(history: &History) -> Vec<RacePair> {
    let mut told = Told::default();
    let mut pairs = Vec::new();
    let mut shb = Shb::new(history.threads);
    for event in &history.events {
        shb.step(event, |pair, location| {
            if told.insert(location, event.location) {
                pairs.push(pair);
            }
        });
    }
    pairs
}

/// For each event that races with an earlier one, one such pair, in the order of the second.
pub fn racy_seconds(history: &History) -> Vec<RacePair> {
    let mut pairs: Vec<RacePair> = Vec::new();
    let mut shb = Shb::new(history.threads);
    for event in &history.events {
        shb.step(event, |pair, _| {
            if pairs.last().is_none_or(|last| last.second != pair.second) {
                pairs.push(pair);
            }
        });
    }
    pairs
}

/// For each thread one more than the number of its last event that is known; 0 for none.
type Clock = Box<[u32]>;

/// The analysis while a trace goes by.
#[derive(Debug)]
pub struct Shb {
    now: EventNo,
    threads: Vec<Thread>,
    locks: Vec<Option<Box<Lock>>>,
    objects: Vec<Option<Clock>>,
    variables: Vec<Variable>,
    snapshots: Snapshots,
    rows: Rows,
}

#[derive(Debug)]
struct Thread {
    /// Its own entry is brought up to date where somebody else sees the clock.
    clock: Clock,
    /// The snapshot of the clock, where it was not changed since.
    snapshot: Option<u32>,
}

#[derive(Debug)]
struct Lock {
    /// What a shared acquisition comes after.
    exclusive: Clock,
    /// What an exclusive acquisition comes after, besides.
    shared: Option<Clock>,
    /// Who gave it back last and has changed nothing since: its own clock has all of this one.
    last: u16,
}

#[derive(Clone, Copy, Debug)]
struct Variable {
    /// The last write: its number plus one, or 0, its thread, and the clock that it had.
    write: u32,
    writer: u16,
    snapshot: u32,
    /// Plain ones.
    writes: Accesses,
    reads: Accesses,
    /// Where its atomic ones are, plus one, or 0.
    atomic: u32,
}

const _: () = assert!(size_of::<Variable>() == 40);

/// Accesses of one sort to one variable.
#[derive(Clone, Copy, Debug)]
enum Accesses {
    None,
    /// All are ordered before this one.
    One {
        number: EventNo,
        location: u32,
        thread: u16,
    },
    /// A row of the last of each thread.
    Many {
        row: u32,
    },
}

/// The last accesses of each thread, where they are not ordered: number and location; the number [`NEVER`] for none.
#[derive(Debug, Default)]
struct Rows {
    width: usize,
    accesses: Vec<(EventNo, u32)>,
    free: Vec<u32>,
    /// For variables with atomic accesses: what writes, and what only reads.
    atomic: Vec<[Accesses; 2]>,
}

const NEVER: EventNo = EventNo::MAX;

impl Shb {
    /// For a trace of so many threads.
    pub fn new(threads: u32) -> Shb {
        let thread = |_| Thread { clock: vec![0; threads as usize].into(), snapshot: None };
        Shb {
            now: 0,
            threads: (0..threads).map(thread).collect(),
            locks: Vec::new(),
            objects: Vec::new(),
            variables: Vec::new(),
            snapshots: Snapshots::default(),
            rows: Rows { width: threads as usize, ..Rows::default() },
        }
    }

    /// Takes the next event of the trace; `found` gets each earlier access that races with it, and where that is.
    #[inline]
    pub fn step(&mut self, event: &Event, found: impl FnMut(RacePair, u32)) {
        let number = self.now;
        self.now += 1;
        match event.op {
            op if op.is_access() => self.access(number, event, found),
            Op::Fence | Op::Enter | Op::Exit => {}
            _ => self.synchronise(number, event),
        }
    }

    #[inline]
    fn access(&mut self, number: EventNo, event: &Event, mut found: impl FnMut(RacePair, u32)) {
        let index = event.target as usize;
        if index >= self.variables.len() {
            self.variables.resize(index + 1, Variable::NEW);
        }
        let variable = &mut self.variables[index];
        let thread = &mut self.threads[usize::from(event.thread)];
        let clock = &thread.clock;
        let mut racy = false;
        variable.unordered(&self.rows, event, clock, |first, location| {
            racy = true;
            found(RacePair { first, second: number }, location);
        });
        if event.op == Op::Write && !racy {
            // Whatever races with one of the earlier accesses races with this one.
            self.rows.forget(&mut variable.writes);
            self.rows.forget(&mut variable.reads);
        }
        variable.remember(&mut self.rows, number, event, clock);
        if event.op.reads() && variable.writer != event.thread {
            let writer = usize::from(variable.writer);
            if variable.write > clock[writer] {
                let clock = thread.change(&mut self.snapshots);
                join(clock, self.snapshots.get(variable.snapshot));
                clock[writer] = clock[writer].max(variable.write);
            }
        }
        if event.op.writes() {
            let old = (variable.write > 0).then_some(variable.snapshot);
            let new = thread.snapshot(&mut self.snapshots);
            if old != Some(new) {
                self.snapshots.keep(new);
                if let Some(old) = old {
                    self.snapshots.drop(old);
                }
            }
            variable.snapshot = new;
            variable.write = number + 1;
            variable.writer = event.thread;
        }
    }

    fn synchronise(&mut self, number: EventNo, event: &Event) {
        let index = usize::from(event.thread);
        let target = event.target as usize;
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                let Some(lock) = self.locks.get(target).and_then(Option::as_ref) else { return };
                let shared = lock.shared.as_ref().filter(|_| event.op == Op::Acquire);
                if lock.last == event.thread && shared.is_none() {
                    return;
                }
                let clock = self.threads[index].change(&mut self.snapshots);
                join(clock, &lock.exclusive);
                if let Some(shared) = shared {
                    join(clock, shared);
                }
            }
            Op::Release => {
                grow(&mut self.locks, target);
                let clock = self.threads[index].publish(index, number);
                match &mut self.locks[target] {
                    // The holder's clock has all that the lock's has.
                    Some(lock) => {
                        lock.exclusive.copy_from_slice(clock);
                        lock.shared = None;
                        lock.last = event.thread;
                    }
                    empty => *empty = Some(Lock { exclusive: clock.into(), shared: None, last: event.thread }.into()),
                }
            }
            Op::ReleaseShared => {
                grow(&mut self.locks, target);
                let clock = self.threads[index].publish(index, number);
                let none = || Lock { exclusive: vec![0; clock.len()].into(), shared: None, last: event.thread }.into();
                let lock = self.locks[target].get_or_insert_with(none);
                match &mut lock.shared {
                    Some(shared) => join(shared, clock),
                    empty => *empty = Some(clock.into()),
                }
            }
            Op::Fork | Op::Join if target == index => {}
            Op::Fork => {
                let clock: Clock = self.threads[index].publish(index, number).into();
                join(self.threads[target].change(&mut self.snapshots), &clock);
            }
            Op::Join => {
                let clock = self.threads[target].clock.clone();
                let own = self.threads[index].change(&mut self.snapshots);
                join(own, &clock);
                own[target] = number;
            }
            op => {
                grow(&mut self.objects, target);
                let object = &mut self.objects[target];
                if let Some(posted) = object.as_ref().filter(|_| op.takes()) {
                    join(self.threads[index].change(&mut self.snapshots), posted);
                }
                if op.posts() {
                    let clock = self.threads[index].publish(index, number);
                    match object {
                        Some(posted) => join(posted, clock),
                        empty => *empty = Some(clock.into()),
                    }
                }
            }
        }
    }
}

impl Thread {
    /// The clock, to be changed.
    fn change(&mut self, snapshots: &mut Snapshots) -> &mut Clock {
        if let Some(old) = self.snapshot.take() {
            snapshots.drop(old);
        }
        &mut self.clock
    }

    /// The clock as others may see it from this event on.
    fn publish(&mut self, index: usize, number: EventNo) -> &[u32] {
        self.clock[index] = number + 1;
        &self.clock
    }

    /// A copy of the clock; of its own entry nothing is promised.
    fn snapshot(&mut self, snapshots: &mut Snapshots) -> u32 {
        *self.snapshot.get_or_insert_with(|| snapshots.make(&self.clock))
    }
}

impl Variable {
    const NEW: Variable =
        Variable { write: 0, writer: 0, snapshot: 0, writes: Accesses::None, reads: Accesses::None, atomic: 0 };

    /// Tells the remembered accesses that race with this one.
    #[inline]
    fn unordered(&self, rows: &Rows, event: &Event, clock: &[u32], mut tell: impl FnMut(EventNo, u32)) {
        rows.unordered(self.writes, event.thread, clock, &mut tell);
        if event.op.writes() {
            rows.unordered(self.reads, event.thread, clock, &mut tell);
        }
        if self.atomic > 0 && !event.op.is_atomic() {
            let [writes, reads] = rows.atomic[self.atomic as usize - 1];
            rows.unordered(writes, event.thread, clock, &mut tell);
            if event.op.writes() {
                rows.unordered(reads, event.thread, clock, &mut tell);
            }
        }
    }

    /// An update is remembered as a write: that races with whatever its read would.
    #[inline]
    fn remember(&mut self, rows: &mut Rows, number: EventNo, event: &Event, clock: &[u32]) {
        match (event.op.is_atomic(), event.op.writes()) {
            (false, true) => rows.remember(&mut self.writes, number, event, clock),
            (false, false) => rows.remember(&mut self.reads, number, event, clock),
            (true, writes) => {
                if self.atomic == 0 {
                    rows.atomic.push([Accesses::None; 2]);
                    self.atomic = rows.atomic.len() as u32;
                }
                let at = self.atomic as usize - 1;
                let mut accesses = rows.atomic[at][usize::from(!writes)];
                rows.remember(&mut accesses, number, event, clock);
                rows.atomic[at][usize::from(!writes)] = accesses;
            }
        }
    }
}

impl Rows {
    #[inline]
    fn unordered(&self, accesses: Accesses, own: u16, clock: &[u32], mut tell: impl FnMut(EventNo, u32)) {
        match accesses {
            Accesses::None => {}
            Accesses::One { number, location, thread } => {
                if thread != own && number >= clock[usize::from(thread)] {
                    tell(number, location);
                }
            }
            Accesses::Many { row } => {
                let row = &self.accesses[row as usize * self.width..][..self.width];
                for (thread, (&(number, location), &time)) in row.iter().zip(clock).enumerate() {
                    if number >= time && number != NEVER && thread != usize::from(own) {
                        tell(number, location);
                    }
                }
            }
        }
    }

    #[inline]
    fn remember(&mut self, accesses: &mut Accesses, number: EventNo, event: &Event, clock: &[u32]) {
        let access = (number, event.location);
        match *accesses {
            Accesses::Many { row } => {
                self.accesses[row as usize * self.width + usize::from(event.thread)] = access;
            }
            Accesses::One { number: old, location, thread }
                if thread != event.thread && old >= clock[usize::from(thread)] =>
            {
                let id = self.free.pop().unwrap_or_else(|| {
                    self.accesses.resize(self.accesses.len() + self.width, (NEVER, 0));
                    (self.accesses.len() / self.width) as u32 - 1
                });
                let row = &mut self.accesses[id as usize * self.width..][..self.width];
                row.fill((NEVER, 0));
                row[usize::from(thread)] = (old, location);
                row[usize::from(event.thread)] = access;
                *accesses = Accesses::Many { row: id };
            }
            _ => *accesses = Accesses::One { number, location: event.location, thread: event.thread },
        }
    }

    fn forget(&mut self, accesses: &mut Accesses) {
        if let Accesses::Many { row } = *accesses {
            self.free.push(row);
        }
        *accesses = Accesses::None;
    }
}

/// Copies of clocks, each as long as somebody keeps it.
#[derive(Debug, Default)]
struct Snapshots {
    width: usize,
    times: Vec<u32>,
    keepers: Vec<u32>,
    free: Vec<u32>,
}

impl Snapshots {
    /// A copy with one keeper.
    fn make(&mut self, clock: &[u32]) -> u32 {
        self.width = clock.len();
        if let Some(id) = self.free.pop() {
            self.times[id as usize * self.width..][..self.width].copy_from_slice(clock);
            self.keepers[id as usize] = 1;
            return id;
        }
        self.times.extend_from_slice(clock);
        self.keepers.push(1);
        self.keepers.len() as u32 - 1
    }

    fn get(&self, id: u32) -> &[u32] {
        &self.times[id as usize * self.width..][..self.width]
    }

    fn keep(&mut self, id: u32) {
        self.keepers[id as usize] += 1;
    }

    fn drop(&mut self, id: u32) {
        self.keepers[id as usize] -= 1;
        if self.keepers[id as usize] == 0 {
            self.free.push(id);
        }
    }
}

fn join(clock: &mut [u32], other: &[u32]) {
    for (own, other) in clock.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

fn grow<T>(slots: &mut Vec<Option<T>>, index: usize) {
    if index >= slots.len() {
        slots.resize_with(index + 1, || None);
    }
}
