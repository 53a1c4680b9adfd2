//! `syscall`: futexes (what Rust's std and parking_lot lock with), children made behind libc's back, and
//! seccomp filters.

use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::Reg;
use super::clock::{self, random};
use crate::gate::{self, Arrival, model, time};
use crate::{guard, lifecycle, real, sink, stream, sys};

const SYS_CLONE: usize = 56;
const SYS_FORK: usize = 57;
const SYS_FUTEX: usize = 202;
const SYS_SECCOMP: usize = 317;
const SYS_GETRANDOM: usize = 318;
const SYS_CLONE3: usize = 435;
const CLONE_VM: usize = 0x100;

type Seven = extern "C" fn(Reg, Reg, Reg, Reg, Reg, Reg, Reg) -> Reg;

/// In front of `syscall`. The shim passes the seventh argument and the caller's address on the stack.
pub extern "C" fn syscall(number: Reg, a: Reg, b: Reg, c: Reg, d: Reg, e: Reg, f: Reg, pc: Reg) -> Reg {
    // SAFETY: I3: libc's `syscall`, which takes up to seven integers.
    let real: Seven = unsafe { core::mem::transmute(real::address(Slot::syscall)) };
    let go = || real(number, a, b, c, d, e, f);
    match number {
        SYS_FUTEX => futex([a, b, c, d, e, f], pc, go),
        SYS_GETRANDOM if random(a, b) => b,
        SYS_FORK | SYS_CLONE | SYS_CLONE3 => {
            // SAFETY: I9: the guest's own arguments, whose first word are the flags.
            let flags = if number == SYS_CLONE3 { unsafe { (a as *const usize).read() } } else { a };
            let own_memory = number == SYS_FORK || flags & CLONE_VM == 0;
            gate::forked();
            let result = go();
            // A child on our memory must leave it as it is.
            if result == 0 && own_memory {
                lifecycle::in_child();
            }
            result
        }
        SYS_SECCOMP => {
            gate::withdraw();
            sink::seal(a == 0);
            go()
        }
        _ => go(),
    }
}

/// A futex call in the gate. `None`: not under control, or of a kind that is not modelled.
fn controlled([word, op, value, four, five, six]: [Reg; 6], pc: Reg, go: &dyn Fn() -> Reg) -> Option<Reg> {
    const CLOCK_REALTIME: usize = 256;
    if !gate::is_on() {
        return None;
    }
    let slot = Slot::syscall as u16;
    let fails = |error: i32| {
        sys::set_errno(error);
        -1_isize as Reg
    };
    const PRIVATE: usize = 128;
    if matches!(op & 0x7f, 0 | 9) && super::wait::is_shared_abroad(op & PRIVATE == 0) {
        return Some(model::outside(Arrival::call(OpKind::Wait, word, slot, pc), go));
    }
    let all = |word: Reg| model::wake_some(word as u64, u64::MAX, u32::MAX);
    Some(match op & 0x7f {
        // WAIT has a time from now, WAIT_BITSET one of a clock.
        0 | 9 => {
            let deadline = match (four, op & 0x7f) {
                (0, _) => u64::MAX,
                (four, _) if !clock::is_duration(four) => return None,
                (four, 0) => time::after(clock::timespec(four)),
                (four, _) => clock::deadline(usize::from(op & CLOCK_REALTIME == 0), four),
            };
            let bits = if op & 0x7f == 9 { six as u32 } else { u32::MAX };
            let arrival = Arrival::call(OpKind::Wait, word, slot, pc);
            match model::futex_wait(arrival, value as u32, bits, deadline)? {
                Ok(()) => 0,
                Err(error) => fails(error),
            }
        }
        // WAKE, WAKE_BITSET
        1 | 10 => {
            gate::point(Arrival::call(OpKind::Wake, word, slot, pc));
            let bits = if op & 0x7f == 10 { six as u32 } else { u32::MAX };
            let woken = model::wake_some(word as u64, value as u32 as u64, bits);
            // Then whoever waits without us.
            woken as Reg + go()
        }
        // REQUEUE, CMP_REQUEUE
        3 | 4 => {
            gate::point(Arrival::call(OpKind::Wake, word, slot, pc));
            // SAFETY: I9: the guest's own futex word.
            if op & 0x7f == 4 && unsafe { (word as *const u32).read_volatile() } != six as u32 {
                return Some(fails(model::errno::EAGAIN));
            }
            stream::emit(EventKind::FutexWake, pc, [pack::object(word as u64, 0), value as u64, 0]);
            let woken = model::wake_some(word as u64, value as u32 as u64, u32::MAX);
            (woken + model::move_waiters(word as u64, five as u64, four as u32 as u64)) as Reg
        }
        // WAKE_OP: done by the kernel; all who wait look again, as every wait on a futex must.
        5 => {
            gate::point(Arrival::call(OpKind::Wake, word, slot, pc));
            let result = go();
            all(word);
            all(five);
            result
        }
        // Those with priority inheritance are the kernel's.
        _ => model::outside(Arrival::call(OpKind::Wait, word, slot, pc), go),
    })
}

fn futex(args: [Reg; 6], pc: Reg, go: impl Fn() -> Reg) -> Reg {
    let [word, op, value, ..] = args;
    let object = pack::object(word as u64, 0);
    match op & 0x7f {
        // WAIT, WAIT_BITSET, LOCK_PI, WAIT_REQUEUE_PI, LOCK_PI2
        0 | 9 | 6 | 11 | 13 => {
            stream::emit_at_point(EventKind::FutexWaitBegin, pc, [object, op as u64, 0]);
            stream::pend(Slot::syscall as u16, word as u64, pc);
            let result = controlled(args, pc, &go).unwrap_or_else(&go);
            stream::catch_up();
            stream::unpend();
            let failed = u16::from(result as isize == -1);
            stream::emit(EventKind::FutexWaitEnd, pc, [pack::object(word as u64, failed), 0, 0]);
            let error = sys::errno();
            guard::awoken(word as u64);
            sys::set_errno(error);
            result
        }
        // WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET
        1 | 3 | 4 | 5 | 7 | 10 => {
            // The wake-up is noted before it takes effect, and after others had their chance to go first.
            let noted = || {
                stream::emit(EventKind::FutexWake, pc, [object, value as u64, 0]);
                go()
            };
            controlled(args, pc, &noted).unwrap_or_else(noted)
        }
        _ => go(),
    }
}
