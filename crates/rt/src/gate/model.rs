//! The blocking operations, modelled: what a thread waits for, and who wakes it.
//!
//! Locks, semaphores, joins and one-time initialisations are *tried* under the baton until they succeed; whoever
//! changes the object wakes those who wait for it. Conditions and futexes hand out wake-ups, in order of arrival.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::control::{SeatState, at, seat};
use selvedge_sched::OpKind;

use super::control::{Seat, get32, get64, seats};
use super::{Arrival, Visit, Woken, lock, visit};
use crate::guard::section;
use crate::sys;

/// Error numbers that the models answer with.
pub mod errno {
    #![expect(missing_docs, reason = "the C library's names")]
    pub const EINTR: i32 = 4;
    pub const EAGAIN: i32 = 11;
    pub const EBUSY: i32 = 16;
    pub const EDEADLK: i32 = 35;
    pub const ETIMEDOUT: i32 = 110;
    pub const EOWNERDEAD: i32 = 130;
}

/// Wakes everybody who waits for an object, to try again.
pub fn wake_all(object: u64) {
    let Some(_held) = lock() else { return };
    for seat in waiters(object) {
        wake(seat);
    }
}

fn waiters(object: u64) -> impl Iterator<Item = Seat> {
    seats().filter(move |seat| seat.state() == SeatState::Blocked && seat.get64(seat::OBJECT) == object)
}

fn wake(seat: Seat) {
    seat.set(seat::WOKEN, Woken::Up as u32);
    seat.set_state(SeatState::Ready);
}

/// A lock was taken: those who were told to try again need not. Where it is shared, others may share it.
fn taken(object: u64, shared: bool) {
    let Some(_held) = lock() else { return };
    let tries = |seat: &Seat| {
        seat.state() == SeatState::Ready
            && seat.get64(seat::OBJECT) == object
            && seat.get(seat::FLAGS) & seat::TRIES != 0
            && seat.get(seat::WOKEN) == Woken::Up as u32
            && (seat.kind() == OpKind::Lock || !shared)
    };
    for seat in seats().filter(tries) {
        seat.set_state(SeatState::Blocked);
    }
}

/// Wakes up to `most` waiters whose bits meet `bits`, the longest-waiting first; answers how many.
pub fn wake_some(object: u64, most: u64, bits: u32) -> u64 {
    let Some(_held) = lock() else { return 0 };
    let fits = |seat: &Seat| seat.get(seat::BITS) & bits != 0;
    if most >= u64::from(u32::MAX >> 1) {
        let mut woken = 0;
        for seat in waiters(object).filter(fits) {
            wake(seat);
            woken += 1;
        }
        return woken;
    }
    let mut woken = 0;
    while woken < most {
        let fits = waiters(object).filter(fits);
        let Some(first) = fits.min_by_key(|seat| (seat.get64(seat::ARRIVAL), seat.0)) else { break };
        wake(first);
        woken += 1;
    }
    woken
}

/// Moves up to `most` waiters on to another object; answers how many.
pub fn move_waiters(from: u64, to: u64, most: u64) -> u64 {
    let Some(_held) = lock() else { return 0 };
    let mut moved = 0;
    while moved < most {
        let Some(first) = waiters(from).min_by_key(|seat| (seat.get64(seat::ARRIVAL), seat.0)) else { break };
        first.set64(seat::OBJECT, to);
        moved += 1;
    }
    moved
}

/// Wakes those who wait for a thread's end. The gate's lock is held.
pub fn wake_joiners(thread: u32) {
    for seat in seats().filter(|seat| seat.kind() == OpKind::Join && seat.state() == SeatState::Blocked) {
        if seat.get64(seat::OBJECT) == u64::from(thread) + 1 {
            wake(seat);
        }
    }
}

/// Whether a thread waits for another one's end.
pub fn is_joining(thread: u32, other: u32) -> bool {
    super::seat_of(thread).is_some_and(|seat| {
        let waits = seat.kind() == OpKind::Join && seat.state() == SeatState::Blocked;
        waits && seat.get64(seat::OBJECT) == u64::from(other) + 1
    })
}

