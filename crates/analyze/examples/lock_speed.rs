//! How many events a second the analyses of locks, waits and regions manage on a made-up history with many locks.
//!
//! `cargo run --release -p selvedge-analyze --example lock_speed [events] [ordered|disordered]`

use std::time::Instant;

use selvedge_analyze::serializability::{Conflicts, Regions, violations};
use selvedge_analyze::{Event, History, Op, deadlock, lost_wakeup, serializability};

const THREADS: u32 = 12;
const LOCKS: u32 = 50;
const VARIABLES: u32 = 1500;
const OBJECTS: u32 = 8;
const LOCATIONS: u32 = 500;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let events = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let disordered = arguments.next().is_none_or(|word| word == "disordered");
    let history = made_up(events, disordered);
    let acquires = history.events.iter().filter(|e| e.op.acquires()).count();
    println!("{} events, {:.1} % acquisitions", history.len(), 100.0 * acquires as f64 / history.len() as f64);

    timed("deadlock", &history, || {
        let found = deadlock::deadlocks(&history, &deadlock::Options::default());
        let proved = found.predictions.iter().filter(|p| p.proof.is_some()).count();
        format!(
            "{} found, {proved} proved, {} abstract, {} circles, {} excluded, cut {}, {} unchecked, {} dropped",
            found.predictions.len(),
            found.abstract_acquisitions,
            found.circles,
            found.excluded,
            found.search_cut,
            found.unchecked,
            found.dropped
        )
    });
    timed("lost wake-ups", &history, || {
        let found = lost_wakeup::lost_wakeups(&history, &lost_wakeup::Options::default());
        format!("{} found, {} guarded, {} dropped", found.predictions.len(), found.guarded, found.dropped)
    });
    for conflicts in [Conflicts::Accesses, Conflicts::All] {
        timed(&format!("serializability, {conflicts:?}"), &history, || {
            let regions = Regions::CriticalSections;
            let found = violations(&history, &serializability::Options { regions, conflicts, ..Default::default() });
            format!(
                "{} regions, {} circles, {} found, {} dropped, {} unexplained",
                found.regions,
                found.circles,
                found.predictions.len(),
                found.dropped,
                found.unexplained
            )
        });
    }
}

fn timed(name: &str, history: &History, run: impl FnOnce() -> String) {
    let (start, processor) = (Instant::now(), processor_seconds());
    let found = run();
    let seconds = start.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    let speed = |seconds: f64| history.len() as f64 / seconds / 1e6;
    let (of_clock, of_processor, peak) = (speed(seconds), speed(processor), peak_megabytes());
    println!("{name}: {of_clock:.2} M events/s ({of_processor:.2} of processor time), peak {peak} MB; {found}");
}

/// How long this process has had a processor, where the system tells; not how long it waited for one.
fn processor_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    status.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The most memory that this process has had, where the system tells.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Twelve threads with random accesses and nested critical sections; in one order of locks, or in any.
fn made_up(events: usize, disordered: bool) -> History {
    let mut seed = 7u64;
    let mut chance = move |end: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % u64::from(end)) as u32
    };
    let mut owner = [None; LOCKS as usize];
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); THREADS as usize];
    let mut waits = [None; THREADS as usize];
    let mut list = Vec::with_capacity(events);
    while list.len() < events {
        let thread = chance(THREADS) as u16;
        let mine = &mut held[usize::from(thread)];
        let what = chance(1000);
        if let Some((condition, mutex)) = waits[usize::from(thread)] {
            // A waiter goes on when it is its turn and its mutex is free.
            if what < 20 && owner[mutex as usize].is_none() {
                list.push(Event::new((thread + 1) % THREADS as u16, Op::Signal, condition, chance(20)));
                list.push(Event::new(thread, Op::Woken, condition, 400 + condition));
                list.push(Event::new(thread, Op::Acquire, mutex, 400 + condition));
                owner[mutex as usize] = Some(thread);
                mine.push(mutex);
                waits[usize::from(thread)] = None;
            }
            continue;
        }
        if what < 2 && mine.len() == 1 && waits[(usize::from(thread) + 1) % THREADS as usize].is_none() {
            let (lock, condition) = (mine.pop().unwrap_or(0), chance(OBJECTS));
            owner[lock as usize] = None;
            list.push(Event::new(thread, Op::Release, lock, 400 + condition));
            list.push(Event::new(thread, Op::Wait, condition, 400 + condition));
            waits[usize::from(thread)] = Some((condition, lock));
        } else if what < 190 && mine.len() < 3 {
            let lock = chance(LOCKS);
            let in_order = mine.last().is_none_or(|&last| last < lock);
            if owner[lock as usize].is_none() && (disordered || in_order) {
                owner[lock as usize] = Some(thread);
                list.push(Event::new(thread, Op::Acquire, lock, lock * 10 + mine.len() as u32));
                mine.push(lock);
            }
        } else if what < 400 && !mine.is_empty() {
            let lock = mine.pop().unwrap_or(0);
            owner[lock as usize] = None;
            list.push(Event::new(thread, Op::Release, lock, 0));
        } else {
            let op = if chance(4) == 0 { Op::Write } else { Op::Read };
            // Most accesses are to what is the thread's own.
            let own = u32::from(thread) * 64 + chance(64);
            let variable = if chance(10) == 0 { 1000 + chance(VARIABLES - 1000) } else { own };
            list.push(Event::new(thread, op, variable, chance(LOCATIONS)));
        }
    }
    let sources = (0..list.len() as u64).collect();
    let (threads, variables, locks, locations) = (THREADS, VARIABLES, LOCKS, LOCATIONS);
    History { events: list, sources, threads, variables, locks, objects: OBJECTS, locations }
}
