//! Random programs in every order: what the locks promise.
//!
//! Programs have locks, conditions, calls (direct and indirect), loops and early returns; their pairs are any two points. With the
//! locks, wherever the original cannot stand still, neither can the enforced program; no enforced pair is broken; every result is
//! a result of the original.
//!
//! `ATOMICITY_CASES=20000 ATOMICITY_SEED=7` looks at other cases, and more of them; with `--release` that takes minutes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

use super::super::bind::bind;
use super::super::interpret::{Choice, Machine, Start};
use super::super::order::{Resolved, resolve};
use super::super::place::{Pair, Wanted, place};
use super::super::profile::{Frame, Learner, Profile, ProfileNames, Touch};
use super::super::program::{
    Access, Block, BlockId, ConditionId, Function, FunctionId, Item, LockClass, LockId, NodeId, Program, VariableId,
};

const VARIABLES: u32 = 2;
const LOCKS: u32 = 2;
const FUNCTIONS: u32 = 4;
const CONDITIONS: u32 = 2;
/// States past which a case is passed over.
const STATES: usize = 30_000;

/// A statement; blocks are made from these.
#[derive(Clone, Debug)]
enum Statement {
    Access(u32, bool),
    Call(u32),
    Either(u32, u32),
    Locked(u32, Vec<Statement>),
    If(Vec<Statement>, Vec<Statement>),
    Loop(Vec<Statement>),
    Return,
    Wait(u32, bool),
    Signal(u32),
    /// A call of any function, which the input must ask for: recursion ends.
    Perhaps(u32),
    /// A lock that is taken here and given back elsewhere, or not at all.
    Take(u32),
    Give(u32),
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let access = || (0..VARIABLES, any::<bool>()).prop_map(|(variable, writes)| Statement::Access(variable, writes));
    let leaf = prop_oneof![
        8 => access(),
        3 => (0..FUNCTIONS).prop_map(Statement::Call),
        1 => (0..FUNCTIONS, 0..FUNCTIONS).prop_map(|(a, b)| Statement::Either(a, b)),
        1 => Just(Statement::Return),
        1 => (0..CONDITIONS, any::<bool>()).prop_map(|(condition, lock)| Statement::Wait(condition, lock)),
        2 => (0..CONDITIONS).prop_map(Statement::Signal),
        1 => (0..FUNCTIONS).prop_map(Statement::Perhaps),
        1 => (0..LOCKS).prop_map(Statement::Take),
        1 => (0..LOCKS).prop_map(Statement::Give),
    ];
    let body = prop::collection::vec(leaf, 1..4);
    body.prop_recursive(3, 8, 3, move |inner| {
        let statement = prop_oneof![
            4 => access(),
            3 => (0..LOCKS, inner.clone()).prop_map(|(lock, body)| Statement::Locked(lock, body)),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Statement::If(a, b)),
            1 => inner.prop_map(Statement::Loop),
        ];
        prop::collection::vec(statement, 1..4)
    })
}

/// Makes the blocks of a function.
struct Builder {
    number: u32,
    blocks: Vec<Block>,
    held: Vec<u32>,
}

impl Builder {
    fn function(number: u32, body: &[Statement], root: bool) -> Function {
        let mut builder = Builder { number, blocks: vec![Block::default()], held: Vec::new() };
        builder.add(0, body);
        Function { name: format!("f{number}"), blocks: builder.blocks, called_from_outside: root }
    }

    fn block(&mut self) -> usize {
        self.blocks.push(Block::default());
        self.blocks.len() - 1
    }

    fn put(&mut self, at: usize, item: Item) {
        self.blocks[at].items.push(item);
    }

    fn go(&mut self, from: usize, to: usize) {
        self.blocks[from].next.push(BlockId(to as u32));
    }

