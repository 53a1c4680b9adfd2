//! Where locks are taken, weakened and given back, so that pairs stay atomic.
//!
//! Paper: section 7, figure 6. For each function and variable, every node has the set of constraints that hold on entry to it; locks
//! are taken at the heads of pairs and given back where the constraints end. Which acquisition a lock comes from is remembered, so
//! that a path that did not take it does not give it back: our *slot* is the paper's label in `acquire(α(x), l)`.
//!
//! Departures, each with its reason:
//! - **Consecutive means consecutive.** A constraint lives on paths from its first to its second point *that have no access between*.
//!   The paper's `onpath` is any path; in a loop that is the whole loop, and the lock would never be given back. Its
//!   `conflict` asks for one access that all paths meet; with ours, different accesses on different paths do too.
//! - **Calls that may access.** A call is an access that ends pairs only if it accesses the variable on all its paths. A head
//!   at a call that need not access adds its slot to the others instead of taking their place.
//! - **Same strength is not weaker.** `INRelease` gives a lock back when another pair of the same head and the same type goes on;
//!   here the slot stays.
//! - **Writes take the lock exclusively**, also as the head or tail of a pair that lets others read: else two writers
//!   would both hold it for reading.
//! - **Single accesses** (the rules that the paper leaves out): each access to a variable that has pairs is a constraint of its own node,
//!   also a tail that can be reached without the lock.
//! - **An acquisition is left out** if a pair of the same variable must hold the lock there already, as strongly; the pair goes on under the
//!   slot of that one. It is also left out if every caller holds the lock.
//! - **Waits** (section 9) take our locks away, so nothing counts as held after one.
//!
//! Where a hook is coarser than an edge: what is given back on the edge into a node is given back on every edge into it. That costs a
//! test on the other edges and loses nothing, since a constraint that is not in the node's set is not needed however the node was reached.
//! [`Anchor`] says which hook that is. There is no hook right after an access: its release is done at the next event of the
//! thread, before anything else, and until then nothing can wait for another lock.
//!
//! Cost: for each function its flow's edges times the pairs that begin in it, as bits; callers that hold locks for their callees can
//! make a function be placed again, at most twice for each lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::bits::Bits;
use super::program::{Access, BlockId, Flow, FunctionId, Item, NodeId, Place, Program, VariableId};
use super::summaries::Summaries;

/// How an inserted lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Others may read.
    Read,
    /// Others may read, and this thread may go on to hold it exclusively: one thread at a time. See [`super::order`].
    Update,
    /// Nobody else.
    Exclusive,
}

impl Mode {
    /// All of them, ascending.
    pub const ALL: [Mode; 3] = [Mode::Read, Mode::Update, Mode::Exclusive];

    /// Whether two threads cannot have the lock in these modes at the same time.
    pub const fn conflicts(self, other: Mode) -> bool {
        match (self, other) {
            (Mode::Read, other) => matches!(other, Mode::Exclusive),
            (Mode::Update, other) => !matches!(other, Mode::Read),
            (Mode::Exclusive, _) => true,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Read => "read",
            Mode::Update => "update",
            Mode::Exclusive => "exclusive",
        })
    }
}

/// An inserted lock: the number of the variable that it is for, or the least of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InsertedId(pub u32);

/// A pair of points between which a variable must be left alone by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The function that both points are in.
    pub function: FunctionId,
    /// The variable.
    pub variable: VariableId,
    /// The first access, or the call that it is inside of.
    pub first: NodeId,
    /// The second.
    pub second: NodeId,
    /// Whether others must not even read.
    pub exclusive: bool,
}

impl Pair {
    fn mode(&self) -> Mode {
        if self.exclusive { Mode::Exclusive } else { Mode::Read }
    }
}

/// What a slot is for. One function has at most one slot of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The pairs of a variable that begin at a node, and the access there.
    Head(VariableId, NodeId),
    /// A lock that a node needs, taken ahead of others: see [`super::order`].
    Hoist(InsertedId, NodeId),
}

/// An acquisition of a lock ahead of where it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hoist {
    /// How it is needed.
    pub mode: Mode,
    /// Before which nodes it is taken.
    pub heads: BTreeSet<NodeId>,
    /// The nodes that it is held in, with the heads and the node that needs it.
    pub nodes: BTreeSet<NodeId>,
}

