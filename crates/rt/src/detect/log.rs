//! What the detector leaves behind: counters, what came of each site, races and near misses, in a file that stays mapped
//! (`events::detect` has the layout). A crash loses nothing that was stored. Where no file can be written, the same
//! is kept in memory of ours, and lost.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::detect::{
    ANNOTATED, BRANCH, FLAG_SECTIONS, FRAMES, HITS, LOCKS, LOG_COUNTERS, LOG_HEADER, LOG_MAGIC, LOG_PREFIX,
    LOG_SECTIONS, LOG_VERSION, LogCounter, MODULE, MODULE_PATH, MOST_MODULES, NEAR, Noise, RACE, SIDE_ATOMIC,
    SIDE_FRAMES, SIDE_LOCKS, SIDE_WRITES, SIDES, VALUE_CHANGED, VALUES_SEEN, VIOLATION, VIOLATION_SIDES, key,
};

use super::slots::Access;
use super::who::{self, Who};
use crate::diag::Line;
use crate::guard::log::create;
use crate::modules::Module;
use crate::sys;

/// The mapped log; 0 while there is none.
static AT: AtomicUsize = AtomicUsize::new(0);
static SITES: AtomicU32 = AtomicU32::new(0);
static BRANCHES: AtomicU32 = AtomicU32::new(0);
static SAID: AtomicI32 = AtomicI32::new(0);

/// Pairs of sites that can race.
const RACES: u32 = 1024;
/// Pairs of sites that can come close.
const NEARS: u32 = 8192;
/// Broken branches, each by one place.
const VIOLATIONS: u32 = 512;
const HITS_AT: usize = LOG_HEADER + MOST_MODULES as usize * MODULE;

fn races_at(sites: u32) -> usize {
    (HITS_AT + sites as usize * HITS).next_multiple_of(64)
}

fn nears_at(sites: u32) -> usize {
    races_at(sites) + RACES as usize * RACE
}

fn violations_at(sites: u32) -> usize {
    nears_at(sites) + NEARS as usize * NEAR
}

fn branches_at(sites: u32) -> usize {
    violations_at(sites) + VIOLATIONS as usize * VIOLATION
}

/// Makes the log of this process in a directory.
pub fn open(noise: &Noise<'_>, dir: &[u8]) {
    let checks_sections = noise.flags & FLAG_SECTIONS != 0;
    let end = match checks_sections {
        true => branches_at(noise.sites) + noise.branches as usize * BRANCH,
        false => violations_at(noise.sites),
    };
    let len = end.next_multiple_of(4096);
    let (at, why) = match create(dir, LOG_PREFIX, len) {
        Ok(at) => (at, None),
        Err(why) => match sys::mmap_anonymous(len) {
            Ok(at) => (at, Some(why)),
            Err(_) => return,
        },
    };
    if let Some(why) = why
        && SAID.swap(1, Ordering::Relaxed) == 0
    {
        let mut line = Line::new();
        line.text("cannot write the detector's log in ").raw(dir).text(" (error ").number(why.0 as u64);
        line.text("); what it finds is not kept").say();
    }
    let put = |by: usize, value: u32| word32(at + by).store(value, Ordering::Relaxed);
    put(12, LOG_HEADER as u32);
    put(16, sys::getpid());
    put(20, noise.sites);
    put(24, RACES);
    put(28, NEARS);
    put(32, HITS_AT as u32);
    put(36, races_at(noise.sites) as u32);
    put(40, nears_at(noise.sites) as u32);
    put(44, LOG_HEADER as u32);
    put(52, u32::from(noise.flags));
    if checks_sections {
        put(LOG_SECTIONS, VIOLATIONS);
        put(LOG_SECTIONS + 4, violations_at(noise.sites) as u32);
        put(LOG_SECTIONS + 8, noise.branches);
        put(LOG_SECTIONS + 12, branches_at(noise.sites) as u32);
        BRANCHES.store(noise.branches, Ordering::Relaxed);
    }
    word64(at + 56).store(noise.seed, Ordering::Relaxed);
    put(8, LOG_VERSION);
    word64(at).store(u64::from_le_bytes(LOG_MAGIC), Ordering::Release);
    SITES.store(noise.sites, Ordering::Relaxed);
    AT.store(at, Ordering::Release);
}

