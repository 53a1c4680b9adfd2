//! The blocking operations, modelled: what a thread waits for, and who wakes it.
//!
//! Locks, semaphores, joins and one-time initialisations are *tried* under the baton until they succeed; whoever
//! changes the object wakes those who wait for it. Conditions and futexes hand out wake-ups, in order of arrival.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::control::{SeatState, at, seat};
use selvedge_sched::OpKind;

use super::control::{Seat, get32, get64, seats};
use super::{Arrival, Visit, Woken, lock, visit};
use crate::sys;

/// Error numbers that the models answer with.
pub mod errno {
    #![expect(missing_docs, reason = "the C library's names")]
    pub const EAGAIN: i32 = 11;
    pub const EBUSY: i32 = 16;
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

/// Wakes up to `most` waiters whose bits meet `bits`, the longest-waiting first; answers how many.
pub fn wake_some(object: u64, most: u64, bits: u32) -> u64 {
    let Some(_held) = lock() else { return 0 };
    let mut woken = 0;
    while woken < most {
        let fits = waiters(object).filter(|seat| seat.get(seat::BITS) & bits != 0);
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

/// A thread was asked to end: it wakes where it may be cancelled.
pub fn cancel(thread: u32) {
    let Some(seat) = Seat::of(thread) else { return };
    let Some(_held) = lock() else { return };
    if seat.state() == SeatState::Blocked && seat.kind() == OpKind::Wait {
        seat.set(seat::WOKEN, Woken::Cancelled as u32);
        seat.set_state(SeatState::Ready);
    }
}

impl Visit {
    /// Remembers that this thread holds a lock.
    pub fn holds(&self, object: u64, pc: usize) {
        let seat = self.seat;
        let count = seat.get(seat::HELD) as usize;
        if count < seat::LOCKS_MOST {
            seat.set64(seat::LOCKS + count * 16, object);
            seat.set64(seat::LOCKS + count * 16 + 8, crate::modules::payload(pc));
        }
        seat.set(seat::HELD, (count + 1).min(seat::LOCKS_MOST) as u32);
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

fn holder(object: u64) -> Option<Seat> {
    seats().find(|seat| {
        let count = (seat.get(seat::HELD) as usize).min(seat::LOCKS_MOST);
        (0..count).any(|index| seat.get64(seat::LOCKS + index * 16) == object)
    })
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: a `trylock`.
    None,
    /// Until then; `u64::MAX` for ever.
    Until(u64),
}

/// Takes a lock. `attempt` is the real `trylock`; `insist` the real blocking call, for locks whose holder is not
/// ours to see (another process, a library before us). `None`: this thread is not under control.
pub fn take(
    arrival: Arrival,
    patience: Patience,
    attempt: impl Fn() -> i32,
    insist: impl FnOnce() -> i32,
) -> Option<i32> {
    let visit = visit()?;
    visit.arrive(arrival);
    let deadline = match patience {
        Patience::None => {
            let result = attempt();
            if result == 0 || result == errno::EOWNERDEAD {
                visit.holds(arrival.object, arrival.pc);
            }
            return Some(result);
        }
        Patience::Until(deadline) => deadline,
    };
    loop {
        let result = attempt();
        if result != errno::EBUSY {
            if result == 0 || result == errno::EOWNERDEAD {
                visit.holds(arrival.object, arrival.pc);
            }
            return Some(result);
        }
        if holder(arrival.object).is_none() {
            // Held by somebody whom we do not see, or refused at once: the real function knows.
            let seat = visit.seat;
            visit.leave();
            let result = insist();
            super::enter();
            if let Some(visit) = super::visit().filter(|visit| visit.seat == seat)
                && (result == 0 || result == errno::EOWNERDEAD)
            {
                visit.holds(arrival.object, arrival.pc);
            }
            return Some(result);
        }
        match visit.block(deadline) {
            Woken::TimedOut => return Some(errno::ETIMEDOUT),
            _ => visit.next_point(),
        }
    }
}

/// Whether the calling thread itself holds a lock.
pub fn holds_itself(object: u64) -> bool {
    let Some(state) = crate::thread_state::current() else { return false };
    holder(object).is_some_and(|seat| seat.0 + 1 == state.seat)
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
pub fn acquire<R>(arrival: Arrival, deadline: u64, attempt: impl FnMut() -> Option<R>) -> Option<Result<R, Woken>> {
    let visit = visit()?;
    visit.arrive(arrival);
    Some(visit.retry(deadline, attempt))
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
    let locked = visit.retry(u64::MAX, || Some(relock()).filter(|result| *result != errno::EBUSY));
    let result = locked.unwrap_or(0);
    if result == 0 || result == errno::EOWNERDEAD {
        visit.holds(mutex, arrival.pc);
    }
    Some(match woken {
        Woken::Up => Ok(result),
        other => Err(other),
    })
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
    if waiters(arrival.object).count() as u32 + 1 >= count {
        wake_all(arrival.object);
        return Some(true);
    }
    visit.block(u64::MAX);
    Some(false)
}

/// One-time initialisations under way: object and thread + 1.
static ONCE: [(AtomicU64, AtomicU32); 64] = [const { (AtomicU64::new(0), AtomicU32::new(0)) }; 64];

fn once_by(object: u64) -> Option<u32> {
    let row = ONCE.iter().find(|(key, _)| key.load(Ordering::Relaxed) == object)?;
    Some(row.1.load(Ordering::Relaxed))
}

/// Waits while another thread initialises this object; then this thread is the one that may. False: not under
/// control.
pub fn once_begins(arrival: Arrival) -> bool {
    let Some(visit) = visit() else { return false };
    visit.arrive(arrival);
    let me = visit.seat.0 + 1;
    // A thread that initialises an object while it initialises it deadlocks, or so the real function says.
    let free = || once_by(arrival.object).is_none_or(|by| by == me).then_some(());
    let _ = visit.retry(u64::MAX, free);
    if once_by(arrival.object).is_none()
        && let Some((key, by)) = ONCE.iter().find(|(key, _)| key.load(Ordering::Relaxed) == 0)
    {
        by.store(me, Ordering::Relaxed);
        key.store(arrival.object, Ordering::Relaxed);
    }
    true
}

/// The initialisation is done, or given up.
pub fn once_ends(object: u64) {
    if let Some((key, _)) = ONCE.iter().find(|(key, _)| key.load(Ordering::Relaxed) == object) {
        key.store(0, Ordering::Relaxed);
    }
    wake_all(object);
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

/// A sleep: others may go first.
pub fn sleep(arrival: Arrival, deadline: u64) -> bool {
    let Some(visit) = visit() else { return false };
    visit.seat.set64(seat::DEADLINE, deadline);
    if deadline.saturating_sub(super::time::now()) <= super::time::NEAR {
        visit.arrive(arrival);
    } else {
        visit.arrive(Arrival { kind: OpKind::Yield, ..arrival });
        visit.seat.set(seat::KIND, OpKind::Sleep as u32);
        visit.block(deadline);
    }
    visit.seat.set64(seat::DEADLINE, u64::MAX);
    true
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
        _ => Ok(()),
    })
}

/// The calling thread's errno, set on behalf of a modelled function.
pub fn set_errno(value: i32) {
    sys::set_errno(value);
}
