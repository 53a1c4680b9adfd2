//! `real`: what `selvedge hunt` shows in programs that are not ours. See the library for the parts.

use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_bench::error::{BenchError, Result, exit_code};
use selvedge_bench::machine::Machine;
use selvedge_bench::place;
use selvedge_bench::real::page::{Real, notes};
use selvedge_bench::real::program::{Amounts, hunt};

const USAGE: &str = "\
usage: real [--only PROGRAM[,PROGRAM]] [--runs N] [--budget SECONDS] [--seed N] [--work DIR] [--save]

  --only    of pbzip2, memcached and zstd these only
  --runs    runs to record of each program (default 5)
  --budget  seconds for each program (default 120)
  --seed    decides what is left to chance (default 1)
  --work    where sources, builds and files go (default: bench-work in Cargo's target folder)
  --save    write docs/results/real.md and bench/results/real.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

const PROGRAMS: [&str; 3] = ["pbzip2", "memcached", "zstd"];

fn main() -> ExitCode {
    exit_code("real", USAGE, run())
}

struct Options {
    only: Vec<String>,
    amounts: Amounts,
    work: PathBuf,
    save: bool,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options {
        only: Vec::new(),
        amounts: Amounts { runs: 5, budget: 120, seed: 1 },
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
    options.work = place::work(&options.work)?;
    let notes = notes()?;
    let selvedge = place::selvedge()?;
    let mut real = Real {
        version: 1,
        machine: Machine::describe(),
        amounts: options.amounts,
        programs: Vec::new(),
        problems: Vec::new(),
    };
    for key in PROGRAMS.iter().filter(|key| options.only.is_empty() || options.only.iter().any(|only| only == *key)) {
        eprintln!("{key}");
        match hunt(key, &options.work, &selvedge, &options.amounts) {
            Ok(hunted) => {
                eprintln!("{}: {} bugs in {:.1} s", hunted.name, hunted.shown.len(), hunted.seconds);
                real.programs.push(hunted);
            }
            Err(error) => {
                eprintln!("{key}: {}", error.line());
                real.problems.push(format!("{key}: {}", error.brief()));
            }
        }
    }
    print!("{}", real.page(&notes));
    if options.save {
        for path in real.save(&notes)? {
            eprintln!("wrote {}", path.display());
        }
    }
    let late = real.programs.iter().find(|hunted| hunted.seconds > options.amounts.most());
    match late {
        Some(late) => Err(BenchError::Wrong(format!("the hunt of {} took {:.1} s", late.name, late.seconds))),
        None => Ok(()),
    }
}
