//! Functions that may block: noted before and after, by slot number. Under control they do not block: sleeps take no
//! time, input and output waits in the gate until it is ready, and what is left is called without the baton.

use core::sync::atomic::AtomicU64;

use selvedge_events::event::EventKind;
use selvedge_events::interpose::{INTERPOSED, Slot};
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::wait::cancellation_point;
use super::{Reg, clock};
use crate::gate::io::{self, Wanted};
use crate::gate::model::{self, errno};
use crate::gate::{self, Arrival, Woken, time};
use crate::{sink, stream, sys};

const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;

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
pub extern "C" fn begin(index: u32, pc: Reg, saved: &mut Saved) -> u32 {
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

/// A function's failure, told by -1 and `errno`; it is not called.
fn fails(saved: &mut Saved, error: i32) -> u32 {
    sys::set_errno(error);
    saved.result = -1_isize as Reg;
    SKIP
}

fn controlled(index: u32, pc: Reg, saved: &mut Saved) -> u32 {
    use Slot as S;
    const ABSOLUTE: usize = 1;
    const MILLI: u64 = 1_000_000;
    let whole = |count: Reg, unit: u64| time::after((count as u32 as u64).saturating_mul(unit));
    // The deadline, where what is left is written to, and how an interrupted sleep says so.
    let (deadline, rest, interrupted): (_, _, fn(&mut Saved, u64) -> u32) =
        if is(index, &[S::nanosleep]) && clock::is_duration(saved.first) {
            (time::after(clock::timespec(saved.first)), saved.second, |saved, _| fails(saved, errno::EINTR))
        } else if is(index, &[S::thrd_sleep]) && clock::is_duration(saved.first) {
            (time::after(clock::timespec(saved.first)), saved.second, |saved, _| {
                saved.result = -1_isize as Reg;
                SKIP
            })
        } else if is(index, &[S::usleep]) {
            (whole(saved.first, 1000), 0, |saved, _| fails(saved, errno::EINTR))
        } else if is(index, &[S::sleep]) {
            (whole(saved.first, 1000 * MILLI), 0, |saved, left| {
                saved.result = left.div_ceil(1000 * MILLI) as Reg;
                SKIP
            })
        } else if is(index, &[S::clock_nanosleep]) && clock::is_duration(saved.third) && saved.first <= 1 {
            let absolute = saved.second & ABSOLUTE != 0;
            let deadline = match absolute {
                true => clock::deadline(saved.first, saved.third),
                false => time::after(clock::timespec(saved.third)),
            };
            (deadline, if absolute { 0 } else { saved.fourth }, |saved, _| {
                saved.result = errno::EINTR as Reg;
                SKIP
            })
        } else if is(index, &[S::poll]) && saved.second == 0 && saved.third as i32 >= 0 {
            (whole(saved.third, MILLI), 0, |saved, _| fails(saved, errno::EINTR))
        } else if is(index, &[S::select]) && saved.first == 0 && saved.fifth != 0 {
            // SAFETY: I9: the guest's own `struct timeval`.
            let time = unsafe { (saved.fifth as *const [i64; 2]).read_unaligned() };
            (time::after(clock::micros(time)), 0, |saved, _| fails(saved, errno::EINTR))
        } else {
            return input_output(index, pc, saved);
        };
    cancellation_point();
    match model::sleep(Arrival::call(OpKind::Sleep, 0, index as u16, pc), deadline) {
        None => CALL,
        Some(Ok(())) => {
            cancellation_point();
            saved.result = 0;
            SKIP
        }
        Some(Err(left)) => {
            cancellation_point();
            clock::put_timespec(rest, left);
            interrupted(saved, left)
        }
    }
}

/// What a call waits for, and how.
struct Wait {
    wanted: Wanted,
    deadline: u64,
    /// Whether it goes on after a handler with `SA_RESTART`.
    restartable: bool,
    /// The error of a time-out, where the call itself does not tell.
    timeout: Option<i32>,
}

/// How much a pipe takes at once.
const PIPE_BUF: usize = 4096;
/// `struct pollfd`s for a `select`.
const SELECTED: usize = 64;

fn input_output(index: u32, pc: Reg, saved: &mut Saved) -> u32 {
    use Slot as S;
    if sink::is_sealed() {
        // Looking at descriptors may be forbidden.
        return LEAVE;
    }
    let reads = [S::read, S::readv, S::recv, S::recvfrom, S::recvmsg, S::recvmmsg, S::accept, S::accept4];
    let writes = [S::write, S::writev, S::send, S::sendto, S::sendmsg, S::sendmmsg];
    let files = [S::pread, S::pread64, S::pwrite, S::pwrite64, S::preadv, S::pwritev, S::fsync, S::fdatasync];
    let millis = |timeout: Reg| match timeout as i32 {
        ..0 => u64::MAX,
        timeout => time::after(u64::from(timeout as u32) * 1_000_000),
    };
    let nanos = |at: Reg| if at == 0 { u64::MAX } else { time::after(clock::timespec(at)) };
    let arrival = |channel: usize| Arrival::call(OpKind::Io, channel, index as u16, pc);
    let many = |wanted, deadline| Wait { wanted, deadline, restartable: false, timeout: None };
    let mut selected = [0_u64; SELECTED];
    let wait = if is(index, &reads) || is(index, &writes) {
        let fd = saved.first as i32;
        let input = is(index, &reads);
        if fd < 0 || dont_wait(index, saved) || sys::is_nonblocking(fd) {
            gate::point(arrival(fd as u32 as usize + 1));
            return CALL;
        }
        if !input && is(index, &[S::write, S::send, S::sendto]) && saved.third > PIPE_BUF && sys::is_stream(fd) {
            return LEAVE;
        }
        const RECEIVE: usize = 20;
        const SEND: usize = 21;
        let events = if input { POLLIN } else { POLLOUT };
        let patience = match io::is_one_ready(fd, events) {
            true => None,
            false => sys::socket_patience(fd, if input { RECEIVE } else { SEND }),
        };
        Wait {
            wanted: Wanted::One { fd, events },
            deadline: patience.map_or(u64::MAX, time::after),
            restartable: patience.is_none(),
            timeout: Some(errno::EAGAIN),
        }
    } else if is(index, &[S::poll]) && saved.second > 0 {
        let deadline = millis(saved.third);
        many(Wanted::Many { at: saved.first, count: saved.second }, deadline)
    } else if is(index, &[S::ppoll]) && saved.second > 0 && saved.fourth == 0 {
        many(Wanted::Many { at: saved.first, count: saved.second }, nanos(saved.third))
    } else if is(index, &[S::epoll_wait, S::epoll_pwait]) && (is(index, &[S::epoll_wait]) || saved.fifth == 0) {
        many(Wanted::One { fd: saved.first as i32, events: POLLIN }, millis(saved.fourth))
    } else if is(index, &[S::select])
        && let Some(count) = selection(saved, &mut selected)
    {
        let deadline = match saved.fifth {
            0 => u64::MAX,
            // SAFETY: I9: the guest's own `struct timeval`.
            at => time::after(clock::micros(unsafe { (at as *const [i64; 2]).read_unaligned() })),
        };
        many(Wanted::Many { at: selected.as_ptr() as usize, count }, deadline)
    } else if is(index, &files) {
        // They keep nobody waiting for long.
        gate::point(arrival(saved.first));
        return CALL;
    } else if INTERPOSED.get(index as usize).is_some() {
        return LEAVE;
    } else {
        return CALL;
    };
    let channel = match wait.wanted {
        Wanted::One { fd, .. } => fd as u32 as usize + 1,
        Wanted::Many { .. } => 0,
    };
    loop {
        let woken = {
            let Some(visit) = gate::visit() else { return CALL };
            visit.arrive(arrival(channel));
            visit.wait_for(wait.wanted, wait.deadline, wait.restartable)
        };
        match woken {
            Woken::Interrupted => return fails(saved, errno::EINTR),
            // If it may be cancelled here, it does not come back.
            Woken::Cancelled => cancellation_point(),
            Woken::TimedOut if let Some(error) = wait.timeout => return fails(saved, error),
            _ => break,
        }
    }
    // The waiting is over: the real function only looks.
    static NOW: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let now = NOW.as_ptr() as Reg;
    if is(index, &[S::poll]) {
        saved.third = 0;
    } else if is(index, &[S::ppoll]) {
        saved.third = now;
    } else if is(index, &[S::epoll_wait, S::epoll_pwait]) {
        saved.fourth = 0;
    } else if is(index, &[S::select]) {
        saved.fifth = now;
    }
    CALL
}

/// Whether the call itself says that it is not to wait.
fn dont_wait(index: u32, saved: &Saved) -> bool {
    use Slot as S;
    const MSG_DONTWAIT: usize = 0x40;
    let flags = if is(index, &[S::recv, S::recvfrom, S::recvmmsg, S::send, S::sendto, S::sendmmsg]) {
        saved.fourth
    } else if is(index, &[S::recvmsg, S::sendmsg]) {
        saved.third
    } else {
        0
    };
    flags & MSG_DONTWAIT != 0
}

/// The descriptors of a `select` as `struct pollfd`s; `None` where there are too many, or none.
fn selection(saved: &Saved, into: &mut [u64; SELECTED]) -> Option<usize> {
    const POLLPRI: u16 = 2;
    let mut count = 0;
    let sets = [(saved.second, POLLIN), (saved.third, POLLOUT), (saved.fourth, POLLPRI)];
    for fd in 0..(saved.first as u32 as usize).min(1024) {
        let wants = |at: Reg| {
            // SAFETY: I9: the guest's own `fd_set`, which has a bit for each descriptor below the first argument.
            at != 0 && unsafe { ((at + fd / 8) as *const u8).read() } >> (fd % 8) & 1 != 0
        };
        let events = sets.iter().filter(|(at, _)| wants(*at)).fold(0, |sum, (_, events)| sum | events);
        if events != 0 {
            *into.get_mut(count)? = fd as u64 | u64::from(events) << 32;
            count += 1;
        }
    }
    (count > 0).then_some(count)
}
