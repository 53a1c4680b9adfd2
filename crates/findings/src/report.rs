//! The JSON of findings: one document for every command that yields them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::outcome::Tally;
use crate::ranking::RankedPoint;

/// Version of the document.
///
/// 1: first.
pub const VERSION: u32 = 1;

/// What a command found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// What was run.
    pub program: Program,
    /// How its runs ended.
    pub runs: Runs,
    /// What is or may be wrong.
    pub findings: Vec<Finding>,
    /// How much was looked at and tried, by commands that predict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Code points by how likely they are the bug, by commands that rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Vec<RankedPoint>>,
    /// Findings that suppressions left out; missing where no suppressions were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<u64>,
}

impl Report {
    /// A report of the current version.
    pub fn new(program: Program, runs: Runs, findings: Vec<Finding>) -> Report {
        Report { version: VERSION, program, runs, findings, figures: None, ranking: None, suppressed: None }
    }
}

/// How much was looked at and tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Threads of the run with the most.
    pub threads: u64,
    /// Variables that threads share, in the run with the most.
    pub variables: u64,
    /// Events of all runs that were predicted from.
    pub events: u64,
    /// Time for recording, in milliseconds, of all runs.
    pub recording_ms: f64,
    /// Time for searching, of all runs.
    pub analysis_ms: f64,
    /// Time for making an order of events, on average.
    pub schedule_ms: f64,
    /// Predictions by kind, unique by source.
    pub predicted: BTreeMap<Kind, u64>,
    /// Of these, proved before anything was run.
    pub proved: u64,
    /// Made to happen.
    pub confirmed: u64,
    /// Of these, by the first run that tried.
    pub first_try: u64,
    /// Of those made to happen, with harm.
    pub harmful: u64,
    /// Could not be made to happen.
    pub refuted: u64,
    /// For which there was no time.
    pub untried: u64,
}

/// A program under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file.
    pub path: String,
    /// Its build-id in hexadecimal; empty where it has none.
    pub build_id: String,
}

/// How runs ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// All.
    pub total: u64,
    /// Passed.
    pub pass: u64,
    /// Failed.
    pub fail: u64,
    /// Hung.
    pub hang: u64,
}

impl From<Tally> for Runs {
    fn from(tally: Tally) -> Runs {
        Runs { total: tally.total(), pass: tally.pass, fail: tally.fail, hang: tally.hang }
    }
}

/// Something that is or may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The same bug has the same id on every run and machine.
    pub id: String,
    /// What sort of bug.
    pub kind: Kind,
    /// How sure it is.
    pub status: Status,
    /// What it was seen to do.
    pub harm: Harm,
    /// The accesses that make it up, in the order that goes wrong.
    pub accesses: Vec<Access>,
    /// The schedule that makes it happen.
    pub clip: Option<String>,
    /// The command that makes it happen.
    pub replay: Option<String>,
    /// The relation that proves, before anything is run, that it can happen; `null` where nothing does.
    #[serde(default)]
    pub proved: Option<String>,
    /// The pattern that a prediction matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Why a refuted prediction is refuted: `no-order`, `diverged`, `blocked`, `did-not-happen`, `timed-out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted: Option<String>,
    /// What goes wrong, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gist: Option<String>,
    /// Why nothing keeps it from happening, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The id of the finding that leads its bug: those with one root cause have the same ([`crate::bugs`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How the program failed in the run that showed it, with numbers blanked: what tells one failure from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Switches between threads that the schedule asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<u64>,
    /// Whether a baseline has its bug, where there was one to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<bool>,
    /// A guard that was made against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// Locks that were placed against it, and against all else that passing runs never do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<Guarded>,
}

/// A guard that was made against a bug, or locks that were placed, and how it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// The plan that puts it to use, where one was made.
    pub plan: Option<String>,
    /// Whether no run with it failed, and there were some.
    pub verified: bool,
    /// Failing schedules of the bug that were run with it.
    pub clips: u64,
    /// Of these, how many still failed.
    pub clips_failed: u64,
    /// Fresh schedules that were run with it.
    pub schedules: u64,
    /// Of these, how many failed.
    pub failures: u64,
    /// Of the same schedules without it, how many failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures_without: Option<u64>,
    /// Why there is none, or why it does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Kind {
    /// Every sort.
    pub const ALL: &[Kind] = &[
        Kind::DataRace,
        Kind::AtomicityViolation,
        Kind::AtomicSetViolation,
        Kind::OrderViolation,
        Kind::Deadlock,
        Kind::LostWakeup,
    ];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::DataRace => "data-race",
            Kind::AtomicityViolation => "atomicity-violation",
            Kind::AtomicSetViolation => "atomic-set-violation",
            Kind::OrderViolation => "order-violation",
            Kind::Deadlock => "deadlock",
            Kind::LostWakeup => "lost-wakeup",
        }
    }

    /// Whether it is wrong by itself; other orders are wrong where they do harm.
    pub const fn is_wrong_by_itself(self) -> bool {
        matches!(self, Kind::DataRace | Kind::Deadlock | Kind::LostWakeup)
    }

    /// The words for it in a report's title.
    pub const fn words(self) -> &'static str {
        match self {
            Kind::DataRace => "data race",
            Kind::AtomicityViolation => "atomicity violation",
            Kind::AtomicSetViolation => "atomic-set violation",
            Kind::OrderViolation => "order violation",
            Kind::Deadlock => "deadlock",
            Kind::LostWakeup => "lost wake-up",
        }
    }
}

