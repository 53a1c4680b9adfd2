//! Critical sections: a thread that is about to violate an invariant inside one had better wait before it does anything.
//!
//! Whom it would wait for may need that lock. The paper says so of exposing (section 4.1: the stall is moved up to the
//! outermost lock); a guard has the same need. Which site comes first after which call that takes a lock, and how far from
//! the lock its location is, was learnt: only what always came, at a distance that never varied, is looked at. The check
//! at the site itself stays.
//!
//! It looks when it has the lock: before that, another thread may be in the middle of a section whose end makes the
//! access a right one. Where it must not come now it gives the lock back, with nothing done, waits, and takes it again.
//! A lock that others need not have taken, or share, does not keep them out: what the last access of a thread that is itself inside a
//! critical section left is the middle of something, and says nothing. Then only the check at the site counts.
//!
//! While learning, a section is forgotten when a condition wait interrupts it: what comes after the wait is not what the
//! lock was taken for.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::control::seat;
use selvedge_events::guard::{ENTRY, FLAG_LEARN, FLAG_WATCH, LogCounter, Note, Table};
use selvedge_events::pack::{NO_PC, split_pc};

use super::log::{self, Ended};
use super::{FLAGS, belongs, is_mute, is_patient, look_at, most_ns, recorder, set_guarding, stall, stalled, table};
use crate::gate::{Arrival, Visit, Woken, time};
use crate::thread_state::{self, ThreadState};
use crate::{arch, modules, sink, sys};

/// How often a thread waits for its turn at one lock.
pub const ROUNDS: u32 = 16;

/// How many entries the table has, and where they are; by ascending return offset.
static COUNT: AtomicU32 = AtomicU32::new(0);
static AT: AtomicUsize = AtomicUsize::new(0);

/// A bit for each of the entries' return offsets, by its lowest bits: most calls have none. Few lines of the cache, since every lock looks
/// at one.
static KNOWN: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

#[inline(always)]
fn known(offset: u32) -> (&'static AtomicU64, u64) {
    let bit = offset as usize % (KNOWN.len() * 64);
    (&KNOWN[bit / 64], 1 << (bit % 64))
}

/// Takes the entries of a table into use.
pub fn begin(table: &Table<'static>) {
    let rows = table.entry_rows();
    for (offset, ..) in table.entries() {
        let (word, bit) = known(offset);
        word.fetch_or(bit, Ordering::Relaxed);
    }
    AT.store(rows.as_ptr() as usize, Ordering::Relaxed);
    COUNT.store((rows.len() / ENTRY) as u32, Ordering::Release);
}

/// Whether there may be entries of the call that returns to an address.
#[inline(always)]
pub fn may_begin(pc: usize) -> bool {
    let (word, bit) = known((pc as u64).wrapping_sub(modules::executable_base()) as u32);
    word.load(Ordering::Relaxed) & bit != 0
}

/// The entries of the call that returns to an address.
fn entries(pc: usize) -> impl Iterator<Item = (u32, i64)> {
    let (module, offset) = split_pc(modules::payload(pc)).unwrap_or((u32::MAX, 0));
    let (at, count) = (AT.load(Ordering::Relaxed), COUNT.load(Ordering::Acquire) as usize);
    // SAFETY: I6: rows of the table, which `Table::parse` checked; its pages live as long as the process.
    let rows = if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(at as *const [u8; ENTRY], count) } };
    let field = |row: &[u8; ENTRY], at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
    let first = rows.partition_point(|row| field(row, 0) < offset);
    let here = rows.get(first..).unwrap_or(&[]).iter().take_while(move |row| module == 0 && field(row, 0) == offset);
    here.map(move |row| (field(row, 4), (u64::from(field(row, 8)) | u64::from(field(row, 12)) << 32) as i64))
}

/// What would be violated if the lock were taken now.
struct Violation {
    addr: u64,
    site: u32,
    before: u32,
    before_thread: u32,
    own: bool,
}

