//! What was noted becomes a history: nodes become variables, and what cannot matter is left out.
//!
//! Events are rewritten where they are. What grows (an access whose bytes were cut later) waits in a queue until enough was
//! left out before it.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;
use selvedge_events::Order;

use super::cells::{BENIGN, CUT, Node, SHARED, Touch, VIEW, WRITTEN};
use super::{Imported, Importer, LeftOut, Object, Options, Sort, Variable};
use crate::history::{Event, History, Op};

/// Events in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    events: Vec<Event>,
    sources: Vec<u64>,
    indices: Vec<u32>,
}

impl Draft {
    #[inline]
    pub(super) fn push(&mut self, event: Event, ordinal: u64, index: u32) {
        self.events.push(event);
        self.sources.push(ordinal - 1);
        self.indices.push(index);
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}

/// A write that stands for the end of a block. The order, of no other meaning here, tells it from others.
pub(super) fn freed(thread: u16, node: u32, location: u32) -> Event {
    Event { order: FREED, ..Event::new(thread, Op::Write, node, location) }
}

const FREED: Order = Order::Consume;

/// Not yet numbered.
const NEW: u32 = u32::MAX;
/// Left out.
const NONE: u32 = u32::MAX - 1;
/// To be looked at: cut in two, a view, or benign.
const ODD: u32 = u32::MAX - 2;

pub(super) fn finish(importer: Importer, options: &Options) -> Imported {
    let Importer { draft, ordinal, cells, locks, objects, locations, threads, left_out, .. } = importer;
    let mut tree = Tree::of(cells.settle());
    let is_odd = |node: &Node| node.kids != 0 || node.flags & BENIGN != 0;
    let mut numbers: Vec<u32> = tree.nodes.iter().map(|node| if is_odd(node) { ODD } else { NEW }).collect();
    if numbers.contains(&ODD) {
        for event in draft.events.iter().filter(|event| event.op.is_access()) {
            if numbers[event.target as usize] == ODD {
                tree.touch(event);
            }
        }
    }
    for (number, node) in numbers.iter_mut().zip(&tree.nodes) {
        if *number == NEW && !options.keep_private && !matters(node) {
            *number = NONE;
        }
    }
    let mut all = objects.all;
    let as_objects = locks.all.iter().map(|held| {
        let addr = held.lock.addr;
        held.irregular.then(|| {
            all.push(Object { addr, sort: Sort::Lock });
            all.len() as u32 - 1
        })
    });
    let as_objects: Vec<Option<u32>> = as_objects.collect();
    let mut finish = Finish {
        numbers,
        variables: Vec::new(),
        out: Rewrite::new(draft),
        tree,
        odd: FxHashMap::default(),
        keep_private: options.keep_private,
        left_out,
    };
    finish.left_out.irregular_locks = as_objects.iter().flatten().count() as u64;
    while let Some(noted) = finish.out.next() {
        let event = noted.event;
        let state = match event.op {
            op if op.is_access() => {
                finish.access(noted);
                continue;
            }
            op if op.acquires() || op.releases() => locks.all.get(event.target as usize).map_or(0, |held| held.state),
            Op::Post | Op::Take => objects.known.get(event.target as usize).map_or(0, |known| known.state),
            _ => 0,
        };
        let state = (state != 0).then(|| {
            let event = Event { op: Op::AtomicWrite, order: Order::Relaxed, target: state, ..event };
            Noted { event, ..noted }
        });
        let event = match as_objects.get(event.target as usize).copied().flatten() {
            Some(object) if event.op.acquires() => Event { op: Op::Take, target: object, ..event },
            Some(object) if event.op.releases() => Event { op: Op::Post, target: object, ..event },
            _ => event,
        };
        let event = Noted { event, ..noted };
        // The state changes while the lock is held.
        let [first, second] = if event.event.op.takes() || event.event.op.acquires() {
            [Some(event), state]
        } else {
            [state, Some(event)]
        };
        for noted in [first, second].into_iter().flatten() {
            if noted.event.op == Op::AtomicWrite { finish.access(noted) } else { finish.out.put(noted) }
        }
    }
    let Finish { mut variables, out, mut left_out, .. } = finish;
    let mut draft = out.done();
    left_out.cut |= draft.truncate(options.most_events as usize);
    // They are numbered as they come.
    variables.truncate(variables.partition_point(|variable| (variable.first as usize) < draft.len()));
    let history = History {
        events: draft.events,
        sources: draft.sources,
        threads: threads.len() as u32,
        variables: variables.len() as u32,
        locks: locks.all.len() as u32,
        objects: all.len() as u32,
        locations: locations.len() as u32,
    };
    Imported {
        history,
        indices: draft.indices,
        threads: threads.iter().map(|thread| thread.index).collect(),
        variables,
        locks: locks.all.iter().map(|held| held.lock).collect(),
        objects: all,
        locations,
        events: ordinal,
        left_out,
    }
}

impl Draft {
    /// Cuts what is beyond `most`, whole steps only; whether there was something.
    fn truncate(&mut self, most: usize) -> bool {
        let Some(beyond) = self.sources.get(most).copied() else { return false };
        let end = self.sources.partition_point(|source| *source < beyond);
        self.events.truncate(end);
        self.sources.truncate(end);
        self.indices.truncate(end);
        true
    }
}

/// Whether several threads touch it, and one writes it.
fn matters(node: &Node) -> bool {
    node.flags & (SHARED | WRITTEN) == SHARED | WRITTEN
}

struct Finish {
    out: Rewrite,
    tree: Tree,
    /// For each node its variable, or [`NEW`], [`NONE`], [`ODD`].
    numbers: Vec<u32>,
    /// Variables of odd nodes. Only looked up.
    odd: FxHashMap<u32, u32>,
    variables: Vec<Variable>,
    keep_private: bool,
    left_out: LeftOut,
}

impl Finish {
    /// An access becomes one of every variable that it touches.
    #[inline]
    fn access(&mut self, noted: Noted) {
        let node = noted.event.target;
        let mut number = self.numbers.get(node as usize).copied().unwrap_or(NONE);
        let mut event = noted.event;
        match number {
            NONE => {
                self.left_out.private += u64::from(!is_free(&event));
                return;
            }
            ODD => {
                self.odd(noted);
                return;
            }
            _ if is_free(&event) && !matters(&self.tree.nodes[node as usize]) => return,
            NEW => number = self.variable(node),
            _ => {}
        }
        event.target = number;
        if is_free(&event) {
            event.order = Order::SeqCst;
        }
        self.out.put(Noted { event, ..noted });
    }

