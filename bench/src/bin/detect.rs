//! `detect`: what `selvedge detect` sees in the corpus and in real programs, and what it costs. See the library for the parts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use selvedge_bench::columns::{Build, Column, Compiler, Tools};
use selvedge_bench::detect::corpus::{self, Amounts};
use selvedge_bench::detect::healing::{self, HealRow};
use selvedge_bench::detect::page::Detections;
use selvedge_bench::detect::{cost, table};
use selvedge_bench::error::{BenchError, Result, exit_code, tool};
use selvedge_bench::explore::workshop::{Workshop, each, side_by_side};
use selvedge_bench::machine::Machine;
use selvedge_bench::measure::measure_in;
use selvedge_bench::options::Options as Measuring;
use selvedge_bench::place;
use selvedge_bench::rows::{Bench, ROWS};
use selvedge_corpus::{Kernel, Pattern, Variant, load};
use selvedge_drive::detect::DetectOptions;

const USAGE: &str = "\
usage: detect [--only PROGRAM[,PROGRAM]] [--part PART[,PART]] [--runs N] [--correct N] [--table N] [--tsan N] [--minutes N] [--schedules N] [--cost] [--costs N] [--gcc] [--work DIR] [--save]

  --only     these programs of the corpus, or rows of the table of costs, only
  --part     these parts only: kernels correct real healing costs (default: all but costs)
  --runs     runs of each kernel within which its race must be seen (default 20)
  --correct  runs of each correct program and fixed twin (default 1000)
  --minutes  most minutes for all of these together; the page says how many runs were made (default 20)
  --schedules  schedules of each program with each kind of healing (default 1000)
  --table    runs of each cell of Table 2 (default 10)
  --tsan     runs of each kernel under each ThreadSanitizer (default 5)
  --cost     the table of costs only, for a quiet machine
  --gcc      leave clang out of the table of costs
  --costs    runs of each cell of the table of costs (default 7)
  --work     where builds and files go (default: bench-work in Cargo's target folder)
  --save     write docs/results/detect.md and bench/results/detect.json; with --cost, detect-cost.md and detect-cost.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("detect", USAGE, run())
}

struct Options {
    only: Vec<String>,
    parts: Vec<String>,
    amounts: Amounts,
    costs: usize,
    gcc: bool,
    work: PathBuf,
    save: bool,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options {
        only: Vec::new(),
        parts: Vec::new(),
        amounts: Amounts {
            runs: 20,
            correct_runs: 1000,
            correct_seconds: 20 * 60,
            schedules: 1000,
            table_runs: 10,
            tsan_runs: 5,
        },
        costs: 7,
        gcc: false,
        work: place::target().join("bench-work"),
        save: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
        let number = |text: String| text.parse::<u32>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
        match arg.as_str() {
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--part" => options.parts = value()?.split(',').map(str::to_owned).collect(),
            "--runs" => options.amounts.runs = number(value()?)?,
            "--correct" => options.amounts.correct_runs = number(value()?)?,
            "--table" => options.amounts.table_runs = number(value()?)?,
            "--tsan" => options.amounts.tsan_runs = number(value()?)?,
            "--costs" => options.costs = number(value()?)? as usize,
            "--work" => options.work = PathBuf::from(value()?),
            "--minutes" => options.amounts.correct_seconds = number(value()?)?.saturating_mul(60),
            "--schedules" => options.amounts.schedules = number(value()?)?,
            "--cost" => options.parts = vec!["costs".to_owned()],
            "--gcc" => options.gcc = true,
            "--save" => options.save = true,
            "--help" => {
                print!("{USAGE}");
                return Ok(None);
            }
            _ => return Err(BenchError::Usage(format!("unknown argument {arg}"))),
        }
    }
    Ok(Some(options))
}

