//! What happens in a run, and at which instant.
//!
//! `NOTE [Instants]`. An event is recorded at one point of the code that it stands for; where it is
//! said to *happen* decides what a merged order means:
//!
//! - an access happens at its hook, which the compiler placed directly **before** the instruction;
//!   the memory operation follows within the same thread before its next event;
//! - an atomic operation is performed **inside** its hook; the event's time is read before it;
//! - an acquisition (lock, join, wait returning, semaphore taken) happens **after** the real
//!   function returned; a release (unlock, create, post, signal, wait beginning) **before** the real
//!   function is called. So the time of a release is below the time of any acquisition it enables;
//! - what begins and ends (input, sleep, waits) has two events, outside on both sides;
//! - an allocation happens after `malloc` returned, a deallocation before `free` is called: a block's
//!   lifetime in the trace lies within its real one.

/// What an event is.
///
/// The discriminant is the `kind` of a wide record (see [`crate::pack`]); `words` of
/// [`EventKind::words`] is how many extra words follow. Where word 1 is said to be beside the address, it is in
/// the address' upper 16 bits if it fits there, and the record has one extra word. Append only within a format version; readers
/// skip kinds they do not know by the length in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// A plain access whose site or address has no short form: extra word 0 = address, payload = site.
    Access = 1,
    /// An access to a run of bytes that has no short form: word 0 = address, word 1 = size (beside the address
    /// below 65536), payload = site and direction.
    Range = 2,
    /// An atomic operation: word 0 = address and orders, payload = site.
    Atomic = 3,
    /// A fence: word 0 = order, payload = site.
    Fence = 4,
    /// This thread begins: word 0 = its index and its parent's.
    ThreadStart = 5,
    /// Another thread is made: word 0 = its index, word 1 = the number of the chunk that has the caller's stack, where one has.
    ThreadCreate = 6,
    /// Another thread was joined: word 0 = its index, or all ones where it is not known.
    ThreadJoin = 7,
    /// Another thread is detached: word 0 = its index.
    ThreadDetach = 8,
    /// This thread ends.
    ThreadExit = 9,
    /// A thread gets a name: word 0 = its index, words 1 and 2 = up to 16 bytes.
    ThreadName = 10,
    /// A lock was acquired, or an attempt failed: word 0 = lock and [`Acquire`].
    Acquire = 11,
    /// A lock is released: word 0 = lock and [`Acquire`].
    Release = 12,
    /// A condition wait begins (the mutex is released): word 0 = condition, word 1 = mutex.
    WaitBegin = 13,
    /// A condition wait returned (the mutex is held again): word 0 = condition and result, word 1 = mutex.
    WaitEnd = 14,
    /// One waiter of a condition is woken: word 0 = condition.
    Signal = 15,
    /// All waiters of a condition are woken: word 0 = condition.
    Broadcast = 16,
    /// A barrier is entered: word 0 = barrier.
    BarrierEnter = 17,
    /// A barrier was left: word 0 = barrier and result.
    BarrierLeave = 18,
    /// A semaphore is posted: word 0 = semaphore.
    SemPost = 19,
    /// A semaphore was taken, or an attempt failed: word 0 = semaphore and result.
    SemWait = 20,
    /// A lock, condition, barrier or semaphore is destroyed: word 0 = object and [`Acquire`].
    Destroy = 21,
    /// A futex wait begins: word 0 = address, word 1 = operation (beside the address below 65536).
    FutexWaitBegin = 22,
    /// A futex wait returned: word 0 = address and result.
    FutexWaitEnd = 23,
    /// Futex waiters are woken: word 0 = address, word 1 = how many at most (beside the address below 65536).
    FutexWake = 24,
    /// A block was allocated: word 0 = address, word 1 = size (beside the address below 65536).
    Alloc = 25,
    /// A block is freed: word 0 = address.
    Free = 26,
    /// The process forks: word 0 = child's pid (parent side, after), or the parent's (child side, first event).
    Fork = 27,
    /// A function that ends or replaces the process, or sends a signal, is called: word 0 = slot number.
    Note = 28,
    /// A signal handler begins: word 0 = signal.
    HandlerBegin = 29,
    /// A signal handler returned: word 0 = signal.
    HandlerEnd = 30,
    /// A function that may block is called: word 0 = slot number and first argument.
    BlockBegin = 31,
    /// It returned: word 0 = slot number.
    BlockEnd = 32,
    /// An image was loaded: word 0 = module index.
    Load = 33,
    /// An image is unloaded: word 0 = module index.
    Unload = 34,
    /// A user-level context switch: word 0 = the context entered.
    ContextSwitch = 35,
    /// Execution moves to a fiber: word 0 = its thread index.
    FiberSwitch = 36,
    /// `__tsan_release`, `AnnotateHappensBefore`: word 0 = address.
    HappensBefore = 37,
    /// `__tsan_acquire`, `AnnotateHappensAfter`: word 0 = address.
    HappensAfter = 38,
    /// Ignoring begins (1) or ends (0): word 0 = which and what (1 reads, 2 writes, 4 synchronisation).
    Ignore = 39,
    /// A race on these bytes is declared benign: word 0 = address, word 1 = size (beside the address below 65536).
    Benign = 40,
    /// One-time initialisation finished, seen by this thread: word 0 = the once or guard object.
    Once = 41,
    /// A basic block begins: payload = site.
    Block = 42,
}

