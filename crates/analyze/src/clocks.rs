//! What each thread must have seen before it gets somewhere, as bounds: of every thread, the events below a number.
//!
//! A clock's own component is the number of the event itself, so it is not stored, and a thread's clock is written down only
//! where it has changed since the last time.

use crate::history::{Event, EventNo, History, Op};
use crate::rows::{Rows, join};

/// Which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// All that a correct reordering keeps, but for locks: see NOTE \[Correct reorderings\].
    Reads,
    /// Only what no run can change: start and end of threads, posts before takes, wake-ups before waits end.
    Must,
}

/// A lock and whether it is shared, in one number: those of one lock stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold(u32);

impl Hold {
    /// A lock in a mode.
    pub(crate) const fn new(lock: u32, shared: bool) -> Hold {
        Hold(lock << 1 | shared as u32)
    }

    /// Of an event that takes or gives back a lock.
    pub(crate) const fn of(op: Op, lock: u32) -> Hold {
        Hold::new(lock, matches!(op, Op::AcquireShared | Op::ReleaseShared))
    }

    /// Which lock.
    pub(crate) const fn lock(self) -> u32 {
        self.0 >> 1
    }

    /// In which mode.
    pub(crate) const fn shared(self) -> bool {
        self.0 & 1 == 1
    }

    /// Whether the two cannot be had by two threads at once.
    pub(crate) const fn excludes(self, other: Hold) -> bool {
        self.lock() == other.lock() && !(self.shared() && other.shared())
    }
}

/// A critical section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// The event that begins it.
    pub(crate) acquire: EventNo,
    /// The event that ends it, or [`Section::OPEN`].
    pub(crate) release: EventNo,
    /// The clock at its end.
    pub(crate) row: u32,
    /// Which lock.
    pub(crate) hold: Hold,
}

impl Section {
    /// Where no release follows.
    pub(crate) const OPEN: EventNo = EventNo::MAX;
}

/// Clocks at some of the events of a history.
#[derive(Debug)]
pub(crate) struct Clocks {
    rows: Rows,
    /// By slot: the clock just before the event.
    before: Vec<u32>,
    /// By thread: its critical sections in their order. Empty for [`Rule::Must`].
    pub(crate) sections: Vec<Vec<Section>>,
}

impl Clocks {
    /// Goes through a history and keeps the clocks before the events of `slots`, which ascend. `None` where they would
    /// have more than `most` numbers.
    pub(crate) fn new(history: &History, rule: Rule, slots: &[(EventNo, u32)], most: usize) -> Option<Clocks> {
        let threads = history.threads as usize;
        let count = slots.iter().map(|(_, slot)| *slot as usize + 1).max().unwrap_or(0);
        let mut pass = Pass {
            rows: Rows::new(threads),
            clocks: vec![vec![0; threads]; threads],
            written: vec![Rows::ZERO; threads],
            ends: vec![0; threads],
            writes: vec![Write { end: 0, row: Rows::ZERO, thread: 0 }; history.variables as usize],
            objects: vec![Vec::new(); history.objects as usize],
            sections: vec![Vec::new(); threads],
            open: vec![Vec::new(); threads],
        };
        let mut before = vec![Rows::ZERO; count];
        let mut slots = slots.iter().peekable();
        for (number, event) in (0..).zip(&history.events) {
            if let Some((_, slot)) = slots.next_if(|(at, _)| *at == number) {
                before[*slot as usize] = pass.write_down(usize::from(event.thread));
            }
            pass.step(number, event, rule);
            if pass.rows.numbers() > most {
                return None;
            }
        }
        Some(Clocks { rows: pass.rows, before, sections: pass.sections })
    }

    /// The clock just before a slot's event, but for its own thread.
    pub(crate) fn before(&self, slot: usize) -> &[u32] {
        self.rows.get(self.before[slot])
    }

    /// The clock at a section's end, but for its own thread.
    pub(crate) fn at_end(&self, section: &Section) -> &[u32] {
        self.rows.get(section.row)
    }
}

/// The last write of a variable.
#[derive(Clone, Copy)]
struct Write {
    /// One more than the event's number; 0 for none.
    end: u32,
    row: u32,
    thread: u16,
}

