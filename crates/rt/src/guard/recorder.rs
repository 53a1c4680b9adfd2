//! The recorder: for every location the last two accesses by different threads (the paper's section 3.3).
//!
//! A *cell* is one word with two halves, each a site and a thread; two parity bits say which half is the newer one. A
//! thread that is in the newer half replaces its site there; another one takes the older half over and becomes the
//! newer. So the remote predecessor of a thread's access is in one load, and an update is one compare-exchange:
//! lock-free, and exact.
//!
//! ```text
//! half: site 18 | thread + 1: 12 | parity 1 | -      newer: the upper half where the parities differ
//! ```
//!
//! Where two threads take turns at one site, the newer half becomes *everybody's*: from then on accesses at that site change nothing, whoever makes
//! them, and who comes at another site has come after that one. Most memory that threads share is read over and over. So neither of those who
//! take turns counts as having come since the other.
//!
//! A cell stands for one *shape*: the bytes of an aligned word that an access covers. While all accesses to a word have
//! the same shape there is one cell; when another shape comes, the word is *split* into a cell for each of its bytes,
//! for good. So what is compared always is what was accessed, to the byte, and words that hold one variable cost
//! one cell.
//!
//! Cells are in blocks for 64 KiB of guest memory, mapped when they are first touched and found through a hash of the
//! address. At the memory limit new memory is not watched, and counted.
//!
//! Threads are told apart by their number modulo 4094: two threads of that distance that meet at one location with none
//! between them look like one.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::owner;
use crate::sink;
use crate::sys;

pub use selvedge_events::guard::SITE_BITS;

const SITE_MASK: u64 = (1 << SITE_BITS) - 1;
const THREAD_SHIFT: u32 = SITE_BITS;
const THREAD_BITS: u32 = 12;
/// The thread in a half.
pub const THREAD_MASK: u64 = ((1 << THREAD_BITS) - 1) << THREAD_SHIFT;
const PARITY: u64 = 1 << (THREAD_SHIFT + THREAD_BITS);

/// Guest memory of a block.
pub const REGION_SHIFT: u32 = 16;
/// Words of a block.
pub const WORDS: usize = 1 << (REGION_SHIFT - 3);
/// Words of a granule, which has an owner ([`owner`]).
const GRANULE_SHIFT: u32 = 6;
/// Granules of a block.
pub const GRANULES: usize = WORDS >> GRANULE_SHIFT;
const BUCKET_BITS: u32 = 14;
/// Places where the block of a region may be.
pub const BUCKETS: usize = 1 << BUCKET_BITS;

/// In the place of a thread: all that take turns at a site.
pub const EVERYBODY: u32 = THREAD_MASK as u32;

/// A thread as cells have it, in place.
pub const fn thread_mark(index: u32) -> u32 {
    ((index % 4094) + 1) << THREAD_SHIFT
}

/// The number that a mark was made from, as far as it tells; `u32::MAX` for none.
pub const fn thread_of(mark: u32) -> u32 {
    if mark == EVERYBODY { u32::MAX } else { (mark >> THREAD_SHIFT).wrapping_sub(1) }
}

/// What a cell says to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The remote predecessor's site; 0 is nil.
    pub before: u32,
    /// Its thread's mark, or [`EVERYBODY`]; 0 with nil.
    pub before_thread: u32,
    /// Whether the thread itself has accessed it since, and not only in turn with others at one site.
    pub own: bool,
    /// The last access's site, whoever's.
    pub last: u32,
    /// The cell after the access.
    pub after: u64,
}

