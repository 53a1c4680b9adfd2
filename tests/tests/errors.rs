//! Errors that a person can act on: what is wrong, why, and what to do next. Each situation is made, and the words are read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use selvedge_itest::{Ending, Lab, Outcome};

/// A program with a race, and shell words that make others of it.
const SOURCE: &str = "#include <pthread.h>\n\
    static long counter;\n\
    __attribute__((noinline)) static void count(void) { counter++; }\n\
    static void *work(void *arg) { count(); return arg; }\n\
    int main(void) {\n\
        pthread_t a, b;\n\
        pthread_create(&a, NULL, work, NULL);\n\
        pthread_create(&b, NULL, work, NULL);\n\
        pthread_join(a, NULL);\n\
        pthread_join(b, NULL);\n\
        return 0;\n\
    }\n";

const HUNT: &str = "\"$S\" hunt --runs 2 --budget 5s --";

/// A lab with the source, and the program built with selvedge as `prog`.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::write(lab.path("prog.c"), SOURCE).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g prog.c -o prog -pthread");
    lab
}

/// The one line of an error, which must have all these words.
fn expect_error(done: &Outcome, words: &[&str]) {
    let line = done.stderr.lines().find(|line| line.starts_with("selvedge: error: ")).unwrap_or_default();
    for word in words {
        assert!(line.contains(word), "`{word}` is missing in: {line}\n{}", done.stderr);
    }
}

fn refused(lab: &Lab, code: i32, script: &str, words: &[&str]) {
    expect_error(&lab.sh(code, script), words);
}

#[test]
fn programs_that_left_no_trace_are_told_apart() {
    let lab = lab();
    lab.sh(0, "cc -O1 -g prog.c -o plain -pthread");
    refused(&lab, 2, &format!("{HUNT} ./plain"), &["left no trace", "not built with selvedge", "selvedge build"]);
    if lab
        .run(["sh", "-c", &format!("cd '{}' && cc -fsanitize=thread prog.c -o tsan -pthread", lab.path("").display())])
        .ending
        == Ending::Exit(0)
    {
        refused(
            &lab,
            2,
            &format!("{HUNT} ./tsan"),
            &["the compiler's own ThreadSanitizer", "link it with `selvedge cc`"],
        );
    }
    lab.sh(0, "cc -O1 -static prog.c -o static -pthread");
    refused(&lab, 2, &format!("{HUNT} ./static"), &["statically linked", "without -static"]);
    lab.sh(0, "printf '#!/bin/sh\\nexec ./plain\\n' > script; chmod +x script");
    refused(&lab, 2, "\"$S\" record -- ./script", &["it is a script", "build what it starts"]);
}

