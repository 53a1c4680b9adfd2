//! Hot functions run with hooks in bursts: for some milliseconds, then not for as long as the budget asks.
//!
//! A function that runs with hooks begins with a jump to its other body, five bytes. Changing the first byte makes it `test eax, imm32`
//! (`crate::switch`): the flags are dead where a function begins, and the plain body follows. So a function is switched by one store while
//! it runs. Who is inside stays in the body that it is in until it returns.
//!
//! There is no thread of ours: whoever considers an access, comes into a hot function with hooks or takes a lock looks at the clock. A burst
//! ends soon, since in it hooks are many; the next one may come late where nothing is locked and nothing watched, never early. The first one is
//! when the second thread begins, in every other run: it is the only one of a program that only computes. All functions are switched together, as a race has two
//! sides; those that hardly touch what threads share only in some of the bursts, the whole ones. Which are hot, and how long bursts are, the
//! plan says (`drive::detect::hot`).

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use selvedge_events::detect::{LogCounter, Noise, Turn};

use super::{log, noise};
use crate::spin::Spin;
use crate::switch::{self, Switches};
use crate::{arch, sink, sys};

/// The first id of ours among those of [`switch`]; sites are before it.
static FIRST: AtomicU32 = AtomicU32::new(0);
/// When the next turn is due, in ticks of the counter; 0: never.
static DUE: AtomicU64 = AtomicU64::new(0);
/// Whether a burst is on.
static ON: AtomicBool = AtomicBool::new(false);
/// Whether it is a whole one.
static WHOLE: AtomicBool = AtomicBool::new(false);
static LOCK: Spin = Spin::new();
static RANDOM: AtomicU64 = AtomicU64::new(1);

/// Ids that are needed beside those of sites.
pub fn begin(sites: u32, seed: u64) {
    FIRST.store(sites, Ordering::Relaxed);
    RANDOM.store(noise::mix(seed ^ 0x6275_7273_7473) | 1, Ordering::Relaxed);
    DUE.store(0, Ordering::Relaxed);
    ON.store(false, Ordering::Relaxed);
}

/// Whether there are hot functions in bursts.
pub fn are_there() -> bool {
    super::plan().is_some_and(|plan| plan.on_ns > 0 && plan.bodies > 0)
}

/// The time from one burst to the next, about.
pub fn period_ns() -> u64 {
    super::plan().filter(|plan| plan.on_ns > 0).map_or(0, |plan| plan.on_ns.saturating_add(plan.off_ns))
}

/// The byte to put at the begin of a function that was switched to its hooks, where it is not to begin with them. `jump`: the five bytes
/// there.
pub fn begins_with(image: u64, room: u32, at: u64, jump: [u8; 5]) -> Option<u8> {
    let (number, turn) = super::plan()?.body_of(image, room)?;
    if turn != Turn::Never {
        switch::placed(FIRST.load(Ordering::Relaxed).saturating_add(number), at, &jump, switch::PASS);
    }
    Some(switch::PASS)
}

/// There are two threads now, or will be in a moment: the first burst begins, or in every other run some time within a period.
pub fn start() {
    if are_there() && DUE.load(Ordering::Relaxed) == 0 && !sink::is_sealed() {
        let after = if below(2) == 0 { 0 } else { below(period_ns()) };
        DUE.store(arch::counter().saturating_add(noise::ticks(after)).max(1), Ordering::Relaxed);
        tick();
    }
}

/// Below `most`, by chance: only threads that come at once can draw the same.
fn below(most: u64) -> u64 {
    let next = noise::mix(RANDOM.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15));
    RANDOM.store(next, Ordering::Relaxed);
    ((u128::from(next) * u128::from(most)) >> 64) as u64
}

/// Looks at the clock.
#[inline]
pub fn tick() {
    let due = DUE.load(Ordering::Relaxed);
    if due != 0 && arch::counter() >= due {
        turn(due);
    }
}

#[cold]
#[inline(never)]
fn turn(due: u64) {
    // A handler that leaves by a jump would leave the lock taken.
    let signals = sys::swap_signal_mask(super::BLOCKED);
    if let Some(_held) = LOCK.try_lock()
        && DUE.load(Ordering::Relaxed) == due
        && let Some(plan) = super::plan()
    {
        let begins = !ON.load(Ordering::Relaxed);
        let next = match begins {
            true if super::is_alone() => plan.off_ns,
            true => begin_burst(plan).map_or(0, |()| plan.on_ns),
            false => end_burst(plan).map_or(0, |()| plan.off_ns / 2 + below(plan.off_ns)),
        };
        let next = if next == 0 { 0 } else { arch::counter().saturating_add(noise::ticks(next)) };
        DUE.store(next, Ordering::Relaxed);
    }
    sys::swap_signal_mask(signals);
}

fn begin_burst(plan: &Noise<'_>) -> Option<()> {
    let whole = below(plan.whole_every.into()) == 0;
    switch_all(plan, true, whole)?;
    WHOLE.store(whole, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
    log::count(LogCounter::Bursts, 1);
    Some(())
}

fn end_burst(plan: &Noise<'_>) -> Option<()> {
    switch_all(plan, false, WHOLE.load(Ordering::Relaxed))?;
    ON.store(false, Ordering::Relaxed);
    Some(())
}

/// Switches all of them; nothing where the system does not allow that (any more).
fn switch_all(plan: &Noise<'_>, on: bool, whole: bool) -> Option<()> {
    let switches = Switches::open()?;
    let first = FIRST.load(Ordering::Relaxed);
    for number in 0..plan.bodies {
        let turns = plan.body(number).is_some_and(|(_, _, turn)| turn == Turn::Bursts || whole && turn == Turn::Seldom);
        let id = first.saturating_add(number);
        if turns && switch::is_placed(id) && !switches.switch(id, on) {
            log::count(LogCounter::Stuck, 1);
        }
    }
    Some(())
}

/// System calls will be forbidden in a moment: no burst may go on for ever, and none begins.
pub fn before_seal() {
    if !are_there() {
        return;
    }
    let signals = sys::swap_signal_mask(super::BLOCKED);
    if let Some(_held) = LOCK.lock() {
        if ON.load(Ordering::Relaxed)
            && let Some(plan) = super::plan()
        {
            let _ = end_burst(plan);
        }
        DUE.store(0, Ordering::Relaxed);
    }
    sys::swap_signal_mask(signals);
}

/// In a forked child.
pub fn after_fork() {
    LOCK.force_open();
}
