//! The command lines of both binaries.

use std::path::PathBuf;

use crate::error::{BenchError, Result};
use crate::place;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Small inputs, for a quick look.
    pub quick: bool,
    /// Only these rows (or hooks); empty for all.
    pub only: Vec<String>,
    /// Runs of each cell.
    pub runs: usize,
    /// Write the page and the raw results into the repository.
    pub save: bool,
    /// Fail when a figure grew against the saved raw results (`hooks` only).
    pub check: bool,
    /// The time limit of one run, in seconds.
    pub limit: u64,
    /// Where sources, builds and traces go.
    pub work: PathBuf,
    /// Print the usage and stop.
    pub help: bool,
}

/// The fewest runs that a median is taken of in a table that is kept.
pub const FEWEST_RUNS: usize = 5;

impl Options {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Options {
            quick: false,
            only: Vec::new(),
            runs: 0,
            save: false,
            check: false,
            limit: 300,
            work: place::target().join("bench-work"),
            help: false,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| usage(format!("{arg} needs a value")));
            match &*arg {
                "--quick" => options.quick = true,
                "--save" => options.save = true,
                "--check" => options.check = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--runs" => options.runs = number(&value()?)?,
                "--limit" => options.limit = number(&value()?)?,
                "--work" => options.work = PathBuf::from(value()?),
                "--help" | "-h" => options.help = true,
                _ => return Err(usage(format!("unknown argument {arg}"))),
            }
        }
        if options.runs == 0 {
            options.runs = if options.quick { 2 } else { FEWEST_RUNS };
        }
        if options.save && (!options.only.is_empty() || options.quick || options.runs < FEWEST_RUNS) {
            return Err(usage(format!(
                "--save keeps whole tables only: no --only, no --quick, at least {FEWEST_RUNS} runs"
            )));
        }
        Ok(options)
    }

    /// Keeps the members of `all` that were asked for.
    pub fn select<T: Copy>(&self, all: &[T], key: impl Fn(&T) -> &str) -> Result<Vec<T>> {
        if let Some(unknown) = self.only.iter().find(|o| !all.iter().any(|t| key(t) == **o)) {
            let known: Vec<&str> = all.iter().map(&key).collect();
            return Err(usage(format!("there is no {unknown}; there are {}", known.join(", "))));
        }
        let asked = |t: &&T| self.only.is_empty() || self.only.iter().any(|o| o == key(t));
        Ok(all.iter().filter(asked).copied().collect())
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| usage(format!("{text} is not a number that fits")))
}

fn usage(text: String) -> BenchError {
    BenchError::Usage(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn lines_are_understood_or_refused() {
        assert_eq!(parse("").unwrap().runs, FEWEST_RUNS);
        assert_eq!(parse("--only lu,fft --runs 3").unwrap().only, ["lu", "fft"]);
        for bad in ["--runs", "--runs x", "--quick --save", "--only lu --save", "--runs 3 --save", "lu"] {
            assert!(matches!(parse(bad), Err(BenchError::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn unknown_rows_are_refused() {
        let options = parse("--only nope").unwrap();
        assert!(options.select(&["lu"], |r| r).is_err());
    }
}
