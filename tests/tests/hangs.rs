//! Hangs and failures of real programs, made under control and explained: `crates/report/tests/programs` has the programs.

use std::path::{Path, PathBuf};

use selvedge_drive::clip::bare;
use selvedge_findings::{Harm, Kind, Status};
use selvedge_itest::{Recorded, Subject};
use selvedge_report::Names;
use selvedge_report::columns::ColumnOptions;
use selvedge_report::critical::{CriticalPair, Deciding, switch_numbers, write_pair};
use selvedge_report::hang::{Hang, HangKind, write_hang};
use selvedge_report::interleaving::{Excerpt, write_interleaving};
use selvedge_sched::{Spec, Step, StrategyKind, Switch, Verdict, critical_switch, minimize};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/report/tests/programs").join(name)
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("memory");
    // Where the repository lies is no part of what is expected.
    let dir = program("").canonicalize().expect("it is there");
    String::from_utf8(out).expect("text").replace(&format!("{}/", dir.display()), "")
}

/// What is expected of a program that hangs.
struct Expected {
    program: &'static str,
    /// Arguments with which it does not.
    survey: &'static [&'static str],
    kind: HangKind,
    /// The first lines of the report.
    begin: &'static str,
    /// Other lines of it; `*` stands for a thread's number.
    lines: &'static [&'static str],
    summary: &'static str,
    /// The finding's accesses: operation, function, line, variable.
    accesses: &'static [&'static str],
}

