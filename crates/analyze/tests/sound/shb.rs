//! Schedulable happens-before: the paper's examples, a plain definition, and the exact answer.

use proptest::prelude::*;
use selvedge_analyze::sound::{RacePair, shb};
use selvedge_analyze::{EventNo, History, Op};

use crate::generate::{Shape, histories};
use crate::oracle::{Oracle, Reorderings};

/// For each event the events that are ordered before it, from the definition; reads come after their write only for
/// what follows them.
fn plain_races(history: &History) -> Vec<(EventNo, EventNo)> {
    let count = history.len();
    let mut before = vec![vec![false; count]; count];
    let mut races = Vec::new();
    for (at, event) in history.events.iter().enumerate() {
        let add = |before: &mut Vec<Vec<bool>>, other: usize| {
            let (earlier, own) = before.split_at_mut(at);
            for (known, own) in own[0].iter_mut().enumerate() {
                *own |= earlier[other][known] || known == other;
            }
        };
        let mut seen = None;
        for (other, earlier) in history.events[..at].iter().enumerate() {
            let same = earlier.target == event.target;
            let orders = earlier.thread == event.thread
                || (earlier.op == Op::Fork && earlier.target == u32::from(event.thread))
                || (event.op == Op::Join && event.target == u32::from(earlier.thread))
                || (earlier.op == Op::Release && event.op.acquires() && same)
                || (earlier.op == Op::ReleaseShared && event.op == Op::Acquire && same)
                || (earlier.op.posts() && event.op.takes() && same);
            if orders {
                add(&mut before, other);
            }
            if event.op.reads() && earlier.op.writes() && same {
                seen = Some(other);
            }
        }
        races.extend(
            (0..at)
                .filter(|&other| !before[at][other] && history.events[other].could_race(event))
                .map(|other| (other as EventNo, at as EventNo)),
        );
        if let Some(write) = seen {
            add(&mut before, write);
        }
    }
    races
}

const SHAPE: Shape = Shape { threads: 4, variables: 2, locks: 2, objects: 2, events: 40 };
const SMALL: Shape = Shape { threads: 3, variables: 2, locks: 2, objects: 1, events: 14 };

fn seconds(pairs: impl IntoIterator<Item = EventNo>) -> Vec<EventNo> {
    let mut seconds: Vec<EventNo> = pairs.into_iter().collect();
    seconds.sort_unstable();
    seconds.dedup();
    seconds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The same second events race as by definition, and each pair is one of the definition's.
    #[test]
    fn as_defined(history in histories(SHAPE)) {
        let plain = plain_races(&history);
        let found = shb::racy_seconds(&history);
        for RacePair { first, second } in found.iter().copied().chain(shb::races(&history)) {
            prop_assert!(plain.contains(&(first, second)), "{} {}", first, second);
        }
        prop_assert_eq!(seconds(found.iter().map(|pair| pair.second)), seconds(plain.iter().map(|pair| pair.1)));
    }

    /// Each pair is a race of a reordering that keeps the order of critical sections.
    #[test]
    fn schedulable(history in histories(SMALL)) {
        let races = Oracle::new(&history, Reorderings::SyncPreserving).races();
        for (first, second) in plain_races(&history) {
            prop_assert!(races.contains(&(first, second)), "{} {}", first, second);
        }
    }
}
