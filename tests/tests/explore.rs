//! `explore`, `replay`, `minimize` and `record --controlled`, as a user meets them: exit codes, what is printed
//! where, the JSON, and clips that travel.

use std::fs;
use std::path::{Path, PathBuf};

use selvedge_itest::{Ending, Lab, Outcome};
use serde_json::Value;

/// A program that fails in one order of its threads, and in no other.
const BANK: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static int balance = 100;
static void *withdraw(void *arg) { int now = balance; now -= 10; balance = now; return 0; }
int main(int argc, char **argv) {
    char line[32] = "";
    if (argc > 1) fgets(line, sizeof line, stdin);
    pthread_t one, two;
    pthread_create(&one, 0, withdraw, 0);
    pthread_create(&two, 0, withdraw, 0);
    pthread_join(one, 0);
    pthread_join(two, 0);
    printf("balance %d %s\n", balance, line);
    if (balance != 80) { fprintf(stderr, "%d too much\n", balance - 80); return 3; }
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
        let (file, program) = (lab.path("bank.c"), lab.path("bank"));
        fs::write(&file, source).expect("written");
        let subject = Subject { lab, program };
        subject.build();
        subject
    }

    fn build(&self) {
        let file = self.lab.path("bank.c");
        let words = ["cc", "-O1", "-g", "-pthread"].map(PathBuf::from);
        let built = self.lab.tool(words.into_iter().chain([file, "-o".into(), self.program.clone()]));
        assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
    }

    /// The tool as `$S`, the program as `$P`, the lab's directory as `$D`.
    fn sh(&self, script: &str) -> Outcome {
        let dir = self.lab.path("");
        let env = [("S", self.lab.selvedge()), ("P", self.program.as_path()), ("D", dir.as_path())];
        self.lab.run_with(["sh", "-c", script], &env)
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

/// What it does depends on its process id.
const BY_NUMBER: &str = r#"
#include <pthread.h>
#include <unistd.h>
static int turns;
__attribute__((noinline)) static void count(void) { turns++; }
static void *turn(void *arg) {
    for (int left = 1 + getpid() % 7; left > 0; left--) count();
    return 0;
}
int main(void) {
    pthread_t one, two;
    pthread_create(&one, 0, turn, 0);
    pthread_create(&two, 0, turn, 0);
    pthread_join(one, 0);
    pthread_join(two, 0);
    return 0;
}
"#;

#[test]
fn a_program_that_does_not_depend_on_the_schedule_alone_is_told_by_lines() {
    let subject = Subject::new(BY_NUMBER);
    for strategy in ["--check-determinism", "--strategy bounded"] {
        let script = format!("\"$S\" explore {strategy} --schedules 20 --out \"$D/store\" -- \"$P\"");
        let said = subject.sh(&script).stderr;
        let line = said.lines().find(|line| line.contains("does not depend on the schedule alone")).expect(&said);
        for words in
            [" the same for ", " steps and then differ: the first time T", " was about to ", "bank.c:5 in count"]
        {
            assert!(line.contains(words), "{words}: {line}");
        }
        for internal in ["flags", "0x", "site ", "Ready"] {
            assert!(!line.contains(internal), "{internal}: {line}");
        }
        assert!(said.contains("\"Reproducible runs\" in docs/guide/tuning.md"), "{said}");
    }
}

#[test]
fn a_failure_is_found_kept_replayed_and_made_small() {
    let subject = Subject::new(BANK);
    let found = subject.sh("\"$S\" explore --out \"$D/store\" --json \"$D/f.json\" -- \"$P\"");
    assert_eq!(found.ending, Ending::Exit(66), "{}", found.stderr);
    // Findings on standard output, the rest on standard error.
    let parts =
        ["WARNING: Selvedge: ", "exit code 3: 10 too much", "comes between", "SUMMARY: Selvedge: ", "selvedge replay "];
    for part in parts {
        assert!(found.stdout.contains(part), "{part}:\n{}", found.stdout);
    }
    assert!(!found.stdout.contains("balance 8") && !found.stderr.contains("WARNING"), "{}", found.stderr);
    assert!(found.stderr.contains("1000 schedules") && found.stderr.contains("1 distinct failure"), "{}", found.stderr);

    let report = json(&subject.lab.path("f.json"));
    assert_eq!((&report["version"], &report["runs"]["total"]), (&Value::from(1), &Value::from(1000)));
    let finding = &report["findings"][0];
    assert_eq!((&finding["status"], &finding["harm"]), (&"confirmed".into(), &"wrong-exit".into()));
    assert_eq!(finding["kind"], "atomicity-violation");
    let accesses = finding["accesses"].as_array().expect("a list");
    let told: Vec<_> =
        accesses.iter().map(|access| (&access["op"], &access["variable"], &access["function"])).collect();
    let of = |op| (Value::from(op), Value::from("balance"), Value::from("withdraw"));
    let wanted = [of("read"), of("write"), of("write")];
    assert_eq!(told, wanted.iter().map(|(op, variable, function)| (op, variable, function)).collect::<Vec<_>>());
    // The clip that is shown is the small one.
    let shown = subject.clip().with_extension("min.clip");
    assert_eq!(finding["clip"].as_str(), Some(&*shown.to_string_lossy()));

    let clip = subject.clip();
    let again = subject.lab.tool(["replay", "-n", "5", &clip.to_string_lossy()]);
    assert_eq!(again.ending, Ending::Exit(66), "{}", again.stderr);
    assert!(again.stderr.contains("replayed 5 times out of 5: exit code 3: 10 too much"), "{}", again.stderr);
    // One replay shows the program's own words.
    let once = subject.lab.tool(["replay", &clip.to_string_lossy()]);
    assert!(once.stdout.contains("balance 90") && once.stderr.contains("10 too much"), "{once:?}");

    let small = subject.lab.tool(["minimize", &clip.to_string_lossy()]);
    assert_eq!(small.ending, Ending::Exit(0), "{}", small.stderr);
    assert!(small.stdout.contains("became 1 (1 preemptive)"), "{}", small.stdout);
    let minimal = clip.with_extension("min.clip");
    let schedule = json(&minimal)["schedule"].as_str().expect("text").to_owned();
    assert!(schedule.starts_with("s1:") && schedule.matches('@').count() == 1, "{schedule}");
    assert_eq!(subject.lab.tool(["replay", &minimal.to_string_lossy()]).ending, Ending::Exit(66));
}

#[test]
fn the_same_seed_finds_the_same_whatever_the_number_of_servers() {
    let subject = Subject::new(BANK);
    let mut schedules = Vec::new();
    for jobs in [1, 3] {
        let found = subject.sh(&format!("\"$S\" explore --seed 5 -j{jobs} --out \"$D/store\" -- \"$P\""));
        assert_eq!(found.ending, Ending::Exit(66), "{}", found.stderr);
        schedules.push(json(&subject.clip())["schedule"].clone());
    }
    assert_eq!(schedules[0], schedules[1]);
}

#[test]
fn bounded_search_says_when_it_has_been_through_all() {
    // Main creates both threads and waits for the first. Without preemptions a thread runs until it is through, so
    // there are three orders: one, two, main; one, main (which then waits for the second), two; two, one, main.
    let subject = Subject::new(BANK);
    let none = subject.sh("\"$S\" explore --strategy bounded --preemptions 0 --out \"$D/store\" -- \"$P\"");
    assert_eq!(none.ending, Ending::Exit(0), "{}", none.stderr);
    assert!(
        none.stderr.contains("3 schedules in") && none.stderr.contains("these are all schedules"),
        "{}",
        none.stderr
    );
    let one = subject.sh("\"$S\" explore --strategy bounded --preemptions 1 --out \"$D/store\" -- \"$P\"");
    assert_eq!(one.ending, Ending::Exit(66), "{}", one.stderr);
    assert!(one.stderr.contains("these are all schedules with at most 1 preemption"), "{}", one.stderr);
}

#[test]
fn clips_carry_the_input_and_know_their_build() {
    let subject = Subject::new(BANK);
    let found = subject.sh("echo hello | \"$S\" explore --stop-on-first --out \"$D/store\" -- \"$P\" read");
    assert_eq!(found.ending, Ending::Exit(66), "{}", found.stderr);
    let clip = subject.clip();
    // From another directory, with another input at hand.
    let again = subject.lab.run_with(
        ["sh", "-c", "cd / && echo other | \"$S\" replay \"$C\""],
        &[("S", subject.lab.selvedge()), ("C", &clip)],
    );
    assert!(again.stdout.contains("balance 90 hello"), "{again:?}");
    fs::write(subject.lab.path("bank.c"), BANK.replace("too much", "over")).expect("written");
    subject.build();
    let other = subject.lab.tool(["replay", &clip.to_string_lossy()]);
    assert_eq!(other.ending, Ending::Exit(2), "{}", other.stderr);
    assert!(other.stderr.contains("is not the build that the clip was made with"), "{}", other.stderr);
}

#[test]
fn a_schedule_that_does_not_fit_says_where_and_what() {
    let subject = Subject::new(BANK);
    subject.sh("\"$S\" explore --stop-on-first --out \"$D/store\" -- \"$P\"");
    let clip = subject.clip();
    let mut changed = json(&clip);
    // Thread 1 does not get that far, and at its first point it reads.
    changed["schedule"] = "s1:0@1-0,1@1-2,1@99-2".into();
    changed["met"] = serde_json::json!([[u32::MAX, 0], [u32::MAX, 6], [u32::MAX, 0]]);
    fs::write(&clip, changed.to_string()).expect("written");
    let replayed = subject.lab.tool(["replay", &clip.to_string_lossy()]);
    assert_eq!(replayed.ending, Ending::Exit(1), "{}", replayed.stderr);
    assert!(replayed.stderr.contains("it went another way at T1@1"), "{}", replayed.stderr);
    assert!(replayed.stderr.contains("expected lock, came read at bank.c:6 in withdraw"), "{}", replayed.stderr);
}

#[test]
fn a_run_can_be_stopped_at_an_event() {
    let subject = Subject::new(BANK);
    subject.sh("\"$S\" explore --stop-on-first --out \"$D/store\" -- \"$P\"");
    let clip = subject.clip();
    let stopped = subject.lab.tool(["replay", "--until", "T1@2", &clip.to_string_lossy()]);
    assert_eq!(stopped.ending, Ending::Exit(0), "{}", stopped.stderr);
    assert!(
        stopped.stderr.contains("stopped at T1@2") && stopped.stderr.contains("about to write"),
        "{}",
        stopped.stderr
    );
    let past = subject.lab.tool(["replay", "--until", "T1@200", &clip.to_string_lossy()]);
    assert_eq!(past.ending, Ending::Exit(1), "{}", past.stderr);
    assert!(past.stderr.contains("was not reached"), "{}", past.stderr);
}

#[test]
fn an_oracle_judges_and_a_passing_program_has_nothing_to_report() {
    let subject = Subject::new(&BANK.replace("return 3;", "return 0;"));
    let quiet = subject.sh("\"$S\" explore --schedules 50 --out \"$D/store\" -- \"$P\"");
    assert_eq!((quiet.ending, quiet.stdout.as_str()), (Ending::Exit(0), ""), "{}", quiet.stderr);
    let oracle = "--oracle 'grep -q \"balance 80\" \"$SELVEDGE_RUN_DIR/stdout\"'";
    let judged = subject.sh(&format!("\"$S\" explore --stop-on-first {oracle} --out \"$D/store\" -- \"$P\""));
    assert_eq!(judged.ending, Ending::Exit(66), "{}", judged.stderr);
    assert!(judged.stdout.contains("the oracle"), "{}", judged.stdout);
    // The clip asks the oracle too.
    assert_eq!(subject.lab.tool(["replay", &subject.clip().to_string_lossy()]).ending, Ending::Exit(66));
}

#[test]
fn a_controlled_record_is_the_same_every_time() {
    let subject = Subject::new(BANK);
    let made =
        subject.sh("for i in 1 2 3; do \"$S\" record -q --controlled --seed 4 --out \"$D/store\" -- \"$P\"; done
         for i in 1 2 3; do \"$S\" trace $i --std --out \"$D/store\" > \"$D/$i.std\" || exit 8; done
         cmp \"$D/1.std\" \"$D/2.std\" && cmp \"$D/1.std\" \"$D/3.std\"");
    assert_eq!(made.ending, Ending::Exit(0), "{}{}", made.stdout, made.stderr);
    let text = fs::read_to_string(subject.lab.path("1.std")).expect("written");
    assert!(text.contains("|w(") && text.lines().count() > 6, "{text}");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    let subject = Subject::new(BANK);
    let cases = [
        ("\"$S\" explore --strategy magic -- \"$P\"", "invalid value 'magic'"),
        ("\"$S\" explore --guard \"$P\" -- \"$P\"", "not text"),
        ("\"$S\" explore --guard \"$D/bank.c\" -- \"$P\"", "not a file of invariants"),
        ("\"$S\" explore --heal \"$P\" -- \"$P\"", "not text"),
        ("\"$S\" explore --heal \"$D/bank.c\" -- \"$P\"", "not a file of sections"),
        ("\"$S\" explore --enforce \"$P\" -- \"$P\"", "cannot read the profile"),
        ("\"$S\" explore --enforce \"$D/bank.c\" -- \"$P\"", "selvedge-atomicity 2"),
        ("\"$S\" hunt --guard \"$P\" -- \"$P\"", "as it is"),
        ("\"$S\" replay \"$D/none.clip\"", "cannot read the clip"),
        ("\"$S\" replay \"$P\"", "is no clip"),
        ("\"$S\" replay --until 12 \"$P\"", "T1@12"),
        ("\"$S\" explore --out \"$D/store\" -- /bin/true", "was not built with selvedge"),
    ];
    for (script, reason) in cases {
        let refused = subject.sh(script);
        assert_eq!(refused.ending, Ending::Exit(2), "{script}: {}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{script}: {}", refused.stderr);
    }
}
