//! `rustsec`: what `cargo selvedge hunt` finds in crates with an advisory. See the library for the parts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use selvedge_bench::error::{BenchError, Result, at, exit_code};
use selvedge_bench::machine::Machine;
use selvedge_bench::place;
use selvedge_bench::rustsec::advisory::all;
use selvedge_bench::rustsec::hunted::{Amounts, hunt};
use selvedge_bench::rustsec::page::Advisories;

const USAGE: &str = "\
usage: rustsec [--only NAME[,NAME]] [--budget SECONDS] [--seed N] [--plain N] [--replays N] [--work DIR] [--save]

  --only     these programs of bench/programs/rustsec only
  --budget   seconds for each hunt (default 30)
  --seed     decides what is left to chance (default 1)
  --plain    plain runs of each test first (default 10)
  --replays  replays of each clip (default 5)
  --work     where packages and builds go (default: bench-work in Cargo's target folder)
  --save     write docs/results/rustsec.md and bench/results/rustsec.json

Crates are fetched from the registry. SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("rustsec", USAGE, run())
}

fn run() -> Result<()> {
    let mut only: Vec<String> = Vec::new();
    let mut amounts = Amounts { budget: 30, seed: 1, plain: 10, replays: 5 };
    let mut work = place::target().join("bench-work");
    let mut save = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
        let number = |text: String| text.parse::<u32>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
        match arg.as_str() {
            "--only" => only = value()?.split(',').map(str::to_owned).collect(),
            "--budget" => amounts.budget = number(value()?)?.into(),
            "--seed" => amounts.seed = number(value()?)?.into(),
            "--plain" => amounts.plain = number(value()?)?,
            "--replays" => amounts.replays = number(value()?)?,
            "--work" => work = PathBuf::from(value()?),
            "--save" => save = true,
            "--help" => {
                print!("{USAGE}");
                return Ok(());
            }
            _ => return Err(BenchError::Usage(format!("unknown argument {arg}"))),
        }
    }
    let begin = Instant::now();
    let dir = place::work(&work)?.join("rustsec");
    at("create", &dir, std::fs::create_dir_all(&dir))?;
    let selvedge = place::selvedge()?;
    let machine = Machine::describe();
    let mut page = Advisories { version: 1, machine, amounts, hunts: Vec::new(), problems: Vec::new(), seconds: 0.0 };
    for advisory in all()?.iter().filter(|advisory| only.is_empty() || only.contains(&advisory.name)) {
        match hunt(advisory, &selvedge, &dir, &amounts) {
            Ok(hunted) => {
                let harmful = hunted.findings.iter().filter(|found| found.harm.is_some()).count();
                eprintln!(
                    "{}: {} found, {harmful} with harm, {:.0} s",
                    advisory.name,
                    hunted.findings.len(),
                    hunted.seconds
                );
                page.hunts.push(hunted);
            }
            Err(error) => {
                eprintln!("{}: {}", advisory.name, error.line());
                page.problems.push(format!("{}: {}", advisory.name, error.brief()));
            }
        }
    }
    page.seconds = begin.elapsed().as_secs_f64();
    print!("{}", page.page());
    if save {
        for path in page.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}
