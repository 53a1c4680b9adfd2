//! Figure 6 of the paper: the constraints of one function, and the actions that keep them.
//!
//! | in the figure | here |
//! |---|---|
//! | `lc(l)`, a set of `⟨lᵢ, lⱼ, α⟩` and `NONE` | [`Placed::constraints_at`]; `NONE` is a slot that [`Work::must_slots`] does not have |
//! | `access(lₖ)` | [`Work::must_access`] |
//! | *Init*: `¬onpath(l, lᵢ, lⱼ)` for all pairs ⟹ `lc(l) = {NONE}` | a node that no constraint has |
//! | *Gen*: `atomhead(l)` ⟹ `lc(l) ⊇ {⟨l, lᵢ, Z(l, lᵢ)⟩}` | [`Work::pairs`]: a pair's first point has its constraint |
//! | *Join*: `lc(l) ⊇ lc(lₚ) − notreachable(lₚ, l) − conflict(lₚ, l)` | [`Work::pairs`]: ahead of the first point, behind the second, no access between |
//! | *INAcquire*: `α = maxlock(lc(l))`, before `l` `acquire(α(x), l)` | [`Work::actions`], with the constraints that begin at `l`; others have their own slot |
//! | *INRelease*: `Δ = lc(lₚ) − lc(l)`, on the edge `?degrade` or `?release` | [`Work::actions`], by slot |
//! | redundant release, a stronger constraint of the same head goes on | it is the same slot, and stays |
//! | redundant release, a constraint begins where this one ends | [`Work::absorbed`] |
//! | redundant acquisition, "we omit the details" | [`Work::leave_out`] |
//! | single accesses, "the rules are elided" | [`Work::singles`] |
//!
//! Departures are listed in [`super::place`].

use std::collections::{BTreeMap, BTreeSet};

use super::bits::Bits;
use super::place::{Action, Callers, Constraint, InsertedId, Mode, Origin, Pair, Placed, Reason, Slot, SlotId, Wanted};
use super::program::{Access, Flow, FunctionId, Item, NodeId, Program, VariableId};
use super::summaries::Summaries;

/// The mode of a slot among those of a node.
pub(super) fn mode_in(live: &[(SlotId, Mode)], slot: SlotId) -> Option<Mode> {
    live.binary_search_by_key(&slot, |(slot, _)| *slot).ok().map(|at| live[at].1)
}

/// The placement of one function.
pub(super) struct Work<'a> {
    pub(super) program: &'a Program,
    pub(super) summaries: &'a Summaries,
    pub(super) wanted: &'a Wanted,
    /// Those of the function.
    pub(super) pairs: &'a [Pair],
    pub(super) function: FunctionId,
    pub(super) flow: &'a Flow,
}

