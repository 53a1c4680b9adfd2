//! The detector's two files: what a plan says about noise, and the log that the runtime leaves.
//!
//! Armed ids are numbered from 0; each has a row. All of it sits in the plan ([`crate::plan`]), as the payload of the
//! intervention [`Noise`](crate::plan::Intervene::Noise).
//!
//! ```text
//! 0   magic "SLVNOISE"   8  version u32     12  header length u32 (112)
//! 16  seed u64           24 duration ns u64
//! 32  budget u32: millionths of the processor time that a thread uses ([`NO_BUDGET`]: none)   36  window of a near miss, ns u32
//! 40  strength u16       42 strength where noise is aimed u16
//! 44  noise u8           45 heuristic u8    46  flags u16
//! 48  sites u32          52 rows at u32     56  ranges u32      60  ranges at u32
//! row, 8 bytes, of ids 0, 1, …: aim u32 ([`Aim`]) | duration us u32 (0: the plan's)
//! 64  section rows at u32   68 roles u32    72  roles at u32    76  branches u32 (0: no sections are checked)
//! 80  begin off u32: ids below this, unless noise is aimed at them, are switched off at first
//! 84  bodies u32         88  bodies at u32     92  of so many bursts one is whole u32
//! 96  how long hot functions run with hooks, ns u64             104 how long they then run without, ns u64
//! body, 16 bytes, ascending: begin of the image's build-id u64 | room u32, as the site table has it | turn u32 ([`Turn`])
//! range, 16 bytes: where a suspected variable is, as offset from the base of the executable u64 | length u64
//! section row, 8 bytes, of ids 0, 1, …: first role u32 | roles u32
//! role, 16 bytes: kind u32 ([`PartKind`]) | section u32 | branch u32 | flags u32 (`PART_…`)
//! ```
//!
//! A branch is one way through a section: its begin and one of its ends. Branches are numbered from 0 over all sections.
//!
//! The log is a file that stays mapped: what was stored survives a crash.
//!
//! ```text
//! 0   magic "SLVDTLOG"   8  version u32     12  header length u32 (4096)
//! 16  pid u32            20 sites u32       24  race slots u32   28 near slots u32 (powers of two)
//! 32  hits at u32        36 races at u32    40  nears at u32     44 modules at u32
//! 48  modules u32        52 flags u32       56  seed u64
//! 64  counters, 8 bytes each ([`LogCounter`])
//! 2048 violation slots u32 | violations at u32 | branches u32 | branches at u32
//! hits, 16 bytes, of ids 0, 1, …: waits u32 | races u32 | near misses u32 | samples u32
//! race, 1024 bytes: key u64 (0: free) | count u32 | ready u32 | value flags u32 | 0 u32 | old u64 | new u64
//!     | where it was allocated u64 | block u64 | its size u64 | first side at 64 | second side at 512
//! side, 448 bytes: address u64 | size u32 | flags u32 | site u32 | thread u32 | frames u32 | locks u32 | value u64
//!     | 4 locks: address u64, where taken u64 | 24 return addresses u64, innermost first
//! violation, 1024 bytes: key u64 (0: free) | count u32 | ready u32 | branch u32 ([`ANNOTATED`]) | id of the begin u32
//!     | size of the begin u32 | flags of the begin u32 | address u64 | value at the begin u64 | where it was allocated u64
//!     | block u64 | its size u64 | who came between at 128 | who ended it at 576 (sides as above)
//! branch, 8 bytes: times gone through u32 | times broken u32
//! near, 32 bytes: key u64 (0: free) | address u64 | count u32 | shortest distance ns u32 | 0 u64
//! module, 320 bytes: base u64 | end u64 | build-id length u32 | path length u32 | build-id 32 bytes | path 264 bytes
//! key: 1 << 63 | smaller id << 31 | larger id
//! ```

use crate::bytes::{array_at, slice_at, u32_at, u64_at};

