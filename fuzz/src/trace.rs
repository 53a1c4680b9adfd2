//! `trace_reader`: asks everything that can be asked of a trace file.

use std::io;
use std::path::PathBuf;

use selvedge_analyze::import::{Options, import};
use selvedge_trace::model::verb;
use selvedge_trace::state::{Heap, Locksets};
use selvedge_trace::std_text::write_std;
use selvedge_trace::{EventRef, Process, Survey, TraceFile};

use crate::text;

/// Most events that are asked about one by one.
const BOUND: usize = 20_000;
/// Events that are written as text.
const WRITTEN: usize = 64;

/// Opens the bytes as a trace file and reads all of it.
pub fn exercise(bytes: Vec<u8>) {
    let size = bytes.len() as u64;
    let file = match TraceFile::from_bytes(bytes) {
        Ok(file) => file,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return;
        }
    };
    assert_eq!(file.len(), size);
    describe(&file);
    let process = Process::new(file, PathBuf::from("fuzzed"));
    let events = threads(&process);
    merged(&process, events);
    questions(&process);
    imported(&process, events);
}

/// Imports it, both ways.
fn imported(process: &Process, events: u64) {
    for keep_private in [false, true] {
        let options = Options { keep_private, most_events: BOUND as u32 };
        let imported = import(process, &options);
        text::history(&imported.history);
        assert!(imported.left_out.cut || imported.events == events, "every event is imported or counted");
        for number in 0..imported.history.len() as u32 {
            assert!(imported.event_ref(number).is_some() && imported.place(number).is_some());
        }
    }
}

fn describe(file: &TraceFile) {
    assert!(file.header().counters().all(|(_, sentence, value)| value > 0 && !sentence.is_empty()));
    for thread in file.threads() {
        assert!(file.thread_bytes(thread) <= file.len());
        let _ = file.thread_lost(thread);
    }
    assert!(file.damages().windows(2).all(|pair| pair[0].offset <= pair[1].offset), "damages out of order");
    for damage in file.damages() {
        assert!(!damage.to_string().is_empty());
    }
    assert!(file.modules().windows(2).all(|pair| pair[0].index < pair[1].index), "modules out of order");
    for number in 0..4 {
        assert!(file.stack(number).is_none_or(|stack| stack.bytes.len() as u64 <= file.len()));
    }
    let _ = (file.is_empty(), file.pending(), file.more_damages(), file.foreign_chunks(), file.holes());
}

/// Reads every thread on its own; answers how many events there are.
fn threads(process: &Process) -> u64 {
    let mut total = 0;
    for thread in process.file().threads() {
        let mut events = process.thread_events(thread);
        let mut last = None;
        for (number, event) in (0..).zip(events.by_ref()) {
            assert_eq!(event.id(), EventRef { thread, index: number }, "events are numbered");
            assert!(last.is_none_or(|last| last <= event.time), "time went backwards within a thread");
            last = Some(event.time);
            total += 1;
        }
        let _ = (events.left_out(), events.bytes());
    }
    let summary = process.summary();
    assert_eq!(summary.events, total, "the summary counts what there is");
    assert!(summary.timed <= summary.events);
    assert!(summary.first <= summary.last);
    for thread in &summary.threads {
        assert!(!thread.display_name().is_empty());
        assert_eq!(process.thread(thread.index), Some(thread));
    }
    total
}

/// Reads all threads in the merged order.
fn merged(process: &Process, events: u64) {
    let (mut locks, mut heap) = (Locksets::default(), Heap::default());
    let mut last = None;
    let mut count = 0;
    for event in process.events() {
        count += 1;
        assert!(last.is_none_or(|last| last <= event.time), "time went backwards in the merged order");
        last = Some(event.time);
        if count > BOUND as u64 {
            continue;
        }
        locks.apply(&event);
        heap.apply(&event);
        if let Some(access) = process.access(&event) {
            let _ = heap.block_of(access.addr);
            assert!(heap.stacks().iter().all(|(_, kept)| kept.number > 0));
        }
        let _ = (locks.held(event.thread), process.code(event.place), process.nanos(event.time));
        assert!(!verb(process, &event).is_empty());
        if count % 16 == 0 {
            let _ = process.contexts().frames(event.context);
        }
    }
    assert_eq!(count, events, "merging loses and invents nothing");
}

fn questions(process: &Process) {
    assert!(process.tick_nanos().is_finite());
    let _ = (process.blocked(), process.exactness());
    let mut survey = Survey::default();
    survey.add_process(process);
    let once = survey.clone();
    survey.merge(&once);
    assert_eq!(survey, once, "merging is idempotent");
    assert!(survey.shared_sites() <= survey.seen_sites());
    let mut left = WRITTEN;
    let mut keep = |_: &_| {
        let keep = left > 0;
        left = left.saturating_sub(1);
        keep
    };
    let written = write_std(process, &mut keep, &mut |_| "a b|c".to_owned(), &mut io::sink());
    assert!(written.is_ok(), "a sink takes everything");
}
