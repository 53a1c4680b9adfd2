//! `hunt`: what `selvedge hunt` finds in the corpus. See the library for the parts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use selvedge_bench::error::{BenchError, Result, at, exit_code, tool};
use selvedge_bench::explore::workshop::{Workshop, each};
use selvedge_bench::hunt::page::Hunts;
use selvedge_bench::hunt::program::{Amounts, Hunted, hunt};
use selvedge_bench::machine::Machine;
use selvedge_bench::place;
use selvedge_corpus::{Kernel, Program, Variant, load};

const USAGE: &str = "\
usage: hunt [--only PROGRAM[,PROGRAM]] [--runs N] [--budget SECONDS] [--seed N] [--buggy] [--work DIR] [--save]

  --only    these programs of the corpus only
  --runs    runs to record of each program (default 10)
  --budget  seconds for each program (default 30)
  --seed    decides what is left to chance (default 1)
  --buggy   only the programs with a bug
  --work    where builds and files go (default: bench-work in Cargo's target folder)
  --save    write docs/results/predict.md and bench/results/hunt.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("hunt", USAGE, run())
}

struct Options {
    only: Vec<String>,
    amounts: Amounts,
    buggy: bool,
    work: PathBuf,
    save: bool,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options {
        only: Vec::new(),
        amounts: Amounts { runs: 10, budget: 30, seed: 1 },
        buggy: false,
        work: place::target().join("bench-work"),
        save: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
        let number = |text: String| text.parse::<u64>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
        match arg.as_str() {
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--runs" => options.amounts.runs = u32::try_from(number(value()?)?).unwrap_or(u32::MAX),
            "--budget" => options.amounts.budget = number(value()?)?,
            "--seed" => options.amounts.seed = number(value()?)?,
            "--buggy" => options.buggy = true,
            "--work" => options.work = PathBuf::from(value()?),
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
    let machine = Machine::describe();
    let selvedge = place::selvedge()?;
    let workshop = Workshop::open(&options.work, &selvedge)?;
    let dir = options.work.join("hunt");
    at("create", &dir, std::fs::create_dir_all(&dir))?;
    let wants = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut sources: Vec<(Program<'_>, Variant, Option<&Kernel>)> = Vec::new();
    for kernel in corpus.kernels.iter().filter(|kernel| wants(&kernel.name)) {
        sources.push((kernel.program(), Variant::Buggy, Some(kernel)));
        if !options.buggy {
            sources.push((kernel.program(), Variant::Fixed, Some(kernel)));
        }
    }
    let correct = corpus.correct.iter().filter(|correct| wants(&correct.name) && !options.buggy);
    sources.extend(correct.map(|correct| (correct.program(), Variant::Correct, None)));
    eprintln!("building {} programs", sources.len());
    let built = each(&sources, |(source, variant, _)| workshop.wrapped(source, *variant));
    let mut hunts = Hunts {
        version: 1,
        machine,
        amounts: options.amounts,
        kernels: Vec::new(),
        twins: Vec::new(),
        correct: Vec::new(),
        problems: Vec::new(),
        seconds: 0.0,
    };
    for ((source, variant, kernel), built) in sources.iter().zip(built) {
        let name = match variant {
            Variant::Fixed => format!("{} (fixed)", source.name),
            _ => source.name.to_owned(),
        };
        let guilty = kernel.filter(|_| *variant == Variant::Buggy);
        let file = name.replace(' ', "-").replace(['(', ')'], "");
        let hunted = built
            .and_then(|executable| hunt(&file, &selvedge, &executable, source.args, &dir, &options.amounts, guilty));
        match hunted {
            Ok(hunted) => {
                let hunted = Hunted { name, ..hunted };
                eprintln!("{}", told(&hunted, guilty.is_some()));
                match (variant, kernel) {
                    (Variant::Buggy, Some(kernel)) => {
                        hunts.kernels.push((kernel.pattern.to_string(), kernel.harm.to_string(), hunted));
                    }
                    (Variant::Fixed, _) => hunts.twins.push(hunted),
                    _ => hunts.correct.push(hunted),
                }
            }
            Err(error) => {
                eprintln!("{name}: {}", error.line());
                hunts.problems.push(format!("{name}: {}", error.brief()));
            }
        }
    }
    hunts.seconds = begin.elapsed().as_secs_f64();
    print!("{}", hunts.page());
    if options.save {
        for path in hunts.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

fn told(hunted: &Hunted, buggy: bool) -> String {
    let verdict = match (buggy, hunted.guilty, hunted.guilty_harm) {
        (true, true, true) => "guilty lines, harm",
        (true, true, false) => "guilty lines, no harm",
        (true, false, _) => "MISSED",
        (false, ..) if hunted.failing() > 0 || hunted.races.0 > 0 => "ACCUSED",
        (false, ..) => "clean",
    };
    format!(
        "{}: {verdict}; {} predicted, {} real, {} harmful, {} refuted, {:.1} s{}",
        hunted.name,
        hunted.figures.predicted.values().sum::<u64>(),
        hunted.real(),
        hunted.failing(),
        hunted.figures.refuted,
        hunted.seconds,
        if hunted.shown.is_empty() { String::new() } else { format!(" [{}]", hunted.shown.join("; ")) }
    )
}
