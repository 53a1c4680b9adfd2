//! Who may change cells without a locked instruction.
//!
//! An exchange of a cell costs more than all else that a guard does, and most memory is used by one thread for long. So 512 bytes of the
//! program's memory, a *granule*, can have an *owner*: the thread that has changed its cells many times with nobody in between. The owner
//! stores. Whoever else comes first takes the granule away, and then exchanges.
//!
//! That is exact, since the owner's look and store are a restartable sequence (rseq(2)): the kernel leads a thread that it interrupts in one
//! out of it, before the store. To take a granule away is to mark it, and then to have the kernel interrupt all threads of the process that
//! run (`membarrier`): after that no store of the owner is under way, and none begins. Who exchanges looks once more at whose it is: it may have been
//! given to another thread meanwhile. Nobody waits for anybody.
//!
//! ```text
//! owner's word:  - 2 | thread's mark 12 | state 2 | misses 16     misses: how often it was taken away; a new one each time
//! ```
//!
//! Where there are no restartable sequences (an old kernel or C library, a simulator) nobody ever owns anything. Before a process forbids itself
//! system calls everything is taken away, for good. The kernel does not look after the child of a `vfork`, which runs as its parent's thread: between that
//! and its `exec` a record can be lost. Nor after a thread that was made without libc in memory that libc laid out for it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::guard::LogCounter;

use super::log;
use super::recorder::{self, Block, GRANULES, Granule, THREAD_MASK};
use crate::thread_state::ThreadState;
use crate::{arch, gate, real, sink, sys};

/// Its owner stores.
const HELD: u32 = 1 << 17;
/// It is being taken away: its owner may still be about to store.
const LEAVING: u32 = HELD | 1 << 16;
/// Nobody's where none of these is set.
const STATE: u32 = LEAVING;
const MISSES: u32 = 0xffff;
/// Exchanges in a row after which a thread comes to own a granule that was not taken away yet: what it saves then is more than taking it away
/// costs.
const STREAK: u32 = 256;
/// So many misses double that; how often they do.
const DOUBLING: u32 = 4;
const MOST_DOUBLINGS: u32 = 6;

/// Where the kernel looks for restartable sequences, from the thread pointer; 0 where it does not.
static AREA: AtomicUsize = AtomicUsize::new(0);
/// Nobody owns anything any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// No word's upper half: of a thread that owns nothing.
const NEVER: u32 = u32::MAX;

/// Looks for what is needed; where it is not there, nobody will own anything.
pub fn begin() {
    OVER.store(false, Ordering::Relaxed);
    let (Some(offset), Some(size)) = (real::data(c"__rseq_offset"), real::data(c"__rseq_size")) else { return };
    // SAFETY: libc's constants of these names: a `ptrdiff_t` and an `unsigned`.
    let (offset, size) = unsafe { (*(offset as *const usize), *(size as *const u32)) };
    if offset != 0 && size != 0 && arch::is_restartable(offset) && sys::membarrier_register() {
        AREA.store(offset, Ordering::Release);
    }
}

/// Whether anybody can own anything.
#[cfg(test)]
pub fn is_possible() -> bool {
    AREA.load(Ordering::Relaxed) != 0 && !OVER.load(Ordering::Relaxed)
}

/// A thread begins; it never owns anything where it is not restartable.
pub fn enter(state: &mut ThreadState) {
    let area = AREA.load(Ordering::Acquire);
    let may_own = area != 0 && arch::is_restartable(area);
    state.held = if may_own { (state.mark | HELD) >> 16 } else { NEVER };
    state.area = if may_own { area } else { arch::unseen_area() };
}

/// In a forked child.
pub fn after_fork() {
    if AREA.load(Ordering::Relaxed) != 0 && !sink::is_sealed() && !sys::membarrier_register() {
        end();
    }
}

/// What is to be done with a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: it was changed.
    Made,
    /// It was changed, but the word's shape was another one then, or its owner: [`settle`].
    Late,
    /// It is another one now, or not this thread's to change.
    Not,
}

/// Changes the cell of a whole word of this shape from `now` to `after`: by a store where the thread owns it, by an exchange where nobody does.
///
/// Who has seen the same word of its granule before and after the exchange knows that nobody owned it in between. And whoever comes to own it
/// after that sees the exchange: each of the two looks for the other after a locked instruction of its own.
#[inline(always)]
pub fn change(state: &mut ThreadState, block: &'static Block, word: usize, shape: u8, now: u64, after: u64) -> Change {
    let Granule { owner, streak } = block.granule(word);
    let owned = owner.load(Ordering::Acquire);
    if owned >> 16 == state.held {
        // SAFETY: I14.
        let made = unsafe {
            arch::store_if(state.area, (owner, state.held), (block.shape(word), shape), (block.cell(word), now), after)
        };
        return if made { Change::Made } else { Change::Not };
    }
    if owned & STATE != 0 || block.cell(word).compare_exchange(now, after, Ordering::SeqCst, Ordering::Relaxed).is_err()
    {
        return Change::Not;
    }
    if owner.load(Ordering::SeqCst) != owned || block.shape(word).load(Ordering::SeqCst) != shape {
        return Change::Late;
    }
    // Threads that meet touch no word for that.
    if recorder::is_update(now, after) {
        let before = streak.load(Ordering::Relaxed);
        // What another thread makes of it meanwhile is lost, which costs a try at most.
        let long = if before & THREAD_MASK as u32 == state.mark { before.wrapping_add(1) } else { state.mark };
        streak.store(long, Ordering::Relaxed);
        if long % STREAK == STREAK - 1 {
            give(block.granule(word), long % (1 << recorder::SITE_BITS) + 1, state);
        }
    }
    Change::Made
}

