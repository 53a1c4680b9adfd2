//! The guard: before each guarded access, whether it may follow the last access of another thread to the same location.
//!
//! Paper: Zhang et al., "A Lightweight System for Detecting and Tolerating Concurrency Bugs" (TSE 2016), section 3.3 and
//! Algorithm 1. What belongs is in the plan's table ([`selvedge_events::guard`]); who came last is in the [`recorder`];
//! a thread that is about to violate [`stall`]s; what happened is in the [`log`].
//!
//! Departures from the paper:
//! - Whether the thread itself has accessed the location since counts too: one bit of the context that the paper's section
//!   5.2.5 speaks of. A reader that comes back to a location knows a write that it has seen from one that it has not.
//! - Nobody polls: a stalled thread is woken by the next access to its location.
//! - A stall ends early where nobody is left who could make the awaited access.
//! - Locations are exact to the byte, and begin anew when their memory is freed.
//! - A pair whose stalls were in vain is stalled for half as long each time (`most_ns`), and in the end no longer (`MUTE`), nor is one that
//!   comes all the time: it goes on, and as an access that belongs from then on, on the short way. Any pair goes on while all stalls in vain
//!   together have taken more than `PATIENCE_NS` and a hundredth of the run (`is_patient`): a table that is all wrong makes a program a little
//!   slower, and no more.
//! - Learning is a guard that never stalls and notes every pair.
//!
//! NOTE \[Hooks come first\]
//!
//! A hook runs before its access. Where threads run freely, two of them may pass their hooks in one order and make
//! their accesses in the other. So a thread says what it is about to do until it is seen past it (`ThreadState::doing`),
//! and who must not come before that access waits until then, or for `SETTLE_NS`: whoever learns, because it
//! would learn an order that did not happen, and, for longer, whoever was stalled. A thread that is taken off its processor between
//! its hook and its access for longer than that is not waited for. Under control there is no such gap.
//!
//! Under control the check comes after the point: the strategy has chosen who goes on, the guard may make it wait.

pub mod log;
pub mod owner;
pub mod quick;
pub mod recorder;
pub mod section;
pub mod stall;

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::guard::{FLAG_LEARN, FLAG_WATCH, LogCounter, Note, Row, Table};
use selvedge_events::interpose::{INTERPOSED, Slot};
use selvedge_events::plan::Observe;

use crate::gate::{self, time};
use crate::thread_state::{self, ThreadState};
use crate::{arch, detect, enforce, heal, sink, sys};
use log::Ended;
use recorder::{REGION_SHIFT, WAITED};

/// The table, in pages of ours; 0 while there is none.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// One [`Quick`] for each site, in pages of ours.
static QUICK: AtomicUsize = AtomicUsize::new(0);
static FLAGS: AtomicU32 = AtomicU32::new(0);
/// When it began, and the time that was stalled in vain since.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static IN_VAIN: AtomicU64 = AtomicU64::new(0);
/// Where the log goes: inside the plan's mapping.
static DIR_AT: AtomicUsize = AtomicUsize::new(0);
static DIR_LEN: AtomicUsize = AtomicUsize::new(0);
/// Threads that were made and have not run yet.
static EXPECTED: AtomicU32 = AtomicU32::new(0);
/// States of the threads that live.
static THREADS: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// Stalls for one pair that ended by the time before it is no longer stalled for, unless others of its stalls paid.
const MUTE: u32 = 8;
/// Stalls for pairs that the log has no room for, all together: whether they pay is not known.
const UNLOGGED: u32 = 64;
/// Violations by one pair that are too many for a bug, unless its stalls paid: then it was not met in training.
const USUAL: u32 = 256;
/// Time that may be stalled in vain, beside a hundredth of the run.
const PATIENCE_NS: u64 = 30_000_000;
/// Accesses that may interrupt the guard at work before its frame is taken for gone.
const REENTRIES: u32 = 64;
/// How long an access that was announced may take to be made.
const SETTLE_NS: u64 = 20_000;
/// The same for who was stalled: to wake it may have taken the other off its processor, right before its access.
const SETTLE_AFTER_STALL_NS: u64 = 2_000_000;
const NAP_NS: u64 = 50_000;
/// Bytes of a long range that are looked at.
const RANGE: u64 = 4096;
/// Words of a critical section that are remembered.
pub const INSIDE: usize = 16;

