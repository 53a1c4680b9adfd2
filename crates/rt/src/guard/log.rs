//! What the guard leaves behind: counters, how often sites ran, and a table of what was noted, in a file that stays mapped
//! (`events::guard` has the layout). A crash loses nothing that was stored. Where no file can be written, the
//! same is kept in memory of ours, and lost.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::guard::{
    FLAG_LEARN, LOG_COUNTERS, LOG_HEADER, LOG_MAGIC, LOG_PREFIX, LOG_VERSION, LogCounter, Note, SLOT, Table, key,
};

use crate::diag::Line;
use crate::sys::{self, Errno, flags};
use crate::{modules, sink};

/// The mapped log; 0 while there is none.
static AT: AtomicUsize = AtomicUsize::new(0);
static SLOTS_AT: AtomicUsize = AtomicUsize::new(0);
static SLOTS: AtomicU32 = AtomicU32::new(0);
static HITS_AT: AtomicUsize = AtomicUsize::new(0);
static SITES: AtomicU32 = AtomicU32::new(0);
static SAID: AtomicI32 = AtomicI32::new(0);

/// Slots of a log that notes violations only.
const FEW: u32 = 4096;
const MOST: u32 = 1 << 18;

/// Makes the log of this process in a directory.
pub fn open(table: &Table<'_>, dir: &[u8]) {
    let slots = match table.flags & FLAG_LEARN != 0 {
        true => table.sites.saturating_mul(8).saturating_add(1024).next_power_of_two().min(MOST),
        false => FEW,
    };
    let hits_at = LOG_HEADER;
    let slots_at = hits_at + (table.sites as usize + 1).next_multiple_of(2) * 4;
    let len = (slots_at + slots as usize * SLOT).next_multiple_of(4096);
    let (at, why) = match create(dir, LOG_PREFIX, len) {
        Ok(at) => (at, None),
        Err(why) => match sys::mmap_anonymous(len) {
            Ok(at) => (at, Some(why)),
            Err(_) => return,
        },
    };
    if let Some(why) = why
        && !dir.is_empty()
        && SAID.swap(1, Ordering::Relaxed) == 0
    {
        let mut line = Line::new();
        line.text("cannot write the guard's log in ").raw(dir).text(" (error ").number(why.0 as u64);
        line.text("); the program is guarded, and what happens is not kept").say();
    }
    let put = |by: usize, value: u32| word32(at + by).store(value, Ordering::Relaxed);
    put(12, LOG_HEADER as u32);
    put(16, sys::getpid());
    put(20, table.sites);
    put(24, slots);
    put(28, hits_at as u32);
    put(32, slots_at as u32);
    put(36, table.flags);
    word64(at + 40).store(modules::executable_base(), Ordering::Relaxed);
    put(8, LOG_VERSION);
    word64(at).store(u64::from_le_bytes(LOG_MAGIC), Ordering::Release);
    SITES.store(table.sites, Ordering::Relaxed);
    SLOTS.store(slots, Ordering::Relaxed);
    SLOTS_AT.store(at + slots_at, Ordering::Relaxed);
    HITS_AT.store(at + hits_at, Ordering::Relaxed);
    AT.store(at, Ordering::Release);
}

/// Makes and maps `DIR/PREFIX-PID.log`, or the next free number.
pub(crate) fn create(dir: &[u8], prefix: &str, len: usize) -> Result<usize, Errno> {
    const ENAMETOOLONG: Errno = Errno(36);
    if dir.is_empty() || sink::is_sealed() {
        return Err(Errno(2));
    }
    let pid = sys::getpid();
    for number in 0..1000_u32 {
        let mut path = Line::empty();
        path.raw(dir).text("/").text(prefix).number(u64::from(pid));
        if number > 0 {
            path.text(".").number(u64::from(number));
        }
        path.text(".log\0");
        let name = path.bytes();
        if name.last() != Some(&0) {
            return Err(ENAMETOOLONG);
        }
        let how = flags::O_RDWR | flags::O_CREAT | flags::O_EXCL | flags::O_CLOEXEC;
        let fd = match sys::open(name, how, 0o644) {
            Err(Errno::EEXIST) => continue,
            other => other?,
        };
        // A full disk is an error here and never a bus error in the guest.
        let mapped = sink::ensure(fd, 0, len as u64).and_then(|()| {
            // SAFETY: no address is asked for; the file has blocks there.
            unsafe { sys::mmap(0, len, flags::PROT_READ | flags::PROT_WRITE, flags::MAP_SHARED, fd, 0) }
        });
        sys::close(fd);
        return mapped;
    }
    Err(Errno::EEXIST)
}

fn word32(at: usize) -> &'static AtomicU32 {
    // SAFETY: I6: inside the log's mapping, which is never undone, and aligned.
    unsafe { &*(at as *const AtomicU32) }
}

fn word64(at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: as above.
    unsafe { &*(at as *const AtomicU64) }
}

/// Adds to a counter.
pub fn count(counter: LogCounter, by: u64) {
    let at = AT.load(Ordering::Relaxed);
    if at != 0 {
        word64(at + LOG_COUNTERS + counter as usize * 8).fetch_add(by, Ordering::Relaxed);
    }
}

