//! Places and limits that a recording may meet: full disks, read-only and oddly named directories, little
//! memory, little environment. The guest behaves as ever, and what is missing in the trace is counted.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use selvedge_itest::{Ending, Lab, Outcome};

const PROGRAM: &str = "clean/bounded_buffer.c";

/// What a script exits with where this machine does not let it prepare what it needs.
const NOT_PERMITTED: i32 = 77;

/// A program, and how it behaves natively.
struct Subject {
    lab: Lab,
    program: PathBuf,
    native: Outcome,
}

impl Subject {
    fn new() -> Subject {
        let lab = Lab::new();
        let native = lab.run([lab.native(PROGRAM)]);
        let program = lab.wrapped(PROGRAM);
        Subject { lab, program, native }
    }

    /// A shell script with the tool as `$S`, the program as `$P` and a directory as `$D`.
    fn script(&self, before: &[&str], text: &str, dir: &Path) -> Outcome {
        let shell = before.iter().copied().chain(["sh", "-c", text]);
        let env = [("S", self.lab.selvedge()), ("P", self.program.as_path()), ("D", dir)];
        self.lab.run_with(shell, &env)
    }

    fn expect_native(&self, outcome: &Outcome, what: &str) {
        let seen = (outcome.ending, &outcome.stdout);
        assert_eq!(seen, (self.native.ending, &self.native.stdout), "{what}: {}", outcome.stderr);
    }

    /// Records into a directory, which must go as well as anywhere.
    fn expect_recorded_in(&self, dir: &Path) {
        let what = dir.display().to_string();
        self.expect_native(&self.script(&[], "exec \"$S\" record --out \"$D\" -- \"$P\"", dir), &what);
        let trace = self.script(&[], "exec \"$S\" trace --out \"$D\"", dir);
        assert_eq!(trace.ending, Ending::Exit(0), "{what}: {}", trace.stderr);
        assert!(trace.stdout.contains(" write "), "{what}: no accesses:\n{}", trace.stdout);
    }
}

/// One line on standard error with the remedy, and nothing else.
fn expect_refusal(outcome: &Outcome, remedy: &str) {
    assert_eq!((outcome.ending, &*outcome.stdout), (Ending::Exit(2), ""), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("selvedge: error: "), "{lines:?}");
    assert!(lines[0].contains(remedy), "{lines:?}");
}

/// Words before a command that make file permissions count, also for root; `None` where there are none.
fn without_rights(lab: &Lab) -> Option<Vec<&'static str>> {
    if !rustix::process::geteuid().is_root() {
        return Some(Vec::new());
    }
    let words = vec!["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
    let works = lab.run(words.iter().chain(&["true"])).ending == Ending::Exit(0);
    if !works {
        println!("skipped: this user writes everywhere, and there is no setpriv to give that up");
    }
    works.then_some(words)
}

fn read_only_dir(lab: &Lab, name: &str) -> PathBuf {
    let dir = lab.path(name);
    fs::create_dir(&dir).expect("made");
    lab.run([OsStr::new("chmod"), "555".as_ref(), dir.as_os_str()]);
    dir
}

#[test]
fn a_read_only_working_directory_is_said_with_the_remedy() {
    let subject = Subject::new();
    let Some(before) = without_rights(&subject.lab) else { return };
    let dir = read_only_dir(&subject.lab, "fixed");
    let refused = subject.script(&before, "cd \"$D\" && exec \"$S\" record -- \"$P\"", &dir);
    expect_refusal(&refused, "--out DIR");
    // And the remedy works.
    let elsewhere = subject.lab.path("elsewhere");
    let text = format!("cd \"$D\" && exec \"$S\" record --out '{}' -- \"$P\"", elsewhere.display());
    subject.expect_native(&subject.script(&before, &text, &dir), "from a read-only directory");
}

