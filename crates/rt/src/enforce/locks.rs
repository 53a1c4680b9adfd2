//! The locks, and who holds them how.
//!
//! A lock is a word: readers below, a bit for update, a bit for exclusive. A thread has it in the strongest mode of its slots,
//! which are in its own state. Others look at these only to take them away from a thread that is blocked; `guard` is for
//! that. A guard that is taken from one who is gone may leave a lock that nobody can give back: who wants it waits, and
//! escapes.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::enforce::{Counter, PATIENCE_NS, Table};
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
/// Waits for a lock that are given up before the lock is: nobody will give it back any more, or it does not suit the program.
const MOST_ESCAPES: u32 = 4;
/// The mark of a lock that was given up for what waiting took.
const GIVEN_UP: u32 = 1 << 16;
/// Acquisitions that are counted at a time.
const BATCH: u32 = 256;
/// What is done to a lock at a hook takes about so long, counted for so many deeds at a time.
const WORK_NS: u64 = 30;
const WORK_BATCH: u32 = 512;

/// Bytes of a lock.
pub const SIZE: usize = size_of::<Lock>();

#[derive(Debug)]
#[repr(C, align(64))]
struct Lock {
    state: AtomicU64,
    bell: AtomicU32,
    waiters: AtomicU32,
    /// Waits that were given up.
    escapes: AtomicU32,
    /// How long threads have waited for it, in all.
    waited: AtomicU64,
    /// How long what is done at its hooks has taken, about.
    worked: AtomicU64,
}

static LOCKS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);
/// The table's patience, and when the run began.
static PATIENCE: AtomicU32 = AtomicU32::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// How long threads have waited for locks that are still kept, and worked at their hooks.
static SPENT: AtomicU64 = AtomicU64::new(0);

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

/// A [`Held`] in two words.
#[derive(Debug, Default)]
struct Cell(AtomicU64, AtomicU64);

impl Cell {
    // Relaxed: whoever looks has the guard, which orders it.
    fn get(&self) -> Held {
        let (first, second) = (self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed));
        Held { lock: first as u32, slot: (first >> 32) as u32, activation: second as u32, mode: (second >> 32) as u32 }
    }

    fn put(&self, held: Held) {
        self.0.store(u64::from(held.slot) << 32 | u64::from(held.lock), Ordering::Relaxed);
        self.1.store(u64::from(held.mode) << 32 | u64::from(held.activation), Ordering::Relaxed);
    }
}

/// The slots that a thread holds. Others may give them back in its name.
#[derive(Debug, Default)]
struct Slots {
    held: [Cell; MOST],
    /// Who works on them: nobody, [`OWNER`] or [`OTHER`].
    guard: AtomicU32,
    /// Slots in use, at most.
    top: AtomicU32,
    /// The highest rank of those in use, or more: others give slots back without a look at it.
    highest: AtomicU32,
}

/// Activations by how deep they are; one that is not known is deeper than all: it is over when anything else begins or ends.
fn rank(activation: u32) -> u32 {
    activation.wrapping_sub(1)
}

