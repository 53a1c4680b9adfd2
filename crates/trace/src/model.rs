//! A run made navigable: its processes, and in each the threads, images, sites and the merged order.
//!
//! Nothing here holds all events: iterators decode from the file as they go. The merged order is by
//! (time, instant, thread), where releases come before accesses before acquisitions of equal time (see
//! the note on instants in `events::event`). It is one order that is consistent with every thread's own; how
//! far it is *the* order is what [`Process::exactness`] says. Of a run under control it is: there the time is the
//! number of the event, and no two events have the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use selvedge_events::hooks::{HookClass, Rw};
use selvedge_events::interpose::{Family, INTERPOSED};
use selvedge_events::{Hook, Instant, ModuleIx, SiteId, ThreadIx, Ticks, pack, trace_file};

use crate::context::Contexts;
use crate::decode::{LeftOut, ThreadEvents};
use crate::event::{Event, EventBody, Place};
use crate::limits;
use crate::read::{Module, OpenTraceError, Pending, Site, TraceFile};
use crate::summary::{Gather, Summary, Thread};

/// Why a run could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenRunError {
    /// The directory could not be listed.
    #[error("cannot list {path}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One of its trace files could not be opened.
    #[error("cannot open {path}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        source: OpenTraceError,
    },
    /// There is none.
    #[error("no trace files in {path}")]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}

/// One execution: the processes that left a trace, first started first.
#[derive(Debug)]
pub struct Run {
    /// The processes; never empty.
    pub processes: Vec<Process>,
}

impl Run {
    /// Opens a run directory, or a single trace file.
    pub fn open(path: &Path) -> Result<Run, OpenRunError> {
        let files = if path.is_dir() { trace_files(path)? } else { vec![path.to_owned()] };
        let mut processes = Vec::new();
        for file in files {
            let process = Process::open(&file).map_err(|source| OpenRunError::Trace { path: file, source })?;
            processes.push(process);
        }
        if processes.is_empty() {
            return Err(OpenRunError::Empty { path: path.to_owned() });
        }
        processes.sort_by_key(|process| (process.file.header().wall_ns, process.file.header().pid));
        Ok(Run { processes })
    }
}

/// The trace files of a directory, by name.
pub fn trace_files(dir: &Path) -> Result<Vec<PathBuf>, OpenRunError> {
    let list = |source| OpenRunError::List { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(list)? {
        let entry = entry.map_err(list)?;
        if entry.file_name().to_string_lossy().starts_with(trace_file::FILE_PREFIX) {
            files.push(entry.path());
        }
    }
    files.sort();
    files.truncate(limits::MAX_PROCESSES);
    Ok(files)
}

/// One process of a run.
#[derive(Debug)]
pub struct Process {
    file: TraceFile,
    path: PathBuf,
    contexts: Arc<Contexts>,
    summary: OnceLock<Summary>,
}

/// What a thread was waiting in at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The thread.
    pub thread: ThreadIx,
    /// The function that it called.
    pub function: &'static str,
    /// What that is about; `None` for a function of a later version.
    pub family: Option<Family>,
    /// What it waits for.
    pub object: u64,
    /// Where it called.
    pub place: Place,
}

impl Process {
    /// Opens a trace file.
    pub fn open(path: &Path) -> Result<Process, OpenTraceError> {
        Ok(Process::new(TraceFile::open(path)?, path.to_owned()))
    }

    /// Makes a process of an open file.
    pub fn new(file: TraceFile, path: PathBuf) -> Process {
        Process { file, path, contexts: Arc::default(), summary: OnceLock::new() }
    }

    /// The file behind it.
    pub fn file(&self) -> &TraceFile {
        &self.file
    }

