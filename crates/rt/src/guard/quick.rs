//! The short way: an access of a common kind, at a word whose cell has a value that this thread has met at this site
//! before.
//!
//! What an access makes of a cell, and whether it belongs, follows from the cell's value, the site and the thread: a *step*.
//! Each thread remembers some of its steps, so that most accesses look at one word of the program's past, compare it, and
//! exchange it for the next one. Nothing is approximated: a step that is not remembered is worked out, one that does not
//! belong is never remembered before nobody is stalled for it any more, and whatever is not one word of one shape takes the long way.
//!
//! Plain accesses come by code that is written by hand (`entry::quick`), and here where it is not their thread's memory or nothing is remembered.
//!
//! Budget: about seventy instructions. Where the cell changes, one of them is a locked one, unless the thread owns the memory ([`owner`]).

use core::sync::atomic::Ordering;

use super::owner::{self, Change};
use super::recorder::{self, Block, REGION_SHIFT, SPLIT};
use super::{How, at_site, attempt, belongs, is_given_up, table};
use crate::thread_state::{self, ThreadState};

/// Steps that a thread remembers by their values and sites.
const STEPS: usize = 128;
/// Sites of which it remembers the last two.
pub const LAST: usize = 128;

/// An access at `site` that belongs makes `after` of a cell that is `now`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Step {
    now: u64,
    after: u64,
    /// 0: nothing is remembered here.
    site: u32,
}

/// The last two steps at a site, the newer one first. Where to look for them does not depend on the cell: a processor need not wait for that.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Last {
    /// The cells' values.
    pub now: [u64; 2],
    /// What accesses make of them.
    pub after: [u64; 2],
    /// 0: nothing is remembered here.
    pub site: u32,
}

/// What a thread remembers.
#[derive(Debug)]
#[repr(C)]
pub struct Steps {
    /// By site.
    pub last: [Last; LAST],
    steps: [Step; STEPS],
    /// Set while one is written: a handler in between writes none.
    writing: u32,
}

impl Steps {
    const fn place(now: u64, site: u32) -> usize {
        (now ^ now >> 29 ^ (site as u64) << 2) as usize % STEPS
    }

    /// What becomes of a cell, if it is remembered.
    #[inline(always)]
    fn after(&mut self, now: u64, site: u32) -> Option<u64> {
        let step = &raw const self.steps[Steps::place(now, site)];
        // The value first, then whose it is: a handler in between changes both, and the second is then seen to differ.
        // SAFETY: I4: this thread's own state, of which only a handler on this thread changes anything.
        let (after, of, at) = unsafe {
            let after = (&raw const (*step).after).read_volatile();
            (after, (&raw const (*step).now).read_volatile(), (&raw const (*step).site).read_volatile())
        };
        if of != now || at != site {
            return None;
        }
        let last = &self.last[site as usize % LAST];
        if last.site != site || !last.now.contains(&now) {
            self.write(|steps| steps.put_last(now, site, after));
        }
        Some(after)
    }

    fn remember(&mut self, now: u64, site: u32, after: u64) {
        self.write(|steps| {
            let step = &raw mut steps.steps[Steps::place(now, site)];
            // SAFETY: I4: as in `write`.
            unsafe {
                (&raw mut (*step).site).write_volatile(0);
                (&raw mut (*step).now).write_volatile(now);
                (&raw mut (*step).after).write_volatile(after);
                (&raw mut (*step).site).write_volatile(site);
            }
            steps.put_last(now, site, after);
        });
    }

    /// Writes steps, unless this is a handler that came while some were written.
    #[inline(always)]
    fn write(&mut self, put: impl FnOnce(&mut Steps)) {
        let writing = &raw mut self.writing;
        // SAFETY: I4: this thread's own state. A handler on this thread may come between any two stores: it writes no step
        // while `writing` is set, and finds no site until the rest is there.
        unsafe {
            if writing.read_volatile() == 0 {
                writing.write_volatile(1);
                put(self);
                writing.write_volatile(0);
            }
        }
    }

