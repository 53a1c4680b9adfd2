//! Whose turn it is where a thread gives way.
//!
//! A program that spins has endless schedules, in which the thread that is waited for never runs.
//! Musuvathi and Qadeer, "Fair stateless model checking", PLDI 2008, rule them out by priorities that follow
//! from yields. Here a thread that yields has had its turn, until all that were enabled then have run.
//!
//! The paper's threads may yield twice before they have to wait. That multiplies the schedules of programs
//! with several spinning threads, so here it is once; but to go on out of turn has a price (see
//! [`bounded`](crate::bounded)) where the paper forbids it.

use alloc::vec;
use alloc::vec::Vec;

use crate::moment::{OpKind, Standing};
use crate::schedule::{LoggedPoint, MASKED_THREADS};

/// Who waits for whom, along a log. Sets of threads are masks.
#[derive(Clone, Debug)]
pub(crate) struct Fair {
    /// For each thread, those that were enabled at its last yield and have not run since. Invariant: no
    /// circles, because nobody waits for the one that has just run.
    awaited: Vec<u64>,
}

impl Fair {
    pub(crate) fn new() -> Self {
        Self { awaited: vec![0; MASKED_THREADS as usize] }
    }

    /// Goes on to the next moment: its thread has run since the last. Returns the enabled threads whose
    /// turn it is now.
    pub(crate) fn arrive(&mut self, point: &LoggedPoint) -> u64 {
        let LoggedPoint { step, enabled } = *point;
        let ran = bit(step.thread);
        for awaited in &mut self.awaited {
            *awaited &= !ran;
        }
        let yields = match step.standing() {
            Standing::Ready => false,
            Standing::Yielding => true,
            Standing::Stuck => step.kind == OpKind::Sleep,
        };
        if let Some(awaited) = self.awaited.get_mut(usize::from(step.thread)).filter(|_| yields) {
            *awaited = enabled & !ran;
        }
        let waits = |thread: u16| self.awaited.get(usize::from(thread)).is_some_and(|awaited| awaited & enabled != 0);
        threads(enabled).filter(|thread| !waits(*thread)).fold(0, |mask, thread| mask | bit(thread))
    }
}

/// A thread's place in a mask; nothing past the last.
pub(crate) fn bit(thread: u16) -> u64 {
    1_u64.checked_shl(thread.into()).unwrap_or(0)
}

/// The threads of a mask in ascending order.
pub(crate) fn threads(mask: u64) -> impl Iterator<Item = u16> {
    (0..MASKED_THREADS as u16).filter(move |thread| mask & bit(*thread) != 0)
}

#[cfg(test)]
mod tests {
    use selvedge_events::{SiteId, ThreadIx};

    use super::*;
    use crate::moment::{Moment, Pending};
    use crate::schedule::Step;

    fn arrive(fair: &mut Fair, thread: u32, standing: Standing, enabled: u64) -> u64 {
        let moment = Moment { step: 1, current: ThreadIx(thread), point: 1, standing };
        let pending = Pending { kind: OpKind::Read, object: 0, site: SiteId(0) };
        let step = Step::new(&moment, &pending, ThreadIx(thread), ThreadIx(thread));
        fair.arrive(&LoggedPoint { step, enabled })
    }

    #[test]
    fn who_yields_waits_for_those_who_were_enabled() {
        use Standing::*;
        let mut fair = Fair::new();
        for (thread, standing, enabled, turn) in [
            (0, Ready, 0b111, 0b111),
            (0, Yielding, 0b111, 0b110),
            (1, Yielding, 0b111, 0b100),
            // Thread 2 has run; thread 1 still waits for thread 0.
            (2, Ready, 0b111, 0b101),
            // One that is not enabled is not waited for.
            (2, Stuck, 0b010, 0b010),
            (0, Yielding, 0b011, 0b010),
            (0, Yielding, 0b001, 0b001),
        ] {
            assert_eq!(arrive(&mut fair, thread, standing, enabled), turn, "{thread} {standing:?} {enabled:b}");
        }
    }

    #[test]
    fn masks_have_their_threads() {
        assert!(threads(1 << 63 | 0b101).eq([0, 2, 63]));
        assert_eq!((bit(63), bit(64), bit(u16::MAX)), (1 << 63, 0, 0));
    }
}
