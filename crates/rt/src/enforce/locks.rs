//! The locks, and who holds them how.
//!
//! A lock is a word: readers below, a bit for update, a bit for exclusive. A thread has it in the strongest mode of its slots, which
//! are in its own state. Others look at these only to take them away from a thread that is blocked; `guard` is for that.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::enforce::Counter;
use selvedge_sched::OpKind;

use super::log;
use crate::gate::{self, Arrival, model, time};
use crate::thread_state::ThreadState;
use crate::{guard, sink, sys};

/// Slots that a thread can hold at a time.
const MOST: usize = 32;
/// How often a waiting thread looks around by itself.
const LOOK_NS: u64 = 500_000;
const MONOTONIC: usize = 1;
/// Acquisitions that are counted at a time.
const BATCH: u32 = 256;

/// Bytes of a lock.
pub const SIZE: usize = size_of::<Lock>();

#[derive(Debug)]
#[repr(C, align(64))]
struct Lock {
    state: AtomicU64,
    bell: AtomicU32,
    waiters: AtomicU32,
}

static LOCKS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// A slot that is held. `mode` is one more than the table's, 0 for a free slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Which lock.
    pub lock: u32,
    /// Which slot.
    pub slot: u32,
    /// Of which activation.
    pub activation: u32,
    mode: u32,
}

/// What a thread knows of its locks. All zeroes: nothing.
#[derive(Debug, Default)]
pub struct Own {
    held: [Held; MOST],
    /// Who works on `held`: nobody, [`OWNER`] or [`OTHER`].
    guard: AtomicU32,
    /// Slots in use, at most.
    top: u32,
    taken: u32,
    /// Where the hook's frame is while one of this thread is at work; else 0.
    pub at_work: usize,
    /// Hooks that have interrupted it.
    pub reentries: u32,
    /// The point whose actions after it are still to be done; 0 for none.
    pub pending: u32,
    /// Their activation.
    pub pending_at: u32,
    /// Where the interposed call returns to that the thread is in, if something is to be done after it.
    pub call: u64,
}

const OWNER: u32 = 1;
const OTHER: u32 = 2;

/// The locks are here.
pub fn begin(at: usize, count: u32, wait_ns: u64) {
    COUNT.store(count, Ordering::Relaxed);
    WAIT_NS.store(wait_ns, Ordering::Relaxed);
    LOCKS.store(at, Ordering::Release);
}

fn get(lock: u32) -> Option<&'static Lock> {
    let at = LOCKS.load(Ordering::Acquire);
    let there = at != 0 && lock < COUNT.load(Ordering::Relaxed);
    // SAFETY: I6: `begin` got zeroed pages for so many locks, which are never unmapped; all zeroes is a free lock.
    there.then(|| unsafe { &*(at as *const Lock).add(lock as usize) })
}

/// What a mode adds to a lock's word.
fn weight(mode: u32) -> u64 {
    match mode {
        0 => 0,
        1 => 1,
        2 => 1 << 32,
        _ => 1 << 33,
    }
}

/// Whether a mode can be had beside what others hold.
fn fits(others: u64, mode: u32) -> bool {
    match mode {
        1 => others >> 33 == 0,
        2 => others >> 32 == 0,
        _ => others == 0,
    }
}

