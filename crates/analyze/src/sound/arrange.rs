//! An order for the events that a goal needs: a search that steps through them as the rules allow.
//!
//! Depth first, in the history's order where there is a choice, and with a bound on the steps after a dead end. Three things keep it
//! small. A step that can take nothing from others (a read, a release, a post, …) is done at once, without
//! alternative. A write waits for all needed reads of what it would overwrite, and an acquisition that is not followed
//! by its release for all needed sections that it would shut out: such orders are lost anyway. And
//! of two ways to the same places with the same last writes only the first is followed.

use std::collections::HashSet;

use super::ideals::Ideals;
use super::index::NONE;
use super::needs::Task;
use super::saturate::Before;
use crate::history::{EventNo, Op};

/// Looks for an order that does all that the task needs; gives up so many steps after the first dead end.
pub(crate) fn arrange(
    ideals: &Ideals<'_>,
    task: &Task,
    before: Option<&Before>,
    prefix: &[EventNo],
    steps: usize,
) -> Result<Vec<EventNo>, Stuck> {
    let mut search = Steps::new(ideals, task, before);
    for &number in prefix {
        if !search.is_enabled(ideals.index.thread_of(number), number) {
            return Err(search.stuck());
        }
        search.advance(number);
    }
    search.search(steps)
}

/// No order was found.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    /// The events that kept others waiting at the first dead end, the latest first: one of them came too early.
    pub(crate) culprits: Vec<EventNo>,
}

struct Steps<'t, 'h> {
    ideals: &'t Ideals<'h>,
    task: &'t Task,
    before: Option<&'t Before>,
    done: Vec<u32>,
    /// For each variable the last write, or [`NONE`].
    last: Vec<EventNo>,
    /// For each write, and at the end for each variable's beginning, how many needed reads of it are to come.
    reads: Vec<u32>,
    /// For each lock how many hold it in shared mode, or [`NONE`] for one exclusively.
    held: Vec<u32>,
    /// For each lock the needed acquisitions to come: all, and exclusive ones.
    left: Vec<[u32; 2]>,
    /// For each object how many of its posts, from the first, are done.
    posted: Vec<u32>,
    chained: usize,
    /// How many needed events are to come.
    missing: u32,
    order: Vec<EventNo>,
    /// For each event of the order the write that was the last before it.
    overwritten: Vec<EventNo>,
    state: u64,
}

impl<'t, 'h> Steps<'t, 'h> {
    fn new(ideals: &'t Ideals<'h>, task: &'t Task, before: Option<&'t Before>) -> Steps<'t, 'h> {
        let history = ideals.index.history;
        let mut steps = Steps {
            ideals,
            task,
            before,
            done: vec![0; task.need.len()],
            last: vec![NONE; history.variables as usize],
            reads: vec![0; history.len() + history.variables as usize],
            held: vec![0; history.locks as usize],
            left: vec![[0; 2]; history.locks as usize],
            posted: vec![0; history.objects as usize],
            chained: 0,
            missing: task.need.iter().sum(),
            order: Vec::new(),
            overwritten: Vec::new(),
            state: 0,
        };
        for (thread, &need) in task.need.iter().enumerate() {
            for &number in &ideals.index.thread(thread)[..need as usize] {
                let event = &history.events[number as usize];
                if event.op.reads() && !task.free.contains(&number) {
                    let source = steps.source(ideals.index.write_seen(number).unwrap_or(NONE), event.target);
                    steps.reads[source] += 1;
                }
                if event.op.acquires() {
                    steps.left[event.target as usize][0] += 1;
                    steps.left[event.target as usize][1] += u32::from(event.op == Op::Acquire);
                }
            }
        }
        steps
    }

    /// Where the reads of a write are counted.
    fn source(&self, write: EventNo, variable: u32) -> usize {
        if write == NONE { self.ideals.index.history.len() + variable as usize } else { write as usize }
    }

