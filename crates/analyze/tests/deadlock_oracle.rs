//! Deadlock predictions against all correct reorderings of small histories, and against recorded traces.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::deadlock::{Options, Readers, deadlocks};
use selvedge_analyze::{EventNo, Goal, History, Op, Prediction, Relation};
use support::explore::{Explorer, Which, rotated, show};
use support::random::{Shape, history};
use support::std_form;

type Key = (usize, Vec<u32>);

fn key(history: &History, events: &[EventNo]) -> Key {
    let places: Vec<u32> = events.iter().map(|&e| history.events[e as usize].location).collect();
    (events.len(), rotated(&places))
}

fn goal(prediction: &Prediction) -> &[EventNo] {
    match &prediction.goal {
        Goal::Deadlock(events) => events,
        other => panic!("not a deadlock: {other:?}"),
    }
}

/// What a proof promises: the witness is a correct reordering after which the goal's events are next, each waiting for
/// the thread of the one after it; and a wait that nobody outside can end.
fn check_proof(explorer: &Explorer<'_>, prediction: &Prediction) {
    let Some(proof) = &prediction.proof else { return };
    assert_eq!(proof.relation, Relation::SyncPreserving);
    let events = &explorer.history.events;
    let state = explorer.replay(&proof.witness).expect("the witness is a correct reordering");
    let goal = goal(prediction);
    let threads: Vec<usize> = goal.iter().map(|&e| usize::from(events[e as usize].thread)).collect();
    for (at, &event) in goal.iter().enumerate() {
        assert_eq!(explorer.next(&state, threads[at]), Some(event), "next");
        let waits_for = explorer.waits_for(&state, threads[at]);
        assert!(waits_for.contains(&threads[(at + 1) % goal.len()]), "waits for the next");
        let blocked = &events[event as usize];
        if blocked.op == Op::Woken {
            for (wake, other) in (0..).zip(events) {
                let wakes = matches!(other.op, Op::Signal | Op::Broadcast) && other.target == blocked.target;
                let own = threads.contains(&usize::from(other.thread));
                assert!(!wakes || own || explorer.happened(&state, wake), "somebody else wakes");
            }
        }
    }
    assert!(!matches!(prediction.pattern.as_str(), "lock-cycle-waiting-writer" | "take-holding-lock"));
}

#[derive(Default, Debug)]
struct Tally {
    histories: u32,
    sync_preserving: usize,
    others: usize,
    proved: usize,
    tried: usize,
    patterns: BTreeMap<String, (usize, usize)>,
}

fn compare(shape: &Shape, seed: u64, tally: &mut Tally) {
    let history = history(shape, seed);
    let explorer = Explorer::new(&history);
    let found = deadlocks(&history, &Options::default());
    assert!(!found.search_cut && found.unchecked == 0 && found.dropped == 0);
    for prediction in &found.predictions {
        check_proof(&explorer, prediction);
        let pattern = tally.patterns.entry(prediction.pattern.clone()).or_default();
        pattern.0 += usize::from(prediction.proof.is_some());
        pattern.1 += 1;
    }
    let (Some(preserving), Some(all)) =
        (explorer.states(Which::SyncPreserving, 50_000), explorer.states(Which::All, 50_000))
    else {
        return;
    };
    let proved: BTreeSet<Key> =
        found.predictions.iter().filter(|p| p.proof.is_some()).map(|p| key(&history, goal(p))).collect();
    let any: BTreeSet<Key> = found.predictions.iter().map(|p| key(&history, goal(p))).collect();
    let mut real = BTreeSet::new();
    for circle in preserving.iter().flat_map(|state| explorer.circles(state)) {
        let key = key(&history, &circle);
        assert!(proved.contains(&key), "seed {seed}: {circle:?} not proved\n{}\n{found:#?}", show(&history));
        real.insert(key);
    }
    tally.sync_preserving += real.len();
    let mut others = BTreeSet::new();
    for circle in all.iter().flat_map(|state| explorer.circles(state)) {
        let key = key(&history, &circle);
        assert!(any.contains(&key), "seed {seed}: {circle:?} not found\n{}\n{found:#?}", show(&history));
        if !real.contains(&key) {
            others.insert(key);
        }
    }
    tally.others += others.len();
    tally.proved += proved.len();
    tally.tried += any.len() - proved.len();
    tally.histories += 1;
}