/// Every kind, for tables and tests.
pub const KINDS: [EventKind; 42] = {
    use EventKind::*;
    [
        Access,
        Range,
        Atomic,
        Fence,
        ThreadStart,
        ThreadCreate,
        ThreadJoin,
        ThreadDetach,
        ThreadExit,
        ThreadName,
        Acquire,
        Release,
        WaitBegin,
        WaitEnd,
        Signal,
        Broadcast,
        BarrierEnter,
        BarrierLeave,
        SemPost,
        SemWait,
        Destroy,
        FutexWaitBegin,
        FutexWaitEnd,
        FutexWake,
        Alloc,
        Free,
        Fork,
        Note,
        HandlerBegin,
        HandlerEnd,
        BlockBegin,
        BlockEnd,
        Load,
        Unload,
        ContextSwitch,
        FiberSwitch,
        HappensBefore,
        HappensAfter,
        Ignore,
        Benign,
        Once,
        Block,
    ]
};

/// Where, relative to what it stands for, an event is recorded; orders events of equal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instant {
    /// Before: releases.
    Before,
    /// At: accesses, atomics and the rest.
    At,
    /// After: acquisitions.
    After,
}

impl EventKind {
    /// The kind with this discriminant.
    pub fn from_u8(kind: u8) -> Option<EventKind> {
        KINDS.get(usize::from(kind.checked_sub(1)?)).copied()
    }

    /// How many extra words a record of this kind has at most.
    pub const fn words(self) -> u8 {
        use EventKind::*;
        match self {
            ThreadExit | Block => 0,
            ThreadName => 3,
            Range | ThreadCreate | WaitBegin | WaitEnd | FutexWaitBegin | FutexWake | Alloc | Benign => 2,
            _ => 1,
        }
    }

    /// How many it has at least.
    pub const fn least_words(self) -> u8 {
        match self {
            EventKind::ThreadCreate => 1,
            _ => self.words(),
        }
    }

    /// Whether word 0 is an address and word 1 a number that sits beside it where it fits
    /// ([`crate::pack::fold`]).
    pub const fn has_number(self) -> bool {
        use EventKind::*;
        matches!(self, Range | FutexWaitBegin | FutexWake | Alloc | Benign)
    }

    /// Whether the payload is a site (else it is a code address).
    pub const fn at_site(self) -> bool {
        use EventKind::*;
        matches!(self, Access | Range | Atomic | Fence | Block)
    }

    /// Where the event is recorded relative to what it stands for.
    pub const fn instant(self) -> Instant {
        use EventKind::*;
        match self {
            ThreadCreate | ThreadExit | Release | WaitBegin | Signal | Broadcast | BarrierEnter | SemPost | Destroy
            | FutexWake | Free | Note | BlockBegin | HappensBefore | FutexWaitBegin | Unload => Instant::Before,
            ThreadStart | ThreadJoin | Acquire | WaitEnd | BarrierLeave | SemWait | FutexWaitEnd | Alloc | BlockEnd
            | HappensAfter | Once => Instant::After,
            _ => Instant::At,
        }
    }

    /// The word for this kind in text and JSON.
    pub const fn name(self) -> &'static str {
        use EventKind::*;
        match self {
            Access => "access",
            Range => "range",
            Atomic => "atomic",
            Fence => "fence",
            ThreadStart => "thread-start",
            ThreadCreate => "thread-create",
            ThreadJoin => "thread-join",
            ThreadDetach => "thread-detach",
            ThreadExit => "thread-exit",
            ThreadName => "thread-name",
            Acquire => "lock",
            Release => "unlock",
            WaitBegin => "wait-begin",
            WaitEnd => "wait-end",
            Signal => "signal",
            Broadcast => "broadcast",
            BarrierEnter => "barrier-enter",
            BarrierLeave => "barrier-leave",
            SemPost => "sem-post",
            SemWait => "sem-wait",
            Destroy => "destroy",
            FutexWaitBegin => "futex-wait-begin",
            FutexWaitEnd => "futex-wait-end",
            FutexWake => "futex-wake",
            Alloc => "alloc",
            Free => "free",
            Fork => "fork",
            Note => "call",
            HandlerBegin => "handler-begin",
            HandlerEnd => "handler-end",
            BlockBegin => "block-begin",
            BlockEnd => "block-end",
            Load => "load",
            Unload => "unload",
            ContextSwitch => "context-switch",
            FiberSwitch => "fiber-switch",
            HappensBefore => "happens-before",
            HappensAfter => "happens-after",
            Ignore => "ignore",
            Benign => "benign",
            Once => "once",
            Block => "block",
        }
    }
}