/// What a thread knows of its locks. All zeroes: nothing.
#[derive(Debug, Default)]
pub struct Own {
    slots: Slots,
    taken: u32,
    /// How often something was done, since that was last counted.
    worked: u32,
    /// The lock that something was done to last.
    last: u32,
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
/// How often the guard is tried, with a pause in between, before whoever has it is taken for gone: a handler jumped out of
/// its work, or it was cancelled in the midst of it.
const TRIES: u32 = 10_000;

/// The locks of a table are here.
pub fn begin(at: usize, table: &Table<'_>) {
    COUNT.store(table.locks, Ordering::Relaxed);
    WAIT_NS.store(table.wait_ns, Ordering::Relaxed);
    PATIENCE.store(table.patience, Ordering::Relaxed);
    BEGUN.store(sys::clock_ns(MONOTONIC), Ordering::Relaxed);
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
    /// Whether it is still taken.
    fn is_kept(&self) -> bool {
        self.escapes.load(Ordering::Relaxed) < MOST_ESCAPES
    }

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

impl Slots {
    /// Works on the slots alone; nothing where another is at it for long, unless they are this thread's own. Nobody waits
    /// for anything meanwhile.
    fn alone<R>(&self, who: u32, work: impl FnOnce(&Slots) -> R) -> Option<R> {
        let mut tries = 0;
        while self.guard.compare_exchange_weak(0, who, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            if tries > TRIES {
                if who == OTHER {
                    return None;
                }
                break;
            }
            if tries % 64 == 0 && !sink::is_sealed() {
                sys::sched_yield();
            }
            core::hint::spin_loop();
        }
        let result = work(self);
        self.guard.store(0, Ordering::Release);
        Some(result)
    }

    fn used(&self) -> &[Cell] {
        let top = self.top.load(Ordering::Relaxed) as usize;
        self.held.get(..top.min(MOST)).unwrap_or_default()
    }

    /// The thread's mode of a lock.
    fn mode(&self, lock: u32) -> u32 {
        let modes = self.used().iter().map(Cell::get).filter(|held| held.lock == lock).map(|held| held.mode);
        modes.max().unwrap_or(0)
    }

    fn find(&self, lock: u32, (slot, activation): (u32, u32)) -> Option<&Cell> {
        self.used().iter().find(|cell| {
            let held = cell.get();
            held.mode != 0 && held.lock == lock && held.slot == slot && held.activation == activation
        })
    }

    /// Sets a slot; false where there is no room.
    fn set(&self, lock: u32, slot: (u32, u32), mode: u32) -> bool {
        let held = Held { lock, slot: slot.0, activation: slot.1, mode };
        if let Some(cell) = self.find(lock, slot) {
            cell.put(held);
            return true;
        }
        let Some((at, cell)) = self.held.iter().enumerate().find(|(_, cell)| cell.get().mode == 0) else {
            return false;
        };
        cell.put(held);
        // In a thread that holds nothing it is of slots that are gone.
        let highest = if self.top.load(Ordering::Relaxed) == 0 { 0 } else { self.highest.load(Ordering::Relaxed) };
        self.highest.store(highest.max(rank(slot.1)), Ordering::Relaxed);
        self.top.fetch_max(at as u32 + 1, Ordering::Relaxed);
        true
    }

    /// Gives slots back.
    fn give(&self, goes: &mut dyn FnMut(&Held) -> bool) {
        for cell in self.used() {
            let held = cell.get();
            if held.mode == 0 || !goes(&held) {
                continue;
            }
            self.change(held.lock, || cell.put(Held::default()));
        }
        let (mut top, mut highest) = (0, 0);
        for (at, held) in (1..).zip(self.used().iter().map(Cell::get)).filter(|(_, held)| held.mode != 0) {
            (top, highest) = (at, rank(held.activation).max(highest));
        }
        self.highest.store(highest, Ordering::Relaxed);
        self.top.store(top, Ordering::Relaxed);
    }

    /// Changes slots of a lock to weaker modes, and the lock with them.
    fn change(&self, number: u32, how: impl FnOnce()) {
        let before = self.mode(number);
        how();
        let after = self.mode(number);
        if let Some(lock) = get(number).filter(|_| after != before) {
            lock.change(before, after);
            lock.ring();
        }
    }
}

/// A handler has jumped out of a hook of this thread at work: its work on the slots is over, however far it was.
pub fn abandon(state: &ThreadState) {
    let _ = state.enforce.slots.guard.compare_exchange(OWNER, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whether a thread holds anything.
pub fn holds(state: &ThreadState) -> bool {
    state.enforce.slots.top.load(Ordering::Relaxed) != 0
}

/// Whether a thread holds slots of activations from a depth on, or of none.
pub fn holds_from(state: &ThreadState, depth: u32) -> bool {
    holds(state) && state.enforce.slots.highest.load(Ordering::Relaxed) >= depth
}

/// Gives back the slots of activations from a depth on, and of none.
pub fn release_from(state: &ThreadState, depth: u32) {
    if holds_from(state, depth) {
        release(state, |held| rank(held.activation) >= depth);
    }
}

/// Whether a lock is still taken.
pub fn is_kept(number: u32) -> bool {
    get(number).is_some_and(Lock::is_kept)
}

/// Gives slots back.
pub fn release(state: &ThreadState, mut goes: impl FnMut(&Held) -> bool) {
    if holds(state) {
        state.enforce.slots.alone(OWNER, |slots| slots.give(&mut goes));
    }
}

/// Weakens a slot if it is held more strongly.
pub fn weaken(state: &ThreadState, lock: u32, slot: (u32, u32), mode: u32) {
    state.enforce.slots.alone(OWNER, |slots| {
        if let Some(cell) = slots.find(lock, slot) {
            let held = cell.get();
            slots.change(lock, || cell.put(Held { mode: held.mode.min(mode + 1), ..held }));
        }
    });
}

/// Takes a lock for a slot; waits, but not for ever.
pub fn acquire(state: &mut ThreadState, number: u32, slot: (u32, u32), mode: u32) {
    let Some(lock) = get(number).filter(|lock| lock.is_kept()) else { return };
    let wanted = mode + 1;
    let attempt = |state: &ThreadState| {
        state.enforce.slots.alone(OWNER, |slots| {
            let has = slots.mode(number);
            if has >= wanted {
                return Some(slots.set(number, slot, wanted));
            }
            if !lock.change(has, wanted) {
                return None;
            }
            let set = slots.set(number, slot, wanted);
            if !set {
                lock.change(wanted, has);
                lock.ring();
            }
            Some(set)
        })?
    };
    let done = match attempt(state) {
        Some(done) => done,
        None => {
            log::count(Counter::Waited, 1);
            match wait(state, lock, number, wanted, &|state| attempt(state)) {
                Some(done) => done,
                None => return escape(lock),
            }
        }
    };
    if done {
        state.enforce.taken += 1;
    } else {
        log::count(Counter::NoRoom, 1);
    }
    if state.enforce.taken >= BATCH {
        flush(state);
    }
}

/// The thread goes on without the lock.
#[cold]
fn escape(lock: &Lock) {
    log::count(Counter::Escapes, 1);
    if lock.escapes.fetch_add(1, Ordering::Relaxed) + 1 == MOST_ESCAPES {
        log::count(Counter::Retired, 1);
    }
}

/// Waits until an attempt has an answer; nothing after the longest time.
fn wait(
    state: &ThreadState,
    lock: &Lock,
    number: u32,
    wanted: u32,
    attempt: &dyn Fn(&ThreadState) -> Option<bool>,
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
    let mut told = 0;
    lock.waiters.fetch_add(1, Ordering::SeqCst);
    state.blocked.store(1, Ordering::Relaxed);
    let done = loop {
        let bell = lock.bell.load(Ordering::Acquire);
        let answer = attempt(state);
        let now = sys::clock_ns(MONOTONIC);
        let so_far = now.saturating_sub(begun);
        if lock.is_kept() {
            // In this order, so that what a lock that is given up takes out of the sum is in it.
            SPENT.fetch_add(so_far - told, Ordering::Relaxed);
            lock.waited.fetch_add(so_far - told, Ordering::Release);
            told = so_far;
            keep_patience(now);
        }
        if let Some(done) = answer {
            break Some(done);
        }
        let left = ns.saturating_sub(so_far);
        if left == 0 || !lock.is_kept() {
            break None;
        }
        if guard::nobody_else_runs(state) && revoke_blocked(state, number, wanted) {
            continue;
        }
        sys::futex_wait(core::ptr::from_ref(&lock.bell) as usize, bell, Some(LOOK_NS.min(left)));
    };
    state.blocked.store(0, Ordering::Relaxed);
    lock.waiters.fetch_sub(1, Ordering::SeqCst);
    log::waited(number, sys::clock_ns(MONOTONIC).saturating_sub(begun));
    done
}

/// The thread does something to a lock.
pub fn acted(state: &mut ThreadState, lock: u32) {
    state.enforce.last = lock;
    state.enforce.worked += 1;
}

/// The thread has done what there was to do at a hook. Of many deeds the last one's lock stands for all.
pub fn worked(state: &mut ThreadState) {
    state.enforce.worked += 1;
    if state.enforce.worked < WORK_BATCH {
        return;
    }
    let deeds = core::mem::take(&mut state.enforce.worked);
    let limited = PATIENCE.load(Ordering::Relaxed) != 0 && !gate::is_on() && !sink::is_sealed();
    if let Some(lock) = get(state.enforce.last).filter(|lock| limited && lock.is_kept()) {
        let ns = u64::from(deeds) * WORK_NS;
        SPENT.fetch_add(ns, Ordering::Relaxed);
        lock.worked.fetch_add(ns, Ordering::Release);
        keep_patience(sys::clock_ns(MONOTONIC));
    }
}

/// Gives up the lock that took most, where waiting and what is done at hooks have taken more than their part of the run.
fn keep_patience(now: u64) {
    let patience = u64::from(PATIENCE.load(Ordering::Relaxed));
    let run = now.saturating_sub(BEGUN.load(Ordering::Relaxed));
    let Some(part) = run.checked_div(patience) else { return };
    if SPENT.load(Ordering::Relaxed) <= PATIENCE_NS + part {
        return;
    }
    let kept = (0..COUNT.load(Ordering::Relaxed)).filter_map(|number| Some((number, get(number)?)));
    let spent = |lock: &Lock| (lock.waited.load(Ordering::Acquire), lock.worked.load(Ordering::Acquire));
    let total = |lock: &Lock| spent(lock).0.saturating_add(spent(lock).1);
    let most = kept.filter(|(_, lock)| lock.is_kept()).max_by_key(|(_, lock)| total(lock));
    // Of several threads that come to this one gives the lock up.
    if let Some((number, lock)) = most
        && lock.escapes.fetch_max(GIVEN_UP, Ordering::Relaxed) < MOST_ESCAPES
    {
        let (waited, worked) = spent(lock);
        SPENT.fetch_sub(waited.saturating_add(worked), Ordering::Relaxed);
        log::given_up(number, waited >= worked);
        lock.ring();
        super::quieten();
    }
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
        other.enforce.slots.alone(OTHER, |theirs| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        Lock {
            state: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            escapes: AtomicU32::new(0),
            waited: AtomicU64::new(0),
            worked: AtomicU64::new(0),
        }
    }

    #[test]
    fn modes_fit_beside_each_other() {
        // None, read, update, exclusive: who may have which while another has it.
        let beside = [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]];
        for (theirs, row) in (0..).zip(beside) {
            for (mine, fits) in (0..).zip(row) {
                let lock = lock();
                assert!(lock.change(0, theirs));
                assert_eq!(lock.change(0, mine), fits != 0, "{theirs} {mine}");
                if fits != 0 {
                    // What is given back leaves nothing.
                    assert!(lock.change(mine, 0) && lock.change(theirs, 0));
                    assert_eq!(lock.state.load(Ordering::Relaxed), 0);
                }
            }
        }
    }

    #[test]
    fn a_lock_is_had_in_the_strongest_mode_of_its_slots() {
        let slots = Slots::default();
        assert!(slots.set(7, (1, 1), 1) && slots.set(7, (2, 1), 3) && slots.set(8, (1, 1), 2));
        assert_eq!((slots.mode(7), slots.mode(8), slots.mode(9)), (3, 2, 0));
        slots.give(&mut |held| held.slot == 2);
        assert_eq!((slots.mode(7), slots.mode(8)), (1, 2));
        slots.give(&mut |held| held.activation == 1);
        assert_eq!((slots.mode(7), slots.mode(8), slots.top.load(Ordering::Relaxed)), (0, 0, 0));
        // The deepest activation is known, and one that is not known is the deepest.
        for (slot, highest) in [((1, 3), 2), ((1, 2), 2), ((1, 0), u32::MAX)] {
            assert!(slots.set(7, slot, 1));
            assert_eq!(slots.highest.load(Ordering::Relaxed), highest);
        }
        slots.give(&mut |held| rank(held.activation) >= 2);
        assert_eq!((slots.highest.load(Ordering::Relaxed), slots.mode(7)), (1, 1));
        slots.give(&mut |_| true);
        assert!(slots.set(7, (1, 1), 1) && slots.highest.load(Ordering::Relaxed) == 0);
        slots.give(&mut |_| true);
        let room = (0..MOST as u32).filter(|slot| slots.set(1, (*slot, 0), 1)).count();
        assert_eq!((room, slots.set(2, (0, 0), 1)), (MOST, false));
    }

    #[test]
    fn a_guard_whose_owner_is_gone_is_taken_back() {
        let slots = Slots::default();
        slots.guard.store(OTHER, Ordering::Relaxed);
        assert_eq!(slots.alone(OTHER, |_| ()), None);
        assert_eq!(slots.alone(OWNER, |_| 5), Some(5));
        assert_eq!(slots.alone(OTHER, |_| 6), Some(6));
    }
}
