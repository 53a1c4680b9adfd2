//! `train`, `guard`, `relax`, `patch` and `expose`, as a user meets them: what is learnt from passing runs keeps failing
//! schedules from failing, what a guard noted is explained and taken in, and orders that only luck sees to are shown.

use std::fs;
use std::path::{Path, PathBuf};

use selvedge_itest::{Ending, Lab, Outcome};
use serde_json::Value;

/// Two tellers and a lost deposit.
const BANK: &str = include_str!("../../corpus/bank-account/buggy.c");
/// A frame that is drawn before there is a screen.
const LATE_INIT: &str = include_str!("../../corpus/zsnes-late-init/buggy.c");
/// One thread makes a value, then another takes it; with an argument, in the other order.
const MAKER: &str = r#"
#include <pthread.h>
#include <stdio.h>
static long value, seen;
static void *maker(void *arg) { value = 7; return 0; }
static void *taker(void *arg) { seen = value; return 0; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, argc > 1 ? taker : maker, 0);
    pthread_join(thread, 0);
    pthread_create(&thread, 0, argc > 1 ? maker : taker, 0);
    pthread_join(thread, 0);
    printf("seen %ld\n", seen);
    return 0;
}
"#;

struct Subject {
    lab: Lab,
    program: PathBuf,
}

impl Subject {
    fn new(source: &str) -> Subject {
        let lab = Lab::new();
        let subject = Subject { program: lab.path("prog"), lab };
        subject.build(source, "prog");
        subject
    }

    fn build(&self, source: &str, name: &str) {
        let file = self.lab.path(format!("{name}.c"));
        fs::write(&file, source).expect("written");
        let words = ["cc", "-O1", "-g", "-pthread"].map(PathBuf::from);
        let built = self.lab.tool(words.into_iter().chain([file, "-o".into(), self.lab.path(name)]));
        assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
    }

    /// The tool as `$S`, the program as `$P`, the lab's directory as `$D`, the store as `$O`; it must end with this code.
    fn sh(&self, code: i32, script: &str) -> Outcome {
        let (dir, store) = (self.lab.path(""), self.lab.path("store"));
        let env =
            [("S", self.lab.selvedge()), ("P", self.program.as_path()), ("D", dir.as_path()), ("O", store.as_path())];
        let done = self.lab.run_with(["sh", "-c", &format!("cd \"$D\"; {script}")], &env);
        assert_eq!(done.ending, Ending::Exit(code), "{script}\n{}{}", done.stdout, done.stderr);
        done
    }

    fn clip(&self) -> PathBuf {
        let clips = fs::read_dir(self.lab.path("store/clips")).expect("clips");
        let paths = clips.map(|entry| entry.expect("readable").path());
        paths.min_by_key(|path| path.as_os_str().len()).expect("a clip")
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON")
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn what_passing_runs_teach_lets_no_schedule_fail() {
    let subject = Subject::new(BANK);
    has(&subject.sh(66, "\"$S\" explore --schedules 300 --out \"$O\" -- \"$P\"").stdout, &["lost deposit"]);
    let trained = subject.sh(0, "\"$S\" train -n 40 --controlled-only --store \"$O\" -o i -- \"$P\"");
    has(&trained.stdout, &["40 runs", "only those that passed count", "written to i", "selvedge guard i -- "]);
    let text = fs::read_to_string(subject.lab.path("i")).expect("written");
    has(&text, &["selvedge-invariants 5", "site prog.c:deposit+3", "after nil", "after prog.c:deposit+5"]);
    // Three strategies; every one of them fails without the guard.
    for strategy in ["random", "pct", "pos"] {
        let explore = format!("\"$S\" explore --strategy {strategy} --schedules 300 --out \"$O\" --seed 9");
        subject.sh(66, &format!("{explore} -- \"$P\""));
        let guarded = subject.sh(0, &format!("{explore} --guard i -- \"$P\""));
        has(&guarded.stderr, &["fits: 5 of 5 sites", "300 pass, 0 fail, 0 hang"]);
    }
    // The failure's own schedule, with and without.
    let clip = subject.clip();
    subject.sh(66, &format!("\"$S\" replay {}", clip.display()));
    has(&subject.sh(1, &format!("\"$S\" replay --guard i {}", clip.display())).stderr, &["the last one: pass"]);
    // A plan for production is the same guard.
    let planned = subject.sh(0, "\"$S\" guard i --all --plan p.plan --out \"$O\" -- \"$P\"");
    has(&planned.stdout, &["SELVEDGE_PLAN=", "selvedge guard --log "]);
    subject.sh(0, "\"$S\" explore --schedules 300 --out \"$O\" --guard p.plan -- \"$P\"");
    subject.sh(0, "\"$S\" record --controlled -q -n 5 --out \"$O\" --guard i -- \"$P\"");
}

#[test]
fn what_a_guard_noted_is_explained_and_taken_in() {
    let subject = Subject::new(MAKER);
    subject.sh(0, "\"$S\" train -n 6 --store \"$O\" -o i -- \"$P\"");
    let quiet = subject.sh(0, "\"$S\" guard i --out \"$O\" -- \"$P\"");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("seen 7\n", ""), "nothing happened");
    // Nobody can come: the guard lets go long before its time.
    let noted = subject.sh(0, "\"$S\" guard i --stall 100s --out \"$O\" -- \"$P\" late");
    assert_eq!(noted.stdout, "seen 0\n");
    has(&noted.stderr, &["every other thread was blocked", "selvedge guard --log "]);
    let told = subject.sh(66, "\"$S\" guard --log store/guard/0002 --json v.json");
    has(
        &told.stdout,
        &[
            "Read of `value` at prog.c:6 in taker by T1",
            "came before any access of another thread",
            "In runs that passed it came after prog.c:5 in maker",
            "selvedge relax ",
            "SUMMARY: Selvedge: unknown order: prog.c:6 in taker after nothing",
        ],
    );
    let report = json(&subject.lab.path("v.json"));
    let findings = report["findings"].as_array().expect("a list");
    let first = |finding: &&Value| finding["kind"] == "order-violation" && finding["accesses"][0]["line"] == 6;
    assert!(findings.iter().any(|finding| first(&finding)), "{report}");
    let other = subject.sh(0, "\"$S\" relax i store/guard/0002 --only main");
    has(&other.stdout, &["nothing to add"]);
    has(&subject.sh(0, "\"$S\" relax i store/guard/0002").stdout, &["prog.c:6 in taker after nothing", "added to i"]);
    // Alone, the other order of the program violates more than its first log has: what follows changes too.
    subject.sh(0, "\"$S\" relax i --auto -n 3 --out \"$O\" -- \"$P\" late");
    let quiet = subject.sh(0, "\"$S\" guard i --out \"$O\" -- \"$P\" late");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("seen 0\n", ""));
}

