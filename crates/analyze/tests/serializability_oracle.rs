//! Violations of atomicity against the graph of all regions, in small histories and in recorded traces.

mod support;

use selvedge_analyze::serializability::{Conflicts, Options, Regions, Violations, violations};
use selvedge_analyze::{Event, Goal, History, Op, Relation};
use support::explore::show;
use support::random::{Shape, history};
use support::std_form;

/// For each event the number of its region; an event outside of regions is one by itself.
fn regions(history: &History, announced: bool) -> Vec<usize> {
    let mut inside: Vec<(u32, usize)> = vec![(0, 0); history.threads as usize];
    let mut regions = Vec::new();
    for (number, event) in history.events.iter().enumerate() {
        let (begins, ends) = match announced {
            true => (event.op == Op::Enter, event.op == Op::Exit),
            false => (event.op.acquires(), event.op.releases()),
        };
        let (depth, region) = &mut inside[usize::from(event.thread)];
        if *depth == 0 {
            *region = number;
        }
        regions.push(*region);
        if begins {
            *depth += 1;
        } else if ends {
            *depth = depth.saturating_sub(1);
        }
    }
    regions
}

fn ordered(one: &Event, two: &Event, conflicts: Conflicts) -> bool {
    if one.thread == two.thread || one.conflicts(two) {
        return true;
    }
    let is_lock = |event: &Event| event.op.acquires() || event.op.releases();
    let shared = |event: &Event| matches!(event.op, Op::AcquireShared | Op::ReleaseShared);
    conflicts == Conflicts::All
        && ((is_lock(one) && is_lock(two) && one.target == two.target && !(shared(one) && shared(two)))
            || (one.op == Op::Fork && one.target == u32::from(two.thread))
            || (one.op == Op::Fork && two.op == Op::Join && one.target == two.target)
            || (two.op == Op::Join && two.target == u32::from(one.thread))
            || (one.op.posts() && two.op.takes() && one.target == two.target))
}

/// Velodrome: a graph of regions with every edge, and whether it has a circle.
fn has_circle(history: &History, regions: &[usize], conflicts: Conflicts) -> bool {
    let events = &history.events;
    let count = events.len();
    let mut after = vec![vec![false; count]; count];
    for two in 0..count {
        for one in 0..two {
            if regions[one] != regions[two] && ordered(&events[one], &events[two], conflicts) {
                after[regions[one]][regions[two]] = true;
            }
        }
    }
    for middle in 0..count {
        for one in 0..count {
            if after[one][middle] {
                let further = after[middle].clone();
                after[one].iter_mut().zip(further).for_each(|(reached, further)| *reached |= further);
            }
        }
    }
    (0..count).any(|region| after[region][region])
}

/// What a result promises: its events in order, the last in a region, and through these alone a circle.
fn check(history: &History, found: &Violations, regions: &[usize], conflicts: Conflicts) {
    for prediction in &found.predictions {
        assert_eq!(prediction.proof.as_ref().map(|proof| proof.relation), Some(Relation::Observed));
        let Goal::Order(events) = &prediction.goal else { panic!("not an order") };
        assert!(events.is_sorted());
        let mut part = history.clone();
        let keep = |number: &usize| events.contains(&(*number as u32));
        part.events = (0..history.len()).filter(keep).map(|number| history.events[number]).collect();
        let of_part: Vec<usize> = (0..history.len()).filter(keep).map(|number| regions[number]).collect();
        let first = |region: &usize| of_part.iter().position(|other| other == region).unwrap_or(0);
        let names: Vec<usize> = of_part.iter().map(first).collect();
        assert!(has_circle(&part, &names, conflicts), "{events:?} is no circle\n{}", show(history));
    }
}

fn compare_many(name: &str, shape: Shape, announced: bool, conflicts: Conflicts, seeds: u64) {
    let (mut with, mut without, mut unexplained, mut longest) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let history = history(&shape, seed);
        let kind = if announced { Regions::Announced } else { Regions::CriticalSections };
        let found = violations(&history, &Options { regions: kind, conflicts, ..Options::default() });
        let regions = regions(&history, announced);
        let circle = has_circle(&history, &regions, conflicts);
        assert_eq!(!found.predictions.is_empty(), circle, "seed {seed}\n{}\n{found:#?}", show(&history));
        with += u32::from(circle);
        without += u32::from(!circle);
        unexplained += found.unexplained;
        longest = found.predictions.iter().map(|p| p.goal.events().len()).max().unwrap_or(0).max(longest);
        if found.unexplained == 0 {
            check(&history, &found, &regions, conflicts);
        }
    }
    println!("{name}: {with} with circles, {without} without, {unexplained} unexplained, longest {longest}");
    assert!(with > 50 && without > 50 && unexplained * 10 <= u64::from(with), "{with} {without} {unexplained}");
}

#[test]
fn announced_regions() {
    for threads in 2..=5 {
        let shape = Shape { threads, variables: 4, events: 24, regions: true, lock_share: 10, ..Shape::default() };
        compare_many("announced", shape, true, Conflicts::Accesses, 3000);
    }
}

#[test]
fn critical_sections() {
    let shape = Shape { threads: 3, variables: 3, events: 24, lock_share: 40, ..Shape::default() };
    compare_many("critical sections", shape, false, Conflicts::Accesses, 3000);
}

#[test]
fn all_synchronisation() {
    let shape = Shape {
        threads: 4,
        locks: 4,
        variables: 6,
        objects: 2,
        events: 24,
        shared_locks: true,
        forks: true,
        regions: true,
        lock_share: 30,
        ..Shape::default()
    };
    compare_many("all synchronisation", shape, true, Conflicts::All, 3000);
}

#[test]
fn many_regions_at_once() {
    let shape = Shape { threads: 6, variables: 12, events: 60, regions: true, lock_share: 0, ..Shape::default() };
    compare_many("many regions", shape, true, Conflicts::Accesses, 1500);
}

#[test]
fn recorded_traces() {
    let Some(folder) = std_form::folder() else { return };
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names.iter().filter(|path| path.to_string_lossy().ends_with("_txn.std")) {
        let history = std_form::parse(&std::fs::read_to_string(path).unwrap());
        for conflicts in [Conflicts::Accesses, Conflicts::All] {
            let found = violations(&history, &Options { conflicts, ..Options::default() });
            println!("{}, {conflicts:?}: {} found", path.display(), found.predictions.len());
            if history.len() < 200 {
                let regions = regions(&history, true);
                assert_eq!(!found.predictions.is_empty(), has_circle(&history, &regions, conflicts));
            }
        }
    }
}
