//! Condition variables, barriers and semaphores.

use selvedge_events::event::{EventKind, Primitive};
use selvedge_events::interpose::Slot;
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::lock::destroy;
use super::{Reg, clock, wrappers};
use crate::gate::model::{self, errno};
use crate::gate::{self, Arrival, Woken};
use crate::{real, stream, sys};

/// Waits; the mutex is released before and held again after. A thread that is cancelled here has no
/// end event; its clean-up handlers run with the mutex held, as without us.
fn wait(slot: Slot, cond: Reg, mutex: Reg, c: Reg, d: Reg, pc: Reg) -> Reg {
    stream::emit_at_point(EventKind::WaitBegin, pc, [pack::object(cond as u64, 0), mutex as u64, 0]);
    stream::pend(slot as u16, cond as u64, pc);
    let result = controlled_wait(slot, cond, mutex, c, d, pc).unwrap_or_else(|| real::call(slot, cond, mutex, c, d, 0));
    crate::guard::section::interrupted();
    stream::catch_up();
    stream::unpend();
    stream::emit(EventKind::WaitEnd, pc, [pack::object(cond as u64, result as u16), mutex as u64, 0]);
    result
}

unsafe extern "C" {
    fn pthread_testcancel();
}

/// Where a thread may be cancelled: if it was asked to end, it does, past our frames.
pub(super) fn cancellation_point() {
    // SAFETY: nothing of ours is held, and the frames in between have nothing to clean up.
    unsafe { pthread_testcancel() };
}

/// Whether another process may be at the other end: an object for several, and relatives.
pub(super) fn is_shared_abroad(says_so: bool) -> bool {
    says_so && (sys::has_children() || gate::has_forked())
}

/// Where glibc says that a condition is for several processes.
fn is_shared_condition(cond: Reg) -> bool {
    const REFS: usize = 36;
    // SAFETY: I9: the guest's own condition.
    is_shared_abroad(unsafe { ((cond + REFS) as *const u32).read_volatile() } & 1 != 0)
}

/// Waits in the gate. `None`: not under control.
fn controlled_wait(slot: Slot, cond: Reg, mutex: Reg, c: Reg, d: Reg, pc: Reg) -> Option<Reg> {
    if !gate::is_on() {
        return None;
    }
    let c11 = matches!(slot, Slot::cnd_wait | Slot::cnd_timedwait);
    let until = match slot {
        Slot::pthread_cond_timedwait | Slot::cnd_timedwait => c,
        Slot::pthread_cond_clockwait => d,
        _ => 0,
    };
    let arrival = Arrival::call(OpKind::Wait, cond, slot as u16, pc);
    if !clock::is_valid(until) || slot == Slot::pthread_cond_clockwait && c > 1 {
        gate::point(arrival);
        return None;
    }
    cancellation_point();
    if !c11 && is_shared_condition(cond) {
        return Some(model::wait_outside(arrival, mutex as u64, || real::call(slot, cond, mutex, c, d, 0)));
    }
    let deadline = match slot {
        Slot::pthread_cond_timedwait => clock::of_condition(cond, c),
        Slot::pthread_cond_clockwait => clock::deadline(c, d),
        Slot::cnd_timedwait => clock::deadline(0, c),
        _ => u64::MAX,
    };
    let (unlock, relock) = match c11 {
        true => (Slot::mtx_unlock, Slot::mtx_trylock),
        false => (Slot::pthread_mutex_unlock, Slot::pthread_mutex_trylock),
    };
    let unlock = || real::call(unlock, mutex, 0, 0, 0, 0) as i32;
    let relock = || {
        let result = real::call(relock, mutex, 0, 0, 0, 0) as i32;
        if c11 && result == 1 { errno::EBUSY } else { result }
    };
    let result = match model::wait(arrival, mutex as u64, deadline, unlock, relock)? {
        Ok(result) => result,
        Err(Woken::TimedOut) if c11 => 4,
        Err(Woken::TimedOut) => errno::ETIMEDOUT,
        Err(_) => {
            cancellation_point();
            0
        }
    };
    Some(result as Reg)
}

fn wake(slot: Slot, kind: EventKind, object: Reg, pc: Reg) -> Reg {
    if gate::is_on() {
        let arrival = Arrival::call(OpKind::Wake, object, slot as u16, pc);
        if kind == EventKind::SemPost {
            let post = || {
                stream::emit(kind, pc, [pack::object(object as u64, 0), 0, 0]);
                real::call(slot, object, 0, 0, 0, 0)
            };
            if let Some(result) = model::release(arrival, post) {
                return result;
            }
        } else {
            // Then also the real one, for whoever waits without us.
            let most = if kind == EventKind::Signal { 1 } else { u64::MAX };
            if model::signal(arrival, most).is_none() {
                model::wake_some(object as u64, most, u32::MAX);
            }
        }
    }
    stream::emit(kind, pc, [pack::object(object as u64, 0), 0, 0]);
    let result = real::call(slot, object, 0, 0, 0, 0);
    if kind == EventKind::SemPost && gate::is_on() {
        model::wake_all(object as u64);
    }
    result
}

