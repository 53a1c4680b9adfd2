//! RAPID's text, read.

use proptest::prelude::*;
use selvedge_analyze::std_text::{Imported, Problem, parse};
use selvedge_analyze::{Names, Op};

fn read(text: &str) -> Imported {
    parse(text.as_bytes()).expect("a trace")
}

/// The history as `T1 Read x @3`.
fn told(imported: &Imported) -> Vec<String> {
    let history = &imported.history;
    let line = |(event, line): (&selvedge_analyze::Event, &u64)| {
        let name = |names: &Names| names.text(event.target);
        let target = match event.op {
            Op::Acquire | Op::Release => name(&imported.locks),
            Op::Fork | Op::Join => name(&imported.threads),
            Op::Post | Op::Take => imported.locks.text(imported.objects[event.target as usize]),
            Op::Enter | Op::Exit => String::new(),
            _ => name(&imported.variables),
        };
        let thread = imported.threads.text(u32::from(event.thread));
        format!("{thread} {:?} {target} {} @{line}", event.op, imported.locations.text(event.location))
    };
    history.events.iter().zip(&history.sources).map(line).collect()
}

fn problems(imported: &Imported) -> Vec<(u64, Problem, &str)> {
    imported.diagnostics.iter().map(|found| (found.line, found.problem, found.name.as_str())).collect()
}

#[test]
fn every_word_is_understood() {
    let imported = read(
        "T0|fork(T1)|1\r\n\nT0|begin|2\nT0|acq(L)|3\nT0|w(V1.2[3])|a b\nT0|rel(L)|4\nT0|end()\n\
         T1|req(L)|5\nT1|acq(L)|5\nT1|r(V1.2[3])|6\nT1|rel(L)|7\nT1|r(f(x))|7\nT0|join(T1)|8",
    );
    let expect = [
        "T0 Fork T1 1 @0",
        "T0 Enter  2 @2",
        "T0 Acquire L 3 @3",
        "T0 Write V1.2[3] a b @4",
        "T0 Release L 4 @5",
        "T0 Exit   @6",
        "T1 Acquire L 5 @8",
        "T1 Read V1.2[3] 6 @9",
        "T1 Release L 7 @10",
        "T1 Read f(x) 7 @11",
        "T0 Join T1 8 @12",
    ];
    assert_eq!(told(&imported), expect);
    assert_eq!(imported.passed_over, 1);
    assert_eq!(problems(&imported), []);
    let history = &imported.history;
    assert_eq!((history.threads, history.variables, history.locks, history.objects), (2, 2, 1, 0));
    assert_eq!(history.locations as usize, imported.locations.len());
    assert_eq!(imported.line(3), Some(4));
    assert!(read("").history.is_empty());
}

#[test]
fn errors_say_where_and_what() {
    let table = [
        ("T0|r(x)|1\nT1\n", "line 2, column 3: expected `|` after the thread"),
        ("T0 w x", "line 1, column 7: expected `|` after the thread"),
        ("|r(x)|1\n", "line 1, column 1: expected the name of a thread"),
        ("T0|read(x)|1\n", "line 1, column 4: expected r, w, acq, rel, fork, join, begin or end"),
        ("T0||1\n", "line 1, column 4: expected r, w, acq, rel, fork, join, begin or end"),
        ("T0|r|1\n", "line 1, column 5: expected `(` after the word"),
        ("T0|r(x|1\n", "line 1, column 7: expected `)` after the operand"),
        ("T0|r(x\r\n", "line 1, column 7: expected `)` after the operand"),
        ("T0|r()|1\n", "line 1, column 5: expected an operand"),
        ("\n\nT0|(x)|1\n", "line 3, column 4: expected r, w, acq, rel, fork, join, begin or end"),
    ];
    for (text, expect) in table {
        assert_eq!(parse(text.as_bytes()).expect_err(text).to_string(), expect, "{text:?}");
    }
}