/// Whether this process is guarded.
#[inline(always)]
pub fn is_on() -> bool {
    TABLE.load(Ordering::Relaxed) != 0
}

/// Set where to guard is all that there is to do, for good.
static ALONE: AtomicU32 = AtomicU32::new(0);

/// Everything that the plan of a free run asks for has begun: notes whether to guard is all of it, and nothing is learnt, recorded, detected,
/// healed or enforced.
pub fn note_alone() -> bool {
    let alone = is_on()
        && is_short()
        && sink::observe() == Observe::Nothing
        && !(detect::is_on() || heal::is_on() || enforce::is_on());
    ALONE.store(u32::from(alone), Ordering::Relaxed);
    alone
}

/// Whether to guard is all that there is to do.
#[inline(always)]
pub fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed) != 0
}

fn table() -> Option<&'static Table<'static>> {
    let at = TABLE.load(Ordering::Acquire);
    // SAFETY: I6: written once by `begin` before it was announced, in pages that are never unmapped.
    (at != 0).then(|| unsafe { &*(at as *const Table<'static>) })
}

/// A belonging set, ready to be looked at.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Quick {
    bits: usize,
    first: u32,
    /// Sites, and `ROW_NIL…` in the two bits at the top.
    count: u32,
}

const NIL_SHIFT: u32 = 30;
const COUNT: u32 = (1 << NIL_SHIFT) - 1;

impl Quick {
    fn of(row: &Row<'_>) -> Quick {
        Quick { bits: row.bits.as_ptr() as usize, first: row.first, count: row.count | (row.flags & 3) << NIL_SHIFT }
    }

    #[inline(always)]
    fn has(&self, site: u32, own: bool) -> bool {
        if site == 0 {
            return self.count >> (NIL_SHIFT + u32::from(own)) & 1 != 0;
        }
        let at = site.wrapping_sub(self.first);
        if at >= self.count & COUNT {
            return false;
        }
        let bit = at * 2 + u32::from(own);
        // SAFETY: I6: a row of the table, which `Table::parse` checked to have two bits for each of `count` sites; its
        // pages live as long as the process.
        let byte = unsafe { ((self.bits + (bit as usize >> 3)) as *const u8).read() };
        byte >> (bit & 7) & 1 != 0
    }
}

/// Whether an access at `site` may follow one at `before` of another thread; `own`: with accesses of its own in between.
#[inline(always)]
pub fn belongs(site: u32, before: u32, own: bool) -> bool {
    let rows = QUICK.load(Ordering::Relaxed);
    // SAFETY: I6: `begin` wrote a row for each site of the table, from 1; armed ids are checked against it.
    unsafe { (*(rows as *const Quick).add(site as usize)).has(before, own) }
}

/// Takes a table into use; false where it cannot be had.
pub fn begin(payload: &'static [u8], dir: &'static [u8], memory_limit_mb: u32) -> Result<(), &'static str> {
    let Ok(parsed) = Table::parse(payload) else { return Err("its table is damaged") };
    let rows = (parsed.sites as usize + 1) * size_of::<Quick>();
    let quick_at = size_of::<Table<'static>>().next_multiple_of(64);
    let bytes = (quick_at + rows + payload.len()).next_multiple_of(4096);
    let Ok(page) = sys::mmap_anonymous(bytes) else { return Err("there is no memory") };
    let quick = page + quick_at;
    // The plan's file may be cut while the program runs: what is looked at all the time must not be in its mapping.
    // SAFETY: fresh pages of ours with room for both.
    let payload = unsafe {
        core::ptr::copy_nonoverlapping(payload.as_ptr(), (quick + rows) as *mut u8, payload.len());
        core::slice::from_raw_parts((quick + rows) as *const u8, payload.len())
    };
    let Ok(parsed) = Table::parse(payload) else { return Err("its table is damaged") };
    for site in 1..=parsed.sites {
        // SAFETY: fresh pages of ours with room for every row.
        unsafe { (quick as *mut Quick).add(site as usize).write(Quick::of(&parsed.row(site))) };
    }
    // SAFETY: fresh pages of ours.
    unsafe { (page as *mut Table<'static>).write(parsed) };
    recorder::begin(memory_limit_mb);
    owner::begin();
    DIR_AT.store(dir.as_ptr() as usize, Ordering::Relaxed);
    DIR_LEN.store(dir.len(), Ordering::Relaxed);
    FLAGS.store(parsed.flags, Ordering::Relaxed);
    BEGUN.store(sys::clock_ns(1), Ordering::Relaxed);
    section::begin(&parsed);
    QUICK.store(quick, Ordering::Release);
    TABLE.store(page, Ordering::Release);
    Ok(())
}

/// Opens the log of this process.
pub fn open_log() {
    let (at, len) = (DIR_AT.load(Ordering::Relaxed), DIR_LEN.load(Ordering::Relaxed));
    if let Some(table) = table() {
        // SAFETY: I6: a part of the plan's mapping.
        let dir = if at == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(at as *const u8, len) } };
        log::open(table, dir);
    }
}

/// The guarded site of an armed id; 0 where it is not guarded.
#[inline]
pub fn site_of(id: u32) -> u32 {
    table().map_or(0, |table| table.site_of(id))
}

/// Whether armed ids are site numbers.
pub fn ids_are_sites() -> bool {
    table().is_some_and(Table::ids_are_sites)
}

/// Whether sites can take the short way: there is nothing to learn.
pub fn is_short() -> bool {
    FLAGS.load(Ordering::Relaxed) & FLAG_LEARN == 0
}

/// Whether a site is one of a colour.
pub fn is_coloured(site: u32) -> bool {
    table().is_some_and(|table| table.shift(site).is_some())
}

/// A thread is about to be made: it can come from now on, although it has no state yet.
pub fn expect() {
    EXPECTED.fetch_add(1, Ordering::Relaxed);
}

/// It is there, or could not be made.
pub fn arrived() {
    let _ = EXPECTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
}

/// A thread has a number, or another one.
pub fn numbered(state: &mut ThreadState) {
    state.mark = recorder::thread_mark(state.index);
    state.steps.clear();
    owner::enter(state);
}

/// A thread lives.
pub fn enter(state: &mut ThreadState) {
    numbered(state);
    if is_on() || enforce::is_on() {
        let own = core::ptr::from_ref(state) as usize;
        let free = |place: &&AtomicUsize| place.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let _ = THREADS.iter().find(free);
    }
}

/// A thread ends.
pub fn leave(state: &ThreadState) {
    if is_on() || enforce::is_on() {
        state.doing.store(0, Ordering::Release);
        let own = core::ptr::from_ref(state) as usize;
        if let Some(place) = THREADS.iter().find(|place| place.load(Ordering::Relaxed) == own) {
            place.store(0, Ordering::Release);
        }
        stall::abandon(state);
    }
}

/// The threads that live, as far as there is room for them.
pub(crate) fn threads() -> impl Iterator<Item = &'static ThreadState> {
    THREADS.iter().filter_map(|place| {
        let at = place.load(Ordering::Acquire);
        // SAFETY: I2: states are never unmapped. Another thread's state is only looked at for its atomic field.
        (at != 0).then(|| unsafe { &*(at as *const ThreadState) })
    })
}

