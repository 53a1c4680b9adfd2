//! The figures of the paper.

use selvedge_findings::Kind;

use super::rules::{broken, reaches};
use crate::history::{EventNo, History};
use crate::predict::text::parse;
use crate::predict::{Candidate, Options, Predictions, predict, schedule};
use crate::prediction::Goal;

fn races(predictions: &Predictions) -> Vec<Vec<u32>> {
    let mut races: Vec<Vec<u32>> = predictions
        .candidates
        .iter()
        .filter(|candidate| candidate.kind == Kind::DataRace)
        .map(|candidate| {
            let mut locations = candidate.locations.clone();
            locations.sort_unstable();
            locations
        })
        .collect();
    races.sort_unstable();
    races.dedup();
    races
}

fn find(history: &History, pattern: &str, locations: &[u32]) -> Candidate {
    let found = predict(history, &Options::default());
    let mut found = found.candidates.into_iter();
    found.find(|candidate| candidate.pattern == pattern && candidate.locations == locations).expect("a candidate")
}

fn locations(history: &History, order: &[EventNo]) -> Vec<u32> {
    order.iter().map(|event| history.events[*event as usize].location).collect()
}

/// Section 2: the trace 1 5 2 3 6 7 has the races (2,5), (2,6) and (3,7), and 1 5 2 6 7 3 shows the last.
#[test]
fn figure_1() {
    let history = parse("T0 w z @1; T1 w x @5; T0 r x @2; T0 r y @3; T1 w x @6; T1 w y @7");
    let found = predict(&history, &Options::default());
    assert_eq!(races(&found), [[2, 5], [2, 6], [3, 7]]);
    let candidate = find(&history, "race W-R", &[7, 3]);
    let order = schedule(&history, &candidate.goals[0]).expect("a schedule");
    assert_eq!(locations(&history, &order), [1, 5, 2, 6, 7, 3]);
}

/// Section 5.2: v8 fits between v2 and v5, at v4, where the lock of v8 is not held.
#[test]
fn figure_3() {
    let history = parse(
        "T0 acq l @1; T0 r x @2; T0 rel l @3; T0 r y @4; T0 w x @5; T1 acq l @6; T1 w y @7; T1 w x @8; T1 rel l @9",
    );
    let candidate = find(&history, "split R-W-W", &[2, 8, 5]);
    assert_eq!(candidate.goals, [Goal::Order(vec![1, 7, 4])]);
    let order = schedule(&history, &candidate.goals[0]).expect("a schedule");
    assert_eq!(broken(&history, &order, true), None);
    assert!(reaches(&history, &order, &candidate.goals[0]), "{order:?}");
}

/// Section 6.1: v3 depends on v2 and stays behind with it.
#[test]
fn figure_4() {
    let history = parse("T0 r a @1; T0 w x @2; T0 r b @3; T1 r c @4; T1 w x @5; T1 r d @6");
    let order = schedule(&history, &Goal::Race(1, 4)).expect("a schedule");
    assert_eq!(locations(&history, &order), [1, 4, 2, 5]);
}

/// Section 6.1: v1 is moved with v3, or the lock would be held when v6 takes it.
#[test]
fn figure_5() {
    let history =
        parse("T0 acq l @1; T0 w p @2; T0 w x @3; T0 rel l @4; T1 r q @5; T1 acq l @6; T1 rel l @7; T1 w x @8");
    let found = predict(&history, &Options::default());
    assert_eq!(races(&found), [[3, 8]]);
    let order = schedule(&history, &Goal::Race(2, 7)).expect("a schedule");
    assert_eq!(locations(&history, &order), [5, 6, 7, 1, 2, 3, 8]);
}

/// As drawn, v2 comes before v5 and the race is a false warning: it is predicted, and no schedule shows it.
#[test]
fn figure_5_as_drawn() {
    let history =
        parse("T0 acq l @1; T0 post s @2; T0 w x @3; T0 rel l @4; T1 take s @5; T1 acq l @6; T1 rel l @7; T1 w x @8");
    let found = predict(&history, &Options::default());
    assert_eq!(races(&found), [[3, 8]]);
    assert_eq!(schedule(&history, &Goal::Race(2, 7)), None);
}