/// A thread was asked to end: it wakes where it may be cancelled.
pub fn cancel(thread: u32) {
    let Some(seat) = super::seat_of(thread) else { return };
    let Some(_held) = lock() else { return };
    let waits = matches!(seat.state(), SeatState::Blocked | SeatState::Io);
    if waits && matches!(seat.kind(), OpKind::Wait | OpKind::Join | OpKind::Sleep | OpKind::Io) {
        seat.set(seat::WOKEN, Woken::Cancelled as u32);
        seat.set_state(SeatState::Ready);
    } else {
        seat.set(seat::FLAGS, seat.get(seat::FLAGS) | seat::CANCEL);
    }
}

impl Visit {
    /// Remembers that this thread holds a lock.
    pub fn holds(&self, object: u64, pc: usize) {
        let seat = self.seat;
        let count = seat.get(seat::HELD) as usize;
        if count >= seat::LOCKS_MOST {
            seat.set(seat::FLAGS, seat.get(seat::FLAGS) | seat::MORE_LOCKS);
            return;
        }
        seat.set64(seat::LOCKS + count * 16, object);
        seat.set64(seat::LOCKS + count * 16 + 8, crate::modules::payload(pc));
        seat.set(seat::HELD, count as u32 + 1);
    }

    /// It holds it no more.
    pub fn released(&self, object: u64) {
        let seat = self.seat;
        let count = (seat.get(seat::HELD) as usize).min(seat::LOCKS_MOST);
        let row = |index: usize| seat::LOCKS + index * 16;
        let Some(found) = (0..count).rev().find(|index| seat.get64(row(*index)) == object) else { return };
        for index in found + 1..count {
            seat.set64(row(index - 1), seat.get64(row(index)));
            seat.set64(row(index - 1) + 8, seat.get64(row(index) + 8));
        }
        seat.set(seat::HELD, count as u32 - 1);
    }
}

fn is_holder(seat: Seat, object: u64) -> bool {
    let count = (seat.get(seat::HELD) as usize).min(seat::LOCKS_MOST);
    (0..count).any(|index| seat.get64(seat::LOCKS + index * 16) == object)
}

/// Whether a thread that lives holds a lock, or may.
pub fn is_held(object: u64) -> bool {
    seats().any(|seat| seat.get(seat::FLAGS) & seat::MORE_LOCKS != 0 || is_holder(seat, object))
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: a `trylock`.
    None,
    /// Until then; `u64::MAX` for ever.
    Until(u64),
}

fn is_taken(result: i32) -> bool {
    result == 0 || result == errno::EOWNERDEAD
}

/// Takes a lock. `attempt` is the real `trylock`, `undo` gives back what it took; `insist` is the real blocking call, for
/// locks that another process may hold (`abroad`). `None`: this thread is not under control.
pub fn take(
    arrival: Arrival,
    patience: Patience,
    attempt: impl Fn() -> i32,
    undo: impl Fn() -> bool,
    abroad: impl Fn() -> bool,
    insist: impl FnOnce() -> i32,
) -> Option<i32> {
    let visit = visit()?;
    visit.arrive(arrival);
    let took = |visit: &Visit, result: i32| {
        if is_taken(result) {
            visit.holds(arrival.object, arrival.pc);
            taken(arrival.object, arrival.kind == OpKind::LockShared);
        }
        result
    };
    let deadline = match patience {
        Patience::None => return Some(took(&visit, attempt())),
        Patience::Until(deadline) => deadline,
    };
    let mut patient = patience == Patience::Until(u64::MAX);
    let mut rounds = 0;
    let tried = loop {
        let mut early = false;
        let tried = visit.retry(deadline, false, || match attempt() {
            errno::EBUSY if abroad() => Some(None),
            errno::EBUSY => None,
            result => {
                early = patient && result == 0 && section::is_early(&arrival) && undo();
                Some(Some(result))
            }
        });
        if !early {
            break tried;
        }
        rounds += 1;
        patient = rounds < section::ROUNDS && section::wait_in_gate(&visit, &arrival);
    };
    match tried {
        Ok(Some(result)) => Some(took(&visit, result)),
        Ok(None) => {
            visit.leave();
            let result = insist();
            if let Some(visit) = super::visit() {
                took(&visit, result);
            }
            Some(result)
        }
        Err(_) => Some(errno::ETIMEDOUT),
    }
}

