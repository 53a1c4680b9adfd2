//! Events a second and memory of the sound analyses, on histories of several shapes.
//!
//! `cargo run --release -p selvedge-analyze --example throughput [events] [shape] [analysis]`

use std::time::Instant;

use selvedge_analyze::sound::{Prover, RacePair, shb, sync_preserving};
use selvedge_analyze::{Event, Goal, History, Op};

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    threads: u32,
    variables: u32,
    locks: u32,
    /// Of a hundred events, how many take a lock.
    acquires: u64,
    /// Of a hundred accesses, how many write.
    writes: u64,
    /// Whether accesses are only to variables of a lock that the thread holds.
    guarded: bool,
    locations: u64,
    /// Of a hundred accesses, how many are to variables of the thread alone.
    private: u64,
}

const SHAPES: [Shape; 7] = [
    Shape {
        name: "private",
        threads: 6,
        variables: 600,
        locks: 8,
        acquires: 10,
        writes: 40,
        guarded: false,
        locations: 400,
        private: 95,
    },
    Shape {
        name: "lock-heavy",
        threads: 10,
        variables: 1000,
        locks: 50,
        acquires: 12,
        writes: 30,
        guarded: false,
        locations: 400,
        private: 0,
    },
    Shape {
        name: "lock-heavy-places",
        threads: 10,
        variables: 1000,
        locks: 50,
        acquires: 12,
        writes: 30,
        guarded: false,
        locations: 100_000,
        private: 0,
    },
    Shape {
        name: "guarded",
        threads: 10,
        variables: 1000,
        locks: 50,
        acquires: 12,
        writes: 30,
        guarded: true,
        locations: 400,
        private: 0,
    },
    Shape {
        name: "few-locks",
        threads: 10,
        variables: 100_000,
        locks: 50,
        acquires: 2,
        writes: 30,
        guarded: false,
        locations: 400,
        private: 0,
    },
    Shape {
        name: "many-variables",
        threads: 4,
        variables: 1_000_000,
        locks: 1000,
        acquires: 5,
        writes: 30,
        guarded: false,
        locations: 400,
        private: 0,
    },
    Shape {
        name: "many-threads",
        threads: 64,
        variables: 1000,
        locks: 100,
        acquires: 5,
        writes: 30,
        guarded: false,
        locations: 400,
        private: 0,
    },
];

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn generate(shape: Shape, events: usize) -> History {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut history = History {
        threads: shape.threads,
        variables: shape.variables + shape.threads,
        locks: shape.locks,
        locations: shape.locations as u32,
        ..History::default()
    };
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); shape.threads as usize];
    let mut owner: Vec<bool> = vec![false; shape.locks as usize];
    for thread in 1..shape.threads {
        history.events.push(Event::new(0, Op::Fork, thread, 0));
    }
    while history.events.len() < events {
        let thread = chance.below(u64::from(shape.threads)) as u16;
        let location = chance.below(shape.locations) as u32;
        let own = &mut held[usize::from(thread)];
        let what = chance.below(100);
        let event = if what < shape.acquires {
            let lock = chance.below(u64::from(shape.locks)) as u32;
            if owner[lock as usize] || own.len() >= 3 {
                continue;
            }
            owner[lock as usize] = true;
            own.push(lock);
            (Op::Acquire, lock)
        } else if what < 2 * shape.acquires {
            let Some(lock) = own.pop() else { continue };
            owner[lock as usize] = false;
            (Op::Release, lock)
        } else {
            let mut variable = chance.below(u64::from(shape.variables)) as u32;
            if chance.below(100) < shape.private {
                variable = shape.variables + u32::from(thread);
            } else if shape.guarded {
                let Some(&lock) = own.last() else { continue };
                variable = variable / shape.locks * shape.locks + lock;
                variable = if variable < shape.variables { variable } else { lock };
            }
            (if chance.below(100) < shape.writes { Op::Write } else { Op::Read }, variable)
        };
        history.events.push(Event::new(thread, event.0, event.1, location));
    }
    history.sources = (0..history.len() as u64).collect();
    history
}

/// The most memory that the process had so far, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Proves races of conflicting accesses, near and far; tells how long the slowest took.
fn proofs(history: &History) -> usize {
    const GOALS: usize = 500;
    let prover = Prover::new(history);
    let mut accesses: Vec<Vec<u32>> = vec![Vec::new(); history.variables as usize];
    for (event, number) in history.events.iter().zip(0..).filter(|(event, _)| event.op.is_access()) {
        accesses[event.target as usize].push(number);
    }
    let mut chance = Chance(1);
    let (mut proved, mut slowest) = ([0; 4], 0.0f64);
    let start = processor_time();
    for _ in 0..20 * GOALS {
        let accesses = &accesses[chance.below(u64::from(history.variables)) as usize];
        let at = chance.below(accesses.len().max(1) as u64) as usize;
        let other = at + 1 + chance.below(6) as usize;
        let (Some(&first), Some(&second)) = (accesses.get(at), accesses.get(other)) else { continue };
        if !history.events[first as usize].could_race(&history.events[second as usize]) {
            continue;
        }
        let before = processor_time();
        let proof = prover.prove(&Goal::Race(first, second));
        slowest = slowest.max(processor_time() - before);
        proved[proof.map_or(3, |proof| proof.relation as usize)] += 1;
        if proved.iter().sum::<usize>() == GOALS {
            break;
        }
    }
    let each = (processor_time() - start) / proved.iter().sum::<usize>().max(1) as f64;
    println!("  {proved:?} by relation or not; {:.3} ms each, {:.1} ms the slowest", each * 1e3, slowest * 1e3);
    proved[..3].iter().sum()
}

/// Seconds that the process has had of a processor: the machine may be busy with others.
fn processor_time() -> f64 {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    times.split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let events = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let (only, which) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    for shape in SHAPES.into_iter().filter(|shape| only.is_empty() || only == "all" || shape.name == only) {
        let history = generate(shape, events);
        let before = peak();
        let measure = |name: &str, run: &dyn Fn() -> usize| {
            if !which.is_empty() && which != name {
                return;
            }
            let (start, on_processor) = (Instant::now(), processor_time());
            let races = run();
            let seconds =
                if on_processor > 0.0 { processor_time() - on_processor } else { start.elapsed().as_secs_f64() };
            let rate = events as f64 / seconds / 1e6;
            println!(
                "{:18} {name:16} {rate:8.2} M events/s {races:8} found, peak {} MB after {before} MB",
                shape.name,
                peak()
            );
        };
        measure("shb", &|| shb::races(&history).len());
        measure("shb-seconds", &|| shb::racy_seconds(&history).len());
        measure("ideals", &|| {
            usize::from(sync_preserving::SyncPreserving::new(&history).is_race(RacePair { first: 0, second: 1 }))
        });
        measure("syncp", &|| sync_preserving::races(&history).len());
        measure("prove", &|| proofs(&history));
        measure("syncp-seconds", &|| sync_preserving::racy_seconds(&history).len());
    }
}
