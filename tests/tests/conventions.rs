//! Conventions that users know from other tools: options in the environment, a file of the project, logs, exit codes, colours.
//! The pages of the guide show the ordinary cases; here are the corners.

use std::fs;

use selvedge_itest::{Ending, Lab};

const HUNT: &str = "\"$S\" hunt --runs 2 --budget 5s";

fn lab() -> Lab {
    let lab = Lab::new();
    let source = "#include <pthread.h>\n\
        static long counter;\n\
        __attribute__((noinline)) static void count(void) { counter++; }\n\
        static void *work(void *arg) { count(); return arg; }\n\
        int main(int argc, char **argv) {\n\
            pthread_t a, b;\n\
            pthread_create(&a, NULL, work, NULL);\n\
            pthread_create(&b, NULL, work, NULL);\n\
            pthread_join(a, NULL);\n\
            pthread_join(b, NULL);\n\
            (void)argv;\n\
            return argc > 1 ? 3 : 0;\n\
        }\n";
    fs::create_dir(lab.path("src")).expect("made");
    fs::write(lab.path("src/prog.c"), source).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g \"$PWD/src/prog.c\" -o prog -pthread");
    lab
}

#[test]
fn nearer_settings_win() {
    let lab = lab();
    fs::create_dir(lab.path(".config")).expect("made");
    fs::write(lab.path(".config/selvedge.toml"), "[profile.default]\nexit-code = 10\n").expect("written");
    let hunt = format!("{HUNT} -- ./prog");
    lab.sh(10, &hunt);
    lab.sh(11, &format!("TSAN_OPTIONS=exitcode=11 {hunt}"));
    lab.sh(12, &format!("TSAN_OPTIONS=exitcode=11 SELVEDGE_OPTIONS=exitcode=12 {hunt}"));
    lab.sh(13, &format!("SELVEDGE_OPTIONS=exitcode=12 {HUNT} --exit-code 13 -- ./prog"));
    // Also from a directory below.
    lab.sh(10, &format!("cd src; {HUNT} -- ../prog"));
}

#[test]
fn wrong_settings_are_named_with_their_place() {
    let lab = lab();
    let done = lab.sh(2, &format!("SELVEDGE_OPTIONS=exitcode=many {HUNT} -- ./prog"));
    assert!(done.stderr.contains("SELVEDGE_OPTIONS: exitcode=many: invalid value"), "{}", done.stderr);
    let done = lab.sh(2, &format!("SELVEDGE_OPTIONS=include=gone {HUNT} -- ./prog"));
    assert!(done.stderr.contains("cannot read the included file `gone`"), "{}", done.stderr);
    let done = lab.sh(2, &format!("{HUNT} --profile ci -- ./prog"));
    assert!(done.stderr.contains("there is no profile `ci`"), "{}", done.stderr);
    let done = lab.sh(2, &format!("SELVEDGE_OPTIONS=suppressions=gone.supp {HUNT} -- ./prog"));
    assert!(done.stderr.contains("cannot read the suppressions `gone.supp`"), "{}", done.stderr);
}

#[test]
fn idle_keys_are_accepted_in_silence() {
    let lab = lab();
    let keys = "history_size=7:force_seq_cst_atomics=1:atexit_sleep_ms=0:die_after_fork=0:ignore_noninstrumented_modules=1:\
                second_deadlock_stack=1:symbolize=1";
    let done = lab.sh(0, &format!("SELVEDGE_OPTIONS={keys} \"$S\" runs"));
    assert_eq!(done.stderr.matches("there is no key").count(), 0, "{}", done.stderr);
}

#[test]
fn the_end_of_a_command_is_as_asked() {
    let lab = lab();
    let abort = lab.sh(134, &format!("{HUNT} --abort-on-error -- ./prog; exit $?"));
    assert!(abort.stdout.contains("SUMMARY: Selvedge: data race"), "{}", abort.stdout);
    lab.sh(0, &format!("{HUNT} --exit-from guest -- ./prog"));
    lab.sh(1, &format!("{HUNT} --exit-from=guest -- ./prog fail"));
    // One run, and nothing found: the program's own code.
    lab.sh(3, "\"$S\" detect --strength 0 -- ./prog fail");
    lab.sh(0, "\"$S\" detect --strength 0 -- ./prog");
}

#[test]
fn logs_and_prefixes() {
    let lab = lab();
    let log = format!("{HUNT} --log-path out --strip-path-prefix \"$PWD/\" --json out.json -- ./prog");
    let done = lab.sh(66, &log);
    assert!(!done.stdout.contains("WARNING"), "{}", done.stdout);
    let logged = lab.sh(0, "cat out.[0-9]*").stdout;
    assert!(
        logged.contains("WARNING: Selvedge: data race in count / count") && logged.contains(" src/prog.c:3"),
        "{logged}"
    );
    assert!(!logged.contains(&format!("{}src", lab.path("").display())), "{logged}");
    assert!(!logged.contains("\x1b["), "{logged}");
    let json = fs::read_to_string(lab.path("out.json")).expect("written");
    assert!(json.contains("\"file\": \"src/prog.c\""), "{json}");
    let done = lab.sh(66, &format!("{HUNT} --log-path stderr -- ./prog"));
    assert!(done.stderr.contains("WARNING: Selvedge: data race"), "{}", done.stderr);
    let done = lab.sh(2, &format!("{HUNT} --log-path /nonexistent/x -- ./prog"));
    assert!(done.stderr.contains("cannot write the log") && done.stderr.contains("--log-path"), "{}", done.stderr);
}

