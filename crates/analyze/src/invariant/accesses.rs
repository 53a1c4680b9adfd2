//! A recorded run as invariants read it: who touched which location where, one after the other, who held which lock, and who made
//! whom.
//!
//! Memory is cut at every boundary that an access or a heap block of the run has, so what touches a byte of a location touches
//! all of it: locations are exact to the byte. ([`mod@crate::import`] cuts at the bounds of writes only. That is enough where
//! reads do not count, but here they do.) An access to several locations is an [`Access`] of each, with the same index.
//!
//! A block that is allocated or freed has new locations from then on, as in the guard's recorder.
//!
//! Locks are those of the trace as it is, re-entrant ones and those that are misused too, and those that [`mod@crate::import`] finds a
//! program to make of atomics. What is done to such a lock is an access as well. A condition wait gives its mutex back.
//!
//! What it cannot see: that the stack of a thread was another's before. Annotations to ignore accesses are not looked at: whatever
//! a guarded site does counts.
//!
//! Cost: two passes over the trace and one import; while it runs 16 bytes for each boundary, 40 for each access.

use std::collections::BTreeMap;

use selvedge_events::hooks::Rw;
use selvedge_trace::{Event, EventBody, Place, Process};

use crate::history::Op;
use crate::import::{self, Imported};

/// One access to one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose.
    pub thread: u32,
    /// To which location: its number in [`Run::locations`].
    pub location: u64,
    /// Where in the code.
    pub site: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether it reads. An update does both.
    pub read: bool,
    /// Its number in the merged order of the trace.
    pub index: u64,
    /// Under control: the operation of the thread that it is of, from 1; 0 where that is not known.
    pub operation: u32,
}

/// A lock is taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// By whom.
    pub thread: u32,
    /// Under control: the operation of the thread; 0 where that is not known.
    pub operation: u32,
    /// Its number in the merged order of the trace.
    pub index: u64,
    /// The lock's address.
    pub lock: u64,
    /// Where in the code, where that has a number.
    pub site: Option<u32>,
    /// Taken, in either mode; else given back.
    pub acquires: bool,
}

/// A thread is made or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// By whom.
    pub thread: u32,
    /// Its number in the merged order of the trace.
    pub index: u64,
    /// Which thread.
    pub other: u32,
    /// Made; else it has ended and was waited for.
    pub made: bool,
}

/// What a location is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home {
    /// A heap block: its number among the run's allocations.
    Block(u64),
    /// A loaded image.
    Image(u32),
    /// A stack, or memory that nobody was seen to allocate.
    Elsewhere,
}

/// Bytes that every access touches all of, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// What it is a part of.
    pub home: Home,
    /// From the beginning of its home; of [`Home::Elsewhere`], the address.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
}

/// A run as invariants read it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// All accesses in the order in which they happened.
    pub accesses: Vec<Access>,
    /// All acquisitions and releases in the order in which they happened.
    pub locks: Vec<LockEvent>,
    /// All threads made and waited for in the order in which that happened.
    pub threads: Vec<ThreadEvent>,
    /// The locations.
    pub locations: Vec<Location>,
    /// The trace goes on: there were more accesses than were asked for.
    pub cut: bool,
}

impl Run {
    /// A location.
    pub fn location(&self, number: u64) -> Option<&Location> {
        self.locations.get(usize::try_from(number).ok()?)
    }
}

/// Most bytes of an access that are looked at.
const MAX_RANGE: u64 = 1 << 26;

/// The accesses and locks of a recorded process, as far as there are not more than `most` accesses.
///
/// `site` numbers places, the same in all runs that are looked at together. Accesses at places without a number are left out.
pub fn accesses(process: &Process, most: usize, site: impl FnMut(Place) -> Option<u32>) -> Run {
    coloured(process, most, site, |_| 0)
}

/// The same where accesses at some sites count as accesses to other addresses: `shift` says by how many bytes, as a colour's sites
/// do ([`super::Colour`]).
pub fn coloured(
    process: &Process,
    most: usize,
    mut site: impl FnMut(Place) -> Option<u32>,
    shift: impl Fn(u32) -> i32,
) -> Run {
    let mut site = |place| site(place).map(|site| (site, shift(site)));
    let imported = import::import(process, &import::Options::default());
    let mut cutter = Cutter::new(boundaries(process, &mut site));
    let mut others = Others { imported: &imported, at: 0 };
    let mut run = Run::default();
    for (index, event) in (0..).zip(process.events()) {
        others.take(index, &event, || site(event.place).map(|(site, _)| site), &mut run);
        match event.body {
            EventBody::Alloc { addr, size } => cutter.alloc(addr.0, size),
            EventBody::Free { addr } => cutter.free(addr.0),
            _ => {}
        }
        let Some((site, shift)) = site(event.place) else { continue };
        let Some((addr, end, rw)) = bytes(process, &event, shift) else { continue };
        let found = cutter.between(addr, end);
        if run.accesses.len().saturating_add(found.len()) > most {
            run.cut = true;
            break;
        }
        for cell in found {
            let Some(location) = cutter.location(cell, process, &mut run.locations) else { continue };
            run.accesses.push(Access {
                thread: event.thread.0,
                location,
                site,
                write: rw != Rw::Read,
                read: rw != Rw::Write,
                index,
                operation: event.operation,
            });
        }
    }
    run
}

