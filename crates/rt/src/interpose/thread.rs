//! Threads: creation by way of our own start routine, so that a thread has its state before its first
//! instruction; joins, which need to know which thread a handle was.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::plan::Observe;
use selvedge_sched::OpKind;

use super::{Reg, clock, wrappers};
use crate::arena::Pool;
use crate::gate::model::{self, errno};
use crate::gate::{self, Arrival, Woken};
use crate::thread_state;
use crate::{detect, graph, guard, heal, real, shadow, sink, stacks, stream, sys};

/// What a new thread needs to start as the guest wanted.
#[derive(Debug)]
#[repr(C)]
struct Start {
    routine: usize,
    argument: usize,
    index: u32,
    parent: u32,
    /// The signals that the parent blocks, while it blocks all for the child's sake.
    mask: u64,
}

static STARTS: Pool<Start> = Pool::new();

/// Handles of threads that were not joined yet, by open addressing; a full table costs names in
/// join events, nothing else.
static HANDLES: [(AtomicU64, AtomicU32); 4096] = [const { (AtomicU64::new(0), AtomicU32::new(0)) }; 4096];

fn remember(handle: u64, index: u32) {
    let start = (handle >> 12) as usize;
    for probe in 0..64 {
        let (key, value) = &HANDLES[(start + probe) % HANDLES.len()];
        let now = key.load(Ordering::Relaxed);
        if now == 0 || now == handle {
            value.store(index, Ordering::Relaxed);
            // Pairs with the acquire in `recall`.
            key.store(handle, Ordering::Release);
            return;
        }
    }
}

fn recall(handle: u64, forget: bool) -> u32 {
    let start = (handle >> 12) as usize;
    for probe in 0..64 {
        let (key, value) = &HANDLES[(start + probe) % HANDLES.len()];
        if key.load(Ordering::Acquire) == handle {
            let index = value.load(Ordering::Relaxed);
            if forget {
                key.store(0, Ordering::Relaxed);
            }
            return index;
        }
    }
    u32::MAX
}

/// The key whose destructor ends a thread's recording after the guest's own destructors.
static EXIT_KEY: AtomicU32 = AtomicU32::new(u32::MAX);
static KEY_READY: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: extern "C" fn(*mut c_void)) -> i32;
    fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
    fn pthread_self() -> u64;
}

/// Prepares thread exits; before any thread exists.
pub fn prepare() {
    let mut key = 0;
    // SAFETY: `key` is ours.
    if unsafe { pthread_key_create(&raw mut key, on_exit) } == 0 {
        EXIT_KEY.store(key, Ordering::Relaxed);
        KEY_READY.store(1, Ordering::Release);
    }
}

/// Rounds of destructors that are left to the guest's keys before ours counts: libc makes four.
const ROUNDS: usize = 3;

/// The first thread can be joined too.
pub fn remember_main(index: u32) {
    // SAFETY: no effect on memory.
    remember(unsafe { pthread_self() }, index);
}

/// Makes sure that the calling thread's end is noticed.
pub fn arm_exit(round: usize) -> bool {
    KEY_READY.load(Ordering::Acquire) == 1
        // SAFETY: the key exists; the value is a number, never followed.
        && unsafe { pthread_setspecific(EXIT_KEY.load(Ordering::Relaxed), round as *const c_void) } == 0
}

extern "C" fn on_exit(round: *mut c_void) {
    let round = round as usize;
    if round < ROUNDS && arm_exit(round + 1) {
        return;
    }
    if let Some(state) = thread_state::current() {
        heal::leave(state);
        stream::emit(EventKind::ThreadExit, 0, [0; 3]);
        gate::exit();
    }
    thread_state::leave();
}

/// No mask is to be restored.
const NO_MASK: u64 = u64::MAX;

/// Runs first in every thread that the guest makes.
extern "C" fn run(start: *mut Start) -> usize {
    // SAFETY: I2: made by `create` for this thread alone.
    let (routine, argument, index, parent, mask) =
        unsafe { ((*start).routine, (*start).argument, (*start).index, (*start).parent, (*start).mask) };
    // SAFETY: I2: from this pool, not used again.
    unsafe { STARTS.give(start) };
    if let Some(state) = thread_state::make(index, parent) {
        thread_state::enter(state);
        forget_stack();
        if let Some(state) = thread_state::current() {
            gate::start(state);
            stream::thread_start(state);
        }
        arm_exit(1);
    }
    guard::arrived();
    if mask != NO_MASK {
        let own = sys::swap_signal_mask(mask);
        if own != sys::ALL_SIGNALS {
            // The thread was made with a mask of its own.
            sys::swap_signal_mask(own);
        }
    }
    // SAFETY: I9: the guest's own start routine; pthreads and C11 both take a pointer, and leave the
    // result in the same register.
    let routine: extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(routine) };
    routine(argument)
}

