//! How many events a second the pattern search takes, on histories of several characters, and how long schedules take.
//!
//! `cargo run --release -p selvedge-analyze --example predict_speed -- [MILLIONS [NAME]]`

use std::time::Duration;

use selvedge_analyze::predict::predictions::search;
use selvedge_analyze::predict::{Graph, Options, Scheduler};
use selvedge_analyze::{Event, History, Op};

/// A small generator, so that every run measures the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

/// What a history is like.
struct Character {
    name: &'static str,
    threads: u16,
    variables: u32,
    locks: u32,
    /// Places in the source for each sort of step.
    locations: u32,
    /// Of a hundred steps so many are atomic, and so many post or take.
    atomics: u32,
    posts: u32,
    /// Whether accesses keep to the lock of their variable.
    disciplined: bool,
    /// Whether any place accesses any variable.
    chaotic: bool,
}

const CHARACTERS: [Character; 7] = [
    Character {
        name: "chaotic",
        threads: 8,
        variables: 10_000,
        locks: 64,
        locations: 300,
        atomics: 5,
        posts: 2,
        disciplined: false,
        chaotic: true,
    },
    Character {
        name: "locked",
        threads: 8,
        variables: 10_000,
        locks: 64,
        locations: 300,
        atomics: 0,
        posts: 0,
        disciplined: true,
        chaotic: false,
    },
    Character {
        name: "unlocked",
        threads: 8,
        variables: 10_000,
        locks: 64,
        locations: 300,
        atomics: 0,
        posts: 0,
        disciplined: false,
        chaotic: false,
    },
    Character {
        name: "few hot variables",
        threads: 16,
        variables: 12,
        locks: 4,
        locations: 60,
        atomics: 0,
        posts: 2,
        disciplined: true,
        chaotic: false,
    },
    Character {
        name: "atomics",
        threads: 8,
        variables: 1_000,
        locks: 32,
        locations: 200,
        atomics: 20,
        posts: 1,
        disciplined: true,
        chaotic: false,
    },
    Character {
        name: "ordered",
        threads: 4,
        variables: 1_000,
        locks: 16,
        locations: 200,
        atomics: 0,
        posts: 20,
        disciplined: false,
        chaotic: false,
    },
    Character {
        name: "large arrays",
        threads: 8,
        variables: 1_000_000,
        locks: 64,
        locations: 40,
        atomics: 0,
        posts: 0,
        disciplined: false,
        chaotic: false,
    },
];

fn history(character: &Character, events: usize) -> History {
    let mut chance = Chance(7);
    let threads = usize::from(character.threads);
    let mut holders = vec![None; character.locks as usize];
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); threads];
    let mut history = History {
        threads: u32::from(character.threads),
        variables: character.variables,
        locks: character.locks,
        objects: 4,
        locations: character.locations * 8,
        ..History::default()
    };
    while history.len() < events {
        let thread = chance.below(u32::from(character.threads)) as u16;
        let mine = &mut held[usize::from(thread)];
        let place = chance.below(character.locations);
        let dice = chance.below(100);
        let (op, target, sort) = if dice < 12 && mine.len() < 2 {
            let lock = chance.below(character.locks);
            if holders[lock as usize].is_some() || mine.iter().any(|held| *held >= lock) {
                continue;
            }
            holders[lock as usize] = Some(thread);
            mine.push(lock);
            (Op::Acquire, lock, 0)
        } else if dice < 24 {
            let Some(lock) = mine.pop() else { continue };
            holders[lock as usize] = None;
            (Op::Release, lock, 1)
        } else if dice < 24 + character.posts {
            let op = if chance.below(2) == 0 { Op::Post } else { Op::Take };
            (op, chance.below(4), 2)
        } else if dice < 24 + character.posts + character.atomics {
            let op = [Op::AtomicRead, Op::AtomicWrite, Op::AtomicUpdate][chance.below(3) as usize];
            (op, chance.below(character.variables) / 8 * 8, 3)
        } else {
            let mut variable = chance.below(character.variables);
            if character.disciplined {
                // A variable belongs to the lock that its number names.
                let Some(lock) = mine.last() else { continue };
                variable = variable / character.locks * character.locks + lock;
                variable = variable.min(character.variables - 1);
            }
            let op = if chance.below(3) == 0 { Op::Write } else { Op::Read };
            (op, variable, 4 + op as u32)
        };
        history.sources.push(history.events.len() as u64);
        // A few places access variables of one sort.
        let place = if character.chaotic { place } else { (target * 5 + place % 5) % character.locations };
        history.events.push(Event::new(thread, op, target, place * 8 + sort));
    }
    history
}