    /// Adds statements to a block; gives the block that they end in, or nothing if they return.
    fn add(&mut self, mut at: usize, body: &[Statement]) -> Option<usize> {
        for statement in body {
            match statement {
                Statement::Access(variable, writes) => {
                    let access = if *writes { Access::Write } else { Access::Read };
                    self.put(at, Item::Access { variable: VariableId(*variable), access });
                }
                // Only later functions are called: no recursion, every run ends.
                Statement::Call(to) => self.call(at, &[*to]),
                Statement::Either(a, b) => self.call(at, &[*a, *b]),
                Statement::Locked(lock, body) => {
                    if self.held.contains(lock) {
                        at = self.add(at, body)?;
                        continue;
                    }
                    self.put(at, Item::Acquire(LockId(*lock)));
                    self.held.push(*lock);
                    let end = self.add(at, body);
                    self.held.pop();
                    at = end?;
                    self.put(at, Item::Release(LockId(*lock)));
                }
                Statement::If(a, b) => {
                    let [first, second, end] = [self.block(), self.block(), self.block()];
                    self.go(at, first);
                    self.go(at, second);
                    let ends = [self.add(first, a), self.add(second, b)];
                    ends.iter().flatten().for_each(|from| self.go(*from, end));
                    if ends == [None, None] {
                        return None;
                    }
                    at = end;
                }
                Statement::Loop(body) => {
                    let [head, inside, end] = [self.block(), self.block(), self.block()];
                    self.go(at, head);
                    self.go(head, inside);
                    self.go(head, end);
                    if let Some(from) = self.add(inside, body) {
                        self.go(from, head);
                    }
                    at = end;
                }
                Statement::Return => {
                    for lock in self.held.clone().into_iter().rev() {
                        self.put(at, Item::Release(LockId(lock)));
                    }
                    return None;
                }
                Statement::Wait(condition, with_lock) => {
                    let lock = self.held.last().filter(|_| *with_lock).map(|lock| LockId(*lock));
                    self.put(at, Item::Wait { condition: ConditionId(*condition), lock });
                }
                Statement::Signal(condition) => self.put(at, Item::Signal(ConditionId(*condition))),
                Statement::Perhaps(to) => {
                    // The shortest way out is the first of two of the same length.
                    let [past, call, end] = [self.block(), self.block(), self.block()];
                    [past, call].into_iter().for_each(|to| self.go(at, to));
                    self.put(call, Item::Call { targets: vec![FunctionId(*to)] });
                    [past, call].into_iter().for_each(|from| self.go(from, end));
                    at = end;
                }
                Statement::Take(lock) => self.put(at, Item::Acquire(LockId(*lock))),
                Statement::Give(lock) => self.put(at, Item::Release(LockId(*lock))),
            }
        }
        Some(at)
    }

