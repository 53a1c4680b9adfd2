//! The graph of lock order: who is held when who is wanted.
//!
//! Paper: section 8. A vertex is a lock of the program, or an inserted lock *as it is held*. The paper has one vertex for all modes and
//! drops edges between two read locks; but `READ(x) → READ(y)` with `EXCLUSIVE(y) → EXCLUSIVE(x)` does deadlock. Here an edge goes from
//! what is held to every way in which the wanted lock can be held that keeps it from being had. A read lock that is wanted goes
//! only to exclusive holds, so an order of read locks alone makes no circle.
//!
//! Circles of the program's locks alone are the program's own affair and are left alone.
//!
//! Cost: linear in edges for the components. Which edges of a component to break is decided exactly up to
//! [`EXACT`] vertices, in time exponential in that, and by the cheapest edge beyond.

use std::collections::{BTreeMap, BTreeSet};

use super::place::{InsertedId, Mode, Origin};
use super::program::{FunctionId, LockId, NodeId};

/// Components up to this size are broken at the least cost.
pub(super) const EXACT: usize = 12;

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// A lock of the program.
    Program(LockId),
    /// An inserted lock, and how.
    Inserted(InsertedId, Mode),
}

impl Held {
    /// The inserted lock, if it is one.
    pub fn inserted(self) -> Option<InsertedId> {
        match self {
            Held::Program(_) => None,
            Held::Inserted(lock, _) => Some(lock),
        }
    }

    /// Whether somebody who holds this keeps another one from having `wanted`, and they are the same lock.
    fn hinders(self, wanted: Held) -> bool {
        match (self, wanted) {
            (Held::Program(held), Held::Program(wanted)) => held == wanted,
            (Held::Inserted(held, mode), Held::Inserted(wanted, as_)) => held == wanted && as_.conflicts(mode),
            _ => false,
        }
    }
}

/// Why a lock is wanted while another is held: where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// In this function,
    pub function: FunctionId,
    /// the lock that is held was taken at this node,
    pub taken_at: NodeId,
    /// by this slot, if it is an inserted one,
    pub slot: Option<Origin>,
    /// and the other one is wanted at this node, or by what it calls.
    pub wanted_at: NodeId,
    /// Whether it can be taken ahead of the one that is held.
    pub hoistable: bool,
}

/// The edges: what is held, what is wanted (with its mode), and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOrder {
    /// By what is held and what is wanted.
    pub edges: BTreeMap<(Held, Held), BTreeSet<Cause>>,
}

impl LockOrder {
    pub(super) fn add(&mut self, held: Held, wanted: Held, cause: Cause) {
        self.edges.entry((held, wanted)).or_default().insert(cause);
    }

    /// The circles that have an inserted lock: the strongly connected components of more than one vertex.
    pub fn circles(&self) -> Vec<Vec<Held>> {
        let vertices = self.vertices();
        let next = self.successors(&vertices);
        let circles = components(&next).into_iter().filter(|component| component.len() > 1);
        let circles = circles.map(|component| component.into_iter().map(|v| vertices[v]).collect::<Vec<_>>());
        circles.filter(|circle| circle.iter().any(|vertex| vertex.inserted().is_some())).collect()
    }

    /// The edges inside a circle.
    pub(super) fn inside(&self, circle: &[Held]) -> Vec<(Held, Held)> {
        let within =
            |held: &Held, wanted: &Held| circle.contains(held) && circle.iter().any(|vertex| vertex.hinders(*wanted));
        self.edges.keys().filter(|(held, wanted)| within(held, wanted)).copied().collect()
    }

    fn vertices(&self) -> Vec<Held> {
        let held: BTreeSet<Held> = self.edges.keys().map(|(held, _)| *held).collect();
        held.into_iter().collect()
    }

