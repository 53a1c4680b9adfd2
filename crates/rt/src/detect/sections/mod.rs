//! Atomic sections checked in the act: a thread is between two accesses of its own to a variable, and another thread makes an access
//! that no serial order explains.
//!
//! Paper: Letko, Vojnar, Křena, "AtomRace" (PADTAD 2008), section 3.2. The sections are in the plan ([`Noise::parts`]) or declared by
//! the program (`selvedge.h`); who is inside is in [`records`].
//!
//! NOTE: why every report is true. Three accesses were made to common bytes, in this order: the section's first by its thread, one by
//! another thread, and the end that the first thread is about to make and makes whatever happens. A hook comes before its
//! access; so a section counts as begun when its thread is *next* seen, and an access of another thread as made when that
//! thread is next seen (at a watched site, in a call that takes or gives a lock, at its end), or, for a write, when the value is no longer the one that
//! it was about to overwrite. Which accesses are allowed is said for each end by the serializability table. Whether the
//! code meant the section to be atomic is for refinement to tell, or for who declared it.
//!
//! What could break that, and does not:
//! - *Signal handlers* run between a hook and its access. When one begins or ends, its thread's sections are left and its filed
//!   accesses forgotten.
//! - *Threads that die* leave their sections; *a fork* leaves all of them in the child.
//! - *Exceptions and `longjmp`*: a section that lies in one function is left when that function begins again in the same place of the
//!   stack, or when its thread is seen in an outer frame. One that reaches over functions is left at its exits only.
//! - *Memory that is freed*: its sections are left.
//! - *Sites that are switched off* for the budget's sake are never those of sections.
//!
//! Departures from the paper:
//! - Every thread is followed, not only the first that enters, and a thread may be inside several sections: patterns overlap.
//! - Sections are of bytes, not of names: an end of other bytes leaves the section.
//! - A recursive section is followed once for each activation, innermost first; a circular one ends where it begins.
//! - Noise is put at ends, just before them, and inside where a thread has given a lock back or is about to take one.

pub mod records;

use core::sync::atomic::{AtomicU32, Ordering};

use selvedge_events::detect::{
    ANNOTATED, FLAG_SECTIONS, LogCounter, Noise, PART_ONE_FRAME, PART_READS, PART_WRITES, Part, PartKind,
};

use super::log;
use super::noise;
use super::slots::{Access, LINE_SHIFT};
use super::who::Who;
use super::{At, LIVE, mask, plan, unmask, value};
use crate::thread_state::{self, ThreadState};
use crate::{arch, sink};
use records::{Came, Filed, Record};

/// Sections that a thread may be inside at a time.
const OPEN: usize = 12;
/// Filed accesses of a thread that are not made yet.
const FILED: usize = 8;
/// Variables that a thread may declare at a time.
const DECLARED: usize = 8;
/// How long an end waits for an access that was filed and may not be made yet.
const PATIENCE_NS: u64 = 1_000_000;
/// How often it looks at the value meanwhile.
const LOOK_NS: u64 = 50_000;
/// The number of sections that the program declares.
const OWN_SECTION: u32 = u32::MAX;

static ON: AtomicU32 = AtomicU32::new(0);

/// A section that a thread is inside.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Open {
    access: Access,
    /// The value before the begin.
    value: u64,
    /// The frame that it began in; 0 where that is not known, or does not matter.
    frame: usize,
    /// `None` only in zeroed memory.
    record: Option<&'static Record>,
    section: u32,
    site: u32,
    /// Set once its own thread has written there: a changed value says nothing about others then.
    wrote: u32,
}

/// What a thread has of its own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Own {
    /// Where this code's frame is while it is at work; else 0.
    busy: usize,
    /// A handler has come meanwhile.
    spoiled: u32,
    count: u32,
    filed_count: u32,
    declared_count: u32,
    entered: u32,
    ended: u32,
    open: [Open; OPEN],
    filed: [Filed; FILED],
    declared: [(u64, u64); DECLARED],
}

/// Whether sections are checked.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed) != 0
}

/// Takes a plan into use.
pub fn begin(plan: &Noise<'_>) {
    ON.store(u32::from(plan.flags & FLAG_SECTIONS != 0), Ordering::Relaxed);
}

/// Whether a site takes part in a section.
pub fn has_part(site: u32) -> bool {
    is_on() && plan().is_some_and(|plan| plan.parts(site).next().is_some())
}

