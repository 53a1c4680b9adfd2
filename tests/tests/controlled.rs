//! Programs under controlled schedules, against their native behaviour.
//!
//! `SELVEDGE_ONLY` takes those programs whose name contains it; `SELVEDGE_SCHEDULES` changes how many schedules of
//! each strategy are run.

use std::sync::{Mutex, PoisonError};

use selvedge_itest::{Effort, Folder, Gaps, Program, Toolchain, check_under_control, find_selvedge, run_all};

/// One suite at a time: each keeps as many processors busy as the tests may use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn under_control(folder: Folder, effort: Effort) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let native = Toolchain::native();
    let only = std::env::var("SELVEDGE_ONLY").unwrap_or_default();
    let schedules = std::env::var("SELVEDGE_SCHEDULES").ok().and_then(|number| number.parse().ok());
    let effort = Effort { schedules: schedules.unwrap_or(effort.schedules), ..effort };
    let mut programs = Program::all_in(folder).expect("programs are readable");
    programs.retain(|program| program.name.contains(&only));
    let report = run_all("controlled", &programs, |program| check_under_control(&native, &selvedge, program, effort));
    let gaps = Gaps::load().expect("known_gaps.tsv is sound");
    let text = report.render(&gaps);
    assert!(report.problems(&gaps).is_empty(), "{text}");
    println!("{text}");
}

#[test]
fn synchronisation_keeps_its_promises() {
    under_control(Folder::Controlled, Effort { schedules: 8, twice: true });
}

#[test]
fn deadlocks_are_reported_and_nothing_else_is() {
    under_control(Folder::Deadlock, Effort { schedules: 10, twice: true });
}

#[test]
fn hostile_programs_do_not_notice() {
    // Signals and time-outs of many are real, so two runs need not be the same.
    under_control(Folder::Hostile, Effort { schedules: 1, twice: false });
}

#[test]
fn clean_programs_stay_clean() {
    under_control(Folder::Clean, Effort { schedules: 5, twice: true });
}