/// Which kind of lock-like object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Primitive {
    /// A pthread or C11 mutex.
    Mutex = 0,
    /// A reader-writer lock.
    Rwlock = 1,
    /// A spin lock.
    Spin = 2,
    /// A C++ static-initialisation guard.
    Guard = 3,
    /// A once object.
    Once = 4,
    /// A lock announced by annotation.
    Annotated = 5,
    /// A condition variable (destruction only).
    Cond = 6,
    /// A barrier (destruction only).
    Barrier = 7,
    /// A semaphore (destruction only).
    Semaphore = 8,
}

/// Exclusive or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// One holder.
    Exclusive = 0,
    /// Readers together.
    Shared = 1,
}

/// How a lock was asked for, and what came of it: the 16-bit argument of lock events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The object's kind.
    pub primitive: Primitive,
    /// Exclusive or shared.
    pub mode: Mode,
    /// Whether the attempt could give up (`try…`, `…timed…`).
    pub bounded: bool,
    /// 0, or the error number; `EOWNERDEAD` (130) also acquires.
    pub result: u8,
}

impl Acquire {
    /// An unconditional, successful acquisition.
    pub const fn of(primitive: Primitive, mode: Mode) -> Acquire {
        Acquire { primitive, mode, bounded: false, result: 0 }
    }

    /// Whether the lock is held afterwards.
    pub const fn held(self) -> bool {
        self.result == 0 || self.result == 130
    }

    /// The packed form.
    pub const fn pack(self) -> u16 {
        self.primitive as u16 | (self.mode as u16) << 4 | (self.bounded as u16) << 5 | (self.result as u16) << 8
    }

    /// The inverse of [`Acquire::pack`]; `None` for a foreign primitive.
    pub const fn unpack(bits: u16) -> Option<Acquire> {
        use Primitive::*;
        let primitive = match bits & 15 {
            0 => Mutex,
            1 => Rwlock,
            2 => Spin,
            3 => Guard,
            4 => Once,
            5 => Annotated,
            6 => Cond,
            7 => Barrier,
            8 => Semaphore,
            _ => return None,
        };
        let mode = if bits & 16 == 0 { Mode::Exclusive } else { Mode::Shared };
        Some(Acquire { primitive, mode, bounded: bits & 32 != 0, result: (bits >> 8) as u8 })
    }
}

/// A memory order, as the ABI numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Order {
    /// `memory_order_relaxed`
    Relaxed = 0,
    /// `memory_order_consume`
    Consume = 1,
    /// `memory_order_acquire`
    Acquire = 2,
    /// `memory_order_release`
    Release = 3,
    /// `memory_order_acq_rel`
    AcqRel = 4,
    /// `memory_order_seq_cst`
    SeqCst = 5,
}

impl Order {
    /// From the ABI's number; what is out of range is treated as the strongest.
    pub const fn from_abi(order: u32) -> Order {
        // HLE hints travel in the upper half of the word.
        match order & 0xffff {
            0 => Order::Relaxed,
            1 => Order::Consume,
            2 => Order::Acquire,
            3 => Order::Release,
            4 => Order::AcqRel,
            _ => Order::SeqCst,
        }
    }

    /// Whether a load of this order acquires.
    pub const fn acquires(self) -> bool {
        matches!(self, Order::Consume | Order::Acquire | Order::AcqRel | Order::SeqCst)
    }

    /// Whether a store of this order releases.
    pub const fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::SeqCst)
    }

    /// The word for this order.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Relaxed => "relaxed",
            Order::Consume => "consume",
            Order::Acquire => "acquire",
            Order::Release => "release",
            Order::AcqRel => "acq_rel",
            Order::SeqCst => "seq_cst",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_their_discriminants() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, at + 1);
            assert_eq!(EventKind::from_u8(*kind as u8), Some(*kind));
            assert!(KINDS[..at].iter().all(|other| other.name() != kind.name()));
        }
        assert_eq!(EventKind::from_u8(0), None);
        assert_eq!(EventKind::from_u8(43), None);
    }

    #[test]
    fn acquire_round_trips() {
        for primitive in 0..9_u16 {
            for rest in [0_u16, 16, 32, 48, 0x0b00, 0x8220] {
                let bits = primitive | rest;
                assert_eq!(Acquire::unpack(bits).map(Acquire::pack), Some(bits));
            }
        }
        assert_eq!(Acquire::unpack(9), None);
    }
}
