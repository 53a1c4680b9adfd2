//! The sync-preserving closure: what else has to happen so that certain events can, with every lock going around in the
//! same order as in the history.
//!
//! A set of events is a bound for each thread. It is closed where it has all that its events depend on (the clocks see
//! to that) and where of two critical sections that exclude each other and that both have begun, the earlier has ended.
//! Its events in the order of the history are then a correct reordering, and the least that contains what was
//! asked for (SPDOffline, lemma 4.2; with sections in shared mode excluding only exclusive ones).
//!
//! A set only grows: the closures of a whole sequence of growing demands cost as much as the last
//! one alone.

use crate::clocks::{Clocks, Hold, Section};

/// A set of events, with what is needed to close it.
#[derive(Debug)]
pub(super) struct Closure<'a> {
    clocks: &'a Clocks,
    index: &'a SectionIndex,
    set: &'a mut Growing,
}

/// A set of events that is being closed.
#[derive(Debug)]
pub(super) struct Growing {
    bounds: Vec<u32>,
    /// By thread: the bound up to which its sections have been seen.
    seen: Vec<u32>,
    /// By lock.
    locks: Vec<Lock>,
    /// Which locks are of the present set: those with this number.
    turn: u32,
    /// How many steps are left.
    steps: u64,
    /// Room for the last sections of a thread.
    last: Vec<u32>,
}

impl Growing {
    pub(super) fn new(threads: u32, locks: u32, steps: u64) -> Growing {
        let threads = threads as usize;
        let locks = vec![Lock::default(); locks as usize];
        Growing { bounds: vec![0; threads], seen: vec![0; threads], locks, turn: 0, steps, last: Vec::new() }
    }

    /// The events below these are in it, by thread.
    pub(super) fn bounds(&self) -> &[u32] {
        &self.bounds
    }

    /// Whether no steps are left.
    pub(super) fn is_spent(&self) -> bool {
        self.steps == 0
    }

    fn clear(&mut self) {
        self.bounds.fill(0);
        self.seen.fill(0);
        self.turn += 1;
    }
}

/// The sections of one lock that have begun and that nothing has asked to end yet.
#[derive(Clone, Debug, Default)]
struct Lock {
    turn: u32,
    /// The latest exclusive one.
    exclusive: Option<Begun>,
    /// Shared ones: all after `exclusive`, or around it (an upgrade).
    shared: Vec<Begun>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    thread: usize,
    section: Section,
}

/// Whether a set could be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// It is.
    Yes,
    /// A section would have to end that never does.
    Never,
    /// There are no steps left.
    OutOfSteps,
}