fn compare_many(name: &str, shape: Shape, seeds: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let locations = if seed % 2 == 0 { 0 } else { 4 };
        compare(&Shape { locations, ..shape }, seed, &mut tally);
    }
    println!("{name}: {tally:?}");
    tally
}

#[test]
fn two_threads() {
    let tally = compare_many("two threads", Shape { events: 18, variables: 2, ..Shape::default() }, 3000);
    assert!(tally.sync_preserving > 150, "{tally:?}");
}

#[test]
fn three_threads() {
    let shape = Shape { threads: 3, locks: 3, events: 20, lock_share: 85, ..Shape::default() };
    let tally = compare_many("three threads", shape, 1000);
    assert!(tally.sync_preserving > 100, "{tally:?}");
}

#[test]
fn shared_locks() {
    let shape = Shape { threads: 3, locks: 2, events: 18, shared_locks: true, lock_share: 85, ..Shape::default() };
    let tally = compare_many("shared locks", shape, 1000);
    assert!(tally.patterns["lock-upgrade"].0 > 0 && tally.patterns["lock-cycle-waiting-writer"].1 > 0, "{tally:?}");
}

#[test]
fn forks_and_joins() {
    let shape = Shape { threads: 3, locks: 2, events: 18, forks: true, lock_share: 60, ..Shape::default() };
    let tally = compare_many("forks and joins", shape, 3000);
    assert!(tally.patterns["join-holding-lock"].0 > 0, "{tally:?}");
}

#[test]
fn conditions_and_semaphores() {
    let shape = Shape { threads: 3, locks: 2, objects: 1, events: 20, lock_share: 60, ..Shape::default() };
    let tally = compare_many("conditions and semaphores", shape, 1000);
    assert!(tally.patterns["wait-holding-lock"].0 > 0 && tally.patterns["take-holding-lock"].1 > 0, "{tally:?}");
}

#[test]
fn long_histories() {
    for seed in 0..12 {
        let shape = Shape { threads: 4, locks: 3, variables: 40, events: 1000, locations: 6, ..Shape::default() };
        let history = history(&shape, seed);
        let found = deadlocks(&history, &Options::default());
        let explorer = Explorer::new(&history);
        found.predictions.iter().for_each(|prediction| check_proof(&explorer, prediction));
        assert_eq!(deadlocks(&history, &Options::default()).predictions, found.predictions, "the same again");
    }
}

/// A history in which everybody takes his locks alone, one thread after the other: `t: lock lock ...`, given back in
/// reverse.
fn in_turn(threads: &[&[u32]]) -> History {
    let mut history = History { threads: threads.len() as u32, ..History::default() };
    for (thread, locks) in (0..).zip(threads) {
        let takes = locks.iter().map(|&lock| (Op::Acquire, lock));
        for (op, lock) in takes.chain(locks.iter().rev().map(|&lock| (Op::Release, lock))) {
            let location = history.len() as u32;
            history.events.push(selvedge_analyze::Event::new(thread, op, lock, location));
            history.sources.push(u64::from(location));
            history.locks = history.locks.max(lock + 1);
        }
    }
    history.locations = history.len() as u32;
    history
}

#[test]
fn philosophers() {
    for count in [2u32, 3, 5, 40, 300] {
        let forks: Vec<[u32; 2]> = (0..count).map(|p| [p, (p + 1) % count]).collect();
        let table: Vec<&[u32]> = forks.iter().map(|f| f.as_slice()).collect();
        let history = in_turn(&table);
        let found = deadlocks(&history, &Options::default());
        assert_eq!(found.predictions.len(), 1, "{count}");
        assert_eq!(goal(&found.predictions[0]).len(), count as usize);
        assert!(found.predictions[0].proof.is_some());
        check_proof(&Explorer::new(&history), &found.predictions[0]);
    }
}

