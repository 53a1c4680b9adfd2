//! Runs abstract programs, one thread at a time, in an order that somebody chooses or in every order.
//!
//! It checks placements: which results a program has, whether it can stand still, and whether a pair was broken. Reads fold
//! memory into a thread's register, writes put the register into memory, so that results tell orders apart; branches take what the
//! thread was given as its input, or ask the register.
//!
//! A step is what others can see: an access, taking a lock, a wait, a signal. What follows up to the next such thing is done with it;
//! giving locks back earlier only lets others do more, so no order of what can be seen is lost.
//!
//! Cost: exploring is exponential in threads; each state is visited once.

use std::collections::{BTreeSet, HashSet};

use super::enforced::EnforcedLocks;
use super::place::{Action, Pair, Placement};
use super::profile::{Frame, Hold};
use super::program::{Access, FunctionId, Item, LockId, NodeId, Program, VariableId};

/// How a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// To this of the next nodes, counted round.
    Fixed(u8),
    /// To the one that the register says.
    ByValue,
}

/// A thread's beginning and its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Where it begins.
    pub function: FunctionId,
    /// How its branches go, in turn; after the last, the shortest way out.
    pub choices: Vec<Choice>,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    program: &'a Program,
    placement: Option<&'a Placement>,
    starts: &'a [Start],
    /// Pairs that must not be broken.
    watched: &'a [Pair],
    /// By function and node: the next node on a shortest way out, as a number among the next nodes.
    way_out: Vec<Vec<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Active {
    function: FunctionId,
    node: NodeId,
    activation: u64,
    /// Whether the thread has lost its locks since it came to the node.
    lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    stack: Vec<Active>,
    /// How many of the actions before the node are done.
    done: usize,
    /// Whether the wait at the node has begun.
    waiting: bool,
    choices: usize,
    activations: u64,
    register: u8,
    /// By variable.
    last: Vec<Option<LastAccess>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LastAccess {
    context: Vec<Frame>,
    /// By frame: whether the thread had lost its locks since it came to the node there, or has lost them since.
    excused: Vec<bool>,
    /// The strongest access of another thread since.
    remote: Option<Access>,
}

/// A state of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    threads: Vec<Thread>,
    memory: Vec<u8>,
    /// By lock: who has it, how many times, and how often it was taken.
    owners: Vec<(Option<usize>, u32, u64)>,
    signalled: Vec<bool>,
    inserted: EnforcedLocks,
    leaked: bool,
}

/// What a run leaves behind: memory, and each thread's register.
pub type Outcome = (Vec<u8>, Vec<u8>);

/// An access that a step made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// To which variable.
    pub variable: VariableId,
    /// By which thread.
    pub thread: usize,
    /// What it did.
    pub access: Access,
    /// The active functions; labels are [`NodeId`]s.
    pub context: Vec<Frame>,
    /// Their functions.
    pub functions: Vec<FunctionId>,
    /// The program's locks that the thread held.
    pub holds: Vec<Hold>,
    /// A watched pair that others came between.
    pub broke: Option<Pair>,
}

