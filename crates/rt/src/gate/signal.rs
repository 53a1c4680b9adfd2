//! Signals that threads send each other: the sender waits until whoever wakes has come to the gate.

use selvedge_events::control::{SeatState, at, seat};
use selvedge_events::interpose::{Family, INTERPOSED};
use selvedge_sched::OpKind;

use super::control::{Seat, get32, seats};
use crate::{sink, sys};

/// How long to wait for somebody who waits for signals: the one that was sent wakes it, unless it is not for it.
const SURE_NS: u64 = 500_000_000;
/// How long to wait for somebody who may or may not notice.
const PERHAPS_NS: u64 = 20_000_000;
const PAUSE_NS: u64 = 20_000;

/// The threads that a signal may wake, as they are before it is sent.
#[derive(Debug)]
pub struct Waiting {
    /// Threads that wait for signals, without the baton, by number.
    outside: [bool; 64],
}

impl Waiting {
    /// Now.
    pub fn now() -> Waiting {
        let mut outside = [false; 64];
        for seat in seats().filter(|seat| is_awaited_by(*seat)) {
            if let Some(place) = outside.get_mut(seat.0 as usize) {
                *place = true;
            }
        }
        Waiting { outside }
    }

    /// Waits until somebody has come: the thread that the signal was for, or else one of those that wait for signals.
    /// `handled`: the signal has a handler, for which a parked thread gets up; on a busy machine it may first have to
    /// wait for a processor.
    pub fn settle(&self, thread: Option<u32>, signal: usize, handled: bool) {
        let target = thread.and_then(super::seat_of);
        let before = target.map(|seat| (seat.state(), seat.kind()));
        let moves = match before {
            Some((SeatState::Outside, _)) => true,
            // It takes the signal as it begins.
            Some((_, OpKind::Start)) => false,
            // The sender itself has taken it by now.
            Some(_) if target.is_some_and(|seat| get32(at::RUNNING) == seat.0) => false,
            Some(_) => handled,
            None => self.outside.iter().any(|outside| *outside),
        };
        if !moves {
            return;
        }
        let sure = target.is_none_or(is_awaited_by);
        let mut most = if sure { SURE_NS } else { PERHAPS_NS };
        let begun = sys::clock_ns(1);
        loop {
            let waited = sys::clock_ns(1).saturating_sub(begun);
            if waited >= most {
                let on_its_way = |seat: Seat| sys::is_about_to_take(seat.get(seat::TID), signal);
                if waited >= SURE_NS || sink::is_sealed() || !target.is_some_and(on_its_way) {
                    return;
                }
                most = waited + PERHAPS_NS;
            }
            let moved = match target {
                Some(seat) => Some((seat.state(), seat.kind())) != before,
                None => (0_u32..).zip(self.outside).any(|(at, was)| was && !is_awaited_by(Seat(at))),
            };
            if moved {
                return;
            }
            sys::nap(PAUSE_NS);
        }
    }
}

/// Whether a thread is outside in a call that waits for signals.
pub fn is_awaited_by(seat: Seat) -> bool {
    let slot = (seat.get(seat::SLOT) as usize).checked_sub(1);
    let family = slot.and_then(|slot| INTERPOSED.get(slot)).map(|row| row.family);
    seat.state() == SeatState::Outside && family == Some(Family::Signal)
}
