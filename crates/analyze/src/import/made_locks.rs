//! Locks that a program makes of atomic operations: spin locks, and the mutexes of Rust's standard library and parking_lot, whose
//! fast paths are compiled into the program.
//!
//! An atomic variable is a lock where all that is done to it reads so: whoever finds it 0 with an acquiring update has it, and
//! only that thread changes it with a releasing operation, after which it is 0 again. A failed update is an attempt,
//! which leads to an acquisition of the same thread: by a later update, or unseen, in a futex wait (std waits in code
//! without hooks). What does not fit, an attempt that is given up among it, leaves the variable what it was.
//!
//! As atomics, such a lock fixes the order of all its critical sections: each update sees the release before it. As a lock
//! it keeps them apart and lets an analysis turn them around, as it does those of any mutex.
//!
//! It takes the values that traces under control have ([`selvedge_trace::Event::before`]); other histories stay as they are.
//! Reader-writer locks made of atomics are not recognised.

use rustc_hash::FxHashMap;
use selvedge_events::Primitive;
use selvedge_trace::Process;

use super::{Imported, Lock, Sort};
use crate::history::{Event, Op};

/// An operation on a variable, or a futex operation on its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touch {
    /// Its number in the history.
    at: u32,
    thread: u16,
    deed: Deed,
    /// What it found.
    before: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// An update; whether it acquires and whether it releases.
    Update { acquires: bool, releases: bool },
    /// A store; whether it releases.
    Store { releases: bool },
    /// A failed update, or a load.
    Look,
    /// A futex wait that ended.
    Woken,
    /// A futex wake-up.
    Wake,
}

/// What becomes of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Acquire,
    Release,
    /// Part of waiting.
    Nothing,
}

/// Turns variables that are locks into locks.
pub(super) fn recognise(process: &Process, imported: &mut Imported) {
    if !process.is_controlled() {
        return;
    }
    let touches = collect(process, imported);
    let mut roles: FxHashMap<u32, (Role, u32)> = FxHashMap::default();
    for (variable, touches) in touches {
        let Some(found) = read(&touches) else { continue };
        let lock = imported.history.locks;
        imported.history.locks += 1;
        let addr = imported.variables.get(variable as usize).map_or(0, |variable| variable.addr);
        imported.locks.push(Lock { addr, primitive: Primitive::Spin });
        for (touch, role) in touches.iter().zip(found) {
            roles.insert(touch.at, (role, lock));
        }
    }
    if !roles.is_empty() {
        rewrite(imported, &roles);
    }
}

/// Everything that is done to each atomic variable, with values, in ascending order of variables.
fn collect(process: &Process, imported: &Imported) -> Vec<(u32, Vec<Touch>)> {
    let history = &imported.history;
    let mut by_variable: Vec<Vec<Touch>> = vec![Vec::new(); history.variables as usize];
    let mut plain = vec![false; history.variables as usize];
    for event in history.events.iter().filter(|event| event.op.is_access() && !event.op.is_atomic()) {
        if let Some(plain) = plain.get_mut(event.target as usize) {
            *plain = true;
        }
    }
    let variables: FxHashMap<u64, u32> = (0..)
        .zip(&imported.variables)
        .filter(|(number, variable)| !variable.is_state() && !plain.get(*number as usize).is_some_and(|plain| *plain))
        .map(|(number, variable)| (variable.addr, number))
        .collect();
    let mut found = process.events().enumerate();
    let mut here = found.next();
    for (at, event) in (0..).zip(&history.events) {
        let Some(source) = history.sources.get(at as usize) else { continue };
        while here.as_ref().is_some_and(|(ordinal, _)| (*ordinal as u64) < *source) {
            here = found.next();
        }
        let before =
            here.as_ref().filter(|(ordinal, _)| *ordinal as u64 == *source).and_then(|(_, event)| event.before);
        let Some((variable, deed)) = touch(imported, &variables, event) else { continue };
        if plain.get(variable as usize).is_none_or(|plain| *plain) {
            continue;
        }
        if let Some(touches) = by_variable.get_mut(variable as usize) {
            touches.push(Touch { at, thread: event.thread, deed, before });
        }
    }
    (0..).zip(by_variable).filter(|(_, touches)| !touches.is_empty()).collect()
}

fn touch(imported: &Imported, variables: &FxHashMap<u64, u32>, event: &Event) -> Option<(u32, Deed)> {
    let (acquires, releases) = (event.order.acquires(), event.order.releases());
    match event.op {
        Op::AtomicUpdate => Some((event.target, Deed::Update { acquires, releases })),
        Op::AtomicWrite => Some((event.target, Deed::Store { releases })),
        Op::AtomicRead => Some((event.target, Deed::Look)),
        Op::Post | Op::Take => {
            let object = imported.objects.get(event.target as usize).filter(|object| object.sort == Sort::Futex)?;
            let variable = *variables.get(&object.addr)?;
            Some((variable, if event.op == Op::Take { Deed::Woken } else { Deed::Wake }))
        }
        _ => None,
    }
}