impl<'a> Machine<'a> {
    /// A program with its threads, and the locks of a placement.
    pub fn new(program: &'a Program, starts: &'a [Start], placement: Option<&'a Placement>) -> Machine<'a> {
        let way_out = program.function_ids().map(|function| way_out(program, function)).collect();
        Machine { program, placement, starts, watched: &[], way_out }
    }

    /// Watches pairs.
    pub fn watch(self, watched: &'a [Pair]) -> Machine<'a> {
        Machine { watched, ..self }
    }

    /// The beginning.
    pub fn start(&self) -> State {
        let threads = self.starts.iter().map(|start| Thread {
            stack: vec![Active { function: start.function, node: NodeId(0), activation: 0, lost: false }],
            done: 0,
            waiting: false,
            choices: 0,
            activations: 0,
            register: 0,
            last: vec![None; self.program.variables().len()],
        });
        let mut state = State {
            threads: threads.collect(),
            memory: vec![0; self.program.variables().len()],
            owners: vec![(None, 0, 0); self.program.locks().len()],
            signalled: vec![false; self.program.conditions() as usize],
            inserted: EnforcedLocks::default(),
            leaked: false,
        };
        for thread in 0..state.threads.len() {
            self.go_on(&mut state, thread);
        }
        state
    }

    /// The threads that can make a step.
    pub fn enabled(&self, state: &State) -> Vec<usize> {
        (0..state.threads.len()).filter(|&thread| self.can_step(state, thread)).collect()
    }

    fn can_step(&self, state: &State, thread: usize) -> bool {
        match self.pending(state, thread) {
            Pending::Nothing => false,
            Pending::Insert(Action::Acquire { lock, mode, .. }) => {
                let blockers = state.inserted.in_the_way(*lock, thread, *mode);
                blockers.into_iter().all(|blocker| self.waits_for_a_thread(state, blocker))
            }
            Pending::Insert(_) => true,
            Pending::Item(Item::Acquire(lock)) => free(state, *lock, thread),
            Pending::Item(Item::Wait { condition, lock }) if state.threads[thread].waiting => {
                state.signalled[condition.ix()] && lock.is_none_or(|lock| free(state, lock, thread))
            }
            Pending::Item(_) => true,
        }
    }

    /// Whether a thread waits otherwise than for a lock, itself or through locks of the program.
    fn waits_for_a_thread(&self, state: &State, mut thread: usize) -> bool {
        for _ in 0..state.threads.len() {
            let wanted = match self.pending(state, thread) {
                Pending::Item(Item::Wait { condition, lock }) if state.threads[thread].waiting => {
                    if !state.signalled[condition.ix()] {
                        return true;
                    }
                    *lock
                }
                Pending::Item(Item::Acquire(lock)) => Some(*lock),
                _ => None,
            };
            match wanted.and_then(|lock| state.owners[lock.ix()].0) {
                Some(owner) if owner != thread => thread = owner,
                _ => return false,
            }
        }
        false
    }

    /// What a thread does next that others can see.
    fn pending<'s>(&'s self, state: &State, thread: usize) -> Pending<'s> {
        let of = &state.threads[thread];
        let Some(top) = of.stack.last() else { return Pending::Nothing };
        if let Some(action) = self.actions(top).get(of.done) {
            return Pending::Insert(action);
        }
        self.program.item(top.function, top.node).map_or(Pending::Nothing, Pending::Item)
    }

    fn actions(&self, at: &Active) -> &[Action] {
        let placed = self.placement.and_then(|placement| placement.functions.get(at.function.ix()));
        placed.and_then(|placed| placed.before.get(at.node.ix())).map_or(&[], Vec::as_slice)
    }

    /// A step of a thread that can make one. Gives the access that it made.
    pub fn step(&self, state: &mut State, thread: usize) -> Option<Touched> {
        let mut touched = None;
        match self.pending(state, thread) {
            Pending::Nothing => return None,
            Pending::Insert(action) => self.insert(state, thread, action),
            Pending::Item(item) => match item {
                Item::Access { variable, access } => {
                    touched = Some(self.access(state, thread, *variable, *access));
                    self.pass(state, thread);
                }
                Item::Acquire(lock) => {
                    take(state, *lock, thread);
                    self.pass(state, thread);
                }
                Item::Signal(condition) => {
                    state.signalled[condition.ix()] = true;
                    self.pass(state, thread);
                }
                Item::Wait { condition, lock } => {
                    if state.threads[thread].waiting {
                        state.threads[thread].waiting = false;
                        lock.iter().for_each(|lock| take(state, *lock, thread));
                        self.pass(state, thread);
                    } else if state.signalled[condition.ix()] {
                        self.pass(state, thread);
                    } else {
                        state.threads[thread].waiting = true;
                        lock.iter().for_each(|lock| give(state, *lock, thread));
                        self.revoke(state, thread);
                        return None;
                    }
                }
                Item::Call { .. } | Item::Release(_) => {}
            },
        }
        self.go_on(state, thread);
        touched
    }

    fn revoke(&self, state: &mut State, thread: usize) {
        state.inserted.revoke(thread);
        let of = &mut state.threads[thread];
        of.stack.iter_mut().for_each(|active| active.lost = true);
        of.last.iter_mut().flatten().for_each(|last| last.excused.fill(true));
    }

    fn insert(&self, state: &mut State, thread: usize, action: &Action) {
        let depth = state.threads[thread].stack.len();
        match action {
            Action::Release(lock, slot) => state.inserted.release(*lock, thread, depth, *slot),
            Action::Degrade(lock, slot, mode) => state.inserted.degrade(*lock, thread, depth, *slot, *mode),
            Action::Acquire { lock, slot, mode, absorbs } => {
                for blocker in state.inserted.in_the_way(*lock, thread, *mode) {
                    self.revoke(state, blocker);
                }
                state.inserted.acquire((*lock, thread), (depth, *slot), *mode, absorbs);
            }
        }
        state.threads[thread].done += 1;
    }

