//! Who is inside a section of which variable, and how others wait until it is over.
//!
//! A variable is the sixteen bytes around an address; variables share a fixed number of locks. A lock is a word with the
//! state of the thread that has it. It can be taken away: a wait has an end, after which who waited takes the lock from its
//! holder. So a holder that never comes back costs one wait, and no wait makes a program hang.
//! Who has waited for long goes before the one that had it: a thread that goes round in a section (it spins until another one has done
//! something) would else have the lock for ever.
//!
//! Before each wait, and again while it lasts, the waits of others are followed from holder to holder: where they lead
//! back, nobody waits (the paper's section 5.1: a deadlock that healing locks would bring about is broken by skipping them).

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use selvedge_events::heal::{How, LogCounter};
use selvedge_sched::OpKind;

use super::log::{self, Came};
use crate::gate::{self, Arrival, model, time};
use crate::thread_state::ThreadState;
use crate::{sink, sys};

/// Locks that there are.
const LOCKS: usize = 1024;
/// Bytes of a variable, as a power of two.
const GRAIN: u32 = 4;
/// How often a thread that waits looks around by itself.
const LOOK_NS: u64 = 500_000;
/// How long a thread waits before others make way for it.
const PATIENT_NS: u64 = 1_000_000;
/// The same under control, where time passes with steps.
const PATIENT_IN_GATE_NS: u64 = 20_000;
/// Looks before it sleeps.
const SPINS: u32 = 200;
/// Turns that are given away.
const TURNS: u32 = 16;
/// How long a thread sleeps, or stays behind others.
const MOMENT_NS: u64 = 1_000_000;
/// Longest chain of waits that is followed.
const CHAIN: usize = 64;
const MONOTONIC: usize = 1;

#[derive(Debug)]
struct Lock {
    /// The state of the thread inside; 0 where nobody is.
    owner: AtomicUsize,
    /// Changes when it is left.
    bell: AtomicU32,
    /// Threads that wait.
    waiting: AtomicU32,
    /// Those of them that have waited for long.
    starving: AtomicU32,
    /// Who gave it back for one of these, and does not take it again before them.
    gave: AtomicUsize,
}

static TABLE: [Lock; LOCKS] = [const {
    Lock {
        owner: AtomicUsize::new(0),
        bell: AtomicU32::new(0),
        waiting: AtomicU32::new(0),
        starving: AtomicU32::new(0),
        gave: AtomicUsize::new(0),
    }
}; LOCKS];

/// The number of an address's lock, from 1.
pub fn of(addr: u64) -> u32 {
    ((addr >> GRAIN).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as u32 % LOCKS as u32 + 1
}

/// Whether two addresses are of one variable.
pub fn is_same(one: u64, other: u64) -> bool {
    one >> GRAIN == other >> GRAIN
}

fn get(number: u32) -> &'static Lock {
    &TABLE[(number.wrapping_sub(1)) as usize % LOCKS]
}

fn own(state: &ThreadState) -> usize {
    core::ptr::from_ref(state) as usize
}

/// The object that stands for a lock in the gate.
fn object(number: u32) -> u64 {
    core::ptr::from_ref(get(number)) as u64 | 1 << 62
}

/// Whether a thread has a lock.
pub fn has(state: &ThreadState, number: u32) -> bool {
    get(number).owner.load(Ordering::Relaxed) == own(state)
}

/// Whether somebody has waited for a lock for long.
pub fn is_wanted(number: u32) -> bool {
    get(number).starving.load(Ordering::Relaxed) != 0
}

