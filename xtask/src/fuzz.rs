//! `fuzz`: builds the targets of `fuzz/` and lets libFuzzer at them, on the stable toolchain.
//!
//! The compiler's coverage pass is all that libFuzzer needs, so there is no sanitizer and no tool to
//! install; a C++ compiler builds libFuzzer itself. Every target writes its own seeds (see
//! `fuzz/src/seeds.rs`) into a corpus that lives for this run only. Inputs that break a target stay in
//! `fuzz/artifacts`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use serde_json::Value;

use crate::Outcome;
use crate::command::{cargo, exists, output, run as run_command};

/// Seconds for each target, where nobody says.
pub(crate) const DEFAULT_SECONDS: u32 = 20;

/// A target and the most bytes of its inputs.
struct Target {
    name: &'static str,
    max_len: u32,
}

const TARGETS: [Target; 7] = [
    Target { name: "trace_reader", max_len: 64 * 1024 },
    Target { name: "plan_reader", max_len: 4 * 1024 },
    Target { name: "site_table", max_len: 32 * 1024 },
    Target { name: "clip_reader", max_len: 8 * 1024 },
    Target { name: "std_reader", max_len: 4 * 1024 },
    Target { name: "invariants_reader", max_len: 4 * 1024 },
    Target { name: "graph_reader", max_len: 8 * 1024 },
];

/// Coverage as libFuzzer reads it.
const COVERAGE: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
];

/// Seconds that one input may take, and MiB that the target may use: beyond is a failure.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// Runs every target for some seconds.
pub(crate) fn run(root: &Path, seconds: u32) -> Outcome {
    let Some(built) = build(root)? else { return Ok(()) };
    let scratch = Scratch::new()?;
    let mut broken = Vec::new();
    for target in &TARGETS {
        let binary = built.binary(target.name)?;
        if let Err(why) = run_target(root, target, binary, &scratch.0, seconds) {
            eprintln!("{}: {why}", target.name);
            broken.push(target.name);
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("fuzzing broke {}", broken.join(", ")).into()) }
}

/// Runs one target on one input.
pub(crate) fn replay(root: &Path, target: &str, input: &Path) -> Outcome {
    if !TARGETS.iter().any(|known| known.name == target) {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("no fuzz target `{target}`; there are {}", names.join(", ")).into());
    }
    let Some(built) = build(root)? else { return Ok(()) };
    run_command(Command::new(built.binary(target)?).args(LIMITS).arg(input))
}

/// The binaries of a build.
struct Built(Vec<(String, PathBuf)>);

impl Built {
    fn binary(&self, name: &str) -> Outcome<&Path> {
        let found = self.0.iter().find(|(target, _)| target == name);
        Ok(found.map(|(_, path)| path.as_path()).ok_or(format!("the build made no fuzz target `{name}`"))?)
    }
}

/// Builds all targets; `None`, and a word about it, where there is no C++ compiler.
fn build(root: &Path) -> Outcome<Option<Built>> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !exists(&compiler) {
        println!(
            "fuzz: PASSED OVER: no C++ compiler (`{compiler}`), which libFuzzer is built with; install g++ or clang"
        );
        return Ok(None);
    }
    let host = host()?;
    let mut build = cargo(root);
    build.args(["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    build.args(["--message-format", "json-render-diagnostics"]);
    // Flags with an explicit target leave build scripts alone.
    build.env("RUSTFLAGS", COVERAGE.join(" ")).env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let messages = output(&mut build)?;
    let binaries = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let name = message["target"]["name"].as_str()?.to_owned();
        Some((name, PathBuf::from(message["executable"].as_str()?)))
    });
    Ok(Some(Built(binaries.collect())))
}

/// The triple of this machine.
fn host() -> Outcome<String> {
    let about = output(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

fn run_target(root: &Path, target: &Target, binary: &Path, scratch: &Path, seconds: u32) -> Outcome {
    let artifacts = root.join("fuzz/artifacts").join(target.name);
    let (seeds, corpus) = (scratch.join(target.name).join("seeds"), scratch.join(target.name).join("corpus"));
    for folder in [&artifacts, &seeds, &corpus] {
        fs::create_dir_all(folder)?;
    }
    let log = scratch.join(target.name).join("log");
    let mut command = Command::new(binary);
    command.args(LIMITS).args(["-print_final_stats=1", "-verbosity=1"]);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={}", target.max_len));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // The target fills the second folder before libFuzzer reads it; what is found goes to the first.
    command.arg(&corpus).arg(&seeds).env("SELVEDGE_FUZZ_SEEDS", &seeds).current_dir(scratch);
    command.stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
    let status = command.status()?;
    let log = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        println!("{}: {}", target.name, Stats::read(&log).words(fs::read_dir(&seeds)?.count()));
        return Ok(());
    }
    let tail: Vec<&str> = log.lines().rev().take(40).collect();
    eprintln!("{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    let kept = log.lines().find_map(|line| line.split("Test unit written to ").nth(1));
    match kept {
        Some(input) => Err(format!(
            "an input broke it ({status})\n  input:  {input}\n  replay: cargo xtask fuzz --replay {} {input}",
            target.name
        )
        .into()),
        None => Err(format!("ended with {status} and left no input").into()),
    }
}

/// What libFuzzer says at its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stats {
    runs: u64,
    per_second: u64,
    coverage: u64,
}

impl Stats {
    fn read(log: &str) -> Stats {
        let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
        let stat = |name: &str| log.lines().find_map(|line| number(line.strip_prefix(name)?)).unwrap_or(0);
        Stats {
            runs: stat("stat::number_of_executed_units:"),
            per_second: stat("stat::average_exec_per_sec:"),
            coverage: log.lines().rev().find_map(|line| number(line.split(" cov: ").nth(1)?)).unwrap_or(0),
        }
    }

    fn words(&self, seeds: usize) -> String {
        let Stats { runs, per_second, coverage } = self;
        format!("{runs} inputs from {seeds} seeds, {per_second} a second, {coverage} edges reached, nothing broke")
    }
}

/// A folder for this run, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Scratch> {
        let folder = std::env::temp_dir().join(format!("selvedge-fuzz-{}", process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_understood() {
        let log = "#2\tINITED cov: 12 ft: 13 corp: 1/1b\n#900\tNEW    cov: 345 ft: 600 corp: 9/2b\nDone 1000 runs\n\
                   stat::number_of_executed_units: 1000\nstat::average_exec_per_sec:     50\n";
        assert_eq!(Stats::read(log), Stats { runs: 1000, per_second: 50, coverage: 345 });
        assert_eq!(Stats::read(""), Stats::default());
    }

    #[test]
    fn every_target_is_a_binary_of_the_fuzz_package() {
        let manifest = fs::read_to_string(crate::root().join("fuzz/Cargo.toml")).unwrap();
        for target in &TARGETS {
            assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
        }
    }
}
