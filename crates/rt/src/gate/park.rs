//! Waiting for the baton, and what is looked after meanwhile.
//!
//! A thread has the baton when the control file says that it is the one that runs; the word that it parks on only
//! tells it to look. The thread that parked last is the *watcher*: it wakes now and then and looks
//! - whether the holder of the baton blocks in the kernel, or runs on without ever coming to the gate; then somebody
//!   else gets the baton;
//! - where nobody has it, whether input has arrived, a time has passed or somebody came back.
//!
//! Before it is said that nobody can run, everybody who waits by trying tries once more, in turn: a lock may have
//! been given back where we do not look.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::control::{NOBODY, RunState, SeatState, at, seat};
use selvedge_sched::Standing;

use super::control::{self, Seat, add64, get64, seats, word32};
use super::{Locked, UNSEATED, Woken, end_run, handler, io, is_on, lock, next, signal, time};
use crate::sys::{self, Doing};
use crate::{sink, thread_state};

/// The thread that looks after things.
static WATCHER: AtomicU32 = AtomicU32::new(NOBODY);
/// The thread that found that nobody can run: the next choice is made in its name.
static IDLE_FOR: AtomicU32 = AtomicU32::new(NOBODY);
/// Looks since then, one in each [`io::IDLE_NS`]. The clock would be one more system call, which may be forbidden.
static LOOKS: AtomicU64 = AtomicU64::new(0);
/// The step at which all have tried in vain.
static PROBED: AtomicU64 = AtomicU64::new(u64::MAX);
/// The seat whose turn it is to try; those before it have.
static PROBING: AtomicU32 = AtomicU32::new(NOBODY);

/// The run begins.
pub fn begin() {
    WATCHER.store(NOBODY, Ordering::Relaxed);
    IDLE_FOR.store(NOBODY, Ordering::Relaxed);
    PROBED.store(u64::MAX, Ordering::Relaxed);
}

/// Has a thread look whether it may go on.
pub fn rouse(seat: Seat) {
    seat.word(seat::GO).store(1, Ordering::SeqCst);
    sys::futex_wake(seat.address(seat::GO));
}

fn running() -> u32 {
    word32(at::RUNNING).load(Ordering::SeqCst)
}

/// Parks until the baton comes; at once where this thread has it.
pub fn park(me: Seat) {
    if running() == me.0 {
        return;
    }
    WATCHER.store(me.0, Ordering::Relaxed);
    let word = me.word(seat::GO);
    let mut watch = Watch::new();
    loop {
        if let Some(state) = thread_state::current() {
            handler::settle(state);
        }
        // Whoever hands over writes the two words in the other order.
        word.swap(0, Ordering::SeqCst);
        if running() == me.0 {
            return;
        }
        if !is_on() {
            sys::sched_yield();
            return;
        }
        let watching = WATCHER.load(Ordering::Relaxed) == me.0;
        let idle = running() == NOBODY;
        let patience = watching.then(|| if idle { io::IDLE_NS } else { watch.pause() });
        let timed_out = sys::futex_wait(me.address(seat::GO), 0, patience);
        if timed_out && watching {
            if idle { look_around() } else { watch.look() }
        }
    }
}

/// Makes somebody the watcher who is parked and stays so.
pub fn appoint(leaving: Seat, chosen: Option<Seat>) {
    let watcher = Seat(WATCHER.load(Ordering::Relaxed));
    let stays = |seat: &Seat| {
        *seat != leaving
            && Some(*seat) != chosen
            && matches!(seat.state(), SeatState::Ready | SeatState::Blocked | SeatState::Io)
    };
    if seats().any(|seat| seat == watcher && stays(&seat)) && chosen.is_some() {
        return;
    }
    if let Some(seat) = seats().find(stays) {
        WATCHER.store(seat.0, Ordering::Relaxed);
        rouse(seat);
    }
}

/// As [`appoint`], after `leaving` found that nobody can run.
pub fn appoint_if_idle(leaving: Seat) {
    let Some(_held) = lock() else { return };
    if running() == NOBODY {
        appoint(leaving, None);
    }
}

/// Gives the baton to a thread on behalf of one that may be gone.
fn pass(held: Locked, chosen: Seat) {
    appoint(Seat(IDLE_FOR.load(Ordering::Relaxed)), Some(chosen));
    held.pass(chosen);
}

/// Nobody can run, `me` found.
pub fn idle(held: Locked, me: Seat) {
    IDLE_FOR.store(me.0, Ordering::Relaxed);
    LOOKS.store(0, Ordering::Relaxed);
    if PROBED.load(Ordering::Relaxed) != get64(at::STEPS) {
        PROBED.store(get64(at::STEPS), Ordering::Relaxed);
        PROBING.store(NOBODY, Ordering::Relaxed);
        return probe_next(held);
    }
    resolve(held);
}

/// The next one who waits by trying tries; where all have, things are as they are.
fn probe_next(held: Locked) {
    let last = PROBING.load(Ordering::Relaxed);
    let waits = |seat: &Seat| seat.state() == SeatState::Blocked && seat.get(seat::FLAGS) & seat::TRIES != 0;
    let rest = seats().filter(|seat| last == NOBODY || seat.0 > last).filter(waits);
    let Some(seat) = rest.min_by_key(|seat| seat.0) else { return resolve(held) };
    PROBING.store(seat.0, Ordering::Relaxed);
    seat.set(seat::WOKEN, Woken::Probe as u32);
    seat.set_state(SeatState::Ready);
    pass(held, seat);
}