const EXPECTED: &[Expected] = &[
    Expected {
        program: "two_locks.c",
        survey: &[],
        kind: HangKind::Deadlock,
        begin: "deadlock (lock-order inversion)\n  Cycle in lock order: T1: `accounts` -> `journal` (held by T2) -> `accounts`\n",
        lines: &[
            "  Thread T1 'teller' waits for lock `journal` at two_locks.c:11 in take, held by T2:",
            "    #0 take two_locks.c:11:5",
            "  It holds lock `accounts`, taken at two_locks.c:16 in deposit:",
            "    #0 deposit two_locks.c:16:5",
            "  Thread T2 waits for lock `accounts` at two_locks.c:29 in audit, held by T1 'teller':",
            "  Thread T0 (main) waits for the end of T1 'teller' at two_locks.c:42 in main:",
            "  Thread T1 'teller' created by T0 (main) at:",
        ],
        summary: "deadlock two_locks.c:11 in take and two_locks.c:29 in audit",
        accesses: &[
            "lock deposit:16 accounts",
            "lock take:11 journal",
            "lock audit:27 journal",
            "lock audit:29 accounts",
        ],
    },
    Expected {
        program: "futex_locks.c",
        survey: &["orderly"],
        kind: HangKind::Deadlock,
        begin: "deadlock (lock-order inversion)\n  Cycle in lock order: T0: `accounts` -> `journal` (presumably held by T1) -> \
                `accounts`\n",
        lines: &[
            "  Thread T0 (main) waits for futex `journal` at futex_locks.c:18 in lock, presumably held by T1:",
            "  It presumably holds futex `accounts`, last taken at futex_locks.c:15 in lock:",
            "  Thread T1 waits for futex `accounts` at futex_locks.c:18 in lock, presumably held by T0 (main):",
        ],
        summary: "deadlock futex_locks.c:18 in lock",
        accesses: &["lock lock:15 accounts", "wait lock:18 journal", "lock lock:15 journal", "wait lock:18 accounts"],
    },
    Expected {
        program: "three_locks.c",
        survey: &[],
        kind: HangKind::Deadlock,
        begin: "deadlock (lock-order inversion)\n  Cycle in lock order: T1: `heap:three_locks.c:28+0x8` -> \
                `heap:three_locks.c:28+0x38` (held by T2) -> `heap:three_locks.c:28+0x68` (held by T3) -> \
                `heap:three_locks.c:28+0x8`\n",
        lines: &["  It holds lock `heap:three_locks.c:28+0x68`, taken at three_locks.c:16 in dine:"],
        summary: "deadlock three_locks.c:18 in dine",
        accesses: &[
            "lock dine:16 heap:three_locks.c:28+0x8",
            "lock dine:18 heap:three_locks.c:28+0x38",
            "lock dine:16 heap:three_locks.c:28+0x38",
            "lock dine:18 heap:three_locks.c:28+0x68",
            "lock dine:16 heap:three_locks.c:28+0x68",
            "lock dine:18 heap:three_locks.c:28+0x8",
        ],
    },
    Expected {
        program: "join_cycle.c",
        survey: &["well"],
        kind: HangKind::Deadlock,
        begin: "deadlock (threads wait for each other)\n  Cycle: T0 waits for the end of T1, T1 waits for lock `pool.lock` (held by T0)\n",
        lines: &["    #0 shut_down join_cycle.c:22:5", "    #1 main join_cycle.c:34:9"],
        summary: "deadlock join_cycle.c:22 in shut_down and join_cycle.c:12 in work",
        accesses: &["lock shut_down:20 pool.lock", "join shut_down:22 ", "lock work:12 pool.lock"],
    },
    Expected {
        program: "self_lock.c",
        survey: &["well"],
        kind: HangKind::Deadlock,
        begin: "deadlock (a thread waits for a lock that it holds)\n",
        lines: &["    #0 length self_lock.c:10:5"],
        summary: "deadlock self_lock.c:10 in length",
        accesses: &["lock append:20 lock", "lock length:10 lock"],
    },
    Expected {
        program: "lost_wakeup.c",
        survey: &[],
        kind: HangKind::LostWakeup,
        begin: "lost wake-up of condition `full`\n  T2 'producer' signalled condition `full` when nobody waited; T1 'consumer' \
                has waited since, and nobody is left to wake it\n",
        lines: &[
            "  Thread T2 'producer' signalled condition `full` at lost_wakeup.c:23 in produce, before T1 'consumer' waited:",
        ],
        summary: "lost-wakeup lost_wakeup.c:13 in consume and lost_wakeup.c:23 in produce",
        accesses: &["signal produce:23 full", "wait consume:13 full"],
    },
    Expected {
        program: "readers.c",
        survey: &[],
        kind: HangKind::Deadlock,
        begin: "deadlock (lock-order inversion)\n  Cycle in lock order: T1: `index_` -> `table`",
        lines: &["  It holds reader-writer lock (reading) `index_`, taken at readers.c:11 in insert:"],
        summary: "deadlock readers.c:13 in insert and readers.c:24 in rebuild",
        accesses: &["lock insert:11 index_", "lock insert:13 table", "lock rebuild:22 table", "lock rebuild:24 index_"],
    },
    Expected {
        program: "nested_monitor.c",
        survey: &[],
        kind: HangKind::Deadlock,
        begin: "deadlock (a lock is held during a wait)\n  Cycle: T1 waits for lock `outer` (held by T2), T2 waits for condition \
                `filled`, which T1 might signal\n",
        lines: &["    #0 main nested_monitor.c:38:5"],
        summary: "deadlock nested_monitor.c:24 in produce and nested_monitor.c:15 in consume",
        accesses: &["lock produce:24 outer", "lock consume:12 outer", "wait consume:15 filled"],
    },
    Expected {
        program: "few_posts.c",
        survey: &["well"],
        kind: HangKind::LostWakeup,
        begin: "lost wake-up of semaphore `permits`\n",
        lines: &["    #0 use few_posts.c:14:5"],
        summary: "lost-wakeup few_posts.c:13 in use",
        accesses: &["wait use:13 permits"],
    },
    Expected {
        program: "left_locked.c",
        survey: &["well"],
        kind: HangKind::Stuck,
        begin: "hang (a lock is never given back)\n",
        lines: &["    #0 fill left_locked.c:10:5"],
        summary: "hang left_locked.c:10 in fill",
        accesses: &["lock fill:10 cache", "lock fill:10 cache"],
    },
];

