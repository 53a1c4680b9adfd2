//! `syscall`: futexes (what Rust's std and parking_lot lock with), children made behind libc's back, and
//! seccomp filters.

use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::pack;

use super::Reg;
use crate::{lifecycle, real, sink, stream};

const SYS_CLONE: usize = 56;
const SYS_FORK: usize = 57;
const SYS_FUTEX: usize = 202;
const SYS_SECCOMP: usize = 317;
const SYS_CLONE3: usize = 435;

type Seven = extern "C" fn(Reg, Reg, Reg, Reg, Reg, Reg, Reg) -> Reg;

/// In front of `syscall`. The shim passes the seventh argument and the caller's address on the stack.
pub extern "C" fn syscall(number: Reg, a: Reg, b: Reg, c: Reg, d: Reg, e: Reg, f: Reg, pc: Reg) -> Reg {
    // SAFETY: I3: libc's `syscall`, which takes up to seven integers.
    let real: Seven = unsafe { core::mem::transmute(real::address(Slot::syscall)) };
    let go = || real(number, a, b, c, d, e, f);
    match number {
        SYS_FUTEX => futex(a, b, c, pc, go),
        SYS_FORK | SYS_CLONE | SYS_CLONE3 => {
            let result = go();
            if result == 0 {
                lifecycle::in_child();
            }
            result
        }
        SYS_SECCOMP => {
            sink::seal(a == 0);
            go()
        }
        _ => go(),
    }
}

fn futex(word: Reg, op: Reg, value: Reg, pc: Reg, go: impl FnOnce() -> Reg) -> Reg {
    let object = pack::object(word as u64, 0);
    match op & 0x7f {
        // WAIT, WAIT_BITSET, LOCK_PI, WAIT_REQUEUE_PI, LOCK_PI2
        0 | 9 | 6 | 11 | 13 => {
            stream::emit(EventKind::FutexWaitBegin, pc, [object, op as u64, 0]);
            stream::pend(Slot::syscall as u16, word as u64, pc);
            let result = go();
            stream::unpend();
            let failed = u16::from(result as isize == -1);
            stream::emit(EventKind::FutexWaitEnd, pc, [pack::object(word as u64, failed), 0, 0]);
            result
        }
        // WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET
        1 | 3 | 4 | 5 | 7 | 10 => {
            stream::emit(EventKind::FutexWake, pc, [object, value as u64, 0]);
            go()
        }
        _ => go(),
    }
}
