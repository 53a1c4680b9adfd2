//! Communication graphs collected as the program runs, without a trace: for every location who wrote it last and who read
//! it since, for every thread what it has lately seen of the others, and the edges in a table of the run's file (`edges`).
//!
//! Paper: Lucia and Ceze, "Finding concurrency bugs with context-aware communication graphs" (MICRO 2009), section 4.1.
//! The rules are the coherent ones of `analyze::graph::software`, with what bounded memory and no order of all events take
//! away:
//! - of the readers since the last write, three are known; a fourth one knows by itself what it has lately read, so that
//!   reading it again is no event;
//! - a read of what nobody wrote is an edge when another thread writes it, not at the end of the run;
//! - an edge's time is the number of edges that were met before it.
//!
//! A location has four words, `pack`ed visits. They are exchanged one by one: a racing reader and writer may miss each other, and each
//! edge that is noted did happen. Contexts of other threads are changed by compare-exchange. Cells are in the survey's
//! blocks ([`shadow::block`]), which a run that collects a graph does not need otherwise. What finds no room is
//! counted.
//!
//! Most accesses tell nothing new: a thread comes back to what it wrote itself, or reads again what another wrote. These take the
//! short way (`quiet`), which finds the block in the thread's own memory and changes nothing that others look at
//! but the cell. Budget: NOTE \[Budget\].
//!
//! NOTE \[Budget\]
//!
//! Instructions for one access, counted by Callgrind (`cargo run --release -p selvedge-bench --bin hooks`), the call and its
//! arguments included; no locked instruction in any of them:
//! - a read of up to eight bytes that the thread wrote last: 54, budget 60;
//! - a write of as many, that nobody has read since: 82, budget 90.

mod edges;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::trace_file::graph;

use crate::shadow;
use crate::sink;
use crate::thread_state::{self, ThreadState};

static SHIFT: AtomicU32 = AtomicU32::new(2);
static DEPTH: AtomicU32 = AtomicU32::new(5);

/// A context with a cache line of its own: its thread reads it at every access, and others change theirs.
#[derive(Debug)]
#[repr(align(64))]
struct Line(AtomicU32);

/// The contexts of threads, by index.
static CONTEXTS: [Line; THREADS] = [const { Line(AtomicU32::new(1)) }; THREADS];
const THREADS: usize = 4096;

/// Locations of one access beyond which the rest is left out.
const MOST_LOCATIONS: u64 = 4096;

const THREAD_BITS: u32 = 16;
const CONTEXT_BITS: u32 = graph::CONTEXT_BITS;

/// A visit: site + 1, context, and a thread as [`number`] has it. Never 0.
fn pack(site: u32, context: u32, thread: u64) -> u64 {
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
    // SAFETY: I6: fields of the chunk's header, which stays mapped.
    unsafe {
        (*((chunk + graph::DEPTH) as *const AtomicU32)).store(depth, Ordering::Relaxed);
        (*((chunk + graph::SHIFT) as *const AtomicU32)).store(shift, Ordering::Relaxed);
    }
    edges::begin(chunk);
}

/// In a forked child: the table is the parent's, and so is what the cells say. Children collect nothing.
pub fn after_fork() {
    edges::end();
}

/// The context of a thread; threads of the same number modulo [`THREADS`] share one.
fn context(thread: u64) -> &'static AtomicU32 {
    // Visits have the number plus one.
    &CONTEXTS[thread.wrapping_sub(1) as usize & (THREADS - 1)].0
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

/// What a thread remembers.
#[derive(Debug)]
#[repr(C)]
pub struct Own {
    /// The thread, as visits have it.
    own: u64,
    /// Where blocks are: region + 1 and address.
    near: [(u64, usize); NEAR],
    /// What it lately read, for cells that have more readers than they know: the cell, and who had written.
    read: [(usize, u64); READ],
    known: edges::Known,
}

const NEAR: usize = 64;
const READ: usize = 64;

/// Not a visit: its site would be above all.
const UNREAD: u64 = u64::MAX;

