//! The schedule as a value: where a run departs from the default policy, and to whom.
//!
//! A schedule is a list of [`Switch`]es in the order in which they happened. Because points are
//! counted for each thread by itself, a switch keeps its meaning when others are taken away.
//!
//! ```text
//! schedule = "s1:" [ switch *( "," switch ) ]
//! switch   = thread "@" point ( "-" | "/" ) thread
//! ```
//!
//! `0@12-1`: thread 0, about to do its 12th operation, hands over to thread 1. `0@12/1`: thread 0 is
//! stuck there, and thread 1 goes on. Numbers are decimal without leading zeros, points count from 1, and the
//! points of one thread ascend. The signs mean nothing to a shell, so the text needs no quotes.
//!
//! For logs there are two packed forms: a [`Step`] of 16 bytes, and a [`LoggedPoint`] of 24 that also
//! says who was enabled.

use core::fmt;

use selvedge_events::bytes::{array_at, u16_at, u32_at, u64_at};
use selvedge_events::{SiteId, ThreadIx};

use crate::moment::{Moment, OpKind, Pending, Standing, Threads, enabled};

/// The first characters of every schedule's text.
pub const PREFIX: &str = "s1:";
/// The highest thread index that a schedule can name.
pub const MAX_THREAD: ThreadIx = ThreadIx(u16::MAX as u32);
/// Threads whose being enabled a [`LoggedPoint`] can say.
pub const MASKED_THREADS: u32 = u64::BITS;

/// Which of the two moments at a point is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum When {
    /// The first one, whether the operation can be done or not.
    Arriving,
    /// The one where the thread cannot go on.
    Stuck,
}

/// A choice other than the default: when `thread` is at its point number `point`, `to` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Switch {
    /// The thread that ran.
    pub thread: ThreadIx,
    /// The point that it is at, from 1.
    pub point: u32,
    /// About to do its operation, or stuck in it.
    pub when: When,
    /// The thread that goes on.
    pub to: ThreadIx,
}

impl Switch {
    /// Whether this is the place that the switch names.
    pub fn is_at(&self, moment: &Moment) -> bool {
        let standing = self.when == When::Arriving || moment.standing == Standing::Stuck;
        self.thread == moment.current && self.point == moment.point && standing
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.when {
            When::Arriving => '-',
            When::Stuck => '/',
        };
        write!(f, "{}@{}{sign}{}", self.thread, self.point, self.to)
    }
}

/// Displays switches as a schedule's text.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a [Switch]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for (at, switch) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            switch.fmt(f)?;
        }
        Ok(())
    }
}

/// What is said about a [`Step`] with one bit each.
pub mod flags {
    /// The current thread was ready: choosing another was a preemption.
    pub const READY: u8 = 1;
    /// The current thread was yielding.
    pub const YIELDING: u8 = 1 << 1;
    /// The choice was that of the default policy.
    pub const DEFAULT: u8 = 1 << 2;
    /// The last step of the log.
    pub const LAST: u8 = 1 << 3;
    /// A thread was enabled that has no bit in the mask.
    pub const CROWDED: u8 = 1 << 4;
}

/// A moment and the choice that was made, packed into 16 bytes.
///
/// ```text
/// 0 thread u16   2 to u16   4 point u32   8 site u32   12 kind u8   13 flags u8   14 zero u16
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread that ran until then.
    pub thread: u16,
    /// The thread that went on.
    pub to: u16,
    /// The point that `thread` was at.
    pub point: u32,
    /// Where it was in the program.
    pub site: SiteId,
    /// What it was about to do.
    pub kind: OpKind,
    /// See [`flags`].
    pub flags: u8,
}

impl Step {
    /// Bytes of the packed form.
    pub const BYTES: usize = 16;

    /// What was asked, what the current thread was about to do, the default policy's choice, and the choice
    /// that was made. Threads past [`MAX_THREAD`] become that.
    pub fn new(moment: &Moment, pending: &Pending, default: ThreadIx, to: ThreadIx) -> Self {
        let standing = match moment.standing {
            Standing::Ready => flags::READY,
            Standing::Yielding => flags::YIELDING,
            Standing::Stuck => 0,
        };
        let choice = if default == to { flags::DEFAULT } else { 0 };
        Self {
            thread: short(moment.current),
            to: short(to),
            point: moment.point,
            site: pending.site,
            kind: pending.kind,
            flags: standing | choice,
        }
    }

    /// How the current thread stood.
    pub fn standing(&self) -> Standing {
        if self.has(flags::READY) {
            Standing::Ready
        } else if self.has(flags::YIELDING) {
            Standing::Yielding
        } else {
            Standing::Stuck
        }
    }

    /// Whether a thread was stopped that could have gone on.
    pub fn is_preemption(&self) -> bool {
        self.has(flags::READY) && self.thread != self.to
    }

    /// Whether these flags are all set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The choice as part of a schedule.
    pub fn switch(&self) -> Switch {
        let when = match self.standing() {
            Standing::Ready | Standing::Yielding => When::Arriving,
            Standing::Stuck => When::Stuck,
        };
        Switch { thread: ThreadIx(self.thread.into()), point: self.point, when, to: ThreadIx(self.to.into()) }
    }