    /// Does what others cannot see, up to what they can.
    fn go_on(&self, state: &mut State, thread: usize) {
        loop {
            let Some(top) = state.threads[thread].stack.last().cloned() else { return };
            match self.pending(state, thread) {
                Pending::Insert(Action::Acquire { lock, mode, .. }) if !state.inserted.has(*lock, thread, *mode) => {
                    return;
                }
                Pending::Insert(action) => self.insert(state, thread, action),
                Pending::Item(Item::Release(lock)) => {
                    give(state, *lock, thread);
                    self.pass(state, thread);
                }
                Pending::Item(Item::Call { targets }) => {
                    let number = if targets.len() > 1 { self.choose(state, thread, targets.len(), 0) } else { 0 };
                    let Some(&function) = targets.get(number) else { return };
                    let of = &mut state.threads[thread];
                    of.activations += 1;
                    of.stack.push(Active { function, node: NodeId(0), activation: of.activations, lost: false });
                    of.done = 0;
                }
                Pending::Item(_) => return,
                Pending::Nothing if top.node == self.program.flow(top.function).exit() => {
                    let depth = state.threads[thread].stack.len();
                    state.leaked |= state.inserted.leave(thread, depth);
                    state.threads[thread].stack.pop();
                    if state.threads[thread].stack.is_empty() {
                        return;
                    }
                    // The call is done; its own actions were done before it.
                    self.pass(state, thread);
                }
                Pending::Nothing => self.pass(state, thread),
            }
        }
    }

    /// Leaves a node for the next.
    fn pass(&self, state: &mut State, thread: usize) {
        let Some(top) = state.threads[thread].stack.last().cloned() else { return };
        let next = self.program.flow(top.function).next(top.node);
        let number = match next.len() {
            0 => return,
            1 => 0,
            count => self.choose(state, thread, count, self.way_out[top.function.ix()][top.node.ix()]),
        };
        let of = &mut state.threads[thread];
        of.done = 0;
        if let Some(top) = of.stack.last_mut() {
            top.node = next[number];
            top.lost = false;
        }
    }

    fn choose(&self, state: &mut State, thread: usize, count: usize, at_last: usize) -> usize {
        let of = &mut state.threads[thread];
        let choice = self.starts[thread].choices.get(of.choices);
        of.choices += usize::from(choice.is_some());
        match choice {
            Some(Choice::Fixed(number)) => usize::from(*number) % count,
            Some(Choice::ByValue) => usize::from(of.register) % count,
            None => at_last,
        }
    }

    fn access(&self, state: &mut State, thread: usize, variable: VariableId, access: Access) -> Touched {
        let of = &state.threads[thread];
        let frames = of.stack.iter().map(|active| Frame { activation: active.activation, label: active.node.0 });
        let context: Vec<Frame> = frames.collect();
        let functions: Vec<FunctionId> = of.stack.iter().map(|active| active.function).collect();
        let excused: Vec<bool> = of.stack.iter().map(|active| active.lost).collect();
        let broke = of.last[variable.ix()].as_ref().and_then(|last| self.broken(last, variable, &context, &functions));
        let holds = state.owners.iter().enumerate().filter(|(_, owner)| owner.0 == Some(thread));
        let holds = holds.map(|(lock, owner)| Hold { class: lock as u32, object: lock as u64, number: owner.2 });
        let holds = holds.collect();
        let memory = &mut state.memory[variable.ix()];
        let of = &mut state.threads[thread];
        match access {
            Access::Read => of.register = (of.register.wrapping_mul(5) + *memory + 1) % 11,
            Access::Write => {
                let site = context.last().map_or(0, |frame| frame.label as u8);
                *memory = (of.register + site.wrapping_mul(3) % 11 + thread as u8) % 11;
            }
        }
        for (number, other) in state.threads.iter_mut().enumerate() {
            let last = &mut other.last[variable.ix()];
            if number == thread {
                *last = Some(LastAccess { context: context.clone(), excused: excused.clone(), remote: None });
            } else if let Some(last) = last {
                last.remote = last.remote.max(Some(access));
            }
        }
        Touched { variable, thread, access, context, functions, holds, broke }
    }

    /// The watched pair that others came between, if there is one.
    fn broken(
        &self,
        last: &LastAccess,
        variable: VariableId,
        context: &[Frame],
        functions: &[FunctionId],
    ) -> Option<Pair> {
        let remote = last.remote?;
        let shared = last.context.iter().zip(context).take_while(|(a, b)| a.activation == b.activation).count();
        let at = shared.checked_sub(1).filter(|at| last.excused.get(*at) == Some(&false))?;
        let (first, second) = (NodeId(last.context.get(at)?.label), NodeId(context.get(at)?.label));
        let function = *functions.get(at)?;
        self.watched.iter().copied().find(|pair| {
            (pair.function, pair.variable, pair.first, pair.second) == (function, variable, first, second)
                && (pair.exclusive || remote == Access::Write)
        })
    }