    fn search(mut self, steps: usize) -> Result<Vec<EventNo>, Stuck> {
        let start = self.order.len();
        let mut visited: HashSet<u64> = HashSet::new();
        // For each step that had alternatives: how long the order was, and what else there was, the best last.
        let mut branches: Vec<(usize, Vec<EventNo>)> = Vec::new();
        let mut stuck: Option<Stuck> = None;
        // Counts from the first dead end on: the way there is no more than a pass over the events.
        let mut tried = 0;
        loop {
            if self.missing == 0 {
                return Ok(self.order);
            }
            let mut choices = self.choices();
            let next = choices.pop();
            if !choices.is_empty() {
                branches.push((self.order.len(), choices));
            }
            let mut next = next;
            if next.is_none() && stuck.is_none() {
                stuck = Some(self.stuck());
            }
            loop {
                if let Some(number) = next {
                    self.advance(number);
                    tried += usize::from(stuck.is_some());
                    // Only where there was a choice can two ways meet.
                    if branches.is_empty() || visited.insert(self.state) {
                        break;
                    }
                }
                let Some((length, choices)) = branches.last_mut().filter(|_| tried < steps) else {
                    return Err(stuck.unwrap_or_else(|| self.stuck()));
                };
                let length = *length;
                next = choices.pop();
                if choices.is_empty() {
                    branches.pop();
                }
                debug_assert!(length >= start);
                while self.order.len() > length {
                    self.retreat();
                }
            }
        }
    }

    /// The events that can come next, the best last; only one where it is as good as any.
    fn choices(&self) -> Vec<EventNo> {
        let mut choices: Vec<(bool, EventNo)> = Vec::new();
        for (thread, &done) in self.done.iter().enumerate() {
            if done >= self.task.cap[thread] {
                continue;
            }
            let number = self.ideals.index.thread(thread)[done as usize];
            if self.is_enabled(thread, number) {
                if self.is_harmless(number) {
                    return vec![number];
                }
                choices.push((done >= self.task.need[thread], number));
            }
        }
        choices.sort_unstable();
        choices.into_iter().rev().map(|(_, number)| number).collect()
    }

    /// Whether the event keeps nothing from others.
    fn is_harmless(&self, number: EventNo) -> bool {
        let index = &self.ideals.index;
        let event = &index.history.events[number as usize];
        let keeps = event.op.writes() && index.is_shared(event.target)
            || event.op.acquires() && index.section_of(number).is_none_or(|section| index.has_rivals(section));
        !keeps && !self.task.chain.contains(&number)
    }

    fn is_done(&self, number: EventNo) -> bool {
        self.ideals.index.place(number) < self.done[self.ideals.index.thread_of(number)]
    }