#[test]
fn a_read_only_store_is_said_with_the_remedy() {
    let subject = Subject::new();
    let Some(before) = without_rights(&subject.lab) else { return };
    let dir = read_only_dir(&subject.lab, "fixed");
    expect_refusal(&subject.script(&before, "exec \"$S\" record --out \"$D\" -- \"$P\"", &dir), "--out DIR");
    expect_refusal(&subject.script(&before, "exec \"$S\" record --out \"$D/new\" -- \"$P\"", &dir), "--out DIR");
    expect_refusal(&subject.script(&[], "exec \"$S\" record --out \"$P\" -- \"$P\"", &dir), "--out DIR");
}

#[test]
fn a_store_may_have_any_name() {
    let subject = Subject::new();
    subject.expect_recorded_in(&subject.lab.path("with spaces and 'quotes'"));
    subject.expect_recorded_in(&subject.lab.path(OsStr::from_bytes(b"not\xfftext\n")));
    subject.expect_recorded_in(&subject.lab.path("x/".repeat(300)));
}

/// Longer than the 1,024 bytes that the runtime has for a name, shorter than what the system allows.
#[test]
fn a_store_with_a_very_long_name_is_used_or_refused() {
    let subject = Subject::new();
    let dir = subject.lab.path(format!("{}/", "l".repeat(200)).repeat(8));
    let recorded = subject.script(&[], "exec \"$S\" record --out \"$D\" -- \"$P\"", &dir);
    if recorded.ending == subject.native.ending {
        subject.expect_recorded_in(&dir);
    } else {
        let said = recorded.stderr.lines().last().unwrap_or_default();
        assert!(matches!(recorded.ending, Ending::Exit(2 | 70)), "{}: {said}", recorded.ending);
        // The program is instrumented; it is the name that is too long.
        assert!(said.contains("--out") && !said.contains("not built with"), "{said}");
    }
}

#[test]
fn a_relative_store_is_below_the_working_directory() {
    let subject = Subject::new();
    let dir = subject.lab.path("work");
    fs::create_dir(&dir).expect("made");
    let text = "cd \"$D\" && exec \"$S\" record --out traces/here -- \"$P\"";
    subject.expect_native(&subject.script(&[], text, &dir), "relative");
    assert!(dir.join("traces/here/runs/0001/run.json").is_file());
    let trace = subject.script(&[], "cd \"$D/traces\" && exec \"$S\" trace --out here", &dir);
    assert!(trace.stdout.contains(" write "), "{}", trace.stderr);
}

#[test]
fn no_home_is_needed() {
    let subject = Subject::new();
    let dir = subject.lab.path("store");
    let before = ["env", "-u", "HOME", "-u", "XDG_CACHE_HOME", "-u", "TMPDIR", "-u", "PATH"];
    let shell = before.iter().chain(&["/bin/sh", "-c", "exec \"$S\" record --out \"$D\" -- \"$P\""]).map(OsStr::new);
    let env = [("S", subject.lab.selvedge()), ("P", subject.program.as_path()), ("D", dir.as_path())];
    subject.expect_native(&subject.lab.run_with(shell, &env), "without HOME");
    assert!(subject.lab.latest("store").events.iter().any(|event| event.op == "write"));
}

#[test]
fn a_small_limit_on_file_size_costs_events_only() {
    let subject = Subject::new();
    let dir = subject.lab.path("store");
    // Room for a header and descriptions, not for a block of slots (512 KiB); units are 512 bytes.
    let limited = subject.script(&[], "ulimit -f 200; exec \"$S\" record --out \"$D\" -- \"$P\"", &dir);
    subject.expect_native(&limited, "limited file size");
    let summary = subject.script(&[], "exec \"$S\" trace --summary --out \"$D\"", &dir);
    assert_eq!(summary.ending, Ending::Exit(0), "{}", summary.stderr);
    assert!(summary.stdout.contains("events dropped"), "{}", summary.stdout);
}