/// Takes a semaphore in the gate. `None`: not under control.
fn controlled_down(slot: Slot, sem: Reg, b: Reg, c: Reg, pc: Reg) -> Option<Reg> {
    if !gate::is_on() {
        return None;
    }
    let arrival = Arrival::call(OpKind::Wait, sem, slot as u16, pc);
    let before = sys::errno();
    let attempt = || real::call(Slot::sem_trywait, sem, 0, 0, 0, 0) as i32;
    let deadline = match slot {
        Slot::sem_trywait => {
            gate::point(arrival);
            return Some(attempt() as Reg);
        }
        Slot::sem_timedwait => clock::deadline(0, b),
        Slot::sem_clockwait => clock::deadline(b, c),
        _ => u64::MAX,
    };
    if !clock::is_valid(if slot == Slot::sem_clockwait {
        c
    } else if slot == Slot::sem_timedwait {
        b
    } else {
        0
    }) {
        gate::point(arrival);
        return None;
    }
    let tried = || match attempt() {
        0 => Some(0),
        _ if sys::errno() == errno::EAGAIN => None,
        other => Some(other),
    };
    loop {
        cancellation_point();
        if is_shared_semaphore(sem) && value(sem) == 0 {
            return Some(model::outside(arrival, || real::call(slot, sem, b, c, 0, 0)));
        }
        let error = match model::acquire(arrival, deadline, true, tried)? {
            Ok(0) => {
                if value(sem) == 0 {
                    model::exhausted(sem as u64);
                }
                sys::set_errno(before);
                return Some(0);
            }
            Ok(other) => return Some(other as Reg),
            Err(Woken::TimedOut) => errno::ETIMEDOUT,
            Err(Woken::Interrupted) => errno::EINTR,
            // Asked to end; the next round does so, if it may.
            Err(_) => continue,
        };
        sys::set_errno(error);
        return Some(-1_i32 as u32 as Reg);
    }
}

/// Where glibc keeps a semaphore's value.
fn value(sem: Reg) -> u32 {
    // SAFETY: I9: the guest's own semaphore.
    unsafe { (sem as *const u32).read_volatile() }
}

/// Where it says that a semaphore is for several processes.
fn is_shared_semaphore(sem: Reg) -> bool {
    const PRIVATE: usize = 8;
    // SAFETY: I9: as above.
    is_shared_abroad(unsafe { ((sem + PRIVATE) as *const u32).read_volatile() } != 0)
}

/// Takes a semaphore. Failures are told by -1; the reason is in `errno`, which we leave alone.
fn down(slot: Slot, sem: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, sem as u64, pc);
    let result = controlled_down(slot, sem, b, c, pc).unwrap_or_else(|| real::call(slot, sem, b, c, 0, 0));
    stream::unpend();
    stream::emit(EventKind::SemWait, pc, [pack::object(sem as u64, u16::from(result as u32 != 0)), 0, 0]);
    result
}

wrappers! {
    pthread_cond_wait(cond, mutex; pc) => wait(SLOT, cond, mutex, 0, 0, pc);
    pthread_cond_timedwait(cond, mutex, until; pc) => wait(SLOT, cond, mutex, until, 0, pc);
    pthread_cond_clockwait(cond, mutex, clock, until; pc) => wait(SLOT, cond, mutex, clock, until, pc);
    pthread_cond_signal(cond; pc) => wake(SLOT, EventKind::Signal, cond, pc);
    pthread_cond_broadcast(cond; pc) => wake(SLOT, EventKind::Broadcast, cond, pc);
    pthread_cond_destroy(cond; pc) => destroy(SLOT, Primitive::Cond, cond, pc);
    cnd_wait(cond, mutex; pc) => wait(SLOT, cond, mutex, 0, 0, pc);
    cnd_timedwait(cond, mutex, until; pc) => wait(SLOT, cond, mutex, until, 0, pc);
    cnd_signal(cond; pc) => wake(SLOT, EventKind::Signal, cond, pc);
    cnd_broadcast(cond; pc) => wake(SLOT, EventKind::Broadcast, cond, pc);
    cnd_destroy(cond; pc) => destroy(SLOT, Primitive::Cond, cond, pc);

    pthread_barrier_wait(barrier; pc) => {
        stream::emit_at_point(EventKind::BarrierEnter, pc, [pack::object(barrier as u64, 0), 0, 0]);
        stream::pend(SLOT as u16, barrier as u64, pc);
        // Tells the last one from the others.
        const SERIAL: Reg = -1_i32 as u32 as Reg;
        let arrival = Arrival::call(OpKind::Wait, barrier, SLOT as u16, pc);
        // SAFETY: I9: the guest's own barrier; where glibc says that it is for several processes.
        let abroad = is_shared_abroad(unsafe { ((barrier + 12) as *const u32).read_volatile() } != 0);
        let modelled = if abroad { None } else { model::barrier(arrival) };
        let result = match modelled {
            Some(last) => if last { SERIAL } else { 0 },
            None => model::outside(arrival, || real::call(SLOT, barrier, 0, 0, 0, 0)),
        };
        stream::catch_up();
        stream::unpend();
        stream::emit(EventKind::BarrierLeave, pc, [pack::object(barrier as u64, result as u16), 0, 0]);
        result
    };
    pthread_barrier_init(barrier, attr, count; _pc) => {
        let result = real::call(SLOT, barrier, attr, count, 0, 0);
        if result as u32 == 0 {
            model::barrier_is(barrier as u64, count as u32);
        }
        result
    };
    pthread_barrier_destroy(barrier; pc) => {
        model::barrier_is(barrier as u64, 0);
        destroy(SLOT, Primitive::Barrier, barrier, pc)
    };

    sem_wait(sem; pc) => down(SLOT, sem, 0, 0, pc);
    sem_trywait(sem; pc) => down(SLOT, sem, 0, 0, pc);
    sem_timedwait(sem, until; pc) => down(SLOT, sem, until, 0, pc);
    sem_clockwait(sem, clock, until; pc) => down(SLOT, sem, clock, until, pc);
    sem_post(sem; pc) => wake(SLOT, EventKind::SemPost, sem, pc);
    sem_destroy(sem; pc) => destroy(SLOT, Primitive::Semaphore, sem, pc);
}
