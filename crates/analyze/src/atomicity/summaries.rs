//! What calls of each function do, as far as placement and the order of locks need it.
//!
//! Each summary is a fixed point over the call graph, callees first: without recursion two rounds, with recursion as many as a chain of
//! calls is long. A round costs the flow's edges times one word for 64 variables or locks.
//!
//! *Revoking* nodes are those at which a thread can lose our locks (section 9): where it waits for another thread, and where it takes
//! a lock that somebody may hold who waits.

use std::collections::{BTreeMap, BTreeSet};

use super::bits::Bits;
use super::program::{FunctionId, Item, LockId, NodeId, Program, VariableId};

/// How deep a lock is held at most, against the entry of the function; 2 stands for more.
pub(super) type Depths = BTreeMap<LockId, i8>;

/// Past this a depth is not counted.
const DEEPEST: i8 = 2;

#[derive(Debug, Default)]
pub(super) struct Summaries {
    /// Functions, callees before callers as far as there is no recursion.
    pub(super) callees_first: Vec<FunctionId>,
    /// By function: the variables that it accesses on every path to its exit.
    must_access: Vec<Bits>,
    /// By function: how much deeper locks are held at its exit than at its entry, at most; nothing if it does not return.
    net: Vec<Option<Depths>>,
    /// By function: the locks that it may take.
    pub(super) takes: Vec<Bits>,
    /// By function: the locks that are given back while it waits; nothing for a wait without a lock.
    waits: Vec<BTreeSet<Option<LockId>>>,
    /// Locks that may be held by somebody who waits, himself or for such a lock.
    waited_under: BTreeSet<LockId>,
    /// By function: whether it has a revoking node, with all that it calls.
    revokes: Vec<bool>,
}

impl Summaries {
    pub(super) fn new(program: &Program) -> Summaries {
        let functions = program.functions().len();
        let [variables, locks] = [program.variables().len(), program.locks().len()];
        let mut summaries = Summaries {
            callees_first: callees_first(program),
            must_access: vec![Bits::none(variables); functions],
            net: vec![None; functions],
            takes: vec![Bits::none(locks); functions],
            waits: vec![BTreeSet::new(); functions],
            waited_under: BTreeSet::new(),
            revokes: vec![false; functions],
        };
        summaries.settle(|summaries, function| summaries.learn(program, function));
        let mut held = Vec::new();
        for function in program.function_ids() {
            held.push(summaries.held(program, function));
        }
        while summaries.spread_waits(program, &held) {}
        summaries.settle(|summaries, function| {
            let nodes = program.flow(function).nodes();
            let revokes = nodes.into_iter().any(|node| summaries.revoking(program, function, node));
            std::mem::replace(&mut summaries.revokes[function.ix()], revokes) != revokes
        });
        summaries
    }

    /// Repeats a step for every function until nothing changes.
    fn settle(&mut self, mut step: impl FnMut(&mut Summaries, FunctionId) -> bool) {
        let order = self.callees_first.clone();
        while order.iter().fold(false, |changed, &function| step(self, function) | changed) {}
    }

    fn learn(&mut self, program: &Program, function: FunctionId) -> bool {
        let mut changed = false;
        for node in program.flow(function).nodes() {
            match program.item(function, node) {
                Some(Item::Acquire(lock)) => changed |= self.takes[function.ix()].put(lock.ix()),
                Some(Item::Wait { lock, .. }) => changed |= self.waits[function.ix()].insert(*lock),
                Some(Item::Call { targets }) => {
                    for target in targets {
                        let takes = self.takes[target.ix()].clone();
                        changed |= self.takes[function.ix()].add(&takes);
                        let waits = self.waits[target.ix()].clone();
                        let known = self.waits[function.ix()].len();
                        self.waits[function.ix()].extend(waits);
                        changed |= known != self.waits[function.ix()].len();
                    }
                }
                _ => {}
            }
        }
        let must = self.accessed_on_all_paths(program, function);
        changed |= std::mem::replace(&mut self.must_access[function.ix()], must.clone()) != must;
        let exit = program.flow(function).exit();
        let depths = self.depths(program, function);
        let net = depths.get(exit.ix()).cloned().flatten();
        changed |= std::mem::replace(&mut self.net[function.ix()], net.clone()) != net;
        changed
    }