    #[inline(always)]
    fn put_last(&mut self, now: u64, site: u32, after: u64) {
        let last = &raw mut self.last[site as usize % LAST];
        // SAFETY: I4: as in `write`.
        unsafe {
            let (nows, afters) = (&raw mut (*last).now, &raw mut (*last).after);
            let before = if (*last).site == site { ((*nows)[0], (*afters)[0]) } else { (now, after) };
            (&raw mut (*last).site).write_volatile(0);
            nows.write_volatile([now, before.0]);
            afters.write_volatile([after, before.1]);
            (&raw mut (*last).site).write_volatile(site);
        }
    }

    /// Forgets all: the thread has another mark, or what was jumped out of is over.
    pub fn clear(&mut self) {
        self.last = [Last { now: [0; 2], after: [0; 2], site: 0 }; LAST];
        self.steps = [Step { now: 0, after: 0, site: 0 }; STEPS];
        self.writing = 0;
    }
}

/// Before an access of `SIZE` bytes at a guarded site.
#[inline(always)]
pub fn quick<const SIZE: u64>(addr: u64, site: u32) {
    match known::<SIZE>(addr, site) {
        Known::Done => {}
        Known::Not => first(addr, SIZE, site),
        Known::Late => late(addr, SIZE, site),
    }
}

/// The same at a site of a colour.
#[inline(always)]
pub fn coloured<const SIZE: u64>(addr: u64, site: u32) {
    // A colour is one location, whatever the sizes of its variables are.
    let at = addr.wrapping_add_signed(shift(site));
    match known::<1>(at, site) {
        Known::Done => {}
        Known::Not if new(at, 1, site) => {}
        Known::Not => at_site(addr, SIZE, site),
        Known::Late => late(at, 1, site),
    }
}

/// The same for sixteen bytes, as two words: both steps must be known to belong before one is taken.
pub fn pair(addr: u64, site: u32) {
    if !both(addr, site) {
        at_site(addr, 16, site);
    }
}

#[inline(never)]
fn first(addr: u64, size: u64, site: u32) {
    if !new(addr, size, site) {
        at_site(addr, size, site);
    }
}

/// What is remembered of an access.
enum Known {
    /// It is recorded.
    Done,
    /// Nothing, or it could not be recorded.
    Not,
    /// It may be recorded.
    Late,
}

/// Takes a step that is remembered.
#[inline(always)]
fn known<const SIZE: u64>(addr: u64, site: u32) -> Known {
    let Some(state) = thread_state::current() else { return Known::Not };
    let Some(block) = recorder::near(addr >> REGION_SHIFT) else { return Known::Not };
    let word = (addr >> 3) as usize;
    // No word has the shape of an access that reaches over its end.
    let shape = recorder::shape(addr & 7, SIZE);
    if block.shape(word).load(Ordering::Relaxed) != shape {
        return Known::Not;
    }
    let now = block.cell(word).load(Ordering::Relaxed);
    let Some(after) = state.steps.after(now, site) else { return Known::Not };
    if after == now {
        return Known::Done;
    }
    match owner::change(state, block, word, shape, now, after) {
        Change::Made => Known::Done,
        Change::Late => Known::Late,
        Change::Not => Known::Not,
    }
}