/// Whether every other thread that lives, or is about to, is blocked for as long as it takes.
pub fn nobody_else_runs(state: &ThreadState) -> bool {
    let own = core::ptr::from_ref(state) as usize;
    let is_blocked = |other: &ThreadState| other.blocked.load(Ordering::Relaxed) != 0;
    EXPECTED.load(Ordering::Acquire) == 0
        && threads().all(|other| core::ptr::from_ref(other) as usize == own || is_blocked(other))
}

/// In a forked child: the calling thread is the only one.
pub fn after_fork(state: Option<&mut ThreadState>) {
    for place in &THREADS {
        place.store(0, Ordering::Relaxed);
    }
    EXPECTED.store(0, Ordering::Relaxed);
    stall::after_fork();
    owner::after_fork();
    if let Some(state) = state {
        enter(state);
    }
}

/// Memory that begins a new life (freed, or a stack handed to a new thread): nobody has accessed it.
pub fn forget(addr: u64, size: u64) {
    if is_on() {
        recorder::forget(addr, size);
    }
}

/// Whether an interposed function waits for other threads, for as long as it takes: not those that end by themselves,
/// by the time or by what comes from outside.
pub const fn waits_for_others(slot: u16) -> bool {
    use Slot as S;
    const WAITS: [Slot; 13] = [
        S::pthread_mutex_lock,
        S::mtx_lock,
        S::pthread_rwlock_rdlock,
        S::pthread_rwlock_wrlock,
        S::pthread_spin_lock,
        S::pthread_cond_wait,
        S::cnd_wait,
        S::pthread_barrier_wait,
        S::sem_wait,
        S::pthread_join,
        S::thrd_join,
        S::pthread_once,
        S::__cxa_guard_acquire,
    ];
    const TABLE: [bool; INTERPOSED.len()] = {
        let mut table = [false; INTERPOSED.len()];
        let mut at = 0;
        while at < WAITS.len() {
            table[WAITS[at] as usize] = true;
            at += 1;
        }
        table
    };
    (slot as usize) < TABLE.len() && TABLE[slot as usize]
}

