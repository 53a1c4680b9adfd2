//! What the runtime knows of a thread of control (a thread or a fiber), and how it is reached.
//!
//! The state's address sits in one thread-local word. It is created when the thread starts (or, for
//! threads that nobody announced, at the first event), and recycled when it ends. All fields belong to
//! the thread itself and to signal handlers that run on it; nobody else reads or writes them (I4).

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::pack::{MEMO, REGIONS};

use crate::arch;
use crate::arena::Pool;
use crate::detect;
use crate::enforce;
use crate::gate;
use crate::graph;
use crate::guard;
use crate::heal;
use crate::sink;

/// Frames that a context stack holds; deeper ones are counted and cut.
pub const MAX_FRAMES: usize = 1024;

/// Signals that can be put off at a time.
pub const DEFERRED: usize = 4;

/// A function that was entered.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    /// Return address in the caller.
    pub pc: u64,
    /// Stack pointer at the entry hook: a live caller's is higher, so stale frames (after `longjmp`)
    /// show themselves.
    pub sp: u64,
    /// The entry hook's site.
    pub site: u32,
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadState {
    /// Where the next word goes; only ever advanced by one instruction ([`arch::add_local`]).
    pub cursor: u64,
    /// Short accesses that may be stored before the slow path must look at the time, the context or
    /// the room that is left.
    pub budget: u32,
    /// Budget put aside when the context changed: accesses that need a context but no time.
    pub quiet: u32,
    /// Upper halves of addresses that the stream already knows, by region slot; 0 is unused.
    pub regions: [u32; REGIONS],
    /// Frames now.
    pub depth: u32,
    /// Fewest frames since the stream last wrote a context.
    pub low: u32,
    /// Frames in the context that the stream last wrote.
    pub emitted: u32,
    /// Frames from the bottom whose functions the survey has marked.
    pub marked: u32,
    /// The guarded access that the thread may still be about to make: its word and a number; others look at it.
    pub doing: AtomicU64,
    /// Set while the thread waits for others for as long as it takes; others look at it.
    pub blocked: AtomicU32,
    /// Locks that the thread holds; others look at it.
    pub locks: AtomicU32,
    /// This thread as the guard's cells have it.
    pub mark: u32,
    /// What the upper half of the word says that tells who owns something, where this thread does.
    pub held: u32,
    /// Where the kernel looks for its restartable sequences, from the thread pointer.
    pub area: usize,
    /// Where the guard's frame is while it is at work; else 0.
    pub guarding: usize,
    /// Guarded accesses so far.
    pub guarded: u64,
    /// Nesting of our own calls into libc, whose side effects are not events.
    pub internal: u32,
    /// Set while the slow path works: a signal handler's events are then dropped and counted.
    pub busy: u32,
    /// Nesting of `ignore` annotations.
    pub ignore: u32,
    /// Budget given after the last timed access; doubles in dense stretches.
    pub stride: u32,
    /// This thread's index.
    pub index: u32,
    /// The parent's index.
    pub parent: u32,
    /// Log chunks written.
    pub seq: u32,
    /// Epoch that the stream last wrote.
    pub epoch: u64,
    /// Epoch at which this thread next notes both clocks; the distance doubles.
    pub tick_at: u64,
    /// Epochs to the note after that.
    pub tick_gap: u64,
    /// Time of the last timed record.
    pub last: u64,
    /// The live slot's address; 0 where there is none.
    pub slot: usize,
    /// Where an allocation really came from, left by `operator new` for the `malloc` inside it.
    pub alloc_pc: usize,
    /// Children made, for names by creation path.
    pub children: u32,
    /// A fiber that the program made, or the fiber of a thread.
    pub is_fiber: u32,
    /// Its seat in the gate + 1; 0 where it has none.
    pub seat: u32,
    /// Set while the thread is in the gate, or in a call of ours whose inside is nobody's business: its hooks are no
    /// points.
    pub in_gate: u32,
    /// Above 0 while the thread changes what all share in the gate: handlers are put off.
    pub critical: AtomicU32,
    /// Handlers that run on this thread, one inside the other.
    pub handlers: u32,
    /// Where the innermost one's frame is.
    pub handler_sp: usize,
    /// Signals that were put off.
    pub deferred: u32,
    /// What the kernel said about them.
    pub deferred_info: [[u64; 16]; DEFERRED],
    /// An event that is to be noted when the thread has the baton: kind + 1, caller, and its words.
    pub put_off: [u64; 5],
    /// The operation under control that the stream last named.
    pub operation: u32,
    /// Whether [`ThreadState::before`] is to be stored with the next event.
    pub has_before: u32,
    /// What the memory of the next event holds.
    pub before: u64,
    /// The last guarded atomic operation: its address, size and armed id. A thread that sleeps on that word goes on with it.
    pub last_atomic: (u64, u64, u32),
    /// The outermost lock that it holds; 0 where it is not known by which call it was taken.
    pub outer_lock: u64,
    /// The call, as the payload of an event.
    pub outer_call: u64,
    /// Words that it has touched since, as far as there is room.
    pub inside: [u64; guard::INSIDE],
    /// How many.
    pub inside_count: u32,
    /// Accesses that have interrupted the guard at work.
    pub reentries: u32,
    /// The atomic sections that it is inside.
    pub heal: heal::Own,
    /// The locks of enforcement that it holds.
    pub enforce: enforce::Own,
    /// What the detector knows of it.
    pub detect: detect::Own,
    /// What accesses make of the guard's cells, as far as it is remembered.
    pub steps: guard::quick::Steps,
    /// What a graph's collector remembers.
    pub graph: graph::Own,
    /// Records that the stream may repeat: first word without time, extra word.
    pub memo: [(u64, u64); MEMO],
    /// Context stack.
    pub frames: [Frame; MAX_FRAMES],
}

