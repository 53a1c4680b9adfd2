//! The corpus: every kernel that races is found, nothing correct is accused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use selvedge_corpus::{Command as CorpusCommand, Compiler, Kernel, Language, Program, Variant, build};
use selvedge_drive::detect::DetectOptions;
use selvedge_drive::store::Store;
use serde::Serialize;

use super::table::{Cell, cells, run};
use crate::error::{BenchError, Result, at, tool};
use crate::explore::workshop::Workshop;

/// How much to do.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amounts {
    /// Runs of a kernel within which its race must be seen.
    pub runs: u32,
    /// Runs of each correct program and fixed twin, if there is time.
    pub correct_runs: u32,
    /// Most seconds for all of these.
    pub correct_seconds: u32,
    /// Schedules of each program with each kind of healing.
    pub schedules: u32,
    /// Runs of each cell of Table 2.
    pub table_runs: u32,
    /// Runs of a kernel under ThreadSanitizer.
    pub tsan_runs: u32,
}

/// What came of a kernel.
#[derive(Debug, Clone, Serialize)]
pub struct KernelRow {
    /// Its name.
    pub name: String,
    /// Its pattern.
    pub pattern: String,
    /// Whether its manifest says that it races.
    pub known_to_race: bool,
    /// Distinct races that ThreadSanitizer told in all its runs; `None` where it was not asked (Rust).
    pub tsan: [Option<usize>; 2],
    /// The run that first saw a race, from 1.
    pub first: Option<usize>,
    /// Pairs of places.
    pub pairs: usize,
    /// Whether one was seen within the budget of 5 %.
    pub at_five_percent: bool,
    /// Processor seconds of all its runs: ours, and both compilers' ThreadSanitizers'.
    pub cpu: [f64; 3],
    /// Its cells of Table 2; none where it does not race.
    pub cells: Vec<Cell>,
}

impl KernelRow {
    /// Whether it races: as its manifest says, or as anybody saw.
    pub fn races(&self) -> bool {
        self.known_to_race || self.pairs > 0 || self.tsan.iter().flatten().any(|races| *races > 0)
    }
}

/// What came of a program without a bug.
#[derive(Debug, Clone, Serialize)]
pub struct CorrectRow {
    /// Its name.
    pub name: String,
    /// Runs made.
    pub runs: u64,
    /// Runs that did not pass.
    pub failed: u64,
    /// Reports, which must be none.
    pub reports: Vec<String>,
}

/// Processor seconds that ended children have used so far.
pub fn children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // cutime and cstime, in hundredths of a second.
    (ticks(13) + ticks(14)) / 100.0
}

/// A compiler with ThreadSanitizer.
fn tsan(cc: &str, cxx: &str, out_dir: PathBuf) -> Compiler {
    Compiler {
        cc: CorpusCommand::new(cc, ["-fsanitize=thread"]),
        cxx: CorpusCommand::new(cxx, ["-fsanitize=thread"]),
        rustc: CorpusCommand::new("rustc", Vec::<String>::new()),
        out_dir,
    }
}

