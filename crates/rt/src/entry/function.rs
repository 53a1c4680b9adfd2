//! Function entry and exit: the context stack.
//!
//! Exits may be missing (`longjmp`, foreign unwinders) or surplus (fibers). A frame's stack pointer
//! tells: at an entry, frames whose stack pointer is not above the new one are gone. A function that was inlined
//! after it was instrumented has an entry of its own in its caller's frame: same stack pointer, same return
//! address, another site; it nests. Nothing is written to the stream here; an event that needs the context
//! writes what changed.

use selvedge_events::counters::Counter;

use crate::thread_state::{self, Frame, MAX_FRAMES, ThreadState};
use crate::{detect, shadow, sink};

/// `__tsan_func_entry` of an armed site.
pub extern "C" fn enter(call_pc: u64, site: u32, sp: u64) {
    let Some(state) = thread_state::current() else {
        return;
    };
    let mut depth = state.depth;
    let gone = |frame: &Frame| frame.sp < sp || (frame.sp == sp && (frame.site == site || frame.pc != call_pc));
    while depth > 0 && top(state, depth).is_none_or(gone) && depth <= MAX_FRAMES as u32 {
        depth -= 1;
    }
    changed(state, depth);
    match state.frames.get_mut(depth as usize) {
        Some(frame) => *frame = Frame { pc: call_pc, sp, site },
        None => overflow(state),
    }
    state.depth = depth + 1;
}

/// The same under survey, where calls are counted.
pub extern "C" fn survey_enter(call_pc: u64, site: u32, sp: u64) {
    shadow::entered(site);
    enter(call_pc, site, sp);
}

/// The same in a hot function that is watched in bursts.
pub extern "C" fn hot_enter(_call_pc: u64, _site: u32, _sp: u64) {
    detect::bursts::tick();
}

/// `__tsan_func_exit` of an armed site.
pub extern "C" fn exit(_site: u32, _sp: u64) {
    let Some(state) = thread_state::current() else {
        return;
    };
    let depth = state.depth.saturating_sub(1);
    state.depth = depth;
    changed(state, depth);
}

#[inline(always)]
fn top(state: &ThreadState, depth: u32) -> Option<&Frame> {
    state.frames.get(depth as usize - 1)
}

/// The context changes at `depth`: later events must look.
#[inline(always)]
fn changed(state: &mut ThreadState, depth: u32) {
    if depth < state.low {
        state.low = depth;
    }
    if depth < state.marked {
        state.marked = depth;
    }
    state.quiet += state.budget;
    state.budget = 0;
}

#[cold]
fn overflow(state: &ThreadState) {
    if state.depth as usize == MAX_FRAMES {
        sink::count(Counter::ContextOverflow, 1);
    }
}

/// Puts the stack back to a depth it had: after a signal handler.
pub fn restore(state: &mut ThreadState, depth: u32) {
    state.depth = depth;
    changed(state, depth);
}
