//! Sites that cost too much are switched off for a while.
//!
//! Which sites are hot is told by samples: a site's part in them is its part in all checks. Some are known to be hot before the run: these
//! begin switched off, so that a short run keeps its budget too, and come back one after the other where there is room for them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use selvedge_events::detect::LogCounter;

use super::noise::{Account, Class, check_ns};
use super::{bursts, log};
use crate::spin::Spin;
use crate::switch::{self, Switches};
use crate::sys;

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

/// Makes room for so many sites, of which the first begin switched off, and for hot functions.
pub fn begin(sites: u32, bodies: u32, begin_off: u32) {
    BEGIN_OFF.store(begin_off, Ordering::Relaxed);
    switch::begin(sites.saturating_add(bodies));
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
    Some(switch::idle(call))
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
    // What hot functions cost in a burst is not what they cost.
    if now.saturating_sub(last) < LOOK_NS.max(bursts::period_ns().saturating_mul(2))
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
    let Some(switches) = Switches::open() else { return };
    for _ in 0..AT_ONCE {
        let hottest = HOT.iter().max_by_key(|place| place.load(Ordering::Relaxed) & 0xffff_ffff);
        let Some(place) = hottest.filter(|place| place.load(Ordering::Relaxed) & 0xffff_ffff > 0) else { return };
        let hot = place.swap(0, Ordering::Relaxed);
        let (site, samples) = ((hot >> 32) as u32, hot & 0xffff_ffff);
        let known = |row: &&[AtomicU64; 3]| row[0].load(Ordering::Relaxed) == u64::from(site) + 1;
        let free = |row: &&[AtomicU64; 3]| row[0].load(Ordering::Relaxed) == 0;
        let row = OFF.iter().find(known).or_else(|| OFF.iter().find(free));
        if switches.switch(site, false) {
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
    let Some(switches) = Switches::open() else { return };
    let due = |row: &&[AtomicU64; 3]| (1..=now).contains(&row[1].load(Ordering::Relaxed));
    for row in OFF.iter().filter(due).take(2) {
        row[1].store(0, Ordering::Relaxed);
        if let Some(site) = u32::try_from(row[0].load(Ordering::Relaxed)).ok().and_then(|site| site.checked_sub(1))
            && switches.switch(site, true)
        {
            log::count(LogCounter::SwitchedOn, 1);
        }
    }
}

/// In a forked child.
pub fn after_fork() {
    LOCK.force_open();
}
