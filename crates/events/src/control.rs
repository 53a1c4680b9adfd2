//! The control file: what a controlled run is to do, what it did, and where every thread stands.
//!
//! Driver and runtime map it shared, so that the driver reads it whatever became of the process. Everything is
//! little-endian and naturally aligned. The driver fills in the first part before a run; the runtime the rest.
//! In a fork server the same file serves run after run.
//!
//! ```text
//! 0     magic "SLVCTRL1"    8  version u32       12 header length u32
//! asked:
//! 16    flags u32           20 log mode u32      24 strategy, 32 bytes (`Spec` of the sched crate)
//! 56    switches u64        64 most steps u64    72 until point u32    76 spurious: one wait in n, 0 none u32
//! 80    wall clock base ns u64                   88 monotonic base ns u64
//! 96    log capacity u64 (entries)               104 until thread u32  112 seed of virtual random sources u64
//! answered:
//! 128   owner pid u32       132 state u32        136 steps u64         144 log entries u64
//! 152   log entries lost u64                     160 running thread u32 (NOBODY: none)
//! 164   threads u32         168 virtual time ns u64                    176 stream digest u64
//! 184   divergences u32     188 divergence kind u32                    192 thread u32  196 point u32
//! 200   expected site u32   204 expected kind u32                      208 site that came u32  212 kind u32
//! 216   step of it u64      224 hidden blocks u64                      232 handlers outside control u64
//! 240   foreign threads u64                      248 switches not met u32
//! 4096  seats, 512 bytes each
//! then  switches of the schedule to replay, 16 bytes each
//! then  log, 24 bytes each
//! ```

/// First bytes.
pub const MAGIC: [u8; 8] = *b"SLVCTRL1";
/// Format version.
pub const VERSION: u32 = 2;
/// Bytes of the header, and offset of the seats.
pub const HEADER: usize = 4096;
/// Bytes of a seat.
pub const SEAT: usize = 512;
/// Threads that can be controlled in one run.
pub const SEATS: usize = 4096;
/// Bytes of a switch of the schedule.
pub const SWITCH: usize = 16;
/// Switches that a schedule may have.
pub const SWITCHES: usize = 1 << 20;
/// Bytes of a log entry.
pub const STEP: usize = 24;
/// Offset of the schedule.
pub const SWITCHES_AT: usize = HEADER + SEAT * SEATS;
/// Offset of the log.
pub const LOG_AT: usize = SWITCHES_AT + SWITCH * SWITCHES;

/// Length of a file whose log has room for so many entries.
pub const fn file_len(log_capacity: usize) -> usize {
    LOG_AT + STEP * log_capacity
}

/// Clocks show virtual time.
pub const FLAG_VIRTUAL_TIME: u32 = 1;
/// Random sources give what the seed says.
pub const FLAG_VIRTUAL_RANDOM: u32 = 2;
/// The process serves runs by forking; commands and answers go through the descriptors of the plan.
pub const FLAG_SERVER: u32 = 4;
/// Time-outs may fire while others could still run.
pub const FLAG_EAGER_TIMEOUTS: u32 = 8;

/// Which points are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogMode {
    /// Choices that differ from the default policy.
    Switches = 0,
    /// Every choice.
    All = 1,
}

/// How a replay went another way than its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DivergenceKind {
    /// The thread to switch to could not run.
    NotEnabled = 1,
    /// The thread was about to do something else.
    Unexpected = 2,
    /// The thread went past the point without being stuck there.
    Passed = 3,
}

/// No thread.
pub const NOBODY: u32 = u32::MAX;

/// Offsets in the header.
pub mod at {
    #![expect(missing_docs, reason = "the names are the layout's")]
    pub const VERSION: usize = 8;
    pub const HEADER_LEN: usize = 12;
    pub const FLAGS: usize = 16;
    pub const LOG_MODE: usize = 20;
    pub const STRATEGY: usize = 24;
    pub const SWITCHES: usize = 56;
    pub const MOST_STEPS: usize = 64;
    pub const UNTIL_POINT: usize = 72;
    pub const SPURIOUS: usize = 76;
    pub const WALL_BASE: usize = 80;
    pub const MONO_BASE: usize = 88;
    pub const LOG_CAPACITY: usize = 96;
    pub const UNTIL_THREAD: usize = 104;
    pub const SEED: usize = 112;
    pub const OWNER: usize = 128;
    pub const STATE: usize = 132;
    pub const STEPS: usize = 136;
    pub const LOG_LEN: usize = 144;
    pub const LOG_LOST: usize = 152;
    pub const RUNNING: usize = 160;
    pub const THREADS: usize = 164;
    pub const NOW: usize = 168;
    pub const DIGEST: usize = 176;
    pub const DIVERGENCES: usize = 184;
    pub const DIVERGENCE_KIND: usize = 188;
    pub const DIVERGENCE_THREAD: usize = 192;
    pub const DIVERGENCE_POINT: usize = 196;
    pub const EXPECTED_SITE: usize = 200;
    pub const EXPECTED_KIND: usize = 204;
    pub const CAME_SITE: usize = 208;
    pub const CAME_KIND: usize = 212;
    pub const DIVERGENCE_STEP: usize = 216;
    pub const HIDDEN_BLOCKS: usize = 224;
    pub const HANDLERS_OUTSIDE: usize = 232;
    pub const FOREIGN_THREADS: usize = 240;
    pub const UNMET: usize = 248;
}

