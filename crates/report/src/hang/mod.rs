//! Hangs explained: what every thread waits for, who holds it and since where, and what kind of hang it is.
//!
//! Made from the trace of a process that can do no more, mostly one that ran under control and was ended by the
//! gate; a trace of a process that was killed while it hung will do. Each thread's live slot says what it is
//! blocked in, its events say which locks it has taken and not given back.
//!
//! - A **deadlock** is a circle in the wait-for graph: locks (with several holders, where readers share one),
//!   joins, static initialisations, a lock that the thread holds itself. A thread that waits for a wake-up while it
//!   holds a lock that another waits for closes a circle too, if nothing better explains the hang.
//! - A **lost wake-up**: a thread waits for a condition, futex or semaphore, and a wake-up came when nobody
//!   waited, or nobody is left to send one. A semaphore keeps its posts, so those are never lost.
//! - Otherwise it is **stuck**, and the report says what every thread does. So it is where several threads sleep on futexes of their own
//!   to which no wake-up was sent: locks whose word is not that of the futex look so.
//!
//! Who holds a lock that is made of atomics and futexes (Rust's own) is presumed from how its word was changed, and
//! called so. Cannot see: who holds a lock whose word is not that of the futex (parking_lot's), who would have sent a
//! wake-up that never came, and locks taken before recording began. The stack of a thread that is blocked
//! in a lock or join is that of its last event, corrected where the function has changed since.

mod cycle;
mod ending;
mod finding;
mod text;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::interpose::Family;
use selvedge_events::{Mode, Primitive, ThreadIx};
use selvedge_trace::model::Blocked;
use selvedge_trace::{ContextId, Place};

pub use text::write_hang;
pub(crate) use text::write_stack;

use crate::names::{Names, Source, Variable};
use cycle::{Graph, Why, shortest};
use ending::{Ending, Spot, Taken};

/// A hang.
#[derive(Clone, Debug)]
pub struct Hang {
    /// What sort.
    pub kind: HangKind,
    /// Every thread of the process, by number.
    pub threads: Vec<BlockedThread>,
    /// The circle of a deadlock, each waiting for the next and the last for the first; else empty.
    pub cycle: Vec<Link>,
    /// The wake-up that went nowhere.
    pub lost: Option<Lost>,
}

/// What sort of hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangKind {
    /// Threads wait for each other.
    Deadlock,
    /// A thread waits for a wake-up that came too early, or that nobody is left to send.
    LostWakeup,
    /// Neither can be shown.
    Stuck,
}

/// A thread at the end.
#[derive(Clone, Debug)]
pub struct BlockedThread {
    /// Which.
    pub thread: ThreadIx,
    /// What it is called in a sentence: `T1 'teller'`.
    pub name: String,
    /// What it does.
    pub state: ThreadState,
    /// Its calls, innermost first.
    pub stack: Vec<Source>,
    /// The locks that it holds, in order of acquisition. One that has ended may have left some.
    pub holds: Vec<HeldLock>,
    /// Who created it, through which calls.
    pub created: Option<(ThreadIx, Vec<Source>)>,
}

/// What a thread does at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It waits.
    Blocked(Wait),
    /// It runs, or could.
    Running,
    /// It has ended.
    Ended,
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// In what sort of operation.
    pub what: WaitKind,
    /// The function that it called.
    pub function: &'static str,
    /// What it waits for, where that is memory.
    pub object: Option<Thing>,
    /// The thread whose end it waits for.
    pub thread: Option<ThreadIx>,
    /// Who holds it up: the holders of a lock, the thread to be joined.
    pub held_by: Vec<ThreadIx>,
    /// How many others wait for the same.
    pub others: usize,
}

/// Sorts of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum WaitKind {
    Lock,
    ReadLock,
    WriteLock,
    SpinLock,
    /// One-time and static initialisation by another thread.
    Initialisation,
    Condition,
    Join,
    Semaphore,
    Barrier,
    Futex,
    Sleep,
    Signal,
    /// Input or output, with its descriptor where the function takes one.
    Io(Option<u64>),
    Other,
}