impl Own {
    /// Who had written what the thread last read in a cell; [`UNREAD`] where that is forgotten. A writer that wrote again in the same context is not told from one that did not.
    #[inline]
    fn last_read(&self, cell: &Cell) -> u64 {
        let at = core::ptr::from_ref(cell) as usize;
        let (known, wrote) = self.read[at / size_of::<Cell>() % READ];
        if known == at { wrote } else { UNREAD }
    }

    fn has_read(&mut self, cell: &Cell, wrote: u64) {
        let at = core::ptr::from_ref(cell) as usize;
        self.read[at / size_of::<Cell>() % READ] = (at, wrote);
    }
}

/// A new thread has seen nothing.
pub fn enter(state: &mut ThreadState) {
    state.graph.own = number(state.index);
    context(state.graph.own).store(1, Ordering::Relaxed);
    // Blocks stay where they are, also for the next thread with this state.
    state.graph.read = [(0, 0); READ];
    state.graph.known.clear();
}

/// An access of a few bytes: the shortest way, for one or two locations that the thread wrote last and nobody has read since.
/// Everything else takes the other ones.
#[inline(always)]
pub fn quick<const SIZE: u64, const WRITE: bool>(addr: u64, site: u32) {
    if let Some(state) = thread_state::current()
        && state.ignore == 0
        && edges::is_on()
    {
        let region = addr >> REGION_SHIFT;
        let (known, block) = state.graph.near[region as usize % NEAR];
        let shift = SHIFT.load(Ordering::Relaxed);
        let within = addr & ((1 << REGION_SHIFT) - 1);
        let (first, last) = (within >> shift, (within + SIZE - 1) >> shift);
        if known == region + 1 && last - first <= 1 && within + SIZE <= 1 << REGION_SHIFT {
            // Where there is one location only, it is looked at twice: that costs less than asking.
            // SAFETY: I7: as in `cell`: both are of this region.
            let cells = [first, last].map(|index| unsafe { &*(block as *const Cell).add(index as usize) });
            if is_left_as_it_was::<WRITE>(cells, state.graph.own, site) {
                return;
            }
        }
    }
    access(addr, SIZE, WRITE, site);
}

/// Whether a thread comes back to what it wrote itself; where it writes, the visit is noted.
#[inline(always)]
fn is_left_as_it_was<const WRITE: bool>([one, two]: [&Cell; 2], own: u64, site: u32) -> bool {
    let ([one, ones @ ..], [two, twos @ ..]) = (one, two);
    let wrote = [one, two].map(|writer| writer.load(Ordering::Relaxed));
    if thread_of(wrote[0]) != own || thread_of(wrote[1]) != own {
        return false;
    }
    if WRITE {
        let any = |[one, two, three]: &[AtomicU64; 3]| {
            one.load(Ordering::Relaxed) | two.load(Ordering::Relaxed) | three.load(Ordering::Relaxed)
        };
        if any(ones) | any(twos) != 0 {
            return false;
        }
        let me = pack(site, context(own).load(Ordering::Relaxed), own);
        // As in `quiet`.
        if wrote[0] != me {
            one.store(me, Ordering::Relaxed);
        }
        if wrote[1] != me {
            two.store(me, Ordering::Relaxed);
        }
    }
    true
}

/// An access.
#[inline(never)]
pub fn access(addr: u64, size: u64, write: bool, site: u32) {
    if !edges::is_on() {
        return;
    }
    let Some(state) = thread_state::current_or_adopt() else { return };
    if state.ignore > 0 {
        return;
    }
    let shift = SHIFT.load(Ordering::Relaxed);
    let (first, last) = (addr >> shift, addr.saturating_add(size.max(1) - 1) >> shift);
    let last = last.min(first.saturating_add(MOST_LOCATIONS - 1));
    let own = state.graph.own;
    let me = pack(site, context(own).load(Ordering::Relaxed), own);
    let mut before = 0;
    for location in first..=last {
        let Some(cell) = cell(&mut state.graph, location, shift) else {
            sink::count(Counter::GraphNoMemory, 1);
            continue;
        };
        before = touch(&mut state.graph, cell, me, own, write, before);
    }
}