#[test]
fn every_command_with_findings_suppresses() {
    let lab = lab();
    fs::write(lab.path("all.supp"), "race:count\norder:*\natomicity:*\n").expect("written");
    let with = "--suppressions all.supp";
    lab.sh(66, "\"$S\" detect -n 5 --strength 500 --no-clip -- ./prog");
    let done = lab.sh(0, &format!("\"$S\" detect -n 5 --strength 500 --no-clip {with} -- ./prog"));
    assert!(!done.stdout.contains("WARNING") && done.stderr.contains("Matched 1 suppression"), "{}", done.stderr);
    lab.sh(0, &format!("{HUNT} {with} -- ./prog"));
    lab.sh(0, "\"$S\" record -q --controlled -n 2 -- ./prog");
    lab.sh(66, "\"$S\" predict 1 2");
    lab.sh(0, &format!("\"$S\" predict {with} 1 2"));
    // Without confirmation predictions are only listed; suppressed ones are not.
    assert!(lab.sh(0, "\"$S\" predict --no-confirm 1").stdout.contains("data race"));
    assert!(!lab.sh(0, &format!("\"$S\" predict --no-confirm {with} 1")).stdout.contains("data race"));
    // Every schedule of this one fails, as its argument makes it.
    let explored = "\"$S\" explore --schedules 3";
    lab.sh(66, &format!("{explored} -- ./prog fail"));
    lab.sh(66, &format!("{explored} --gen-suppressions known.supp -- ./prog fail"));
    lab.sh(0, &format!("{explored} --suppressions known.supp -- ./prog fail"));
}

#[test]
fn reports_can_be_made_again_for_a_day() {
    let lab = lab();
    fs::write(lab.path("dated.supp"), "# expires=2020-06-30\nrace:count\n").expect("written");
    lab.sh(66, &format!("{HUNT} --suppressions dated.supp -- ./prog"));
    // The last day counts.
    lab.sh(0, &format!("SOURCE_DATE_EPOCH=1593540000 {HUNT} --suppressions dated.supp -- ./prog"));
    lab.sh(66, &format!("SOURCE_DATE_EPOCH=1593561600 {HUNT} --suppressions dated.supp -- ./prog"));
}

#[test]
fn colours_are_asked_for_or_not_there() {
    let lab = lab();
    let wrong = "\"$S\" replay gone.clip";
    let coloured = |script: &str| lab.sh(2, script).stderr.contains("\x1b[");
    assert!(!coloured(wrong));
    assert!(coloured(&format!("CLICOLOR_FORCE=1 {wrong}")));
    assert!(coloured(&format!("CARGO_TERM_COLOR=always {wrong}")));
    assert!(!coloured(&format!("NO_COLOR=1 CLICOLOR_FORCE=1 {wrong}")));
    assert!(coloured(&format!("NO_COLOR=1 {wrong} --color always")));
}

#[test]
fn a_workflow_of_the_guide_is_one_and_its_lines_run() {
    let page = include_str!("../../docs/guide/ci.md");
    let workflow = page.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("\n```")).map(|(block, _)| block);
    let workflow = workflow.expect("a workflow");
    let lab = lab();
    fs::write(lab.path("w.yml"), workflow).expect("written");
    let script = "import sys, yaml; w = yaml.safe_load(open('w.yml')); s = w['jobs']['hunt']['steps']; \
                  assert all(('run' in x) != ('uses' in x) for x in s); assert True in w; \
                  print('\\n'.join(x['run'] for x in s if 'run' in x))";
    let parsed = lab.run(["sh", "-c", &format!("cd '{}' && python3 -c \"{script}\"", lab.path("").display())]);
    let lines: Vec<String> = match parsed.ending {
        Ending::Exit(0) => parsed.stdout.lines().map(str::to_owned).collect(),
        _ => {
            println!("python3 with yaml is missing, so lines are cut out as text: {}", parsed.stderr);
            workflow.lines().filter_map(|line| Some(line.trim().strip_prefix("run: ")?.to_owned())).collect()
        }
    };
    assert_eq!(lines.len(), 2, "{lines:?}");
    lab.sh(0, "cp src/prog.c counter.c");
    for (line, code) in lines.iter().zip([0, 66]) {
        lab.sh(code, &line.replacen("selvedge", "\"$S\"", 1));
    }
    assert!(lab.path("findings.sarif").is_file());
}
