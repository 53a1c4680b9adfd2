//! Opens a trace file and finds its chunks.
//!
//! One pass over the chunk headers gives an index; event words are read later, thread by thread and
//! piece by piece, so a file of gigabytes costs little memory. A page that should begin a chunk and
//! does not is skipped: zeros are a *hole* (claimed and never written, as when the process was killed
//! in between), anything else is damage. Chunks begin at page boundaries, so the next one is found
//! again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_events::bytes::{slice_at, u16_at, u32_at, u64_at};
use selvedge_events::trace_file::{self as layout, ChunkKind, at};
use selvedge_events::{HookIx, ModuleIx, SiteId, ThreadIx};

use crate::header::Header;
use crate::limits;
use crate::source::Source;

/// Why a file could not be opened as a trace at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenTraceError {
    /// The system refused.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Shorter than a header.
    #[error("not a trace: {have} bytes, a header has {}", layout::HEADER)]
    Short {
        /// Bytes there.
        have: u64,
    },
    /// Not a trace.
    #[error("not a trace: the first bytes are not \"SLVTRACE\"")]
    Magic,
    /// Another format version.
    #[error(
        "trace of format version {found}; this build reads version {}: record the run again, or open it with the selvedge that wrote it",
        layout::VERSION
    )]
    Version {
        /// The file's version.
        found: u32,
    },
}

/// A place of the file that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at offset {offset}: {what}")]
pub struct TraceDamage {
    /// Byte offset in the file.
    pub offset: u64,
    /// What was found.
    pub what: &'static str,
}

/// A loaded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its number in this process.
    pub index: ModuleIx,
    /// Where it was loaded.
    pub base: u64,
    /// One past its last byte.
    pub end: u64,
    /// Its build-id.
    pub build_id: Vec<u8>,
    /// Its file.
    pub path: PathBuf,
}

/// An armed site of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Which image.
    pub module: ModuleIx,
    /// From the image's load base.
    pub offset: u32,
    /// Which hook it calls.
    pub hook: HookIx,
}

/// A thread's stack as it was when the thread made another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCopy {
    /// Whose.
    pub thread: ThreadIx,
    /// The address of the code that copied it.
    pub pc: u64,
    /// The stack pointer there: where the bytes begin.
    pub sp: u64,
    /// The frame pointer there.
    pub fp: u64,
    /// What lay there; the stack may go on.
    pub bytes: Vec<u8>,
}

impl StackCopy {
    /// The word at an address.
    pub fn word(&self, addr: u64) -> Option<u64> {
        u64_at(&self.bytes, usize::try_from(addr.checked_sub(self.sp)?).ok()?)
    }
}

/// What a thread was waiting in when the file was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The thread.
    pub thread: ThreadIx,
    /// Slot number of the interposed function (see `events::interpose`).
    pub slot: u32,
    /// What it waits for: a lock, condition, thread, …
    pub object: u64,
    /// The code address of the call.
    pub pc: u64,
}

/// Words of one thread: a log chunk or a live slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) seq: u32,
    /// The file ends inside it: a process that ends stops its threads in the middle of a write. What was to be copied
    /// is still in the slot, which sorts before.
    cut: bool,
    live: bool,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    lost: u64,
}

/// An open trace file.
#[derive(Debug)]
pub struct TraceFile {
    pub(crate) source: Arc<Source>,
    header: Header,
    threads: BTreeMap<ThreadIx, Vec<Piece>>,
    pending: Vec<Pending>,
    modules: Vec<Module>,
    sites: BTreeMap<SiteId, Site>,
    surveys: Vec<(u64, u64)>,
    /// Offset and length of each graph chunk.
    graphs: Vec<(u64, u64)>,
    /// Offset and length of each stack, by number.
    stacks: BTreeMap<u32, (u64, u64)>,
    damages: Vec<TraceDamage>,
    more_damages: u64,
    foreign_chunks: u64,
    holes: u64,
    /// Bytes that threads were about to claim or to fill when the process ended; what they would have held is still
    /// in the threads' slots.
    copying: u64,
}

