//! `selvedge rank`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shared::{ControlArgs, StoreArgs, duration};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  selvedge rank -- ./prog\n  selvedge rank -n 100 --svg rank.svg --json rank.json -- ./prog input\n  \
    selvedge record -n 50 -- ./prog && selvedge rank 1 2 3 4 5\n  \
    selvedge rank --collector live --save tested.graph -- ./prog\n  \
    selvedge rank --baseline tested.graph --watch -- ./prog\n\n\
    Runs of a program are made under varied schedules until half of them fail and half pass. What tells them apart is who \
    got data from whom, and what the threads had seen of each other before; what goes wrong first counts most. \
    docs/design/rank.md has the scores."
)]
pub(crate) struct RankArgs {
    /// How many runs to make
    #[arg(short = 'n', long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Most time for making runs
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) budget: Duration,
    /// How runs are told apart: by their exit, by --oracle, or not at all
    #[arg(long, value_parser = ["exit", "oracle", "none"])]
    pub(crate) label: Option<String>,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// How many communication events a context keeps
    #[arg(long, default_value_t = 5, value_name = "K", value_parser = clap::value_parser!(u8).range(0..=8))]
    pub(crate) context: u8,
    /// What counts as one location: four bytes, or a cache line
    #[arg(long, default_value = "word", value_parser = ["word", "line"])]
    pub(crate) granularity: String,
    /// Who collects graphs: from traces, the runtime without a trace, or the paper's hardware simulated over traces
    #[arg(long, default_value = "trace", value_parser = ["trace", "live", "mesi"])]
    pub(crate) collector: String,
    /// How code points are scored; paper also collects by the paper's rules
    #[arg(long, default_value = "suspicious", value_parser = ["paper", "rare", "suspicious"])]
    pub(crate) score: String,
    /// How many code points to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Write the ranking to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the ranking to this file as a page, with a picture of who the top code points get data from
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Draw the neighbourhood of the top code points
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the sum of all graphs in Graphviz's language
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
    /// Write the sum of all graphs as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) graph_json: Option<PathBuf>,
    /// Keep the sum of the graphs of passing runs (of all, where they are not told apart) as a testing graph
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Report what the runs do beyond this testing graph, instead of ranking
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// With --baseline: run the program once, free, and report while it runs; the testing graph must be of --collector live
    #[arg(long, requires = "baseline", requires = "guest")]
    pub(crate) watch: bool,
    /// With --watch: time between looks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", requires = "watch")]
    pub(crate) every: Duration,
    /// With --baseline: how surprising something must be, from 0 to 1
    #[arg(long, default_value_t = selvedge_analyze::graph::deployed::THRESHOLD, value_name = "SHARE")]
    pub(crate) threshold: f64,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
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
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Recorded runs, by number or directory
    #[arg(value_name = "RUN", conflicts_with = "guest")]
    pub(crate) recorded: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}
