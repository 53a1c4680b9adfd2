//! Sync-preserving races are exactly those of the reorderings that keep the order of critical sections.

use std::collections::BTreeSet;

use proptest::prelude::*;
use selvedge_analyze::History;
use selvedge_analyze::sound::{RacePair, SyncPreserving, shb};

use crate::generate::{Shape, histories};
use crate::oracle::{Oracle, Reorderings};

fn exact(history: &History) -> Result<(), TestCaseError> {
    let races = Oracle::new(history, Reorderings::SyncPreserving).races();
    let analysis = SyncPreserving::new(history);
    let count = history.len() as u32;
    for second in 0..count {
        for first in 0..second {
            let expected = races.contains(&(first, second));
            prop_assert_eq!(analysis.is_race(RacePair { first, second }), expected, "{} {}", first, second);
        }
    }
    let seconds: BTreeSet<u32> = analysis.racy_seconds().iter().map(|pair| pair.second).collect();
    prop_assert_eq!(seconds, races.iter().map(|&(_, second)| second).collect::<BTreeSet<u32>>());
    for RacePair { first, second } in analysis.racy_seconds().into_iter().chain(shb::racy_seconds(history)) {
        prop_assert!(races.contains(&(first, second)), "{} {}", first, second);
    }
    Ok(())
}

/// Every pair of places that races is told, each once. The made-up places are few enough to be told apart.
fn exact_places(history: &mut History) -> Result<(), TestCaseError> {
    for event in &mut history.events {
        event.location %= 4;
    }
    let place = |number: u32| history.events[number as usize].location;
    let pair = |first, second| (place(first).min(place(second)), place(first).max(place(second)));
    let races = Oracle::new(history, Reorderings::SyncPreserving).races();
    let expected: BTreeSet<_> = races.iter().map(|&(first, second)| pair(first, second)).collect();
    let found = SyncPreserving::new(history).races();
    prop_assert_eq!(found.len(), expected.len());
    prop_assert_eq!(found.iter().map(|race| pair(race.first, race.second)).collect::<BTreeSet<_>>(), expected);
    Ok(())
}

const TWO: Shape = Shape { threads: 2, variables: 2, locks: 2, objects: 1, events: 24 };
const THREE: Shape = Shape { threads: 3, variables: 2, locks: 2, objects: 1, events: 18 };
const FOUR: Shape = Shape { threads: 4, variables: 2, locks: 3, objects: 0, events: 16 };
const LOCKS: Shape = Shape { threads: 3, variables: 1, locks: 1, objects: 0, events: 20 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn two_threads(history in histories(TWO)) {
        exact(&history)?;
    }

    #[test]
    fn three_threads(history in histories(THREE)) {
        exact(&history)?;
    }

    #[test]
    fn four_threads(history in histories(FOUR)) {
        exact(&history)?;
    }

    #[test]
    fn one_lock(history in histories(LOCKS)) {
        exact(&history)?;
    }

    #[test]
    fn places(mut history in histories(THREE)) {
        exact_places(&mut history)?;
    }
}
