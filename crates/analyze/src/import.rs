//! A recorded process becomes a [`History`].
//!
//! What becomes of what:
//!
//! - Memory is cut into *variables* at every boundary that some write of the trace has; an access to several of them is an
//!   event of each, and who reads a part of one reads it: the last write to that part was to all of it. A heap block is told
//!   apart from a later one at the same address.
//! - A `free` writes every variable of its block that another thread touched.
//! - A failed compare-exchange is an atomic read of its failure order. A read-modify-write by a plain compound
//!   hook is a read and a write.
//! - A lock that is taken again by its holder counts once. A lock that is released by another thread than its holder, or
//!   taken while another holds it (robust mutexes, events that were lost), is not used as a lock: its acquisitions take,
//!   its releases post an object, which keeps their order.
//! - An attempt to take a lock that failed depends on who held it: it reads a variable that stands for the state of that
//!   lock, and every acquisition and release of it is a write of that variable. Locks without failed attempts have none.
//!   So it is with semaphores.
//! - A condition wait begins with [`Op::Release`], [`Op::Wait`]; it ends with [`Op::Woken`], if there was a wake-up and
//!   it was not timed out, and [`Op::Acquire`].
//! - A barrier is an object for each generation: entered is posted, left is taken.
//! - Of a one-time initialisation, the first thread that returns posts and the others take. Where that is not who ran
//!   the routine (both return at once), the order is not exact.
//! - A futex wake-up posts; a futex wait that did not fail takes.
//! - Accesses between annotations to ignore them are left out; memory whose races are declared benign is accessed
//!   by relaxed atomics, before the declaration too: what is read there still depends on what was written.
//!
//! Variables that one thread only touches, or that nobody writes, cannot take part in anything: their accesses are left out,
//! unless [`Options::keep_private`] says otherwise.
//!
//! What it cannot see: that the stack of a thread was another's before (no event says so), and what code without hooks does.
//!
//! Cost: one pass over the trace and one over what was noted. While it runs: 24 bytes for each event that is noted, 28 for each
//! variable, and twice the memory that the trace touches at all, in pages of 1 KiB.

mod cells;
mod finish;
pub(crate) mod locks;
mod made_locks;
mod objects;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use selvedge_events::hooks::{AtomicOp, HookClass, Rw};
use selvedge_events::{Acquire, Mode, ModuleIx, Order, Primitive, SiteId, ThreadIx, pack};
use selvedge_trace::{EventBody, EventRef, Place, Process};

use crate::history::{Event, EventNo, History, Op};
use cells::{BENIGN, Cells, NOBODY, Touch, WRITTEN};
use finish::Draft;
use locks::{Change, Locks};
use objects::Objects;

pub use locks::Lock;
pub use objects::{Object, Sort};

/// What to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Also accesses to variables that one thread only touches, or that nobody writes.
    pub keep_private: bool,
    /// Most events; what is beyond is cut off, and [`LeftOut::cut`] says so.
    pub most_events: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { keep_private: false, most_events: 1 << 28 }
    }
}

/// A history with what leads back to the trace that it was made from.
///
/// A source of the history ([`History::sources`]) is the number of an event in the merged order.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The history.
    pub history: History,
    /// For each event of the history its number within its thread, of which there are four billion at most.
    pub indices: Vec<u32>,
    /// The threads.
    pub threads: Vec<ThreadIx>,
    /// The variables.
    pub variables: Vec<Variable>,
    /// The locks.
    pub locks: Vec<Lock>,
    /// The objects.
    pub objects: Vec<Object>,
    /// The places in the source.
    pub locations: Vec<Place>,
    /// Events of the trace.
    pub events: u64,
    /// What is not in the history, and why.
    pub left_out: LeftOut,
}

impl Imported {
    /// The event of the trace that an event of the history was made from.
    pub fn event_ref(&self, number: EventNo) -> Option<EventRef> {
        let index = *self.indices.get(number as usize)?;
        let thread = self.history.event(number)?.thread;
        Some(EventRef { thread: *self.threads.get(usize::from(thread))?, index: u64::from(index) })
    }

