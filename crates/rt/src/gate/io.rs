//! Input and output under control.
//!
//! A thread whose descriptor is not ready parks in the gate, not in the kernel. Readiness is looked at after the
//! process itself has read, written or closed something, so what threads tell each other through pipes and sockets
//! comes in the same order every time. What the world outside tells them does not, and cannot; it is looked for
//! while nothing can run, and every [`BETWEEN_LOOKS`] steps while something can. Where nobody outside writes,
//! those looks find nothing, and change nothing.
//!
//! A server has housekeepers: threads that sleep a little, look around, and sleep again. As sleeps take no time, one of
//! them alone would run through hours, and all the steps that a run may have, before the first request has come.
//! So where some threads wait for input and the others have done nothing but sleep for a while, sleeps take
//! their time ([`only_sleeps`]).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use selvedge_events::control::{SeatState, seat};

use super::control::{Seat, seats};
use super::{Visit, Woken};
use crate::sys;

/// How long to wait between two looks while nothing can run.
pub const IDLE_NS: u64 = 2_000_000;

/// Steps after which what the world may have sent is looked for, whoever can run.
pub const BETWEEN_LOOKS: u64 = 256;
/// Sleeps after which those who still wait for input are taken to wait for the world.
const MANY_SLEEPS: u32 = 100;
/// Sleeps since some descriptor became ready, while somebody waited for one.
static SLEEPS: AtomicU32 = AtomicU32::new(0);

/// Something was read, written or closed since the last look.
static CHANGED: AtomicBool = AtomicBool::new(true);

/// Says that descriptors may have become ready.
pub fn changed() {
    CHANGED.store(true, Ordering::Relaxed);
}

/// What a thread waits for: its own `struct pollfd`s, or one.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// One descriptor and the events of `poll`.
    One {
        /// The descriptor.
        fd: i32,
        /// `POLLIN`, `POLLOUT`.
        events: u16,
    },
    /// The guest's array; its thread is parked, so nobody else changes it.
    Many {
        /// Its address.
        at: usize,
        /// Its length.
        count: usize,
    },
}

/// Whether a descriptor is ready now.
pub fn is_one_ready(fd: i32, events: u16) -> bool {
    let mut one = u64::from(fd as u32) | u64::from(events) << 32;
    // SAFETY: a `struct pollfd` of ours.
    unsafe { sys::poll((&raw mut one) as usize, 1) != 0 }
}

fn is_ready(seat: Seat) -> bool {
    let (at, count) = (seat.get64(seat::POLL) as usize, seat.get64(seat::POLLS) as usize);
    if at == 0 {
        let mut one = seat.get64(seat::POLLFD);
        // SAFETY: a `struct pollfd` of ours.
        return unsafe { sys::poll((&raw mut one) as usize, 1) } != 0;
    }
    // SAFETY: I9: the array that the guest passed to `poll`, which has not returned yet, or one in a frame of ours.
    unsafe { sys::poll(at, count) != 0 }
}

/// Wakes threads whose descriptors are ready. The gate's lock is held.
pub fn look() {
    if !CHANGED.swap(false, Ordering::Relaxed) {
        return;
    }
    for seat in seats().filter(|seat| seat.state() == SeatState::Io) {
        if is_ready(seat) {
            SLEEPS.store(0, Ordering::Relaxed);
            seat.set_state(SeatState::Ready);
        }
    }
}

/// Counts a sleep. True where the program has slept so often, with nobody getting the input that it waits for, that
/// this sleep is to take its time.
pub fn only_sleeps() -> bool {
    let Some(_held) = super::lock() else { return false };
    if !super::park::is_world_expected() {
        SLEEPS.store(0, Ordering::Relaxed);
        return false;
    }
    SLEEPS.fetch_add(1, Ordering::Relaxed) >= MANY_SLEEPS
}

impl Visit {
    /// Waits until a descriptor is ready (or in error, which a call will then tell), or until `deadline`. Calls that
    /// a handler with `SA_RESTART` interrupts fail all the same where they are not `restartable`.
    pub fn wait_for(&self, wanted: Wanted, deadline: u64, restartable: bool) -> Woken {
        let seat = self.seat;
        let (at, count, one) = match wanted {
            Wanted::One { fd, events } => (0, 0, u64::from(fd as u32) | u64::from(events) << 32),
            Wanted::Many { at, count } => (at as u64, count as u64, 0),
        };
        let woken = loop {
            seat.set64(seat::POLL, at);
            seat.set64(seat::POLLS, count);
            seat.set64(seat::POLLFD, one);
            seat.set(seat::WOKEN, Woken::Up as u32);
            if is_ready(seat) {
                break Woken::Up;
            }
            if self.is_cancelled() {
                break Woken::Cancelled;
            }
            super::time::limit(deadline);
            seat.set64(seat::DEADLINE, deadline);
            seat.set_state(SeatState::Io);
            self.choose(super::Standing::Stuck);
            // Somebody else may have taken what was there.
            self.next_point();
            match Woken::of(seat) {
                Woken::Restarted if !restartable => break Woken::Interrupted,
                Woken::Up | Woken::Restarted | Woken::Probe => {}
                woken => break woken,
            }
        };
        seat.set64(seat::DEADLINE, u64::MAX);
        woken
    }
}
