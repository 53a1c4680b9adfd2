//! Signal handlers under control.
//!
//! A handler needs the baton like any other code. Where its thread waits, it queues up first; when it has run, the
//! thread goes back to what it waited for, or its call fails as an interrupted one does. While a thread changes what
//! all share in the gate, handlers are put off: the signal is sent again as soon as that is done.

use core::sync::atomic::{AtomicU32, Ordering};

use selvedge_events::control::{NOBODY, SeatState, at, seat};
use selvedge_sched::OpKind;

use super::control::{Seat, add64, get32, word32};
use super::{Woken, critical, give_away, is_on, lock, park};
use crate::thread_state::{self, DEFERRED, ThreadState};
use crate::{arch, sys};

/// What is known of a signal's handler.
pub mod action {
    /// There is one.
    pub const HANDLED: u32 = 1;
    /// Calls that it interrupts go on.
    pub const RESTARTS: u32 = 2;
    /// It serves once.
    pub const RESETS: u32 = 4;
    /// It is told more than the number.
    pub const INFORMED: u32 = 8;
}

static ACTIONS: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];

/// The guest has said what to do on a signal.
pub fn set_action(signal: usize, flags: u32) {
    if let Some(action) = ACTIONS.get(signal) {
        action.store(flags, Ordering::Relaxed);
    }
}

fn action_of(signal: usize) -> u32 {
    ACTIONS.get(signal).map_or(0, |action| action.load(Ordering::Relaxed))
}

/// Signals by which the processor tells a thread what it did.
fn is_fault(signal: usize) -> bool {
    matches!(signal, 4 | 5 | 7 | 8 | 11 | 31)
}

/// Whether the guest has a handler for a signal that comes from elsewhere.
pub fn is_handled(signal: usize) -> bool {
    !is_fault(signal) && signal != 6 && action_of(signal) & action::HANDLED != 0
}

/// Puts a handler off, where its thread is in the middle of something; false where it may run now.
///
/// # Safety
/// `info` must be the kernel's `siginfo_t`, where the handler is one that is told.
pub unsafe fn defer(signal: usize, info: usize) -> bool {
    let Some(state) = thread_state::current().filter(|_| is_on()) else { return false };
    let busy = state.critical.load(Ordering::Relaxed) > 0 || waits_in_handler(state);
    if !busy || is_fault(signal) || action_of(signal) & action::RESETS != 0 {
        return false;
    }
    let known = state.deferred_info.iter().take(state.deferred as usize);
    if signal < REAL_TIME && known.into_iter().any(|info| info[0] as u32 as usize == signal) {
        // As the kernel, which keeps one of those that nobody has taken.
        return true;
    }
    let Some(room) = state.deferred_info.get_mut(state.deferred as usize) else {
        add64(at::HANDLERS_OUTSIDE, 1);
        return true;
    };
    const SI_TKILL: u64 = -6_i32 as u32 as u64;
    *room = match action_of(signal) & action::INFORMED {
        // Number and no error; a sender that is a thread.
        0 => [signal as u64, SI_TKILL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // SAFETY: the caller's promise; the structure has 128 bytes.
        _ => unsafe { (info as *const [u64; 16]).read() },
    };
    state.deferred += 1;
    true
}

/// The first signal that is queued rather than merged.
const REAL_TIME: usize = 32;

/// Whether the thread is in a handler and waits for the baton there. Another one on top would wait too, and a timer
/// would pile them up; so they come when the thread has the baton.
fn waits_in_handler(state: &mut ThreadState) -> bool {
    if state.handlers > 0 && arch::stack_pointer() > state.handler_sp {
        // It was left by a jump.
        state.handlers = 0;
    }
    state.handlers > 0 && state.seat > 0 && get32(at::RUNNING) != state.seat - 1
}

/// Sends what was put off again; it is handled on return from the call.
#[inline]
pub fn settle(state: &mut ThreadState) {
    if state.deferred > 0 && state.critical.load(Ordering::Relaxed) == 0 && !waits_in_handler(state) {
        let mut infos = [[0; 16]; DEFERRED];
        critical(1);
        let count = state.deferred as usize;
        for (room, info) in infos.iter_mut().zip(&state.deferred_info) {
            *room = *info;
        }
        state.deferred = 0;
        critical(-1);
        infos.iter().take(count).for_each(sys::send_again);
    }
}

/// What a seat says about its thread, kept while a handler runs on it.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    in_gate: u32,
    handlers: u32,
    handler_sp: usize,
    state: SeatState,
    words: [u32; WORDS.len()],
    longs: [u64; LONGS.len()],
}

