//! The partial order of a history, computed on demand (section 4.2, Definition 1, and section 5.1).
//!
//! Kept are only the events by which threads communicate. A thread's life falls into *segments* between them: all
//! events of a segment are ordered alike with all events of other threads. So a question is one look at a segment's
//! vector clock; where there are very many segments only what is new in each is kept, by pair of threads, and it is one
//! binary search. Locks order nothing here: the hybrid model leaves them to the lockset condition.
//!
//! Departures from the paper:
//! - Beside fork, join and wake-up also semaphores, barriers, once-initialisation and annotations (post and take), and
//!   atomics: a load that acquires comes after the store that it reads from if that releases (C11 release sequences,
//!   and fences on either side).
//! - Two relations. [`Strength::Full`] has all of these. [`Strength::Firm`] leaves atomics out: what a flag is to order
//!   holds only as long as the flag's own accesses are not what goes wrong, so patterns over atomic variables are searched
//!   with it.
//! - A wait does not come before the wake-up that ended it: nothing in the program makes it so, and the paper orders
//!   only notify and return. NOTE \[Correct reorderings\] is stricter.

use selvedge_events::Order as Memory;

use crate::history::{Event, EventNo, History, Op};

/// Which of the two relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Without what atomics order.
    Firm,
    /// With it.
    Full,
}

/// The partial order relation of a history.
#[derive(Debug)]
pub struct PartialOrder {
    stamps: Vec<Stamp>,
    full: Known,
    /// `None` where it is the same: no atomic ordered anything.
    firm: Option<Known>,
    communications: u64,
}

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    /// Its segment, numbered from 0 in its thread.
    segment: u32,
    thread: u16,
}

impl PartialOrder {
    /// Of a history, in one pass.
    pub fn new(history: &History) -> PartialOrder {
        let mut build = Build::new(history);
        let mut stamps = Vec::with_capacity(history.len());
        for event in &history.events {
            stamps.push(Stamp { segment: build.step(event), thread: event.thread });
        }
        let firm = build.weaker.then(|| Known::new(build.firm.learned, &build.segments));
        let full = Known::new(build.full.learned, &build.segments);
        PartialOrder { stamps, full, firm, communications: build.communications }
    }

    /// Whether one event comes before another in every run that the relation allows.
    pub fn before(&self, first: EventNo, second: EventNo, strength: Strength) -> bool {
        // Whatever is ordered is ordered as it happened.
        if first >= second {
            return false;
        }
        let (from, to) = (self.stamps[first as usize], self.stamps[second as usize]);
        if from.thread == to.thread {
            return true;
        }
        let known = match (strength, &self.firm) {
            (Strength::Firm, Some(firm)) => firm,
            _ => &self.full,
        };
        known.until(to.thread, from.thread, to.segment) > from.segment
    }

    /// Whether neither comes before the other.
    pub fn unordered(&self, a: EventNo, b: EventNo, strength: Strength) -> bool {
        a != b && !self.before(a.min(b), a.max(b), strength)
    }

    /// The segment of an event in its thread.
    pub fn segment(&self, event: EventNo) -> u32 {
        self.stamps[event as usize].segment
    }

    /// How many events of communication there are.
    pub fn communications(&self) -> u64 {
        self.communications
    }
}

/// From a segment of one thread on, the segments of another thread below `until` are over.
#[derive(Clone, Copy, Debug)]
struct Learned {
    thread: u16,
    other: u16,
    segment: u32,
    until: u32,
}

/// All that threads learn of each other.
#[derive(Debug)]
enum Known {
    /// For each segment of each thread how much of every thread is over.
    Rows {
        rows: Vec<u32>,
        /// Where a thread's rows begin.
        starts: Vec<usize>,
        width: usize,
    },
    /// Where that would take too much room: what is new in a segment, by thread, other thread and segment.
    Lists {
        entries: Vec<(u32, u32)>,
        /// Where in `entries` the pair of two threads begins, with an end mark per thread.
        pairs: Vec<(u16, u32)>,
        /// Where in `pairs` a thread begins; one more than there are threads.
        starts: Vec<u32>,
    },
}

/// How many numbers there may be in rows.
const MAX_ROWS: usize = 1 << 24;

