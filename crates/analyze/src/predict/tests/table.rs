//! Small histories, what is to be found in them and what is not, by the names of the corpus that they stand for.

use super::rules::{broken, reaches};
use crate::predict::text::parse;
use crate::predict::{Graph, Options, Scheduler, predict};

/// A history, patterns with locations that are to be found and scheduled, and patterns that are not to be found.
struct Row {
    name: &'static str,
    history: &'static str,
    expect: &'static [(&'static str, &'static [u32])],
    never: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        name: "bank account, lost update without a lock",
        history: "T0 r x @1; T0 w x @2; T1 r x @1; T1 w x @2",
        expect: &[("unlocked R-W-W", &[1, 2, 2]), ("race W-W", &[2, 2]), ("race R-W", &[1, 2])],
        never: &["R-W-W", "split R-W-W"],
    },
    Row {
        name: "the same under a lock",
        history: "T0 acq l; T0 r x @1; T0 w x @2; T0 rel l; T1 acq l; T1 r x @1; T1 w x @2; T1 rel l",
        expect: &[],
        never: &["R-W-W", "unlocked R-W-W", "race W-W", "race R-W", "race W-R"],
    },
    Row {
        name: "string buffer: check in one critical section, act in the next",
        history: "T0 acq l; T0 r n @1; T0 rel l; T0 acq l; T0 r n @2; T0 rel l; T1 acq l; T1 w n @3; T1 rel l",
        expect: &[("split R-W-R", &[1, 3, 2])],
        never: &["R-W-R", "unlocked R-W-R", "race R-W"],
    },
    Row {
        name: "log and sweep",
        history: "T0 acq l; T0 r n @1; T0 rel l; T0 acq l; T0 w n @2; T0 rel l; \
                  T1 acq l; T1 r n @3; T1 w n @4; T1 rel l",
        expect: &[("split R-W-W", &[1, 4, 2])],
        never: &["race R-W"],
    },
    Row {
        name: "account: each variable under its own lock",
        history: "T0 acq a; T0 w x @1; T0 rel a; T0 acq b; T0 w y @2; T0 rel b; \
                  T1 acq a; T1 acq b; T1 r x @3; T1 r y @4; T1 rel b; T1 rel a",
        expect: &[("split W1|R1-R2|W2", &[1, 3, 4, 2])],
        never: &["W1|R1-R2|W2", "race W-R"],
    },
    Row {
        name: "weblech: updates and loads, all atomic",
        history: "T0 au run @1; T0 au queue @2; T1 ar run @3; T1 ar queue @4",
        expect: &[("unlocked W1|R1-R2|W2", &[1, 3, 4, 2])],
        never: &["race W-R", "race R-W"],
    },
    Row {
        name: "reference count: decrement, then load",
        history: "T0 au n @1; T0 ar n @2; T1 au n @1; T1 ar n @2",
        expect: &[("unlocked R-W-R", &[1, 1, 2])],
        never: &["race W-W"],
    },
    Row {
        name: "atomic load and store",
        history: "T0 ar n @1; T0 aw n @2; T1 ar n @1; T1 aw n @2",
        expect: &[("unlocked R-W-W", &[1, 2, 2])],
        never: &["race W-W"],
    },
    Row {
        name: "log that grows: a read of one variable, a write of the other",
        history: "T0 r size @1; T0 w data @2; T1 w size @3; T1 w data @4",
        expect: &[("unlocked R1|W1-W2|W2", &[1, 3, 4, 2])],
        never: &[],
    },
    Row {
        name: "two reads in the other order",
        history: "T0 w a @1; T0 w b @2; T1 r b @3; T1 r a @4",
        expect: &[("unlocked W1|R2-R1|W2", &[1, 3, 4, 2])],
        never: &[],
    },
    Row {
        name: "use before initialisation under a lock",
        history: "T0 fork T1; T0 acq l; T0 w p @1; T0 rel l; T1 acq l; T1 r p @2; T1 rel l",
        expect: &[("use before initialisation", &[2, 1])],
        never: &["race W-R"],
    },
    Row {
        name: "initialisation before the thread is made",
        history: "T0 w p @1; T0 fork T1; T1 r p @2",
        expect: &[],
        never: &["use before initialisation", "race W-R", "race R-W", "order R-W"],
    },
    Row {
        name: "use after teardown",
        history: "T0 w q @1; T0 fork T1; T1 r q @2; T0 w q @3",
        expect: &[("use after teardown", &[3, 2]), ("race W-R", &[3, 2])],
        never: &["use before initialisation"],
    },
    Row {
        name: "teardown after joining",
        history: "T0 w q @1; T0 fork T1; T1 r q @2; T0 join T1; T0 w q @3",
        expect: &[],
        never: &["use after teardown", "race W-R"],
    },
    Row {
        name: "late overwrite",
        history: "T0 fork T1; T0 w pending @1; T1 w pending @2; T0 r pending @3",
        expect: &[("late overwrite", &[2, 1]), ("race W-W", &[2, 1])],
        never: &[],
    },
    Row {
        name: "a flag that is written with release and read with acquire guards what it announces, not itself",
        history: "T0 w x @1; T0 aw f rel @2; T1 ar f acq @3; T1 r x @4",
        expect: &[("use before initialisation", &[3, 2])],
        never: &["race W-R", "race R-W"],
    },
    Row {
        name: "a barrier orders",
        history: "T0 w x @1; T0 post b; T1 post b; T0 take b; T1 take b; T1 r x @2",
        expect: &[],
        never: &["race W-R", "race R-W", "use before initialisation"],
    },
    Row {
        name: "two readers of a lock do not exclude each other",
        history: "T0 sacq l; T0 r x @1; T0 w x @2; T0 srel l; T1 sacq l; T1 w x @3; T1 srel l",
        expect: &[("R-W-W", &[1, 3, 2]), ("race W-W", &[3, 2])],
        never: &[],
    },
    Row {
        name: "a writer excludes them",
        history: "T0 sacq l; T0 r x @1; T0 r x @2; T0 srel l; T1 acq l; T1 w x @3; T1 rel l",
        expect: &[],
        never: &["R-W-R", "race R-W", "race W-R"],
    },
    Row {
        name: "an announced region",
        history: "T0 enter; T0 acq l; T0 r x @1; T0 rel l; T0 acq l; T0 w x @2; T0 rel l; T0 exit; \
                  T1 acq l; T1 w x @3; T1 rel l",
        expect: &[("R-W-W", &[1, 3, 2])],
        never: &["split R-W-W"],
    },
    Row {
        name: "inside nested locks only the inner one is shared",
        history: "T0 acq a; T0 acq b; T0 r x @1; T0 rel b; T0 acq b; T0 w x @2; T0 rel b; T0 rel a; \
                  T1 acq b; T1 w x @3; T1 rel b",
        expect: &[("R-W-W", &[1, 3, 2])],
        never: &["race R-W"],
    },
    Row {
        name: "the interleaving that happened",
        history: "T0 r x @1; T1 w x @2; T0 w x @3",
        expect: &[("unlocked R-W-W", &[1, 2, 3])],
        never: &[],
    },
    Row {
        name: "a wake-up orders what came before it and what follows the wait",
        history: "T1 acq m; T1 rel m; T1 wait c; T0 w x @1; T0 acq m; T0 signal c; T0 rel m; \
                  T1 woken c; T1 acq m; T1 r x @2; T1 rel m",
        expect: &[],
        never: &["race W-R", "use before initialisation"],
    },
    Row {
        name: "a read before the wait may see what is written after the wake-up",
        history: "T1 r x @1; T1 wait c; T0 signal c; T0 w x @2; T1 woken c",
        expect: &[("use after teardown", &[2, 1])],
        never: &[],
    },
];

#[test]
fn rows() {
    let options = Options::default();
    for row in ROWS {
        let history = parse(row.history);
        let found = predict(&history, &options);
        let names: Vec<_> =
            found.candidates.iter().map(|candidate| (candidate.pattern.as_str(), &candidate.locations)).collect();
        let graph = Graph::new(&history, options.near);
        let scheduler = Scheduler::new(&graph);
        for (pattern, locations) in row.expect {
            let candidate = found
                .candidates
                .iter()
                .find(|candidate| candidate.pattern == *pattern && candidate.locations == *locations)
                .unwrap_or_else(|| panic!("{}: no {pattern} at {locations:?} in {names:?}", row.name));
            let goal = &candidate.goals[0];
            let order = scheduler.schedule(goal).unwrap_or_else(|| panic!("{}: no schedule for {goal:?}", row.name));
            assert_eq!(broken(&history, &order, false), None, "{}", row.name);
            assert!(reaches(&history, &order, goal), "{}: {order:?} does not reach {goal:?}", row.name);
        }
        for pattern in row.never {
            let found = names.iter().find(|(name, _)| name == pattern);
            assert!(found.is_none(), "{}: {found:?}", row.name);
        }
    }
}
