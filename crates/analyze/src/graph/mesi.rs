//! The paper's hardware (section 4.2), simulated over a trace: private caches kept coherent by MESI, and the extensions
//! that collect a graph from their messages.
//!
//! Each thread runs on a processor (thread number modulo their count). A line carries the site and context of the write
//! that brought it to its owner: the metadata are set by write and upgrade misses only, so a silent write to an exclusive
//! line, or another write to a modified one, leaves them as they were. Only transfers between caches communicate;
//! an evicted line goes to memory and its metadata are gone. The messages that write to the communication table:
//!
//! - read reply of another cache: an edge from the line's metadata to the reader; events LcRd and RmRd;
//! - read miss served by memory: an edge from [`Node::NOBODY`], and no event;
//! - invalidate reply: an edge from the metadata of the line that is given up; LcWr here, RmWr at all who gave it up. Where all copies
//!   were clean from memory, nobody has written them, and the edge is from [`Node::NOBODY`] as that of a read would be.
//!
//! The table of each processor is read out by a trap when it is full; what would be written meanwhile is dropped.
//!
//! Departures: contexts know how long they are (see [`Context`]); lines whose metadata are empty reply with no
//! source. A trace has only the accesses that were recorded, mostly to shared memory, so evictions by private
//! data are not seen: smaller caches stand for them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::context::{Comm, Context, Depth};
use super::software::{Access, Touch};
use super::value::{BuildId, Granularity, Graph, Growing, Kind, Node, Rules};

/// What the machine is like. The default is the paper's (section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Processors, each with a cache of its own.
    pub processors: u32,
    /// Bytes of a cache.
    pub cache_bytes: u32,
    /// Lines that an address can be in.
    pub ways: u32,
    /// Bytes of a line, as a power of two.
    pub line_shift: u32,
    /// Entries of the communication table of a processor.
    pub table: usize,
    /// Accesses of the processor during which a trap drops what its table would get.
    pub trap_accesses: u32,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { processors: 16, cache_bytes: 32 << 10, ways: 8, line_shift: 6, table: 16 << 10, trap_accesses: 1000 }
    }
}

impl Machine {
    fn sets(&self) -> u64 {
        u64::from((self.cache_bytes >> self.line_shift) / self.ways.max(1)).max(1)
    }
}

/// What the machine had to do: the columns of Table 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Accesses, a line each.
    pub accesses: u64,
    /// Reads that missed.
    pub read_misses: u64,
    /// Writes that missed.
    pub write_misses: u64,
    /// Writes to lines that others shared.
    pub upgrades: u64,
    /// Writes of metadata.
    pub metadata: u64,
    /// Writes to communication tables.
    pub table: u64,
    /// Full tables.
    pub traps: u64,
    /// Edges dropped during traps.
    pub dropped: u64,
    /// Lines that had to make room.
    pub evictions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Exclusive,
    Shared,
}

/// A line in a cache; one that is not there is invalid.
#[derive(Clone, Copy, Debug)]
struct Line {
    number: u64,
    state: State,
    /// Who wrote it, and when; nobody while that is not known.
    writer: (Node, u64),
}

#[derive(Debug, Default)]
struct Processor {
    context: Option<Context>,
    /// By set; the line that was used last is at the back.
    sets: FxHashMap<u64, VecDeque<Line>>,
    table: Vec<Entry>,
    /// Accesses until the trap is over.
    trap: u32,
}

type Entry = ((Node, u64), (Node, u64));

/// The machine, collecting.
#[derive(Debug)]
pub struct Mesi {
    machine: Machine,
    depth: Depth,
    processors: Vec<Processor>,
    growing: Growing,
    work: Work,
}

impl Mesi {
    /// Empty caches; sites are in these images.
    pub fn new(depth: Depth, machine: Machine, images: Vec<BuildId>) -> Mesi {
        let processors = (0..machine.processors.max(1)).map(|_| Processor::default()).collect();
        Mesi { machine, depth, processors, growing: Growing::new(images), work: Work::default() }
    }

    /// An access happens.
    pub fn access(&mut self, access: &Access) {
        let shift = self.machine.line_shift.min(63);
        let last = access.addr.saturating_add(access.size.max(1) - 1) >> shift;
        // More than a cache full says nothing new.
        let most = u64::from(self.machine.cache_bytes >> shift).max(1);
        for line in (access.addr >> shift..=last).take(usize::try_from(most).unwrap_or(usize::MAX)) {
            self.touch(access, line);
        }
    }

    /// The graph of the run, and what it took.
    pub fn finish(mut self) -> (Graph, Work) {
        for processor in &mut self.processors {
            for (from, to) in processor.table.drain(..) {
                self.growing.edge(from, to);
            }
        }
        let kind = Kind { depth: self.depth, granularity: Granularity::Line, rules: Rules::Mesi };
        (self.growing.finish(kind), self.work)
    }