/// Whether the calling thread itself holds a lock.
pub fn holds_itself(object: u64) -> bool {
    let Some(state) = crate::thread_state::current() else { return false };
    state.seat.checked_sub(1).is_some_and(|seat| is_holder(Seat(seat), object))
}

/// Gives a lock back. `None`: not under control.
pub fn give(arrival: Arrival, release: impl FnOnce() -> i32) -> Option<i32> {
    let visit = visit()?;
    visit.arrive(arrival);
    let result = release();
    if result == 0 {
        visit.released(arrival.object);
        wake_all(arrival.object);
    }
    Some(result)
}

/// Something that is tried until it can be done, and held by nobody: a semaphore, a thread's end.
pub fn acquire<R>(
    arrival: Arrival,
    deadline: u64,
    interruptible: bool,
    attempt: impl FnMut() -> Option<R>,
) -> Option<Result<R, Woken>> {
    let visit = visit()?;
    visit.arrive(arrival);
    Some(visit.retry(deadline, interruptible, attempt))
}

/// A semaphore has nothing left: those who were told to try again need not.
pub fn exhausted(object: u64) {
    taken(object, false);
}

/// Does something that may let others go on. `None`: not under control.
pub fn release<R>(arrival: Arrival, change: impl FnOnce() -> R) -> Option<R> {
    let visit = visit()?;
    visit.arrive(arrival);
    let result = change();
    wake_all(arrival.object);
    Some(result)
}

/// Waits on a condition: the mutex is given back, and taken again before the wait returns.
pub fn wait(
    arrival: Arrival,
    mutex: u64,
    deadline: u64,
    unlock: impl FnOnce() -> i32,
    relock: impl Fn() -> i32,
) -> Option<Result<i32, Woken>> {
    let visit = visit()?;
    visit.arrive(arrival);
    let refused = unlock();
    if refused != 0 {
        return Some(Ok(refused));
    }
    let seat = visit.seat;
    visit.released(mutex);
    wake_all(mutex);
    seat.set(seat::BITS, u32::MAX);
    let woken = if spurious(seat) { Woken::Up } else { visit.block(deadline) };
    seat.set(seat::KIND, OpKind::Lock as u32);
    seat.set64(seat::OBJECT, mutex);
    visit.next_point();
    let locked = visit.retry(u64::MAX, false, || Some(relock()).filter(|result| *result != errno::EBUSY));
    let result = locked.unwrap_or(0);
    if is_taken(result) {
        visit.holds(mutex, arrival.pc);
        taken(mutex, false);
    }
    Some(match woken {
        Woken::TimedOut | Woken::Cancelled => Err(woken),
        _ => Ok(result),
    })
}

/// Waits on a condition by the real function, without the baton: who signals it may be in another process.
pub fn wait_outside<R>(arrival: Arrival, mutex: u64, call: impl FnOnce() -> R) -> R {
    let Some(visit) = visit() else { return call() };
    visit.arrive(arrival);
    visit.released(mutex);
    visit.leave();
    wake_all(mutex);
    let result = call();
    if let Some(visit) = super::visit() {
        visit.holds(mutex, arrival.pc);
    }
    result
}

/// Whether this wait is to end for no reason, where the run asks for such.
fn spurious(seat: Seat) -> bool {
    let one_in = u64::from(get32(at::SPURIOUS));
    if one_in == 0 {
        return false;
    }
    let mut mixed = get64(at::SEED) ^ u64::from(seat.0) << 32 ^ u64::from(seat.get(seat::POINTS));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31).is_multiple_of(one_in)
}

/// Hands out wake-ups. `None`: not under control.
pub fn signal(arrival: Arrival, most: u64) -> Option<u64> {
    let visit = visit()?;
    visit.arrive(arrival);
    Some(wake_some(arrival.object, most, u32::MAX))
}

/// Barriers and how many threads they wait for, by open addressing.
static BARRIERS: [(AtomicU64, AtomicU32); 1024] = [const { (AtomicU64::new(0), AtomicU32::new(0)) }; 1024];

