//! `explore`: how soon the bugs of the corpus are found, and whether they can be had again. See the library for the parts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use selvedge_bench::columns::{Build, Compiler, Toolchain};
use selvedge_bench::error::{BenchError, Result, exit_code, tool};
use selvedge_bench::explore::again::again;
use selvedge_bench::explore::find::find;
use selvedge_bench::explore::options::{Amounts, Options};
use selvedge_bench::explore::page::{Explore, Kernel};
use selvedge_bench::explore::rate::rate;
use selvedge_bench::explore::repeat::{Repeated, repeat};
use selvedge_bench::explore::stress::stress;
use selvedge_bench::explore::twins::{Twin, twin};
use selvedge_bench::explore::workshop::{Workshop, each};
use selvedge_bench::explore::{bars, counted};
use selvedge_bench::machine::Machine;
use selvedge_bench::place;
use selvedge_bench::rows::{Bench, ROWS};
use selvedge_corpus::{Program, Variant, load};

const USAGE: &str = "\
usage: explore [--quick] [--only PROGRAM[,PROGRAM]] [--seeds N] [--schedules N] [--fixed N] [--work DIR] [--save]

  --quick      few seeds, schedules and repeats, to see that everything works
  --only       these programs of the corpus only, and neither pbzip2 nor counts
  --seeds      seeds of each strategy that depends on one (default 10)
  --schedules  most schedules until the first failure (default 1000)
  --fixed      schedules of each program without a bug (default 10000)
  --work       where builds and clips go (default: bench-work in Cargo's target folder)
  --save       write docs/results/explore.md and bench/results/explore.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

/// Distinct failures of a kernel that are replayed and minimised.
const MOST_FAILURES: usize = 4;
/// What pbzip2 compresses when it is run again and again.
const PBZIP2_BYTES: u64 = 2 << 20;

fn main() -> ExitCode {
    exit_code("explore", USAGE, run())
}

fn run() -> Result<()> {
    let mut options = Options::parse(std::env::args().skip(1))?;
    if options.help {
        print!("{USAGE}");
        return Ok(());
    }
    let corpus = tool("load the corpus", load(&place::repository().join("corpus")))?;
    let kernels: Vec<_> = corpus.kernels.iter().filter(|kernel| options.wants(&kernel.name)).collect();
    let correct: Vec<_> = corpus.correct.iter().filter(|correct| options.wants(&correct.name)).collect();
    let names = corpus.kernels.iter().map(|kernel| &*kernel.name);
    options.check_names(names.chain(corpus.correct.iter().map(|correct| &*correct.name)))?;
    options.work = place::work(&options.work)?;
    let begin = Instant::now();
    let machine = Machine::describe();
    let selvedge = place::selvedge()?;
    let workshop = Workshop::open(&options.work, &selvedge)?;
    let mut problems = Problems(Vec::new());

    eprintln!("building");
    let mut sources: Vec<(Program<'_>, Variant)> = Vec::new();
    for kernel in &kernels {
        sources.extend([Variant::Buggy, Variant::Fixed].map(|variant| (kernel.program(), variant)));
    }
    sources.extend(correct.iter().map(|correct| (correct.program(), Variant::Correct)));
    let built = each(&sources, |(source, variant)| workshop.wrapped(source, *variant));
    let built: Vec<Option<PathBuf>> = built.into_iter().map(|result| problems.keep(result)).collect();
    let native = each(&kernels, |kernel| workshop.native(&kernel.program(), Variant::Buggy));

    let mut measured = Vec::new();
    for ((kernel, pair), native) in kernels.iter().zip(built.chunks(2)).zip(native) {
        let mut row = Kernel {
            name: kernel.name.clone(),
            pattern: kernel.pattern.to_string(),
            harm: kernel.harm.to_string(),
            harms_seen: Vec::new(),
            searched: Vec::new(),
            longest: 0,
            stressed: None,
            again: Vec::new(),
            twin: None,
            rate: None,
        };
        let part = Part { workshop: &workshop, amounts: &options.amounts, args: &kernel.args };
        if let [Some(buggy), Some(fixed)] = pair {
            problems.keep(part.buggy(buggy, native, &mut row));
            problems.keep(part.fixed(fixed, &mut row));
        }
        eprintln!("{}", told(&row));
        measured.push(row);
    }
    let mut correct_rows = Vec::new();
    for (program, built) in correct.iter().zip(built.iter().skip(kernels.len() * 2).flatten()) {
        let part = Part { workshop: &workshop, amounts: &options.amounts, args: &program.args };
        correct_rows.extend(problems.keep(part.without_bug(&program.name, built)));
        eprintln!("{}", program.name);
    }

    eprintln!("repeating");
    let ready: Vec<_> =
        sources.iter().zip(&built).filter_map(|(source, built)| Some((source, built.as_ref()?))).collect();
    let repeated = each(&ready, |((source, variant), executable)| {
        let name = format!("{} ({})", source.name, variant.stem());
        repeat(&name, &workshop.prepare(executable, source.args)?, options.amounts.repeats)
    });
    let mut repeated: Vec<Repeated> = repeated.into_iter().filter_map(|result| problems.keep(result)).collect();
    let mut counts = Vec::new();
    if options.only.is_empty() {
        repeated.extend(problems.keep(repeat_rust(&workshop, options.amounts.repeats)));
        repeated.extend(problems.keep(repeat_pbzip2(&workshop, &options, &selvedge)));
        eprintln!("counting");
        counts = problems.keep(counted::count_all(&workshop)).unwrap_or_default();
    }

    let mut explore = Explore {
        version: 1,
        machine,
        amounts: options.amounts,
        kernels: measured,
        correct: correct_rows,
        repeated,
        counted: counts,
        problems: problems.0,
        bars: Vec::new(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    explore.bars = bars::check(&explore);
    print!("{}", explore.page());
    if options.save {
        for path in explore.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// What went wrong, instead of stopping at it.
struct Problems(Vec<String>);

impl Problems {
    fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error.brief())).ok()
    }
}

/// The measurements of one program.
struct Part<'a> {
    workshop: &'a Workshop,
    amounts: &'a Amounts,
    args: &'a [String],
}

impl Part<'_> {
    fn buggy(&self, executable: &Path, native: Result<PathBuf>, row: &mut Kernel) -> Result<()> {
        let prepared = self.workshop.prepare(executable, self.args)?;
        let found = find(&prepared, self.amounts)?;
        row.searched = found.searched;
        row.longest = found.longest;
        row.harms_seen = found.failures.keys().map(|signature| harm(signature.harm).to_owned()).collect();
        row.harms_seen.dedup();
        let time = Duration::from_secs_f64(row.best_seconds().unwrap_or(0.0));
        let logs = prepared.scratch.path().join("stress");
        row.stressed = Some(stress(&native?, self.args, time, &logs)?);
        for (way, clip) in found.failures.values().take(MOST_FAILURES) {
            row.again.push(again(way, clip, self.amounts.replays)?);
        }
        Ok(())
    }

    fn fixed(&self, executable: &Path, row: &mut Kernel) -> Result<()> {
        let prepared = self.workshop.prepare(executable, self.args)?;
        row.twin = Some(twin(&row.name, &prepared, self.amounts.fixed, &self.workshop.clips())?);
        row.rate = Some(rate(&prepared)?);
        Ok(())
    }

    fn without_bug(&self, name: &str, executable: &Path) -> Result<Twin> {
        let prepared = self.workshop.prepare(executable, self.args)?;
        twin(name, &prepared, self.amounts.fixed, &self.workshop.clips())
    }
}

/// The manifests' word for what was seen.
fn harm(harm: selvedge_findings::Harm) -> &'static str {
    use selvedge_findings::Harm;
    match harm {
        Harm::Assertion => "assertion",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "wrong-exit",
        _ => "other",
    }
}