#[test]
fn little_address_space_costs_events_only() {
    let subject = Subject::new();
    let dir = subject.lab.path("store");
    let plan =
        format!("\"$S\" record -q --plan-only '{0}' --out \"$D\" -- \"$P\" && ", subject.lab.path("plan").display());
    let text = format!("{plan} ulimit -v 60000 && SELVEDGE_PLAN='{}' exec \"$P\"", subject.lab.path("plan").display());
    let bare = subject.script(&[], "ulimit -v 60000 && exec \"$P\"", &dir);
    subject.expect_native(&bare, "the program itself has room enough");
    subject.expect_native(&subject.script(&[], &text, &dir), "little address space");
}

/// Runs a script with a small file system of its own as `$D`.
fn on_small_disk(subject: &Subject, size: &str, text: &str) -> Option<Outcome> {
    let dir = subject.lab.path("small");
    fs::create_dir_all(&dir).expect("made");
    let text = format!("mount -t tmpfs -o size={size} none \"$D\" || exit {NOT_PERMITTED}\n{text}");
    let outcome = subject.script(&["unshare", "--mount"], &text, &dir);
    if outcome.ending == Ending::Exit(NOT_PERMITTED) || outcome.stderr.contains("unshare: ") {
        println!("skipped: no file systems may be mounted here: {}", outcome.stderr);
        return None;
    }
    Some(outcome)
}