/// Calls of a few functions on a few hundred objects: locked fields, a counter outside the lock, a flag, and much that
/// is the thread's own.
fn program(events: usize) -> History {
    const THREADS: u16 = 8;
    const OBJECTS: u32 = 400;
    const FIELDS: u32 = 8;
    let mut chance = Chance(11);
    let shared = OBJECTS * FIELDS;
    let mut history = History {
        threads: u32::from(THREADS),
        variables: shared + u32::from(THREADS) * 64,
        locks: OBJECTS,
        objects: 1,
        locations: 40 * 16,
        ..History::default()
    };
    // What each thread still has to do of its call.
    let mut calls: Vec<Vec<(Op, u32, u32)>> = vec![Vec::new(); usize::from(THREADS)];
    let mut holders = vec![None; OBJECTS as usize];
    while history.len() < events {
        let thread = chance.below(u32::from(THREADS)) as u16;
        let call = &mut calls[usize::from(thread)];
        if call.is_empty() {
            let (object, function) = (chance.below(OBJECTS), chance.below(40));
            let field = |n: u32| object * FIELDS + n % FIELDS;
            let own = |n: u32| shared + u32::from(thread) * 64 + n;
            let at = |n: u32| function * 16 + n;
            call.extend([
                (Op::Write, own(function), at(10)),
                (Op::Read, own(function), at(9)),
                (Op::AtomicRead, field(6), at(8)),
                (Op::Write, field(7), at(7)),
                (Op::Read, field(7), at(6)),
                (Op::Read, own(1), at(5)),
                (Op::Release, object, at(4)),
                (Op::Write, field(function), at(3)),
                (Op::Read, field(function + 1), at(2)),
                (Op::Read, field(function), at(1)),
                (Op::Acquire, object, at(0)),
                (Op::AtomicUpdate, field(6), at(11)),
            ]);
        }
        let Some(&(op, target, location)) = call.last() else { continue };
        match op {
            Op::Acquire if holders[target as usize].is_some() => continue,
            Op::Acquire => holders[target as usize] = Some(thread),
            Op::Release => holders[target as usize] = None,
            _ => {}
        }
        call.pop();
        history.sources.push(history.events.len() as u64);
        history.events.push(Event::new(thread, op, target, location));
    }
    history
}

/// The time that this program had on a processor: others may be busy.
fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}

fn main() {
    let only = std::env::args().nth(2);
    let millions: f64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let events = (millions * 1e6) as usize;
    let options = Options::default();
    println!(
        "{:<18} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}",
        "history", "graph", "search", "Mev/s", "found", "clips", "us/clip"
    );
    let names = std::iter::once("program").chain(CHARACTERS.iter().map(|character| character.name));
    for name in names.filter(|name| only.as_ref().is_none_or(|only| name == only)) {
        let character = CHARACTERS.iter().find(|character| character.name == name);
        let history = character.map_or_else(|| program(events), |character| history(character, events));
        let start = spent();
        let graph = Graph::new(&history, options.near);
        let built = spent() - start;
        let found = search(&graph, &options);
        let all = spent() - start;
        let start = spent();
        let scheduler = Scheduler::new(&graph);
        let step = (found.candidates.len() / 300).max(1);
        let tried: Vec<_> = found.candidates.iter().step_by(step).collect();
        let clips = tried.iter().filter(|candidate| scheduler.schedule(&candidate.goals[0]).is_some()).count();
        let each = (spent() - start).as_micros() / tried.len().max(1) as u128;
        println!(
            "{:<18} {:>7.2} s {:>7.2} s {:>9.2} {:>9} {:>4}/{:<3} {:>9}  {:?}",
            name,
            built.as_secs_f64(),
            (all - built).as_secs_f64(),
            events as f64 / all.as_secs_f64() / 1e6,
            found.candidates.len(),
            clips,
            tried.len(),
            each,
            found.dropped,
        );
    }
}