#[test]
fn recorded_runs_teach_what_runs_do() {
    let subject = Subject::new(MAKER);
    subject.sh(0, "\"$S\" record -q --controlled -n 3 --out \"$O\" -- \"$P\"");
    subject.sh(0, "\"$S\" train --store \"$O\" -o recorded 1 2 3");
    subject.sh(0, "\"$S\" train --store \"$O\" -o made -n 3 -- \"$P\"");
    subject.sh(0, "cmp recorded made");
    // Adding to a file adds runs, and nothing else that is new.
    subject.sh(0, "\"$S\" train --store \"$O\" -o made --merge -n 3 -- \"$P\"; grep -q 'runs 6' made");
}

#[test]
fn a_patch_guards_one_bug_and_is_checked() {
    let subject = Subject::new(BANK);
    subject.sh(66, "\"$S\" explore --schedules 100 --out \"$O\" --json f.json -- \"$P\"");
    let verified = [
        "with the guard: pass",
        "300 passed, 0 failed, 0 hung",
        "verified: no run with the guard failed",
        "SELVEDGE_PLAN=",
    ];
    for what in [subject.clip().to_string_lossy().into_owned(), "f.json".to_owned()] {
        let patched = subject.sh(0, &format!("\"$S\" patch {what} --schedules 300 --out \"$O\" -o bank.invariants"));
        has(&patched.stdout, &verified);
        has(&patched.stderr, &["3 sites"]);
    }
    assert!(subject.lab.path("bank.plan").exists());
    let by_line = subject.sh(0, "\"$S\" patch --site prog.c:20 --schedules 90 --out \"$O\" -- \"$P\"");
    has(&by_line.stdout, &["verified"]);
    has(&subject.sh(2, "\"$S\" patch --site prog.c:1 --out \"$O\" -- \"$P\"").stderr, &["no site", "prog.c:1"]);
    has(&subject.sh(2, "\"$S\" patch --site nowhere --out \"$O\" -- \"$P\"").stderr, &["FILE:LINE"]);
}

#[test]
fn an_order_that_only_luck_sees_to_is_shown() {
    let subject = Subject::new(LATE_INIT);
    subject.sh(0, "\"$S\" train -n 20 --controlled-only --store \"$O\" -o i -- \"$P\"");
    let exposed = subject.sh(66, "\"$S\" expose i --out \"$O\" --json f.json -- \"$P\"");
    has(&exposed.stdout, &["the first frame was lost", "in video by T1", "nothing sees to that", "selvedge replay "]);
    let report = json(&subject.lab.path("f.json"));
    let finding = report.pointer("/findings/0").expect("one");
    assert_eq!((&finding["kind"], &finding["status"]), (&"order-violation".into(), &"confirmed".into()));
    subject.sh(66, &format!("\"$S\" replay {}", finding["clip"].as_str().expect("a clip")));
    // The guard keeps it from happening.
    subject.sh(66, "\"$S\" explore --schedules 100 --out \"$O\" -- \"$P\"");
    subject.sh(0, "\"$S\" explore --schedules 100 --out \"$O\" --guard i -- \"$P\"");
}

