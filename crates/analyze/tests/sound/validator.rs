//! The validator takes what happened, and names the first rule that is broken.

use proptest::prelude::*;
use selvedge_analyze::sound::{Flaw, Rule, Validator};
use selvedge_analyze::{Event, EventNo, Goal, History, Op};

use crate::generate::{Shape, histories};
use crate::oracle::{Oracle, Reorderings};

const SHAPE: Shape = Shape { threads: 3, variables: 2, locks: 2, objects: 1, events: 14 };

fn history(events: &[(u16, Op, u32)]) -> History {
    let events: Vec<Event> =
        events.iter().zip(0..).map(|(&(thread, op, target), at)| Event::new(thread, op, target, at)).collect();
    let sources = (0..events.len() as u64).collect();
    let locations = events.len() as u32;
    History { events, sources, threads: 3, variables: 2, locks: 2, objects: 2, locations }
}

/// Events, a goal, a witness, and what is said of it.
type Row<'r> = (&'r [(u16, Op, u32)], Goal, &'r [EventNo], Result<(), (usize, Rule)>);

fn rule(events: &[(u16, Op, u32)], goal: Goal, witness: &[EventNo]) -> Result<(), (usize, Rule)> {
    let history = history(events);
    Validator::new(&history).check(&goal, witness).map_err(|Flaw { position, rule }| (position, rule))
}

#[test]
fn broken_rules() {
    use Op::*;
    let order = |events: &[EventNo]| Goal::Order(events.to_vec());
    let table: &[Row<'_>] = &[
        (&[(0, Write, 0), (0, Write, 1)], order(&[1]), &[1], Err((0, Rule::ThreadOrder))),
        (&[(0, Write, 0)], order(&[0]), &[0, 0], Err((1, Rule::ThreadOrder))),
        (&[(0, Write, 0)], order(&[0]), &[7], Err((0, Rule::NoSuchEvent))),
        (&[(0, Write, 0)], order(&[7]), &[0], Err((1, Rule::NoSuchEvent))),
        (&[(0, Fork, 1), (1, Write, 0)], order(&[1]), &[1], Err((0, Rule::Fork))),
        (&[(0, Fork, 1), (1, Write, 0), (0, Join, 1)], order(&[2]), &[0, 2], Err((1, Rule::Join))),
        // Only the goal's own last read may see something else.
        (&[(0, Write, 0), (1, Read, 0)], order(&[1, 0]), &[1, 0], Ok(())),
        (
            &[(0, Write, 0), (1, Read, 0), (1, Write, 1)],
            order(&[2]),
            &[1, 2],
            Err((0, Rule::ReadsFrom { due: Some(0), seen: None })),
        ),
        (
            &[(0, Read, 0), (0, Write, 1), (1, Write, 0)],
            order(&[1]),
            &[2, 0, 1],
            Err((1, Rule::ReadsFrom { due: None, seen: Some(2) })),
        ),
        (
            &[(0, Write, 0), (1, AtomicUpdate, 0), (2, Read, 0), (2, Write, 1)],
            order(&[1, 3]),
            &[1, 2, 3],
            Err((1, Rule::Tainted(1))),
        ),
        (&[(0, Acquire, 0), (0, Release, 0), (1, Acquire, 0)], order(&[2]), &[0, 2], Err((1, Rule::LockHeld))),
        (&[(0, AcquireShared, 0), (1, AcquireShared, 0)], order(&[0]), &[1, 0], Ok(())),
        (
            &[(0, AcquireShared, 0), (0, ReleaseShared, 0), (1, Acquire, 0)],
            order(&[2]),
            &[0, 2],
            Err((1, Rule::LockHeld)),
        ),
        (&[(0, Acquire, 0), (0, Release, 0), (1, AcquireShared, 0)], order(&[2]), &[0, 2], Err((1, Rule::LockHeld))),
        (&[(0, Release, 0)], order(&[0]), &[0], Err((0, Rule::NotHeld))),
        (&[(0, ReleaseShared, 0)], order(&[0]), &[0], Err((0, Rule::NotHeld))),
        (&[(0, Post, 0), (1, Take, 0)], order(&[1]), &[1], Err((0, Rule::TakeBeforePost(0)))),
        (&[(1, Take, 0), (0, Post, 0)], order(&[1, 0]), &[1, 0], Ok(())),
        (&[(1, Take, 0), (0, Post, 0)], order(&[0]), &[1], Err((1, Rule::NotReached))),
        // Races.
        (&[(0, Write, 0), (1, Read, 0)], Goal::Race(0, 1), &[0, 1], Ok(())),
        (&[(0, Write, 0), (1, Read, 0)], Goal::Race(1, 0), &[1, 0], Ok(())),
        (&[(0, Write, 0), (1, Read, 0)], Goal::Race(1, 0), &[0, 1], Err((2, Rule::NotReached))),
        (&[(0, Read, 0), (1, Read, 0)], Goal::Race(0, 1), &[0, 1], Err((2, Rule::Goal))),
        (&[(0, AtomicWrite, 0), (1, AtomicRead, 0)], Goal::Race(0, 1), &[0, 1], Err((2, Rule::Goal))),
        (&[(0, AtomicWrite, 0), (1, Read, 0)], Goal::Race(0, 1), &[0, 1], Ok(())),
        // Orders.
        (&[(0, Write, 0), (1, Write, 0), (0, Write, 0)], order(&[0, 1, 2]), &[0, 1, 2], Ok(())),
        (&[(0, Write, 0), (1, Write, 0), (0, Write, 0)], order(&[0, 1]), &[0, 1, 2], Err((3, Rule::NotReached))),
        (&[(0, Write, 0)], order(&[]), &[0], Err((1, Rule::Goal))),
    ];
    for (events, goal, witness, expected) in table {
        assert_eq!(rule(events, goal.clone(), witness), *expected, "{events:?} {goal:?} {witness:?}");
    }
}

