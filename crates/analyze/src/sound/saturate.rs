//! Orders that every arrangement of the needed events must keep, derived from one another until nothing is new.
//!
//! As in M2 (Pavlogiannis: Fast, sound and effectively complete dynamic race prediction, POPL 2020, section 3) and
//! SeqCheck (FSE 2021): where a write must come before a read that does not see it, it must come before the write that
//! the read sees; where it must come after that write, it must come after the read; and where a section must begin
//! before another of its lock ends, it must end before the other begins. Where an event would have to come before
//! itself, there is no arrangement.
//!
//! Departures: only what comes after a given event of the history is ordered, the rest has happened; locks in
//! shared mode; and the order is only advice for the search, so it may stop half-way.

use std::collections::BTreeMap;

use super::ideals::Ideals;
use super::index::{NONE, Section};
use super::needs::{Task, excludes};
use crate::history::{EventNo, Op};

/// With more events than this the work is too much.
pub(crate) const MOST_EVENTS: usize = 3000;
const MOST_ROUNDS: usize = 40;

/// For each event how much of each thread must come before it.
#[derive(Debug)]
pub(crate) struct Before {
    width: usize,
    /// For each thread how many of its events have happened, and the node of the next.
    happened: Vec<u32>,
    starts: Vec<usize>,
    /// For each node its event, and for each thread the length of what must come before.
    events: Vec<EventNo>,
    rows: Vec<u32>,
    /// For each node what must come right before it, besides its thread.
    edges: Vec<Vec<usize>>,
}

/// An event would have to come before itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycle;

/// What threads do to one variable or lock: for each thread the nodes, in its order.
type ByThread = BTreeMap<u16, Vec<usize>>;

impl Before {
    /// Orders the needed events from `since` on; they should be no more than [`MOST_EVENTS`].
    pub(crate) fn new(ideals: &Ideals<'_>, task: &Task, since: EventNo) -> Result<Before, Cycle> {
        let index = &ideals.index;
        let width = task.need.len();
        let mut before = Before {
            width,
            happened: Vec::new(),
            starts: Vec::new(),
            events: Vec::new(),
            rows: Vec::new(),
            edges: Vec::new(),
        };
        for (thread, &need) in task.need.iter().enumerate() {
            let events = &index.thread(thread)[..need as usize];
            let happened = events.partition_point(|&number| number < since);
            before.happened.push(happened as u32);
            before.starts.push(before.events.len());
            before.events.extend_from_slice(&events[happened..]);
        }
        before.rows = vec![0; before.events.len() * width];
        before.edges = vec![Vec::new(); before.events.len()];
        let mut writes: BTreeMap<u32, ByThread> = BTreeMap::new();
        let mut sections: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for node in 0..before.events.len() {
            let event = &index.history.events[before.events[node] as usize];
            if event.op.writes() {
                writes.entry(event.target).or_default().entry(event.thread).or_default().push(node);
            }
            if let Some(section) =
                index.section_of(before.events[node]).filter(|_| event.op.acquires() || event.op.releases())
            {
                let sections = sections.entry(event.target).or_default();
                if !sections.contains(&section) {
                    sections.push(section);
                }
            }
        }
        before.given(ideals, task, &writes);
        before.open_sections(ideals, task, &sections);
        before.saturate(ideals, task, &writes, &sections)?;
        Ok(before)
    }

    /// Whether all that must come before an event is done.
    pub(crate) fn allows(&self, number: EventNo, thread: usize, done: &[u32]) -> bool {
        let Some(after) = done[thread].checked_sub(self.happened[thread]) else { return true };
        let node = self.starts[thread] + after as usize;
        if self.events.get(node) != Some(&number) {
            return true;
        }
        self.rows[node * self.width..][..self.width].iter().zip(done).all(|(must, done)| must <= done)
    }

    /// The node of a needed event that has not happened.
    fn node(&self, ideals: &Ideals<'_>, number: EventNo) -> Option<usize> {
        let thread = ideals.index.thread_of(number);
        let after = ideals.index.place(number).checked_sub(self.happened[thread])? as usize;
        Some(self.starts[thread] + after).filter(|&node| self.events.get(node) == Some(&number))
    }