impl WaitKind {
    /// The word in JSON.
    pub fn op(self) -> &'static str {
        use WaitKind::*;
        match self {
            Lock | WriteLock | SpinLock | Initialisation => "lock",
            ReadLock => "lock-shared",
            Condition | Semaphore | Barrier | Futex => "wait",
            Join => "join",
            Sleep => "sleep",
            Signal => "sigwait",
            Io(_) => "io",
            Other => "call",
        }
    }

    /// Whether another thread has to send a wake-up.
    pub fn wants_wakeup(self) -> bool {
        matches!(self, WaitKind::Condition | WaitKind::Semaphore | WaitKind::Futex)
    }
}

/// A named thing in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// Its address in this run.
    pub addr: u64,
    /// Its name.
    pub variable: Variable,
}

/// A lock that a thread holds.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// Which.
    pub lock: Thing,
    /// What it is.
    pub primitive: Primitive,
    /// Exclusive or shared.
    pub mode: Mode,
    /// Where it was taken, innermost first.
    pub stack: Vec<Source>,
    /// Whether that is only presumed: it is a word that was changed as one changes a lock.
    pub presumed: bool,
    /// The number of the event that took it, in a run under control.
    pub number: Option<u64>,
}

/// One thread of a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The thread; what it waits for is in its [`ThreadState`].
    pub thread: ThreadIx,
    /// What the next thread of the circle has to do with that.
    pub next: Because,
}

/// Why a thread waits for the next one of a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The next one holds the lock at this address.
    Holds(u64),
    /// The next one does not end.
    Ends,
    /// The next one might send the wake-up.
    Wakes,
}

/// A wake-up that went nowhere.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Who waits.
    pub waiter: ThreadIx,
    /// Who sent it, and from where; `None` where nobody did.
    pub sent: Option<(ThreadIx, Vec<Source>)>,
    /// Wake-ups of the object altogether.
    pub count: u64,
    /// The number of the event that sent it, in a run under control.
    pub number: Option<u64>,
}

impl Hang {
    /// Explains how a process hangs; `None` where no thread waits or runs.
    pub fn of(names: &Names<'_>) -> Option<Hang> {
        let process = names.process();
        let ending = Ending::of(process);
        let blocked: BTreeMap<ThreadIx, Blocked> =
            process.blocked().into_iter().map(|blocked| (blocked.thread, blocked)).collect();
        let maker = Maker { names, ending: &ending, blocked: &blocked };
        let mut threads: Vec<BlockedThread> =
            process.summary().threads.iter().map(|thread| maker.thread(thread)).collect();
        if threads.iter().all(|thread| thread.state == ThreadState::Ended) {
            return None;
        }
        let graph = find_holders(&mut threads);
        let mut cycle = shortest(&graph, |_| true);
        let mut lost = None;
        if cycle.is_empty() {
            lost = maker.lost(&threads, true);
        }
        if cycle.is_empty() && lost.is_none() {
            cycle = nested(&graph, &threads);
        }
        // Several that sleep on words of their own look like threads that hold what the others want.
        if cycle.is_empty() && lost.is_none() && sleepers(&threads) < 2 {
            lost = maker.lost(&threads, false);
        }
        let kind = match (cycle.is_empty(), &lost) {
            (false, _) => HangKind::Deadlock,
            (true, Some(_)) => HangKind::LostWakeup,
            (true, None) => HangKind::Stuck,
        };
        let link = |(thread, why): (ThreadIx, Why)| Link {
            thread,
            next: match why {
                Why::Holds(lock) => Because::Holds(lock),
                Why::Ends => Because::Ends,
                Why::Wakes => Because::Wakes,
            },
        };
        Some(Hang { kind, threads, cycle: cycle.into_iter().map(link).collect(), lost })
    }

    /// Words of which each has a thread that sleeps on it, with nobody known to hold it.
    pub fn sleepers(&self) -> usize {
        sleepers(&self.threads)
    }

    /// A thread of it.
    pub fn thread(&self, index: ThreadIx) -> Option<&BlockedThread> {
        self.threads.iter().find(|thread| thread.thread == index)
    }

    /// A thread that waits for a lock of one that has ended, and that one.
    pub fn kept_from(&self) -> Option<(&BlockedThread, &BlockedThread)> {
        self.threads.iter().find_map(|thread| {
            let holders = thread.wait()?.held_by.iter().filter_map(|holder| self.thread(*holder));
            let mut ended = holders.filter(|holder| holder.state == ThreadState::Ended && !holder.holds.is_empty());
            Some((thread, ended.next()?))
        })
    }
}