    fn call(&mut self, at: usize, to: &[u32]) {
        let mut targets: Vec<FunctionId> =
            to.iter().filter(|to| **to > self.number).map(|to| FunctionId(*to)).collect();
        targets.sort_unstable();
        targets.dedup();
        if !targets.is_empty() {
            self.put(at, Item::Call { targets });
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    program: Program,
    starts: Vec<Start>,
    pairs: Vec<Pair>,
}

/// Any two points of one function that can touch a variable one after the other.
fn pairs_of(program: &Program) -> Vec<Pair> {
    let mut all = Vec::new();
    let mut touching = vec![[false; VARIABLES as usize]; FUNCTIONS as usize];
    // Twice: functions call later ones, and earlier ones perhaps.
    let ids: Vec<FunctionId> = program.function_ids().collect();
    for &function in ids.iter().rev().chain(ids.iter().rev()) {
        for node in program.flow(function).nodes() {
            if let Some(Item::Access { variable, .. }) = program.item(function, node) {
                touching[function.0 as usize][variable.0 as usize] = true;
            }
            for target in program.targets(function, node) {
                let theirs = touching[target.0 as usize];
                touching[function.0 as usize].iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours |= theirs);
            }
        }
    }
    for function in program.function_ids() {
        for variable in (0..VARIABLES).map(VariableId) {
            let touches = |node: &NodeId| match program.item(function, *node) {
                Some(Item::Access { variable: this, .. }) => *this == variable,
                Some(Item::Call { targets }) => {
                    targets.iter().any(|target| touching[target.0 as usize][variable.0 as usize])
                }
                _ => false,
            };
            let nodes: Vec<NodeId> = program.flow(function).nodes().filter(touches).collect();
            for &first in &nodes {
                for &second in &nodes {
                    all.extend([false, true].map(|exclusive| Pair { function, variable, first, second, exclusive }));
                }
            }
        }
    }
    let impossible = place(program, &Wanted::new(all.clone())).impossible;
    all.retain(|pair| !impossible.contains(pair));
    all
}

fn cases() -> impl Strategy<Value = Case> {
    let bodies = prop::collection::vec(statements(), FUNCTIONS as usize);
    let choice = prop_oneof![(0..2_u8).prop_map(Choice::Fixed), Just(Choice::ByValue)];
    let threads = prop::collection::vec((0..2_u32, prop::collection::vec(choice, 0..5)), 2..4);
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 1..7);
    (bodies, threads, picks).prop_map(|(bodies, threads, picks)| {
        let bodies = bodies.iter().enumerate();
        let functions = bodies.map(|(number, body)| Builder::function(number as u32, body, number < 2)).collect();
        let variables = (0..VARIABLES).map(|number| format!("v{number}")).collect();
        let locks = (0..LOCKS).map(|number| LockClass { name: format!("k{number}"), single: true }).collect();
        let program = Program::new(functions, variables, locks, CONDITIONS).unwrap();
        let start = |(function, choices)| Start { function: FunctionId(function), choices };
        let starts = threads.into_iter().map(start).collect();
        let all = pairs_of(&program);
        let pairs = if all.is_empty() { vec![] } else { picks.iter().map(|pick| *pick.get(&all)).collect() };
        Case { program, starts, pairs }
    })
}

/// What a run of the test has seen, so that it cannot pass by seeing nothing.
#[derive(Debug, Default)]
struct Seen {
    /// Cases in which the original can break a pair that is enforced.
    broken: u32,
    /// Cases in which the placement before resolution can stand still.
    unresolved_stuck: u32,
    hoisted: u32,
    unenforced: u32,
    enforced: u32,
    merged: u32,
    explored: u32,
    /// Of these, cases in which the original cannot stand still.
    ends: u32,
}

fn check(case: &Case, seen: &mut Seen) -> TestCaseResult {
    let Case { program, starts, pairs } = case;
    let resolved: Resolved = resolve(program, pairs.clone());
    prop_assert!(resolved.after.circles().is_empty());
    let enforced_pairs = &resolved.wanted.pairs;
    let original = Machine::new(program, starts, None).watch(enforced_pairs).explore(STATES);
    if !original.complete {
        return Ok(());
    }
    let enforced = Machine::new(program, starts, Some(&resolved.placement)).watch(enforced_pairs).explore(4 * STATES);
    if !enforced.complete {
        return Ok(());
    }
    prop_assert_eq!(&enforced.broken, &None, "a pair is broken");
    prop_assert!(!enforced.leaked, "a lock is left behind");
    prop_assert!(enforced.outcomes.is_subset(&original.outcomes), "a new result");
    if original.stuck.is_none() {
        prop_assert_eq!(&enforced.stuck, &None, "it stands still");
        prop_assert!(!enforced.outcomes.is_empty());
        let unresolved = Machine::new(program, starts, Some(&resolved.unresolved)).explore(STATES);
        seen.unresolved_stuck += u32::from(unresolved.stuck.is_some());
        seen.broken += u32::from(original.broken.is_some());
        seen.ends += 1;
    }
    seen.hoisted += u32::from(!resolved.wanted.hoists.is_empty());
    seen.unenforced += resolved.unenforced.len() as u32;
    seen.enforced += enforced_pairs.len() as u32;
    seen.merged += resolved.merged.len() as u32;
    seen.explored += 1;
    Ok(())
}

