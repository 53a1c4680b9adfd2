//! Mutexes, reader-writer locks, spin locks, once objects and static-initialisation guards.

use core::sync::atomic::Ordering;

use selvedge_events::event::{Acquire, EventKind, Mode, Primitive};
use selvedge_events::interpose::Slot;
use selvedge_events::pack;

use selvedge_sched::OpKind;

use super::wait::is_shared_abroad;
use super::{Reg, clock, wrappers};
use crate::gate::model::{self, Patience, errno};
use crate::gate::{self, Arrival};
use crate::guard::section;
use crate::thread_state::{self, ThreadState};
use crate::{detect, enforce, guard, heal, real, stream, sys};

const LOCK: Acquire = Acquire::of(Primitive::Mutex, Mode::Exclusive);
const READ: Acquire = Acquire::of(Primitive::Rwlock, Mode::Shared);
const WRITE: Acquire = Acquire::of(Primitive::Rwlock, Mode::Exclusive);
const SPIN: Acquire = Acquire::of(Primitive::Spin, Mode::Exclusive);

const fn bounded(how: Acquire) -> Acquire {
    Acquire { bounded: true, ..how }
}

/// Takes a lock through the real function; the event tells what came of it.
#[inline(always)]
fn take(slot: Slot, how: Acquire, lock: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    match thread_state::current().filter(|_| guard::is_alone()) {
        Some(state) => take_guarded(state, slot, how, [lock, b, c], pc),
        None => take_noted(slot, how, lock, b, c, pc),
    }
}