/// A communication graph as the runtime left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphRows {
    /// Events of a context.
    pub depth: u32,
    /// Bits of an address below a location's number.
    pub shift: u32,
    /// The edges, in no order.
    pub rows: Vec<GraphRow>,
}

/// An edge; `events::trace_file::graph` says what a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphRow {
    /// The first node.
    pub from: u64,
    /// The second node.
    pub to: u64,
    /// How often it was met.
    pub times: u64,
    /// Edges that were met before it.
    pub before: u64,
}

impl TraceFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<TraceFile, OpenTraceError> {
        let io = |source| OpenTraceError::Io { path: path.to_owned(), source };
        // Looked at before it is opened: opening a pipe waits for somebody to write.
        let meta = std::fs::metadata(path).map_err(io)?;
        if meta.is_dir() {
            return Err(io(std::io::ErrorKind::IsADirectory.into()));
        }
        if !meta.is_file() {
            return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a file")));
        }
        let file = File::open(path).map_err(io)?;
        TraceFile::index(Source::File(file, meta.len()))
    }

    /// Opens a file that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<TraceFile, OpenTraceError> {
        TraceFile::index(Source::Bytes(bytes))
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether no thread left a word.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The threads that left words, by index.
    pub fn threads(&self) -> impl Iterator<Item = ThreadIx> + '_ {
        self.threads.keys().copied()
    }

    /// Bytes of a thread's chunks.
    pub fn thread_bytes(&self, thread: ThreadIx) -> u64 {
        self.pieces(thread).iter().map(|piece| u64::from(piece.len)).sum()
    }

    /// Events that a thread lost, as its chunks say.
    pub fn thread_lost(&self, thread: ThreadIx) -> u64 {
        self.pieces(thread).iter().map(|piece| piece.lost).max().unwrap_or(0)
    }

    /// The loaded images, by index.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The armed sites.
    pub fn sites(&self) -> &BTreeMap<SiteId, Site> {
        &self.sites
    }

    /// What threads were waiting in when the file was last written.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// What is damaged, in file order (the first [`limits::MAX_DAMAGES`]).
    pub fn damages(&self) -> &[TraceDamage] {
        &self.damages
    }

    /// Damages beyond those listed.
    pub fn more_damages(&self) -> u64 {
        self.more_damages
    }

    /// Chunks of a kind that this version does not know.
    pub fn foreign_chunks(&self) -> u64 {
        self.foreign_chunks
    }

    /// Pages that were claimed and never written.
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Survey words: calls `each` with every (site id, word).
    pub fn survey_words(&self, mut each: impl FnMut(SiteId, u64)) {
        for (offset, len) in &self.surveys {
            let chunk = self.source.read(*offset, *len);
            let first = u32_at(&chunk, at::SURVEY_FIRST).unwrap_or(0);
            let words = chunk.get(layout::CHUNK_HEADER..).unwrap_or(&[]).chunks_exact(8);
            for (step, word) in words.enumerate() {
                let word = u64_at(word, 0).unwrap_or(0);
                let id = u32::try_from(step).ok().and_then(|step| first.checked_add(step));
                if let (Some(id), true) = (id, word != 0) {
                    each(SiteId(id), word);
                }
            }
        }
    }

    /// The communication graph that the runtime collected, as far as it was written; `None` where it collected none.
    pub fn graph(&self) -> Option<GraphRows> {
        let (offset, len) = self.graphs.first()?;
        let chunk = self.source.read(*offset, *len);
        let field = |at| u32_at(&chunk, at).unwrap_or(0);
        let mut graph =
            GraphRows { depth: field(layout::graph::DEPTH), shift: field(layout::graph::SHIFT), rows: Vec::new() };
        for row in chunk.get(layout::CHUNK_HEADER..).unwrap_or(&[]).chunks_exact(layout::graph::ROW) {
            let word = |at| u64_at(row, at).unwrap_or(0);
            let (from, to, counts) = (word(8), word(16), word(24));
            if to != 0 {
                let (times, before) = (counts & 0xffff_ffff, counts >> 32);
                graph.rows.push(GraphRow { from, to, times, before });
            }
        }
        Some(graph)
    }

    /// The stack of this number; `None` where it was not written, or not all of it.
    pub fn stack(&self, number: u32) -> Option<StackCopy> {
        let (offset, len) = self.stacks.get(&number)?;
        let chunk = self.source.read(*offset, *len);
        let word = |at| u64_at(&chunk, at);
        let bytes = slice_at(&chunk, layout::CHUNK_HEADER, usize::try_from(word(at::STACK_BYTES)?).ok()?)?.to_vec();
        let thread = ThreadIx(u32_at(&chunk, at::CHUNK_OWNER)?);
        Some(StackCopy { thread, pc: word(at::STACK_PC)?, sp: word(at::STACK_SP)?, fp: word(at::STACK_FP)?, bytes })
    }

    /// Whether the file has survey chunks.
    pub fn has_survey(&self) -> bool {
        !self.surveys.is_empty()
    }

    pub(crate) fn pieces(&self, thread: ThreadIx) -> &[Piece] {
        self.threads.get(&thread).map_or(&[], Vec::as_slice)
    }

    fn index(source: Source) -> Result<TraceFile, OpenTraceError> {
        let header = Header::parse(&source.read(0, layout::HEADER as u64))?;
        let mut file = TraceFile {
            source: Arc::new(source),
            header,
            threads: BTreeMap::new(),
            pending: Vec::new(),
            modules: Vec::new(),
            sites: BTreeMap::new(),
            surveys: Vec::new(),
            graphs: Vec::new(),
            stacks: BTreeMap::new(),
            damages: Vec::new(),
            more_damages: 0,
            foreign_chunks: 0,
            holes: 0,
            copying: 0,
        };
        if u64::from(file.header.tick_shift) > 32 {
            file.damage(at::TICK_SHIFT as u64, "impossible time unit");
            file.header.tick_shift = selvedge_events::pack::TICK_SHIFT;
        }
        file.find_chunks();
        if file.header.next > file.len().saturating_add(file.copying) {
            let end = file.len();
            file.damage(end, "the file ends before what the process claimed: it was cut, or not all could be written");
        }
        file.settle();
        Ok(file)
    }

    fn find_chunks(&mut self) {
        let page = layout::PAGE as u64;
        let mut offset = layout::HEADER as u64;
        let mut gap = 0;
        let mut in_damage = false;
        while offset < self.len() {
            let head = self.source.read(offset, layout::CHUNK_HEADER as u64);
            if u32_at(&head, 0) == Some(layout::CHUNK_MAGIC) && head.len() == layout::CHUNK_HEADER {
                (gap, in_damage) = (0, false);
                let len = self.take_chunk(offset, &head);
                offset = offset.saturating_add(len.div_ceil(page).max(1).saturating_mul(page));
                continue;
            }
            if head.iter().all(|byte| *byte == 0) {
                self.holes += 1;
            } else if !in_damage {
                in_damage = true;
                self.damage(offset, "neither a chunk nor a hole");
            }
            gap += 1;
            if gap > limits::MAX_GAP_PAGES {
                self.damage(offset, "too long without a chunk; the rest is not read");
                return;
            }
            offset = offset.saturating_add(page);
        }
    }

    /// Takes what is in a chunk and says how many bytes it has, 0 for what cannot be told.
    fn take_chunk(&mut self, offset: u64, head: &[u8]) -> u64 {
        let claimed = u64_at(head, at::CHUNK_LEN).unwrap_or(0);
        let number = u16_at(head, at::CHUNK_KIND).unwrap_or(0);
        let Some(kind) = ChunkKind::from_u16(number) else {
            // A kind of a later version: its length is trusted within reason.
            self.foreign_chunks += 1;
            return if claimed <= limits::MAX_TABLE_CHUNK { claimed } else { 0 };
        };
        let most = match kind {
            ChunkKind::Log => layout::SLOT as u64,
            ChunkKind::Live => (layout::PAGE + layout::SLOT * limits::MAX_SLOTS as usize) as u64,
            ChunkKind::Stack => limits::MAX_STACK,
            _ => limits::MAX_TABLE_CHUNK,
        };
        if claimed < layout::CHUNK_HEADER as u64 || claimed > most {
            self.damage(offset + at::CHUNK_LEN as u64, "impossible chunk length");
            return 0;
        }
        let there = self.len() - offset;
        let cut = claimed > there;
        if cut && kind != ChunkKind::Log {
            self.damage(self.len(), "the file ends inside a chunk");
        }
        let len = claimed.min(there);
        match kind {
            ChunkKind::Log => self.take_log(offset, head, len, cut, false),
            ChunkKind::Live => self.take_live(offset, head, len),
            ChunkKind::Survey => self.surveys.push((offset, len)),
            ChunkKind::Graph => self.graphs.push((offset, len)),
            ChunkKind::Stack => self.take_stack(offset, head, len),
            ChunkKind::Sites => self.take_sites(offset, len),
            ChunkKind::Module => self.take_module(offset, len),
        }
        claimed
    }

    fn take_live(&mut self, offset: u64, head: &[u8], len: u64) {
        let count = u32_at(head, at::CHUNK_SEQ).unwrap_or(0);
        if count > limits::MAX_SLOTS {
            self.damage(offset + at::CHUNK_SEQ as u64, "impossible number of slots");
            return;
        }
        for slot in 0..u64::from(count) {
            let begin = layout::PAGE as u64 + slot * layout::SLOT as u64;
            if begin >= len {
                return;
            }
            let head = self.source.read(offset + begin, layout::CHUNK_HEADER as u64);
            if u32_at(&head, 0) == Some(layout::CHUNK_MAGIC) {
                let room = (len - begin).min(layout::SLOT as u64);
                self.take_log(offset + begin, &head, room, false, true);
            } else if head.iter().any(|byte| *byte != 0) {
                self.damage(offset + begin, "neither a slot nor a hole");
            }
        }
    }

    fn take_log(&mut self, offset: u64, head: &[u8], len: u64, cut: bool, live: bool) {
        let field = |at| u32_at(head, at).unwrap_or(0);
        let thread = field(at::CHUNK_OWNER);
        if thread == layout::NO_THREAD {
            return;
        }
        let thread = ThreadIx(thread);
        let word = |at| u64_at(head, at).unwrap_or(0);
        let len = u32::try_from(len).unwrap_or(0);
        let piece = Piece { seq: field(at::CHUNK_SEQ), cut, live, offset, len, lost: word(at::LOST) };
        self.threads.entry(thread).or_default().push(piece);
        if live {
            self.copying += u64::from(field(at::COPYING)).min(layout::SLOT as u64);
        }
        if let (true, Some(slot)) = (live, field(at::PENDING_SLOT).checked_sub(1)) {
            let (object, pc) = (word(at::PENDING_OBJECT), word(at::PENDING_PC));
            self.pending.push(Pending { thread, slot, object, pc });
        }
    }

    fn take_sites(&mut self, offset: u64, len: u64) {
        let chunk = self.source.read(offset, len);
        let module = ModuleIx(u32_at(&chunk, at::CHUNK_OWNER).unwrap_or(0));
        let count = u32_at(&chunk, at::CHUNK_SEQ).unwrap_or(0) as usize;
        let rows = chunk.get(layout::CHUNK_HEADER..).unwrap_or(&[]).chunks_exact(16);
        if count > rows.len() {
            self.damage(offset + at::CHUNK_SEQ as u64, "more sites than the chunk has room for");
        }
        for row in rows.take(count) {
            let field = |at| u32_at(row, at).unwrap_or(0);
            let hook = HookIx(row.get(8).copied().unwrap_or(u8::MAX));
            if hook.get().is_none() || self.sites.len() >= limits::MAX_SITES {
                self.damage(offset, "a site with an unknown hook, or too many sites");
                return;
            }
            self.sites.insert(SiteId(field(0)), Site { module, offset: field(4), hook });
        }
    }

    fn take_module(&mut self, offset: u64, len: u64) {
        use std::os::unix::ffi::OsStrExt;
        let chunk = self.source.read(offset, len.min(limits::MAX_PATH as u64 * 2));
        let field = |at| u32_at(&chunk, at).unwrap_or(0) as usize;
        let id_len = field(at::MODULE_BUILD_ID_LEN);
        let path_len = field(at::MODULE_PATH_LEN);
        let build_id = slice_at(&chunk, layout::CHUNK_HEADER, id_len);
        let path = layout::CHUNK_HEADER.checked_add(id_len).and_then(|at| slice_at(&chunk, at, path_len));
        let (Some(build_id), Some(path)) = (build_id, path) else {
            self.damage(offset, "a module whose name does not fit its chunk");
            return;
        };
        if path_len > limits::MAX_PATH || self.modules.len() >= limits::MAX_MODULES {
            self.damage(offset, "a module path beyond the limit, or too many modules");
            return;
        }
        let module = Module {
            index: ModuleIx(u32_at(&chunk, at::CHUNK_OWNER).unwrap_or(0)),
            base: u64_at(&chunk, at::MODULE_BASE).unwrap_or(0),
            end: u64_at(&chunk, at::MODULE_END).unwrap_or(0),
            build_id: build_id.to_vec(),
            path: PathBuf::from(std::ffi::OsStr::from_bytes(path)),
        };
        self.modules.push(module);
    }

    fn take_stack(&mut self, offset: u64, head: &[u8], len: u64) {
        let number = u32_at(head, at::CHUNK_SEQ).unwrap_or(0);
        if self.stacks.len() >= limits::MAX_STACKS || self.stacks.insert(number, (offset, len)).is_some() {
            self.damage(offset, "too many stacks, or two with one number");
        }
    }

    /// Puts every thread's chunks in order, each once, and notes which are missing.
    fn settle(&mut self) {
        let mut missing = Vec::new();
        let mut cut = false;
        for pieces in self.threads.values_mut() {
            pieces.sort_unstable();
            keep_the_fullest(&self.source, pieces);
            cut |= pieces.iter().any(|piece| piece.cut);
            for pair in pieces.windows(2) {
                if let [before, after] = pair
                    && before.seq.checked_add(1) != Some(after.seq)
                {
                    missing.push(after.offset);
                }
            }
        }
        if cut {
            self.damage(self.len(), "the file ends inside a chunk");
        }
        for offset in missing {
            self.damage(offset, "chunks of this thread are missing before this one");
        }
        self.modules.sort_by_key(|module| module.index);
        self.modules.dedup_by_key(|module| module.index);
        self.pending.sort_by_key(|pending| pending.thread);
        self.damages.sort_by_key(|damage| damage.offset);
    }

    fn damage(&mut self, offset: u64, what: &'static str) {
        if self.damages.len() < limits::MAX_DAMAGES {
            self.damages.push(TraceDamage { offset, what });
        } else {
            self.more_damages += 1;
        }
    }
}

/// Of the pieces with one number (sorted), keeps the one with the most words. A process that ends stops its threads
/// anywhere in copying a slot out and clearing it, so either of the two may be in part zeros, and the other is whole.
fn keep_the_fullest(source: &Source, pieces: &mut Vec<Piece>) {
    let words = |piece: &Piece| {
        let body = u64::from(piece.len).saturating_sub(layout::CHUNK_HEADER as u64);
        let bytes = source.read(piece.offset + layout::CHUNK_HEADER as u64, body);
        bytes.chunks(8).filter(|word| word.iter().any(|byte| *byte != 0)).count()
    };
    pieces.dedup_by(|later, kept| {
        if later.seq != kept.seq {
            return false;
        }
        if words(later) > words(kept) {
            *kept = *later;
        }
        true
    });
}