/// This thread's part, unless it must not be touched now.
fn own() -> Option<&'static mut ThreadState> {
    let state = thread_state::current_or_adopt()?;
    let here = arch::stack_pointer();
    let busy = state.detect.sections.busy;
    if busy != 0 {
        if here < busy {
            // A handler, in the middle of this.
            set_spoiled(state, 1);
            log::count(LogCounter::Reentered, 1);
            return None;
        }
        // A handler jumped out of it.
        set_busy(state, 0);
        leave_all(state);
    }
    if state.detect.busy != 0 || state.internal > 0 {
        return None;
    }
    Some(state)
}

fn set_busy(state: &mut ThreadState, frame: usize) {
    // SAFETY: I4: this thread's own state; a handler may come between this store and the next.
    unsafe { (&raw mut state.detect.sections.busy).write_volatile(frame) };
}

fn set_spoiled(state: &mut ThreadState, spoiled: u32) {
    // SAFETY: I4: as above.
    unsafe { (&raw mut state.detect.sections.spoiled).write_volatile(spoiled) };
}

/// Does something to the thread's sections that no handler may see half done.
fn at_work<T>(state: &mut ThreadState, work: impl FnOnce(&mut ThreadState) -> T) -> T {
    set_busy(state, arch::stack_pointer());
    let out = work(state);
    // SAFETY: I4: this thread's own state, which its handler may have changed.
    if unsafe { (&raw const state.detect.sections.spoiled).read_volatile() } != 0 {
        set_spoiled(state, 0);
        forget_filed(state);
        leave_all(state);
    }
    set_busy(state, 0);
    out
}

/// Before an access: its thread is past whatever it did before.
#[inline]
pub fn before(at: &At) {
    if let Some(state) = own() {
        if state.ignore > 0 {
            // What it does is not for us, so nothing is known of it.
            return at_work(state, leave_all);
        }
        let mine = &state.detect.sections;
        if mine.count != 0 || mine.filed_count != 0 {
            at_work(state, |state| come(state, at));
        }
    }
}

#[inline(never)]
fn come(state: &mut ThreadState, at: &At) {
    past(state);
    let Some(plan) = plan() else { return };
    leave_gone(state, at.registers.frame);
    for part in plan.parts(at.site).filter(|part| part.kind == PartKind::Leave) {
        leave(state, innermost(state, part.section));
    }
    // Noise, where this access ends a section or is inside one that the program declares.
    let ends = |part: Part| {
        part.kind == PartKind::End && innermost(state, part.section).is_some_and(|open| covers(state, open, at.access))
    };
    let first = plan.parts(at.site).find(|part| ends(*part)).and_then(|part| innermost(state, part.section));
    if let Some(open) = first.or_else(|| declared_at(state, at.access)) {
        pause(state, plan, open);
    }
}

/// After the detector has looked for races, right before the access.
#[inline]
pub fn after(at: &At, reads: bool) {
    let Some(state) = own().filter(|state| state.ignore == 0) else { return };
    let first = at.access.addr >> LINE_SHIFT;
    let last = at.access.addr.saturating_add(at.access.size - 1) >> LINE_SHIFT;
    let near = (first..=last).take(64).any(|line| records::near(line) != 0);
    let mine = &state.detect.sections;
    if near || mine.declared_count != 0 || has_part(at.site) {
        at_work(state, |state| go(state, at, reads));
    }
}

#[inline(never)]
fn go(state: &mut ThreadState, at: &At, reads: bool) {
    let Some(plan) = plan() else { return };
    let index = state.index;
    let Own { filed, filed_count, .. } = &mut state.detect.sections;
    let (mut fresh, mut count) = (*filed, *filed_count as usize);
    let who = || {
        let mut who = Who::here(state, at.access, at.site);
        who.walk(state, at.registers);
        who.value = value(at.access);
        who
    };
    records::file(index, at.access, reads, who, |one| {
        if let Some(room) = fresh.get_mut(count) {
            *room = one;
            count += 1;
        }
    });
    (state.detect.sections.filed, state.detect.sections.filed_count) = (fresh, count as u32);
    for part in plan.parts(at.site).filter(|part| part.kind == PartKind::End) {
        let Some(open) = innermost(state, part.section) else { continue };
        if covers(state, open, at.access) {
            let allowed = (part.flags & PART_READS != 0, part.flags & PART_WRITES != 0);
            end(state, at, open, part.branch, allowed);
        } else {
            // The end of another variable's section is a way out of this one's.
            leave(state, Some(open));
        }
    }
    if at.access.writes {
        let mine = &mut state.detect.sections;
        let open = mine.open.get_mut(..mine.count as usize).unwrap_or(&mut []);
        open.iter_mut().filter(|open| overlap(open.access, at.access)).for_each(|open| open.wrote = 1);
    }
    let enters = plan.parts(at.site).filter(|part| part.kind == PartKind::Enter);
    for part in enters {
        let again = innermost(state, part.section).filter(|open| is_again(state, *open, at));
        leave(state, again);
        let frame = if part.flags & PART_ONE_FRAME != 0 { at.registers.frame } else { 0 };
        enter(state, at, part.section, part.flags & (PART_READS | PART_WRITES), frame);
    }
    declared(state, at, reads);
}

