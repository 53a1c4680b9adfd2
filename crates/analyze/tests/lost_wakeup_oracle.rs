//! Predictions of lost wake-ups against all orders of small histories, and by hand.

mod support;

use std::collections::BTreeSet;

use selvedge_analyze::lost_wakeup::{LostWakeups, Options, lost_wakeups};
use selvedge_analyze::{Event, EventNo, Goal, History, Op};
use support::explore::{Explorer, Which, show};
use support::random::{Shape, history};

/// Waits with wake-ups of others that came while they lasted; only waits that a wake-up ended, or nothing.
fn observed(history: &History) -> Vec<(EventNo, EventNo)> {
    let mut pairs = Vec::new();
    for (wait, begins) in (0..).zip(&history.events).filter(|(_, event)| event.op == Op::Wait) {
        let after = (wait + 1..).zip(&history.events[wait as usize + 1..]);
        let end = after.clone().find(|(_, event)| event.thread == begins.thread).map_or(EventNo::MAX, |(end, _)| end);
        let wakes = after.filter(|(wake, event)| {
            *wake < end && event.target == begins.target && matches!(event.op, Op::Signal | Op::Broadcast)
        });
        pairs.extend(wakes.map(|(wake, _)| (wait, wake)));
    }
    pairs
}

/// What must be found is: a wake-up that came during a wait and that another order, in which every read sees what it
/// saw, puts before it.
#[test]
fn nothing_possible_is_left_out() {
    let (mut possible, mut impossible, mut guarded) = (0, 0, 0);
    for seed in 0..6000 {
        let shape =
            Shape { threads: 3, locks: 2, variables: 2, objects: 1, events: 16, lock_share: 45, ..Shape::default() };
        let history = history(&shape, seed);
        let pairs = observed(&history);
        let found = lost_wakeups(&history, &Options::default());
        guarded += found.guarded;
        if pairs.is_empty() {
            assert!(found.predictions.iter().all(|p| p.pattern != "lost-wakeup"));
            continue;
        }
        let explorer = Explorer::new(&history);
        let Some(states) = explorer.states(Which::LooseWakes, 20_000) else { continue };
        for (wait, wake) in pairs {
            let thread = usize::from(history.events[wait as usize].thread);
            let is_lost = states.iter().any(|state| {
                let next = explorer.next(state, thread);
                explorer.happened(state, wake) && (next == Some(wait) || next == Some(wait - 1))
            });
            let is_found = found.predictions.iter().any(|prediction| {
                matches!(prediction.goal, Goal::LostWakeup { wake: by, wait: of } if of == wait && by >= wake)
            });
            assert!(is_found || !is_lost, "seed {seed}: wait {wait}, wake {wake}\n{}\n{found:#?}", show(&history));
            possible += u32::from(is_lost);
            impossible += u32::from(is_found && !is_lost);
        }
    }
    println!("{possible} possible, {impossible} found that reads or locks exclude, {guarded} guarded");
    assert!(possible > 300 && guarded > 10, "{possible} {guarded}");
}

fn of(events: &[(u16, Op, u32, u32)]) -> LostWakeups {
    let of = |&(thread, op, target, location): &(u16, Op, u32, u32)| Event::new(thread, op, target, location);
    let events: Vec<Event> = events.iter().map(of).collect();
    let sources = (0..events.len() as u64).collect();
    let history = History { events, sources, threads: 4, variables: 4, locks: 4, objects: 4, locations: 99 };
    lost_wakeups(&history, &Options::default())
}

fn patterns(found: &LostWakeups) -> BTreeSet<&str> {
    found.predictions.iter().map(|prediction| prediction.pattern.as_str()).collect()
}

const WAITER: [(u16, Op, u32, u32); 4] =
    [(0, Op::Acquire, 0, 1), (0, Op::Read, 0, 2), (0, Op::Release, 0, 3), (0, Op::Wait, 0, 3)];
