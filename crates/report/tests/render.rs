//! A made trace, rendered in every form. Its image does not exist, so names fall back to offsets.

use std::path::PathBuf;

use selvedge_events::interpose::Slot;
use selvedge_events::pack::{self, object, pc_payload};
use selvedge_events::{EventKind, Mode, Primitive};
use selvedge_report::Filter;
use selvedge_report::columns::{ColumnOptions, write_columns};
use selvedge_report::json::write_json;
use selvedge_report::std_form::write_std_form;
use selvedge_report::text::{TextOptions, write_text};
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{Process, Run, TraceFile};

const SHARED: u64 = 0x40_4010;

fn run() -> Run {
    use EventKind::*;
    let lock = object(0x40_5000, selvedge_events::Acquire::of(Primitive::Mutex, Mode::Exclusive).pack());
    let pc = |offset| pc_payload(0, offset);
    let mut main = Stream::default();
    main.wide(ThreadStart, 96, pack::NO_PC, [u64::from(u32::MAX) << 32, 0, 0])
        .wide(Alloc, 192, pc(0x101), [0x7000_0000_0100, 32, 0])
        .wide(ThreadCreate, 288, pc(0x111), [1, 0, 0])
        .wide(ThreadName, 384, pc(0x113), [1, u64::from_le_bytes(*b"bo\x1bb\0\0\0\0"), 0])
        .wide(Acquire, 2976, pc(0x121), [lock, 0, 0])
        .access(0, SHARED, Some(3072))
        .access(1, SHARED, None);
    let mut child = Stream::default();
    child.wide(ThreadStart, 960, pack::NO_PC, [1, 0, 0]).access(0, SHARED, Some(6048));
    child.access(1, 0x7000_0000_0108, Some(6144));
    let pending = (Slot::pthread_mutex_lock as u32, 0x40_5000, 0x40_0131);
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[0xab; 20], "/no/such/prog")
        .sites(0, &[(0, 0x124, "__tsan_read4"), (1, 0x128, "__tsan_write4")])
        .stream(0, &main)
        .live(&[(1, 0, child.words(), Some(pending))]);
    let file = TraceFile::from_bytes(file.finish()).expect("valid");
    Run { processes: vec![Process::new(file, PathBuf::from("trace.100.0"))] }
}

fn text(options: &TextOptions) -> String {
    text_of(&run(), options)
}