impl Work<'_> {
    /// The placement, and the pairs that no path allows.
    pub(super) fn place(&self, callers: &Callers) -> (Placed, Vec<Pair>) {
        let callers_hold = self.before_revoking();
        let mut found = Constraints::default();
        let impossible = self.pairs(&mut found);
        self.singles(&mut found);
        self.hoists(&mut found);
        self.raise(&found.slots, &mut found.constraints);
        // Left out: what every caller keeps.
        let Constraints { slots, mut constraints, .. } = found;
        let kept = |lock| callers.as_ref().and_then(|callers| callers.get(&lock).copied());
        constraints.retain(|constraint| {
            let enough = kept(slots[constraint.slot.0 as usize].lock).is_some_and(|mode| mode >= constraint.mode);
            !(enough && constraint.nodes.iter(self.flow.len()).all(|node| callers_hold.has(node)))
        });
        self.leave_out(&slots, &mut constraints);
        self.raise(&slots, &mut constraints);
        let mut placed = Placed { slots, constraints, from_callers: callers.clone(), ..Placed::default() };
        placed.live = self.live(&placed.constraints);
        placed.callers_hold = callers_hold;
        self.actions(&mut placed);
        placed.must = self.must_modes(&placed);
        (placed, impossible)
    }

    /// Slots that may see their lock wanted more strongly hold it for update.
    fn raise(&self, slots: &[Slot], constraints: &mut [Constraint]) {
        for constraint in constraints {
            if self.wanted.updates.contains(&(self.function, slots[constraint.slot.0 as usize].origin)) {
                constraint.mode = constraint.mode.max(Mode::Update);
            }
        }
    }

    /// Nodes that no wait can come before.
    fn before_revoking(&self) -> Bits {
        let mut after = Bits::none(self.flow.len());
        let mut work: Vec<NodeId> = self.flow.nodes().filter(|&node| self.revoking(node)).collect();
        while let Some(node) = work.pop() {
            work.extend(self.flow.next(node).iter().filter(|next| after.put(next.ix())));
        }
        let mut before = Bits::none(self.flow.len());
        self.flow.nodes().filter(|node| !after.has(node.ix())).for_each(|node| {
            before.put(node.ix());
        });
        before
    }

    fn revoking(&self, node: NodeId) -> bool {
        self.summaries.revoking(self.program, self.function, node)
    }

    fn must_access(&self, node: NodeId, variable: VariableId) -> bool {
        self.summaries.must_access(self.program, (self.function, node), variable)
    }

    /// The nodes that `from` leads to, one of `stops` not being left again.
    fn reached(&self, from: NodeId, stops: impl Fn(NodeId) -> bool, next: impl Fn(NodeId) -> Vec<NodeId>) -> Bits {
        let mut reached = Bits::none(self.flow.len());
        let mut work = vec![from];
        while let Some(node) = work.pop() {
            for next in next(node) {
                if reached.put(next.ix()) && !stops(next) {
                    work.push(next);
                }
            }
        }
        reached
    }

    /// Rules *Gen* and *Join* for pairs, as one: the nodes on paths from the first to the second point without an access
    /// between. A path leaves `notreachable` and `conflict` where it cannot get there any more. Rule *Init* is the rest:
    /// nodes that are on no path have no constraint.
    fn pairs(&self, found: &mut Constraints) -> Vec<Pair> {
        let mut impossible = Vec::new();
        let mut behind: BTreeMap<(VariableId, NodeId), Bits> = BTreeMap::new();
        let mut ahead: BTreeMap<(VariableId, NodeId), Bits> = BTreeMap::new();
        for pair in self.pairs {
            let Some(&lock) = self.wanted.lock_of.get(&pair.variable) else { continue };
            let stops = |node| self.must_access(node, pair.variable);
            let ahead = ahead
                .entry((pair.variable, pair.first))
                .or_insert_with(|| self.reached(pair.first, stops, |node| self.flow.next(node).to_vec()));
            if !ahead.has(pair.second.ix()) {
                impossible.push(*pair);
                continue;
            }
            let behind = behind
                .entry((pair.variable, pair.second))
                .or_insert_with(|| self.reached(pair.second, stops, |node| self.flow.before(node).to_vec()));
            let mut nodes = ahead.clone();
            nodes.keep(behind);
            for node in self.flow.nodes() {
                // Other accesses end paths both ways and are not on one.
                if nodes.has(node.ix()) && stops(node) {
                    nodes.take(node.ix());
                }
            }
            nodes.put(pair.first.ix());
            nodes.put(pair.second.ix());
            let slot = found.slot(lock, Origin::Head(pair.variable, pair.first));
            let (heads, tail, mode) = (vec![pair.first], pair.second, pair.mode());
            let (reason, pair) = (Reason::Pair, Some(*pair));
            found.constraints.push(Constraint { slot, heads, tail, mode, reason, pair, nodes });
        }
        impossible
    }

    /// Each access to a variable that has pairs needs the lock itself, others' pairs being atomic only then.
    fn singles(&self, found: &mut Constraints) {
        for node in self.flow.nodes() {
            let Some(Item::Access { variable, access }) = self.program.item(self.function, node) else { continue };
            let Some(&lock) = self.wanted.lock_of.get(variable) else { continue };
            let mode = match access {
                Access::Read => Mode::Read,
                Access::Write => Mode::Exclusive,
            };
            let mut nodes = Bits::none(self.flow.len());
            nodes.put(node.ix());
            let slot = found.slot(lock, Origin::Head(*variable, node));
            found.constraints.push(Constraint {
                slot,
                heads: vec![node],
                tail: node,
                mode,
                reason: Reason::Single,
                pair: None,
                nodes,
            });
        }
    }

    /// Section 8: the lock is held along all paths from the hoisted acquisition to the node that needs it.
    fn hoists(&self, found: &mut Constraints) {
        let all = (self.function, InsertedId(0), NodeId(0))..=(self.function, InsertedId(u32::MAX), NodeId(u32::MAX));
        let known = |node: &NodeId| node.ix() < self.flow.len();
        for (&(_, lock, tail), hoist) in self.wanted.hoists.range(all).filter(|((.., tail), _)| known(tail)) {
            let mut nodes = Bits::none(self.flow.len());
            for node in hoist.nodes.iter().chain(&hoist.heads).chain([&tail]) {
                nodes.put(node.ix());
            }
            let slot = found.slot(lock, Origin::Hoist(lock, tail));
            let heads = hoist.heads.iter().copied().filter(known).collect();
            let (mode, reason) = (hoist.mode, Reason::Hoist);
            found.constraints.push(Constraint { slot, heads, tail, mode, reason, pair: None, nodes });
        }
    }

    /// Removes acquisitions that are redundant: accesses at which a pair holds the lock on all paths, and heads at which a pair of
    /// the same variable does; their pairs go on under the slot of that one.
    fn leave_out(&self, slots: &[Slot], constraints: &mut Vec<Constraint>) {
        let live = self.live(constraints);
        let must = self.must_slots(slots, constraints, &live);
        let mut same: Vec<SlotId> = (0..slots.len() as u32).map(SlotId).collect();
        let held = |node: NodeId, own: SlotId, least: Mode, usable: &dyn Fn(Slot) -> bool| {
            live[node.ix()].iter().find_map(|&(slot, mode)| {
                let here = slot != own && mode >= least && must[node.ix()].has(slot.0 as usize);
                (here && usable(slots[slot.0 as usize])).then_some(slot)
            })
        };
        constraints.retain(|single| {
            let slot = slots[single.slot.0 as usize];
            let same_lock = |other: Slot| other.lock == slot.lock;
            single.reason != Reason::Single || held(single.tail, single.slot, single.mode, &same_lock).is_none()
        });
        let mut strongest: Vec<Option<Mode>> = vec![None; slots.len()];
        for constraint in constraints.iter() {
            let known = &mut strongest[constraint.slot.0 as usize];
            *known = Some(constraint.mode).max(*known);
        }
        for (number, slot) in slots.iter().enumerate() {
            let Origin::Head(variable, head) = slot.origin else { continue };
            let own = SlotId(number as u32);
            let Some(mode) = strongest[number].filter(|_| self.must_access(head, variable)) else { continue };
            let same_variable = |other: Slot| matches!(other.origin, Origin::Head(of, _) if of == variable);
            if let Some(other) = held(head, own, mode, &same_variable) {
                same[number] = other;
            }
        }
        for constraint in constraints {
            // Which slot is held before which is a partial order, so this ends.
            while same[constraint.slot.0 as usize] != constraint.slot {
                constraint.heads.clear();
                constraint.slot = same[constraint.slot.0 as usize];
            }
        }
    }

    /// By node: the slots of its constraints, each with the strongest mode.
    fn live(&self, constraints: &[Constraint]) -> Vec<Vec<(SlotId, Mode)>> {
        let mut live: Vec<Vec<(SlotId, Mode)>> = vec![Vec::new(); self.flow.len()];
        for constraint in constraints {
            for node in constraint.nodes.iter(self.flow.len()) {
                live[node].push((constraint.slot, constraint.mode));
            }
        }
        for slots in &mut live {
            slots.sort_unstable_by_key(|&(slot, mode)| (slot, std::cmp::Reverse(mode)));
            slots.dedup_by_key(|(slot, _)| *slot);
        }
        live
    }

    /// By node: the slots that are taken before it.
    fn heads(&self, constraints: &[Constraint]) -> Vec<BTreeSet<SlotId>> {
        let mut heads = vec![BTreeSet::new(); self.flow.len()];
        for constraint in constraints {
            for head in &constraint.heads {
                heads[head.ix()].insert(constraint.slot);
            }
        }
        heads
    }

    /// By node: the slots that are held before its acquisitions on all paths. What an acquisition could absorb counts as gone.
    fn must_slots(&self, slots: &[Slot], constraints: &[Constraint], live: &[Vec<(SlotId, Mode)>]) -> Vec<Bits> {
        let heads = self.heads(constraints);
        let mut before = vec![Bits::all(slots.len()); self.flow.len()];
        before[0].clear();
        let mut work: Vec<NodeId> = self.flow.nodes().collect();
        work.reverse();
        while let Some(node) = work.pop() {
            let mut after = Bits::none(slots.len());
            if !self.revoking(node) {
                for (slot, _) in &live[node.ix()] {
                    let ends =
                        || heads[node.ix()].iter().any(|taker| self.could_absorb(slots, live, (node, *taker), *slot));
                    if heads[node.ix()].contains(slot) || (before[node.ix()].has(slot.0 as usize) && !ends()) {
                        after.put(slot.0 as usize);
                    }
                }
            }
            for &next in self.flow.next(node) {
                if before[next.ix()].keep(&after) {
                    work.push(next);
                }
            }
        }
        before
    }

    /// Rules *INAcquire* and *INRelease*.
    fn actions(&self, placed: &mut Placed) {
        let heads = self.heads(&placed.constraints);
        let absorbs: Vec<_> = self.flow.nodes().map(|node| self.absorbed(placed, node, &heads[node.ix()])).collect();
        let may = self.may_slots(placed, &heads, &absorbs);
        placed.before = vec![Vec::new(); self.flow.len()];
        for node in self.flow.nodes() {
            let mut actions = Vec::new();
            for slot in may[node.ix()].iter(placed.slots.len()) {
                let (id, lock) = (SlotId(slot as u32), placed.slots[slot].lock);
                // INRelease: Δ = lc(lₚ) − lc(l). Redundant where no path holds the slot any more.
                match placed.mode(id, node) {
                    None => actions.push(Action::Release(lock, id)),
                    Some(mode) => {
                        let stronger = |from: &NodeId| placed.mode(id, *from).is_some_and(|before| before > mode);
                        if self.flow.before(node).iter().any(stronger) {
                            actions.push(Action::Degrade(lock, id, mode));
                        }
                    }
                }
            }
            // INAcquire: α is the strongest of the constraints that begin here.
            let mut acquired: Vec<SlotId> = heads[node.ix()].iter().copied().collect();
            acquired.sort_by_key(|slot| {
                let lock = placed.slots[slot.0 as usize].lock;
                // Of one lock the strongest first: the others are no acquisitions then.
                let rank = self.wanted.rank.get(&lock).copied().unwrap_or(u32::MAX);
                (rank, lock, std::cmp::Reverse(placed.mode(*slot, node)), *slot)
            });
            for slot in acquired {
                let Some(mode) = placed.mode(slot, node) else { continue };
                let absorbs = absorbs[node.ix()].get(&slot).cloned().unwrap_or_default();
                let absorbs = absorbs.into_iter().filter(|slot| may[node.ix()].has(slot.0 as usize)).collect();
                let lock = placed.slots[slot.0 as usize].lock;
                actions.push(Action::Acquire { lock, slot, mode, absorbs });
            }
            placed.before[node.ix()] = actions;
        }
    }

    /// For each slot that a node takes: the slots whose place it takes. These are pairs that end here and are not stronger (the
    /// paper's second rule against redundant releases), and hoists for this node.
    fn absorbed(&self, placed: &Placed, node: NodeId, taken: &BTreeSet<SlotId>) -> BTreeMap<SlotId, Vec<SlotId>> {
        let mut absorbed: BTreeMap<SlotId, Vec<SlotId>> = BTreeMap::new();
        for &(slot, mode) in &placed.live[node.ix()] {
            if taken.contains(&slot) {
                continue;
            }
            let taker = taken.iter().find(|taker| {
                let enough = placed.mode(**taker, node).is_some_and(|other| other >= mode);
                enough && self.could_absorb(&placed.slots, &placed.live, (node, **taker), slot)
            });
            if let Some(taker) = taker {
                absorbed.entry(*taker).or_default().push(slot);
            }
        }
        absorbed
    }

    /// Whether a slot is not needed past a node that takes another slot of the same lock.
    fn could_absorb(
        &self,
        slots: &[Slot],
        live: &[Vec<(SlotId, Mode)>],
        (node, taker): (NodeId, SlotId),
        slot: SlotId,
    ) -> bool {
        let [taking, held] = [taker, slot].map(|slot| slots[slot.0 as usize]);
        let ends = match (held.origin, taking.origin) {
            (Origin::Hoist(_, tail), _) => {
                tail == node && self.flow.next(node).iter().all(|next| mode_in(&live[next.ix()], slot).is_none())
            }
            (Origin::Head(variable, _), Origin::Head(of, _)) => variable == of && self.must_access(node, variable),
            (Origin::Head(..), Origin::Hoist(..)) => false,
        };
        taking.lock == held.lock && ends
    }

    /// By node: the slots that may be held on entry to it, before its actions.
    fn may_slots(
        &self,
        placed: &Placed,
        heads: &[BTreeSet<SlotId>],
        absorbs: &[BTreeMap<SlotId, Vec<SlotId>>],
    ) -> Vec<Bits> {
        let mut before = vec![Bits::none(placed.slots.len()); self.flow.len()];
        let mut work: Vec<NodeId> = self.flow.nodes().collect();
        work.reverse();
        while let Some(node) = work.pop() {
            let mut after = Bits::none(placed.slots.len());
            for (slot, _) in &placed.live[node.ix()] {
                let absorbed = absorbs[node.ix()].values().flatten().any(|gone| gone == slot);
                if heads[node.ix()].contains(slot) || (before[node.ix()].has(slot.0 as usize) && !absorbed) {
                    after.put(slot.0 as usize);
                }
            }
            for &next in self.flow.next(node) {
                if before[next.ix()].add(&after) {
                    work.push(next);
                }
            }
        }
        before
    }

    /// By node with a call: the modes in which locks are held in it on all paths, by callers too.
    fn must_modes(&self, placed: &Placed) -> Vec<BTreeMap<InsertedId, Mode>> {
        let must = self.must_slots(&placed.slots, &placed.constraints, &placed.live);
        let heads = self.heads(&placed.constraints);
        let of_node = |node: NodeId| {
            let mut modes = BTreeMap::new();
            if self.program.targets(self.function, node).is_empty() {
                return modes;
            }
            if placed.callers_hold.has(node.ix()) {
                modes = placed.from_callers.clone().unwrap_or_default();
            }
            for &(slot, mode) in &placed.live[node.ix()] {
                if must[node.ix()].has(slot.0 as usize) || heads[node.ix()].contains(&slot) {
                    let known = modes.entry(placed.slots[slot.0 as usize].lock).or_insert(mode);
                    *known = mode.max(*known);
                }
            }
            modes
        };
        self.flow.nodes().map(of_node).collect()
    }
}

#[derive(Default)]
struct Constraints {
    slots: Vec<Slot>,
    by_origin: BTreeMap<Origin, SlotId>,
    constraints: Vec<Constraint>,
}

impl Constraints {
    fn slot(&mut self, lock: InsertedId, origin: Origin) -> SlotId {
        *self.by_origin.entry(origin).or_insert_with(|| {
            self.slots.push(Slot { lock, origin });
            SlotId(self.slots.len() as u32 - 1)
        })
    }
}
