//! Where a switch of a schedule is in the trace of its run.
//!
//! A schedule counts a thread's operations, a trace numbers all events, and not every operation has one event: an
//! attempt at a lock that has to wait has none, an allocation has one and is no operation. What both agree on is
//! the order of a thread's operations of one sort.

use std::ops::Range;

use selvedge_events::{SiteId, ThreadIx};
use selvedge_sched::moment::NO_SITE;
use selvedge_sched::{LoggedPoint, OpKind, Standing, Step, Switch};
use selvedge_trace::{Event, EventBody, Place, Process};

/// What a switch did to a run under control, in numbers of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deciding {
    /// The thread that was held back.
    pub delayed: ThreadIx,
    /// The number of its event that had to wait; `None` where it never came.
    pub event: Option<u64>,
    /// The numbers of what went ahead. Events of the delayed thread do not count.
    pub ahead: Range<u64>,
    /// What it was about to do, and where.
    pub operation: Option<(OpKind, Option<SiteId>)>,
}

impl Deciding {
    /// Finds a switch of a run in its trace, given every choice of the run. `None` where the run did not take it.
    pub fn of_switch(process: &Process, log: &[LoggedPoint], switch: &Switch) -> Option<Deciding> {
        let taken = log.iter().position(|point| point.step.switch() == *switch)?;
        let point = log.get(taken)?;
        let delayed = by_default(point)?;
        let arrivals = Arrivals { process, log };
        let (event, operation) = match arrivals.last_of(delayed, taken) {
            Some(at) => {
                let step = log.get(at).map(|point| point.step);
                let site = |step: Step| Some(step.site).filter(|site| *site != NO_SITE);
                (arrivals.event(at), step.map(|step| (step.kind, site(step))))
            }
            None => (process.thread_events(delayed).next(), Some((OpKind::Start, None))),
        };
        let first = match arrivals.last_of(switch.to, taken) {
            Some(at) => arrivals.event(at),
            None => process.thread_events(switch.to).next(),
        };
        let number = |event: &Event| process.number(event.time);
        let end = event.as_ref().map_or(u64::MAX, number);
        // What the thread did last comes before all that went ahead.
        let before = process.thread_events(delayed).map(|event| number(&event)).take_while(|before| *before < end);
        let before = before.last().filter(|_| event.is_some() && by_current(point)).map_or(0, |last| last + 1);
        let start = first.as_ref().map(number).filter(|first| *first < end).unwrap_or(before).max(before);
        let last = process.number(process.summary().last).saturating_add(1);
        Some(Deciding { delayed, event: event.as_ref().map(number), ahead: start..end.min(last), operation })
    }
}

/// The numbers of the events that came first after each switch that the default policy would not have made.
pub fn switch_numbers(process: &Process, log: &[LoggedPoint]) -> Vec<u64> {
    use selvedge_sched::schedule::flags;
    let arrivals = Arrivals { process, log };
    let taken = (0..log.len()).filter(|at| log.get(*at).is_some_and(|point| !point.step.has(flags::DEFAULT)));
    let first = |at: usize| {
        let to = log.get(at).map(|point| ThreadIx(point.step.to.into()))?;
        match arrivals.last_of(to, at) {
            Some(at) => arrivals.event(at),
            None => process.thread_events(to).next(),
        }
    };
    let mut numbers: Vec<u64> = taken.filter_map(first).map(|event| process.number(event.time)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn by_current(point: &LoggedPoint) -> bool {
    point.step.standing() == Standing::Ready
}

/// Whom the default policy would have let go on.
fn by_default(point: &LoggedPoint) -> Option<ThreadIx> {
    let current = u32::from(point.step.thread);
    if by_current(point) {
        return Some(ThreadIx(current));
    }
    let enabled = |thread: &u32| point.enabled.checked_shr(*thread).is_some_and(|mask| mask & 1 == 1);
    (current + 1..u64::BITS).chain(0..=current).find(enabled).map(ThreadIx)
}

/// Finds the events of operations that a log has.
///
/// A thread arrives at its operations in the order in which it does them, so the n-th arrival at a site is the
/// n-th event there, and likewise for each sort of synchronisation.
struct Arrivals<'a> {
    process: &'a Process,
    log: &'a [LoggedPoint],
}

impl Arrivals<'_> {
    /// The last arrival of a thread, up to this step and with it.
    fn last_of(&self, thread: ThreadIx, until: usize) -> Option<usize> {
        (0..=until).rev().find(|at| self.log.get(*at).is_some_and(|point| arrives(&point.step, thread)))
    }

    /// The event of the operation that a thread arrives at in this step.
    fn event(&self, at: usize) -> Option<Event> {
        let step = self.log.get(at)?.step;
        let thread = ThreadIx(step.thread.into());
        let sort = Sort::of_step(&step);
        let earlier = self.log.iter().take(at).map(|point| &point.step);
        let count = earlier.filter(|other| arrives(other, thread) && Sort::of_step(other) == sort).count();
        self.process.thread_events(thread).filter(|event| Sort::of_event(event) == Some(sort)).nth(count)
    }
}

