//! Which regions depend on which, as clocks.
//!
//! A thread counts its regions, and its events outside of regions, in one *epoch*. The clock of a thread has, for
//! every other, the last epoch that it depends on. Two rules keep clocks complete:
//! - the clock of a thread that depends on a region that goes on has all that the region's thread has: when that one
//!   learns something, so does everybody who depends on it;
//! - what an access left behind is a *node*: for one in a region that goes on, the clock of its thread as it is; for
//!   others the clock at the end, with a list of the regions that went on then. What those learnt afterwards is added
//!   when the node is looked at.
//!
//! As no circle is ever let in, neither do the lists of nodes have one.

use crate::history::EventNo;
use crate::rows::{Rows, join};

/// What an access left behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    /// 0 for no access.
    epoch: u32,
    node: u32,
    event: EventNo,
    thread: u16,
}

impl Cell {
    pub(super) fn is_none(self) -> bool {
        self.epoch == 0
    }

    pub(super) fn is_of(self, thread: usize) -> bool {
        self.epoch != 0 && usize::from(self.thread) == thread
    }

    /// The access.
    pub(super) fn event(self) -> EventNo {
        self.event
    }
}

/// An access would close a circle.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosesCircle;

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    /// The own component is of no meaning.
    clock: Vec<u32>,
    epoch: u32,
    is_inside: bool,
    /// In a region: its node. Else one with the present clock. [`Rows::NONE`] if there is none.
    node: u32,
}

/// Clocks of threads and of what they left behind.
#[derive(Debug)]
pub(super) struct Nodes {
    threads: Vec<Thread>,
    rows: Rows,
    /// By node: the regions that went on when it was made.
    open: Vec<Vec<u32>>,
    /// By node: the thread whose region it is, while that goes on.
    region: Vec<Option<u16>>,
    /// Room for a clock.
    clock: Vec<u32>,
}

impl Nodes {
    pub(super) fn new(threads: usize) -> Nodes {
        let thread = Thread { clock: vec![0; threads], epoch: 1, is_inside: false, node: Rows::NONE };
        Nodes {
            threads: vec![thread; threads],
            rows: Rows::new(threads),
            open: vec![Vec::new()],
            region: vec![None],
            clock: Vec::new(),
        }
    }

    /// A region begins.
    pub(super) fn begin(&mut self, thread: usize) {
        self.forget(thread);
        let thread = &mut self.threads[thread];
        thread.epoch += 1;
        thread.is_inside = true;
    }

    /// It ends.
    pub(super) fn end(&mut self, thread: usize) {
        let node = self.threads[thread].node;
        self.threads[thread].is_inside = false;
        if node != Rows::NONE {
            self.region[node as usize] = None;
            self.rows.get_mut(node).copy_from_slice(&self.threads[thread].clock);
            self.open[node as usize] = self.depends_on(thread);
        }
        self.forget(thread);
        self.threads[thread].epoch += 1;
    }

    /// Whether an access was of the region that its thread is in.
    pub(super) fn is_present(&self, cell: Cell) -> bool {
        let thread = &self.threads[usize::from(cell.thread)];
        thread.is_inside && thread.epoch == cell.epoch
    }

    /// What an access leaves behind; to be released.
    pub(super) fn publish(&mut self, thread: usize, event: EventNo) -> Cell {
        if !self.threads[thread].is_inside {
            self.threads[thread].epoch += 1;
        }
        let node = self.node(thread);
        self.rows.retain(node);
        Cell { epoch: self.threads[thread].epoch, node, event, thread: thread as u16 }
    }

    /// A cell is no longer needed.
    pub(super) fn release(&mut self, cell: Cell) {
        if !cell.is_none() {
            self.release_node(cell.node);
        }
    }

    /// What a thread does now depends on an access; unless the access depends on the thread's region.
    pub(super) fn learn(&mut self, thread: usize, cell: Cell) -> Result<(), ClosesCircle> {
        let other = usize::from(cell.thread);
        if cell.is_none() || other == thread || self.threads[thread].clock[other] >= cell.epoch {
            return Ok(());
        }
        self.learn_new(thread, cell)
    }

