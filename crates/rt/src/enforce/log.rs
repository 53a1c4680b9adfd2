//! The log: counters in a file that stays mapped, so that a crash loses nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::enforce::{Counter, LOG_COUNTERS, LOG_MAGIC, LOG_PREFIX, LOG_SIZE, LOG_VERSION};

use crate::guard::log::create;
use crate::sys;

static AT: AtomicUsize = AtomicUsize::new(0);

/// Makes the log of this process in a directory; without one, nothing is counted.
pub fn open(dir: &[u8]) {
    let Ok(at) = create(dir, LOG_PREFIX, LOG_SIZE) else { return AT.store(0, Ordering::Release) };
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*((at + 16) as *const AtomicU32) }.store(sys::getpid(), Ordering::Relaxed);
    // SAFETY: I6: as above.
    unsafe { &*((at + 8) as *const AtomicU32) }.store(LOG_VERSION, Ordering::Relaxed);
    word(at).store(u64::from_le_bytes(LOG_MAGIC), Ordering::Release);
    AT.store(at, Ordering::Release);
}

fn word(at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU64) }
}

/// Adds to a counter.
pub fn count(counter: Counter, by: u64) {
    let at = AT.load(Ordering::Relaxed);
    if at != 0 && by != 0 {
        word(at + LOG_COUNTERS + counter as usize * 8).fetch_add(by, Ordering::Relaxed);
    }
}