    /// Where an event of the history is in the code.
    pub fn place(&self, number: EventNo) -> Option<Place> {
        self.locations.get(self.history.event(number)?.location as usize).copied()
    }
}

/// A variable of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its first byte, or the address of the lock or semaphore whose state it is.
    pub addr: u64,
    /// Bytes; 0 for a state.
    pub size: u32,
    /// Its first event in the history.
    pub first: EventNo,
}

impl Variable {
    /// Whether it is not memory but stands for the state of a lock or semaphore.
    pub fn is_state(&self) -> bool {
        self.size == 0
    }
}

/// What is not in a history, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Accesses to variables that one thread only touches, or that nobody writes.
    pub private: u64,
    /// Accesses that annotations say to ignore.
    pub ignored: u64,
    /// Accesses at sites of which the trace does not say what they do.
    pub unknown: u64,
    /// Accesses, and blocks freed, of which only the first 64 MiB count.
    pub long: u64,
    /// Acquisitions and releases of locks that the thread held already, or still.
    pub nested: u64,
    /// Locks that are not used as locks, and are objects in the history.
    pub irregular_locks: u64,
    /// Waits that ended without a wake-up, by a time-out or for no reason.
    pub not_woken: u64,
    /// Events of threads that were joined before; creations of threads that had begun before.
    pub out_of_turn: u64,
    /// Joins of threads that are not known.
    pub unknown_joins: u64,
    /// Events that the trace itself says were lost, or that could not be decoded.
    pub lost: u64,
    /// The trace goes on: more events, threads or variables than can be numbered.
    pub cut: bool,
}

/// Events that are taken at once.
const BATCH: usize = 16;

/// Imports a process.
pub fn import(process: &Process, options: &Options) -> Imported {
    let mut importer = Importer::new(process);
    let mut events = process.events();
    let limit = options.most_events as usize;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.extend(events.by_ref().take(BATCH));
        if batch.is_empty() {
            break;
        }
        for event in &batch {
            if let EventBody::Access { addr } | EventBody::Range { addr, .. } | EventBody::Atomic { addr, .. } =
                event.body
            {
                importer.cells.warm(addr.0);
            }
        }
        for event in batch.drain(..) {
            let full =
                importer.draft.len() >= limit || importer.ordinal >= u64::from(u32::MAX) || importer.cells.is_full();
            if full || !importer.event(event.thread, event.index as u32, event.place, &event.body) {
                importer.left_out.cut = true;
                break;
            }
        }
        if importer.left_out.cut {
            break;
        }
    }
    let unread = events.left_out();
    importer.left_out.lost = unread.lost.saturating_add(unread.unknown).saturating_add(unread.broken);
    let mut imported = finish::finish(importer, options);
    made_locks::recognise(process, &mut imported);
    imported
}

/// What a site does.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    /// Its location in the history plus one; 0 where it has none yet.
    location: u32,
    does: Does,
    size: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Does {
    #[default]
    Unknown,
    Plain(Rw),
    Atomic(Op),
    /// Orders only what the compiler does.
    SignalFence,
    Other,
}

/// A thread of the history.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    index: ThreadIx,
    /// How deep in regions whose reads, and whose writes, are to be ignored.
    ignore: [u32; 2],
    /// It has an event, or was created.
    begun: bool,
    joined: bool,
    /// The object of a switch to this fiber that it has yet to take, plus one.
    switched: u32,
}

struct Importer {
    draft: Draft,
    ordinal: u64,
    cells: Cells,
    locks: Locks,
    objects: Objects,
    /// Addresses of locks and objects.
    synchronised: BTreeSet<u64>,
    /// Sizes of heap blocks. Only looked up.
    blocks: FxHashMap<u64, u64>,
    sites: Vec<Site>,
    locations: Vec<Place>,
    /// Locations of code addresses. Only looked up.
    codes: FxHashMap<(ModuleIx, u32), u32>,
    nowhere: Option<u32>,
    threads: Vec<Thread>,
    /// Numbers of threads. Only looked up.
    numbers: FxHashMap<ThreadIx, u16>,
    /// The thread of the last event.
    last: Option<(ThreadIx, u16)>,
    /// Room for the nodes of an access.
    nodes: Vec<u32>,
    left_out: LeftOut,
}

