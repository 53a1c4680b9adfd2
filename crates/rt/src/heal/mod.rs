//! Healing: while a thread is inside an atomic section, others are kept out of sections of the same variable.
//!
//! Paper: Letko, Vojnar, Křena, "AtomRace" (PADTAD 2008), section 5. The sections, and how others are kept out of each,
//! are in the plan's table ([`selvedge_events::heal`]); who is inside is in [`lock`]; what happened is in the [`log`].
//!
//! Departures from the paper:
//! - A hook comes before its access, so a section is not over at the hook of its end. It is over when its thread is next
//!   seen: at the sites that the table has for that, at any interposed call, and under control at its next point.
//! - A single access that conflicts with a section is a section of its own.
//! - A lock is no promise: a wait is bounded, and skipped where threads wait for each other ([`lock`]). A thread that is
//!   about to wait for others inside a section gives its locks back.
//! - Priorities are lowered, not raised: that needs no privilege. Whoever comes to a section steps behind the others.
//!
//! A section is also over when its thread ends, in a forked child, and, where it lies in one function, as soon as its thread
//! is seen outside that function's frame (an exception, `longjmp`).
//!
//! Under control the check comes after the point: the strategy has chosen who goes on, healing may make it wait.

pub mod lock;
pub mod log;

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use selvedge_events::heal::{FLAG_ONE_FRAME, LogCounter, Role, RoleKind, Table};

use crate::thread_state::{self, ThreadState};
use crate::{arch, guard, sys};

/// The table, in pages of ours; 0 while there is none.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// The first id that is armed for healing alone.
static OWN_FROM: AtomicU32 = AtomicU32::new(u32::MAX);
/// Where the log goes: inside the plan's mapping.
static DIR_AT: AtomicUsize = AtomicUsize::new(0);
static DIR_LEN: AtomicUsize = AtomicUsize::new(0);

/// How often a thread may go from one section to the next of a lock that another one has waited for for long.
const MOST_PASSED_ON: u32 = 2;
/// Sections that a thread may be inside at a time.
const OPEN: usize = 16;

/// A section that a thread is inside.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Open {
    addr: u64,
    /// The frame that it began in; 0 where that is not known, or does not matter.
    frame: usize,
    section: u32,
    lock: u32,
    /// Set at the hook of an end.
    ended: u32,
}

/// What a thread has of its own.
#[derive(Debug)]
#[repr(C)]
pub struct Own {
    /// Where healing's frame is while it is at work; else 0.
    busy: usize,
    count: u32,
    /// How often it went from one section to the next of the same lock while others have waited for that for long.
    passed_on: u32,
    /// The lock that it waits for; others look at it.
    pub waiting: AtomicU32,
    open: [Open; OPEN],
}

/// Whether this process is healed.
#[inline(always)]
pub fn is_on() -> bool {
    TABLE.load(Ordering::Relaxed) != 0
}

