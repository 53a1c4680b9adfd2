//! `overhead`: slow-downs and peak memory, all columns side by side. See the library for the parts.

use std::process::ExitCode;

use selvedge_bench::columns::Tools;
use selvedge_bench::error::{Result, exit_code};
use selvedge_bench::machine::Machine;
use selvedge_bench::measure::measure;
use selvedge_bench::options::Options;
use selvedge_bench::rows::ROWS;
use selvedge_bench::table::Overhead;
use selvedge_bench::{bars, controlled, exec};

const USAGE: &str = "\
usage: overhead [--quick] [--only ROW[,ROW]] [--runs N] [--limit SECONDS] [--work DIR] [--save]

  --quick   small inputs, 2 runs
  --only    these rows only: lu lu_blocked fft queue ring map pbzip2 memcached zstd
  --runs    runs of each cell (default 5)
  --limit   time limit of one run in seconds (default 300)
  --work    where sources, builds and traces go (default: bench-work in Cargo's target folder)
  --save    write docs/results/overhead.md and bench/results/overhead.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("overhead", USAGE, run())
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = controlled::asked(&args) {
        return done;
    }
    let mut options = Options::parse(args)?;
    if options.help {
        print!("{USAGE}");
        return Ok(());
    }
    let rows = options.select(ROWS, |row| row.key)?;
    options.work = selvedge_bench::place::work(&options.work)?;
    let tools = Tools::find();
    let machine = Machine::describe();
    let mut measured = Vec::new();
    for row in rows {
        measured.push(measure(row, &tools, &options, &mut |line| eprintln!("{line}")));
    }
    let overhead = Overhead {
        version: 1,
        machine,
        quick: options.quick,
        runs: options.runs,
        memory_floor_kib: exec::memory_floor(&options.work)?,
        bars: measured.iter().flat_map(bars::check).collect(),
        rows: measured,
    };
    print!("{}", overhead.page());
    if options.save {
        for path in overhead.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}