fn word32(at: usize) -> &'static AtomicU32 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU32) }
}

fn word64(at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: as above.
    unsafe { &*(at as *const AtomicU64) }
}

fn log() -> Option<usize> {
    Some(AT.load(Ordering::Acquire)).filter(|at| *at != 0)
}

/// Adds to a counter.
pub fn count(counter: LogCounter, by: u64) {
    if by != 0
        && let Some(at) = log()
    {
        word64(at + LOG_COUNTERS + counter as usize * 8).fetch_add(by, Ordering::Relaxed);
    }
}

/// An image was loaded.
pub fn module(module: &Module<'_>) {
    let Some(log) = log() else { return };
    let number = word32(log + 48).fetch_add(1, Ordering::Relaxed);
    if number >= MOST_MODULES {
        return;
    }
    let row = log + LOG_HEADER + number as usize * MODULE;
    let bytes = |by: usize, bytes: &[u8], most: usize| {
        let len = bytes.len().min(most);
        // SAFETY: I6: inside this module's own row, which has room for `most` bytes there.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), (row + by) as *mut u8, len) };
        len as u32
    };
    let build_id = bytes(24, module.build_id, 32);
    let path = bytes(56, module.path, MODULE_PATH);
    word64(row).store(module.base, Ordering::Relaxed);
    word64(row + 8).store(module.end, Ordering::Relaxed);
    word32(row + 16).store(build_id, Ordering::Relaxed);
    word32(row + 20).store(path, Ordering::Release);
}

/// What can come of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hit {
    /// It waited.
    Wait = 0,
    /// It raced.
    Race = 4,
    /// It came close.
    Near = 8,
    /// It was considered.
    Sample = 12,
}

/// Something came of a site.
pub fn hit(site: u32, hit: Hit) {
    if let Some(log) = log()
        && site < SITES.load(Ordering::Relaxed)
    {
        let hits = word32(log + HITS_AT + site as usize * HITS + hit as usize);
        // For proportions only: a lost update does no harm, a locked one would cost.
        hits.store(hits.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }
}

/// The slot of a key, and whether it is new; `None` where there is no room.
fn slot(first: usize, slots: u32, size: usize, key: u64) -> Option<(usize, bool)> {
    let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
    for probe in 0..slots.min(256) {
        let slot = first + (hash.wrapping_add(probe) & (slots - 1)) as usize * size;
        let place = word64(slot);
        let mut there = place.load(Ordering::Acquire);
        if there == 0 {
            match place.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((slot, true)),
                Err(now) => there = now,
            }
        }
        if there == key {
            return Some((slot, false));
        }
    }
    None
}

/// A race in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted(usize);

impl Noted {
    /// As a word; never 0.
    pub fn as_word(self) -> usize {
        self.0
    }

    /// From [`Noted::as_word`].
    pub fn of_word(word: usize) -> Option<Noted> {
        (word != 0).then_some(Noted(word))
    }

    /// What the value was and became while the first side waited. A change is kept over none.
    pub fn values(self, old: u64, new: u64) {
        let flags = word32(self.0 + 16);
        if flags.load(Ordering::Relaxed) & VALUE_CHANGED != 0 {
            return;
        }
        word64(self.0 + 24).store(old, Ordering::Relaxed);
        word64(self.0 + 32).store(new, Ordering::Relaxed);
        flags.store(VALUES_SEEN | if old == new { 0 } else { VALUE_CHANGED }, Ordering::Release);
    }
}

/// Notes a race of who had announced itself with who came.
pub fn race(one: &Who, two: &Who) -> Option<Noted> {
    let log = log()?;
    let sites = SITES.load(Ordering::Relaxed);
    let Some((slot, fresh)) = slot(log + races_at(sites), RACES, RACE, key(one.site, two.site)) else {
        count(LogCounter::NotLogged, 1);
        return None;
    };
    word32(slot + 8).fetch_add(1, Ordering::Relaxed);
    if fresh {
        side(slot + SIDES[0], one);
        side(slot + SIDES[1], two);
        let (pc, block, size) = who::block_of(one.access.addr);
        word64(slot + 40).store(pc, Ordering::Relaxed);
        word64(slot + 48).store(block, Ordering::Relaxed);
        word64(slot + 56).store(size, Ordering::Relaxed);
        word32(slot + 12).store(1, Ordering::Release);
    }
    Some(Noted(slot))
}