/// What is to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The pairs that are enforced.
    pub pairs: Vec<Pair>,
    /// The lock of each variable that has pairs.
    pub lock_of: BTreeMap<VariableId, InsertedId>,
    /// Acquisitions ahead of need, by function, lock and the node that needs it.
    pub hoists: BTreeMap<(FunctionId, InsertedId, NodeId), Hoist>,
    /// Slots that hold for update instead of reading.
    pub updates: BTreeSet<(FunctionId, Origin)>,
    /// Which of two locks that one node takes comes first: the lower. Those without a rank come last.
    pub rank: BTreeMap<InsertedId, u32>,
}

impl Wanted {
    /// Pairs, and a lock for each of their variables.
    pub fn new(mut pairs: Vec<Pair>) -> Wanted {
        pairs.sort_unstable();
        pairs.dedup();
        let lock_of = pairs.iter().map(|pair| (pair.variable, InsertedId(pair.variable.0))).collect();
        Wanted { pairs, lock_of, ..Wanted::default() }
    }

    /// Leaves out pairs, and the locks of variables that have none left.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Pair) -> bool) {
        self.pairs.retain(keep);
        let left: BTreeSet<VariableId> = self.pairs.iter().map(|pair| pair.variable).collect();
        self.lock_of.retain(|variable, _| left.contains(variable));
        let locks: BTreeSet<InsertedId> = self.lock_of.values().copied().collect();
        self.hoists.retain(|(_, lock, _), _| locks.contains(lock));
    }
}

/// The number of a slot in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

/// What is done before a node. The lock's state in a thread is, for each activation, its slots with their modes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// If the slot is held, it is given back (the paper's `?release`).
    Release(InsertedId, SlotId),
    /// If the slot is held, it is held in this weaker mode (the paper's `?degrade`).
    Degrade(InsertedId, SlotId, Mode),
    /// The lock is taken, or taken more strongly, or not again; then the slot is held.
    Acquire {
        /// The lock.
        lock: InsertedId,
        /// The slot.
        slot: SlotId,
        /// How.
        mode: Mode,
        /// Slots of this lock that are not needed any more; this one takes their place without a gap.
        absorbs: Vec<SlotId>,
    },
}

/// Which hook does an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anchor {
    /// Before an item of a block.
    Before(BlockId, u32),
    /// After an item of a block: at the thread's next event at the latest.
    After(BlockId, u32),
    /// On entry to a block, whichever way.
    Entry(BlockId),
    /// When the function is left.
    Exit,
}

/// Where an action before a node is done.
pub fn anchor(flow: &Flow, node: NodeId, action: &Action) -> Option<Anchor> {
    let takes = matches!(action, Action::Acquire { .. });
    Some(match flow.place(node)? {
        Place::Exit => Anchor::Exit,
        Place::Block(block) => Anchor::Entry(block),
        Place::Item(block, item) if takes => Anchor::Before(block, item),
        Place::Item(block, 0) => Anchor::Entry(block),
        Place::Item(block, item) => Anchor::After(block, item - 1),
    })
}

/// What a constraint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A pair.
    Pair,
    /// One access.
    Single,
    /// A hoisted acquisition.
    Hoist,
}

/// A lock that must be held on entry to some nodes: the paper's triple `⟨lᵢ, lⱼ, α⟩`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The slot that it keeps.
    pub slot: SlotId,
    /// Where it begins. A hoist has several.
    pub heads: Vec<NodeId>,
    /// Where it ends.
    pub tail: NodeId,
    /// How the lock must be held at least.
    pub mode: Mode,
    /// What for.
    pub reason: Reason,
    /// The pair, if it is for one.
    pub pair: Option<Pair>,
    nodes: Bits,
}

impl Constraint {
    /// Whether it holds on entry to a node.
    pub fn holds_at(&self, node: NodeId) -> bool {
        self.nodes.has(node.ix())
    }
}

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its lock.
    pub lock: InsertedId,
    /// What it is for.
    pub origin: Origin,
}

/// The placement in one function.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Its slots, by number.
    pub slots: Vec<Slot>,
    /// Its constraints; those that callers keep, and accesses that a pair keeps, are not among them.
    pub constraints: Vec<Constraint>,
    /// By node: what is done before it, in order.
    pub before: Vec<Vec<Action>>,
    /// By node: the slots that may be held in it, with their modes; by slot.
    pub(super) live: Vec<Vec<(SlotId, Mode)>>,
    /// The locks that every caller holds, with their modes.
    pub(super) from_callers: Callers,
    /// The nodes at which these are held still.
    pub(super) callers_hold: Bits,
    /// By node with a call: the modes in which locks are held in it on all paths.
    must: Vec<BTreeMap<InsertedId, Mode>>,
}

impl Placed {
    /// The mode of a slot in a node.
    pub(super) fn mode(&self, slot: SlotId, node: NodeId) -> Option<Mode> {
        mode_in(self.live.get(node.ix())?, slot)
    }

