//! Small histories of made-up programs: every byte of chance is a thread and what it does next, as far as it can.

use proptest::prelude::*;
use selvedge_analyze::{Event, History, Op};

/// How many of each there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) threads: u16,
    pub(crate) variables: u32,
    pub(crate) locks: u32,
    pub(crate) objects: u32,
    pub(crate) events: usize,
}

/// What a lock is at while the history grows.
#[derive(Clone, Default)]
struct Lock {
    exclusive: Option<u16>,
    shared: Vec<u16>,
}

/// Histories of this shape; they shrink to fewer events.
pub(crate) fn histories(shape: Shape) -> impl Strategy<Value = History> {
    let forked = any::<bool>();
    let choices = prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>()), 1..=shape.events);
    (forked, choices).prop_map(move |(forked, choices)| build(shape, forked, &choices))
}

/// A history from choices; impossible ones are passed over.
pub(crate) fn build(shape: Shape, forked: bool, choices: &[(u16, u8, u8)]) -> History {
    let mut history = History {
        threads: u32::from(shape.threads),
        variables: shape.variables,
        locks: shape.locks,
        objects: shape.objects,
        locations: choices.len() as u32 + 1,
        ..History::default()
    };
    let mut locks = vec![Lock::default(); shape.locks as usize];
    let mut made = vec![!forked; usize::from(shape.threads)];
    let mut ended = vec![false; usize::from(shape.threads)];
    made[0] = true;
    for (&(thread, what, target), location) in choices.iter().zip(0..) {
        let thread = thread % shape.threads;
        if !made[usize::from(thread)] || ended[usize::from(thread)] {
            continue;
        }
        let mut push = |op, target| history.events.push(Event::new(thread, op, target, location));
        let variable = u32::from(target) % shape.variables;
        let object = u32::from(target) % shape.objects.max(1);
        match what % 32 {
            0..=5 => push(Op::Read, variable),
            6..=11 => push(Op::Write, variable),
            12 => push(Op::AtomicRead, variable),
            13 => push(Op::AtomicWrite, variable),
            14 => push(Op::AtomicUpdate, variable),
            15..=26 if shape.locks > 0 => {
                let number = u32::from(target) % shape.locks;
                let lock = &mut locks[number as usize];
                if lock.exclusive == Some(thread) {
                    lock.exclusive = None;
                    push(Op::Release, number);
                } else if let Some(at) = lock.shared.iter().position(|&holder| holder == thread) {
                    lock.shared.remove(at);
                    push(Op::ReleaseShared, number);
                } else if lock.exclusive.is_none() && what % 32 >= 24 {
                    lock.shared.push(thread);
                    push(Op::AcquireShared, number);
                } else if lock.exclusive.is_none() && lock.shared.is_empty() {
                    lock.exclusive = Some(thread);
                    push(Op::Acquire, number);
                }
            }
            27 if shape.objects > 0 => push(Op::Post, object),
            28 if shape.objects > 0 => push([Op::Take, Op::Woken][usize::from(target & 1)], object),
            29 if shape.objects > 0 => push([Op::Wait, Op::Signal, Op::Broadcast][usize::from(target % 3)], object),
            _ => {
                let other = u16::from(target) % shape.threads;
                if other == thread || !forked || other == 0 {
                    continue;
                }
                let index = usize::from(other);
                if !made[index] {
                    made[index] = true;
                    push(Op::Fork, u32::from(other));
                } else if !ended[index] && what % 2 == 1 {
                    ended[index] = true;
                    push(Op::Join, u32::from(other));
                }
            }
        }
    }
    history.sources = (0..history.len() as u64).collect();
    history
}
