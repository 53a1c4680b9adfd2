//! The two files of enforcement: the table of locks that a plan carries, and the log that the runtime leaves.
//!
//! The table says what is done to which lock at which hook. It is the payload of the intervention in the plan ([`crate::plan`]).
//!
//! ```text
//! 0   magic "SLVENFOR"   8  version u32     12  header length u32 (64)
//! 16  most wait ns u64   24 locks u32       28  points u32 (numbered from 1)
//! 32  points at u32      36 ids at u32      40  ids u32
//! 44  calls at u32       48 calls u32       52  actions at u32   56 actions u32
//! 60  patience u32: waiting, and work at hooks, may take one in so many parts of a run, see [`PATIENCE_NS`]; 0 for as much as it takes
//! row, 24 bytes: returns u32 | first action u32 | before u32 | after u32 | function u32 | other u32
//!     `before` actions from the first on are done before what the hook stands for, `after` further ones after it.
//!     of points 1, 2, …: an access, a block, or a function's door; returns is 0
//!     `other` is the point that counts instead where the innermost function of the thread is not this one's; 0 for none. The
//!     last of such a chain counts for all others.
//!     of calls, by ascending `returns`: where a call in the executable returns to
//! ids, 4 bytes each: the point of an armed id, 0 where there is none. None: armed ids are points.
//! action, 16 bytes: what u32 (0 release, 1 weaken, 2 take) | mode u32 (0 read, 1 update, 2 exclusive) | lock u32 | slot u32
//! ```
//!
//! The log is a file that stays mapped: `"SLVENLOG"`, version u32, locks u32, pid u32, from [`LOG_COUNTERS`] on the counters, and from
//! [`LOG_WAITS`] on a row for each lock, 16 bytes: waits u32 | whether the lock was given up u32 | nanoseconds u64. It was given up for what these waits took
//! ([`FOR_WAITING`]), or for what is done at its hooks ([`FOR_WORK`]).

use crate::bytes::{array_at, slice_at, u32_at, u64_at};

/// First bytes of a table.
pub const MAGIC: [u8; 8] = *b"SLVENFOR";
/// Version of the table.
pub const VERSION: u32 = 2;
/// Bytes of the table's header.
pub const HEADER: usize = 64;
/// Bytes of a point or a call.
pub const ROW: usize = 24;
/// Bytes of an action.
pub const ACTION: usize = 16;
/// How long a thread waits for a lock at most, unless asked otherwise.
pub const DEFAULT_WAIT_NS: u64 = 500_000_000;
/// What waiting and work at hooks may take in any run, beside [`PATIENCE`].
pub const PATIENCE_NS: u64 = 30_000_000;
/// They may take one in so many parts of a run, where that is limited.
pub const PATIENCE: u32 = 100;
/// First bytes of a log.
pub const LOG_MAGIC: [u8; 8] = *b"SLVENLOG";
/// Version of the log.
pub const LOG_VERSION: u32 = 2;
/// Where the rows of locks begin.
pub const LOG_WAITS: usize = 1024;
/// Bytes of such a row.
pub const LOG_WAIT: usize = 16;

/// Why a lock was given up: for what waiting for it took.
pub const FOR_WAITING: u32 = 1;
/// For what is done at its hooks.
pub const FOR_WORK: u32 = 2;

/// Bytes of a log of so many locks.
pub const fn log_size(locks: u32) -> usize {
    (LOG_WAITS + locks as usize * LOG_WAIT).next_multiple_of(4096)
}

/// Where the counters begin.
pub const LOG_COUNTERS: usize = 64;
/// How a log's file name begins; the process's number follows.
pub const LOG_PREFIX: &str = "enforce-";

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// A counter of enforcement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Counter { $($(#[doc = $doc])+ $name),* }

        /// Every counter with its sentence, in order.
        pub const COUNTERS: &[(Counter, &str)] = &[$((Counter::$name, $text)),*];
    };
}

counters! {
    /// Acquisitions that changed something.
    Taken = "locks taken",
    /// Acquisitions that had to wait.
    Waited = "locks waited for",
    /// Waits that were given up: the thread went on without the lock.
    Escapes = "waits given up: the thread went on without the lock",
    /// Locks that were given up for good.
    Retired = "locks given up for good, after several such waits",
    /// Threads that lost their locks because they wait for others.
    Revoked = "threads that lost their locks because they waited for another one",
    /// Acquisitions that were left out because a thread held too many.
    NoRoom = "locks not taken because the thread held too many",
    /// Hooks in signal handlers that interrupted the runtime at work.
    Reentered = "hooks in signal handlers that interrupted the runtime at work; nothing was locked",
    /// Locks that were given up because waiting for them, or taking them, took too long.
    Costly = "locks given up because waiting for them, or taking them, took too much of the run",
}

