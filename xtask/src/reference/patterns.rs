//! `patterns.md`: the form of a patterns file, and the patterns that are searched for without one.

use selvedge_analyze::predict::Pattern;
use selvedge_analyze::predict::patterns::{Access, At, standard};

use super::{code, head, table};

const FORM: &str = r#"
A pattern is a sequence of events in the order that goes wrong. Its items are lists of equal length, joined by hyphens, one item for
each event: who does it, to which variable, in which atomic region, and how. `selvedge hunt --patterns FILE` and `selvedge predict
--patterns FILE` look for yours before ours; of patterns of one kind that fit the same events the first is taken. A file that is not
understood is refused with line and column, and nothing of it is used.

```toml
[[pattern]]
name = "stale check"             # not empty, not twice
kind = "atomicity-violation"     # data-race, atomicity-violation, atomic-set-violation, order-violation
T  = "t1-t2-t1"                  # threads: any names, one for each event
SV = "x-x-x"                     # shared variables
AR = "u1-u2-u1"                  # atomic regions, each of one thread; left out: one for each thread
AT = "r-w-w"                     # accesses: r reads, w writes, * either
E  = "e1-e2-e3"                  # may be left out
scopes = ["region", "unlocked"]  # where regions are looked for; also "split"; left out: these two
adjacent = false                 # the two events are next at once
reordered = false                # only where it did not happen in this order
distinct = false                 # only where all events are of different places in the source
unless-race = false              # only where the two events cannot race
at = "any-first-any"             # first: the variable's first write, unless its thread was the last to read it; last: its last write; may be left out
```

A pattern has two to sixteen events of at least two threads. *Scopes*: `region`, an announced region or an outermost critical section;
`unlocked`, neighbouring accesses of one thread outside any; `split`, neighbouring accesses in two critical sections of one thread.

## The patterns that are always looked for

"#;

pub(super) fn page() -> String {
    let rows = standard().into_iter().map(|pattern| {
        vec![
            pattern.name.clone(),
            pattern.kind.words().to_owned(),
            code(&items(&pattern, |step| format!("t{}", step.thread + 1))),
            code(&items(&pattern, |step| format!("x{}", step.variable + 1))),
            code(&items(&pattern, |step| format!("u{}", step.region + 1))),
            code(&items(&pattern, |step| {
                let access = match step.access {
                    Access::Read => "r",
                    Access::Write => "w",
                    Access::Any => "*",
                };
                let at = match step.at {
                    At::Any => "",
                    At::First => " (first)",
                    At::Last => " (last)",
                };
                format!("{access}{at}")
            })),
        ]
    });
    let mut text = head("Patterns", "`crates/analyze/src/predict/patterns.toml`");
    text.push_str(FORM);
    text.push_str(&table(&["pattern", "kind", "T", "SV", "AR", "AT"], rows));
    text.push_str(
        "\nDeadlocks (`lock-cycle`, `lock-upgrade`, `join-holding-lock`, `wait-holding-lock`, `take-holding-lock`, \
         `lock-cycle-waiting-writer`), lost wake-ups (`lost-wakeup`, `signal-one-of-many`) and broken regions (`conflict-cycle`) are no \
         sequences of accesses and have analyses of their own.\n",
    );
    text
}

fn items(pattern: &Pattern, item: impl Fn(&selvedge_analyze::predict::patterns::Step) -> String) -> String {
    pattern.steps.iter().map(item).collect::<Vec<_>>().join("-")
}
