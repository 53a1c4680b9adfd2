//! Histories that break their own rules: nothing panics, and what is proved is still checked.

use proptest::prelude::*;
use selvedge_analyze::sound::{Prover, RacePair, SyncPreserving, shb};
use selvedge_analyze::{Event, EventNo, Goal, History, Op};

const OPS: [Op; 20] = [
    Op::Read,
    Op::Write,
    Op::AtomicRead,
    Op::AtomicWrite,
    Op::AtomicUpdate,
    Op::Fence,
    Op::Acquire,
    Op::Release,
    Op::AcquireShared,
    Op::ReleaseShared,
    Op::Fork,
    Op::Join,
    Op::Post,
    Op::Take,
    Op::Wait,
    Op::Signal,
    Op::Broadcast,
    Op::Woken,
    Op::Enter,
    Op::Exit,
];

fn any_history() -> impl Strategy<Value = History> {
    let event = (0..3u16, prop::sample::select(&OPS[..]), 0..3u32);
    prop::collection::vec(event, 0..40).prop_map(|events| History {
        sources: (0..events.len() as u64).collect(),
        locations: events.len() as u32,
        events: events
            .into_iter()
            .zip(0..)
            .map(|((thread, op, target), at)| Event::new(thread, op, target, at))
            .collect(),
        threads: 3,
        variables: 3,
        locks: 3,
        objects: 3,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_panics(history in any_history(), picks in prop::collection::vec(any::<prop::sample::Index>(), 4)) {
        shb::races(&history);
        SyncPreserving::new(&history).races();
        SyncPreserving::new(&history).racy_seconds();
        let prover = Prover::new(&history);
        let count = history.len() as EventNo;
        let mut goals: Vec<Goal> = (0..count)
            .flat_map(|second| (0..second).map(move |first| RacePair { first, second }.goal()))
            .collect();
        if count > 0 {
            let events: Vec<EventNo> = picks.iter().map(|pick| pick.index(history.len()) as EventNo).collect();
            goals.push(Goal::LostWakeup { wake: events[0], wait: events[1] });
            goals.push(Goal::Deadlock(events.clone()));
            goals.push(Goal::Order(events));
        }
        goals.extend([Goal::Order(Vec::new()), Goal::Race(count, 0), Goal::Deadlock(Vec::new())]);
        for goal in goals {
            if let Some(proof) = prover.prove(&goal) {
                prop_assert_eq!(prover.validator().check(&goal, &proof.witness), Ok(()));
            }
        }
    }
}