fn text_of(run: &Run, options: &TextOptions) -> String {
    let mut out = Vec::new();
    write_text(run, options, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

/// A run under control: two threads take turns at one variable.
fn controlled() -> Run {
    use EventKind::*;
    let at = |number: u64| number << pack::TICK_SHIFT;
    let (mut main, mut child) = (Stream::default(), Stream::default());
    main.wide(ThreadStart, at(1), pack::NO_PC, [u64::from(u32::MAX) << 32, 0, 0])
        .wide(ThreadCreate, at(2), pc_payload(0, 0x111), [1, 0, 0])
        .access(0, SHARED, Some(at(4)))
        .access(1, SHARED, Some(at(7)));
    child.wide(ThreadStart, at(3), pack::NO_PC, [1, 0, 0]);
    child.access(0, SHARED, Some(at(5))).access(1, SHARED, Some(at(6)));
    let mut file = TraceBuilder::new();
    file.controlled()
        .module(0, 0x40_0000, 0x41_0000, &[0xab; 20], "/no/such/prog")
        .sites(0, &[(0, 0x124, "__tsan_read4"), (1, 0x128, "__tsan_write4")])
        .stream(0, &main)
        .stream(1, &child);
    let file = TraceFile::from_bytes(file.finish()).expect("valid");
    Run { processes: vec![Process::new(file, PathBuf::from("trace.100.0"))] }
}

#[test]
fn under_control_events_have_numbers_instead_of_times() {
    let run = controlled();
    let text = text_of(&run, &TextOptions::default());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("  2 threads, 7 events, "), "{}", lines[1]);
    assert_eq!(lines[2], "  made under control: all events are in one order");
    assert!(!text.contains(" ns") && !text.contains(" ms"), "{text}");
    let stamps: Vec<&str> = text.lines().filter_map(|line| line.trim_start().split(' ').next()).collect();
    assert!(stamps.ends_with(&["#1", "#2", "#3", "#4", "#5", "#6", "#7"]), "{stamps:?}");

    let mut out = Vec::new();
    write_json(&run, &TextOptions::default(), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["controlled"], lines[0].get("tick_ns")), (&true.into(), None));
    assert_eq!((&lines[7]["order"], lines[7].get("time_ns")), (&7.into(), None));

    let mut out = Vec::new();
    write_columns(&run.processes[0], ColumnOptions { width: 80, rows: 100 }, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let firsts: Vec<&str> = text.lines().filter_map(|line| line.split('│').next().map(str::trim)).collect();
    assert_eq!((firsts[0], &firsts[2..]), ("#", &["1", "2", "3", "4", "5", "6", "7"][..]), "{text}");

    let mut out = Vec::new();
    write_std_form(&run.processes[0], &Filter::default(), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let order: Vec<&str> = text.lines().map(|line| line.rsplit_once('|').expect("a location").0).collect();
    assert_eq!(order, ["T0|fork(T1)", "T0|r(V0)", "T1|r(V0)", "T1|w(V0)", "T0|w(V0)"]);
}

#[test]
fn the_text_names_what_it_can() {
    let text = text(&TextOptions::default());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "process 100 of /no/such/prog");
    assert!(lines[1].starts_with("  2 threads, 10 events in 0.002 ms"), "{}", lines[1]);
    for expect in [
        "T1 bob was in pthread_mutex_lock(prog+0x5000) at prog+0x130 when the trace ended",
        "no names from /no/such/prog: it is gone or was built anew since",
        "992 ns  T0      lock           prog+0x5000",
        "1024 ns  T0      read           prog+0x4010",
        "1024 ns~ T0      write          prog+0x4010",
        "2048 ns  T1 bob  write          heap:prog+0x100+0x8",
    ] {
        assert!(text.contains(expect), "no `{expect}` in\n{text}");
    }
    assert!(!text.contains('\x1b'), "a terminal must not obey the guest");
}

#[test]
fn filters_keep_threads_and_variables() {
    let count = |threads: &[&str], variable: Option<&str>| {
        let threads = threads.iter().map(ToString::to_string).collect();
        let filter = Filter { threads, variable: variable.map(str::to_owned) };
        let text = text(&TextOptions { filter, ..TextOptions::default() });
        text.lines().filter(|line| line.contains(" ns") && !line.contains("timed")).count()
    };
    assert_eq!(count(&[], None), 10);
    assert_eq!(count(&["T1"], None), 3);
    assert_eq!(count(&["main/1", "0"], None), 10);
    assert_eq!(count(&["nobody"], None), 0);
    assert_eq!(count(&[], Some("4010")), 3);
    assert_eq!(count(&[], Some("=prog+0x4010")), 3);
    assert_eq!(count(&[], Some("=4010")), 0);
    assert_eq!(count(&["1"], Some("heap:")), 1);
}

#[test]
fn limits_and_summaries_are_short() {
    let limited = text(&TextOptions { limit: Some(2), ..TextOptions::default() });
    assert!(limited.ends_with("… more events; the limit of 2 lines is reached\n"), "{limited}");
    let summary = text(&TextOptions { summary_only: true, ..TextOptions::default() });
    assert!(!summary.contains("thread-create"), "{summary}");
}

#[test]
fn json_lines_have_a_versioned_header() {
    let mut out = Vec::new();
    write_json(&run(), &TextOptions::default(), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 11);
    assert_eq!((&lines[0]["version"], &lines[0]["type"]), (&1.into(), &"trace".into()));
    assert_eq!(lines[0]["blocked"][0]["function"], "pthread_mutex_lock");
    let read = lines.iter().find(|line| line["op"] == "read").expect("the read");
    assert_eq!((&read["time_ns"], &read["size"], &read["timed"]), (&1024.into(), &4.into(), &true.into()));
    assert_eq!(read["address"], "0x404010");
}

#[test]
fn columns_stand_side_by_side_and_fold_private_stretches() {
    let run = run();
    let mut out = Vec::new();
    write_columns(&run.processes[0], ColumnOptions { width: 80, rows: 100 }, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].contains("T0 (main)") && rows[0].contains("T1 bob (main/1)"), "{text}");
    assert!(text.contains("│ … 1 of its own"), "the allocation is main's own:\n{text}");
    let second = rows.iter().position(|row| row.contains("read prog") && row.trim_start().starts_with("1984"));
    assert!(second.is_some_and(|at| rows[at].find("read") > rows[0].find("T1 bob").map(|at| at - 4)), "{text}");
    let mut short = Vec::new();
    write_columns(&run.processes[0], ColumnOptions { width: 80, rows: 2 }, &mut short).expect("memory");
    assert!(String::from_utf8(short).expect("text").contains("more events"));
}

#[test]
fn std_text_has_locations() {
    let run = run();
    let mut out = Vec::new();
    let filter = Filter { threads: vec!["0".into()], ..Filter::default() };
    write_std_form(&run.processes[0], &filter, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text, "T0|fork(T1)|prog+0x110\nT0|acq(L0)|prog+0x120\nT0|r(V0)|prog+0x124\nT0|w(V0)|prog+0x128\n");
}
