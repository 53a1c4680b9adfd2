//! Histories in a small text form, for tests: `T0 w x; T1 r x; T0 acq l`.
//!
//! `r w` plain; `ar aw au` atomic, with an order `rlx acq rel ar` or none for sequentially consistent; `fence`; `acq rel`;
//! `sacq srel` shared; `fork join` a thread; `post take wait signal broadcast woken` an object; `enter exit`. A location follows as
//! `@7`; without one each event has its own. Threads need no fork.

use selvedge_events::Order;

use crate::history::{Event, History, Op};

/// Reads it. Panics on what it cannot read.
pub(crate) fn parse(text: &str) -> History {
    let mut history = History::default();
    let mut names: [Vec<&str>; 3] = Default::default();
    for (number, step) in text.split([';', '\n']).map(str::trim).filter(|step| !step.is_empty()).enumerate() {
        let mut words: Vec<&str> = step.split_whitespace().collect();
        let mut location = number as u32;
        if let Some(at) = words.last().and_then(|word| word.strip_prefix('@')) {
            location = at.parse().expect("a location");
            words.pop();
        }
        let thread: u16 = words[0][1..].parse().expect("a thread");
        let op = match words[1] {
            "r" => Op::Read,
            "w" => Op::Write,
            "ar" => Op::AtomicRead,
            "aw" => Op::AtomicWrite,
            "au" => Op::AtomicUpdate,
            "fence" => Op::Fence,
            "acq" => Op::Acquire,
            "rel" => Op::Release,
            "sacq" => Op::AcquireShared,
            "srel" => Op::ReleaseShared,
            "fork" => Op::Fork,
            "join" => Op::Join,
            "post" => Op::Post,
            "take" => Op::Take,
            "wait" => Op::Wait,
            "signal" => Op::Signal,
            "broadcast" => Op::Broadcast,
            "woken" => Op::Woken,
            "enter" => Op::Enter,
            "exit" => Op::Exit,
            other => panic!("no operation is called {other}"),
        };
        let sort = if op.is_access() {
            0
        } else if op.acquires() || op.releases() {
            1
        } else {
            2
        };
        let target = match op {
            Op::Fork | Op::Join => words[2][1..].parse().expect("a thread"),
            Op::Enter | Op::Exit | Op::Fence => 0,
            _ => {
                let known = &mut names[sort];
                let index = known.iter().position(|name| *name == words[2]);
                index.unwrap_or_else(|| {
                    known.push(words[2]);
                    known.len() - 1
                }) as u32
            }
        };
        let order = match words.last().copied() {
            Some("rlx") => Order::Relaxed,
            Some("acq") => Order::Acquire,
            Some("rel") => Order::Release,
            Some("ar") => Order::AcqRel,
            _ => Order::SeqCst,
        };
        let child = if matches!(op, Op::Fork | Op::Join) { target + 1 } else { 0 };
        history.threads = history.threads.max(u32::from(thread) + 1).max(child);
        history.locations = history.locations.max(location + 1);
        history.events.push(Event { order, ..Event::new(thread, op, target, location) });
        history.sources.push(number as u64);
    }
    history.variables = names[0].len() as u32;
    history.locks = names[1].len() as u32;
    history.objects = names[2].len() as u32;
    history
}

/// Writes it, with numbers for names.
pub(crate) fn show(history: &History) -> String {
    let step = |event: &Event| {
        let op = match event.op {
            Op::Read => "r",
            Op::Write => "w",
            Op::AtomicRead => "ar",
            Op::AtomicWrite => "aw",
            Op::AtomicUpdate => "au",
            Op::Fence => "fence",
            Op::Acquire => "acq",
            Op::Release => "rel",
            Op::AcquireShared => "sacq",
            Op::ReleaseShared => "srel",
            Op::Fork => "fork",
            Op::Join => "join",
            Op::Post => "post",
            Op::Take => "take",
            Op::Wait => "wait",
            Op::Signal => "signal",
            Op::Broadcast => "broadcast",
            Op::Woken => "woken",
            Op::Enter => "enter",
            Op::Exit => "exit",
        };
        format!("T{} {op} {} @{}", event.thread, event.target, event.location)
    };
    history.events.iter().map(step).collect::<Vec<_>>().join("; ")
}
