//! What healing leaves behind: counters, and what happened at each section, in a file that stays mapped (`events::heal`
//! has the layout). Where no file can be written, the same is kept in memory of ours, and lost.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::heal::{LOG_COUNTERS, LOG_HEADER, LOG_MAGIC, LOG_PREFIX, LOG_ROW, LOG_VERSION, LogCounter, Table};

use crate::diag::Line;
use crate::{guard, sys};

/// The mapped log; 0 while there is none.
static AT: AtomicUsize = AtomicUsize::new(0);
static SECTIONS: AtomicU32 = AtomicU32::new(0);

/// Waits at one section that ended by the time before it is no longer waited at, unless others of its waits paid.
const MUTE: u32 = 8;

/// Makes the log of this process in a directory.
pub fn open(table: &Table<'_>, dir: &[u8]) {
    let len = (LOG_HEADER + table.sections as usize * LOG_ROW).next_multiple_of(4096);
    let at = match guard::log::create(dir, LOG_PREFIX, len) {
        Ok(at) => at,
        Err(why) => {
            let Ok(at) = sys::mmap_anonymous(len) else { return };
            if !dir.is_empty() {
                let mut line = Line::new();
                line.text("cannot write the log of healing in ").raw(dir).text(" (error ").number(why.0 as u64);
                line.text("); the program is healed, and what happens is not kept").say();
            }
            at
        }
    };
    let put = |by: usize, value: u32| word32(at + by).store(value, Ordering::Relaxed);
    put(12, LOG_HEADER as u32);
    put(16, sys::getpid());
    put(20, table.sections);
    put(24, LOG_HEADER as u32);
    put(8, LOG_VERSION);
    word64(at).store(u64::from_le_bytes(LOG_MAGIC), Ordering::Release);
    SECTIONS.store(table.sections, Ordering::Relaxed);
    AT.store(at, Ordering::Release);
}

fn word32(at: usize) -> &'static AtomicU32 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU32) }
}

fn word64(at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: as above.
    unsafe { &*(at as *const AtomicU64) }
}

/// Adds to a counter.
pub fn count(counter: LogCounter, by: u64) {
    let at = AT.load(Ordering::Relaxed);
    if at != 0 {
        word64(at + LOG_COUNTERS + counter as usize * 8).fetch_add(by, Ordering::Relaxed);
    }
}

/// How a thread's coming to a section went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nobody was inside.
    Free,
    /// The other left.
    Freed,
    /// The time was up.
    TimedOut,
    /// Threads waited for each other.
    Deadlock,
    /// Nobody waited: that has been in vain too often, or may not be done here.
    Spared,
}

fn row(section: u32) -> Option<usize> {
    let at = AT.load(Ordering::Relaxed);
    (at != 0 && section < SECTIONS.load(Ordering::Relaxed)).then(|| at + LOG_HEADER + section as usize * LOG_ROW)
}

/// A thread came to a section, after so long.
pub fn came(section: u32, how: Came, ns: u64) {
    let Some(row) = row(section) else { return };
    let add = |by: usize, value: u32| {
        let sum = |now: u32| Some(now.saturating_add(value));
        let _ = word32(row + by).fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    };
    add(0, 1);
    count(LogCounter::Entered, 1);
    if how == Came::Free {
        return;
    }
    add(4, 1);
    count(LogCounter::Met, 1);
    match how {
        Came::Freed => {
            add(8, 1);
            count(LogCounter::Freed, 1);
        }
        Came::TimedOut => add(12, 1),
        Came::Deadlock => {
            add(16, 1);
            count(LogCounter::Deadlocks, 1);
        }
        Came::Spared => count(LogCounter::Spared, 1),
        Came::Free => {}
    }
    let us = u32::try_from(ns / 1000).unwrap_or(u32::MAX);
    add(20, us);
    word32(row + 24).fetch_max(us, Ordering::Relaxed);
}

/// Whether waiting at a section has not paid.
pub fn is_mute(section: u32) -> bool {
    row(section).is_some_and(|row| {
        let get = |by: usize| word32(row + by).load(Ordering::Relaxed);
        get(12) >= MUTE.saturating_add(get(8).saturating_mul(4))
    })
}