    /// The file's path, as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The calling contexts met so far.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Counts, spans and threads. The first call reads the whole file.
    pub fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| {
            let mut gather = Gather::default();
            for thread in self.file.threads() {
                gather.thread(thread, self.thread_events(thread));
            }
            gather.finish()
        })
    }

    /// A thread. Reads the whole file once.
    pub fn thread(&self, index: ThreadIx) -> Option<&Thread> {
        let threads = &self.summary().threads;
        threads.binary_search_by_key(&index, |thread| thread.index).ok().and_then(|at| threads.get(at))
    }

    /// The events of one thread.
    pub fn thread_events(&self, thread: ThreadIx) -> ThreadEvents {
        ThreadEvents::new(&self.file, thread, Arc::clone(&self.contexts))
    }

    /// All events, in the merged order.
    pub fn events(&self) -> Merged {
        Merged::new(self.file.threads().map(|thread| self.thread_events(thread)).collect())
    }

    /// An image.
    pub fn module(&self, index: ModuleIx) -> Option<&Module> {
        let modules = self.file.modules();
        modules.binary_search_by_key(&index, |module| module.index).ok().and_then(|at| modules.get(at))
    }

    /// The image that an address lies in.
    pub fn module_of(&self, addr: u64) -> Option<&Module> {
        self.file.modules().iter().find(|module| (module.base..module.end).contains(&addr))
    }

    /// A site.
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.file.sites().get(&id)
    }

    /// The hook of an event's site.
    pub fn hook(&self, event: &Event) -> Option<&'static Hook> {
        event.site().and_then(|id| self.site(id)).and_then(|site| site.hook.get())
    }

    /// The image and offset of a place. For code addresses this is the return address minus one, which
    /// lies in the call.
    pub fn code(&self, place: Place) -> Option<(&Module, u32)> {
        match place {
            Place::Site(id) => {
                let site = self.site(id)?;
                Some((self.module(site.module)?, site.offset))
            }
            Place::Code { module, offset } => Some((self.module(module)?, offset.saturating_sub(1))),
            Place::Unknown => None,
        }
    }

    /// The place of a return address.
    pub fn place_of(&self, pc: u64) -> Place {
        let module = self.module_of(pc);
        match module.and_then(|module| Some((module.index, u32::try_from(pc - module.base).ok()?))) {
            Some((module, offset)) => Place::Code { module, offset },
            None => Place::Unknown,
        }
    }

    /// What an event does to memory: address, bytes and direction.
    pub fn access(&self, event: &Event) -> Option<MemoryAccess> {
        let hook = || self.hook(event);
        let (addr, size, rw) = match event.body {
            EventBody::Access { addr } => {
                let (rw, size) = hook()?.access()?;
                (addr, u64::from(size), rw)
            }
            EventBody::Range { addr, size, rw } => (addr, size, rw),
            EventBody::Atomic { addr, success, .. } => {
                let (rw, size) = hook()?.access()?;
                (addr, u64::from(size), if success { rw } else { Rw::Read })
            }
            _ => return None,
        };
        let atomic = matches!(event.body, EventBody::Atomic { .. });
        Some(MemoryAccess { addr: addr.0, size, rw, atomic })
    }

    /// What threads were waiting in when the file was last written.
    pub fn blocked(&self) -> Vec<Blocked> {
        let row = |pending: &Pending| INTERPOSED.get(pending.slot as usize);
        let blocked = |pending: &Pending| Blocked {
            thread: pending.thread,
            function: row(pending).map_or("?", |row| row.name),
            family: row(pending).map(|row| row.family),
            object: pending.object,
            place: self.place_of(pending.pc),
        };
        self.file.pending().iter().map(blocked).collect()
    }

    /// Whether the run was made under control: a time is then the number of an event ([`Process::number`]).
    pub fn is_controlled(&self) -> bool {
        self.file.header().is_controlled()
    }

    /// The number of an event of this time in the one order of a run under control, from 1.
    pub fn number(&self, time: Ticks) -> u64 {
        time.0 >> self.file.header().tick_shift.min(63)
    }

    /// Nanoseconds between the start of the process and a time. Means nothing under control.
    pub fn nanos(&self, time: Ticks) -> i128 {
        let (start, rate) = (self.file.header().start.0, self.rate());
        let ticks = i128::from(time.0) - i128::from(start);
        // Clocks of a damaged header may be anything.
        ticks.saturating_mul(rate.1) / rate.0
    }

    /// Nanoseconds of one unit of time.
    pub fn tick_nanos(&self) -> f64 {
        let (ticks, nanos) = self.rate();
        pack::TICK as f64 * nanos as f64 / ticks as f64
    }

    /// How far the merged order can be relied on, in one sentence.
    pub fn exactness(&self) -> String {
        let summary = self.summary();
        if self.is_controlled() {
            let without = summary.events - summary.timed.min(summary.events);
            return match without {
                0 => "made under control: all events are in one order".to_owned(),
                _ => format!("made under control: all events are in one order, but for {without} without a number"),
            };
        }
        let share = summary.timed as f64 * 100.0 / summary.events.max(1) as f64;
        let unit = self.tick_nanos();
        let others =
            if summary.timed < summary.events { "; the others lie between timed ones of their thread" } else { "" };
        format!(
            "{share:.0} % of the events are timed, to {unit:.1} ns{others}. Order within a thread is exact; between threads it \
             is exact where synchronisation orders them."
        )
    }

    /// Counter ticks and nanoseconds of the same span; neither is zero.
    fn rate(&self) -> (i128, i128) {
        let header = self.file.header();
        let ticks = i128::from(header.last.0) - i128::from(header.start.0);
        let nanos = i128::from(header.last.1) - i128::from(header.start.1);
        // A process that died at once has no second pair: one tick is then taken as one nanosecond.
        if ticks <= 0 || nanos <= 0 { (1, 1) } else { (ticks, nanos) }
    }
}

