//! Atomic regions that were not: no serial order of the regions explains what the history shows.
//!
//! A region comes before another where an access in it conflicts with a later one in the other, or where one thread does
//! one after the other; the history is conflict serializable if and only if that has no circle (Velodrome, Flanagan,
//! Freund and Yi, PLDI 2008). Like AeroDrome (Mathur and Viswanathan, ASPLOS 2020) this needs no graph: a clock
//! for each region says on which others it depends, and an access that makes a region depend on one that depends
//! on it closes a circle.
//!
//! Departures from AeroDrome:
//! - What a region learns reaches those that depend on it at once if they are threads, and when it is looked at if it is
//!   a variable's last access (see `nodes`). Nothing goes through all variables when a region ends, and a circle is
//!   found at the access that closes it.
//! - The analysis goes on: an edge that would close a circle is reported and left out, so what remains has none.
//! - By default only accesses conflict. A region that gives a lock back and takes it again, with another's critical
//!   section between, is no violation by that alone; nor is one that makes a thread and joins it.
//!   [`Conflicts::All`] is the rule of the papers.
//!
//! Finds: a violation where the history has one, and its events; each pair of places that closes a circle once. What
//! it reports has happened: the proof is [`Relation::Observed`].
//!
//! Never reports: a circle that is not there.
//!
//! Cannot see: other orders of the same events (that is for predictions); whether a region has to be atomic.
//!
//! Cost: one pass, constant for an access that tells its thread nothing new, else linear in threads; memory for each
//! variable, and a clock for each last access with a clock of its own.

mod circle;
mod nodes;
mod regions;

use std::collections::BTreeMap;

use selvedge_findings::Kind;

use crate::history::{Event, EventNo, History, Op};
use crate::prediction::{Goal, Prediction, Proof, Relation};

use circle::Closed;
use nodes::{Cell, Nodes};
use regions::{Border, Borders};

/// What an atomic region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// What is announced where anything is; else outermost critical sections.
    Auto,
    /// From [`Op::Enter`] to [`Op::Exit`], the outermost ones.
    Announced,
    /// From the first lock that is taken until none is held.
    CriticalSections,
}

/// What orders two events of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Accesses to the same variable, one of them a write.
    Accesses,
    /// Those, and all synchronisation: the same lock, start and end of threads, posts and takes.
    All,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is atomic.
    pub regions: Regions,
    /// What conflicts.
    pub conflicts: Conflicts,
    /// How many results are kept.
    pub results: usize,
    /// How many events may be gone through to explain results.
    pub explain_events: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { regions: Regions::Auto, conflicts: Conflicts::Accesses, results: 1000, explain_events: 1 << 24 }
    }
}

/// What was found, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    /// One for each pair of places whose accesses close a circle. The goal is an order that has happened: the accesses
    /// through which the regions depend on each other, of which the last closes the circle.
    pub predictions: Vec<Prediction>,
    /// How many regions there are.
    pub regions: u64,
    /// How many accesses close a circle.
    pub circles: u64,
    /// How many results were dropped.
    pub dropped: u64,
    /// How many have only the two accesses that close the circle, because the way there would be long to find.
    pub unexplained: u64,
}