/// First bytes of the payload.
pub const MAGIC: [u8; 8] = *b"SLVNOISE";
/// Version of the payload.
pub const VERSION: u32 = 3;
/// Bytes of the payload's header.
pub const HEADER: usize = 112;
/// Bytes of a body's row.
pub const BODY: usize = 16;
/// Bytes of a site's row of roles.
pub const PARTS_ROW: usize = 8;
/// Bytes of a role.
pub const PART: usize = 16;
/// Of an end: others may read meanwhile. Of a begin: for some end they may not.
pub const PART_READS: u32 = 1;
/// The same for writes.
pub const PART_WRITES: u32 = 2;
/// Of a begin: every end is in its own function.
pub const PART_ONE_FRAME: u32 = 4;
/// Bytes of a row.
pub const ROW: usize = 8;
/// Bytes of a range.
pub const RANGE: usize = 16;
/// No budget.
pub const NO_BUDGET: u32 = u32::MAX;
/// The greatest strength: always.
pub const MOST_STRENGTH: u16 = 1000;
/// The longest wait.
pub const MOST_DURATION_NS: u64 = 10_000_000_000;
/// The longest that hot functions run without hooks.
pub const MOST_OFF_NS: u64 = 1 << 50;
/// Most hot functions.
pub const MOST_BODIES: u32 = 1 << 20;
/// Most sites.
pub const MOST_SITES: u32 = 1 << 24;
/// Atomic operations are watched too: a plain access that meets one races with it.
pub const FLAG_ATOMICS: u16 = 1;
/// A value that changed while a thread waited, and nobody was seen, is noted.
pub const FLAG_VALUES: u16 = 2;
/// `volatile` accesses are watched too.
pub const FLAG_VOLATILE: u16 = 4;

/// The first accesses of a thread wait more often than the strength says: short programs have no others.
pub const FLAG_EAGER: u16 = 8;

/// Atomic sections are checked: those of the table, and those that the program declares.
pub const FLAG_SECTIONS: u16 = 16;

/// First bytes of a log.
pub const LOG_MAGIC: [u8; 8] = *b"SLVDTLOG";
/// Version of the log.
pub const LOG_VERSION: u32 = 2;
/// Where the log's header says where broken sections are.
pub const LOG_SECTIONS: usize = 2048;
/// Bytes of a violation.
pub const VIOLATION: usize = 1024;
/// Where the sides of a violation are in it: who came between, and who ended the section.
pub const VIOLATION_SIDES: [usize; 2] = [128, 576];
/// Bytes of a side.
pub const SIDE: usize = 448;
/// Bytes of a branch.
pub const BRANCH: usize = 8;
/// The branch of sections that the program itself declares.
pub const ANNOTATED: u32 = u32::MAX;
/// Bytes of the log's header.
pub const LOG_HEADER: usize = 4096;
/// Where the counters begin.
pub const LOG_COUNTERS: usize = 64;
/// How a log's file name begins; the process's number follows.
pub const LOG_PREFIX: &str = "detect-";
/// Bytes of a row of hits.
pub const HITS: usize = 16;
/// Bytes of a race.
pub const RACE: usize = 1024;
/// Where the sides of a race are in it.
pub const SIDES: [usize; 2] = [64, 512];
/// Bytes of a near miss.
pub const NEAR: usize = 32;
/// Bytes of a module.
pub const MODULE: usize = 320;
/// Most modules.
pub const MOST_MODULES: u32 = 64;
/// Return addresses of a side.
pub const FRAMES: usize = 24;
/// Locks of a side.
pub const LOCKS: usize = 4;
/// Where a side's locks begin.
pub const SIDE_LOCKS: usize = 40;
/// Where a side's return addresses begin.
pub const SIDE_FRAMES: usize = SIDE_LOCKS + LOCKS * 16;
/// Bytes of a module's path.
pub const MODULE_PATH: usize = 264;
/// In a side: it writes.
pub const SIDE_WRITES: u32 = 1;
/// In a side: it is an atomic operation.
pub const SIDE_ATOMIC: u32 = 2;
/// In a race: values were looked at.
pub const VALUES_SEEN: u32 = 1;
/// In a race: the value changed while the first side waited.
pub const VALUE_CHANGED: u32 = 2;
/// The id that stands for an access that nobody saw.
pub const UNSEEN: u32 = 0x7fff_ffff;

const _: () = assert!(SIDE_FRAMES + FRAMES * 8 <= SIDES[1] - SIDES[0] && SIDES[1] + 448 <= RACE);
const _: () = assert!(56 + MODULE_PATH <= MODULE);
const _: () = assert!(VIOLATION_SIDES[0] + SIDE <= VIOLATION_SIDES[1] && VIOLATION_SIDES[1] + SIDE <= VIOLATION);

/// The key of two ids, whichever comes first.
pub const fn key(one: u32, two: u32) -> u64 {
    let (low, high) = if one < two { (one, two) } else { (two, one) };
    1 << 63 | (low as u64 & 0x7fff_ffff) << 31 | (high as u64 & 0x7fff_ffff)
}

const fn unkey(key: u64) -> Option<(u32, u32)> {
    if key >> 63 == 0 { None } else { Some(((key >> 31) as u32 & 0x7fff_ffff, key as u32 & 0x7fff_ffff)) }
}