/// An access that must not come now.
#[derive(Clone, Copy, Debug)]
struct Violation {
    addr: u64,
    before: u32,
    before_thread: u32,
    own: bool,
}

/// How an access is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Only where it may come now.
    Check,
    /// It comes.
    Force,
    /// It comes, and what it follows is noted.
    Learn,
}

/// Before an access at an armed site, which need not be guarded.
#[inline]
pub fn access(addr: u64, size: u64, id: u32) {
    if is_on() {
        let site = site_of(id);
        if site != 0 {
            at_site(addr, size, site);
        }
    }
}

/// The same for an atomic operation, which the thread may come back to after it has slept.
#[inline]
pub fn atomic(addr: u64, size: u64, id: u32) {
    if is_on() {
        let site = site_of(id);
        if let Some(state) = thread_state::current_or_adopt() {
            state.last_atomic = (addr, size, site);
        }
        if site != 0 {
            at_site(addr, size, site);
        }
    }
}

/// The thread has slept on a word, and goes on with what it went to sleep in: code that was not compiled by us, such as the
/// contended path of Rust's mutex, takes the lock then. Where that was an atomic operation at a guarded site, it comes now.
pub fn awoken(word: u64) {
    if is_on()
        && let Some(&mut ThreadState { last_atomic: (addr, size, site), .. }) = thread_state::current()
        && addr == word
        && site != 0
    {
        at_site(addr, size, site);
    }
}

/// Before an access at a guarded site: stalls where it may not come now.
#[inline(never)]
pub fn at_site(addr: u64, size: u64, site: u32) {
    let Some(state) = thread_state::current_or_adopt() else { return };
    if state.internal > 0 || size == 0 {
        return;
    }
    let here = arch::stack_pointer();
    state.doing.store(0, Ordering::Release);
    if state.guarding != 0 && is_interrupted(state, here) {
        return look(state, addr, size, site, false);
    }
    state.reentries = 0;
    set_guarding(state, here);
    look(state, addr, size, site, true);
    set_guarding(state, 0);
}

fn set_guarding(state: &mut ThreadState, frame: usize) {
    // SAFETY: I4: this thread's own state; a handler may come between this store and the next.
    unsafe { (&raw mut state.guarding).write_volatile(frame) };
}