    /// What is left when all threads have ended; nothing while one has not.
    pub fn outcome(&self, state: &State) -> Option<Outcome> {
        state
            .threads
            .iter()
            .all(|thread| thread.stack.is_empty())
            .then(|| (state.memory.clone(), state.threads.iter().map(|thread| thread.register).collect()))
    }

    /// Runs to the end, or until nobody can go on. `choose` is given the threads that can make a step, at least one, and names one of
    /// them by its place.
    pub fn run(&self, mut choose: impl FnMut(&[usize]) -> usize) -> (Vec<Touched>, State) {
        let mut state = self.start();
        let mut touched = Vec::new();
        loop {
            let enabled = self.enabled(&state);
            if enabled.is_empty() {
                return (touched, state);
            }
            let thread = enabled[choose(&enabled) % enabled.len()];
            touched.extend(self.step(&mut state, thread));
        }
    }

    /// Runs in every order, up to `limit` states.
    pub fn explore(&self, limit: usize) -> Exploration {
        let mut found = Exploration { complete: true, ..Exploration::default() };
        let start = self.start();
        let mut seen = HashSet::from([start.clone()]);
        let mut work = vec![(start, Vec::new())];
        while let Some((state, schedule)) = work.pop() {
            let enabled = self.enabled(&state);
            if enabled.is_empty() {
                match self.outcome(&state) {
                    Some(outcome) => {
                        let kept = !state.inserted.is_free() || state.leaked;
                        found.leaked |= kept;
                        found.outcomes.insert(outcome);
                    }
                    None => {
                        found.stuck.get_or_insert(schedule);
                    }
                }
                continue;
            }
            for thread in enabled {
                let mut next = state.clone();
                let touched = self.step(&mut next, thread);
                let mut schedule = schedule.clone();
                schedule.push(thread);
                if let Some(pair) = touched.and_then(|touched| touched.broke) {
                    found.broken.get_or_insert((pair, schedule.clone()));
                }
                if seen.len() >= limit {
                    found.complete = false;
                } else if seen.insert(next.clone()) {
                    work.push((next, schedule));
                }
            }
        }
        found.states = seen.len();
        found
    }
}

/// What running in every order showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// What runs left behind.
    pub outcomes: BTreeSet<Outcome>,
    /// A schedule after which nobody can go on and not all have ended.
    pub stuck: Option<Vec<usize>>,
    /// A watched pair that others came between, and the schedule.
    pub broken: Option<(Pair, Vec<usize>)>,
    /// Whether an inserted lock was held when its function or thread had ended.
    pub leaked: bool,
    /// Whether all states were visited.
    pub complete: bool,
    /// How many.
    pub states: usize,
}

enum Pending<'a> {
    Nothing,
    Insert(&'a Action),
    Item(&'a Item),
}

fn free(state: &State, lock: LockId, thread: usize) -> bool {
    state.owners[lock.ix()].0.is_none_or(|owner| owner == thread)
}

fn take(state: &mut State, lock: LockId, thread: usize) {
    let (owner, depth, number) = &mut state.owners[lock.ix()];
    *owner = Some(thread);
    *depth += 1;
    *number += u64::from(*depth == 1);
}

fn give(state: &mut State, lock: LockId, thread: usize) {
    let (owner, depth, _) = &mut state.owners[lock.ix()];
    if *owner == Some(thread) {
        *depth -= 1;
        if *depth == 0 {
            *owner = None;
        }
    }
}

/// By node: which of its next nodes is nearest to the exit.
fn way_out(program: &Program, function: FunctionId) -> Vec<usize> {
    let flow = program.flow(function);
    let mut distance = vec![usize::MAX; flow.len()];
    distance[flow.exit().ix()] = 0;
    let mut work = std::collections::VecDeque::from([flow.exit()]);
    while let Some(node) = work.pop_front() {
        for before in flow.before(node) {
            if distance[before.ix()] == usize::MAX {
                distance[before.ix()] = distance[node.ix()] + 1;
                work.push_back(*before);
            }
        }
    }
    let nearest = |node: NodeId| {
        let next = flow.next(node).iter().enumerate();
        next.min_by_key(|(_, next)| distance[next.ix()]).map_or(0, |(number, _)| number)
    };
    flow.nodes().map(nearest).collect()
}
