//! `selvedge hunt` and `selvedge predict`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::output::OutputArgs;
use super::shared::{ControlArgs, StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge hunt -- ./prog\n  \
    selvedge hunt --runs 30 --budget 5m --json findings.json -- ./prog input\n  \
    selvedge hunt --baseline findings.json --new-only -- ./prog input\n  \
    selvedge hunt --resume --budget 10m\n  \
    selvedge hunt --locks -- ./prog input\n\n\
    A hunt records runs under varied schedules, predicts what they hide, makes it happen, watches free runs with noise, \
    and makes and checks a guard for each bug that did harm. Findings with one root cause are one bug. \
    Ctrl-C ends it with what is known so far; --resume goes on from there. It ends within the budget, and what is \
    running then gets 5 s and a tenth of the budget to be told.\n\n\
    Runs that pass are enough. What is shown was made to happen: races, deadlocks, lost wake-ups, and orders of events \
    that did harm. Orders that did none are counted, and shown with --all.")]
pub(crate) struct HuntArgs {
    /// How many runs to record
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Most time: 10s, 5m; a bare number is seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) budget: Duration,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Findings that are known already, as --json wrote them
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Show only bugs that the baseline does not have; without any the exit code is 0
    #[arg(long, requires = "baseline")]
    pub(crate) new_only: bool,
    /// Make no guards
    #[arg(long)]
    pub(crate) no_guard: bool,
    /// Place locks too, learnt from schedules that pass, and check them against each bug that did harm
    #[arg(long)]
    pub(crate) locks: bool,
    /// Fresh schedules that each guard is checked with
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub(crate) guard_schedules: u64,
    /// Do not watch free runs with noise
    #[arg(long)]
    pub(crate) no_detect: bool,
    /// Go on with the last hunt that was interrupted or had no time for all
    #[arg(long, conflicts_with = "guest")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) trying: TryArgs,
    /// How many survey runs to make
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) survey_runs: u32,
    /// Survey again, even if a kept survey would do
    #[arg(long)]
    pub(crate) resurvey: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required_unless_present = "resume", trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

/// How predictions are tried and shown.
#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// End a run after this time and call it a hang
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Most time for one prediction
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) each: Duration,
    /// Where an anomaly did no harm, go on by chance so many times
    #[arg(long, default_value_t = 6, value_name = "N")]
    pub(crate) chances: u64,
    /// End a run after so many steps and call it a hang
    #[arg(long, default_value_t = selvedge_drive::explore::DEFAULT_MOST_STEPS, value_name = "N")]
    pub(crate) max_steps: u64,
    /// Further patterns to look for; docs/reference/patterns.md has the form
    #[arg(long, value_name = "FILE")]
    pub(crate) patterns: Option<PathBuf>,
    /// Predictions to try at once: more than one only for programs that do not get into each other's way through files or ports
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    pub(crate) jobs: usize,
    /// Show everything that was made to happen, harmful or not
    #[arg(long)]
    pub(crate) all: bool,
    /// List every finding of each bug
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge record --controlled -n 5 -- ./prog && selvedge predict 1 2 3 4 5\n  \
    selvedge predict --std trace.std --json findings.json\n\n\
    Of runs that were recorded with --controlled, predictions are made to happen. Of others, and of text traces, they are \
    listed with the relation that proves them.")]
pub(crate) struct PredictArgs {
    /// Runs, by number or directory; the latest where none is named
    #[arg(value_name = "RUN", conflicts_with = "std")]
    pub(crate) runs: Vec<String>,
    /// A trace in RAPID's std text form instead; - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) std: Option<PathBuf>,
    /// Only predict
    #[arg(long)]
    pub(crate) no_confirm: bool,
    /// Most time: 10s, 5m; a bare number is seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) budget: Duration,
    #[command(flatten)]
    pub(crate) trying: TryArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