#[test]
fn static_linking_is_refused_at_the_link() {
    let lab = lab();
    let done = lab.sh(1, "\"$S\" cc -static prog.c -o static -pthread || exit 1");
    assert!(
        done.stderr.contains("cannot link a static program") && done.stderr.contains("link without it"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_script_has_no_schedules() {
    let lab = lab();
    lab.sh(0, "printf '#!/bin/sh\\nexec ./prog\\n' > script; chmod +x script");
    refused(&lab, 2, &format!("{HUNT} ./script"), &["is a script", "give the program that it starts"]);
    // And what it says of record is true.
    lab.sh(0, "\"$S\" record -- ./script");
}

/// Changes bytes of a copy of the program.
fn with_bytes(lab: &Lab, name: &str, at: usize, bytes: &[u8]) {
    let mut copy = fs::read(lab.path("prog")).expect("readable");
    copy[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(lab.path(name), copy).expect("written");
    fs::set_permissions(lab.path(name), fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn programs_for_other_machines_are_named() {
    let lab = lab();
    with_bytes(&lab, "arm", 18, &[183, 0]);
    refused(&lab, 126, &format!("{HUNT} ./arm"), &["64-bit Arm (aarch64)", "build it for 64-bit x86"]);
    with_bytes(&lab, "small", 4, &[1]);
    refused(&lab, 126, &format!("{HUNT} ./small"), &["a 32-bit program", "build it for 64-bit x86"]);
    with_bytes(&lab, "object", 16, &[1, 0]);
    refused(&lab, 126, &format!("{HUNT} ./object"), &["an object file", "give the program itself"]);
}

#[test]
fn files_that_are_no_programs_are_said_to_be_none() {
    let lab = lab();
    refused(&lab, 127, &format!("{HUNT} ./nothing"), &["`./nothing` was not found", "give its path, or check PATH"]);
    refused(&lab, 127, &format!("{HUNT} nothing"), &["`nothing` was not found"]);
    refused(&lab, 127, &format!("{HUNT} prog"), &["`prog` was not found", "did you mean `./prog`?"]);
    refused(&lab, 126, &format!("{HUNT} ./prog.c"), &["cannot be executed", "execute permission"]);
    refused(&lab, 126, &format!("{HUNT} ./"), &["cannot be executed"]);
    lab.sh(0, "cp prog.c text; : > empty; chmod +x text empty");
    refused(&lab, 126, &format!("{HUNT} ./text"), &["is no program", "a text without `#!`"]);
    refused(&lab, 126, &format!("{HUNT} ./empty"), &["is no program", "empty"]);
}

#[test]
fn places_without_names_are_explained() {
    let lab = lab();
    lab.sh(0, "\"$S\" cc -O1 -g0 prog.c -o bare -pthread; cp prog stripped; strip stripped");
    for program in ["bare", "stripped"] {
        let done = lab.sh(66, &format!("{HUNT} ./{program}"));
        let said = done.stderr.contains("has no debug information; build it with -g, and do not strip it");
        assert!(said, "{program}: {}", done.stderr);
    }
    let done = lab.sh(66, &format!("{HUNT} ./prog"));
    assert!(!done.stderr.contains("debug information"), "{}", done.stderr);
}

#[test]
fn a_privileged_program_is_told_from_a_plain_one() {
    let lab = lab();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give programs away");
        return;
    }
    let user = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let prepare = "chmod 755 . && chmod 4755 prog && mkdir store && chmod 777 store";
    lab.sh(0, prepare);
    let script = format!("{user} env HOME=/nonexistent \"$S\" hunt --out store -- ./prog");
    let done =
        lab.run_with(["sh", "-c", &format!("cd '{}'; {script}", lab.path("").display())], &[("S", lab.selvedge())]);
    if done.stderr.contains("setpriv") || done.stderr.contains("Permission denied") {
        println!("skipped: another user cannot run the tool here: {}", done.stderr);
        return;
    }
    expect_error(&done, &["left no trace", "set-user-ID", "a copy of it without that bit"]);
}

#[test]
fn a_missing_compiler_is_named_with_the_variable() {
    let lab = lab();
    let done = lab.sh(127, "SELVEDGE_CC=no-such-cc \"$S\" cc prog.c -o x");
    for word in ["no-such-cc", "SELVEDGE_CC"] {
        assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
    }
    let done = lab.run_with(
        ["env", "PATH=/nonexistent", &*lab.selvedge().to_string_lossy(), "cc", "prog.c"],
        &[("D", Path::new("/"))],
    );
    assert_ne!(done.ending, Ending::Exit(0));
    assert!(done.stderr.contains("install") || done.stderr.contains("SELVEDGE_CC"), "{}", done.stderr);
}

#[test]
fn damaged_files_are_refused_with_their_place() {
    let lab = lab();
    lab.sh(66, &format!("{HUNT} ./prog"));
    lab.sh(0, "cp $(ls .selvedge/clips/prog-*.clip | head -n 1) whole.clip && head -c 100 whole.clip > half.clip && : > none.clip");
    for clip in ["half.clip", "none.clip", "prog.c"] {
        refused(&lab, 2, &format!("\"$S\" replay {clip}"), &[clip, "is no clip"]);
    }
    refused(&lab, 2, "\"$S\" replay gone.clip", &["gone.clip", "No such file"]);
    refused(&lab, 2, "\"$S\" guard prog.c -- ./prog", &["prog.c"]);
    refused(&lab, 2, "\"$S\" enforce prog.c -- ./prog", &["prog.c"]);
    lab.sh(
        0,
        "\"$S\" record -q -- ./prog && echo damaged > .selvedge/runs/0001/$(ls .selvedge/runs/0001 | grep trace.)",
    );
    let done = lab.sh(2, "\"$S\" trace 1 || exit 2");
    assert!(done.stderr.contains("trace."), "{}", done.stderr);
}

#[test]
fn a_clip_of_another_build_says_so() {
    let lab = lab();
    lab.sh(66, &format!("{HUNT} ./prog"));
    lab.sh(0, "cp $(ls .selvedge/clips/prog-*.clip | head -n 1) old.clip");
    lab.sh(0, "sed -i 's/counter++/counter += 2/' prog.c && \"$S\" cc -O1 -g prog.c -o prog -pthread");
    let done = lab.sh(2, "\"$S\" replay old.clip");
    expect_error(&done, &["is not the build that the clip was made with", "explore again"]);
}

#[test]
fn a_forgotten_separator_costs_nothing() {
    let lab = lab();
    // Words after the program are the program's; before it, a flag that does not exist is named with a way out.
    lab.sh(66, "\"$S\" hunt --runs 2 --budget 5s ./prog --not-ours");
    let done = lab.sh(2, "\"$S\" hunt --not-ours ./prog");
    assert!(done.stderr.contains("unexpected argument '--not-ours'"), "{}", done.stderr);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let lab = lab();
    lab.sh(0, "\"$S\" record -q -n 3 -- ./prog");
    for command in ["runs", "trace", "--help", "completions bash", "man hunt", "sites prog"] {
        let done = lab.sh(0, &format!("{{ \"$S\" {command}; echo \"code $?\" >&2; }} | true"));
        assert!(done.stderr.contains("code 0") && !done.stderr.contains("panicked"), "{command}: {}", done.stderr);
    }
}