/// What each touch is, where all together are those of a lock.
fn read(touches: &[Touch]) -> Option<Vec<Role>> {
    let mut roles = Vec::with_capacity(touches.len());
    let mut holder: Option<u16> = None;
    // Who tried in vain, and the last place where it may have got the lock unseen.
    let mut waiting: Vec<(u16, Option<usize>)> = Vec::new();
    for (number, touch) in touches.iter().enumerate() {
        let waits = waiting.iter().position(|(thread, _)| *thread == touch.thread);
        let role = match touch.deed {
            Deed::Wake => Role::Nothing,
            Deed::Woken => {
                let at = waits?;
                waiting.get_mut(at)?.1 = Some(number);
                Role::Nothing
            }
            Deed::Look => {
                // A look at a free lock is no attempt.
                if touch.before? == 0 {
                    return None;
                }
                if waits.is_none() {
                    waiting.push((touch.thread, None));
                }
                Role::Nothing
            }
            Deed::Update { acquires: true, .. } if touch.before? == 0 && holder.is_none() => {
                if let Some(at) = waits {
                    waiting.remove(at);
                }
                holder = Some(touch.thread);
                Role::Acquire
            }
            Deed::Update { releases: true, .. } | Deed::Store { releases: true } if touch.before? != 0 => {
                if holder.is_none() {
                    // It got the lock when it was woken.
                    let (_, woken) = waiting.remove(waits?);
                    *roles.get_mut(woken?)? = Role::Acquire;
                    holder = Some(touch.thread);
                }
                if holder != Some(touch.thread) {
                    return None;
                }
                // Free afterwards, or taken unseen by one who waits.
                let next = touches.get(number + 1..)?.iter().find_map(|next| next.before).unwrap_or(0);
                if next != 0 && waiting.is_empty() {
                    return None;
                }
                holder = None;
                Role::Release
            }
            _ => return None,
        };
        roles.push(role);
    }
    let used = roles.contains(&Role::Acquire) && roles.contains(&Role::Release);
    // Who gave up knows that the lock was busy: no lock says that.
    (used && waiting.iter().all(|(_, woken)| woken.is_some())).then_some(roles)
}

fn rewrite(imported: &mut Imported, roles: &FxHashMap<u32, (Role, u32)>) {
    let history = &mut imported.history;
    let keep = |at: usize| {
        let role = u32::try_from(at).ok().and_then(|at| roles.get(&at));
        !matches!(role, Some((Role::Nothing, _)))
    };
    for (at, event) in (0..).zip(history.events.iter_mut()) {
        match roles.get(&at) {
            Some((Role::Acquire, lock)) => *event = Event { op: Op::Acquire, target: *lock, ..*event },
            Some((Role::Release, lock)) => *event = Event { op: Op::Release, target: *lock, ..*event },
            _ => {}
        }
    }
    let mut moved = Vec::with_capacity(history.events.len());
    let mut next = 0_u32;
    for at in 0..history.events.len() {
        moved.push(next);
        next += u32::from(keep(at));
    }
    let mut number = 0;
    history.events.retain(|_| {
        number += 1;
        keep(number - 1)
    });
    number = 0;
    history.sources.retain(|_| {
        number += 1;
        keep(number - 1)
    });
    number = 0;
    imported.indices.retain(|_| {
        number += 1;
        keep(number - 1)
    });
    for variable in &mut imported.variables {
        variable.first = moved.get(variable.first as usize).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAS: Deed = Deed::Update { acquires: true, releases: false };
    const SWAP: Deed = Deed::Update { acquires: false, releases: true };

    /// Thread, deed, and what it found.
    type Row = (u16, Deed, Option<u64>);

    fn roles(touches: &[Row]) -> Option<Vec<Role>> {
        let touches: Vec<Touch> = (0..)
            .zip(touches)
            .map(|(at, (thread, deed, before))| Touch { at, thread: *thread, deed: *deed, before: *before })
            .collect();
        read(&touches)
    }

    #[test]
    fn what_is_a_lock() {
        use Role::{Acquire, Nothing, Release};
        let free = [(1, CAS, Some(0)), (1, SWAP, Some(1)), (2, CAS, Some(0)), (2, SWAP, Some(1))];
        assert_eq!(roles(&free), Some(vec![Acquire, Release, Acquire, Release]));
        let spun =
            [(1, CAS, Some(0)), (2, Deed::Look, Some(1)), (1, SWAP, Some(1)), (2, CAS, Some(0)), (2, SWAP, Some(1))];
        assert_eq!(roles(&spun), Some(vec![Acquire, Nothing, Release, Acquire, Release]));
        // The slow path of std: the acquisition itself is not seen.
        let waited = [
            (1, CAS, Some(0)),
            (2, Deed::Look, Some(1)),
            (1, SWAP, Some(2)),
            (1, Deed::Wake, None),
            (2, Deed::Woken, None),
            (2, SWAP, Some(2)),
        ];
        assert_eq!(roles(&waited), Some(vec![Acquire, Nothing, Release, Nothing, Acquire, Release]));
        let stored = [(1, CAS, Some(0)), (1, Deed::Store { releases: true }, Some(1)), (2, CAS, Some(0))];
        assert_eq!(roles(&stored), Some(vec![Acquire, Release, Acquire]), "held at the end");
    }

    #[test]
    fn what_is_none() {
        let rows: [(&str, &[Row]); 6] = [
            ("a counter", &[(1, CAS, Some(0)), (2, CAS, Some(1)), (1, CAS, Some(2))]),
            ("given back by another", &[(1, CAS, Some(0)), (2, SWAP, Some(1))]),
            ("given up", &[(1, CAS, Some(0)), (2, Deed::Look, Some(1)), (1, SWAP, Some(1))]),
            ("a flag that is read", &[(1, Deed::Store { releases: true }, Some(0)), (2, Deed::Look, Some(1))]),
            ("not 0 afterwards", &[(1, CAS, Some(0)), (1, SWAP, Some(1)), (2, Deed::Look, Some(7))]),
            ("without values", &[(1, CAS, None), (1, SWAP, None)]),
        ];
        for (why, touches) in rows {
            assert_eq!(roles(touches), None, "{why}");
        }
    }
}
