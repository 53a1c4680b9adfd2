//! Moves inserted locks until no order of acquisitions goes round in a circle.
//!
//! Paper: section 8. Each circle of the [`LockOrder`] that has an inserted lock is broken by *hoisting*: the lock at the end of an edge is
//! also taken before the one at its beginning, and held from there to where it is wanted; the late acquisition stays and does
//! nothing on those paths. Locks of the program are not moved. Hoisting makes new edges, so this goes round by round.
//!
//! Which edges of a circle are broken, the paper leaves to a report that we do not have. Here: those of the least
//! **cost**. A hoisted acquisition costs 4, and each node over which the lock is held for it costs 1, or 2 if exclusively; an edge
//! that several nodes make costs their sum. The sum over the edges is the least of one round, for circles of up to a dozen
//! vertices; in larger ones the cheapest vertex comes next, again and again. What one round has turned around, a later one does not turn back
//! if it can.
//!
//! Departures:
//! - **Upgrades.** Two threads that hold a lock for reading and both want it exclusively wait for each other; a circle of one lock, which
//!   the paper does not have. Every slot that may see its lock wanted more strongly is held for [`Mode::Update`] instead: readers
//!   still come in, other such slots do not. Where the wait for the readers is part of a larger circle, the lock is taken exclusively from
//!   the beginning, which is hoisting it over itself.
//! - **Locks that one node takes** have no order of their own; they get one that goes with the rest.
//! - **What cannot be broken.** A lock that is wanted after a wait cannot be had ahead, since the wait takes it away. A circle
//!   of inserted locks alone is merged into one lock then. In any other, the pairs that make the cheapest edge from an inserted lock are left
//!   unenforced, and reported. With no pairs there are no edges, so it ends.
//! - **Crowds.** Where a function would hold more pairs at a point than a thread has room for, the widest of them are left unenforced first.
//! - **Circles of many locks** are not broken: the pairs that make the most edges go, until it is smaller.
//!
//! The result has no circle with an inserted lock. Then a set of threads that wait for each other wait for locks of the program that these
//! threads hold, and the original would stand still there too: see docs/design/enforcement.md.
//!
//! Cost: a round is a placement and a flow; rounds are at most as many as orders to turn around, in practice a few.

use std::collections::{BTreeMap, BTreeSet};

use super::held::{Orders, Together};
pub use super::lock_order::{Cause, Held, LockOrder};
use super::place::{Hoist, InsertedId, Mode, Origin, Pair, Placement, Wanted, place_with};
use super::program::{FunctionId, LockId, NodeId, Program, VariableId};
use super::summaries::Summaries;

/// What one hoisted acquisition costs beside the nodes over which its lock is held.
const ACQUISITION: u64 = 4;

/// Vertices of the largest circle that is broken edge by edge. In larger ones some pairs reach over most of the program, and
/// hold their locks over most of its others: the rest is better off without them.
const LARGE: usize = 16;

/// Pairs that one function may hold at a point; a thread has room for as many slots. It also bounds what a flow carries.
const MOST_HELD: usize = 32;

/// Why a pair is not enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unenforced {
    /// No path leads from the first point to the second without another access.
    NoPath,
    /// Its lock would be part of a circle that cannot be broken.
    Circle,
    /// More would be held at a time than a thread has room for.
    Crowded,
}

/// A placement without circles.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// What is placed: the pairs that are left, with what was hoisted.
    pub wanted: Wanted,
    /// Where.
    pub placement: Placement,
    /// The placement before anything was moved.
    pub unresolved: Placement,
    /// The order of locks before.
    pub before: LockOrder,
    /// The order of locks after.
    pub after: LockOrder,
    /// Variables that have one lock because their own would deadlock.
    pub merged: Vec<Vec<VariableId>>,
    /// Pairs that are left alone, and why.
    pub unenforced: Vec<(Pair, Unenforced)>,
    /// How many rounds it took.
    pub rounds: usize,
}

/// A lock whatever its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Program(LockId),
    Inserted(InsertedId),
}

fn whole(held: Held) -> Lock {
    match held {
        Held::Program(lock) => Lock::Program(lock),
        Held::Inserted(lock, _) => Lock::Inserted(lock),
    }
}