impl Lock {
    /// Goes from one mode to another, if others allow it.
    fn change(&self, from: u32, to: u32) -> bool {
        let mut now = self.state.load(Ordering::Relaxed);
        loop {
            let others = now.wrapping_sub(weight(from));
            if to > from && !fits(others, to) {
                return false;
            }
            let next = others.wrapping_add(weight(to));
            // Acquire and release: who has the lock next sees what was done under it.
            match self.state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    fn ring(&self) {
        if gate::is_on() {
            model::wake_all(self.object());
        } else if self.waiters.load(Ordering::SeqCst) != 0 {
            self.bell.fetch_add(1, Ordering::Release);
            if !sink::is_sealed() {
                sys::futex_wake(core::ptr::from_ref(&self.bell) as usize);
            }
        }
    }

    /// What stands for it in the gate.
    fn object(&self) -> u64 {
        core::ptr::from_ref(self) as u64 | 5
    }
}

impl Own {
    /// Works on the slots alone. Whoever else does is quick: it never waits meanwhile.
    fn alone<R>(&mut self, who: u32, work: impl FnOnce(&mut Own) -> R) -> R {
        while self.guard.compare_exchange_weak(0, who, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
        }
        let result = work(self);
        self.guard.store(0, Ordering::Release);
        result
    }

    fn slots(&mut self) -> &mut [Held] {
        let top = (self.top as usize).min(MOST);
        self.held.get_mut(..top).unwrap_or_default()
    }

    /// The thread's mode of a lock.
    fn mode(&mut self, lock: u32) -> u32 {
        self.slots().iter().filter(|held| held.lock == lock).map(|held| held.mode).max().unwrap_or(0)
    }

    fn find(&mut self, lock: u32, (slot, activation): (u32, u32)) -> Option<&mut Held> {
        let is_it = |held: &&mut Held| {
            held.mode != 0 && held.lock == lock && held.slot == slot && held.activation == activation
        };
        self.slots().iter_mut().find(is_it)
    }

    /// Sets a slot; false where there is no room.
    fn set(&mut self, lock: u32, slot: (u32, u32), mode: u32) -> bool {
        if let Some(held) = self.find(lock, slot) {
            held.mode = mode;
            return true;
        }
        let free = self.held.iter().position(|held| held.mode == 0);
        let Some(place) = free.and_then(|at| self.held.get_mut(at)) else { return false };
        *place = Held { lock, slot: slot.0, activation: slot.1, mode };
        let top = free.map_or(0, |at| at as u32 + 1);
        self.top = self.top.max(top);
        true
    }

    /// Gives slots back; answers a lock that others may want now, one after the other.
    fn give(&mut self, goes: &mut dyn FnMut(&Held) -> bool) {
        for at in 0..self.top.min(MOST as u32) as usize {
            let Some(held) = self.held.get(at).copied().filter(|held| held.mode != 0 && goes(held)) else { continue };
            let before = self.mode(held.lock);
            if let Some(place) = self.held.get_mut(at) {
                place.mode = 0;
            }
            let after = self.mode(held.lock);
            if let Some(lock) = get(held.lock).filter(|_| after != before) {
                lock.change(before, after);
                lock.ring();
            }
        }
        while self.top > 0 && self.held.get(self.top as usize - 1).is_some_and(|held| held.mode == 0) {
            self.top -= 1;
        }
    }
}

/// A handler has jumped out of a hook of this thread at work: its work on the slots is over, however far it was.
pub fn abandon(state: &mut ThreadState) {
    let _ = state.enforce.guard.compare_exchange(OWNER, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whether a thread holds anything.
pub fn holds(state: &ThreadState) -> bool {
    state.enforce.top != 0
}

/// Gives slots back.
pub fn release(state: &mut ThreadState, mut goes: impl FnMut(&Held) -> bool) {
    if state.enforce.top != 0 {
        state.enforce.alone(OWNER, |own| own.give(&mut goes));
    }
}

/// Weakens a slot if it is held more strongly.
pub fn weaken(state: &mut ThreadState, lock: u32, slot: (u32, u32), mode: u32) {
    state.enforce.alone(OWNER, |own| {
        let before = own.mode(lock);
        if let Some(held) = own.find(lock, slot) {
            held.mode = held.mode.min(mode + 1);
        }
        let after = own.mode(lock);
        if let Some(lock) = get(lock).filter(|_| after != before) {
            lock.change(before, after);
            lock.ring();
        }
    });
}

/// Takes a lock for a slot; waits, but not for ever.
pub fn acquire(state: &mut ThreadState, number: u32, slot: (u32, u32), mode: u32) {
    let Some(lock) = get(number) else { return };
    let wanted = mode + 1;
    let attempt = |state: &mut ThreadState| {
        state.enforce.alone(OWNER, |own| {
            let has = own.mode(number);
            if has >= wanted {
                return Some(own.set(number, slot, wanted));
            }
            if !lock.change(has, wanted) {
                return None;
            }
            let set = own.set(number, slot, wanted);
            if !set {
                lock.change(wanted, has);
                lock.ring();
            } else {
                own.taken += 1;
            }
            Some(set)
        })
    };
    let done = match attempt(state) {
        Some(done) => done,
        None => {
            log::count(Counter::Waited, 1);
            match wait(state, lock, number, wanted, &mut |state| attempt(state)) {
                Some(done) => done,
                None => return log::count(Counter::Escapes, 1),
            }
        }
    };
    if !done {
        log::count(Counter::NoRoom, 1);
    }
    if state.enforce.taken >= BATCH {
        flush(state);
    }
}

/// Waits until an attempt has an answer; nothing after the longest time.
fn wait(
    state: &mut ThreadState,
    lock: &Lock,
    number: u32,
    wanted: u32,
    attempt: &mut dyn FnMut(&mut ThreadState) -> Option<bool>,
) -> Option<bool> {
    let ns = WAIT_NS.load(Ordering::Relaxed);
    if gate::is_on() && state.seat != 0 {
        let arrival = Arrival { object: lock.object(), ..Arrival::access(OpKind::Other, 0, 0) };
        if let Some(Ok(done)) = model::acquire(arrival, time::after(ns), false, || attempt(state)) {
            return Some(done);
        }
        return if revoke_blocked(state, number, wanted) { attempt(state) } else { None };
    }
    if sink::is_sealed() {
        return None;
    }
    let begun = sys::clock_ns(MONOTONIC);
    lock.waiters.fetch_add(1, Ordering::SeqCst);
    state.blocked.store(1, Ordering::Relaxed);
    let done = loop {
        let bell = lock.bell.load(Ordering::Acquire);
        if let Some(done) = attempt(state) {
            break Some(done);
        }
        let left = ns.saturating_sub(sys::clock_ns(MONOTONIC).saturating_sub(begun));
        if left == 0 {
            break None;
        }
        if guard::nobody_else_runs(state) && revoke_blocked(state, number, wanted) {
            continue;
        }
        sys::futex_wait(core::ptr::from_ref(&lock.bell) as usize, bell, Some(LOOK_NS.min(left)));
    };
    state.blocked.store(0, Ordering::Relaxed);
    lock.waiters.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Takes a lock from threads that wait for locks of the program, which are the only ones that could give it back; whether there was one.
fn revoke_blocked(state: &ThreadState, number: u32, wanted: u32) -> bool {
    let own = core::ptr::from_ref(state) as usize;
    let mut found = false;
    for other in guard::threads() {
        let at = core::ptr::from_ref(other) as usize;
        if at == own || other.blocked.load(Ordering::Relaxed) != 2 {
            continue;
        }
        // SAFETY: I4: another thread's slots are worked on under its `guard`, which it takes itself for all that it does with
        // them; states are never unmapped (I2).
        let theirs = unsafe { &mut *core::ptr::addr_of_mut!((*(at as *mut ThreadState)).enforce) };
        theirs.alone(OTHER, |theirs| {
            let mode = theirs.mode(number);
            if mode != 0 && !fits(weight(mode), wanted) {
                found = true;
                theirs.give(&mut |_| true);
            }
        });
    }
    if found {
        log::count(Counter::Revoked, 1);
    }
    found
}

/// Adds what a thread has counted.
pub fn flush(state: &mut ThreadState) {
    let taken = core::mem::take(&mut state.enforce.taken);
    log::count(Counter::Taken, u64::from(taken));
}

/// In a forked child: all locks are free.
pub fn after_fork() {
    for lock in (0..COUNT.load(Ordering::Relaxed)).filter_map(get) {
        lock.state.store(0, Ordering::Relaxed);
        lock.waiters.store(0, Ordering::Relaxed);
    }
}
