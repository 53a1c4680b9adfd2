//! Healing's two files: the table of atomic sections that a plan carries, and the log that the runtime leaves.
//!
//! The table says at which sites sections begin, end and are left. Sites are numbered from 1; a site without roles is one
//! at which a thread is seen past an end. Sections are numbered from 0.
//!
//! ```text
//! 0   magic "SLVHEAL1"   8  version u32     12  header length u32 (64)
//! 16  wait ns u64        24 own from u32    28  sites u32
//! 32  rows at u32        36 ids at u32      40  ids u32
//! 44  sections at u32    48 sections u32    52  roles at u32     56 roles u32
//! row, 8 bytes, of sites 1, 2, …: first role u32 | roles u32
//! role, 8 bytes: section u32 | kind u32 ([`RoleKind`])
//! section, 4 bytes: how u8 ([`How`]) | flags u8 | zero u16
//! ids, 4 bytes each: the site number of an armed id, 0 where it takes no part. None: armed ids are site numbers.
//! ```
//!
//! Armed ids from `own from` on are there for healing alone.
//!
//! The log is a file that stays mapped: what was stored survives a crash.
//!
//! ```text
//! 0   magic "SLVHELOG"   8  version u32     12  header length u32 (4096)
//! 16  pid u32            20 sections u32    24  rows at u32
//! 64  counters, 8 bytes each ([`LogCounter`])
//! row, 32 bytes, of sections 0, 1, …: entered u32 | waited u32 | freed u32 | timed out u32 | deadlocks u32
//!     | waited us u32 | longest us u32 | zero u32
//! ```

use crate::bytes::{array_at, slice_at, u32_at, u64_at};

/// First bytes of a table.
pub const MAGIC: [u8; 8] = *b"SLVHEAL1";
/// Version of the table.
pub const VERSION: u32 = 1;
/// Bytes of the table's header.
pub const HEADER: usize = 64;
/// Bytes of a site's row.
pub const ROW: usize = 8;
/// Bytes of a role.
pub const ROLE: usize = 8;
/// Bytes of a section.
pub const SECTION: usize = 4;
/// Most sites that can take part.
pub const MOST_SITES: u32 = 1 << 20;
/// How long a thread waits at most, unless asked otherwise.
pub const DEFAULT_WAIT_NS: u64 = 10_000_000;
/// Of a section: every end is in the function of its begin, so that it is over when that function's frame is gone.
pub const FLAG_ONE_FRAME: u8 = 1;

/// First bytes of a log.
pub const LOG_MAGIC: [u8; 8] = *b"SLVHELOG";
/// Version of the log.
pub const LOG_VERSION: u32 = 1;
/// Bytes of the log's header.
pub const LOG_HEADER: usize = 4096;
/// Where the counters begin.
pub const LOG_COUNTERS: usize = 64;
/// Bytes of a section's row in a log.
pub const LOG_ROW: usize = 32;
/// How a log's file name begins; the process's number follows.
pub const LOG_PREFIX: &str = "heal-";

/// What a site is to a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum RoleKind {
    /// It begins before this access.
    Enter = 1,
    /// It ends after this access.
    End = 2,
    /// It is left here.
    Leave = 3,
    /// It is this access, and no more.
    Only = 4,
}

impl RoleKind {
    /// From its number.
    pub const fn from_u32(kind: u32) -> Option<RoleKind> {
        Some(match kind {
            1 => RoleKind::Enter,
            2 => RoleKind::End,
            3 => RoleKind::Leave,
            4 => RoleKind::Only,
            _ => return None,
        })
    }
}

/// How others are kept out of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum How {
    /// They wait for a lock.
    #[default]
    Lock = 0,
    /// They give their turn away, a few times.
    Yield = 1,
    /// They sleep for a moment.
    Sleep = 2,
    /// They step back behind other threads until it is over, or for a moment.
    Priority = 3,
}

impl How {
    /// All of them.
    pub const ALL: [How; 4] = [How::Lock, How::Yield, How::Sleep, How::Priority];

