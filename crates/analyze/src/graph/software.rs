//! Graphs as software sees them: all of memory, for every location who touched it last.
//!
//! NOTE \[Two rules\]
//!
//! [`Rules::Paper`] is section 4.1 as it is written: whoever reads or writes a location whose last writer was another
//! thread communicates with that writer, each time. Two things are lost so. A thread that waits in a loop fills both
//! contexts with its reads of one value; and what nobody has written yet, or only been read, leaves no edge: a read
//! before the initialisation cannot be seen, only what is missing later.
//!
//! [`Rules::Coherent`] takes the definition of section 3.3 at its word, and is close to what caches without limits would
//! do at this width:
//! - Who reads a value again has an edge again, but no event: contexts say what threads got from each other.
//! - A write meets the threads that read the old value as well as the one that wrote it: there are edges from a read to
//!   a write, and the write is an event of all of them.
//! - Who reads what nobody wrote has an edge from [`Node::NOBODY`], as in the paper's hardware; unless the same
//!   thread is the first to write it, because then it was its own all the time.
//! - Memory that is allocated anew was written by nobody.
//!
//! An access to several locations meets each earlier access once, and is one event of its own thread.

use rustc_hash::FxHashMap;

use super::context::{Comm, Context};
use super::value::{BuildId, Graph, Growing, Kind, Node, Rules, Site};

/// A thread of a run.
pub type Thread = u32;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It reads.
    Read,
    /// It writes, or reads and writes as one.
    Write,
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose.
    pub thread: Thread,
    /// Where in the code.
    pub site: Site,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// What it does.
    pub touch: Touch,
}

/// Locations of one access beyond which the rest is left out: a large copy tells nothing that its beginning does not.
const MOST_LOCATIONS: u64 = 4096;

/// Who was at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visit {
    thread: Thread,
    node: Node,
    when: u64,
}

/// An earlier visit that an access meets.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    other: Visit,
    /// Whether it goes into contexts.
    is_event: bool,
}

impl Meeting {
    const fn event(other: Visit) -> Meeting {
        Meeting { other, is_event: true }
    }
}

/// The last writer of a location and, by the coherent rules, who has read it since.
#[derive(Clone, Debug, Default)]
struct Cell {
    writer: Option<Visit>,
    /// At most one visit of each thread, never the writer's.
    readers: Vec<Visit>,
}

/// Collects the graph of one run from its accesses, in their order.
#[derive(Debug)]
pub struct Software {
    kind: Kind,
    contexts: FxHashMap<Thread, Context>,
    cells: FxHashMap<u64, Cell>,
    growing: Growing,
    accesses: u64,
}

impl Software {
    /// Nothing was seen yet; sites are in these images.
    pub fn new(kind: Kind, images: Vec<BuildId>) -> Software {
        Software {
            kind,
            contexts: FxHashMap::default(),
            cells: FxHashMap::default(),
            growing: Growing::new(images),
            accesses: 0,
        }
    }

    /// An access happens.
    pub fn access(&mut self, access: &Access) {
        self.accesses += 1;
        let context = self.context(access.thread);
        let visit = Visit { thread: access.thread, node: Node::new(access.site, context), when: self.accesses };
        let met = match self.kind.rules {
            Rules::Paper => self.met_by_paper(access, visit),
            Rules::Coherent | Rules::Mesi | Rules::Live => self.met(access, visit),
        };
        let mut threads: Vec<Thread> = Vec::new();
        for (at, meeting) in met.iter().enumerate() {
            // Several locations of one access were often left by one other.
            let same = |before: &Meeting| before.other == meeting.other && before.is_event >= meeting.is_event;
            if met.iter().take(at).any(same) {
                continue;
            }
            let other = meeting.other;
            self.growing.edge((other.node, other.when), (visit.node, visit.when));
            if meeting.is_event && !threads.contains(&other.thread) {
                threads.push(other.thread);
            }
        }
        if threads.is_empty() {
            return;
        }
        let (local, remote) = match access.touch {
            Touch::Read => (Comm::LocalRead, Comm::RemoteRead),
            Touch::Write => (Comm::LocalWrite, Comm::RemoteWrite),
        };
        self.push(access.thread, local);
        for thread in threads {
            self.push(thread, remote);
        }
    }

    /// A block is allocated: by the coherent rules nobody has written it.
    pub fn allocate(&mut self, addr: u64, size: u64) {
        if self.kind.rules == Rules::Paper || size == 0 {
            return;
        }
        let locations = self.locations(addr, size);
        if locations.end() - locations.start() < self.cells.len() as u64 {
            for location in locations {
                self.cells.remove(&location);
            }
        } else {
            self.cells.retain(|location, _| !locations.contains(location));
        }
    }

    /// Edges so far.
    pub fn edges(&self) -> usize {
        self.growing.edges()
    }

    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The graph of the run.
    pub fn finish(mut self) -> Graph {
        if self.kind.rules == Rules::Coherent {
            // What was read and never written: the run may have ended before the write that should have come first.
            for cell in self.cells.values().filter(|cell| cell.writer.is_none()) {
                for reader in &cell.readers {
                    self.growing.edge((Node::NOBODY, 0), (reader.node, reader.when));
                }
            }
        }
        self.growing.finish(self.kind)
    }

    fn context(&self, thread: Thread) -> Context {
        self.contexts.get(&thread).copied().unwrap_or(Context::EMPTY)
    }

    fn push(&mut self, thread: Thread, event: Comm) {
        let context = self.context(thread).push(event, self.kind.depth);
        self.contexts.insert(thread, context);
    }

    fn locations(&self, addr: u64, size: u64) -> std::ops::RangeInclusive<u64> {
        let shift = self.kind.granularity.shift();
        addr >> shift..=addr.saturating_add(size.max(1) - 1) >> shift
    }

    fn touched(&self, access: &Access) -> std::ops::RangeInclusive<u64> {
        let all = self.locations(access.addr, access.size);
        *all.start()..=(*all.end()).min(all.start().saturating_add(MOST_LOCATIONS - 1))
    }

    /// Who an access meets, by the paper's rules.
    fn met_by_paper(&mut self, access: &Access, visit: Visit) -> Vec<Meeting> {
        let mut met = Vec::new();
        for location in self.touched(access) {
            let cell = self.cells.entry(location).or_default();
            met.extend(cell.writer.filter(|writer| writer.thread != access.thread).map(Meeting::event));
            if access.touch == Touch::Write {
                cell.writer = Some(visit);
            }
        }
        met
    }

    /// Who an access meets, by the coherent rules.
    fn met(&mut self, access: &Access, visit: Visit) -> Vec<Meeting> {
        let mut met = Vec::new();
        for location in self.touched(access) {
            let cell = self.cells.entry(location).or_default();
            let others = |visit: &&Visit| visit.thread != access.thread;
            match access.touch {
                Touch::Read => {
                    if cell.writer.is_some_and(|writer| writer.thread == access.thread) {
                        continue;
                    }
                    let is_event = cell.readers.iter().all(|reader| reader.thread != access.thread);
                    met.extend(cell.writer.map(|other| Meeting { other, is_event }));
                    if is_event {
                        cell.readers.push(visit);
                    }
                }
                Touch::Write => {
                    if cell.writer.is_none() {
                        for reader in cell.readers.iter().filter(others) {
                            self.growing.edge((Node::NOBODY, 0), (reader.node, reader.when));
                        }
                    }
                    let remote = cell.writer.iter().chain(&cell.readers).filter(others);
                    met.extend(remote.copied().map(Meeting::event));
                    cell.writer = Some(visit);
                    cell.readers.clear();
                }
            }
        }
        met
    }
}
