//! The events that must come before others, where critical sections keep their order.
//!
//! *Sync-preserving ideals* (Mathur, Pavlogiannis, Viswanathan: Optimal prediction of synchronization-preserving races,
//! POPL 2021, section 4): an ideal that has with each event all that it needs (what its thread did before, what it read
//! from, the fork of its thread, the threads it joined, the posts it took), and with two acquisitions of one lock
//! the release of the earlier. In the history's order it is a correct reordering.
//!
//! Departures: the paper closes an ideal anew for each pair of events, and keeps queues of acquisitions for each
//! pair of threads and lock. Here the ideal of every event is made once, in one pass, and kept where it differs from that
//! of the event before it; the ideal of several events is the union of theirs, and only sections that are open in
//! one of them are looked at. A section knows for each thread the next acquisition that cannot overlap it, so "is there
//! a later one in the ideal" is one comparison for each thread. Two shared sections may overlap: the later
//! one does not ask for the release of the earlier.

use super::index::{Index, NONE, Section};
use crate::history::{EventNo, History, Op};

/// A slice of [`Ideals::sections`].
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    start: u32,
    count: u32,
}

/// What stays the same from one event of a thread to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Which ideal, but for the thread's own prefix.
    row: u32,
    /// The open sections of the thread itself.
    held: Slice,
    /// The sections of other threads that are open in the ideal.
    open: Slice,
}

/// A point of a thread: before one of its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) thread: u16,
    /// How many events of the thread come before.
    pub(crate) place: u32,
    segment: u32,
    /// The segment's, since it is asked for most.
    row: u32,
}

#[derive(Debug)]
pub(crate) struct Ideals<'h> {
    pub(crate) index: Index<'h>,
    /// For each event the segment after it.
    segments_of: Vec<u32>,
    segments: Vec<Segment>,
    /// For each thread the segment before its first event.
    initial: Vec<u32>,
    rows: Vec<u32>,
    sections: Vec<u32>,
}

/// An ideal while it is closed: for each thread the length of its prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growing {
    pub(crate) ideal: Vec<u32>,
    /// All sections that are open in the ideal, and some that were.
    open: Vec<u32>,
}

/// What an acquisition needs of its lock's earlier sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locks {
    /// The releases of those that are in the ideal.
    KeepOrder,
    /// All releases.
    Order,
}

/// What an ideal must not have came into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit;

