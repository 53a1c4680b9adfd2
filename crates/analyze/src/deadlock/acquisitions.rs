//! What threads wait for, and what they hold meanwhile: abstract acquisitions.

use std::collections::HashMap;

use crate::clocks::Hold;
use crate::history::{EventNo, History, Op};

/// The number of an abstract acquisition.
pub(super) type Node = u32;

/// What an event waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wanted {
    /// A lock.
    Lock(Hold),
    /// The end of a thread.
    End(u32),
    /// A wake-up of a condition.
    Wake(u32),
    /// A post to an object.
    Post(u32),
}

/// One abstract acquisition.
#[derive(Clone, Copy, Debug)]
struct Request {
    thread: u16,
    wanted: Wanted,
    held: u32,
    location: u32,
}

/// All abstract acquisitions of a history, with their events.
///
/// Waits for other things than locks are among them only where locks are held.
#[derive(Debug)]
pub(super) struct Abstract {
    requests: Vec<Request>,
    /// Where each request's events begin in `events`; one more than there are requests.
    starts: Vec<u32>,
    /// Ascending for each request.
    events: Vec<EventNo>,
    sets: HeldSets,
    /// The last post or wake-up by (object, thread), in that order.
    last_posts: Vec<(u32, u16, EventNo)>,
    locks: u32,
    threads: u32,
    objects: u32,
}

impl Abstract {
    /// Collects them in one pass.
    pub(super) fn collect(history: &History) -> Abstract {
        let mut sets = HeldSets::new();
        let mut held = vec![HeldSets::EMPTY; history.threads as usize];
        let mut numbers: HashMap<(u16, Wanted, u32, u32), Node> = HashMap::new();
        let mut requests = Vec::new();
        let mut uses: Vec<(Node, EventNo)> = Vec::new();
        let mut posts: HashMap<(u32, u16), EventNo> = HashMap::new();
        for (number, event) in (0..).zip(&history.events) {
            let set = &mut held[usize::from(event.thread)];
            let wanted = match event.op {
                Op::Acquire | Op::AcquireShared => Wanted::Lock(Hold::of(event.op, event.target)),
                Op::Release | Op::ReleaseShared => {
                    *set = sets.change(*set, Hold::of(event.op, event.target), false);
                    continue;
                }
                Op::Join if *set != HeldSets::EMPTY => Wanted::End(event.target),
                Op::Woken if *set != HeldSets::EMPTY => Wanted::Wake(event.target),
                Op::Take if *set != HeldSets::EMPTY => Wanted::Post(event.target),
                Op::Signal | Op::Broadcast | Op::Post => {
                    posts.insert((event.target, event.thread), number);
                    continue;
                }
                _ => continue,
            };
            let node = *numbers.entry((event.thread, wanted, *set, event.location)).or_insert_with(|| {
                requests.push(Request { thread: event.thread, wanted, held: *set, location: event.location });
                requests.len() as Node - 1
            });
            uses.push((node, number));
            if let Wanted::Lock(hold) = wanted {
                *set = sets.change(*set, hold, true);
            }
        }
        let mut last_posts: Vec<_> =
            posts.into_iter().map(|((object, thread), event)| (object, thread, event)).collect();
        last_posts.sort_unstable();
        let (starts, events) = grouped(requests.len(), &uses);
        let (locks, threads, objects) = (history.locks, history.threads, history.objects);
        Abstract { requests, starts, events, sets, last_posts, locks, threads, objects }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = Node> + use<> {
        0..self.requests.len() as Node
    }

    /// How many locks, threads and objects the history has.
    pub(super) fn counts(&self) -> [u32; 3] {
        [self.locks, self.threads, self.objects]
    }

    /// Whose it is.
    pub(super) fn thread(&self, node: Node) -> u16 {
        self.requests[node as usize].thread
    }

    /// What it waits for.
    pub(super) fn wanted(&self, node: Node) -> Wanted {
        self.requests[node as usize].wanted
    }

    /// Where it is in the source.
    pub(super) fn location(&self, node: Node) -> u32 {
        self.requests[node as usize].location
    }

    /// What is held meanwhile, ascending.
    pub(super) fn held(&self, node: Node) -> &[Hold] {
        self.sets.holds(self.requests[node as usize].held)
    }

    /// Its events, ascending; at least one.
    pub(super) fn events(&self, node: Node) -> &[EventNo] {
        &self.events[self.range(node)]
    }

    /// Where its events are among those of all.
    pub(super) fn range(&self, node: Node) -> std::ops::Range<usize> {
        let node = node as usize;
        self.starts[node] as usize..self.starts[node + 1] as usize
    }

    /// Who posts to an object or wakes its waiters, and the last event that does.
    pub(super) fn posters(&self, object: u32) -> impl Iterator<Item = (u16, EventNo)> {
        let first = self.last_posts.partition_point(|post| post.0 < object);
        self.last_posts[first..].iter().take_while(move |post| post.0 == object).map(|post| (post.1, post.2))
    }

    /// Whether it wants exclusively what it holds in shared mode.
    pub(super) fn is_upgrade(&self, node: Node) -> bool {
        matches!(self.wanted(node), Wanted::Lock(hold) if self.held(node).contains(&Hold::new(hold.lock(), true)))
    }

    /// Whether the two can be under way at once: different threads, and no lock that both hold keeps them apart.
    pub(super) fn compatible(&self, one: Node, two: Node) -> bool {
        self.thread(one) != self.thread(two) && {
            let two = self.held(two);
            !self.held(one).iter().any(|hold| two.iter().any(|other| hold.excludes(*other)))
        }
    }
}

/// The events of each node, in the order given.
fn grouped(nodes: usize, uses: &[(Node, EventNo)]) -> (Vec<u32>, Vec<EventNo>) {
    let mut starts = vec![0u32; nodes + 1];
    for (node, _) in uses {
        starts[*node as usize + 1] += 1;
    }
    for i in 0..nodes {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut events = vec![0; uses.len()];
    for (node, event) in uses {
        events[next[*node as usize] as usize] = *event;
        next[*node as usize] += 1;
    }
    (starts, events)
}

/// Sets of held locks, each with a number.
#[derive(Debug)]
struct HeldSets {
    sets: Vec<Vec<Hold>>,
    numbers: HashMap<Vec<Hold>, u32>,
    /// By set, hold and whether it is added: the set that it makes.
    changes: HashMap<(u32, Hold, bool), u32>,
}

impl HeldSets {
    const EMPTY: u32 = 0;

    fn new() -> HeldSets {
        HeldSets { sets: vec![Vec::new()], numbers: HashMap::from([(Vec::new(), 0)]), changes: HashMap::new() }
    }

    fn holds(&self, set: u32) -> &[Hold] {
        &self.sets[set as usize]
    }

    fn change(&mut self, set: u32, hold: Hold, add: bool) -> u32 {
        if let Some(changed) = self.changes.get(&(set, hold, add)) {
            return *changed;
        }
        let mut holds = self.sets[set as usize].clone();
        match (holds.binary_search(&hold), add) {
            (Err(at), true) => holds.insert(at, hold),
            (Ok(at), false) => drop(holds.remove(at)),
            _ => {}
        }
        let sets = &mut self.sets;
        let changed = *self.numbers.entry(holds).or_insert_with_key(|holds| {
            sets.push(holds.clone());
            sets.len() as u32 - 1
        });
        self.changes.insert((set, hold, add), changed);
        changed
    }
}
