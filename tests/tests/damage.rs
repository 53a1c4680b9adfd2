//! Files that are not what they should be: traces, plans, site tables, run records, surveys.
//!
//! Reading a damaged file gives what can be read and a sentence with the place, or one line that says why
//! nothing can. A guest never suffers from what it was started with.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};
use selvedge_itest::{Ending, Lab, Outcome, Trace};

/// Exit code for something that cannot be used.
const USAGE: i32 = 2;

/// Most memory for reading a damaged file, in KiB: a length in it must not be believed.
const MEMORY_KIB: &str = "2000000";

const PROGRAM: &str = "clean/bounded_buffer.c";

/// Numbers that are as good as random, and the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// A program with one recorded run.
struct Recorded {
    lab: Lab,
    program: PathBuf,
    file: PathBuf,
    bytes: Vec<u8>,
    trace: Trace,
}

impl Recorded {
    fn new() -> Recorded {
        let lab = Lab::new();
        let program = lab.wrapped(PROGRAM);
        assert_eq!(lab.record("store", [&program]).ending, Ending::Exit(0));
        let file = lab.trace_files("store", 1).remove(0);
        let bytes = fs::read(&file).expect("readable");
        let trace = lab.trace_file(&file);
        Recorded { lab, program, file, bytes, trace }
    }

    /// Reads a file as a trace in bounded memory.
    fn read(&self, path: &Path, flag: &str) -> Outcome {
        let bounded = ["sh", "-c", "ulimit -v $0; exec \"$@\"", MEMORY_KIB].map(OsStr::new);
        let command = [self.lab.selvedge().as_os_str(), "trace".as_ref(), flag.as_ref(), path.as_os_str()];
        self.lab.run(bounded.into_iter().chain(command))
    }

    /// Reads changed bytes as a trace: refused in one line, or read; never a crash.
    fn read_changed(&self, bytes: &[u8], what: &str) -> Option<Trace> {
        let path = self.lab.path("changed");
        fs::write(&path, bytes).expect("written");
        let outcome = self.read(&path, "--json");
        if outcome.ending == Ending::Exit(0) {
            let mut traces = Trace::parse(&outcome.stdout).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(traces.len(), 1, "{what}");
            return traces.pop();
        }
        refused(&outcome, what);
        None
    }

    /// Changed bytes are refused in one line, or summed up; never a crash.
    fn survives(&self, bytes: &[u8], what: &str) {
        let path = self.lab.path("changed");
        fs::write(&path, bytes).expect("written");
        let outcome = self.read(&path, "--summary");
        if outcome.ending != Ending::Exit(0) {
            refused(&outcome, what);
        }
    }
}

/// One line that says why, on standard error; nothing else.
fn refused(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.ending, Ending::Exit(USAGE), "{what}: {}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("selvedge: error: "), "{what}: {lines:?}");
    assert_eq!(outcome.stdout, "", "{what}");
}

/// The events of each thread, as far as they can be told apart.
fn by_thread(trace: &Trace) -> BTreeMap<u32, Vec<String>> {
    let mut threads: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for event in &trace.events {
        let text = format!("{} {:?} {:?}", event.op, event.address, event.line);
        threads.entry(event.thread).or_default().push(text);
    }
    threads
}

#[test]
fn a_truncated_trace_is_read_up_to_its_end() {
    let recorded = Recorded::new();
    let whole = by_thread(&recorded.trace);
    let len = recorded.bytes.len();
    let mut lengths = vec![0, 1, 7, 8, 64, 4095, 4096, 4097, 4160, 8192, 8200, 12_288, len - 1];
    lengths.extend((1..24).map(|part| len * part / 24 + part));
    let (mut cut, mut refusals) = (0, 0);
    let mut silent = Vec::new();
    for length in lengths {
        let what = format!("{length} of {len} bytes");
        let Some(trace) = recorded.read_changed(&recorded.bytes[..length], &what) else {
            assert!(length < 4096, "{what}: the header is whole");
            refusals += 1;
            continue;
        };
        // Where anything is missing, a sentence says from where on.
        if trace.header.events < recorded.trace.header.events {
            cut += 1;
            if !trace.header.damages.iter().any(|damage| damage.starts_with("damaged at offset ")) {
                silent.push(what.clone());
            }
        }
        for (thread, events) in by_thread(&trace) {
            let all = &whole[&thread];
            assert!(all.starts_with(&events), "{what}: thread {thread} is no prefix of what it was");
        }
    }
    assert!(cut > 0 && refusals > 0, "{cut} cut, {refusals} refused");
    assert!(silent.is_empty(), "events are missing and nothing is said of it: {silent:?}");
}