fn arrives(step: &Step, thread: ThreadIx) -> bool {
    ThreadIx(step.thread.into()) == thread && step.standing() != Standing::Stuck
}

/// What an arrival and its event have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Site(SiteId),
    Take,
    Give,
    Wait,
    Wake,
    Join,
    Create,
    Exit,
    Start,
    Call,
}

impl Sort {
    fn of_step(step: &Step) -> Sort {
        if step.site != NO_SITE {
            return Sort::Site(step.site);
        }
        match step.kind {
            OpKind::Lock | OpKind::LockShared => Sort::Take,
            OpKind::Unlock | OpKind::UnlockShared => Sort::Give,
            OpKind::Wait => Sort::Wait,
            OpKind::Wake => Sort::Wake,
            OpKind::Join => Sort::Join,
            OpKind::Create => Sort::Create,
            OpKind::Exit => Sort::Exit,
            OpKind::Start => Sort::Start,
            _ => Sort::Call,
        }
    }

    fn of_event(event: &Event) -> Option<Sort> {
        use EventBody as B;
        if let Place::Site(site) = event.place {
            return Some(Sort::Site(site));
        }
        Some(match event.body {
            B::Acquire { .. } | B::Once { .. } => Sort::Take,
            B::Release { .. } => Sort::Give,
            B::WaitBegin { .. } | B::SemWait { .. } | B::BarrierEnter { .. } | B::FutexWaitBegin { .. } => Sort::Wait,
            B::Signal { .. } | B::Broadcast { .. } | B::SemPost { .. } | B::FutexWake { .. } => Sort::Wake,
            B::ThreadJoin { .. } => Sort::Join,
            B::ThreadCreate { .. } => Sort::Create,
            B::ThreadExit => Sort::Exit,
            B::ThreadStart { .. } => Sort::Start,
            B::BlockBegin { .. } | B::Note { .. } => Sort::Call,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_goes_around_in_a_circle() {
        let point = |flags, enabled| LoggedPoint {
            step: Step { thread: 1, to: 9, point: 1, site: NO_SITE, kind: OpKind::Lock, flags },
            enabled,
        };
        use selvedge_sched::schedule::flags::{READY, YIELDING};
        assert_eq!(by_default(&point(READY, 0b1111)), Some(ThreadIx(1)));
        assert_eq!(by_default(&point(YIELDING, 0b1111)), Some(ThreadIx(2)));
        assert_eq!(by_default(&point(0, 0b1001)), Some(ThreadIx(3)));
        assert_eq!(by_default(&point(0, 0b0001)), Some(ThreadIx(0)));
        assert_eq!(by_default(&point(0, 0)), None);
    }
}