impl<'a> Closure<'a> {
    /// An empty set.
    pub(super) fn new(clocks: &'a Clocks, index: &'a SectionIndex, set: &'a mut Growing) -> Closure<'a> {
        set.clear();
        Closure { clocks, index, set }
    }

    /// The events below these are in it, by thread.
    pub(super) fn bounds(&self) -> &[u32] {
        &self.set.bounds
    }

    /// Adds a thread's events below a bound, and those of a clock.
    pub(super) fn add(&mut self, thread: usize, bound: u32, clock: &[u32]) {
        self.set.steps = self.set.steps.saturating_sub(1 + clock.len() as u64 / 4);
        for (mine, theirs) in self.set.bounds.iter_mut().zip(clock) {
            *mine = (*mine).max(*theirs);
        }
        self.set.bounds[thread] = self.set.bounds[thread].max(bound);
    }

    /// Adds what has to be in it.
    pub(super) fn close(&mut self) -> Closed {
        let mut changed = true;
        while changed {
            changed = false;
            for thread in 0..self.set.bounds.len() {
                let (from, to) = (self.set.seen[thread], self.set.bounds[thread]);
                if from >= to {
                    continue;
                }
                changed = true;
                self.set.seen[thread] = to;
                let sections = &self.clocks.sections[thread];
                let index = &self.index.threads[thread];
                let first = index.count_below(sections, from);
                let count = index.count_below(sections, to) - first;
                // Of a thread's sections on a lock only the last can be open; look for it in the shorter way.
                let all_went = if count <= index.locks * 2 {
                    sections[first..first + count].iter().all(|section| self.begin(thread, *section))
                } else {
                    let mut last = std::mem::take(&mut self.set.last);
                    index.last_below(first + count, &mut last);
                    self.set.steps = self.set.steps.saturating_sub(index.locks as u64 / 4);
                    let mut new = last.iter().map(|&number| number as usize).filter(|&number| number >= first);
                    let all_went = new.all(|number| number >= sections.len() || self.begin(thread, sections[number]));
                    self.set.last = last;
                    all_went
                };
                if !all_went {
                    return Closed::Never;
                }
                if self.set.steps == 0 {
                    return Closed::OutOfSteps;
                }
            }
        }
        Closed::Yes
    }

    /// A section is in the set. Whether all that has to end then can.
    fn begin(&mut self, thread: usize, section: Section) -> bool {
        self.set.steps = self.set.steps.saturating_sub(1);
        let mut lock = std::mem::take(&mut self.set.locks[section.hold.lock() as usize]);
        if lock.turn != self.set.turn {
            lock.turn = self.set.turn;
            lock.exclusive = None;
            lock.shared.clear();
        }
        let new = Begun { thread, section };
        let mut all_went = true;
        if section.hold.shared() {
            if let Some(exclusive) = lock.exclusive {
                all_went &= self.end_first(new, exclusive);
            }
            lock.shared.retain(|other| other.thread != thread);
            lock.shared.push(new);
        } else {
            if let Some(exclusive) = lock.exclusive {
                all_went &= self.end_first(new, exclusive);
            }
            for shared in &lock.shared {
                all_went &= self.end_first(new, *shared);
            }
            if lock.exclusive.is_none_or(|old| old.section.acquire < section.acquire) {
                lock.exclusive = Some(new);
            }
        }
        self.set.locks[section.hold.lock() as usize] = lock;
        all_went
    }

    /// Two sections that exclude each other are in the set: the earlier has to end. Whether it does.
    fn end_first(&mut self, one: Begun, two: Begun) -> bool {
        if one.thread == two.thread {
            return true;
        }
        let Begun { thread, section } = if one.section.acquire < two.section.acquire { one } else { two };
        if section.release == Section::OPEN {
            return false;
        }
        if self.set.bounds[thread] <= section.release {
            self.add(thread, section.release + 1, self.clocks.at_end(&section));
        }
        true
    }
}

/// The last section of each lock and mode before a point of a thread.
#[derive(Debug)]
pub(super) struct SectionIndex {
    threads: Vec<OfThread>,
}

#[derive(Debug)]
struct OfThread {
    /// How many locks and modes its sections have.
    locks: usize,
    /// By section: which of them.
    lock: Vec<u32>,
    /// How many sections begin before an event, for every event whose number is a multiple of `1 << shift`.
    before: Vec<u32>,
    shift: u32,
    /// After every [`OfThread::stride`] sections: the last section of each, or [`NONE`].
    marks: Vec<u32>,
}

/// No section.
const NONE: u32 = u32::MAX;

impl SectionIndex {
    pub(super) fn new(clocks: &Clocks) -> SectionIndex {
        SectionIndex { threads: clocks.sections.iter().map(|sections| OfThread::new(sections)).collect() }
    }
}

impl OfThread {
    fn new(sections: &[Section]) -> OfThread {
        let mut holds: Vec<Hold> = sections.iter().map(|section| section.hold).collect();
        holds.sort_unstable();
        holds.dedup();
        let of = |section: &Section| holds.partition_point(|hold| *hold < section.hold) as u32;
        // As many steps as sections, or half of that.
        let end = sections.last().map_or(0, |section| section.acquire + 1);
        let shift = (end / (sections.len() as u32).max(1)).checked_ilog2().map_or(0, |log| log + 1);
        let mut before = Vec::with_capacity((end >> shift) as usize + 1);
        for (number, section) in (0..).zip(sections) {
            before.resize((section.acquire >> shift) as usize + 1, number);
        }
        let lock = sections.iter().map(of).collect();
        let mut index = OfThread { locks: holds.len(), lock, before, shift, marks: Vec::new() };
        let mut last = vec![NONE; index.locks];
        for (number, &lock) in (0..).zip(&index.lock) {
            if (number as usize).is_multiple_of(index.stride()) {
                index.marks.extend_from_slice(&last);
            }
            last[lock as usize] = number;
        }
        index
    }

    fn stride(&self) -> usize {
        self.locks * 2
    }

    /// How many sections begin below a bound.
    fn count_below(&self, sections: &[Section], bound: u32) -> usize {
        let at = (bound >> self.shift) as usize;
        let Some(&start) = self.before.get(at) else { return sections.len() };
        let start = start as usize;
        let end = self.before.get(at + 1).map_or(sections.len(), |&end| end as usize);
        let count = start + sections[start..end].partition_point(|section| section.acquire < bound);
        debug_assert_eq!(count, sections.partition_point(|section| section.acquire < bound));
        count
    }

    /// The last section of each lock among the first `end`, which is not 0.
    fn last_below(&self, end: usize, last: &mut Vec<u32>) {
        let mark = (end - 1) / self.stride();
        last.clear();
        last.extend_from_slice(&self.marks[mark * self.locks..(mark + 1) * self.locks]);
        let start = mark * self.stride();
        for (number, &lock) in (start as u32..).zip(&self.lock[start..end]) {
            last[lock as usize] = number;
        }
        debug_assert!((0..self.locks).all(|lock| {
            let number = self.lock[..end].iter().rposition(|&of| of as usize == lock);
            last[lock] == number.map_or(NONE, |number| number as u32)
        }));
    }
}
