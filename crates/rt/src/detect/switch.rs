//! Sites that cost too much are switched off for a while.
//!
//! An armed site is `call thunk`, five bytes. Changing its first byte makes it `test eax, imm32`: the same length, no effect
//! but on the flags, which are dead around a call; a tail jump becomes `ret`. One byte is stored, so whoever runs
//! the code meanwhile runs the one instruction or the other, never a mixture. Storing the old byte switches it on again.
//!
//! Code pages are never writable and executable at once: the byte goes through `/proc/self/mem`, as a debugger's
//! breakpoint would, and only where the five bytes are still those that the patcher left (a library may be gone).
//!
//! Which sites are hot is told by samples: a site's part in them is its part in all checks. Some are known to be hot before the run: these
//! begin switched off, so that a short run keeps its budget too, and come back one after the other where there is room for them.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::detect::LogCounter;

use super::log;
use super::noise::{Account, Class, check_ns};
use crate::spin::Spin;
use crate::sys::{self, flags};

/// Where armed sites are: address, and the five bytes there; one pair of words for each id, in pages of ours.
static PLACES: AtomicUsize = AtomicUsize::new(0);
static SITES: AtomicUsize = AtomicUsize::new(0);

/// Samples by site since the last look: site << 32 | samples; a site that meets another in its place wears it down.
static HOT: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
static SAMPLES: AtomicU64 = AtomicU64::new(0);

/// Time between looks.
const LOOK_NS: u64 = 2_000_000;
/// Samples without which nothing is known.
const LEAST_SAMPLES: u64 = 24;
/// Sites switched off at a look.
const AT_ONCE: usize = 32;
/// How long a site is off at first; doubles each time, up to `MOST_OFF_NS`.
const OFF_NS: u64 = 100_000_000;
const MOST_OFF_NS: u64 = 10_000_000_000;
static LAST: AtomicU64 = AtomicU64::new(0);
static LOCK: Spin = Spin::new();

/// A site that is off, or was: site + 1, when it comes back (0 while it is on), how long it was off.
static OFF: [[AtomicU64; 3]; 256] = [const { [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)] }; 256];

/// Ids below this begin switched off.
static BEGIN_OFF: AtomicU32 = AtomicU32::new(0);
/// Between the times at which two sites that began switched off come back.
const STAGGER_NS: u64 = 5_000_000;

/// Makes room for so many sites, of which the first begin switched off.
pub fn begin(sites: u32, begin_off: u32) {
    BEGIN_OFF.store(begin_off, Ordering::Relaxed);
    if let Ok(at) = sys::mmap_anonymous((sites as usize * 16).next_multiple_of(4096).max(4096)) {
        SITES.store(sites as usize, Ordering::Relaxed);
        PLACES.store(at, Ordering::Release);
    }
}

fn place(site: u32) -> Option<&'static [AtomicU64; 2]> {
    let at = PLACES.load(Ordering::Acquire);
    if at == 0 || site as usize >= SITES.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: I6: pages of ours that are never unmapped, with a pair for each site.
    Some(unsafe { &*((at + site as usize * 16) as *const [AtomicU64; 2]) })
}

/// The first byte of a site that is switched off.
const fn idle(call: u8) -> u8 {
    if call == 0xe9 { 0xc3 } else { 0xa9 }
}

