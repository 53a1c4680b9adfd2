//! Shadow memory for the survey: which sites touch memory that threads share.
//!
//! A cell stands for eight bytes of the guest and remembers the first thread, whether anybody wrote,
//! whether a second thread came, and the last seven sites. Once a location is shared and written, all of
//! these sites and every later one are marked. Neighbours within eight bytes count as one location,
//! which errs towards marking.
//!
//! There is no fixed layout and no large reservation: blocks for 64 KiB of guest memory are mapped when
//! they are first touched and found through a hash of the address. At the memory limit, new memory is
//! taken for shared, and counted.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::trace_file::{CHUNK_HEADER, survey};

use crate::sink;
use crate::sys;
use crate::thread_state::{self, MAX_FRAMES, ThreadState};

const REGION_SHIFT: u32 = 16;
const CELLS: usize = 1 << (REGION_SHIFT - 3);
/// Bytes of a block.
pub const BLOCK_BYTES: usize = CELLS * size_of::<Cell>();
const BUCKETS: usize = 1 << 16;

/// Pairs of older sites in a cell.
const OLDER: usize = 3;

/// first thread + 1: 16 | written: 1 | second thread: 1 | spare: 14 | last site: 32; and older sites + 1,
/// two to a word, the newest in the low half of the first.
#[derive(Debug)]
#[repr(C)]
struct Cell {
    now: AtomicU64,
    before: [AtomicU64; OLDER],
}

const WRITTEN: u64 = 1 << 16;
const SECOND: u64 = 1 << 17;
const SHARED: u64 = WRITTEN | SECOND;

/// Region key + 1 in the high part of a bucket's pair, block address in the other.
#[derive(Debug)]
struct Bucket {
    key: AtomicU64,
    block: AtomicUsize,
}

static BUCKET_TABLE: [Bucket; BUCKETS] =
    [const { Bucket { key: AtomicU64::new(0), block: AtomicUsize::new(0) } }; BUCKETS];
/// Blocks that may still be mapped.
static ALLOWANCE: AtomicU64 = AtomicU64::new(0);
/// Address of the survey chunk's words, and how many there are.
static WORDS: AtomicUsize = AtomicUsize::new(0);
static WORD_COUNT: AtomicU64 = AtomicU64::new(0);

/// Prepares the survey: `chunk` is a mapped survey chunk with `count` words.
pub fn begin(chunk: usize, count: u64, memory_limit_mb: u32) {
    WORDS.store(chunk + CHUNK_HEADER, Ordering::Relaxed);
    WORD_COUNT.store(count, Ordering::Relaxed);
    allow(memory_limit_mb);
}

/// Sets the memory limit.
pub fn allow(memory_limit_mb: u32) {
    ALLOWANCE.store((u64::from(memory_limit_mb) << 20) / BLOCK_BYTES as u64, Ordering::Release);
}

/// How many sites the survey can hold.
pub fn capacity() -> u64 {
    WORD_COUNT.load(Ordering::Relaxed)
}

/// Sets flags of a site, and counts a hit where asked.
fn mark(site: u32, flags: u64, hit: bool) {
    let words = WORDS.load(Ordering::Relaxed);
    if words == 0 || u64::from(site) >= WORD_COUNT.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: I6: the survey chunk stays mapped; the index is below its count.
    let word = unsafe { &*(words as *const AtomicU64).add(site as usize) };
    let now = word.load(Ordering::Relaxed);
    if now & flags != flags {
        word.fetch_or(flags, Ordering::Relaxed);
    }
    // Hits are for ranking sites only: a lost update does no harm, a locked one would cost. They have a half
    // of their own, so that no flag is lost with them.
    if hit && now & survey::HITS != survey::HITS {
        // SAFETY: I6: the low half of the same word; all accesses to it are atomic.
        let hits = unsafe { &*core::ptr::from_ref(word).cast::<AtomicU32>() };
        hits.store(hits.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }
}

/// An access of up to sixteen bytes.
#[inline]
pub fn access(addr: u64, size: u64, write: bool, site: u32) {
    let Some(state) = thread_state::current_or_adopt() else {
        return;
    };
    let last = addr.wrapping_add(size.saturating_sub(1)) >> 3;
    let mut shared = touch(state, addr, write, site);
    if last != addr >> 3 {
        shared |= touch(state, last << 3, write, site);
    }
    seen(state, site, shared);
}

/// An access to any number of bytes.
pub fn range(addr: u64, size: u64, write: bool, site: u32) {
    let Some(state) = thread_state::current_or_adopt() else {
        return;
    };
    let mut shared = false;
    // A bound on the work for one call: beyond it, large copies are sampled by line.
    let step = if size > 1 << 16 { 64 } else { 8 };
    let mut at = addr;
    while at < addr.saturating_add(size) {
        shared |= touch(state, at, write, site);
        at = at.saturating_add(step);
    }
    seen(state, site, shared);
}

fn seen(state: &mut ThreadState, site: u32, shared: bool) {
    mark(site, survey::SEEN | if shared { survey::SHARED } else { 0 }, true);
    if shared {
        mark_stack(state);
    }
}

/// A site that counts whatever it touches: an atomic or a fence.
pub fn seen_atomic(site: u32) {
    mark(site, survey::SEEN, true);
    if let Some(state) = thread_state::current_or_adopt() {
        mark_stack(state);
    }
}

/// A function was called.
pub fn entered(site: u32) {
    mark(site, survey::SEEN, true);
}

/// Touches the cell of one address; true where the location is shared.
fn touch(state: &ThreadState, addr: u64, write: bool, site: u32) -> bool {
    let Some(cell) = cell(addr) else {
        sink::count(Counter::SurveyConservative, 1);
        return true;
    };
    let me = u64::from(state.index + 1) & 0xffff;
    let mut old = cell.now.load(Ordering::Relaxed);
    loop {
        let mut new = if old & 0xffff == 0 { me } else { old & 0xffff_ffff };
        if new & 0xffff != me {
            new |= SECOND;
        }
        if write {
            new |= WRITTEN;
        }
        new |= u64::from(site) << 32;
        if new == old {
            break;
        }
        // Exact: two threads at once must not both believe that they are the first.
        match cell.now.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                remember(cell, old, new);
                break;
            }
            Err(now) => old = now,
        }
        if old & SHARED == SHARED && old >> 32 == u64::from(site) {
            break;
        }
    }
    cell.now.load(Ordering::Relaxed) & SHARED == SHARED
}