    /// The packed form.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let [a, b] = self.thread.to_le_bytes();
        let [c, d] = self.to.to_le_bytes();
        let [e, f, g, h] = self.point.to_le_bytes();
        let [i, j, k, l] = self.site.0.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, self.kind as u8, self.flags, 0, 0]
    }

    /// Reads the packed form. What is not known to this version is read as [`OpKind::Other`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [.., kind, flags, _, _] = *bytes;
        Self {
            thread: u16_at(bytes, 0).unwrap_or_default(),
            to: u16_at(bytes, 2).unwrap_or_default(),
            point: u32_at(bytes, 4).unwrap_or_default(),
            site: SiteId(u32_at(bytes, 8).unwrap_or_default()),
            kind: OpKind::from_u8(kind),
            flags,
        }
    }
}

fn short(thread: ThreadIx) -> u16 {
    u16::try_from(thread.0).unwrap_or(u16::MAX)
}

/// A step and who was enabled, packed into 24 bytes: the mask follows the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedPoint {
    /// What was asked and chosen.
    pub step: Step,
    /// Bit i: thread i was enabled. Others than the first [`MASKED_THREADS`] are
    /// [`flags::CROWDED`].
    pub enabled: u64,
}

impl LoggedPoint {
    /// Bytes of the packed form.
    pub const BYTES: usize = Step::BYTES + 8;

    /// A step with those who were enabled.
    pub fn new(step: Step, threads: &impl Threads) -> Self {
        let mut point = Self { step, enabled: 0 };
        for thread in enabled(threads) {
            match 1_u64.checked_shl(thread.0) {
                Some(bit) => point.enabled |= bit,
                None => point.step.flags |= flags::CROWDED,
            }
        }
        point
    }

    /// The packed form.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (to, from) in bytes.iter_mut().zip(self.step.to_bytes().into_iter().chain(self.enabled.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    /// Reads the packed form.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let step = array_at(bytes, 0).unwrap_or_default();
        Self { step: Step::from_bytes(&step), enabled: u64_at(bytes, Step::BYTES).unwrap_or_default() }
    }
}

// The forms in memory are no larger, so a log can be kept in either.
const _: () = assert!(size_of::<Step>() == Step::BYTES);
const _: () = assert!(size_of::<LoggedPoint>() == LoggedPoint::BYTES);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const STEP: Step = Step {
        thread: 0x0102,
        to: 0x0304,
        point: 0x0506_0708,
        site: SiteId(0x090a_0b0c),
        kind: OpKind::Lock,
        flags: 5,
    };

    #[test]
    fn packed_forms_keep_their_bytes() {
        let bytes = [2, 1, 4, 3, 8, 7, 6, 5, 12, 11, 10, 9, 6, 5, 0, 0];
        assert_eq!(STEP.to_bytes(), bytes);
        assert_eq!(Step::from_bytes(&bytes), STEP);
        let point = LoggedPoint { step: STEP, enabled: 0x8000_0000_0000_0001 };
        let packed = point.to_bytes();
        assert_eq!((&packed[..16], &packed[16..]), (&bytes[..], &[1, 0, 0, 0, 0, 0, 0, 128][..]));
        assert_eq!(LoggedPoint::from_bytes(&packed), point);
    }

    #[test]
    fn a_step_says_how_its_thread_stood() {
        use Standing::*;
        for (standing, to, preemption, text) in [
            (Ready, 1, true, "0@7-1"),
            (Ready, 0, false, "0@7-0"),
            (Yielding, 1, false, "0@7-1"),
            (Stuck, 1, false, "0@7/1"),
        ] {
            let moment = Moment { step: 9, current: ThreadIx(0), point: 7, standing };
            let step = Step::new(&moment, &Pending::NONE, ThreadIx(0), ThreadIx(to));
            assert_eq!((step.standing(), step.is_preemption()), (standing, preemption));
            assert_eq!(step.has(flags::DEFAULT), to == 0);
            assert_eq!(step.switch().to_string(), text);
            assert!(step.switch().is_at(&moment));
            let elsewhere = Moment { point: 8, ..moment };
            assert!(!step.switch().is_at(&elsewhere));
        }
    }

    #[test]
    fn a_thread_that_is_too_many_is_not_mistaken_for_another() {
        let moment = Moment { step: 1, current: ThreadIx(70_000), point: 1, standing: Standing::Ready };
        let step = Step::new(&moment, &Pending::NONE, ThreadIx(70_000), ThreadIx(1));
        assert_eq!((step.switch().thread, step.to), (MAX_THREAD, 1));
    }

    #[test]
    fn switches_print_as_text() {
        let switch = |thread, point, when, to| Switch { thread: ThreadIx(thread), point, when, to: ThreadIx(to) };
        let switches = [switch(0, 12, When::Arriving, 1), switch(1, 3, When::Stuck, 0)];
        assert_eq!(Text(&switches).to_string(), "s1:0@12-1,1@3/0");
        assert_eq!(Text(&[]).to_string(), "s1:");
    }
}
