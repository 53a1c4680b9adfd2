//! What a strategy is asked, and the answer that is given where nobody says otherwise.
//!
//! NOTE \[Points and moments\]
//!
//! A thread's *point* number k (1, 2, 3, …) is the k-th operation that it is about to do: an access
//! to an armed site or a synchronisation. The number depends on the thread alone, so it keeps its
//! meaning when other threads are scheduled differently.
//!
//! A *moment* is a question to the strategy. It is asked when the current thread
//! - has arrived at its next point and has not done it ([`Standing::Ready`], or
//!   [`Standing::Yielding`] where what brought it here says that it waits for others), or
//! - cannot go on ([`Standing::Stuck`]): the point's operation would block, has blocked, or was
//!   the thread's last.
//!
//! At most one moment in a run has a given thread, point, and either of stuck and not stuck. So a
//! thread may be asked about twice at one point: about to wait, then waiting. A thread that is woken
//! and has to wait once more arrives at a new point.

use selvedge_events::{SiteId, ThreadIx};

/// The site of an operation that has none.
pub const NO_SITE: SiteId = SiteId(u32::MAX);

/// What an operation does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it commutes with everything.
    Nothing,
    /// Looks at it.
    Looks,
    /// Changes it.
    Changes,
}

macro_rules! op_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $code:literal, $name:literal, $effect:ident;)*) => {
        /// The kind of operation that a thread is about to do.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum OpKind {
            $($(#[doc = $doc])+ $kind = $code,)*
            /// Something else, which may change its object.
            #[default]
            Other = 0,
        }

        impl OpKind {
            /// Every kind.
            pub const ALL: &[OpKind] = &[OpKind::Other, $(OpKind::$kind),*];

            /// The kind with this number; numbers of a newer version are [`OpKind::Other`].
            pub const fn from_u8(code: u8) -> OpKind {
                match code {
                    $($code => OpKind::$kind,)*
                    _ => OpKind::Other,
                }
            }

            /// A word for people.
            pub const fn name(self) -> &'static str {
                match self {
                    $(OpKind::$kind => $name,)*
                    OpKind::Other => "operation",
                }
            }

            /// What it does to its object.
            pub const fn effect(self) -> Effect {
                match self {
                    $(OpKind::$kind => Effect::$effect,)*
                    OpKind::Other => Effect::Changes,
                }
            }
        }
    };
}

op_kinds! {
    /// The first step of a thread; its object is the thread.
    Start = 1, "start", Looks;
    /// A load, atomic or not.
    Read = 2, "read", Looks;
    /// A store, atomic or not.
    Write = 3, "write", Changes;
    /// Both at once: an atomic read-modify-write, a copy onto itself.
    Update = 4, "update", Changes;
    /// A fence; it has no object.
    Fence = 5, "fence", Nothing;
    /// Taking a lock for oneself, or trying to.
    Lock = 6, "lock", Changes;
    /// Giving it back.
    Unlock = 7, "unlock", Changes;
    /// Taking a lock that others may share.
    LockShared = 8, "shared lock", Looks;
    /// Giving it back. It may let a writer in, so it changes the lock.
    UnlockShared = 9, "shared unlock", Changes;
    /// Waiting for a condition, a semaphore, a barrier, a futex.
    Wait = 10, "wait", Changes;
    /// Waking those who wait.
    Wake = 11, "wake", Changes;
    /// Waiting for the end of a thread, which is the object.
    Join = 12, "join", Looks;
    /// Creating a thread, which is the object.
    Create = 13, "create", Changes;
    /// The end of a thread, which is the object.
    Exit = 14, "exit", Changes;
    /// Letting time pass.
    Sleep = 15, "sleep", Nothing;
    /// Letting others go first.
    Yield = 16, "yield", Nothing;
    /// Input or output; its object is the channel.
    Io = 17, "i/o", Changes;
}

/// An operation that a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What it is.
    pub kind: OpKind,
    /// What it is done to: an opaque identity, 0 for nothing. Identities may be addresses, which
    /// differ from run to run, so they are only ever compared for equality.
    pub object: u64,
    /// Where in the program, or [`NO_SITE`].
    pub site: SiteId,
}

impl Pending {
    /// An operation that commutes with every other.
    pub const NONE: Pending = Pending { kind: OpKind::Yield, object: 0, site: NO_SITE };
}

/// Whether the order of the two decides anything: both concern one object, and at least one changes it.
pub fn conflicts(a: &Pending, b: &Pending) -> bool {
    let concerned = a.kind.effect() != Effect::Nothing && b.kind.effect() != Effect::Nothing;
    let changed = a.kind.effect() == Effect::Changes || b.kind.effect() == Effect::Changes;
    a.object != 0 && a.object == b.object && concerned && changed
}

/// How the current thread stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It can go on; to run another thread is a preemption.
    Ready,
    /// It can go on, and asks to let others go first: it yielded, or was seen to spin.
    Yielding,
    /// It cannot go on: it is blocked, or has exited.
    Stuck,
}

/// A question to the strategy. See NOTE \[Points and moments\] in [this module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of this moment in the run, from 1.
    pub step: u64,
    /// The thread that ran until now.
    pub current: ThreadIx,
    /// The point that it is at, from 1.
    pub point: u32,
    /// Whether it can go on.
    pub standing: Standing,
}