    /// Gives a node a number.
    fn variable(&mut self, node: u32) -> u32 {
        let number = self.variables.len() as u32;
        let Node { start: addr, len: size, .. } = self.tree.nodes[node as usize];
        self.variables.push(Variable { addr, size, first: self.out.written() as u32 });
        if self.numbers[node as usize] == ODD {
            self.odd.insert(node, number);
        } else {
            self.numbers[node as usize] = number;
        }
        number
    }

    fn odd(&mut self, noted: Noted) {
        match self.tree.below(noted.event.target) {
            Below::One(leaf) => self.leaf(noted, leaf),
            Below::Several(places) => {
                for place in places {
                    let leaf = self.tree.leaves[place];
                    self.leaf(noted, leaf);
                }
            }
        }
    }

    fn leaf(&mut self, noted: Noted, leaf: u32) {
        let node = self.tree.nodes[leaf as usize];
        let mut event = noted.event;
        let freed = is_free(&event);
        if !matters(&node) && (freed || !self.keep_private) {
            self.left_out.private += u64::from(!freed);
            return;
        }
        event.target = match self.numbers[leaf as usize] {
            ODD => self.odd.get(&leaf).copied().unwrap_or_else(|| self.variable(leaf)),
            NEW => self.variable(leaf),
            number => number,
        };
        if !event.op.is_atomic() {
            event.order = Order::SeqCst;
            if node.flags & BENIGN != 0 && !freed {
                event.order = Order::Relaxed;
                event.op = if event.op == Op::Read { Op::AtomicRead } else { Op::AtomicWrite };
            }
        }
        self.out.put(Noted { event, ..noted });
    }
}

/// Nodes, with the leaves below each.
struct Tree {
    /// Of a node that was cut, `start` and `len` say where its leaves are.
    nodes: Vec<Node>,
    /// In the order of addresses below each node.
    leaves: Vec<u32>,
}

/// The leaves that a node or view has bytes of.
enum Below {
    One(u32),
    /// Where they are in [`Tree::leaves`].
    Several(Range<usize>),
}

impl Tree {
    fn of(nodes: Vec<Node>) -> Tree {
        let mut tree = Tree { nodes, leaves: Vec::new() };
        let mut stack = Vec::new();
        for root in 0..tree.nodes.len() {
            // Parents come before their children.
            let Node { kids, flags, .. } = tree.nodes[root];
            if kids != 0 && flags & (VIEW | CUT) == 0 {
                stack.push((root, None));
            }
            while let Some((at, begin)) = stack.pop() {
                let here = tree.leaves.len();
                let node = &mut tree.nodes[at];
                if let Some(begin) = begin {
                    (node.start, node.len, node.flags) = (begin as u64, (here - begin) as u32, CUT);
                } else if node.kids != 0 {
                    let kids = node.kids as usize;
                    stack.extend([(at, Some(here)), (kids + 1, None), (kids, None)]);
                } else {
                    tree.leaves.push(at as u32);
                }
            }
        }
        tree
    }