    /// By vertex: the vertices that its edges lead to. What nobody holds while he wants something is on no circle.
    fn successors(&self, vertices: &[Held]) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); vertices.len()];
        for (held, wanted) in self.edges.keys() {
            let Ok(from) = vertices.binary_search(held) else { continue };
            let hindered = vertices.iter().enumerate().filter(|(_, vertex)| vertex.hinders(*wanted));
            next[from].extend(hindered.map(|(to, _)| to));
        }
        next
    }

    /// A rank for each inserted lock that goes with the edges as far as they do not go round, all modes taken together.
    pub(super) fn rank(&self) -> BTreeMap<InsertedId, u32> {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum Whole {
            Inserted(InsertedId),
            Program(LockId),
        }
        let whole = |held: Held| match held {
            Held::Program(lock) => Whole::Program(lock),
            Held::Inserted(lock, _) => Whole::Inserted(lock),
        };
        let locks: BTreeSet<Whole> = self.edges.keys().flat_map(|(a, b)| [whole(*a), whole(*b)]).collect();
        let locks: Vec<Whole> = locks.into_iter().collect();
        let mut next = vec![Vec::new(); locks.len()];
        for (held, wanted) in self.edges.keys() {
            if let (Ok(from), Ok(to)) = (locks.binary_search(&whole(*held)), locks.binary_search(&whole(*wanted))) {
                next[from].push(to);
            }
        }
        // Components come in reverse: what an edge leads to is done before.
        let order = components(&next).into_iter().flatten();
        let inserted = order.filter_map(|lock| match locks[lock] {
            Whole::Inserted(lock) => Some(lock),
            Whole::Program(_) => None,
        });
        let count = locks.len() as u32;
        inserted.enumerate().map(|(number, lock)| (lock, count - number as u32)).collect()
    }

    /// Edges of a circle whose breaking opens it, at the least sum of costs; nothing if there are none. `cost` is nothing for
    /// an edge that cannot be broken. Of a circle that is too large for that, the cheapest edge.
    pub(super) fn cheapest_break(
        &self,
        circle: &[Held],
        cost: impl Fn(Held, Held) -> Option<u64>,
    ) -> Option<Vec<(Held, Held)>> {
        let inside = self.inside(circle);
        let costs: Vec<Option<u64>> = inside.iter().map(|(held, wanted)| cost(*held, *wanted)).collect();
        let groups = program_groups(circle, &inside);
        let count = groups.iter().max().map_or(0, |last| last + 1);
        if count > EXACT {
            let edges = inside.iter().zip(&costs).filter_map(|(edge, cost)| cost.map(|cost| (cost, *edge)));
            return edges.min().map(|(_, edge)| vec![edge]);
        }
        // Edges between groups: from, to, which.
        let mut between = Vec::new();
        for (number, (held, wanted)) in inside.iter().enumerate() {
            for (to, vertex) in circle.iter().enumerate().filter(|(_, vertex)| vertex.hinders(*wanted)) {
                let from = circle.iter().position(|vertex| vertex == held);
                let groups = from.map(|from| (groups[from], groups[to]));
                debug_assert!(groups.is_some(), "{vertex:?} is in the circle");
                between.extend(groups.filter(|(from, to)| from != to).map(|(from, to)| (from, to, number)));
            }
        }
        let backwards = |placed: usize, next: usize| {
            // The edges into `next` from groups that come after it.
            let late = between.iter().filter(move |(from, to, _)| *to == next && placed & (1 << from) == 0);
            late.map(|(_, _, edge)| *edge).collect::<BTreeSet<usize>>()
        };
        // By set of groups that come first: the least cost, and who is last of them.
        let mut best: Vec<Option<(u64, usize)>> = vec![None; 1 << count];
        best[0] = Some((0, 0));
        for placed in 0..1_usize << count {
            let Some((so_far, _)) = best[placed] else { continue };
            for next in (0..count).filter(|next| placed & (1 << next) == 0) {
                let broken = backwards(placed | 1 << next, next);
                let Some(more) = broken.iter().map(|edge| costs[*edge]).sum::<Option<u64>>() else { continue };
                let candidate = (so_far + more, next);
                let slot = &mut best[placed | 1 << next];
                if slot.is_none_or(|known| candidate < known) {
                    *slot = Some(candidate);
                }
            }
        }
        let mut placed = (1 << count) - 1;
        let mut broken = BTreeSet::new();
        while placed != 0 {
            let (_, last) = best[placed]?;
            broken.extend(backwards(placed, last));
            placed &= !(1 << last);
        }
        Some(broken.into_iter().map(|edge| inside[edge]).collect())
    }
}

/// By vertex of a circle: its group. Locks of the program that are on a circle by themselves are one group.
fn program_groups(circle: &[Held], inside: &[(Held, Held)]) -> Vec<usize> {
    let mut next = vec![Vec::new(); circle.len()];
    for (held, wanted) in inside {
        if held.inserted().is_none() && wanted.inserted().is_none() {
            let ends = [held, wanted].map(|end| circle.iter().position(|vertex| vertex == end));
            if let [Some(from), Some(to)] = ends {
                next[from].push(to);
            }
        }
    }
    let mut groups = vec![0; circle.len()];
    for (number, component) in components(&next).into_iter().enumerate() {
        component.into_iter().for_each(|vertex| groups[vertex] = number);
    }
    groups
}