impl Known {
    /// `last` is the last segment of each thread.
    fn new(mut learned: Vec<Learned>, last: &[u32]) -> Known {
        let segments: usize = last.iter().map(|last| *last as usize + 1).sum();
        // Stable: segments ascend as they were met.
        if segments.saturating_mul(last.len()) <= MAX_ROWS {
            learned.sort_by_key(|l| l.thread);
            Known::rows(&learned, last)
        } else {
            learned.sort_by_key(|l| (l.thread, l.other));
            Known::lists(&learned, last.len() as u32)
        }
    }

    fn rows(learned: &[Learned], last: &[u32]) -> Known {
        let width = last.len();
        let (mut rows, mut starts) = (Vec::new(), Vec::with_capacity(width));
        let mut learned = learned.iter().peekable();
        for (thread, last) in last.iter().enumerate() {
            starts.push(rows.len() / width);
            let mut row = vec![0; width];
            for segment in 0..=*last {
                while let Some(l) = learned.next_if(|l| usize::from(l.thread) == thread && l.segment <= segment) {
                    row[usize::from(l.other)] = l.until;
                }
                rows.extend_from_slice(&row);
            }
        }
        Known::Rows { rows, starts, width }
    }

    fn lists(learned: &[Learned], threads: u32) -> Known {
        let mut pairs = Vec::new();
        let mut starts = Vec::with_capacity(threads as usize + 1);
        let mut next = 0;
        for thread in 0..threads {
            starts.push(pairs.len() as u32);
            let mut last = None;
            while let Some(l) = learned.get(next).filter(|l| u32::from(l.thread) == thread) {
                if last != Some(l.other) {
                    pairs.push((l.other, next as u32));
                    last = Some(l.other);
                }
                next += 1;
            }
            pairs.push((u16::MAX, next as u32));
        }
        starts.push(pairs.len() as u32);
        Known::Lists { entries: learned.iter().map(|l| (l.segment, l.until)).collect(), pairs, starts }
    }

    fn until(&self, thread: u16, other: u16, segment: u32) -> u32 {
        let thread = usize::from(thread);
        match self {
            Known::Rows { rows, starts, width } => {
                rows[(starts[thread] + segment as usize) * width + usize::from(other)]
            }
            Known::Lists { entries, pairs, starts } => {
                let ends = &pairs[starts[thread] as usize..starts[thread + 1] as usize];
                let pairs = &ends[..ends.len() - 1];
                let Ok(pair) = pairs.binary_search_by_key(&other, |pair| pair.0) else { return 0 };
                let entries = &entries[ends[pair].1 as usize..ends[pair + 1].1 as usize];
                match entries.partition_point(|entry| entry.0 <= segment) {
                    0 => 0,
                    n => entries[n - 1].1,
                }
            }
        }
    }
}

/// A vector clock: of each thread the segments below this number.
type Clock = Vec<u32>;

/// The clocks of one relation while the history is read.
#[derive(Debug)]
struct Clocks {
    threads: Vec<Clock>,
    objects: Vec<Clock>,
    learned: Vec<Learned>,
}

impl Clocks {
    fn new(history: &History) -> Clocks {
        Clocks {
            threads: vec![vec![0; history.threads as usize]; history.threads as usize],
            objects: vec![Clock::new(); history.objects as usize],
            learned: Vec::new(),
        }
    }

    /// A thread learns what a clock says, from a segment on.
    fn learn(&mut self, thread: u16, segment: u32, what: &[u32]) {
        let clock = &mut self.threads[usize::from(thread)];
        for (other, (mine, &theirs)) in clock.iter_mut().zip(what).enumerate() {
            if *mine < theirs {
                *mine = theirs;
                if other != usize::from(thread) {
                    self.learned.push(Learned { thread, other: other as u16, segment, until: theirs });
                }
            }
        }
    }

    fn knows(&self, thread: u16, what: &[u32]) -> bool {
        self.threads[usize::from(thread)].iter().zip(what).all(|(mine, theirs)| mine >= theirs)
    }
}

fn join(into: &mut Clock, from: &[u32]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (mine, &theirs) in into.iter_mut().zip(from) {
        *mine = (*mine).max(theirs);
    }
}

struct Build {
    full: Clocks,
    firm: Clocks,
    /// The segment in which each thread is.
    segments: Vec<u32>,
    /// What a load that acquires learns from each variable: the clock of its last store's release sequence.
    published: Vec<Clock>,
    /// Of each thread: what its last fence that releases had seen.
    released: Vec<Clock>,
    /// Of each thread: what its loads have seen and no fence has acquired yet.
    pending: Vec<Clock>,
    /// Whether an atomic ordered something that nothing else does.
    weaker: bool,
    communications: u64,
}