unsafe extern "C" {
    fn pthread_getattr_np(thread: u64, attr: *mut [u64; 8]) -> i32;
    fn pthread_attr_getstack(attr: *const [u64; 8], stack: *mut u64, size: *mut u64) -> i32;
    fn pthread_attr_destroy(attr: *mut [u64; 8]) -> i32;
}

/// Stacks are recycled: a new thread's stack is not shared with the last one that had it.
fn forget_stack() {
    if !matches!(sink::observe(), Observe::Survey | Observe::Graph) && !guard::is_on() && !detect::is_on() {
        return;
    }
    let Some(state) = thread_state::current() else {
        return;
    };
    state.internal += 1;
    let (mut attr, mut stack, mut size) = ([0_u64; 8], 0, 0);
    // SAFETY: `pthread_attr_t` has 56 bytes; all pointers are ours.
    unsafe {
        if pthread_getattr_np(pthread_self(), &raw mut attr) == 0 {
            if pthread_attr_getstack(&raw const attr, &raw mut stack, &raw mut size) == 0 {
                match sink::observe() {
                    Observe::Survey => shadow::forget(stack, size),
                    Observe::Graph => graph::forget(stack, size),
                    Observe::Record | Observe::Nothing => {}
                }
                guard::forget(stack, size);
                detect::stack(state, stack as usize, stack.saturating_add(size) as usize);
            }
            pthread_attr_destroy(&raw mut attr);
        }
    }
    state.internal -= 1;
}

/// Makes a thread whose first steps are ours. `arrange` calls the real function with our routine.
fn create(slot: Slot, handle: Reg, routine: Reg, argument: Reg, pc: Reg, arrange: impl FnOnce(Reg, Reg) -> Reg) -> Reg {
    let (Some(parent), Some(start)) = (thread_state::current_or_adopt(), STARTS.take()) else {
        return arrange(routine, argument);
    };
    let index = thread_state::reserve_index();
    parent.children += 1;
    // A handler that ran before the child has its state would make it a stranger.
    let hold = gate::is_on() && !sink::is_sealed();
    if gate::is_on() {
        gate::point(Arrival { object: u64::from(index) + 1, ..Arrival::call(OpKind::Create, 0, slot as u16, pc) });
        gate::create(index, parent.index);
    }
    detect::one_more();
    // Before: the child's first event comes later than this one.
    let kept = u64::from(stacks::keep(parent.index));
    stream::emit(EventKind::ThreadCreate, pc, [u64::from(index), kept, 0]);
    let mask = if hold { sys::swap_signal_mask(sys::ALL_SIGNALS) } else { NO_MASK };
    // SAFETY: I2: fresh from the pool.
    unsafe { start.write(Start { routine, argument, index, parent: parent.index, mask }) };
    guard::expect();
    let result = gate::deaf(|| arrange(run as *const () as usize, start as usize));
    if hold {
        sys::swap_signal_mask(mask);
    }
    if result as u32 != 0 {
        detect::one_less();
        gate::create_failed(index);
    }
    if result as u32 == 0 {
        // SAFETY: I9: the guest's variable for the handle, which the real function filled.
        remember(unsafe { (handle as *const u64).read() }, index);
    } else {
        // SAFETY: I2: no thread got it.
        unsafe { STARTS.give(start) };
        guard::arrived();
    }
    result
}

fn join(slot: Slot, handle: Reg, b: Reg, c: Reg, d: Reg, pc: Reg) -> Reg {
    let index = recall(handle as u64, false);
    stream::pend(slot as u16, u64::from(index), pc);
    let result =
        controlled_join(slot, index, handle, b, c, d, pc).unwrap_or_else(|| real::call(slot, handle, b, c, d, 0));
    stream::unpend();
    if result as u32 == 0 {
        recall(handle as u64, true);
        stream::emit(EventKind::ThreadJoin, pc, [u64::from(index), 0, 0]);
    }
    result
}

