//! Circles of abstract acquisitions: each waits for what the next one's thread has.
//!
//! Short circles come first: the search is repeated with a growing length, each time with half of the steps that are
//! left, shared out among the acquisitions to begin with, so that a budget that runs out costs the long ones and not
//! the late ones. Only acquisitions on a circle of the graph of locks take part, which in most histories is none.

use std::collections::HashMap;

use crate::clocks::Hold;

use super::acquisitions::{Abstract, Node, Wanted};
use super::lock_graph::on_circles;
use super::{Options, Readers};

/// Acquisitions that could wait for each other.
#[derive(Debug, Default)]
pub(super) struct Circle {
    /// Each waits for the thread of the next, the last for that of the first.
    pub(super) nodes: Vec<Node>,
    /// Whether one is a reader that waits behind a writer.
    pub(super) queued: bool,
}

/// The search.
#[derive(Debug)]
pub(super) struct Cycles<'a> {
    nodes: &'a Abstract,
    readers: Readers,
    longest: usize,
    /// Those that can be part of a circle, ascending.
    kept: Vec<Node>,
    /// Of those, who holds a lock: by `Hold`.
    holders: Vec<Vec<Node>>,
    /// Of those, who holds one lock and wants another, by both. Only looked up.
    between: HashMap<(u32, u32), Vec<Node>>,
    /// Of those, who holds a lock and wants something else than a lock, by lock.
    others: Vec<Vec<Node>>,
    /// Of those, whose they are.
    of_thread: Vec<Vec<Node>>,
    /// Who wants a lock exclusively, by lock; also those that are on no circle.
    writers: Vec<Vec<Node>>,
    /// How many steps are left.
    steps: u64,
    /// How many of them are left for the present beginning.
    share: u64,
    was_cut: bool,
}

/// Why a search goes on or not.
#[derive(PartialEq, Eq)]
enum Search {
    GoesOn,
    OutOfSteps,
}