/// Takes a step; false where it cannot be taken.
fn take(
    state: &mut ThreadState,
    (block, word, shape): (&'static Block, usize, u8),
    (now, after): (u64, u64),
    (addr, size, site): (u64, u64, u32),
) -> bool {
    match owner::change(state, block, word, shape, now, after) {
        Change::Made => true,
        Change::Late => {
            late(addr, size, site);
            true
        }
        Change::Not => false,
    }
}

/// An access was recorded in a word that has changed meanwhile: it was split, or is waited at, or has come to be somebody's.
#[cold]
#[inline(never)]
fn late(addr: u64, size: u64, site: u32) {
    let Some(state) = thread_state::current() else { return };
    let Some(block) = recorder::block(addr >> REGION_SHIFT, false) else { return };
    let (word, shape) = ((addr >> 3) as usize, recorder::shape(addr & 7, size));
    match block.shape(word).load(Ordering::SeqCst) {
        there if there != shape => recorded(addr, size, site),
        _ if owner::settle(block, word, state.mark, site) || new(addr, size, site) => {}
        // There a colour's shift is added once more.
        _ => at_site(addr.wrapping_add_signed(-shift(site)), size, site),
    }
}

/// Takes the steps of two whole words; false where none is taken.
fn both(addr: u64, site: u32) -> bool {
    let Some(state) = thread_state::current().filter(|_| addr & 7 == 0) else { return false };
    let Some(block) = recorder::near(addr >> REGION_SHIFT) else { return false };
    let word = (addr >> 3) as usize;
    let shape = recorder::shape(0, 8);
    let is_whole = |word: usize| block.shape(word).load(Ordering::Relaxed) == shape;
    if (word + 1).is_multiple_of(recorder::WORDS) || !is_whole(word) || !is_whole(word + 1) {
        return false;
    }
    let mut after = |word: usize| {
        let now = block.cell(word).load(Ordering::Relaxed);
        let after = state.steps.after(now, site).or_else(|| step(state, now, site));
        after.map(|after| (now, after))
    };
    let (Some(one), Some(two)) = (after(word), after(word + 1)) else { return false };
    let mut take = |word: usize, step: (u64, u64), addr: u64| {
        step.0 == step.1 || take(state, (block, word, shape), step, (addr, 8, site))
    };
    if !take(word, one, addr) {
        return false;
    }
    // From here on it is recorded: the second word too, whatever has become of it.
    if !take(word + 1, two, addr + 8) {
        recorded(addr + 8, 8, site);
    }
    true
}

/// Takes a step, which is worked out where it is not remembered; false where it does not belong, or is not one of one word and one shape.
fn new(addr: u64, size: u64, site: u32) -> bool {
    let Some(state) = thread_state::current().filter(|_| (addr & 7) + size <= 8) else { return false };
    let Some(block) = recorder::block(addr >> REGION_SHIFT, false) else { return false };
    let word = (addr >> 3) as usize;
    let shape = recorder::shape(addr & 7, size);
    let cell = block.cell(word);
    match block.shape(word).load(Ordering::Relaxed) {
        SPLIT => return bytes(state, block, addr, size, site),
        there if there != shape => return false,
        _ => {}
    }
    let now = cell.load(Ordering::Relaxed);
    let Some(after) = state.steps.after(now, site).or_else(|| step(state, now, site)) else { return false };
    after == now || take(state, (block, word, shape), (now, after), (addr, size, site))
}

/// Takes the steps of some bytes of a split word: all must be known to belong before one is taken; false where none is.
fn bytes(state: &mut ThreadState, block: &Block, addr: u64, size: u64, site: u32) -> bool {
    let word = (addr >> 3) as usize;
    let Some(cells) = block.byte_cells(word, (addr & 7) as usize, size as usize) else { return false };
    let mut steps = [(0, 0); 8];
    let mut last = None;
    for (cell, place) in cells.iter().zip(&mut steps) {
        let now = cell.load(Ordering::Relaxed);
        // The bytes of a variable mostly have one past.
        let after = match last {
            Some((before, after)) if before == now => Some(after),
            _ => state.steps.after(now, site).or_else(|| step(state, now, site)),
        };
        let Some(after) = after else { return false };
        (*place, last) = ((now, after), Some((now, after)));
    }
    let mut is_recorded = false;
    for ((cell, (now, after)), at) in cells.iter().zip(steps).zip(addr..) {
        if now == after {
            continue;
        }
        match cell.compare_exchange(now, after, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => is_recorded = true,
            Err(_) if !is_recorded => return false,
            // From here on it is recorded, whatever has become of the rest.
            Err(_) => recorded(at, 1, site),
        }
    }
    // Somebody may have come to wait at it.
    if is_recorded && block.shape(word).load(Ordering::SeqCst) != SPLIT {
        recorded(addr, size, site);
    }
    true
}

/// What a colour adds to the addresses of a site.
fn shift(site: u32) -> i64 {
    table().and_then(|table| table.shift(site)).map_or(0, i64::from)
}

/// Works a step out; `None` where the access does not belong.
fn step(state: &mut ThreadState, now: u64, site: u32) -> Option<u64> {
    let reading = recorder::read(now, state.mark, site);
    if !belongs(site, reading.before, reading.own) && !is_given_up(site, reading.before, reading.own) {
        return None;
    }
    state.steps.remember(now, site, reading.after);
    Some(reading.after)
}

/// An access was recorded in a word that has changed meanwhile.
#[cold]
#[inline(never)]
fn recorded(addr: u64, size: u64, site: u32) {
    if let Some(state) = thread_state::current() {
        let _ = attempt(state, addr, size, site, How::Force);
    }
}
