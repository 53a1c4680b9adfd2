//! Running under schedules that we choose, and again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use selvedge_events::ThreadIx;

use super::output::OutputArgs;
use super::shared::{ControlArgs, InterveneArgs, StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge explore -- ./prog\n  \
    selvedge explore --strategy pct --depth 3 --budget 60s -- ./prog input\n  \
    selvedge explore --strategy bounded --preemptions 1 -- ./prog\n\n\
    One thread runs at a time, and the strategy says which. Each distinct failure is kept as a clip.")]
pub(crate) struct ExploreArgs {
    /// How schedules are chosen
    #[arg(long, default_value = "random", value_parser = ["random", "pct", "pos", "bounded", "round-robin"])]
    pub(crate) strategy: String,
    /// With bounded: most preemptions of a schedule
    #[arg(long, default_value_t = 1, value_name = "K")]
    pub(crate) preemptions: u32,
    /// With pct: ordering constraints of the bugs looked for
    #[arg(long, default_value_t = 3, value_name = "D")]
    pub(crate) depth: u32,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Most schedules
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) schedules: u64,
    /// Most time: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// Stop at the first failure
    #[arg(long)]
    pub(crate) stop_on_first: bool,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// End a run after this time and call it a hang
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// End a run after so many steps and call it a hang
    #[arg(long, default_value_t = selvedge_drive::explore::DEFAULT_MOST_STEPS, value_name = "N")]
    pub(crate) max_steps: u64,
    /// How many survey runs to make
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) survey_runs: u32,
    /// Survey again, even if a kept survey would do
    #[arg(long)]
    pub(crate) resurvey: bool,
    /// Runs at once: more than one only for programs that do not get into each other's way through files or ports
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    pub(crate) jobs: usize,
    /// Run every schedule twice, and name the first place where the two runs differ
    #[arg(long)]
    pub(crate) check_determinism: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge replay                       the latest clip\n  \
    selvedge replay .selvedge/clips/prog-1a2b3c4d.clip\n  \
    selvedge replay --gdb --until T1@12 prog.clip\n  selvedge replay -n 50 prog.clip\n\n\
    Exit code 66 where the run fails as it did when the clip was made, 1 where it does not.")]
pub(crate) struct ReplayArgs {
    /// The clip; the latest in .selvedge where it is left out
    pub(crate) clip: Option<PathBuf>,
    /// How often
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) times: u32,
    /// Stop when this thread is at this point: T1@12
    #[arg(long, value_name = "EVENT", value_parser = event)]
    pub(crate) until: Option<(ThreadIx, u32)>,
    /// Run under gdb; with --until it has the program stopped there
    #[arg(long)]
    pub(crate) gdb: bool,
    /// With --gdb: another argument for gdb; may be given again
    #[arg(long = "gdb-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) gdb_args: Vec<OsString>,
    /// End a run after this time and call it a hang
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) interventions: InterveneArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge minimize .selvedge/clips/prog-1a2b3c4d.clip\n\n\
    The smaller clip is written beside the old one.")]
pub(crate) struct MinimizeArgs {
    /// The clip; the latest in .selvedge where it is left out
    pub(crate) clip: Option<PathBuf>,
    /// Where the smaller clip goes
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Most runs
    #[arg(long, default_value_t = selvedge_drive::minimize::DEFAULT_BUDGET, value_name = "N")]
    pub(crate) budget: u32,
}

/// `T1@12`.
fn event(text: &str) -> Result<(ThreadIx, u32), String> {
    let wrong = || "use a thread and its point, as in T1@12".to_owned();
    let (thread, point) = text.strip_prefix('T').unwrap_or(text).split_once('@').ok_or_else(wrong)?;
    Ok((ThreadIx(thread.parse().map_err(|_| wrong())?), point.parse().map_err(|_| wrong())?))
}
