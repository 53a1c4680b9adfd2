//! Whether a run under the tool behaved as the native one did.

use thiserror::Error;

use crate::directives::Ending;
use crate::mode::Mode;
use crate::run::Outcome;

/// How a run differs from the native one.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Mismatch {
    /// It ended in another way.
    #[error("ended by {seen}, natively by {native}")]
    Ending {
        /// The native ending.
        native: Ending,
        /// The ending seen.
        seen: Ending,
    },
    /// It printed something else.
    #[error("standard output differs from line {line} on: natively {native:?}, now {seen:?}")]
    Stdout {
        /// The first line that differs, counted from 1.
        line: usize,
        /// That line natively; none where the native output had ended.
        native: Option<String>,
        /// That line now; none where the output had ended.
        seen: Option<String>,
    },
}

/// Compares a run in `mode` with the native run of the same program.
///
/// `record` runs a program more than once: its output may appear once or once per run, always as
/// whole copies. A death by signal may be passed on as the signal or, as shells do, as 128 + number.
pub fn compare(mode: Mode, native: &Outcome, seen: &Outcome) -> Result<(), Mismatch> {
    if !same_ending(mode, native.ending, seen.ending) {
        return Err(Mismatch::Ending { native: native.ending, seen: seen.ending });
    }
    let copies = 1..=mode.guest_runs();
    let mut expected = copies.map(|n| native.stdout.repeat(n));
    if expected.any(|text| text == seen.stdout) {
        return Ok(());
    }
    Err(first_difference(&native.stdout, &seen.stdout))
}

fn same_ending(mode: Mode, native: Ending, seen: Ending) -> bool {
    match (mode, native, seen) {
        (Mode::Survey | Mode::Record, Ending::Signal(number), Ending::Exit(status)) => status == 128 + number,
        _ => native == seen,
    }
}

fn first_difference(native: &str, seen: &str) -> Mismatch {
    let (mut native, mut seen) = (native.lines(), seen.lines());
    let mut line = 0;
    loop {
        line += 1;
        let (expected, got) = (native.next(), seen.next());
        if expected != got || expected.is_none() {
            return Mismatch::Stdout { line, native: expected.map(str::to_owned), seen: got.map(str::to_owned) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: Ending, stdout: &str) -> Outcome {
        Outcome { ending, stdout: stdout.to_owned(), stderr: String::new() }
    }

    #[test]
    fn equal_outcomes_match_in_every_mode() {
        let native = outcome(Ending::Exit(3), "a\nb\n");
        for mode in Mode::ALL {
            assert_eq!(compare(mode, &native, &native.clone()), Ok(()));
        }
    }

    #[test]
    fn a_recorded_program_may_print_once_per_run() {
        let native = outcome(Ending::Exit(0), "a\n");
        let twice = outcome(Ending::Exit(0), "a\na\n");
        let thrice = outcome(Ending::Exit(0), "a\na\na\n");
        assert_eq!(compare(Mode::Record, &native, &twice), Ok(()));
        assert!(compare(Mode::Record, &native, &thrice).is_err());
        assert!(compare(Mode::Disarmed, &native, &twice).is_err());
    }

    #[test]
    fn a_signal_may_become_a_status_only_behind_the_command() {
        let native = outcome(Ending::Signal(6), "");
        let status = outcome(Ending::Exit(134), "");
        assert_eq!(compare(Mode::Record, &native, &status), Ok(()));
        assert!(compare(Mode::Disarmed, &native, &status).is_err());
        assert!(compare(Mode::Record, &status, &native).is_err());
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let native = outcome(Ending::Exit(0), "a\nb\nc\n");
        let seen = outcome(Ending::Exit(0), "a\nx\nc\n");
        let expected = Mismatch::Stdout { line: 2, native: Some("b".into()), seen: Some("x".into()) };
        assert_eq!(compare(Mode::Disarmed, &native, &seen), Err(expected));
        let short = outcome(Ending::Exit(0), "a\nb\n");
        let expected = Mismatch::Stdout { line: 3, native: Some("c".into()), seen: None };
        assert_eq!(compare(Mode::Disarmed, &native, &short), Err(expected));
    }
}
