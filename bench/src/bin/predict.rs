//! `predict`: how fast traces are read and analysed. See the library for the parts.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use selvedge_bench::columns::Tools;
use selvedge_bench::error::{Result, at, exit_code};
use selvedge_bench::machine::Machine;
use selvedge_bench::place;
use selvedge_bench::predict::analyses::ANALYSES;
use selvedge_bench::predict::exact;
use selvedge_bench::predict::files::{trace_file, write_text};
use selvedge_bench::predict::generate::generate;
use selvedge_bench::predict::one::{self, Form};
use selvedge_bench::predict::options::Options;
use selvedge_bench::predict::page::{Cell, Predict};
use selvedge_bench::predict::real;
use selvedge_bench::predict::shapes::{QUICK, SHAPES, Shape};

const USAGE: &str = "\
usage: predict [--quick] [--real] [--only TRACE[,TRACE]] [--analyses NAME[,NAME]] [--runs N] [--work DIR] [--save]

  --quick      the small generated traces only
  --real       also pbzip2, memcached and zstd: built and recorded once, kept in the work folder
  --only       these generated traces only
  --analyses   these analyses only
  --runs       measurements of each figure (default 3)
  --work       where traces go (default: bench-work in Cargo's target folder)
  --save       write docs/results/predict-speed.md and bench/results/predict-speed.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

fn main() -> ExitCode {
    exit_code("predict", USAGE, run())
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == one::ARGUMENT) {
        return one::child(&args[1..]);
    }
    let mut options = Options::parse(args)?;
    if options.help {
        print!("{USAGE}");
        return Ok(());
    }
    options.work = place::work(&options.work)?;
    let mut predict = Predict {
        version: 1,
        machine: Machine::describe(),
        cells: Vec::new(),
        exact: Vec::new(),
        problems: Vec::new(),
    };
    let most = if options.quick { QUICK } else { SHAPES.len() };
    for shape in SHAPES.iter().take(most) {
        if !options.only.is_empty() && !options.only.iter().any(|key| key == shape.key) {
            continue;
        }
        for form in Form::ALL {
            let file = generated(shape, form, &options.work)?;
            measure(shape.title, form, &file, &options, &mut predict);
        }
    }
    if options.real {
        let tools = Tools::find();
        for key in real::PROGRAMS {
            eprintln!("{key}: recording");
            match real::row(key).and_then(|row| real::record(row, &tools, &options)) {
                Ok((folder, title)) => measure(&title, Form::Selvedge, &folder, &options, &mut predict),
                Err(error) => predict.problems.push(format!("{key}: {}", error.brief())),
            }
        }
    }
    if let Some(folder) = exact::folder() {
        predict.exact = exact::all(&folder)?;
    }
    print!("{}", predict.page());
    if options.save {
        for path in predict.save()? {
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// The file of a generated trace, made when it is not there.
fn generated(shape: &Shape, form: Form, work: &Path) -> Result<PathBuf> {
    let dir = work.join("predict").join("generated");
    at("create", &dir, fs::create_dir_all(&dir))?;
    let path = dir.join(format!("{}.{}", shape.key, form.key()));
    let history = generate(shape);
    let file = at("create", &path, File::create(&path))?;
    let mut to = BufWriter::new(file);
    let written = match form {
        Form::Selvedge => to.write_all(&trace_file(&history)),
        Form::Text => write_text(&history, &mut to),
    };
    at("write", &path, written.and_then(|()| to.flush()))?;
    Ok(path)
}

fn measure(trace: &str, form: Form, path: &Path, options: &Options, predict: &mut Predict) {
    for analysis in ANALYSES {
        if !options.analyses.is_empty() && !options.analyses.iter().any(|key| key == analysis.key) {
            continue;
        }
        let mut runs = Vec::new();
        for _ in 0..options.runs {
            match one::measure(form, analysis, path) {
                Ok(one) => runs.push(one),
                Err(error) => {
                    predict.problems.push(format!("{trace}, {}: {}", analysis.key, error.brief()));
                    return;
                }
            }
        }
        let cell = Cell { trace: trace.to_owned(), form, bytes: size(path), analysis: analysis.key, runs };
        eprintln!("{trace}, {}, {}: {:.2} M/s", form.key(), analysis.key, cell.rate() / 1e6);
        predict.cells.push(cell);
    }
}

/// Bytes of a file, or of the files of a folder.
fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return fs::metadata(path).map_or(0, |data| data.len()) };
    entries.flatten().map(|entry| entry.metadata().map_or(0, |data| data.len())).sum()
}