impl BlockedThread {
    /// What it waits for.
    pub fn wait(&self) -> Option<&Wait> {
        match &self.state {
            ThreadState::Blocked(wait) => Some(wait),
            _ => None,
        }
    }

    /// The lock at this address, if it holds it.
    pub fn held(&self, lock: u64) -> Option<&HeldLock> {
        self.holds.iter().find(|held| held.lock.addr == lock)
    }
}

fn sleepers(threads: &[BlockedThread]) -> usize {
    let waits = threads.iter().filter_map(BlockedThread::wait);
    let futexes = waits.filter(|wait| wait.what == WaitKind::Futex && wait.held_by.is_empty());
    futexes.filter_map(|wait| Some(wait.object.as_ref()?.addr)).collect::<BTreeSet<u64>>().len()
}

struct Maker<'a> {
    names: &'a Names<'a>,
    ending: &'a Ending,
    blocked: &'a BTreeMap<ThreadIx, Blocked>,
}

impl Maker<'_> {
    fn thing(&self, addr: u64) -> Thing {
        Thing { addr, variable: self.names.variable_at(addr, &self.ending.heap) }
    }

    fn stack(&self, spot: Spot) -> Vec<Source> {
        self.names.stack(spot.place, spot.context)
    }

    fn number(&self, spot: Spot) -> Option<u64> {
        let process = self.names.process();
        process.is_controlled().then(|| process.number(spot.time))
    }

    fn thread(&self, thread: &selvedge_trace::summary::Thread) -> BlockedThread {
        let index = thread.index;
        let blocked = self.blocked.get(&index).filter(|_| !thread.ended);
        let state = match blocked {
            Some(blocked) => ThreadState::Blocked(self.wait(blocked)),
            None if thread.ended => ThreadState::Ended,
            None => ThreadState::Running,
        };
        let last = self.ending.last.get(&index);
        let stack = match (blocked, last) {
            (Some(blocked), _) => self.blocked_stack(blocked.place, thread.context, last),
            (None, Some(spot)) if !thread.ended => self.stack(*spot),
            _ => Vec::new(),
        };
        let left = self.ending.left.iter().filter(|left| left.spot.thread == index).copied();
        let holds = self.ending.held(index).into_iter().chain(left).map(|taken| self.lock(&taken));
        let holds = holds.chain(self.presumed(index)).collect();
        let created = thread.parent.zip(thread.created);
        let created = created.map(|(parent, (place, context))| (parent, self.names.stack(place, context)));
        BlockedThread { thread: index, name: self.names.thread_in_words(index), state, stack, holds, created }
    }

    fn lock(&self, taken: &Taken) -> HeldLock {
        let Taken { held, spot } = taken;
        HeldLock {
            lock: self.thing(held.lock),
            primitive: held.primitive,
            mode: held.mode,
            stack: self.stack(*spot),
            presumed: false,
            number: self.number(*spot),
        }
    }

    /// The futex words that somebody waits for and a thread presumably holds.
    fn presumed(&self, thread: ThreadIx) -> impl Iterator<Item = HeldLock> {
        let waits = |blocked: &Blocked, word| kind_of(blocked) == WaitKind::Futex && blocked.object == word;
        let wanted = move |(word, _): &(u64, Spot)| self.blocked.values().any(|blocked| waits(blocked, *word));
        self.ending.words.held(thread).filter(wanted).map(|(word, spot)| HeldLock {
            lock: self.thing(word),
            primitive: Primitive::Mutex,
            mode: Mode::Exclusive,
            stack: self.stack(spot),
            presumed: true,
            number: self.number(spot),
        })
    }

    /// The calls that led to a blocked call. The stream has the context of its last words; where those are in another
    /// function, calls were made or left since, and a context that fits is looked for.
    fn blocked_stack(&self, place: Place, context: ContextId, last: Option<&Spot>) -> Vec<Source> {
        let names = self.names;
        let function = names.function(place);
        let last = last.filter(|last| last.context == context && names.function(last.place) != function);
        let (Some(last), Some(_)) = (last, &function) else { return names.stack(place, context) };
        let process = names.process();
        let frames = process.contexts().frames(context);
        let back = frames.iter().position(|pc| names.function(process.place_of(*pc)) == function);
        if let Some(callers) = back.and_then(|back| frames.get(back + 1..)) {
            return names.stack(place, enter(process, callers));
        }
        // A call that has no event yet: whoever made it before tells from where.
        let made_before = |event: &selvedge_trace::Event| {
            let callers = process.contexts().frames(event.context);
            callers.get(1..) == Some(&frames) && names.function(event.place) == function
        };
        if let Some(event) = process.events().find(made_before) {
            return names.stack(place, event.context);
        }
        // Else the caller is known, and the line of the call is not.
        let caller =
            names.frames(last.place).pop().map(|frame| Source { line: None, column: None, code: None, ..frame });
        let outer = names.stack(last.place, context).into_iter().skip(names.frames(last.place).len());
        names.frames(place).into_iter().chain(caller).chain(outer).collect()
    }

    fn wait(&self, blocked: &Blocked) -> Wait {
        let index = blocked.thread;
        let waiter = self.ending.waiters.get(&index);
        let mut what = kind_of(blocked);
        let mut object = Some(blocked.object).filter(|_| blocked.object != 0);
        let mut thread = None;
        match what {
            WaitKind::Join => {
                thread = u32::try_from(blocked.object).ok().filter(|index| *index != u32::MAX).map(ThreadIx);
                object = None;
            }
            WaitKind::Condition => {
                // Awake already, and in the queue for the mutex?
                let mutex = waiter.filter(|waiter| waiter.woken || waiter.doubtful.is_some());
                if let Some(mutex) = mutex.and_then(|waiter| waiter.mutex)
                    && self.is_held(mutex)
                {
                    (what, object) = (WaitKind::Lock, Some(mutex));
                }
            }
            WaitKind::Sleep | WaitKind::Signal | WaitKind::Io(_) | WaitKind::Other => object = None,
            _ => {}
        }
        let same = |other: &&Blocked| {
            other.thread != index && object.is_some() && kind_of(other) == what && Some(other.object) == object
        };
        let others = self.blocked.values().filter(same).count();
        let object = object.map(|addr| self.thing(addr));
        Wait { what, function: blocked.function, object, thread, held_by: Vec::new(), others }
    }

    /// Whether a thread holds a lock, or has ended with it.
    fn is_held(&self, lock: u64) -> bool {
        let threads = self.names.process().file().threads();
        let held = threads.into_iter().flat_map(|thread| self.ending.held(thread));
        held.chain(self.ending.left.iter().copied()).any(|taken| taken.held.lock == lock)
    }

    /// The thread that waits for a wake-up; with `proof`, only if one is known to have gone nowhere.
    fn lost(&self, threads: &[BlockedThread], proof: bool) -> Option<Lost> {
        let waits = threads.iter().filter_map(|thread| {
            // One who waits for a lock wants its holder to go on.
            let wait = thread.wait().filter(|wait| wait.what.wants_wakeup() && wait.held_by.is_empty())?;
            Some((thread.thread, wait.object.as_ref()?.addr))
        });
        // Whoever runs may still send it.
        if !proof && threads.iter().any(|thread| thread.state == ThreadState::Running) {
            return None;
        }
        let mut all = waits.map(|(waiter, object)| {
            let wakeups = self.ending.wakeups.get(&object).copied().unwrap_or_default();
            let doubtful = self.ending.waiters.get(&waiter).and_then(|waiter| waiter.doubtful);
            let spot = doubtful.or(wakeups.unheard);
            let sent = spot.map(|spot| (spot.thread, self.stack(spot)));
            Lost { waiter, sent, count: wakeups.count, number: spot.and_then(|spot| self.number(spot)) }
        });
        all.find(|lost| !proof || lost.sent.is_some())
    }
}