/// Whether a section that is open begins again here: it has no frame of its own, or has this one.
fn is_again(state: &ThreadState, open: usize, at: &At) -> bool {
    let open = state.detect.sections.open.get(open);
    open.is_some_and(|open| open.frame == 0 || open.frame == at.registers.frame)
}

/// In what the program declares, every access begins a section that the next one ends.
fn declared(state: &mut ThreadState, at: &At, reads: bool) {
    let mine = &state.detect.sections;
    let all = mine.declared.get(..mine.declared_count as usize).unwrap_or(&[]);
    let inside = |(from, size): &(u64, u64)| {
        at.access.addr < from.saturating_add(*size) && *from < at.access.addr.saturating_add(at.access.size)
    };
    if !all.iter().any(inside) {
        return;
    }
    if let Some(open) = declared_at(state, at.access) {
        let began_with_write = mine.open.get(open).is_some_and(|open| open.access.writes);
        // The serializability table, of what the two accesses turned out to be.
        let only_writes = at.access.writes && !reads;
        let allowed = if began_with_write && only_writes { (false, true) } else { (true, false) };
        end(state, at, open, ANNOTATED, allowed);
    }
    let forbids = if at.access.writes { PART_READS | PART_WRITES } else { PART_WRITES };
    enter(state, at, OWN_SECTION, forbids, 0);
}

/// The declared section of these bytes that is open.
fn declared_at(state: &ThreadState, access: Access) -> Option<usize> {
    let mine = &state.detect.sections;
    let open = mine.open.get(..mine.count as usize)?;
    open.iter().rposition(|open| open.section == OWN_SECTION && overlap(open.access, access))
}

fn overlap(one: Access, two: Access) -> bool {
    one.addr < two.addr.saturating_add(two.size) && two.addr < one.addr.saturating_add(one.size)
}

/// Where the innermost open section of this number is.
fn innermost(state: &ThreadState, section: u32) -> Option<usize> {
    let mine = &state.detect.sections;
    mine.open.get(..mine.count as usize)?.iter().rposition(|open| open.section == section)
}

fn covers(state: &ThreadState, open: usize, access: Access) -> bool {
    state.detect.sections.open.get(open).is_some_and(|open| overlap(open.access, access))
}

fn enter(state: &mut ThreadState, at: &At, section: u32, forbids: u32, frame: usize) {
    let Some(access) = at.access.announced() else { return };
    let count = state.detect.sections.count as usize;
    let record = if count < OPEN { records::open(state.index, access, forbids) } else { None };
    let Some(record) = record else { return log::count(LogCounter::SectionsCrowded, 1) };
    let mine = &mut state.detect.sections;
    if let Some(room) = mine.open.get_mut(count) {
        *room = Open { access, value: value(access), frame, record: Some(record), section, site: at.site, wrote: 0 };
        mine.count += 1;
        mine.entered += 1;
        if mine.entered >= 256 {
            tell(state);
        }
    }
}

/// A section is about to end with an access.
fn end(state: &mut ThreadState, at: &At, open: usize, branch: u32, allowed: (bool, bool)) {
    let Some(one) = state.detect.sections.open.get(open).copied() else { return };
    let Some(record) = one.record else { return };
    let (reads, writes) = allowed;
    let mut broken = false;
    for (slot_writes, allowed) in [(false, reads), (true, writes)] {
        // An update is filed as the write that it is: that it reads too is not told.
        if !allowed
            && let Some(who) = settle(state, record, slot_writes, one.wrote == 0)
            && overlap(who.access, at.access)
            && overlap(who.access, one.access)
        {
            let mut ending = Who::here(state, at.access, at.site);
            ending.walk(state, at.registers);
            ending.value = value(at.access);
            log::count(LogCounter::Violations, 1);
            log::violation(branch, (one.site, one.access, one.value), &who, &ending);
            broken = true;
        }
    }
    log::branch(branch, broken);
    state.detect.sections.ended += 1;
    close(state, open);
}