#[test]
fn hangs_are_explained_and_keep_their_ids() {
    for expected in EXPECTED {
        let name = expected.program;
        let subject = Subject::new(&program(name), expected.survey);
        let run = subject.find(1, Recorded::hangs);
        assert!(run.process.is_controlled());
        let names = Names::new(&run.process);
        let hang = Hang::of(&names).expect("it hangs");
        let report = text(|out| write_hang(&hang, 7, &["again: selvedge replay x.clip".into()], out));
        assert_eq!(hang.kind, expected.kind, "{report}");
        let begin =
            format!("==================\nWARNING: Selvedge: {}", expected.begin.replacen('\n', " (pid=7)\n", 1));
        assert!(report.starts_with(&begin), "{name}: {begin}\n{report}");
        for line in expected.lines {
            assert!(report.lines().any(|there| there == *line), "{name}: no `{line}` in\n{report}");
        }
        let end =
            format!("  again: selvedge replay x.clip\nSUMMARY: Selvedge: {}\n==================\n", expected.summary);
        assert!(report.ends_with(&end), "{name}: {report}");
        assert!(!report.contains("0x7") && !report.contains("??"), "no raw addresses: {report}");

        let finding = hang.finding();
        let kind = if hang.kind == HangKind::LostWakeup { Kind::LostWakeup } else { Kind::Deadlock };
        assert_eq!((finding.kind, finding.status, finding.harm), (kind, Status::Confirmed, Harm::Hang), "{name}");
        let accesses = finding.accesses.iter().map(|access| {
            let function = access.function.as_deref().unwrap_or("?");
            let variable = access.variable.as_deref().unwrap_or("");
            format!("{} {function}:{} {variable}", access.op, access.line.unwrap_or(0))
        });
        assert_eq!(accesses.collect::<Vec<_>>(), expected.accesses, "{name}");

        // Other schedules, other addresses, other threads: the same bug.
        let again = subject.find(1000, |other| other.hangs() && other.answer.digest != run.answer.digest);
        let again = Hang::of(&Names::new(&again.process)).expect("it hangs");
        assert_eq!(again.id(), finding.id, "{name}");
    }
}

#[test]
fn where_the_first_stack_lies_is_not_left_to_chance() {
    let subject = Subject::new(&program("stack_place.c"), &[]);
    let spec = Spec { kind: StrategyKind::Random, seed: 3, ..Spec::default() };
    let events = || subject.record(spec, &[]).process.events().count();
    // By chance one in 256 is like the one before.
    let first = events();
    assert_eq!([events(), events(), events()], [first; 3]);
}

#[test]
fn a_lost_update_has_its_critical_pair() {
    let subject = Subject::new(&program("bank.c"), &[]);
    let found = subject.find(1, |run| !run.status.success());
    let run = |given: &[Switch]| {
        let script: Vec<Step> = given.iter().map(bare).collect();
        subject.record(Spec { kind: StrategyKind::Replay, ..Spec::default() }, &script)
    };
    let verdict = |given: &[Switch]| if run(given).status.success() { Verdict::Passes } else { Verdict::Fails };
    let whole: Vec<Switch> = found.script.iter().map(Step::switch).collect();
    let least = minimize(&whole, 1000, verdict);
    let critical = critical_switch(&[], &least.schedule, 100, verdict).expect("a switch decides");
    let failing = run(&critical.failing);
    let deciding = Deciding::of_switch(&failing.process, &failing.answer.log, &critical.switch).expect("it was taken");
    let pair = CriticalPair::of(&Names::new(&failing.process), &deciding).expect("a pair");
    let report = text(|out| write_pair(&pair, out));
    // Either thread may be the one that was held back.
    let (delayed, ahead) = (&pair.delayed.name, &pair.ahead.name);
    let sentence = format!(
        "  In the failing run {ahead}'s write of `balance` at bank.c:10 comes between {delayed}'s read (bank.c:9) and write \
         (bank.c:10) of it; in the passing run it does not.\n"
    );
    assert!(report.starts_with(&sentence), "{sentence}\n{report}");
    assert!(report.contains("    #0 deposit bank.c:9:9\n"), "{report}");
    let finding = pair.finding(Harm::Assertion);
    assert_eq!((finding.kind, finding.accesses.len()), (Kind::AtomicityViolation, 3));

    let excerpt = Excerpt {
        switches: switch_numbers(&failing.process, &failing.answer.log),
        marks: pair.numbers(),
        around: 2,
        last: 2,
    };
    let columns =
        text(|out| write_interleaving(&failing.process, &excerpt, ColumnOptions { width: 110, rows: 50 }, out));
    let marked: Vec<&str> = columns.lines().filter(|line| line.trim_start().starts_with('>')).collect();
    assert_eq!(marked.len(), 3, "{columns}");
    assert!(marked.iter().all(|line| line.contains(" balance")), "{columns}");
}