    /// What is known of the lock set of a node: figure 6's `lc`, without `NONE`.
    pub fn constraints_at(&self, node: NodeId) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(move |constraint| constraint.holds_at(node))
    }
}

/// The locks that all callers of a function hold. Nothing: it has not been called yet.
pub(super) type Callers = Option<BTreeMap<InsertedId, Mode>>;

/// The placement in a program.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// By function.
    pub functions: Vec<Placed>,
    /// Pairs whose second point no path reaches from the first without another access.
    pub impossible: Vec<Pair>,
}

impl Placement {
    /// How many acquisitions, releases and weakenings there are, by what they do: reads and updates, exclusives, releases, degrades.
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for action in self.functions.iter().flat_map(|placed| placed.before.iter().flatten()) {
            counts[match action {
                Action::Acquire { mode: Mode::Read | Mode::Update, .. } => 0,
                Action::Acquire { mode: Mode::Exclusive, .. } => 1,
                Action::Release(..) => 2,
                Action::Degrade(..) => 3,
            }] += 1;
        }
        counts
    }
}

/// Places locks.
pub fn place(program: &Program, wanted: &Wanted) -> Placement {
    place_with(program, &Summaries::new(program), wanted)
}

pub(super) fn place_with(program: &Program, summaries: &Summaries, wanted: &Wanted) -> Placement {
    let mut callers = called_from_nowhere(program);
    let mut functions = vec![Placed::default(); program.functions().len()];
    let mut stale = vec![true; program.functions().len()];
    let mut impossible = BTreeSet::new();
    let mut pairs: Vec<Vec<Pair>> = vec![Vec::new(); program.functions().len()];
    for pair in &wanted.pairs {
        match pairs.get_mut(pair.function.ix()) {
            Some(pairs) => pairs.push(*pair),
            None => {
                impossible.insert(*pair);
            }
        }
    }
    loop {
        while stale.contains(&true) {
            for &function in summaries.callees_first.iter().rev() {
                let known = callers[function.ix()].is_some();
                if !std::mem::replace(&mut stale[function.ix()], false) || !known {
                    continue;
                }
                let (flow, pairs) = (program.flow(function), &pairs[function.ix()]);
                let work = Work { program, summaries, wanted, pairs, function, flow };
                let (placed, pairs) = work.place(&callers[function.ix()]);
                impossible.extend(pairs);
                for node in work.flow.nodes() {
                    for target in program.targets(function, node) {
                        stale[target.ix()] |= meet(&mut callers[target.ix()], &placed.must[node.ix()]);
                    }
                }
                functions[function.ix()] = placed;
            }
        }
        // What only calls itself is called from somewhere that we do not see.
        let Some(lost) = callers.iter().position(Option::is_none) else { break };
        callers[lost] = Some(BTreeMap::new());
        stale[lost] = true;
    }
    Placement { functions, impossible: impossible.into_iter().collect() }
}

/// Functions without callers, or with some that we do not see, can rely on no lock.
fn called_from_nowhere(program: &Program) -> Vec<Callers> {
    let mut callers: Vec<Callers> = vec![Some(BTreeMap::new()); program.functions().len()];
    for function in program.function_ids() {
        for node in program.flow(function).nodes() {
            for target in program.targets(function, node) {
                callers[target.ix()] = None;
            }
        }
    }
    for (function, callers) in program.functions().iter().zip(&mut callers) {
        if function.called_from_outside {
            *callers = Some(BTreeMap::new());
        }
    }
    callers
}

/// Another caller; says whether it holds less than those before.
fn meet(callers: &mut Callers, held: &BTreeMap<InsertedId, Mode>) -> bool {
    match callers {
        None => {
            *callers = Some(held.clone());
            true
        }
        Some(known) => {
            let before = known.clone();
            known.retain(|lock, mode| {
                held.get(lock).is_some_and(|held| {
                    *mode = (*mode).min(*held);
                    true
                })
            });
            *known != before
        }
    }
}

fn mode_in(live: &[(SlotId, Mode)], slot: SlotId) -> Option<Mode> {
    live.binary_search_by_key(&slot, |(slot, _)| *slot).ok().map(|at| live[at].1)
}

/// The placement of one function.
struct Work<'a> {
    program: &'a Program,
    summaries: &'a Summaries,
    wanted: &'a Wanted,
    /// Those of the function.
    pairs: &'a [Pair],
    function: FunctionId,
    flow: &'a Flow,
}

impl Work<'_> {
    fn place(&self, callers: &Callers) -> (Placed, Vec<Pair>) {
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
