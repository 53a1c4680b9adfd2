//! The guard's two files: the table that a plan carries, and the log that the runtime leaves.
//!
//! The table says which access may come right after which other thread's access: the belonging sets of a build, as bits.
//! Guarded sites are numbered from 1; 0 stands for *nil*, no access of another thread so far. All of it sits in the plan
//! ([`crate::plan`]), as the payload of the guard's intervention.
//!
//! ```text
//! 0   magic "SLVGUARD"   8  version u32     12  header length u32 (64)
//! 16  stall ns u64       24 flags u32       28  sites u32
//! 32  rows at u32        36 ids at u32      40  ids u32         44  shifts at u32 (0: none)
//! 48  entries at u32     52 entries u32
//! row, 16 bytes, of sites 1, 2, …: first u32 | count u32 | bits at u32 | flags u32 (1: nil belongs; 2: nil, where the
//!     thread itself was there before)
//!     bit 2k of the row's bits: site first + k belongs, right before; bit 2k + 1: with accesses of the thread's own
//!     in between
//! ids, 4 bytes each: the site number of an armed id, 0 where it is not guarded. None: armed ids are site numbers.
//! shifts, 4 bytes each, of sites 1, 2, …: i32 that is added to an address before it is looked up, as one byte; the
//!     least number for none. Sites of variables that belong together are shifted to one of them: a colour.
//! entry, 16 bytes, by ascending offset: where a call in the executable that takes a lock returns to u32 | site u32 |
//!     i64: the site is what first touches the location at that distance from the lock
//! ```
//!
//! The log is a file that stays mapped: what was stored survives a crash.
//!
//! ```text
//! 0   magic "SLVGRLOG"   8  version u32     12  header length u32 (4096)
//! 16  pid u32            20 sites u32       24  slots u32 (a power of two)   28 hits at u32
//! 32  slots at u32       36 flags u32       40  base of the executable u64
//! 64  counters, 8 bytes each ([`LogCounter`])
//! hits, 4 bytes each, of sites 0, 1, …
//! slot, 48 bytes: key u64 (0: free) | address u64 | count u32 | resolved u32 | timed out u32 | futile u32
//!     | stalled us u32 | thread u32 | other thread u32 | longest us u32
//! key: kind << 40 | site << 20 | own accesses in between << 18 | other site
//! ```

use crate::bytes::{array_at, slice_at, u32_at, u64_at};

/// First bytes of a table.
pub const MAGIC: [u8; 8] = *b"SLVGUARD";
/// Version of the table.
pub const VERSION: u32 = 1;
/// Bytes of the table's header.
pub const HEADER: usize = 64;
/// Bytes of a row.
pub const ROW: usize = 16;
/// Bytes of an entry of a critical section.
pub const ENTRY: usize = 16;
/// Most sites that can be guarded.
pub const MOST_SITES: u32 = (1 << SITE_BITS) - 1;
/// Bits of a site number.
pub const SITE_BITS: u32 = 18;
/// Learns: every pair is noted, nobody stalls.
pub const FLAG_LEARN: u32 = 1;
/// Watches: violations are noted, nobody stalls.
pub const FLAG_WATCH: u32 = 2;
/// A site without a colour.
pub const NO_SHIFT: i32 = i32::MIN;
/// In a row: nil belongs.
pub const ROW_NIL: u32 = 1;
/// In a row: nil belongs where the thread itself was there before.
pub const ROW_NIL_OWN: u32 = 2;
/// How long a thread stalls at most, unless asked otherwise.
pub const DEFAULT_STALL_NS: u64 = 10_000_000;

/// First bytes of a log.
pub const LOG_MAGIC: [u8; 8] = *b"SLVGRLOG";
/// Version of the log.
pub const LOG_VERSION: u32 = 1;
/// Bytes of the log's header.
pub const LOG_HEADER: usize = 4096;
/// Where the counters begin.
pub const LOG_COUNTERS: usize = 64;
/// Bytes of a slot.
pub const SLOT: usize = 48;
/// How a log's file name begins; the process's number follows.
pub const LOG_PREFIX: &str = "guard-";

/// What a slot's key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Note {
    /// The site was about to follow the other, which does not belong.
    Violation = 1,
    /// Learnt: the site followed the other, of another thread.
    Member = 2,
    /// Learnt: the site touched what the other, of any thread, had touched last.
    Touch = 3,
    /// Learnt: the site touched memory that the program asked to be guarded.
    Asked = 4,
    /// Learnt: a critical section was entered. No site; the other is a hash of the call that took the lock, whose code
    /// address is in place of the address.
    Entered = 5,
    /// Learnt: the site was the first in a critical section to touch a location. The other and the address are as in
    /// [`Note::Entered`]; the threads are the two halves of the distance from the lock to the location, and `futile` is set
    /// where that varies.
    First = 6,
}

