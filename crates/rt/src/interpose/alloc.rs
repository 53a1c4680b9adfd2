//! The malloc family and `operator new`: wrapped, never replaced. Whoever really allocates (libc,
//! jemalloc, the program itself) goes on doing so.

#![expect(non_snake_case, reason = "C++ names its operators so")]

use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::pack;
use selvedge_events::plan::Observe;

use super::{Reg, wrappers};
use crate::{detect, graph, guard, real, shadow, sink, stream, thread_state};

unsafe extern "C" {
    fn malloc_usable_size(block: usize) -> usize;
}

/// A block's life begins. `operator new` left the place that really asked.
fn born(block: Reg, size: Reg, pc: Reg) -> Reg {
    if block != 0 {
        let pc = match thread_state::current() {
            Some(state) if state.alloc_pc != 0 => core::mem::replace(&mut state.alloc_pc, 0),
            _ => pc,
        };
        if detect::is_on() {
            detect::who::born(block as u64, size as u64, pc as u64);
        }
        stream::emit(EventKind::Alloc, pc, [pack::object(block as u64, 0), size as u64, 0]);
    }
    block
}

/// A block's life ends.
fn dies(block: Reg, pc: Reg) {
    if block == 0 {
        return;
    }
    let pc = match thread_state::current() {
        Some(state) if state.alloc_pc != 0 => core::mem::replace(&mut state.alloc_pc, 0),
        _ => pc,
    };
    if sink::observe() == Observe::Survey {
        // SAFETY: I9: a block that the guest is about to free.
        shadow::forget(block as u64, unsafe { malloc_usable_size(block) } as u64);
    }
    if sink::observe() == Observe::Graph {
        // SAFETY: I9: as above.
        graph::forget(block as u64, unsafe { malloc_usable_size(block) } as u64);
    }
    if guard::is_on() {
        // SAFETY: I9: as above.
        guard::forget(block as u64, unsafe { malloc_usable_size(block) } as u64);
    }
    if detect::is_on() {
        // SAFETY: I9: as above.
        detect::sections::freed(block as u64, unsafe { malloc_usable_size(block) } as u64);
        detect::who::dies(block as u64);
    }
    stream::emit(EventKind::Free, pc, [pack::object(block as u64, 0), 0, 0]);
}

/// Calls `operator new` or `delete`; the `malloc` or `free` inside takes `pc` for its caller.
fn on_behalf(slot: Slot, a: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    // One operator may call another: the outermost caller is the one that asked.
    let outermost = thread_state::current_or_adopt().is_some_and(|state| {
        let outermost = state.alloc_pc == 0;
        if outermost {
            state.alloc_pc = pc;
        }
        outermost
    });
    let result = real::call(slot, a, b, c, 0, 0);
    if outermost && let Some(state) = thread_state::current() {
        state.alloc_pc = 0;
    }
    result
}

wrappers! {
    malloc(size; pc) => born(real::call(SLOT, size, 0, 0, 0, 0), size, pc);
    calloc(count, size; pc) => born(real::call(SLOT, count, size, 0, 0, 0), count.wrapping_mul(size), pc);
    realloc(block, size; pc) => {
        dies(block, pc);
        let moved = real::call(SLOT, block, size, 0, 0, 0);
        // Where it failed, the old block lives on.
        if moved == 0 && size != 0 { born(block, 0, pc); moved } else { born(moved, size, pc) }
    };
    reallocarray(block, count, size; pc) => {
        dies(block, pc);
        let moved = real::call(SLOT, block, count, size, 0, 0);
        if moved == 0 && count != 0 && size != 0 { born(block, 0, pc); moved } else { born(moved, count.wrapping_mul(size), pc) }
    };
    free(block; pc) => { dies(block, pc); real::call(SLOT, block, 0, 0, 0, 0) };
    memalign(align, size; pc) => born(real::call(SLOT, align, size, 0, 0, 0), size, pc);
    aligned_alloc(align, size; pc) => born(real::call(SLOT, align, size, 0, 0, 0), size, pc);
    valloc(size; pc) => born(real::call(SLOT, size, 0, 0, 0, 0), size, pc);
    pvalloc(size; pc) => born(real::call(SLOT, size, 0, 0, 0, 0), size, pc);
    posix_memalign(into, align, size; pc) => {
        let result = real::call(SLOT, into, align, size, 0, 0);
        if result as u32 == 0 {
            // SAFETY: I9: the guest's variable, which the real function filled.
            born(unsafe { (into as *const usize).read() }, size, pc);
        }
        result
    };

    _Znwm(size; pc) => on_behalf(SLOT, size, 0, 0, pc);
    _Znam(size; pc) => on_behalf(SLOT, size, 0, 0, pc);
    _ZnwmRKSt9nothrow_t(size, tag; pc) => on_behalf(SLOT, size, tag, 0, pc);
    _ZnamRKSt9nothrow_t(size, tag; pc) => on_behalf(SLOT, size, tag, 0, pc);
    _ZnwmSt11align_val_t(size, align; pc) => on_behalf(SLOT, size, align, 0, pc);
    _ZnamSt11align_val_t(size, align; pc) => on_behalf(SLOT, size, align, 0, pc);
    _ZnwmSt11align_val_tRKSt9nothrow_t(size, align, tag; pc) => on_behalf(SLOT, size, align, tag, pc);
    _ZnamSt11align_val_tRKSt9nothrow_t(size, align, tag; pc) => on_behalf(SLOT, size, align, tag, pc);
    _ZdlPv(block; pc) => on_behalf(SLOT, block, 0, 0, pc);
    _ZdaPv(block; pc) => on_behalf(SLOT, block, 0, 0, pc);
    _ZdlPvm(block, size; pc) => on_behalf(SLOT, block, size, 0, pc);
    _ZdaPvm(block, size; pc) => on_behalf(SLOT, block, size, 0, pc);
    _ZdlPvSt11align_val_t(block, align; pc) => on_behalf(SLOT, block, align, 0, pc);
    _ZdaPvSt11align_val_t(block, align; pc) => on_behalf(SLOT, block, align, 0, pc);
    _ZdlPvmSt11align_val_t(block, size, align; pc) => on_behalf(SLOT, block, size, align, pc);
    _ZdaPvmSt11align_val_t(block, size, align; pc) => on_behalf(SLOT, block, size, align, pc);
}