struct Pass {
    rows: Rows,
    /// By thread; the own component is of no meaning.
    clocks: Vec<Vec<u32>>,
    /// By thread: the row that is the same as its clock, if there is one; else [`Rows::NONE`].
    written: Vec<u32>,
    /// By thread: one more than its last event.
    ends: Vec<u32>,
    writes: Vec<Write>,
    /// By object: all that was posted.
    objects: Vec<Vec<u32>>,
    sections: Vec<Vec<Section>>,
    /// By thread: its open sections.
    open: Vec<Vec<u32>>,
}

impl Pass {
    fn step(&mut self, number: EventNo, event: &Event, rule: Rule) {
        let thread = usize::from(event.thread);
        let target = event.target as usize;
        let op = event.op;
        self.ends[thread] = number + 1;
        match op {
            Op::Fork => {
                let parent = std::mem::take(&mut self.clocks[thread]);
                self.learn(target, &parent);
                self.clocks[thread] = parent;
                self.learn_one(target, thread, number + 1);
            }
            Op::Join if target != thread => {
                let child = std::mem::take(&mut self.clocks[target]);
                self.learn(thread, &child);
                self.clocks[target] = child;
                self.learn_one(thread, target, self.ends[target]);
            }
            Op::Acquire | Op::AcquireShared if rule == Rule::Reads => {
                self.open[thread].push(self.sections[thread].len() as u32);
                let hold = Hold::of(op, event.target);
                self.sections[thread].push(Section { acquire: number, release: Section::OPEN, row: Rows::ZERO, hold });
            }
            Op::Release | Op::ReleaseShared if rule == Rule::Reads => {
                let hold = Hold::of(op, event.target);
                let of_lock = |&section: &u32| self.sections[thread][section as usize].hold == hold;
                if let Some(at) = self.open[thread].iter().rposition(of_lock) {
                    let section = self.open[thread].remove(at) as usize;
                    let row = self.write_down(thread);
                    let section = &mut self.sections[thread][section];
                    (section.release, section.row) = (number, row);
                }
            }
            _ if op.is_access() => {
                if rule == Rule::Reads {
                    self.access(number, event);
                }
            }
            _ => {
                let (takes, posts) = match rule {
                    Rule::Reads => (op.takes(), op.posts()),
                    Rule::Must => {
                        (matches!(op, Op::Take | Op::Woken), matches!(op, Op::Post | Op::Signal | Op::Broadcast))
                    }
                };
                if takes {
                    let posted = std::mem::take(&mut self.objects[target]);
                    self.learn(thread, &posted);
                    self.objects[target] = posted;
                }
                if posts {
                    let clock = &self.clocks[thread];
                    let posted = &mut self.objects[target];
                    posted.resize(clock.len(), 0);
                    join(posted, clock);
                    posted[thread] = number + 1;
                }
            }
        }
    }

    fn access(&mut self, number: EventNo, event: &Event) {
        let thread = usize::from(event.thread);
        let write = self.writes[event.target as usize];
        let writer = usize::from(write.thread);
        if event.op.reads() && writer != thread && self.clocks[thread][writer] < write.end {
            let clock = &mut self.clocks[thread];
            join(clock, self.rows.get(write.row));
            clock[writer] = clock[writer].max(write.end);
            self.forget(thread);
        }
        if event.op.writes() {
            let row = self.write_down(thread);
            self.rows.release(write.row);
            self.writes[event.target as usize] = Write { end: number + 1, row, thread: event.thread };
        }
    }

    fn learn(&mut self, thread: usize, clock: &[u32]) {
        if join(&mut self.clocks[thread], clock) {
            self.forget(thread);
        }
    }

    fn learn_one(&mut self, thread: usize, of: usize, end: u32) {
        if self.clocks[thread][of] < end {
            self.clocks[thread][of] = end;
            self.forget(thread);
        }
    }

    /// The thread's clock is no longer what was written down.
    fn forget(&mut self, thread: usize) {
        let row = std::mem::replace(&mut self.written[thread], Rows::NONE);
        if row != Rows::NONE {
            self.rows.release(row);
        }
    }

    /// A row with the thread's clock, which the caller may release.
    fn write_down(&mut self, thread: usize) -> u32 {
        if self.written[thread] == Rows::NONE {
            self.written[thread] = self.rows.add(&self.clocks[thread]);
        }
        self.rows.retain(self.written[thread]);
        self.written[thread]
    }
}