/// A slot's key. `own`: with accesses of the thread's own in between.
pub const fn key(note: Note, site: u32, other: u32, own: bool) -> u64 {
    (note as u64) << 40 | (site as u64) << 20 | (own as u64) << SITE_BITS | other as u64
}

macro_rules! log_counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// A counter of the guard.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum LogCounter { $($(#[doc = $doc])+ $name),* }

        /// Every counter with its key and its sentence, in order.
        pub const LOG_COUNTERS_ALL: &[(LogCounter, &str, &str)] =
            &[$((LogCounter::$name, stringify!($name), $text)),*];
    };
}

log_counters! {
    /// Accesses that would have come where none belongs.
    Violations = "accesses that were about to follow one that does not belong",
    /// Stalls that ended because the awaited access came.
    Resolved = "stalls that ended because the awaited access came",
    /// Stalls that ended by the time.
    TimedOut = "stalls that ended because the time was up; the access went on",
    /// Stalls that ended at once because threads were stalled on each other.
    Mutual = "stalls that ended because threads were stalled on each other",
    /// Stalls that ended because nobody was left who could come.
    Futile = "stalls that ended because every other thread was blocked",
    /// Violations that are not in the log because it was full.
    NotLogged = "notes that did not fit in the log",
    /// Accesses that were not checked because memory for the recorder ran out.
    NoMemory = "accesses that were not checked: the recorder reached its memory limit",
    /// Violations in signal handlers that interrupted the guard at work.
    Reentered = "violations in signal handlers that interrupted the guard at work; nobody stalled",
    /// Stalls that were not made because too many threads stall already.
    Crowded = "stalls that were not made because too many threads were stalled already",
    /// Words that were cut because accesses of several shapes meet in them.
    Splits = "words in which accesses of several sizes meet, kept byte by byte",
    /// Parts of long copies and fills that were not looked at.
    LongRanges = "copies and fills of which only the beginning was checked",
    /// Stalls that were not made because those before them had taken too much time in vain.
    Spared = "stalls that were not made because too much time had been stalled in vain",
    /// Memory that a thread came to record in without locked instructions.
    Given = "pieces of memory that a thread used alone, and came to own for its records",
    /// Such memory that another thread came to.
    TakenAway = "times that such a piece was taken from its owner because another thread came",
}

/// A checked view of a table's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    /// Most time that a thread stalls, in nanoseconds.
    pub stall_ns: u64,
    /// `FLAG_…`
    pub flags: u32,
    /// How many sites; they are numbered from 1.
    pub sites: u32,
    rows_at: usize,
    ids_at: usize,
    ids: u32,
    shifts_at: usize,
    entries_at: usize,
    entries: u32,
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableError {
    /// Where.
    pub at: u64,
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "impossible value at offset {} of the guard's table", self.at)
    }
}

impl core::error::Error for TableError {}

/// The belonging set of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row<'a> {
    /// The site of the first bit.
    pub first: u32,
    /// How many sites.
    pub count: u32,
    /// The bits, in 64-bit words.
    pub bits: &'a [u8],
    /// `ROW_NIL…`
    pub flags: u32,
}

impl Row<'_> {
    /// Whether a site, or nil where it is 0, belongs; `own`: with accesses of the thread's own in between.
    pub fn has(&self, site: u32, own: bool) -> bool {
        if site == 0 {
            return self.flags & if own { ROW_NIL_OWN } else { ROW_NIL } != 0;
        }
        let Some(at) = site.checked_sub(self.first).filter(|at| *at < self.count) else { return false };
        let bit = at * 2 + u32::from(own);
        self.bits.get(bit as usize / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    }
}