/// Waits until an access that was filed is surely made; `None` where it is not, or there is none.
fn settle(state: &mut ThreadState, record: &'static Record, writes: bool, by_value: bool) -> Option<Who> {
    let begun = arch::counter();
    loop {
        match record.came(writes) {
            None if !record.is_filed() => return None,
            Some(Came::Made(who)) => return Some(who),
            // Somebody has written: it was this one, or yet another that comes between as well.
            Some(Came::Pending(who))
                if writes && by_value && who.access.size <= 8 && value(who.access) != who.value =>
            {
                return Some(who);
            }
            // Two that wait for each other: one goes on.
            Some(Came::Pending(who)) if state.detect.sections.filed_count != 0 && who.thread < state.index => break,
            _ => {}
        }
        if noise::nanos(arch::counter().wrapping_sub(begun)) >= PATIENCE_NS || sink::is_sealed() {
            break;
        }
        record.wait(LOOK_NS, || matches!(record.came(writes), Some(Came::Made(_))));
    }
    if record.came(writes).is_some() {
        log::count(LogCounter::Unsure, 1);
    }
    None
}

/// Waits inside a section, until somebody comes.
fn pause(state: &mut ThreadState, plan: &Noise<'_>, open: usize) {
    let record = state.detect.sections.open.get(open).and_then(|open| open.record);
    let Some(record) = record.filter(|record| !record.is_filed() && !sink::is_sealed()) else { return };
    if LIVE.load(Ordering::Relaxed) < 2 {
        return;
    }
    let account = &mut state.detect.account;
    if !account.chance(plan.aimed) {
        return;
    }
    let ns = account.duration(plan.duration_ns);
    let Some(ns) = account.may(ns, plan.budget, plan.kind, noise::Class::Aimed).filter(|ns| *ns > 0) else { return };
    let signals = mask(state);
    let begun = arch::counter();
    record.wait(ns, || record.is_filed());
    let waited = noise::nanos(arch::counter().wrapping_sub(begun));
    unmask(state, signals);
    state.detect.account.waited(waited);
    log::count(LogCounter::Waits, 1);
    log::count(LogCounter::WaitedNs, waited);
}

/// The thread is past its last access: its sections have begun, what it filed is made.
fn past(state: &mut ThreadState) {
    let mine = &mut state.detect.sections;
    for open in mine.open.get(..mine.count as usize).unwrap_or(&[]) {
        if let Some(record) = open.record {
            record.set_inside();
        }
    }
    for filed in mine.filed.get(..mine.filed_count as usize).unwrap_or(&[]) {
        filed.made();
    }
    mine.filed_count = 0;
}

fn forget_filed(state: &mut ThreadState) {
    state.detect.sections.filed_count = 0;
}

fn close(state: &mut ThreadState, open: usize) {
    let mine = &mut state.detect.sections;
    let count = mine.count as usize;
    if open < count && count <= OPEN {
        if let Some(record) = mine.open[open].record {
            record.close();
        }
        mine.open.copy_within(open + 1..count, open);
        mine.count -= 1;
    }
}

fn leave(state: &mut ThreadState, open: Option<usize>) {
    if let Some(open) = open {
        log::count(LogCounter::LeftOpen, 1);
        close(state, open);
    }
}

fn leave_where(state: &mut ThreadState, is_over: impl Fn(&Open) -> bool) {
    loop {
        let mine = &state.detect.sections;
        let at = mine.open.get(..mine.count as usize).unwrap_or(&[]).iter().position(&is_over);
        if at.is_none() {
            return;
        }
        leave(state, at);
    }
}

fn leave_all(state: &mut ThreadState) {
    leave_where(state, |_| true);
}

/// Leaves sections whose frame is gone.
fn leave_gone(state: &mut ThreadState, frame: usize) {
    leave_where(state, |open| frame != 0 && open.frame != 0 && frame > open.frame);
}

/// At a block, or where a function begins or ends.
pub fn passed(site: u32, frame: usize) {
    let Some(state) = own() else { return };
    let mine = &state.detect.sections;
    if mine.count == 0 && mine.filed_count == 0 {
        return;
    }
    at_work(state, |state| {
        past(state);
        let Some(plan) = plan() else { return };
        for part in plan.parts(site) {
            match part.kind {
                PartKind::Begin => leave_where(state, |open| {
                    open.section == part.section && (open.frame == 0 || frame == 0 || open.frame <= frame)
                }),
                // Of this activation, where that is known.
                PartKind::Leave => {
                    let open = innermost(state, part.section);
                    let other = |open: &Open| open.frame != 0 && frame != 0 && open.frame > frame;
                    leave(state, open.filter(|at| !state.detect.sections.open.get(*at).is_some_and(other)));
                }
                PartKind::Enter | PartKind::End => {}
            }
        }
        leave_gone(state, frame);
    });
}

