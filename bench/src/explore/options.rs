//! The command line of `explore`, and how much it makes of everything.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::{BenchError, Result};
use crate::place;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Only these programs; empty for all.
    pub only: Vec<String>,
    /// How much of everything.
    pub amounts: Amounts,
    /// Write the page and the raw results into the repository.
    pub save: bool,
    /// Where builds and clips go.
    pub work: PathBuf,
    /// Print the usage and stop.
    pub help: bool,
}

/// How much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Seeds of a strategy that depends on one.
    pub seeds: u64,
    /// Most schedules until the first failure.
    pub schedules: u64,
    /// Schedules of a program without a bug.
    pub fixed: u64,
    /// Replays of a failure.
    pub replays: u32,
    /// Runs of one schedule.
    pub repeats: u32,
    /// Whether this is only a quick look.
    pub quick: bool,
}

const FULL: Amounts = Amounts { seeds: 10, schedules: 1000, fixed: 10_000, replays: 50, repeats: 100, quick: false };
const QUICK: Amounts = Amounts { seeds: 3, schedules: 1000, fixed: 300, replays: 10, repeats: 10, quick: true };

impl Amounts {
    /// The arguments that ask for them.
    pub fn arguments(&self) -> String {
        let usual = if self.quick { QUICK } else { FULL };
        let mut words = String::from(if self.quick { "--quick " } else { "" });
        for (name, value, usual) in [
            ("seeds", self.seeds, usual.seeds),
            ("schedules", self.schedules, usual.schedules),
            ("fixed", self.fixed, usual.fixed),
        ] {
            if value != usual {
                let _ = write!(words, "--{name} {value} ");
            }
        }
        words
    }
}

impl Options {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let args: Vec<String> = args.into_iter().collect();
        let amounts = if args.iter().any(|arg| arg == "--quick") { QUICK } else { FULL };
        let work = place::target().join("bench-work");
        let mut options = Options { only: Vec::new(), amounts, save: false, work, help: false };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| usage(format!("{arg} needs a value")));
            match &*arg {
                "--quick" => {}
                "--save" => options.save = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--seeds" => options.amounts.seeds = number(&value()?)?,
                "--schedules" => options.amounts.schedules = number(&value()?)?,
                "--fixed" => options.amounts.fixed = number(&value()?)?,
                "--work" => options.work = PathBuf::from(value()?),
                "--help" | "-h" => options.help = true,
                _ => return Err(usage(format!("unknown argument {arg}"))),
            }
        }
        if options.save && !options.only.is_empty() {
            return Err(usage("--save keeps whole tables only: no --only".to_owned()));
        }
        Ok(options)
    }

    /// Whether a program is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Refuses names that stand for nothing.
    pub fn check_names<'a>(&self, known: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        match self.only.iter().find(|only| !known.clone().any(|name| name == **only)) {
            Some(unknown) => Err(usage(format!("there is no {unknown}"))),
            None => Ok(()),
        }
    }
}

fn number<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T> {
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| usage(format!("{text} is not a number that fits")))
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
        assert_eq!(parse("").unwrap().amounts, FULL);
        assert_eq!(parse("--seeds 2 --quick").unwrap().amounts, Amounts { seeds: 2, ..QUICK });
        assert_eq!(parse("--fixed 9 --quick").unwrap().amounts.arguments(), "--quick --fixed 9 ");
        assert!(parse("--only account,shop").unwrap().wants("shop"));
        for bad in ["--seeds", "--seeds 0", "--fixed x", "--only account --save", "account"] {
            assert!(matches!(parse(bad), Err(BenchError::Usage(_))), "{bad}");
        }
        assert!(parse("--only nope").unwrap().check_names(["account"].into_iter()).is_err());
    }
}
