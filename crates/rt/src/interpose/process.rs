//! Forks, and functions that are noted and then jumped to: exec, exit, signals sent, images loaded, and what
//! forbids us further system calls.

#![expect(non_snake_case, reason = "a C name")]

use selvedge_events::counters::Counter;
use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::{Reg, wrappers};
use crate::gate::{self, Arrival};
use crate::{lifecycle, real, sink, stream};

/// Called by the Note shims before they jump to the real function.
pub extern "C" fn note(index: u32, pc: Reg, first: Reg, second: Reg) {
    const PR_SET_SECCOMP: usize = 22;
    const PR_SET_TSC: usize = 26;
    const SECCOMP_MODE_STRICT: usize = 1;
    const PR_TSC_SIGSEGV: usize = 2;
    let slot = index as usize;
    if gate::is_on() {
        if slot == Slot::sched_yield as usize || slot == Slot::thrd_yield as usize {
            gate::point(Arrival::call(OpKind::Yield, 0, index as u16, pc));
        } else if slot == Slot::pthread_cancel as usize {
            gate::point(Arrival::call(OpKind::Wake, first, index as u16, pc));
            super::thread::cancelled(first);
        }
    }
    stream::emit(EventKind::Note, pc, [pack::object(first as u64, index as u16), 0, 0]);
    if slot == Slot::_exit as usize || slot == Slot::_Exit as usize || slot == Slot::quick_exit as usize {
        sink::clean_exit();
    } else if slot == Slot::prctl as usize && first == PR_SET_SECCOMP {
        gate::withdraw();
        // Strict mode forbids reading the counter too.
        sink::seal(second == SECCOMP_MODE_STRICT);
    } else if slot == Slot::prctl as usize && first == PR_SET_TSC && second == PR_TSC_SIGSEGV {
        sink::seal(true);
    }
}

fn forked(slot: Slot, pc: Reg) -> Reg {
    gate::forked();
    let result = real::call(slot, 0, 0, 0, 0, 0);
    match result as i32 {
        // The fork handler did this already, except for `_Fork`, which runs none.
        0 => lifecycle::in_child(),
        -1 => {}
        child => {
            sink::count(Counter::Forks, 1);
            stream::emit(EventKind::Fork, pc, [child as u64, 0, 0]);
        }
    }
    result
}

wrappers! {
    fork(; pc) => forked(SLOT, pc);
    _Fork(; pc) => forked(SLOT, pc);
}