/// A line about a kernel while others are still to come.
fn told(row: &Kernel) -> String {
    let cells: Vec<String> = row.searched.iter().map(|s| format!("{} {}", s.way, s.cell())).collect();
    let failures = row.twin.as_ref().map_or(0, |twin| twin.failures.len());
    let twin = row.twin.as_ref().map_or_else(String::new, |twin| format!("{} at {:.0}/s", twin.schedules, twin.rate()));
    format!("{}: {}; fixed: {twin}, {failures} failures", row.name, cells.join(", "))
}

fn repeat_rust(workshop: &Workshop, times: u32) -> Result<Repeated> {
    let file = place::repository().join("tests/programs/clean/mutex_channels.rs");
    let executable = workshop.wrapped_file(&file, "mutex_channels", &[])?;
    let repeated = repeat("Rust, mutexes and channels", &workshop.prepare(&executable, &[])?, times)?;
    Ok(Repeated { foreign: true, ..repeated })
}

fn repeat_pbzip2(workshop: &Workshop, options: &Options, selvedge: &Path) -> Result<Repeated> {
    let row = ROWS.iter().find(|row| row.key == "pbzip2").copied();
    let row = row.ok_or_else(|| BenchError::Wrong("there is no row pbzip2".to_owned()))?;
    let bench = Bench::prepare(row, &options.work, Duration::from_secs(60))?;
    let chain = Toolchain::wrapped(selvedge, Compiler::Gcc);
    let executable = bench.build(Build::Wrapped(Compiler::Gcc), &chain)?;
    let input = bench.input_of(PBZIP2_BYTES)?.display().to_string();
    let args = ["-p2", "-z", "-k", "-c", &input].map(str::to_owned);
    let name = bench.version.clone().unwrap_or_else(|| "pbzip2".to_owned());
    let repeated =
        repeat(&format!("{name} -p2, 2 MB"), &workshop.prepare(&executable, &args)?, options.amounts.repeats)?;
    Ok(Repeated { foreign: true, ..repeated })
}
