//! What every schedule obeys, checked from scratch; and whether it reaches its goal.

use crate::history::{EventNo, History, Op};
use crate::prediction::Goal;

/// Why an order of events breaks a rule, if it does. `strict` is the rule for wake-ups of NOTE \[Correct reorderings\].
pub(super) fn broken(history: &History, order: &[EventNo], strict: bool) -> Option<String> {
    let mut done = vec![false; history.len()];
    let mut exclusive: Vec<Option<u16>> = vec![None; history.locks as usize];
    let mut shared: Vec<Vec<u16>> = vec![Vec::new(); history.locks as usize];
    let before = |number: EventNo| history.events[..number as usize].iter().zip(0_u32..);
    for (place, &number) in order.iter().enumerate() {
        let event = history.event(number)?;
        let fault = |what: &str| Some(format!("event {number}: {what} in {order:?}"));
        if done[number as usize] {
            return fault("twice");
        }
        for (other, at) in before(number) {
            let missing = !done[at as usize];
            if missing && other.thread == event.thread {
                return fault("program order");
            }
            let post = if strict { other.op.posts() } else { other.op.posts() && other.op != Op::Wait };
            let take = if strict { event.op.takes() } else { event.op.takes() && !event.op.posts() };
            if missing && take && post && other.target == event.target {
                return fault("post and take");
            }
            if missing && other.op == Op::Fork && other.target == u32::from(event.thread) {
                return fault("fork");
            }
        }
        let apart = number > 0
            && history.sources[number as usize] == history.sources[number as usize - 1]
            && order.get(place.wrapping_sub(1)) != Some(&(number - 1));
        if apart {
            return fault("one step");
        }
        let lock = event.target as usize;
        match event.op {
            Op::Join => {
                let child = event.target as u16;
                if history.events.iter().zip(&done).any(|(other, done)| other.thread == child && !done) {
                    return fault("join");
                }
            }
            Op::Acquire => {
                if exclusive[lock].is_some() || !shared[lock].is_empty() {
                    return fault("lock");
                }
                exclusive[lock] = Some(event.thread);
            }
            Op::AcquireShared => {
                if exclusive[lock].is_some() {
                    return fault("lock in shared mode");
                }
                shared[lock].push(event.thread);
            }
            Op::Release => exclusive[lock] = None,
            Op::ReleaseShared => shared[lock].retain(|thread| *thread != event.thread),
            _ => {}
        }
        done[number as usize] = true;
    }
    None
}

/// Whether an order reaches a goal.
pub(super) fn reaches(history: &History, order: &[EventNo], goal: &Goal) -> bool {
    let place = |event: &EventNo| order.iter().position(|other| other == event);
    match goal {
        Goal::Race(first, second) => {
            // Nothing between them but the rest of their steps.
            let source = |event: &EventNo| history.sources[*event as usize];
            place(first).is_some_and(|at| {
                let steps: Vec<u64> = order[at..].iter().map(source).collect();
                order.last() == Some(second)
                    && steps.iter().all(|step| *step == source(first) || *step == source(second))
            })
        }
        Goal::Order(events) => {
            let places: Vec<Option<usize>> = events.iter().map(place).collect();
            places.iter().all(Option::is_some) && places.is_sorted() && order.last() == events.last()
        }
        _ => goal.events().iter().all(|event| place(event).is_none()),
    }
}

/// Whether some order that obeys the rules reaches a goal: all of them are tried.
pub(super) fn possible(history: &History, goal: &Goal) -> bool {
    let mut order = Vec::new();
    let last = match goal {
        Goal::Race(..) | Goal::Order(_) => goal.events(),
        _ => return false,
    };
    let mut seen = std::collections::BTreeSet::new();
    extend(history, goal, &last, &mut order, &mut seen)
}

fn extend(
    history: &History,
    goal: &Goal,
    events: &[EventNo],
    order: &mut Vec<EventNo>,
    seen: &mut std::collections::BTreeSet<(Vec<EventNo>, Vec<EventNo>)>,
) -> bool {
    if reaches(history, order, goal) {
        return true;
    }
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let mut goals: Vec<EventNo> = order.iter().filter(|event| events.contains(event)).copied().collect();
    let fits = events.starts_with(&goals);
    // Of a race it matters what came last.
    goals.extend(order.last());
    if !fits || !seen.insert((sorted, goals)) {
        return false;
    }
    for thread in 0..history.threads as u16 {
        let next = (0..history.len() as EventNo)
            .find(|event| history.events[*event as usize].thread == thread && !order.contains(event));
        if let Some(next) = next {
            order.push(next);
            if broken(history, order, true).is_none() && extend(history, goal, events, order, seen) {
                return true;
            }
            order.pop();
        }
    }
    false
}
