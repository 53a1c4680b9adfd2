//! One advisory, hunted with the real command, and what it found replayed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use selvedge_findings::{Harm, Report, Status};
use serde::Serialize;

use super::advisory::Advisory;
use crate::error::{BenchError, Result, at};

/// Most clips of one hunt that are replayed: those of the first findings, which are the worst.
const CLIPS: u32 = 3;
/// Exit code of a replay that fails as before.
const FINDINGS: i32 = 66;

/// How to hunt.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amounts {
    /// Seconds for a test.
    pub budget: u64,
    /// Decides what is left to chance.
    pub seed: u64,
    /// How many plain runs of the test first.
    pub plain: u32,
    /// How often a clip is replayed.
    pub replays: u32,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Hunted {
    /// What it is about.
    pub advisory: Advisory,
    /// Plain runs of the instrumented test that passed.
    pub plain_passes: u32,
    /// Seconds for the hunt, without the build.
    pub seconds: f64,
    /// Confirmed findings.
    pub findings: Vec<Found>,
}

/// A confirmed finding.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Its kind.
    pub kind: String,
    /// The harm in a word; none if nothing was seen to go wrong.
    pub harm: Option<String>,
    /// Replays that failed as before, where the clip was replayed.
    pub replayed: Option<u32>,
}

/// Builds and hunts the test of an advisory below `dir`.
pub fn hunt(advisory: &Advisory, selvedge: &Path, dir: &Path, amounts: &Amounts) -> Result<Hunted> {
    let package = advisory.package(dir)?;
    let tool = |words: &[&str]| {
        let mut command = Command::new(selvedge);
        command.arg("cargo").args(words).current_dir(&package).stdin(Stdio::null());
        // The package is nobody's member: what our own build set must not reach it.
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(name);
        }
        // Crates that many advisories share are built once.
        command.env("CARGO_TARGET_DIR", dir.join("target"));
        command
    };
    let run =
        |command: &mut Command| command.output().map_err(|source| BenchError::System("start cargo selvedge", source));
    let built = run(&mut tool(&["test", "--no-run"]))?;
    if !built.status.success() {
        return Err(BenchError::Failed {
            what: format!("build {}", advisory.name),
            how: built.status.to_string(),
            log: String::from_utf8_lossy(&built.stderr).into_owned(),
        });
    }
    let mut plain_passes = 0;
    for _ in 0..amounts.plain {
        plain_passes += u32::from(run(&mut tool(&["test", "-q"]))?.status.success());
    }
    let (json, store) = (package.join("findings.json"), package.join("store"));
    let (budget, seed) = (amounts.budget.to_string(), amounts.seed.to_string());
    let begin = Instant::now();
    let mut command = tool(&["hunt", "--test", "advisory", "--budget", &budget, "--seed", &seed, "--resurvey"]);
    let output = run(command.arg("--json").arg(&json).arg("--out").arg(&store))?;
    let seconds = begin.elapsed().as_secs_f64();
    let text = at("read", &json, std::fs::read(&json)).map_err(|_| BenchError::Failed {
        what: format!("cargo selvedge hunt {}", advisory.name),
        how: output.status.to_string(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    })?;
    let report: Report = serde_json::from_slice(&text)
        .map_err(|source| BenchError::Json { what: json.display().to_string(), source })?;
    let mut findings = Vec::new();
    let mut replayed_clips = 0;
    for finding in report.findings.iter().filter(|finding| finding.status == Status::Confirmed) {
        let replayed = match &finding.clip {
            Some(clip) if finding.harm != Harm::NoneSeen && replayed_clips < CLIPS => {
                replayed_clips += 1;
                Some(replays(&|| tool(&["replay"]), clip, amounts.replays)?)
            }
            _ => None,
        };
        findings.push(Found {
            kind: finding.kind.words().to_owned(),
            harm: (finding.harm != Harm::NoneSeen).then(|| harm_words(finding.harm).to_owned()),
            replayed,
        });
    }
    Ok(Hunted { advisory: advisory.clone(), plain_passes, seconds, findings })
}

/// How often the failure of a clip comes again.
fn replays(tool: &dyn Fn() -> Command, clip: &str, times: u32) -> Result<u32> {
    let mut same = 0;
    for _ in 0..times {
        let output = tool().arg(clip).output().map_err(|source| BenchError::System("replay", source))?;
        same += u32::from(output.status.code() == Some(FINDINGS));
    }
    Ok(same)
}

fn harm_words(harm: Harm) -> &'static str {
    match harm {
        Harm::Assertion => "failed test",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "failed test",
        _ => "harm",
    }
}