macro_rules! choice {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $each:literal])+ $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $each])+ $variant = $number),* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// From its number.
            pub const fn from_u8(number: u8) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }

            /// Its name on a command line.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// By its name.
            pub fn by_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

choice! {
    /// How a thread waits.
    NoiseKind {
        /// Off the processor, until the time is up or somebody came.
        Sleep = 0 "sleep",
        /// On the processor.
        Spin = 1 "spin",
        /// Giving the processor away again and again.
        Yield = 2 "yield",
        /// As `Yield`, after all others.
        Priority = 3 "priority",
    }
}

choice! {
    /// Where threads wait (section 3.3 of the paper).
    Heuristic {
        /// Anywhere; more where noise is aimed.
        Random = 0 "random",
        /// Only at accesses to suspected variables.
        Variable = 1 "variable",
        /// Only at suspected places.
        Location = 2 "location",
    }
}

/// When a hot function runs with hooks. One that is named nowhere always does, where a site that it leads to is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Turn {
    /// Not in this run.
    Never = 0,
    /// Now and then, all such functions at the same time.
    Bursts = 1,
    /// In whole bursts only.
    Seldom = 2,
}

/// What stands for an image in a body's row: the first bytes of its build-id.
pub fn image_key(build_id: &[u8]) -> u64 {
    let mut key = [0; 8];
    for (to, from) in key.iter_mut().zip(build_id) {
        *to = *from;
    }
    u64::from_le_bytes(key)
}

/// How a site is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Aim {
    /// It looks for others, and never waits.
    Quiet = 0,
    /// It waits with the plan's strength.
    Usual = 1,
    /// It waits with the strength of aimed noise.
    Aimed = 2,
    /// It waits with the plan's strength, and is counted apart: those that are met often do not take its turns.
    Rare = 3,
}

/// What a site is to a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum PartKind {
    /// It begins with this access.
    Enter = 1,
    /// It ends with this access.
    End = 2,
    /// It is left here.
    Leave = 3,
    /// Its function begins: whoever was inside in a frame that is gone is so no more.
    Begin = 4,
}

/// A role of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// To which section.
    pub section: u32,
    /// Of an end: which way through the section.
    pub branch: u32,
    /// `PART_…`
    pub flags: u32,
}

macro_rules! log_counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// A counter of the detector.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum LogCounter { $($(#[doc = $doc])+ $name),* }

        /// Every counter with its key and its sentence, in order.
        pub const LOG_COUNTERS_ALL: &[(LogCounter, &str, &str)] =
            &[$((LogCounter::$name, stringify!($name), $text)),*];
    };
}

log_counters! {
    /// Races seen.
    Races = "times that two threads were seen at one location at once",
    /// Waits.
    Waits = "waits with an announcement standing",
    /// Nanoseconds of waits.
    WaitedNs = "nanoseconds of waits, of all threads",
    /// Checks, as far as they are counted.
    Checks = "accesses that looked for an announcement, as far as they are counted",
    /// Samples.
    Samples = "accesses that were considered for a wait",
    /// Not made for the budget's sake.
    OverBudget = "waits that were not made for the budget's sake",
    /// Not made while one thread lived.
    Alone = "accesses that were considered while there was one thread",
    /// Bucket taken.
    Crowded = "waits that were not made because another announcement stood in their place",
    /// Near misses.
    Near = "conflicting accesses shortly after an announcement had been withdrawn",
    /// Values that changed without a seen access.
    Unseen = "values that changed while a thread waited, and nobody was seen",
    /// Races not in the log.
    NotLogged = "races that did not fit in the log",
    /// In handlers.
    Reentered = "accesses in signal handlers that interrupted the detector at work, not checked",
    /// Sites switched off.
    SwitchedOff = "times that a hot site was switched off for the budget's sake",
    /// Sites switched on again.
    SwitchedOn = "times that a site was switched on again",
    /// Long ranges.
    LongRanges = "copies and fills of which only the beginning was checked",
    /// Announcements of a dead process.
    Stale = "announcements of another process that were thrown away",
    /// Announcements that were never answered.
    Lost = "announcements that were met and never answered",
    /// Sections that began.
    Entered = "atomic sections that began",
    /// Sections that came to an end.
    Ended = "atomic sections that came to an end",
    /// Sections left.
    LeftOpen = "atomic sections that were left without an end",
    /// Broken sections.
    Violations = "times that another thread broke an atomic section",
    /// Accesses that may have come too late.
    Unsure = "accesses inside another thread's section that were not seen to be made before its end",
    /// No room.
    SectionsCrowded = "atomic sections that were not followed for want of room",
    /// Calibrated cost.
    CheckPs = "picoseconds that a check takes, as it was measured",
    /// Hot functions were switched.
    Bursts = "times that hot functions ran with hooks for a moment",
    /// Their time could not be ended.
    Stuck = "times that a hot function could not be switched",
}

