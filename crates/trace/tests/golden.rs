//! A file of every format version ever written still opens and reads the same.
//!
//! `SELVEDGE_BLESS=1 cargo test -p selvedge-trace --test golden` writes the current version's file anew;
//! an older version's file is never touched.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use selvedge_events::event::KINDS;
use selvedge_events::pack::{object, pc_payload};
use selvedge_events::{Acquire, EventKind, Mode, Primitive};
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{Process, TraceFile};

/// One event of every kind, in two threads.
fn current() -> Vec<u8> {
    let mut main = Stream::default();
    main.push(0x40_1000);
    for (step, kind) in (1_u64..).zip(KINDS) {
        let words = match kind {
            EventKind::Acquire | EventKind::Release | EventKind::Destroy => {
                [object(0x5000, Acquire::of(Primitive::Mutex, Mode::Exclusive).pack()), 0, 0]
            }
            _ => [step, step + 1, step + 2],
        };
        main.wide(kind, step * 0x1_0000, pc_payload(0, 3), words);
    }
    let mut other = Stream::default();
    other.access(0, 0x7f00_0000_0010, Some(64)).access(1, 0x10, None).access(1 << 14, 0x20, Some(128));
    // Ranges in their three forms.
    other.range(4, 0x7f00_0000_0020, 24, false, None).range(4, 0x7f00_0000_0040, 24, true, Some(192)).range(
        4,
        0x7f00_0000_0060,
        1 << 16,
        true,
        Some(256),
    );
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[0xc0; 20], "/usr/bin/golden")
        .sites(
            0,
            &[
                (0, 0x100, "__tsan_read8"),
                (1, 0x108, "__tsan_write4"),
                (3, 0x10c, "__tsan_atomic32_load"),
                (4, 0x110, "memcpy"),
            ],
        )
        .survey(0, &[1 << 32 | 7])
        .stream(0, &main)
        .hole(1)
        .stream(1, &other);
    file.finish()
}

fn render(path: &Path) -> String {
    let process = Process::open(path).expect("opens");
    let header = process.file().header();
    let counters: Vec<_> = header.counters().collect();
    let mut text =
        format!("pid {} flags {} clocks {:?} {:?} {counters:?}\n", header.pid, header.flags, header.start, header.last);
    for module in process.file().modules() {
        writeln!(text, "{module:?}").expect("memory");
    }
    for (id, site) in process.file().sites() {
        writeln!(text, "{id} {site:?}").expect("memory");
    }
    for event in process.events() {
        let frames = process.contexts().frames(event.context);
        let (thread, index, time) = (event.thread, event.index, event.time);
        writeln!(text, "{thread}.{index} {time} {:?} {frames:x?} {:?} {:?}", event.exactness, event.place, event.body)
            .expect("memory");
    }
    text
}

#[test]
fn version_1_still_opens() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (file, text) = (dir.join("v1.trace"), dir.join("v1.txt"));
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&file, current()).expect("written");
        std::fs::write(&text, render(&file)).expect("written");
    }
    let expect = std::fs::read_to_string(&text).expect("the golden text");
    assert_eq!(render(&file), expect, "the golden file reads differently");
    let trace = TraceFile::open(&file).expect("opens");
    assert_eq!(trace.damages(), []);
}