    /// From its number.
    pub const fn from_u8(how: u8) -> Option<How> {
        Some(match how {
            0 => How::Lock,
            1 => How::Yield,
            2 => How::Sleep,
            3 => How::Priority,
            _ => return None,
        })
    }

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            How::Lock => "lock",
            How::Yield => "yield",
            How::Sleep => "sleep",
            How::Priority => "priority",
        }
    }

    /// By its name.
    pub fn from_name(name: &str) -> Option<How> {
        How::ALL.into_iter().find(|how| how.name() == name)
    }
}

macro_rules! log_counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// A counter of healing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum LogCounter { $($(#[doc = $doc])+ $name),* }

        /// Every counter with its key and its sentence, in order.
        pub const LOG_COUNTERS_ALL: &[(LogCounter, &str, &str)] =
            &[$((LogCounter::$name, stringify!($name), $text)),*];
    };
}

log_counters! {
    /// Sections that began.
    Entered = "sections were entered",
    /// Threads that came while another was inside.
    Met = "times a thread came while another was inside a section of the same variable",
    /// Waits that ended because it was left.
    Freed = "waits ended because the other thread had left its section",
    /// Waits for a lock that ended by the time.
    TimedOut = "waits for a lock ended because the time was up; the lock was taken from its holder",
    /// Waits that were not made because threads waited for each other.
    Deadlocks = "waits were not made because threads waited for each other's locks",
    /// Locks that were given back because their holder was going to wait.
    GivenUp = "locks were given back inside a section because their holder was about to wait for others",
    /// Sections whose frame was gone.
    FramesGone = "sections were left by an exception or a jump",
    /// Sections that a thread's end ended.
    ThreadsGone = "sections were left by the end of their thread",
    /// Turns that were given away.
    Yields = "turns were given away",
    /// Sleeps.
    Sleeps = "sleeps before a section that another thread was inside",
    /// Steps behind other threads.
    StepsBack = "steps behind other threads before a section that another was inside",
    /// Waits of the scheduling kinds that did not help.
    Overran = "sections were entered although another thread was inside: no lock may keep it out",
    /// Waits that were not made because those before them had been in vain.
    Spared = "waits were not made because those before them had been in vain",
    /// Sections that were not kept because a thread was inside too many.
    TooMany = "sections were not kept because the thread was inside too many",
    /// Accesses of handlers that interrupted healing at work.
    Reentered = "accesses of signal handlers that interrupted healing at work were let pass",
}

/// A checked view of a table's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    /// Most time that a thread waits, in nanoseconds.
    pub wait_ns: u64,
    /// The first armed id that is there for healing alone.
    pub own_from: u32,
    /// How many sites; they are numbered from 1.
    pub sites: u32,
    /// How many sections; they are numbered from 0.
    pub sections: u32,
    rows_at: usize,
    ids_at: usize,
    ids: u32,
    sections_at: usize,
    roles_at: usize,
    roles: u32,
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableError {
    /// Where.
    pub at: u64,
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "impossible value at offset {} of the table of sections", self.at)
    }
}

impl core::error::Error for TableError {}

