//! The real binary, from compiling to looking at a run.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const ACCOUNT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/account.c");

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn selvedge(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("selvedge starts")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command.env("SELVEDGE_CACHE", self.path().join("cache")).env_remove("SELVEDGE_PLAN");
        command
    }

    fn build(&self, source: &str, program: &str) {
        let output = self.selvedge(&["cc", "-O1", "-g", "-pthread", "-o", program, source]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_is_built_recorded_and_shown() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    // Without a plan it is an ordinary program.
    let plain = Command::new(place.path().join("account")).output().expect("runs");
    assert_eq!((plain.status.code(), text(&plain.stderr).as_str()), (Some(1), ""));

    let one = place.selvedge(&["record", "--", "./account"]);
    assert_eq!(one.status.code(), Some(1), "the guest's own code: {}", text(&one.stderr));
    assert_eq!(text(&one.stdout), "the balance is -60\n");
    let many = place.selvedge(&[
        "record",
        "-n",
        "3",
        "--oracle",
        "grep -q balance $SELVEDGE_RUN_DIR/stdout",
        "--",
        "./account",
    ]);
    assert_eq!(many.status.code(), Some(0), "the oracle decides: {}", text(&many.stderr));
    assert!(text(&many.stderr).contains("kept survey") && text(&many.stderr).contains("3/3 runs, 3 pass"));

    let runs = text(&place.selvedge(&["runs"]).stdout);
    assert_eq!(runs.lines().count(), 5, "{runs}");
    let json = text(&place.selvedge(&["runs", "--json"]).stdout);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["version"], &first["outcome"]["label"]), (&1.into(), &"fail".into()));

    let balance = text(&place.selvedge(&["trace", "1", "--variable", "=balance"]).stdout);
    let accesses: Vec<&str> = balance.lines().filter(|line| line.contains("balance") && line.contains(" ns")).collect();
    assert!(accesses.len() >= 6, "{balance}");
    assert!(accesses[0].contains("account.c:15") && accesses[0].contains("covers"), "{balance}");
    assert!(text(&place.selvedge(&["trace", "1", "--std"]).stdout).contains("|acq(L0)|"));
    assert!(text(&place.selvedge(&["trace", "--columns"]).stdout).contains("T1 alice (main/1)"));
    let sites = text(&place.selvedge(&["sites", "account", "--function", "covers"]).stdout);
    assert!(sites.contains("__tsan_read4") && sites.contains("account.c:15"), "{sites}");
    assert!(text(&place.selvedge(&["index", "account"]).stdout).contains("already up to date"));
    let args =
        ["sections", "account", "--variable", "balance", "--pattern", "load-and-store", "--json", "sections.json"];
    let sections = text(&place.selvedge(&args).stdout);
    // The check in one function, the withdrawal in another; what lies between is the bug.
    let check = "load-and-store of balance\n  from read ";
    assert!(sections.contains(check) && sections.contains("account.c:15 in covers\n  to   write"), "{sections}");
    assert!(sections.contains("in take; others: reads"), "{sections}");
    let json = std::fs::read(place.path().join("sections.json")).expect("written");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let section = &json["sections"][0];
    let shown = (&section["kind"], &section["variable"], &section["ends"][0]["allowed"]["writes"]);
    assert_eq!(shown, (&"load-and-store".into(), &"balance".into(), &false.into()));
}