const WORDS: [usize; 6] = [seat::KIND, seat::SITE, seat::SLOT, seat::BITS, seat::WOKEN, seat::FLAGS];
const LONGS: [usize; 7] =
    [seat::OBJECT, seat::PC, seat::DEADLINE, seat::ARRIVAL, seat::POLL, seat::POLLS, seat::POLLFD];

/// A handler of the guest begins. `None`: its thread is not under control.
pub fn begins() -> Option<Before> {
    let state = thread_state::current()?;
    let seat = Seat(state.seat.checked_sub(1)?);
    if !is_on() || state.critical.load(Ordering::Relaxed) > 0 {
        return None;
    }
    let held = lock()?;
    let had_baton = get32(at::RUNNING) == seat.0;
    let before = Before {
        in_gate: state.in_gate,
        state: seat.state(),
        handlers: state.handlers,
        handler_sp: state.handler_sp,
        words: WORDS.map(|at| seat.get(at)),
        longs: LONGS.map(|at| seat.get64(at)),
    };
    seat.set_state(SeatState::Ready);
    seat.set(seat::FLAGS, seat.get(seat::FLAGS) & !seat::TRIES);
    seat.set(seat::KIND, OpKind::Other as u32);
    seat.set(seat::SITE, seat::NO_SITE);
    if !had_baton && get32(at::RUNNING) == NOBODY {
        word32(at::RUNNING).store(seat.0, Ordering::SeqCst);
    }
    drop(held);
    state.handlers += 1;
    state.handler_sp = arch::stack_pointer();
    park::park(seat);
    state.in_gate = 0;
    Some(before)
}

/// It has ended: the thread goes back to what it did, or waited for.
pub fn ends(before: Before, signal: usize) {
    let Some(state) = thread_state::current() else { return };
    let Some(seat) = state.seat.checked_sub(1).map(Seat) else { return };
    state.in_gate = before.in_gate;
    (state.handlers, state.handler_sp) = (before.handlers, before.handler_sp);
    let Some(held) = lock() else { return };
    for (at, value) in WORDS.into_iter().zip(before.words) {
        seat.set(at, value);
    }
    for (at, value) in LONGS.into_iter().zip(before.longs) {
        seat.set64(at, value);
    }
    let waited = matches!(before.state, SeatState::Blocked | SeatState::Io) || seat.kind() == OpKind::Sleep;
    if waited && seat.get(seat::WOKEN) == Woken::Up as u32 {
        // What came meanwhile may have been missed: every wait looks again.
        let restarts = action_of(signal) & action::RESTARTS != 0;
        seat.set(seat::WOKEN, if restarts { Woken::Restarted } else { Woken::Interrupted } as u32);
    }
    if before.state == SeatState::Outside {
        seat.set_state(SeatState::Outside);
        give_away(held, seat);
    }
    // Otherwise the thread keeps the baton, and gets past the wait that was interrupted: where it had to give way
    // once more, one who sends it signals all the time would keep it here for ever. With `SA_RESTART` the kernel
    // goes back to sleep on the word that the thread is parked on, unless that says that there is something to see.
    seat.word(seat::GO).store(1, Ordering::SeqCst);
}
