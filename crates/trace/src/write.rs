//! Builds valid trace files in memory, for tests, golden files and fuzzers.
//!
//! The runtime does not use this: it writes into mappings. What both share is the layout in
//! `events::trace_file` and the packing in `events::pack`.

use selvedge_events::counters::Counter;
use selvedge_events::pack::{self, Small};
use selvedge_events::trace_file::{self as layout, ChunkKind, at};
use selvedge_events::{EventKind, HookIx, hooks};

use crate::read::StackCopy;

/// A trace file in the making.
#[derive(Clone, Debug)]
pub struct TraceBuilder {
    bytes: Vec<u8>,
}

/// What a live slot says its thread is waiting in: slot number, object, code address.
pub type PendingCall = (u32, u64, u64);

impl Default for TraceBuilder {
    fn default() -> TraceBuilder {
        TraceBuilder::new()
    }
}

impl TraceBuilder {
    /// A file of process 100 whose counter ticks three times a nanosecond and whose last clock reading
    /// is a millisecond after the first.
    pub fn new() -> TraceBuilder {
        let mut file = TraceBuilder { bytes: vec![0; layout::HEADER] };
        file.put(0, &layout::MAGIC);
        file.put(at::VERSION, &layout::VERSION.to_le_bytes());
        file.put(at::HEADER_LEN, &(layout::HEADER as u32).to_le_bytes());
        file.put(at::PID, &100_u32.to_le_bytes());
        file.put(at::PPID, &99_u32.to_le_bytes());
        file.put(at::TICK_SHIFT, &pack::TICK_SHIFT.to_le_bytes());
        file.put(at::FLAGS, &layout::FLAG_CLEAN_EXIT.to_le_bytes());
        file.clocks((0, 0), (3_000_000, 1_000_000));
        file
    }

    /// Sets the two pairs of (counter, nanoseconds).
    pub fn clocks(&mut self, start: (u64, u64), last: (u64, u64)) -> &mut TraceBuilder {
        let fields = [(at::START_TSC, start.0), (at::START_NS, start.1), (at::LAST_TSC, last.0), (at::LAST_NS, last.1)];
        for (at, value) in fields {
            self.put(at, &value.to_le_bytes());
        }
        self
    }

    /// Says that the run was made under control. Times are then numbers of events, in units of
    /// [`pack::TICK`].
    pub fn controlled(&mut self) -> &mut TraceBuilder {
        let flags = layout::FLAG_CLEAN_EXIT | layout::FLAG_CONTROLLED;
        self.put(at::FLAGS, &flags.to_le_bytes());
        self.clocks((0, 0), (0, 0))
    }

    /// Sets a counter.
    pub fn counter(&mut self, counter: Counter, value: u64) -> &mut TraceBuilder {
        self.put(at::COUNTERS + 8 * counter as usize, &value.to_le_bytes());
        self
    }

    /// Adds an image.
    pub fn module(&mut self, index: u32, base: u64, end: u64, build_id: &[u8], path: &str) -> &mut TraceBuilder {
        let body = [build_id, path.as_bytes()].concat();
        let at = self.chunk(ChunkKind::Module, index, 0, &body);
        self.put(at + at::MODULE_BASE, &base.to_le_bytes());
        self.put(at + at::MODULE_END, &end.to_le_bytes());
        self.put(at + at::MODULE_BUILD_ID_LEN, &(build_id.len() as u32).to_le_bytes());
        self.put(at + at::MODULE_PATH_LEN, &(path.len() as u32).to_le_bytes());
        self
    }

    /// Adds armed sites of an image as (id, offset, hook name); unknown names become hook 0.
    pub fn sites(&mut self, module: u32, sites: &[(u32, u32, &str)]) -> &mut TraceBuilder {
        let mut body = Vec::new();
        for (id, offset, hook) in sites {
            body.extend(id.to_le_bytes());
            body.extend(offset.to_le_bytes());
            body.push(hooks::by_name(hook).unwrap_or(HookIx(0)).0);
            body.extend([0; 7]);
        }
        self.chunk(ChunkKind::Sites, module, sites.len() as u32, &body);
        self
    }

    /// Adds survey words for ids from `first` on.
    pub fn survey(&mut self, first: u32, words: &[u64]) -> &mut TraceBuilder {
        let at = self.chunk(ChunkKind::Survey, 0, words.len() as u32, &bytes_of(words));
        self.put(at + at::SURVEY_FIRST, &first.to_le_bytes());
        self
    }

