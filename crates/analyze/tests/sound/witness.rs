//! Nothing is proved that cannot be; little that can be is not.

use proptest::prelude::*;
use selvedge_analyze::sound::{Prover, RacePair, SyncPreserving, shb};
use selvedge_analyze::{EventNo, Goal, History, Op, Relation};

use crate::generate::{Shape, histories};
use crate::oracle::{Oracle, Reorderings};

/// Proves a goal, and holds the proof against the oracle; whether it was proved where it can be.
fn agree(prover: &Prover<'_>, oracle: &Oracle<'_>, goal: &Goal) -> Result<(), TestCaseError> {
    let proof = prover.prove(goal);
    if let Some(proof) = &proof {
        prop_assert_eq!(prover.validator().check(goal, &proof.witness), Ok(()));
    }
    prop_assert_eq!(proof.is_some(), oracle.reaches(goal), "{:?} {:?}", goal, proof);
    Ok(())
}

fn races(history: &History) -> Result<(), TestCaseError> {
    let prover = Prover::new(history);
    let exact = Oracle::new(history, Reorderings::All).races();
    let analysis = SyncPreserving::new(history);
    let count = history.len() as EventNo;
    for second in 0..count {
        for first in 0..second {
            if !history.events[first as usize].could_race(&history.events[second as usize]) {
                continue;
            }
            let pair = RacePair { first, second };
            let proof = prover.prove(&pair.goal());
            prop_assert_eq!(proof.is_some(), exact.contains(&(first, second)), "{} {} {:?}", first, second, proof);
            prop_assert_eq!(prover.prove(&Goal::Race(second, first)).is_some(), proof.is_some());
            if let Some(proof) = proof {
                prop_assert_eq!(prover.validator().check(&pair.goal(), &proof.witness), Ok(()));
                prop_assert_eq!(proof.relation == Relation::LockReversing, !analysis.is_race(pair));
            }
        }
    }
    for pair in shb::racy_seconds(history) {
        prop_assert_eq!(prover.prove(&pair.goal()).map(|proof| proof.relation), Some(Relation::Shb));
    }
    Ok(())
}

fn deadlocks(history: &History) -> Result<(), TestCaseError> {
    let prover = Prover::new(history);
    let oracle = Oracle::new(history, Reorderings::All);
    let acquires: Vec<EventNo> =
        (0..history.len() as EventNo).filter(|&number| history.events[number as usize].op.acquires()).collect();
    for &first in &acquires {
        for &second in acquires.iter().filter(|&&second| second > first) {
            agree(&prover, &oracle, &Goal::Deadlock(vec![first, second]))?;
        }
    }
    Ok(())
}

fn wakeups(history: &History) -> Result<(), TestCaseError> {
    let prover = Prover::new(history);
    let oracle = Oracle::new(history, Reorderings::All);
    let event = |number: EventNo| history.events[number as usize];
    for wake in 0..history.len() as EventNo {
        for wait in 0..history.len() as EventNo {
            let sorts = matches!(event(wake).op, Op::Signal | Op::Broadcast) && event(wait).op == Op::Wait;
            if sorts && event(wake).target == event(wait).target && event(wake).thread != event(wait).thread {
                agree(&prover, &oracle, &Goal::LostWakeup { wake, wait })?;
            }
        }
    }
    Ok(())
}

const TWO: Shape = Shape { threads: 2, variables: 2, locks: 2, objects: 1, events: 20 };
const THREE: Shape = Shape { threads: 3, variables: 2, locks: 2, objects: 1, events: 16 };
const FOUR: Shape = Shape { threads: 4, variables: 3, locks: 3, objects: 0, events: 16 };
const LOCKS: Shape = Shape { threads: 3, variables: 1, locks: 3, objects: 0, events: 24 };
const CONDITIONS: Shape = Shape { threads: 3, variables: 1, locks: 1, objects: 1, events: 14 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn races_of_two_threads(history in histories(TWO)) {
        races(&history)?;
    }

    #[test]
    fn races_of_three_threads(history in histories(THREE)) {
        races(&history)?;
    }

    #[test]
    fn races_of_four_threads(history in histories(FOUR)) {
        races(&history)?;
    }

    #[test]
    fn deadlocks_of_three_threads(history in histories(LOCKS)) {
        deadlocks(&history)?;
    }

    #[test]
    fn lost_wakeups(history in histories(CONDITIONS)) {
        wakeups(&history)?;
    }

    #[test]
    fn orders(history in histories(THREE), picks in prop::collection::vec(any::<prop::sample::Index>(), 2..5)) {
        let mut events: Vec<EventNo> = Vec::new();
        for pick in picks.iter().filter(|_| !history.is_empty()) {
            let event = pick.index(history.len()) as EventNo;
            if !events.contains(&event) {
                events.push(event);
            }
        }
        if !events.is_empty() {
            let goal = Goal::Order(events);
            agree(&Prover::new(&history), &Oracle::new(&history, Reorderings::All), &goal)?;
        }
    }
}
