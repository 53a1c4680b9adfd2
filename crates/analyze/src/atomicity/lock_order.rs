//! The graph of lock order: who is held when who is wanted.
//!
//! Paper: section 8. A vertex is a lock of the program, or an inserted lock *as it is held*. The paper has one vertex for all modes and
//! drops edges between two read locks; but `READ(x) → READ(y)` with `EXCLUSIVE(y) → EXCLUSIVE(x)` does deadlock. Here an edge goes from
//! what is held to every way in which the wanted lock can be held that keeps it from being had. A read lock that is wanted goes
//! only to exclusive holds, so an order of read locks alone makes no circle. A thread that has a lock and wants it more strongly
//! waits for its readers, which is an edge too.
//!
//! Circles of the program's locks alone are the program's own affair and are left alone.
//!
//! Cost: linear in edges for the components. Which edges of a component to break is decided exactly up to
//! [`EXACT`] vertices, in time exponential in that, and one vertex after the other beyond.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::place::{InsertedId, Mode, Origin};
use super::program::{FunctionId, LockId, NodeId, Program};

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

/// Causes of one edge that are kept. One that has more is not broken: its lock would have to be moved in as many places.
const MOST_CAUSES: usize = 16;

/// The slot that holds a lock, with its function; nothing for a lock of the program.
type Holding = Option<(FunctionId, Origin)>;

/// The edges: what is held, what is wanted (with its mode), and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOrder {
    /// By what is held and what is wanted; the first causes of each.
    pub edges: BTreeMap<(Held, Held), BTreeSet<Cause>>,
    /// Edges that have more causes than are kept.
    pub(super) many: BTreeSet<(Held, Held)>,
    /// By edge: the slots that hold the lock, of all causes; nothing for a lock of the program.
    pub(super) slots: BTreeMap<(Held, Held), BTreeSet<Holding>>,
    /// Locks of which all modes count as in each other's way.
    pub(super) strict: BTreeSet<InsertedId>,
}

impl LockOrder {
    pub(super) fn add(&mut self, held: Held, wanted: Held, cause: Cause) {
        let slot = cause.slot.map(|origin| (cause.function, origin));
        self.slots.entry((held, wanted)).or_default().insert(slot);
        let causes = self.edges.entry((held, wanted)).or_default();
        if causes.len() < MOST_CAUSES {
            causes.insert(cause);
        } else if !causes.contains(&cause) {
            self.many.insert((held, wanted));
        }
    }

    /// The ways in which another thread can hold a lock and keep a thread that holds one from having it as it is wanted. A thread
    /// that has the lock already, and wants it more strongly, meets only those that could come in beside it.
    fn hindering(&self, held: Held, wanted: Held) -> impl Iterator<Item = Held> {
        let (program, inserted) = match wanted {
            Held::Program(_) => (Some(wanted), None),
            Held::Inserted(lock, mode) => (None, Some((lock, mode, self.strict.contains(&lock)))),
        };
        let modes = inserted.into_iter().flat_map(move |(lock, wanted, strict)| {
            let beside = move |mode: Mode| match held {
                Held::Inserted(same, has) if same == lock => !has.conflicts(mode),
                _ => true,
            };
            let hinder = move |mode: &Mode| (strict || wanted.conflicts(*mode)) && beside(*mode);
            Mode::ALL.into_iter().filter(hinder).map(move |mode| Held::Inserted(lock, mode))
        });
        program.into_iter().chain(modes)
    }

    /// The circles that have an inserted lock: the strongly connected components of more than one vertex.
    pub fn circles(&self) -> Vec<Vec<Held>> {
        self.circles_with(&|_| true)
    }

    /// The circles that are left of some edges.
    pub(super) fn circles_with(&self, stays: &dyn Fn(&(Held, Held)) -> bool) -> Vec<Vec<Held>> {
        let vertices = self.vertices();
        let next = self.successors(&vertices, stays);
        let circles = components(&next).into_iter().filter(|component| component.len() > 1);
        let circles = circles.map(|component| component.into_iter().map(|v| vertices[v]).collect::<Vec<_>>());
        circles.filter(|circle| circle.iter().any(|vertex| vertex.inserted().is_some())).collect()
    }

    /// The graph in the language of Graphviz; edges of circles are red.
    pub fn dot(&self, program: &Program) -> String {
        let name = |held: &Held| {
            let name = match held {
                Held::Program(lock) => program.locks().get(lock.ix()).map(|class| class.name.clone()),
                Held::Inserted(lock, mode) => {
                    program.variables().get(lock.0 as usize).map(|name| format!("{mode} lock of {name}"))
                }
            };
            let quoted: String = name.unwrap_or_default().chars().flat_map(char::escape_default).collect();
            format!("\"{quoted}\"")
        };
        let red: BTreeSet<(Held, Held)> = self.circles().iter().flat_map(|circle| self.inside(circle)).collect();
        let mut text = String::from("digraph {\n");
        for edge in self.edges.keys() {
            let colour = if red.contains(edge) { " [color=red]" } else { "" };
            let _ = writeln!(text, "  {} -> {}{colour};", name(&edge.0), name(&edge.1));
        }
        text + "}\n"
    }

    /// The edges inside a circle.
    pub(super) fn inside(&self, circle: &[Held]) -> Vec<(Held, Held)> {
        let circle: BTreeSet<Held> = circle.iter().copied().collect();
        let within = |held: &Held, wanted: &Held| {
            circle.contains(held) && self.hindering(*held, *wanted).any(|vertex| circle.contains(&vertex))
        };
        self.edges.keys().filter(|(held, wanted)| within(held, wanted)).copied().collect()
    }