#[test]
fn where_there_is_no_order_to_turn_around_it_is_said_why() {
    // Where others follow, one baker's read comes after another's: what relax takes in is no order any more.
    let oven = r#"#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static int heat, cold;
static void *baker(void *arg) {
    usleep(20000);
    if (heat == 0) __atomic_fetch_add(&cold, 1, __ATOMIC_RELAXED);
    return arg;
}
int main(int argc, char **argv) {
    int bakers = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t threads[8];
    for (int i = 0; i < bakers; i++) pthread_create(&threads[i], NULL, baker, NULL);
    heat = 220;
    for (int i = 0; i < bakers; i++) pthread_join(threads[i], NULL);
    return cold > 0;
}
"#;
    let subject = Subject::new(oven);
    subject.sh(0, "\"$S\" train -n 20 --store \"$O\" -o i -- \"$P\"");
    let exposed = subject.sh(66, "\"$S\" expose i --out \"$O\" -- \"$P\"");
    assert!(!exposed.stderr.contains("no order to turn around"), "{}", exposed.stderr);
    subject.sh(0, "\"$S\" relax i --auto -n 10 --out \"$O\" -- \"$P\" 3");
    let exposed = subject.sh(0, "\"$S\" expose i --out \"$O\" -- \"$P\"");
    let next = "selvedge train -o fresh.invariants -- ";
    has(&exposed.stderr, &["no order to turn around: of 2 sites in i, each has come first", "`relax`", next]);
}

#[test]
fn what_the_source_asks_for_can_be_guarded_alone() {
    let marked = BANK.replace("long amount = (long)arg;", "SELVEDGE_GUARD_FUNCTION(); long amount = (long)arg;");
    let subject = Subject::new(&format!("#include <selvedge.h>\n{marked}"));
    subject.sh(0, "\"$S\" train --colours none -n 20 --controlled-only --store \"$O\" -o i -- \"$P\"");
    // The receipts are another function's.
    let planned = subject.sh(0, "\"$S\" guard i --asked --plan p.plan --out \"$O\" -- \"$P\"");
    has(&planned.stdout, &["3 sites guarded"]);
    subject.sh(0, "\"$S\" explore --schedules 100 --out \"$O\" --guard p.plan -- \"$P\"");
    subject.build(BANK, "prog");
    subject.sh(0, "\"$S\" train -n 20 --controlled-only --store \"$O\" -o i -- \"$P\"");
    has(&subject.sh(2, "\"$S\" guard i --asked --out \"$O\" -- \"$P\"").stderr, &["asks for nothing"]);
}

#[test]
fn what_cannot_be_guarded_is_refused_with_a_reason() {
    let subject = Subject::new(BANK);
    subject.build(MAKER, "other");
    subject.sh(0, "\"$S\" train -n 8 --controlled-only --store \"$O\" -o i -- \"$P\"");
    let cases = [
        ("guard i --out \"$O\" -- ./other", "they were learnt from `prog`"),
        ("explore --guard i --out \"$O\" -- ./other", "they were learnt from `prog`"),
        ("guard prog.c --out \"$O\" -- \"$P\"", "not a file of invariants"),
        ("guard none --out \"$O\" -- \"$P\"", "cannot read the invariants"),
        ("guard i --out \"$O\"", "which program?"),
        ("guard --log store", "no logs of a guard"),
        ("guard --log i", "no `sites.json`"),
        ("guard i --only nowhere --out \"$O\" -- \"$P\"", "nothing is left to guard"),
        ("train --store \"$O\" 99", "99"),
        ("train --store \"$O\" -- /bin/true", "was not built with selvedge"),
        ("relax i", "required"),
    ];
    for (command, reason) in cases {
        has(&subject.sh(2, &format!("\"$S\" {command}")).stderr, &[reason]);
    }
    // A rebuild of changed code: what is still there is guarded, the rest is named.
    let changed = BANK.replace("long next = slip(seen, amount);", "\nlong next = slip(seen, amount);");
    subject.build(&changed, "prog2");
    fs::copy(subject.lab.path("prog2.c"), subject.lab.path("prog.c")).expect("copied");
    subject.sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog");
    let fit = subject.sh(0, "\"$S\" guard i --watch --out \"$O\" -- \"$P\"; true").stderr;
    has(&fit, &["fits: 4 of 5 sites; 1 is not in this build: prog.c:deposit+5"]);
}