/// An exchange of a whole word's cell was late. False where it may be as if it had not been made, because an owner has stored what it made of the
/// cell before: then it is made again.
#[cold]
pub fn settle(block: &Block, word: usize, mark: u32, site: u32) -> bool {
    come(block, word, mark);
    let now = block.cell(word).load(Ordering::Acquire);
    recorder::read(now, mark, site).after == now
}

/// The same for whoever comes by the long way: takes the granule away where another thread has it. The cell may be that of a byte, which
/// nobody owns. False where it is another one now.
pub fn change_slowly(block: &Block, word: usize, cell: &AtomicU64, now: u64, after: u64, mark: u32, site: u32) -> bool {
    let exchange = || cell.compare_exchange(now, after, Ordering::SeqCst, Ordering::Acquire).is_ok();
    if !core::ptr::eq(cell, block.cell(word)) {
        return exchange();
    }
    let owned = come(block, word, mark);
    exchange() && (block.granule(word).owner.load(Ordering::SeqCst) == owned || settle(block, word, mark, site))
}

/// A thread is about to look at a word: nobody else stores there any more. What its granule's word is then: nobody's, or the thread's own.
pub fn come(block: &Block, word: usize, mark: u32) -> u32 {
    let (granules, number) = (block.granules(), Block::number(word));
    loop {
        let owned = granules[number].owner.load(Ordering::Acquire);
        if owned & STATE == 0 || owned & !MISSES == mark | HELD {
            return owned;
        }
        take(granules, number, owned);
    }
}

/// The same for everybody: the word is about to be split, or waited at.
pub fn nobody(block: &Block, word: usize) {
    // No thread has this mark.
    come(block, word, 0);
}

/// A step towards nobody's.
#[cold]
fn take(granules: &[Granule; GRANULES], number: usize, owned: u32) {
    let places = || granules.iter().map(|granule| &granule.owner);
    // Who comes to one mostly comes to its neighbours too, as far as they are the same thread's: one interruption does for all.
    let is_same = |other: u32| other & THREAD_MASK as u32 == owned & THREAD_MASK as u32 && other & HELD != 0;
    let before = places().take(number).rev().take_while(|place| is_same(place.load(Ordering::SeqCst)));
    let first = number - before.count();
    let mut marks = [0; GRANULES];
    for (place, mark) in places().zip(&mut marks).skip(first) {
        let owned = place.load(Ordering::SeqCst);
        if !is_same(owned) {
            break;
        }
        if owned & STATE == LEAVING || put(place, owned, owned | LEAVING) {
            *mark = owned | LEAVING;
        }
    }
    // Where that is forbidden everything was taken away before, but for what a thread was just being given.
    if !sink::is_sealed() {
        sys::membarrier();
    }
    for (place, mark) in places().zip(marks).filter(|(_, mark)| *mark != 0) {
        if put(place, mark, mark.wrapping_add(1) & MISSES) {
            log::count(LogCounter::TakenAway, 1);
        }
    }
}

/// A thread has made so many exchanges in a row: it owns the granule, unless that was taken away too often for this to pay.
#[cold]
#[inline(never)]
fn give(granule: &Granule, streak: u32, state: &ThreadState) {
    let place = &granule.owner;
    let owned = place.load(Ordering::Relaxed);
    let doublings = ((owned & MISSES) / DOUBLING).min(MOST_DOUBLINGS);
    let is_over = || OVER.load(Ordering::SeqCst) || sink::is_sealed() || gate::is_on();
    if streak < STREAK << doublings || state.held == NEVER || owned & STATE != 0 || is_over() {
        return;
    }
    let held = state.mark | HELD | owned & MISSES;
    if !put(place, owned, held) {
        return;
    }
    // Where it is taken away it begins anew.
    granule.streak.store(state.mark, Ordering::Relaxed);
    log::count(LogCounter::Given, 1);
    // Who ends all this has either seen that it is held, or is seen here.
    if is_over() {
        put(place, held, held.wrapping_add(1) & MISSES);
    }
}

fn put(place: &AtomicU32, from: u32, to: u32) -> bool {
    place.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Takes everything away, for good: no system calls are made from here on.
#[cold]
pub fn end() {
    if AREA.load(Ordering::Relaxed) == 0 || OVER.swap(true, Ordering::SeqCst) {
        return;
    }
    let all = || recorder::blocks().flat_map(Block::granules).map(|granule| &granule.owner);
    let change_all = |next: fn(u32) -> Option<u32>| {
        for place in all() {
            let _ = place.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        }
    };
    // One interruption does for all. What is given from now on is given back at once.
    change_all(|owned| (owned & STATE == HELD).then_some(owned | LEAVING));
    sys::membarrier();
    change_all(|owned| (owned & STATE == LEAVING).then_some(owned.wrapping_add(1) & MISSES));
}