/// A checked view of a payload's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Noise<'a> {
    bytes: &'a [u8],
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How long a thread waits, about.
    pub duration_ns: u64,
    /// Millionths of the processor time that a thread uses; [`NO_BUDGET`].
    pub budget: u32,
    /// How close in time a near miss is.
    pub window_ns: u32,
    /// Waits in a thousand accesses.
    pub strength: u16,
    /// The same where noise is aimed.
    pub aimed: u16,
    /// How threads wait.
    pub kind: NoiseKind,
    /// Where.
    pub heuristic: Heuristic,
    /// `FLAG_…`
    pub flags: u16,
    /// How many ids have rows.
    pub sites: u32,
    /// How many ranges there are.
    pub ranges: u32,
    rows_at: usize,
    ranges_at: usize,
    /// How many branches sections have; 0 where none is checked.
    pub branches: u32,
    /// Ids below this, unless noise is aimed at them, are switched off at first.
    pub begin_off: u32,
    /// Hot functions: how many rows there are.
    pub bodies: u32,
    /// How long those with [`Turn::Bursts`] run with hooks, in nanoseconds.
    pub on_ns: u64,
    /// How long they then run without.
    pub off_ns: u64,
    /// Of so many bursts one has those with [`Turn::Seldom`] too.
    pub whole_every: u32,
    bodies_at: usize,
    parts_at: usize,
    roles: u32,
    roles_at: usize,
}

/// What is wrong with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseError {
    /// Where.
    pub at: u64,
}

impl core::fmt::Display for NoiseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "impossible value at offset {} of the detector's table", self.at)
    }
}

impl core::error::Error for NoiseError {}

impl<'a> Noise<'a> {
    /// Checks everything; after that, access cannot fail.
    pub fn parse(bytes: &'a [u8]) -> Result<Noise<'a>, NoiseError> {
        let bad = |at: usize| NoiseError { at: at as u64 };
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
        let long = |at: usize| u64_at(bytes, at).ok_or(bad(at));
        let (strengths, how) = (field(40)?, field(44)?);
        let noise = Noise {
            bytes,
            seed: long(16)?,
            duration_ns: long(24)?,
            budget: field(32)?,
            window_ns: field(36)?,
            strength: strengths as u16,
            aimed: (strengths >> 16) as u16,
            kind: NoiseKind::from_u8(how as u8).ok_or(bad(44))?,
            heuristic: Heuristic::from_u8((how >> 8) as u8).ok_or(bad(45))?,
            flags: (how >> 16) as u16,
            sites: field(48)?,
            rows_at: field(52)? as usize,
            ranges: field(56)?,
            ranges_at: field(60)? as usize,
            parts_at: field(64)? as usize,
            roles: field(68)?,
            roles_at: field(72)? as usize,
            branches: field(76)?,
            begin_off: field(80)?,
            bodies: field(84)?,
            bodies_at: field(88)? as usize,
            whole_every: field(92)?.max(1),
            on_ns: long(96)?,
            off_ns: long(104)?,
        };
        if noise.duration_ns > MOST_DURATION_NS {
            return Err(bad(24));
        }
        if noise.strength.max(noise.aimed) > MOST_STRENGTH {
            return Err(bad(40));
        }
        if noise.sites > MOST_SITES || noise.ranges > MOST_SITES {
            return Err(bad(48));
        }
        slice_at(bytes, noise.rows_at, noise.sites as usize * ROW).ok_or(bad(52))?;
        slice_at(bytes, noise.ranges_at, noise.ranges as usize * RANGE).ok_or(bad(60))?;
        if noise.bodies > MOST_BODIES {
            return Err(bad(84));
        }
        slice_at(bytes, noise.bodies_at, noise.bodies as usize * BODY).ok_or(bad(88))?;
        for number in 0..noise.bodies {
            let row = noise.body(number).ok_or(bad(noise.bodies_at + number as usize * BODY))?;
            let after = number.checked_sub(1).and_then(|before| noise.body(before));
            if after.is_some_and(|before| (before.0, before.1) >= (row.0, row.1)) {
                return Err(bad(noise.bodies_at + number as usize * BODY));
            }
        }
        if noise.on_ns > MOST_DURATION_NS || noise.off_ns > MOST_OFF_NS {
            return Err(bad(96));
        }
        for id in 0..noise.sites {
            if noise.row(id).is_none() {
                return Err(bad(noise.rows_at + id as usize * ROW));
            }
        }
        noise.check_sections().map(|()| noise)
    }

    fn check_sections(&self) -> Result<(), NoiseError> {
        let bad = |at: usize| NoiseError { at: at as u64 };
        if self.branches == 0 {
            return Ok(());
        }
        if self.roles > MOST_SITES || self.branches > MOST_SITES {
            return Err(bad(68));
        }
        slice_at(self.bytes, self.parts_at, self.sites as usize * PARTS_ROW).ok_or(bad(64))?;
        slice_at(self.bytes, self.roles_at, self.roles as usize * PART).ok_or(bad(72))?;
        for id in 0..self.sites {
            let (first, count) = self.parts_row(id);
            if first.checked_add(count).is_none_or(|end| end > self.roles) {
                return Err(bad(self.parts_at + id as usize * PARTS_ROW));
            }
        }
        for number in 0..self.roles {
            if self.part(number).is_none() {
                return Err(bad(self.roles_at + number as usize * PART));
            }
        }
        Ok(())
    }

    fn parts_row(&self, id: u32) -> (u32, u32) {
        let at = self.parts_at + id as usize * PARTS_ROW;
        (u32_at(self.bytes, at).unwrap_or(0), u32_at(self.bytes, at + 4).unwrap_or(0))
    }

    fn part(&self, number: u32) -> Option<Part> {
        let at = self.roles_at + number as usize * PART;
        let kind = match u32_at(self.bytes, at)? {
            1 => PartKind::Enter,
            2 => PartKind::End,
            3 => PartKind::Leave,
            4 => PartKind::Begin,
            _ => return None,
        };
        let branch = u32_at(self.bytes, at + 8)?;
        if kind == PartKind::End && branch >= self.branches {
            return None;
        }
        Some(Part { kind, section: u32_at(self.bytes, at + 4)?, branch, flags: u32_at(self.bytes, at + 12)? })
    }

    /// What a site is to sections.
    #[inline]
    pub fn parts(&self, id: u32) -> impl Iterator<Item = Part> + use<'a> {
        let own = *self;
        let (first, count) = if self.branches != 0 && id < self.sites { self.parts_row(id) } else { (0, 0) };
        (first..first.saturating_add(count)).filter_map(move |number| own.part(number))
    }