/// Reads a cell for a thread (`mark`) that is about to access it at `site`.
#[inline(always)]
pub const fn read(cell: u64, mark: u32, site: u32) -> Reading {
    let upper_is_newer = (cell ^ cell >> 32) & PARITY != 0;
    // The newer half in the low bits.
    let turned = if upper_is_newer { cell.rotate_left(32) } else { cell };
    let newer = turned & 0xffff_ffff;
    let older = turned >> 32;
    let mine = newer & THREAD_MASK == mark as u64;
    let at = SITE_MASK & site as u64;
    let everybodys = newer & THREAD_MASK == EVERYBODY as u64;
    // Everybody's already, or one came, another one, and the first one again.
    let in_turn = newer & SITE_MASK == at && (everybodys || older & !PARITY == mark as u64 | at);
    let (before, changed) = if mine {
        (older, older << 32 | newer & PARITY | mark as u64 | site as u64)
    } else if in_turn {
        (newer, older << 32 | newer | EVERYBODY as u64)
    } else {
        // Taken over: its parity must make it the newer one.
        let parity = if upper_is_newer { newer & PARITY } else { !newer & PARITY };
        (newer, (parity | mark as u64 | site as u64) << 32 | newer)
    };
    let after = if upper_is_newer { changed.rotate_left(32) } else { changed };
    Reading {
        before: (before & SITE_MASK) as u32,
        before_thread: (before & THREAD_MASK) as u32,
        own: mine,
        last: (newer & SITE_MASK) as u32,
        after,
    }
}

/// Whether the thread that makes this of a cell was the last there: the newer half stays the newer one.
#[inline(always)]
pub const fn is_update(now: u64, after: u64) -> bool {
    (now ^ after) & (PARITY << 32 | PARITY) == 0
}

/// A word whose accesses have several shapes.
pub const SPLIT: u8 = 0x7f;
/// In the place of a shape that is about to be cut: nobody changes the cell any more without finding that out.
const CUT: u8 = 0x40;
/// Somebody is stalled at this word: who changes it tells.
pub const WAITED: u8 = 0x80;
/// The shape of bytes `offset..offset + len` of a word.
#[inline(always)]
pub const fn shape(offset: u64, len: u64) -> u8 {
    (1 + offset * 8 + (len - 1)) as u8
}

/// The bytes of a shape.
const fn bytes_of(shape: u8) -> (usize, usize) {
    let code = shape as usize - 1;
    (code / 8, code % 8 + 1)
}

/// What is known of a granule.
#[derive(Debug)]
#[repr(C)]
pub struct Granule {
    /// Who owns it.
    pub owner: AtomicU32,
    /// Who has changed its cells last, and how often in a row.
    pub streak: AtomicU32,
}

/// The cells of 64 KiB of guest memory.
#[derive(Debug)]
#[repr(C)]
pub struct Block {
    cells: [AtomicU64; WORDS],
    shapes: [AtomicU8; WORDS],
    granules: [Granule; GRANULES],
    /// A bit for each 1 KiB that has cells.
    dirty: AtomicU64,
    /// Where the cells of split words are, one for each byte; 0 while there are none.
    bytes: AtomicUsize,
}

const BLOCK_BYTES: usize = size_of::<Block>().next_multiple_of(4096);
const BYTES_BYTES: usize = (1 << REGION_SHIFT) * 8;

impl Block {
    /// Where cells, shapes and granules are, for who reads them by hand.
    pub const CELLS_AT: usize = offset_of!(Block, cells);
    /// As above.
    pub const SHAPES_AT: usize = offset_of!(Block, shapes);
    /// As above; each has eight bytes, of which the owner's are the first.
    pub const GRANULES_AT: usize = offset_of!(Block, granules);
    /// Words of a granule, as a power of two.
    pub const GRANULE_SHIFT: u32 = GRANULE_SHIFT;

    /// The cell of a word that is not split.
    #[inline(always)]
    pub fn cell(&self, word: usize) -> &AtomicU64 {
        &self.cells[word & (WORDS - 1)]
    }

    /// The shape of a word.
    #[inline(always)]
    pub fn shape(&self, word: usize) -> &AtomicU8 {
        &self.shapes[word & (WORDS - 1)]
    }

    /// The granule of a word.
    #[inline(always)]
    pub fn granule(&self, word: usize) -> &Granule {
        &self.granules[Block::number(word)]
    }

    /// Its number.
    #[inline(always)]
    pub const fn number(word: usize) -> usize {
        (word & (WORDS - 1)) >> GRANULE_SHIFT
    }

