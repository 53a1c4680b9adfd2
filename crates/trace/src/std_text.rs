//! Writes a process in RAPID's `std` text form: one event a line, `T1|w(V3)|account.c:12`.
//!
//! The form knows reads, writes, locks, fork and join. So:
//!
//! - memory is cut into *variables* at every boundary that some access of the trace has; an access to
//!   several of them is several lines. A heap block is told apart from a later one at the same address;
//! - an atomic operation is the read and the write that it makes, with no order of its own;
//! - a condition wait is a release and an acquisition of its mutex; a recursive lock counts once;
//! - a shared acquisition of a reader-writer lock is an acquisition and a release at once, and so is its
//!   release: that keeps the order between writers and readers, and loses the exclusion of writers
//!   while a reader is inside. No tool is told of an order that was not there;
//! - barriers, semaphores, futexes, once and annotations have no form and are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use selvedge_events::Mode;
use selvedge_events::hooks::Rw;

use crate::event::{Event, EventBody, EventRef};
use crate::model::{MemoryAccess, Process};
use crate::state::{Heap, LockChange, Locksets};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StdSummary {
    /// Lines.
    pub lines: u64,
    /// Synchronisation events that have no form.
    pub left_out: u64,
}

/// Writes all events for which `keep` holds; `locate` gives the text of a location.
pub fn write_std(
    process: &Process,
    keep: &mut dyn FnMut(&Event) -> bool,
    locate: &mut dyn FnMut(&Event) -> String,
    out: &mut dyn Write,
) -> io::Result<StdSummary> {
    let cells = Cells::of(process);
    let mut writer =
        Writer { out, cells, locks: BTreeMap::new(), locksets: Locksets::default(), summary: StdSummary::default() };
    let mut heap = Heap::default();
    for event in process.events() {
        heap.apply(&event);
        let change = writer.locksets.apply(&event);
        if keep(&event) {
            let access = process.access(&event);
            writer.event(&heap, &event, access, change, locate)?;
        }
    }
    Ok(writer.summary)
}

/// What an address is relative to: a heap block, or nothing.
type Base = Option<EventRef>;

/// The boundaries that accesses have, and the number of each variable that was written.
struct Cells {
    cuts: BTreeMap<Base, BTreeSet<u64>>,
    numbers: BTreeMap<(Base, u64), usize>,
}

impl Cells {
    fn of(process: &Process) -> Cells {
        let mut cells = Cells { cuts: BTreeMap::new(), numbers: BTreeMap::new() };
        let mut heap = Heap::default();
        for event in process.events() {
            heap.apply(&event);
            if let Some(access) = process.access(&event) {
                let cuts = cells.cuts.entry(base(&heap, access.addr)).or_default();
                cuts.insert(access.addr);
                cuts.insert(access.addr.saturating_add(access.size));
            }
        }
        cells
    }

    /// The variables that an access touches.
    fn touched(&mut self, heap: &Heap, access: MemoryAccess) -> Vec<usize> {
        let base = base(heap, access.addr);
        let end = access.addr.saturating_add(access.size);
        let mut touched = Vec::new();
        if let Some(cuts) = self.cuts.get(&base) {
            for start in cuts.range(access.addr..end) {
                let next = self.numbers.len();
                touched.push(*self.numbers.entry((base, *start)).or_insert(next));
            }
        }
        touched
    }
}

fn base(heap: &Heap, addr: u64) -> Base {
    heap.block_of(addr).map(|block| block.alloc)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    cells: Cells,
    locks: BTreeMap<u64, usize>,
    locksets: Locksets,
    summary: StdSummary,
}

impl Writer<'_> {
    fn event(
        &mut self,
        heap: &Heap,
        event: &Event,
        access: Option<MemoryAccess>,
        change: Option<LockChange>,
        locate: &mut dyn FnMut(&Event) -> String,
    ) -> io::Result<()> {
        let mut operations = Vec::new();
        if let Some(access) = access {
            for variable in self.cells.touched(heap, access) {
                if access.rw != Rw::Write {
                    operations.push(format!("r(V{variable})"));
                }
                if access.rw != Rw::Read {
                    operations.push(format!("w(V{variable})"));
                }
            }
        }
        match change {
            Some(LockChange::Taken(held)) => {
                let lock = self.lock(held.lock);
                operations.push(format!("acq(L{lock})"));
                if held.mode == Mode::Shared {
                    operations.push(format!("rel(L{lock})"));
                }
            }
            Some(LockChange::Given(held)) => {
                let lock = self.lock(held.lock);
                if held.mode == Mode::Shared {
                    operations.push(format!("acq(L{lock})"));
                }
                operations.push(format!("rel(L{lock})"));
            }
            // A release without its acquisition would be ill-formed.
            Some(LockChange::GivenUnseen { .. }) => self.summary.left_out += 1,
            None => {}
        }
        match event.body {
            EventBody::ThreadCreate { child, .. } => operations.push(format!("fork(T{child})")),
            EventBody::ThreadJoin { child: Some(child) } => operations.push(format!("join(T{child})")),
            EventBody::ThreadJoin { child: None }
            | EventBody::BarrierEnter { .. }
            | EventBody::BarrierLeave { .. }
            | EventBody::SemPost { .. }
            | EventBody::SemWait { .. }
            | EventBody::FutexWake { .. }
            | EventBody::FutexWaitEnd { .. }
            | EventBody::HappensBefore { .. }
            | EventBody::HappensAfter { .. }
            | EventBody::Once { .. }
            | EventBody::Fence { .. } => self.summary.left_out += 1,
            _ => {}
        }
        if operations.is_empty() {
            return Ok(());
        }
        let location: String = locate(event)
            .chars()
            .map(|c| if c == '|' || c.is_whitespace() || c.is_control() { '_' } else { c })
            .collect();
        for operation in operations {
            writeln!(self.out, "T{}|{operation}|{location}", event.thread)?;
            self.summary.lines += 1;
        }
        Ok(())
    }

    fn lock(&mut self, addr: u64) -> usize {
        let next = self.locks.len();
        *self.locks.entry(addr).or_insert(next)
    }
}
