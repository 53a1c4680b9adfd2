//! One program: built with the wrapper, hunted with the real command, and what its JSON says.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge_findings::bugs::named;
use selvedge_findings::{Figures, Finding, Guarded, Report};
use selvedge_report::brief;
use serde::Serialize;

use crate::columns::{Build, Compiler, Toolchain};
use crate::error::{BenchError, Result, at, without_paths};
use crate::load;
use crate::rows::{Bench, ROWS};

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

impl Amounts {
    /// Seconds that a hunt may take: the budget, and what `selvedge hunt --help` says beside.
    pub fn most(&self) -> f64 {
        self.budget as f64 * 1.1 + 5.0
    }
}

/// A bug that was shown.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Its title and places.
    pub title: String,
    /// Its functions, sorted; and its variable: what a note is found by.
    pub about: String,
    /// What it did.
    pub harm: String,
    /// Others of the same root cause.
    pub others: usize,
    /// Whether a schedule makes it happen again; else it was seen in free runs.
    pub has_clip: bool,
    /// How a guard did.
    pub guard: Option<Guarded>,
}

/// What a hunt came to.
#[derive(Debug, Clone, Serialize)]
pub struct Hunted {
    /// The program and its version.
    pub name: String,
    /// The workload, in words.
    pub workload: String,
    /// Exit code of the command.
    pub exit: i32,
    /// Seconds that it took.
    pub seconds: f64,
    /// How recorded runs ended: all, passed.
    pub recorded: (u64, u64),
    /// What the command counted.
    pub figures: Figures,
    /// What it showed.
    pub shown: Vec<Shown>,
    /// What it said of its phases.
    pub said: Vec<String>,
}

/// Most time for building and checking a program.
const LIMIT: Duration = Duration::from_secs(600);

/// Hunts one of the programs; `key` is its row.
pub fn hunt(key: &str, work: &Path, selvedge: &Path, amounts: &Amounts) -> Result<Hunted> {
    let row = ROWS.iter().find(|row| row.key == key).copied();
    let row = row.ok_or_else(|| BenchError::Wrong(format!("there is no row {key}")))?;
    let bench = Bench::prepare(row, work, LIMIT)?;
    let chain = Toolchain::wrapped(selvedge, Compiler::Gcc);
    let executable = bench.build(Build::Wrapped(Compiler::Gcc), &chain)?;
    let dir = work.join("real");
    at("create", &dir, std::fs::create_dir_all(&dir))?;
    let name = bench.version.clone().unwrap_or_else(|| key.to_owned());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    match key {
        "pbzip2" => {
            let input = bench.input_of(400_000)?.display().to_string();
            let args = words(&["-p2", "-b1", "-z", "-k", "-c", &input]);
            run(&name, "`pbzip2 -p2 -b1 -z -c`, 0.4 MB", selvedge, &executable, &args, &dir, amounts)
        }
        "zstd" => {
            let input = bench.input_of(600_000)?.display().to_string();
            let what = "our driver over the library: 0.6 MB, 2 workers, decompressed and compared";
            run(&name, what, selvedge, &executable, &words(&[&input, "2"]), &dir, amounts)
        }
        _ => {
            let port = load::free_port()?;
            let number = port.to_string();
            let mut args = words(&["-A", "-l", "127.0.0.1", "-p", &number, "-U", "0", "-t", "2", "-m", "64"]);
            if rustix::process::geteuid().is_root() {
                args.extend(words(&["-u", "root"]));
            }
            let what = "`memcached -A -t 2`: 60 checked requests over two connections, then `shutdown`, in every run";
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| serve_each(port, &over));
                let hunted = run(&name, what, selvedge, &executable, &args, &dir, amounts);
                over.store(true, Ordering::Relaxed);
                hunted
            })
        }
    }
}

/// Gives every run of the server the same few requests, and then ends it.
fn serve_each(port: u16, over: &AtomicBool) {
    const REQUESTS: u64 = 60;
    while !over.load(Ordering::Relaxed) {
        if load::is_served(port) {
            // A run that is cut short gives no answers: that is the hunt's to see.
            let _ = load::run(port, REQUESTS, 2);
            let _ = load::shut_down(port);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn run(
    name: &str,
    workload: &str,
    selvedge: &Path,
    executable: &Path,
    args: &[String],
    dir: &Path,
    amounts: &Amounts,
) -> Result<Hunted> {
    let json = dir.join(format!("{name}.json"));
    let begin = Instant::now();
    let output = Command::new(selvedge)
        .arg("hunt")
        .args(["--runs", &amounts.runs.to_string(), "--budget", &amounts.budget.to_string()])
        .args(["--seed", &amounts.seed.to_string(), "--timeout", "30s", "--resurvey", "--json"])
        .arg(&json)
        .arg("--out")
        .arg(dir.join(format!("{name}.store")))
        .arg("--")
        .arg(executable)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| BenchError::System("start selvedge", source))?;
    let seconds = begin.elapsed().as_secs_f64();
    let exit = output.status.code().unwrap_or(-1);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = dir.join(format!("{name}.txt"));
    at("write", &text, std::fs::write(&text, &output.stdout))?;
    let bytes = std::fs::read(&json).map_err(|_| BenchError::Failed {
        what: format!("selvedge hunt {name}"),
        how: format!("exited with {exit}"),
        log: stderr.clone(),
    })?;
    let report: Report = serde_json::from_slice(&bytes)
        .map_err(|source| BenchError::Json { what: json.display().to_string(), source })?;
    Ok(Hunted {
        name: name.to_owned(),
        workload: workload.to_owned(),
        exit,
        seconds,
        recorded: (report.runs.total, report.runs.pass),
        figures: report.figures.clone().unwrap_or_default(),
        shown: shown(&report),
        said: stderr.lines().map(without_paths).collect(),
    })
}

/// The bugs that a report shows as errors.
fn shown(report: &Report) -> Vec<Shown> {
    let bugs = named(&report.findings);
    let leads = bugs.iter().filter_map(|bug| Some((report.findings.get(bug.lead)?, bug.others.len())));
    let one = |(lead, others): (&Finding, usize)| {
        let mut guard = lead.guard.clone();
        if let Some(guard) = &mut guard {
            guard.plan = None;
        }
        Shown {
            id: lead.id.clone(),
            title: brief::line(lead),
            about: about(lead),
            harm: lead.failure.clone().unwrap_or_else(|| lead.harm.words().to_owned()),
            others,
            has_clip: lead.clip.is_some(),
            guard,
        }
    };
    leads.filter(|(lead, _)| lead.is_error()).map(one).collect()
}

/// `f / g: variable`.
fn about(finding: &Finding) -> String {
    let functions: std::collections::BTreeSet<&str> =
        finding.accesses.iter().filter_map(|access| access.function.as_deref()).collect();
    let functions: Vec<&str> = functions.into_iter().collect();
    let variable = finding.accesses.iter().find_map(|access| access.variable.as_deref()).unwrap_or("?");
    format!("{}: {variable}", functions.join(" / "))
}
