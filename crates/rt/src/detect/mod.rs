//! Races in the act: before an access a thread announces it, waits a little, and looks who comes.
//!
//! Paper: Letko, Vojnar, Křena, "AtomRace" (PADTAD 2008), sections 3.1 and 3.3: the primitive atomic section lies inside
//! the hook. Relatives: KCSAN (Linux), whose watchpoints our announcements are, and TSVD (SOSP 2019), whose near
//! misses say where the next run should wait.
//!
//! NOTE: why every report is true. A hook comes right before its access; between the two the thread synchronises
//! with nobody. [`slots::meet`] succeeds for at most one thread, and only while the announcement stands. At that instant
//! the owner is inside its hook, and so is who met it; each is about to make its access, whatever the other does. Two
//! accesses that are both about to happen are ordered by nothing. They overlap in at least one byte, one of them writes, and
//! not both are atomic operations: that is a data race by the definition of C, C++ and Rust. No lock, happens-before
//! relation or kind of synchronisation is known to this code, so none can be missed.
//!
//! What could break that, and does not:
//! - *Signal handlers of the owner.* All but fault signals are blocked while an announcement stands (`BLOCKED`), so a handler can
//!   neither access anything in between nor leave by `longjmp` with the announcement standing. The thread that
//!   meets blocks them too until it has answered. While it stands, nothing of the guest's is touched, so there are no faults
//!   (where values are compared, one that comes all the same finds [`Own::busy`]). A thread never meets itself.
//! - *Threads that die.* Cancellation is a signal. What ends a thread otherwise is the thread itself, which is in our code.
//! - *Fork.* The child clears all slots before code of the guest runs. A child of a bare system call does not; so each
//!   announcement says in which process it was made, and one of another process is thrown away.
//! - *Ranges.* Copies and fills are looked at line by line, and announced for their first line; hooks of one copy (source,
//!   then destination) both come before the copy.
//! - *Atomic operations* are performed inside their own hook, after the announcement is withdrawn: nothing lies between.
//! - *`volatile`* accesses have hooks of their own and are not watched unless asked for.
//! - *Freed memory.* Who announces an access to a block makes it, also if the block is freed meanwhile: that is a race too.
//! - *A value that changed* while nobody was seen is noted only where asked for, and as such: the writer may be
//!   code without instrumentation, the kernel or another process.
//!
//! Departures from the paper:
//! - One announcement is met by one other access; the wait then ends early.
//! - Exact bytes, not variables; accesses of different sizes meet.
//! - A withdrawn announcement lingers for a moment: who conflicts with it then, and holds no lock in common, nearly raced, and
//!   gets the noise in the next run.
//! - No noise while one thread lives: initialisation costs checks only.

pub mod bursts;
pub mod log;
pub mod noise;
pub mod sections;
pub mod slots;
pub mod switch;
pub mod who;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::detect::{
    Aim, FLAG_ATOMICS, FLAG_EAGER, FLAG_VALUES, FLAG_VOLATILE, Heuristic, LogCounter, MOST_SITES, NO_BUDGET, Noise,
    UNSEEN,
};

use crate::modules::{self, Module};
use crate::thread_state::{self, ThreadState};
use crate::{arch, entry, sink, sys};
use log::{Hit, Noted};
use noise::{Account, Class, NEVER};
use slots::{Access, BUCKETS, There};
use who::{HELD, Registers, Who};

/// What the plan says, in pages of ours; 0 while there is nothing.
static NOISE: AtomicUsize = AtomicUsize::new(0);
/// The process that this is.
static PID: AtomicU32 = AtomicU32::new(0);
/// Threads that live.
static LIVE: AtomicU32 = AtomicU32::new(0);

/// Signals that are blocked while an announcement stands: all but those that an instruction itself brings about.
const BLOCKED: u64 = !(bit(4) | bit(5) | bit(7) | bit(8) | bit(11) | bit(31));

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Lines of a long range that are looked at.
const LINES: u64 = 64;
/// What comes without an entry of its own takes as long as so many checks, and these lines as long as one.
const ENTRY_WEIGHT: i32 = 4;
const LINES_OF_A_CHECK: i32 = 2;
/// How long the owner of an announcement that was met waits for who met it.
const PATIENCE_NS: u64 = 100_000_000;
/// How long it then waits for the other's access, so that its effect can be seen.
const GRACE_NS: u64 = 2_000;
/// Looks of the thread that left a mark, or at other addresses of its bucket, before the mark goes.
const MARK_LOOKS: u32 = 8;

