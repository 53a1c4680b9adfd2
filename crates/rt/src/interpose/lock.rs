//! Mutexes, reader-writer locks, spin locks, once objects and static-initialisation guards.

use selvedge_events::event::{Acquire, EventKind, Mode, Primitive};
use selvedge_events::interpose::Slot;
use selvedge_events::pack;

use super::{Reg, wrappers};
use crate::{real, stream};

const LOCK: Acquire = Acquire::of(Primitive::Mutex, Mode::Exclusive);
const READ: Acquire = Acquire::of(Primitive::Rwlock, Mode::Shared);
const WRITE: Acquire = Acquire::of(Primitive::Rwlock, Mode::Exclusive);
const SPIN: Acquire = Acquire::of(Primitive::Spin, Mode::Exclusive);

const fn bounded(how: Acquire) -> Acquire {
    Acquire { bounded: true, ..how }
}

/// Takes a lock through the real function; the event tells what came of it.
fn take(slot: Slot, how: Acquire, lock: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, lock as u64, pc);
    let result = real::call(slot, lock, b, c, 0, 0);
    stream::unpend();
    let how = Acquire { result: result as u8, ..how };
    stream::emit(EventKind::Acquire, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    result
}

/// As [`take`], for C11's result codes (success, busy, error, nomem, timedout).
fn take_c11(slot: Slot, how: Acquire, lock: Reg, b: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, lock as u64, pc);
    let result = real::call(slot, lock, b, 0, 0, 0);
    stream::unpend();
    let error = match result as u32 {
        0 => 0,
        1 => 16,
        4 => 110,
        _ => 22,
    };
    let how = Acquire { result: error, ..how };
    stream::emit(EventKind::Acquire, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    result
}

fn give(slot: Slot, how: Acquire, lock: Reg, pc: Reg) -> Reg {
    stream::emit(EventKind::Release, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    real::call(slot, lock, 0, 0, 0, 0)
}

/// An object's life ends.
pub(super) fn destroy(slot: Slot, primitive: Primitive, object: Reg, pc: Reg) -> Reg {
    let how = Acquire::of(primitive, Mode::Exclusive);
    stream::emit(EventKind::Destroy, pc, [pack::object(object as u64, how.pack()), 0, 0]);
    real::call(slot, object, 0, 0, 0, 0)
}

wrappers! {
    pthread_mutex_lock(lock; pc) => take(SLOT, LOCK, lock, 0, 0, pc);
    pthread_mutex_trylock(lock; pc) => take(SLOT, bounded(LOCK), lock, 0, 0, pc);
    pthread_mutex_timedlock(lock, until; pc) => take(SLOT, bounded(LOCK), lock, until, 0, pc);
    pthread_mutex_clocklock(lock, clock, until; pc) => take(SLOT, bounded(LOCK), lock, clock, until, pc);
    pthread_mutex_unlock(lock; pc) => give(SLOT, LOCK, lock, pc);
    pthread_mutex_destroy(lock; pc) => destroy(SLOT, Primitive::Mutex, lock, pc);
    pthread_mutex_consistent(lock; _pc) => real::call(SLOT, lock, 0, 0, 0, 0);
    mtx_lock(lock; pc) => take_c11(SLOT, LOCK, lock, 0, pc);
    mtx_trylock(lock; pc) => take_c11(SLOT, bounded(LOCK), lock, 0, pc);
    mtx_timedlock(lock, until; pc) => take_c11(SLOT, bounded(LOCK), lock, until, pc);
    mtx_unlock(lock; pc) => give(SLOT, LOCK, lock, pc);
    mtx_destroy(lock; pc) => destroy(SLOT, Primitive::Mutex, lock, pc);

    pthread_rwlock_rdlock(lock; pc) => take(SLOT, READ, lock, 0, 0, pc);
    pthread_rwlock_tryrdlock(lock; pc) => take(SLOT, bounded(READ), lock, 0, 0, pc);
    pthread_rwlock_timedrdlock(lock, until; pc) => take(SLOT, bounded(READ), lock, until, 0, pc);
    pthread_rwlock_clockrdlock(lock, clock, until; pc) => take(SLOT, bounded(READ), lock, clock, until, pc);
    pthread_rwlock_wrlock(lock; pc) => take(SLOT, WRITE, lock, 0, 0, pc);
    pthread_rwlock_trywrlock(lock; pc) => take(SLOT, bounded(WRITE), lock, 0, 0, pc);
    pthread_rwlock_timedwrlock(lock, until; pc) => take(SLOT, bounded(WRITE), lock, until, 0, pc);
    pthread_rwlock_clockwrlock(lock, clock, until; pc) => take(SLOT, bounded(WRITE), lock, clock, until, pc);
    // Which side is released is known from what the thread holds.
    pthread_rwlock_unlock(lock; pc) => give(SLOT, WRITE, lock, pc);
    pthread_rwlock_destroy(lock; pc) => destroy(SLOT, Primitive::Rwlock, lock, pc);

    pthread_spin_lock(lock; pc) => take(SLOT, SPIN, lock, 0, 0, pc);
    pthread_spin_trylock(lock; pc) => take(SLOT, bounded(SPIN), lock, 0, 0, pc);
    pthread_spin_unlock(lock; pc) => give(SLOT, SPIN, lock, pc);
    pthread_spin_destroy(lock; pc) => destroy(SLOT, Primitive::Spin, lock, pc);

    // The routine runs inside; whoever returns from here has seen it done.
    pthread_once(once, routine; pc) => {
        stream::pend(SLOT as u16, once as u64, pc);
        let result = real::call(SLOT, once, routine, 0, 0, 0);
        stream::unpend();
        stream::emit(EventKind::Once, pc, [pack::object(once as u64, 0), 0, 0]);
        result
    };
    call_once(once, routine; pc) => {
        stream::pend(SLOT as u16, once as u64, pc);
        let result = real::call(SLOT, once, routine, 0, 0, 0);
        stream::unpend();
        stream::emit(EventKind::Once, pc, [pack::object(once as u64, 0), 0, 0]);
        result
    };

    // Non-zero: this thread initialises, and holds the guard until release or abort.
    __cxa_guard_acquire(guard; pc) => {
        stream::pend(SLOT as u16, guard as u64, pc);
        let result = real::call(SLOT, guard, 0, 0, 0, 0);
        stream::unpend();
        if result as u32 != 0 {
            let how = Acquire::of(Primitive::Guard, Mode::Exclusive);
            stream::emit(EventKind::Acquire, pc, [pack::object(guard as u64, how.pack()), 0, 0]);
        } else {
            stream::emit(EventKind::Once, pc, [pack::object(guard as u64, 0), 0, 0]);
        }
        result
    };
    __cxa_guard_release(guard; pc) => give(SLOT, Acquire::of(Primitive::Guard, Mode::Exclusive), guard, pc);
    __cxa_guard_abort(guard; pc) => give(SLOT, Acquire::of(Primitive::Guard, Mode::Exclusive), guard, pc);
}