/// A site ran.
#[inline]
pub fn hit(site: u32) {
    let at = HITS_AT.load(Ordering::Relaxed);
    if at != 0 && site <= SITES.load(Ordering::Relaxed) {
        let hits = word32(at + site as usize * 4);
        // For proportions only: a lost update does no harm, a locked one would cost.
        hits.store(hits.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }
}

/// A slot of the log.
#[derive(Clone, Copy, Debug)]
pub struct Slot(usize);

impl Slot {
    /// Adds to one of its numbers, up to the most that it holds.
    fn add(self, by: usize, value: u32) {
        let add = |now: u32| Some(now.saturating_add(value));
        let _ = word32(self.0 + by).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// A stall is over.
    pub fn stalled(self, ns: u64, ended: Ended) {
        let us = u32::try_from(ns / 1000).unwrap_or(u32::MAX);
        match ended {
            Ended::Resolved => self.add(20, 1),
            Ended::TimedOut => self.add(24, 1),
            Ended::Futile | Ended::Mutual => self.add(28, 1),
            Ended::Crowded => return,
        }
        self.add(32, us);
        word32(self.0 + 44).fetch_max(us, Ordering::Relaxed);
    }

    /// Notes that a distance varies, where it is not the one that is there, or the slot is another call's.
    pub fn distance(self, call: u64, halves: (u32, u32)) {
        let there = (word32(self.0 + 36).load(Ordering::Relaxed), word32(self.0 + 40).load(Ordering::Relaxed));
        if word64(self.0 + 8).load(Ordering::Relaxed) != call || there != halves {
            word32(self.0 + 28).store(1, Ordering::Relaxed);
        }
    }

    /// Stalls for this pair that were in vain; 0 where one paid.
    pub fn in_vain(self) -> u32 {
        let get = |by: usize| word32(self.0 + by).load(Ordering::Relaxed);
        if get(20) > 0 { 0 } else { get(24).saturating_add(get(28)) }
    }

    /// Whether stalling for this pair does not pay: `most` stalls ended by the time or it came `usual` times, and few or none
    /// ended by the awaited access.
    pub fn is_mute(self, most: u32, usual: u32) -> bool {
        let get = |by: usize| word32(self.0 + by).load(Ordering::Relaxed);
        let (count, resolved, in_vain) = (get(16), get(20), get(24).saturating_add(get(28)));
        in_vain >= most.saturating_add(resolved.saturating_mul(4))
            || count >= usual.saturating_add(resolved.saturating_mul(4))
    }
}

/// How a stall ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The awaited access came.
    Resolved,
    /// The time was up.
    TimedOut,
    /// Nobody could come.
    Futile,
    /// Threads were stalled on each other.
    Mutual,
    /// It was not made: too many threads were stalled already.
    Crowded,
}

impl Ended {
    /// What counts it.
    pub const fn counter(self) -> LogCounter {
        match self {
            Ended::Resolved => LogCounter::Resolved,
            Ended::TimedOut => LogCounter::TimedOut,
            Ended::Futile => LogCounter::Futile,
            Ended::Mutual => LogCounter::Mutual,
            Ended::Crowded => LogCounter::Crowded,
        }
    }
}

/// The slots where a key may be, first the one where it is looked for first.
fn places(key: u64) -> impl Iterator<Item = Slot> {
    let (first, slots) = (SLOTS_AT.load(Ordering::Relaxed), SLOTS.load(Ordering::Relaxed));
    let slots = if first == 0 { 0 } else { slots };
    let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
    let at = move |probe: u32| Slot(first + (hash.wrapping_add(probe) & slots.wrapping_sub(1)) as usize * SLOT);
    (0..slots.min(256)).map(at)
}

/// The slot of a pair, where it was noted.
pub fn find(what: Note, site: u32, (other, own): (u32, bool)) -> Option<Slot> {
    let key = key(what, site, other, own);
    let there = |slot: &Slot| word64(slot.0).load(Ordering::Acquire);
    places(key).find(|slot| matches!(there(slot), 0) || there(slot) == key).filter(|slot| there(slot) == key)
}

/// Notes a pair; `None` where there is no room.
pub fn note(
    what: Note,
    site: u32,
    (other, own): (u32, bool),
    addr: u64,
    thread: u32,
    other_thread: u32,
) -> Option<Slot> {
    if SLOTS_AT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let key = key(what, site, other, own);
    for slot in places(key) {
        let place = word64(slot.0);
        let mut there = place.load(Ordering::Acquire);
        if there == 0 {
            there = match place.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    word64(slot.0 + 8).store(addr, Ordering::Relaxed);
                    word32(slot.0 + 36).store(thread, Ordering::Relaxed);
                    word32(slot.0 + 40).store(other_thread, Ordering::Relaxed);
                    key
                }
                Err(now) => now,
            };
        }
        if there == key {
            slot.add(16, 1);
            return Some(slot);
        }
    }
    count(LogCounter::NotLogged, 1);
    None
}
