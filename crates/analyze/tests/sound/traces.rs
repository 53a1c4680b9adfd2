//! Recorded traces whose races are known exactly: how many of them each tier finds, and that none is denied.
//!
//! The folder is named by `SELVEDGE_TRACES`, or lies beside the checkout; without it there is nothing to test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use selvedge_analyze::sound::{Prover, RacePair, SyncPreserving, shb};
use selvedge_analyze::{EventNo, Goal, History, Relation};
use serde_json::Value;

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("SELVEDGE_TRACES").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// What was found of what there is, and what was found besides.
#[derive(Debug, Default)]
struct Share {
    found: usize,
    of: usize,
    surplus: usize,
}

impl Share {
    fn add<T: Ord>(&mut self, found: &BTreeSet<T>, exact: &BTreeSet<T>) {
        self.found += found.intersection(exact).count();
        self.of += exact.len();
        self.surplus += found.difference(exact).count();
    }
}

/// The pairs of lines that a tier proves, of all that conflict.
fn tiers(history: &History) -> Vec<(RacePair, Relation)> {
    let prover = Prover::new(history);
    let count = history.len() as EventNo;
    let pairs = (0..count).flat_map(|second| (0..second).map(move |first| RacePair { first, second }));
    let mut proved = Vec::new();
    for pair in pairs {
        let event = |number: EventNo| &history.events[number as usize];
        if event(pair.first).could_race(event(pair.second))
            && let Some(proof) = prover.prove(&pair.goal())
        {
            assert_eq!(prover.validator().check(&pair.goal(), &proof.witness), Ok(()));
            proved.push((pair, proof.relation));
        }
    }
    proved
}

fn lines(history: &History, pair: &RacePair) -> (u64, u64) {
    (history.sources[pair.first as usize], history.sources[pair.second as usize])
}

#[test]
fn known_races() {
    let Some(folder) = folder() else {
        eprintln!("passed over: no folder of traces; name it in SELVEDGE_TRACES");
        return;
    };
    let mut oracles: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(".oracle.json"))
        .collect();
    oracles.sort();
    let mut shares: [[Share; 2]; 3] = Default::default();
    for path in oracles {
        let oracle: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("an oracle can be read"))
            .expect("an oracle is JSON");
        let text = std::fs::read_to_string(path.with_file_name(oracle["trace"].as_str().expect("a name")));
        let history = parse(&text.expect("a trace can be read"));
        let number = |line: &Value| line.as_u64().expect("a line");
        let exact: BTreeSet<(u64, u64)> = oracle["race_pairs_line0"]
            .as_array()
            .expect("pairs")
            .iter()
            .map(|pair| (number(&pair[0]), number(&pair[1])))
            .collect();
        let proved = tiers(&history);
        let complete = oracle["status"] == "exact";
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let up_to = [Relation::Shb, Relation::SyncPreserving, Relation::LockReversing];
        for (relation, shares) in up_to.into_iter().zip(&mut shares) {
            let found: BTreeSet<(u64, u64)> =
                proved.iter().filter(|(_, by)| *by <= relation).map(|(pair, _)| lines(&history, pair)).collect();
            let seconds = |pairs: &BTreeSet<(u64, u64)>| pairs.iter().map(|pair| pair.1).collect::<BTreeSet<u64>>();
            let missed = exact.difference(&found).collect::<Vec<_>>();
            println!(
                "{name}: {} finds {} of {} pairs, missed {missed:?}, {} more{}",
                relation.name(),
                exact.len() - missed.len(),
                exact.len(),
                found.difference(&exact).count(),
                if complete { "" } else { " (the oracle ran out of time)" },
            );
            if complete {
                assert!(found.is_subset(&exact), "{name}: {:?}", found.difference(&exact).collect::<Vec<_>>());
            }
            shares[0].add(&found, &exact);
            shares[1].add(&seconds(&found), &seconds(&exact));
        }
        // The analyses that look at whole traces find the same second events as the prover.
        let seconds = |relation: Relation| -> BTreeSet<EventNo> {
            proved.iter().filter(|(_, by)| *by <= relation).map(|(pair, _)| pair.second).collect()
        };
        let of = |pairs: Vec<RacePair>| pairs.into_iter().map(|pair| pair.second).collect::<BTreeSet<EventNo>>();
        assert_eq!(of(shb::racy_seconds(&history)), seconds(Relation::Shb), "{name}");
        assert_eq!(of(SyncPreserving::new(&history).racy_seconds()), seconds(Relation::SyncPreserving), "{name}");
        deadlocks(&history, &oracle["deadlock_acq_lines0"], &name);
    }
    for (relation, [pairs, seconds]) in ["shb", "sync-preserving", "lock-reversing"].iter().zip(&shares) {
        println!(
            "{relation}: pairs {}/{} and {} more, second events {}/{} and {} more",
            pairs.found, pairs.of, pairs.surplus, seconds.found, seconds.of, seconds.surplus
        );
    }
    let [.., [pairs, _]] = &shares;
    assert_eq!(pairs.found, pairs.of, "the strongest tier proves every known race");
}

/// Deadlocks of two threads: those of the oracle, and no others.
fn deadlocks(history: &History, exact: &Value, name: &str) {
    let prover = Prover::new(history);
    let acquires: Vec<EventNo> =
        (0..history.len() as EventNo).filter(|&number| history.events[number as usize].op.acquires()).collect();
    let mut found = BTreeSet::new();
    for &first in &acquires {
        for &second in acquires.iter().filter(|&&second| second > first) {
            if prover.prove(&Goal::Deadlock(vec![first, second])).is_some() {
                found.insert([history.sources[first as usize], history.sources[second as usize]]);
            }
        }
    }
    let exact: BTreeSet<[u64; 2]> = exact
        .as_array()
        .expect("sets")
        .iter()
        .filter_map(|set| Some([set.get(0)?.as_u64()?, set.get(1)?.as_u64()?]).filter(|_| set.get(2).is_none()))
        .collect();
    assert_eq!(found, exact, "{name}");
}

/// Every race that the sync-preserving analysis tells of a recorded trace has a witness, and so have those of
/// schedulable happens-before.
#[test]
fn told_races_are_proved() {
    let Some(folder) = folder() else {
        eprintln!("passed over: no folder of traces; name it in SELVEDGE_TRACES");
        return;
    };
    let mut traces: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "std"))
        .collect();
    traces.sort();
    for path in traces {
        let history = parse(&std::fs::read_to_string(&path).expect("a trace can be read"));
        let prover = Prover::new(&history);
        let told = SyncPreserving::new(&history).races();
        let earlier = shb::races(&history);
        for pair in told.iter().chain(&earlier).take(200) {
            let proof = prover.prove(&pair.goal()).unwrap_or_else(|| panic!("{}: {pair:?}", path.display()));
            assert!(proof.relation <= Relation::SyncPreserving, "{}: {pair:?}", path.display());
        }
        println!("{}: {} events, shb {}, sync-preserving {}", path.display(), history.len(), earlier.len(), told.len());
    }
}

fn parse(text: &str) -> History {
    selvedge_analyze::std_text::parse(text.as_bytes()).expect("a recorded trace is well-formed").history
}