fn run() -> Result<()> {
    let Some(mut options) = options()? else { return Ok(()) };
    let begin = Instant::now();
    options.work = place::work(&options.work)?;
    let corpus = tool("load the corpus", load(&place::repository().join("corpus")))?;
    let selvedge = place::selvedge()?;
    let workshop = Workshop::open(&options.work, &selvedge)?;
    let wants = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let part = |name: &str| match options.parts.is_empty() {
        true => name != "costs",
        false => options.parts.iter().any(|part| part == name),
    };
    let correct_programs = || {
        let twins = corpus.kernels.iter().filter(|kernel| wants(&kernel.name));
        let twins = twins.map(|kernel| (kernel.program(), Variant::Fixed));
        let correct = corpus.correct.iter().filter(|correct| wants(&correct.name));
        twins.chain(correct.map(|correct| (correct.program(), Variant::Correct))).collect::<Vec<_>>()
    };
    let mut page = Detections {
        version: 1,
        machine: Machine::describe(),
        amounts: options.amounts,
        cost_runs: options.costs,
        kernels: Vec::new(),
        correct: Vec::new(),
        real: Vec::new(),
        healing: Vec::new(),
        costs: Vec::new(),
        problems: Vec::new(),
        seconds: 0.0,
    };
    let mut problems = Vec::new();
    let mut failed = |name: &str, error: &BenchError| {
        eprintln!("{name}: {}", error.line());
        problems.push(format!("{name}: {}", error.brief()));
    };
    if part("kernels") {
        // Locks alone are no races.
        let may_race = |kernel: &&Kernel| !matches!(kernel.pattern, Pattern::Deadlock | Pattern::LostWakeup);
        for kernel in corpus.kernels.iter().filter(|kernel| wants(&kernel.name)).filter(may_race) {
            match corpus::kernel(kernel, &workshop, &options.work, &options.amounts) {
                Ok(row) => {
                    let seen = row.first.map_or("nothing".to_owned(), |run| format!("race in run {run}"));
                    eprintln!("{}: {seen}, {} pairs, TSan {:?}", row.name, row.pairs, row.tsan);
                    page.kernels.push(row);
                }
                Err(error) => failed(&kernel.name, &error),
            }
        }
    }
    if part("correct") {
        let all = correct_programs();
        let rounds = u32::try_from(all.len().div_ceil(corpus::CORRECT_BESIDE).max(1)).unwrap_or(u32::MAX);
        let limit = Duration::from_secs(options.amounts.correct_seconds.into()) / rounds;
        let rows = side_by_side(corpus::CORRECT_BESIDE, &all, |(source, variant)| {
            let row = corpus::correct(source, *variant, &workshop, &options.work, &options.amounts, limit);
            if let Ok(row) = &row {
                eprintln!("{}: {} runs, {} failed, {} reports", row.name, row.runs, row.failed, row.reports.len());
            }
            row
        });
        for ((source, _), row) in all.iter().zip(rows) {
            match row {
                Ok(row) => page.correct.push(row),
                Err(error) => failed(source.name, &error),
            }
        }
    }
    if part("healing") {
        let schedules = u64::from(options.amounts.schedules);
        let told = |row: Result<HealRow>| {
            if let Ok(row) = &row {
                let with: Vec<String> = row.with.iter().map(|ends| format!("{:.1} %", ends.percent())).collect();
                eprintln!("{}: {:.1} % fail, healed {}", row.name, row.without.percent(), with.join(", "));
            }
            row
        };
        let kernels: Vec<&Kernel> = corpus.kernels.iter().filter(|kernel| wants(&kernel.name)).collect();
        let buggy = each(&kernels, |kernel| told(healing::kernel(kernel, &workshop, schedules)));
        let all = correct_programs();
        let correct = each(&all, |(source, variant)| told(healing::correct(source, *variant, &workshop, schedules)));
        let names = kernels.iter().map(|kernel| kernel.name.as_str()).chain(all.iter().map(|(source, _)| source.name));
        for (name, row) in names.zip(buggy.into_iter().chain(correct)) {
            match row {
                Ok(row) => page.healing.push(row),
                Err(error) => failed(name, &error),
            }
        }
    }
    let tools = Tools::find();
    if part("real") {
        for key in ["pbzip2", "zstd"].into_iter().filter(|key| wants(key)) {
            match real(key, &tools, &options) {
                Ok(cells) => page.real.push((key.to_owned(), cells)),
                Err(error) => failed(key, &error),
            }
        }
    }
    if part("costs") {
        let mut measuring = Measuring::parse([])?;
        measuring.runs = options.costs;
        measuring.work = options.work.clone();
        let kept = |column: &&Column| !options.gcc || column.build.compiler() == Compiler::Gcc;
        let columns: Vec<Column> = cost::COLUMNS.iter().filter(kept).copied().collect();
        for row in ROWS.iter().filter(|row| cost::ROWS.contains(&row.key) && wants(row.key)) {
            page.costs.push(measure_in(&columns, *row, &tools, &measuring, &mut |line| eprintln!("{line}")));
        }
    }
    page.problems = problems;
    page.seconds = begin.elapsed().as_secs_f64();
    print!("{}", page.page());
    if options.save {
        for path in page.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// Table 2 of a real program.
fn real(key: &str, tools: &Tools, options: &Options) -> Result<Vec<table::Cell>> {
    let row = ROWS.iter().find(|row| row.key == key).ok_or_else(|| BenchError::Wrong(format!("there is no {key}")))?;
    let bench = Bench::prepare(*row, &options.work, Duration::from_secs(300))?;
    let build = Build::Wrapped(Compiler::Gcc);
    let program = bench.build(build, &tools.toolchain(build)?)?;
    let input = bench.input_of(3 << 20)?.display().to_string();
    let args: Vec<String> = match key {
        "pbzip2" => ["-p2", "-b1", "-z", "-k", "-c", &input].map(str::to_owned).to_vec(),
        _ => vec![input, "2".to_owned()],
    };
    let store = corpus::store(&options.work, key)?;
    let first = DetectOptions { runs: options.amounts.runs, ..DetectOptions::default() };
    let detected = table::run(&store, &program, &args, &first)?;
    eprintln!("{key}: {} pairs of places", detected.found.len());
    table::cells(&store, &program, &args, options.amounts.table_runs)
}