    fn row(&self, id: u32) -> Option<(Aim, u32)> {
        let at = self.rows_at + id as usize * ROW;
        let aim = match u32_at(self.bytes, at)? {
            0 => Aim::Quiet,
            1 => Aim::Usual,
            2 => Aim::Aimed,
            3 => Aim::Rare,
            _ => return None,
        };
        Some((aim, u32_at(self.bytes, at + 4)?))
    }

    /// How a site is watched, and how long it waits in microseconds (0: the plan's time).
    pub fn site(&self, id: u32) -> (Aim, u32) {
        if id < self.sites { self.row(id).unwrap_or((Aim::Quiet, 0)) } else { (Aim::Quiet, 0) }
    }

    /// A hot function: its image, the room at its begin, and when it runs with hooks.
    pub fn body(&self, number: u32) -> Option<(u64, u32, Turn)> {
        let at = self.bodies_at + (number < self.bodies).then_some(number)? as usize * BODY;
        let turn = match u32_at(self.bytes, at + 12)? {
            0 => Turn::Never,
            1 => Turn::Bursts,
            2 => Turn::Seldom,
            _ => return None,
        };
        Some((u64_at(self.bytes, at)?, u32_at(self.bytes, at + 8)?, turn))
    }

    /// The row of a function of an image with this key.
    pub fn body_of(&self, image: u64, room: u32) -> Option<(u32, Turn)> {
        let (mut low, mut high) = (0, self.bodies);
        while low < high {
            let middle = low + (high - low) / 2;
            let (this, at, turn) = self.body(middle)?;
            match (this, at).cmp(&(image, room)) {
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
                core::cmp::Ordering::Equal => return Some((middle, turn)),
            }
        }
        None
    }

    /// Where a suspected variable is: offset from the base of the executable, and length.
    pub fn range(&self, number: u32) -> Option<(u64, u64)> {
        let at = self.ranges_at + (number < self.ranges).then_some(number)? as usize * RANGE;
        Some((u64_at(self.bytes, at)?, u64_at(self.bytes, at + 8)?))
    }
}