/// Places pairs and resolves circles.
pub fn resolve(program: &Program, pairs: Vec<Pair>) -> Resolved {
    let summaries = Summaries::new(program);
    let mut wanted = Wanted::new(pairs);
    let unresolved = place_with(program, &summaries, &wanted);
    let mut unenforced: Vec<_> = unresolved.impossible.iter().map(|pair| (*pair, Unenforced::NoPath)).collect();
    wanted.retain(|pair| !unresolved.impossible.contains(pair));
    let crowded = crowded(&unresolved);
    unenforced.extend(crowded.iter().map(|pair| (*pair, Unenforced::Crowded)));
    wanted.retain(|pair| !crowded.contains(pair));
    let mut resolver = Resolver::new(program, &summaries, wanted);
    let mut look = resolver.look();
    let before = look.graph.clone();
    let mut rounds = 1;
    while resolver.improve(&look) {
        look = resolver.look();
        rounds += 1;
    }
    let Look { placement, graph: after, .. } = look;
    unenforced.extend(resolver.dropped.iter().map(|pair| (*pair, Unenforced::Circle)));
    let mut locks: BTreeMap<InsertedId, Vec<VariableId>> = BTreeMap::new();
    for (variable, lock) in &resolver.wanted.lock_of {
        locks.entry(*lock).or_default().push(*variable);
    }
    let merged = locks.into_values().filter(|variables| variables.len() > 1).collect();
    Resolved { wanted: resolver.wanted, placement, unresolved, before, after, merged, unenforced, rounds }
}

/// Where a function would hold too many, the widest go.
fn crowded(placement: &Placement) -> BTreeSet<Pair> {
    let mut gone = BTreeSet::new();
    for placed in &placement.functions {
        let mut held: Vec<BTreeSet<Pair>> = (0..placed.before.len() as u32)
            .map(|node| placed.constraints_at(NodeId(node)).filter_map(|constraint| constraint.pair).collect())
            .collect();
        let mut widths: BTreeMap<Pair, usize> = BTreeMap::new();
        for pair in held.iter().flatten() {
            *widths.entry(*pair).or_default() += 1;
        }
        while let Some(most) = held.iter().max_by_key(|pairs| pairs.len()).filter(|pairs| pairs.len() > MOST_HELD) {
            let Some(widest) = most.iter().copied().max_by_key(|pair| widths.get(pair)) else { break };
            gone.insert(widest);
            held.iter_mut().for_each(|pairs| {
                pairs.remove(&widest);
            });
        }
    }
    gone
}

struct Resolver<'a> {
    program: &'a Program,
    summaries: &'a Summaries,
    wanted: Wanted,
    dropped: BTreeSet<Pair>,
    /// Which lock comes before which, as far as that was decided: such an order is not turned around again.
    decided: BTreeSet<(Lock, Lock)>,
    /// Locks whose readers count as in each other's way.
    strict: BTreeSet<InsertedId>,
    /// Hoists that are not to be tried again.
    banned: BTreeSet<(FunctionId, InsertedId, NodeId, NodeId)>,
}

/// What there is in a round.
struct Look {
    placement: Placement,
    orders: Orders,
    /// The order of locks, with that of locks that one node takes.
    graph: LockOrder,
}

