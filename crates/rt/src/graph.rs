//! Communication graphs collected as the program runs, without a trace: for every location who wrote it last and who read
//! it since, for every thread what it has lately seen of the others, and the edges in a table of the run's file.
//!
//! Paper: Lucia and Ceze, "Finding concurrency bugs with context-aware communication graphs" (MICRO 2009), section 4.1.
//! The rules are the coherent ones of `analyze::graph::software`, with what bounded memory and no order of all events take
//! away:
//! - of the readers since the last write, three are known;
//! - a read of what nobody wrote is an edge when another thread writes it, not at the end of the run;
//! - an edge's time is the number of edges that were met before it.
//!
//! A location has four words, `pack`ed visits. They are exchanged one by one: a racing reader and writer may miss each other, and each
//! edge that is noted did happen. Contexts of other threads are changed by compare-exchange. Cells are in the survey's
//! blocks ([`shadow::block`]), which a run that collects a graph does not need otherwise. What finds no room is
//! counted.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::trace_file::{CHUNK_HEADER, graph};

use crate::shadow;
use crate::sink;
use crate::thread_state::{self, ThreadState};

/// Address of the table's rows; 0 while there is none.
static ROWS: AtomicUsize = AtomicUsize::new(0);
/// Address of the number of edges, in the chunk's header.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static SHIFT: AtomicU32 = AtomicU32::new(2);
static DEPTH: AtomicU32 = AtomicU32::new(5);

/// The contexts of threads, by index.
static CONTEXTS: [AtomicU32; THREADS] = [const { AtomicU32::new(1) }; THREADS];
const THREADS: usize = 4096;

/// Rows that are looked at for one edge.
const PROBES: u64 = 64;
/// Locations of one access beyond which the rest is left out.
const MOST_LOCATIONS: u64 = 4096;

const THREAD_BITS: u32 = 16;
const CONTEXT_BITS: u32 = graph::CONTEXT_BITS;

/// A visit: site + 1, context, thread + 1. Never 0.
fn pack(site: u32, context: u32, thread: u32) -> u64 {
    let thread = u64::from(thread + 1) & ((1 << THREAD_BITS) - 1);
    graph::node(site, context) << THREAD_BITS | thread
}

const fn node_of(visit: u64) -> u64 {
    visit >> THREAD_BITS
}

const fn thread_of(visit: u64) -> u64 {
    visit & ((1 << THREAD_BITS) - 1)
}

/// Prepares: `chunk` is a mapped graph chunk with [`graph::ROWS`] rows.
pub fn begin(chunk: usize, depth: u32, shift: u32, memory_limit_mb: u32) {
    shadow::allow(memory_limit_mb);
    DEPTH.store(depth, Ordering::Relaxed);
    SHIFT.store(shift, Ordering::Relaxed);
    COUNT.store(chunk + graph::EDGES, Ordering::Relaxed);
    // SAFETY: I6: fields of the chunk's header, which stays mapped.
    unsafe {
        (*((chunk + graph::DEPTH) as *const AtomicU32)).store(depth, Ordering::Relaxed);
        (*((chunk + graph::SHIFT) as *const AtomicU32)).store(shift, Ordering::Relaxed);
    }
    ROWS.store(chunk + CHUNK_HEADER, Ordering::Release);
}

/// In a forked child: the table is the parent's, and so is what the cells say. Children collect nothing.
pub fn after_fork() {
    ROWS.store(0, Ordering::Release);
}

/// The context of a thread; threads of the same number modulo [`THREADS`] share one.
fn context(thread: u64) -> &'static AtomicU32 {
    // Visits have the number plus one.
    &CONTEXTS[thread.wrapping_sub(1) as usize & (THREADS - 1)]
}

