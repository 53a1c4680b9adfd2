//! Virtual time: it passes a little with every step, and jumps when nothing else can run.

use core::sync::atomic::{AtomicU64, Ordering};

use selvedge_events::control::{FLAG_EAGER_TIMEOUTS, FLAG_VIRTUAL_TIME, SeatState, at, seat};

use super::control::{add64, get32, get64, seats, word64};
use super::{Woken, is_on};
use crate::sys;

/// A sleep that ends within this time may end now: the order of sleepers and others is what schedules are
/// about. One that takes longer (a watchdog of the program's own) ends when nothing else can run.
pub const NEAR: u64 = 1_000_000_000;
/// What a step takes.
const STEP_NS: u64 = 100;
/// What looking at a clock takes: programs that wait by looking must get somewhere.
const LOOK_NS: u64 = 1_000;

/// The run begins.
pub fn begin() {
    word64(at::NOW).store(0, Ordering::Relaxed);
    FIRST.store(u64::MAX, Ordering::Relaxed);
}

/// No deadline is earlier than this.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Somebody is going to wait no longer than this.
pub fn limit(deadline: u64) {
    FIRST.fetch_min(deadline, Ordering::Relaxed);
}

fn waits(state: SeatState) -> bool {
    matches!(state, SeatState::Blocked | SeatState::Io)
}

/// Wakes whoever's time has come. The gate's lock is held.
#[inline]
pub fn fire() {
    if now() >= FIRST.load(Ordering::Relaxed) {
        fire_until(now());
    }
}

#[cold]
fn fire_until(then: u64) {
    let mut first = u64::MAX;
    for seat in seats().filter(|seat| waits(seat.state())) {
        let deadline = seat.get64(seat::DEADLINE);
        if deadline <= then {
            seat.set(seat::WOKEN, Woken::TimedOut as u32);
            seat.set_state(SeatState::Ready);
        } else {
            first = first.min(deadline);
        }
    }
    FIRST.store(first, Ordering::Relaxed);
}

/// Now, in nanoseconds since the run began.
pub fn now() -> u64 {
    get64(at::NOW)
}

/// A step has been made.
pub fn pass() {
    add64(at::NOW, STEP_NS);
}

/// It is at least that late.
pub fn at_least(then: u64) {
    if then != u64::MAX {
        word64(at::NOW).fetch_max(then, Ordering::Relaxed);
    }
}

/// Whether time-outs may fire early.
pub fn is_eager() -> bool {
    get32(at::FLAGS) & FLAG_EAGER_TIMEOUTS != 0
}

fn first_deadline() -> Option<u64> {
    let deadlines = seats().filter(|seat| waits(seat.state())).map(|seat| seat.get64(seat::DEADLINE));
    deadlines.min().filter(|first| *first != u64::MAX)
}

/// Jumps to the first deadline and wakes whoever has it; false where there is none. The gate's lock is held.
pub fn advance() -> bool {
    let Some(first) = first_deadline() else { return false };
    at_least(first);
    fire_until(first);
    true
}

/// As [`advance`], where the first deadline is no more than `elapsed` real nanoseconds away.
pub fn advance_if_passed(elapsed: u64) {
    if first_deadline().is_some_and(|first| first.saturating_sub(now()) <= elapsed) {
        advance();
    }
}

/// Whether clocks are virtual.
pub fn is_virtual() -> bool {
    is_on() && get32(at::FLAGS) & FLAG_VIRTUAL_TIME != 0
}

/// What a clock shows, in nanoseconds.
pub fn clock(clock: usize) -> u64 {
    if !is_virtual() {
        return sys::clock_ns(clock);
    }
    add64(at::NOW, LOOK_NS);
    base(clock) + now()
}

/// What a clock showed when the run began. Clocks of the processor's time start at zero.
fn base(clock: usize) -> u64 {
    match clock {
        // REALTIME, REALTIME_COARSE, TAI
        0 | 5 | 11 => get64(at::WALL_BASE),
        // PROCESS_CPUTIME_ID, THREAD_CPUTIME_ID
        2 | 3 => 0,
        _ => get64(at::MONO_BASE),
    }
}

/// The deadline for a wait of so many nanoseconds.
pub fn after(ns: u64) -> u64 {
    now().saturating_add(ns).min(u64::MAX - 1)
}

/// The deadline for a wait until a clock shows `then`.
pub fn until(clock: usize, then: u64) -> u64 {
    if is_virtual() {
        return then.saturating_sub(base(clock)).min(u64::MAX - 1);
    }
    after(then.saturating_sub(sys::clock_ns(clock)))
}