impl Importer {
    fn new(process: &Process) -> Importer {
        let mut sites = Vec::new();
        for (id, site) in process.file().sites() {
            if id.0 >> pack::SITE_BITS != 0 {
                continue;
            }
            let at = id.0 as usize;
            if at >= sites.len() {
                sites.resize(at + 1, Site::default());
            }
            let Some(hook) = site.hook.get() else { continue };
            let (does, size) = match hook.class {
                HookClass::Access { rw, size, .. } => (Does::Plain(rw), size),
                HookClass::Atomic { op: AtomicOp::Load, size } => (Does::Atomic(Op::AtomicRead), size),
                HookClass::Atomic { op: AtomicOp::Store, size } => (Does::Atomic(Op::AtomicWrite), size),
                HookClass::Atomic { op: AtomicOp::SignalFence, .. } => (Does::SignalFence, 0),
                HookClass::Atomic { op: AtomicOp::ThreadFence, .. } => (Does::Other, 0),
                HookClass::Atomic { size, .. } => (Does::Atomic(Op::AtomicUpdate), size),
                _ => (Does::Other, 0),
            };
            sites[at] = Site { location: 0, does, size };
        }
        Importer {
            draft: Draft::default(),
            ordinal: 0,
            cells: Cells::new(),
            locks: Locks::default(),
            objects: Objects::default(),
            synchronised: BTreeSet::new(),
            blocks: FxHashMap::default(),
            sites,
            locations: Vec::new(),
            codes: FxHashMap::default(),
            nowhere: None,
            threads: Vec::new(),
            numbers: FxHashMap::default(),
            last: None,
            nodes: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Takes an event; false where there are too many threads.
    fn event(&mut self, thread: ThreadIx, index: u32, place: Place, body: &EventBody) -> bool {
        use EventBody as B;
        self.ordinal += 1;
        let Some(thread) = self.thread(thread) else { return false };
        let state = &mut self.threads[usize::from(thread)];
        if state.joined {
            self.left_out.out_of_turn += 1;
            return true;
        }
        state.begun = true;
        let switched = std::mem::take(&mut state.switched);
        let at = At { thread, index, place };
        if let Some(fiber) = switched.checked_sub(1) {
            self.push(at, Op::Take, fiber);
        }
        match *body {
            B::Access { addr } => match self.site(place) {
                Site { does: Does::Plain(rw), size, .. } => self.plain(at, addr.0, u64::from(size), rw),
                Site { does: Does::Atomic(op), size, .. } => {
                    let rw = if op == Op::AtomicRead { Rw::Read } else { Rw::ReadWrite };
                    self.plain(at, addr.0, u64::from(size), rw);
                }
                _ => self.left_out.unknown += 1,
            },
            B::Range { addr, size, rw } => self.plain(at, addr.0, size, rw),
            B::Atomic { addr, order, failure, success } => match self.site(place) {
                Site { does: Does::Atomic(Op::AtomicUpdate), size, .. } if !success => {
                    self.access(at, addr.0, u64::from(size), &[Op::AtomicRead], failure);
                }
                Site { does: Does::Atomic(op), size, .. } => self.access(at, addr.0, u64::from(size), &[op], order),
                _ => self.left_out.unknown += 1,
            },
            B::Fence { order } => {
                if self.site(place).does != Does::SignalFence {
                    let location = self.location(place);
                    let event = Event { op: Op::Fence, order, thread, target: 0, location };
                    self.draft.push(event, self.ordinal, index);
                }
            }
            B::Alloc { addr, size } => self.alloc(addr.0, size),
            B::Free { addr } => self.free(at, addr.0),
            B::ThreadCreate { child, .. } => return self.fork(at, child),
            B::ThreadJoin { child } => self.join(at, child),
            B::Ignore { begins, what } => {
                // Nothing said is both; synchronisation is never ignored.
                let what = if what & 3 == 0 { 3 } else { what };
                for (depth, bit) in self.threads[usize::from(thread)].ignore.iter_mut().zip([1, 2]) {
                    let step = u32::from(what & bit != 0);
                    *depth = if begins { depth.saturating_add(step) } else { depth.saturating_sub(step) };
                }
            }
            B::Benign { addr, size } => {
                let touch = Touch { thread: NOBODY, mark: BENIGN };
                if let Some(end) = self.end(addr.0, size) {
                    self.nodes.clear();
                    self.cells.cover(addr.0, end, touch, &mut self.nodes);
                }
            }
            _ => self.synchronise(at, body),
        }
        true
    }

    /// Locks and objects.
    fn synchronise(&mut self, at: At, body: &EventBody) {
        use EventBody as B;
        match *body {
            B::Acquire { lock, how } => {
                let number = self.lock(lock.0, how.primitive);
                if how.held() { self.acquire(at, number, how.mode) } else { self.fail(at, number) }
            }
            B::Release { lock, how: Acquire { primitive, .. } } => {
                // Whoever finds the initialisation done comes after it.
                if primitive == Primitive::Guard {
                    let once = self.object(Sort::Once, lock.0);
                    self.objects.known(once).done = true;
                    self.push(at, Op::Post, once);
                }
                let number = self.lock(lock.0, primitive);
                self.release(at, number, false);
            }
            B::WaitBegin { cond, mutex } => {
                let (object, lock) = (self.object(Sort::Condition, cond.0), self.lock(mutex.0, Primitive::Mutex));
                self.objects.wait(at.thread, cond.0, object);
                self.release(at, lock, true);
                self.push(at, Op::Wait, object);
            }
            B::WaitEnd { cond, mutex, result } => {
                let (object, lock) = (self.object(Sort::Condition, cond.0), self.lock(mutex.0, Primitive::Mutex));
                if self.objects.was_woken(at.thread, cond.0, object) && result == 0 {
                    self.push(at, Op::Woken, object);
                } else {
                    self.left_out.not_woken += 1;
                }
                self.acquire(at, lock, Mode::Exclusive);
            }
            B::Signal { cond } => self.wake(at, Op::Signal, cond.0),
            B::Broadcast { cond } => self.wake(at, Op::Broadcast, cond.0),
            B::BarrierEnter { barrier } => {
                let (object, is_new) = self.objects.enter(at.thread, barrier.0);
                if is_new {
                    self.synchronised.insert(barrier.0);
                }
                self.push(at, Op::Post, object);
            }
            B::BarrierLeave { barrier, .. } => {
                if let Some(object) = self.objects.leave(at.thread, barrier.0) {
                    self.push(at, Op::Take, object);
                }
            }
            B::SemPost { semaphore } => self.on(at, Op::Post, Sort::Semaphore, semaphore.0),
            B::SemWait { semaphore, result: 0 } => self.on(at, Op::Take, Sort::Semaphore, semaphore.0),
            B::SemWait { semaphore, .. } => {
                let object = self.object(Sort::Semaphore, semaphore.0);
                if self.objects.known(object).state == 0 {
                    self.objects.known(object).state = self.cells.state(semaphore.0);
                }
                let state = self.objects.known(object).state;
                self.read_state(at, state);
            }
            B::FutexWake { addr, .. } => self.on(at, Op::Post, Sort::Futex, addr.0),
            B::FutexWaitEnd { addr, result: 0 } => self.on(at, Op::Take, Sort::Futex, addr.0),
            B::HappensBefore { addr } => self.on(at, Op::Post, Sort::Annotated, addr.0),
            B::HappensAfter { addr } => self.on(at, Op::Take, Sort::Annotated, addr.0),
            B::Once { object } => {
                let once = self.object(Sort::Once, object.0);
                let op = if std::mem::replace(&mut self.objects.known(once).done, true) { Op::Take } else { Op::Post };
                self.push(at, op, once);
            }
            B::Destroy { object, .. } => {
                self.locks.forget(object.0);
                self.objects.forget(object.0);
                self.synchronised.remove(&object.0);
            }
            B::FiberSwitch { to, synchronises: true } => {
                let Some(fiber) = self.thread(to) else { return };
                let object = self.objects.number(Sort::Fiber, u64::from(to.0)).0;
                self.push(at, Op::Post, object);
                self.threads[usize::from(fiber)].switched = object + 1;
            }
            _ => {}
        }
    }

    fn plain(&mut self, at: At, addr: u64, size: u64, rw: Rw) {
        let ops: &[Op] = match rw {
            Rw::Read => &[Op::Read],
            Rw::Write => &[Op::Write],
            Rw::ReadWrite => &[Op::Read, Op::Write],
        };
        let ignore = self.threads[usize::from(at.thread)].ignore;
        if ignore == [0, 0] {
            self.access(at, addr, size, ops, Order::SeqCst);
            return;
        }
        for op in ops {
            if ignore[usize::from(*op == Op::Write)] == 0 {
                self.access(at, addr, size, &[*op], Order::SeqCst);
            } else {
                self.left_out.ignored += 1;
            }
        }
    }

    #[inline]
    fn access(&mut self, at: At, addr: u64, size: u64, ops: &[Op], order: Order) {
        let Some(end) = self.end(addr, size) else { return };
        let writes = ops.iter().any(|op| op.writes());
        let touch = Touch { thread: at.thread, mark: if writes { WRITTEN } else { 0 } };
        let location = self.location(at.place);
        if let Some(node) = self.cells.exact(addr, end, touch) {
            for op in ops {
                let event = Event { op: *op, order, thread: at.thread, target: node, location };
                self.draft.push(event, self.ordinal, at.index);
            }
            return;
        }
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        if writes {
            self.cells.cover(addr, end, touch, &mut nodes);
        } else {
            self.cells.read(addr, end, at.thread, &mut nodes);
        }
        for node in &nodes {
            for op in ops {
                let event = Event { op: *op, order, thread: at.thread, target: *node, location };
                self.draft.push(event, self.ordinal, at.index);
            }
        }
        self.nodes = nodes;
    }

    /// The end of an access; `None` for one of no bytes, or beyond all addresses.
    #[inline]
    fn end(&mut self, addr: u64, size: u64) -> Option<u64> {
        if size > cells::MAX_RANGE {
            self.left_out.long += 1;
        }
        let end = addr.saturating_add(size.min(cells::MAX_RANGE)).min(cells::LAST);
        (end > addr).then_some(end)
    }

    fn alloc(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size).min(cells::LAST);
        self.cells.renew(addr, end);
        while let Some(object) = self.synchronised.range(addr..end.max(addr)).next().copied() {
            self.locks.forget(object);
            self.objects.forget(object);
            self.synchronised.remove(&object);
        }
        self.blocks.insert(addr, size);
    }

    fn free(&mut self, at: At, addr: u64) {
        let Some(end) = self.blocks.remove(&addr).and_then(|size| self.end(addr, size)) else { return };
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        self.cells.there(addr, end, Touch { thread: at.thread, mark: WRITTEN }, &mut nodes);
        let location = self.location(at.place);
        for node in &nodes {
            self.draft.push(finish::freed(at.thread, *node, location), self.ordinal, at.index);
        }
        self.nodes = nodes;
    }

    fn fork(&mut self, at: At, child: ThreadIx) -> bool {
        let Some(number) = self.thread(child) else { return false };
        if std::mem::replace(&mut self.threads[usize::from(number)].begun, true) {
            self.left_out.out_of_turn += 1;
        } else {
            self.push(at, Op::Fork, u32::from(number));
        }
        true
    }

    fn join(&mut self, at: At, child: Option<ThreadIx>) {
        let number = child.and_then(|child| self.numbers.get(&child).copied()).filter(|child| *child != at.thread);
        let Some(number) = number else {
            self.left_out.unknown_joins += 1;
            return;
        };
        if std::mem::replace(&mut self.threads[usize::from(number)].joined, true) {
            self.left_out.out_of_turn += 1;
        } else {
            self.push(at, Op::Join, u32::from(number));
        }
    }

    fn acquire(&mut self, at: At, lock: u32, mode: Mode) {
        match self.locks.acquire(lock, at.thread, mode) {
            Change::Real(Mode::Exclusive) => self.push(at, Op::Acquire, lock),
            Change::Real(Mode::Shared) => self.push(at, Op::AcquireShared, lock),
            Change::Nested => self.left_out.nested += 1,
        }
    }

    fn release(&mut self, at: At, lock: u32, fully: bool) {
        match self.locks.release(lock, at.thread, fully) {
            Change::Real(Mode::Exclusive) => self.push(at, Op::Release, lock),
            Change::Real(Mode::Shared) => self.push(at, Op::ReleaseShared, lock),
            Change::Nested => self.left_out.nested += 1,
        }
    }

    fn fail(&mut self, at: At, lock: u32) {
        let held = &mut self.locks.all[lock as usize];
        if held.state == 0 {
            held.state = self.cells.state(held.lock.addr);
        }
        let state = held.state;
        self.read_state(at, state);
    }

    fn read_state(&mut self, at: At, state: u32) {
        let location = self.location(at.place);
        let event = Event { op: Op::AtomicRead, order: Order::Relaxed, thread: at.thread, target: state, location };
        self.draft.push(event, self.ordinal, at.index);
    }

    fn wake(&mut self, at: At, op: Op, cond: u64) {
        let object = self.object(Sort::Condition, cond);
        self.objects.known(object).wakes += 1;
        self.push(at, op, object);
    }

    fn on(&mut self, at: At, op: Op, sort: Sort, addr: u64) {
        let object = self.object(sort, addr);
        self.push(at, op, object);
    }

    fn lock(&mut self, addr: u64, primitive: Primitive) -> u32 {
        let (number, is_new) = self.locks.number(addr, primitive);
        if is_new {
            self.synchronised.insert(addr);
        }
        number
    }

    fn object(&mut self, sort: Sort, addr: u64) -> u32 {
        let (number, is_new) = self.objects.number(sort, addr);
        if is_new {
            self.synchronised.insert(addr);
        }
        number
    }

    fn push(&mut self, at: At, op: Op, target: u32) {
        let location = self.location(at.place);
        self.draft.push(Event::new(at.thread, op, target, location), self.ordinal, at.index);
    }

    /// The number of a thread; `None` where there are too many.
    #[inline]
    fn thread(&mut self, index: ThreadIx) -> Option<u16> {
        if let Some((last, number)) = self.last
            && last == index
        {
            return Some(number);
        }
        let next = u16::try_from(self.threads.len()).ok().filter(|next| *next != NOBODY);
        let number = match self.numbers.get(&index) {
            Some(number) => *number,
            None => {
                let number = next?;
                self.numbers.insert(index, number);
                self.threads.push(Thread { index, ..Thread::default() });
                number
            }
        };
        self.last = Some((index, number));
        Some(number)
    }

    fn site(&self, place: Place) -> Site {
        match place {
            Place::Site(SiteId(id)) => self.sites.get(id as usize).copied().unwrap_or_default(),
            _ => Site::default(),
        }
    }

    /// The number of a place.
    #[inline]
    fn location(&mut self, place: Place) -> u32 {
        if let Place::Site(SiteId(id)) = place
            && let Some(Site { location: 1.., .. }) = self.sites.get(id as usize)
        {
            return self.sites[id as usize].location - 1;
        }
        self.locate(place)
    }

    #[cold]
    fn locate(&mut self, place: Place) -> u32 {
        let next = self.locations.len() as u32;
        let number = match place {
            Place::Site(SiteId(id)) => {
                let at = id as usize;
                // Sites have 24 bits.
                if at >= self.sites.len() {
                    self.sites.resize(at + 1, Site::default());
                }
                self.sites[at].location = next + 1;
                next
            }
            Place::Code { module, offset } => *self.codes.entry((module, offset)).or_insert(next),
            Place::Unknown => *self.nowhere.get_or_insert(next),
        };
        if number == next {
            self.locations.push(place);
        }
        number
    }
}

/// Whose event, which, and where.
#[derive(Clone, Copy, Debug)]
struct At {
    thread: u16,
    index: u32,
    place: Place,
}