    /// Whether one node is known to come before another.
    fn knows(&self, ideals: &Ideals<'_>, first: usize, second: usize) -> bool {
        let number = self.events[first];
        ideals.index.place(number) < self.rows[second * self.width + ideals.index.thread_of(number)]
    }

    fn add(&mut self, ideals: &Ideals<'_>, first: usize, second: usize) -> bool {
        if first == second || self.knows(ideals, first, second) || self.edges[second].contains(&first) {
            return first == second && {
                self.edges[second].push(first);
                true
            };
        }
        self.edges[second].push(first);
        true
    }

    /// What reads, forks, joins, posts and the goal itself order.
    fn given(&mut self, ideals: &Ideals<'_>, task: &Task, writes: &BTreeMap<u32, ByThread>) {
        let index = &ideals.index;
        for node in 0..self.events.len() {
            let number = self.events[node];
            let event = &index.history.events[number as usize];
            let mut first = Vec::new();
            if index.place(number) == 0 {
                first.extend(index.fork(usize::from(event.thread)));
            }
            if event.op.reads() && !task.free.contains(&number) {
                let write = index.write_seen(number);
                first.extend(write);
                if write.is_none_or(|write| self.node(ideals, write).is_none()) {
                    // It sees what was there: all writes come later.
                    for writes in writes.get(&event.target).into_iter().flat_map(BTreeMap::values) {
                        if let Some(&write) = writes.first().filter(|&&write| write != node) {
                            self.add(ideals, node, write);
                        }
                    }
                }
            }
            if event.op == Op::Join {
                first.extend(index.thread(event.target as usize).last());
            }
            if event.op.takes() && task.lifted != Some(number) {
                first.extend(index.posts_before(event.target, number));
            }
            for other in first {
                if let Some(other) = self.node(ideals, other) {
                    self.add(ideals, other, node);
                }
            }
        }
        for pair in task.chain.windows(2) {
            if let (Some(first), Some(second)) = (self.node(ideals, pair[0]), self.node(ideals, pair[1])) {
                self.add(ideals, first, second);
            }
        }
    }

    /// A section that is not ended comes after all that it excludes; one that is under way, before.
    fn open_sections(&mut self, ideals: &Ideals<'_>, task: &Task, sections: &BTreeMap<u32, Vec<u32>>) {
        let index = &ideals.index;
        let held = (0..self.width).flat_map(|thread| ideals.held_at(thread, self.happened[thread]));
        let under_way: Vec<&Section> = held.map(|&section| index.section(section)).collect();
        for sections in sections.values() {
            for one in sections.iter().map(|&section| index.section(section)) {
                let Some(acquire) = self.node(ideals, one.acquire) else { continue };
                let stays = one.release == NONE || !task.needs(ideals, one.release);
                let others =
                    sections.iter().map(|&section| index.section(section)).filter(|other| excludes(one, other));
                for other in
                    others.filter(|_| stays).chain(under_way.iter().copied().filter(|other| excludes(one, other)))
                {
                    if let Some(release) = Some(other.release).filter(|&release| release != NONE)
                        && let Some(release) = self.node(ideals, release)
                    {
                        self.add(ideals, release, acquire);
                    }
                }
            }
        }
    }

    fn saturate(
        &mut self,
        ideals: &Ideals<'_>,
        task: &Task,
        writes: &BTreeMap<u32, ByThread>,
        sections: &BTreeMap<u32, Vec<u32>>,
    ) -> Result<(), Cycle> {
        self.propagate(ideals)?;
        for _ in 0..MOST_ROUNDS {
            let derived = self.derive_accesses(ideals, task, writes) | self.derive_sections(ideals, sections);
            if !derived {
                break;
            }
            self.propagate(ideals)?;
        }
        Ok(())
    }

