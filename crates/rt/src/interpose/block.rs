//! Functions that may block: noted before and after, by slot number. Under control they do not block: sleeps take no
//! time, input and output waits in the gate until it is ready, and what is left is called without the baton.

use selvedge_events::event::EventKind;
use selvedge_events::interpose::{INTERPOSED, Slot};
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::{Reg, clock};
use crate::gate::io::{self, Wanted};
use crate::gate::{self, Arrival, Woken, model, time};
use crate::stream;

const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;
const NOW: [u64; 2] = [0; 2];

/// The argument registers that the shim has saved, and its result.
#[derive(Debug)]
#[repr(C)]
pub struct Saved {
    slot: Reg,
    sixth: Reg,
    fifth: Reg,
    fourth: Reg,
    third: Reg,
    second: Reg,
    first: Reg,
    result: Reg,
}

/// What the shim does next.
const CALL: u32 = 0;
const SKIP: u32 = 1;

/// Called by the shim before the real function, whose arguments may be changed. Non-zero: the function is not
/// called, its result is there.
pub extern "C" fn begin(index: u32, pc: Reg, saved: *mut Saved) -> u32 {
    // SAFETY: the shim's own frame, which outlives this call.
    let saved = unsafe { &mut *saved };
    let verdict = if gate::is_on() { controlled(index, pc, saved) } else { CALL };
    stream::emit(EventKind::BlockBegin, pc, [pack::object(saved.first as u64, index as u16), 0, 0]);
    stream::pend(index as u16, saved.first as u64, pc);
    if verdict == LEAVE {
        if let Some(visit) = gate::visit() {
            visit.arrive(Arrival::call(OpKind::Io, 0, index as u16, pc));
            visit.leave();
        }
        return CALL;
    }
    verdict
}

/// To be called without the baton.
const LEAVE: u32 = 2;

/// Called by the shim after the real function.
pub extern "C" fn end(index: u32, pc: Reg) {
    if gate::is_on() {
        gate::enter();
        io::changed();
    }
    stream::unpend();
    stream::emit(EventKind::BlockEnd, pc, [pack::object(0, index as u16), 0, 0]);
}

fn is(index: u32, slots: &[Slot]) -> bool {
    slots.iter().any(|slot| *slot as u32 == index)
}

fn controlled(index: u32, pc: Reg, saved: &mut Saved) -> u32 {
    use Slot as S;
    let sleeps = |deadline| {
        let slept = model::sleep(Arrival::call(OpKind::Sleep, 0, index as u16, pc), deadline);
        if slept { SKIP } else { CALL }
    };
    let verdict = if is(index, &[S::nanosleep, S::thrd_sleep]) {
        sleeps(time::after(clock::timespec(saved.first)))
    } else if is(index, &[S::usleep]) {
        sleeps(time::after((saved.first as u32 as u64).saturating_mul(1000)))
    } else if is(index, &[S::sleep]) {
        sleeps(time::after((saved.first as u32 as u64).saturating_mul(1_000_000_000)))
    } else if is(index, &[S::clock_nanosleep]) {
        const ABSOLUTE: usize = 1;
        match saved.second & ABSOLUTE {
            0 => sleeps(time::after(clock::timespec(saved.third))),
            _ => sleeps(clock::deadline(saved.first, saved.third)),
        }
    } else {
        return input_output(index, pc, saved);
    };
    if verdict == SKIP {
        saved.result = 0;
    }
    verdict
}

fn input_output(index: u32, pc: Reg, saved: &mut Saved) -> u32 {
    use Slot as S;
    let reads = [S::read, S::readv, S::recv, S::recvfrom, S::recvmsg, S::recvmmsg, S::accept, S::accept4];
    let writes = [S::write, S::writev, S::send, S::sendto, S::sendmsg, S::sendmmsg];
    let millis = |timeout: Reg| match timeout as i32 {
        ..0 => u64::MAX,
        timeout => time::after(u64::from(timeout as u32) * 1_000_000),
    };
    let nanos = |at: Reg| if at == 0 { u64::MAX } else { time::after(clock::timespec(at)) };
    let (wanted, deadline) = if is(index, &reads) {
        (Wanted::One { fd: saved.first as i32, events: POLLIN }, u64::MAX)
    } else if is(index, &writes) {
        (Wanted::One { fd: saved.first as i32, events: POLLOUT }, u64::MAX)
    } else if is(index, &[S::poll]) {
        let deadline = millis(core::mem::replace(&mut saved.third, 0));
        (Wanted::Many { at: saved.first, count: saved.second }, deadline)
    } else if is(index, &[S::ppoll]) {
        let deadline = nanos(core::mem::replace(&mut saved.third, NOW.as_ptr() as Reg));
        (Wanted::Many { at: saved.first, count: saved.second }, deadline)
    } else if is(index, &[S::epoll_wait, S::epoll_pwait]) {
        let deadline = millis(core::mem::replace(&mut saved.fourth, 0));
        (Wanted::One { fd: saved.first as i32, events: POLLIN }, deadline)
    } else if is(index, &[S::pread, S::pread64, S::pwrite, S::pwrite64, S::preadv, S::pwritev, S::fsync, S::fdatasync])
    {
        // Files: they keep nobody waiting for long.
        gate::point(Arrival::call(OpKind::Io, saved.first, index as u16, pc));
        return CALL;
    } else if INTERPOSED.get(index as usize).is_some() {
        return LEAVE;
    } else {
        return CALL;
    };
    let Some(visit) = gate::visit() else { return CALL };
    let channel = match wanted {
        Wanted::One { fd, .. } => fd as u32 as usize + 1,
        Wanted::Many { .. } => 0,
    };
    visit.arrive(Arrival::call(OpKind::Io, channel, index as u16, pc));
    if is_empty_wait(&wanted) {
        return CALL;
    }
    match visit.wait_for(wanted, deadline) {
        Woken::Up | Woken::TimedOut | Woken::Cancelled => CALL,
    }
}

/// A `poll` without descriptors is a sleep; the deadline has it end.
fn is_empty_wait(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::One { fd, .. } if *fd < 0)
}
