//! One program, hunted with the real command; what its JSON says is held against the manifest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use selvedge_corpus::{Guilty, Kernel};
use selvedge_findings::{Figures, Finding, Harm, Kind, Report, Status};
use serde::Serialize;

use crate::error::{BenchError, Result, at};
use crate::exec::run_tool;
use crate::measure::median;

/// How to hunt.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amounts {
    /// Runs to record.
    pub runs: u32,
    /// Seconds for a program.
    pub budget: u64,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// What a hunt came to.
#[derive(Debug, Clone, Serialize)]
pub struct Hunted {
    /// The program.
    pub name: String,
    /// Exit code of the command.
    pub exit: i32,
    /// Seconds that it took.
    pub seconds: f64,
    /// Time of a controlled recording over that of a native run.
    pub recording: Option<f64>,
    /// What the command counted.
    pub figures: Figures,
    /// How recorded runs ended: all, passed.
    pub recorded: (u64, u64),
    /// Confirmed findings by kind: all, with harm.
    pub races: (u64, u64),
    /// The same of atomicity violations.
    pub atomicity: (u64, u64),
    /// The same of atomic-set violations.
    pub sets: (u64, u64),
    /// The same of orders, deadlocks and lost wake-ups.
    pub others: (u64, u64),
    /// Whether one on the guilty lines was made to happen.
    pub guilty: bool,
    /// Whether one on the guilty lines did harm.
    pub guilty_harm: bool,
    /// Whether the harm is the manifest's.
    pub harm_as_told: bool,
    /// Titles of confirmed findings that did harm, or are races: what a user is shown.
    pub shown: Vec<String>,
}

impl Hunted {
    /// Confirmed findings.
    pub fn real(&self) -> u64 {
        self.races.0 + self.atomicity.0 + self.sets.0 + self.others.0
    }

    /// Confirmed findings with harm.
    pub fn failing(&self) -> u64 {
        self.races.1 + self.atomicity.1 + self.sets.1 + self.others.1
    }
}

/// Hunts a program; `dir` is for its files.
pub fn hunt(
    name: &str,
    selvedge: &Path,
    executable: &Path,
    args: &[String],
    dir: &Path,
    amounts: &Amounts,
    kernel: Option<&Kernel>,
) -> Result<Hunted> {
    let json: PathBuf = dir.join(format!("{name}.json"));
    let begin = Instant::now();
    let output = Command::new(selvedge)
        .arg("hunt")
        .args(["--runs", &amounts.runs.to_string(), "--budget", &amounts.budget.to_string()])
        .args(["--seed", &amounts.seed.to_string(), "--resurvey", "--json"])
        .arg(&json)
        .arg("--out")
        .arg(dir.join(format!("{name}.store")))
        .arg("--")
        .arg(executable)
        .args(args)
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|source| BenchError::System("start selvedge", source))?;
    let seconds = begin.elapsed().as_secs_f64();
    let exit = output.status.code().unwrap_or(-1);
    let text = at("read", &json, std::fs::read(&json)).map_err(|_| BenchError::Failed {
        what: format!("selvedge hunt {name}"),
        how: format!("exited with {exit}"),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    })?;
    let report: Report = serde_json::from_slice(&text)
        .map_err(|source| BenchError::Json { what: json.display().to_string(), source })?;
    let figures = report.figures.clone().unwrap_or_default();
    let confirmed: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.status == Status::Confirmed).collect();
    let count = |kinds: &[Kind]| {
        let of = || confirmed.iter().filter(|finding| kinds.contains(&finding.kind));
        (of().count() as u64, of().filter(|finding| finding.harm != Harm::NoneSeen).count() as u64)
    };
    let guilty: Vec<&&Finding> = match kernel {
        Some(kernel) => confirmed.iter().filter(|finding| is_guilty(finding, &kernel.guilty)).collect(),
        None => Vec::new(),
    };
    let harms: BTreeSet<Harm> = guilty.iter().map(|finding| finding.harm).collect();
    let shown = confirmed
        .iter()
        .filter(|finding| {
            finding.harm != Harm::NoneSeen || matches!(finding.kind, Kind::DataRace | Kind::Deadlock | Kind::LostWakeup)
        })
        .map(|finding| title(finding))
        .collect();
    Ok(Hunted {
        name: name.to_owned(),
        exit,
        seconds,
        recording: recording(executable, args, dir, &figures, report.runs.total),
        recorded: (report.runs.total, report.runs.pass),
        races: count(&[Kind::DataRace]),
        atomicity: count(&[Kind::AtomicityViolation]),
        sets: count(&[Kind::AtomicSetViolation]),
        others: count(&[Kind::OrderViolation, Kind::Deadlock, Kind::LostWakeup]),
        guilty: !guilty.is_empty(),
        guilty_harm: harms.iter().any(|harm| *harm != Harm::NoneSeen),
        harm_as_told: kernel.is_some_and(|kernel| harms.iter().any(|harm| name_of(*harm) == kernel.harm.to_string())),
        shown,
        figures,
    })
}

/// Whether a finding is about the guilty lines: two of its accesses are on them, or all that it has.
fn is_guilty(finding: &Finding, guilty: &[Guilty]) -> bool {
    let lines: BTreeSet<u32> = guilty.iter().map(|guilty| guilty.line).collect();
    let on = finding.accesses.iter().filter_map(|access| access.line).filter(|line| lines.contains(line)).count();
    on >= finding.accesses.len().clamp(1, 2)
}

fn title(finding: &Finding) -> String {
    let lines: Vec<String> =
        finding.accesses.iter().map(|access| access.line.map_or("?".to_owned(), |line| line.to_string())).collect();
    format!("{} at {}", finding.kind.words(), lines.join("-"))
}

fn name_of(harm: Harm) -> &'static str {
    match harm {
        Harm::Assertion => "assertion",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "wrong-exit",
        Harm::Oracle => "oracle",
        _ => "none",
    }
}

/// The median of a few plain runs of the same binary, without a plan, against the mean of the recordings.
fn recording(executable: &Path, args: &[String], dir: &Path, figures: &Figures, runs: u64) -> Option<f64> {
    let mut plain = Vec::new();
    for _ in 0..3 {
        let begin = Instant::now();
        let run = run_tool(Command::new(executable).args(args).current_dir(dir));
        let time = begin.elapsed();
        if run.is_ok() && time < Duration::from_secs(1) {
            plain.push(time.as_secs_f64() * 1e3);
        }
    }
    let one = figures.recording_ms / crate::bars::to_f64(runs.max(1));
    median(plain).filter(|plain| *plain > 0.0).map(|plain| one / plain)
}
