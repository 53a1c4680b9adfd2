//! The table of edges in the run's file, and what each thread remembers of it.
//!
//! An edge has one row, found by a hash of its ends; rows are never given up. A thread that meets an edge again and again
//! (it reads a table that another one filled) finds the row in its own memory and counts there: all threads that
//! read the table meet one edge, and would pass its row's cache line around for a count that is for proportions only. What
//! a thread has counted comes into the row when it is an eighth of all that it has counted, so the first eight
//! times are exact.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::trace_file::{CHUNK_HEADER, graph};

use crate::sink;

/// Address of the table's rows; 0 while there is none.
static ROWS: AtomicUsize = AtomicUsize::new(0);
/// Address of the number of edges, in the chunk's header.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Rows that are looked at for one edge.
const PROBES: u64 = 64;

/// Edges that a thread remembers.
const KNOWN: usize = 64;

/// Of so many times that a thread has counted, one may not be in the row yet.
const EXACT: u64 = 8;

/// A row of the file.
type Row = [AtomicU64; 4];

/// Takes a mapped graph chunk for the table.
pub(super) fn begin(chunk: usize) {
    COUNT.store(chunk + graph::EDGES, Ordering::Relaxed);
    ROWS.store(chunk + CHUNK_HEADER, Ordering::Release);
}

/// There is no table any more.
pub(super) fn end() {
    ROWS.store(0, Ordering::Release);
}

/// Whether there is a table.
#[inline(always)]
pub(super) fn is_on() -> bool {
    ROWS.load(Ordering::Relaxed) != 0
}

/// Notes an edge: in the row that it has, or in a free one. The answer is the row's address; 0 where none was free.
pub(super) fn note(from: u64, to: u64) -> usize {
    let rows = ROWS.load(Ordering::Relaxed);
    let key = graph::key(from, to);
    for probe in 0..PROBES {
        let at = rows + ((key.wrapping_add(probe) & (graph::ROWS as u64 - 1)) as usize) * graph::ROW;
        // SAFETY: I6: a row of the chunk, which stays mapped; all accesses to it are atomic.
        let row = unsafe { &*(at as *const Row) };
        let [place, first, second, counts] = row;
        let mut there = place.load(Ordering::Acquire);
        if there == 0 {
            there = match place.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: I6: a field of the chunk's header.
                    let count = unsafe { &*(COUNT.load(Ordering::Relaxed) as *const AtomicU64) };
                    let number = count.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff;
                    counts.store(number << 32, Ordering::Relaxed);
                    first.store(from, Ordering::Relaxed);
                    // A row counts when it has its second node.
                    second.store(to, Ordering::Release);
                    key
                }
                Err(now) => now,
            };
        }
        if there == key {
            add(row, 1);
            return at;
        }
    }
    sink::count(Counter::GraphFull, 1);
    0
}

/// So many times more.
fn add([.., counts]: &Row, times: u64) {
    // For proportions only: a lost update does no harm, a locked one would cost.
    let now = counts.load(Ordering::Relaxed);
    let more = times.min(0xffff_ffff - (now & 0xffff_ffff));
    if more > 0 {
        counts.store(now + more, Ordering::Relaxed);
    }
}

/// The edges that a thread has lately met again.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Known([Entry; KNOWN]);

/// An edge that a thread knows.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    from: u64,
    to: u64,
    /// Its row; 0 while the entry is unused, or being changed.
    row: usize,
    /// How often this thread met it since it knows it.
    met: u64,
    /// Of these, how often the row does not know yet.
    owed: u64,
}

impl Known {
    /// Knows nothing.
    pub(super) fn clear(&mut self) {
        for entry in &mut self.0 {
            entry.row = 0;
        }
    }

    /// Notes an edge that is likely to be met again.
    #[inline]
    pub(super) fn note(&mut self, from: u64, to: u64) {
        let at = (from.rotate_left(25) ^ to).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KNOWN.ilog2());
        let Some(entry) = self.0.get_mut(at as usize) else { return };
        if entry.row == 0 || (entry.from, entry.to) != (from, to) {
            return learn(entry, from, to);
        }
        entry.met += 1;
        entry.owed += 1;
        if entry.owed * EXACT >= entry.met {
            pay(entry);
        }
    }
}

/// Brings what was counted into the row.
#[inline]
fn pay(entry: &mut Entry) {
    // SAFETY: I6: the address of a row of the chunk, by `note`.
    add(unsafe { &*(entry.row as *const Row) }, entry.owed);
    entry.owed = 0;
}

/// Another edge takes the entry.
#[cold]
#[inline(never)]
fn learn(entry: &mut Entry, from: u64, to: u64) {
    if entry.row != 0 {
        pay(entry);
    }
    let row = note(from, to);
    let entry = core::ptr::from_mut(entry);
    // SAFETY: I4: this thread's own state. A handler in between finds no edge rather than another one's row.
    unsafe {
        (&raw mut (*entry).row).write_volatile(0);
        (&raw mut (*entry).from).write_volatile(from);
        (&raw mut (*entry).to).write_volatile(to);
        (&raw mut (*entry).met).write_volatile(0);
        (&raw mut (*entry).owed).write_volatile(0);
        (&raw mut (*entry).row).write_volatile(row);
    }
}
