//! `selvedge detect`: what can be asked of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::output::OutputArgs;
use super::shared::{StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge detect -- ./prog\n  \
    selvedge detect --runs 20 --overhead 5% -- ./prog input\n  \
    selvedge sections ./prog -o s && selvedge detect --sections s --runs 20 -- ./prog\n  \
    selvedge detect --runs 20 -- ./prog && selvedge detect --again --heuristic location --strength 1000 -- ./prog\n\n\
    Now and then a thread waits before an access, with the access announced; whoever is about to make a conflicting one \
    meanwhile races with it. There are no false reports. The program runs free, at nearly its own speed.")]
pub(crate) struct DetectArgs {
    /// Check atomic sections too: those of this file, which `selvedge sections -o` or `selvedge refine` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) sections: Option<PathBuf>,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// How many runs
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// How a thread waits
    #[arg(long, default_value = "sleep", value_parser = ["sleep", "spin", "yield", "priority"])]
    pub(crate) noise: String,
    /// Where: anywhere, at accesses to suspected variables, or at suspected places (with --again)
    #[arg(long, default_value = "random", value_parser = ["random", "variable", "location"])]
    pub(crate) heuristic: String,
    /// Waits in a thousand accesses; without it, few, and more when a thread begins
    #[arg(long, value_name = "0-1000", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) strength: Option<u16>,
    /// How long a wait is, about: 200us, 1ms; without it, 200us in the first run, and longer in later ones
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub(crate) duration: Option<Duration>,
    /// What it may cost: 5%, 2x, none
    #[arg(long, value_name = "BUDGET", value_parser = overhead, default_value = "25%")]
    pub(crate) overhead: Overhead,
    /// Aim at what earlier runs of this command saw
    #[arg(long)]
    pub(crate) again: bool,
    /// Decides all that is left to chance; the next run has the next seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Watch atomic operations too: a plain access that meets one races with it
    #[arg(long)]
    pub(crate) atomics: bool,
    /// Watch volatile accesses too
    #[arg(long)]
    pub(crate) volatile: bool,
    /// Tell of values that changed while a thread waited and nobody was seen
    #[arg(long)]
    pub(crate) values: bool,
    /// End a run after this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// How many survey runs to make
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) survey_runs: u32,
    /// Survey again, even if a kept survey would do
    #[arg(long)]
    pub(crate) resurvey: bool,
    /// Write the plan to FILE and run nothing; any program started with SELVEDGE_PLAN=FILE is then watched, and leaves
    /// its log in DIR/direct
    #[arg(long, value_name = "FILE")]
    pub(crate) plan_only: Option<PathBuf>,
    /// Do not look for a schedule that makes each race happen again
    #[arg(long)]
    pub(crate) no_clip: bool,
    /// Print the counters
    #[arg(long)]
    pub(crate) counters: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  selvedge sections ./prog -o prog.sections && selvedge refine prog.sections -- ./prog\n  \
    selvedge refine prog.sections --oracle 'grep -q \"total 100\" $SELVEDGE_RUN_DIR/stdout' -- ./prog\n  \
    selvedge refine prog.sections --merge other.sections\n\n\
    Runs the program under noise. A section that another thread comes between in a run that passes was not meant to be atomic: it is \
    marked so in the file, and not checked any more. Ends that no run comes to are not checked either. It is over when a \
    number of correct runs have changed nothing."
)]
pub(crate) struct RefineArgs {
    /// The sections; refined in place unless --output says otherwise
    #[arg(value_name = "FILE")]
    pub(crate) sections: PathBuf,
    /// Correct runs that change nothing, after which it is over
    #[arg(long, default_value_t = 10, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) quiet: u32,
    /// Most runs
    #[arg(short = 'n', long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Where the refined sections go
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Take in another file of sections first; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) merge: Vec<PathBuf>,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// How a thread waits
    #[arg(long, default_value = "sleep", value_parser = ["sleep", "spin", "yield", "priority"])]
    pub(crate) noise: String,
    /// What it may cost: 5%, 2x, none
    #[arg(long, value_name = "BUDGET", value_parser = overhead, default_value = "25%")]
    pub(crate) overhead: Overhead,
    /// Decides all that is left to chance; the next run has the next seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// End a run after this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments; without them, files are only merged
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

/// As [`duration`], or nothing.
fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { duration(text) }
}

/// What detecting may cost, in millionths of the processor time; `None` for anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overhead(pub(crate) Option<u32>);

fn overhead(text: &str) -> Result<Overhead, String> {
    let wrong = || format!("`{text}` is no budget: say 5%, 2x or none");
    if text == "none" {
        return Ok(Overhead(None));
    }
    let part = match (text.strip_suffix('%'), text.strip_suffix('x')) {
        (Some(percent), _) => percent.parse::<f64>().map_err(|_| wrong())? / 100.0,
        (_, Some(times)) => times.parse::<f64>().map_err(|_| wrong())? - 1.0,
        _ => return Err(wrong()),
    };
    if !(0.0..=1000.0).contains(&part) {
        return Err(wrong());
    }
    Ok(Overhead(Some((part * 1e6) as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        let cases = [("5%", Some(50_000)), ("2x", Some(1_000_000)), ("1.5x", Some(500_000)), ("none", None)];
        for (text, budget) in cases {
            assert_eq!(overhead(text), Ok(Overhead(budget)), "{text}");
        }
        for text in ["", "5", "x", "0.5x", "-1%", "NaN%"] {
            assert!(overhead(text).is_err(), "{text}");
        }
        assert_eq!(pause("0"), Ok(Duration::ZERO));
        assert_eq!(pause("200us"), Ok(Duration::from_micros(200)));
    }
}