/// What a site is to one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role {
    /// The section, from 0.
    pub section: u32,
    /// What the site is to it.
    pub kind: RoleKind,
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
            wait_ns: u64_at(bytes, 16).ok_or(bad(16))?,
            own_from: field(24)?,
            sites: field(28)?,
            rows_at: field(32)? as usize,
            ids_at: field(36)? as usize,
            ids: field(40)?,
            sections_at: field(44)? as usize,
            sections: field(48)?,
            roles_at: field(52)? as usize,
            roles: field(56)?,
        };
        if table.sites > MOST_SITES {
            return Err(bad(28));
        }
        slice_at(bytes, table.ids_at, table.ids as usize * 4).ok_or(bad(36))?;
        let sections = slice_at(bytes, table.sections_at, table.sections as usize * SECTION).ok_or(bad(44))?;
        if sections.chunks_exact(SECTION).any(|row| How::from_u8(*row.first().unwrap_or(&u8::MAX)).is_none()) {
            return Err(bad(table.sections_at));
        }
        slice_at(bytes, table.rows_at, table.sites as usize * ROW).ok_or(bad(32))?;
        let roles = slice_at(bytes, table.roles_at, table.roles as usize * ROLE).ok_or(bad(52))?;
        let fits = |role: &[u8]| {
            let kind = u32_at(role, 4).and_then(RoleKind::from_u32);
            u32_at(role, 0).is_some_and(|section| section < table.sections) && kind.is_some()
        };
        if !roles.chunks_exact(ROLE).all(fits) {
            return Err(bad(table.roles_at));
        }
        for site in 1..=table.sites {
            table.role_rows(site).ok_or(bad(table.rows_at + (site as usize - 1) * ROW))?;
        }
        for id in 0..table.ids {
            if table.id(id) > table.sites {
                return Err(bad(table.ids_at + id as usize * 4));
            }
        }
        Ok(table)
    }

    fn role_rows(&self, site: u32) -> Option<&'a [u8]> {
        let at = self.rows_at.checked_add((site.checked_sub(1)? as usize).checked_mul(ROW)?)?;
        let (first, count) = (u32_at(self.bytes, at)?, u32_at(self.bytes, at + 4)?);
        if first.checked_add(count)? > self.roles {
            return None;
        }
        slice_at(self.bytes, self.roles_at + first as usize * ROLE, count as usize * ROLE)
    }

    /// What a site is to which sections.
    pub fn roles(&self, site: u32) -> impl Iterator<Item = Role> + use<'a> {
        self.role_rows(site)
            .unwrap_or(&[])
            .chunks_exact(ROLE)
            .filter_map(|role| Some(Role { section: u32_at(role, 0)?, kind: RoleKind::from_u32(u32_at(role, 4)?)? }))
    }

    /// How others are kept out of a section, and its flags.
    pub fn section(&self, section: u32) -> (How, u8) {
        let at = self.sections_at + section as usize * SECTION;
        let row = slice_at(self.bytes, at, SECTION).filter(|_| section < self.sections).unwrap_or(&[]);
        let how = row.first().copied().and_then(How::from_u8).unwrap_or(How::Yield);
        (how, row.get(1).copied().unwrap_or(0))
    }

    /// The site number of an armed id; 0 where it takes no part.
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
}

/// What happened at one section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it began.
    pub entered: u32,
    /// How often a thread came to it while another was inside.
    pub waited: u32,
    /// Waits that ended because the other had left.
    pub freed: u32,
    /// Waits that ended by the time.
    pub timed_out: u32,
    /// Waits that were not made because threads waited for each other.
    pub deadlocks: u32,
    /// All waits together, in microseconds.
    pub waited_us: u32,
    /// The longest, in microseconds.
    pub longest_us: u32,
}

/// A log, as far as it can be read.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    bytes: &'a [u8],
    /// Whose.
    pub pid: u32,
    /// How many sections its table had.
    pub sections: u32,
    rows_at: usize,
}

impl<'a> Log<'a> {
    /// Reads the header; `None` where this is no log of this version.
    pub fn parse(bytes: &'a [u8]) -> Option<Log<'a>> {
        if array_at(bytes, 0)? != LOG_MAGIC || u32_at(bytes, 8)? != LOG_VERSION {
            return None;
        }
        let field = |at| u32_at(bytes, at);
        Some(Log { bytes, pid: field(16)?, sections: field(20)?, rows_at: field(24)? as usize })
    }

    /// A counter.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        u64_at(self.bytes, LOG_COUNTERS + counter as usize * 8).unwrap_or(0)
    }

    /// What happened at a section.
    pub fn section(&self, section: u32) -> Tally {
        let row = slice_at(self.bytes, self.rows_at.saturating_add(section as usize * LOG_ROW), LOG_ROW);
        let Some(row) = row.filter(|_| section < self.sections) else { return Tally::default() };
        let field = |at| u32_at(row, at).unwrap_or(0);
        Tally {
            entered: field(0),
            waited: field(4),
            freed: field(8),
            timed_out: field(12),
            deadlocks: field(16),
            waited_us: field(20),
            longest_us: field(24),
        }
    }
}

const _: () = assert!(LOG_COUNTERS + LOG_COUNTERS_ALL.len() * 8 <= LOG_HEADER);
