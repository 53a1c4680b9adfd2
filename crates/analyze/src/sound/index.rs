//! What the analyses that look back ask of a history: who saw what, which critical sections there are.
//!
//! Everything is by number: twelve bytes for an event besides the event itself, a few words for a critical section.
//! Sets of events are *ideals*: of each thread a prefix, written as the lengths of the prefixes.

use crate::history::{EventNo, History, Op};

/// No event, no section.
pub(crate) const NONE: u32 = u32::MAX;

/// From an acquisition to its release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) acquire: EventNo,
    /// [`NONE`] where the lock is held at the end.
    pub(crate) release: EventNo,
    /// Where its release is in its thread, or [`NONE`].
    pub(crate) release_place: u32,
    pub(crate) lock: u32,
    pub(crate) thread: u16,
    pub(crate) shared: bool,
    /// Its row in [`Index::later`], or [`NONE`] where only one thread ever takes the lock.
    later: u32,
}

#[derive(Debug)]
pub(crate) struct Index<'h> {
    pub(crate) history: &'h History,
    /// For each event how many of its thread come before it.
    pub(crate) places: Vec<u32>,
    /// For a read the write that it sees; for a lock's event its section; else [`NONE`].
    links: Vec<u32>,
    /// For each variable whether several threads access it.
    shared: Vec<bool>,
    /// The events of each thread.
    threads: Vec<Vec<EventNo>>,
    /// The event that makes each thread, or [`NONE`].
    forks: Vec<EventNo>,
    /// The events that post to each object.
    posts: Vec<Vec<EventNo>>,
    pub(crate) sections: Vec<Section>,
    /// The sections of each lock, one lock after the other, and where each lock's begin.
    by_lock: Vec<u32>,
    lock_starts: Vec<u32>,
    /// For each section of a lock that several threads take, and each thread, the place of the next acquisition that
    /// cannot overlap it.
    later: Vec<u32>,
    width: usize,
}