impl<'a> Resolver<'a> {
    fn new(program: &'a Program, summaries: &'a Summaries, wanted: Wanted) -> Resolver<'a> {
        Resolver {
            program,
            summaries,
            wanted,
            dropped: BTreeSet::new(),
            decided: BTreeSet::new(),
            strict: BTreeSet::new(),
            banned: BTreeSet::new(),
        }
    }

    /// The placement as it is wanted now, and the order of locks in it. Gives locks that one node takes their order.
    fn look(&mut self) -> Look {
        let mut placement = place_with(self.program, self.summaries, &self.wanted);
        let mut orders = Orders::new(self.program, self.summaries, &placement);
        orders.graph.strict.clone_from(&self.strict);
        let rank = orders.graph.rank();
        let mut graph = orders.graph.clone();
        for Together { function, node, taken } in &mut orders.together {
            taken.sort_by_key(|(held, _)| {
                held.inserted().map(|lock| (rank.get(&lock).copied().unwrap_or(u32::MAX), lock))
            });
            for (number, (held, origin)) in taken.iter().enumerate() {
                for (later, _) in taken.iter().skip(number + 1).filter(|(later, _)| later.inserted() != held.inserted())
                {
                    let (function, taken_at, wanted_at, slot) = (*function, *node, *node, Some(*origin));
                    graph.add(*held, *later, Cause { function, taken_at, slot, wanted_at, hoistable: false });
                }
            }
        }
        if self.wanted.rank != rank {
            self.wanted.rank = rank;
            placement = place_with(self.program, self.summaries, &self.wanted);
        }
        Look { placement, orders, graph }
    }

    /// One round; says whether something was changed.
    fn improve(&mut self, Look { placement, orders, graph }: &Look) -> bool {
        let known = self.wanted.updates.len();
        self.wanted.updates.extend(&orders.upgrades);
        if known != self.wanted.updates.len() {
            return true;
        }
        let circles = orders.graph.circles();
        let large: Vec<_> = circles.iter().filter(|circle| circle.len() > LARGE).collect();
        if !large.is_empty() {
            large.into_iter().for_each(|circle| self.thin(placement, &orders.graph, circle));
            return true;
        }
        for circle in &circles {
            let cost = |held, wanted| self.cost(placement, orders, held, wanted);
            let decided = |held, wanted| self.decided.contains(&(whole(held), whole(wanted)));
            let kept = |held, wanted| cost(held, wanted).filter(|_| !decided(held, wanted));
            let broken = orders.graph.cheapest_break(circle, kept);
            match broken.or_else(|| orders.graph.cheapest_break(circle, cost)) {
                Some(edges) => edges.into_iter().for_each(|(held, wanted)| self.hoist(placement, orders, held, wanted)),
                None => self.give_up(placement, &orders.graph, circle),
            }
        }
        if !circles.is_empty() {
            return true;
        }
        // What one node takes goes round with the rest. That is so only where read locks have no order; they get one.
        let circles = graph.circles();
        for circle in &circles {
            let known = self.strict.len();
            self.strict.extend(circle.iter().filter_map(|held| held.inserted()));
            if known == self.strict.len() {
                self.give_up(placement, graph, circle);
            }
        }
        !circles.is_empty()
    }

    /// What it costs to have the wanted lock ahead of the held one, wherever it is wanted under it; nothing if that cannot be.
    fn cost(&self, placement: &Placement, orders: &Orders, held: Held, wanted: Held) -> Option<u64> {
        let Held::Inserted(lock, mode) = wanted else { return None };
        let causes =
            orders.graph.edges.get(&(held, wanted)).filter(|_| !orders.graph.many.contains(&(held, wanted)))?;
        let weight = if mode == Mode::Exclusive { 2 } else { 1 };
        let one = |cause: &Cause| {
            let region = orders.region(self.program, placement, held, cause);
            let Cause { function, taken_at, wanted_at, hoistable, .. } = *cause;
            // A wait would take it away, and leave the program's lock.
            let waits = |node: &NodeId| *node != wanted_at && self.summaries.revoking(self.program, function, *node);
            let lost = held.inserted().is_none() && region.iter().any(waits);
            let tried = self.wanted.hoists.get(&(function, lock, wanted_at)).is_some_and(|hoist| {
                hoist.mode >= mode && hoist.heads.contains(&taken_at) && hoist.nodes.is_superset(&region)
            });
            let banned = self.banned.contains(&(function, lock, wanted_at, taken_at));
            let possible = hoistable && !lost && !tried && !banned;
            possible.then(|| ACQUISITION + weight * region.len() as u64)
        };
        causes.iter().map(one).sum()
    }

    /// Has the wanted lock taken ahead of the held one.
    fn hoist(&mut self, placement: &Placement, orders: &Orders, held: Held, wanted: Held) {
        let Held::Inserted(lock, mode) = wanted else { return };
        if whole(held) != whole(wanted) {
            self.decided.remove(&(whole(held), whole(wanted)));
            self.decided.insert((whole(wanted), whole(held)));
        }
        for cause in orders.graph.edges.get(&(held, wanted)).into_iter().flatten() {
            let key = (cause.function, lock, cause.wanted_at);
            let nothing = || Hoist { mode, heads: BTreeSet::new(), nodes: BTreeSet::new() };
            let hoist = self.wanted.hoists.entry(key).or_insert_with(nothing);
            hoist.mode = hoist.mode.max(mode);
            hoist.heads.insert(cause.taken_at);
            hoist.nodes.extend(orders.region(self.program, placement, held, cause));
        }
    }

    /// A circle that hoisting cannot break: its locks become one, or pairs go.
    fn give_up(&mut self, placement: &Placement, graph: &LockOrder, circle: &[Held]) {
        let locks: BTreeSet<InsertedId> = circle.iter().filter_map(|held| held.inserted()).collect();
        if circle.iter().all(|held| held.inserted().is_some()) && locks.len() > 1 {
            return self.merge(&locks);
        }
        let inside = graph.inside(circle);
        let from_inserted = inside.iter().filter(|(held, _)| held.inserted().is_some());
        let makers = from_inserted.map(|edge| self.makers(placement, graph, edge)).filter(|makers| !makers.is_empty());
        let least = makers.min_by_key(|makers| makers.pairs.len() * 1000 + makers.hoists.len());
        match least {
            Some(makers) => {
                for (key, heads) in makers.hoists {
                    if let Some(hoist) = self.wanted.hoists.remove(&key) {
                        let all = heads.iter().chain(&hoist.heads);
                        self.banned.extend(all.map(|head| (key.0, key.1, key.2, *head)));
                    }
                }
                self.drop_pairs(|pair| makers.pairs.contains(pair));
            }
            None => {
                let lock_of = self.wanted.lock_of.clone();
                let first = locks.first().copied();
                self.drop_pairs(|pair| lock_of.get(&pair.variable).copied() == first);
            }
        }
    }

    /// A circle of many locks: the pairs that make the most of its edges go.
    fn thin(&mut self, placement: &Placement, graph: &LockOrder, circle: &[Held]) {
        let inside = graph.inside(circle);
        let mut edges: BTreeMap<Pair, usize> = BTreeMap::new();
        for edge in inside.iter().filter(|(held, _)| held.inserted().is_some()) {
            for pair in self.makers(placement, graph, edge).pairs {
                *edges.entry(pair).or_default() += 1;
            }
        }
        match edges.values().max() {
            Some(most) => self.drop_pairs(|pair| edges.get(pair).is_some_and(|count| count * 4 > most * 3)),
            None => self.give_up(placement, graph, circle),
        }
    }

    fn merge(&mut self, locks: &BTreeSet<InsertedId>) {
        let Some(&least) = locks.first() else { return };
        for lock in self.wanted.lock_of.values_mut().filter(|lock| locks.contains(lock)) {
            *lock = least;
        }
        self.banned.retain(|(_, lock, ..)| !locks.contains(lock));
        self.begin_again();
    }

    /// What was moved for locks that are not there any more would stay moved.
    fn begin_again(&mut self) {
        self.wanted.hoists.clear();
        self.wanted.updates.clear();
        self.decided.clear();
    }

    fn drop_pairs(&mut self, mut goes: impl FnMut(&Pair) -> bool) {
        self.dropped.extend(self.wanted.pairs.iter().copied().filter(|pair| goes(pair)));
        let count = self.wanted.pairs.len();
        let dropped = &self.dropped;
        self.wanted.retain(|pair| !dropped.contains(pair));
        if count != self.wanted.pairs.len() {
            self.begin_again();
        }
    }

    /// The pairs and hoists that hold the lock where an edge begins.
    fn makers(&self, placement: &Placement, graph: &LockOrder, edge: &(Held, Held)) -> Makers {
        let mut makers = Makers::default();
        for cause in graph.edges.get(edge).into_iter().flatten() {
            let placed = &placement.functions[cause.function.ix()];
            for constraint in placed.constraints_at(cause.wanted_at) {
                let slot = placed.slots[constraint.slot.0 as usize];
                if Some(slot.origin) != cause.slot {
                    continue;
                }
                makers.pairs.extend(constraint.pair);
                if let Origin::Hoist(lock, tail) = slot.origin {
                    makers.hoists.entry((cause.function, lock, tail)).or_default().insert(cause.taken_at);
                }
            }
        }
        makers
    }
}

#[derive(Default)]
struct Makers {
    pairs: BTreeSet<Pair>,
    hoists: BTreeMap<(FunctionId, InsertedId, NodeId), BTreeSet<NodeId>>,
}

impl Makers {
    fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.hoists.is_empty()
    }
}