impl<'h> Ideals<'h> {
    /// Sync-preserving ideals.
    pub(crate) fn new(history: &'h History) -> Ideals<'h> {
        Ideals::of(history, Locks::KeepOrder)
    }

    /// Ideals of schedulable happens-before: an acquisition needs all releases that came before it.
    pub(crate) fn happens_before(history: &'h History) -> Ideals<'h> {
        Ideals::of(history, Locks::Order)
    }

    fn of(history: &'h History, locks: Locks) -> Ideals<'h> {
        let index = Index::new(history);
        let width = index.width();
        let mut ideals = Ideals {
            segments_of: Vec::with_capacity(history.len()),
            segments: vec![Segment::default()],
            initial: vec![0; width],
            rows: vec![0; width],
            sections: Vec::new(),
            index,
        };
        ideals.build(locks);
        ideals
    }

    fn build(&mut self, locks: Locks) {
        let history = self.index.history;
        let mut current: Vec<u32> = vec![0; self.index.width()];
        let mut posted: Vec<Option<Growing>> = vec![None; history.objects as usize];
        // Of each lock the exclusive and the shared releases.
        let mut released: Vec<[Option<Growing>; 2]> = match locks {
            Locks::KeepOrder => Vec::new(),
            Locks::Order => vec![[None, None]; history.locks as usize],
        };
        let mut growing = Growing::default();
        for (event, number) in history.events.iter().zip(0..) {
            let thread = usize::from(event.thread);
            let target = event.target as usize;
            let mut segment = current[thread];
            self.segments_of.push(segment);
            match event.op {
                op if op.reads() => {
                    if let Some(write) = self.index.write_seen(number) {
                        let writer = self.index.thread_of(write);
                        let known = self.row(segment)[writer];
                        if writer != thread && known <= self.index.place(write) {
                            self.start(&mut growing, segment, thread, number);
                            self.include(&mut growing, write);
                            segment = self.finish(&mut growing, segment, thread);
                        }
                    }
                }
                Op::Acquire | Op::AcquireShared => {
                    segment = self.hold(segment, self.index.section_of(number), NONE);
                    self.segments_of[number as usize] = segment;
                    if let Some([exclusive, shared]) = released.get(target) {
                        self.start(&mut growing, segment, thread, number);
                        exclusive.iter().for_each(|releases| growing.unite(releases));
                        shared.iter().filter(|_| event.op == Op::Acquire).for_each(|releases| growing.unite(releases));
                        segment = self.finish(&mut growing, segment, thread);
                    }
                    // The acquisition follows sections that are open elsewhere.
                    if self.segments[segment as usize].open.count > 0 {
                        self.start(&mut growing, segment, thread, number);
                        growing.ideal[thread] += 1;
                        segment = self.finish(&mut growing, segment, thread);
                    }
                }
                Op::Release | Op::ReleaseShared => {
                    if let Some(section) = self.index.section_of(number) {
                        segment = self.hold(segment, None, section);
                    }
                    if let Some(releases) = released.get_mut(target) {
                        self.segments_of[number as usize] = segment;
                        let releases = releases[usize::from(event.op == Op::ReleaseShared)].get_or_insert_default();
                        releases.ideal.resize(self.index.width(), 0);
                        self.include(releases, number);
                        self.drop_closed(releases);
                    }
                }
                Op::Fork if self.index.fork(target) == Some(number) && target != thread => {
                    growing.reset(self.index.width());
                    self.include(&mut growing, number);
                    let initial = self.finish(&mut growing, 0, target);
                    (self.initial[target], current[target]) = (initial, initial);
                }
                Op::Join if target != thread => {
                    if let Some(&last) = self.index.thread(target).last() {
                        self.start(&mut growing, segment, thread, number);
                        self.include(&mut growing, last.min(number));
                        segment = self.finish(&mut growing, segment, thread);
                    }
                }
                op if op.posts() || op.takes() => {
                    if let Some(posts) = posted[target].as_ref().filter(|_| op.takes()) {
                        self.start(&mut growing, segment, thread, number);
                        growing.unite(posts);
                        segment = self.finish(&mut growing, segment, thread);
                        self.segments_of[number as usize] = segment;
                    }
                    if op.posts() {
                        let posts = posted[target].get_or_insert_default();
                        posts.ideal.resize(self.index.width(), 0);
                        self.include(posts, number);
                        self.drop_closed(posts);
                    }
                }
                _ => {}
            }
            current[thread] = segment;
            self.segments_of[number as usize] = segment;
        }
    }

    fn row(&self, segment: u32) -> &[u32] {
        self.row_at(self.segments[segment as usize].row)
    }

    #[inline]
    fn row_at(&self, row: u32) -> &[u32] {
        let width = self.index.width();
        &self.rows[row as usize * width..][..width]
    }

    fn point(&self, thread: u16, place: u32, segment: u32) -> Point {
        Point { thread, place, segment, row: self.segments[segment as usize].row }
    }

    fn slice(&self, slice: Slice) -> &[u32] {
        &self.sections[slice.start as usize..][..slice.count as usize]
    }

    fn segment(&mut self, segment: Segment) -> u32 {
        self.segments.push(segment);
        self.segments.len() as u32 - 1
    }

    /// A segment with one section more or one less.
    fn hold(&mut self, segment: u32, more: Option<u32>, less: u32) -> u32 {
        let old = self.segments[segment as usize];
        let start = self.sections.len() as u32;
        for at in old.held.start..old.held.start + old.held.count {
            let section = self.sections[at as usize];
            if section != less {
                self.sections.push(section);
            }
        }
        self.sections.extend(more);
        let held = Slice { start, count: self.sections.len() as u32 - start };
        self.segment(Segment { held, ..old })
    }

    /// Begins with what a thread knows before one of its events.
    fn start(&self, growing: &mut Growing, segment: u32, thread: usize, number: EventNo) {
        growing.ideal.clear();
        growing.ideal.extend_from_slice(self.row(segment));
        growing.ideal[thread] = self.index.place(number);
        growing.open.clear();
        growing.open.extend_from_slice(self.slice(self.segments[segment as usize].open));
    }

    /// Closes an ideal of a thread; the segment that has it.
    fn finish(&mut self, growing: &mut Growing, segment: u32, thread: usize) -> u32 {
        // A section is released before the next acquisition, and what is open now was not followed: nothing is hit.
        let _ = self.close(growing, &[]);
        growing.ideal[thread] = 0;
        if self.row(segment) == growing.ideal {
            return segment;
        }
        let row = (self.rows.len() / self.index.width()) as u32;
        self.rows.extend_from_slice(&growing.ideal);
        let start = self.sections.len() as u32;
        let elsewhere = |section: &&u32| usize::from(self.index.section(**section).thread) != thread;
        self.sections.extend(growing.open.iter().filter(elsewhere));
        let open = Slice { start, count: self.sections.len() as u32 - start };
        self.segment(Segment { row, open, ..self.segments[segment as usize] })
    }

    /// Adds an event and all that it needs.
    pub(crate) fn include(&self, growing: &mut Growing, number: EventNo) {
        let thread = self.index.history.events[number as usize].thread;
        let segment = self.segments_of[number as usize];
        self.include_point(growing, self.point(thread, self.index.place(number) + 1, segment));
    }

    /// Adds what comes before a point, and all that this needs.
    #[inline]
    pub(crate) fn include_point(&self, growing: &mut Growing, point: Point) {
        for (own, other) in growing.ideal.iter_mut().zip(self.row_at(point.row)) {
            *own = (*own).max(*other);
        }
        let own = &mut growing.ideal[usize::from(point.thread)];
        *own = (*own).max(point.place);
        let Segment { held, open, .. } = self.segments[point.segment as usize];
        growing.look_at(self.slice(held));
        growing.look_at(self.slice(open));
    }

    /// The point before an event.
    pub(crate) fn before(&self, number: EventNo) -> Point {
        let (thread, place) = (self.index.history.events[number as usize].thread, self.index.place(number));
        let segment = match (place as usize).checked_sub(1) {
            Some(last) => self.segments_of[self.index.thread(usize::from(thread))[last] as usize],
            None => self.initial[usize::from(thread)],
        };
        self.point(thread, place, segment)
    }

    /// The sections of a thread that are open after its first events.
    pub(crate) fn held_at(&self, thread: usize, length: u32) -> &[u32] {
        let Some(last) = (length as usize).checked_sub(1) else { return &[] };
        let segment = self.segments_of[self.index.thread(thread)[last] as usize];
        self.slice(self.segments[segment as usize].held)
    }

    /// The points before all events, in the history's order.
    pub(crate) fn points(&self) -> impl Iterator<Item = Point> {
        let mut current = self.initial.clone();
        let events = self.index.history.events.iter().zip(&self.index.places).zip(&self.segments_of);
        events.map(move |((event, &place), &after)| {
            let segment = std::mem::replace(&mut current[usize::from(event.thread)], after);
            self.point(event.thread, place, segment)
        })
    }

    /// Adds the releases that later acquisitions ask for, until none is missing, or until the ideal has an event
    /// after one of the given points.
    pub(crate) fn close(&self, growing: &mut Growing, ends: &[Point]) -> Result<(), Hit> {
        let mut again = true;
        while again {
            again = false;
            let mut at = 0;
            while let Some(&section) = growing.open.get(at) {
                let section = self.index.section(section);
                if is_closed(section, &growing.ideal) {
                    growing.open.swap_remove(at);
                } else if self.index.is_followed(section, &growing.ideal) {
                    // Not released, or, where the history breaks its own rules, not before the next acquisition.
                    if section.release as usize >= self.segments_of.len() {
                        return Err(Hit);
                    }
                    self.include(growing, section.release);
                    if ends.iter().any(|end| growing.ideal[usize::from(end.thread)] > end.place) {
                        return Err(Hit);
                    }
                    again = true;
                } else {
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn drop_closed(&self, growing: &mut Growing) {
        growing.open.retain(|&section| !is_closed(self.index.section(section), &growing.ideal));
    }

    /// What must come before a point; of its own thread nothing is said.
    pub(crate) fn known(&self, point: Point) -> &[u32] {
        self.row_at(point.row)
    }

    /// The least ideal before two points; whether it ends at both.
    #[inline]
    pub(crate) fn co_enabled(&self, growing: &mut Growing, ends: [Point; 2]) -> bool {
        growing.ideal.clear();
        growing.ideal.extend_from_slice(self.row_at(ends[0].row));
        growing.open.clear();
        self.include_point(growing, ends[0]);
        self.include_point(growing, ends[1]);
        let hit = ends.iter().any(|end| growing.ideal[usize::from(end.thread)] > end.place);
        !hit && self.close(growing, &ends).is_ok()
    }
}

/// Whether the release of a section is in the ideal.
#[inline]
fn is_closed(section: &Section, ideal: &[u32]) -> bool {
    section.release_place < ideal[usize::from(section.thread)]
}

impl Point {
    /// The same number for points of one thread before which the same must come.
    pub(crate) fn moment(self) -> u32 {
        self.segment
    }
}

impl Growing {
    pub(crate) fn reset(&mut self, width: usize) {
        self.ideal.clear();
        self.ideal.resize(width, 0);
        self.open.clear();
    }

    fn unite(&mut self, other: &Growing) {
        for (own, other) in self.ideal.iter_mut().zip(&other.ideal) {
            *own = (*own).max(*other);
        }
        self.look_at(&other.open);
    }

    /// Adds sections that may be open. A few twice do no harm, as long as they do not add up.
    fn look_at(&mut self, sections: &[u32]) {
        if sections.len() + self.open.len() > 32 {
            self.open.extend_from_slice(sections);
            self.open.sort_unstable();
            self.open.dedup();
        } else {
            for section in sections {
                if !self.open.contains(section) {
                    self.open.push(*section);
                }
            }
        }
    }
}