    fn touch(&mut self, access: &Access, number: u64) {
        self.work.accesses += 1;
        let when = self.work.accesses;
        let here = (access.thread % self.machine.processors.max(1)) as usize;
        let Some(processor) = self.processors.get_mut(here) else { return };
        processor.trap = processor.trap.saturating_sub(1);
        let node = Node::new(access.site, processor.context.unwrap_or(Context::EMPTY));
        let had = processor.take(self.machine.sets(), number);
        let line = match (access.touch, had) {
            (Touch::Read, Some(line)) => line,
            (Touch::Write, Some(line)) if line.state != State::Shared => Line { state: State::Modified, ..line },
            (Touch::Read, None) => self.read_miss(here, (node, when), number),
            (Touch::Write, had) => self.write_miss(here, (node, when), number, had.is_some()),
        };
        let (sets, ways) = (self.machine.sets(), self.machine.ways.max(1) as usize);
        let Some(processor) = self.processors.get_mut(here) else { return };
        let set = processor.sets.entry(number % sets).or_default();
        set.push_back(line);
        if set.len() > ways {
            set.pop_front();
            self.work.evictions += 1;
        }
    }

    fn read_miss(&mut self, here: usize, reader: (Node, u64), number: u64) -> Line {
        self.work.read_misses += 1;
        let sets = self.machine.sets();
        let mut supplied: Option<(usize, Line)> = None;
        for (at, processor) in self.processors.iter_mut().enumerate().filter(|(at, _)| *at != here) {
            if let Some(line) = processor.line(sets, number) {
                // The owner replies; of several that share, the one that knows most.
                let better = supplied.is_none_or(|(_, known)| known.writer.0 == Node::NOBODY);
                line.state = State::Shared;
                if better {
                    supplied = Some((at, *line));
                }
            }
        }
        match supplied {
            Some((at, line)) => {
                self.report(here, line.writer, reader);
                self.push(here, Comm::LocalRead);
                self.push(at, Comm::RemoteRead);
                Line { number, state: State::Shared, writer: line.writer }
            }
            None => {
                self.report(here, (Node::NOBODY, reader.1), reader);
                Line { number, state: State::Exclusive, writer: (Node::NOBODY, 0) }
            }
        }
    }

    fn write_miss(&mut self, here: usize, writer: (Node, u64), number: u64, had: bool) -> Line {
        if had {
            self.work.upgrades += 1;
        } else {
            self.work.write_misses += 1;
        }
        self.work.metadata += 1;
        let sets = self.machine.sets();
        let mut gave: Vec<usize> = Vec::new();
        let mut source = (Node::NOBODY, 0);
        for (at, processor) in self.processors.iter_mut().enumerate().filter(|(at, _)| *at != here) {
            if let Some(line) = processor.take(sets, number) {
                gave.push(at);
                if source.0 == Node::NOBODY {
                    source = line.writer;
                }
            }
        }
        if !gave.is_empty() {
            self.report(here, source, writer);
            self.push(here, Comm::LocalWrite);
            for at in gave {
                self.push(at, Comm::RemoteWrite);
            }
        }
        Line { number, state: State::Modified, writer }
    }

    /// Writes to a processor's communication table.
    fn report(&mut self, here: usize, from: (Node, u64), to: (Node, u64)) {
        let Some(processor) = self.processors.get_mut(here) else { return };
        if processor.trap > 0 {
            self.work.dropped += 1;
            return;
        }
        self.work.table += 1;
        processor.table.push((from, to));
        if processor.table.len() >= self.machine.table.max(1) {
            self.work.traps += 1;
            processor.trap = self.machine.trap_accesses.saturating_add(1);
            for (from, to) in processor.table.drain(..) {
                self.growing.edge(from, to);
            }
        }
    }

    fn push(&mut self, at: usize, event: Comm) {
        let depth = self.depth;
        if let Some(processor) = self.processors.get_mut(at) {
            let context = processor.context.unwrap_or(Context::EMPTY);
            processor.context = Some(context.push(event, depth));
        }
    }
}

impl Processor {
    fn line(&mut self, sets: u64, number: u64) -> Option<&mut Line> {
        self.sets.get_mut(&(number % sets))?.iter_mut().find(|line| line.number == number)
    }

    /// Takes a line out: it is given up, or about to be the one used last.
    fn take(&mut self, sets: u64, number: u64) -> Option<Line> {
        let set = self.sets.get_mut(&(number % sets))?;
        let at = set.iter().position(|line| line.number == number)?;
        set.remove(at)
    }
}
