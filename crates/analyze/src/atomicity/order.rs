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
//! - **Large circles** are not broken edge by edge at first: pairs go one by one until none is large, see `Resolver::thin`.
//!
//! Cost: a round places and follows the functions that the last one changed, and puts the graph together; rounds are at most as many as orders to turn
//! around and pairs to leave out. It is bounded: past so much work no lock is moved any more, and pairs go until no circle is left.

use std::collections::{BTreeMap, BTreeSet};

use super::held::{Orders, Together};
pub use super::lock_order::{Cause, Held, LockOrder};
use super::place::{Hoist, InsertedId, Mode, Origin, Pair, Placement, Placer, Wanted};
use super::program::{FunctionId, LockId, NodeId, Program, VariableId};
use super::summaries::Summaries;

/// What one hoisted acquisition costs beside the nodes over which its lock is held.
const ACQUISITION: u64 = 4;

/// Vertices of the largest circle that is broken edge by edge. In larger ones some pairs reach over most of the program, and
/// hold their locks over most of its others: the rest is better off without them.
const LARGE: usize = 16;

/// Pairs that one function may hold at a point; a thread has room for as many slots. It also bounds what a flow carries.
const MOST_HELD: usize = 32;

/// Work that resolving may cost, unless asked otherwise: steps of flows. Four hundred million took minutes and
/// gigabytes in memcached.
pub const DEFAULT_WORK: u64 = 60_000_000;

/// Why a pair is not enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unenforced {
    /// No path leads from the first point to the second without another access.
    NoPath,
    /// Its lock would be part of a circle that cannot be broken.
    Circle,
    /// More would be held at a time than a thread has room for.
    Crowded,
    /// Its lock is part of a circle, and there was no time left to see whether that can be broken otherwise.
    Work,
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
    resolve_with(program, pairs, &[], DEFAULT_WORK)
}

