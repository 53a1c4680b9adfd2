//! Who is inside an atomic section of which bytes, for others to see; and what others did there meanwhile.
//!
//! Records lie by cache line, a few for each bucket of lines. A count for each bucket answers the common question (is anybody
//! inside a section near here?) with one load. A record belongs to the thread that took it; others leave in its two slots, one for
//! reads and one for writes, what they are about to do:
//!
//! ```text
//!  free ──file──▶ filling ──▶ pending ──made──▶ done          the owner frees all of them when it closes the record:
//!                    └──(closed meanwhile)──▶ abandoned ──▶ free    the generation in the word goes up
//! ```
//!
//! NOTE: why what is found here is true. [`Record::set_inside`] is called only when its owner is seen after the access that the section
//! began with, and `file` leaves nothing before that: a filed access comes after the begin. [`Filed::made`] is called only when the
//! thread that filed it is seen after its access, and the owner looks before its own end: an access that is done comes before the end.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::detect::slots::{Access, LINE_SHIFT};
use crate::detect::who::Who;
use crate::sys;

/// Buckets of lines.
const BUCKETS: usize = 256;
/// Records of a bucket.
const EACH: usize = 8;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const PENDING: u32 = 2;
const DONE: u32 = 3;
const ABANDONED: u32 = 4;
const STATE: u32 = 7;
const GENERATION: u32 = STATE + 1;

/// One access of another thread.
#[derive(Debug)]
struct Slot {
    /// Generation and state.
    word: AtomicU32,
    /// I13: written by who has made the word `FILLING`, read by the record's owner while it is `PENDING` or `DONE`.
    who: UnsafeCell<Who>,
}

// SAFETY: I13: the cell is touched only as its word allows, and words are atomics.
unsafe impl Sync for Slot {}

impl Slot {
    const fn new() -> Slot {
        Slot { word: AtomicU32::new(FREE), who: UnsafeCell::new(Who::NOBODY) }
    }

