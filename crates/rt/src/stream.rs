//! A thread's stream of words: the hot path of recording.
//!
//! Budget: a short access or range in a dense stretch is a thread-local load, a countdown, a region check, one
//! reservation and one store: about fifteen instructions, no counter reading, no branch that is taken.
//! Everything else (time, context, room) is the slow path's, which resets the countdown.
//!
//! Reading the time-stamp counter costs more than all the rest, so accesses that follow each other
//! within `DENSE` ticks are timed in strides that double up to `MAX_STRIDE`; an access after a pause
//! or a synchronisation is always timed.

use core::sync::atomic::{Ordering, compiler_fence};

use selvedge_events::counters::Counter;
use selvedge_events::event::EventKind;
use selvedge_events::pack::{self, Small};
use selvedge_events::plan::Observe;

use crate::arch;
use crate::detect;
use crate::enforce;
use crate::gate;
use crate::guard;
use crate::heal;
use crate::modules;
use crate::sink;
use crate::thread_state::{self, MAX_FRAMES, ThreadState};

/// Ticks between two accesses that count as one burst (about 20 ns).
const DENSE: u64 = 64;
/// Ticks that timing and storing a range take by themselves, which are no pause of the guest: without this a run of
/// ranges would never count as a burst.
const RANGE_COST: u64 = 64;
/// Most accesses between two timed ones.
const MAX_STRIDE: u32 = 31;
/// Words kept free at a slot's end: what the slow path and nested handlers may store in one go.
const SLACK: u64 = 8 * 64;

/// The time, where it may be read.
#[inline(always)]
pub fn now() -> u64 {
    if gate::is_on() {
        gate::tick()
    } else if sink::is_frozen() {
        0
    } else {
        arch::counter()
    }
}

/// Records an access of a site with a short id.
#[inline(always)]
pub fn short_access(addr: u64, site: u32) {
    short::<false>(addr, site, 0);
}

/// Records an access to a run of bytes of a site with a short id.
#[inline(always)]
pub fn short_range(addr: u64, site: u32, extent: u16) {
    short::<true>(addr, site, extent);
}

#[inline(always)]
fn short<const RANGE: bool>(addr: u64, site: u32, extent: u16) {
    let Some(state) = thread_state::current() else {
        return cold(addr, site, extent);
    };
    let high = (addr >> 32) as u32;
    let region = pack::region_slot(high);
    let budget = state.budget;
    // One branch for both: no allowance left, or an address of a region the stream does not know.
    if budget == 0 || state.regions[region as usize] != high {
        return slow::<RANGE>(state, addr, site, extent);
    }
    state.budget = budget - 1;
    store(state, pack::untimed_range(site, region, addr, extent));
}

/// Reserves a word and stores it.
#[inline(always)]
fn store(state: &mut ThreadState, word: u64) {
    // SAFETY: I4: the cursor is this thread's own.
    let at = unsafe { arch::add_local(&raw mut state.cursor, 8) };
    // SAFETY: I5: `budget` and `SLACK` keep the cursor inside the live slot.
    unsafe { (at as *mut u64).write_volatile(word) };
}

#[cold]
#[inline(never)]
fn cold(addr: u64, site: u32, extent: u16) {
    if let Some(state) = thread_state::current_or_adopt() {
        slow::<true>(state, addr, site, extent);
    }
}