/// Runs a program under ThreadSanitizer; the distinct races that it tells.
fn tsan_races(program: &Path, args: &[String], runs: u32) -> Result<usize> {
    let mut told = BTreeSet::new();
    for _ in 0..runs {
        let output = Command::new("timeout")
            .args(["5", "setarch", "-R"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| BenchError::System("start timeout", source))?;
        let text = String::from_utf8_lossy(&output.stderr);
        told.extend(
            text.lines().filter(|line| line.starts_with("SUMMARY: ThreadSanitizer: data race")).map(str::to_owned),
        );
    }
    Ok(told.len())
}

/// Detects in a kernel, and asks both ThreadSanitizers.
pub fn kernel(kernel: &Kernel, workshop: &Workshop, work: &Path, amounts: &Amounts) -> Result<KernelRow> {
    let source = kernel.program();
    let program = workshop.wrapped(&source, Variant::Buggy)?;
    let store = store(work, &format!("{}-buggy", kernel.name))?;
    let before = children_cpu();
    // A kernel that takes so long has come to its bug, and hangs.
    let timeout = Some(Duration::from_secs(2));
    let options = DetectOptions { runs: amounts.runs, resurvey: true, timeout, ..DetectOptions::default() };
    let detected = run(&store, &program, source.args, &options)?;
    let ours = children_cpu() - before;
    let tight =
        DetectOptions { runs: amounts.runs, budget: Some(50_000), learn: true, timeout, ..DetectOptions::default() };
    let at_five_percent = !run(&store, &program, source.args, &tight)?.found.is_empty();
    let mut row = KernelRow {
        name: kernel.name.clone(),
        pattern: kernel.pattern.to_string(),
        known_to_race: kernel.races,
        tsan: [None, None],
        first: detected.each.iter().position(|run| run.races > 0).map(|run| run + 1),
        pairs: detected.found.len(),
        at_five_percent,
        cpu: [ours, 0.0, 0.0],
        cells: Vec::new(),
    };
    if source.language != Language::Rust {
        for (number, (cc, cxx)) in [("gcc", "g++"), ("clang-19", "clang++-19")].into_iter().enumerate() {
            let dir = work.join("detect").join(format!("tsan-{cc}"));
            at("create", &dir, fs::create_dir_all(&dir))?;
            let program = tool("build with TSan", build(&source, Variant::Buggy, &tsan(cc, cxx, dir)))?;
            let before = children_cpu();
            let races = tsan_races(&program, source.args, amounts.tsan_runs)?;
            if let (Some(told), Some(cpu)) = (row.tsan.get_mut(number), row.cpu.get_mut(number + 1)) {
                *told = Some(races);
                *cpu = children_cpu() - before;
            }
        }
    }
    if row.pairs > 0 && amounts.table_runs > 0 {
        row.cells = cells(&store, &program, source.args, amounts.table_runs)?;
    }
    Ok(row)
}

/// Correct programs that are run side by side: most of a run is waiting.
pub const CORRECT_BESIDE: usize = 8;

/// Runs between two looks at the clock.
const CORRECT_ROUND: u32 = 20;

/// Detects in a program that is correct, for no longer than `limit`.
pub fn correct(
    source: &Program<'_>,
    variant: Variant,
    workshop: &Workshop,
    work: &Path,
    amounts: &Amounts,
    limit: Duration,
) -> Result<CorrectRow> {
    let name = if variant == Variant::Fixed { format!("{} (fixed)", source.name) } else { source.name.to_owned() };
    let program = workshop.wrapped(source, variant)?;
    let store = store(work, &name.replace([' ', '(', ')'], "-"))?;
    let told =
        |found: &selvedge_drive::detect::Found| format!("{:?}", found.race.sides.each_ref().map(|side| side.site));
    let mut row = CorrectRow { name, runs: 0, failed: 0, reports: Vec::new() };
    let begin = Instant::now();
    while row.runs < u64::from(amounts.correct_runs) && (row.runs == 0 || begin.elapsed() < limit) {
        let made = u32::try_from(row.runs).unwrap_or(u32::MAX);
        let options = DetectOptions {
            runs: CORRECT_ROUND.min(amounts.correct_runs - made),
            seed: 1 + row.runs,
            first_run: made,
            again: made > 0,
            resurvey: made == 0,
            ..DetectOptions::default()
        };
        let detected = run(&store, &program, source.args, &options)?;
        row.runs += detected.tally.total();
        row.failed += detected.tally.total() - detected.tally.pass;
        row.reports.extend(detected.found.iter().map(told));
    }
    Ok(row)
}

/// A fresh store.
pub fn store(work: &Path, name: &str) -> Result<Store> {
    let dir = work.join("detect").join("stores").join(name);
    if dir.exists() {
        at("remove", &dir, fs::remove_dir_all(&dir))?;
    }
    at("create", &dir, fs::create_dir_all(&dir))?;
    tool("open a store", Store::create(&dir))
}