/// A communication event comes into a thread's context.
fn push(thread: u64, event: u32) {
    let depth = DEPTH.load(Ordering::Relaxed);
    let place = context(thread);
    let mut now = place.load(Ordering::Relaxed);
    loop {
        let next = graph::pushed(now, event, depth);
        match place.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}

/// A new thread has seen nothing.
pub fn enter(state: &ThreadState) {
    context(u64::from(state.index) + 1).store(1, Ordering::Relaxed);
}

/// An access of a few bytes.
#[inline]
pub fn access(addr: u64, size: u64, write: bool, site: u32) {
    if ROWS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let Some(state) = thread_state::current_or_adopt() else { return };
    if state.ignore > 0 {
        return;
    }
    let own = u64::from(state.index) + 1;
    let own = own & ((1 << THREAD_BITS) - 1);
    let me = pack(site, context(own).load(Ordering::Relaxed), state.index);
    let shift = SHIFT.load(Ordering::Relaxed);
    let (first, last) = (addr >> shift, addr.saturating_add(size.max(1) - 1) >> shift);
    let mut before = 0;
    for location in first..=last.min(first.saturating_add(MOST_LOCATIONS - 1)) {
        let Some(cell) = cell(location, shift) else {
            sink::count(Counter::GraphNoMemory, 1);
            continue;
        };
        before = if write { wrote(cell, me, own, before) } else { read(cell, me, own, before) };
    }
}

/// A location: its last writer, and who read it since.
type Cell = [AtomicU64; 4];

/// Guest memory of a block, which has a cell for each word.
const REGION_SHIFT: u32 = 15;
const _: () = assert!(shadow::BLOCK_BYTES >= (1 << (REGION_SHIFT - 2)) * size_of::<Cell>());

fn cell(location: u64, shift: u32) -> Option<&'static Cell> {
    let block = shadow::block(location >> (REGION_SHIFT - shift), true)?;
    let index = (location as usize) & ((1 << (REGION_SHIFT - shift)) - 1);
    // SAFETY: I7: a block has a cell for each location of its region, and is never unmapped.
    Some(unsafe { &*(block as *const Cell).add(index) })
}

/// A thread reads; the answer tells this location apart from the next one of the same access.
#[inline]
fn read([writer, readers @ ..]: &Cell, me: u64, own: u64, before: u64) -> u64 {
    let wrote = writer.load(Ordering::Acquire);
    if wrote != 0 && thread_of(wrote) == own {
        return wrote;
    }
    let mut again = false;
    let mut free = &readers[2];
    for reader in readers.iter().rev() {
        let there = reader.load(Ordering::Relaxed);
        again |= there != 0 && thread_of(there) == own;
        if there == 0 {
            free = reader;
        }
    }
    if !again {
        free.store(me, Ordering::Relaxed);
    }
    if wrote != 0 && before != wrote {
        edge(node_of(wrote), node_of(me));
        if !again {
            push(own, graph::LOCAL_READ);
            push(thread_of(wrote), graph::REMOTE_READ);
        }
    }
    wrote
}

/// A thread writes.
#[inline]
fn wrote([writer, readers @ ..]: &Cell, me: u64, own: u64, before: u64) -> u64 {
    let wrote = writer.swap(me, Ordering::AcqRel);
    let taken = |reader: &AtomicU64| match reader.load(Ordering::Relaxed) {
        0 => 0,
        _ => reader.swap(0, Ordering::Relaxed),
    };
    let read = [taken(&readers[0]), taken(&readers[1]), taken(&readers[2])];
    let here = read.iter().fold(wrote.rotate_left(1), |sum, read| sum.rotate_left(7) ^ read) | 1;
    if before == here {
        return here;
    }
    let mut met = false;
    if wrote != 0 && thread_of(wrote) != own {
        edge(node_of(wrote), node_of(me));
        push(thread_of(wrote), graph::REMOTE_WRITE);
        met = true;
    }
    for read in read {
        if read == 0 || thread_of(read) == own {
            continue;
        }
        if wrote == 0 {
            edge(0, node_of(read));
        }
        edge(node_of(read), node_of(me));
        if wrote == 0 || thread_of(read) != thread_of(wrote) {
            push(thread_of(read), graph::REMOTE_WRITE);
        }
        met = true;
    }
    if met {
        push(own, graph::LOCAL_WRITE);
    }
    here
}

/// Notes an edge: in the row that it has, or in a free one.
fn edge(from: u64, to: u64) {
    let rows = ROWS.load(Ordering::Relaxed);
    let key = graph::key(from, to);
    for probe in 0..PROBES {
        let row = rows + ((key.wrapping_add(probe) & (graph::ROWS as u64 - 1)) as usize) * graph::ROW;
        // SAFETY: I6: a row of the chunk, which stays mapped; all accesses to it are atomic.
        let [place, first, second, counts] = unsafe { &*(row as *const [AtomicU64; 4]) };
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
            // For proportions only: a lost update does no harm, a locked one would cost.
            let now = counts.load(Ordering::Relaxed);
            if now & 0xffff_ffff != 0xffff_ffff {
                counts.store(now + 1, Ordering::Relaxed);
            }
            return;
        }
    }
    sink::count(Counter::GraphFull, 1);
}

