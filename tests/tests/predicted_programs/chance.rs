//! Programs by chance.

use proptest::prelude::*;
use selvedge_events::Order;

use crate::machine::{How, LOCKS, Line, MOST_LINES, MOST_THREADS, Op, Program, VARIABLES};

/// What programs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Plain accesses, relaxed atomics, nested locks, threads that are made and awaited.
    Plain,
    /// Besides, a semaphore and atomics that order others.
    Ordered,
    /// Besides, locks that are not nested.
    Unnested,
    /// All that, and what is done depends on what was read.
    Branching,
}

/// A part of a thread.
#[derive(Clone, Debug)]
enum Part {
    One(Op),
    /// Under a lock, or under the next one where that is held.
    Locked(u8, Vec<Part>),
    /// From one lock to the other, hand over hand, with an access under each.
    HandOver(u8, [Op; 2]),
    /// Only where the register is not 0.
    Guarded(Box<Part>),
}

/// The lines of a thread's own parts, before what makes and awaits others.
const OWN_LINES: usize = MOST_LINES - 2 * (MOST_THREADS - 1);

/// Programs of a sort.
pub(crate) fn programs(sort: Sort) -> impl Strategy<Value = Program> {
    let thread = prop::collection::vec(part(sort), 1..5);
    let threads = prop::collection::vec(thread, 2..=MOST_THREADS);
    let stock = 0..=u8::from(sort != Sort::Plain);
    (threads, prop::option::of((0..4_usize, any::<bool>())), stock).prop_map(|(parts, family, stock)| {
        let mut threads: Vec<Vec<Line>> = parts.iter().map(|parts| lines(parts)).collect();
        if let Some((at, awaits)) = family {
            make(&mut threads, at, awaits);
        }
        Program { threads, stock }
    })
}

fn access(sort: Sort) -> impl Strategy<Value = Op> {
    let plain = prop_oneof![Just(How::Reads), any::<bool>().prop_map(How::Writes)];
    let atomic = prop_oneof![2 => plain.clone(), 1 => Just(How::Updates)];
    let orders: &[Order] = if sort == Sort::Plain { &[Order::Relaxed] } else { &[Order::Relaxed, Order::SeqCst] };
    prop_oneof![
        4 => (0..VARIABLES, plain).prop_map(|(variable, how)| Op::Access(variable, how, None)),
        1 => (0..VARIABLES, atomic, prop::sample::select(orders))
            .prop_map(|(variable, how, order)| Op::Access(variable, how, Some(order))),
    ]
}

fn part(sort: Sort) -> impl Strategy<Value = Part> {
    let semaphore = if sort == Sort::Plain { access(sort).boxed() } else { Just(Op::Post).boxed() };
    let wait = if sort == Sort::Plain { access(sort).boxed() } else { Just(Op::Take).boxed() };
    let one = prop_oneof![12 => access(sort), 1 => semaphore, 1 => wait].prop_map(Part::One);
    let inner = prop_oneof![
        3 => one.clone(),
        1 => (0..LOCKS, prop::collection::vec(one.clone(), 0..2)).prop_map(|(lock, parts)| Part::Locked(lock, parts)),
    ];
    let locked = (0..LOCKS, prop::collection::vec(inner, 1..3)).prop_map(|(lock, parts)| Part::Locked(lock, parts));
    let hands = (0..LOCKS, access(sort), access(sort)).prop_map(|(lock, a, b)| Part::HandOver(lock, [a, b]));
    let unguarded = match sort {
        Sort::Plain | Sort::Ordered => prop_oneof![2 => one, 2 => locked].boxed(),
        Sort::Unnested | Sort::Branching => prop_oneof![4 => one, 4 => locked, 1 => hands].boxed(),
    };
    let guards = if sort == Sort::Branching { 1 } else { 0 };
    prop_oneof![2 => unguarded.clone(), guards => unguarded.prop_map(|part| Part::Guarded(Box::new(part)))]
}

/// As many of the parts as a thread has room for.
fn lines(parts: &[Part]) -> Vec<Line> {
    let mut lines = Vec::new();
    for part in parts {
        let before = lines.len();
        add(&mut lines, part, None);
        if lines.len() > OWN_LINES {
            lines.truncate(before);
        }
    }
    lines
}

fn add(lines: &mut Vec<Line>, part: &Part, held: Option<u8>) {
    let line = |op| Line { op, skips: 0 };
    match part {
        Part::One(op) => lines.push(line(*op)),
        Part::Locked(lock, parts) => {
            let lock = if held == Some(*lock) { (lock + 1) % LOCKS } else { *lock };
            lines.push(line(Op::Lock(lock)));
            parts.iter().for_each(|part| add(lines, part, Some(lock)));
            lines.push(line(Op::Unlock(lock)));
        }
        Part::HandOver(lock, [first, second]) => {
            let next = (lock + 1) % LOCKS;
            let ops = [Op::Lock(*lock), *first, Op::Lock(next), Op::Unlock(*lock), *second, Op::Unlock(next)];
            lines.extend(ops.map(line));
        }
        Part::Guarded(part) => {
            let start = lines.len();
            add(lines, part, held);
            let skips = (lines.len() - start) as u8;
            if let Some(first) = lines.get_mut(start) {
                first.skips = skips;
            }
        }
    }
}

/// The first thread makes the others after some of its lines, and waits for them at its end.
fn make(threads: &mut [Vec<Line>], at: usize, awaits: bool) {
    let Some((first, others)) = threads.split_first_mut() else { return };
    let line = |op| Line { op, skips: 0 };
    // Not among lines that may be skipped, and not under a lock that the others may need to end.
    let at = (0..=at.min(first.len())).rev().find(|at| first[..*at].iter().all(|line| line.skips == 0)).unwrap_or(0);
    let children = 1..=others.len() as u8;
    first.splice(at..at, children.clone().map(|child| line(Op::Fork(child))));
    if awaits {
        first.extend(children.map(|child| line(Op::Join(child))));
    }
    for other in others {
        other.insert(0, line(Op::Begin));
    }
}