    /// All of them.
    pub fn granules(&self) -> &[Granule; GRANULES] {
        &self.granules
    }

    /// Something of this word is written for the first time.
    fn touch(&self, word: usize) {
        let bit = 1_u64 << ((word & (WORDS - 1)) >> 7);
        if self.dirty.load(Ordering::Relaxed) & bit == 0 {
            self.dirty.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The cells of the bytes `from..from + len` of a split word.
    pub fn byte_cells(&self, word: usize, from: usize, len: usize) -> Option<&[AtomicU64]> {
        let bytes = self.bytes.load(Ordering::Acquire);
        if bytes == 0 || from + len > 8 {
            return None;
        }
        let first = (word & (WORDS - 1)) * 8 + from;
        // SAFETY: I7: the area has eight cells for each word of the block, and is never unmapped.
        Some(unsafe { core::slice::from_raw_parts((bytes as *const AtomicU64).add(first), len) })
    }

    /// The cells that an access to bytes `from..from + len` of a word goes to. The word takes the access's shape, or is
    /// split where it has another one. `None`: no memory.
    pub fn cells_of(&self, word: usize, from: usize, len: usize) -> Option<&[AtomicU64]> {
        let wanted = shape(from as u64, len as u64);
        let place = self.shape(word);
        loop {
            let now = place.load(Ordering::Acquire);
            match now & !WAITED {
                0 => {
                    self.touch(word);
                    let _ = place.compare_exchange(now, wanted | now & WAITED, Ordering::AcqRel, Ordering::Acquire);
                }
                SPLIT => return self.byte_cells(word, from, len),
                there if there == wanted => return Some(core::slice::from_ref(self.cell(word))),
                there => self.split(word, there & !CUT)?,
            }
        }
    }

    /// What is known of a byte, whatever the shape of its word is; 0 where nobody has accessed it.
    pub fn known_of(&self, word: usize, byte: usize) -> u64 {
        let cell = match self.shape(word).load(Ordering::Acquire) & !WAITED {
            0 => None,
            SPLIT => self.byte_cells(word, byte, 1).and_then(|cells| cells.first()),
            shape => {
                let (from, len) = bytes_of(shape & !CUT);
                (from..from + len).contains(&byte).then(|| self.cell(word))
            }
        };
        cell.map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Splits a word: what is known of it is now known of each of its bytes.
    #[cold]
    fn split(&self, word: usize, was: u8) -> Option<()> {
        if self.bytes.load(Ordering::Acquire) == 0 {
            let fresh = map(BYTES_BYTES)?;
            if self.bytes.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                unmap(fresh, BYTES_BYTES);
            }
        }
        let place = self.shape(word);
        let change = |from: u8, to: u8| {
            let next = |now: u8| (now & !WAITED == from).then_some(to | now & WAITED);
            place.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
        };
        // Who records in the cell after this tells the bytes itself; nobody owns it.
        change(was, was | CUT);
        owner::nobody(self, word);
        let (from, len) = bytes_of(was);
        let known = self.cell(word).load(Ordering::SeqCst);
        for cell in self.byte_cells(word, from, len).into_iter().flatten() {
            // Of two threads that split at once one brings it; what was recorded since stays.
            let _ = cell.compare_exchange(0, known, Ordering::SeqCst, Ordering::Relaxed);
        }
        if change(was | CUT, SPLIT) {
            super::log::count(selvedge_events::guard::LogCounter::Splits, 1);
        }
        Some(())
    }

    /// Forgets the words `first..last`.
    fn forget(&self, first: usize, last: usize) {
        let mut word = first;
        while word < last {
            if self.dirty.load(Ordering::Relaxed) & 1 << ((word & (WORDS - 1)) >> 7) == 0 {
                word = (word | 127) + 1;
                continue;
            }
            let place = self.shape(word);
            let now = place.load(Ordering::Relaxed);
            if now != 0 {
                if now & !WAITED == SPLIT {
                    for cell in self.byte_cells(word, 0, 8).into_iter().flatten() {
                        cell.store(0, Ordering::Relaxed);
                    }
                }
                self.cell(word).store(0, Ordering::Relaxed);
                // Who is stalled there looks again by itself.
                place.fetch_and(WAITED, Ordering::Release);
            }
            word += 1;
        }
    }
}

/// Where a region's block is.
#[derive(Debug)]
#[repr(C)]
pub struct Bucket {
    /// Region + 1.
    pub key: AtomicU64,
    /// The block's address.
    pub block: AtomicUsize,
}

/// All of them.
pub static BUCKET_TABLE: [Bucket; BUCKETS] =
    [const { Bucket { key: AtomicU64::new(0), block: AtomicUsize::new(0) } }; BUCKETS];
/// Bytes that may still be mapped, in pages.
static ALLOWANCE: AtomicU32 = AtomicU32::new(0);

/// Sets the memory limit.
pub fn begin(memory_limit_mb: u32) {
    ALLOWANCE.store(memory_limit_mb.saturating_mul(256), Ordering::Release);
}

/// Whether so many bytes may be mapped.
fn allow(bytes: usize) -> Option<()> {
    let pages = (bytes / 4096) as u32;
    let take = |left: u32| left.checked_sub(pages);
    ALLOWANCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
    (!sink::is_sealed()).then_some(())
}

fn map(bytes: usize) -> Option<usize> {
    allow(bytes)?;
    sys::mmap_anonymous(bytes).ok()
}

/// Blocks that are mapped one by one: of most programs there are no more. Of others they come from arenas in large pages, since who walks over
/// much memory meets many blocks.
const FEW: usize = 32;
/// A large page on most systems.
const ARENA: usize = 2 << 20;
const BLOCKS_OF_ARENA: usize = ARENA / BLOCK_BYTES;
/// Blocks mapped so far, as far as that matters.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// The arena that blocks are taken from, and how many were.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// A block that nobody needed.
static SPARE: AtomicUsize = AtomicUsize::new(0);

/// A block's memory.
fn map_block() -> Option<usize> {
    let spare = SPARE.swap(0, Ordering::Acquire);
    if spare != 0 {
        return Some(spare);
    }
    allow(BLOCK_BYTES)?;
    if MAPPED.load(Ordering::Relaxed) < FEW {
        MAPPED.fetch_add(1, Ordering::Relaxed);
        return sys::mmap_anonymous(BLOCK_BYTES).ok();
    }
    loop {
        let open = OPEN.load(Ordering::Acquire);
        let (arena, taken) = (open & !(ARENA - 1), open & (ARENA - 1));
        let is_full = arena == 0 || taken == BLOCKS_OF_ARENA;
        let (arena, taken) = if is_full { (sys::mmap_aligned(ARENA).ok()?, 0) } else { (arena, taken) };
        if OPEN.compare_exchange(open, arena + taken + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(arena + taken * BLOCK_BYTES);
        }
        if is_full {
            // SAFETY: just mapped, and nobody saw it.
            unsafe { sys::munmap(arena, ARENA) };
        }
    }
}

fn unmap(at: usize, bytes: usize) {
    ALLOWANCE.fetch_add((bytes / 4096) as u32, Ordering::Relaxed);
    // SAFETY: from `map`, and nobody saw it.
    unsafe { sys::munmap(at, bytes) };
}

/// Where a region is looked for first. Regions side by side are in buckets side by side: walks over large arrays meet
/// few lines of the table.
#[inline(always)]
const fn first_bucket(region: u64) -> usize {
    (region ^ region >> BUCKET_BITS) as usize & (BUCKETS - 1)
}

/// The block of a region, where it is in the first place that is looked at.
#[inline(always)]
pub fn near(region: u64) -> Option<&'static Block> {
    let bucket = &BUCKET_TABLE[first_bucket(region)];
    if bucket.key.load(Ordering::Relaxed) != region + 1 {
        return None;
    }
    let block = bucket.block.load(Ordering::Acquire);
    // SAFETY: I7: zeroed pages large enough for a block, never unmapped; all of its fields are atomics.
    (block != 0).then(|| unsafe { &*(block as *const Block) })
}

/// The block of a region: found, or mapped where asked.
pub fn block(region: u64, make: bool) -> Option<&'static Block> {
    let key = region + 1;
    // Steps of another length for each: who finds a long run of neighbours here does not have to walk along it.
    let stride = (region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize | 1;
    for probe in 0..64 {
        let bucket = &BUCKET_TABLE[(first_bucket(region) + probe * stride) & (BUCKETS - 1)];
        let mut found = bucket.key.load(Ordering::Acquire);
        if found == 0 {
            if !make {
                return None;
            }
            found = match bucket.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => key,
                Err(now) => now,
            };
        }
        if found == key {
            return fill(bucket, make);
        }
    }
    None
}