#[test]
fn what_cannot_have_happened_is_told_and_survived() {
    use Problem::*;
    type Row = (&'static str, &'static [(u64, Problem, &'static str)], &'static [&'static str]);
    let table: [Row; 9] = [
        ("T0|rel(L)|1\nT0|acq(L)|2\n", &[(1, ReleaseOfUnheld, "L")], &["T0 Post L 1 @0", "T0 Take L 2 @1"]),
        (
            "T0|acq(L)|1\nT1|acq(L)|2\nT1|rel(L)|3\n",
            &[(2, AcquireOfHeld, "L")],
            &["T0 Take L 1 @0", "T1 Take L 2 @1", "T1 Post L 3 @2"],
        ),
        (
            "T0|acq(L)|1\nT0|acq(L)|2\nT0|rel(L)|3\nT0|w(x)|4\nT0|rel(L)|5\n",
            &[(2, Reentrant, "L")],
            &["T0 Acquire L 1 @0", "T0 Write x 4 @3", "T0 Release L 5 @4"],
        ),
        ("T1|w(x)|1\nT0|fork(T1)|2\n", &[(2, LateFork, "T1")], &["T1 Write x 1 @0"]),
        (
            "T0|join(T1)|1\nT1|w(x)|2\nT0|join(T1)|3\n",
            &[(2, AfterJoin, "T1"), (3, SecondJoin, "T1")],
            &["T0 Join T1 1 @0"],
        ),
        ("T0|fork(T0)|1\n", &[(1, Itself, "T0")], &[]),
        ("T0|end|1\nT0|begin|2\n", &[(1, UnopenedRegion, "T0"), (2, UnclosedRegion, "T0")], &["T0 Enter  2 @1"]),
        (
            "T0|acq(L)|1\nT0|acq(M)|2\nT0|rel(L)|3\n",
            &[(2, UnclosedLock, "M")],
            &["T0 Acquire L 1 @0", "T0 Acquire M 2 @1", "T0 Release L 3 @2"],
        ),
        ("T0|w(x)|1\nT0|w(", &[(2, CutLine, "")], &["T0 Write x 1 @0"]),
    ];
    for (text, expect, events) in table {
        let imported = read(text);
        assert_eq!(problems(&imported), expect, "{text:?}");
        assert_eq!(told(&imported), events, "{text:?}");
        for diagnostic in &imported.diagnostics {
            assert!(diagnostic.to_string().starts_with("line "));
        }
    }
}

#[test]
fn there_is_an_end_to_diagnostics_and_threads() {
    let imported = read(&"T0|rel(L)|1\nT0|end|1\n".repeat(1500));
    assert_eq!((imported.diagnostics.len(), imported.more_diagnostics), (1000, 501));
    let text: String = (0..70_000).map(|thread| format!("T{thread}|w(x)|1\n")).collect();
    assert_eq!(
        parse(text.as_bytes()).expect_err("too many").to_string(),
        "line 65537, column 1: expected at most 65536 threads"
    );
}

fn line() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["r", "w", "acq", "rel", "fork", "join", "begin", "end", "req"]);
    (0..4_u8, word, 0..4_u8, 0..3_u8).prop_map(|(thread, word, operand, location)| {
        let operand = match word {
            "fork" | "join" => format!("(T{operand})"),
            "begin" | "end" => String::new(),
            _ => format!("(x{operand})"),
        };
        format!("T{thread}|{word}{operand}|{location}\n")
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn nearly_lines_are_a_trace_or_an_error(text in "([T|rwacqel()01 \r\n]{0,6}){0,30}") {
        let _ = parse(text.as_bytes());
    }

    /// What is read keeps what a history promises, whatever the lines say.
    #[test]
    fn histories_are_well_formed(lines in prop::collection::vec(line(), 0..80)) {
        let text = lines.concat();
        let imported = read(&text);
        let history = &imported.history;
        prop_assert!(history.sources.is_sorted_by(|one, two| one < two));
        let mut owners = std::collections::BTreeMap::new();
        let (mut begun, mut joined) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for event in &history.events {
            prop_assert!(u32::from(event.thread) < history.threads && event.location < history.locations);
            prop_assert!(!joined.contains(&u32::from(event.thread)));
            begun.insert(u32::from(event.thread));
            match event.op {
                Op::Acquire => prop_assert_eq!(owners.insert(event.target, event.thread), None),
                Op::Release => prop_assert_eq!(owners.remove(&event.target), Some(event.thread)),
                Op::Fork => prop_assert!(begun.insert(event.target)),
                Op::Join => prop_assert!(joined.insert(event.target)),
                Op::Post | Op::Take => prop_assert!(event.target < history.objects),
                Op::Enter | Op::Exit => {}
                _ => prop_assert!(event.target < history.variables),
            }
        }
    }
}