/// A barrier was made for so many threads, or (0) unmade.
pub fn barrier_is(barrier: u64, count: u32) {
    for probe in 0..BARRIERS.len() {
        let (key, value) = &BARRIERS[((barrier >> 4) as usize + probe) % BARRIERS.len()];
        let now = key.load(Ordering::Relaxed);
        if now == 0 || now == barrier {
            value.store(count, Ordering::Relaxed);
            key.store(barrier, Ordering::Relaxed);
            return;
        }
    }
}

fn barrier_count(barrier: u64) -> u32 {
    for probe in 0..BARRIERS.len() {
        let (key, value) = &BARRIERS[((barrier >> 4) as usize + probe) % BARRIERS.len()];
        match key.load(Ordering::Relaxed) {
            0 => return 0,
            now if now == barrier => return value.load(Ordering::Relaxed),
            _ => {}
        }
    }
    0
}

/// Waits at a barrier; true for the thread that came last. `None`: not under control, or a barrier that we did
/// not see made.
pub fn barrier(arrival: Arrival) -> Option<bool> {
    if !super::is_on() {
        return None;
    }
    let count = barrier_count(arrival.object);
    if count == 0 {
        return None;
    }
    let visit = visit()?;
    visit.arrive(arrival);
    loop {
        if waiters(arrival.object).count() as u32 + 1 >= count {
            wake_all(arrival.object);
            return Some(true);
        }
        match visit.block(u64::MAX) {
            Woken::Up => return Some(false),
            // A handler has run here, and nobody counted this thread meanwhile.
            _ => visit.next_point(),
        }
    }
}

/// Waits while `under_way` says that another thread initialises this object. The object itself says so: an
/// initialisation that ends by an exception passes us unseen.
pub fn once(arrival: Arrival, under_way: impl Fn() -> bool) {
    if let Some(visit) = visit() {
        visit.arrive(arrival);
        let _ = visit.retry(u64::MAX, false, || (!under_way()).then_some(()));
    }
}

/// A call that may block in ways that are not modelled: made without the baton.
pub fn outside<R>(arrival: Arrival, call: impl FnOnce() -> R) -> R {
    match visit() {
        Some(visit) => {
            visit.arrive(arrival);
            visit.leave();
            let result = call();
            super::enter();
            result
        }
        None => call(),
    }
}

/// A sleep: others may go first. Where a handler ends it, the answer is what was left of it. `None`: not under
/// control.
pub fn sleep(arrival: Arrival, deadline: u64) -> Option<Result<(), u64>> {
    let visit = visit()?;
    let seat = visit.seat;
    seat.set(seat::WOKEN, Woken::Up as u32);
    seat.set64(seat::DEADLINE, deadline);
    let near = deadline.saturating_sub(super::time::now()) <= super::time::NEAR;
    let woken = if near && !super::io::only_sleeps() {
        visit.arrive(arrival);
        Woken::of(seat)
    } else {
        visit.arrive(Arrival { kind: OpKind::Yield, ..arrival });
        seat.set(seat::KIND, OpKind::Sleep as u32);
        visit.block(deadline)
    };
    seat.set64(seat::DEADLINE, u64::MAX);
    let left = deadline.saturating_sub(super::time::now());
    Some(match woken {
        Woken::Interrupted | Woken::Restarted if left > 0 => Err(left),
        _ => Ok(()),
    })
}

/// Waits on a futex word whose value is as expected. `Err` is an error number. `None`: not under control.
pub fn futex_wait(arrival: Arrival, expected: u32, bits: u32, deadline: u64) -> Option<Result<(), i32>> {
    let visit = visit()?;
    visit.arrive(arrival);
    // SAFETY: I9: the guest's own futex word.
    let now = unsafe { AtomicU32::from_ptr(arrival.object as *mut u32) }.load(Ordering::SeqCst);
    if now != expected {
        return Some(Err(errno::EAGAIN));
    }
    visit.seat.set(seat::BITS, bits);
    Some(match visit.block(deadline) {
        Woken::TimedOut => Err(errno::ETIMEDOUT),
        Woken::Interrupted | Woken::Restarted => Err(errno::EINTR),
        _ => Ok(()),
    })
}

/// The calling thread's errno, set on behalf of a modelled function.
pub fn set_errno(value: i32) {
    sys::set_errno(value);
}