impl<'a> Table<'a> {
    /// Checks everything; after that, access cannot fail.
    pub fn parse(bytes: &'a [u8]) -> Result<Table<'a>, TableError> {
        let bad = |at: usize| TableError { at: at as u64 };
        if array_at(bytes, 0) != Some(MAGIC) {
            return Err(bad(0));
        }
        let field = |at: usize| u32_at(bytes, at).ok_or(bad(at));
        if field(8)? != VERSION {
            return Err(bad(8));
        }
        if field(12)? as usize != HEADER || bytes.len() < HEADER {
            return Err(bad(12));
        }
        let table = Table {
            bytes,
            stall_ns: u64_at(bytes, 16).ok_or(bad(16))?,
            flags: field(24)?,
            sites: field(28)?,
            rows_at: field(32)? as usize,
            ids_at: field(36)? as usize,
            ids: field(40)?,
            shifts_at: field(44)? as usize,
            entries_at: field(48)? as usize,
            entries: field(52)?,
        };
        if table.sites > MOST_SITES {
            return Err(bad(28));
        }
        let sites = table.sites as usize;
        slice_at(bytes, table.rows_at, sites * ROW).ok_or(bad(32))?;
        slice_at(bytes, table.ids_at, table.ids as usize * 4).ok_or(bad(36))?;
        if table.shifts_at != 0 {
            slice_at(bytes, table.shifts_at, sites * 4).ok_or(bad(44))?;
        }
        let rows = slice_at(bytes, table.entries_at, table.entries as usize * ENTRY).ok_or(bad(48))?;
        if rows.chunks_exact(ENTRY).any(|row| u32_at(row, 4).is_none_or(|site| site == 0 || site > table.sites)) {
            return Err(bad(table.entries_at));
        }
        for site in 1..=table.sites {
            table.row_checked(site).ok_or(bad(table.rows_at + (site as usize - 1) * ROW))?;
        }
        for id in 0..table.ids {
            if table.id(id) > table.sites {
                return Err(bad(table.ids_at + id as usize * 4));
            }
        }
        Ok(table)
    }

    fn row_checked(&self, site: u32) -> Option<Row<'a>> {
        let at = self.rows_at.checked_add((site.checked_sub(1)? as usize).checked_mul(ROW)?)?;
        let field = |by| u32_at(self.bytes, at + by);
        let (first, count) = (field(0)?, field(4)?);
        let fits = count == 0 || first >= 1 && first.checked_add(count - 1)? <= self.sites;
        let bits = slice_at(self.bytes, field(8)? as usize, count.div_ceil(32) as usize * 8)?;
        fits.then_some(Row { first, count, bits, flags: field(12)? })
    }

    /// The belonging set of a site.
    pub fn row(&self, site: u32) -> Row<'a> {
        self.row_checked(site).unwrap_or_default()
    }

    /// The site number of an armed id; 0 where it is not guarded.
    pub fn site_of(&self, id: u32) -> u32 {
        match self.ids {
            0 if id <= self.sites => id,
            0 => 0,
            _ => self.id(id),
        }
    }

    fn id(&self, id: u32) -> u32 {
        if id < self.ids { u32_at(self.bytes, self.ids_at + id as usize * 4).unwrap_or(0) } else { 0 }
    }

    /// The rows of [`Table::entries`].
    pub fn entry_rows(&self) -> &'a [u8] {
        slice_at(self.bytes, self.entries_at, self.entries as usize * ENTRY).unwrap_or(&[])
    }

    /// Critical sections: return offset of the call that takes the lock, site, distance from the lock.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u32, u32, i64)> + use<'a> {
        self.entry_rows().chunks_exact(ENTRY).map(|row| {
            let field = |at| u32_at(row, at).unwrap_or(0);
            (field(0), field(4), u64_at(row, 8).unwrap_or(0) as i64)
        })
    }

    /// Whether armed ids are site numbers.
    pub fn ids_are_sites(&self) -> bool {
        self.ids == 0
    }

    /// What is added to a coloured site's addresses.
    pub fn shift(&self, site: u32) -> Option<i32> {
        match site.checked_sub(1) {
            Some(index) if self.shifts_at != 0 && site <= self.sites => {
                let shift = u32_at(self.bytes, self.shifts_at + index as usize * 4)? as i32;
                Some(shift).filter(|shift| *shift != NO_SHIFT)
            }
            _ => None,
        }
    }
}

/// A log, as far as it can be read: logs of crashed programs are whole, those of full disks may not be.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    bytes: &'a [u8],
    /// Whose.
    pub pid: u32,
    /// How many sites its table had.
    pub sites: u32,
    /// The table's flags.
    pub flags: u32,
    /// Where the executable was.
    pub base: u64,
    slots: u32,
    hits_at: usize,
    slots_at: usize,
}

/// One slot of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it notes.
    pub note: Note,
    /// The site, from 1.
    pub site: u32,
    /// The site before it; 0 is nil.
    pub other: u32,
    /// Whether accesses of the thread's own were in between.
    pub own: bool,
    /// The first address.
    pub addr: u64,
    /// How often.
    pub count: u32,
    /// Stalls that ended because the awaited access came.
    pub resolved: u32,
    /// Stalls that ended by the time.
    pub timed_out: u32,
    /// Stalls that ended because nobody could come.
    pub futile: u32,
    /// All stalls together, in microseconds.
    pub stalled_us: u32,
    /// The first thread.
    pub thread: u32,
    /// The thread before it; `u32::MAX` for none.
    pub other_thread: u32,
    /// The longest stall, in microseconds.
    pub longest_us: u32,
}

impl Entry {
    /// The distance in a [`Note::First`]; `None` where it varies.
    pub fn distance(&self) -> Option<i64> {
        let distance = u64::from(self.thread) | u64::from(self.other_thread) << 32;
        (self.futile == 0).then_some(distance as i64)
    }
}

