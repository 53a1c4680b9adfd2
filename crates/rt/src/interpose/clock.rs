//! Clocks and random sources: virtual under control where the run asks for it, else the real ones.

use selvedge_events::control::{FLAG_VIRTUAL_RANDOM, at};
use selvedge_events::interpose::Slot;

use super::{Reg, wrappers};
use crate::gate::control::{get32, get64};
use crate::gate::model::Patience;
use crate::gate::{self, time};
use crate::real;

const SECOND: u64 = 1_000_000_000;
/// The last of the clocks that everybody has.
const CLOCK_TAI: u32 = 11;

/// Nanoseconds of a `struct timespec` of the guest's.
pub fn timespec(at: Reg) -> u64 {
    if at == 0 {
        return u64::MAX;
    }
    // SAFETY: I9: the guest's own, which the function it calls reads.
    let [seconds, rest] = unsafe { (at as *const [i64; 2]).read_unaligned() };
    let seconds = u64::try_from(seconds).unwrap_or(0);
    seconds.saturating_mul(SECOND).saturating_add(u64::try_from(rest).unwrap_or(0))
}

/// Nanoseconds of a `struct timeval`.
pub fn micros([seconds, rest]: [i64; 2]) -> u64 {
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    positive(seconds).saturating_mul(SECOND).saturating_add(positive(rest).saturating_mul(1000))
}

/// Whether a `struct timespec` is one that waits accept.
pub fn is_valid(at: Reg) -> bool {
    // SAFETY: I9: the guest's own, which the function it calls reads.
    at == 0 || (0..SECOND as i64).contains(&unsafe { (at as *const [i64; 2]).read_unaligned() }[1])
}

/// As [`is_valid`], for a time to sleep.
pub fn is_duration(at: Reg) -> bool {
    // SAFETY: I9: as above.
    at != 0 && is_valid(at) && unsafe { (at as *const i64).read_unaligned() } >= 0
}

/// Writes a `struct timespec` of the guest's, where it wants to know.
pub fn put_timespec(at: Reg, ns: u64) {
    if at != 0 {
        put(at, ns, 1);
    }
}

/// The virtual deadline of a wait until a clock shows what the `struct timespec` says; none for ever.
pub fn deadline(clock: Reg, until: Reg) -> u64 {
    if until == 0 { u64::MAX } else { time::until(clock & 0xff, timespec(until)) }
}

/// As [`deadline`], for locks.
pub fn patience(clock: Reg, until: Reg) -> Patience {
    Patience::Until(deadline(clock, until))
}

/// The deadline of a wait on a condition, whose clock glibc keeps in the condition itself.
pub fn of_condition(cond: Reg, until: Reg) -> u64 {
    /// Offset of `__wrefs`, whose second bit says that the clock is the monotonic one.
    const REFS: usize = 36;
    // SAFETY: I9: the guest's own condition.
    let refs = unsafe { ((cond + REFS) as *const u32).read() };
    deadline((refs >> 1 & 1) as usize, until)
}

fn put(at: Reg, ns: u64, unit: u64) {
    let words = [ns / SECOND, ns % SECOND / unit];
    // SAFETY: I9: the guest's own variable for the answer.
    unsafe { (at as *mut [u64; 2]).write_unaligned(words) };
}

/// Fills a buffer of the guest's from the run's seed; false where random sources are real.
pub fn random(buffer: Reg, len: Reg) -> bool {
    if !gate::is_on() || get32(at::FLAGS) & FLAG_VIRTUAL_RANDOM == 0 {
        return false;
    }
    let mut state = get64(at::SEED) ^ gate::draws().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for at in 0..len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // SAFETY: I9: the guest's own buffer of that length.
        unsafe { ((buffer + at) as *mut u8).write((state >> 56) as u8) };
    }
    true
}

wrappers! {
    clock_gettime(clock, into; _pc) => {
        // Clocks of other processes and devices, and those that do not exist, are the system's.
        if !time::is_virtual() || into == 0 || clock as u32 > CLOCK_TAI {
            return real::call(SLOT, clock, into, 0, 0, 0);
        }
        put(into, time::clock(clock as u32 as usize), 1);
        0
    };
    gettimeofday(into, zone; _pc) => {
        if !time::is_virtual() || into == 0 {
            return real::call(SLOT, into, zone, 0, 0, 0);
        }
        put(into, time::clock(0), 1000);
        0
    };
    time(into; _pc) => {
        if !time::is_virtual() {
            return real::call(SLOT, into, 0, 0, 0, 0);
        }
        let seconds = time::clock(0) / SECOND;
        if into != 0 {
            // SAFETY: I9: the guest's own variable.
            unsafe { (into as *mut u64).write(seconds) };
        }
        seconds as Reg
    };
    getrandom(buffer, len, flags; _pc) => {
        if random(buffer, len) { len } else { real::call(SLOT, buffer, len, flags, 0, 0) }
    };
    getentropy(buffer, len; _pc) => {
        if len <= 256 && random(buffer, len) { 0 } else { real::call(SLOT, buffer, len, 0, 0, 0) }
    };
}

/// Whether a slot is only of use under control.
pub fn is_for_control(slot: usize) -> bool {
    let own = [
        Slot::clock_gettime,
        Slot::gettimeofday,
        Slot::time,
        Slot::getrandom,
        Slot::getentropy,
        Slot::pthread_barrier_init,
        Slot::__libc_start_main,
    ];
    own.iter().any(|own| *own as usize == slot)
}