/// How far a controlled run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RunState {
    /// Not begun.
    Idle = 0,
    /// Under way, or ended in whatever way the process ended.
    Running = 1,
    /// Nothing could run any more: the process was ended.
    Deadlock = 2,
    /// The run took more steps than it may: the process was ended.
    StepLimit = 3,
    /// Control was given up; the process went on without it.
    GaveUp = 4,
    /// The run was stopped at the point that was asked for.
    Until = 5,
}

impl RunState {
    /// From its number.
    pub const fn from_u32(state: u32) -> Option<RunState> {
        Some(match state {
            0 => RunState::Idle,
            1 => RunState::Running,
            2 => RunState::Deadlock,
            3 => RunState::StepLimit,
            4 => RunState::GaveUp,
            5 => RunState::Until,
            _ => return None,
        })
    }
}

/// What a thread is doing, as the gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum SeatState {
    /// Nobody has this seat.
    Empty = 0,
    /// It runs, or could.
    Ready = 1,
    /// It waits for something that another thread must do, or for a time.
    Blocked = 2,
    /// It waits for input or output.
    Io = 3,
    /// It is in a call that may block, without the baton.
    Outside = 4,
    /// It has ended.
    Ended = 5,
}

impl SeatState {
    /// From its number.
    pub const fn from_u32(state: u32) -> Option<SeatState> {
        Some(match state {
            0 => SeatState::Empty,
            1 => SeatState::Ready,
            2 => SeatState::Blocked,
            3 => SeatState::Io,
            4 => SeatState::Outside,
            5 => SeatState::Ended,
            _ => return None,
        })
    }
}

/// Offsets in a seat.
pub mod seat {
    #![expect(missing_docs, reason = "the names are the layout's")]
    /// Futex: 0 while the thread waits for the baton, 1 when it should look whether it has it.
    pub const GO: usize = 0;
    pub const STATE: usize = 4;
    /// `OpKind` of the pending operation.
    pub const KIND: usize = 8;
    /// Site id of it, or [`NO_SITE`].
    pub const SITE: usize = 12;
    /// Points passed.
    pub const POINTS: usize = 16;
    /// Interposer slot + 1 of it; 0 for an access.
    pub const SLOT: usize = 20;
    pub const OBJECT: usize = 24;
    /// Module and offset of the caller, as a trace's payload has it.
    pub const PC: usize = 32;
    /// Virtual time at which it gives up; `u64::MAX` never.
    pub const DEADLINE: usize = 40;
    /// When it came, among all waiters.
    pub const ARRIVAL: usize = 48;
    /// What the strategy knows of it.
    pub const NOTE: usize = 56;
    /// Futex bits.
    pub const BITS: usize = 64;
    /// How a wait ended.
    pub const WOKEN: usize = 68;
    /// Kernel's thread id.
    pub const TID: usize = 72;
    pub const PARENT: usize = 76;
    /// The next and previous live thread; [`super::NOBODY`] at the ends.
    pub const NEXT: usize = 80;
    pub const PREV: usize = 84;
    /// Reads in a row that saw nothing new.
    pub const SPIN: usize = 88;
    /// Locks held.
    pub const HELD: usize = 92;
    /// Descriptors to poll: address and number; 0 for the single one below.
    pub const POLL: usize = 96;
    pub const POLLS: usize = 104;
    /// One `struct pollfd`.
    pub const POLLFD: usize = 112;
    /// Eight fingerprints of recent reads.
    pub const RECENT: usize = 120;
    /// Locks that it holds: address and caller.
    pub const LOCKS: usize = 152;
    pub const LOCKS_MOST: usize = 21;
    /// Operations begun: points, but for those of attempts that had to be made again.
    pub const OPERATIONS: usize = 496;
    /// Index of the thread; more threads than seats may follow each other in one.
    pub const THREAD: usize = 504;
    /// [`TRIES`], [`MORE_LOCKS`], [`CANCEL`].
    pub const FLAGS: usize = 508;
    /// It waits by trying: whoever thinks that nobody can run has it try once more.
    pub const TRIES: u32 = 1;
    /// It holds, or held, more locks than the seat has room for.
    pub const MORE_LOCKS: u32 = 2;
    /// It was asked to end while it did not wait.
    pub const CANCEL: u32 = 4;
    /// An operation that is no site's.
    pub const NO_SITE: u32 = u32::MAX;
}

const _: () = assert!(seat::LOCKS + 16 * seat::LOCKS_MOST <= seat::OPERATIONS && seat::OPERATIONS + 4 <= seat::THREAD);
