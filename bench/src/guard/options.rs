//! The command line of `guard`.

use std::path::PathBuf;

use serde::Serialize;

use crate::error::{BenchError, Result};
use crate::place;

/// What can be said.
pub const USAGE: &str = "\
usage: guard [--only PROGRAM[,PROGRAM]] [--runs N] [--traces N] [--learnt N] [--quiet N] [--training N]
             [--pbzip2 N] [--buggy] [--work DIR] [--save]
       guard --cost [--quick] [--only ROW[,ROW]] [--runs N] [--limit SECONDS] [--work DIR] [--save]

  --only      these programs of the corpus only, and not pbzip2
  --runs      schedules of each program with a bug (default 1000)
  --traces    failing runs of each that are recorded for the other invariants (default 40)
  --learnt    most passing runs that these learn from (default 200)
  --quiet     runs of each program without a bug: half guarded, half free (default 400)
  --training  most runs of a training (default 5000)
  --pbzip2    free training runs of pbzip2 (default 100; 0 for none)
  --buggy     only the programs with a bug
  --work      where builds and files go (default: bench-work in Cargo's target folder)
  --save      write docs/results/guard.md and bench/results/guard.json
  --cost      measure how much slower guarded programs are instead: lu lu_blocked fft pbzip2 memcached zstd, 15 runs of each, on a
              machine that does nothing else; --save writes docs/results/guard-cost.md and bench/results/guard-cost.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

/// How much is run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amounts {
    /// Schedules of each program with a bug.
    pub runs: u64,
    /// Failing runs that are recorded.
    pub traces: usize,
    /// Most passing runs that are recorded for the other invariants to learn from.
    pub learnt: usize,
    /// Runs of each program without a bug.
    pub quiet: u64,
    /// Most runs of a training.
    pub training: u32,
    /// Training runs of pbzip2.
    pub pbzip2: u32,
}

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// These programs; all where it is empty.
    pub only: Vec<String>,
    /// How much.
    pub amounts: Amounts,
    /// Only programs with a bug.
    pub buggy: bool,
    /// Where files go.
    pub work: PathBuf,
    /// Whether the page is kept.
    pub save: bool,
}

impl Options {
    /// Reads the command line; `None` where only help was asked for.
    pub fn read(args: impl IntoIterator<Item = String>) -> Result<Option<Options>> {
        let mut options = Options {
            only: Vec::new(),
            amounts: Amounts { runs: 1000, traces: 40, learnt: 200, quiet: 400, training: 5000, pbzip2: 100 },
            buggy: false,
            work: place::target().join("bench-work"),
            save: false,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| BenchError::Usage(format!("{arg} needs a value")));
            let number =
                |text: String| text.parse::<u32>().map_err(|_| BenchError::Usage(format!("{text} is no number")));
            let amounts = &mut options.amounts;
            match arg.as_str() {
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--runs" => amounts.runs = number(value()?)?.into(),
                "--traces" => amounts.traces = number(value()?)? as usize,
                "--learnt" => amounts.learnt = number(value()?)? as usize,
                "--quiet" => amounts.quiet = number(value()?)?.into(),
                "--training" => amounts.training = number(value()?)?,
                "--pbzip2" => amounts.pbzip2 = number(value()?)?,
                "--buggy" => options.buggy = true,
                "--work" => options.work = PathBuf::from(value()?),
                "--save" => options.save = true,
                "--help" => return Ok(None),
                _ => return Err(BenchError::Usage(format!("unknown argument {arg}"))),
            }
        }
        Ok(Some(options))
    }

    /// Whether a program is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Option<Options>> {
        Options::read(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn words_are_understood_or_refused() {
        let options = read(&["--only", "a,b", "--runs", "7"]).expect("read").expect("options");
        assert!(options.wants("a") && options.wants("b") && !options.wants("c"));
        assert_eq!((options.amounts.runs, options.amounts.quiet), (7, 400));
        for wrong in [&["--runs"][..], &["--runs", "x"], &["--what"]] {
            assert!(matches!(read(wrong), Err(BenchError::Usage(_))), "{wrong:?}");
        }
        assert!(read(&["--help"]).expect("read").is_none());
    }
}