fn violation(state: &mut ThreadState, lock: u64, pc: usize) -> Option<Violation> {
    for (site, distance) in entries(pc) {
        // A colour's shift is part of the distance.
        let addr = lock.wrapping_add_signed(distance);
        let Some(reading) = look_at(state, addr, site) else { continue };
        if belongs(site, reading.before, reading.own) || is_inside(reading.before_thread) {
            continue;
        }
        // It may have been inside at the first look and have left since.
        let again = look_at(state, addr, site);
        if again.is_some_and(|again| (again.before, again.before_thread) == (reading.before, reading.before_thread)) {
            let recorder::Reading { before, before_thread, own, .. } = reading;
            return Some(Violation { addr, site, before, before_thread, own });
        }
    }
    None
}

/// Whether the thread with a mark holds a lock, or one of them all.
fn is_inside(mark: u32) -> bool {
    let is_it = |other: &&ThreadState| mark == recorder::EVERYBODY || recorder::thread_mark(other.index) == mark;
    let mut others = super::threads().filter(is_it);
    mark != 0 && others.any(|other| other.locks.load(Ordering::Acquire) != 0)
}

/// Whether this thread is to look when it takes a lock.
fn looks(state: &ThreadState) -> bool {
    COUNT.load(Ordering::Relaxed) != 0
        && FLAGS.load(Ordering::Relaxed) & (FLAG_LEARN | FLAG_WATCH) == 0
        && state.locks.load(Ordering::Relaxed) == 0
        && state.guarding == 0
        && state.internal == 0
        && !sink::is_sealed()
}

/// Notes a violation; `None` where stalling for it has not paid.
fn note(state: &ThreadState, found: &Violation) -> Option<Option<log::Slot>> {
    log::count(LogCounter::Violations, 1);
    let other = recorder::thread_of(found.before_thread);
    // The variable that the site accesses, where a colour stands for it.
    let shift = table().and_then(|table| table.shift(found.site)).unwrap_or(0);
    let said = found.addr.wrapping_sub(i64::from(shift) as u64);
    let slot = log::note(Note::Violation, found.site, (found.before, found.own), said, state.index, other);
    if is_mute(slot) { None } else { Some(slot) }
}

/// Takes the outermost lock, where threads run freely.
pub fn take(lock: u64, pc: usize, mut acquire: impl FnMut() -> usize, release: impl Fn() -> usize) -> usize {
    let mut patient = COUNT.load(Ordering::Relaxed) != 0;
    for round in 0.. {
        let result = acquire();
        let early =
            || thread_state::current().is_some_and(|state| looks(state) && violation(state, lock, pc).is_some());
        if result != 0 || !patient || !early() || release() != 0 {
            return result;
        }
        patient = round < ROUNDS && wait(lock, pc);
    }
    acquire()
}

/// Waits until the lock may be taken; false where the thread is not to wait again.
fn wait(lock: u64, pc: usize) -> bool {
    let (Some(state), Some(table)) = (thread_state::current().filter(|state| looks(state)), table()) else {
        return false;
    };
    let Some(found) = violation(state, lock, pc) else { return true };
    let Some(slot) = note(state, &found) else { return false };
    let begun = sys::clock_ns(1);
    if !is_patient(begun) {
        log::count(LogCounter::Spared, 1);
        return false;
    }
    let who = core::ptr::from_mut(state);
    set_guarding(state, arch::stack_pointer());
    // SAFETY: I4: this thread's own state; `stall` does not touch the fields that a look does.
    let mut settled = || violation(unsafe { &mut *who }, lock, pc).is_none();
    let how = stall::stall(state, found.addr, found.site, most_ns(table, slot), &mut settled, &belongs);
    set_guarding(state, 0);
    let now = if sink::is_sealed() { begun } else { sys::clock_ns(1) };
    stalled(slot, now.saturating_sub(begun), how);
    how == Ended::Resolved
}