/// Of a history in which each step is a thread, an operation and its target, with a place of its own.
fn found_in(steps: &[(u16, Op, u32)]) -> Vec<(String, Vec<EventNo>, bool)> {
    let event = |(at, &(thread, op, target)): (usize, &(u16, Op, u32))| {
        selvedge_analyze::Event::new(thread, op, target, at as u32)
    };
    let events: Vec<_> = steps.iter().enumerate().map(event).collect();
    let (sources, locations) = ((0..events.len() as u64).collect(), events.len() as u32);
    let history = History { events, sources, threads: 4, variables: 4, locks: 4, objects: 4, locations };
    let found = deadlocks(&history, &Options::default());
    let explorer = Explorer::new(&history);
    let of = |p: &Prediction| {
        check_proof(&explorer, p);
        (p.pattern.clone(), goal(p).to_vec(), p.proof.is_some())
    };
    found.predictions.iter().map(of).collect()
}

#[test]
fn start_and_join_order_locks() {
    use Op::{Acquire, Fork, Join, Release};
    let one = |t| [(t, Acquire, 0), (t, Acquire, 1), (t, Release, 1), (t, Release, 0)];
    let two = |t| [(t, Acquire, 1), (t, Acquire, 0), (t, Release, 0), (t, Release, 1)];
    assert!(found_in(&[&one(0)[..], &[(0, Fork, 1)], &two(1)].concat()).is_empty());
    assert!(found_in(&[&[(0, Fork, 1)], &one(1)[..], &[(0, Join, 1)], &two(0)].concat()).is_empty());
    assert_eq!(found_in(&[&[(0, Fork, 1)], &one(0)[..], &two(1)].concat()).len(), 1);
    // Only a value that was passed on orders them: to be tried.
    let passed = found_in(&[&one(0)[..], &[(0, Op::Write, 0), (1, Op::Read, 0)], &two(1)].concat());
    assert_eq!(passed, [("lock-cycle".to_owned(), vec![1, 7], false)]);
}

#[test]
fn a_join_while_the_thread_needs_a_lock() {
    use Op::{Acquire, Fork, Join, Release};
    let steps = [(0, Fork, 1), (1, Acquire, 0), (1, Release, 0), (0, Acquire, 0), (0, Join, 1), (0, Release, 0)];
    assert_eq!(found_in(&steps), [("join-holding-lock".to_owned(), vec![1, 4], true)]);
}

#[test]
fn a_wait_while_the_waker_needs_a_lock() {
    use Op::{Acquire, Release, Signal, Wait, Woken};
    let waker = [(1, Acquire, 0), (1, Release, 0)];
    let waiter = [(0, Acquire, 0), (0, Acquire, 1), (0, Release, 1), (0, Wait, 0)];
    let woken = [(0, Woken, 0), (0, Acquire, 1), (0, Release, 1), (0, Release, 0)];
    let nested = [&waker[..], &waiter, &[(1, Signal, 0)], &woken].concat();
    assert_eq!(found_in(&nested), [("wait-holding-lock".to_owned(), vec![0, 7], true)]);
    // Somebody else could wake it.
    let other = [&waker[..], &waiter, &[(1, Signal, 0), (2, Signal, 0)], &woken].concat();
    assert_eq!(found_in(&other), [("wait-holding-lock".to_owned(), vec![0, 8], false)]);
    // The mutex is taken again with another lock held, in the wrong order.
    let inner = [(0, Acquire, 1), (0, Acquire, 0), (0, Release, 1), (0, Wait, 0)];
    let taker = [(2, Acquire, 1), (2, Acquire, 0), (2, Release, 0), (2, Release, 1)];
    let again = [&inner[..], &[(1, Signal, 0)], &woken, &taker].concat();
    assert_eq!(found_in(&again), [("lock-cycle".to_owned(), vec![6, 10], true)]);
}

