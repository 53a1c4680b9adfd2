//! What a file may ask of us. Each limit is far above what the runtime writes, and is there so that
//! a damaged or hostile file costs an error and not the machine.

/// Damages listed one by one; more are only counted.
pub const MAX_DAMAGES: usize = 100;
/// Pages without a chunk in a row, before the rest of the file is given up (4 GiB).
pub const MAX_GAP_PAGES: u64 = 1 << 20;
/// Slots of a live block.
pub const MAX_SLOTS: u32 = 1024;
/// Bytes of a site, survey or module chunk.
pub const MAX_TABLE_CHUNK: u64 = 1 << 28;
/// Bytes of a stack chunk.
pub const MAX_STACK: u64 = 1 << 20;
/// Stacks of a process.
pub const MAX_STACKS: usize = 1 << 16;
/// Bytes of a module's path.
pub const MAX_PATH: usize = 16 * 1024;
/// Modules of a process.
pub const MAX_MODULES: usize = 1 << 16;
/// Armed sites of a run.
pub const MAX_SITES: usize = 1 << selvedge_events::pack::SITE_BITS;
/// Calling contexts of a process; deeper or further ones are cut to their caller.
pub const MAX_CONTEXTS: usize = 1 << 23;
/// Frames of a calling context.
pub const MAX_DEPTH: usize = 1 << 16;
/// Untimed accesses held back until a timed event follows.
pub const MAX_BURST: usize = 1 << 14;
/// Trace files of a run directory.
pub const MAX_PROCESSES: usize = 1 << 16;
