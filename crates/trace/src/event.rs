//! Events, typed: what a record of a thread's stream says, with its time, place and context.

use selvedge_events::hooks::Rw;
use selvedge_events::pack;
use selvedge_events::{Acquire, EventKind, GuestAddr, ModuleIx, Order, SiteId, ThreadIx, Ticks};

use crate::context::ContextId;

/// One dynamic occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub thread: ThreadIx,
    /// Its number within the thread, from 0.
    pub index: u64,
    /// When, to the resolution of [`pack::TICK`].
    pub time: Ticks,
    /// How well the time is known.
    pub exactness: Exactness,
    /// Through which calls.
    pub context: ContextId,
    /// How many of these calls, the outermost first, have not been left since the thread's event before this one.
    pub kept: u32,
    /// Where in the code.
    pub place: Place,
    /// What.
    pub body: EventBody,
    /// Under control: the operation of the thread that it is of, from 1; 0 where that is not known.
    pub operation: u32,
    /// Under control: what the memory of a short access held before it.
    pub before: Option<u64>,
}

/// Names an event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventRef {
    /// Whose.
    pub thread: ThreadIx,
    /// Its number within the thread.
    pub index: u64,
}

impl Event {
    /// The event's name.
    pub fn id(&self) -> EventRef {
        EventRef { thread: self.thread, index: self.index }
    }

    /// The event's site, where it has one.
    pub fn site(&self) -> Option<SiteId> {
        match self.place {
            Place::Site(site) => Some(site),
            _ => None,
        }
    }
}

/// How well a time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The counter was read for this event.
    Timed,
    /// It lies between its timed neighbours.
    Between,
}

/// Where in the code an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an armed site.
    Site(SiteId),
    /// At a code address: a return address, so the call lies just before it.
    Code {
        /// The image.
        module: ModuleIx,
        /// From its load base.
        offset: u32,
    },
    /// Not in a known image.
    Unknown,
}

/// What happened. See `events::EventKind` for each one's instant.
#[expect(missing_docs, reason = "the fields are named after what events::EventKind says of the words")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventBody {
    /// A plain access; direction and size are the site's.
    Access { addr: GuestAddr },
    /// An access to a run of bytes.
    Range { addr: GuestAddr, size: u64, rw: Rw },
    /// An atomic operation; what it does is the site's. `failure` counts where `success` is false.
    Atomic { addr: GuestAddr, order: Order, failure: Order, success: bool },
    /// A fence.
    Fence { order: Order },
    /// This thread begins.
    ThreadStart { parent: Option<ThreadIx> },
    /// Another thread is made; `stack` is the number of the maker's stack, where that was kept.
    ThreadCreate { child: ThreadIx, stack: Option<u32> },
    /// Another thread was joined.
    ThreadJoin { child: Option<ThreadIx> },
    /// Another thread is detached.
    ThreadDetach { child: Option<ThreadIx> },
    /// This thread ends.
    ThreadExit,
    /// A thread gets a name, zero-padded.
    ThreadName { thread: ThreadIx, name: [u8; 16] },
    /// A lock was acquired, or an attempt failed.
    Acquire { lock: GuestAddr, how: Acquire },
    /// A lock is released.
    Release { lock: GuestAddr, how: Acquire },
    /// A condition wait begins; the mutex is released.
    WaitBegin { cond: GuestAddr, mutex: GuestAddr },
    /// A condition wait returned; the mutex is held again.
    WaitEnd { cond: GuestAddr, mutex: GuestAddr, result: u16 },
    /// One waiter is woken.
    Signal { cond: GuestAddr },
    /// All waiters are woken.
    Broadcast { cond: GuestAddr },
    /// A barrier is entered.
    BarrierEnter { barrier: GuestAddr },
    /// A barrier was left.
    BarrierLeave { barrier: GuestAddr, result: u16 },
    /// A semaphore is posted.
    SemPost { semaphore: GuestAddr },
    /// A semaphore was taken, or an attempt failed.
    SemWait { semaphore: GuestAddr, result: u16 },
    /// A synchronisation object is destroyed.
    Destroy { object: GuestAddr, how: Acquire },
    /// A futex wait begins.
    FutexWaitBegin { addr: GuestAddr, op: u64 },
    /// A futex wait returned.
    FutexWaitEnd { addr: GuestAddr, result: u16 },
    /// Futex waiters are woken.
    FutexWake { addr: GuestAddr, most: u64 },
    /// A block was allocated.
    Alloc { addr: GuestAddr, size: u64 },
    /// A block is freed.
    Free { addr: GuestAddr },
    /// The process forked.
    Fork { pid: u32 },
    /// A function of `events::interpose` is called that is only noted.
    Note { slot: u16, argument: u64 },
    /// A signal handler begins.
    HandlerBegin { signal: u32 },
    /// A signal handler returned.
    HandlerEnd { signal: u32 },
    /// A function that may block is called.
    BlockBegin { slot: u16, argument: u64 },
    /// It returned.
    BlockEnd { slot: u16 },
    /// An image was loaded.
    Load { module: ModuleIx },
    /// An image is unloaded.
    Unload { module: ModuleIx },
    /// A user-level context switch.
    ContextSwitch { to: u64 },
    /// Execution moves to a fiber; `synchronises` where what comes before is ordered before it.
    FiberSwitch { to: ThreadIx, synchronises: bool },
    /// An annotated release.
    HappensBefore { addr: GuestAddr },
    /// An annotated acquisition.
    HappensAfter { addr: GuestAddr },
    /// Ignoring begins or ends; `what` is a sum of 1 reads, 2 writes, 4 synchronisation.
    Ignore { begins: bool, what: u8 },
    /// Races on these bytes are declared benign.
    Benign { addr: GuestAddr, size: u64 },
    /// One-time initialisation finished, seen by this thread.
    Once { object: GuestAddr },
    /// A basic block begins.
    Block,
}