impl Build {
    fn new(history: &History) -> Build {
        let threads = history.threads as usize;
        Build {
            full: Clocks::new(history),
            firm: Clocks::new(history),
            segments: vec![0; threads],
            published: vec![Clock::new(); history.variables as usize],
            released: vec![Clock::new(); threads],
            pending: vec![Clock::new(); threads],
            weaker: false,
            communications: 0,
        }
    }

    /// Takes in an event; its segment.
    fn step(&mut self, event: &Event) -> u32 {
        let thread = usize::from(event.thread);
        let target = event.target as usize;
        match event.op {
            Op::Fork => {
                let segment = self.segments[thread];
                let (full, firm) = self.send(event.thread);
                let child = event.target as u16;
                self.full.learn(child, self.segments[target], &full);
                self.firm.learn(child, self.segments[target], &firm);
                segment
            }
            Op::Join => {
                let (full, firm) = self.send(event.target as u16);
                self.receive(event.thread, &full, Some(&firm))
            }
            Op::Post | Op::Signal | Op::Broadcast => {
                let segment = self.segments[thread];
                let (full, firm) = self.send(event.thread);
                join(&mut self.full.objects[target], &full);
                join(&mut self.firm.objects[target], &firm);
                segment
            }
            Op::Take | Op::Woken => {
                let full = std::mem::take(&mut self.full.objects[target]);
                let firm = std::mem::take(&mut self.firm.objects[target]);
                let segment = self.receive(event.thread, &full, Some(&firm));
                self.full.objects[target] = full;
                self.firm.objects[target] = firm;
                segment
            }
            Op::AtomicRead => self.load(event),
            Op::AtomicWrite => {
                self.published[target].clear();
                self.store(event)
            }
            Op::AtomicUpdate => {
                self.load(event);
                self.store(event)
            }
            Op::Write => {
                self.published[target].clear();
                self.segments[thread]
            }
            Op::Fence => self.fence(event),
            _ => self.segments[thread],
        }
    }

    /// Ends a thread's segment; what its past is for those who receive it.
    fn send(&mut self, thread: u16) -> (Clock, Clock) {
        self.communications += 1;
        let index = usize::from(thread);
        self.segments[index] += 1;
        let now = self.segments[index];
        self.full.threads[index][index] = now;
        self.firm.threads[index][index] = now;
        (self.full.threads[index].clone(), self.firm.threads[index].clone())
    }

    /// Begins a segment of a thread if it learns something; the segment it is in then.
    fn receive(&mut self, thread: u16, full: &[u32], firm: Option<&[u32]>) -> u32 {
        self.communications += 1;
        let index = usize::from(thread);
        let news = !self.full.knows(thread, full) || firm.is_some_and(|firm| !self.firm.knows(thread, firm));
        if news {
            self.segments[index] += 1;
            let segment = self.segments[index];
            self.full.learn(thread, segment, full);
            match firm {
                Some(firm) => self.firm.learn(thread, segment, firm),
                None => self.weaker = true,
            }
        }
        self.segments[index]
    }

    fn load(&mut self, event: &Event) -> u32 {
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        if self.published[target].is_empty() {
            return self.segments[thread];
        }
        if event.order.acquires() {
            let clock = std::mem::take(&mut self.published[target]);
            let segment = self.receive(event.thread, &clock, None);
            self.published[target] = clock;
            segment
        } else {
            join(&mut self.pending[thread], &self.published[target]);
            self.segments[thread]
        }
    }

    fn store(&mut self, event: &Event) -> u32 {
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        let segment = self.segments[thread];
        if event.order.releases() {
            let (full, _) = self.send(event.thread);
            join(&mut self.published[target], &full);
        } else if !self.released[thread].is_empty() {
            join(&mut self.published[target], &self.released[thread]);
        }
        segment
    }

