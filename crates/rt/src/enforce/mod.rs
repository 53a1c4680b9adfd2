//! Enforcement: locks around pairs of accesses that no other thread came between in runs that passed.
//!
//! Paper: Weeratunge et al., "Accentuating the Positive" (OOPSLA 2011), sections 7 and 9. Where locks are taken, weakened and given
//! back is in the plan's table ([`selvedge_events::enforce`]); what that means is `analyze/atomicity/enforced.rs`, to which this keeps.
//!
//! A hook comes before its access, so what is to be done after one is *pending*: it is done at the thread's next hook, before anything
//! else. A call's hook is its callee's entry, which knows where the call returns to, or the runtime's own function; what is to be
//! done after it is done when the callee is left.
//!
//! Slots belong to activations, by their place on the context stack ([`crate::entry::function`]). Those of activations that are gone are
//! given back at the next entry or exit: so it is after `longjmp` and exceptions. A function without an entry hook has the activation of its caller;
//! without one that is known, its slots are given back when anything else is entered, left or called.
//!
//! A thread that waits for another one loses its slots first. One that waits for a lock of the program loses them when somebody wants
//! them and nobody else can run; that is coarser than the paper's chain of waiters, and never needs to know who holds what.
//!
//! Nothing here makes a program hang: a wait is bounded, and the thread goes on without the lock (an *escape*, counted). Nor may waiting
//! take more than its part of a free run, where the table has a *patience*: then the lock that took most is given up, and said. What is done at
//! hooks counts like waiting, by samples.
//!
//! Most hooks have nothing to do, and must find that out quickly: calls are known by a filter, and what a thread holds by its innermost activation.

pub mod locks;
pub mod log;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use selvedge_events::enforce::{Action, Counter, Row, Table};
use selvedge_events::interpose::Slot;
use selvedge_events::plan::Observe;

use crate::switch::{self, Switches};
use crate::thread_state::{self, ThreadState};
use crate::{arch, detect, gate, guard, heal, modules, sink, sys};
pub use locks::Own;

/// Hooks that may interrupt one at work before its frame is taken for gone.
const REENTRIES: u32 = 64;

/// The table, in pages of ours; 0 while there is none.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// Where the log goes: inside the plan's mapping.
static DIR_AT: AtomicUsize = AtomicUsize::new(0);
static DIR_LEN: AtomicUsize = AtomicUsize::new(0);

/// Whether this process has locks to keep.
#[inline(always)]
pub fn is_on() -> bool {
    TABLE.load(Ordering::Relaxed) != 0
}

/// Whether to keep locks is all that there is to do: nothing is recorded, guarded, detected, healed or under control.
#[inline(always)]
pub fn only_enforces() -> bool {
    is_on()
        && sink::observe() == Observe::Nothing
        && !gate::is_on()
        && !guard::is_on()
        && !detect::is_on()
        && !heal::is_on()
}