    fn is_enabled(&self, thread: usize, number: EventNo) -> bool {
        let index = &self.ideals.index;
        let event = &index.history.events[number as usize];
        let needed = self.done[thread] < self.task.need[thread];
        if self.done[thread] == 0 && index.fork(thread).is_some_and(|fork| !self.is_done(fork)) {
            return false;
        }
        if let Some(at) = self.task.chain.iter().position(|&other| other == number) {
            let last = self.task.ends_with_chain && at + 1 == self.task.chain.len();
            if at != self.chained || (last && self.missing > 1) {
                return false;
            }
        }
        if self.before.is_some_and(|before| !before.allows(number, thread, &self.done)) {
            return false;
        }
        let free = self.task.free.contains(&number);
        if event.op.reads() && !free {
            let seen = index.write_seen(number).unwrap_or(NONE);
            if self.last[event.target as usize] != seen || self.task.free.contains(&seen) {
                return false;
            }
        }
        if event.op.writes() {
            let own = u32::from(event.op.reads() && needed && !free);
            if self.reads[self.source(self.last[event.target as usize], event.target)] > own {
                return false;
            }
        }
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                let lock = event.target as usize;
                let exclusive = event.op == Op::Acquire;
                if self.held[lock] == NONE || (exclusive && self.held[lock] > 0) {
                    return false;
                }
                let stays = index
                    .section_of(number)
                    .is_none_or(|section| index.section(section).release_place >= self.task.cap[thread]);
                let [all, exclusives] = self.left[lock];
                let rivals = if exclusive { all - u32::from(needed) } else { exclusives };
                !(stays && rivals > 0)
            }
            Op::Release => self.held[event.target as usize] == NONE,
            Op::ReleaseShared => !matches!(self.held[event.target as usize], 0 | NONE),
            Op::Join => self.done[event.target as usize] as usize == index.thread(event.target as usize).len(),
            op if op.takes() && self.task.lifted != Some(number) => {
                let posts = index.posts_before(event.target, number);
                let known = (self.posted[event.target as usize] as usize).min(posts.len());
                posts[known..].iter().all(|&post| self.is_done(post))
            }
            _ => true,
        }
    }

    fn advance(&mut self, number: EventNo) {
        let index = &self.ideals.index;
        let event = &index.history.events[number as usize];
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        let needed = self.done[thread] < self.task.need[thread];
        self.missing -= u32::from(needed);
        self.chained += usize::from(self.task.chain.get(self.chained) == Some(&number));
        let mut overwritten = NONE;
        if event.op.reads() && needed && !self.task.free.contains(&number) {
            let source = self.source(index.write_seen(number).unwrap_or(NONE), event.target);
            self.reads[source] -= 1;
        }
        if event.op.writes() {
            overwritten = self.last[target];
            self.state ^= mix(u64::from(event.target) << 32 | u64::from(overwritten))
                ^ mix(u64::from(event.target) << 32 | u64::from(number));
            self.last[target] = number;
        }
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                self.left[target][0] -= u32::from(needed);
                self.left[target][1] -= u32::from(needed && event.op == Op::Acquire);
                self.held[target] = if event.op == Op::Acquire { NONE } else { self.held[target] + 1 };
            }
            Op::Release => self.held[target] = 0,
            Op::ReleaseShared => self.held[target] -= 1,
            op if op.takes() => {
                let known = &mut self.posted[target];
                *known = (*known).max(index.posts_before(event.target, number).len() as u32);
            }
            _ => {}
        }
        self.step_thread(thread, 1);
        self.order.push(number);
        self.overwritten.push(overwritten);
    }

    fn retreat(&mut self) {
        let (Some(number), Some(overwritten)) = (self.order.pop(), self.overwritten.pop()) else { return };
        let index = &self.ideals.index;
        let event = &index.history.events[number as usize];
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        self.step_thread(thread, -1);
        let needed = self.done[thread] < self.task.need[thread];
        self.missing += u32::from(needed);
        if self.chained > 0 && self.task.chain.get(self.chained - 1) == Some(&number) {
            self.chained -= 1;
        }
        if event.op.writes() {
            self.state ^= mix(u64::from(event.target) << 32 | u64::from(overwritten))
                ^ mix(u64::from(event.target) << 32 | u64::from(number));
            self.last[target] = overwritten;
        }
        if event.op.reads() && needed && !self.task.free.contains(&number) {
            let source = self.source(index.write_seen(number).unwrap_or(NONE), event.target);
            self.reads[source] += 1;
        }
        match event.op {
            Op::Acquire | Op::AcquireShared => {
                self.left[target][0] += u32::from(needed);
                self.left[target][1] += u32::from(needed && event.op == Op::Acquire);
                self.held[target] = if event.op == Op::Acquire { 0 } else { self.held[target] - 1 };
            }
            Op::Release => self.held[target] = NONE,
            Op::ReleaseShared => self.held[target] += 1,
            op if op.posts() => {
                let rank = index.posts_before(event.target, number).len() as u32;
                self.posted[target] = self.posted[target].min(rank);
            }
            _ => {}
        }
    }

    fn step_thread(&mut self, thread: usize, by: i32) {
        let key = |done: u32| mix(!(thread as u64) << 32 | u64::from(done));
        let done = self.done[thread];
        self.done[thread] = done.wrapping_add_signed(by);
        self.state ^= key(done) ^ key(self.done[thread]);
    }

    /// Who keeps whom waiting: holders of locks, and writes that are not all read yet.
    fn stuck(&self) -> Stuck {
        let index = &self.ideals.index;
        let mut culprits = Vec::new();
        for (thread, &done) in self.done.iter().enumerate().filter(|&(thread, &done)| done < self.task.need[thread]) {
            let event = &index.history.events[index.thread(thread)[done as usize] as usize];
            if event.op.acquires() {
                let held = (0..self.done.len()).filter(|&other| other != thread);
                let held = held.flat_map(|other| self.ideals.held_at(other, self.done[other]));
                let held = held.map(|&section| index.section(section)).filter(|section| section.lock == event.target);
                culprits.extend(held.map(|section| section.acquire));
            }
            if event.op.writes() {
                culprits.extend(Some(self.last[event.target as usize]).filter(|&write| write != NONE));
            }
        }
        culprits.sort_unstable_by(|one, other| other.cmp(one));
        culprits.dedup();
        Stuck { culprits }
    }
}

/// A number's bits, thrown about.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