/// Strongly connected components, each after those that it leads to (Tarjan, without recursion).
fn components(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut index = vec![NEW; next.len()];
    let mut low = vec![0; next.len()];
    let mut open = vec![false; next.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..next.len() {
        if index[root] != NEW {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((vertex, edge)) = calls.pop() {
            if edge == 0 {
                index[vertex] = count;
                low[vertex] = count;
                count += 1;
                stack.push(vertex);
                open[vertex] = true;
            }
            if let Some(&to) = next[vertex].get(edge) {
                calls.push((vertex, edge + 1));
                if index[to] == NEW {
                    calls.push((to, 0));
                } else if open[to] {
                    low[vertex] = low[vertex].min(index[to]);
                }
                continue;
            }
            if low[vertex] == index[vertex] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    open[member] = false;
                    component.push(member);
                    if member == vertex {
                        break;
                    }
                }
                found.push(component);
            }
            if let Some((caller, _)) = calls.last() {
                low[*caller] = low[*caller].min(low[vertex]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cause() -> Cause {
        let node = NodeId(0);
        Cause { function: FunctionId(0), taken_at: node, slot: None, wanted_at: node, hoistable: true }
    }

    fn order(edges: &[(Held, Held)]) -> LockOrder {
        let mut order = LockOrder::default();
        edges.iter().for_each(|(held, wanted)| order.add(*held, *wanted, cause()));
        order
    }

    const K: Held = Held::Program(LockId(0));
    const M: Held = Held::Program(LockId(1));

    fn x(mode: Mode) -> Held {
        Held::Inserted(InsertedId(0), mode)
    }

    fn y(mode: Mode) -> Held {
        Held::Inserted(InsertedId(1), mode)
    }

    #[test]
    fn read_locks_make_no_circle_unless_somebody_holds_one_exclusively() {
        use Mode::{Exclusive, Read};
        // The paper's example: k, READ(x), READ(y), k.
        let paper = [(K, x(Read)), (x(Read), y(Read)), (y(Read), K)];
        assert!(order(&paper).circles().is_empty());
        // The paper's rule would drop the first edge here, and miss the deadlock.
        assert_eq!(order(&[(x(Read), y(Read)), (y(Exclusive), x(Exclusive))]).circles().len(), 1);
        // A read lock that is wanted under k, and k under the exclusive lock (the paper's t1 and t2).
        assert_eq!(order(&[(K, x(Read)), (x(Exclusive), K)]).circles().len(), 1);
        assert!(order(&[(K, x(Read)), (x(Read), K)]).circles().is_empty());
        assert!(order(&[(K, M), (M, K)]).circles().is_empty(), "the program's own");
    }

    #[test]
    fn the_cheapest_edges_are_broken_and_the_program_s_are_not() {
        use Mode::Exclusive;
        let edges = [(K, x(Exclusive)), (x(Exclusive), y(Exclusive)), (y(Exclusive), K)];
        let order = order(&edges);
        let [circle] = &order.circles()[..] else { panic!("one circle") };
        let cost = |_, wanted: Held| match wanted {
            Held::Program(_) => None,
            Held::Inserted(lock, _) => Some(5 - u64::from(lock.0)),
        };
        assert_eq!(order.cheapest_break(circle, cost), Some(vec![edges[1]]));
        assert_eq!(order.cheapest_break(circle, |_, _| None), None);
    }

    #[test]
    fn a_circle_of_the_program_is_one_vertex() {
        use Mode::Exclusive;
        // x, k, m, x and m, k: both edges into x have to go, wherever m stands.
        let edges = [(x(Exclusive), K), (K, M), (M, K), (M, x(Exclusive)), (K, x(Exclusive))];
        let order = order(&edges);
        let [circle] = &order.circles()[..] else { panic!("one circle") };
        let cost = |_, wanted: Held| wanted.inserted().map(|_| 1);
        let broken = order.cheapest_break(circle, cost).unwrap();
        assert_eq!(broken, [(K, x(Exclusive)), (M, x(Exclusive))]);
    }

    proptest! {
        #[test]
        fn breaking_opens_the_circle_and_costs_the_least(
            edges in prop::collection::btree_set((0..5_u32, 0..5_u32), 1..12),
            costs in prop::collection::vec(0..4_u64, 25),
        ) {
            let vertex = |number| Held::Inserted(InsertedId(number), Mode::Exclusive);
            let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a != b).collect();
            let all: Vec<_> = edges.iter().map(|&(a, b)| (vertex(a), vertex(b))).collect();
            let order = order(&all);
            let number = |held: Held| held.inserted().unwrap().0;
            // A cost of 3 stands for an edge that cannot be broken.
            let cost = |a: Held, b: Held| {
                Some(costs[(number(a) * 5 + number(b)) as usize]).filter(|cost| *cost < 3)
            };
            for circle in order.circles() {
                let inside = order.inside(&circle);
                let opens = |broken: &[(Held, Held)]| {
                    let rest: Vec<_> = inside.iter().filter(|edge| !broken.contains(edge)).copied().collect();
                    self::order(&rest).circles().is_empty()
                };
                let total = |broken: &[(Held, Held)]| broken.iter().map(|(a, b)| cost(*a, *b)).sum::<Option<u64>>();
                let subsets = (0..1_u32 << inside.len()).map(|set| {
                    let chosen = inside.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
                    chosen.map(|(_, edge)| *edge).collect::<Vec<_>>()
                });
                let least = subsets.filter(|subset| opens(subset)).filter_map(|subset| total(&subset)).min();
                let found = order.cheapest_break(&circle, cost);
                prop_assert_eq!(found.as_ref().and_then(|broken| total(broken)), least);
                if let Some(broken) = found {
                    prop_assert!(opens(&broken));
                }
            }
        }
    }
}