    /// Adds the rows of a graph: first node, second node, times, edges before.
    pub fn graph(&mut self, depth: u32, shift: u32, rows: &[[u64; 4]]) -> &mut TraceBuilder {
        let words: Vec<u64> = rows
            .iter()
            .flat_map(|[from, to, times, before]| {
                [layout::graph::key(*from, *to), *from, *to, (before & 0xffff_ffff) << 32 | times & 0xffff_ffff]
            })
            .collect();
        let at = self.chunk(ChunkKind::Graph, 0, rows.len() as u32, &bytes_of(&words));
        self.put(at + layout::graph::DEPTH, &depth.to_le_bytes());
        self.put(at + layout::graph::SHIFT, &shift.to_le_bytes());
        self
    }

    /// Adds the copy of a stack.
    pub fn stack(&mut self, number: u32, stack: &StackCopy) -> &mut TraceBuilder {
        let at = self.chunk(ChunkKind::Stack, stack.thread.0, number, &stack.bytes);
        let fields = [(at::STACK_PC, stack.pc), (at::STACK_SP, stack.sp), (at::STACK_FP, stack.fp)];
        for (field, value) in fields.into_iter().chain([(at::STACK_BYTES, stack.bytes.len() as u64)]) {
            self.put(at + field, &value.to_le_bytes());
        }
        self
    }

    /// Adds a log chunk of a thread. Words beyond a slot's room are cut.
    pub fn log(&mut self, thread: u32, seq: u32, words: &[u64]) -> &mut TraceBuilder {
        let room = (layout::SLOT - layout::CHUNK_HEADER) / 8;
        self.chunk(ChunkKind::Log, thread, seq, &bytes_of(words.get(..room).unwrap_or(words)));
        self
    }

    /// Adds all words of a thread's stream as log chunks.
    pub fn stream(&mut self, thread: u32, stream: &Stream) -> &mut TraceBuilder {
        for (seq, words) in stream.chunks.iter().enumerate() {
            self.log(thread, seq as u32, words);
        }
        self
    }

    /// Adds a block of live slots as (thread, sequence number, words, pending call).
    pub fn live(&mut self, slots: &[(u32, u32, &[u64], Option<PendingCall>)]) -> &mut TraceBuilder {
        let mut body = vec![0; layout::PAGE - layout::CHUNK_HEADER + slots.len() * layout::SLOT];
        for (number, (thread, seq, words, pending)) in slots.iter().enumerate() {
            let mut slot = head(ChunkKind::Log, *thread, *seq, layout::SLOT as u64).to_vec();
            if let Some((call, object, pc)) = pending {
                put(&mut slot, at::PENDING_SLOT, &(call + 1).to_le_bytes());
                put(&mut slot, at::PENDING_OBJECT, &object.to_le_bytes());
                put(&mut slot, at::PENDING_PC, &pc.to_le_bytes());
            }
            slot.extend(bytes_of(words));
            slot.truncate(layout::SLOT);
            put(&mut body, layout::PAGE - layout::CHUNK_HEADER + number * layout::SLOT, &slot);
        }
        self.chunk(ChunkKind::Live, 0, slots.len() as u32, &body);
        self
    }

    /// Adds pages that were claimed and never written.
    pub fn hole(&mut self, pages: usize) -> &mut TraceBuilder {
        self.bytes.resize(self.bytes.len() + pages * layout::PAGE, 0);
        self
    }

    /// Adds a chunk of any kind number.
    pub fn foreign(&mut self, kind: u16, body: &[u8]) -> &mut TraceBuilder {
        let at = self.chunk(ChunkKind::Log, 0, 0, body);
        self.put(at + at::CHUNK_KIND, &kind.to_le_bytes());
        self
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = self.clone();
        out.put(at::NEXT, &(self.bytes.len() as u64).to_le_bytes());
        out.bytes
    }

    fn chunk(&mut self, kind: ChunkKind, owner: u32, seq: u32, body: &[u8]) -> usize {
        let begin = self.bytes.len();
        self.bytes.extend(head(kind, owner, seq, (layout::CHUNK_HEADER + body.len()) as u64));
        self.bytes.extend(body);
        let end = self.bytes.len().next_multiple_of(layout::PAGE);
        self.bytes.resize(end, 0);
        begin
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        put(&mut self.bytes, at, value);
    }
}

