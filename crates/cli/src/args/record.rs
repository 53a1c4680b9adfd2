//! Recording runs and looking at them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shared::{InterveneArgs, StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge record -- ./prog input.txt\n  \
    selvedge record -n 100 --timeout 10s -- ./prog\n  \
    selvedge record -n 20 --oracle 'grep -q \"total 100\" $SELVEDGE_RUN_DIR/stdout' -- ./prog\n\n\
    A survey run first finds the places that touch memory shared between threads; it is kept and used \
    again while program and arguments are the same. With -n, output of the program goes to the run's \
    directory, not to the terminal.")]
pub(crate) struct RecordArgs {
    /// How many runs to record
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// End a run after this time and label it `hang`: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// How many survey runs to make
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) survey_runs: u32,
    /// Survey again, even if a kept survey would do
    #[arg(long)]
    pub(crate) resurvey: bool,
    /// Stop after the survey; with --plan-only, write the survey's own plan and run nothing: a program started
    /// with it (a server, say) is surveyed as it is used, and later recordings into DIR take that survey
    #[arg(long)]
    pub(crate) survey_only: bool,
    /// Stop after the survey and write the plan of the recording to FILE; any program started with
    /// SELVEDGE_PLAN=FILE is then recorded into DIR/direct
    #[arg(long, value_name = "FILE")]
    pub(crate) plan_only: Option<PathBuf>,
    /// Most MiB of trace that one process may leave
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    pub(crate) trace_limit_mb: u64,
    /// Most MiB of memory that the recorder may use inside the program
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub(crate) memory_limit_mb: u32,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Run one thread at a time, by chance as the seed says: the record is exact and can be made again
    #[arg(long)]
    pub(crate) controlled: bool,
    /// With --controlled: decides all that is left to chance; the next run has the next seed
    #[arg(long, default_value_t = 1, value_name = "N", requires = "controlled")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) interventions: InterveneArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge runs --json")]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge trace                       the latest run\n  \
    selvedge trace 12 --variable balance\n  selvedge trace 12 --thread T1 --thread main\n  \
    selvedge trace 12 --std > run.std    for RAPID and its relatives\n  \
    selvedge trace 12 --format perfetto -o run.pftrace")]
pub(crate) struct TraceArgs {
    /// A run's number, a run's directory, or a trace file; the latest run where it is left out
    pub(crate) run: Option<String>,
    /// Only this thread: its number, name or creation path; may be given again
    #[arg(long = "thread", value_name = "THREAD")]
    pub(crate) threads: Vec<String>,
    /// Only events on variables whose name contains this; =NAME for exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) variable: Option<String>,
    /// Most lines for each process
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Only the summary
    #[arg(long, conflicts_with_all = ["std", "columns"])]
    pub(crate) summary: bool,
    /// Threads side by side
    #[arg(long, conflicts_with_all = ["json", "std"])]
    pub(crate) columns: bool,
    /// JSON lines: a header for each process, then its events
    #[arg(long, conflicts_with = "std")]
    pub(crate) json: bool,
    /// The text form of RAPID: T1|w(V2)|file:line
    #[arg(long)]
    pub(crate) std: bool,
    /// A timeline for another viewer: Chrome's JSON, or Perfetto's own form; both open in ui.perfetto.dev
    #[arg(long, value_name = "FORM", value_parser = ["chrome", "perfetto"], conflicts_with_all = ["std", "json", "columns", "summary", "limit"])]
    pub(crate) format: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", requires = "format")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
