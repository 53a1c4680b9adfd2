//! The command line of `predict`.

use std::path::PathBuf;

use super::analyses::ANALYSES;
use super::shapes::SHAPES;
use crate::error::{BenchError, Result};
use crate::place;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The small traces only.
    pub quick: bool,
    /// Also record pbzip2, memcached and zstd, and analyse that.
    pub real: bool,
    /// Only these shapes; empty for all.
    pub only: Vec<String>,
    /// Only these analyses; empty for all.
    pub analyses: Vec<String>,
    /// Measurements of each cell.
    pub runs: usize,
    /// Write the page and the raw results into the repository.
    pub save: bool,
    /// Where traces go.
    pub work: PathBuf,
    /// Print the usage and stop.
    pub help: bool,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Options {
            quick: false,
            real: false,
            only: Vec::new(),
            analyses: Vec::new(),
            runs: 3,
            save: false,
            work: place::target().join("bench-work"),
            help: false,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| usage(format!("{arg} needs a value")));
            match &*arg {
                "--quick" => options.quick = true,
                "--real" => options.real = true,
                "--save" => options.save = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--analyses" => options.analyses.extend(value()?.split(',').map(str::to_owned)),
                "--runs" => {
                    let text = value()?;
                    let runs = text.parse().ok().filter(|runs| *runs > 0);
                    options.runs = runs.ok_or_else(|| usage(format!("{text} is not a number of runs")))?;
                }
                "--work" => options.work = PathBuf::from(value()?),
                "--help" | "-h" => options.help = true,
                _ => return Err(usage(format!("unknown argument {arg}"))),
            }
        }
        let shape = options.only.iter().find(|name| !SHAPES.iter().any(|shape| shape.key == **name));
        let analysis = options.analyses.iter().find(|name| !ANALYSES.iter().any(|row| row.key == **name));
        if let Some(unknown) = shape.or(analysis) {
            return Err(usage(format!("there is no {unknown}")));
        }
        if options.save && (options.quick || !options.only.is_empty() || !options.analyses.is_empty()) {
            return Err(usage("--save keeps whole tables only: no --quick, --only or --analyses".to_owned()));
        }
        Ok(options)
    }
}

fn usage(text: String) -> BenchError {
    BenchError::Usage(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        let parse = |line: &str| Options::parse(line.split_whitespace().map(str::to_owned));
        let options = parse("--only 10k,1m --analyses read --runs 2 --real").unwrap();
        assert_eq!((options.only.len(), options.runs, options.real), (2, 2, true));
        for bad in ["--only", "--only nope", "--analyses nope", "--runs 0", "--quick --save", "x"] {
            assert!(matches!(parse(bad), Err(BenchError::Usage(_))), "{bad}");
        }
    }
}