impl<'a> Log<'a> {
    /// Reads the header; `None` where this is no log of this version.
    pub fn parse(bytes: &'a [u8]) -> Option<Log<'a>> {
        if array_at(bytes, 0)? != LOG_MAGIC || u32_at(bytes, 8)? != LOG_VERSION {
            return None;
        }
        Some(Log {
            bytes,
            pid: u32_at(bytes, 16)?,
            sites: u32_at(bytes, 20)?,
            slots: u32_at(bytes, 24)?,
            hits_at: u32_at(bytes, 28)? as usize,
            slots_at: u32_at(bytes, 32)? as usize,
            flags: u32_at(bytes, 36)?,
            base: u64_at(bytes, 40)?,
        })
    }

    /// A counter.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        u64_at(self.bytes, LOG_COUNTERS + counter as usize * 8).unwrap_or(0)
    }

    /// How often a site ran, where that was counted.
    pub fn hits(&self, site: u32) -> u32 {
        if site > self.sites {
            return 0;
        }
        u32_at(self.bytes, self.hits_at + site as usize * 4).unwrap_or(0)
    }

    /// What was noted, in no order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let bytes = self.bytes.get(self.slots_at..).unwrap_or(&[]);
        bytes.chunks_exact(SLOT).take(self.slots as usize).filter_map(|slot| {
            let key = u64_at(slot, 0)?;
            let note = match key >> 40 {
                1 => Note::Violation,
                2 => Note::Member,
                3 => Note::Touch,
                4 => Note::Asked,
                5 => Note::Entered,
                6 => Note::First,
                _ => return None,
            };
            let field = |at| u32_at(slot, at).unwrap_or(0);
            Some(Entry {
                note,
                site: (key >> 20) as u32 & 0xf_ffff,
                other: key as u32 & MOST_SITES,
                own: key >> SITE_BITS & 1 != 0,
                addr: u64_at(slot, 8)?,
                count: field(16),
                resolved: field(20),
                timed_out: field(24),
                futile: field(28),
                stalled_us: field(32),
                thread: field(36),
                other_thread: field(40),
                longest_us: field(44),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sites: 1 may follow nil and 2, right before; 2 may follow 1 only, beyond accesses of its own.
    fn table() -> [u8; 64 + 32 + 16] {
        let mut bytes = [0; 112];
        bytes[..8].copy_from_slice(&MAGIC);
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        for (at, value) in [(8, VERSION), (12, 64), (16, 5), (28, 2), (32, 64), (36, 64)] {
            put(at, value);
        }
        for (at, value) in
            [(64, 2), (68, 1), (72, 96), (76, 1), (80, 1), (84, 1), (88, 104), (92, 0), (96, 1), (104, 2)]
        {
            put(at, value);
        }
        bytes
    }

    #[test]
    fn rows_say_what_belongs() {
        let bytes = table();
        let table = Table::parse(&bytes).expect("sound");
        assert_eq!((table.stall_ns, table.sites), (5, 2));
        let belongs = |site: u32, own| [0, 1, 2, 3].map(|other| table.row(site).has(other, own));
        assert_eq!(belongs(1, false), [true, false, true, false]);
        assert_eq!(belongs(1, true), [false; 4]);
        assert_eq!(belongs(2, false), [false; 4]);
        assert_eq!(belongs(2, true), [false, true, false, false]);
        assert_eq!(belongs(3, false), [false; 4]);
        assert_eq!((table.site_of(2), table.site_of(3), table.shift(1)), (2, 0, None));
    }

    #[test]
    fn damaged_tables_are_refused_and_none_is_read_past_its_end() {
        let whole = table();
        for len in 0..whole.len() {
            assert!(Table::parse(&whole[..len]).is_err(), "cut at {len}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole;
                bytes[at] = value;
                if let Ok(table) = Table::parse(&bytes) {
                    for site in 0..4 {
                        let _ = (table.row(site).has(site, true), table.site_of(site), table.shift(site));
                    }
                }
            }
        }
    }

    #[test]
    fn keys_are_taken_apart_as_they_were_put_together() {
        let mut slot = [0_u8; 4096 + SLOT];
        slot[..8].copy_from_slice(&LOG_MAGIC);
        slot[8..12].copy_from_slice(&LOG_VERSION.to_le_bytes());
        slot[24..28].copy_from_slice(&1_u32.to_le_bytes());
        slot[32..36].copy_from_slice(&4096_u32.to_le_bytes());
        slot[4096..4104].copy_from_slice(&key(Note::Member, MOST_SITES, 77, true).to_le_bytes());
        let log = Log::parse(&slot).expect("a log");
        let only = log.entries().next().expect("an entry");
        assert_eq!((only.note, only.site, only.other, only.own), (Note::Member, MOST_SITES, 77, true));
        assert!(Log::parse(&slot[..60]).is_some_and(|log| log.entries().next().is_none()));
    }
}