    fn fence(&mut self, event: &Event) -> u32 {
        let thread = usize::from(event.thread);
        if event.order.acquires() && !self.pending[thread].is_empty() {
            let clock = std::mem::take(&mut self.pending[thread]);
            self.receive(event.thread, &clock, None);
        }
        let segment = self.segments[thread];
        if matches!(event.order, Memory::Release | Memory::AcqRel | Memory::SeqCst) {
            self.released[thread] = self.send(event.thread).0;
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::Strength::{Firm, Full};
    use super::*;
    use crate::predict::text::parse;

    /// Each row: a history, an event, another, and whether the first comes before the second with and without atomics.
    #[test]
    fn orders() {
        let rows: &[(&str, EventNo, EventNo, bool, bool)] = &[
            ("T0 w x; T1 r x", 0, 1, false, false),
            ("T0 w x; T0 r x", 0, 1, true, true),
            ("T0 w x; T0 fork T1; T1 r x", 0, 2, true, true),
            ("T0 fork T1; T0 w x; T1 r x", 1, 2, false, false),
            ("T0 fork T1; T1 w x; T0 join T1; T0 r x", 1, 3, true, true),
            // Locks order nothing.
            ("T0 acq l; T0 w x; T0 rel l; T1 acq l; T1 r x; T1 rel l", 1, 4, false, false),
            ("T0 w x; T0 post s; T1 take s; T1 r x", 0, 3, true, true),
            ("T0 post s; T0 w x; T1 take s; T1 r x", 1, 3, false, false),
            ("T0 w x; T0 post s; T1 r x; T1 take s", 0, 2, false, false),
            ("T1 wait c; T0 w x; T0 signal c; T1 woken c; T1 r x", 1, 4, true, true),
            // A wait is not before its wake-up.
            ("T1 w x; T1 wait c; T0 signal c; T0 r x; T1 woken c", 0, 3, false, false),
            ("T0 w x; T0 aw f rel; T1 ar f acq; T1 r x", 0, 3, true, false),
            ("T0 w x; T0 aw f rlx; T1 ar f acq; T1 r x", 0, 3, false, false),
            ("T0 w x; T0 aw f rel; T1 ar f rlx; T1 r x", 0, 3, false, false),
            ("T0 w x; T0 aw f; T1 ar f; T1 r x", 0, 3, true, false),
            // The store itself comes before the load that reads it, and what follows it does not.
            ("T0 aw f; T1 ar f", 0, 1, true, false),
            ("T0 aw f; T0 w x; T1 ar f; T1 r x", 1, 3, false, false),
            // Another store in between ends the release sequence, an update continues it.
            ("T0 w x; T0 aw f rel; T2 aw f rlx; T1 ar f acq; T1 r x", 0, 4, false, false),
            ("T0 w x; T0 aw f rel; T2 au f rlx; T1 ar f acq; T1 r x", 0, 4, true, false),
            // Fences on either side.
            ("T0 w x; T0 fence rel; T0 aw f rlx; T1 ar f acq; T1 r x", 0, 4, true, false),
            ("T0 fence rel; T0 w x; T0 aw f rlx; T1 ar f acq; T1 r x", 1, 4, false, false),
            ("T0 w x; T0 aw f rel; T1 ar f rlx; T1 fence acq; T1 r x", 0, 4, true, false),
            ("T0 w x; T0 aw f rel; T1 ar f rlx; T1 r x; T1 fence acq", 0, 3, false, false),
            // Transitively.
            ("T0 w x; T0 post s; T1 take s; T1 post t; T2 take t; T2 r x", 0, 5, true, true),
            ("T0 w x; T0 post s; T1 take s; T1 aw f rel; T2 ar f acq; T2 r x", 0, 5, true, false),
        ];
        for (text, first, second, full, firm) in rows {
            let order = PartialOrder::new(&parse(text));
            assert_eq!(order.before(*first, *second, Full), *full, "full: {text}");
            assert_eq!(order.before(*first, *second, Firm), *firm, "firm: {text}");
            assert!(!order.before(*second, *first, Full), "backwards: {text}");
        }
    }

    /// The two forms of what is known agree.
    #[test]
    fn rows_and_lists() {
        let mut learned = Vec::new();
        for (thread, other, segment, until) in
            [(0, 1, 2, 1), (0, 2, 2, 3), (1, 0, 0, 1), (0, 1, 5, 4), (2, 0, 1, 2), (1, 2, 3, 1), (2, 0, 4, 5)]
        {
            learned.push(Learned { thread, other, segment, until });
        }
        let last = [6, 4, 5];
        let rows = Known::new(learned.clone(), &last);
        assert!(matches!(rows, Known::Rows { .. }));
        learned.sort_by_key(|l| (l.thread, l.other));
        let lists = Known::lists(&learned, 3);
        for (thread, last) in (0..).zip(last) {
            for (other, segment) in (0..3).flat_map(|other| (0..=last).map(move |segment| (other, segment))) {
                let (a, b) = (rows.until(thread, other, segment), lists.until(thread, other, segment));
                assert_eq!(a, b, "{thread} {other} {segment}");
            }
        }
    }
}
