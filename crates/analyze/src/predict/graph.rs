//! The partial and temporal order graph of a history (sections 4.3 and 5.1).
//!
//! Its nodes are the events; its solid edges are a [`PartialOrder`]; its dashed edges, which join the accesses of one
//! variable as they followed each other, are the index by variable. Beside them each event has its lockset and its
//! *section*, and each thread has its events and the places where its lockset changes.
//!
//! A *section* is a stretch of one thread's life that is inside an atomic region or outside all of them. Atomic
//! regions (section 4.1) are outermost critical sections and regions that were announced; fork, join, wait and notify
//! begin a new one, and so do post and take. Departures:
//! - Outside all regions there are atomic regions too, only nobody wrote them down: a load and a store of a variable
//!   without any lock is the classic lost update. Accesses of one thread outside all regions that lie near each
//!   other, with nothing between them by which the thread waits for or makes others, are in an implicit region
//!   ([`Scope::Unlocked`]).
//! - The bug may be that there are two regions where one is needed: check in one critical section, act in the next. Accesses in
//!   neighbouring sections are tried as if they were in one ([`Scope::Split`]), under a name of their own.
//!
//! Only variables that several threads access and one of them writes are in the index by variable.

use crate::history::{Event, EventNo, History, Op};

use super::lockset::{EMPTY, LocksetNo, Locksets};
use super::order::PartialOrder;

/// How two accesses of one thread come to be in one atomic region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// In one critical section or announced region.
    Region,
    /// Near each other outside all regions.
    Unlocked,
    /// In neighbouring sections of which one is a region.
    Split,
}

impl Scope {
    /// All of them, the best first.
    pub const ALL: [Scope; 3] = [Scope::Region, Scope::Unlocked, Scope::Split];

    /// The word for it in pattern files.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Region => "region",
            Scope::Unlocked => "unlocked",
            Scope::Split => "split",
        }
    }
}

/// A section of a thread.
#[derive(Clone, Copy, Debug)]
struct Section {
    /// Its number in the thread.
    number: u32,
    /// Ascends where the thread waits for others or makes or awaits a thread.
    stretch: u32,
    region: bool,
    /// Whether it is a region because somebody said so: locks may come and go in it.
    announced: bool,
}

/// A place where a thread's lockset changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The lock operation.
    pub(crate) event: EventNo,
    /// What is held after it.
    pub(crate) after: LocksetNo,
    /// The acquisition of the outermost lock that is held after it, if one is.
    pub(crate) outermost: Option<EventNo>,
}

/// Lists of events, one after another.
#[derive(Debug, Default)]
pub(crate) struct Index {
    starts: Vec<u32>,
    events: Vec<EventNo>,
}