    fn learn_new(&mut self, thread: usize, cell: Cell) -> Result<(), ClosesCircle> {
        let mut clock = std::mem::take(&mut self.clock);
        self.read(cell, &mut clock);
        let me = &mut self.threads[thread];
        if me.is_inside && clock[thread] >= me.epoch {
            self.clock = clock;
            return Err(ClosesCircle);
        }
        join(&mut me.clock, &clock);
        let (inside, epoch) = (me.is_inside, me.epoch);
        if !inside {
            self.forget(thread);
        } else {
            clock.copy_from_slice(&self.threads[thread].clock);
            clock[thread] = epoch;
            for other in 0..self.threads.len() {
                let depends = other != thread && self.threads[other].clock[thread] >= epoch;
                if depends && join(&mut self.threads[other].clock, &clock) && !self.threads[other].is_inside {
                    self.forget(other);
                }
            }
        }
        self.clock = clock;
        Ok(())
    }

    /// All that an access depends on, and itself.
    fn read(&mut self, cell: Cell, clock: &mut Vec<u32>) {
        clock.clear();
        if let Some(owner) = self.region[cell.node as usize] {
            clock.extend_from_slice(&self.threads[usize::from(owner)].clock);
        } else {
            self.resolve(cell.node);
            clock.extend_from_slice(self.rows.get(cell.node));
            for &open in &self.open[cell.node as usize] {
                if let Some(owner) = self.region[open as usize] {
                    let owner = usize::from(owner);
                    join(clock, &self.threads[owner].clock);
                    clock[owner] = clock[owner].max(self.threads[owner].epoch);
                }
            }
        }
        let thread = usize::from(cell.thread);
        clock[thread] = clock[thread].max(cell.epoch);
    }

    /// Adds to a node what the regions that went on, and have ended since, had at their end.
    fn resolve(&mut self, node: u32) {
        let mut stack = vec![node];
        while let Some(&node) = stack.last() {
            let has_ended = |open: &&u32| self.region[**open as usize].is_none();
            let has_open_end = |open: &&u32| self.open[**open as usize].iter().any(|open| has_ended(&open));
            if let Some(&first) = self.open[node as usize].iter().filter(has_ended).find(has_open_end) {
                stack.push(first);
                continue;
            }
            stack.pop();
            let opens = std::mem::take(&mut self.open[node as usize]);
            let (ended, mut open): (Vec<u32>, Vec<u32>) =
                opens.into_iter().partition(|&open| self.region[open as usize].is_none());
            for ended in ended {
                self.rows.join_rows(node, ended);
                for at in 0..self.open[ended as usize].len() {
                    let further = self.open[ended as usize][at];
                    if !open.contains(&further) {
                        self.rows.retain(further);
                        open.push(further);
                    }
                }
                self.release_node(ended);
            }
            self.open[node as usize] = open;
        }
    }

    /// The node of a thread's region, or one with its clock.
    fn node(&mut self, thread: usize) -> u32 {
        if self.threads[thread].node == Rows::NONE {
            let node = self.rows.add(&self.threads[thread].clock);
            if node as usize == self.open.len() {
                self.open.push(Vec::new());
                self.region.push(None);
            }
            self.threads[thread].node = node;
            if self.threads[thread].is_inside {
                self.region[node as usize] = Some(thread as u16);
            } else {
                self.open[node as usize] = self.depends_on(thread);
            }
        }
        self.threads[thread].node
    }

    /// The nodes of the regions that go on and that a thread depends on, each to be released.
    fn depends_on(&mut self, thread: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        for other in 0..self.threads.len() {
            let Thread { epoch, is_inside, .. } = self.threads[other];
            if other != thread && is_inside && self.threads[thread].clock[other] >= epoch {
                let node = self.node(other);
                self.rows.retain(node);
                nodes.push(node);
            }
        }
        nodes
    }

    /// The thread's node is no longer that of what it does.
    fn forget(&mut self, thread: usize) {
        let node = std::mem::replace(&mut self.threads[thread].node, Rows::NONE);
        if node != Rows::NONE {
            self.release_node(node);
        }
    }

    fn release_node(&mut self, node: u32) {
        if self.rows.release(node) {
            let mut freed = vec![node];
            while let Some(node) = freed.pop() {
                for open in std::mem::take(&mut self.open[node as usize]) {
                    if self.rows.release(open) {
                        freed.push(open);
                    }
                }
            }
        }
    }
}