/// A thread as visits have it.
const fn number(index: u32) -> u64 {
    // Never 0, which is nobody.
    index as u64 % ((1 << THREAD_BITS) - 1) + 1
}

/// A location: its last writer, and who read it since.
type Cell = [AtomicU64; 4];

/// Guest memory of a block, which has a cell for each word.
const REGION_SHIFT: u32 = 15;
const _: () = assert!(shadow::BLOCK_BYTES >= (1 << (REGION_SHIFT - 2)) * size_of::<Cell>());

/// The cell of a location, in a block that is found in the thread's own memory where it is there.
#[inline]
fn cell(own: &mut Own, location: u64, shift: u32) -> Option<&'static Cell> {
    let region = location >> (REGION_SHIFT - shift);
    let near = &mut own.near[region as usize % NEAR];
    let block = if near.0 == region + 1 { near.1 } else { find(near, region)? };
    let index = (location as usize) & ((1 << (REGION_SHIFT - shift)) - 1);
    // SAFETY: I7: a block has a cell for each location of its region, and is never unmapped.
    Some(unsafe { &*(block as *const Cell).add(index) })
}

#[cold]
#[inline(never)]
fn find(near: &mut (u64, usize), region: u64) -> Option<usize> {
    let block = shadow::block(region, true)?;
    let near = core::ptr::from_mut(near);
    // SAFETY: I4: this thread's own state. A handler in between finds no region rather than another one's block.
    unsafe {
        (&raw mut (*near).0).write_volatile(0);
        (&raw mut (*near).1).write_volatile(block);
        (&raw mut (*near).0).write_volatile(region + 1);
    }
    Some(block)
}

/// One location of an access; the answer tells it apart from the next one.
#[inline(always)]
fn touch(mine: &mut Own, cell: &Cell, me: u64, own: u64, write: bool, before: u64) -> u64 {
    match quiet(mine, cell, me, own, write, before) {
        Some(here) => here,
        None => meet(mine, cell, me, own, write, before),
    }
}

/// The short way: the thread comes back to what it wrote, or to what it read already. `None` where it may be news;
/// nothing is changed then.
#[inline(always)]
fn quiet(mine: &mut Own, cell: &Cell, me: u64, own: u64, write: bool, before: u64) -> Option<u64> {
    let [writer, readers @ ..] = cell;
    let wrote = writer.load(Ordering::Relaxed);
    let visits = [0, 1, 2].map(|at: usize| readers[at].load(Ordering::Relaxed));
    let is_own = wrote != 0 && thread_of(wrote) == own;
    if write {
        if !is_own || visits != [0; 3] {
            return None;
        }
        if wrote != me {
            // Another writer that comes between the look and this meets the older visit of ours, and is not met
            // itself: one edge of two is missed, within nanoseconds. An exchange would cost more than all the rest.
            writer.store(me, Ordering::Relaxed);
        }
        return Some(here(wrote, &visits));
    }
    if is_own {
        return Some(wrote);
    }
    let is_known = visits.iter().any(|visit| thread_of(*visit) == own);
    if !is_known && (visits.contains(&0) || mine.last_read(cell) != wrote) {
        return None;
    }
    if wrote != 0 && before != wrote {
        mine.known.note(node_of(wrote), node_of(me));
    }
    Some(wrote)
}

/// What others had done at a location before a write; never 0.
fn here(wrote: u64, read: &[u64; 3]) -> u64 {
    read.iter().fold(wrote.rotate_left(1), |sum, read| sum.rotate_left(7) ^ read) | 1
}

/// The long way.
#[cold]
#[inline(never)]
fn meet(mine: &mut Own, cell: &Cell, me: u64, own: u64, write: bool, before: u64) -> u64 {
    if write { wrote(cell, me, own, before) } else { read(mine, cell, me, own, before) }
}

