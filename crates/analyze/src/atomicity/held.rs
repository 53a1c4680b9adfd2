//! What is held where, and the order of locks that follows.
//!
//! Paper: section 8, "constructing lock order graph". A forward flow in each function: an acquisition begins a *hold*, a release ends
//! it. A function's summary is what it may take; a call adds edges from what is held to what its callee takes. So edges are made
//! in the function that took the lock that is held, and nothing has to be passed down.
//!
//! One thing more is needed. Hoisting turns an order around by taking a lock early *on those paths* that take the other one; on the
//! rest it is still taken late (figure 8: node 6 by way of node 3). That the late acquisition does nothing can only be seen if each hold
//! carries along which slots are held whenever it is. Joins of paths unite holds and cut what they carry.
//!
//! A wait can take all slots of a thread away. Holds of the program's locks carry nothing past one; holds of ours do, since either all are
//! taken or none. What is taken after a wait inside a call counts as wanted under the program's locks whatever the caller had.
//!
//! Cost: for each function edges times holds, with one bit a slot. After a change only functions are looked at again whose placement is another, or
//! whose callees take something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bits::Bits;
use super::lock_order::{Cause, Held, LockOrder};
use super::place::{Action, InsertedId, Mode, Origin, Placed, Placement, SlotId};
use super::program::{Flow, FunctionId, Item, LockId, NodeId, Program};
use super::summaries::{Depths, Summaries};

/// The order of locks in a placement.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The graph, without the order of locks that one node takes.
    pub(super) graph: LockOrder,
    /// Inserted locks that one node takes, with their slots.
    pub(super) together: Vec<Together>,
    /// Slots that hold for reading while the thread wants the same lock more strongly.
    pub(super) upgrades: BTreeSet<(FunctionId, Origin)>,
    /// Steps that were made.
    pub(super) work: u64,
    functions: Vec<Known>,
}

/// What is known of a function.
#[derive(Clone, Debug, Default)]
struct Known {
    placed: Arc<Placed>,
    flowed: Arc<Flowed>,
    takes: Arc<Takes>,
    /// What its callees took when its edges were found.
    callees: Vec<Arc<Takes>>,
    made: Option<Arc<Made>>,
}

/// What a function may take, with all that it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Takes {
    early: BTreeSet<Held>,
    /// After a wait.
    late: BTreeSet<Held>,
}

/// What a function adds to the order.
#[derive(Debug, Default)]
struct Made {
    edges: Vec<(Held, Held, Cause)>,
    together: Vec<Together>,
    upgrades: BTreeSet<(FunctionId, Origin)>,
}

/// A node that takes several inserted locks.
#[derive(Clone, Debug)]
pub(super) struct Together {
    pub(super) function: FunctionId,
    pub(super) node: NodeId,
    pub(super) taken: Vec<(Held, Origin)>,
}

/// Something that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Program(LockId),
    Slot(SlotId),
}

/// A hold: by whom, and the node that took it.
type Hold = (Holder, NodeId);

/// What is held at a point: each hold with the slots that are held whenever it is; and the slots that always are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holds {
    each: BTreeMap<Hold, Bits>,
    always: Bits,
}

/// The flow of one function.
#[derive(Debug, Default)]
struct Flowed {
    /// By node: what is held when its releases are done and its acquisitions are not; nothing if it is not reached.
    released: Vec<Option<Holds>>,
    /// By node: what is held in it.
    inside: Vec<Option<Holds>>,
    /// Steps that it took to find out.
    work: u64,
}

/// When a call wants a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before it can have waited.
    Early,
    /// After.
    Late,
}

struct Function<'a> {
    program: &'a Program,
    summaries: &'a Summaries,
    placed: &'a Placed,
    id: FunctionId,
    flow: &'a Flow,
}