fn table() -> Option<&'static Table<'static>> {
    let at = TABLE.load(Ordering::Acquire);
    // SAFETY: I6: written once by `begin` before it was announced, in pages that are never unmapped.
    (at != 0).then(|| unsafe { &*(at as *const Table<'static>) })
}

/// Bits of return addresses that calls of the table have: what has none of them is no such call.
static CALLS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The word and the bit of a return address, as an offset in the executable.
fn bit_of(returns: u32) -> (&'static AtomicU64, u64) {
    let hash = returns.wrapping_mul(0x9e37_79b1) >> 20;
    (&CALLS[hash as usize / 64 % CALLS.len()], 1 << (hash % 64))
}

/// Takes a table into use, or says why not.
pub fn begin(payload: &'static [u8], dir: &'static [u8]) -> Result<(), &'static str> {
    let Some(parsed) = Table::parse(payload) else { return Err("its table is damaged") };
    let payload_at = size_of::<Table<'static>>().next_multiple_of(64);
    let locks_at = (payload_at + payload.len()).next_multiple_of(64);
    let bytes = (locks_at + parsed.locks as usize * locks::SIZE).next_multiple_of(4096);
    let Ok(page) = sys::mmap_anonymous(bytes) else { return Err("there is no memory") };
    // The plan's file may be cut while the program runs: what is looked at all the time must not be in its mapping.
    // SAFETY: fresh pages of ours with room for it.
    let payload = unsafe {
        core::ptr::copy_nonoverlapping(payload.as_ptr(), (page + payload_at) as *mut u8, payload.len());
        core::slice::from_raw_parts((page + payload_at) as *const u8, payload.len())
    };
    let Some(parsed) = Table::parse(payload) else { return Err("its table is damaged") };
    // SAFETY: fresh pages of ours.
    unsafe { (page as *mut Table<'static>).write(parsed) };
    locks::begin(page + locks_at, &parsed);
    if parsed.are_ids_points() && sink::observe() == Observe::Nothing && !gate::control::is_open() {
        switch::begin(parsed.points + 1);
    }
    for number in 0..parsed.calls {
        let (word, bit) = bit_of(parsed.call(number).returns);
        word.fetch_or(bit, Ordering::Relaxed);
    }
    DIR_AT.store(dir.as_ptr() as usize, Ordering::Relaxed);
    DIR_LEN.store(dir.len(), Ordering::Relaxed);
    TABLE.store(page, Ordering::Release);
    Ok(())
}

/// Opens the log of this process.
pub fn open_log() {
    let (at, len) = (DIR_AT.load(Ordering::Relaxed), DIR_LEN.load(Ordering::Relaxed));
    if let Some(table) = table() {
        // SAFETY: I6: a part of the plan's mapping.
        let dir = if at == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(at as *const u8, len) } };
        log::open(dir, table.locks);
    }
}

/// The point of an armed id; 0 where there is none.
pub fn point_of(id: u32) -> u32 {
    table().map_or(0, |table| table.point_of(id))
}

/// Works on the thread's slots, unless a signal handler has interrupted that.
fn work(work: impl FnOnce(&mut ThreadState, &'static Table<'static>)) {
    let (Some(state), Some(table)) = (thread_state::current_or_adopt(), table()) else { return };
    if state.internal > 0 {
        return;
    }
    let here = arch::stack_pointer();
    if state.enforce.at_work != 0 {
        state.enforce.reentries += 1;
        if here < state.enforce.at_work && state.enforce.reentries < REENTRIES {
            return log::count(Counter::Reentered, 1);
        }
        // A handler jumped out of it. Frames above tell; those below are believed for a while.
        locks::abandon(state);
    }
    state.enforce.reentries = 0;
    set_at_work(state, here);
    if state.enforce.pending != 0 {
        let (row, activation) = (table.point(state.enforce.pending), state.enforce.pending_at);
        state.enforce.pending = 0;
        after(state, table, row, activation);
    }
    work(state, table);
    set_at_work(state, 0);
    locks::worked(state);
}

fn set_at_work(state: &mut ThreadState, at_work: usize) {
    // SAFETY: I4: this thread's own state; a handler may come between this store and the next.
    unsafe { (&raw mut state.enforce.at_work).write_volatile(at_work) };
}

/// The activation that a function's slots belong to: the topmost of the function, or 0 where it is not known.
fn activation(state: &ThreadState, table: &Table<'_>, function: u32) -> u32 {
    let depth = (state.depth as usize).min(state.frames.len());
    let frames = state.frames.get(..depth).unwrap_or(&[]);
    let of = |site: u32| table.point(table.point_of(site)).function;
    frames.iter().rposition(|frame| of(frame.site) == function).map_or(0, |at| at as u32 + 1)
}

/// The point that counts of several for one hook: that of the innermost function. Such a hook is in a function that has no entry hook, and is
/// part of each that calls it.
fn choose(state: &ThreadState, table: &Table<'_>, mut point: u32) -> (u32, Row) {
    let mut row = table.point(point);
    if row.other != 0 {
        let depth = (state.depth as usize).min(state.frames.len());
        let frames = state.frames.get(..depth).unwrap_or(&[]).iter().rev();
        let innermost = frames.map(|frame| table.point(table.point_of(frame.site)).function).find(|of| *of != 0);
        // Bounded: a damaged chain may go round.
        for _ in 0..table.points {
            if row.other == 0 || Some(row.function) == innermost {
                break;
            }
            point = row.other;
            row = table.point(point);
        }
    }
    (point, row)
}

fn before(state: &mut ThreadState, table: &Table<'_>, row: Row, activation: u32) {
    for number in row.first..row.first + row.before {
        act(state, table.action(number), activation);
    }
}

fn after(state: &mut ThreadState, table: &Table<'_>, row: Row, activation: u32) {
    let first = row.first + row.before;
    for number in first..first + row.after {
        act(state, table.action(number), activation);
    }
}

fn act(state: &mut ThreadState, action: Action, activation: u32) {
    let Action { what, mode, lock, slot } = action;
    locks::acted(state, lock);
    match what {
        0 => locks::release(state, |held| held.lock == lock && held.slot == slot && held.activation == activation),
        1 => locks::weaken(state, lock, (slot, activation), mode),
        _ => locks::acquire(state, lock, (slot, activation), mode),
    }
}

/// Locks were given up: sites at which nothing is left to do are switched off. Where sites have other purposes, too, there are no switches.
#[cold]
fn quieten() {
    let (Some(table), Some(switches)) = (table(), Switches::open()) else { return };
    for point in (1..=table.points).filter(|point| is_idle(table, table.point(*point))) {
        switches.switch(point, false);
    }
}

/// What is given back before an access at an armed site, for runs under control: the schedule decides there who goes first, and others may come in
/// between that and what is taken, as they may in a free run.
#[inline]
pub fn give(id: u32) {
    if is_on() {
        given(id);
    }
}

#[inline(never)]
fn given(id: u32) {
    work(|state, table| {
        let (_, row) = choose(state, table, table.point_of(id));
        let activation = activation(state, table, row.function);
        let before = (row.first..row.first + row.before).map(|number| table.action(number));
        // Doing them again changes nothing.
        before.take_while(|action| action.what < 2).for_each(|action| act(state, action, activation));
    });
}

/// Before an access at an armed site, or at the begin of a block.
#[inline]
pub fn access(id: u32) {
    if is_on() {
        at(id);
    }
}

#[inline(never)]
fn at(id: u32) {
    if table().is_none_or(|table| !is_due(0) && is_idle(table, table.point(table.point_of(id)))) {
        return;
    }
    work(|state, table| {
        let (point, row) = choose(state, table, table.point_of(id));
        if row.before + row.after == 0 {
            return;
        }
        let activation = activation(state, table, row.function);
        before(state, table, row, activation);
        if row.after != 0 {
            state.enforce.pending = point;
            state.enforce.pending_at = activation;
        }
    });
}

/// Whether a thread has something to do that is not of the hook that it is at: what is pending, or slots of activations from a depth on, which
/// are gone; from 0 on, any slot at all.
fn is_due(depth: u32) -> bool {
    thread_state::current().is_some_and(|state| state.enforce.pending != 0 || locks::holds_from(state, depth))
}

/// Whether nothing is to be done at a point or a call by a thread that holds nothing.
fn is_idle(table: &Table<'_>, row: Row) -> bool {
    let mut actions = (row.first..row.first + row.before + row.after).map(|number| table.action(number));
    row.other == 0 && !actions.any(|action| locks::is_kept(action.lock))
}

/// The call that returns to a code address.
fn call_to(table: &Table<'_>, pc: u64) -> Option<Row> {
    let offset = u32::try_from(pc.checked_sub(modules::executable_base())?).ok()?;
    let (word, bit) = bit_of(offset);
    if word.load(Ordering::Relaxed) & bit == 0 {
        return None;
    }
    table.call_to(offset).map(|number| table.call(number))
}

/// Whether a thread has nothing to do at a call that returns to `pc`, as far as slots below a depth go.
fn passes(pc: u64, depth: u32) -> bool {
    if is_due(depth) {
        return false;
    }
    table().is_none_or(|table| call_to(table, pc).is_none_or(|row| !is_due(0) && is_idle(table, row)))
}

/// A function was entered by the call that returns to `pc`; its frame is the topmost.
pub fn entered(pc: u64) {
    // A thread that is not known yet becomes so at its first entry.
    if thread_state::current().is_some_and(|state| passes(pc, state.depth.saturating_sub(1))) {
        return;
    }
    work(|state, table| {
        let depth = state.depth.saturating_sub(1);
        // What was there before has been left without a word; so has what has no activation, which calls nothing.
        locks::release_from(state, depth);
        if let Some(row) = call_to(table, pc) {
            state.depth = depth;
            let activation = activation(state, table, row.function);
            state.depth = depth + 1;
            before(state, table, row, activation);
        }
    });
}

/// A function was left that the call which returns to `pc` had entered; its frame is gone.
pub fn left(pc: u64) {
    if thread_state::current().is_some_and(|state| passes(pc, state.depth)) {
        return;
    }
    work(|state, table| {
        let depth = state.depth;
        locks::release_from(state, depth);
        if let Some(row) = call_to(table, pc) {
            let activation = activation(state, table, row.function);
            after(state, table, row, activation);
        }
    });
}

/// Whether an interposed function waits for another thread otherwise than for a lock.
fn is_wait(slot: u16) -> bool {
    use Slot as S;
    const WAITS: [Slot; 11] = [
        S::pthread_cond_wait,
        S::pthread_cond_timedwait,
        S::pthread_cond_clockwait,
        S::cnd_wait,
        S::cnd_timedwait,
        S::pthread_barrier_wait,
        S::sem_wait,
        S::sem_timedwait,
        S::sem_clockwait,
        S::pthread_join,
        S::thrd_join,
    ];
    WAITS.iter().any(|one| *one as u16 == slot)
}

/// The calling thread, if it has nothing to do before or after an interposed function that takes a lock.
#[inline(always)]
pub fn passing(pc: usize) -> Option<&'static mut ThreadState> {
    let state = thread_state::current().filter(|_| passes(pc as u64, u32::MAX))?;
    state.enforce.call = 0;
    Some(state)
}

/// An interposed function that may block is called.
pub fn pend(slot: u16, pc: usize) {
    if passes(pc as u64, if is_wait(slot) { 0 } else { u32::MAX }) {
        if let Some(state) = thread_state::current() {
            state.enforce.call = 0;
        }
        return;
    }
    work(|state, table| {
        locks::release_from(state, u32::MAX);
        let row = call_to(table, pc as u64);
        if let Some(row) = row {
            let activation = activation(state, table, row.function);
            before(state, table, row, activation);
        }
        state.enforce.call = row.map_or(0, |_| pc as u64);
        if is_wait(slot) && locks::holds(state) {
            log::count(Counter::Revoked, 1);
            locks::release(state, |_| true);
        }
    });
}

/// It returned.
pub fn unpend() {
    if thread_state::current().is_some_and(|state| state.enforce.call == 0 && state.enforce.pending == 0) {
        return;
    }
    work(|state, table| {
        let pc = core::mem::take(&mut state.enforce.call);
        if pc != 0
            && let Some(row) = call_to(table, pc)
        {
            let activation = activation(state, table, row.function);
            after(state, table, row, activation);
        }
    });
}

/// Something happens that has no actions of its own.
#[inline]
pub fn event() {
    if is_on() && thread_state::current().is_some_and(|state| state.enforce.pending != 0) {
        work(|_, _| {});
    }
}

/// A thread ends.
pub fn leave(state: &mut ThreadState) {
    if is_on() {
        locks::release(state, |_| true);
        locks::flush(state);
        state.enforce.pending = 0;
    }
}

/// In a forked child: nobody holds anything.
pub fn after_fork(state: Option<&mut ThreadState>) {
    if is_on() {
        locks::after_fork();
        if let Some(state) = state {
            state.enforce = Own::default();
        }
        open_log();
    }
}