/// A log, as far as it can be read: logs of crashed programs are whole, those of full disks may not be.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    bytes: &'a [u8],
    /// Whose.
    pub pid: u32,
    /// How many ids its plan had.
    pub sites: u32,
    /// The plan's seed.
    pub seed: u64,
}

/// What came of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Waits.
    pub waits: u32,
    /// Races.
    pub races: u32,
    /// Near misses.
    pub nears: u32,
    /// Times that it was considered for a wait.
    pub samples: u32,
}

/// One side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'a> {
    bytes: &'a [u8],
    /// The first byte.
    pub addr: u64,
    /// How many.
    pub size: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is an atomic operation.
    pub atomic: bool,
    /// The armed id; [`UNSEEN`].
    pub site: u32,
    /// The thread.
    pub thread: u32,
    /// What was there just before, up to eight bytes.
    pub value: u64,
    frames: usize,
    locks: usize,
}

impl<'a> Side<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Side<'a>> {
        let field = |at| u32_at(bytes, at);
        Some(Side {
            bytes,
            addr: u64_at(bytes, 0)?,
            size: field(8)?,
            writes: field(12)? & SIDE_WRITES != 0,
            atomic: field(12)? & SIDE_ATOMIC != 0,
            site: field(16)?,
            thread: field(20)?,
            frames: (field(24)? as usize).min(FRAMES),
            locks: (field(28)? as usize).min(LOCKS),
            value: u64_at(bytes, 32)?,
        })
    }

    /// Return addresses, innermost first; the first one is the access's own.
    pub fn frames(&self) -> impl Iterator<Item = u64> + use<'a> {
        let bytes = self.bytes;
        (0..self.frames).filter_map(move |number| u64_at(bytes, SIDE_FRAMES + number * 8))
    }

    /// Locks that the thread held: each one's address, and where it was taken.
    pub fn locks(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let bytes = self.bytes;
        let lock = move |number: usize| {
            let at = SIDE_LOCKS + number * 16;
            Some((u64_at(bytes, at)?, u64_at(bytes, at + 8)?))
        };
        (0..self.locks).filter_map(lock)
    }
}

/// A race of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race<'a> {
    /// How often.
    pub count: u32,
    /// What the value was and became while the first side waited, where it was looked at.
    pub values: Option<(u64, u64)>,
    /// The heap block: where it was allocated, its address and size; zeros where it is none.
    pub block: (u64, u64, u64),
    /// The one that had announced itself, and the one that came.
    pub sides: [Side<'a>; 2],
}

/// A broken section of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation<'a> {
    /// How often.
    pub count: u32,
    /// Which way through which section; [`ANNOTATED`].
    pub branch: u32,
    /// The id of the begin.
    pub entry: u32,
    /// Bytes of the begin.
    pub size: u32,
    /// Whether the begin writes.
    pub writes: bool,
    /// Whether it is an atomic operation.
    pub atomic: bool,
    /// The first byte.
    pub addr: u64,
    /// What was there just before the begin, up to eight bytes.
    pub value: u64,
    /// The heap block: where it was allocated, its address and size; zeros where it is none.
    pub block: (u64, u64, u64),
    /// Who came between, and who ended the section.
    pub sides: [Side<'a>; 2],
}

/// A branch of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchHits {
    /// Times that it was gone through.
    pub seen: u32,
    /// Times that it was broken.
    pub broken: u32,
}

/// A near miss of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// Both ids.
    pub sites: (u32, u32),
    /// The first address.
    pub addr: u64,
    /// How often.
    pub count: u32,
    /// The shortest distance.
    pub least_ns: u32,
}

/// A module of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogModule<'a> {
    /// Where offsets count from.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// Its build-id.
    pub build_id: &'a [u8],
    /// Its file.
    pub path: &'a [u8],
}

impl<'a> Log<'a> {
    /// Reads the header; `None` where this is no log of this version.
    pub fn parse(bytes: &'a [u8]) -> Option<Log<'a>> {
        if array_at(bytes, 0)? != LOG_MAGIC || u32_at(bytes, 8)? != LOG_VERSION {
            return None;
        }
        Some(Log { bytes, pid: u32_at(bytes, 16)?, sites: u32_at(bytes, 20)?, seed: u64_at(bytes, 56)? })
    }

    /// A counter.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        u64_at(self.bytes, LOG_COUNTERS + counter as usize * 8).unwrap_or(0)
    }

    fn rows(&self, count: usize, at: usize, size: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let count = u32_at(self.bytes, count).unwrap_or(0) as usize;
        let at = u32_at(self.bytes, at).unwrap_or(u32::MAX) as usize;
        self.bytes.get(at..).unwrap_or(&[]).chunks_exact(size).take(count)
    }