/// The number before some words in a summary.
fn number_before(summary: &str, words: &str) -> Option<u64> {
    let (before, _) = summary.split_once(words)?;
    before.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

/// Writes of each of the three threads that fill a disk of 4 MiB, at 8 bytes each.
const WRITES: u64 = 300_000;

/// Fills a small disk: how the program ended natively, and what came of recording it, with the exit code in a
/// line of its own between the program's output and the summary of the trace.
fn fill_a_disk() -> Option<(Outcome, Outcome)> {
    let lab = Lab::new();
    let program = lab.wrapped("clean/numbered_writes.c");
    let control = lab.path("control");
    let mut words = vec![0; 64];
    words[8..16].copy_from_slice(&WRITES.to_le_bytes());
    fs::write(&control, &words).expect("written");
    let native = lab.run([lab.native("clean/numbered_writes.c"), control.clone()]);
    fs::write(&control, &words).expect("written");
    let text = format!(
        "\"$S\" record -q --out \"$D\" -- \"$P\" '{}'; echo \"code $?\"; exec \"$S\" trace --summary --out \"$D\"",
        control.display()
    );
    let subject = Subject { lab, program, native };
    let outcome = on_small_disk(&subject, "4m", &text)?;
    Some((subject.native, outcome))
}

#[test]
fn a_full_disk_costs_events_and_says_how_many() {
    let Some((native, outcome)) = fill_a_disk() else { return };
    let summary = outcome.stdout.strip_prefix(&native.stdout);
    let summary = summary.unwrap_or_else(|| panic!("not as natively: {} {}", outcome.stdout, outcome.stderr));
    let there = number_before(summary, " events in ").unwrap_or_else(|| panic!("{summary}"));
    let dropped: u64 = summary
        .lines()
        .filter(|line| line.contains("events dropped"))
        .filter_map(|l| number_before(l, " events"))
        .sum();
    // What was written is there, is counted, or was in the one chunk that the summary says is cut.
    let cut = 4096 * summary.matches("damaged at offset").count() as u64;
    assert!(there + dropped + cut >= 3 * WRITES, "{there} events of {}:\n{summary}", 3 * WRITES);
    // And half of the disk was used at the least.
    assert!(dropped > 0 && there > 250_000, "{summary}");
}

#[test]
fn a_full_disk_is_not_called_a_limit() {
    let Some((_, outcome)) = fill_a_disk() else { return };
    assert!(outcome.stdout.contains("events dropped: the trace could not be written"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("reached its size limit"), "{}", outcome.stdout);
}

/// A trace that takes the last block must leave room for the run's own record.
#[test]
fn a_full_disk_keeps_the_exit_code_and_the_record() {
    let Some((native, outcome)) = fill_a_disk() else { return };
    let wanted = format!("{}code 0\n", native.stdout);
    assert!(outcome.stdout.starts_with(&wanted), "{}\n{}", outcome.stdout, outcome.stderr);
}

#[test]
fn a_disk_without_room_for_a_survey_is_said() {
    let subject = Subject::new();
    let text = "\"$S\" record --out \"$D\" -- \"$P\"";
    let Some(outcome) = on_small_disk(&subject, "1m", text) else { return };
    subject.expect_native(&outcome, "full disk");
    // A recording without accesses is not what was asked for.
    let said = ["disk", "space", "could not be written", "cannot be written"];
    assert!(said.iter().any(|words| outcome.stderr.contains(words)), "nothing is said of it:\n{}", outcome.stderr);
}

/// A survey that saw nothing because it had no room must not stand for the program afterwards.
#[test]
fn a_survey_without_room_is_not_kept() {
    let subject = Subject::new();
    let text = "\"$S\" record -q --out \"$D\" -- \"$P\" >/dev/null\n\
                mount -o remount,size=64m \"$D\" || exit 77\n\
                \"$S\" record -q --out \"$D\" -- \"$P\" >/dev/null\n\
                exec \"$S\" trace --out \"$D\"";
    let Some(outcome) = on_small_disk(&subject, "1m", text) else { return };
    assert_eq!(outcome.ending, Ending::Exit(0), "{}", outcome.stderr);
    let accesses = outcome.stdout.lines().filter(|line| line.contains(" write ")).count();
    assert!(accesses > 0, "no accesses are recorded, though there is room now");
}

/// A program with rights of its own takes no orders from the environment of whoever starts it.
#[test]
fn a_privileged_program_ignores_plans() {
    let subject = Subject::new();
    let lab = &subject.lab;
    let nosuid = statvfs(lab.path("")).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOSUID));
    if !rustix::process::geteuid().is_root() || nosuid {
        println!("skipped: no program can be given rights here");
        return;
    }
    let (plan, store) = (lab.path("plan"), lab.path("store"));
    let open = "chmod 755 \"$D\" \"$D/wrapped\" && chmod -R a+rwX \"$D/store\" \"$D/plan\" && chmod 4755 \"$P\"";
    let text =
        format!("\"$S\" record -q --plan-only '{}' --out '{}' -- \"$P\" && {open}", plan.display(), store.display());
    let prepared = subject.script(&[], &text, &lab.path(""));
    assert_eq!(prepared.ending, Ending::Exit(0), "{}", prepared.stderr);
    let user: Vec<OsString> =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(OsString::from).to_vec();
    let mut setting = OsString::from("SELVEDGE_PLAN=");
    setting.push(&plan);
    let words = [OsString::from("env"), setting, subject.program.clone().into_os_string()];
    let outcome = lab.run(user.into_iter().chain(words));
    assert_eq!(outcome, subject.native);
    let traces = fs::read_dir(store.join("direct")).expect("there").count();
    assert_eq!(traces, 0, "a privileged program wrote a trace");
}

/// Sets how freely the system promises memory, for the life of the value.
struct Overcommit(String);

const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";

impl Overcommit {
    fn strict() -> Option<Overcommit> {
        let before = fs::read_to_string(OVERCOMMIT).ok()?;
        fs::write(OVERCOMMIT, "2").ok()?;
        Some(Overcommit(before))
    }
}

impl Drop for Overcommit {
    fn drop(&mut self) {
        // An error cannot be helped here; the next boot restores it.
        let _ = fs::write(OVERCOMMIT, &self.0);
    }
}

#[test]
#[ignore = "changes how the whole machine promises memory while it runs; for machines of one's own"]
fn strict_accounting_of_memory_is_no_obstacle() {
    let subject = Subject::new();
    let Some(_strict) = Overcommit::strict() else {
        println!("skipped: vm.overcommit_memory cannot be set here");
        return;
    };
    subject.expect_native(&subject.lab.run([&subject.program]), "disarmed");
    subject.expect_recorded_in(&subject.lab.path("store"));
}
