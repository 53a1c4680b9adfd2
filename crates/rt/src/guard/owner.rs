//! Who may change cells without a locked instruction.
//!
//! An exchange of a cell costs more than all else that a guard does, and most memory is used by one thread for long. So 512 bytes of the
//! program's memory, a *granule*, can have an *owner*: the thread that has changed its cells many times with nobody in between. The owner
//! stores. Whoever else comes first takes the granule away, and then exchanges.
//!
//! That is exact, since the owner's look and store are a restartable sequence (rseq(2)): the kernel leads a thread that it interrupts in one
//! out of it, before the store. To take a granule away is to mark it, and then to have the kernel interrupt all threads of the process that
//! run (`membarrier`): after that no store of the owner is under way, and none begins. To give it is the same the other way round: whoever
//! exchanges looks once more at whose it is. Nobody waits for anybody.
//!
//! ```text
//! owner's word:  - 2 | thread's mark 12 | state 2 | misses 16     misses: how often it was taken away
//! ```
//!
//! Where there are no restartable sequences (an old kernel or C library, a simulator, a thread that libc has not made) nobody ever owns
//! anything. Before a process forbids itself system calls everything is taken away, for good.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use selvedge_events::guard::LogCounter;

use super::log;
use super::recorder::{self, Block, GRANULES, Granule, THREAD_MASK};
use crate::thread_state::ThreadState;
use crate::{arch, gate, real, sink, sys};

/// A thread has asked for it: from here on nobody else exchanges in it without taking that back.
const WANTED: u32 = 1 << 16;
/// Its owner stores.
const HELD: u32 = 1 << 17;
/// It is being taken away: its owner may still be about to store.
const LEAVING: u32 = WANTED | HELD;
const STATE: u32 = WANTED | HELD;
const MISSES: u32 = 0xffff;
/// Exchanges in a row after which a thread asks for a granule that was not taken away yet, and after which it gets it also where it asks for no others:
/// to give costs less than they did.
const STREAK: u32 = 256;
const LONG: u32 = 16 * STREAK;
/// So many misses double these; how often they do.
const DOUBLING: u32 = 4;
const MOST_DOUBLINGS: u32 = 6;

/// Where the kernel looks for restartable sequences, from the thread pointer; 0 where it does not.
static AREA: AtomicUsize = AtomicUsize::new(0);
/// Nobody owns anything any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// No word's upper half.
const NEVER: u32 = u32::MAX;

/// Granules that a thread has asked for and not been given yet.
#[derive(Debug)]
#[repr(C)]
pub struct Wanted {
    places: [usize; 64],
    count: u32,
    is_busy: u32,
}

impl Wanted {
    /// Forgets them: the thread has another mark.
    pub fn clear(&mut self) {
        (self.count, self.is_busy) = (0, 0);
    }
}

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
    state.wanted.clear();
    let area = AREA.load(Ordering::Acquire);
    let may_own = area != 0 && arch::is_restartable(area);
    state.held = if may_own { (state.mark | HELD) >> 16 } else { NEVER };
    state.area = if may_own { area } else { arch::no_area() };
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
/// Who has seen the same word of its granule before and after the exchange knows that nobody owned it in between. Where somebody is about to, that
/// begins after all exchanges that have not seen it.
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
    let is_open = owned & STATE == 0 || owned & !MISSES == state.mark | WANTED;
    if !is_open || block.cell(word).compare_exchange(now, after, Ordering::SeqCst, Ordering::Relaxed).is_err() {
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
            ask(owner, long % (1 << recorder::SITE_BITS) + 1, state);
        }
    }
    Change::Made
}

/// An exchange of a whole word's cell was late. False where it is as if it had not been made: an owner has stored what it made of the cell before.
#[cold]
pub fn settle(block: &Block, word: usize, mark: u32, site: u32) -> bool {
    come(block, word, mark);
    recorder::has(block.cell(word).load(Ordering::Acquire), mark, site)
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
    let Some(place) = places().nth(number) else { return };
    if owned & STATE == WANTED {
        // Nobody stores yet. The thread may be the one that asks: a handler has interrupted it, or it jumped out of one.
        put(place, owned, owned.wrapping_add(1) & MISSES);
        return;
    }
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
    // Where that is forbidden everything was taken away before.
    sys::membarrier();
    for (place, mark) in places().zip(marks).filter(|(_, mark)| *mark != 0) {
        if put(place, mark, mark.wrapping_add(1) & MISSES) {
            log::count(LogCounter::TakenAway, 1);
        }
    }
}

/// Asks for a granule after so many exchanges. To interrupt all threads takes long, so granules are given many at once, or when one has been
/// waited for for long. Until then nobody stores.
#[cold]
#[inline(never)]
fn ask(place: &'static AtomicU32, streak: u32, state: &mut ThreadState) {
    let owned = place.load(Ordering::Relaxed);
    let doublings = ((owned & MISSES) / DOUBLING).min(MOST_DOUBLINGS);
    // A handler on this thread leaves what it has interrupted alone.
    if streak < STREAK << doublings || state.held == NEVER || state.wanted.is_busy != 0 || is_over() {
        return;
    }
    let wanted = state.mark | WANTED | owned & MISSES;
    let is_asked = owned == wanted;
    if !is_asked && (owned & STATE != 0 || !put(place, owned, wanted)) {
        return;
    }
    state.wanted.is_busy = 1;
    compiler_fence(Ordering::SeqCst);
    let Wanted { count, places, .. } = &mut state.wanted;
    if !is_asked && let Some(free) = places.get_mut(*count as usize) {
        *free = core::ptr::from_ref(place) as usize;
        *count += 1;
    }
    if *count as usize == places.len() || streak >= LONG << doublings {
        give(places.get(..*count as usize).unwrap_or(&[]), state.mark);
        *count = 0;
    }
    compiler_fence(Ordering::SeqCst);
    state.wanted.is_busy = 0;
}

fn is_over() -> bool {
    AREA.load(Ordering::Relaxed) == 0 || OVER.load(Ordering::SeqCst) || sink::is_sealed() || gate::is_on()
}

/// Gives a thread what it wants, as far as nobody has come there meanwhile.
fn give(places: &[usize], mark: u32) {
    // Who ends all this has either seen what is wanted, or is seen here.
    if is_over() || !sys::membarrier() {
        return;
    }
    for at in places {
        // SAFETY: I7: a word of a block, which is never unmapped.
        let place = unsafe { &*(*at as *const AtomicU32) };
        let owned = place.load(Ordering::Relaxed);
        if owned & !MISSES == mark | WANTED && put(place, owned, owned ^ STATE) {
            log::count(LogCounter::Given, 1);
        }
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
    let change_all = |next: &dyn Fn(u32) -> u32| {
        for place in all() {
            let next = |owned: u32| (owned & STATE != 0).then(|| next(owned));
            let _ = place.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        }
    };
    // One interruption does for all.
    change_all(&|owned| owned | LEAVING);
    sys::membarrier();
    change_all(&|owned| owned.wrapping_add(1) & MISSES);
}
