//! The trace file: what one process leaves behind in one run.
//!
//! A header page, then chunks at multiples of [`PAGE`], each with a [`CHUNK_HEADER`]. Threads store
//! into *slots* of live blocks, which are shared mappings of this very file; a full slot is copied out
//! as a log chunk and starts again. A slot and a log chunk have the same bytes, so one parser reads
//! both, and what is in a slot when the process dies is read like the rest. A log chunk and a slot
//! with the same thread and sequence number are the same data (the process died between copying and
//! clearing): the reader takes one.
//!
//! ```text
//! header page
//! 0   magic "SLVTRACE"      8   version u32          12  header length u32 (4096)
//! 16  pid u32               20  parent pid u32       24  next free file offset u64
//! 32  first counter u64     40  same instant, monotonic ns u64
//! 48  latest counter u64    56  same instant, monotonic ns u64
//! 64  start, wall clock ns u64
//! 72  flags u32             76  observe u8           80  threads u32      84  tick shift u32
//! 128 counters, 64 of u64
//! chunk header, 64 bytes
//! 0   magic "SLVC" u32      4   kind u16             6   version u16      8   length u64 (whole chunk)
//! 16  thread or module u32  20  sequence or count u32
//! log, live slot: 24 pending slot number + 1 u32 | 28 flags u32 | 32 pending object u64 | 40 pending code address u64
//!                 48 lost events u64; words from 64 on
//! live block: slots of SLOT bytes from PAGE on; 20 = how many
//! sites:  entries of 16 bytes from 64 on: id u32 | offset u32 | hook u8 | 7 zero
//! survey: 24 = first id u32; a u64 per id from 64 on
//! graph:  24 = edges u64 | 32 events of a context u32 | 36 bits below a location's number u32; rows from 64 on ([`graph`])
//! module: 24 load base u64 | 32 end u64 | 40 build-id length u32 | 44 path length u32 | 48 zero
//!         from 64 on: build-id, then path
//! stack:  16 whose | 20 number, from 1 | 24 code address u64 | 32 stack pointer u64 | 40 frame pointer u64 | 48 bytes u64
//!         from 64 on: what lay there, from the stack pointer up
//! ```

/// First bytes.
pub const MAGIC: [u8; 8] = *b"SLVTRACE";
/// Format version.
///
/// 1: first.
pub const VERSION: u32 = 1;
/// Granularity of chunks.
pub const PAGE: usize = 4096;
/// Bytes of the file header.
pub const HEADER: usize = PAGE;
/// Bytes of a slot, and most bytes of a log chunk.
pub const SLOT: usize = 32 * 1024;
/// Slots of a live block.
pub const SLOTS_PER_BLOCK: usize = 16;
/// Bytes of a live block.
pub const LIVE_BLOCK: usize = PAGE + SLOT * SLOTS_PER_BLOCK;
/// First bytes of a chunk.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"SLVC");
/// Bytes of a chunk header.
pub const CHUNK_HEADER: usize = 64;
/// Most bytes of a stack that are kept.
pub const STACK: usize = 16 * 1024;
/// Most stacks that are kept of a process.
pub const STACKS: usize = 64;
/// The thread field of a slot that no thread has.
pub const NO_THREAD: u32 = u32::MAX;
/// Names of trace files begin so; pid and a number follow.
pub const FILE_PREFIX: &str = "trace.";

/// Header field offsets.
pub mod at {
    #![expect(missing_docs, reason = "the layout above says what they are")]
    pub const VERSION: usize = 8;
    pub const HEADER_LEN: usize = 12;
    pub const PID: usize = 16;
    pub const PPID: usize = 20;
    pub const NEXT: usize = 24;
    pub const START_TSC: usize = 32;
    pub const START_NS: usize = 40;
    pub const LAST_TSC: usize = 48;
    pub const LAST_NS: usize = 56;
    pub const WALL_NS: usize = 64;
    pub const FLAGS: usize = 72;
    pub const OBSERVE: usize = 76;
    pub const THREADS: usize = 80;
    pub const TICK_SHIFT: usize = 84;
    pub const COUNTERS: usize = 128;

    pub const CHUNK_KIND: usize = 4;
    pub const CHUNK_VERSION: usize = 6;
    pub const CHUNK_LEN: usize = 8;
    pub const CHUNK_OWNER: usize = 16;
    pub const CHUNK_SEQ: usize = 20;
    pub const PENDING_SLOT: usize = 24;
    /// Of a live slot: the bytes that its thread claimed, or is about to claim, to copy the slot out; else 0.
    pub const COPYING: usize = 28;
    pub const PENDING_OBJECT: usize = 32;
    pub const PENDING_PC: usize = 40;
    pub const LOST: usize = 48;
    pub const SURVEY_FIRST: usize = 24;
    pub const MODULE_BASE: usize = 24;
    pub const MODULE_END: usize = 32;
    pub const MODULE_BUILD_ID_LEN: usize = 40;
    pub const MODULE_PATH_LEN: usize = 44;
    pub const STACK_PC: usize = 24;
    pub const STACK_SP: usize = 32;
    pub const STACK_FP: usize = 40;
    pub const STACK_BYTES: usize = 48;
}