    /// Variables that every path from the entry to the exit accesses; all if there is no such path.
    fn accessed_on_all_paths(&self, program: &Program, function: FunctionId) -> Bits {
        let flow = program.flow(function);
        let variables = program.variables().len();
        let mut before = vec![Bits::all(variables); flow.len()];
        before[0].clear();
        let mut work: Vec<NodeId> = flow.nodes().collect();
        work.reverse();
        while let Some(node) = work.pop() {
            let mut after = before[node.ix()].clone();
            match program.item(function, node) {
                Some(Item::Access { variable, .. }) => {
                    after.put(variable.ix());
                }
                Some(Item::Call { targets }) => {
                    let mut all = Bits::all(variables);
                    for target in targets {
                        all.keep(&self.must_access[target.ix()]);
                    }
                    after.add(&all);
                }
                _ => {}
            }
            for &next in flow.next(node) {
                if before[next.ix()].keep(&after) {
                    work.push(next);
                }
            }
        }
        before.pop().unwrap_or_default()
    }

    /// Before each node: how deep locks are held at most, against the entry; nothing where the node is not reached.
    pub(super) fn depths(&self, program: &Program, function: FunctionId) -> Vec<Option<Depths>> {
        let flow = program.flow(function);
        let mut before: Vec<Option<Depths>> = vec![None; flow.len()];
        before[0] = Some(Depths::new());
        let mut work = vec![NodeId(0)];
        while let Some(node) = work.pop() {
            let Some(mut after) = before[node.ix()].clone() else { continue };
            if !self.deepen(program, function, node, &mut after) {
                continue;
            }
            for &next in flow.next(node) {
                let changed = match &mut before[next.ix()] {
                    Some(known) => join(known, &after),
                    none => {
                        *none = Some(after.clone());
                        true
                    }
                };
                if changed {
                    work.push(next);
                }
            }
        }
        before
    }

    /// What a node does to the depths. Says whether it is ever left.
    fn deepen(&self, program: &Program, function: FunctionId, node: NodeId, depths: &mut Depths) -> bool {
        match program.item(function, node) {
            Some(Item::Acquire(lock)) => step(depths, *lock, 1),
            Some(Item::Release(lock)) => step(depths, *lock, -1),
            Some(Item::Call { targets }) => match self.call_net(targets) {
                Some(net) => net.into_iter().for_each(|(lock, by)| step(depths, lock, by)),
                None => return false,
            },
            _ => {}
        }
        true
    }

    /// How much deeper locks are held after a call, at most; nothing if it does not return.
    fn call_net(&self, targets: &[FunctionId]) -> Option<Depths> {
        let nets = targets.iter().filter_map(|target| self.net[target.ix()].clone());
        nets.reduce(|mut all, net| {
            join(&mut all, &net);
            all
        })
    }

    /// The locks that a node takes and leaves held, and those that it gives back for good; `depth` is how deep they are held
    /// before it.
    pub(super) fn changes(
        &self,
        program: &Program,
        (function, node): (FunctionId, NodeId),
        depths: &Depths,
    ) -> (Vec<LockId>, Vec<LockId>) {
        let by = match program.item(function, node) {
            Some(Item::Acquire(lock)) => Depths::from([(*lock, 1)]),
            Some(Item::Release(lock)) => Depths::from([(*lock, -1)]),
            Some(Item::Call { targets }) => self.call_net(targets).unwrap_or_default(),
            _ => return Default::default(),
        };
        let mut after = depths.clone();
        self.deepen(program, function, node, &mut after);
        let taken = by.iter().filter(|(_, by)| **by > 0).map(|(lock, _)| *lock).collect();
        let given = by.iter().filter(|(lock, by)| **by < 0 && after.get(lock).is_none_or(|depth| *depth <= 0));
        (taken, given.map(|(lock, _)| *lock).collect())
    }