impl Orders {
    /// The order of a placement, `before` being that of another one of the same program.
    pub(super) fn new(
        program: &Program,
        summaries: &Summaries,
        placement: &Placement,
        before: Option<&Orders>,
    ) -> Orders {
        let functions: Vec<Function<'_>> = program
            .function_ids()
            .zip(&placement.functions)
            .map(|(id, placed)| Function { program, summaries, placed, id, flow: program.flow(id) })
            .collect();
        let mut orders = Orders::default();
        for (function, placed) in functions.iter().zip(&placement.functions) {
            let old = before.and_then(|before| before.functions.get(function.id.ix()));
            let mut known = match old.filter(|old| Arc::ptr_eq(&old.placed, placed)) {
                Some(old) => old.clone(),
                None => {
                    let flowed = function.flowed();
                    orders.work += flowed.work;
                    Known { placed: Arc::clone(placed), flowed: Arc::new(flowed), ..Known::default() }
                }
            };
            known.takes = Arc::default();
            orders.functions.push(known);
        }
        orders.summarise(&functions, before);
        for function in &functions {
            orders.made(function);
        }
        orders
    }

    /// Finds what functions take: callees first, and callers again when a callee takes more.
    fn summarise(&mut self, functions: &[Function<'_>], before: Option<&Orders>) {
        let Some(first) = functions.first() else { return };
        let order = &first.summaries.callees_first;
        let mut callers: Vec<BTreeSet<FunctionId>> = vec![BTreeSet::new(); functions.len()];
        for function in functions {
            for target in function.callees() {
                callers[target.ix()].insert(function.id);
            }
        }
        let mut position = vec![0; functions.len()];
        order.iter().enumerate().for_each(|(at, id)| position[id.ix()] = at);
        let mut work: BTreeSet<usize> = (0..order.len()).collect();
        while let Some(at) = work.pop_first() {
            let id = order[at];
            let takes = functions[id.ix()].summary(&self.functions);
            self.work += functions[id.ix()].flow.len() as u64;
            if takes != *self.functions[id.ix()].takes {
                self.functions[id.ix()].takes = Arc::new(takes);
                work.extend(callers[id.ix()].iter().map(|caller| position[caller.ix()]));
            }
        }
        // What is as before is the same.
        for (known, old) in self.functions.iter_mut().zip(before.into_iter().flat_map(|before| &before.functions)) {
            if known.takes == old.takes {
                known.takes = Arc::clone(&old.takes);
            }
        }
    }

    /// Adds what a function makes.
    fn made(&mut self, function: &Function<'_>) {
        let callees: Vec<Arc<Takes>> =
            function.callees().into_iter().map(|callee| Arc::clone(&self.functions[callee.ix()].takes)).collect();
        let known = &self.functions[function.id.ix()];
        let same = known.callees.len() == callees.len()
            && known.callees.iter().zip(&callees).all(|(old, new)| Arc::ptr_eq(old, new));
        let made = match known.made.clone().filter(|_| same) {
            Some(made) => made,
            None => {
                let mut made = Made::default();
                for node in function.flow.nodes() {
                    function.edges(node, &self.functions, &mut made);
                }
                self.work += made.edges.len() as u64;
                Arc::new(made)
            }
        };
        for (held, wanted, cause) in &made.edges {
            self.graph.add(*held, *wanted, *cause);
        }
        self.together.extend(made.together.iter().cloned());
        self.upgrades.extend(made.upgrades.iter().copied());
        let known = &mut self.functions[function.id.ix()];
        (known.callees, known.made) = (callees, Some(made));
    }

    /// The nodes over which a cause's lock would be held if it were taken ahead: from where the other one was taken, as long as
    /// it is held, to where this one is wanted.
    pub(super) fn region(
        &self,
        program: &Program,
        placement: &Placement,
        held: Held,
        cause: &Cause,
    ) -> BTreeSet<NodeId> {
        let flow = program.flow(cause.function);
        let flowed = &self.functions[cause.function.ix()].flowed;
        let slots = &placement.functions[cause.function.ix()].slots;
        let is_it = |holder: &Holder| match (holder, held) {
            (Holder::Program(lock), Held::Program(held)) => *lock == held,
            (Holder::Slot(slot), Held::Inserted(held, _)) => slots[slot.0 as usize].lock == held,
            _ => false,
        };
        let has = |node: NodeId| {
            let holds = flowed.inside[node.ix()].as_ref();
            holds.is_some_and(|holds| holds.each.keys().any(|(holder, at)| *at == cause.taken_at && is_it(holder)))
        };
        let mut region = BTreeSet::from([cause.taken_at, cause.wanted_at]);
        let mut work = if cause.taken_at == cause.wanted_at { vec![] } else { vec![cause.wanted_at] };
        while let Some(node) = work.pop() {
            for before in flow.before(node) {
                if *before != cause.taken_at && has(*before) && region.insert(*before) {
                    work.push(*before);
                }
            }
        }
        region
    }
}

impl Function<'_> {
    fn lock(&self, slot: SlotId) -> InsertedId {
        self.placed.slots[slot.0 as usize].lock
    }