/// Waits for a thread's end in the gate; then the real join cannot block. `None`: not under control.
fn controlled_join(slot: Slot, index: u32, handle: Reg, b: Reg, c: Reg, d: Reg, pc: Reg) -> Option<Reg> {
    if !gate::is_on() {
        return None;
    }
    let arrival = Arrival { object: u64::from(index) + 1, ..Arrival::call(OpKind::Join, 0, slot as u16, pc) };
    let real = || real::call(slot, handle, b, c, d, 0);
    let own = thread_state::current().is_some_and(|state| state.index == index);
    if own {
        // The real function refuses.
        gate::point(arrival);
        return Some(real());
    }
    if index == u32::MAX || gate::has_ended(index).is_none() {
        // A thread that we did not see made.
        return Some(model::outside(arrival, real));
    }
    let ended = || gate::has_ended(index) != Some(false);
    let answer = || {
        // As the real function, which refuses to wait for one that waits for the caller.
        let refused = thread_state::current().is_some_and(|state| model::is_joining(index, state.index));
        if refused { Some(errno::EDEADLK) } else { ended().then_some(0) }
    };
    let deadline = match slot {
        Slot::pthread_tryjoin_np => {
            gate::point(arrival);
            return Some(if ended() { join_now(slot, handle, b) } else { errno::EBUSY as Reg });
        }
        Slot::pthread_timedjoin_np => clock::deadline(0, c),
        Slot::pthread_clockjoin_np => clock::deadline(c, d),
        _ => u64::MAX,
    };
    loop {
        super::wait::cancellation_point();
        match model::acquire(arrival, deadline, false, answer)? {
            Ok(0) => return Some(join_now(slot, handle, b)),
            Ok(error) => return Some(error as Reg),
            Err(Woken::TimedOut) => return Some(errno::ETIMEDOUT as Reg),
            // Asked to end; the next round does so, if it may.
            Err(_) => {}
        }
    }
}

/// The thread is past its last point: the kernel needs a moment to see it off.
fn join_now(slot: Slot, handle: Reg, value: Reg) -> Reg {
    let slot = if slot == Slot::thrd_join { slot } else { Slot::pthread_join };
    gate::deaf(|| real::call(slot, handle, value, 0, 0, 0))
}

fn detach(slot: Slot, handle: Reg, pc: Reg) -> Reg {
    let index = recall(handle as u64, true);
    stream::emit(EventKind::ThreadDetach, pc, [u64::from(index), 0, 0]);
    real::call(slot, handle, 0, 0, 0, 0)
}

/// Up to sixteen bytes of a name, as two words.
///
/// # Safety
/// `name` must be a zero-terminated string.
pub unsafe fn name_words(name: *const u8) -> [u64; 2] {
    let mut bytes = [0_u8; 16];
    for (at, room) in bytes.iter_mut().enumerate() {
        // SAFETY: the caller's promise; stops at the zero byte.
        *room = unsafe { name.add(at).read() };
        if *room == 0 {
            break;
        }
    }
    let value = u128::from_le_bytes(bytes);
    [value as u64, (value >> 64) as u64]
}

wrappers! {
    pthread_create(handle, attr, routine, argument; pc) =>
        create(SLOT, handle, routine, argument, pc, |routine, argument| real::call(SLOT, handle, attr, routine, argument, 0));
    thrd_create(handle, routine, argument; pc) =>
        create(SLOT, handle, routine, argument, pc, |routine, argument| real::call(SLOT, handle, routine, argument, 0, 0));
    pthread_join(handle, value; pc) => join(SLOT, handle, value, 0, 0, pc);
    pthread_tryjoin_np(handle, value; pc) => join(SLOT, handle, value, 0, 0, pc);
    pthread_timedjoin_np(handle, value, until; pc) => join(SLOT, handle, value, until, 0, pc);
    pthread_clockjoin_np(handle, value, clock, until; pc) => join(SLOT, handle, value, clock, until, pc);
    thrd_join(handle, value; pc) => join(SLOT, handle, value, 0, 0, pc);
    pthread_detach(handle; pc) => detach(SLOT, handle, pc);
    thrd_detach(handle; pc) => detach(SLOT, handle, pc);
    pthread_setname_np(handle, name; pc) => {
        let result = real::call(SLOT, handle, name, 0, 0, 0);
        if result as u32 == 0 {
            // SAFETY: no effect on memory.
            let own = unsafe { pthread_self() } == handle as u64;
            let index = if own { thread_state::current().map_or(u32::MAX, |state| state.index) } else { recall(handle as u64, false) };
            // SAFETY: I9: the guest's zero-terminated string, which the real function accepted.
            let words = unsafe { name_words(name as *const u8) };
            stream::emit(EventKind::ThreadName, pc, [u64::from(index), words[0], words[1]]);
        }
        result
    };
}

/// The thread that a handle names; `u32::MAX` where it is not one that we saw made.
pub fn index_of(handle: Reg) -> u32 {
    recall(handle as u64, false)
}

/// A thread was asked to end.
pub fn cancelled(handle: Reg) {
    let index = recall(handle as u64, false);
    if index != u32::MAX {
        model::cancel(index);
    }
}

/// In a forked child.
pub fn after_fork() {
    STARTS.after_fork();
}