fn head(kind: ChunkKind, owner: u32, seq: u32, len: u64) -> [u8; layout::CHUNK_HEADER] {
    let mut head = [0; layout::CHUNK_HEADER];
    put(&mut head, 0, &layout::CHUNK_MAGIC.to_le_bytes());
    put(&mut head, at::CHUNK_KIND, &(kind as u16).to_le_bytes());
    put(&mut head, at::CHUNK_VERSION, &1_u16.to_le_bytes());
    put(&mut head, at::CHUNK_LEN, &len.to_le_bytes());
    put(&mut head, at::CHUNK_OWNER, &owner.to_le_bytes());
    put(&mut head, at::CHUNK_SEQ, &seq.to_le_bytes());
    head
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A thread's words in the making: keeps time, regions and room as the runtime does.
#[derive(Clone, Debug)]
pub struct Stream {
    chunks: Vec<Vec<u64>>,
    chunk_words: usize,
    epoch: u64,
    regions: [u32; pack::REGIONS],
    frames: Vec<u64>,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new((layout::SLOT - layout::CHUNK_HEADER) / 8)
    }
}

impl Stream {
    /// A stream whose chunks hold this many words, at least 64.
    pub fn new(chunk_words: usize) -> Stream {
        let chunk_words = chunk_words.max(64);
        Stream { chunks: Vec::new(), chunk_words, epoch: 0, regions: [0; pack::REGIONS], frames: Vec::new() }
    }

    /// An access of a site, timed or not.
    pub fn access(&mut self, site: u32, addr: u64, tsc: Option<u64>) -> &mut Stream {
        if site >> pack::SHORT_SITE_BITS != 0 {
            return self.wide(EventKind::Access, tsc.unwrap_or(0), u64::from(site), [addr, 0, 0]);
        }
        self.prepare(tsc);
        let slot = self.region(addr);
        self.word(match tsc {
            Some(tsc) => pack::timed(site, slot, addr, tsc),
            None => pack::untimed(site, slot, addr),
        });
        self
    }

    /// An access to a run of bytes, in the shortest form: untimed only where that is a short one.
    pub fn range(&mut self, site: u32, addr: u64, size: u64, write: bool, tsc: Option<u64>) -> &mut Stream {
        let extent = pack::extent(size, write);
        if tsc.is_some() || extent == 0 || site >> pack::SHORT_SITE_BITS != 0 {
            let payload = u64::from(site) | if write { pack::PAYLOAD_FLAG } else { 0 };
            return self.wide(EventKind::Range, tsc.unwrap_or(0), payload, [addr, size, 0]);
        }
        self.prepare(None);
        let slot = self.region(addr);
        self.word(pack::untimed_range(site, slot, addr, extent));
        self
    }

    /// A wide record with this payload; a repeated one is written out again.
    pub fn wide(&mut self, kind: EventKind, tsc: u64, payload: u64, mut words: [u64; 3]) -> &mut Stream {
        self.prepare(Some(tsc));
        let extra = pack::fold(kind, &mut words);
        self.word(pack::wide_with(kind, extra, tsc, payload));
        for word in words.iter().take(usize::from(extra)) {
            self.word(*word);
        }
        self
    }

    /// A function is entered.
    pub fn push(&mut self, pc: u64) -> &mut Stream {
        self.prepare(None);
        self.frames.push(pc);
        self.word(Small::Push { pops: 0, pc }.pack());
        self
    }

    /// Functions are left.
    pub fn pop(&mut self, count: u32) -> &mut Stream {
        self.prepare(None);
        self.frames.truncate(self.frames.len().saturating_sub(count as usize));
        self.word(Small::Pop(count).pack());
        self
    }

    /// A word as it is.
    pub fn raw(&mut self, word: u64) -> &mut Stream {
        self.prepare(None);
        self.word(word);
        self
    }

    /// All words, where they fit one chunk.
    pub fn words(&self) -> &[u64] {
        self.chunks.last().map_or(&[], Vec::as_slice)
    }

    fn prepare(&mut self, tsc: Option<u64>) {
        const SLACK: usize = 8;
        let full = |chunk: &Vec<u64>| chunk.len() + SLACK + self.frames.len() > self.chunk_words;
        if self.chunks.last().is_none_or(full) {
            let mut fresh = vec![Small::Pop(u32::MAX).pack()];
            fresh.extend(self.frames.iter().map(|pc| Small::Push { pops: 0, pc: *pc }.pack()));
            self.chunks.push(fresh);
            self.epoch = 0;
            self.regions = [0; pack::REGIONS];
        }
        if let Some(epoch) = tsc.map(pack::epoch_of)
            && epoch != self.epoch
        {
            self.epoch = epoch;
            self.word(Small::Epoch(epoch).pack());
        }
    }

    /// The region slot of an address, announced where it is new.
    fn region(&mut self, addr: u64) -> u32 {
        let high = (addr >> 32) as u32;
        let slot = pack::region_slot(high);
        if self.regions[slot as usize] != high {
            self.regions[slot as usize] = high;
            self.word(Small::Region { slot, high }.pack());
        }
        slot
    }

    fn word(&mut self, word: u64) {
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(word);
        }
    }
}
