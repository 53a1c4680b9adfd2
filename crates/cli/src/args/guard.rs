//! Learning, guarding, and what comes of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use selvedge_drive::store::DEFAULT_DIR;

use super::output::OutputArgs;
use super::shared::{StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge train -n 40 -- ./prog input.txt\n  \
    selvedge train --until-converged --oracle 'grep -q \"total 100\" $SELVEDGE_RUN_DIR/stdout' -- ./prog\n  \
    selvedge train -o prog.invariants 3 4 5          from recorded runs\n\n\
    Every second run is under control, by another strategy each time. Runs that fail are counted and left out. \
    What is learnt is a text file: which access may come right after which access of another thread.")]
pub(crate) struct TrainArgs {
    /// Recorded runs to learn from, by number or directory, instead of a program to run
    #[arg(value_name = "RUN", conflicts_with_all = ["guest", "runs"], required_unless_present = "guest")]
    pub(crate) recorded: Vec<String>,
    /// How many runs to make; with --until-converged, at most so many [default: 200, or 5000]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Stop as soon as runs show nothing new
    #[arg(long)]
    pub(crate) until_converged: bool,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// End a run after this time; what hangs teaches nothing
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Where the invariants go [default: NAME.invariants]
    #[arg(short, long = "out", visible_alias = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a page to this file that says how training converged
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Add to what the file has already
    #[arg(long)]
    pub(crate) merge: bool,
    /// Variables that are guarded as one: those that some recorded runs access together (auto), none, or those that a
    /// file of invariants names
    #[arg(long, value_name = "auto|none|FILE", default_value = "auto")]
    pub(crate) colours: String,
    /// Only these sites: a function, a file or a key, with * for any text; may be given again
    #[arg(long, value_name = "SITES")]
    pub(crate) only: Vec<String>,
    /// Without these sites; may be given again
    #[arg(long, value_name = "SITES")]
    pub(crate) except: Vec<String>,
    /// Make no controlled runs
    #[arg(long, conflicts_with = "controlled_only")]
    pub(crate) free_only: bool,
    /// Make no free runs
    #[arg(long)]
    pub(crate) controlled_only: bool,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// How many survey runs to make
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) survey_runs: u32,
    /// Survey again, even if a kept survey would do
    #[arg(long)]
    pub(crate) resurvey: bool,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub(crate) store: PathBuf,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge guard prog.invariants -- ./prog input.txt\n  \
    selvedge guard prog.invariants --plan prog.plan -- ./prog      for SELVEDGE_PLAN=prog.plan ./prog\n  \
    selvedge guard --log .selvedge/guard/0001\n\n\
    A thread that is about to make an access which never followed the one before it waits until the right one has come, at \
    most --stall. Accesses of groups that make up most of all shared accesses are left out; --all guards them too. \
    The exit code is the program's own.")]
pub(crate) struct GuardArgs {
    /// What `selvedge train` learnt
    #[arg(value_name = "INVARIANTS", required_unless_present = "log")]
    pub(crate) invariants: Option<PathBuf>,
    /// Guard everything that is known
    #[arg(long)]
    pub(crate) all: bool,
    /// Leave out groups of sites that make up more than this share of all accesses
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_BIAS, conflicts_with = "all")]
    pub(crate) bias: f64,
    /// Guard only what the program asks for with selvedge.h, and what touches the same memory
    #[arg(long, conflicts_with = "all")]
    pub(crate) asked: bool,
    /// Most time that a thread waits: 10ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub(crate) stall: Duration,
    /// Note violations, and let nobody wait
    #[arg(long)]
    pub(crate) watch: bool,
    /// Only these sites: a function, a file or a key, with * for any text; may be given again
    #[arg(long, value_name = "SITES")]
    pub(crate) only: Vec<String>,
    /// Without these sites; may be given again
    #[arg(long, value_name = "SITES")]
    pub(crate) except: Vec<String>,
    /// Run nothing: write a plan, with which any start of the program is guarded
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    pub(crate) plan: Option<PathBuf>,
    /// Explain the violations in this log, or in all logs of this directory
    #[arg(long, value_name = "LOG", conflicts_with = "invariants")]
    pub(crate) log: Option<PathBuf>,
    /// With --plan or --log: the program's file, where no command is given or it is elsewhere now
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// With --log: write the violations to this file
    #[arg(long, value_name = "FILE", requires = "log")]
    pub(crate) json: Option<PathBuf>,
    /// With --log: leave out violations that this file names as `invariant:PATTERN`; may be given again
    #[arg(long, value_name = "FILE", requires = "log")]
    pub(crate) suppressions: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

/// Share of all accesses past which a group is left out.
const DEFAULT_BIAS: f64 = 0.3;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge relax prog.invariants .selvedge/guard/0001\n  \
    selvedge relax prog.invariants --auto -n 20 -- ./prog\n\n\
    What was a violation belongs from then on. Take in only what you have looked at (`selvedge guard --log`), or let --auto \
    take it from runs that passed.")]
pub(crate) struct RelaxArgs {
    /// What `selvedge train` learnt
    #[arg(value_name = "INVARIANTS")]
    pub(crate) invariants: PathBuf,
    /// Logs, or directories of logs
    #[arg(value_name = "LOG", required_unless_present = "auto", conflicts_with = "auto")]
    pub(crate) logs: Vec<PathBuf>,
    /// Only violations at these sites: a function, a file or a key, with * for any text; may be given again
    #[arg(long, value_name = "SITES")]
    pub(crate) only: Vec<String>,
    /// Run the program, let nobody wait, and take in the violations of runs that pass
    #[arg(long, requires = "guest")]
    pub(crate) auto: bool,
    /// With --auto: how many runs to make
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// With --auto: a shell command that says whether a run passed (exit code 0)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// With --auto: end a run after this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Where the invariants go; they are written back where this is left out
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge patch .selvedge/clips/prog-1a2b3c4d.clip\n  \
    selvedge patch findings.json#1a2b3c4d\n  selvedge patch --site bank.c:17 --site bank.c:23 -- ./prog\n\n\
    The guard is learnt from passing runs under many schedules. Then the failure's own schedule is run with it, and fresh \
    ones. Exit code 0 only where all of them pass.")]
pub(crate) struct PatchArgs {
    /// The failure: its clip, or a file of findings, with #ID where it has several; the latest clip where it is left out
    #[arg(value_name = "CLIP", conflicts_with = "site")]
    pub(crate) finding: Option<PathBuf>,
    /// A place to be guarded instead, FILE:LINE, with what touches the same memory; may be given again
    #[arg(long, value_name = "FILE:LINE", requires = "guest")]
    pub(crate) site: Vec<String>,
    /// Where the invariants go; the plan goes beside them [default: NAME.patch]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Training runs
    #[arg(short = 'n', long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Fresh schedules to check it with
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) schedules: u64,
    /// With --site: a shell command that says whether a run passed (exit code 0)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// Most time that a thread waits: 10ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub(crate) stall: Duration,
    /// End a run after this time and call it a hang
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge expose prog.invariants -- ./prog\n\n\
    Where an access always came first, its thread is held before it until the others are done. A run that fails then shows an \
    order which nothing enforces; one that passes shows a pair that may belong.")]
pub(crate) struct ExposeArgs {
    /// What `selvedge train` learnt
    #[arg(value_name = "INVARIANTS")]
    pub(crate) invariants: PathBuf,
    /// Runs to take points from
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Most time: 10s, 5m; a bare number is seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) budget: Duration,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// End a run after this time and call it a hang
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Take in the orders that did no harm
    #[arg(long)]
    pub(crate) relax: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}
