//! Patterns of users, and schedules for goals that other analyses set.

use super::rules::{broken, reaches};
use crate::history::EventNo;
use crate::predict::text::parse;
use crate::predict::{Options, patterns_file, predict, schedule};
use crate::prediction::Goal;

/// Three threads, three variables: each sees the write of one neighbour and not that of the other.
const RING: &str = r#"
    [[pattern]]
    name = "ring"
    kind = "atomic-set-violation"
    T = "a-b-c-a-b-c"
    SV = "x-y-z-y-z-x"
    AT = "r-r-r-w-w-w"
"#;

#[test]
fn any_number_of_threads_and_variables() {
    let history = parse("T0 r x @1; T0 w y @2; T1 r y @3; T1 w z @4; T2 r z @5; T2 w x @6");
    let options = Options { patterns: patterns_file::parse(RING).unwrap(), ..Options::default() };
    let found = predict(&history, &options);
    let goal = Goal::Order(vec![0, 2, 4, 1, 3, 5]);
    assert!(found.candidates.iter().any(|candidate| candidate.goals.contains(&goal)), "{found:?}");
    assert!(found.candidates.iter().all(|candidate| candidate.pattern == "unlocked ring"));
    let order = schedule(&history, &goal).expect("a schedule");
    assert_eq!(broken(&history, &order, true), None);
    assert!(reaches(&history, &order, &goal), "{order:?}");
}

/// With a lock around each thread's part it cannot be.
#[test]
fn locks_keep_them_apart() {
    let history = parse(
        "T0 acq l; T0 r x; T0 w y; T0 rel l; T1 acq l; T1 r y; T1 w z; T1 rel l; T2 acq l; T2 r z; T2 w x; T2 rel l",
    );
    let options = Options { patterns: patterns_file::parse(RING).unwrap(), ..Options::default() };
    assert!(predict(&history, &options).candidates.is_empty());
}

/// A history, a goal, and the order that reaches it, if there is one.
type Row = (&'static str, Goal, Option<&'static [EventNo]>);

#[test]
fn schedules() {
    let rows: &[Row] = &[
        // Each thread holds what the other needs next.
        (
            "T0 acq a; T0 acq b; T0 rel b; T0 rel a; T1 acq b; T1 acq a; T1 rel a; T1 rel b",
            Goal::Deadlock(vec![1, 5]),
            Some(&[0, 4]),
        ),
        // A gate lock around both.
        (
            "T0 acq g; T0 acq a; T0 acq b; T0 rel b; T0 rel a; T0 rel g; T1 acq g; T1 acq b; T1 acq a",
            Goal::Deadlock(vec![2, 8]),
            None,
        ),
        (
            "T0 r ready; T0 wait c; T1 w ready; T1 signal c; T0 woken c",
            Goal::LostWakeup { wake: 3, wait: 1 },
            Some(&[0, 2]),
        ),
        // Whole critical sections change places.
        ("T0 acq l; T0 w x; T0 rel l; T1 acq l; T1 r x; T1 rel l", Goal::Order(vec![4, 1]), Some(&[3, 4, 5, 0, 1])),
        // The thread must be made before it can be early.
        ("T0 w y; T0 fork T1; T0 w x; T1 r x", Goal::Order(vec![3, 2]), Some(&[0, 1, 3, 2])),
        ("T0 w x; T0 fork T1; T1 r x", Goal::Order(vec![2, 0]), None),
        // A reader and a writer of one lock.
        ("T0 sacq l; T0 r x; T0 srel l; T1 acq l; T1 w x; T1 rel l", Goal::Race(1, 4), None),
        ("T0 sacq l; T0 r x; T0 srel l; T1 sacq l; T1 w x; T1 srel l", Goal::Race(4, 1), Some(&[3, 0, 4, 1])),
        // The third thread holds the lock at the end of the history, and lets it go.
        ("T0 acq l; T0 w x; T0 rel l; T2 acq l; T1 r x; T2 rel l", Goal::Order(vec![4, 1]), Some(&[3, 4, 5, 0, 1])),
        // Between two critical sections of one thread.
        (
            "T0 acq l; T0 r x; T0 rel l; T0 acq l; T0 w x; T0 rel l; T1 acq l; T1 w x; T1 rel l",
            Goal::Order(vec![1, 7, 4]),
            Some(&[0, 1, 2, 6, 7, 8, 3, 4]),
        ),
        // Not within one.
        ("T0 acq l; T0 r x; T0 w x; T0 rel l; T1 acq l; T1 w x; T1 rel l", Goal::Order(vec![1, 5, 2]), None),
        // The second thread must be through with one lock before the first takes it, and the first with the other.
        (
            "T0 acq a; T0 acq b; T0 rel b; T0 w x; T0 rel a; T1 acq a; T1 rel a; T1 acq b; T1 w x; T1 rel b",
            Goal::Race(3, 8),
            Some(&[5, 6, 0, 1, 2, 7, 3, 8]),
        ),
        (
            "T0 acq l; T0 r x; T0 r x; T0 rel l; T1 acq l; T1 rel l; T1 w x",
            Goal::Order(vec![1, 6, 2]),
            Some(&[4, 5, 0, 1, 6, 2]),
        ),
        ("T0 w x", Goal::Order(vec![7]), None),
        ("T0 w x", Goal::Order(vec![]), None),
    ];
    for (text, goal, expected) in rows {
        let history = parse(text);
        let order = schedule(&history, goal);
        assert_eq!(order.as_deref(), *expected, "{goal:?} in {text}");
        if let Some(order) = order {
            assert_eq!(broken(&history, &order, false), None, "{text}");
            assert!(reaches(&history, &order, goal), "{text}");
        }
    }
}
