//! `rank`: the rank paper's tables on our kernels of its workloads. See the library for the parts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use selvedge_analyze::graph::file::to_bytes;
use selvedge_analyze::graph::mesi::{Machine as Hardware, Work};
use selvedge_analyze::graph::{Depth, Graph, Kind, convergence};
use selvedge_bench::bars::to_f64;
use selvedge_bench::error::{BenchError, Result, exit_code, tool};
use selvedge_bench::explore::workshop::Workshop;
use selvedge_bench::machine::Machine;
use selvedge_bench::options::{FEWEST_RUNS, Options as How};
use selvedge_bench::place;
use selvedge_bench::rank::gather::{Observed, Wanted, gather, gather_live};
use selvedge_bench::rank::inspect::{Collector, Inspected, Kernel, Way};
use selvedge_bench::rank::large;
use selvedge_bench::rank::page::{MOST_CONTEXT, Other, Rankings, Row};
use selvedge_bench::rank::paper::WORKLOADS;
use selvedge_bench::rank::programs::{self, Costs};
use selvedge_bench::{columns::Tools, controlled};
use selvedge_corpus::{Kernel as Source, Variant, load};
use selvedge_report::code_points::CodePoints;

const USAGE: &str = "\
usage: rank [--only KERNEL[,KERNEL]] [--trials N] [--seed N] [--paper-only] [--programs PROGRAM[,PROGRAM]] [--quick]
            [--work DIR] [--save]
       rank --cost [--programs PROGRAM[,PROGRAM]] [--runs N] [--quick] [--work DIR] [--save]

  --only        these kernels of the corpus only
  --trials      trials of 25 runs of each sort (default 5)
  --seed        decides what is left to chance (default 1)
  --paper-only  only the paper's workloads
  --programs    no kernels; the graphs of these large programs instead: pbzip2 memcached zstd. Without it, all of both
  --cost        no kernels; what collecting graphs costs in large programs. Wants a quiet machine
  --runs        with --cost: runs of each cell (default 5)
  --quick       large programs with small inputs
  --work        where builds and files go (default: bench-work in Cargo's target folder)
  --save        write docs/results/rank.md and bench/results/rank.json; with --cost rank-cost.md and rank-cost.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

/// Runs of each sort in a trial, as in the paper.
const SIZE: usize = 25;

fn main() -> ExitCode {
    exit_code("rank", USAGE, run())
}

struct Options {
    only: Vec<String>,
    trials: usize,
    seed: u64,
    paper_only: bool,
    programs: Vec<String>,
    cost: bool,
    runs: usize,
    quick: bool,
    work: PathBuf,
    save: bool,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options {
        only: Vec::new(),
        trials: 5,
        seed: 1,
        paper_only: false,
        programs: Vec::new(),
        cost: false,
        runs: FEWEST_RUNS,
        quick: false,
        work: place::target().join("bench-work"),
        save: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
        let number = |text: String| text.parse::<u64>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
        match arg.as_str() {
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--trials" => options.trials = usize::try_from(number(value()?)?).unwrap_or(1).max(1),
            "--seed" => options.seed = number(value()?)?,
            "--paper-only" => options.paper_only = true,
            "--programs" => options.programs = value()?.split(',').map(str::to_owned).collect(),
            "--cost" => options.cost = true,
            "--runs" => options.runs = usize::try_from(number(value()?)?).unwrap_or(1).max(1),
            "--quick" => options.quick = true,
            "--work" => options.work = PathBuf::from(value()?),
            "--save" => options.save = true,
            "--help" => {
                print!("{USAGE}");
                return Ok(None);
            }
            _ => return Err(BenchError::Usage(format!("unknown argument {arg}"))),
        }
    }
    if let Some(unknown) = options.programs.iter().find(|name| !programs::PROGRAMS.contains(&name.as_str())) {
        let known = programs::PROGRAMS.join(", ");
        return Err(BenchError::Usage(format!("there is no {unknown}; there are {known}")));
    }
    let is_part = !options.only.is_empty() || !options.programs.is_empty() || options.paper_only || options.quick;
    if options.save && (is_part || options.runs < FEWEST_RUNS) {
        let text =
            format!("--save keeps whole pages only: all kernels and programs, no --quick, at least {FEWEST_RUNS} runs");
        return Err(BenchError::Usage(text));
    }
    Ok(Some(options))
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [controlled::GRAPH_ARGUMENT, file, dir, program] = args.iter().map(|arg| &**arg).collect::<Vec<_>>()[..] {
        return controlled::write_graph_plan(Path::new(file), Path::new(dir), Path::new(program));
    }
    let Some(mut options) = options()? else { return Ok(()) };
    let begin = Instant::now();
    options.work = place::work(&options.work)?;
    let mut how = How::parse([])?;
    how.only.clone_from(&options.programs);
    how.work.clone_from(&options.work);
    (how.runs, how.quick) = (options.runs, options.quick);
    if options.cost {
        return cost(&how, options.save);
    }
    let corpus = tool("load the corpus", load(&place::repository().join("corpus")))?;
    let workshop = Workshop::open(&options.work, &place::selvedge()?)?;
    let mut rankings = Rankings {
        version: 1,
        machine: Machine::describe(),
        seed: options.seed,
        trials: (options.trials, SIZE),
        rows: Vec::new(),
        others: Vec::new(),
        large: Some(large::measure()?),
        programs: Vec::new(),
        problems: Vec::new(),
        seconds: 0.0,
    };
    if options.only.is_empty() {
        rankings.programs = programs::measure_sizes(&Tools::find(), &how, &mut |line| eprintln!("{line}"));
    }
    let is_wanted = options.programs.is_empty();
    let wants = |name: &str| is_wanted && (options.only.is_empty() || options.only.iter().any(|only| only == name));
    for source in corpus.kernels.iter().filter(|kernel| wants(&kernel.name)) {
        let is_papers = WORKLOADS.iter().any(|workload| workload.kernel == source.name);
        let is_blocked = matches!(source.pattern.to_string().as_str(), "deadlock" | "lost-wakeup");
        if !is_papers && (options.paper_only || is_blocked) {
            continue;
        }
        let measured = measure(&workshop, source, &options, is_papers, &mut rankings);
        if let Err(error) = measured {
            eprintln!("{}: {}", source.name, error.line());
            rankings.problems.push(format!("{}: {}", source.name, error.brief()));
        }
    }
    rankings.seconds = begin.elapsed().as_secs_f64();
    print!("{}", rankings.page());
    if options.save {
        for path in rankings.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

fn cost(how: &How, is_kept: bool) -> Result<()> {
    let begin = Instant::now();
    let machine = Machine::describe();
    let programs = programs::measure_costs(&Tools::find(), how, &mut |line| eprintln!("{line}"));
    let seconds = begin.elapsed().as_secs_f64();
    let costs = Costs { version: 1, machine, runs: how.runs, is_quick: how.quick, programs, seconds };
    print!("{}", costs.page());
    if is_kept {
        for path in costs.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

fn measure(
    workshop: &Workshop,
    source: &Source,
    options: &Options,
    is_papers: bool,
    rankings: &mut Rankings,
) -> Result<()> {
    let program = source.program();
    let executable = workshop.wrapped(&program, Variant::Buggy)?;
    let prepared = workshop.prepare(&executable, program.args)?;
    let trials = if is_papers { options.trials } else { 1 };
    let wanted = Wanted {
        passing: trials * SIZE,
        failing: trials * SIZE,
        total: trials * SIZE * 3,
        most: 10_000,
        time: Duration::from_secs(if is_papers { 120 } else { 6 }),
    };
    let mut runs = gather(&prepared, options.seed, &wanted)?;
    let failing = runs.iter().filter(|run| run.fails).count();
    eprintln!("{}: {} runs, {failing} failing", source.name, runs.len());
    if failing < SIZE || runs.len() - failing < SIZE {
        rankings.problems.push(format!("{}: {failing} of {} runs failed", source.name, runs.len()));
        return Ok(());
    }
    if is_papers {
        let otherwise = gather_live(&prepared, options.seed, &mut runs)?;
        if otherwise > 0 {
            rankings.problems.push(format!("{}: {otherwise} runs ended otherwise the second time", source.name));
        }
    }
    let mut code = CodePoints::new();
    code.add(&prepared.program.build_id, &prepared.program.path);
    let kernel = Kernel { runs: &runs, code: &code, guilty: &source.guilty, trials, size: SIZE };
    let both = |way: Way| -> Result<[Inspected; 2]> { Ok([kernel.labelled(way)?, kernel.unlabelled(way)?]) };
    if !is_papers {
        rankings.others.push(Other {
            kernel: source.name.clone(),
            pattern: source.pattern.to_string(),
            runs: (runs.len(), failing),
            paper: both(Way::paper(Collector::Word, 5))?,
            ours: both(Way::ours(Collector::Word, 5))?,
        });
        return Ok(());
    }
    let mut table2 = Vec::new();
    for collector in Collector::ALL {
        table2.push((collector, both(Way::paper(collector, 5))?, both(Way::ours(collector, 5))?));
    }
    table2.push((Collector::Live, [Inspected::default(); 2], both(Way::ours(Collector::Live, 5))?));
    let mut table4 = Vec::new();
    for context in 0..=MOST_CONTEXT {
        let labelled = |way| kernel.labelled(way);
        table4.push([labelled(Way::paper(Collector::Word, context))?, labelled(Way::ours(Collector::Word, context))?]);
    }
    let kind = |collector| Way::paper(collector, 5).kind;
    let lost = (
        kernel.lost(kind(Collector::Word), kind(Collector::Line)),
        kernel.lost(kind(Collector::Word), kind(Collector::Mesi)),
    );
    let mut shares = Vec::new();
    for context in [0, 3, 5, 8] {
        shares.push((context, converging(&kernel, Way::ours(Collector::Word, context).kind)?));
    }
    rankings.rows.push(Row {
        kernel: source.name.clone(),
        pattern: source.pattern.to_string(),
        runs: (runs.len(), failing),
        table2,
        table4,
        lost,
        convergence: shares,
        size: size(&kernel)?,
        work: work(&runs),
    });
    Ok(())
}

/// What each run of a trial adds, in the mean of the trials.
fn converging(kernel: &Kernel<'_>, kind: Kind) -> Result<Vec<f64>> {
    let graphs = kernel.graphs(kind);
    let mut mean = vec![0.0; SIZE];
    for trial in graphs.chunks_exact(SIZE).take(kernel.trials) {
        for (sum, share) in mean.iter_mut().zip(tool("add graphs", convergence(trial))?) {
            *sum += share / to_f64(kernel.trials as u64);
        }
    }
    Ok(mean)
}

fn size(kernel: &Kernel<'_>) -> Result<[usize; 5]> {
    let sum = |depth: Depth| {
        let kind = Kind { depth, ..Kind::default() };
        tool("add graphs", Graph::sum(&kernel.graphs(kind), kind))
    };
    let (bare, whole) = (sum(Depth::NONE)?, sum(Depth::default())?);
    Ok([bare.nodes().len(), bare.edges().len(), whole.nodes().len(), whole.edges().len(), to_bytes(&whole).len()])
}

/// What the hardware did for each 10,000 accesses.
fn work(runs: &[Observed]) -> [f64; 5] {
    let mut all = Work::default();
    for run in runs {
        let (_, work) = run.steps.graph_of(Kind::default(), Hardware::default());
        all.accesses += work.accesses;
        all.read_misses += work.read_misses;
        all.write_misses += work.write_misses;
        all.upgrades += work.upgrades;
        all.metadata += work.metadata;
        all.table += work.table;
    }
    let rate = |count: u64| to_f64(count) * 1e4 / to_f64(all.accesses.max(1));
    [all.read_misses, all.write_misses, all.upgrades, all.metadata, all.table].map(rate)
}