/// Notes a broken section: how it began, who came between, and who ends it.
pub fn violation(branch: u32, begin: (u32, Access, u64), who: &Who, ending: &Who) {
    let Some(log) = log() else { return };
    let (site, access, value) = begin;
    let mut hash = u64::from(site) << 32 | u64::from(who.site);
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(ending.site).wrapping_mul(0xd134_2543_de82_ef95);
    let key = 1 << 63 | (hash ^ u64::from(branch)) >> 1;
    let first = log + violations_at(SITES.load(Ordering::Relaxed));
    let Some((slot, fresh)) = slot(first, VIOLATIONS, VIOLATION, key) else {
        return count(LogCounter::NotLogged, 1);
    };
    word32(slot + 8).fetch_add(1, Ordering::Relaxed);
    if fresh {
        let put = |by: usize, value: u32| word32(slot + by).store(value, Ordering::Relaxed);
        put(16, branch);
        put(20, site);
        put(24, u32::try_from(access.size).unwrap_or(u32::MAX));
        put(28, if access.writes { SIDE_WRITES } else { 0 } | if access.atomic { SIDE_ATOMIC } else { 0 });
        let (pc, block, size) = who::block_of(access.addr);
        for (number, word) in [access.addr, value, pc, block, size].into_iter().enumerate() {
            word64(slot + 32 + number * 8).store(word, Ordering::Relaxed);
        }
        side(slot + VIOLATION_SIDES[0], who);
        side(slot + VIOLATION_SIDES[1], ending);
        word32(slot + 12).store(1, Ordering::Release);
    }
}

/// A section was gone through.
pub fn branch(branch: u32, broken: bool) {
    if let Some(log) = log()
        && branch != ANNOTATED
        && branch < BRANCHES.load(Ordering::Relaxed)
    {
        let row = log + branches_at(SITES.load(Ordering::Relaxed)) + branch as usize * BRANCH;
        let more = |word: &AtomicU32| word.store(word.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        more(word32(row));
        if broken {
            more(word32(row + 4));
        }
    }
}

fn side(at: usize, who: &Who) {
    let put = |by: usize, value: u32| word32(at + by).store(value, Ordering::Relaxed);
    let flags = if who.access.writes { SIDE_WRITES } else { 0 } | if who.access.atomic { SIDE_ATOMIC } else { 0 };
    word64(at).store(who.access.addr, Ordering::Relaxed);
    put(8, u32::try_from(who.access.size).unwrap_or(u32::MAX));
    put(12, flags);
    put(16, who.site);
    put(20, who.thread);
    put(24, who.depth.min(FRAMES as u32));
    put(28, who.held.min(LOCKS as u32));
    word64(at + 32).store(who.value, Ordering::Relaxed);
    for (number, (lock, pc)) in who.locks.iter().enumerate() {
        word64(at + SIDE_LOCKS + number * 16).store(*lock, Ordering::Relaxed);
        word64(at + SIDE_LOCKS + number * 16 + 8).store(*pc, Ordering::Relaxed);
    }
    for (number, pc) in who.frames.iter().enumerate() {
        word64(at + SIDE_FRAMES + number * 8).store(*pc, Ordering::Relaxed);
    }
}

/// Notes a near miss.
pub fn near(one: u32, two: u32, addr: u64, ns: u64) {
    let Some(log) = log() else { return };
    let Some((slot, fresh)) = slot(log + nears_at(SITES.load(Ordering::Relaxed)), NEARS, NEAR, key(one, two)) else {
        return;
    };
    let ns = u32::try_from(ns).unwrap_or(u32::MAX);
    if fresh {
        word64(slot + 8).store(addr, Ordering::Relaxed);
        word32(slot + 20).store(ns, Ordering::Relaxed);
    }
    word32(slot + 20).fetch_min(ns, Ordering::Relaxed);
    word32(slot + 16).fetch_add(1, Ordering::Relaxed);
}
