//! Legal programs that do what breaks tools, against their native behaviour.
//!
//! `hostile_native` shows that the programs themselves hold; the others that a wrapped program
//! cannot be told from a native one. Failures that are known are in `known_gaps.tsv`.

use std::sync::{Mutex, PoisonError};

use selvedge_itest::{
    Folder, Gaps, Mode, Program, Report, Toolchain, Verdict, check_against_native, check_directive, find_clang,
    find_selvedge, run_all,
};

/// One suite at a time: each keeps as many processors busy as the tests may use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn hostile_programs() -> Vec<Program> {
    Program::all_in(Folder::Hostile).expect("programs are readable")
}

fn suite(mode: &str, judge: impl Fn(&Program) -> Verdict + Sync) -> Report {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    run_all(mode, &hostile_programs(), judge)
}

fn expect_no_problems(report: &Report) {
    let gaps = Gaps::load().expect("known_gaps.tsv is sound");
    let text = report.render(&gaps);
    assert!(report.problems(&gaps).is_empty(), "{text}");
    println!("{text}");
}

fn wrapped(mode: Mode) {
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let native = Toolchain::native();
    expect_no_problems(&suite(mode.name(), |program| check_against_native(&native, &selvedge, mode, program)));
}

#[test]
fn hostile_native() {
    let native = Toolchain::native();
    expect_no_problems(&suite("native", |p| check_directive(&native, p)));
}

#[test]
fn hostile_disarmed() {
    wrapped(Mode::Disarmed);
}

#[test]
#[ignore = "`hostile_recorded` surveys too; this one tells which of the two runs fails"]
fn hostile_surveyed() {
    wrapped(Mode::Survey);
}

#[test]
fn hostile_recorded() {
    wrapped(Mode::Record);
}

#[test]
fn hostile_clang_disarmed() {
    let Some((cc, cxx)) = find_clang() else {
        println!("skipped: no clang on the path; install clang to run this test");
        return;
    };
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let clang = Toolchain::of(cc, cxx);
    expect_no_problems(&suite("clang-disarmed", |program| {
        match check_against_native(&clang, &selvedge, Mode::Disarmed, program) {
            // An older clang does not know all that the programs use.
            Verdict::Fail(why) if why.starts_with("does not build natively") => Verdict::Skip(why),
            verdict => verdict,
        }
    }));
}

#[test]
#[ignore = "tells whether a failure under clang is the program's own"]
fn hostile_clang_native() {
    let Some((cc, cxx)) = find_clang() else {
        println!("skipped: no clang on the path; install clang to run this test");
        return;
    };
    let clang = Toolchain::of(cc, cxx);
    expect_no_problems(&suite("clang-native", |p| check_directive(&clang, p)));
}

#[test]
#[ignore = "informative: how ThreadSanitizer's own runtime fares; it never fails"]
fn hostile_under_threadsanitizer() {
    let tsan = Toolchain::native().with_flags(&["-fsanitize=thread", "-Wno-tsan"]);
    let report = suite("threadsanitizer", |program| {
        let mut program = program.clone();
        let options = ("TSAN_OPTIONS".to_owned(), "report_bugs=0".to_owned());
        program.directives.env.push(options);
        check_directive(&tsan, &program)
    });
    println!("{}", report.render(&Gaps::default()));
}