/// The process reached its end by `exit`, `_exit` or return from `main`.
pub const FLAG_CLEAN_EXIT: u32 = 1;
/// The process sealed itself; later events may be missing.
pub const FLAG_SEALED: u32 = 2;
/// Writing stopped early (limit or disk).
pub const FLAG_CUT: u32 = 4;
/// Made under control: a tick is an event, and all events are in one order.
pub const FLAG_CONTROLLED: u32 = 8;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum ChunkKind {
    /// A block of live slots.
    Live = 1,
    /// Words of one thread.
    Log = 2,
    /// Armed sites of one module.
    Sites = 3,
    /// What the survey saw.
    Survey = 4,
    /// A loaded image.
    Module = 5,
    /// Edges of a communication graph.
    Graph = 6,
    /// A thread's stack as it was when the thread made another.
    Stack = 7,
}

impl ChunkKind {
    /// From its number.
    pub const fn from_u16(kind: u16) -> Option<ChunkKind> {
        Some(match kind {
            1 => ChunkKind::Live,
            2 => ChunkKind::Log,
            3 => ChunkKind::Sites,
            4 => ChunkKind::Survey,
            5 => ChunkKind::Module,
            6 => ChunkKind::Graph,
            7 => ChunkKind::Stack,
            _ => return None,
        })
    }
}

/// A survey word: hits in the low half, these flags above.
pub mod survey {
    /// The site touched a location that at least two threads used, one of them writing.
    pub const SHARED: u64 = 1 << 32;
    /// The function hook was on the stack when something worth recording happened.
    pub const ON_STACK: u64 = 1 << 33;
    /// The site was executed.
    pub const SEEN: u64 = 1 << 34;
    /// The low half: how often, saturating.
    pub const HITS: u64 = u32::MAX as u64;
}

/// Rows of a graph chunk, a hash table: key | first node | second node | times in the low half, edges before it in the
/// high half. A row counts when its second node is there. A node is site id + 1 and context; 0 is nobody.
pub mod graph {
    /// Where a chunk has the number of edges.
    pub const EDGES: usize = 24;
    /// Where it has the events of a context.
    pub const DEPTH: usize = 32;
    /// Where it has the bits of an address below a location's number.
    pub const SHIFT: usize = 36;
    /// Bytes of a row.
    pub const ROW: usize = 32;
    /// Rows of a chunk.
    pub const ROWS: usize = 1 << 16;
    /// Bits of a node below its site.
    pub const CONTEXT_BITS: u32 = 18;

    /// A read of what another thread wrote.
    pub const LOCAL_READ: u32 = 0;
    /// A write over what another thread read or wrote.
    pub const LOCAL_WRITE: u32 = 1;
    /// Another thread's read of what this one wrote.
    pub const REMOTE_READ: u32 = 2;
    /// Another thread's write over what this one read or wrote.
    pub const REMOTE_WRITE: u32 = 3;

    /// A site in a context.
    pub const fn node(site: u32, context: u32) -> u64 {
        (site as u64 + 1) << CONTEXT_BITS | context as u64
    }

    /// The site and context of a node; `None` for nobody.
    pub const fn split(node: u64) -> Option<(u32, u32)> {
        match (node >> CONTEXT_BITS).checked_sub(1) {
            Some(site) => Some((site as u32, (node & ((1 << CONTEXT_BITS) - 1)) as u32)),
            None => None,
        }
    }

    /// A context after another event: two bits each, oldest first, below a mark; the oldest goes where there is no room.
    pub const fn pushed(context: u32, event: u32, depth: u32) -> u32 {
        let mark = 1 << (2 * depth);
        let next = context << 2 | event;
        if next >= mark << 1 { next & (mark - 1) | mark } else { next }
    }

    /// The key of an edge; never 0. Two edges with one key would be one: of a million, about one pair in thirty million such
    /// tables.
    pub const fn key(from: u64, to: u64) -> u64 {
        let mixed =
            (from ^ to.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ to.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 29) | 1 << 63
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn nodes_round_trip_and_contexts_keep_the_latest() {
            assert_eq!(split(node(7, 0b1_0110)), Some((7, 0b1_0110)));
            assert_eq!((split(0), split(node(0, 1))), (None, Some((0, 1))));
            let all = [0, 1, 2, 3].into_iter().fold(1, |context, event| pushed(context, event, 3));
            assert_eq!(all, 0b1_01_10_11);
            assert_eq!(pushed(1, 3, 0), 1);
        }
    }
}