#[test]
fn readers_and_writers() {
    use Op::{Acquire, AcquireShared, Release, ReleaseShared};
    let upgrade = |t| [(t, AcquireShared, 0), (t, Acquire, 0), (t, Release, 0), (t, ReleaseShared, 0)];
    assert_eq!(found_in(&[upgrade(0), upgrade(1)].concat()), [("lock-upgrade".to_owned(), vec![1, 5], true)]);
    let under_read = [(0, AcquireShared, 0), (0, Acquire, 1), (0, Release, 1), (0, ReleaseShared, 0)];
    let writes = [(1, Acquire, 1), (1, Acquire, 0), (1, Release, 0), (1, Release, 1)];
    assert_eq!(found_in(&[under_read, writes].concat()), [("lock-cycle".to_owned(), vec![1, 5], true)]);
    // Two readers block each other only behind a writer.
    let reads = [(1, Acquire, 1), (1, AcquireShared, 0), (1, ReleaseShared, 0), (1, Release, 1)];
    assert!(found_in(&[under_read, reads].concat()).is_empty());
    let writer = [(2, Acquire, 0), (2, Release, 0)];
    let queued = found_in(&[&under_read[..], &reads, &writer].concat());
    assert_eq!(queued, [("lock-cycle-waiting-writer".to_owned(), vec![1, 5, 8], false)]);
    // A lock that both only read is no gate, one that one of them writes is.
    let mode = |t, take, give, locks: [u32; 2]| {
        let [a, b] = locks;
        [(t, take, 3), (t, Acquire, a), (t, Acquire, b), (t, Release, b), (t, Release, a), (t, give, 3)]
    };
    let (read, write) = ((AcquireShared, ReleaseShared), (Acquire, Release));
    let gate = |one: (Op, Op), two: (Op, Op)| {
        found_in(&[mode(0, one.0, one.1, [0, 1]), mode(1, two.0, two.1, [1, 0])].concat()).len()
    };
    assert_eq!((gate(read, read), gate(read, write), gate(write, write)), (1, 0, 0));
}

#[test]
fn a_gate_lock_excludes() {
    let found = deadlocks(&in_turn(&[&[2, 0, 1], &[2, 1, 0]]), &Options::default());
    assert!(found.predictions.is_empty(), "{found:?}");
    let found = deadlocks(&in_turn(&[&[2, 0, 1], &[1, 0]]), &Options::default());
    assert_eq!(found.predictions.len(), 1);
}

#[test]
fn readers_that_pass_do_not_queue() {
    let shape = Shape { threads: 3, locks: 2, events: 18, shared_locks: true, lock_share: 85, ..Shape::default() };
    let options = Options { readers: Readers::Pass, ..Options::default() };
    for seed in 0..500 {
        let found = deadlocks(&history(&shape, seed), &options);
        assert!(found.predictions.iter().all(|p| p.pattern != "lock-cycle-waiting-writer"));
    }
}

#[test]
fn a_budget_cuts_and_says_so() {
    let orders: Vec<Vec<u32>> = (0..8).map(|t| (0..8).map(|l| (l * (2 * t + 1) + t) % 8).collect()).collect();
    let orders: Vec<&[u32]> = orders.iter().map(Vec::as_slice).collect();
    let history = in_turn(&orders);
    let found = deadlocks(&history, &Options { search_steps: 100, ..Options::default() });
    assert!(found.search_cut);
    let found = deadlocks(&history, &Options { proof_steps: 0, ..Options::default() });
    assert!(found.unchecked > 0);
    let found = deadlocks(&history, &Options { clock_numbers: 0, ..Options::default() });
    assert!(found.unchecked > 0 && found.predictions.iter().all(|p| p.proof.is_none()));
    let found = deadlocks(&history, &Options { results: 1, witness_events: 0, ..Options::default() });
    assert!(found.predictions.len() == 1 && found.dropped > 0 && found.unchecked > 0);
}

#[test]
fn recorded_traces() {
    let Some(folder) = std_form::folder() else { return };
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut exact = 0;
    for path in names.iter().filter(|path| path.extension().is_some_and(|e| e == "std")) {
        let history = std_form::parse(&std::fs::read_to_string(path).unwrap());
        let found = deadlocks(&history, &Options::default());
        println!("{}: {} events, {} found", path.display(), history.len(), found.predictions.len());
        let explorer = Explorer::new(&history);
        found.predictions.iter().for_each(|p| check_proof(&explorer, p));
        let Ok(answer) = std::fs::read_to_string(path.with_extension("oracle.json")) else { continue };
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let sets: Vec<BTreeSet<u64>> = serde_json::from_value(answer["deadlock_acq_lines0"].clone()).unwrap();
        for prediction in found.predictions.iter().filter(|p| p.proof.is_some()) {
            let lines: BTreeSet<u64> = goal(prediction).iter().map(|&e| history.sources[e as usize]).collect();
            assert!(sets.contains(&lines), "{}: {lines:?} cannot be", path.display());
        }
        exact += 1;
    }
    assert!(exact > 0, "no exact answers");
}