/// What belongs to an announcement, beside its word.
#[derive(Debug)]
struct Beside {
    /// I11: touched only by who has taken or met the slot.
    who: UnsafeCell<Who>,
    /// Rung when who met it has answered.
    bell: AtomicU32,
    /// The answer: [`Noted::as_word`].
    noted: AtomicUsize,
    /// The process that it was made in.
    pid: AtomicU32,
    /// When it was withdrawn, in ticks.
    withdrawn: AtomicU64,
    /// The thread of a mark, and how many more looks it bears.
    marked_by: AtomicU32,
    looks: AtomicU32,
}

// SAFETY: I11: the cell is touched only by who has pinned the slot's word, and words are atomics.
unsafe impl Sync for Beside {}

static BESIDE: [Beside; BUCKETS] = [const {
    Beside {
        who: UnsafeCell::new(Who::NOBODY),
        bell: AtomicU32::new(0),
        noted: AtomicUsize::new(0),
        pid: AtomicU32::new(0),
        withdrawn: AtomicU64::new(0),
        marked_by: AtomicU32::new(0),
        looks: AtomicU32::new(0),
    }
}; BUCKETS];

/// What a thread has of its own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Own {
    /// Set while the detector is at work.
    pub busy: u32,
    /// Locks held.
    pub held: u32,
    /// These locks, outermost first: address, and where taken.
    pub locks: [(u64, u64); HELD],
    /// Where the thread's stack is.
    pub stack: (usize, usize),
    /// What its noise costs.
    pub account: Account,
    /// The atomic sections that it is inside.
    pub sections: sections::Own,
}

/// Whether this process is watched.
#[inline(always)]
pub fn is_on() -> bool {
    NOISE.load(Ordering::Relaxed) != 0
}

/// Whether all that is to be known of locks is who holds them: whoever detects does nothing else (`lifecycle::intervene`), and no section ends at one.
#[inline(always)]
pub fn only_holds() -> bool {
    is_on() && !sections::is_on()
}