impl EventBody {
    /// The kind in the vocabulary.
    pub fn kind(&self) -> EventKind {
        use EventBody as B;
        use EventKind as K;
        match self {
            B::Access { .. } => K::Access,
            B::Range { .. } => K::Range,
            B::Atomic { .. } => K::Atomic,
            B::Fence { .. } => K::Fence,
            B::ThreadStart { .. } => K::ThreadStart,
            B::ThreadCreate { .. } => K::ThreadCreate,
            B::ThreadJoin { .. } => K::ThreadJoin,
            B::ThreadDetach { .. } => K::ThreadDetach,
            B::ThreadExit => K::ThreadExit,
            B::ThreadName { .. } => K::ThreadName,
            B::Acquire { .. } => K::Acquire,
            B::Release { .. } => K::Release,
            B::WaitBegin { .. } => K::WaitBegin,
            B::WaitEnd { .. } => K::WaitEnd,
            B::Signal { .. } => K::Signal,
            B::Broadcast { .. } => K::Broadcast,
            B::BarrierEnter { .. } => K::BarrierEnter,
            B::BarrierLeave { .. } => K::BarrierLeave,
            B::SemPost { .. } => K::SemPost,
            B::SemWait { .. } => K::SemWait,
            B::Destroy { .. } => K::Destroy,
            B::FutexWaitBegin { .. } => K::FutexWaitBegin,
            B::FutexWaitEnd { .. } => K::FutexWaitEnd,
            B::FutexWake { .. } => K::FutexWake,
            B::Alloc { .. } => K::Alloc,
            B::Free { .. } => K::Free,
            B::Fork { .. } => K::Fork,
            B::Note { .. } => K::Note,
            B::HandlerBegin { .. } => K::HandlerBegin,
            B::HandlerEnd { .. } => K::HandlerEnd,
            B::BlockBegin { .. } => K::BlockBegin,
            B::BlockEnd { .. } => K::BlockEnd,
            B::Load { .. } => K::Load,
            B::Unload { .. } => K::Unload,
            B::ContextSwitch { .. } => K::ContextSwitch,
            B::FiberSwitch { .. } => K::FiberSwitch,
            B::HappensBefore { .. } => K::HappensBefore,
            B::HappensAfter { .. } => K::HappensAfter,
            B::Ignore { .. } => K::Ignore,
            B::Benign { .. } => K::Benign,
            B::Once { .. } => K::Once,
            B::Block => K::Block,
        }
    }
}

