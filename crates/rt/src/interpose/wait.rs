//! Condition variables, barriers and semaphores.

use selvedge_events::event::{EventKind, Primitive};
use selvedge_events::interpose::Slot;
use selvedge_events::pack;

use super::lock::destroy;
use super::{Reg, wrappers};
use crate::{real, stream};

/// Waits; the mutex is released before and held again after. A thread that is cancelled here has no
/// end event; its clean-up handlers run with the mutex held, as without us.
fn wait(slot: Slot, cond: Reg, mutex: Reg, c: Reg, d: Reg, pc: Reg) -> Reg {
    stream::emit(EventKind::WaitBegin, pc, [pack::object(cond as u64, 0), mutex as u64, 0]);
    stream::pend(slot as u16, cond as u64, pc);
    let result = real::call(slot, cond, mutex, c, d, 0);
    stream::unpend();
    stream::emit(EventKind::WaitEnd, pc, [pack::object(cond as u64, result as u16), mutex as u64, 0]);
    result
}

fn wake(slot: Slot, kind: EventKind, object: Reg, pc: Reg) -> Reg {
    stream::emit(kind, pc, [pack::object(object as u64, 0), 0, 0]);
    real::call(slot, object, 0, 0, 0, 0)
}

/// Takes a semaphore. Failures are told by -1; the reason is in `errno`, which we leave alone.
fn down(slot: Slot, sem: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, sem as u64, pc);
    let result = real::call(slot, sem, b, c, 0, 0);
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
        stream::emit(EventKind::BarrierEnter, pc, [pack::object(barrier as u64, 0), 0, 0]);
        stream::pend(SLOT as u16, barrier as u64, pc);
        let result = real::call(SLOT, barrier, 0, 0, 0, 0);
        stream::unpend();
        stream::emit(EventKind::BarrierLeave, pc, [pack::object(barrier as u64, result as u16), 0, 0]);
        result
    };
    pthread_barrier_destroy(barrier; pc) => destroy(SLOT, Primitive::Barrier, barrier, pc);

    sem_wait(sem; pc) => down(SLOT, sem, 0, 0, pc);
    sem_trywait(sem; pc) => down(SLOT, sem, 0, 0, pc);
    sem_timedwait(sem, until; pc) => down(SLOT, sem, until, 0, pc);
    sem_clockwait(sem, clock, until; pc) => down(SLOT, sem, clock, until, pc);
    sem_post(sem; pc) => wake(SLOT, EventKind::SemPost, sem, pc);
    sem_destroy(sem; pc) => destroy(SLOT, Primitive::Semaphore, sem, pc);
}