fn plan() -> Option<&'static Noise<'static>> {
    let at = NOISE.load(Ordering::Acquire);
    // SAFETY: I6: written once by `begin` before it was announced, in pages that are never unmapped.
    (at != 0).then(|| unsafe { &*(at as *const Noise<'static>) })
}

/// Takes a payload into use; the log goes to `dir`.
pub fn begin(payload: &'static [u8], dir: &'static [u8]) -> Result<(), &'static str> {
    let Ok(parsed) = Noise::parse(payload) else { return Err("its table is damaged") };
    let Ok(page) = sys::mmap_anonymous(size_of::<Noise<'static>>().next_multiple_of(4096)) else {
        return Err("there is no memory");
    };
    // SAFETY: fresh pages of ours.
    unsafe { (page as *mut Noise<'static>).write(parsed) };
    PID.store(sys::getpid(), Ordering::Relaxed);
    log::open(&parsed, dir);
    sections::begin(&parsed);
    if parsed.budget != NO_BUDGET {
        let sites = parsed.sites.min(MOST_SITES);
        switch::begin(sites, parsed.bodies, parsed.begin_off);
        bursts::begin(sites, parsed.seed);
    }
    noise::begin(parsed.budget, (0..parsed.sites).any(|site| matches!(parsed.site(site).0, Aim::Aimed | Aim::Rare)));
    noise::calibrate(entry::watched::measure);
    NOISE.store(page, Ordering::Release);
    Ok(())
}

/// Whether atomic operations are watched.
pub fn watches_atomics() -> bool {
    plan().is_some_and(|plan| plan.flags & FLAG_ATOMICS != 0)
}

/// Whether `volatile` accesses are watched.
pub fn watches_volatile() -> bool {
    plan().is_some_and(|plan| plan.flags & FLAG_VOLATILE != 0)
}

/// How a site takes part.
pub fn class_of(site: u32) -> Class {
    match plan().map_or(Aim::Quiet, |plan| plan.site(site).0) {
        Aim::Quiet => Class::Quiet,
        Aim::Usual => Class::Usual,
        Aim::Aimed => Class::Aimed,
        Aim::Rare => Class::Rare,
    }
}

/// An image was loaded.
pub fn loaded(module: &Module<'_>) {
    if is_on() {
        log::module(module);
    }
}

/// A thread lives: the calling one.
pub fn enter(state: &mut ThreadState) {
    if let Some(plan) = plan() {
        let own = &mut state.detect.account;
        if !own.begin(plan.seed, state.index) {
            // A fiber that goes on.
            return;
        }
        draw(state);
    }
}

/// There is a thread more, or will be in a moment: its maker is not alone from now on.
pub fn one_more() {
    if LIVE.fetch_add(1, Ordering::Relaxed) == 1 {
        if let Some(state) = thread_state::current() {
            draw(state);
        }
        bursts::start();
    }
}

/// Whether there is one thread at most.
fn is_alone() -> bool {
    LIVE.load(Ordering::Relaxed) < 2
}

/// Draws the calling thread's first distances.
fn draw(state: &mut ThreadState) {
    let Some(plan) = plan() else { return };
    let own = &mut state.detect.account;
    for (class, strength) in [(Class::Usual, plan.strength), (Class::Aimed, plan.aimed), (Class::Rare, plan.strength)] {
        let left = u32::try_from(arch::due(class as usize)).unwrap_or(0);
        own.unused(class, left);
        let gap = own.next_gap(class, strength, plan.flags & FLAG_EAGER != 0);
        arch::set_due(class as usize, gap as i32 - 1);
    }
}

/// There is one less.
pub fn one_less() {
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

/// A thread's stack is known.
pub fn stack(state: &mut ThreadState, low: usize, high: usize) {
    state.detect.stack = (low, high);
}

/// A thread ends.
pub fn leave(state: &mut ThreadState) {
    if is_on() {
        sections::end_thread(state);
        state.detect.account.tell();
        one_less();
    }
}

/// The process ends.
pub fn finish() {
    if is_on()
        && let Some(state) = thread_state::current()
    {
        state.detect.account.tell();
        sections::tell(state);
    }
}

/// In a forked child: the calling thread is the only one, and nobody announces anything.
pub fn after_fork() {
    if is_on() {
        forget_all();
        sections::after_fork(thread_state::current());
        LIVE.store(1, Ordering::Relaxed);
        switch::after_fork();
        bursts::after_fork();
    }
}

fn forget_all() {
    slots::clear_all();
    for beside in &BESIDE {
        beside.bell.store(0, Ordering::Relaxed);
    }
    PID.store(sys::getpid(), Ordering::Relaxed);
}

/// A lock was taken.
#[inline]
pub fn took(lock: usize, pc: usize) {
    if is_on()
        && let Some(state) = thread_state::current()
    {
        who::took(state, lock as u64, pc as u64);
        sections::gives();
    }
}

/// A lock is given back.
#[inline]
pub fn gave(lock: usize) {
    if is_on()
        && let Some(state) = thread_state::current()
    {
        who::gave(state, lock as u64);
        sections::gives();
    }
}

/// An access at a site: what the entries hand over.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// What.
    pub access: Access,
    /// The armed id.
    pub site: u32,
    /// How the site takes part.
    pub class: Class,
    /// Of the hook's caller.
    pub registers: Registers,
}

/// Before an access whose bucket is not empty, or that is to be considered.
#[inline(never)]
pub fn slow(at: At) {
    let Some(state) = thread_state::current_or_adopt() else {
        // The thread has ended, for us.
        return arch::set_due(at.class as usize, NEVER as i32);
    };
    if at.access.size == 0 {
        return;
    }
    if state.detect.busy != 0 || state.internal > 0 || state.ignore > 0 {
        if state.detect.busy != 0 {
            log::count(LogCounter::Reentered, 1);
        }
        if arch::due(at.class as usize) < 0 {
            arch::set_due(at.class as usize, 0);
        }
        return;
    }
    look(state, &at);
    if arch::due(at.class as usize) < 0 {
        consider(state, &at);
    }
}

/// No handler comes from here on; answers what [`unmask`] needs.
fn mask(state: &mut ThreadState) -> u64 {
    let mask = sys::swap_signal_mask(BLOCKED);
    state.detect.busy = 1;
    mask
}

/// Handlers may come again.
fn unmask(state: &mut ThreadState, mask: u64) {
    state.detect.busy = 0;
    sys::swap_signal_mask(mask);
}

/// Before a copy, a fill, or anything else without an entry of its own.
#[inline]
pub fn access(access: Access, site: u32) {
    if is_on() && access.size > 0 {
        if sections::is_on() {
            return sectioned(access, site, !access.writes);
        }
        any(access, site);
    }
}

/// Before an atomic operation, which may read and write at once.
#[inline]
pub fn atomic(access: Access, site: u32, reads: bool) {
    if is_on() {
        if sections::is_on() {
            return sectioned(access, site, reads);
        }
        any(access, site);
    }
}

/// As [`any`], where atomic sections are checked.
#[inline(never)]
fn sectioned(access: Access, site: u32, reads: bool) {
    let (frame, stack) = if access.atomic { (0, 0) } else { arch::frame() };
    let at = At { access, site, class: class_of(site), registers: Registers { frame, stack } };
    sections::before(&at);
    if !access.atomic || watches_atomics() {
        any(access, site);
    }
    sections::after(&at, reads);
}

#[inline(never)]
fn any(access: Access, site: u32) {
    let class = class_of(site);
    let first = access.addr >> slots::LINE_SHIFT;
    let last = access.addr.saturating_add(access.size - 1) >> slots::LINE_SHIFT;
    let lines = (last - first + 1).min(LINES);
    let due = arch::due(class as usize) - (ENTRY_WEIGHT + lines as i32 / LINES_OF_A_CHECK);
    arch::set_due(class as usize, due);
    if lines <= last - first {
        log::count(LogCounter::LongRanges, 1);
    }
    if due < 0
        || (first..first + lines).any(|line| slots::look(slots::bucket(line << slots::LINE_SHIFT)) != There::Nothing)
    {
        // Entries of ranges and copies leave them; those of atomic operations do not.
        let (frame, stack) = if access.atomic { (0, 0) } else { arch::frame() };
        slow(At { access, site, class, registers: Registers { frame, stack } });
    }
}

/// Whether somebody else is at any of these bytes.
fn look(state: &mut ThreadState, at: &At) {
    let first = at.access.addr >> slots::LINE_SHIFT;
    let last = at.access.addr.saturating_add(at.access.size - 1) >> slots::LINE_SHIFT;
    for line in (first..=last).take(LINES as usize) {
        let bucket = slots::bucket(line << slots::LINE_SHIFT);
        match slots::look(bucket) {
            There::Standing(seen) if seen.access.conflicts(at.access) => met(state, at, bucket, seen),
            There::Lingering(seen) => nearly(state, at, bucket, seen),
            _ => {}
        }
    }
}

fn beside(bucket: usize) -> &'static Beside {
    &BESIDE[bucket % BUCKETS]
}

/// Somebody is: both are about to make their accesses.
#[cold]
fn met(state: &mut ThreadState, at: &At, bucket: usize, seen: slots::Seen) {
    if sink::is_sealed() {
        return;
    }
    let there = value(at.access);
    let signals = mask(state);
    if slots::meet(bucket, seen) {
        let beside = beside(bucket);
        if beside.pid.load(Ordering::Relaxed) != sys::getpid() {
            // Made before a fork that nobody told us of.
            log::count(LogCounter::Stale, 1);
            forget_all();
        } else {
            // SAFETY: I11: met, so pinned until the bell rings.
            let other = unsafe { *beside.who.get() };
            if other.thread == state.index {
                slots::put_back(bucket, seen);
            } else {
                let mut own = Who::here(state, at.access, at.site);
                own.walk(state, at.registers);
                own.value = there;
                log::count(LogCounter::Races, 1);
                log::hit(other.site, Hit::Race);
                log::hit(own.site, Hit::Race);
                let noted = log::race(&other, &own);
                beside.noted.store(noted.map_or(0, Noted::as_word), Ordering::Relaxed);
                beside.bell.store(1, Ordering::Release);
                sys::futex_wake(core::ptr::from_ref(&beside.bell) as usize);
            }
        }
    }
    unmask(state, signals);
}

/// Somebody was, a moment ago.
#[cold]
fn nearly(state: &mut ThreadState, at: &At, bucket: usize, seen: slots::Seen) {
    let beside = beside(bucket);
    let own = beside.marked_by.load(Ordering::Relaxed) == state.index;
    let age = noise::nanos(arch::counter().wrapping_sub(beside.withdrawn.load(Ordering::Relaxed)));
    let fresh = plan().is_some_and(|plan| age <= u64::from(plan.window_ns));
    if !own && fresh && seen.access.conflicts(at.access) {
        if slots::meet(bucket, seen) {
            // SAFETY: I11: met, so pinned until it is cleared.
            let other = unsafe { *beside.who.get() };
            slots::clear(bucket);
            let here = Who::here(state, at.access, at.site);
            if other.thread != here.thread && !other.shares_a_lock(&here) {
                log::count(LogCounter::Near, 1);
                log::hit(other.site, Hit::Near);
                log::hit(here.site, Hit::Near);
                log::near(other.site, here.site, at.access.addr, age);
            }
        }
        return;
    }
    // Every look costs: nobody is made to look for long.
    let looks = beside.looks.load(Ordering::Relaxed);
    if !fresh || looks == 0 {
        if slots::meet(bucket, seen) {
            slots::clear(bucket);
        }
    } else {
        beside.looks.store(looks - 1, Ordering::Relaxed);
    }
}

/// An access whose turn has come.
fn consider(state: &mut ThreadState, at: &At) {
    let Some(plan) = plan() else { return };
    let look = state.detect.account.begin_look();
    weigh(state, plan, at);
    state.detect.account.end_look(look);
}

/// Whether it waits, and how long.
fn weigh(state: &mut ThreadState, plan: &Noise<'_>, at: &At) {
    let strength = if at.class == Class::Aimed { plan.aimed } else { plan.strength };
    let own = &mut state.detect.account;
    let alone = is_alone();
    let gap = match alone {
        true => own.alone_gap(at.class),
        false => own.next_gap(at.class, strength, plan.flags & FLAG_EAGER != 0),
    };
    arch::set_due(at.class as usize, gap as i32 - 1);
    own.sampled();
    log::hit(at.site, Hit::Sample);
    bursts::tick();
    if sink::is_sealed() {
        return;
    }
    if plan.budget != NO_BUDGET {
        switch::sampled(at.site);
        let now = noise::nanos(arch::counter());
        switch::balance(own, plan.budget, now);
    }
    if alone {
        let _ = own.may(0, plan.budget, plan.kind, at.class);
        return log::count(LogCounter::Alone, 1);
    }
    if at.class == Class::Quiet || strength == 0 {
        // Keeps the account only.
        let _ = own.may(0, plan.budget, plan.kind, at.class);
        return;
    }
    if plan.heuristic == Heuristic::Variable && at.class != Class::Aimed && !is_suspected(plan, at.access) {
        return;
    }
    let site_us = plan.site(at.site).1;
    let ns = own.duration(if site_us == 0 { plan.duration_ns } else { u64::from(site_us) * 1000 });
    let ns = own.may(ns, plan.budget, plan.kind, at.class);
    announce(state, plan, at, ns);
}

/// Whether an access is to a suspected variable.
fn is_suspected(plan: &Noise<'_>, access: Access) -> bool {
    let Some(offset) = access.addr.checked_sub(modules::executable_base()) else { return false };
    let inside =
        |(from, len): (u64, u64)| offset < from.saturating_add(len) && from < offset.saturating_add(access.size);
    (0..plan.ranges).filter_map(|number| plan.range(number)).any(inside)
}

/// Announces an access and waits; with no time, it only leaves a mark.
fn announce(state: &mut ThreadState, plan: &Noise<'_>, at: &At, ns: Option<u64>) {
    let Some(access) = at.access.announced() else { return };
    let bucket = slots::bucket(access.addr);
    let beside = beside(bucket);
    // Faults come here, where nothing is announced and no signal is blocked.
    let there = value(access);
    let signals = mask(state);
    if !slots::take(bucket) {
        unmask(state, signals);
        return log::count(LogCounter::Crowded, 1);
    }
    let mut who = Who::here(state, at.access, at.site);
    beside.marked_by.store(state.index, Ordering::Relaxed);
    beside.looks.store(MARK_LOOKS, Ordering::Relaxed);
    let Some(ns) = ns else {
        // SAFETY: I11: taken, and not announced yet.
        unsafe { beside.who.get().write(who) };
        beside.withdrawn.store(arch::counter(), Ordering::Relaxed);
        slots::linger(bucket, access);
        unmask(state, signals);
        return;
    };
    who.walk(state, at.registers);
    // A handler may have changed it meanwhile.
    let compares = plan.flags & FLAG_VALUES != 0;
    who.value = if compares { value(access) } else { there };
    // SAFETY: I11: taken, and not announced yet.
    unsafe { beside.who.get().write(who) };
    beside.pid.store(PID.load(Ordering::Relaxed), Ordering::Relaxed);
    beside.bell.store(0, Ordering::Relaxed);
    slots::stand(bucket, access);
    let waited = noise::wait(plan.kind, ns, &beside.bell);
    // Before the withdrawal: a mark's age is asked for at once.
    beside.withdrawn.store(arch::counter(), Ordering::Relaxed);
    let alone = slots::withdraw(bucket, access);
    let noted = if alone { None } else { answered(bucket) };
    if alone && compares {
        let now = value(access);
        if now != who.value {
            unseen(&who, now);
        }
    }
    unmask(state, signals);
    if let Some(noted) = noted {
        compare(noted, &who);
    }
    state.detect.account.waited(waited);
    log::hit(at.site, Hit::Wait);
    log::count(LogCounter::Waits, 1);
    log::count(LogCounter::WaitedNs, waited);
}

/// Somebody met the announcement: waits for what they have to say.
#[cold]
fn answered(bucket: usize) -> Option<Noted> {
    let beside = beside(bucket);
    if beside.bell.load(Ordering::Acquire) == 0 {
        sys::futex_wait(core::ptr::from_ref(&beside.bell) as usize, 0, Some(PATIENCE_NS));
    }
    if beside.bell.load(Ordering::Acquire) == 0 {
        // Whoever it was may still come back: the bucket is given up.
        log::count(LogCounter::Lost, 1);
        return None;
    }
    let noted = Noted::of_word(beside.noted.load(Ordering::Relaxed));
    slots::clear(bucket);
    noted
}

/// What the other's access does to the value.
#[cold]
fn compare(noted: Noted, who: &Who) {
    let begun = arch::counter();
    while noise::nanos(arch::counter().wrapping_sub(begun)) < GRACE_NS && value(who.access) == who.value {
        core::hint::spin_loop();
    }
    noted.values(who.value, value(who.access));
}

/// The value changed, and nobody was seen.
#[cold]
fn unseen(who: &Who, now: u64) {
    log::count(LogCounter::Unseen, 1);
    let access = Access { writes: true, atomic: false, ..who.access };
    let nobody = Who { access, site: UNSEEN, thread: u32::MAX, value: who.value, ..Who::NOBODY };
    if let Some(noted) = log::race(who, &nobody) {
        noted.values(who.value, now);
    }
}

/// What is there now: the first bytes of an access, up to eight.
fn value(access: Access) -> u64 {
    let at = access.addr;
    // SAFETY: I9: the guest is about to access these bytes itself.
    unsafe {
        match access.size {
            8 if at.is_multiple_of(8) => (at as *const u64).read_volatile(),
            4 if at.is_multiple_of(4) => u64::from((at as *const u32).read_volatile()),
            2 if at.is_multiple_of(2) => u64::from((at as *const u16).read_volatile()),
            size => (0..size.min(8))
                .fold(0, |sum, byte| sum | u64::from(((at + byte) as *const u8).read_volatile()) << (byte * 8)),
        }
    }
}