    /// Whether slots, with what all callers hold, have a lock in a mode or a stronger one at a node. `untaken` are those that the node
    /// has yet to take.
    fn provides(&self, slots: &Bits, node: NodeId, untaken: &[SlotId], lock: InsertedId, mode: Mode) -> bool {
        let callers = self.placed.from_callers.as_ref().and_then(|callers| callers.get(&lock));
        let has = |slot: SlotId| slots.has(slot.0 as usize) && self.mode(slot, node, untaken) >= Some(mode);
        (self.placed.callers_hold.has(node.ix()) && callers.is_some_and(|held| *held >= mode))
            || self.placed.live[node.ix()].iter().any(|(slot, _)| self.lock(*slot) == lock && has(*slot))
    }

    /// How a slot is held in a node. One that the node has yet to take may be held already, as a loop came back to where it is taken: then as
    /// it was before, at the least.
    fn mode(&self, slot: SlotId, node: NodeId, untaken: &[SlotId]) -> Option<Mode> {
        let here = self.placed.mode(slot, node)?;
        if !untaken.contains(&slot) {
            return Some(here);
        }
        let before = self.flow.before(node).iter().filter_map(|from| self.placed.mode(slot, *from)).min();
        before.map(|before| before.min(here))
    }

    /// What a hold is held as, in a node.
    fn held(&self, holder: Holder, node: NodeId, untaken: &[SlotId]) -> Option<Held> {
        match holder {
            Holder::Program(lock) => Some(Held::Program(lock)),
            Holder::Slot(slot) => Some(Held::Inserted(self.lock(slot), self.mode(slot, node, untaken)?)),
        }
    }

    /// The slots that a node takes, in order.
    fn takes(&self, node: NodeId) -> Vec<SlotId> {
        let slot = |action: &Action| match action {
            Action::Acquire { slot, .. } => Some(*slot),
            _ => None,
        };
        self.actions(node).iter().filter_map(slot).collect()
    }

    fn flowed(&self) -> Flowed {
        let depths = self.summaries.depths(self.program, self.id);
        let count = self.flow.len();
        let mut before: Vec<Option<Holds>> = vec![None; count];
        let mut flowed = Flowed { released: vec![None; count], inside: vec![None; count], ..Flowed::default() };
        let nothing = Holds { each: BTreeMap::new(), always: Bits::none(self.placed.slots.len()) };
        before[0] = Some(nothing);
        // In the order of the code, so that most joins are whole before they are looked at.
        let mut work = BTreeSet::from([NodeId(0)]);
        while let Some(node) = work.pop_first() {
            let (Some(holds), Some(depths)) = (&before[node.ix()], &depths[node.ix()]) else { continue };
            let mut holds = holds.clone();
            flowed.work += 1 + holds.each.len() as u64;
            self.release(node, &mut holds);
            flowed.released[node.ix()] = Some(holds.clone());
            self.acquire(node, &mut holds);
            flowed.inside[node.ix()] = Some(holds.clone());
            self.item(node, depths, &mut holds);
            for &next in self.flow.next(node) {
                if join(&mut before[next.ix()], &holds) {
                    work.insert(next);
                }
            }
        }
        flowed
    }

    fn actions(&self, node: NodeId) -> &[Action] {
        self.placed.before.get(node.ix()).map_or(&[], Vec::as_slice)
    }

    fn release(&self, node: NodeId, holds: &mut Holds) {
        for action in self.actions(node) {
            if let Action::Release(_, slot) = action {
                holds.drop_slot(*slot);
            }
        }
    }