/// Compiled twice, so that accesses do not pay for what only ranges need.
#[cold]
#[inline(never)]
fn slow<const RANGE: bool>(state: &mut ThreadState, addr: u64, site: u32, extent: u16) {
    let extent = if RANGE { extent } else { 0 };
    if state.ignore > 0 {
        return;
    }
    let Some(_work) = Work::begin(state) else {
        return;
    };
    let quiet = state.quiet;
    let tsc = if quiet > 0 { None } else { Some(now()) };
    if !prepare(state, tsc) {
        return;
    }
    context(state, false);
    let high = (addr >> 32) as u32;
    let region = pack::region_slot(high);
    if state.regions[region as usize] != high {
        state.regions[region as usize] = high;
        store(state, Small::Region { slot: region, high }.pack());
    }
    match tsc {
        None => {
            store(state, pack::untimed_range(site, region, addr, extent));
            state.quiet = 0;
            state.budget = quiet - 1;
        }
        Some(tsc) => {
            let mut own = 0;
            if extent == 0 {
                store(state, pack::timed(site, region, addr, tsc));
            } else {
                let (size, write) = pack::split_extent(extent);
                put(state, EventKind::Range, u64::from(site) | direction(write), [addr, size, 0], tsc);
                own = RANGE_COST;
            }
            let pace = tsc.wrapping_sub(state.last).saturating_sub(own) / (u64::from(state.stride) + 1);
            // Under control every event has a time of its own: the order is exact.
            state.stride = if pace < DENSE && !gate::is_on() { (state.stride * 2 + 1).min(MAX_STRIDE) } else { 0 };
            state.last = tsc;
            state.budget = state.stride;
        }
    }
}

/// Records an access of a site whose id has no short form.
pub fn wide_access(addr: u64, site: u32) {
    emit_at_site(EventKind::Access, site, 0, [pack::object(addr, 0), 0, 0], now());
}

/// Records an access to a run of bytes whose site or size has no short form.
pub fn wide_range(addr: u64, size: u64, write: bool, site: u32) {
    emit_at_site(EventKind::Range, site, direction(write), [pack::object(addr, 0), size, 0], now());
}

#[inline]
fn direction(write: bool) -> u64 {
    if write { pack::PAYLOAD_FLAG } else { 0 }
}

/// Records an event of a site.
pub fn emit_at_site(kind: EventKind, site: u32, flag: u64, words: [u64; 3], tsc: u64) {
    let Some(state) = thread_state::current_or_adopt() else {
        return;
    };
    if state.ignore > 0 && matches!(kind, EventKind::Access | EventKind::Range) {
        return;
    }
    wide(state, kind, u64::from(site) | flag, words, tsc);
}

/// Records an event of an interposer or annotation called from `pc`.
pub fn emit(kind: EventKind, pc: usize, words: [u64; 3]) {
    if sink::observe() == Observe::Nothing && !gate::is_on() {
        return;
    }
    if let Some(state) = thread_state::current_or_adopt()
        && state.internal == 0
    {
        wide(state, kind, modules::payload(pc), words, now());
    }
}

/// As [`emit`], for an event that begins an operation. Under control it is noted when others have had their chance to
/// go first: the numbers of events are then the order of what happened.
pub fn emit_at_point(kind: EventKind, pc: usize, words: [u64; 3]) {
    match thread_state::current() {
        Some(state) if gate::is_on() && state.seat != 0 && state.in_gate == 0 => {
            state.put_off = [kind as u64 + 1, pc as u64, words[0], words[1], words[2]];
        }
        _ => emit(kind, pc, words),
    }
}

/// Notes what was put off.
pub fn catch_up() {
    let Some(state) = thread_state::current() else { return };
    let [kind, pc, words @ ..] = core::mem::take(&mut state.put_off);
    if let Some(kind) = kind.checked_sub(1).and_then(|kind| EventKind::from_u8(kind as u8)) {
        emit(kind, pc as usize, words);
    }
}

/// Records an event on a given thread of control.
pub fn emit_on(state: &mut ThreadState, kind: EventKind, pc: usize, words: [u64; 3]) {
    wide(state, kind, modules::payload(pc), words, now());
}

/// The first event of a thread.
pub fn thread_start(state: &mut ThreadState) {
    let who = u64::from(state.index) | u64::from(state.parent) << 32;
    wide(state, EventKind::ThreadStart, pack::NO_PC, [who, 0, 0], now());
}