/// Memory that begins a new life: nobody has touched it.
pub fn forget(addr: u64, size: u64) {
    let shift = SHIFT.load(Ordering::Relaxed);
    let end = addr.saturating_add(size);
    let mut at = addr;
    while at < end {
        let region_end = ((at >> REGION_SHIFT) + 1) << REGION_SHIFT;
        let stop = end.min(region_end);
        if let Some(block) = shadow::block(at >> REGION_SHIFT, false) {
            let mask = (1 << (REGION_SHIFT - shift)) - 1;
            for location in at >> shift..=(stop - 1) >> shift {
                // SAFETY: I7: as in `cell`.
                let cell = unsafe { &*(block as *const Cell).add(location as usize & mask) };
                for word in cell {
                    if word.load(Ordering::Relaxed) != 0 {
                        word.store(0, Ordering::Relaxed);
                    }
                }
            }
        }
        at = stop;
    }
}

const _: () = assert!(CONTEXT_BITS + 24 + THREAD_BITS <= 64);

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Site and context; `None` is nobody.
    type End = Option<(u32, u32)>;

    /// The edges of some steps, in the order in which they were met, and how often: a step is a thread, whether it writes,
    /// a location and a site.
    fn run(steps: &[(u32, bool, usize, u32)]) -> Vec<(End, End, u64)> {
        let words = (CHUNK_HEADER + graph::ROWS * graph::ROW) / 8;
        let chunk = Box::leak(vec![0_u64; words].into_boxed_slice());
        begin(chunk.as_ptr() as usize, 5, 2, 64);
        let cells: Vec<Cell> = (0..4).map(|_| Cell::default()).collect();
        for thread in 0..4 {
            context(thread + 1).store(1, Ordering::Relaxed);
        }
        for (thread, writes, location, site) in steps {
            let own = u64::from(*thread) + 1;
            let me = pack(*site, context(own).load(Ordering::Relaxed), *thread);
            let _ = if *writes { wrote(&cells[*location], me, own, 0) } else { read(&cells[*location], me, own, 0) };
        }
        let mut rows: Vec<_> = chunk[CHUNK_HEADER / 8..]
            .chunks_exact(4)
            .filter(|row| row[2] != 0)
            .map(|row| (row[3] >> 32, graph::split(row[1]), graph::split(row[2]), row[3] & 0xffff_ffff))
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, from, to, times)| (from, to, times)).collect()
    }

    /// Contexts, oldest event first below the mark.
    const NONE: u32 = 1;
    const LC_RD: u32 = 0b100;
    const RM_RD: u32 = 0b110;

    // One test: the table and the contexts are of the whole process.
    #[test]
    fn edges_are_those_of_the_rules() {
        // Figure 5 of the paper: a string and its length, updated between the reads of both.
        let torn = run(&[
            (1, true, 0, 1),
            (1, true, 1, 2),
            (2, false, 0, 3),
            (1, true, 0, 1),
            (1, true, 1, 2),
            (2, false, 1, 4),
        ]);
        let ends: Vec<_> = torn.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(
            ends,
            [
                (Some((1, NONE)), Some((3, NONE))),
                (Some((3, NONE)), Some((1, RM_RD))),
                // RmRd, LcWr; and LcRd, RmWr.
                (Some((2, 0b1_10_01)), Some((4, 0b1_00_11))),
            ]
        );
        // Who reads again has an edge and no event.
        let waiting = run(&[(1, true, 0, 1), (2, false, 0, 2), (2, false, 0, 2), (2, false, 0, 2)]);
        assert_eq!(waiting, [(Some((1, NONE)), Some((2, NONE)), 1), (Some((1, NONE)), Some((2, LC_RD)), 2),]);
        // What nobody wrote, read by three and then written.
        let early = run(&[(1, false, 0, 1), (2, false, 0, 2), (3, false, 0, 3), (3, true, 0, 4)]);
        let ends: Vec<_> = early.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(
            ends,
            [
                (None, Some((1, NONE))),
                (Some((1, NONE)), Some((4, NONE))),
                (None, Some((2, NONE))),
                (Some((2, NONE)), Some((4, NONE))),
            ]
        );
        // A thread alone communicates with nobody.
        assert_eq!(run(&[(1, false, 0, 1), (1, true, 0, 2), (1, false, 0, 3), (1, true, 0, 4)]), []);
    }
}