/// Whether a handler has interrupted this thread's guard at work: then nobody stalls. Else the guard's frame is gone: a
/// handler jumped out of it. Frames above it tell; those below are believed for a while. To take a live one for gone
/// does no harm: its stall goes on without a place, and everything else is made to be interrupted.
fn is_interrupted(state: &mut ThreadState, here: usize) -> bool {
    state.reentries += 1;
    if here < state.guarding && state.reentries < REENTRIES {
        return true;
    }
    stall::abandon(state);
    false
}

fn look(state: &mut ThreadState, addr: u64, size: u64, site: u32, may_stall: bool) {
    let Some(table) = table() else { return };
    let said = addr;
    let (addr, size) = match table.shift(site) {
        None => (addr, size),
        // A colour is one location, whatever the sizes of its variables are.
        Some(shift) => (addr.wrapping_add_signed(i64::from(shift)), 1),
    };
    state.guarded = state.guarded.wrapping_add(1);
    let size = if size > RANGE {
        log::count(LogCounter::LongRanges, 1);
        RANGE
    } else {
        size
    };
    if table.flags & FLAG_LEARN != 0 {
        log::hit(site);
        let _ = attempt(state, addr, size, site, How::Learn);
        return;
    }
    let Err(violation) = attempt(state, addr, size, site, How::Check) else { return };
    let Violation { before, before_thread, own, .. } = violation;
    log::count(LogCounter::Violations, 1);
    let other = recorder::thread_of(before_thread);
    let slot = log::note(Note::Violation, site, (before, own), said, state.index, other);
    if table.flags & FLAG_WATCH != 0 || is_mute(slot) || sink::is_sealed() {
        let _ = attempt(state, addr, size, site, How::Force);
        return;
    }
    if !may_stall {
        log::count(LogCounter::Reentered, 1);
        let _ = attempt(state, addr, size, site, How::Force);
        return;
    }
    let clock = || match (gate::is_on(), sink::is_sealed()) {
        (true, _) => time::now(),
        (false, false) => sys::clock_ns(1),
        (false, true) => 0,
    };
    let begun = clock();
    if !is_patient(begun) {
        log::count(LogCounter::Spared, 1);
        let _ = attempt(state, addr, size, site, How::Force);
        return;
    }
    let who = core::ptr::from_mut(state);
    let mut awaited = 0;
    let mut settled = || {
        // SAFETY: I4: this thread's own state; `stall` does not touch the fields that `attempt` does.
        let state = unsafe { &mut *who };
        let before = look_at(state, violation.addr, site);
        let is_settled = attempt(state, addr, size, site, How::Check).is_ok();
        awaited = before.map_or(0, |reading| reading.before_thread);
        is_settled
    };
    let ended = stall::stall(state, violation.addr, site, most_ns(table, slot), &mut settled, &belongs);
    stalled(slot, clock().saturating_sub(begun), ended);
    if ended == Ended::Resolved {
        settle(awaited, violation.addr, SETTLE_AFTER_STALL_NS);
    } else {
        let _ = attempt(state, addr, size, site, How::Force);
    }
}

/// How long a thread stalls for a pair at most: half as long for each time that it was in vain, unless it ever paid.
fn most_ns(table: &Table<'_>, slot: Option<log::Slot>) -> u64 {
    match slot {
        Some(slot) if !gate::is_on() => table.stall_ns >> slot.in_vain().min(5),
        _ => table.stall_ns,
    }
}

/// A stall is over: notes it.
fn stalled(slot: Option<log::Slot>, ns: u64, ended: Ended) {
    if let Some(slot) = slot {
        slot.stalled(ns, ended);
    }
    if ended != Ended::Resolved {
        IN_VAIN.fetch_add(ns, Ordering::Relaxed);
    }
    log::count(ended.counter(), 1);
}

/// Whether stalls may still be made. Under control they cost no time.
fn is_patient(now: u64) -> bool {
    let run = now.saturating_sub(BEGUN.load(Ordering::Relaxed));
    gate::is_on() || IN_VAIN.load(Ordering::Relaxed) <= PATIENCE_NS + run / 100
}