fn wide(state: &mut ThreadState, kind: EventKind, payload: u64, words: [u64; 3], tsc: u64) {
    match sink::observe() {
        Observe::Survey => return crate::shadow::mark_stack(state),
        Observe::Nothing | Observe::Graph => return,
        Observe::Record => {}
    }
    let Some(_work) = Work::begin(state) else { return };
    // A burst ends here: what follows is timed.
    state.budget = 0;
    state.quiet = 0;
    state.stride = 0;
    let tsc = tsc.max(state.last);
    if !prepare(state, Some(tsc)) {
        return;
    }
    state.last = tsc;
    put(state, kind, payload, words, tsc);
}

/// Stores a wide record, or the mention of one that the stream remembers. The caller has prepared the stream.
#[inline(always)]
fn put(state: &mut ThreadState, kind: EventKind, payload: u64, mut words: [u64; 3], tsc: u64) {
    let extra = pack::fold(kind, &mut words);
    let first = pack::wide_with(kind, extra, tsc, payload);
    if extra == 1 {
        let key = (pack::timeless(first), words[0]);
        let slot = pack::memo_slot(key.0, key.1);
        if let Some(memo) = state.memo.get_mut(slot as usize) {
            if *memo == key {
                let (slot, time) = (slot as u8, pack::time_field(tsc) as u16);
                let pops = context(state, true);
                return store(state, Small::Repeat { slot, time, pops }.pack());
            }
            *memo = key;
        }
    }
    context(state, false);
    // SAFETY: I4: the cursor is this thread's own.
    let at = unsafe { arch::add_local(&raw mut state.cursor, 8 * (u64::from(extra) + 1)) };
    for (index, word) in words.iter().enumerate().take(usize::from(extra)) {
        // SAFETY: I5: `prepare` made room.
        unsafe { (at as *mut u64).add(1 + index).write_volatile(*word) };
    }
    // The first word last: a record is there completely or not at all.
    compiler_fence(Ordering::Release);
    // SAFETY: I5: `prepare` made room.
    unsafe { (at as *mut u64).write_volatile(first) };
}

/// Marks the slow path as at work; `None` where it already is (in a signal handler).
struct Work(*mut u32);

impl Work {
    #[inline]
    fn begin(state: &mut ThreadState) -> Option<Work> {
        if state.busy != 0 {
            sink::count(Counter::DroppedReentry, 1);
            return None;
        }
        state.busy = 1;
        compiler_fence(Ordering::SeqCst);
        Some(Work(&raw mut state.busy))
    }
}

impl Drop for Work {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: I4: the state outlives the work on it.
        unsafe { self.0.write(0) };
    }
}

/// Makes room, and brings the time up to date. False where nothing can be stored.
#[inline]
fn prepare(state: &mut ThreadState, tsc: Option<u64>) -> bool {
    if state.slot == 0 || sink::is_frozen() {
        sink::count(if state.slot == 0 { Counter::DroppedNoThread } else { Counter::DroppedSealed }, 1);
        return false;
    }
    let end = state.slot as u64 + selvedge_events::trace_file::SLOT as u64;
    let frames = u64::from(state.depth.min(MAX_FRAMES as u32));
    if state.cursor + SLACK + frames * 8 > end && !sink::flush(state) {
        return false;
    }
    if let Some(tsc) = tsc
        && pack::epoch_of(tsc) != state.epoch
    {
        state.epoch = pack::epoch_of(tsc);
        store(state, Small::Epoch(state.epoch).pack());
        if state.epoch >= state.tick_at {
            // Soon after the start, then ever more rarely: a process that dies early has a true clock too.
            state.tick_gap = (state.tick_gap * 2).clamp(1, 1 << 14);
            state.tick_at = state.epoch + state.tick_gap;
            sink::tick();
        }
    }
    if gate::is_on() {
        under_control(state);
    }
    true
}

/// Under control the stream says which operation an event is of, and what its memory held.
#[cold]
fn under_control(state: &mut ThreadState) {
    let operation = gate::operation(state);
    if operation != state.operation {
        state.operation = operation;
        store(state, Small::Operation(operation).pack());
    }
    if core::mem::take(&mut state.has_before) != 0 {
        let (lower, upper) = (state.before as u32, (state.before >> 32) as u32);
        store(state, Small::Before { upper: false, half: lower }.pack());
        if upper != 0 {
            store(state, Small::Before { upper: true, half: upper }.pack());
        }
    }
}