/// The same with variables that share a lock because they belong together, and with so much work at most.
pub fn resolve_with(program: &Program, pairs: Vec<Pair>, together: &[Vec<VariableId>], most: u64) -> Resolved {
    let summaries = Summaries::new(program);
    let mut wanted = Wanted::new(pairs);
    for variables in together {
        let locks: BTreeSet<InsertedId> = variables.iter().filter_map(|one| wanted.lock_of.get(one).copied()).collect();
        let Some(&least) = locks.first() else { continue };
        wanted.lock_of.values_mut().filter(|lock| locks.contains(lock)).for_each(|lock| *lock = least);
    }
    let mut resolver = Resolver::new(program, &summaries, most);
    let unresolved = resolver.placer.place(&wanted);
    let mut unenforced: Vec<_> = unresolved.impossible.iter().map(|pair| (*pair, Unenforced::NoPath)).collect();
    wanted.retain(|pair| !unresolved.impossible.contains(pair));
    let crowded = crowded(&unresolved);
    unenforced.extend(crowded.iter().map(|pair| (*pair, Unenforced::Crowded)));
    wanted.retain(|pair| !crowded.contains(pair));
    resolver.wanted = wanted;
    let mut look = resolver.look(None);
    let before = look.graph.clone();
    let mut rounds = 1;
    while resolver.improve(&look) {
        look = resolver.look(Some(look.orders));
        rounds += 1;
    }
    let Look { placement, graph: after, .. } = look;
    unenforced.extend(resolver.dropped.iter().map(|(pair, why)| (*pair, *why)));
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
    placer: Placer<'a>,
    wanted: Wanted,
    dropped: BTreeMap<Pair, Unenforced>,
    /// Steps that orders took, and how many all may take.
    work: u64,
    most: u64,
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
    fn new(program: &'a Program, summaries: &'a Summaries, most: u64) -> Resolver<'a> {
        Resolver {
            program,
            summaries,
            placer: Placer::new(program, summaries),
            wanted: Wanted::default(),
            dropped: BTreeMap::new(),
            work: 0,
            most,
            decided: BTreeSet::new(),
            strict: BTreeSet::new(),
            banned: BTreeSet::new(),
        }
    }

    /// The placement as it is wanted now, and the order of locks in it. Gives locks that one node takes their order.
    fn look(&mut self, before: Option<Orders>) -> Look {
        let mut placement = self.placer.place(&self.wanted);
        let mut orders = Orders::new(self.program, self.summaries, &placement, before.as_ref());
        self.work += orders.work;
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
            placement = self.placer.place(&self.wanted);
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
        if self.work + self.placer.work > self.most && !graph.circles().is_empty() {
            self.thin(placement, graph, 1, Unenforced::Work);
            return true;
        }
        if circles.iter().any(|circle| circle.len() > LARGE) {
            self.thin(placement, &orders.graph, LARGE, Unenforced::Circle);
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
                self.drop_pairs(Unenforced::Circle, |pair| makers.pairs.contains(pair));
            }
            None => {
                let lock_of = self.wanted.lock_of.clone();
                let first = locks.first().copied();
                self.drop_pairs(Unenforced::Circle, |pair| lock_of.get(&pair.variable).copied() == first);
            }
        }
    }

    /// While a circle has more than so many locks, a pair goes: the one that makes the most of its edges, an edge that several make being
    /// shared among them; of equals the widest. Edges are taken to go with all slots that hold their lock, and with the last pair of either lock.
    fn thin(&mut self, placement: &Placement, graph: &LockOrder, most: usize, why: Unenforced) {
        let mut width: BTreeMap<Pair, usize> = BTreeMap::new();
        let mut by_slot: BTreeMap<(FunctionId, Origin), BTreeSet<Pair>> = BTreeMap::new();
        for (function, placed) in self.program.function_ids().zip(&placement.functions) {
            for constraint in &placed.constraints {
                let Some(pair) = constraint.pair else { continue };
                width.insert(pair, constraint.nodes.iter(self.program.flow(function).len()).count());
                by_slot.entry((function, placed.slots[constraint.slot.0 as usize].origin)).or_default().insert(pair);
            }
        }
        let mut left: BTreeMap<InsertedId, BTreeSet<Pair>> = BTreeMap::new();
        for pair in &self.wanted.pairs {
            if let Some(lock) = self.wanted.lock_of.get(&pair.variable) {
                left.entry(*lock).or_default().insert(*pair);
            }
        }
        let mut gone: BTreeSet<Pair> = BTreeSet::new();
        loop {
            let is_left =
                |held: &Held| held.inserted().is_none_or(|lock| left.get(&lock).is_some_and(|all| !all.is_empty()));
            // Those that make an edge; nothing where it stays whatever goes.
            let makers = |edge: &(Held, Held)| {
                let mut makers = BTreeSet::new();
                for slot in graph.slots.get(edge).into_iter().flatten() {
                    let pairs = by_slot.get(slot.as_ref()?)?;
                    makers.extend(pairs.iter().copied().filter(|pair| !gone.contains(pair)));
                }
                Some(makers)
            };
            let stays = |edge: &(Held, Held)| {
                is_left(&edge.0) && is_left(&edge.1) && makers(edge).is_none_or(|makers| !makers.is_empty())
            };
            let circles = graph.circles_with(&stays);
            let mut cost: BTreeMap<Pair, u64> = BTreeMap::new();
            for circle in circles.iter().filter(|circle| circle.len() > most) {
                for edge in graph.inside(circle).iter().filter(|edge| stays(edge)) {
                    let makers = match makers(edge) {
                        Some(makers) => makers,
                        // Only the end of one of its locks ends it.
                        None => {
                            let locks = [edge.0, edge.1].into_iter().filter_map(Held::inserted);
                            locks.filter_map(|lock| left.get(&lock)).flatten().copied().collect()
                        }
                    };
                    let share = 1000 / (makers.len() as u64).max(1);
                    makers.into_iter().for_each(|pair| *cost.entry(pair).or_default() += share);
                }
            }
            self.work += graph.edges.len() as u64;
            let worst = cost.into_iter().max_by_key(|(pair, cost)| (*cost, width.get(pair).copied(), *pair));
            let Some((pair, _)) = worst else { break };
            gone.insert(pair);
            left.values_mut().for_each(|all| {
                all.remove(&pair);
            });
        }
        self.drop_pairs(why, |pair| gone.contains(pair));
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

    fn drop_pairs(&mut self, why: Unenforced, mut goes: impl FnMut(&Pair) -> bool) {
        self.dropped.extend(self.wanted.pairs.iter().copied().filter(|pair| goes(pair)).map(|pair| (pair, why)));
        let count = self.wanted.pairs.len();
        let dropped = &self.dropped;
        self.wanted.retain(|pair| !dropped.contains_key(pair));
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