#[test]
fn flipped_bits_are_survived() {
    let recorded = Recorded::new();
    let mut numbers = Numbers(1);
    for _ in 0..40 {
        let mut bytes = recorded.bytes.clone();
        // Half of them where structure is, which is at the beginnings of pages.
        let at = if numbers.below(2) == 0 {
            4096 * numbers.below(bytes.len() / 4096) + numbers.below(128)
        } else {
            numbers.below(bytes.len())
        };
        let bit = numbers.below(8);
        bytes[at] ^= 1 << bit;
        recorded.survives(&bytes, &format!("bit {bit} of byte {at}"));
    }
}

#[test]
fn impossible_numbers_in_headers_are_survived() {
    let recorded = Recorded::new();
    let chunks = (4096..recorded.bytes.len()).step_by(4096).filter(|at| recorded.bytes[*at] != 0).take(4);
    let headers = std::iter::once(0).chain(chunks);
    for header in headers {
        for word in (0..64).step_by(8) {
            for value in [u64::MAX, 1 << 40] {
                let mut bytes = recorded.bytes.clone();
                bytes[header + word..][..8].copy_from_slice(&value.to_le_bytes());
                recorded.survives(&bytes, &format!("{value:#x} at {}", header + word));
            }
        }
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    let recorded = Recorded::new();
    let lab = &recorded.lab;
    let mut numbers = Numbers(2);
    let noise: Vec<u8> = (0..20_000).map(|_| u8::try_from(numbers.below(256)).expect("a byte")).collect();
    fs::write(lab.path("noise"), noise).expect("written");
    fs::write(lab.path("empty"), "").expect("written");
    fs::create_dir(lab.path("directory")).expect("made");
    fs::create_dir(lab.path("junk")).expect("made");
    fs::write(lab.path("junk/trace.1.0"), "junk").expect("written");
    for path in
        ["noise", "empty", "directory", "junk", "missing"].map(|name| lab.path(name)).iter().chain([&recorded.program])
    {
        refused(&recorded.read(path, "--json"), &path.display().to_string());
    }
    for device in ["/dev/null", "/dev/zero"] {
        refused(&recorded.read(Path::new(device), "--json"), device);
    }
}

#[test]
fn an_unreadable_trace_is_refused() {
    let recorded = Recorded::new();
    let Some(drop_rights) = without_rights(&recorded.lab) else {
        println!("skipped: this user reads everything, and there is no setpriv to give that up");
        return;
    };
    let path = recorded.lab.path("secret");
    fs::copy(&recorded.file, &path).expect("copied");
    recorded.lab.run([OsStr::new("chmod"), "000".as_ref(), path.as_os_str()]);
    let mut command = drop_rights;
    command.extend([recorded.lab.selvedge().into(), "trace".into(), path.into_os_string()]);
    refused(&recorded.lab.run(command), "a secret file");
}

/// Words before a command that make file permissions count, also for root; `None` where there are none.
fn without_rights(lab: &Lab) -> Option<Vec<OsString>> {
    if !rustix::process::geteuid().is_root() {
        return Some(Vec::new());
    }
    let words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"].map(OsString::from).to_vec();
    let probe = lab.run(words.iter().cloned().chain(["true".into()]));
    (probe.ending == Ending::Exit(0)).then_some(words)
}

/// Nobody writes to the pipe: an open that waits for a writer would wait for ever.
#[test]
fn a_pipe_that_nobody_writes_is_no_trace() {
    let recorded = Recorded::new();
    let pipe = recorded.lab.path("pipe");
    recorded.lab.run([OsStr::new("mkfifo"), pipe.as_os_str()]);
    let bounded = ["timeout", "5"].map(OsStr::new);
    let command = [recorded.lab.selvedge().as_os_str(), "trace".as_ref(), pipe.as_os_str()];
    refused(&recorded.lab.run(bounded.into_iter().chain(command)), "a pipe");
}

/// A program, how it behaves without a plan, and a plan that would do.
struct Planned {
    lab: Lab,
    program: PathBuf,
    native: Outcome,
    plan: PathBuf,
}

impl Planned {
    fn new() -> Planned {
        let lab = Lab::new();
        let native = lab.run([lab.native(PROGRAM)]);
        let program = lab.wrapped(PROGRAM);
        let (plan, store) = (lab.path("plan"), lab.path("store"));
        let args: [&Path; 7] =
            ["record".as_ref(), "--plan-only".as_ref(), &plan, "--out".as_ref(), &store, "--".as_ref(), &program];
        assert_eq!(lab.tool(args).ending, Ending::Exit(0));
        Planned { lab, program, native, plan }
    }

    /// Under a plan that cannot be used, the program is as ever but for one line.
    fn unusable(&self, plan: &Path, what: &str) {
        let bounded = [OsStr::new("timeout"), "5".as_ref(), self.program.as_os_str()];
        let outcome = self.lab.run_with(bounded, &[("SELVEDGE_PLAN", plan)]);
        assert_eq!((outcome.ending, &outcome.stdout), (self.native.ending, &self.native.stdout), "{what}");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("selvedge: "), "{what}: {lines:?}");
    }

    fn unusable_bytes(&self, bytes: &[u8], what: &str) {
        let path = self.lab.path("changed");
        fs::write(&path, bytes).expect("written");
        self.unusable(&path, what);
    }
}