impl<'a> Cycles<'a> {
    pub(super) fn new(nodes: &'a Abstract, options: &Options) -> Cycles<'a> {
        let [locks, threads, _] = nodes.counts();
        let kept = on_circles(nodes);
        let mut holders = vec![Vec::new(); if kept.is_empty() { 0 } else { locks as usize * 2 }];
        let mut of_thread = vec![Vec::new(); threads as usize];
        let mut between: HashMap<(u32, u32), Vec<Node>> = HashMap::new();
        let mut others = vec![Vec::new(); holders.len() / 2];
        for &node in &kept {
            for hold in nodes.held(node) {
                holders[index(*hold)].push(node);
            }
            for lock in locks_of(nodes.held(node)) {
                match nodes.wanted(node) {
                    Wanted::Lock(wanted) => between.entry((lock, wanted.lock())).or_default().push(node),
                    _ => others[lock as usize].push(node),
                }
            }
            of_thread[usize::from(nodes.thread(node))].push(node);
        }
        let mut writers = vec![Vec::new(); holders.len() / 2];
        if options.readers == Readers::Queue && !kept.is_empty() {
            for node in nodes.all() {
                if let Wanted::Lock(hold) = nodes.wanted(node) {
                    let shared = Hold::new(hold.lock(), true);
                    if !hold.shared() && !holders[index(shared)].is_empty() {
                        writers[hold.lock() as usize].push(node);
                    }
                }
            }
        }
        let with_nodes = of_thread.iter().filter(|nodes| !nodes.is_empty()).count();
        let longest = with_nodes.min(options.longest as usize);
        let steps = options.search_steps;
        let readers = options.readers;
        Cycles {
            nodes,
            readers,
            longest,
            kept,
            holders,
            between,
            others,
            of_thread,
            writers,
            steps,
            share: 0,
            was_cut: false,
        }
    }

    /// Whether there is nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The acquisitions that circles can have, ascending.
    pub(super) fn kept(&self) -> Vec<Node> {
        let mut kept: Vec<Node> = self.kept.iter().chain(self.writers.iter().flatten()).copied().collect();
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// Whether the budget ran out.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Goes through the circles.
    pub(super) fn each(&mut self, mut found: impl FnMut(&Circle)) {
        let shortest = self.shortest();
        for length in 2..=self.longest {
            let mut reached = false;
            let mut for_length = if length == self.longest { self.steps } else { self.steps / 2 };
            for (at, &shortest) in shortest.iter().enumerate() {
                if shortest > length {
                    reached |= shortest <= self.longest;
                    continue;
                }
                let share = for_length / (self.kept.len() - at) as u64;
                self.share = share;
                let mut path = vec![self.kept[at]];
                if self.search(&mut path, length, &mut reached, &mut found) == Search::OutOfSteps {
                    self.was_cut = true;
                }
                for_length -= share - self.share;
                self.steps -= share - self.share;
            }
            if !reached {
                return;
            }
        }
    }

    /// How long a circle has to be of which a node is the first: no less than this. Takes a quarter of the steps.
    fn shortest(&mut self) -> Vec<usize> {
        let mut steps = self.steps / 4;
        let mut lengths = Vec::with_capacity(self.kept.len());
        let mut seen = vec![None; self.nodes.len()];
        for at in 0..self.kept.len() {
            let share = steps / (self.kept.len() - at) as u64;
            self.share = share;
            lengths.push(self.shortest_from(self.kept[at], &mut seen));
            steps -= share - self.share;
            self.steps -= share - self.share;
        }
        lengths
    }

    /// As above; 2 where the steps run out, more than can be where there is no circle.
    fn shortest_from(&mut self, first: Node, seen: &mut [Option<Node>]) -> usize {
        let mut reached = vec![first];
        let mut next_reached = Vec::new();
        for length in 1..=self.longest {
            for &last in &reached {
                if length > 1 && self.waits_for(last, first).is_some() {
                    return length;
                }
                for list in 0.. {
                    let Some(nodes) = self.candidates(first, last, false, list) else { break };
                    let Some(share) = self.share.checked_sub(nodes.len() as u64) else { return 2 };
                    for &next in nodes {
                        let is_new = next > first && seen[next as usize] != Some(first);
                        if is_new && self.nodes.compatible(first, next) && self.waits_for(last, next).is_some() {
                            seen[next as usize] = Some(first);
                            next_reached.push(next);
                        }
                    }
                    self.share = share;
                }
            }
            std::mem::swap(&mut reached, &mut next_reached);
            next_reached.clear();
        }
        usize::MAX
    }

    fn search(
        &mut self,
        path: &mut Vec<Node>,
        length: usize,
        reached: &mut bool,
        found: &mut impl FnMut(&Circle),
    ) -> Search {
        let (first, last) = (path[0], path[path.len() - 1]);
        if path.len() == length {
            if self.waits_for(last, first).is_some()
                && let Some(circle) = self.circle(path)
            {
                found(&circle);
            }
            return Search::GoesOn;
        }
        let closes = path.len() + 1 == length;
        *reached |= closes;
        for list in 0.. {
            let Some(count) = self.candidates(first, last, closes, list).map(<[Node]>::len) else { break };
            for at in 0..count {
                if self.share == 0 {
                    return Search::OutOfSteps;
                }
                self.share -= 1;
                let next = self.candidates(first, last, closes, list).map_or(first, |nodes| nodes[at]);
                let fits = next > first && path.iter().all(|&node| self.nodes.compatible(node, next));
                if fits && self.waits_for(last, next).is_some() {
                    path.push(next);
                    let went = self.search(path, length, reached, found);
                    path.pop();
                    if went == Search::OutOfSteps {
                        return went;
                    }
                }
            }
        }
        Search::GoesOn
    }

    /// Those whom the last one of a path could wait for, in lists; where that closes the path, few others.
    fn candidates(&self, first: Node, last: Node, closes: bool, list: usize) -> Option<&[Node]> {
        match (self.nodes.wanted(last), list) {
            (Wanted::Lock(hold), _) if closes => {
                let mut locks = locks_of(self.nodes.held(first));
                match locks.nth(list) {
                    Some(wanted) => Some(self.between.get(&(hold.lock(), wanted)).map_or(&[], Vec::as_slice)),
                    None if list == locks_of(self.nodes.held(first)).count() => {
                        Some(&self.others[hold.lock() as usize])
                    }
                    None => None,
                }
            }
            (Wanted::Lock(hold), 0) => Some(&self.holders[index(Hold::new(hold.lock(), false))]),
            (Wanted::Lock(hold), 1) if !hold.shared() || self.readers == Readers::Queue => {
                Some(&self.holders[index(Hold::new(hold.lock(), true))])
            }
            (Wanted::End(thread), 0) => Some(&self.of_thread[thread as usize]),
            (Wanted::Wake(object) | Wanted::Post(object), list) => {
                self.nodes.posters(object).nth(list).map(|(thread, _)| self.of_thread[usize::from(thread)].as_slice())
            }
            _ => None,
        }
    }

    /// Whether one waits for the thread of the other, and whether as a reader behind a writer.
    fn waits_for(&self, node: Node, other: Node) -> Option<bool> {
        let held = self.nodes.held(other);
        let thread = self.nodes.thread(other);
        match self.nodes.wanted(node) {
            Wanted::Lock(hold) if held.iter().any(|has| hold.excludes(*has)) => Some(false),
            Wanted::Lock(hold) => {
                (hold.shared() && self.readers == Readers::Queue && held.contains(&hold)).then_some(true)
            }
            Wanted::End(ends) => (ends == u32::from(thread)).then_some(false),
            Wanted::Wake(object) | Wanted::Post(object) => {
                let first = self.nodes.events(other)[0];
                self.nodes.posters(object).any(|(who, last)| who == thread && first < last).then_some(false)
            }
        }
    }

    /// The circle of a closed path, with the writers behind whom its readers wait. `None` where a shorter one is in it,
    /// or no writer.
    fn circle(&self, path: &[Node]) -> Option<Circle> {
        let mut circle = Circle::default();
        let mut writers: Vec<Node> = Vec::new();
        for (at, &node) in path.iter().enumerate() {
            let next = (at + 1) % path.len();
            let lock = matches!(self.nodes.wanted(node), Wanted::Lock(_) | Wanted::End(_));
            let shorter =
                |(other, &to): (usize, &Node)| other != at && other != next && self.waits_for(node, to) == Some(false);
            if lock && path.iter().enumerate().any(shorter) {
                return None;
            }
            circle.nodes.push(node);
            if self.waits_for(node, path[next]) == Some(true) {
                let Wanted::Lock(hold) = self.nodes.wanted(node) else { return None };
                let fits = |writer: &&Node| path.iter().chain(&writers).all(|&n| self.nodes.compatible(n, **writer));
                let writer = *self.writers[hold.lock() as usize].iter().find(fits)?;
                writers.push(writer);
                circle.nodes.push(writer);
                circle.queued = true;
            }
        }
        Some(circle)
    }
}

/// The locks of what is held, each once.
fn locks_of(held: &[Hold]) -> impl Iterator<Item = u32> {
    held.chunk_by(|one, two| one.lock() == two.lock()).map(|holds| holds[0].lock())
}

const fn index(hold: Hold) -> usize {
    hold.lock() as usize * 2 + hold.shared() as usize
}