    fn below(&self, at: u32) -> Below {
        let node = &self.nodes[at as usize];
        if node.kids == 0 {
            return Below::One(at);
        }
        let whole = if node.flags & VIEW != 0 { &self.nodes[node.kids as usize] } else { node };
        if whole.kids == 0 {
            return Below::One(node.kids);
        }
        let begin = whole.start as usize;
        let leaves = &self.leaves[begin..begin + whole.len as usize];
        if node.flags & VIEW == 0 {
            return Below::Several(begin..begin + leaves.len());
        }
        let first = leaves.partition_point(|leaf| self.nodes[*leaf as usize].end() <= node.start);
        let last = leaves.partition_point(|leaf| self.nodes[*leaf as usize].start < node.end());
        Below::Several(begin + first..begin + last)
    }

    /// Tells the leaves of a node that was cut, and of a view, who touched it.
    fn touch(&mut self, event: &Event) {
        if self.nodes[event.target as usize].kids == 0 {
            return;
        }
        let touch = Touch { thread: event.thread, mark: if event.op.writes() { WRITTEN } else { 0 } };
        match self.below(event.target) {
            Below::One(leaf) => self.nodes[leaf as usize].touch(touch),
            Below::Several(places) => {
                for leaf in &self.leaves[places] {
                    self.nodes[*leaf as usize].touch(touch);
                }
            }
        }
    }
}

fn is_free(event: &Event) -> bool {
    event.op == Op::Write && event.order == FREED
}

/// An event and where it comes from.
#[derive(Clone, Copy, Debug)]
struct Noted {
    event: Event,
    source: u64,
    index: u32,
}

/// A draft that is read and written at once.
struct Rewrite {
    draft: Draft,
    read: usize,
    write: usize,
    /// Written ahead of what was read.
    queue: VecDeque<Noted>,
}

impl Rewrite {
    fn new(draft: Draft) -> Rewrite {
        Rewrite { draft, read: 0, write: 0, queue: VecDeque::new() }
    }

    /// How many events were written.
    fn written(&self) -> usize {
        self.write + self.queue.len()
    }

    #[inline]
    fn next(&mut self) -> Option<Noted> {
        let draft = &self.draft;
        let (event, source) = (*draft.events.get(self.read)?, *draft.sources.get(self.read)?);
        let index = *draft.indices.get(self.read)?;
        self.read += 1;
        if let Some(waiting) = self.queue.pop_front() {
            self.store(waiting);
        }
        Some(Noted { event, source, index })
    }

    #[inline]
    fn put(&mut self, noted: Noted) {
        if self.write >= self.read || !self.queue.is_empty() {
            self.queue.push_back(noted);
            // Room that was left since.
            while self.write < self.read
                && let Some(waiting) = self.queue.pop_front()
            {
                self.store(waiting);
            }
            return;
        }
        self.store(noted);
    }

    #[inline]
    fn store(&mut self, noted: Noted) {
        self.draft.events[self.write] = noted.event;
        self.draft.sources[self.write] = noted.source;
        self.draft.indices[self.write] = noted.index;
        self.write += 1;
    }

    fn done(mut self) -> Draft {
        self.draft.events.truncate(self.write);
        self.draft.sources.truncate(self.write);
        self.draft.indices.truncate(self.write);
        for noted in self.queue {
            self.draft.events.push(noted.event);
            self.draft.sources.push(noted.source);
            self.draft.indices.push(noted.index);
        }
        self.draft.events.shrink_to_fit();
        self.draft.sources.shrink_to_fit();
        self.draft.indices.shrink_to_fit();
        self.draft
    }
}