/// The threads of the run, as the gate knows them.
pub trait Threads {
    /// The enabled thread with the lowest index above `after`, or of all.
    fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx>;

    /// What a thread is about to do, or is stuck in. Asked of the enabled threads and of the current one.
    fn pending(&self, thread: ThreadIx) -> Pending;

    /// The number of the operation that a thread is about to do or is stuck in, from 1; 0 before its first. Unlike
    /// points, attempts that have to be made again do not count: the number depends on what the thread does
    /// alone, not on whether others are in its way.
    fn operation(&self, thread: ThreadIx) -> u32;

    /// The strategy's own note about a thread: what was last set, 0 at first.
    fn note(&self, thread: ThreadIx) -> u64;

    /// Keeps the strategy's note about a thread.
    fn set_note(&mut self, thread: ThreadIx, note: u64);

    /// Whether a thread is enabled.
    fn is_enabled(&self, thread: ThreadIx) -> bool {
        self.enabled_after(thread.0.checked_sub(1).map(ThreadIx)) == Some(thread)
    }
}

/// The default policy: the current thread goes on if it is ready; otherwise the next enabled one above
/// it, around in a circle, so that one that yields comes last.
///
/// With no thread enabled there is nothing to choose, and the answer is the current thread.
pub fn default_choice(moment: &Moment, threads: &impl Threads) -> ThreadIx {
    match moment.standing {
        Standing::Ready => moment.current,
        Standing::Yielding | Standing::Stuck => next_in_circle(moment.current, threads),
    }
}

/// The enabled thread that follows `current` in a circle, itself last.
pub(crate) fn next_in_circle(current: ThreadIx, threads: &impl Threads) -> ThreadIx {
    threads.enabled_after(Some(current)).or_else(|| threads.enabled_after(None)).unwrap_or(current)
}

/// The enabled threads in ascending order.
pub(crate) fn enabled<T: Threads>(threads: &T) -> impl Iterator<Item = ThreadIx> + use<'_, T> {
    core::iter::successors(threads.enabled_after(None), |&last| threads.enabled_after(Some(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_numbers() {
        for (number, kind) in (0_u8..).zip(OpKind::ALL) {
            assert_eq!((*kind as u8, OpKind::from_u8(number)), (number, *kind));
        }
        assert_eq!(OpKind::from_u8(255), OpKind::Other);
    }

    #[test]
    fn what_conflicts() {
        use OpKind::*;
        let rows = [
            (Read, Read, false),
            (Read, Write, true),
            (Write, Write, true),
            (Update, Read, true),
            (Lock, Lock, true),
            (Lock, Unlock, true),
            (LockShared, LockShared, false),
            (LockShared, Lock, true),
            (UnlockShared, Lock, true),
            (Wait, Wake, true),
            (Join, Join, false),
            (Join, Exit, true),
            (Create, Start, true),
            (Yield, Write, false),
            (Sleep, Other, false),
            (Fence, Fence, false),
            (Io, Io, true),
            (Other, Read, true),
        ];
        for (a, b, expected) in rows {
            let op = |kind, object| Pending { kind, object, site: NO_SITE };
            assert_eq!(conflicts(&op(a, 9), &op(b, 9)), expected, "{a:?} {b:?}");
            assert_eq!(conflicts(&op(b, 9), &op(a, 9)), expected, "{b:?} {a:?}");
            assert!(!conflicts(&op(a, 9), &op(b, 8)), "{a:?} {b:?} of two objects");
            assert!(!conflicts(&op(a, 0), &op(b, 0)), "{a:?} {b:?} of no object");
        }
    }

    /// Threads that are enabled or not, and nothing else.
    struct Mask(u32);

    impl Threads for Mask {
        fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx> {
            let first = after.map_or(0, |after| after.0 + 1);
            (first..32).find(|at| self.0 >> at & 1 == 1).map(ThreadIx)
        }
        fn pending(&self, _: ThreadIx) -> Pending {
            Pending::NONE
        }
        fn operation(&self, _: ThreadIx) -> u32 {
            0
        }
        fn note(&self, _: ThreadIx) -> u64 {
            0
        }
        fn set_note(&mut self, _: ThreadIx, _: u64) {}
    }

    #[test]
    fn the_default_policy() {
        use Standing::*;
        let rows = [
            (Ready, 1, 0b1111, 1),
            (Yielding, 1, 0b1111, 2),
            (Yielding, 3, 0b1111, 0),
            (Yielding, 1, 0b0011, 0),
            (Yielding, 1, 0b0010, 1),
            (Stuck, 1, 0b1101, 2),
            (Stuck, 1, 0b1001, 3),
            (Stuck, 1, 0b0001, 0),
            (Stuck, 1, 0b0000, 1),
        ];
        for (standing, current, enabled, expected) in rows {
            let moment = Moment { step: 1, current: ThreadIx(current), point: 1, standing };
            let choice = default_choice(&moment, &Mask(enabled));
            assert_eq!(choice, ThreadIx(expected), "{standing:?} {current} {enabled:b}");
        }
    }

    #[test]
    fn enabled_threads_are_listed_once() {
        assert!(enabled(&Mask(0b1011)).eq([0, 1, 3].map(ThreadIx)));
        assert!(enabled(&Mask(0)).eq([]));
        assert!(
            [(0, true), (2, false), (3, true)].iter().all(|(at, is)| Mask(0b1011).is_enabled(ThreadIx(*at)) == *is)
        );
    }
}