/// A thread has tried in vain: it waits on, as if nothing had been.
pub fn probed(me: Seat) {
    let Some(held) = lock() else { return };
    seat_waits(me);
    probe_next(held);
    park(me);
}

fn seat_waits(seat: Seat) {
    seat.set(seat::WOKEN, Woken::Up as u32);
    seat.set_state(SeatState::Blocked);
}

fn waits_for_the_world(seat: Seat) -> bool {
    matches!(seat.state(), SeatState::Outside | SeatState::Io)
}

/// Whether anything but the threads in the gate can still wake one of them.
fn world_may_wake() -> bool {
    seats().any(waits_for_the_world)
        || UNSEATED.load(Ordering::Relaxed) > 0
        || (!sink::is_sealed() && sys::signals_may_come(handler::is_handled))
}

/// Whether something may come from outside, so that time is not ours to turn forward. Signals from other processes
/// are no reason to wait: nobody knows whether one will ever come.
pub fn is_world_expected() -> bool {
    let expected = |seat| waits_for_the_world(seat) && !signal::is_awaited_by(seat);
    seats().any(expected) || UNSEATED.load(Ordering::Relaxed) > 0
}

/// Nobody can run, and all have tried: time passes, or the world is waited for, or this is the end.
fn resolve(held: Locked) {
    let found_by = Seat(IDLE_FOR.load(Ordering::Relaxed));
    let world = is_world_expected();
    // Somebody may have come back while others tried.
    let mut chosen = next(found_by, Standing::Stuck);
    if chosen.is_none() && !world && time::advance() {
        chosen = next(found_by, Standing::Stuck);
    }
    if let Some(chosen) = chosen {
        return pass(held, chosen);
    }
    if !world_may_wake() && !(1..65).any(handler::is_handled) {
        end_run(RunState::Deadlock);
    }
    word32(at::RUNNING).store(NOBODY, Ordering::SeqCst);
    drop(held);
}

/// Nobody has the baton: has anything changed?
#[cold]
fn look_around() {
    let Some(held) = lock() else { return };
    if running() != NOBODY {
        return;
    }
    let found_by = Seat(IDLE_FOR.load(Ordering::Relaxed));
    let looks = LOOKS.fetch_add(1, Ordering::Relaxed) + 1;
    io::changed();
    io::look();
    time::advance_if_passed(looks * io::IDLE_NS);
    if let Some(chosen) = next(found_by, Standing::Stuck) {
        return pass(held, chosen);
    }
    // At 1, 2, 4, … ms; whoever can go on does.
    if looks.is_power_of_two() {
        PROBING.store(NOBODY, Ordering::Relaxed);
        return probe_next(held);
    }
    if looks >= IN_FLIGHT && !world_may_wake() {
        end_run(RunState::Deadlock);
    }
}

/// Looks after which a signal that was sent must have arrived.
const IN_FLIGHT: u64 = 50;
const WATCH_NS: u64 = 10_000_000;
/// Between looks where much was hidden already.
const HASTY_NS: u64 = 1_000_000;
/// How much that is.
const MUCH_HIDDEN: u64 = 8;
/// Looks in a row that find the holder asleep before it counts as blocked.
const ASLEEP: u32 = 5;
/// Time without a point after which a running holder counts as gone astray.
const ASTRAY_NS: u64 = 2_000_000_000;
/// How often that was.
static STRAYED: AtomicU32 = AtomicU32::new(0);

/// Watches the holder of the baton for blocking that the model does not know.
#[derive(Debug)]
struct Watch {
    holder: u32,
    steps: u64,
    asleep: u32,
    /// Time watched, in nanoseconds.
    watched: u64,
}

impl Watch {
    fn new() -> Watch {
        Watch { holder: running(), steps: get64(at::STEPS), asleep: 0, watched: 0 }
    }

    fn pause(&self) -> u64 {
        if get64(at::HIDDEN_BLOCKS) > MUCH_HIDDEN { HASTY_NS } else { WATCH_NS }
    }

    #[cold]
    fn look(&mut self) {
        let holder = running();
        if holder == NOBODY || holder != self.holder || get64(at::STEPS) != self.steps {
            *self = Watch::new();
            return;
        }
        let seat = Seat(holder);
        let doing = if sink::is_sealed() { Doing::Runs } else { sys::doing(seat.get(seat::TID)) };
        self.asleep = match doing {
            Doing::Sleeps => self.asleep + 1,
            Doing::Runs => 0,
            Doing::Gone => ASLEEP,
        };
        self.watched += self.pause();
        // One that strays does so again.
        let patience = ASTRAY_NS >> STRAYED.load(Ordering::Relaxed).min(4);
        if self.asleep < ASLEEP && self.watched < patience {
            return;
        }
        let Some(held) = lock() else { return };
        if running() != self.holder || get64(at::STEPS) != self.steps {
            return;
        }
        add64(at::HIDDEN_BLOCKS, 1);
        STRAYED.fetch_add(u32::from(self.asleep < ASLEEP), Ordering::Relaxed);
        if doing == Doing::Gone {
            control::unlink(seat);
            seat.set_state(SeatState::Ended);
        } else {
            seat.set_state(SeatState::Outside);
        }
        match next(seat, Standing::Stuck) {
            Some(chosen) => pass(held, chosen),
            None => idle(held, seat),
        }
        *self = Watch::new();
    }
}