/// `ATOMICITY_SEED`, which is a number, as a seed.
fn seed() -> [u8; 32] {
    let number: u64 = std::env::var("ATOMICITY_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

/// Runs a check on random cases, and says what was seen.
fn on_cases(check: impl Fn(&Case, &mut Seen) -> TestCaseResult) -> (u32, Seen) {
    let more = std::env::var("ATOMICITY_CASES").ok().and_then(|text| text.parse().ok());
    let count = more.unwrap_or(150);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    // The same cases each time, so that what must have been seen is; others when more are asked for.
    let random = more.map_or_else(
        || TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        |_| TestRng::from_seed(RngAlgorithm::ChaCha, &seed()),
    );
    let seen = std::cell::RefCell::new(Seen::default());
    let result = TestRunner::new_with_rng(config, random).run(&cases(), |case| check(&case, &mut seen.borrow_mut()));
    let seen = seen.into_inner();
    println!("{seen:?}");
    if let Err(error) = result {
        panic!("{error}");
    }
    (count, seen)
}

#[test]
fn enforced_programs_keep_pairs_and_never_stand_still() {
    let (cases, seen) = on_cases(check);
    assert!(seen.explored > cases / 2 && seen.ends > cases / 4, "{seen:?}");
    assert!(seen.broken > cases / 40, "{seen:?}");
    assert!(seen.unresolved_stuck > 0 && seen.hoisted > 0 && seen.enforced > seen.unenforced, "{seen:?}");
}

/// What runs of the original show, as pairs.
fn learn(case: &Case, seeds: &[u64]) -> Vec<Pair> {
    let machine = Machine::new(&case.program, &case.starts, None);
    let labels = |function: FunctionId, node: u32| function.0 * 1000 + node;
    let names = ProfileNames {
        variables: (0..VARIABLES).map(|number| (number.to_string(), BTreeSet::new())).collect(),
        labels: (0..FUNCTIONS * 1000).map(|label| ((label / 1000).to_string(), (label % 1000).to_string())).collect(),
        locks: (0..LOCKS).map(|number| number.to_string()).collect(),
        ..ProfileNames::default()
    };
    let mut profile = Profile::default();
    for &seed in seeds {
        let mut random = seed | 1;
        let (touched, state) = machine.run(|enabled| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % enabled.len()
        });
        if machine.outcome(&state).is_none() {
            continue;
        }
        let mut learner = Learner::default();
        for touched in touched {
            let frames = touched.context.iter().zip(&touched.functions);
            let label =
                |(frame, function): (&Frame, &FunctionId)| Frame { label: labels(*function, frame.label), ..*frame };
            let context: Vec<Frame> = frames.map(label).collect();
            let (thread, access) = (touched.thread as u32, touched.access);
            let touch = Touch { thread, access, context: &context, holds: &touched.holds, at: 0, until: 0 };
            learner.touch(touched.variable.0, 0, &touch);
        }
        assert_eq!(learner.without_frontier(), 0);
        profile.merge(&learner.finish(&names));
    }
    let profile = Profile::from_text(&profile.to_text()).unwrap();
    let number = |text: &str| text.parse::<u32>().unwrap();
    let point =
        |_: VariableId, function: &str, label: &str| Some((FunctionId(number(function)), NodeId(number(label))));
    let bound = bind(&profile, |name| Some(VariableId(number(name))), point);
    assert_eq!(bound.unknown, []);
    bound.pairs
}

#[test]
fn pairs_that_runs_have_shown_can_be_placed_and_are_kept() {
    let (cases, seen) = on_cases(|case, seen| {
        let pairs = learn(case, &[1, 2, 3]);
        let impossible = place(&case.program, &Wanted::new(pairs.clone())).impossible;
        prop_assert_eq!(impossible, vec![], "a run went where no path leads");
        check(&Case { pairs, ..case.clone() }, seen)
    });
    assert!(seen.broken > cases / 40 && seen.enforced > cases / 4, "{seen:?}");
}