impl<'h> Index<'h> {
    pub(crate) fn new(history: &'h History) -> Index<'h> {
        let width = history.threads as usize;
        let mut index = Index {
            history,
            places: Vec::with_capacity(history.len()),
            links: Vec::with_capacity(history.len()),
            shared: vec![false; history.variables as usize],
            threads: vec![Vec::new(); width],
            forks: vec![NONE; width],
            posts: vec![Vec::new(); history.objects as usize],
            sections: Vec::new(),
            by_lock: Vec::new(),
            lock_starts: Vec::new(),
            later: Vec::new(),
            width,
        };
        index.link();
        index.find_later();
        index
    }

    fn link(&mut self) {
        let mut writes = vec![NONE; self.history.variables as usize];
        let mut users = vec![None; self.history.variables as usize];
        // The open sections of each thread: few at a time.
        let mut open: Vec<Vec<u32>> = vec![Vec::new(); self.width];
        for (event, number) in self.history.events.iter().zip(0..) {
            let thread = usize::from(event.thread);
            let target = event.target as usize;
            self.places.push(self.threads[thread].len() as u32);
            self.threads[thread].push(number);
            let mut link = NONE;
            match event.op {
                op if op.is_access() => {
                    self.shared[target] |= *users[target].get_or_insert(thread) != thread;
                    if op.reads() {
                        link = writes[target];
                    }
                    if op.writes() {
                        writes[target] = number;
                    }
                }
                Op::Acquire | Op::AcquireShared => {
                    link = self.sections.len() as u32;
                    open[thread].push(link);
                    let shared = event.op == Op::AcquireShared;
                    let (lock, thread) = (event.target, event.thread);
                    let (release, release_place, later) = (NONE, NONE, NONE);
                    self.sections.push(Section {
                        acquire: number,
                        release,
                        release_place,
                        lock,
                        thread,
                        shared,
                        later,
                    });
                }
                Op::Release | Op::ReleaseShared => {
                    let of_lock = |&section: &u32| self.sections[section as usize].lock == event.target;
                    if let Some(at) = open[thread].iter().rposition(of_lock) {
                        link = open[thread].remove(at);
                        self.sections[link as usize].release = number;
                        self.sections[link as usize].release_place = self.places[number as usize];
                    }
                }
                Op::Fork if self.forks[target] == NONE => self.forks[target] = number,
                op if op.posts() => self.posts[target].push(number),
                _ => {}
            }
            self.links.push(link);
        }
    }

    fn find_later(&mut self) {
        let mut by_lock: Vec<(u32, u32)> = self.sections.iter().map(|section| section.lock).zip(0..).collect();
        by_lock.sort_unstable();
        self.by_lock = by_lock.iter().map(|&(_, section)| section).collect();
        let start = |lock| by_lock.partition_point(|&(other, _)| other < lock) as u32;
        self.lock_starts = (0..=self.history.locks).map(start).collect();
        let (mut any, mut exclusive) = (vec![NONE; self.width], vec![NONE; self.width]);
        for group in by_lock.chunk_by(|one, other| one.0 == other.0) {
            let first = self.section(group[0].1).thread;
            if group.iter().all(|&(_, section)| self.section(section).thread == first) {
                continue;
            }
            any.fill(NONE);
            exclusive.fill(NONE);
            for &(_, section) in group.iter().rev() {
                let Section { acquire, thread, shared, .. } = *self.section(section);
                self.sections[section as usize].later = (self.later.len() / self.width) as u32;
                self.later.extend_from_slice(if shared { &exclusive } else { &any });
                let place = self.places[acquire as usize];
                any[usize::from(thread)] = place;
                if !shared {
                    exclusive[usize::from(thread)] = place;
                }
            }
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn thread(&self, thread: usize) -> &[EventNo] {
        &self.threads[thread]
    }

    pub(crate) fn fork(&self, thread: usize) -> Option<EventNo> {
        Some(self.forks[thread]).filter(|&fork| fork != NONE)
    }

    /// The events that post to an object before another event.
    pub(crate) fn posts_before(&self, object: u32, number: EventNo) -> &[EventNo] {
        let posts = &self.posts[object as usize];
        &posts[..posts.partition_point(|&post| post < number)]
    }

    pub(crate) fn thread_of(&self, number: EventNo) -> usize {
        usize::from(self.history.events[number as usize].thread)
    }

    pub(crate) fn place(&self, number: EventNo) -> u32 {
        self.places[number as usize]
    }

    /// The write that a read sees.
    pub(crate) fn write_seen(&self, number: EventNo) -> Option<EventNo> {
        Some(self.links[number as usize]).filter(|&write| write != NONE)
    }

    /// The section of a lock's event; none for a release without acquisition.
    pub(crate) fn section_of(&self, number: EventNo) -> Option<u32> {
        Some(self.links[number as usize]).filter(|&section| section != NONE)
    }

    /// Whether several threads access a variable.
    pub(crate) fn is_shared(&self, variable: u32) -> bool {
        self.shared[variable as usize]
    }

    /// Whether other threads take the lock of a section.
    pub(crate) fn has_rivals(&self, section: u32) -> bool {
        self.section(section).later != NONE
    }

    pub(crate) fn section(&self, section: u32) -> &Section {
        &self.sections[section as usize]
    }

    /// The sections of a lock, in the history's order.
    pub(crate) fn sections_of(&self, lock: u32) -> &[u32] {
        let start = |lock: u32| self.lock_starts[lock as usize] as usize;
        &self.by_lock[start(lock)..start(lock + 1)]
    }

    /// Whether an ideal has an acquisition after this section that cannot overlap it, of another thread.
    #[inline]
    pub(crate) fn is_followed(&self, section: &Section, ideal: &[u32]) -> bool {
        if section.later == NONE {
            return false;
        }
        let later = &self.later[section.later as usize * self.width..][..self.width];
        let own = usize::from(section.thread);
        later.iter().zip(ideal).enumerate().any(|(thread, (&place, &length))| place < length && thread != own)
    }
}
