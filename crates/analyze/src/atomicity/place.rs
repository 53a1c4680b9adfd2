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
use std::sync::Arc;

use super::bits::Bits;
use super::program::{BlockId, Flow, FunctionId, NodeId, Place, Program, VariableId};
use super::rules::{Work, mode_in};
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
    pub(super) fn mode(&self) -> Mode {
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
    pub(super) nodes: Bits,
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
    pub(super) must: Vec<BTreeMap<InsertedId, Mode>>,
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
    /// By function. One that a change of what is wanted did not touch is the same as before.
    pub functions: Vec<Arc<Placed>>,
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
    Placer::new(program, &Summaries::new(program)).place(wanted)
}

/// A function that was placed: for which callers, how, and the pairs that no path allows.
type Known = (Callers, Arc<Placed>, Vec<Pair>);

/// Places again and again, each time only what a change of what is wanted touches.
pub(super) struct Placer<'a> {
    program: &'a Program,
    summaries: &'a Summaries,
    /// By function: the variables that it accesses.
    accessed: Vec<BTreeSet<VariableId>>,
    /// By function: what it is placed for, and how, for the callers that it was placed for.
    known: Vec<(Inputs, Vec<Known>)>,
    /// Steps that were made.
    pub(super) work: u64,
}

/// What a function's placement depends on, beside its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inputs {
    pairs: Vec<Pair>,
    locks: BTreeMap<VariableId, (InsertedId, Option<u32>)>,
    hoists: Vec<(InsertedId, NodeId, Hoist, Option<u32>)>,
    updates: BTreeSet<Origin>,
}

impl<'a> Placer<'a> {
    pub(super) fn new(program: &'a Program, summaries: &'a Summaries) -> Placer<'a> {
        let of = |function| {
            let items = program.flow(function).nodes().filter_map(move |node| program.item(function, node));
            let accessed = items.filter_map(|item| match item {
                super::program::Item::Access { variable, .. } => Some(*variable),
                _ => None,
            });
            accessed.collect()
        };
        let accessed = program.function_ids().map(of).collect();
        let known = vec![Default::default(); program.functions().len()];
        Placer { program, summaries, accessed, known, work: 0 }
    }

    /// By function: what it depends on.
    fn inputs(&self, wanted: &Wanted) -> Vec<Inputs> {
        let mut all: Vec<Inputs> = vec![Inputs::default(); self.program.functions().len()];
        for pair in &wanted.pairs {
            if let Some(inputs) = all.get_mut(pair.function.ix()) {
                inputs.pairs.push(*pair);
            }
        }
        for ((function, lock, node), hoist) in &wanted.hoists {
            if let Some(inputs) = all.get_mut(function.ix()) {
                inputs.hoists.push((*lock, *node, hoist.clone(), wanted.rank.get(lock).copied()));
            }
        }
        for (function, origin) in &wanted.updates {
            if let Some(inputs) = all.get_mut(function.ix()) {
                inputs.updates.insert(*origin);
            }
        }
        for (inputs, accessed) in all.iter_mut().zip(&self.accessed) {
            let paired: BTreeSet<VariableId> = inputs.pairs.iter().map(|pair| pair.variable).collect();
            for variable in accessed.union(&paired) {
                if let Some(lock) = wanted.lock_of.get(variable) {
                    inputs.locks.insert(*variable, (*lock, wanted.rank.get(lock).copied()));
                }
            }
        }
        all
    }

    /// The placement of what is wanted.
    pub(super) fn place(&mut self, wanted: &Wanted) -> Placement {
        let Placer { program, summaries, .. } = *self;
        let count = program.functions().len();
        let inputs = self.inputs(wanted);
        for (known, inputs) in self.known.iter_mut().zip(inputs) {
            if known.0 != inputs {
                *known = (inputs, Vec::new());
            }
        }
        let mut callers = called_from_nowhere(program);
        let mut functions: Vec<Arc<Placed>> = (0..count).map(|_| Arc::default()).collect();
        let mut stale = vec![true; count];
        let mut impossible: BTreeSet<Pair> =
            wanted.pairs.iter().filter(|pair| pair.function.ix() >= count).copied().collect();
        loop {
            while stale.contains(&true) {
                for &function in summaries.callees_first.iter().rev() {
                    let known = callers[function.ix()].is_some();
                    if !std::mem::replace(&mut stale[function.ix()], false) || !known {
                        continue;
                    }
                    let (placed, pairs) = self.one(wanted, function, &callers[function.ix()]);
                    impossible.extend(pairs);
                    for node in program.flow(function).nodes() {
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

    /// The placement of a function, if need be.
    fn one(&mut self, wanted: &Wanted, function: FunctionId, callers: &Callers) -> (Arc<Placed>, Vec<Pair>) {
        let (inputs, known) = &mut self.known[function.ix()];
        if let Some((_, placed, pairs)) = known.iter().find(|(of, ..)| of == callers) {
            return (Arc::clone(placed), pairs.clone());
        }
        let (program, summaries, flow) = (self.program, self.summaries, self.program.flow(function));
        let work = Work { program, summaries, wanted, pairs: &inputs.pairs, function, flow };
        let (placed, pairs) = work.place(callers);
        self.work += (flow.len() * (placed.slots.len() + 1)) as u64;
        let placed = Arc::new(placed);
        known.push((callers.clone(), Arc::clone(&placed), pairs.clone()));
        (placed, pairs)
    }
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
