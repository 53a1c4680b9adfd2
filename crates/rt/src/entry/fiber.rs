//! The fiber interface: each fiber is a thread of control of its own, with its own stream.

use selvedge_events::event::EventKind;

use crate::thread_state::{self, ThreadState};
use crate::{sink, stream};

fn as_handle(state: &mut ThreadState) -> usize {
    core::ptr::from_mut(state) as usize
}

/// The fiber that runs now; any non-null value where nothing is observed.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_get_current_fiber() -> usize {
    if !sink::is_open() {
        return 8;
    }
    thread_state::current_or_adopt().map_or(8, as_handle)
}

/// Makes a fiber.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_create_fiber(_flags: u32) -> usize {
    if !sink::is_open() {
        return 8;
    }
    let Some(parent) = thread_state::current_or_adopt() else {
        return 8;
    };
    let index = thread_state::reserve_index();
    stream::emit_on(parent, EventKind::ThreadCreate, 0, [u64::from(index), 0, 0]);
    let Some(fiber) = thread_state::make(index, parent.index) else {
        return 8;
    };
    fiber.is_fiber = 1;
    stream::thread_start(fiber);
    as_handle(fiber)
}

/// Ends a fiber that does not run.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_destroy_fiber(fiber: usize) {
    if fiber <= 8 || thread_state::current().is_some_and(|state| as_handle(state) == fiber) {
        return;
    }
    // SAFETY: I4: a handle that `__tsan_create_fiber` made, which the program gives up.
    let state = unsafe { &mut *(fiber as *mut ThreadState) };
    stream::emit_on(state, EventKind::ThreadExit, 0, [0; 3]);
    thread_state::release(state);
}

/// The program is about to switch stacks.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_switch_to_fiber(fiber: usize, flags: u32) {
    const NO_SYNC: u32 = 1;
    if fiber <= 8 || !sink::is_open() {
        return;
    }
    let Some(from) = thread_state::current_or_adopt() else {
        return;
    };
    // SAFETY: I4: a handle of ours, whose fiber is not running anywhere else.
    let to = unsafe { &mut *(fiber as *mut ThreadState) };
    let sync = u64::from(flags & NO_SYNC == 0);
    stream::emit_on(from, EventKind::FiberSwitch, 0, [u64::from(to.index) | sync << 32, 0, 0]);
    to.seat = from.seat;
    thread_state::enter(to);
}

/// Names a fiber.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_set_fiber_name(fiber: usize, name: usize) {
    if fiber <= 8 || !sink::is_open() || name == 0 {
        return;
    }
    // SAFETY: I4: a handle of ours.
    let state = unsafe { &mut *(fiber as *mut ThreadState) };
    let index = state.index;
    // SAFETY: I9: the guest's zero-terminated string.
    let words = unsafe { crate::interpose::thread::name_words(name as *const u8) };
    stream::emit_on(state, EventKind::ThreadName, 0, [u64::from(index), words[0], words[1]]);
}
