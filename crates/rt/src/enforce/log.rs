//! The log: counters, and what was waited for each lock, in a file that stays mapped, so that a crash loses nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::enforce::{
    Counter, FOR_WAITING, FOR_WORK, LOG_COUNTERS, LOG_MAGIC, LOG_PREFIX, LOG_VERSION, LOG_WAIT, LOG_WAITS, log_size,
};

use crate::guard::log::create;
use crate::sys;

static AT: AtomicUsize = AtomicUsize::new(0);

/// Makes the log of this process in a directory, for so many locks; without one, nothing is counted.
pub fn open(dir: &[u8], locks: u32) {
    let Ok(at) = create(dir, LOG_PREFIX, log_size(locks)) else { return AT.store(0, Ordering::Release) };
    half(at + 12).store(locks, Ordering::Relaxed);
    half(at + 16).store(sys::getpid(), Ordering::Relaxed);
    half(at + 8).store(LOG_VERSION, Ordering::Relaxed);
    word(at).store(u64::from_le_bytes(LOG_MAGIC), Ordering::Release);
    AT.store(at, Ordering::Release);
}

fn word(at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU64) }
}

fn half(at: usize) -> &'static AtomicU32 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU32) }
}

/// The row of a lock, which is one of those that the log was made for.
fn row(lock: u32) -> Option<usize> {
    let at = AT.load(Ordering::Relaxed);
    (at != 0).then(|| at + LOG_WAITS + lock as usize * LOG_WAIT)
}

/// A lock was waited for, for so long.
pub fn waited(lock: u32, ns: u64) {
    if let Some(row) = row(lock) {
        half(row).fetch_add(1, Ordering::Relaxed);
        word(row + 8).fetch_add(ns, Ordering::Relaxed);
    }
}

/// A lock was given up for what waiting took, or what is done at its hooks.
pub fn given_up(lock: u32, for_waiting: bool) {
    count(Counter::Costly, 1);
    if let Some(row) = row(lock) {
        half(row + 4).store(if for_waiting { FOR_WAITING } else { FOR_WORK }, Ordering::Relaxed);
    }
}

/// Adds to a counter.
pub fn count(counter: Counter, by: u64) {
    let at = AT.load(Ordering::Relaxed);
    if at != 0 && by != 0 {
        word(at + LOG_COUNTERS + counter as usize * 8).fetch_add(by, Ordering::Relaxed);
    }
}