/// Looks for regions that are not atomic.
///
/// ```
/// use selvedge_analyze::{Event, History, Op, serializability};
///
/// // A region reads and writes a variable, and another thread writes it in between.
/// let ops = [(0, Op::Enter), (0, Op::Read), (1, Op::Write), (0, Op::Write), (0, Op::Exit)];
/// let events = ops.iter().map(|(thread, op)| Event::new(*thread, *op, 0, 0)).collect();
/// let sources = (0..5).collect();
/// let history = History { events, sources, threads: 2, variables: 1, locations: 1, ..History::default() };
///
/// let found = serializability::violations(&history, &serializability::Options::default());
/// assert_eq!(found.predictions[0].goal.events(), [1, 2, 3]);
/// ```
pub fn violations(history: &History, options: &Options) -> Violations {
    let borders = Borders::new(history, options.regions);
    let mut found = Violations::default();
    let mut pass = Pass::new(history, options);
    let mut closed: BTreeMap<(u32, u32), Closed> = BTreeMap::new();
    // By thread: where its region began that goes on.
    let mut begins: Vec<Option<EventNo>> = vec![None; history.threads as usize];
    let mut track = borders.clone();
    for (number, event) in (0..).zip(&history.events) {
        let thread = usize::from(event.thread);
        let border = track.step(event);
        if border == Border::Begins {
            pass.nodes.begin(thread);
            begins[thread] = Some(number);
            found.regions += 1;
        }
        pass.step(number, event);
        if let Some(from) = pass.circle.take() {
            found.circles += 1;
            let key = (history.events[from as usize].location, event.location);
            let start = || begins.iter().flatten().copied().min().unwrap_or(number);
            if closed.len() < options.results {
                closed.entry(key).or_insert_with(|| Closed { start: start(), from, to: number });
            } else if !closed.contains_key(&key) {
                found.dropped += 1;
            }
        }
        if border == Border::Ends {
            pass.nodes.end(thread);
            begins[thread] = None;
        }
    }
    let mut room = options.explain_events;
    for closed in closed.into_values() {
        let events = circle::explain(history, borders.clone(), options.conflicts, closed, &mut room);
        found.unexplained += u64::from(events.is_none());
        found.predictions.push(Prediction {
            kind: Kind::AtomicityViolation,
            pattern: "conflict-cycle".to_owned(),
            goal: Goal::Order(events.unwrap_or_else(|| vec![closed.from, closed.to])),
            proof: Some(Proof { relation: Relation::Observed, witness: Vec::new() }),
            unnested: false,
        });
    }
    found
}

/// How an event touches what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touch {
    /// Conflicts with all others.
    Writes,
    /// Conflicts with writes only.
    Reads,
    /// Comes after all reads.
    Takes,
    /// Comes after all reads, and is one.
    TakesAndReads,
    /// Makes a thread.
    Forks,
    /// Comes after a thread.
    Joins,
}

/// What an event touches, as one number for variables, locks and objects, and how.
fn touch(history: &History, event: &Event, conflicts: Conflicts) -> Option<(usize, Touch)> {
    let variables = history.variables as usize;
    let lock = variables + event.target as usize;
    let object = lock + history.locks as usize;
    let op = event.op;
    if op.is_access() {
        return Some((event.target as usize, if op.writes() { Touch::Writes } else { Touch::Reads }));
    }
    if conflicts == Conflicts::Accesses {
        return None;
    }
    match op {
        Op::Acquire | Op::Release => Some((lock, Touch::Writes)),
        Op::AcquireShared | Op::ReleaseShared => Some((lock, Touch::Reads)),
        Op::Fork => Some((event.target as usize, Touch::Forks)),
        Op::Join => Some((event.target as usize, Touch::Joins)),
        _ if op.takes() && op.posts() => Some((object, Touch::TakesAndReads)),
        _ if op.takes() => Some((object, Touch::Takes)),
        _ if op.posts() => Some((object, Touch::Reads)),
        _ => None,
    }
}

/// The last accesses to something.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    write: Cell,
    /// Of the reads since, one for each thread: the first, and where the others are in `Pass::more`.
    read: Cell,
    more: u32,
}

struct Pass<'a> {
    history: &'a History,
    conflicts: Conflicts,
    nodes: Nodes,
    last: Vec<Last>,
    /// Lists of reads by several threads; the first is not used.
    more: Vec<Vec<Cell>>,
    free: Vec<u32>,
    /// By thread: its last event.
    ends: Vec<EventNo>,
    /// Where this event has closed a circle, the event through which.
    circle: Option<EventNo>,
}

