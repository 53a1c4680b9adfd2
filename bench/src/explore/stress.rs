//! What a user does without the tool: run the native program again and again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::Result;
use crate::exec::{Ending, Limits, Running};

/// The shortest time that a program is run for.
const SHORTEST: Duration = Duration::from_millis(200);
/// A run that takes longer hangs; corpus programs take milliseconds.
const HANG: Duration = Duration::from_secs(1);

/// Plain runs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Stressed {
    /// How many.
    pub runs: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Time that they took.
    pub seconds: f64,
    /// The shortest run.
    pub shortest: Option<f64>,
}

/// Runs a program, one run after the other, for so long.
pub fn stress(executable: &Path, args: &[String], time: Duration, logs: &Path) -> Result<Stressed> {
    let time = time.max(SHORTEST);
    let begin = Instant::now();
    let mut stressed = Stressed::default();
    while begin.elapsed() < time {
        let mut command = Command::new(executable);
        command.args(args);
        let cost = Running::start(command, "stress", logs)?.wait(&Limits::time(HANG))?;
        let took = cost.wall.as_secs_f64();
        stressed.runs += 1;
        stressed.failures += u64::from(cost.ending != Ending::Exit(0));
        stressed.shortest = Some(stressed.shortest.map_or(took, |shortest| shortest.min(took)));
    }
    stressed.seconds = begin.elapsed().as_secs_f64();
    Ok(stressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted() {
        let logs = tempfile::tempdir().unwrap();
        let script = ["-c".to_owned(), "exit 1".to_owned()];
        let stressed = stress(Path::new("/bin/sh"), &script, Duration::ZERO, logs.path()).unwrap();
        assert!(stressed.runs > 0 && stressed.failures == stressed.runs);
        assert!(stressed.seconds >= 0.2);
    }
}
