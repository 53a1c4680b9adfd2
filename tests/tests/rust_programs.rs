//! Rust programs built by plain `rustc` with the wrapper as the linker: the same output as a plain build, and a
//! trace with atomics, waits, thread names and functions as the source has them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use selvedge_itest::{Ending, Lab, Program, Trace, guilty_lines, instrumented_rustc};

const FLAGS: [&str; 4] = ["--edition=2024", "-g", "-O", "-o"];

/// A program in both builds.
struct Pair {
    lab: Lab,
    program: Program,
    source: String,
    plain: PathBuf,
    instrumented: PathBuf,
}

impl Pair {
    fn build(name: &str) -> Pair {
        let lab = Lab::new();
        let program = lab.program(name);
        let source = fs::read_to_string(&program.source).expect("readable");
        let (plain, instrumented) = (lab.path("plain"), lab.path("instrumented"));
        let rustc = instrumented_rustc(lab.selvedge(), &lab.path("")).expect("linked");
        for (compiler, output) in [(vec![OsString::from("rustc")], &plain), (rustc, &instrumented)] {
            let flags = FLAGS.map(OsString::from).into_iter();
            let command = compiler.into_iter().chain(flags).chain([output.into(), program.source.clone().into()]);
            let built = lab.run(command);
            assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
        }
        Pair { lab, program, source, plain, instrumented }
    }

    /// Runs it in all ways, which must look the same, and gives the trace.
    fn record(&self) -> Trace {
        let native = self.lab.run([&self.plain]);
        assert_eq!(native.ending, self.program.directives.ending);
        assert_eq!(self.lab.run([&self.instrumented]), native, "disarmed");
        let recorded = self.lab.record("store", [&self.instrumented]);
        assert_eq!((recorded.ending, &recorded.stdout), (native.ending, &native.stdout), "{}", recorded.stderr);
        let trace = self.lab.latest("store");
        assert!(trace.header.damages.is_empty() && trace.counter("dropped") == 0, "{:?}", trace.header);
        trace
    }

    /// The lines of the program on which events of this kind happened.
    fn lines(&self, trace: &Trace, kind: fn(&str) -> bool) -> BTreeSet<u32> {
        let file = self.program.source.to_str();
        let mine = trace.events.iter().filter(|event| event.file.as_deref() == file && kind(&event.op));
        mine.filter_map(|event| event.line).collect()
    }

    /// Asserts that every line of the source that has one of these words has such an event.
    fn expect_events(&self, trace: &Trace, words: &[&str], kind: fn(&str) -> bool) {
        let seen = self.lines(trace, kind);
        let mut expected =
            (1..).zip(self.source.lines()).filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        let first = expected.next().unwrap_or_else(|| panic!("no line has {words:?}"));
        for (number, line) in std::iter::once(first).chain(expected) {
            assert!(seen.contains(&number), "no event at line {number} (`{}`), only at {seen:?}", line.trim());
        }
    }
}

fn is_atomic(op: &str) -> bool {
    op.starts_with("atomic-") || op.starts_with("compare-exchange")
}

/// Names of functions are as in the source: neither mangled nor with a hash at the end.
fn check_functions(trace: &Trace, wanted: &str) {
    let functions: BTreeSet<&str> = trace.events.iter().filter_map(|event| event.function.as_deref()).collect();
    assert!(functions.contains(wanted), "no {wanted} in {functions:#?}");
    for function in functions {
        assert!(!function.starts_with("_ZN") && !function.starts_with("_R"), "{function} is mangled");
    }
}

#[test]
fn scoped_atomics_are_recorded_with_their_lines() {
    let pair = Pair::build("clean/scoped_atomics.rs");
    let trace = pair.record();
    pair.expect_events(&trace, &["ready.load(", "ready.store(", ".fetch_add("], is_atomic);
    pair.expect_events(&trace, &["table.write()", "table.read()"], is_atomic);
    check_functions(&trace, "scoped_atomics::main::{closure#0}::{closure#0}");
    assert_eq!(trace.header.threads.len(), 6);
}

#[test]
fn mutexes_and_channels_are_recorded_with_their_lines() {
    let pair = Pair::build("clean/mutex_channels.rs");
    let trace = pair.record();
    pair.expect_events(&trace, &[".lock()"], is_atomic);
    pair.expect_events(&trace, &[".join()"], |op| op == "thread-join");
    pair.expect_events(&trace, &[".notify_all()"], |op| op == "futex-wake");
    // Calls that std makes may have no line of the program's own, but the executable they are in is known.
    let nameless = trace.events.iter().find(|event| {
        ["alloc", "free", "thread-create", "futex-wait-begin"].contains(&event.op.as_str()) && event.function.is_none()
    });
    assert!(nameless.is_none(), "{nameless:?}");
    check_functions(&trace, "mutex_channels::main");
    assert_eq!(trace.header.threads.len(), 5);
}

#[test]
fn a_race_is_recorded_with_its_lines_threads_and_waits() {
    let pair = Pair::build("race/torn_statistics.rs");
    let trace = pair.record();
    for (line, _) in guilty_lines(&pair.source) {
        let line = u32::try_from(line).expect("small");
        for op in ["read", "write"] {
            let there = trace.events.iter().filter(|event| event.line == Some(line) && event.op == op);
            let threads: BTreeSet<u32> = there.map(|event| event.thread).collect();
            let tellers =
                ["teller-1", "teller-2"].map(|name| trace.thread(name).unwrap_or_else(|| panic!("no {name}")));
            assert_eq!(threads, BTreeSet::from(tellers), "{op} at line {line}");
        }
    }
    let writes = |event: &&selvedge_itest::Event| {
        event.function.as_deref() == Some("torn_statistics::count_visit") && event.op == "write"
    };
    assert_eq!(trace.events.iter().filter(writes).count(), 2 * 400);
    let clerk = trace.thread("clerk").expect("the clerk has a name");
    let waits = trace.events.iter().any(|event| event.thread == clerk && event.op == "futex-wait-begin");
    assert!(waits, "no wait of the clerk");
    check_functions(&trace, "torn_statistics::count_visit");
}