#[test]
fn a_whole_plan_is_followed_in_silence() {
    let planned = Planned::new();
    let outcome = planned.lab.run_with([&planned.program], &[("SELVEDGE_PLAN", &planned.plan)]);
    assert_eq!(outcome, planned.native);
    let traces = fs::read_dir(planned.lab.path("store/direct")).expect("there").count();
    assert_eq!(traces, 1);
}

#[test]
fn a_damaged_plan_is_said_and_ignored() {
    let planned = Planned::new();
    let plan = fs::read(&planned.plan).expect("readable");
    for length in [0, 1, 8, 31, 127, 128, 129, plan.len() / 2, plan.len() - 1] {
        planned.unusable_bytes(&plan[..length], &format!("{length} of {} bytes", plan.len()));
    }
    let mut numbers = Numbers(3);
    for _ in 0..30 {
        let (at, bit) = (numbers.below(plan.len()), numbers.below(8));
        let mut bytes = plan.clone();
        bytes[at] ^= 1 << bit;
        planned.unusable_bytes(&bytes, &format!("bit {bit} of byte {at}"));
    }
}

#[test]
fn what_is_no_plan_is_said_and_ignored() {
    let planned = Planned::new();
    fs::create_dir(planned.lab.path("directory")).expect("made");
    planned.unusable(&planned.lab.path("directory"), "a directory");
    planned.unusable(&planned.lab.path("missing"), "no file");
    planned.unusable(&planned.program, "a program");
    planned.unusable(Path::new("/dev/null"), "nothing");
    planned.unusable_bytes(&[0; 4096], "zeros");
}

#[test]
fn a_plan_whose_directory_is_gone_is_said_and_ignored() {
    let planned = Planned::new();
    fs::remove_dir_all(planned.lab.path("store")).expect("removed");
    planned.unusable(&planned.plan, "no directory for traces");
}

/// As for traces: an open that waits for a writer would keep the guest from ever starting.
#[test]
fn a_pipe_that_nobody_writes_is_no_plan() {
    let planned = Planned::new();
    let pipe = planned.lab.path("pipe");
    planned.lab.run([OsStr::new("mkfifo"), pipe.as_os_str()]);
    planned.unusable(&pipe, "a pipe");
}

/// Where the site table is in a program's file.
fn site_table(bytes: &[u8]) -> Range<usize> {
    let file = object::File::parse(bytes).expect("an ELF file");
    let section = file.section_by_name(".selvedge.sites").expect("the wrapper embeds it");
    let (at, len) = section.file_range().expect("it has bytes");
    let at = usize::try_from(at).expect("small");
    at..at + usize::try_from(len).expect("small")
}

#[test]
fn a_damaged_site_table_hurts_nobody_and_is_mended() {
    let planned = Planned::new();
    let lab = &planned.lab;
    let bytes = fs::read(&planned.program).expect("readable");
    let table = site_table(&bytes);
    let sites = |program: &Path| lab.tool([OsStr::new("sites"), program.as_os_str()]);
    let listed = sites(&planned.program);
    assert!(listed.stdout.lines().count() > 10, "{}", listed.stdout);

    let mut numbers = Numbers(4);
    // The header's fields, then anywhere; the last one is all of it.
    let places = [0, 8, 12, 16, 24, 32].into_iter().chain((0..6).map(|_| numbers.below(table.len())));
    let mut damages: Vec<(String, Range<usize>)> =
        places.map(|at| (format!("byte {at} of the table"), table.start + at..table.start + at + 1)).collect();
    damages.push(("the whole table".into(), table.clone()));
    for (what, range) in damages {
        let program = lab.path("hurt");
        let mut hurt = bytes.clone();
        hurt[range].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&program, &hurt).expect("written");
        lab.run([OsStr::new("chmod"), "755".as_ref(), program.as_os_str()]);

        let disarmed = lab.run([&program]);
        assert_eq!((disarmed.ending, &disarmed.stdout), (planned.native.ending, &planned.native.stdout), "{what}");
        let _ = fs::remove_dir_all(lab.path("hurt-store"));
        let recorded = lab.record("hurt-store", [&program]);
        assert_eq!((recorded.ending, &recorded.stdout), (planned.native.ending, &planned.native.stdout), "{what}");

        // The command line does not need the table; it says so, and makes a new one.
        let found = sites(&program);
        assert_eq!((found.ending, &found.stdout), (Ending::Exit(0), &listed.stdout), "{what}");
        let indexed = lab.tool([OsStr::new("index"), program.as_os_str()]);
        assert_eq!(indexed.ending, Ending::Exit(0), "{what}: {}", indexed.stderr);
        let mended = fs::read(&program).expect("readable");
        assert_eq!(mended[site_table(&mended)], bytes[table.clone()], "{what}: not mended");
        assert_eq!(lab.run([&program]).stdout, planned.native.stdout, "{what}: mended");
    }
}