impl<'a> Pass<'a> {
    fn new(history: &'a History, options: &Options) -> Pass<'a> {
        let things = match options.conflicts {
            Conflicts::Accesses => history.variables as usize,
            Conflicts::All => history.variables as usize + history.locks as usize + history.objects as usize,
        };
        Pass {
            history,
            conflicts: options.conflicts,
            nodes: Nodes::new(history.threads as usize),
            last: vec![Last::default(); things],
            more: vec![Vec::new()],
            free: Vec::new(),
            ends: vec![0; history.threads as usize],
            circle: None,
        }
    }

    fn step(&mut self, number: EventNo, event: &Event) {
        let thread = usize::from(event.thread);
        match touch(self.history, event, self.conflicts) {
            None => {}
            Some((thing, Touch::Writes)) => self.write(number, thread, thing),
            Some((thing, Touch::Reads)) => self.read(number, thread, thing),
            Some((thing, Touch::Takes)) => self.take(thread, thing),
            Some((thing, Touch::TakesAndReads)) => {
                self.take(thread, thing);
                self.read(number, thread, thing);
            }
            Some((child, Touch::Forks)) => {
                let cell = self.nodes.publish(thread, number);
                self.learn(child, cell);
                self.nodes.release(cell);
            }
            Some((child, Touch::Joins)) => {
                let cell = self.nodes.publish(child, self.ends[child]);
                self.learn(thread, cell);
                self.nodes.release(cell);
            }
        }
        self.ends[thread] = number;
    }

    fn read(&mut self, number: EventNo, thread: usize, thing: usize) {
        let Last { write, read, more } = self.last[thing];
        self.learn(thread, write);
        if read.is_of(thread) && self.nodes.is_present(read) {
            return;
        }
        if read.is_none() || read.is_of(thread) {
            let cell = self.nodes.publish(thread, number);
            self.nodes.release(std::mem::replace(&mut self.last[thing].read, cell));
            return;
        }
        if more == 0 {
            self.last[thing].more = self.free.pop().unwrap_or_else(|| {
                self.more.push(Vec::new());
                self.more.len() as u32 - 1
            });
        }
        let list = self.last[thing].more as usize;
        match self.more[list].iter().position(|cell| cell.is_of(thread)) {
            Some(at) if self.nodes.is_present(self.more[list][at]) => {}
            Some(at) => {
                let cell = self.nodes.publish(thread, number);
                self.nodes.release(std::mem::replace(&mut self.more[list][at], cell));
            }
            None => {
                let cell = self.nodes.publish(thread, number);
                self.more[list].push(cell);
            }
        }
    }

    fn write(&mut self, number: EventNo, thread: usize, thing: usize) {
        let Last { write, read, more } = self.last[thing];
        if read.is_none() && write.is_of(thread) && self.nodes.is_present(write) {
            return;
        }
        self.learn(thread, write);
        self.learn(thread, read);
        self.nodes.release(write);
        self.nodes.release(read);
        if more != 0 {
            let mut list = std::mem::take(&mut self.more[more as usize]);
            for cell in list.drain(..) {
                self.learn(thread, cell);
                self.nodes.release(cell);
            }
            self.more[more as usize] = list;
            self.free.push(more);
        }
        self.last[thing] = Last { write: self.nodes.publish(thread, number), read: Cell::default(), more: 0 };
    }

    fn take(&mut self, thread: usize, thing: usize) {
        let Last { read, more, .. } = self.last[thing];
        self.learn(thread, read);
        for at in 0..self.more[more as usize].len() {
            let cell = self.more[more as usize][at];
            self.learn(thread, cell);
        }
    }

    /// What a thread does now depends on an access.
    fn learn(&mut self, thread: usize, cell: Cell) {
        if self.nodes.learn(thread, cell).is_err() && self.circle.is_none() {
            self.circle = Some(cell.event());
        }
    }
}
