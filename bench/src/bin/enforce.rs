//! `enforce`: how the locks of enforcing do on kernels of the paper's bugs, and what they cost. See the library for the parts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use selvedge_bench::columns::Tools;
use selvedge_bench::enforce::kernel::{self, Measured};
use selvedge_bench::enforce::page::Enforcing;
use selvedge_bench::enforce::programs;
use selvedge_bench::error::{BenchError, Result, exit_code, tool};
use selvedge_bench::explore::workshop::{Workshop, each};
use selvedge_bench::machine::Machine;
use selvedge_bench::options::Options as How;
use selvedge_bench::place;
use selvedge_corpus::{Paper, Variant, load};

const USAGE: &str = "\
usage: enforce [--only KERNEL[,KERNEL]] [--profiled N] [--runs N] [--cost] [--programs PROGRAM[,PROGRAM]] [--quick] [--work DIR] [--save]

  --only      these kernels only, and no large programs
  --profiled  runs of each kernel that are profiled (default 40)
  --runs      schedules of each kernel (default 1000)
  --cost      what the locks cost in large programs, too; wants a quiet machine
  --programs  no kernels; what these large programs cost instead: pbzip2 memcached zstd
  --quick     large programs with small inputs
  --work      where builds and files go (default: bench-work in Cargo's target folder)
  --save      write docs/results/enforce.md and bench/results/enforce.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("enforce", USAGE, run())
}

struct Options {
    only: Vec<String>,
    programs: Vec<String>,
    profiled: u32,
    runs: u64,
    cost: bool,
    quick: bool,
    work: PathBuf,
    save: bool,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options {
        only: Vec::new(),
        programs: Vec::new(),
        profiled: 40,
        runs: 1000,
        cost: false,
        quick: false,
        work: place::target().join("bench-work"),
        save: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
        let number = |text: String| text.parse::<u32>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
        let names = |text: String| text.split(',').map(str::to_owned).collect();
        match arg.as_str() {
            "--only" => options.only = names(value()?),
            "--programs" => options.programs = names(value()?),
            "--profiled" => options.profiled = number(value()?)?,
            "--runs" => options.runs = number(value()?)?.into(),
            "--cost" => options.cost = true,
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
    Ok(Some(options))
}

fn run() -> Result<()> {
    let Some(mut options) = options()? else { return Ok(()) };
    let begin = Instant::now();
    options.work = place::work(&options.work)?;
    let corpus = tool("load the corpus", load(&place::repository().join("corpus")))?;
    let workshop = Workshop::open(&options.work, &place::selvedge()?)?;
    let mut enforcing = Enforcing {
        version: 1,
        machine: Machine::describe(),
        runs: options.runs,
        quick: options.quick,
        kernels: Vec::new(),
        programs: Vec::new(),
        problems: Vec::new(),
        seconds: 0.0,
    };
    if options.cost || !options.programs.is_empty() {
        let mut how = How::parse([])?;
        how.only.clone_from(&options.programs);
        how.work.clone_from(&options.work);
        how.quick = options.quick;
        enforcing.programs = programs::measure(&Tools::find(), &how, &mut |line| eprintln!("{line}"));
    }
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let kernels: Vec<_> = corpus
        .kernels
        .iter()
        .filter(|kernel| {
            options.programs.is_empty() && kernel.papers.contains(&Paper::Enforce) && is_wanted(&kernel.name)
        })
        .collect();
    let measured = each(&kernels, |kernel| -> Result<Measured> {
        let executable = workshop.wrapped(&kernel.program(), Variant::Buggy)?;
        let prepared = workshop.prepare(&executable, kernel.program().args)?;
        let measured = kernel::measure(kernel, &prepared, options.profiled, options.runs)?;
        let with = measured.with.unwrap_or_default();
        eprintln!(
            "{}: {} of {} profiled runs passed; {} fail without, {} with; {} waits given up; {:.1} s",
            measured.name,
            measured.profiled.1,
            measured.profiled.0,
            measured.without.failing + measured.without.hanging,
            with.failing + with.hanging,
            with.escapes,
            measured.seconds
        );
        Ok(measured)
    });
    for (kernel, measured) in kernels.iter().zip(measured) {
        match measured {
            Ok(measured) => enforcing.kernels.push(measured),
            Err(error) => enforcing.problems.push(format!("{}: {}", kernel.name, error.brief())),
        }
    }
    enforcing.seconds = begin.elapsed().as_secs_f64();
    print!("{}", enforcing.page());
    if options.save {
        for path in enforcing.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}