/// A context by its return addresses, innermost first.
fn enter(process: &selvedge_trace::Process, frames: &[u64]) -> ContextId {
    frames.iter().rev().fold(ContextId::ROOT, |context, pc| process.contexts().enter(context, *pc))
}

fn kind_of(blocked: &Blocked) -> WaitKind {
    // Of these the first argument is a descriptor.
    const DESCRIPTORS: [&str; 7] = ["read", "write", "recv", "send", "accept", "connect", "flock"];
    let name = blocked.function;
    match blocked.family {
        Some(Family::Mutex) => WaitKind::Lock,
        Some(Family::Rwlock) if name.contains("rdlock") => WaitKind::ReadLock,
        Some(Family::Rwlock) => WaitKind::WriteLock,
        Some(Family::Spin) => WaitKind::SpinLock,
        Some(Family::Once | Family::Guard) => WaitKind::Initialisation,
        Some(Family::Cond) => WaitKind::Condition,
        Some(Family::Thread) => WaitKind::Join,
        Some(Family::Semaphore) => WaitKind::Semaphore,
        Some(Family::Barrier) => WaitKind::Barrier,
        Some(Family::Futex) => WaitKind::Futex,
        Some(Family::Sleep) => WaitKind::Sleep,
        Some(Family::Signal) => WaitKind::Signal,
        Some(Family::Io) => {
            let takes = DESCRIPTORS.iter().any(|start| name.starts_with(start));
            WaitKind::Io(Some(blocked.object).filter(|_| takes))
        }
        _ => WaitKind::Other,
    }
}