/// All blocks.
pub fn blocks() -> impl Iterator<Item = &'static Block> {
    BUCKET_TABLE.iter().filter_map(|bucket| fill(bucket, false))
}

fn fill(bucket: &Bucket, make: bool) -> Option<&'static Block> {
    let mut block = bucket.block.load(Ordering::Acquire);
    if block == 0 {
        if !make {
            return None;
        }
        block = map_block()?;
        if let Err(theirs) = bucket.block.compare_exchange(0, block, Ordering::AcqRel, Ordering::Acquire) {
            SPARE.store(block, Ordering::Release);
            block = theirs;
        }
    }
    // SAFETY: I7: zeroed pages large enough for a block, never unmapped; all of its fields are atomics.
    Some(unsafe { &*(block as *const Block) })
}

/// Memory that begins a new life: nobody has accessed it.
pub fn forget(addr: u64, size: u64) {
    let end = addr.saturating_add(size);
    let mut at = addr & !7;
    while at < end {
        let region_end = (at >> REGION_SHIFT).wrapping_add(1) << REGION_SHIFT;
        let stop = end.min(region_end);
        if let Some(block) = block(at >> REGION_SHIFT, false) {
            let first = (at >> 3) as usize & (WORDS - 1);
            block.forget(first, (first + (stop - at).div_ceil(8) as usize).min(WORDS));
        }
        at = stop;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The definition, kept naively: all accesses to one location.
    fn oracle(past: &[(u32, u32)], thread: u32) -> u32 {
        past.iter().rev().find(|(who, _)| *who != thread).map_or(0, |(_, site)| *site)
    }

    /// Who counts as having come last, kept naively: nobody while threads take turns at one site.
    #[derive(Default)]
    pub(in super::super) struct Last {
        /// The last, with its site; the thread that came before it, with its last one.
        pair: [Option<(u32, u32)>; 2],
        everybody: bool,
    }

    impl Last {
        /// After all these accesses.
        pub(in super::super) fn of(past: &[(u32, u32)]) -> Last {
            let mut last = Last::default();
            for (thread, site) in past {
                last.take(*thread, *site);
            }
            last
        }

        /// Whether a thread has come last.
        pub(in super::super) fn is(&self, thread: u32) -> bool {
            !self.everybody && self.pair[0].is_some_and(|(who, _)| who == thread)
        }

        /// Whether an access comes after one of the thread's own.
        fn take(&mut self, thread: u32, site: u32) -> bool {
            let [last, before] = self.pair;
            if self.everybody && last.is_some_and(|(_, at)| at == site) {
                return false;
            }
            if !self.everybody && last.is_some_and(|(who, _)| who == thread) {
                self.pair[0] = Some((thread, site));
                return true;
            }
            if last.is_some_and(|(_, at)| at == site) && before == Some((thread, site)) {
                self.everybody = true;
                return false;
            }
            self.pair = [Some((thread, site)), last.filter(|_| !self.everybody)];
            self.everybody = false;
            false
        }
    }

    #[test]
    fn a_cell_knows_the_remote_predecessor() {
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let (threads, sites) = (1 + next(4), 1 + next(5));
            let (mut cell, mut past, mut turns) = (0, Vec::new(), Last::default());
            for _ in 0..40 {
                let (thread, site) = (next(threads) as u32, 1 + next(sites) as u32);
                let reading = read(cell, thread_mark(thread), site);
                // Two halves are enough: who is third looks at the newest.
                assert_eq!(reading.before, oracle(&past, thread), "{past:?} then {thread}");
                assert_eq!(reading.last, past.last().map_or(0, |(_, site)| *site));
                assert_eq!(reading.own, turns.take(thread, site), "{past:?} then {thread} at {site}");
                if reading.before != 0 && reading.before_thread != EVERYBODY {
                    let who = past.iter().rev().find(|(who, _)| *who != thread).map(|(who, _)| *who);
                    assert_eq!(Some(thread_of(reading.before_thread)), who);
                }
                cell = reading.after;
                past.push((thread, site));
            }
        }
    }

    /// Every access has a site of its own, so that the order in which they came can be told from what each saw last.
    #[test]
    fn a_cell_is_exact_however_threads_meet() {
        const THREADS: u32 = 4;
        const EACH: u32 = 4000;
        let cell = AtomicU64::new(0);
        let work = |thread: u32| {
            let mut seen = Vec::new();
            for turn in 0..EACH {
                let site = 1 + turn * THREADS + thread;
                let mut now = cell.load(Ordering::Acquire);
                let reading = loop {
                    let reading = read(now, thread_mark(thread), site);
                    match cell.compare_exchange(now, reading.after, Ordering::SeqCst, Ordering::Acquire) {
                        Ok(_) => break reading,
                        Err(other) => now = other,
                    }
                };
                seen.push((reading.last, (thread, site), (reading.before, reading.own)));
            }
            seen
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("ended")).collect()
        });
        let mut next = std::collections::HashMap::new();
        for (last, access, saw) in all {
            assert!(next.insert(last, (access, saw)).is_none(), "two came right after {last}");
        }
        let (mut last, mut past) = (0, Vec::new());
        while let Some(((thread, site), saw)) = next.remove(&last) {
            let own = past.last().is_some_and(|(who, _)| *who == thread);
            assert_eq!(saw, (oracle(&past, thread), own), "access {}", past.len());
            past.push((thread, site));
            last = site;
        }
        assert_eq!(past.len(), (THREADS * EACH) as usize, "all came in one order");
    }

    #[test]
    fn words_are_split_where_shapes_differ_and_forgotten_whole() {
        begin(64);
        let block = block(77, true).expect("memory");
        let cells = block.cells_of(5, 0, 4).expect("memory");
        assert_eq!(cells.len(), 1);
        cells[0].store(42, Ordering::Relaxed);
        assert!(core::ptr::eq(&raw const cells[0], &raw const block.cells_of(5, 0, 4).expect("memory")[0]));
        let whole = block.cells_of(5, 0, 8).expect("memory");
        let values: Vec<u64> = whole.iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
        assert_eq!(values, [42, 42, 42, 42, 0, 0, 0, 0]);
        assert_eq!(block.cells_of(5, 0, 4).expect("memory").len(), 4);
        forget((77 << REGION_SHIFT) + 40, 1);
        assert_eq!(block.cells_of(5, 0, 8).expect("memory").len(), 1);
        assert_eq!(block.cells_of(5, 0, 8).expect("memory")[0].load(Ordering::Relaxed), 0);
    }

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn shapes_are_told_apart() {
        let mut seen = Vec::new();
        for from in 0..8 {
            for len in 1..=8 - from {
                let shape = shape(from, len);
                assert_eq!(bytes_of(shape), (from as usize, len as usize));
                assert!(shape != 0 && shape & (CUT | WAITED) == 0 && !seen.contains(&shape));
                seen.push(shape);
            }
        }
        // An access that reaches over the end of its word has no word's shape.
        let over = (0..8).flat_map(|from| (9 - from..=8).map(move |len| shape(from, len)));
        assert!(
            over.clone().count() == 28
                && over.into_iter().all(|shape| shape != SPLIT && !seen.contains(&(shape & !CUT)))
        );
    }
}