    /// What came of each id, from 0.
    pub fn hits(&self) -> impl Iterator<Item = Hits> + use<'a> {
        self.rows(20, 32, HITS).map(|row| {
            let field = |at| u32_at(row, at).unwrap_or(0);
            Hits { waits: field(0), races: field(4), nears: field(8), samples: field(12) }
        })
    }

    /// The races, in no order.
    pub fn races(&self) -> impl Iterator<Item = Race<'a>> + use<'a> {
        self.rows(24, 36, RACE).filter_map(|row| {
            unkey(u64_at(row, 0)?)?;
            if u32_at(row, 12)? == 0 {
                return None;
            }
            let side = |number: usize| Side::parse(slice_at(row, *SIDES.get(number)?, SIDE)?);
            Some(Race {
                count: u32_at(row, 8)?,
                values: (u32_at(row, 16)? & VALUES_SEEN != 0).then_some((u64_at(row, 24)?, u64_at(row, 32)?)),
                block: (u64_at(row, 40)?, u64_at(row, 48)?, u64_at(row, 56)?),
                sides: [side(0)?, side(1)?],
            })
        })
    }

    /// The broken sections, in no order.
    pub fn violations(&self) -> impl Iterator<Item = Violation<'a>> + use<'a> {
        self.rows(LOG_SECTIONS, LOG_SECTIONS + 4, VIOLATION).filter_map(|row| {
            if u64_at(row, 0)? == 0 || u32_at(row, 12)? == 0 {
                return None;
            }
            let side = |number: usize| Side::parse(slice_at(row, *VIOLATION_SIDES.get(number)?, SIDE)?);
            let flags = u32_at(row, 28)?;
            Some(Violation {
                count: u32_at(row, 8)?,
                branch: u32_at(row, 16)?,
                entry: u32_at(row, 20)?,
                size: u32_at(row, 24)?,
                writes: flags & SIDE_WRITES != 0,
                atomic: flags & SIDE_ATOMIC != 0,
                addr: u64_at(row, 32)?,
                value: u64_at(row, 40)?,
                block: (u64_at(row, 48)?, u64_at(row, 56)?, u64_at(row, 64)?),
                sides: [side(0)?, side(1)?],
            })
        })
    }

    /// What came of each branch, from 0.
    pub fn branches(&self) -> impl Iterator<Item = BranchHits> + use<'a> {
        self.rows(LOG_SECTIONS + 8, LOG_SECTIONS + 12, BRANCH).map(|row| {
            let field = |at| u32_at(row, at).unwrap_or(0);
            BranchHits { seen: field(0), broken: field(4) }
        })
    }

    /// The near misses, in no order.
    pub fn nears(&self) -> impl Iterator<Item = NearMiss> + use<'a> {
        self.rows(28, 40, NEAR).filter_map(|row| {
            Some(NearMiss {
                sites: unkey(u64_at(row, 0)?)?,
                addr: u64_at(row, 8)?,
                count: u32_at(row, 16)?,
                least_ns: u32_at(row, 20)?,
            })
        })
    }

    /// The images that were loaded.
    pub fn modules(&self) -> impl Iterator<Item = LogModule<'a>> + use<'a> {
        self.rows(48, 44, MODULE).take(MOST_MODULES as usize).filter_map(|row| {
            Some(LogModule {
                base: u64_at(row, 0)?,
                end: u64_at(row, 8)?,
                build_id: slice_at(row, 24, (u32_at(row, 16)? as usize).min(32))?,
                path: slice_at(row, 56, (u32_at(row, 20)? as usize).min(MODULE_PATH))?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> [u8; 112 + 24 + 16 + 24 + 32 + 32] {
        let mut bytes = [0; 240];
        bytes[..8].copy_from_slice(&MAGIC);
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let header =
            [(8, VERSION), (12, 112), (16, 7), (24, 5000), (32, 50_000), (40, 20 | 500 << 16), (44, 1 | 2 << 8)];
        let rest = [(48, 3), (52, 112), (56, 1), (60, 136), (112, 1), (120, 2), (124, 9), (136, 0x40), (144, 8)];
        // The first site begins section 5, the second ends it by branch 0.
        let sections = [(64, 152), (68, 2), (72, 176), (76, 1), (156, 1), (160, 1), (164, 1), (168, 2)];
        let roles = [(176, 1), (180, 5), (188, PART_WRITES), (192, 2), (196, 5), (204, PART_READS)];
        let bodies =
            [(84, 2), (88, 208), (92, 5), (96, 1000), (104, 9000), (208, 4), (216, 64), (220, 1), (224, 4), (232, 80)];
        for (at, value) in header.into_iter().chain(rest).chain(sections).chain(roles).chain(bodies) {
            put(at, value);
        }
        bytes
    }

    #[test]
    fn a_payload_says_what_is_done_where() {
        let bytes = payload();
        let noise = Noise::parse(&bytes).expect("sound");
        assert_eq!((noise.seed, noise.duration_ns, noise.budget), (7, 5000, 50_000));
        assert_eq!((noise.strength, noise.aimed), (20, 500));
        assert_eq!((noise.kind, noise.heuristic), (NoiseKind::Spin, Heuristic::Location));
        let rows = [(Aim::Usual, 0), (Aim::Aimed, 9), (Aim::Quiet, 0), (Aim::Quiet, 0)];
        assert_eq!([0, 1, 2, 3].map(|id| noise.site(id)), rows);
        assert_eq!((noise.range(0), noise.range(1)), (Some((0x40, 8)), None));
        let part = |kind, flags| Part { kind, section: 5, branch: 0, flags };
        assert_eq!(noise.parts(0).next(), Some(part(PartKind::Enter, PART_WRITES)));
        assert_eq!(noise.parts(1).next(), Some(part(PartKind::End, PART_READS)));
        assert_eq!((noise.parts(2).count(), noise.parts(9).count()), (0, 0));
        assert_eq!((noise.on_ns, noise.off_ns, noise.whole_every), (1000, 9000, 5));
        assert_eq!(
            [0, 1, 2].map(|number| noise.body(number)),
            [Some((4, 64, Turn::Bursts)), Some((4, 80, Turn::Never)), None]
        );
        let of = |image, room| noise.body_of(image, room);
        assert_eq!((of(4, 64), of(4, 80)), (Some((0, Turn::Bursts)), Some((1, Turn::Never))));
        assert_eq!((of(4, 72), of(3, 80), of(5, 0)), (None, None, None));
        assert_eq!((image_key(&[1, 2]), image_key(&[0; 20])), (0x201, 0));
    }

    #[test]
    fn damaged_payloads_are_refused_and_none_is_read_past_its_end() {
        let whole = payload();
        for len in 0..whole.len() {
            assert!(Noise::parse(&whole[..len]).is_err(), "cut at {len}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole;
                bytes[at] = value;
                if let Ok(noise) = Noise::parse(&bytes) {
                    for number in [0, 1, noise.sites.wrapping_sub(1), noise.sites, u32::MAX] {
                        let _ = (noise.site(number), noise.range(number), noise.parts(number).count());
                        let _ = (noise.body(number), noise.body_of(4, number));
                    }
                }
            }
        }
    }

    #[test]
    fn a_log_is_read_as_far_as_it_goes() {
        let mut bytes = [0_u8; LOG_HEADER + RACE];
        bytes[..8].copy_from_slice(&LOG_MAGIC);
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(8, u64::from(LOG_VERSION));
        put(20, 1 << 32);
        put(32, (LOG_HEADER as u64) << 32);
        let race = LOG_HEADER;
        put(race, key(9, 3));
        put(race + 8, 2 | 1 << 32);
        put(race + SIDES[0], 0x1000);
        put(race + SIDES[0] + 8, 4 | u64::from(SIDE_WRITES) << 32);
        put(race + SIDES[0] + 24, u64::MAX);
        put(race + SIDES[0] + SIDE_FRAMES, 0xabc);
        put(race + SIDES[1], 0x1002);
        let log = Log::parse(&bytes).expect("a log");
        let races: [Race<'_>; 1] = [log.races().next().expect("one")];
        assert_eq!((races[0].count, races[0].values), (2, None));
        assert!(races[0].sides[0].writes && !races[0].sides[1].writes);
        assert_eq!(races[0].sides[0].frames().next(), Some(0xabc));
        assert_eq!((races[0].sides[0].frames().count(), races[0].sides[0].locks().count()), (FRAMES, LOCKS));
        for len in 0..bytes.len() {
            if let Some(log) = Log::parse(&bytes[..len]) {
                let _ = (log.races().count(), log.nears().count(), log.modules().count(), log.hits().count());
                let _ = (log.violations().count(), log.branches().count());
                assert_eq!(log.races().count(), 0, "cut at {len}");
            }
        }
    }

    #[test]
    fn a_pair_has_one_key() {
        assert_eq!(key(3, 9), key(9, 3));
        assert_eq!(unkey(key(3, UNSEEN)), Some((3, UNSEEN)));
        assert_eq!(unkey(0), None);
    }
}