    fn acquire(&self, node: NodeId, holds: &mut Holds) {
        for action in self.actions(node) {
            let Action::Acquire { slot, absorbs, .. } = action else { continue };
            for gone in absorbs {
                // The lock has been held since then, under another name now.
                let since: Vec<_> =
                    holds.each.iter().filter(|((holder, _), _)| *holder == Holder::Slot(*gone)).collect();
                let since: Vec<_> = since.into_iter().map(|((_, at), with)| (*at, with.clone())).collect();
                for (at, with) in since {
                    match holds.each.get_mut(&(Holder::Slot(*slot), at)) {
                        Some(known) => {
                            known.keep(&with);
                        }
                        None => {
                            holds.each.insert((Holder::Slot(*slot), at), with);
                        }
                    }
                }
                holds.drop_slot(*gone);
            }
            holds.each.insert((Holder::Slot(*slot), node), holds.always.clone());
            holds.always.put(slot.0 as usize);
            for with in holds.each.values_mut() {
                with.put(slot.0 as usize);
            }
        }
    }

    fn item(&self, node: NodeId, depths: &Depths, holds: &mut Holds) {
        if self.summaries.revoking(self.program, self.id, node) {
            holds.always.clear();
            let programs = holds.each.iter_mut().filter(|((holder, _), _)| matches!(holder, Holder::Program(_)));
            programs.for_each(|(_, with)| with.clear());
        }
        let (taken, given) = self.summaries.changes(self.program, (self.id, node), depths);
        for lock in given {
            holds.each.retain(|(holder, _), _| *holder != Holder::Program(lock));
        }
        for lock in taken {
            let with = holds.always.clone();
            holds.each.insert((Holder::Program(lock), node), with);
        }
    }

    /// Inserted locks that a node takes itself and that are not had on all paths anyhow; with their slots.
    fn taken_here(&self, node: NodeId, holds: &Holds) -> Vec<(InsertedId, Mode, SlotId)> {
        let mut slots = holds.always.clone();
        let (all, mut done, mut taken) = (self.takes(node), 0, Vec::new());
        for action in self.actions(node) {
            if let Action::Acquire { lock, slot, mode, .. } = action {
                if !self.provides(&slots, node, &all[done..], *lock, *mode) {
                    taken.push((*lock, *mode, *slot));
                }
                slots.put(slot.0 as usize);
                done += 1;
            }
        }
        taken
    }

    /// The functions that it calls, ascending.
    fn callees(&self) -> BTreeSet<FunctionId> {
        self.flow.nodes().flat_map(|node| self.program.targets(self.id, node).iter().copied()).collect()
    }

    /// What it may take, as far as that of its callees is known.
    fn summary(&self, functions: &[Known]) -> Takes {
        let mut takes = Takes::default();
        let mut late_in_calls = BTreeSet::new();
        let flowed = &functions[self.id.ix()].flowed;
        for node in self.flow.nodes() {
            let (Some(released), Some(inside)) = (&flowed.released[node.ix()], &flowed.inside[node.ix()]) else {
                continue;
            };
            let here = if self.placed.callers_hold.has(node.ix()) { &mut takes.early } else { &mut takes.late };
            here.extend(self.taken_here(node, released).iter().map(|(lock, mode, _)| Held::Inserted(*lock, *mode)));
            match self.program.item(self.id, node) {
                Some(Item::Acquire(lock)) => {
                    here.insert(Held::Program(*lock));
                }
                Some(Item::Call { targets }) => {
                    for target in targets {
                        let callee = &functions[target.ix()].takes;
                        here.extend(callee.early.iter().filter(|wanted| match wanted {
                            Held::Program(_) => true,
                            Held::Inserted(lock, mode) => !self.provides(&inside.always, node, &[], *lock, *mode),
                        }));
                        late_in_calls.extend(callee.late.iter().copied());
                    }
                }
                _ => {}
            }
        }
        takes.late.extend(late_in_calls);
        takes
    }