/// The thread is about to take a lock, or has just given one back: others may come now.
pub fn between() {
    if !is_on() {
        return;
    }
    let Some(state) = thread_state::current() else { return };
    if state.detect.sections.count == 0 && state.detect.sections.filed_count == 0 {
        return;
    }
    let (Some(state), Some(plan)) = (own(), plan()) else { return };
    at_work(state, |state| {
        past(state);
        if let Some(last) = (state.detect.sections.count as usize).checked_sub(1) {
            pause(state, plan, last);
        }
    });
}

/// The thread gives a lock back: it is past its last access.
pub fn gives() {
    if is_on()
        && let Some(state) = thread_state::current()
        && (state.detect.sections.count != 0 || state.detect.sections.filed_count != 0)
        && let Some(state) = own()
    {
        at_work(state, past);
    }
}

/// A handler of the guest begins or ends on this thread.
pub fn handler() {
    if !is_on() {
        return;
    }
    if let Some(state) = thread_state::current()
        && state.detect.sections.busy != 0
    {
        // In the middle of this code, on whatever stack: it is left alone until that is done.
        set_spoiled(state, 1);
        return set_busy(state, usize::MAX);
    }
    if let Some(state) = own() {
        at_work(state, |state| {
            forget_filed(state);
            leave_all(state);
        });
    }
}

/// Memory is freed.
pub fn freed(block: u64, size: u64) {
    if is_on()
        && let Some(state) = thread_state::current()
        && state.detect.sections.count != 0
        && let Some(state) = own()
    {
        let inside = |open: &Open| open.access.addr >= block && open.access.addr - block < size.max(1);
        at_work(state, |state| leave_where(state, inside));
    }
}

/// The program declares that what the thread does to these bytes is atomic, until it says otherwise.
pub fn declare(addr: u64, size: u64) {
    if is_on()
        && let Some(state) = own()
    {
        at_work(state, |state| {
            let mine = &mut state.detect.sections;
            match mine.declared.get_mut(mine.declared_count as usize) {
                Some(room) => {
                    *room = (addr, size.max(1));
                    mine.declared_count += 1;
                }
                None => log::count(LogCounter::SectionsCrowded, 1),
            }
        });
    }
}

/// The program says that it is over.
pub fn undeclare(addr: u64) {
    if !is_on() {
        return;
    }
    let Some(state) = own() else { return };
    at_work(state, |state| {
        past(state);
        let mine = &mut state.detect.sections;
        let all = mine.declared.get_mut(..mine.declared_count as usize).unwrap_or(&mut []);
        let Some(at) = all.iter().rposition(|(from, _)| *from == addr) else { return };
        let size = all.get(at).map_or(0, |(_, size)| *size);
        all.get_mut(at..).unwrap_or(&mut []).rotate_left(1);
        mine.declared_count -= 1;
        let inside = |open: &Open| {
            open.section == OWN_SECTION && open.access.addr < addr.saturating_add(size) && addr < open.access.addr + 64
        };
        // Its end is the code's own: nobody broke anything that was not told.
        while let Some(open) = {
            let mine = &state.detect.sections;
            mine.open.get(..mine.count as usize).unwrap_or(&[]).iter().position(inside)
        } {
            close(state, open);
        }
    });
}

/// Writes what is not in the log yet.
pub fn tell(state: &mut ThreadState) {
    let mine = &mut state.detect.sections;
    log::count(LogCounter::Entered, u64::from(core::mem::take(&mut mine.entered)));
    log::count(LogCounter::Ended, u64::from(core::mem::take(&mut mine.ended)));
}

/// A thread ends: it is past all that it did, and inside nothing.
pub fn end_thread(state: &mut ThreadState) {
    if is_on() {
        set_busy(state, 0);
        past(state);
        leave_all(state);
        tell(state);
    }
}

/// In a forked child: nobody is inside anything, not even the calling thread.
pub fn after_fork(state: Option<&mut ThreadState>) {
    if is_on() {
        records::clear_all();
        if let Some(state) = state {
            let mine = &mut state.detect.sections;
            (mine.count, mine.filed_count) = (0, 0);
        }
    }
}