impl Index {
    /// Of the events that have a key, by key.
    fn new(keys: u32, events: &[Event], key: impl Fn(&Event) -> Option<u32>) -> Index {
        let mut starts = vec![0_u32; keys as usize + 1];
        for key in events.iter().filter_map(&key) {
            starts[key as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut list = vec![0; starts.last().copied().unwrap_or(0) as usize];
        for (number, event) in events.iter().enumerate() {
            if let Some(key) = key(event) {
                let at = &mut next[key as usize];
                list[*at as usize] = number as EventNo;
                *at += 1;
            }
        }
        Index { starts, events: list }
    }

    /// The events of a key, in the order in which they happened.
    pub(crate) fn of(&self, key: u32) -> &[EventNo] {
        &self.events[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }
}

/// The graph.
#[derive(Debug)]
pub struct Graph<'h> {
    /// What it was made from.
    pub history: &'h History,
    /// Its solid edges.
    pub order: PartialOrder,
    /// What the numbers of locksets mean.
    pub locksets: Locksets,
    lockset: Vec<LocksetNo>,
    section: Vec<u32>,
    own: Vec<u32>,
    sections: Vec<Section>,
    changes: Vec<Vec<Change>>,
    /// Of each thread the releases of a lock that was not the last one taken.
    unnested: Vec<Vec<EventNo>>,
    by_thread: Index,
    by_variable: Index,
    contended: Vec<bool>,
    first_write: Vec<EventNo>,
    last_write: Vec<EventNo>,
    /// How many of a thread's own events may lie between two that are near each other.
    near: u32,
}

/// No event.
const NONE: EventNo = EventNo::MAX;

impl<'h> Graph<'h> {
    /// Of a history; `near` is how many of a thread's own events two accesses in an implicit region may be apart.
    pub fn new(history: &'h History, near: u32) -> Graph<'h> {
        let mut build = Build::new(history);
        for (number, event) in history.events.iter().enumerate() {
            build.step(number as EventNo, event);
        }
        let contended: Vec<bool> = build.touched.iter().map(|touched| touched.contended()).collect();
        let by_thread = Index::new(history.threads, &history.events, |event| Some(u32::from(event.thread)));
        let by_variable = Index::new(history.variables, &history.events, |event| {
            (event.op.is_access() && contended[event.target as usize]).then_some(event.target)
        });
        Graph {
            history,
            order: PartialOrder::new(history),
            locksets: build.locksets,
            lockset: build.lockset,
            section: build.section,
            own: build.own,
            sections: build.sections,
            changes: build.threads.iter_mut().map(|thread| std::mem::take(&mut thread.changes)).collect(),
            unnested: build.threads.iter_mut().map(|thread| std::mem::take(&mut thread.unnested)).collect(),
            by_thread,
            by_variable,
            contended,
            first_write: build.first_write,
            last_write: build.last_write,
            near,
        }
    }

    /// An event that is known to exist.
    pub fn event(&self, event: EventNo) -> &Event {
        &self.history.events[event as usize]
    }

    /// The locks that are held at an event: of an acquisition without its own, of a release with it.
    pub fn lockset(&self, event: EventNo) -> LocksetNo {
        self.lockset[event as usize]
    }

    /// The locks that an event's thread holds after it.
    pub fn lockset_after(&self, event: EventNo) -> LocksetNo {
        let changes = &self.changes[usize::from(self.event(event).thread)];
        let until = changes.partition_point(|change| change.event <= event);
        changes[..until].last().map_or(EMPTY, |change| change.after)
    }

    /// The number of an event among those of its thread.
    pub fn own(&self, event: EventNo) -> u32 {
        self.own[event as usize]
    }

    /// All events of a thread.
    pub fn of_thread(&self, thread: u16) -> &[EventNo] {
        self.by_thread.of(u32::from(thread))
    }

    /// All accesses of a variable that several threads access and one writes; of others none.
    pub fn of_variable(&self, variable: u32) -> &[EventNo] {
        self.by_variable.of(variable)
    }

    /// Whether several threads access a variable and one writes it.
    pub fn contended(&self, variable: u32) -> bool {
        self.contended[variable as usize]
    }

    /// The first event that writes a variable, as an initialisation does. There is none where the thread that writes was the last to read:
    /// who changes a value has found one there.
    pub fn first_write(&self, variable: u32) -> Option<EventNo> {
        Some(self.first_write[variable as usize]).filter(|event| *event != NONE)
    }

    /// The last.
    pub fn last_write(&self, variable: u32) -> Option<EventNo> {
        Some(self.last_write[variable as usize]).filter(|event| *event != NONE)
    }

    /// Whether two events of one thread are in the same critical section or announced region.
    pub fn same_region(&self, a: EventNo, b: EventNo) -> bool {
        let section = self.section[a as usize];
        section == self.section[b as usize] && self.sections[section as usize].region
    }

    /// How two events of one thread, the earlier one first, come to be in one atomic region, if they do.
    pub fn scope(&self, first: EventNo, second: EventNo) -> Option<Scope> {
        let (a, b) = (self.section[first as usize], self.section[second as usize]);
        let source = |event: EventNo| self.history.sources.get(event as usize);
        if source(first).is_some() && source(first) == source(second) {
            // One step of the program: nothing comes between.
            return None;
        }
        let (p, q) = (&self.sections[a as usize], &self.sections[b as usize]);
        if self.same_region(first, second) {
            return Some(Scope::Region);
        }
        if p.stretch != q.stretch || self.own(second) - self.own(first) > self.near {
            return None;
        }
        if !p.region && !q.region {
            return Some(Scope::Unlocked);
        }
        (q.number - p.number <= 2).then_some(Scope::Split)
    }

    /// The fewest locks that a thread holds anywhere between two of its events that have a [`Graph::scope`].
    ///
    /// Where locks are nested this set is held all the way; where they are not, another thread may fit in elsewhere and
    /// is not seen.
    pub fn gap(&self, first: EventNo, second: EventNo) -> LocksetNo {
        let (held, then) = (self.lockset(first), self.lockset(second));
        if held == EMPTY || then == EMPTY {
            return EMPTY;
        }
        let (section, same) = (self.section[first as usize], self.section[second as usize]);
        if section == same && !self.sections[section as usize].announced && self.locksets.size(held) == 1 {
            return held;
        }
        let changes = self.changes_between(first, second);
        // A region with very many inner critical sections: the thread's own two ends stand for the rest.
        let near = changes.iter().take(GAP_CHANGES).map(|change| change.after);
        near.chain([held, then]).min_by_key(|set| self.locksets.size(*set)).unwrap_or(EMPTY)
    }

    /// The lock operations of a thread after one of its events and before another.
    pub(crate) fn changes_between(&self, first: EventNo, second: EventNo) -> &[Change] {
        let changes = &self.changes[usize::from(self.event(second).thread)];
        let from = changes.partition_point(|change| change.event <= first);
        let to = changes.partition_point(|change| change.event < second);
        &changes[from..to]
    }

    /// The acquisition of the outermost lock that is held at an event.
    pub fn outermost_lock(&self, event: EventNo) -> Option<EventNo> {
        let changes = &self.changes[usize::from(self.event(event).thread)];
        let before = changes.partition_point(|change| change.event < event);
        changes[..before].last()?.outermost
    }

    /// Whether a thread gives back a lock out of turn in a range of events.
    pub fn unnested(&self, thread: u16, from: EventNo, to: EventNo) -> bool {
        let releases = &self.unnested[usize::from(thread)];
        let at = releases.partition_point(|event| *event < from);
        releases.get(at).is_some_and(|event| *event <= to)
    }
}

/// How many lock operations between two accesses are looked at.
const GAP_CHANGES: usize = 64;

/// Who accessed a variable.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    /// One more than the first thread's number.
    first: u32,
    several: bool,
    written: bool,
    /// One more than the number of the last thread that read it.
    reader: u32,
}

impl Touched {
    fn contended(self) -> bool {
        self.several && self.written
    }
}

/// A thread while the history is read.
#[derive(Debug)]
struct Thread {
    /// Its locks in the order in which it took them.
    stack: Vec<u32>,
    lockset: LocksetNo,
    outermost: Option<EventNo>,
    announced: u32,
    /// Index of its current section.
    section: u32,
    events: u32,
    changes: Vec<Change>,
    unnested: Vec<EventNo>,
}

struct Build {
    threads: Vec<Thread>,
    locksets: Locksets,
    lockset: Vec<LocksetNo>,
    section: Vec<u32>,
    own: Vec<u32>,
    sections: Vec<Section>,
    touched: Vec<Touched>,
    first_write: Vec<EventNo>,
    last_write: Vec<EventNo>,
}

impl Build {
    fn new(history: &History) -> Build {
        let thread = |number| Thread {
            stack: Vec::new(),
            lockset: EMPTY,
            outermost: None,
            announced: 0,
            section: number,
            events: 0,
            changes: Vec::new(),
            unnested: Vec::new(),
        };
        Build {
            threads: (0..history.threads).map(thread).collect(),
            locksets: Locksets::new(),
            lockset: Vec::with_capacity(history.len()),
            section: Vec::with_capacity(history.len()),
            own: Vec::with_capacity(history.len()),
            sections: vec![
                Section { number: 0, stretch: 0, region: false, announced: false };
                history.threads as usize
            ],
            touched: vec![Touched::default(); history.variables as usize],
            first_write: vec![NONE; history.variables as usize],
            last_write: vec![NONE; history.variables as usize],
        }
    }

    fn step(&mut self, number: EventNo, event: &Event) {
        let thread = &mut self.threads[usize::from(event.thread)];
        self.lockset.push(thread.lockset);
        self.section.push(thread.section);
        self.own.push(thread.events);
        thread.events += 1;
        match event.op {
            op if op.is_access() => {
                let touched = &mut self.touched[event.target as usize];
                match touched.first {
                    0 => touched.first = u32::from(event.thread) + 1,
                    first => touched.several |= first != u32::from(event.thread) + 1,
                }
                if op.writes() {
                    if !touched.written && touched.reader != u32::from(event.thread) + 1 {
                        self.first_write[event.target as usize] = number;
                    }
                    touched.written = true;
                    self.last_write[event.target as usize] = number;
                } else {
                    touched.reader = u32::from(event.thread) + 1;
                }
            }
            Op::Acquire | Op::AcquireShared => {
                if thread.stack.is_empty() {
                    thread.outermost = Some(number);
                }
                thread.stack.push(event.target);
                self.lock(number, event, true);
            }
            Op::Release | Op::ReleaseShared => {
                match thread.stack.iter().rposition(|lock| *lock == event.target) {
                    Some(at) if at + 1 == thread.stack.len() => drop(thread.stack.pop()),
                    Some(at) => {
                        thread.stack.remove(at);
                        thread.unnested.push(number);
                    }
                    None => {}
                }
                if thread.stack.is_empty() {
                    thread.outermost = None;
                }
                self.lock(number, event, false);
            }
            Op::Enter => {
                thread.announced += 1;
                self.resection(event.thread, false, false);
            }
            Op::Exit => {
                thread.announced = thread.announced.saturating_sub(1);
                self.resection(event.thread, false, false);
            }
            Op::Fork | Op::Join | Op::Wait | Op::Woken | Op::Take => self.resection(event.thread, true, true),
            Op::Signal | Op::Broadcast | Op::Post => self.resection(event.thread, true, false),
            _ => {}
        }
    }

    fn lock(&mut self, number: EventNo, event: &Event, taken: bool) {
        let shared = matches!(event.op, Op::AcquireShared | Op::ReleaseShared);
        let thread = &mut self.threads[usize::from(event.thread)];
        thread.lockset = self.locksets.step(thread.lockset, event.target, shared, taken);
        thread.changes.push(Change { event: number, after: thread.lockset, outermost: thread.outermost });
        self.resection(event.thread, false, false);
    }

    /// Begins a new section of a thread if it went into a region or out of one, or at a boundary.
    fn resection(&mut self, thread: u16, boundary: bool, stretch: bool) {
        let thread = &mut self.threads[usize::from(thread)];
        let old = self.sections[thread.section as usize];
        let region = thread.lockset != EMPTY || thread.announced > 0;
        let announced = thread.announced > 0;
        if boundary || region != old.region {
            thread.section = self.sections.len() as u32;
            let stretch = old.stretch + u32::from(stretch);
            self.sections.push(Section { number: old.number + 1, stretch, region, announced });
        } else {
            self.sections[thread.section as usize].announced |= announced;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::text::parse;

    #[test]
    fn scopes() {
        let rows: &[(&str, EventNo, EventNo, Option<Scope>)] = &[
            ("T0 r x; T0 w x", 0, 1, Some(Scope::Unlocked)),
            ("T0 acq l; T0 r x; T0 w x; T0 rel l", 1, 2, Some(Scope::Region)),
            ("T0 acq l; T0 r x; T0 acq m; T0 rel m; T0 w x; T0 rel l", 1, 4, Some(Scope::Region)),
            ("T0 acq l; T0 r x; T0 rel l; T0 acq l; T0 w x; T0 rel l", 1, 4, Some(Scope::Split)),
            ("T0 r x; T0 acq l; T0 w x; T0 rel l", 0, 2, Some(Scope::Split)),
            ("T0 r x; T0 acq l; T0 rel l; T0 w x", 0, 3, Some(Scope::Unlocked)),
            ("T0 enter; T0 acq l; T0 r x; T0 rel l; T0 acq l; T0 w x; T0 rel l; T0 exit", 2, 5, Some(Scope::Region)),
            ("T0 acq l; T0 r x; T0 rel l; T0 wait c; T0 woken c; T0 acq l; T0 w x", 1, 6, None),
            ("T0 r x; T0 fork T1; T0 w x", 0, 2, None),
            ("T0 acq l; T0 r x; T0 signal c; T0 w x; T0 rel l", 1, 3, Some(Scope::Split)),
            ("T0 acq l; T0 r x; T0 rel l; T0 acq l; T0 rel l; T0 acq l; T0 w x", 1, 6, None),
        ];
        for (text, first, second, scope) in rows {
            let history = parse(text);
            assert_eq!(Graph::new(&history, 64).scope(*first, *second), *scope, "{text}");
        }
        let history = parse("T0 r x; T0 r y; T0 r y; T0 r y; T0 w x");
        assert_eq!(Graph::new(&history, 3).scope(0, 4), None, "too far");
    }

    #[test]
    fn gaps() {
        let history = parse(
            "T0 acq l; T0 acq m; T0 r x; T0 rel m; T0 acq n; T0 w x; T0 rel n; T0 rel l; \
             T0 acq l; T0 r x; T0 rel l",
        );
        let graph = Graph::new(&history, 64);
        assert_eq!(graph.gap(2, 5), graph.lockset(1), "the outermost lock alone");
        assert_eq!(graph.gap(5, 9), EMPTY, "between two critical sections nothing is held");
        assert_eq!(graph.outermost_lock(5), Some(0));
        assert_eq!(graph.outermost_lock(0), None);
        assert_eq!(graph.outermost_lock(9), Some(8));
        assert!(!graph.unnested(0, 0, 10));
    }

    #[test]
    fn handing_over_is_not_nested() {
        let history = parse("T0 acq l; T0 acq m; T0 rel l; T0 w x; T0 rel m");
        let graph = Graph::new(&history, 64);
        assert!(graph.unnested(0, 0, 4));
        assert!(!graph.unnested(0, 3, 4));
    }

    #[test]
    fn only_contended_variables_are_listed() {
        let history = parse("T0 w x; T0 w y; T1 r y; T0 r z; T1 r z");
        let graph = Graph::new(&history, 64);
        assert_eq!(graph.of_variable(0), &[] as &[EventNo]);
        assert_eq!(graph.of_variable(1), &[1, 2]);
        assert_eq!(graph.of_variable(2), &[] as &[EventNo]);
        assert_eq!(graph.first_write(1), Some(1));
        assert_eq!(graph.first_write(2), None);
    }

    #[test]
    fn who_changes_what_it_has_read_does_not_initialise() {
        let rows = [
            ("T0 w x; T1 r x", Some(0)),
            ("T1 r x; T0 w x", Some(1)),
            ("T0 r x; T0 w x; T1 r x; T1 w x", None),
            ("T0 r x; T1 r x; T0 w x; T1 w x", Some(2)),
        ];
        for (text, first) in rows {
            let history = parse(text);
            assert_eq!(Graph::new(&history, 64).first_write(0), first, "{text}");
        }
    }
}
