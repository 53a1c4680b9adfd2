//! Which events a goal needs, whatever order they come in.
//!
//! The least ideal that has the goal's predecessors and with each event what it waits for or reads from; nothing is
//! said about locks. Then, as a choice, releases: of two sections that are open and exclude each other one has to
//! end. Optimistic reorderings (Shi, Mathur, Pavlogiannis: Optimistic prediction of synchronization-reversal data races,
//! arXiv 2401.05642) end every section that can be ended; less is tried before: the sections that a sync-preserving
//! ideal ends, and no more than two that exclude each other ask for.

use super::ideals::{Hit, Ideals};
use super::index::{NONE, Section};
use crate::history::{EventNo, Op};

/// What is asked of an order of events.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// For each thread how many of its events must come.
    pub(crate) need: Vec<u32>,
    /// For each thread how many may.
    pub(crate) cap: Vec<u32>,
    /// Events that come in this order.
    pub(crate) chain: Vec<EventNo>,
    /// Whether the last of the chain is the last of all.
    pub(crate) ends_with_chain: bool,
    /// Events of the goal whose reads may see anything.
    pub(crate) free: Vec<EventNo>,
    /// The wake-up that waits for nobody.
    pub(crate) lifted: Option<EventNo>,
}

/// Which open sections to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// One of two that exclude each other, the earlier where both can.
    Least,
    /// All that can be ended and that a needed section follows in the history, as a sync-preserving ideal does.
    Followed,
    /// All that can be ended and exclude a section that is needed.
    All,
}

impl Task {
    /// Nothing is needed yet, and everything allowed.
    pub(crate) fn new(ideals: &Ideals<'_>) -> Task {
        let width = ideals.index.width();
        Task {
            need: vec![0; width],
            cap: (0..width).map(|thread| ideals.index.thread(thread).len() as u32).collect(),
            chain: Vec::new(),
            ends_with_chain: false,
            free: Vec::new(),
            lifted: None,
        }
    }

    /// Makes the first events of a thread needed, with all that they need.
    pub(crate) fn want(&mut self, ideals: &Ideals<'_>, thread: usize, length: u32) -> Result<(), Hit> {
        let index = &ideals.index;
        let mut stack = vec![(thread, length)];
        // For the objects that were taken how many of their posts are needed by now.
        let mut taken: Vec<(u32, usize)> = Vec::new();
        while let Some((thread, length)) = stack.pop() {
            let done = self.need[thread];
            if length <= done {
                continue;
            }
            if length > self.cap[thread] {
                return Err(Hit);
            }
            self.need[thread] = length;
            let mut push = |number: EventNo| stack.push((index.thread_of(number), index.place(number) + 1));
            if done == 0 {
                index.fork(thread).into_iter().for_each(&mut push);
            }
            for &number in &index.thread(thread)[done as usize..length as usize] {
                let event = &index.history.events[number as usize];
                if event.op.reads() && !self.free.contains(&number) {
                    index.write_seen(number).into_iter().for_each(&mut push);
                }
                if event.op == Op::Join {
                    index.thread(event.target as usize).last().copied().into_iter().for_each(&mut push);
                }
                if event.op.takes() && self.lifted != Some(number) {
                    let posts = index.posts_before(event.target, number);
                    let at = taken.iter().position(|&(object, _)| object == event.target).unwrap_or_else(|| {
                        taken.push((event.target, 0));
                        taken.len() - 1
                    });
                    let known = taken[at].1;
                    if known < posts.len() {
                        posts[known..].iter().copied().for_each(&mut push);
                        taken[at].1 = posts.len();
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds releases, so that no two open sections exclude each other.
    pub(crate) fn end_sections(&mut self, ideals: &Ideals<'_>, ending: Ending) -> Result<(), Hit> {
        let mut kept: Vec<u32> = Vec::new();
        'again: loop {
            let open: Vec<u32> = (0..self.need.len())
                .flat_map(|thread| ideals.held_at(thread, self.need[thread]).iter().copied())
                .filter(|section| !kept.contains(section))
                .collect();
            for (at, &one) in open.iter().enumerate() {
                let section = ideals.index.section(one);
                let end = match ending {
                    Ending::Least => false,
                    Ending::Followed => ideals.index.is_followed(section, &self.need),
                    Ending::All => self.has_rival(ideals, section),
                };
                if end && self.can_end(section) {
                    let before = self.clone();
                    if self.end(ideals, section).is_err() {
                        *self = before;
                        kept.push(one);
                    }
                    continue 'again;
                }
                let rival = open[at + 1..].iter().find(|&&other| excludes(section, ideals.index.section(other)));
                let Some(&other) = rival else { continue };
                let mut pair = [one, other];
                pair.sort_unstable();
                for candidate in pair.map(|section| ideals.index.section(section)) {
                    let before = self.clone();
                    if self.can_end(candidate) && self.end(ideals, candidate).is_ok() {
                        continue 'again;
                    }
                    *self = before;
                }
                return Err(Hit);
            }
            // Sections that could not be ended still have to get along.
            let all: Vec<u32> = (0..self.need.len())
                .flat_map(|thread| ideals.held_at(thread, self.need[thread]).iter().copied())
                .collect();
            let section = |section: &u32| ideals.index.section(*section);
            let clash = all
                .iter()
                .enumerate()
                .any(|(at, one)| all[at + 1..].iter().any(|other| excludes(section(one), section(other))));
            return if clash { Err(Hit) } else { Ok(()) };
        }
    }

    fn end(&mut self, ideals: &Ideals<'_>, section: &Section) -> Result<(), Hit> {
        self.want(ideals, usize::from(section.thread), section.release_place + 1)
    }

    fn can_end(&self, section: &Section) -> bool {
        section.release != NONE && section.release_place < self.cap[usize::from(section.thread)]
    }

    /// Whether another thread needs a section that excludes this one.
    fn has_rival(&self, ideals: &Ideals<'_>, section: &Section) -> bool {
        let rivals = ideals.index.sections_of(section.lock).iter().map(|&other| ideals.index.section(other));
        rivals.filter(|other| excludes(section, other)).any(|other| self.needs(ideals, other.acquire))
    }

    pub(crate) fn needs(&self, ideals: &Ideals<'_>, number: EventNo) -> bool {
        ideals.index.place(number) < self.need[ideals.index.thread_of(number)]
    }
}

/// Whether two sections of different threads cannot overlap.
pub(crate) fn excludes(one: &Section, other: &Section) -> bool {
    one.lock == other.lock && one.thread != other.thread && !(one.shared && other.shared)
}