/// The body of a wide record; `None` where its words make no sense. Addresses have 48 bits.
pub(crate) fn body(kind: EventKind, payload: u64, words: &[u64; 3]) -> Option<EventBody> {
    use EventBody as B;
    use EventKind as K;
    let [first, second, third] = *words;
    let (object, arg) = pack::split_object(first);
    let object = GuestAddr(object);
    let mutex = GuestAddr(pack::split_object(second).0);
    let how = Acquire::unpack(arg);
    let thread = |word: u64| u32::try_from(word).ok().filter(|ix| *ix != u32::MAX).map(ThreadIx);
    Some(match kind {
        K::Access => B::Access { addr: object },
        K::Range => {
            let rw = if payload & pack::PAYLOAD_FLAG == 0 { Rw::Read } else { Rw::Write };
            B::Range { addr: object, size: second, rw }
        }
        K::Atomic => B::Atomic {
            addr: object,
            order: Order::from_abi(u32::from(arg & 7)),
            failure: Order::from_abi(u32::from(arg >> 3 & 7)),
            success: payload & pack::PAYLOAD_FLAG == 0,
        },
        K::Fence => B::Fence { order: Order::from_abi((first & 0xffff) as u32) },
        K::ThreadStart => B::ThreadStart { parent: thread(first >> 32) },
        K::ThreadCreate => {
            let stack = u32::try_from(second).ok().filter(|number| *number > 0);
            B::ThreadCreate { child: thread(first)?, stack }
        }
        K::ThreadJoin => B::ThreadJoin { child: thread(first) },
        K::ThreadDetach => B::ThreadDetach { child: thread(first) },
        K::ThreadExit => B::ThreadExit,
        K::ThreadName => {
            let mut name = [0; 16];
            for (to, from) in name.iter_mut().zip(second.to_le_bytes().into_iter().chain(third.to_le_bytes())) {
                *to = from;
            }
            B::ThreadName { thread: thread(first)?, name }
        }
        K::Acquire => B::Acquire { lock: object, how: how? },
        K::Release => B::Release { lock: object, how: how? },
        K::WaitBegin => B::WaitBegin { cond: object, mutex },
        K::WaitEnd => B::WaitEnd { cond: object, mutex, result: arg },
        K::Signal => B::Signal { cond: object },
        K::Broadcast => B::Broadcast { cond: object },
        K::BarrierEnter => B::BarrierEnter { barrier: object },
        K::BarrierLeave => B::BarrierLeave { barrier: object, result: arg },
        K::SemPost => B::SemPost { semaphore: object },
        K::SemWait => B::SemWait { semaphore: object, result: arg },
        K::Destroy => B::Destroy { object, how: how? },
        K::FutexWaitBegin => B::FutexWaitBegin { addr: object, op: second },
        K::FutexWaitEnd => B::FutexWaitEnd { addr: object, result: arg },
        K::FutexWake => B::FutexWake { addr: object, most: second },
        K::Alloc => B::Alloc { addr: object, size: second },
        K::Free => B::Free { addr: object },
        K::Fork => B::Fork { pid: first as u32 },
        K::Note => B::Note { slot: arg, argument: object.0 },
        K::HandlerBegin => B::HandlerBegin { signal: first as u32 },
        K::HandlerEnd => B::HandlerEnd { signal: first as u32 },
        K::BlockBegin => B::BlockBegin { slot: arg, argument: object.0 },
        K::BlockEnd => B::BlockEnd { slot: arg },
        K::Load => B::Load { module: ModuleIx(first as u32) },
        K::Unload => B::Unload { module: ModuleIx(first as u32) },
        K::ContextSwitch => B::ContextSwitch { to: object.0 },
        K::FiberSwitch => B::FiberSwitch { to: ThreadIx(first as u32), synchronises: first >> 32 != 0 },
        K::HappensBefore => B::HappensBefore { addr: object },
        K::HappensAfter => B::HappensAfter { addr: object },
        K::Ignore => B::Ignore { begins: first & 1 != 0, what: (first >> 8) as u8 },
        K::Benign => B::Benign { addr: object, size: second },
        K::Once => B::Once { object },
        K::Block => B::Block,
    })
}

pub(crate) fn place(kind: EventKind, payload: u64) -> Place {
    if kind.at_site() {
        return Place::Site(SiteId((payload & (pack::PAYLOAD_FLAG - 1)) as u32));
    }
    match pack::split_pc(payload) {
        Some((module, offset)) => Place::Code { module: ModuleIx(module), offset },
        None => Place::Unknown,
    }
}