/// What every guarded access and every lock looks at is in one line of the cache.
const _: () = assert!(offset_of!(ThreadState, doing) / 64 == offset_of!(ThreadState, internal) / 64);

static POOL: Pool<ThreadState> = Pool::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The thread-local word of a thread that has ended: hooks must leave it alone.
const ENDED: usize = 1;

/// This thread's state, if it has one.
#[inline(always)]
pub fn current() -> Option<&'static mut ThreadState> {
    let word = arch::tls_get();
    if word <= ENDED {
        return None;
    }
    // SAFETY: I4: the word is the address of this thread's own state, alive until the thread ends. A
    // signal handler may hold a second reference; all fields are plain integers, and every
    // multi-step change is under `busy`.
    Some(unsafe { &mut *(word as *mut ThreadState) })
}

/// This thread's state; made on the spot for threads that nobody announced.
#[inline]
pub fn current_or_adopt() -> Option<&'static mut ThreadState> {
    match current() {
        Some(state) => Some(state),
        None => adopt(),
    }
}

#[cold]
#[inline(never)]
fn adopt() -> Option<&'static mut ThreadState> {
    if arch::tls_get() == ENDED
        || !(sink::is_open() || gate::is_on() || guard::is_on() || heal::is_on() || detect::is_on() || enforce::is_on())
    {
        return None;
    }
    sink::count(selvedge_events::counters::Counter::ForeignThreads, 1);
    let state = make(reserve_index(), u32::MAX)?;
    detect::one_more();
    enter(state);
    gate::adopt(state);
    #[cfg(not(feature = "stub"))]
    if gate::is_on() || guard::is_on() || heal::is_on() || detect::is_on() || enforce::is_on() {
        // Or it would end with the baton in its hand, or be waited for.
        crate::interpose::thread::arm_exit(1);
    }
    crate::stream::thread_start(state);
    Some(state)
}

/// The next thread index: taken by the parent before the thread exists.
pub fn reserve_index() -> u32 {
    // Only uniqueness matters.
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    sink::set_threads(index + 1);
    index
}

/// A state with a live slot, not yet anybody's.
pub fn make(index: u32, parent: u32) -> Option<&'static mut ThreadState> {
    let state = POOL.take()?;
    // SAFETY: I2: fresh from the pool, so nobody else has it.
    let state = unsafe { &mut *state };
    state.index = index;
    state.parent = parent;
    sink::attach_slot(state);
    Some(state)
}

/// Makes `state` this thread's own.
pub fn enter(state: &mut ThreadState) {
    guard::enter(state);
    graph::enter(state);
    detect::enter(state);
    arch::tls_set(core::ptr::from_mut(state) as usize);
}

/// Ends this thread's recording: flushes, gives the slot and the state back.
pub fn leave() {
    if let Some(state) = current() {
        enforce::leave(state);
        arch::tls_set(ENDED);
        guard::leave(state);
        heal::leave(state);
        detect::leave(state);
        release(state);
    }
}

/// Gives back a state that no thread runs on.
pub fn release(state: &'static mut ThreadState) {
    sink::detach_slot(state);
    // SAFETY: the thread-local word no longer names it, and it came from the pool.
    unsafe { POOL.give(core::ptr::from_mut(state)) };
}

/// In a forked child: nobody is taking a state, or giving one back.
pub fn open_pool() {
    POOL.after_fork();
}

/// In a forked child: the calling thread is the only one; it starts a new life as thread 0.
pub fn after_fork() -> Option<&'static mut ThreadState> {
    NEXT.store(0, Ordering::Relaxed);
    let state = current()?;
    let index = reserve_index();
    state.index = index;
    guard::numbered(state);
    state.parent = u32::MAX;
    state.seq = 0;
    state.busy = 0;
    state.slot = 0;
    sink::attach_slot(state);
    Some(state)
}