    /// Brings the rows up to date with the edges.
    fn propagate(&mut self, ideals: &Ideals<'_>) -> Result<(), Cycle> {
        let mut by_number: Vec<usize> = (0..self.events.len()).collect();
        by_number.sort_unstable_by_key(|&node| self.events[node]);
        let mut changed = true;
        while changed {
            changed = false;
            for &node in &by_number {
                let number = self.events[node];
                let thread = ideals.index.thread_of(number);
                let earlier = (node > self.starts[thread]).then(|| node - 1);
                for at in 0..self.edges[node].len() + 1 {
                    let Some(other) = (if at == 0 { earlier } else { Some(self.edges[node][at - 1]) }) else {
                        continue;
                    };
                    let first = self.events[other];
                    for column in 0..self.width {
                        let mut must = self.rows[other * self.width + column];
                        if column == ideals.index.thread_of(first) {
                            must = must.max(ideals.index.place(first) + 1);
                        }
                        let own = &mut self.rows[node * self.width + column];
                        if must > *own {
                            *own = must;
                            changed = true;
                        }
                    }
                }
                if self.rows[node * self.width + thread] > ideals.index.place(number) {
                    return Err(Cycle);
                }
            }
        }
        Ok(())
    }

    /// The last of a thread's nodes that must come before another.
    fn last_before(&self, ideals: &Ideals<'_>, nodes: &[usize], node: usize) -> Option<usize> {
        let count = nodes.partition_point(|&other| other != node && self.knows(ideals, other, node));
        count.checked_sub(1).map(|at| nodes[at])
    }

    fn derive_accesses(&mut self, ideals: &Ideals<'_>, task: &Task, writes: &BTreeMap<u32, ByThread>) -> bool {
        let index = &ideals.index;
        let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut derived = false;
        for node in 0..self.events.len() {
            let number = self.events[node];
            let event = &index.history.events[number as usize];
            if !event.op.reads() || task.free.contains(&number) {
                continue;
            }
            let Some(write) = index.write_seen(number).and_then(|write| self.node(ideals, write)) else { continue };
            readers.entry(write).or_default().push(node);
            for writes in writes.get(&event.target).into_iter().flat_map(BTreeMap::values) {
                if let Some(other) = self.last_before(ideals, writes, node).filter(|&other| other != write) {
                    derived |= self.add(ideals, other, write);
                }
            }
        }
        for writes in writes.values() {
            for &node in writes.values().flatten() {
                for others in writes.values() {
                    let Some(write) = self.last_before(ideals, others, node) else { continue };
                    for &reader in readers.get(&write).into_iter().flatten().filter(|&&reader| reader != node) {
                        derived |= self.add(ideals, reader, node);
                    }
                }
            }
        }
        derived
    }

    fn derive_sections(&mut self, ideals: &Ideals<'_>, sections: &BTreeMap<u32, Vec<u32>>) -> bool {
        let index = &ideals.index;
        let mut derived = false;
        for sections in sections.values() {
            let nodes: Vec<(&Section, Option<usize>, Option<usize>)> = sections
                .iter()
                .map(|&section| index.section(section))
                .map(|section| {
                    let release = Some(section.release).filter(|&release| release != NONE);
                    (
                        section,
                        self.node(ideals, section.acquire),
                        release.and_then(|release| self.node(ideals, release)),
                    )
                })
                .collect();
            for &(one, _, release) in &nodes {
                let Some(release) = release else { continue };
                for &(other, other_acquire, _) in &nodes {
                    let Some(other_acquire) = other_acquire else { continue };
                    // The release of one comes after the acquisition of the other's own section only if it is later.
                    if excludes(one, other) && self.knows(ideals, other_acquire, release) {
                        let (Some(other_release), Some(acquire)) =
                            (self.release(ideals, other), self.node(ideals, one.acquire))
                        else {
                            continue;
                        };
                        derived |= self.add(ideals, other_release, acquire);
                    }
                }
            }
        }
        derived
    }

    fn release(&self, ideals: &Ideals<'_>, section: &Section) -> Option<usize> {
        Some(section.release).filter(|&release| release != NONE).and_then(|release| self.node(ideals, release))
    }
}