/// Under control and record: what the memory holds that the next event is about to touch.
#[inline]
pub fn look(addr: u64, size: u64) {
    if sink::observe() != Observe::Record || !gate::is_on() {
        return;
    }
    let mut bytes = [0; 8];
    let Some(bytes_of) = bytes.get_mut(..size as usize).filter(|bytes| !bytes.is_empty()) else { return };
    for (at, byte) in bytes_of.iter_mut().enumerate() {
        // SAFETY: I9: the guest is about to touch these bytes itself.
        *byte = unsafe { (addr as *const u8).add(at).read_volatile() };
    }
    let value = u64::from_le_bytes(bytes);
    if let Some(state) = thread_state::current().filter(|state| state.ignore == 0 && state.busy == 0) {
        state.before = value;
        state.has_before = 1;
    }
}

/// Brings the stream's context up to date. Where `fold` allows it, frames that were only left are not
/// written: the caller's own record carries their number, which is returned.
#[inline]
fn context(state: &mut ThreadState, fold: bool) -> u8 {
    let depth = state.depth.min(MAX_FRAMES as u32);
    if state.low >= state.emitted && depth == state.emitted {
        return 0;
    }
    changed_context(state, depth, fold)
}

#[inline(never)]
fn changed_context(state: &mut ThreadState, depth: u32, fold: bool) -> u8 {
    let keep = state.low.min(state.emitted);
    let left = state.emitted - keep;
    let mut pops = u8::try_from(left).unwrap_or_else(|_| {
        store(state, Small::Pop(left).pack());
        0
    });
    for index in keep..depth {
        let pc = state.frames.get(index as usize).map_or(0, |frame| frame.pc);
        store(state, Small::Push { pops, pc }.pack());
        pops = 0;
    }
    state.emitted = depth;
    state.low = depth;
    if pops > 0 && !fold {
        store(state, Small::Pop(u32::from(pops)).pack());
        pops = 0;
    }
    pops
}

/// Begins a fresh slot: the stream restates time, regions and context, so that every chunk can be
/// read on its own.
pub fn restart(state: &mut ThreadState) {
    state.epoch = 0;
    state.regions = [0; pack::REGIONS];
    state.budget = 0;
    state.quiet = 0;
    state.emitted = 0;
    state.low = 0;
    state.memo = [(0, 0); pack::MEMO];
    state.operation = 0;
    store(state, Small::Pop(u32::MAX).pack());
    // Region 0 may mean the lowest 4 GiB, which needs no announcement otherwise.
    store(state, Small::Region { slot: 0, high: 0 }.pack());
}

/// Remembers in the slot what this thread is about to block in, for the reader of a hang.
#[inline]
pub fn pend(slot: u16, object: u64, pc: usize) {
    let Some(state) = thread_state::current() else { return };
    heal::calls(state, slot);
    detect::sections::between();
    if enforce::is_on() {
        enforce::pend(slot, pc);
    }
    if guard::is_on() || enforce::is_on() {
        state.doing.store(0, Ordering::Release);
        if guard::waits_for_others(slot) {
            state.blocked.store(2, Ordering::Relaxed);
        }
    }
    if state.slot == 0 {
        return;
    }
    // The reader wants to know by which calls the thread came here.
    if let Some(_work) = Work::begin(state)
        && prepare(state, None)
    {
        context(state, false);
    }
    sink::set_pending(state.slot, slot, object, pc as u64);
}

/// It did not block for ever.
#[inline]
pub fn unpend() {
    if let Some(state) = thread_state::current() {
        state.blocked.store(0, Ordering::Relaxed);
        if state.slot != 0 {
            sink::clear_pending(state.slot);
        }
        if enforce::is_on() {
            enforce::unpend();
        }
    }
}