    /// The owner is done with it.
    fn free(&self) {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let next = match word & STATE {
                // Whoever writes there frees it.
                FILLING => word & !STATE | ABANDONED,
                ABANDONED => return,
                _ => (word & !STATE).wrapping_add(GENERATION),
            };
            if self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

/// A section that somebody is inside.
#[derive(Debug)]
pub struct Record {
    /// Its thread + 1; 0 where it is free.
    owner: AtomicU32,
    /// Whether the owner is past the begin's access.
    inside: AtomicU32,
    addr: AtomicU64,
    size: AtomicU32,
    /// What others may not do, whatever the end: 1 reads, 2 writes.
    forbids: AtomicU32,
    slots: [Slot; 2],
    /// Changes when something is filed or made.
    bell: AtomicU32,
    /// Whether the owner waits for that.
    waiting: AtomicU32,
}

static RECORDS: [[Record; EACH]; BUCKETS] = [const {
    [const {
        Record {
            owner: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            addr: AtomicU64::new(0),
            size: AtomicU32::new(0),
            forbids: AtomicU32::new(0),
            slots: [Slot::new(), Slot::new()],
            bell: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
        }
    }; EACH]
}; BUCKETS];
/// Records in use, by bucket.
static COUNTS: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn bucket(line: u64) -> usize {
    line as usize % BUCKETS
}

/// Records in use at a line.
#[inline]
pub fn near(line: u64) -> u32 {
    COUNTS[bucket(line)].load(Ordering::Relaxed)
}

/// What a filed access was found to be.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// Made before now.
    Made(Who),
    /// Perhaps not made yet.
    Pending(Who),
}

/// Takes a record for a section of these bytes, which lie in one line; `None` where there is no room.
pub fn open(thread: u32, access: Access, forbids: u32) -> Option<&'static Record> {
    let at = bucket(access.addr >> LINE_SHIFT);
    let record = RECORDS[at].iter().find(|record| {
        record.owner.load(Ordering::Relaxed) == 0
            && record.owner.compare_exchange(0, thread + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    record.inside.store(0, Ordering::Relaxed);
    record.addr.store(access.addr, Ordering::Relaxed);
    record.size.store(access.size as u32, Ordering::Relaxed);
    record.forbids.store(forbids, Ordering::Relaxed);
    COUNTS[at].fetch_add(1, Ordering::Relaxed);
    Some(record)
}

impl Record {
    /// The owner is seen after the access that the section began with.
    pub fn set_inside(&self) {
        // Releases that access: whoever sees the mark comes after it.
        if self.inside.load(Ordering::Relaxed) == 0 {
            self.inside.store(1, Ordering::Release);
        }
    }

    /// Gives the record up.
    pub fn close(&self) {
        self.inside.store(0, Ordering::Relaxed);
        for slot in &self.slots {
            slot.free();
        }
        let at = bucket(self.addr.load(Ordering::Relaxed) >> LINE_SHIFT);
        self.owner.store(0, Ordering::Release);
        COUNTS[at].fetch_sub(1, Ordering::Relaxed);
    }

    fn overlaps(&self, access: Access) -> bool {
        let (addr, size) = (self.addr.load(Ordering::Relaxed), u64::from(self.size.load(Ordering::Relaxed)));
        addr < access.addr.saturating_add(access.size) && access.addr < addr.saturating_add(size)
    }

    /// What came, of accesses that do this: 1 reads, 2 writes.
    pub fn came(&self, writes: bool) -> Option<Came> {
        let slot = &self.slots[usize::from(writes)];
        let word = slot.word.load(Ordering::Acquire);
        // SAFETY: I13: the owner asks, and only it frees the slot.
        let who = || unsafe { *slot.who.get() };
        match word & STATE {
            DONE => Some(Came::Made(who())),
            PENDING => Some(Came::Pending(who())),
            _ => None,
        }
    }

    /// Whether anything was filed.
    pub fn is_filed(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.word.load(Ordering::Relaxed) & STATE, FILLING | PENDING | DONE))
    }

    /// The owner waits until something is filed or made, or for so long.
    pub fn wait(&self, ns: u64, unless: impl Fn() -> bool) {
        self.waiting.store(1, Ordering::SeqCst);
        let bell = self.bell.load(Ordering::SeqCst);
        if !unless() {
            sys::futex_wait(core::ptr::from_ref(&self.bell) as usize, bell, Some(ns));
        }
        self.waiting.store(0, Ordering::Relaxed);
    }

    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            sys::futex_wake(core::ptr::from_ref(&self.bell) as usize);
        }
    }
}

/// An access that a thread has filed, and perhaps not made yet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Filed {
    record: u32,
    word: u32,
    writes: u32,
}

impl Filed {
    /// The thread is seen after the access.
    pub fn made(self) {
        let (bucket, each) = (self.record as usize / EACH, self.record as usize % EACH);
        let record = &RECORDS[bucket % BUCKETS][each];
        let slot = &record.slots[usize::from(self.writes != 0)];
        let (from, to) = (self.word | PENDING, self.word | DONE);
        if slot.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            record.ring();
        }
    }
}

/// Whether an access does what a section forbids: 1 reads, 2 writes.
fn breaks(forbids: u32, reads: bool, writes: bool) -> bool {
    reads && forbids & 1 != 0 || writes && forbids & 2 != 0
}

/// Files an access with the sections of other threads that it may break; `who` is asked once.
pub fn file(thread: u32, access: Access, reads: bool, mut who: impl FnMut() -> Who, mut filed: impl FnMut(Filed)) {
    let first = access.addr >> LINE_SHIFT;
    let last = access.addr.saturating_add(access.size - 1) >> LINE_SHIFT;
    let mut known: Option<Who> = None;
    for line in (first..=last).take(64).filter(|line| near(*line) != 0) {
        let at = bucket(line);
        for (number, record) in RECORDS[at].iter().enumerate() {
            let owner = record.owner.load(Ordering::Acquire);
            if owner == 0 || owner == thread + 1 {
                continue;
            }
            let slot = &record.slots[usize::from(access.writes)];
            // Before the fields: where the section is another by now, so is the generation.
            let word = slot.word.load(Ordering::Acquire);
            if word & STATE != FREE
                || record.inside.load(Ordering::Acquire) == 0
                || !record.overlaps(access)
                || !breaks(record.forbids.load(Ordering::Relaxed), reads, access.writes)
            {
                continue;
            }
            let own = *known.get_or_insert_with(&mut who);
            if slot.word.compare_exchange(word, word | FILLING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            // SAFETY: I13: the word is `FILLING`, and it was this thread that made it so.
            unsafe { slot.who.get().write(own) };
            match slot.word.compare_exchange(word | FILLING, word | PENDING, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let writes = u32::from(access.writes);
                    filed(Filed { record: (at * EACH + number) as u32, word, writes });
                    record.ring();
                }
                // Closed meanwhile.
                Err(_) => slot.word.store(word.wrapping_add(GENERATION), Ordering::Release),
            }
        }
    }
}