fn take(state: &ThreadState, number: u32) -> bool {
    let lock = get(number);
    let makes_way = lock.gave.load(Ordering::Relaxed) == own(state) && lock.starving.load(Ordering::Relaxed) != 0;
    !makes_way && lock.owner.compare_exchange(0, own(state), Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Waits for a lock as one that has waited for long: whoever has it does not take it again before.
fn starve(number: u32, wait: impl FnOnce() -> Came) -> Came {
    let lock = get(number);
    lock.starving.fetch_add(1, Ordering::SeqCst);
    let came = wait();
    // In a forked child nobody waits.
    let _ = lock.starving.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_sub(1));
    // Whoever made way for this thread has done so.
    lock.gave.store(0, Ordering::SeqCst);
    came
}

/// Gives a lock back, unless it was taken away.
pub fn give(state: &ThreadState, number: u32) {
    let lock = get(number);
    if is_wanted(number) && has(state, number) {
        lock.gave.store(own(state), Ordering::SeqCst);
    }
    if lock.owner.compare_exchange(own(state), 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return;
    }
    if gate::is_on() {
        model::wake_all(object(number));
    } else if lock.waiting.load(Ordering::SeqCst) != 0 {
        lock.bell.fetch_add(1, Ordering::Release);
        if !sink::is_sealed() {
            sys::futex_wake(core::ptr::from_ref(&lock.bell) as usize);
        }
    }
}

/// Whether the waits of others lead from this lock back to this thread.
fn leads_back(state: &ThreadState, mut number: u32) -> bool {
    for _ in 0..CHAIN {
        let holder = get(number).owner.load(Ordering::Acquire);
        if holder == 0 {
            return false;
        }
        if holder == own(state) {
            return true;
        }
        // SAFETY: I2: states are never unmapped. Another thread's state is only looked at for its atomic field.
        number = unsafe { &*(holder as *const ThreadState) }.heal.waiting.load(Ordering::Acquire);
        if number == 0 {
            return false;
        }
    }
    true
}

/// Comes to a section. True where the thread is inside from now on, and others are kept out.
pub fn enter(state: &mut ThreadState, number: u32, section: u32, how: How, wait_ns: u64) -> bool {
    if take(state, number) {
        log::came(section, Came::Free, 0);
        return true;
    }
    if sink::is_sealed() || log::is_mute(section) && !gate::is_on() {
        log::came(section, Came::Spared, 0);
        return false;
    }
    let clock = || if gate::is_on() { time::now() } else { sys::clock_ns(MONOTONIC) };
    let begun = clock();
    state.heal.waiting.store(number, Ordering::SeqCst);
    let came = match how {
        How::Lock if leads_back(state, number) => Came::Deadlock,
        How::Lock if gate::is_on() && state.seat != 0 => in_gate(state, number, section, wait_ns),
        How::Lock => wait(state, number, begun, wait_ns),
        _ => step_aside(state, number, how),
    };
    state.heal.waiting.store(0, Ordering::Release);
    if came == Came::TimedOut {
        if how == How::Lock {
            log::count(LogCounter::TimedOut, 1);
            // Who had it has it no more; whoever comes next waits for this thread.
            get(number).owner.store(own(state), Ordering::SeqCst);
        } else {
            log::count(LogCounter::Overran, 1);
        }
    }
    log::came(section, came, clock().saturating_sub(begun));
    has(state, number)
}

/// Waits for a lock where threads run freely.
fn wait(state: &ThreadState, number: u32, begun: u64, ns: u64) -> Came {
    let lock = get(number);
    for _ in 0..SPINS {
        core::hint::spin_loop();
        if lock.owner.load(Ordering::Relaxed) == 0 && take(state, number) {
            return Came::Freed;
        }
    }
    lock.waiting.fetch_add(1, Ordering::SeqCst);
    let sleep = |until: u64| loop {
        let bell = lock.bell.load(Ordering::Acquire);
        if take(state, number) {
            break Came::Freed;
        }
        let left = until.saturating_sub(sys::clock_ns(MONOTONIC).saturating_sub(begun));
        if left == 0 {
            break Came::TimedOut;
        }
        if leads_back(state, number) {
            break Came::Deadlock;
        }
        sys::futex_wait(core::ptr::from_ref(&lock.bell) as usize, bell, Some(left.min(LOOK_NS)));
    };
    let came = match sleep(ns.min(PATIENT_NS)) {
        Came::TimedOut if ns > PATIENT_NS => starve(number, || sleep(ns)),
        came => came,
    };
    // In a forked child nobody waits.
    let _ = lock.waiting.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_sub(1));
    came
}

/// Under control a wait for a lock is a wait in the gate.
fn in_gate(state: &ThreadState, number: u32, section: u32, ns: u64) -> Came {
    let wait = |ns: u64| {
        let arrival = Arrival { object: object(number), ..Arrival::access(OpKind::Other, 0, section) };
        match model::acquire(arrival, time::after(ns), false, || take(state, number).then_some(())) {
            Some(Ok(())) => Came::Freed,
            _ => Came::TimedOut,
        }
    };
    match wait(ns.min(PATIENT_IN_GATE_NS)) {
        Came::TimedOut if ns > PATIENT_IN_GATE_NS => starve(number, || wait(ns - PATIENT_IN_GATE_NS)),
        came => came,
    }
}

/// Lets the thread that is inside go on, for a moment; no more than that.
fn step_aside(state: &ThreadState, number: u32, how: How) -> Came {
    if gate::is_on() && state.seat != 0 {
        return step_aside_in_gate(state, number, how);
    }
    match how {
        How::Sleep => {
            log::count(LogCounter::Sleeps, 1);
            sys::nap(MOMENT_NS);
        }
        How::Priority => {
            log::count(LogCounter::StepsBack, 1);
            let before = sys::step_back();
            let begun = sys::clock_ns(MONOTONIC);
            while get(number).owner.load(Ordering::Relaxed) != 0
                && sys::clock_ns(MONOTONIC).saturating_sub(begun) < MOMENT_NS
            {
                sys::sched_yield();
            }
            sys::step_forward(before);
        }
        How::Yield | How::Lock => {
            for _ in 0..TURNS {
                log::count(LogCounter::Yields, 1);
                sys::sched_yield();
                if get(number).owner.load(Ordering::Relaxed) == 0 {
                    break;
                }
            }
        }
    }
    if take(state, number) { Came::Freed } else { Came::TimedOut }
}

/// The same under control. There are no priorities: who steps back gives its turns away.
fn step_aside_in_gate(state: &ThreadState, number: u32, how: How) -> Came {
    let arrival = |kind: OpKind| Arrival { object: object(number), ..Arrival::access(kind, 0, 0) };
    if how == How::Sleep {
        log::count(LogCounter::Sleeps, 1);
        let _ = model::sleep(arrival(OpKind::Sleep), time::after(MOMENT_NS));
    } else {
        let counter = if how == How::Priority { LogCounter::StepsBack } else { LogCounter::Yields };
        for _ in 0..TURNS {
            log::count(counter, 1);
            gate::point(arrival(OpKind::Yield));
            if get(number).owner.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
    }
    if take(state, number) { Came::Freed } else { Came::TimedOut }
}

/// In a forked child: nobody is inside anything, and nobody waits.
pub fn after_fork() {
    for lock in &TABLE {
        lock.owner.store(0, Ordering::Relaxed);
        lock.waiting.store(0, Ordering::Relaxed);
        lock.starving.store(0, Ordering::Relaxed);
        lock.gave.store(0, Ordering::Relaxed);
    }
}