    /// Before each node: the locks that the function itself may have taken and not given back.
    fn held(&self, program: &Program, function: FunctionId) -> Vec<Bits> {
        let flow = program.flow(function);
        let depths = self.depths(program, function);
        let mut before = vec![Bits::none(program.locks().len()); flow.len()];
        let mut work: Vec<NodeId> = flow.nodes().collect();
        while let Some(node) = work.pop() {
            let Some(depth) = &depths[node.ix()] else { continue };
            let (taken, given) = self.changes(program, (function, node), depth);
            let mut after = before[node.ix()].clone();
            given.iter().for_each(|lock| after.take(lock.ix()));
            for lock in taken {
                after.put(lock.ix());
            }
            for &next in flow.next(node) {
                if before[next.ix()].add(&after) {
                    work.push(next);
                }
            }
        }
        before
    }

    /// Adds locks that are held where somebody waits, or takes a lock that is held where somebody waits.
    fn spread_waits(&mut self, program: &Program, held: &[Vec<Bits>]) -> bool {
        let known = self.waited_under.len();
        for function in program.function_ids() {
            for node in program.flow(function).nodes() {
                for lock in held[function.ix()][node.ix()].iter(program.locks().len()) {
                    let lock = LockId(lock as u32);
                    let waits = |given: &Option<LockId>| *given != Some(lock) || !program.locks()[lock.ix()].single;
                    let waits = match program.item(function, node) {
                        Some(Item::Wait { lock, .. }) => waits(lock),
                        Some(Item::Acquire(next)) => *next != lock && self.waited_under.contains(next),
                        Some(Item::Call { targets }) => targets.iter().any(|target| {
                            let takes = &self.takes[target.ix()];
                            self.waits[target.ix()].iter().any(waits)
                                || self.waited_under.iter().any(|next| *next != lock && takes.has(next.ix()))
                        }),
                        _ => false,
                    };
                    if waits {
                        self.waited_under.insert(lock);
                    }
                }
            }
        }
        known != self.waited_under.len()
    }

    /// Whether a node accesses a variable whenever it is passed.
    pub(super) fn must_access(&self, program: &Program, at: (FunctionId, NodeId), variable: VariableId) -> bool {
        match program.item(at.0, at.1) {
            Some(Item::Access { variable: this, .. }) => *this == variable,
            Some(Item::Call { targets }) => targets.iter().all(|f| self.must_access[f.ix()].has(variable.ix())),
            _ => false,
        }
    }

    /// Whether a thread can lose our locks at a node.
    pub(super) fn revoking(&self, program: &Program, function: FunctionId, node: NodeId) -> bool {
        match program.item(function, node) {
            Some(Item::Wait { .. }) => true,
            Some(Item::Acquire(lock)) => self.waited_under.contains(lock),
            Some(Item::Call { targets }) => targets.iter().any(|target| self.revokes[target.ix()]),
            _ => false,
        }
    }
}

fn step(depths: &mut Depths, lock: LockId, by: i8) {
    let depth = depths.entry(lock).or_insert(0);
    if *depth < DEEPEST || by > 0 {
        *depth = (*depth + by).clamp(-DEEPEST, DEEPEST);
    }
    if *depth == 0 {
        depths.remove(&lock);
    }
}

/// The larger depth of each lock; says whether something grew.
fn join(known: &mut Depths, other: &Depths) -> bool {
    let before = known.clone();
    for (lock, depth) in known.iter_mut() {
        *depth = (*depth).max(other.get(lock).copied().unwrap_or(0));
    }
    for (lock, depth) in other {
        if *depth > 0 {
            known.entry(*lock).or_insert(*depth);
        }
    }
    known.retain(|_, depth| *depth != 0);
    *known != before
}

fn callees_first(program: &Program) -> Vec<FunctionId> {
    let mut order = Vec::new();
    let mut seen = vec![false; program.functions().len()];
    for root in program.function_ids() {
        let mut stack = vec![(root, false)];
        while let Some((function, done)) = stack.pop() {
            if done {
                order.push(function);
            } else if !std::mem::replace(&mut seen[function.ix()], true) {
                stack.push((function, true));
                for node in program.flow(function).nodes() {
                    stack.extend(program.targets(function, node).iter().map(|&target| (target, false)));
                }
            }
        }
    }
    order
}