fn table() -> Option<&'static Table<'static>> {
    let at = TABLE.load(Ordering::Acquire);
    // SAFETY: I6: written once by `begin` before it was announced, in pages that are never unmapped.
    (at != 0).then(|| unsafe { &*(at as *const Table<'static>) })
}

/// Takes a table into use.
pub fn begin(payload: &'static [u8], dir: &'static [u8]) -> Result<(), &'static str> {
    const DAMAGED: &str = "its table is damaged";
    if Table::parse(payload).is_err() {
        return Err(DAMAGED);
    }
    let copy_at = size_of::<Table<'static>>().next_multiple_of(64);
    let Ok(page) = sys::mmap_anonymous((copy_at + payload.len()).next_multiple_of(4096)) else {
        return Err("there is no memory");
    };
    // The plan's file may be cut while the program runs: what is looked at all the time must not be in its mapping.
    // SAFETY: fresh pages of ours with room for both.
    let payload = unsafe {
        core::ptr::copy_nonoverlapping(payload.as_ptr(), (page + copy_at) as *mut u8, payload.len());
        core::slice::from_raw_parts((page + copy_at) as *const u8, payload.len())
    };
    let Ok(parsed) = Table::parse(payload) else { return Err(DAMAGED) };
    // SAFETY: fresh pages of ours.
    unsafe { (page as *mut Table<'static>).write(parsed) };
    DIR_AT.store(dir.as_ptr() as usize, Ordering::Relaxed);
    DIR_LEN.store(dir.len(), Ordering::Relaxed);
    OWN_FROM.store(parsed.own_from, Ordering::Relaxed);
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

/// The site of an armed id; 0 where it takes no part.
#[inline]
pub fn site_of(id: u32) -> u32 {
    table().map_or(0, |table| table.site_of(id))
}

/// Whether a site is armed for healing alone.
pub fn is_own(id: u32) -> bool {
    is_on() && id >= OWN_FROM.load(Ordering::Relaxed) && site_of(id) != 0
}

/// Before an access at an armed site, which need not take part.
#[inline]
pub fn access(addr: u64, size: u64, id: u32) {
    if is_on() {
        let site = site_of(id);
        if site != 0 && size > 0 {
            at_site(Some(addr), site, arch::take_frame());
        }
    }
}

/// At a site that is no access.
#[inline]
pub fn passed(id: u32, frame: usize) {
    if let Some(state) = thread_state::current()
        && state.heal.count != 0
    {
        at_site(None, site_of(id), frame);
    }
}

/// Before what a site does: sections that are over are left, those that end here end, those that begin here begin.
#[inline(never)]
fn at_site(addr: Option<u64>, site: u32, frame: usize) {
    let (Some(state), Some(table)) = (thread_state::current_or_adopt(), table()) else { return };
    if state.internal > 0 || state.in_gate != 0 {
        return;
    }
    let here = arch::stack_pointer();
    // A handler has interrupted healing at work; or it jumped out of it, and the frame is gone.
    if state.heal.busy != 0 && here < state.heal.busy {
        return log::count(LogCounter::Reentered, 1);
    }
    set_busy(state, here);
    leave_ended(state);
    for role in table.roles(site).filter(|role| role.kind == RoleKind::Leave) {
        close(state, innermost(state, role.section));
    }
    leave_gone(state, frame);
    for role in table.roles(site).filter(|role| role.kind == RoleKind::End) {
        let inside = innermost(state, role.section);
        match inside.and_then(|at| state.heal.open.get_mut(at)) {
            Some(open) if addr.is_some_and(|addr| lock::is_same(open.addr, addr)) => open.ended = 1,
            // The end of another variable's section is a way out of this one's.
            Some(_) => close(state, inside),
            None => {}
        }
    }
    if let Some(addr) = addr {
        for role in table.roles(site).filter(|role| matches!(role.kind, RoleKind::Enter | RoleKind::Only)) {
            enter(state, table, role, addr, frame);
        }
    }
    set_busy(state, 0);
}

fn set_busy(state: &mut ThreadState, frame: usize) {
    // SAFETY: I4: this thread's own state; a handler may come between this store and the next.
    unsafe { (&raw mut state.heal.busy).write_volatile(frame) };
}

/// Where the innermost open section of this number is.
fn innermost(state: &ThreadState, section: u32) -> Option<usize> {
    let own = &state.heal;
    let open = own.open.get(..own.count as usize)?;
    open.iter().rposition(|open| open.section == section && open.ended == 0)
}

/// Whether a thread goes from section to section of a lock and never leaves it: round and round in one, as who spins until another thread
/// has done something, or from one to the next.
fn goes_round(state: &mut ThreadState, number: u32, section: u32) -> bool {
    let open = state.heal.open.get(..state.heal.count as usize).unwrap_or(&[]);
    let mut ended = open.iter().filter(|open| open.lock == number && open.ended != 0).peekable();
    if ended.peek().is_none() {
        return false;
    }
    let again = ended.any(|open| open.section == section);
    state.heal.passed_on += 1;
    again || state.heal.passed_on > MOST_PASSED_ON
}

fn enter(state: &mut ThreadState, table: &Table<'_>, role: Role, addr: u64, frame: usize) {
    let section = role.section;
    if state.heal.count as usize >= OPEN {
        return log::count(LogCounter::TooMany, 1);
    }
    let number = lock::of(addr);
    let (how, flags) = table.section(section);
    if lock::has(state, number) {
        if lock::is_wanted(number) && goes_round(state, number, section) {
            return log::came(section, log::Came::Spared, 0);
        }
        log::came(section, log::Came::Free, 0);
    } else if lock::enter(state, number, section, how, table.wait_ns) {
        state.heal.passed_on = 0;
    } else {
        return;
    }
    let frame = if flags & FLAG_ONE_FRAME != 0 { frame } else { 0 };
    let count = state.heal.count as usize;
    if let Some(room) = state.heal.open.get_mut(count) {
        *room = Open { addr, frame, section, lock: number, ended: u32::from(role.kind == RoleKind::Only) };
        state.heal.count += 1;
    }
}

/// Closes a section; its lock is given back with the last that needs it.
fn close(state: &mut ThreadState, at: Option<usize>) {
    let own = &mut state.heal;
    let count = own.count as usize;
    let Some(at) = at.filter(|at| *at < count && count <= OPEN) else { return };
    let number = own.open[at].lock;
    own.open.copy_within(at + 1..count, at);
    own.count -= 1;
    let left = own.open.get(..count - 1).unwrap_or(&[]);
    if !left.iter().any(|open| open.lock == number) {
        lock::give(state, number);
    }
}

/// Closes the first section of which this is true.
fn close_where(state: &mut ThreadState, is_over: impl Fn(&Open) -> bool) -> bool {
    let open = state.heal.open.get(..state.heal.count as usize).unwrap_or(&[]);
    let at = open.iter().position(is_over);
    close(state, at);
    at.is_some()
}

/// Closes the sections that have ended.
fn leave_ended(state: &mut ThreadState) {
    while close_where(state, |open| open.ended != 0) {}
}

/// Closes the sections whose frame is gone.
fn leave_gone(state: &mut ThreadState, frame: usize) {
    while close_where(state, |open| frame != 0 && open.frame != 0 && frame > open.frame) {
        log::count(LogCounter::FramesGone, 1);
    }
}

/// The thread is past its last access.
#[inline]
pub fn past() {
    if is_on()
        && let Some(state) = thread_state::current()
        && state.heal.count != 0
        && state.heal.busy == 0
    {
        leave_ended(state);
    }
}

/// The thread calls an interposed function that may block.
#[inline]
pub fn calls(state: &mut ThreadState, slot: u16) {
    if !is_on() || state.heal.count == 0 || state.heal.busy != 0 {
        return;
    }
    leave_ended(state);
    if guard::waits_for_others(slot) && state.heal.count != 0 {
        log::count(LogCounter::GivenUp, u64::from(state.heal.count));
        close_all(state);
    }
}

fn close_all(state: &mut ThreadState) {
    while let Some(last) = (state.heal.count as usize).checked_sub(1) {
        close(state, Some(last));
    }
}

/// A thread ends.
pub fn leave(state: &mut ThreadState) {
    if is_on() {
        state.heal.busy = 0;
        leave_ended(state);
        if state.heal.count != 0 {
            log::count(LogCounter::ThreadsGone, u64::from(state.heal.count));
            close_all(state);
        }
        state.heal.waiting.store(0, Ordering::Release);
    }
}

/// In a forked child: nobody is inside a section, not even the calling thread.
pub fn after_fork(state: Option<&mut ThreadState>) {
    if is_on() {
        lock::after_fork();
        if let Some(state) = state {
            state.heal.count = 0;
            state.heal.waiting.store(0, Ordering::Relaxed);
        }
    }
}