#[test]
fn a_program_without_its_site_table_is_recorded_all_the_same() {
    let planned = Planned::new();
    let program = planned.lab.path("bare");
    let objcopy = ["objcopy", "--remove-section=.selvedge.sites"].map(OsStr::new);
    let copied = planned.lab.run(objcopy.into_iter().chain([planned.program.as_os_str(), program.as_os_str()]));
    if copied.ending != Ending::Exit(0) {
        println!("skipped: no objcopy: {}", copied.stderr);
        return;
    }
    let disarmed = planned.lab.run([&program]);
    assert_eq!((disarmed.ending, &disarmed.stdout), (planned.native.ending, &planned.native.stdout));
    let recorded = planned.lab.record("bare-store", [&program]);
    assert_eq!((recorded.ending, &recorded.stdout), (planned.native.ending, &planned.native.stdout));
    let trace = planned.lab.latest("bare-store");
    assert!(trace.events.iter().any(|event| event.op == "write"), "no accesses: {:?}", trace.header.counters);
}

#[test]
fn a_damaged_run_record_is_said_and_its_trace_still_opens() {
    let recorded = Recorded::new();
    let store = recorded.lab.path("store");
    let record = store.join("runs/0001/run.json");
    let whole = fs::read_to_string(&record).expect("readable");
    let other_version = whole.replacen("\"version\": 1", "\"version\": 99", 1);
    assert_ne!(other_version, whole);
    for text in ["", "{", &whole[..whole.len() / 2], "[1,2]", "\u{0}\u{0}", &other_version] {
        fs::write(&record, text).expect("written");
        let listed = recorded.lab.tool([OsStr::new("runs"), "--out".as_ref(), store.as_os_str()]);
        assert_eq!(listed.ending, Ending::Exit(0), "{}", listed.stderr);
        assert!(listed.stderr.contains("have no record") || listed.stderr.contains("run.json"), "{}", listed.stderr);
        assert_eq!(recorded.lab.latest("store").header.events, recorded.trace.header.events);
    }
    // And new runs go on from there.
    assert_eq!(recorded.lab.record("store", [&recorded.program]).ending, Ending::Exit(0));
    assert!(store.join("runs/0002/run.json").is_file());
}

#[test]
fn a_damaged_survey_is_made_anew() {
    let recorded = Recorded::new();
    let surveys: Vec<PathBuf> =
        fs::read_dir(recorded.lab.path("store/survey")).expect("there").flatten().map(|entry| entry.path()).collect();
    let [survey] = surveys.as_slice() else { panic!("one survey: {surveys:?}") };
    let whole = fs::read_to_string(survey).expect("readable");
    let sound: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let accesses = |trace: &Trace| trace.events.iter().filter(|event| event.op == "write").count();
    for text in [
        "",
        "null",
        &whole[..whole.len() / 2],
        &whole.replace("[", "{"),
        &whole.replacen("\"build_id\":\"", "\"build_id\":\"zz", 1),
    ] {
        fs::write(survey, text).expect("written");
        let again = recorded.lab.record("store", [&recorded.program]);
        assert_eq!(again.ending, Ending::Exit(0), "{}", again.stderr);
        assert!(again.stderr.contains("survey run 1 of 1"), "{}", again.stderr);
        assert!(accesses(&recorded.lab.latest("store")) > 0);
        let mended: serde_json::Value = serde_json::from_slice(&fs::read(survey).expect("readable")).expect("JSON");
        assert_eq!(mended["images"][0]["build_id"], sound["images"][0]["build_id"]);
    }
}
