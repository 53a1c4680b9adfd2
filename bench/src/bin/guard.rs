//! `guard`: how guards do on the corpus. See the library for the parts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use selvedge_bench::error::{BenchError, Result, exit_code, tool};
use selvedge_bench::explore::workshop::{Workshop, each};
use selvedge_bench::guard::cost;
use selvedge_bench::guard::kernel::{self, Measured};
use selvedge_bench::guard::options::{Options, USAGE};
use selvedge_bench::guard::page::Guards;
use selvedge_bench::guard::quiet::{self, Quiet};
use selvedge_bench::guard::real::pbzip2;
use selvedge_bench::machine::Machine;
use selvedge_bench::{controlled, options, place};
use selvedge_corpus::{Kernel, Pattern, Program, Variant, load};

fn main() -> ExitCode {
    exit_code("guard", USAGE, run())
}

/// A program to measure.
struct Wanted<'a> {
    name: String,
    source: Program<'a>,
    variant: Variant,
    kernel: Option<&'a Kernel>,
}

/// What became of it.
enum Done {
    Buggy(Box<Measured>),
    Quiet(Box<Quiet>),
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = controlled::asked(&args) {
        return done;
    }
    if let Some((_, rest)) = args.split_first().filter(|(first, _)| *first == "--cost") {
        return costs(rest);
    }
    let Some(mut options) = Options::read(args)? else {
        print!("{USAGE}");
        return Ok(());
    };
    let begin = Instant::now();
    options.work = place::work(&options.work)?;
    let corpus = tool("load the corpus", load(&place::repository().join("corpus")))?;
    let selvedge = place::selvedge()?;
    let workshop = Workshop::open(&options.work, &selvedge)?;
    let mut wanted = Vec::new();
    for kernel in corpus.kernels.iter().filter(|kernel| options.wants(&kernel.name)) {
        let one = |name, variant| Wanted { name, source: kernel.program(), variant, kernel: Some(kernel) };
        if !matches!(kernel.pattern, Pattern::Deadlock | Pattern::LostWakeup) {
            wanted.push(one(kernel.name.clone(), Variant::Buggy));
        }
        if !options.buggy {
            wanted.push(one(format!("{} (fixed)", kernel.name), Variant::Fixed));
        }
    }
    for correct in corpus.correct.iter().filter(|correct| options.wants(&correct.name) && !options.buggy) {
        let (name, source) = (correct.name.clone(), correct.program());
        wanted.push(Wanted { name, source, variant: Variant::Correct, kernel: None });
    }
    let mut guards = Guards {
        version: 2,
        machine: Machine::describe(),
        amounts: options.amounts,
        kernels: Vec::new(),
        quiet: Vec::new(),
        real: None,
        problems: Vec::new(),
        seconds: 0.0,
    };
    eprintln!("building {} programs", wanted.len());
    let built = each(&wanted, |one| workshop.wrapped(&one.source, one.variant));
    let jobs: Vec<(&Wanted<'_>, std::result::Result<PathBuf, String>)> =
        wanted.iter().zip(built.into_iter().map(|built| built.map_err(|error| error.brief()))).collect();
    let done = each(&jobs, |(one, built)| {
        let result = match built {
            Ok(executable) => measure(one, executable, &workshop, &options),
            Err(why) => Err(BenchError::Wrong(why.clone())),
        };
        match &result {
            Ok(done) => eprintln!("{}", told(done)),
            Err(error) => eprintln!("{}: {}", one.name, error.line()),
        }
        result
    });
    for ((one, _), done) in jobs.iter().zip(done) {
        match done {
            Ok(Done::Buggy(measured)) => guards.kernels.push(*measured),
            Ok(Done::Quiet(quiet)) => guards.quiet.push(*quiet),
            Err(error) => guards.problems.push(format!("{}: {}", one.name, error.brief())),
        }
    }
    if options.only.is_empty() && options.amounts.pbzip2 > 0 {
        match pbzip2(&workshop, &options.work, &selvedge, options.amounts.pbzip2) {
            Ok(real) => guards.real = Some(real),
            Err(error) => guards.problems.push(format!("pbzip2: {}", error.brief())),
        }
    }
    guards.seconds = begin.elapsed().as_secs_f64();
    print!("{}", guards.page());
    if options.save {
        for path in guards.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// What guarding costs.
fn costs(args: &[String]) -> Result<()> {
    let says_runs = args.iter().any(|arg| arg == "--runs" || arg == "--quick");
    let mut options = options::Options::parse(args.iter().cloned())?;
    if options.help {
        print!("{USAGE}");
        return Ok(());
    }
    if !says_runs {
        options.runs = cost::RUNS;
    }
    options.work = place::work(&options.work)?;
    let costs = cost::measure(&options, &mut |line| eprintln!("{line}"))?;
    print!("{}", costs.page());
    if options.save {
        for path in costs.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

fn measure(one: &Wanted<'_>, executable: &Path, workshop: &Workshop, options: &Options) -> Result<Done> {
    let prepared = workshop.prepare(executable, one.source.args)?;
    Ok(match (one.variant, one.kernel) {
        (Variant::Buggy, Some(kernel)) => Done::Buggy(Box::new(kernel::measure(kernel, &prepared, &options.amounts)?)),
        _ => Done::Quiet(Box::new(quiet::measure(&one.name, &prepared, &options.amounts)?)),
    })
}

/// A line about a program while others are still to come.
fn told(done: &Done) -> String {
    match done {
        Done::Buggy(one) => {
            let rivals: Vec<String> = one
                .traced
                .rivals
                .iter()
                .map(|rival| format!("{} {}/{}", rival.name, rival.detected, rival.tolerated))
                .collect();
            format!(
                "{}: {} trained, {} members; {} fail, {} detected, {} left; AI {} detected, {} left{}; clips {}/{}; {} traces: {}; {:.1} s",
                one.name,
                one.training.passed,
                one.training.members,
                one.without.failing,
                one.ours.watched.noted_failing,
                one.ours.stalled.failing,
                one.plain.watched.noted_failing,
                one.plain.stalled.failing,
                one.uncoloured.as_ref().map_or_else(String::new, |guarded| {
                    format!("; no colours {} detected, {} left", guarded.watched.noted_failing, guarded.stalled.failing)
                }),
                one.clips.passing,
                one.clips.failing,
                one.traced.failing,
                rivals.join(" "),
                one.seconds
            )
        }
        Done::Quiet(one) => {
            let all = one.all();
            format!(
                "{}: {} trained; {} of {} with a violation, {} of {} fail; {:.1} s",
                one.name,
                one.training.as_ref().map_or(0, |training| training.passed),
                all.noted(),
                all.runs,
                all.failing,
                all.runs,
                one.seconds
            )
        }
    }
}