/// Fills in who holds up whom, and answers the wait-for graph. Threads that have ended hold up others, and wait for
/// nobody.
fn find_holders(threads: &mut [BlockedThread]) -> Graph {
    let holders: Vec<(ThreadIx, u64, Mode)> = threads
        .iter()
        .flat_map(|thread| thread.holds.iter().map(|held| (thread.thread, held.lock.addr, held.mode)))
        .collect();
    let mut graph = Graph::new();
    for thread in threads.iter_mut() {
        let ThreadState::Blocked(wait) = &mut thread.state else { continue };
        let lock = wait.object.as_ref().map_or(0, |object| object.addr);
        let of_lock = || holders.iter().filter(move |(_, held, _)| *held == lock);
        let edges: Vec<(ThreadIx, Why)> = match wait.what {
            WaitKind::Join => wait.thread.into_iter().map(|thread| (thread, Why::Ends)).collect(),
            // A word that nobody presumably holds has no edges.
            WaitKind::Futex | WaitKind::Lock | WaitKind::WriteLock | WaitKind::SpinLock | WaitKind::Initialisation => {
                of_lock().map(|(holder, ..)| (*holder, Why::Holds(lock))).collect()
            }
            // A reader waits for the writer; where none is inside, one is in the queue before it.
            WaitKind::ReadLock => {
                let inside = of_lock().any(|(.., mode)| *mode == Mode::Exclusive);
                let fits = move |(.., mode): &&(ThreadIx, u64, Mode)| !inside || *mode == Mode::Exclusive;
                of_lock().filter(fits).map(|(holder, ..)| (*holder, Why::Holds(lock))).collect()
            }
            _ => Vec::new(),
        };
        wait.held_by = edges.iter().map(|(holder, _)| *holder).collect();
        graph.insert(thread.thread, edges);
    }
    graph
}

/// A circle that closes through a wake-up: a thread waits for one while it holds what another waits for.
fn nested(graph: &Graph, threads: &[BlockedThread]) -> Vec<(ThreadIx, Why)> {
    let mut graph = graph.clone();
    let blocked: Vec<ThreadIx> =
        threads.iter().filter(|thread| thread.wait().is_some()).map(|thread| thread.thread).collect();
    if threads.iter().any(|thread| thread.state == ThreadState::Running) {
        return Vec::new();
    }
    for thread in threads.iter().filter(|thread| thread.wait().is_some_and(|wait| wait.what.wants_wakeup())) {
        let others = blocked.iter().filter(|other| **other != thread.thread);
        graph.entry(thread.thread).or_default().extend(others.map(|other| (*other, Why::Wakes)));
    }
    shortest(&graph, |path| {
        let all_can_wake = path.iter().zip(path.iter().cycle().skip(1)).all(|((_, why), (next, _))| {
            // Somebody who waits for a wake-up himself, or for an end, is not the one who was to send it.
            let waits = threads.iter().find(|thread| thread.thread == *next).and_then(BlockedThread::wait);
            *why != Why::Wakes || waits.is_some_and(|wait| wait.what.op().starts_with("lock"))
        });
        all_can_wake && path.iter().any(|(_, why)| matches!(why, Why::Holds(_)))
    })
}