const WOKEN: [(u16, Op, u32, u32); 3] = [(0, Op::Woken, 0, 3), (0, Op::Acquire, 0, 3), (0, Op::Release, 0, 4)];

#[test]
fn a_check_under_the_mutex_guards() {
    let waker = [(1, Op::Acquire, 0, 5), (1, Op::Write, 0, 6), (1, Op::Release, 0, 7), (1, Op::Signal, 0, 8)];
    let found = of(&[&WAITER[..], &waker, &WOKEN].concat());
    assert!(found.predictions.is_empty() && found.guarded == 1, "{found:?}");
}

#[test]
fn a_change_without_the_mutex_does_not_guard() {
    let waker = [(1, Op::Write, 0, 6), (1, Op::Signal, 0, 8)];
    let found = of(&[&WAITER[..], &waker, &WOKEN].concat());
    assert_eq!(patterns(&found), BTreeSet::from(["lost-wakeup"]));
    let other_mutex = [(1, Op::Acquire, 1, 5), (1, Op::Write, 0, 6), (1, Op::Release, 1, 7), (1, Op::Signal, 0, 8)];
    assert_eq!(of(&[&WAITER[..], &other_mutex, &WOKEN].concat()).predictions.len(), 1);
}

#[test]
fn a_wait_that_ends_by_itself_cannot_hang() {
    let found = of(&[&WAITER[..], &[(1, Op::Signal, 0, 8)], &WOKEN[1..]].concat());
    assert!(found.predictions.is_empty(), "{found:?}");
}

#[test]
fn the_last_wake_up_that_comes_anyway_is_named() {
    let wakes = [(1, Op::Signal, 0, 8), (1, Op::Signal, 0, 8)];
    let found = of(&[&WAITER[..], &wakes, &WOKEN, &[(1, Op::Signal, 0, 8)]].concat());
    assert_eq!(found.predictions.len(), 1);
    assert_eq!(found.predictions[0].goal, Goal::LostWakeup { wake: 9, wait: 3 });
    // One that depends on the waiter having been woken does not come anyway.
    let after = [(0, Op::Post, 1, 9), (1, Op::Take, 1, 9), (1, Op::Signal, 0, 8)];
    let found = of(&[&WAITER[..], &wakes, &WOKEN, &after].concat());
    assert_eq!(found.predictions[0].goal, Goal::LostWakeup { wake: 5, wait: 3 });
}

#[test]
fn a_signal_for_two_that_want_different_things() {
    let other = [(1, Op::Acquire, 0, 11), (1, Op::Read, 1, 12), (1, Op::Release, 0, 13), (1, Op::Wait, 0, 13)];
    let signal = [(2, Op::Acquire, 0, 20), (2, Op::Write, 0, 21), (2, Op::Signal, 0, 22), (2, Op::Release, 0, 23)];
    let found = of(&[&WAITER[..], &other, &signal, &WOKEN].concat());
    let one_of_many: Vec<_> = found.predictions.iter().filter(|p| p.pattern == "signal-one-of-many").collect();
    assert_eq!(one_of_many.len(), 1, "{found:?}");
    assert_eq!(one_of_many[0].goal, Goal::Order(vec![3, 7, 10]));
    let mut broadcast = signal;
    broadcast[2].1 = Op::Broadcast;
    assert!(!patterns(&of(&[&WAITER[..], &other, &broadcast, &WOKEN].concat())).contains("signal-one-of-many"));
    let mut same = other;
    same[1].2 = 0;
    assert!(!patterns(&of(&[&WAITER[..], &same, &signal, &WOKEN].concat())).contains("signal-one-of-many"));
}

#[test]
fn results_are_unique_by_place() {
    let round = [&WAITER[..], &[(1, Op::Signal, 0, 8)], &WOKEN].concat();
    let found = of(&round.repeat(1000));
    assert_eq!(found.predictions.len(), 1);
}