/// A thread reads.
fn read(mine: &mut Own, cell: &Cell, me: u64, own: u64, before: u64) -> u64 {
    let [writer, readers @ ..] = cell;
    let wrote = writer.load(Ordering::Acquire);
    if wrote != 0 && thread_of(wrote) == own {
        return wrote;
    }
    let mut again = false;
    let mut free = None;
    for reader in readers.iter().rev() {
        let there = reader.load(Ordering::Relaxed);
        again |= there != 0 && thread_of(there) == own;
        if there == 0 {
            free = Some(reader);
        }
    }
    again |= free.is_none() && mine.last_read(cell) == wrote;
    if !again {
        free.unwrap_or(&readers[2]).store(me, Ordering::Relaxed);
        mine.has_read(cell, wrote);
    }
    if wrote != 0 && before != wrote {
        if again {
            mine.known.note(node_of(wrote), node_of(me));
        } else {
            edges::note(node_of(wrote), node_of(me));
            push(own, graph::LOCAL_READ);
            push(thread_of(wrote), graph::REMOTE_READ);
        }
    }
    wrote
}

/// A thread writes.
fn wrote([writer, readers @ ..]: &Cell, me: u64, own: u64, before: u64) -> u64 {
    let wrote = writer.swap(me, Ordering::AcqRel);
    let taken = |reader: &AtomicU64| match reader.load(Ordering::Relaxed) {
        0 => 0,
        _ => reader.swap(0, Ordering::Relaxed),
    };
    let read = [taken(&readers[0]), taken(&readers[1]), taken(&readers[2])];
    let here = here(wrote, &read);
    if before == here {
        return here;
    }
    let mut met = false;
    if wrote != 0 && thread_of(wrote) != own {
        edges::note(node_of(wrote), node_of(me));
        push(thread_of(wrote), graph::REMOTE_WRITE);
        met = true;
    }
    for read in read {
        if read == 0 || thread_of(read) == own {
            continue;
        }
        if wrote == 0 {
            edges::note(0, node_of(read));
        }
        edges::note(node_of(read), node_of(me));
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

    use selvedge_events::trace_file::CHUNK_HEADER;

    use super::*;

    /// Site and context; `None` is nobody.
    type End = Option<(u32, u32)>;

    /// The edges of some steps, in the order in which they were met, and how often: a step is a thread, whether it writes,
    /// a location and a site.
    fn run(steps: &[(u32, bool, usize, u32)]) -> Vec<(End, End, u64)> {
        run_by(steps, touch)
    }

    /// The same, with locations touched in one way.
    fn run_by(
        steps: &[(u32, bool, usize, u32)],
        touch: fn(&mut Own, &Cell, u64, u64, bool, u64) -> u64,
    ) -> Vec<(End, End, u64)> {
        let words = (CHUNK_HEADER + graph::ROWS * graph::ROW) / 8;
        let chunk = Box::leak(vec![0_u64; words].into_boxed_slice());
        begin(chunk.as_ptr() as usize, 5, 2, 64);
        let cells: Vec<Cell> = (0..4).map(|_| Cell::default()).collect();
        let mut threads: Vec<Box<Own>> = (0..8).map(|_| remembers_nothing()).collect();
        for thread in 0..8 {
            context(thread + 1).store(1, Ordering::Relaxed);
        }
        for (thread, writes, location, site) in steps {
            let own = number(*thread);
            let me = pack(*site, context(own).load(Ordering::Relaxed), own);
            touch(&mut threads[*thread as usize], &cells[*location], me, own, *writes, 0);
        }
        let mut rows: Vec<_> = chunk[CHUNK_HEADER / 8..]
            .chunks_exact(4)
            .filter(|row| row[2] != 0)
            .map(|row| (row[3] >> 32, graph::split(row[1]), graph::split(row[2]), row[3] & 0xffff_ffff))
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, from, to, times)| (from, to, times)).collect()
    }

    fn remembers_nothing() -> Box<Own> {
        // SAFETY: all fields are integers, for which zero is a value; the block is of that layout.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Own>()).cast::<Own>()) }
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
        // Five read what one wrote, by turns: each has one event, though the cell knows three of them.
        let mut by_turns = vec![(0, true, 0, 1)];
        for _ in 0..10 {
            by_turns.extend((1..6).map(|thread| (thread, false, 0, 2)));
        }
        let turns = run(&by_turns);
        assert_eq!(turns, [(Some((1, NONE)), Some((2, NONE)), 5), (Some((1, NONE)), Some((2, LC_RD)), 45)]);
        // A consumer of what is produced anew has an event each time, also when the producer's visits are all alike.
        let mut passed_on = Vec::new();
        for _ in 0..10 {
            passed_on.extend([(1, true, 0, 1), (2, false, 0, 2)]);
        }
        let last = run(&passed_on).into_iter().filter(|(from, ..)| *from == Some((1, 0b1_10_01_10_01_10)));
        assert_eq!(last.map(|(_, to, times)| (to, times)).collect::<Vec<_>>(), [(Some((2, 0b1_11_00_11_00_11)), 7)]);
        the_short_way_changes_no_edge();
        counts_of_edges_that_are_met_often_are_near();
        a_long_run_stays_in_its_memory();
    }

    /// More edges and more memory than there is room for, as in a run of days: the table does not grow, blocks end at the
    /// limit, and what is there still counts.
    fn a_long_run_stays_in_its_memory() {
        const BEYOND: usize = 4096;
        let words = (CHUNK_HEADER + graph::ROWS * graph::ROW) / 8;
        let chunk = Box::leak(vec![0_u64; words + BEYOND].into_boxed_slice());
        begin(chunk.as_ptr() as usize, 5, 2, 1);
        let edges = 4 * graph::ROWS as u64;
        let noted = (1..edges).filter(|number| edges::note(number << CONTEXT_BITS, 1 << CONTEXT_BITS | 1) != 0).count();
        assert!(noted <= graph::ROWS && noted > graph::ROWS / 2, "{noted}");
        assert_eq!(chunk[graph::EDGES / 8], noted as u64);
        assert!(chunk[words..].iter().all(|word| *word == 0), "nothing past the table");
        let first = edges::note(1 << CONTEXT_BITS, 1 << CONTEXT_BITS | 1);
        assert!(first != 0, "what has a row keeps it");
        assert_eq!(chunk[graph::EDGES / 8], noted as u64);
        // A mebibyte of blocks, however much the program touches.
        let mut mine = remembers_nothing();
        let at = |region: u64| (0x22_0000_0000 >> 2) + (region << (REGION_SHIFT - 2));
        let blocks = (0..10_000).filter(|region| cell(&mut mine, at(*region), 2).is_some()).count();
        assert_eq!(blocks, (1 << 20) / shadow::BLOCK_BYTES);
        assert!(cell(&mut mine, at(0), 2).is_some(), "what has a block keeps it");
    }

    /// Without the short way.
    fn long_way(mine: &mut Own, cell: &Cell, me: u64, own: u64, write: bool, before: u64) -> u64 {
        meet(mine, cell, me, own, write, before)
    }

    fn the_short_way_changes_no_edge() {
        let mut state = 7_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for threads in [2, 3, 5, 7] {
            for _ in 0..10 {
                let steps: Vec<_> = (0..300)
                    .map(|_| (below(threads) as u32, below(4) == 0, below(4) as usize, below(5) as u32))
                    .collect();
                let (short, long) = (run(&steps), run_by(&steps, long_way));
                let ends =
                    |edges: &[(End, End, u64)]| edges.iter().map(|(from, to, _)| (*from, *to)).collect::<Vec<_>>();
                assert!(short.len() > 20, "{}", short.len());
                assert_eq!(ends(&short), ends(&long));
                for ((.., short), (.., long)) in short.iter().zip(&long) {
                    assert!(short <= long && short * 8 >= long * 7, "{short} for {long}");
                }
            }
        }
    }

    fn counts_of_edges_that_are_met_often_are_near() {
        for times in [1_u64, 8, 9, 100, 10_000] {
            let mut steps = vec![(0, true, 0, 1)];
            steps.extend((0..=times).map(|_| (1, false, 0, 2)));
            let met = run(&steps)[1].2;
            assert!(met <= times && met * 8 >= times * 7, "{met} for {times}");
            assert!(times > 8 || met == times, "{met} for {times}");
        }
    }
}