/// A point or a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Of a call: where it returns to.
    pub returns: u32,
    /// The first of its actions.
    pub first: u32,
    /// Actions before.
    pub before: u32,
    /// Actions after.
    pub after: u32,
    /// The function whose activation the slots belong to.
    pub function: u32,
    /// The point that counts where another function is the innermost; 0 for none.
    pub other: u32,
}

/// Something that is done to a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// 0 release, 1 weaken, 2 take.
    pub what: u32,
    /// 0 read, 1 update, 2 exclusive.
    pub mode: u32,
    /// Which lock.
    pub lock: u32,
    /// Which slot, of all functions.
    pub slot: u32,
}

/// A checked view of a table's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    /// Most time that a thread waits for a lock.
    pub wait_ns: u64,
    /// Waiting may take one in so many parts of a run; 0 for as much as it takes.
    pub patience: u32,
    /// How many locks.
    pub locks: u32,
    /// How many points.
    pub points: u32,
    points_at: usize,
    ids_at: usize,
    ids: u32,
    calls_at: usize,
    /// How many calls.
    pub calls: u32,
    actions_at: usize,
    actions: u32,
}

impl<'a> Table<'a> {
    /// Checks everything; after that, access cannot fail. `None`: it is damaged.
    pub fn parse(bytes: &'a [u8]) -> Option<Table<'a>> {
        let field = |at| u32_at(bytes, at);
        let sound = array_at(bytes, 0)? == MAGIC && field(8)? == VERSION && field(12)? as usize == HEADER;
        let table = Table {
            bytes,
            wait_ns: u64_at(bytes, 16)?,
            patience: field(60)?,
            locks: field(24)?,
            points: field(28)?,
            points_at: field(32)? as usize,
            ids_at: field(36)? as usize,
            ids: field(40)?,
            calls_at: field(44)? as usize,
            calls: field(48)?,
            actions_at: field(52)? as usize,
            actions: field(56)?,
        };
        slice_at(bytes, table.points_at, (table.points as usize).checked_mul(ROW)?)?;
        slice_at(bytes, table.ids_at, (table.ids as usize).checked_mul(4)?)?;
        slice_at(bytes, table.calls_at, (table.calls as usize).checked_mul(ROW)?)?;
        slice_at(bytes, table.actions_at, (table.actions as usize).checked_mul(ACTION)?)?;
        let rows = (1..=table.points).map(|point| table.point(point)).chain((0..table.calls).map(|at| table.call(at)));
        let mut fits = true;
        for row in rows {
            fits &= row.other <= table.points;
            fits &= u64::from(row.first) + u64::from(row.before) + u64::from(row.after) <= u64::from(table.actions);
        }
        for number in 0..table.actions {
            let action = table.action(number);
            fits &= action.what < 3 && action.mode < 3 && action.lock < table.locks;
        }
        fits &= (0..table.ids).all(|id| table.id(id) <= table.points);
        (sound && fits).then_some(table)
    }

    fn row(&self, at: usize) -> Row {
        let field = |by| u32_at(self.bytes, at + by).unwrap_or(0);
        Row {
            returns: field(0),
            first: field(4),
            before: field(8),
            after: field(12),
            function: field(16),
            other: field(20),
        }
    }

    /// A point; nothing is done at those that there are not.
    pub fn point(&self, point: u32) -> Row {
        match point.checked_sub(1) {
            Some(at) if point <= self.points => self.row(self.points_at + at as usize * ROW),
            _ => Row::default(),
        }
    }

    /// A call, by its number.
    pub fn call(&self, number: u32) -> Row {
        if number < self.calls { self.row(self.calls_at + number as usize * ROW) } else { Row::default() }
    }

    /// The number of the call that returns to an offset.
    pub fn call_to(&self, returns: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.calls);
        while low < high {
            let middle = low + (high - low) / 2;
            let there = self.call(middle).returns;
            if there == returns {
                return Some(middle);
            }
            if there < returns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        None
    }

    /// An action.
    pub fn action(&self, number: u32) -> Action {
        if number >= self.actions {
            return Action::default();
        }
        let field = |by| u32_at(self.bytes, self.actions_at + number as usize * ACTION + by).unwrap_or(0);
        Action { what: field(0), mode: field(4), lock: field(8), slot: field(12) }
    }

    fn id(&self, id: u32) -> u32 {
        if id < self.ids { u32_at(self.bytes, self.ids_at + id as usize * 4).unwrap_or(0) } else { 0 }
    }

    /// Whether armed ids are points: nothing else is armed.
    pub fn are_ids_points(&self) -> bool {
        self.ids == 0
    }

    /// The point of an armed id; 0 where there is none.
    pub fn point_of(&self, id: u32) -> u32 {
        match self.ids {
            0 if id <= self.points => id,
            0 => 0,
            _ => self.id(id),
        }
    }
}