/// Whether a site with this call in it begins switched off: the byte to begin with then. When it comes back is remembered. One in eight does
/// not, others in each run: in runs that are too short for any to come back, all have their turn.
pub fn begins_with(site: u32, call: u8) -> Option<u8> {
    let chance = super::plan().map_or(0, |plan| plan.seed ^ u64::from(site)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
    if site >= BEGIN_OFF.load(Ordering::Relaxed) || chance == 0 || super::class_of(site) == Class::Aimed {
        return None;
    }
    let row = OFF.iter().find(|row| row[0].load(Ordering::Relaxed) == 0)?;
    let back = OFF_NS + u64::from(site) * STAGGER_NS;
    row[0].store(u64::from(site) + 1, Ordering::Relaxed);
    row[1].store(sys::clock_ns(1).saturating_add(back), Ordering::Relaxed);
    row[2].store(OFF_NS, Ordering::Relaxed);
    Some(idle(call))
}

/// A site was armed with this code, and does nothing but call us.
pub fn placed(site: u32, at: u64, code: &[u8]) {
    let mut bytes = [0_u8; 8];
    if let (Some(place), Some(room), Some(five)) = (place(site), bytes.get_mut(..5), code.get(..5)) {
        room.copy_from_slice(five);
        place[1].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        place[0].store(at, Ordering::Release);
    }
}

/// Switches a site; false where that cannot be done.
fn switch(site: u32, on: bool) -> bool {
    let Some(place) = place(site) else { return false };
    let (at, code) = (place[0].load(Ordering::Acquire), place[1].load(Ordering::Relaxed).to_le_bytes());
    let [call, ..] = code;
    let idle = idle(call);
    let (from, to) = if on { (idle, call) } else { (call, idle) };
    if at == 0 || crate::sink::is_sealed() {
        return false;
    }
    let Ok(memory) = sys::open(b"/proc/self/mem\0", flags::O_RDWR | flags::O_CLOEXEC, 0) else { return false };
    let mut there = [0_u8; 5];
    let same = sys::pread(memory, &mut there, at) == Ok(5) && there[0] == from && there[1..] == code[1..5];
    // SAFETY: the byte is ours; the kernel checks the address, where a site of ours was just seen.
    let done = same && unsafe { sys::pwrite_all(memory, &raw const to as usize, 1, at) }.is_ok();
    sys::close(memory);
    done
}

/// A site was considered.
pub fn sampled(site: u32) {
    SAMPLES.fetch_add(1, Ordering::Relaxed);
    let place = &HOT[(site.wrapping_mul(0x9e37_79b1) >> 24) as usize % HOT.len()];
    let now = place.load(Ordering::Relaxed);
    let (there, samples) = ((now >> 32) as u32, now & 0xffff_ffff);
    let next = match samples {
        0 => u64::from(site) << 32 | 1,
        _ if there == site => now + 1,
        _ => now - 1,
    };
    place.store(next, Ordering::Relaxed);
}

/// Looks whether checks alone cost this thread more than half of its budget, and switches sites.
pub fn balance(account: &mut Account, budget: u32, now: u64) {
    let last = LAST.load(Ordering::Relaxed);
    let samples = SAMPLES.load(Ordering::Relaxed);
    if now.saturating_sub(last) < LOOK_NS
        || samples < LEAST_SAMPLES
        || LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let Some(_held) = LOCK.try_lock() else { return };
    let (checks, cpu) = account.looked;
    account.looked = (account.checks, account.cpu_ns());
    let (checks, cpu) = (account.checks.saturating_sub(checks), account.cpu_ns().saturating_sub(cpu));
    if cpu < 500_000 {
        return;
    }
    let part = check_ns(checks).saturating_mul(1_000_000) / cpu;
    SAMPLES.store(0, Ordering::Relaxed);
    let most = u64::from(budget) / 2;
    if part > most {
        quieten(samples.saturating_mul(part - most) / part, now);
    } else if part < most / 2 {
        bring_back(now);
    }
    for place in &HOT {
        place.store(0, Ordering::Relaxed);
    }
}

/// Switches the hottest sites off, until so many samples would not have been.
fn quieten(mut excess: u64, now: u64) {
    for _ in 0..AT_ONCE {
        let hottest = HOT.iter().max_by_key(|place| place.load(Ordering::Relaxed) & 0xffff_ffff);
        let Some(place) = hottest.filter(|place| place.load(Ordering::Relaxed) & 0xffff_ffff > 0) else { return };
        let hot = place.swap(0, Ordering::Relaxed);
        let (site, samples) = ((hot >> 32) as u32, hot & 0xffff_ffff);
        let known = |row: &&[AtomicU64; 3]| row[0].load(Ordering::Relaxed) == u64::from(site) + 1;
        let free = |row: &&[AtomicU64; 3]| row[0].load(Ordering::Relaxed) == 0;
        let row = OFF.iter().find(known).or_else(|| OFF.iter().find(free));
        if switch(site, false) {
            log::count(LogCounter::SwitchedOff, 1);
            // Where there is no room to remember it, it stays off.
            if let Some(row) = row {
                let before = row[2].load(Ordering::Relaxed);
                let time = if before == 0 { OFF_NS } else { (before * 2).min(MOST_OFF_NS) };
                row[0].store(u64::from(site) + 1, Ordering::Relaxed);
                row[1].store(now + time, Ordering::Relaxed);
                row[2].store(time, Ordering::Relaxed);
            }
        }
        excess = excess.saturating_sub(samples);
        if excess == 0 {
            return;
        }
    }
}

/// Switches sites on whose time is over: a few, so that what they cost is seen before more come.
fn bring_back(now: u64) {
    let due = |row: &&[AtomicU64; 3]| (1..=now).contains(&row[1].load(Ordering::Relaxed));
    for row in OFF.iter().filter(due).take(2) {
        row[1].store(0, Ordering::Relaxed);
        if let Some(site) = u32::try_from(row[0].load(Ordering::Relaxed)).ok().and_then(|site| site.checked_sub(1))
            && switch(site, true)
        {
            log::count(LogCounter::SwitchedOn, 1);
        }
    }
}

/// In a forked child.
pub fn after_fork() {
    LOCK.force_open();
}