/// Whether a pair is no longer stalled for.
fn is_mute(slot: Option<log::Slot>) -> bool {
    static MADE: AtomicU32 = AtomicU32::new(0);
    match slot {
        Some(slot) => slot.is_mute(MUTE, USUAL),
        None => MADE.load(Ordering::Relaxed) >= UNLOGGED || MADE.fetch_add(1, Ordering::Relaxed) >= UNLOGGED,
    }
}

/// Whether a pair that does not belong is no longer stalled for, so that it need not be looked at any more.
fn is_given_up(site: u32, before: u32, own: bool) -> bool {
    FLAGS.load(Ordering::Relaxed) & FLAG_WATCH == 0
        && log::find(Note::Violation, site, (before, own)).is_some_and(|slot| slot.is_mute(MUTE, USUAL))
}

/// Looks at every location of an access, then records it there. Where it must not come now, it is recorded nowhere.
fn attempt(state: &mut ThreadState, addr: u64, size: u64, site: u32, mut how: How) -> Result<(), Violation> {
    let end = addr.saturating_add(size);
    let words = || (addr >> 3..=(end - 1) >> 3).map(move |word| (word, addr.max(word << 3), end.min((word + 1) << 3)));
    if how == How::Check {
        // All must agree before one is recorded.
        for (word, from, to) in words() {
            let Some(block) = recorder::block(word >> (REGION_SHIFT - 3), true) else { continue };
            owner::come(block, word as usize, state.mark);
            let Some(cells) = block.cells_of(word as usize, (from & 7) as usize, (to - from) as usize) else {
                continue;
            };
            if cells.len() == 1 && to == end && from == addr {
                break;
            }
            for (cell, at) in cells.iter().zip(from..) {
                let reading = recorder::read(cell.load(Ordering::Acquire), state.mark, site);
                check(site, &reading, at)?;
            }
        }
    }
    // Once something is recorded, the rest is too: looked at again, it would seem to come after itself.
    let forced = |how: How| if how == How::Check { How::Force } else { how };
    for (word, from, to) in words() {
        let Some(block) = recorder::block(word >> (REGION_SHIFT - 3), true) else {
            log::count(LogCounter::NoMemory, 1);
            continue;
        };
        let shape = block.shape(word as usize);
        let mut this = how;
        loop {
            let Some(cells) = block.cells_of(word as usize, (from & 7) as usize, (to - from) as usize) else {
                log::count(LogCounter::NoMemory, 1);
                break;
            };
            for (cell, at) in cells.iter().zip(from..) {
                record(state, (block, word as usize, cell), site, at, this)?;
                this = forced(this);
            }
            // It may have been split meanwhile: then the bytes do not know yet.
            let again = block.cells_of(word as usize, (from & 7) as usize, (to - from) as usize);
            if again.is_none_or(|again| core::ptr::eq(again, cells)) {
                break;
            }
            this = How::Force;
        }
        how = forced(how);
        if shape.load(Ordering::SeqCst) & WAITED != 0 {
            stall::ring(from);
        }
    }
    Ok(())
}

/// What the cell of an address says to a thread.
pub fn look_at(state: &mut ThreadState, addr: u64, site: u32) -> Option<recorder::Reading> {
    let block = recorder::block(addr >> REGION_SHIFT, true)?;
    let known = block.known_of((addr >> 3) as usize, (addr & 7) as usize);
    Some(recorder::read(known, state.mark, site))
}

fn check(site: u32, reading: &recorder::Reading, addr: u64) -> Result<(), Violation> {
    if belongs(site, reading.before, reading.own) {
        return Ok(());
    }
    Err(Violation { addr, before: reading.before, before_thread: reading.before_thread, own: reading.own })
}

/// The thread is past its last access.
#[inline]
pub fn past() {
    if is_on()
        && let Some(state) = thread_state::current()
    {
        state.doing.store(0, Ordering::Release);
    }
}