    fn vertices(&self) -> Vec<Held> {
        let held: BTreeSet<Held> = self.edges.keys().map(|(held, _)| *held).collect();
        held.into_iter().collect()
    }

    /// By vertex: the vertices that its edges lead to. What nobody holds while he wants something is on no circle.
    fn successors(&self, vertices: &[Held], stays: &dyn Fn(&(Held, Held)) -> bool) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); vertices.len()];
        for (held, wanted) in self.edges.keys().filter(|edge| stays(edge)) {
            let Ok(from) = vertices.binary_search(held) else { continue };
            next[from].extend(self.hindering(*held, *wanted).filter_map(|vertex| vertices.binary_search(&vertex).ok()));
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
    /// an edge that cannot be broken. Of a circle that is too large for that, not quite the least.
    pub(super) fn cheapest_break(
        &self,
        circle: &[Held],
        cost: impl Fn(Held, Held) -> Option<u64>,
    ) -> Option<Vec<(Held, Held)>> {
        let inside = self.inside(circle);
        let costs: Vec<Option<u64>> = inside.iter().map(|(held, wanted)| cost(*held, *wanted)).collect();
        let groups = program_groups(circle, &inside);
        let count = groups.iter().max().map_or(0, |last| last + 1);
        if count > u128::BITS as usize {
            return None;
        }
        let numbers: BTreeMap<Held, usize> = circle.iter().copied().zip(groups).collect();
        // By group: the edges into it from others, each with where it comes from.
        let mut into: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); count];
        for (number, (held, wanted)) in inside.iter().enumerate() {
            let Some(&from) = numbers.get(held) else { continue };
            for to in self.hindering(*held, *wanted).filter_map(|vertex| numbers.get(&vertex).copied()) {
                if from != to {
                    into[to].insert(number, from);
                }
            }
        }
        // What has to be broken to have a group next: the edges into it from groups that come after it.
        let late = |placed: u128, next: usize| {
            into[next].iter().filter(move |(_, from)| placed >> **from & 1 == 0).map(|(edge, _)| *edge)
        };
        let price = |placed, next| late(placed, next).map(|edge| costs[edge]).sum::<Option<u64>>();
        let order = if count <= EXACT { best_order(count, price)? } else { good_order(count, price)? };
        let mut placed = 0;
        let mut broken = BTreeSet::new();
        for next in order {
            placed |= 1 << next;
            broken.extend(late(placed, next));
        }
        Some(broken.into_iter().map(|edge| inside[edge]).collect())
    }
}

/// The order of the least cost. `cost` is what it costs to have one next after those before it and with them.
fn best_order(count: usize, cost: impl Fn(u128, usize) -> Option<u64>) -> Option<Vec<usize>> {
    // By set of those that come first: the least cost, and who is last of them.
    let mut best: Vec<Option<(u64, usize)>> = vec![None; 1 << count];
    best[0] = Some((0, 0));
    for placed in 0..1_usize << count {
        let Some((so_far, _)) = best[placed] else { continue };
        for next in (0..count).filter(|next| placed >> next & 1 == 0) {
            let with = placed | 1 << next;
            let Some(more) = cost(with as u128, next) else { continue };
            let candidate = (so_far + more, next);
            if best[with].is_none_or(|known| candidate < known) {
                best[with] = Some(candidate);
            }
        }
    }
    let mut order = Vec::new();
    let mut placed = (1 << count) - 1;
    while placed != 0 {
        let (_, last) = best[placed]?;
        order.push(last);
        placed &= !(1 << last);
    }
    order.reverse();
    Some(order)
}

/// An order that takes the cheapest next each time.
fn good_order(count: usize, cost: impl Fn(u128, usize) -> Option<u64>) -> Option<Vec<usize>> {
    let (mut order, mut placed) = (Vec::new(), 0_u128);
    while order.len() < count {
        let left = (0..count).filter(|number| placed >> number & 1 == 0);
        let costs = left.filter_map(|next| cost(placed | 1 << next, next).map(|cost| (cost, next)));
        let (_, next) = costs.min()?;
        placed |= 1 << next;
        order.push(next);
    }
    Some(order)
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
    fn who_wants_more_waits_for_the_readers_beside_it() {
        use Mode::{Exclusive, Read, Update};
        let upgrade = (x(Update), x(Exclusive));
        // A reader wants k; who has k waits for the one that upgrades.
        assert_eq!(order(&[upgrade, (x(Read), K), (K, x(Update))]).circles().len(), 1);
        // Who has k wants only to read, which the one that upgrades lets it.
        assert!(order(&[upgrade, (x(Read), K), (K, x(Read))]).circles().is_empty());
        // Nobody else can hold it for update beside the one that upgrades.
        assert!(order(&[upgrade, (x(Update), K)]).circles().is_empty());
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

    #[test]
    fn a_large_circle_is_opened_too() {
        let vertex = |number| Held::Inserted(InsertedId(number), Mode::Exclusive);
        let count = 2 * EXACT as u32;
        let round = (0..count).map(|number| (vertex(number), vertex((number + 1) % count)));
        let edges: Vec<_> = round.chain((0..count).map(|n| (vertex(n), vertex((n * 7 + 3) % count)))).collect();
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a != b).collect();
        let whole = order(&edges);
        let [circle] = &whole.circles()[..] else { panic!("one circle") };
        let broken = whole.cheapest_break(circle, |_, _| Some(1)).unwrap();
        let rest: Vec<_> = edges.into_iter().filter(|edge| !broken.contains(edge)).collect();
        assert!(order(&rest).circles().is_empty() && broken.len() < count as usize);
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