/// Nobody is inside anything: in a forked child.
pub fn clear_all() {
    for record in RECORDS.iter().flatten() {
        if record.owner.load(Ordering::Relaxed) != 0 {
            for slot in &record.slots {
                let word = slot.word.load(Ordering::Relaxed);
                slot.word.store((word & !STATE).wrapping_add(GENERATION), Ordering::Relaxed);
            }
            record.owner.store(0, Ordering::Relaxed);
        }
    }
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn access(addr: u64, writes: bool) -> Access {
        Access { addr, size: 8, writes, atomic: false }
    }

    fn filed(thread: u32, access: Access) -> Option<Filed> {
        let mut out = None;
        let who = || Who { access, thread, ..Who::NOBODY };
        file(thread, access, !access.writes, who, |one| out = Some(one));
        out
    }

    #[test]
    fn an_access_is_filed_only_after_the_begin_and_told_once_it_is_made() {
        let at = 0x7000_0040;
        let record = open(1, access(at, false), 2).expect("room");
        assert!(filed(2, access(at, true)).is_none(), "the owner may not be past its access");
        record.set_inside();
        assert!(filed(1, access(at, true)).is_none(), "its own");
        assert!(filed(2, access(at, false)).is_none(), "reads are allowed");
        assert!(filed(2, access(at + 8, true)).is_none(), "other bytes");
        let one = filed(2, access(at + 4, true)).expect("filed");
        assert!(filed(3, access(at, true)).is_none(), "the first is kept");
        assert!(matches!(record.came(true), Some(Came::Pending(who)) if who.thread == 2));
        one.made();
        assert!(matches!(record.came(true), Some(Came::Made(who)) if who.thread == 2));
        assert!(record.came(false).is_none());
        record.close();
        assert_eq!(near(at >> LINE_SHIFT), 0);
        one.made();
        let again = open(3, access(at, false), 2).expect("room");
        assert!(again.came(true).is_none(), "the next section knows nothing of it");
        again.close();
    }

    #[test]
    fn records_run_out_and_come_back() {
        let at = 0x7000_1080;
        let all: std::vec::Vec<_> = (0..EACH as u32).map(|thread| open(thread, access(at, false), 2)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(open(99, access(at, false), 2).is_none());
        for record in all.into_iter().flatten() {
            record.close();
        }
        assert_eq!(near(at >> LINE_SHIFT), 0);
    }

    #[test]
    fn what_comes_is_whole_or_nothing_however_threads_meet() {
        let at = 0x7000_20c0;
        for round in 0..3_000_u64 {
            let record = open(1, access(at, false), 3).expect("room");
            record.set_inside();
            let files = |thread: u32| {
                std::thread::spawn(move || {
                    let who = || Who { access: access(at, true), thread, value: u64::from(thread) * 7, ..Who::NOBODY };
                    file(thread, access(at, true), false, who, |filed| filed.made());
                })
            };
            let others = [files(2), files(3)];
            if round % 3 != 0 {
                std::thread::yield_now();
            }
            if let Some(Came::Made(who) | Came::Pending(who)) = record.came(true) {
                assert_eq!(who.value, u64::from(who.thread) * 7);
            }
            record.close();
            for other in others {
                other.join().expect("it ends");
            }
        }
        assert_eq!(near(at >> LINE_SHIFT), 0);
    }
}