/// What a thread is about to do, as others see it.
fn announcement(state: &ThreadState, addr: u64) -> u64 {
    (addr >> 3) << 16 | state.guarded & 0xffff
}

/// Whether that is an access to this word.
fn is_doing(doing: u64, addr: u64) -> bool {
    doing != 0 && doing >> 16 == (addr >> 3) & ((1 << 48) - 1)
}

/// Waits until a thread has made the access to this word that it has announced. See NOTE \[Hooks come first\].
fn settle(mark: u32, addr: u64, most_ns: u64) {
    if gate::is_on() || mark == 0 || sink::is_sealed() {
        return;
    }
    let own = thread_state::current().map_or(0, |state| state.index);
    let is_it = |other: &&ThreadState| match mark {
        recorder::EVERYBODY => other.index != own && is_doing(other.doing.load(Ordering::Acquire), addr),
        _ => recorder::thread_mark(other.index) == mark,
    };
    let Some(other) = threads().find(is_it) else { return };
    let doing = other.doing.load(Ordering::Acquire);
    if !is_doing(doing, addr) {
        return;
    }
    let begun = sys::clock_ns(1);
    while other.doing.load(Ordering::Acquire) == doing {
        match sys::clock_ns(1).saturating_sub(begun) {
            waited if waited >= most_ns => return,
            waited if waited < SETTLE_NS => core::hint::spin_loop(),
            _ => sys::nap(NAP_NS),
        }
    }
}

fn record(
    state: &mut ThreadState,
    (block, word, cell): (&recorder::Block, usize, &AtomicU64),
    site: u32,
    addr: u64,
    how: How,
) -> Result<(), Violation> {
    owner::come(block, word, state.mark);
    loop {
        let now = cell.load(Ordering::Acquire);
        let reading = recorder::read(now, state.mark, site);
        if how == How::Check {
            check(site, &reading, addr)?;
        }
        if reading.after != now && !owner::change_slowly(block, word, cell, now, reading.after, state.mark, site) {
            continue;
        }
        state.doing.store(announcement(state, addr), Ordering::Release);
        if how == How::Learn {
            settle(reading.before_thread, addr, SETTLE_NS);
            learn(state, site, &reading, addr);
        }
        return Ok(());
    }
}

/// Words that the program asked to be guarded (address / 8 + 1).
static ASKED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static ANY_ASKED: AtomicU32 = AtomicU32::new(0);

/// The program asks that an address be guarded: who touches it is noted while the guard learns.
pub fn ask(addr: u64) {
    let word = (addr >> 3) + 1;
    if !is_on() || ASKED.iter().any(|place| place.load(Ordering::Relaxed) == word) {
        return;
    }
    let free = |place: &&AtomicU64| place.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if ASKED.iter().find(free).is_some() {
        ANY_ASKED.store(1, Ordering::Relaxed);
    }
}

/// Pairs that were noted lately, by a hash of their key.
static KNOWN: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];

fn learn(state: &mut ThreadState, site: u32, reading: &recorder::Reading, addr: u64) {
    section::learn(state, site, addr);
    let state = &*state;
    let pair = |note: Note, other: u32, own: bool, thread: u32| {
        let key = selvedge_events::guard::key(note, site, other, own);
        let known = &KNOWN[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize & (KNOWN.len() - 1)];
        if known.load(Ordering::Relaxed) != key
            && log::note(note, site, (other, own), addr, state.index, thread).is_some()
        {
            known.store(key, Ordering::Relaxed);
        }
    };
    if ANY_ASKED.load(Ordering::Relaxed) != 0
        && ASKED.iter().any(|place| place.load(Ordering::Relaxed) == (addr >> 3) + 1)
    {
        pair(Note::Asked, 0, false, 0);
    }
    pair(Note::Member, reading.before, reading.own, recorder::thread_of(reading.before_thread));
    if reading.last != 0 && reading.last != site && reading.last != reading.before {
        pair(Note::Touch, reading.last, false, state.index);
    }
}

#[cfg(test)]
mod tests;