#[test]
fn deadlocks() {
    use Op::*;
    let crossed: &[(u16, Op, u32)] = &[
        (0, Acquire, 0),
        (0, Acquire, 1),
        (0, Release, 1),
        (0, Release, 0),
        (1, Acquire, 1),
        (1, Acquire, 0),
        (1, Release, 0),
        (1, Release, 1),
    ];
    assert_eq!(rule(crossed, Goal::Deadlock(vec![1, 5]), &[0, 4]), Ok(()));
    assert_eq!(rule(crossed, Goal::Deadlock(vec![1, 5]), &[0]), Err((1, Rule::NotReached)));
    assert_eq!(rule(crossed, Goal::Deadlock(vec![1]), &[0]), Err((1, Rule::Goal)));
    assert_eq!(rule(crossed, Goal::Deadlock(vec![1, 4]), &[0]), Err((1, Rule::NotBlocked(1))));
    let shared = |second| [(0, AcquireShared, 0), (1, AcquireShared, 1), (0, Acquire, 1), (1, second, 0)];
    assert_eq!(rule(&shared(Acquire), Goal::Deadlock(vec![2, 3]), &[0, 1]), Ok(()));
    assert_eq!(rule(&shared(AcquireShared), Goal::Deadlock(vec![2, 3]), &[0, 1]), Err((2, Rule::NotBlocked(3))));
}

#[test]
fn lost_wakeups() {
    use Op::*;
    let goal = |wake, wait| Goal::LostWakeup { wake, wait };
    let bare: &[(u16, Op, u32)] = &[(0, Acquire, 0), (0, Release, 0), (0, Wait, 0), (1, Signal, 0), (0, Woken, 0)];
    assert_eq!(rule(bare, goal(3, 2), &[0]), Ok(()));
    assert_eq!(rule(bare, goal(3, 2), &[3, 0]), Ok(()));
    // Between the release and the wait nobody comes.
    assert_eq!(rule(bare, goal(3, 2), &[0, 1]), Err((2, Rule::NotReached)));
    assert_eq!(rule(bare, goal(3, 2), &[0, 1, 2]), Err((3, Rule::NotReached)));
    assert_eq!(rule(bare, goal(2, 3), &[]), Err((0, Rule::Goal)));
    let guarded: &[(u16, Op, u32)] = &[
        (0, Acquire, 0),
        (0, Read, 0),
        (0, Release, 0),
        (0, Wait, 0),
        (1, Acquire, 0),
        (1, Signal, 0),
        (1, Release, 0),
        (0, Woken, 0),
    ];
    assert_eq!(rule(guarded, goal(5, 3), &[4, 5, 6, 0, 1]), Ok(()));
    assert_eq!(rule(guarded, goal(5, 3), &[4, 0, 1]), Err((1, Rule::LockHeld)));
}

proptest! {
    /// What happened is a correct reordering of itself, and every prefix is.
    #[test]
    fn what_happened_is_correct(history in histories(SHAPE)) {
        let validator = Validator::new(&history);
        let all: Vec<EventNo> = (0..history.len() as EventNo).collect();
        for end in 1..=all.len() {
            prop_assert_eq!(validator.check(&Goal::Order(vec![all[end - 1]]), &all[..end]), Ok(()));
        }
    }

    /// The oracle sees at least the races of neighbours in the history.
    #[test]
    fn neighbours_race(history in histories(SHAPE)) {
        let races = Oracle::new(&history, Reorderings::SyncPreserving).races();
        for first in 1..history.len() as EventNo {
            let pair = (first - 1, first);
            if history.events[pair.0 as usize].could_race(&history.events[pair.1 as usize]) {
                prop_assert!(races.contains(&pair));
            }
        }
    }
}
