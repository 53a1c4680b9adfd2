//! How a run ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::exit::ExitCode;

/// The label of a run, given by its exit status or by the user's oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "label", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// As it should.
    Pass,
    /// Wrong: an exit code, a signal, or the oracle's word where both are absent.
    Fail {
        /// Exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// Signal number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// It did not end in time.
    Hang,
    /// Nobody can say, as when the user stopped it.
    Unknown,
}

impl Outcome {
    /// The outcome of a guest that ended with this exit code.
    pub fn of_code(code: i32) -> Outcome {
        if code == 0 { Outcome::Pass } else { Outcome::Fail { code: Some(code), signal: None } }
    }

    /// The outcome of a guest that a signal ended.
    pub fn of_signal(signal: i32) -> Outcome {
        Outcome::Fail { code: None, signal: Some(signal) }
    }

    /// The word in lists and JSON.
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail { .. } => "fail",
            Outcome::Hang => "hang",
            Outcome::Unknown => "unknown",
        }
    }

    /// The exit code that passes the outcome on.
    pub fn exit_code(&self) -> u8 {
        match self {
            Outcome::Pass => ExitCode::Success.code(),
            Outcome::Fail { code: Some(code), .. } => u8::try_from(*code).unwrap_or(1),
            Outcome::Fail { signal: Some(signal), .. } => u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX),
            Outcome::Fail { .. } => ExitCode::SomeFailed.code(),
            Outcome::Hang => ExitCode::Hang.code(),
            Outcome::Unknown => ExitCode::Internal.code(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// How many runs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub pass: u64,
    /// Failed.
    pub fail: u64,
    /// Hung.
    pub hang: u64,
    /// Not labelled.
    pub unknown: u64,
}

impl Tally {
    /// Counts an outcome.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Pass => self.pass += 1,
            Outcome::Fail { .. } => self.fail += 1,
            Outcome::Hang => self.hang += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }

    /// All runs.
    pub fn total(&self) -> u64 {
        self.pass + self.fail + self.hang + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_round_trip_and_pass_the_guests_code_on() {
        let cases = [
            (Outcome::Pass, r#"{"label":"pass"}"#, 0),
            (Outcome::of_code(3), r#"{"label":"fail","code":3}"#, 3),
            (Outcome::of_signal(11), r#"{"label":"fail","signal":11}"#, 139),
            (Outcome::Fail { code: None, signal: None }, r#"{"label":"fail"}"#, 1),
            (Outcome::Hang, r#"{"label":"hang"}"#, 124),
            (Outcome::Unknown, r#"{"label":"unknown"}"#, 70),
        ];
        for (outcome, json, code) in cases {
            assert_eq!(serde_json::to_string(&outcome).expect("serialises"), json);
            assert_eq!(serde_json::from_str::<Outcome>(json).expect("parses"), outcome);
            assert_eq!(outcome.exit_code(), code, "{json}");
        }
        assert_eq!(Outcome::of_code(0), Outcome::Pass);
    }
}