/// Whether the lock that this thread has just taken comes too early.
pub fn is_early(arrival: &Arrival) -> bool {
    COUNT.load(Ordering::Relaxed) != 0
        && thread_state::current()
            .filter(|state| looks(state))
            .is_some_and(|state| violation(state, arrival.object, arrival.pc).is_some())
}

/// As `wait`, under control: the strategy has chosen this thread, which now waits in the gate.
pub fn wait_in_gate(visit: &Visit, arrival: &Arrival) -> bool {
    let (Some(state), Some(table)) = (thread_state::current().filter(|state| looks(state)), table()) else {
        return false;
    };
    let (lock, pc) = (arrival.object, arrival.pc);
    let Some(found) = violation(state, lock, pc) else { return true };
    let Some(slot) = note(state, &found) else { return false };
    let begun = time::now();
    stall::announce(found.addr);
    visit.seat.set64(seat::OBJECT, stall::object_of(found.addr));
    let who = core::ptr::from_mut(state);
    let settled = || {
        // SAFETY: I4: as above.
        violation(unsafe { &mut *who }, lock, pc).is_none().then_some(())
    };
    let waited = visit.retry(time::after(table.stall_ns), false, settled);
    visit.seat.set64(seat::OBJECT, arrival.object);
    let how = match waited {
        Ok(()) => Ended::Resolved,
        Err(Woken::TimedOut) => Ended::TimedOut,
        Err(_) => Ended::Futile,
    };
    stalled(slot, time::now().saturating_sub(begun), how);
    how == Ended::Resolved
}

const EOWNERDEAD: i32 = 130;

/// A lock was taken, or not.
pub fn taken(result: i32, lock: u64, pc: usize) {
    let Some(state) = thread_state::current().filter(|_| super::is_on()) else { return };
    if result != 0 && result != EOWNERDEAD {
        return;
    }
    if inside(state, 1) > 1 {
        return;
    }
    (state.outer_lock, state.outer_call, state.inside_count) = (lock, modules::payload(pc), 0);
    if FLAGS.load(Ordering::Relaxed) & FLAG_LEARN != 0 && state.outer_call != NO_PC {
        log::note(Note::Entered, 0, (hash(state.outer_call), false), state.outer_call, 0, 0);
    }
}

/// A lock was given back.
pub fn given() {
    if let Some(state) = thread_state::current().filter(|_| super::is_on()) {
        inside(state, -1);
    }
}

/// The thread holds so many locks more; how many these are now.
#[inline(always)]
pub fn inside(state: &ThreadState, more: i32) -> u32 {
    let locks = state.locks.load(Ordering::Relaxed).saturating_add_signed(more);
    state.locks.store(locks, Ordering::Release);
    locks
}

/// A condition wait let others in.
pub fn interrupted() {
    if let Some(state) = thread_state::current().filter(|_| super::is_on()) {
        state.outer_call = NO_PC;
    }
}

fn hash(call: u64) -> u32 {
    (call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46) as u32
}

/// A site touches a location: the first time since the outermost lock was taken, that is noted.
pub fn learn(state: &mut ThreadState, site: u32, addr: u64) {
    if state.locks.load(Ordering::Relaxed) == 0 || state.outer_call == NO_PC {
        return;
    }
    let word = addr >> 3;
    let count = state.inside_count as usize;
    let known = state.inside.get(..count).unwrap_or(&[]);
    // Without room it is not known to be the first: then it does not count, and does not always come.
    if known.contains(&word) || count >= state.inside.len() {
        return;
    }
    if let Some(room) = state.inside.get_mut(count) {
        *room = word;
        state.inside_count += 1;
    }
    let distance = addr.wrapping_sub(state.outer_lock);
    let call = state.outer_call;
    let halves = (distance as u32, (distance >> 32) as u32);
    if let Some(slot) = log::note(Note::First, site, (hash(call), false), call, halves.0, halves.1) {
        slot.distance(call, halves);
    }
}