/// What an event touches: first byte, one past the last, direction.
fn bytes(process: &Process, event: &Event, shift: i32) -> Option<(u64, u64, Rw)> {
    let access = process.access(event)?;
    let addr = access.addr.saturating_add_signed(i64::from(shift));
    let end = addr.saturating_add(access.size.min(MAX_RANGE));
    (end > addr).then_some((addr, end, access.rw))
}

/// Every boundary, in ascending order.
fn boundaries(process: &Process, site: &mut impl FnMut(Place) -> Option<(u32, i32)>) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    let mut tidy_at = 1 << 16;
    for event in process.events() {
        if let EventBody::Alloc { addr, size } = event.body {
            all.extend([addr.0, addr.0.saturating_add(size)]);
        } else if let Some((_, shift)) = site(event.place)
            && let Some((addr, end, _)) = bytes(process, &event, shift)
        {
            all.extend([addr, end]);
        }
        if all.len() >= tidy_at {
            all.sort_unstable();
            all.dedup();
            tidy_at = all.len().saturating_mul(2).max(1 << 16);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Memory in cells, each from one boundary to the next.
struct Cutter {
    boundaries: Vec<u64>,
    /// By cell: the number of its location plus one; 0 where nobody touched it since it was new.
    current: Vec<u64>,
    /// By first byte: bytes and number of each block.
    blocks: BTreeMap<u64, (u64, u64)>,
    allocations: u64,
}

impl Cutter {
    fn new(boundaries: Vec<u64>) -> Cutter {
        let current = vec![0; boundaries.len()];
        Cutter { boundaries, current, blocks: BTreeMap::new(), allocations: 0 }
    }

    /// The cells of these bytes, whose ends are boundaries.
    fn between(&self, addr: u64, end: u64) -> std::ops::Range<usize> {
        let at = |addr| self.boundaries.partition_point(|boundary| *boundary < addr);
        at(addr)..at(end)
    }

    fn alloc(&mut self, addr: u64, size: u64) {
        self.renew(addr, size);
        self.blocks.insert(addr, (size, self.allocations));
        self.allocations += 1;
    }

    fn free(&mut self, addr: u64) {
        if let Some((size, _)) = self.blocks.remove(&addr) {
            self.renew(addr, size);
        }
    }

    fn renew(&mut self, addr: u64, size: u64) {
        let cells = self.between(addr, addr.saturating_add(size));
        if let Some(cells) = self.current.get_mut(cells) {
            cells.fill(0);
        }
    }

    /// The number of a cell's location, a new one where it has none.
    fn location(&mut self, cell: usize, process: &Process, locations: &mut Vec<Location>) -> Option<u64> {
        let (addr, end) = (*self.boundaries.get(cell)?, *self.boundaries.get(cell + 1)?);
        let current = self.current.get_mut(cell)?;
        if *current == 0 {
            let (home, begin) = match self.blocks.range(..=addr).next_back() {
                Some((begin, (size, number))) if addr - begin < *size => (Home::Block(*number), *begin),
                _ => process
                    .module_of(addr)
                    .map_or((Home::Elsewhere, 0), |module| (Home::Image(module.index.0), module.base)),
            };
            locations.push(Location { home, offset: addr - begin, size: end - addr });
            *current = locations.len() as u64;
        }
        Some(*current - 1)
    }
}

/// Goes through what a history knows of locks and threads, beside the events of its trace.
struct Others<'a> {
    imported: &'a Imported,
    at: usize,
}

impl Others<'_> {
    /// Notes what an event of the trace does to locks and threads.
    fn take(&mut self, index: u64, event: &Event, site: impl FnOnce() -> Option<u32>, run: &mut Run) {
        let (history, thread) = (&self.imported.history, event.thread.0);
        let mut lock = said(&event.body);
        while let (Some(source), Some(made)) = (history.sources.get(self.at), history.events.get(self.at)) {
            if *source > index {
                break;
            }
            self.at += 1;
            if *source < index {
                continue;
            }
            let target = made.target as usize;
            if made.op.acquires() || made.op.releases() {
                let addr = self.imported.locks.get(target).map(|lock| lock.addr);
                lock = lock.or(addr.map(|addr| (addr, made.op.acquires())));
            } else if matches!(made.op, Op::Fork | Op::Join) {
                let Some(other) = self.imported.threads.get(target).map(|thread| thread.0) else { continue };
                run.threads.push(ThreadEvent { thread, index, other, made: made.op == Op::Fork });
            }
        }
        if let Some((lock, acquires)) = lock {
            run.locks.push(LockEvent { thread, operation: event.operation, index, lock, site: site(), acquires });
        }
    }
}

/// Which lock an event takes or gives back by name, and whether it takes it.
fn said(body: &EventBody) -> Option<(u64, bool)> {
    match *body {
        EventBody::Acquire { lock, how } => how.held().then_some((lock.0, true)),
        EventBody::Release { lock, .. } => Some((lock.0, false)),
        EventBody::WaitBegin { mutex, .. } => Some((mutex.0, false)),
        EventBody::WaitEnd { mutex, .. } => Some((mutex.0, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