#[inline(never)]
fn take_noted(slot: Slot, how: Acquire, lock: Reg, b: Reg, c: Reg, pc: Reg) -> Reg {
    if detect::only_holds() {
        detect::bursts::tick();
        let result = real::call(slot, lock, b, c, 0, 0);
        if (Acquire { result: result as u8, ..how }).held() {
            detect::took(lock, pc);
        }
        return result;
    }
    if enforce::only_enforces()
        && let Some(state) = enforce::passing(pc)
    {
        return called(state, slot, || real::call(slot, lock, b, c, 0, 0));
    }
    stream::pend(slot as u16, lock as u64, pc);
    let insist = || real::call(slot, lock, b, c, 0, 0);
    let result = controlled(slot, lock, b, c, pc).unwrap_or_else(|| match given_by(slot) {
        Some(give) => section::take(lock as u64, pc, insist, || real::call(give, lock, 0, 0, 0, 0)),
        None => insist(),
    });
    stream::unpend();
    section::taken(result as i32, lock as u64, pc);
    let how = Acquire { result: result as u8, ..how };
    if how.held() {
        detect::took(lock, pc);
    }
    stream::emit(EventKind::Acquire, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    result
}

/// The same where a guard is all that there is: others are told that the thread waits and that it is inside, and whether it comes too early is
/// looked at where it may. Inlined for each function: which one it is, is known then.
#[inline(always)]
fn take_guarded(state: &ThreadState, slot: Slot, how: Acquire, [lock, b, c]: [Reg; 3], pc: Reg) -> Reg {
    state.doing.store(0, Ordering::Release);
    let insist = || real::call(slot, lock, b, c, 0, 0);
    let result = called(state, slot, || match given_by(slot).filter(|_| section::may_begin(pc)) {
        Some(give) => take_in_turn((slot, give), [lock, b, c], pc),
        None => insist(),
    });
    if (Acquire { result: result as u8, ..how }).held() {
        section::inside(state, 1);
    }
    result
}

/// The lock of a critical section that may be looked at before it begins.
#[inline(never)]
fn take_in_turn((take, give): (Slot, Slot), [lock, b, c]: [Reg; 3], pc: Reg) -> Reg {
    section::take(lock as u64, pc, || real::call(take, lock, b, c, 0, 0), || real::call(give, lock, 0, 0, 0, 0))
}

/// Calls what may wait for others; they are told meanwhile.
#[inline(always)]
fn called(state: &ThreadState, slot: Slot, call: impl FnOnce() -> Reg) -> Reg {
    if guard::waits_for_others(slot as u16) {
        state.blocked.store(2, Ordering::Relaxed);
    }
    let result = call();
    state.blocked.store(0, Ordering::Relaxed);
    result
}

/// What gives back a lock that was waited for without a limit.
fn given_by(slot: Slot) -> Option<Slot> {
    Some(match slot {
        Slot::pthread_mutex_lock => Slot::pthread_mutex_unlock,
        Slot::pthread_rwlock_rdlock | Slot::pthread_rwlock_wrlock => Slot::pthread_rwlock_unlock,
        Slot::pthread_spin_lock => Slot::pthread_spin_unlock,
        _ => return None,
    })
}

/// As [`take`], for C11's result codes (success, busy, error, nomem, timedout).
fn take_c11(slot: Slot, how: Acquire, lock: Reg, b: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, lock as u64, pc);
    let result = controlled(slot, lock, b, 0, pc).map_or_else(
        || real::call(slot, lock, b, 0, 0, 0),
        |result| match result as i32 {
            0 => 0,
            errno::EBUSY => 1,
            errno::ETIMEDOUT => 4,
            _ => 2,
        },
    );
    stream::unpend();
    section::taken(result as i32, lock as u64, pc);
    let error = match result as u32 {
        0 => 0,
        1 => 16,
        4 => 110,
        _ => 22,
    };
    let how = Acquire { result: error, ..how };
    if how.held() {
        detect::took(lock, pc);
    }
    stream::emit(EventKind::Acquire, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    result
}

/// Takes a lock under control: tries, and waits in the gate. `None`: not under control.
fn controlled(slot: Slot, lock: Reg, b: Reg, c: Reg, pc: Reg) -> Option<Reg> {
    if !gate::is_on() {
        return None;
    }
    let forever = Patience::Until(u64::MAX);
    let (attempt, kind, patience) = match slot {
        Slot::pthread_mutex_trylock => (Slot::pthread_mutex_trylock, OpKind::Lock, Patience::None),
        Slot::pthread_mutex_timedlock => (Slot::pthread_mutex_trylock, OpKind::Lock, clock::patience(0, b)),
        Slot::pthread_mutex_clocklock => (Slot::pthread_mutex_trylock, OpKind::Lock, clock::patience(b, c)),
        Slot::mtx_lock => (Slot::mtx_trylock, OpKind::Lock, forever),
        Slot::mtx_trylock => (Slot::mtx_trylock, OpKind::Lock, Patience::None),
        Slot::mtx_timedlock => (Slot::mtx_trylock, OpKind::Lock, clock::patience(0, b)),
        Slot::pthread_rwlock_rdlock => (Slot::pthread_rwlock_tryrdlock, OpKind::LockShared, forever),
        Slot::pthread_rwlock_tryrdlock => (Slot::pthread_rwlock_tryrdlock, OpKind::LockShared, Patience::None),
        Slot::pthread_rwlock_timedrdlock => (Slot::pthread_rwlock_tryrdlock, OpKind::LockShared, clock::patience(0, b)),
        Slot::pthread_rwlock_clockrdlock => (Slot::pthread_rwlock_tryrdlock, OpKind::LockShared, clock::patience(b, c)),
        Slot::pthread_rwlock_wrlock => (Slot::pthread_rwlock_trywrlock, OpKind::Lock, forever),
        Slot::pthread_rwlock_trywrlock => (Slot::pthread_rwlock_trywrlock, OpKind::Lock, Patience::None),
        Slot::pthread_rwlock_timedwrlock => (Slot::pthread_rwlock_trywrlock, OpKind::Lock, clock::patience(0, b)),
        Slot::pthread_rwlock_clockwrlock => (Slot::pthread_rwlock_trywrlock, OpKind::Lock, clock::patience(b, c)),
        Slot::pthread_spin_lock => (Slot::pthread_spin_trylock, OpKind::Lock, forever),
        Slot::pthread_spin_trylock => (Slot::pthread_spin_trylock, OpKind::Lock, Patience::None),
        _ => (Slot::pthread_mutex_trylock, OpKind::Lock, forever),
    };
    let c11 = attempt == Slot::mtx_trylock;
    let arrival = Arrival::call(kind, lock, slot as u16, pc);
    let once = || {
        let result = real::call(attempt, lock, 0, 0, 0, 0) as i32;
        if c11 && result == 1 { errno::EBUSY } else { result }
    };
    let is_mutex = attempt == Slot::pthread_mutex_trylock;
    let attempt = || {
        let mut result = once();
        // One that another process may hold is not waited for here: its owner lives where we do not see it.
        let robust = || kind_of(lock) & ROBUST != 0 && !is_shared_abroad(kind_of(lock) & SHARED != 0);
        if result == errno::EBUSY && is_mutex && robust() {
            // The kernel is about to say that the holder has died: it does so after the thread's last hook, and on
            // a busy machine long after.
            let patience = sys::clock_ns(MONOTONIC) + DEATH_NS;
            while result == errno::EBUSY && !model::is_held(lock as u64) && sys::clock_ns(MONOTONIC) < patience {
                sys::nap(20_000);
                result = once();
            }
        }
        result
    };
    let bad = match slot {
        Slot::pthread_mutex_timedlock
        | Slot::mtx_timedlock
        | Slot::pthread_rwlock_timedrdlock
        | Slot::pthread_rwlock_timedwrlock => !clock::is_valid(b),
        Slot::pthread_mutex_clocklock | Slot::pthread_rwlock_clockrdlock | Slot::pthread_rwlock_clockwrlock => {
            !clock::is_valid(c) || b > 1
        }
        _ => false,
    };
    if bad || patience != Patience::None && refuses_itself(slot, lock) {
        gate::point(arrival);
        return Some(real::call(slot, lock, b, c, 0, 0));
    }
    let insist = || real::call(slot, lock, b, c, 0, 0) as i32;
    let abroad = || is_shared_abroad(is_mutex && kind_of(lock) & SHARED != 0 || is_shared_rwlock(slot, lock));
    let undo = || given_by(slot).is_some_and(|give| real::call(give, lock, 0, 0, 0, 0) == 0);
    model::take(arrival, patience, attempt, undo, abroad, insist).map(|result| result as Reg)
}

const MONOTONIC: usize = 1;
/// How long the kernel may take to end a thread that has left us.
const DEATH_NS: u64 = 5_000_000_000;

/// Kinds of mutexes, as glibc numbers them.
const ERRORCHECK: u32 = 2;
const ROBUST: u32 = 16;
const SHARED: u32 = 128;

fn kind_of(mutex: Reg) -> u32 {
    /// Where glibc keeps it.
    const KIND: usize = 16;
    // SAFETY: I9: the guest's own mutex.
    unsafe { ((mutex + KIND) as *const u32).read() }
}

fn is_shared_rwlock(slot: Slot, lock: Reg) -> bool {
    use Slot as S;
    /// Where glibc says that it is for several processes.
    const SHARED: usize = 28;
    let is_one = [
        S::pthread_rwlock_rdlock,
        S::pthread_rwlock_timedrdlock,
        S::pthread_rwlock_clockrdlock,
        S::pthread_rwlock_wrlock,
        S::pthread_rwlock_timedwrlock,
        S::pthread_rwlock_clockwrlock,
    ];
    // SAFETY: I9: the guest's own lock.
    is_one.contains(&slot) && unsafe { ((lock + SHARED) as *const u32).read() } != 0
}

/// Whether a lock that the thread holds already says so instead of waiting for ever: error-checking mutexes, and
/// reader-writer locks held for writing.
fn refuses_itself(slot: Slot, lock: Reg) -> bool {
    if !model::holds_itself(lock as u64) {
        return false;
    }
    match slot {
        Slot::pthread_mutex_lock | Slot::pthread_mutex_timedlock | Slot::pthread_mutex_clocklock => {
            kind_of(lock) & 3 == ERRORCHECK
        }
        Slot::pthread_rwlock_wrlock | Slot::pthread_rwlock_rdlock => {
            // SAFETY: I9: as above; the thread that writes, where glibc keeps it.
            unsafe { ((lock + 24) as *const u32).read() == sys::gettid() }
        }
        _ => false,
    }
}

#[inline(always)]
fn give(slot: Slot, how: Acquire, lock: Reg, pc: Reg) -> Reg {
    match thread_state::current().filter(|_| guard::is_alone()) {
        Some(state) => {
            state.doing.store(0, Ordering::Release);
            section::inside(state, -1);
            real::call(slot, lock, 0, 0, 0, 0)
        }
        None => give_noted(slot, how, lock, pc),
    }
}

#[inline(never)]
fn give_noted(slot: Slot, how: Acquire, lock: Reg, pc: Reg) -> Reg {
    detect::gave(lock);
    if detect::only_holds() {
        return real::call(slot, lock, 0, 0, 0, 0);
    }
    if enforce::only_enforces() {
        enforce::event();
        return real::call(slot, lock, 0, 0, 0, 0);
    }
    guard::past();
    heal::past();
    enforce::event();
    section::given();
    if gate::is_on() {
        let arrival = Arrival::call(OpKind::Unlock, lock, slot as u16, pc);
        let release = || {
            stream::emit(EventKind::Release, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
            real::call(slot, lock, 0, 0, 0, 0) as i32
        };
        if let Some(result) = model::give(arrival, release) {
            return result as Reg;
        }
    }
    stream::emit(EventKind::Release, pc, [pack::object(lock as u64, how.pack()), 0, 0]);
    let result = real::call(slot, lock, 0, 0, 0, 0);
    if gate::is_unseen() {
        model::wake_all(lock as u64);
    }
    detect::sections::between();
    result
}

/// Runs a one-time initialisation, or waits for whoever does.
fn once(slot: Slot, object: Reg, routine: Reg, pc: Reg) -> Reg {
    stream::pend(slot as u16, object as u64, pc);
    if gate::is_on() {
        // glibc: 1 while it is under way, 2 when it is done, and the number of forks above.
        // SAFETY: I9: the guest's own object.
        let under_way = || unsafe { (object as *const u32).read_volatile() } & 3 == 1;
        model::once(Arrival::call(OpKind::Lock, object, slot as u16, pc), under_way);
    }
    let result = real::call(slot, object, routine, 0, 0, 0);
    if gate::is_on() {
        model::wake_all(object as u64);
    }
    stream::unpend();
    stream::emit(EventKind::Once, pc, [pack::object(object as u64, 0), 0, 0]);
    result
}

fn end_guard(slot: Slot, guard: Reg, pc: Reg) -> Reg {
    let how = Acquire::of(Primitive::Guard, Mode::Exclusive);
    stream::emit(EventKind::Release, pc, [pack::object(guard as u64, how.pack()), 0, 0]);
    let result = real::call(slot, guard, 0, 0, 0, 0);
    if gate::is_on() {
        model::wake_all(guard as u64);
    }
    result
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
    pthread_once(object, routine; pc) => once(SLOT, object, routine, pc);
    call_once(object, routine; pc) => once(SLOT, object, routine, pc);

    // Non-zero: this thread initialises, and holds the guard until release or abort.
    __cxa_guard_acquire(guard; pc) => {
        stream::pend(SLOT as u16, guard as u64, pc);
        if gate::is_on() {
            // Both C++ libraries: the first byte when it is done, bits of the second while it is under way.
            // SAFETY: I9: the guest's own guard.
            let under_way = || matches!(unsafe { (guard as *const [u8; 2]).read_volatile() }, [0, state] if state & 3 != 0);
            model::once(Arrival::call(OpKind::Lock, guard, SLOT as u16, pc), under_way);
        }
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
    __cxa_guard_release(guard; pc) => end_guard(SLOT, guard, pc);
    __cxa_guard_abort(guard; pc) => end_guard(SLOT, guard, pc);
}