#[test]
fn the_demo_is_a_hunt_that_ends_with_a_replay() {
    let place = Place::new();
    let output = place.selvedge(&["demo", "--keep", "kept"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for expect in [
        "WARNING: Selvedge: order violation in covers / take",
        "T1 alice (main/1)",
        "balance",
        "= 100",
        "holding `counter` (taken at account.c:",
        "Harm: exit code 1: overdrawn: the balance is -60",
        "Next:",
    ] {
        assert!(shown.contains(expect), "no `{expect}` in\n{shown}");
    }
    let command = shown.lines().find_map(|line| line.trim().strip_prefix("Again:")).expect("a replay command").trim();
    let clip = command.strip_prefix("selvedge replay ").expect("a replay command");
    let replayed = place.selvedge(&["replay", clip]);
    assert_eq!(replayed.status.code(), Some(66), "{}", text(&replayed.stderr));
    let said = text(&replayed.stdout) + &text(&replayed.stderr);
    assert!(said.contains("overdrawn: the balance is -60"), "{said}");
}

/// Dies the first time, before it has shared anything.
const DIES_ONCE: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\nstatic int shared;\n\
    static void *add(void *arg) { shared++; return arg; }\n\
    int main(void) {\n  FILE *met = fopen(\"met\", \"r\");\n  if (!met) { fclose(fopen(\"met\", \"w\")); abort(); }\n  \
    pthread_t t;\n  pthread_create(&t, 0, add, 0);\n  pthread_join(t, 0);\n  shared++;\n  return 0;\n}\n";

#[test]
fn a_survey_that_a_crash_cut_short_is_made_again() {
    let place = Place::new();
    std::fs::write(place.path().join("once.c"), DIES_ONCE).expect("written");
    place.build("once.c", "once");
    let recorded = place.selvedge(&["record", "--", "./once"]);
    let said = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("survey run 1 of 1").count(), 2, "{said}");
    let shown = text(&place.selvedge(&["trace", "--variable", "=shared"]).stdout);
    assert!(shown.contains("once.c:5"), "{shown}");
}

/// Dies whenever it can: the thread that dies comes first, the other one's access never.
const DIES_OFTEN: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <stdio.h>\nstatic int shared;\n\
    static void *look(void *arg) {\n  if (shared == 0) abort();\n  return arg;\n}\n\
    int main(void) {\n  pthread_t t;\n  FILE *calm = fopen(\"calm\", \"r\");\n  if (calm) shared = 1;\n  \
    pthread_create(&t, 0, look, 0);\n  pthread_join(t, 0);\n  shared = 2;\n  return 0;\n}\n";

#[test]
fn what_a_survey_of_crashes_only_has_met_may_be_shared() {
    let place = Place::new();
    std::fs::write(place.path().join("often.c"), DIES_OFTEN).expect("written");
    place.build("often.c", "often");
    let surveyed = place.selvedge(&["record", "--survey-only", "--", "./often"]);
    assert_eq!(text(&surveyed.stderr).matches("survey run 1 of 1").count(), 4, "{}", text(&surveyed.stderr));
    std::fs::write(place.path().join("calm"), "").expect("written");
    place.selvedge(&["record", "--", "./often"]);
    let shown = text(&place.selvedge(&["trace", "--variable", "=shared"]).stdout);
    assert!(shown.contains("often.c:6") && shown.contains("often.c:15"), "{shown}");
}

/// A thread that uses what another has yet to make.
const EARLY_USE: &str = "#include <pthread.h>\n#include <assert.h>\nstatic int *made;\nstatic int value = 7;\n\
    static void *use(void *arg) { (void)arg; assert(*made == 7); return 0; }\n\
    int main(void) {\n  pthread_t t;\n  pthread_create(&t, 0, use, 0);\n  made = &value;\n  return pthread_join(t, 0);\n}\n";

#[test]
fn a_hunt_confirms_what_passing_runs_hide() {
    let place = Place::new();
    std::fs::write(place.path().join("early.c"), EARLY_USE).expect("written");
    place.build("early.c", "early");
    let hunted = place.selvedge(&["hunt", "--runs", "4", "--json", "found.json", "--", "./early"]);
    let shown = text(&hunted.stdout);
    assert_eq!(hunted.status.code(), Some(66), "{shown}{}", text(&hunted.stderr));
    // The race and the order are one bug, led by what says most.
    for expect in [
        "Selvedge: 1 bug in ",
        "WARNING: Selvedge: order violation in main / use",
        "Harm: SIGSEGV",
        "never comes",
        "And 1 more of the same root cause",
        "SUMMARY: Selvedge: 1 bug in early, 1 with harm; 2 findings",
    ] {
        assert!(shown.contains(expect), "no `{expect}` in\n{shown}");
    }
    let json = std::fs::read(place.path().join("found.json")).expect("written");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!((&report["version"], &report["runs"]["total"]), (&1.into(), &4.into()));
    let race = report["findings"].as_array().and_then(|all| all.iter().find(|one| one["kind"] == "data-race"));
    let race = race.expect("a race");
    assert_eq!((&race["status"], &race["harm"]), (&"confirmed".into(), &"crash".into()));
    assert!(race["proved"].is_string() && race["clip"].is_string(), "{race}");
    let lines: Vec<u64> =
        race["accesses"].as_array().expect("accesses").iter().filter_map(|a| a["line"].as_u64()).collect();
    assert_eq!(lines, [5, 9]);
    // The same from runs that were recorded before.
    let recorded = place.selvedge(&["record", "--controlled", "-n", "2", "--", "./early"]);
    assert!(text(&recorded.stderr).contains("1 pass, 1 fail"), "{}", text(&recorded.stderr));
    let predicted = place.selvedge(&["predict", "1", "2"]);
    assert_eq!(predicted.status.code(), Some(66), "{}", text(&predicted.stderr));
    let listed = place.selvedge(&["predict", "2", "--no-confirm"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    assert!(text(&listed.stdout).contains("data race (race R-W; proved: shb)"), "{}", text(&listed.stdout));
}

/// Each step is locked, the two together are not; and a counter that nobody locks.
const OVERDRAWN: &str = "#include <pthread.h>\n#include <assert.h>\n\
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nstatic int balance = 100;\nstatic int calls;\n\
    static int covers(int by) {\n  pthread_mutex_lock(&m);\n  int yes = balance >= by;\n  pthread_mutex_unlock(&m);\n  return yes;\n}\n\
    static void take(int by) {\n  pthread_mutex_lock(&m);\n  balance -= by;\n  pthread_mutex_unlock(&m);\n}\n\
    static void *draw(void *arg) {\n  if (covers(80)) take(80);\n  calls++;\n  return arg;\n}\n\
    int main(void) {\n  pthread_t a, b;\n  pthread_create(&a, 0, draw, 0);\n  pthread_create(&b, 0, draw, 0);\n  \
    pthread_join(a, 0);\n  pthread_join(b, 0);\n  assert(balance >= 0);\n  return 0;\n}\n";

#[test]
fn a_hunt_tells_each_bug_once_guards_it_and_knows_it_again() {
    let place = Place::new();
    std::fs::write(place.path().join("draw.c"), OVERDRAWN).expect("written");
    place.build("draw.c", "draw");
    let hunt = ["hunt", "--locks", "--guard-schedules", "60", "--json", "found.json"];
    let hunted = place.selvedge(&[&hunt[..], &["--", "./draw"]].concat());
    let shown = text(&hunted.stdout);
    assert_eq!(hunted.status.code(), Some(66), "{shown}{}", text(&hunted.stderr));
    // Two root causes, many findings.
    assert_eq!(shown.matches("WARNING: Selvedge: ").count(), 2, "{shown}");
    for expect in [
        "Selvedge: 2 bugs in ",
        "more of the same root cause; -v lists them",
        "SUMMARY: Selvedge: 2 bugs in draw, 1 with harm",
    ] {
        assert!(shown.contains(expect), "no `{expect}` in\n{shown}");
    }
    let first = shown.find("balance >= 0").zip(shown.find("`calls`"));
    assert!(first.is_some_and(|(harm, race)| harm < race), "the harmful one comes first:\n{shown}");
    let json = std::fs::read(place.path().join("found.json")).expect("written");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let lead = &findings[0];
    assert_eq!((&lead["group"], &lead["harm"]), (&lead["id"], &"assertion".into()), "{lead:#}");
    assert_eq!((&lead["guard"]["verified"], &lead["guard"]["failures"]), (&true.into(), &0.into()), "{lead:#}");
    assert_eq!((&lead["locks"]["verified"], &lead["locks"]["failures"]), (&true.into(), &0.into()), "{lead:#}");
    // The plans hold without us.
    for made in ["guard", "locks"] {
        let plan = lead[made]["plan"].as_str().expect("a plan");
        let guarded = std::process::Command::new(place.path().join("draw")).env("SELVEDGE_PLAN", plan).status();
        assert!(guarded.expect("started").success(), "{made}");
    }
    // Nothing of this is new.
    let again =
        ["hunt", "--baseline", "found.json", "--new-only", "--no-guard", "--sarif", "new.sarif", "--", "./draw"];
    let again = place.selvedge(&again);
    assert_eq!(
        (again.status.code(), text(&again.stdout).contains("WARNING")),
        (Some(0), false),
        "{}",
        text(&again.stdout)
    );
    assert!(
        text(&again.stderr).contains("baseline: 2 known bugs seen again and not shown, 0 not seen"),
        "{}",
        text(&again.stderr)
    );
    let sarif = std::fs::read_to_string(place.path().join("new.sarif")).expect("written");
    assert!(sarif.contains("\"results\": []"), "{sarif}");
    // What was suppressed does not come back by recorded runs that fail of it.
    let quick = ["hunt", "--no-guard", "--no-detect"];
    let generated = place.selvedge(&[&quick[..], &["--gen-suppressions", "known.supp", "--", "./draw"]].concat());
    assert!(text(&generated.stderr).contains("failed without being made to"), "{}", text(&generated.stderr));
    let silent = place.selvedge(&[&quick[..], &["--suppressions", "known.supp", "--", "./draw"]].concat());
    assert!(!text(&silent.stdout).contains("WARNING"), "{}", text(&silent.stdout));
}

#[test]
fn a_hunt_that_had_no_time_goes_on() {
    let place = Place::new();
    std::fs::write(place.path().join("draw.c"), OVERDRAWN).expect("written");
    place.build("draw.c", "draw");
    let nothing = place.selvedge(&["hunt", "--resume"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing.stderr));
    // Time for recording and for little else.
    let quick = ["hunt", "--runs", "4", "--budget", "10ms", "--no-detect", "--no-guard", "--", "./draw"];
    let hunted = place.selvedge(&quick);
    assert!(text(&hunted.stderr).contains("hunt --resume"), "{}", text(&hunted.stderr));
    let kept = place.path().join(".selvedge/hunts/1");
    assert!(kept.join("recorded-0/run.clip").is_file());
    let resumed = place.selvedge(&["hunt", "--resume", "--no-detect", "--no-guard"]);
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(66), "{said}");
    assert!(said.contains("1 recorded run and 0 verdicts are kept"), "{said}");
    // It is done, and so is what was kept of it.
    assert!(!kept.exists(), "{said}");
}

#[test]
fn an_interrupted_hunt_says_what_is_known_even_if_the_signal_comes_twice() {
    let place = Place::new();
    std::fs::write(place.path().join("draw.c"), OVERDRAWN).expect("written");
    place.build("draw.c", "draw");
    let mut hunt = place.command(&["hunt", "--runs", "100000", "--", "./draw"]);
    let hunt = hunt.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let begun = place.path().join(".selvedge/hunts/1/recorded-0/run.clip");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !begun.is_file() {
        assert!(std::time::Instant::now() < end, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // As `timeout` does: to the process, and to its group.
    let twice = format!("kill -INT {0}; kill -INT {0}", hunt.id());
    assert!(Command::new("sh").args(["-c", &twice]).status().expect("starts").success());
    let hunted = hunt.wait_with_output().expect("ends");
    let said = text(&hunted.stderr);
    assert!(said.contains("hunt --resume"), "{:?}: {said}", hunted.status);
}

#[test]
fn a_correct_program_is_not_accused() {
    let place = Place::new();
    let source = "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nstatic int sum;\n\
        static void *add(void *by) { for (int i = 0; i < 3; i++) { pthread_mutex_lock(&m); sum += (int)(long)by; \
        pthread_mutex_unlock(&m); } return 0; }\n\
        int main(void) { pthread_t a, b; pthread_create(&a, 0, add, (void *)1); pthread_create(&b, 0, add, (void *)2);\n\
        pthread_join(a, 0); pthread_join(b, 0); return sum != 9; }\n";
    std::fs::write(place.path().join("sum.c"), source).expect("written");
    place.build("sum.c", "sum");
    let hunted = place.selvedge(&["hunt", "--runs", "4", "--", "./sum"]);
    assert_eq!((hunted.status.code(), text(&hunted.stdout).as_str()), (Some(0), ""), "{}", text(&hunted.stderr));
    assert!(text(&hunted.stderr).contains("nothing to report"), "{}", text(&hunted.stderr));
}

#[test]
fn text_traces_are_predicted_from() {
    let place = Place::new();
    let trace = "T0|fork(T1)|1\nT0|acq(L)|2\nT0|w(x)|3\nT0|rel(L)|4\nT0|w(y)|5\nT1|acq(L)|6\nT1|rel(L)|7\nT1|r(y)|8\n";
    std::fs::write(place.path().join("t.std"), trace).expect("written");
    let output = place.selvedge(&["predict", "--std", "t.std", "--json", "t.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.path().join("t.json")).expect("written")).expect("JSON");
    let proved: Vec<&serde_json::Value> =
        report["findings"].as_array().expect("findings").iter().filter(|one| one["proved"].is_string()).collect();
    let race = proved.iter().find(|one| one["kind"] == "data-race").expect("a race");
    let events: Vec<u64> =
        race["accesses"].as_array().expect("accesses").iter().filter_map(|a| a["event"].as_u64()).collect();
    assert!(events == [4, 7] || events == [7, 4], "{events:?}");
}

#[test]
fn what_is_wrong_with_a_trace_or_a_pattern_is_said_where_it_is() {
    let place = Place::new();
    std::fs::write(place.path().join("bad.std"), "T0|w(x)|1\nT0|jump(x)|2\n").expect("written");
    std::fs::write(place.path().join("good.std"), "T0|w(x)|1\n").expect("written");
    std::fs::write(place.path().join("bad.toml"), "[[pattern]]\nname = 3\n").expect("written");
    let cases: [(&[&str], &str); 3] = [
        (&["predict", "--std", "bad.std"], "line 2, column "),
        (&["predict", "--std", "good.std", "--patterns", "bad.toml"], "line 2, column "),
        (&["predict", "--std", "none.std"], "cannot read"),
    ];
    for (args, expect) in cases {
        let output = place.selvedge(args);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{args:?}: {said}");
        assert!(said.contains("selvedge: error: ") && said.contains(expect), "{args:?}: {said}");
    }
}

#[test]
fn a_hang_is_ended_and_says_who_was_stuck() {
    let place = Place::new();
    let source = "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
        int main(void) { pthread_mutex_lock(&m); pthread_mutex_lock(&m); }\n";
    std::fs::write(place.path().join("stuck.c"), source).expect("written");
    place.build("stuck.c", "stuck");
    let output = place.selvedge(&["record", "--timeout", "200ms", "--", "./stuck"]);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    let summary = text(&place.selvedge(&["trace", "--summary"]).stdout);
    assert!(summary.contains("T0 was in pthread_mutex_lock(m) at stuck.c:3"), "{summary}");
}

#[test]
fn mistakes_get_a_reason_a_remedy_and_a_code() {
    let place = Place::new();
    std::fs::write(place.path().join("text"), "no trace").expect("written");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["trace"], 2, "selvedge record"),
        (&["trace", "7"], 2, "selvedge runs"),
        (&["trace", "text"], 2, "not a trace"),
        (&["record", "--", "./nothing"], 127, "was not found"),
        (&["record", "--", "/bin/true"], 2, "selvedge cc"),
        (&["record", "--out", "/proc/none", "--", "/bin/true"], 2, "--out DIR"),
        (&["sites", "text"], 2, "not an ELF file"),
    ];
    for (args, code, expect) in cases {
        let output = place.selvedge(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("selvedge: error: ") && said.contains(expect), "{args:?}: {said}");
        assert!(!said.contains('\x1b'), "no colours into a pipe: {said:?}");
    }
    assert_eq!(place.selvedge(&["record"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    place.selvedge(&["record", "-q", "--", "./account"]);
    let mut child =
        place.command(&["sites", "account"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn the_whole_command_line_of_a_compiler_is_the_compilers() {
    let place = Place::new();
    let ours = place.selvedge(&["cc", "--version"]);
    assert!(ours.status.success());
    let link = place.path().join("selvedge-cc");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_selvedge"), &link).expect("linked");
    let named = Command::new(&link).arg("--version").output().expect("starts");
    assert_eq!(text(&ours.stdout), text(&named.stdout));
}

/// The edges of a graph that was written as JSON: lines and contexts of both ends.
fn edges(path: &Path) -> std::collections::BTreeSet<(String, String)> {
    let graph: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON");
    let name = |end: &serde_json::Value| match end.as_u64() {
        Some(at) => format!("{} {}", graph["nodes"][at as usize]["site"], graph["nodes"][at as usize]["context"]),
        None => "nobody".to_owned(),
    };
    let edges = graph["edges"].as_array().expect("edges");
    edges.iter().map(|edge| (name(&edge["from"]), name(&edge["to"]))).collect()
}

#[test]
fn code_points_are_ranked_from_traces_and_live_and_later_runs_held_against_tests() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    for collector in ["trace", "live", "mesi"] {
        let (json, svg, kept) = (format!("{collector}.json"), format!("{collector}.svg"), format!("{collector}.graph"));
        let args = ["rank", "-n", "30", "--collector", collector, "--json", &json, "--svg", &svg, "--save", &kept];
        let ranked = place.selvedge(&[&args[..], &["--", "./account"]].concat());
        assert_eq!(ranked.status.code(), Some(66), "{}", text(&ranked.stderr));
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place.path().join(&json)).expect("written")).expect("JSON");
        let first = &report["ranking"][0];
        let function = first["function"].as_str().expect("a function");
        assert!(["covers", "take"].contains(&function), "{collector}: {first}");
        assert!(first["why"].as_str().is_some_and(|why| why.contains("account.c:")), "{first}");
        assert!(report["runs"]["fail"].as_u64() >= Some(15) && report["runs"]["pass"].as_u64() >= Some(15), "{report}");
        assert!(text(&std::fs::read(place.path().join(&svg)).expect("written")).starts_with("<svg"));
        assert!(text(&ranked.stdout).contains("#1 "), "{}", text(&ranked.stdout));
    }
    // Failing runs do what no passing one did.
    let later = ["rank", "--baseline", "trace.graph", "--seed", "5", "--threshold", "0.5", "--", "./account"];
    let later = place.selvedge(&later);
    assert_eq!(later.status.code(), Some(66), "{}", text(&later.stderr));
    assert!(text(&later.stdout).contains("New at account.c:"), "{}", text(&later.stdout));
    let watched =
        place.selvedge(&["rank", "--baseline", "live.graph", "--watch", "--every", "10ms", "--", "./account"]);
    assert!(text(&watched.stderr).contains("looked "), "{}", text(&watched.stderr));
    assert!(text(&watched.stdout).contains("the balance is"), "{}", text(&watched.stdout));
    let wrong = place.selvedge(&["rank", "--baseline", "trace.graph", "--watch", "--", "./account"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    // How a testing graph was collected need not be said again; what contradicts it is refused.
    let same =
        ["rank", "--baseline", "mesi.graph", "-n", "10", "--seed", "5", "--threshold", "0.5", "--json", "new.json"];
    let same = place.selvedge(&[&same[..], &["--", "./account"]].concat());
    assert!(matches!(same.status.code(), Some(0 | 66)), "{}", text(&same.stderr));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.path().join("new.json")).expect("written")).expect("JSON");
    let told = report["ranking"].as_array().expect("a ranking");
    assert_eq!(told.is_empty(), same.status.code() == Some(0), "{report}");
    let other = place.selvedge(&["rank", "--baseline", "mesi.graph", "--context", "2", "--", "./account"]);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
    kept_graphs_add_up(&place);
}

/// Graphs that were kept by `rank --save` are values: they add up, and nothing is left of one less itself.
fn kept_graphs_add_up(place: &Place) {
    let told = |args: &[&str]| {
        let output = place.selvedge(args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        let figure = move |name: &str| -> Option<u64> {
            let line = told.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        ["runs", "nodes", "edges"].map(|name| figure(name).expect(name))
    };
    let [runs, nodes, edges] = told(&["graph", "live.graph"]);
    assert!(runs >= 15 && nodes > 0 && edges > 0);
    assert_eq!(told(&["graph", "live.graph", "live.graph", "-o", "both.graph"]), [2 * runs, nodes, edges]);
    assert_eq!(told(&["graph", "both.graph", "--minus", "live.graph"])[1..], [0, 0]);
    told(&["graph", "both.graph", "--program", "./account", "--dot", "both.dot", "--json", "both.json"]);
    let dot = text(&std::fs::read(place.path().join("both.dot")).expect("written"));
    assert!(dot.starts_with("digraph") && dot.contains("account.c:"), "{dot}");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.path().join("both.json")).expect("written")).expect("JSON");
    assert_eq!(json["edges"].as_array().map(Vec::len), usize::try_from(edges).ok());
    let unlike = place.selvedge(&["graph", "live.graph", "mesi.graph"]);
    assert_eq!(unlike.status.code(), Some(2));
    assert!(text(&unlike.stderr).contains("by line"), "{}", text(&unlike.stderr));
    let stranger = place.selvedge(&["graph", "live.graph", "--program", "/bin/sh"]);
    assert_eq!(stranger.status.code(), Some(2), "{}", text(&stranger.stderr));
}

#[test]
fn under_one_schedule_the_live_graph_is_that_of_the_trace() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    for collector in ["trace", "live"] {
        let json = format!("{collector}.json");
        let args = ["rank", "-n", "40", "--label", "none", "--collector", collector, "--graph-json", &json];
        let ranked = place.selvedge(&[&args[..], &["--", "./account"]].concat());
        assert!(matches!(ranked.status.code(), Some(0 | 66)), "{}", text(&ranked.stderr));
    }
    let (trace, live) = (edges(&place.path().join("trace.json")), edges(&place.path().join("live.json")));
    assert!(!live.is_empty());
    assert_eq!(live.difference(&trace).count(), 0, "{:?}", live.difference(&trace).collect::<Vec<_>>());
    // What nobody ever writes is an edge of a trace's graph only.
    assert!(trace.difference(&live).all(|(from, _)| from == "nobody"), "{:?}", trace.difference(&live));
}

/// What goes wrong is in the C library, where nobody looks: nothing is predicted, and yet runs fail.
#[test]
fn a_failure_that_no_prediction_explains_is_told_by_the_switch_that_decides() {
    let place = Place::new();
    let source = "#include <pthread.h>\n#include <stdio.h>\nstatic FILE *out;\n\
        static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
        static void *put(void *arg) {\n  long at = ftell(out);\n  pthread_mutex_lock(&m);\n  pthread_mutex_unlock(&m);\n  if (at == 0) fputs(\"h\", out);\n  return arg;\n}\n\
        int main(void) {\n  pthread_t a, b;\n  out = tmpfile();\n  pthread_create(&a, 0, put, 0);\n  pthread_create(&b, 0, put, 0);\n  \
        pthread_join(a, 0);\n  pthread_join(b, 0);\n  if (ftell(out) != 1) {\n    fprintf(stderr, \"two headers\\n\");\n    return 1;\n  }\n  return 0;\n}\n";
    std::fs::write(place.path().join("head.c"), source).expect("written");
    place.build("head.c", "head");
    let hunted = place.selvedge(&["hunt", "--no-guard", "--no-detect", "--json", "found.json", "--", "./head"]);
    let shown = text(&hunted.stdout);
    assert_eq!(hunted.status.code(), Some(66), "{shown}{}", text(&hunted.stderr));
    for expect in ["exit code 1: two headers", "recorded runs fail so", "SUMMARY: Selvedge: 1 bug in head, 1 with harm"]
    {
        assert!(shown.contains(expect), "no `{expect}` in\n{shown}");
    }
    let json = std::fs::read(place.path().join("found.json")).expect("written");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let clip = report["findings"][0]["clip"].as_str().expect("a clip");
    let replayed = place.selvedge(&["replay", clip]);
    assert_eq!(replayed.status.code(), Some(66), "{}{}", text(&replayed.stdout), text(&replayed.stderr));
}