impl Finding {
    /// A finding that nothing has confirmed yet.
    pub fn new(id: String, kind: Kind, accesses: Vec<Access>) -> Finding {
        Finding {
            id,
            kind,
            status: Status::Predicted,
            harm: Harm::NoneSeen,
            accesses,
            clip: None,
            replay: None,
            proved: None,
            pattern: None,
            refuted: None,
            gist: None,
            why: None,
            group: None,
            failure: None,
            switches: None,
            known: None,
            guard: None,
            locks: None,
        }
    }

    /// Whether it is an error: it was made to happen or seen, and is wrong by itself or did harm. Others are remarks.
    pub fn is_error(&self) -> bool {
        self.status == Status::Confirmed && (self.harm != Harm::NoneSeen || self.kind.is_wrong_by_itself())
    }

    /// Whether services that show findings to people are to have it: errors, and predictions that nobody tried. What was
    /// refuted, and orders that did no harm, are for those who ask.
    pub fn is_told(&self) -> bool {
        self.is_error() || self.status == Status::Predicted
    }

    /// `data race in deposit / withdraw`: the functions sorted, so that one bug has one title.
    pub fn title(&self) -> String {
        let functions: BTreeSet<&str> = self.accesses.iter().filter_map(|access| access.function.as_deref()).collect();
        let functions: Vec<&str> = functions.into_iter().collect();
        match functions.as_slice() {
            [] => self.kind.words().to_owned(),
            [one] => format!("{} in {one} / {one}", self.kind.words()),
            more => format!("{} in {}", self.kind.words(), more.join(" / ")),
        }
    }
}

/// Sorts of bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// Two accesses, one a write, that nothing orders.
    DataRace,
    /// Accesses to one variable that should be one.
    AtomicityViolation,
    /// Accesses to several variables that should be one.
    AtomicSetViolation,
    /// Two accesses in the wrong order.
    OrderViolation,
    /// Threads that wait for each other.
    Deadlock,
    /// A wake-up that nobody waited for yet.
    LostWakeup,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// It may happen.
    Predicted,
    /// It was made to happen.
    Confirmed,
    /// It could not be made to happen.
    Refuted,
}

impl Harm {
    /// The words for it.
    pub const fn words(self) -> &'static str {
        match self {
            Harm::NoneSeen => "none seen",
            Harm::Assertion => "an assertion failed",
            Harm::Crash => "the program crashed",
            Harm::Hang => "the program hung",
            Harm::WrongExit => "the exit code was wrong",
            Harm::Oracle => "the oracle refused the run",
        }
    }
}

/// What a finding was seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Harm {
    /// Nothing yet.
    NoneSeen,
    /// An assertion failed.
    Assertion,
    /// The program crashed.
    Crash,
    /// The program hung.
    Hang,
    /// The exit code was wrong.
    WrongExit,
    /// The user's oracle said so.
    Oracle,
}

/// One access of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Thread index.
    pub thread: u32,
    /// `read`, `write`, `lock`, `wait`, `signal`, …
    pub op: String,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The variable.
    pub variable: Option<String>,
    /// Of a trace that was read from text: the line of the event in the file, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The calls that led to it, innermost first; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Frame>,
    /// The number of its event in a run of the finding's clip, from 1; nothing where it never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What it found in memory and left there: `= 100`, `100 → 110`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The locks that its thread held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Held>,
}

/// A lock that a thread held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name.
    pub lock: String,
    /// `FILE:LINE` where it was taken, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// One call of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The file name of the program or library that the code is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_documented_shape() {
        let text = r#"{"version":1,"program":{"path":"./bank","build_id":"ab12"},
            "runs":{"total":20,"pass":18,"fail":2,"hang":0},
            "findings":[{"id":"f1","kind":"data-race","status":"confirmed","harm":"none-seen",
              "accesses":[{"thread":1,"op":"read","function":"deposit","file":"bank.c","line":8,"variable":"balance"}],
              "clip":null,"replay":null,"proved":null}]}"#;
        let report: Report = serde_json::from_str(text).expect("parses");
        assert_eq!(report.findings[0].kind, Kind::DataRace);
        let again = serde_json::to_value(&report).expect("serialises");
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).expect("parses"));
    }

    #[test]
    fn names_are_those_of_the_json() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("serialises"), kind.name());
        }
    }

    #[test]
    fn errors_are_what_happened_and_is_wrong() {
        let cases = [
            (Kind::DataRace, Status::Confirmed, Harm::NoneSeen, (true, true)),
            (Kind::DataRace, Status::Predicted, Harm::NoneSeen, (false, true)),
            (Kind::AtomicityViolation, Status::Confirmed, Harm::NoneSeen, (false, false)),
            (Kind::AtomicityViolation, Status::Confirmed, Harm::Crash, (true, true)),
            (Kind::Deadlock, Status::Refuted, Harm::NoneSeen, (false, false)),
        ];
        for (kind, status, harm, expected) in cases {
            let mut finding = Finding::new("f".into(), kind, Vec::new());
            (finding.status, finding.harm) = (status, harm);
            assert_eq!((finding.is_error(), finding.is_told()), expected, "{kind:?} {status:?} {harm:?}");
        }
    }

    #[test]
    fn titles_do_not_depend_on_who_came_first() {
        let access = |name: &str| Access { function: Some(name.into()), ..Access::default() };
        let title = |names: &[&str]| {
            Finding::new("f".into(), Kind::DataRace, names.iter().map(|name| access(name)).collect()).title()
        };
        assert_eq!(title(&["b", "a"]), "data race in a / b");
        assert_eq!(title(&["a", "a"]), "data race in a / a");
        assert_eq!(title(&[]), "data race");
    }
}
