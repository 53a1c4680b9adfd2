//! What tells one failure of a program from another.

use std::fmt;
use std::path::Path;

use selvedge_events::control::{RunState, SeatState};
use selvedge_findings::{Harm, Outcome};
use selvedge_sched::OpKind;
use serde::{Deserialize, Serialize};

use crate::control::Answer;
use crate::run::End;
use crate::server::ControlledRun;

/// What went wrong in a controlled run. Two runs with equal signatures failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Signature {
    /// What was seen.
    pub harm: Harm,
    /// Exit code, signal, or what every thread waits in; with the last words of the program, their numbers blanked.
    pub detail: String,
}

/// What went wrong in one run: which failure it was, and how the program itself put it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// Which failure.
    pub signature: Signature,
    /// In the words of this run.
    pub words: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The label of a controlled run, before any oracle is asked.
pub fn outcome(run: &ControlledRun) -> Outcome {
    match run.answer.state {
        RunState::Deadlock | RunState::StepLimit => Outcome::Hang,
        _ => run.end.outcome(),
    }
}

/// What went wrong in a run with this label; `None` where it did not fail.
pub fn wrong(run: &ControlledRun, outcome: &Outcome, dir: &Path) -> Option<Wrong> {
    const SIGABRT: i32 = 6;
    let words = last_words(&dir.join("stderr"));
    let said = if words.is_empty() { String::new() } else { format!(": {words}") };
    let (harm, detail) = match (outcome, run.answer.state, run.end) {
        (Outcome::Pass | Outcome::Unknown, ..) => return None,
        (Outcome::Hang, RunState::Deadlock, _) => (Harm::Hang, format!("nothing can run: {}", waits(&run.answer))),
        (Outcome::Hang, RunState::StepLimit, _) => (Harm::Hang, "it did not end within --max-steps".to_owned()),
        (Outcome::Hang, ..) => (Harm::Hang, format!("no end in time: {}", waits(&run.answer))),
        (_, _, End::Signal(SIGABRT)) if is_assertion(&words) => (Harm::Assertion, words),
        (_, _, End::Signal(signal)) => (Harm::Crash, format!("{}{said}", signal_name(signal))),
        (_, _, End::Code(0)) => (Harm::Oracle, format!("the oracle says so{said}")),
        (_, _, End::Code(101)) if words.contains("panicked") => (Harm::Assertion, words),
        (_, _, End::Code(code)) => (Harm::WrongExit, format!("exit code {code}{said}")),
        (_, _, End::TimedOut | End::Interrupted) => (Harm::Hang, "no end in time".to_owned()),
    };
    Some(Wrong { signature: Signature { harm, detail: blank_numbers(&detail) }, words: detail })
}

fn is_assertion(words: &str) -> bool {
    ["ssertion", "panicked", "assert"].iter().any(|word| words.contains(word))
}

/// What the threads wait in, without numbers that differ from run to run.
fn waits(answer: &Answer) -> String {
    let mut waits: Vec<String> = answer
        .threads
        .iter()
        .filter(|seat| !matches!(seat.state, SeatState::Empty | SeatState::Ended))
        .map(|seat| match seat.state {
            SeatState::Blocked | SeatState::Io => format!("T{} in {}", seat.thread, verb(seat.kind)),
            SeatState::Outside => format!("T{} outside", seat.thread),
            _ => format!("T{} running", seat.thread),
        })
        .collect();
    waits.truncate(8);
    waits.join(", ")
}

fn verb(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Lock | OpKind::LockShared => "lock",
        OpKind::Join => "join",
        OpKind::Wait => "wait",
        OpKind::Sleep => "sleep",
        OpKind::Io => "input or output",
        other => other.name(),
    }
}

/// The last line that says something.
fn last_words(file: &Path) -> String {
    const MOST: usize = 160;
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Rust's panics say what was wrong after the place, and how to see more after that.
    let noise = |line: &&&str| !line.starts_with("note: ") && !line.starts_with("stack backtrace");
    let line = match lines.iter().rposition(|line| line.contains("panicked at")) {
        Some(at) => lines.get(at..).unwrap_or(&[]).iter().take(2).copied().collect::<Vec<_>>().join(" "),
        None => lines.iter().rev().find(noise).copied().unwrap_or("").to_owned(),
    };
    line.chars().take(MOST).collect()
}

/// Numbers are no difference: addresses, counts and process ids change from run to run.
fn blank_numbers(text: &str) -> String {
    let mut blanked = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if blanked.ends_with('#') => {}
            '0'..='9' => blanked.push('#'),
            c => blanked.push(c),
        }
    }
    blanked
}

/// A signal's name.
pub fn signal_name(signal: i32) -> String {
    let names = [
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
    ];
    let name = names.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn judged(end: End, state: RunState, stderr: &str) -> Option<(Harm, String, String)> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("stderr"), stderr).expect("written");
        let answer = Answer { state, ..Answer::empty() };
        let run = ControlledRun { end, answer, duration: Duration::ZERO };
        let wrong = wrong(&run, &outcome(&run), dir.path())?;
        Some((wrong.signature.harm, wrong.signature.detail, wrong.words))
    }

    #[test]
    fn failures_are_told_apart_by_what_they_say_not_by_numbers() {
        let running = RunState::Running;
        assert_eq!(judged(End::Code(0), running, "noise"), None);
        let cases = [
            (End::Code(3), running, "lost 12 of 90\n", Harm::WrongExit, "exit code #: lost # of #"),
            (
                End::Signal(6),
                running,
                "p: p.c:5: main: Assertion `x == 1' failed.\n",
                Harm::Assertion,
                "p: p.c:#: main",
            ),
            (End::Signal(11), running, "", Harm::Crash, "SIGSEGV"),
            (
                End::Code(101),
                running,
                "thread 'x' panicked at a.rs:1:2:\nno\nnote: run with",
                Harm::Assertion,
                "thread",
            ),
            (End::Code(66), RunState::Deadlock, "", Harm::Hang, "nothing can run"),
            (End::TimedOut, running, "", Harm::Hang, "no end in time"),
            (End::Code(66), RunState::StepLimit, "", Harm::Hang, "did not end within --max-steps"),
        ];
        for (end, state, stderr, harm, detail) in cases {
            let (came, said, _) = judged(end, state, stderr).expect("a failure");
            assert_eq!(came, harm, "{end:?}");
            assert!(said.contains(detail), "{said}");
        }
        let (_, detail, words) = judged(End::Code(1), running, "7 lost").expect("a failure");
        assert_eq!((detail.as_str(), words.as_str()), ("exit code #: # lost", "exit code 1: 7 lost"));
    }
}