/// What an event does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Direction; a failed compare-exchange only reads.
    pub rw: Rw,
    /// Whether it is an atomic operation.
    pub atomic: bool,
}

/// All events of a process in one order.
///
/// A thread mostly has several events before another has its turn: while it does, nothing but its own times is looked at.
#[derive(Debug)]
pub struct Merged {
    threads: Vec<ThreadEvents>,
    /// The thread whose turn it is.
    current: Option<usize>,
    /// The first turn of the others, of which the smallest is on top.
    others: BinaryHeap<Reverse<Turn>>,
    /// Until when it is the current thread's turn: the smallest of the others.
    until: Turn,
}

/// When a thread has its turn: time, then instant, thread and number in the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(Ticks, Instant, ThreadIx, usize);

impl Turn {
    const NEVER: Turn = Turn(Ticks(u64::MAX), Instant::After, ThreadIx(u32::MAX), usize::MAX);

    #[inline]
    fn of(event: &Event, slot: usize) -> Turn {
        Turn(event.time, event.body.kind().instant(), event.thread, slot)
    }
}

impl Merged {
    fn new(threads: Vec<ThreadEvents>) -> Merged {
        let mut merged = Merged { threads, current: None, others: BinaryHeap::new(), until: Turn::NEVER };
        for (slot, thread) in merged.threads.iter_mut().enumerate() {
            if let Some(event) = thread.peek() {
                merged.others.push(Reverse(Turn::of(event, slot)));
            }
        }
        let first = merged.others.pop();
        merged.begin(first);
        merged
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        let mut sum = LeftOut::default();
        for thread in &self.threads {
            sum += thread.left_out();
        }
        sum
    }

    /// A thread's turn begins.
    fn begin(&mut self, turn: Option<Reverse<Turn>>) {
        self.current = turn.map(|Reverse(Turn(_, _, _, slot))| slot);
        self.until = self.others.peek().map_or(Turn::NEVER, |Reverse(turn)| *turn);
    }

    /// The current thread's turn is over: it has its next one at `again`, if at all.
    fn hand_over(&mut self, again: Option<Turn>) {
        let next = match (again, self.others.peek_mut()) {
            (Some(again), Some(mut top)) => Some(std::mem::replace(&mut *top, Reverse(again))),
            (None, Some(top)) => Some(std::collections::binary_heap::PeekMut::pop(top)),
            (again, None) => again.map(Reverse),
        };
        self.begin(next);
    }
}

impl Iterator for Merged {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        loop {
            let slot = self.current?;
            let thread = self.threads.get_mut(slot)?;
            let turn = match thread.peek() {
                Some(event) if event.time < self.until.0 => {
                    let event = *event;
                    thread.pass();
                    return Some(event);
                }
                Some(event) => {
                    let turn = Turn::of(event, slot);
                    if turn < self.until {
                        let event = *event;
                        thread.pass();
                        return Some(event);
                    }
                    Some(turn)
                }
                None => None,
            };
            self.hand_over(turn);
        }
    }
}

/// The word for what an event does, as text reports print it.
pub fn verb(process: &Process, event: &Event) -> &'static str {
    use selvedge_events::hooks::AtomicOp as Op;
    let rw = |rw| match rw {
        Rw::Read => "read",
        Rw::Write => "write",
        Rw::ReadWrite => "read-write",
    };
    match event.body {
        EventBody::Access { .. } | EventBody::Range { .. } => {
            process.access(event).map_or("access", |access| rw(access.rw))
        }
        EventBody::Atomic { success, .. } => match process.hook(event).map(|hook| hook.class) {
            Some(HookClass::Atomic { op, .. }) => match op {
                Op::Load => "atomic-load",
                Op::Store => "atomic-store",
                Op::Exchange => "atomic-exchange",
                Op::Add | Op::Sub | Op::And | Op::Or | Op::Xor | Op::Nand => "atomic-update",
                Op::CasStrong | Op::CasWeak | Op::CasVal if success => "compare-exchange",
                Op::CasStrong | Op::CasWeak | Op::CasVal => "compare-exchange-failed",
                Op::ThreadFence | Op::SignalFence => "fence",
            },
            _ => "atomic",
        },
        EventBody::Acquire { how, .. } if !how.held() => "lock-failed",
        EventBody::Acquire { how, .. } if how.mode == selvedge_events::Mode::Shared => "lock-shared",
        _ => event.body.kind().name(),
    }
}