    /// The edges that a node makes.
    fn edges(&self, node: NodeId, functions: &[Known], made: &mut Made) {
        let flowed = &functions[self.id.ix()].flowed;
        let (Some(released), Some(inside)) = (&flowed.released[node.ix()], &flowed.inside[node.ix()]) else { return };
        let here = self.taken_here(node, released);
        let all = self.takes(node);
        for (lock, mode, slot) in &here {
            // Those that this node takes before it may be this lock already.
            let had = all.iter().position(|other| other == slot).unwrap_or(0);
            self.wanted(made, (node, When::Early), released, all.split_at(had), Held::Inserted(*lock, *mode));
        }
        if here.len() > 1 {
            let origin = |slot: SlotId| self.placed.slots[slot.0 as usize].origin;
            let taken = here.iter().map(|(lock, mode, slot)| (Held::Inserted(*lock, *mode), origin(*slot))).collect();
            made.together.push(Together { function: self.id, node, taken });
        }
        let none: (&[SlotId], &[SlotId]) = (&[], &[]);
        match self.program.item(self.id, node) {
            Some(Item::Acquire(lock)) => self.wanted(made, (node, When::Early), inside, none, Held::Program(*lock)),
            Some(Item::Call { targets }) => {
                let callees = || targets.iter().map(|target| &functions[target.ix()].takes);
                let early: BTreeSet<Held> = callees().flat_map(|takes| takes.early.iter().copied()).collect();
                let late: BTreeSet<Held> = callees().flat_map(|takes| takes.late.iter().copied()).collect();
                for wanted in early {
                    self.wanted(made, (node, When::Early), inside, none, wanted);
                }
                for wanted in late {
                    self.wanted(made, (node, When::Late), inside, none, wanted);
                }
            }
            _ => {}
        }
    }

    /// A lock is wanted at a node: an edge from each hold that does not have it already. Of the slots that the node takes, some are had by now
    /// and some are not.
    fn wanted(
        &self,
        made: &mut Made,
        (node, when): (NodeId, When),
        holds: &Holds,
        (had, untaken): (&[SlotId], &[SlotId]),
        wanted: Held,
    ) {
        for ((holder, at), with) in &holds.each {
            // After a wait, a lock of the program is held without any of ours.
            let alone = when == When::Late && matches!(holder, Holder::Program(_));
            let Some(held) = self.held(*holder, node, untaken) else { continue };
            let origin = match holder {
                Holder::Program(_) => None,
                Holder::Slot(slot) => Some(self.placed.slots[slot.0 as usize].origin),
            };
            if let Held::Inserted(lock, mode) = wanted {
                let mut slots = with.clone();
                for slot in had {
                    slots.put(slot.0 as usize);
                }
                if let Holder::Slot(slot) = holder {
                    slots.put(slot.0 as usize);
                }
                if !alone && self.provides(&slots, node, untaken, lock, mode) {
                    continue;
                }
                if let (Held::Inserted(same, Mode::Read), Some(origin)) = (held, origin)
                    && same == lock
                    && mode > Mode::Read
                {
                    made.upgrades.insert((self.id, origin));
                }
            }
            let same = match (held, wanted) {
                (Held::Program(held), Held::Program(wanted)) => held == wanted,
                // A slot that reads is made one that updates first.
                (Held::Inserted(held, has), Held::Inserted(wanted, mode)) => {
                    held == wanted && (has == Mode::Read || has >= mode)
                }
                _ => false,
            };
            if !same {
                let hoistable = !alone && wanted.inserted().is_some();
                let cause = Cause { function: self.id, taken_at: *at, slot: origin, wanted_at: node, hoistable };
                made.edges.push((held, wanted, cause));
            }
        }
    }
}

impl Holds {
    fn drop_slot(&mut self, slot: SlotId) {
        self.each.retain(|(holder, _), _| *holder != Holder::Slot(slot));
        self.always.take(slot.0 as usize);
        self.each.values_mut().for_each(|with| with.take(slot.0 as usize));
    }
}

/// Unites holds and cuts what they carry; says whether something changed.
fn join(known: &mut Option<Holds>, more: &Holds) -> bool {
    let Some(known) = known else {
        *known = Some(more.clone());
        return true;
    };
    let mut changed = known.always.keep(&more.always);
    for (hold, with) in &more.each {
        match known.each.get_mut(hold) {
            Some(carried) => changed |= carried.keep(with),
            None => {
                known.each.insert(*hold, with.clone());
                changed = true;
            }
        }
    }
    changed
}