/// Keeps the sites that came before, and marks them when the location becomes shared.
fn remember(cell: &Cell, old: u64, new: u64) {
    if old & 0xffff == 0 {
        return;
    }
    let previous = old >> 32;
    if new & SHARED == SHARED {
        mark(previous as u32, survey::SHARED, false);
        for pair in &cell.before {
            let pair = pair.swap(0, Ordering::Relaxed);
            for older in [pair as u32, (pair >> 32) as u32] {
                if older != 0 {
                    mark(older - 1, survey::SHARED, false);
                }
            }
        }
    } else if previous != new >> 32 {
        let mut moved = (previous + 1) & 0xffff_ffff;
        let known = |pair: &AtomicU64| {
            let pair = pair.load(Ordering::Relaxed);
            pair & 0xffff_ffff == moved || pair >> 32 == moved
        };
        if cell.before.iter().any(known) {
            return;
        }
        for pair in &cell.before {
            let old = pair.load(Ordering::Relaxed);
            pair.store(old << 32 | moved, Ordering::Relaxed);
            moved = old >> 32;
        }
    }
}

fn cell(addr: u64) -> Option<&'static Cell> {
    let block = block(addr >> REGION_SHIFT, true)?;
    let index = (addr >> 3) as usize & (CELLS - 1);
    // SAFETY: I7: a block has `CELLS` cells and is never unmapped.
    Some(unsafe { &*(block as *const Cell).add(index) })
}

/// The block of a region: found, or mapped where asked.
pub fn block(region: u64, make: bool) -> Option<usize> {
    let key = region + 1;
    let first = (region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    for index in first..first + 64 {
        let bucket = &BUCKET_TABLE[index & (BUCKETS - 1)];
        let mut found = bucket.key.load(Ordering::Acquire);
        if found == 0 {
            if !make {
                return None;
            }
            match bucket.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = key,
                Err(now) => found = now,
            }
        }
        if found == key {
            return fill(bucket, make);
        }
    }
    None
}

fn fill(bucket: &Bucket, make: bool) -> Option<usize> {
    let block = bucket.block.load(Ordering::Acquire);
    if block != 0 || !make {
        return Some(block).filter(|block| *block != 0);
    }
    let left = ALLOWANCE.load(Ordering::Relaxed);
    if left == 0 || sink::is_sealed() {
        return None;
    }
    ALLOWANCE.store(left - 1, Ordering::Relaxed);
    let fresh = sys::mmap_anonymous(BLOCK_BYTES).ok()?;
    match bucket.block.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(theirs) => {
            // SAFETY: ours, and nobody saw it.
            unsafe { sys::munmap(fresh, BLOCK_BYTES) };
            Some(theirs)
        }
    }
}

/// Memory that begins a new life (freed, or a stack handed to a new thread): forgets who used it.
pub fn forget(addr: u64, size: u64) {
    let end = addr.saturating_add(size);
    let mut at = addr & !7;
    while at < end {
        let region_end = (at >> REGION_SHIFT).wrapping_add(1) << REGION_SHIFT;
        let stop = end.min(region_end);
        if let Some(block) = block(at >> REGION_SHIFT, false) {
            let (first, last) = ((at >> 3) as usize & (CELLS - 1), (stop - at).div_ceil(8) as usize);
            for index in first..(first + last).min(CELLS) {
                // SAFETY: I7: below `CELLS`.
                let cell = unsafe { &*(block as *const Cell).add(index) };
                if cell.now.load(Ordering::Relaxed) != 0 {
                    cell.now.store(0, Ordering::Relaxed);
                    cell.before.iter().for_each(|pair| pair.store(0, Ordering::Relaxed));
                }
            }
        }
        at = stop;
    }
}

/// Marks the functions on the stack as worth a context.
pub fn mark_stack(state: &mut ThreadState) {
    let depth = state.depth.min(MAX_FRAMES as u32);
    for index in state.marked.min(depth)..depth {
        if let Some(frame) = state.frames.get(index as usize) {
            mark(frame.site, survey::ON_STACK, false);
        }
    }
    state.marked = depth;
}
