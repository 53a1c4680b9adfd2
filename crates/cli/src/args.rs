//! The command line.

mod detect;
mod output;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use selvedge_drive::control::World;
use selvedge_drive::intervene::Asked;
use selvedge_drive::store::DEFAULT_DIR;
use selvedge_events::ThreadIx;
use selvedge_events::plan::Intervene;

pub(crate) use self::detect::DetectArgs;
pub(crate) use self::output::OutputArgs;
use crate::messages::Failure;

/// Finds, proves, explains and tolerates concurrency bugs in native programs.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version, arg_required_else_help = true, after_help = EXITS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The exit codes that a user meets; `findings::EXIT_CODES` has them all.
const EXITS: &str = "\
Start here:
  selvedge demo                           see it work on a small program
  selvedge cc -O1 -g prog.c -o prog       build with it
  selvedge hunt -- ./prog                 find what its passing runs hide
  selvedge record -- ./prog               record a run; `selvedge trace` looks at it

Exit codes: the program's own (128 + signal) where one program ran once; else 0 nothing to report, \
1 some runs failed, 2 wrong usage, 66 findings, 70 internal error, 101 build failed, 124 hang or time-out.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The C compiler, with instrumentation
    #[command(
        disable_help_flag = true,
        after_help = "Example: selvedge cc -O1 -g prog.c -o prog -pthread\n\
                      All arguments are the compiler's. The compiler is $SELVEDGE_CC, else cc. \
                      Under the name selvedge-cc it can be put in the place of CC."
    )]
    Cc {
        /// The compiler's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// The C++ compiler, with instrumentation
    #[command(
        name = "c++",
        disable_help_flag = true,
        after_help = "Example: selvedge c++ -O1 -g prog.cc -o prog -pthread\n\
                      All arguments are the compiler's. The compiler is $SELVEDGE_CXX, else c++."
    )]
    Cxx {
        /// The compiler's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Runs a whole build with instrumentation
    Build(BuildArgs),
    /// Lists the instrumented places of a program or library
    Sites(SitesArgs),
    /// Lists the stretches of code that look as if they were meant to be atomic
    Sections(SectionsArgs),
    /// Writes the table of instrumented places into a program or library anew
    Index(IndexArgs),
    /// Records runs of a program
    Record(RecordArgs),
    /// Runs a program under many schedules and keeps what fails
    Explore(ExploreArgs),
    /// Runs a clip again: the same schedule, the same failure
    Replay(ReplayArgs),
    /// Makes a clip smaller and says which order decides
    Minimize(MinimizeArgs),
    /// Finds bugs in a program: records it, predicts what did not happen, and makes it happen
    Hunt(HuntArgs),
    /// Predicts from recorded runs what could have happened, and makes it happen
    Predict(PredictArgs),
    /// Learns from runs that pass which access may follow which
    Train(TrainArgs),
    /// Runs a program so that no access follows one that it never followed in runs that passed
    Guard(GuardArgs),
    /// Runs a program so that threads keep out of each other's atomic sections
    Heal(HealArgs),
    /// Learns from runs that pass which pairs of accesses no other thread comes between
    Profile(ProfileArgs),
    /// Runs a program with locks around the pairs that were atomic in runs that passed
    Enforce(EnforceArgs),
    /// Takes violations of a guard into its invariants
    Relax(RelaxArgs),
    /// Makes a guard for exactly one bug, and checks that it holds
    Patch(PatchArgs),
    /// Holds threads at accesses that were never first, and looks what comes of it
    Expose(ExposeArgs),
    /// Ranks code points by how likely they are the bug, from many runs
    Rank(Box<RankArgs>),
    /// Sees races in the act: runs a program with a little noise, and looks who meets whom
    Detect(DetectArgs),
    /// Lists recorded runs
    Runs(RunsArgs),
    /// Prints a recorded run as an interleaving of its threads
    Trace(TraceArgs),
    /// Builds a small program that passes its tests, and hunts the bug in it
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge build -- make -j4\n  selvedge build -- cmake --build b\n\n\
    CC and CXX are set, and compilers called by name are found in front of PATH, so nothing in the build \
    needs to change.")]
pub(crate) struct BuildArgs {
    /// Keep this compile_commands.json up to date
    #[arg(long, value_name = "FILE")]
    pub(crate) compile_commands: Option<PathBuf>,
    /// The build command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge sites ./prog --function withdraw")]
pub(crate) struct SitesArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
    /// Only sites in functions whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only sites whose hook's name contains this, such as write4 or atomic
    #[arg(long, value_name = "NAME")]
    pub(crate) hook: Option<String>,
    /// JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge sections ./prog --variable balance\n\n\
    Found in the code alone, without a run: a load and the store that follows it, a test and the use behind it, and \
    accesses that follow each other. For each end it is told what other threads may do meanwhile.")]
pub(crate) struct SectionsArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
    /// Only sections of variables whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) variable: Option<String>,
    /// Only sections that begin in functions whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only sections of this pattern: load-and-store, test-and-use or consecutive
    #[arg(long, value_name = "PATTERN", value_parser = ["load-and-store", "test-and-use", "consecutive"])]
    pub(crate) pattern: Option<String>,
    /// Write them to this file as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write all sections to this file by the names of their sites, for `selvedge heal`; what is not meant can be cut out
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge heal findings.json -- ./prog\n  \
    selvedge heal prog.sections --plan prog.plan -- ./prog      for SELVEDGE_PLAN=prog.plan ./prog\n  \
    selvedge explore --heal findings.json -- ./prog\n\n\
    While a thread is inside an atomic section, others are kept out of sections of the same variable. Locks are used only \
    where the code shows that nothing inside can wait; elsewhere threads step aside for a moment. The exit code is the \
    program's own.")]
pub(crate) struct HealArgs {
    /// Findings that a command wrote with --json, or sections that `selvedge sections -o` wrote
    #[arg(value_name = "FILE")]
    pub(crate) source: PathBuf,
    /// How others are kept out
    #[arg(long, default_value = "lock", value_parser = ["lock", "yield", "sleep", "priority"])]
    pub(crate) kind: String,
    /// How, where no lock may be used
    #[arg(long, default_value = "sleep", value_parser = ["yield", "sleep", "priority"])]
    pub(crate) otherwise: String,
    /// Most time that a thread waits for a lock: 10ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub(crate) wait: Duration,
    /// Run nothing: write a plan, with which any start of the program is healed
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge index ./prog\n\n\
    The compiler wrapper does this after linking; it is needed again after a tool has changed the file.")]
pub(crate) struct IndexArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
}

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
#[command(after_help = "Examples:\n  selvedge hunt -- ./prog\n  \
    selvedge hunt --runs 30 --budget 5m --json findings.json -- ./prog input\n\n\
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
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
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
    /// The failure: its clip, or a file of findings, with #ID where it has several
    #[arg(value_name = "CLIP", required_unless_present = "site", conflicts_with = "site")]
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge profile -n 40 -- ./prog input.txt\n  \
    selvedge profile --out prog.profile 3 4 5          from recorded runs\n\n\
    Runs are under control, by another strategy each time. Runs that fail are counted and left out. What is learnt is a text \
    file; write `none` for the atomicity of a pair that is to be left alone.")]
pub(crate) struct ProfileArgs {
    /// Recorded runs to learn from, by number or directory, instead of a program to run
    #[arg(value_name = "RUN", conflicts_with_all = ["guest", "runs"], required_unless_present = "guest")]
    pub(crate) recorded: Vec<String>,
    /// How many runs to make [default: 40]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// A shell command that says whether a run passed (exit code 0); it finds the run in $SELVEDGE_RUN_DIR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) oracle: Option<String>,
    /// End a run after this time; what hangs teaches nothing
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// Where the profile goes [default: NAME.profile]
    #[arg(short, long = "out", visible_alias = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Add to what the file has already
    #[arg(long)]
    pub(crate) merge: bool,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub(crate) store: PathBuf,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) guest: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge enforce prog.profile -- ./prog input.txt\n  \
    selvedge enforce prog.profile --plan prog.plan -- ./prog      for SELVEDGE_PLAN=prog.plan ./prog\n  \
    selvedge enforce prog.profile --explain --graph order -- ./prog\n  \
    selvedge enforce prog.profile --verify .selvedge/clips/prog-1a2b3c4d.clip\n\n\
    No other thread comes between the accesses of a pair. The exit code is the program's own; with --verify, 66 where a clip \
    still fails.")]
pub(crate) struct EnforceArgs {
    /// What `selvedge profile` learnt
    #[arg(value_name = "PROFILE")]
    pub(crate) profile: PathBuf,
    /// Run nothing: write a plan, with which any start of the program is enforced
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Run nothing: say which pairs are enforced, and where locks are taken, weakened and given back
    #[arg(long)]
    pub(crate) explain: bool,
    /// With --explain: write the order of locks to NAME-before.dot and NAME-after.dot, for Graphviz
    #[arg(long, value_name = "NAME", requires = "explain")]
    pub(crate) graph: Option<String>,
    /// Replay these clips, which fail, with the locks; may be given again
    #[arg(long, value_name = "CLIP", num_args = 1.., conflicts_with_all = ["guest", "plan"])]
    pub(crate) verify: Vec<PathBuf>,
    /// With --verify: end a run after this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "verify")]
    pub(crate) guest: Vec<OsString>,
}

/// What the world looks like to a controlled program.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Whether clocks show virtual time, which passes with the program's steps
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, require_equals = true, value_parser = ["on", "off"])]
    pub(crate) virtual_time: String,
    /// Whether getrandom and its relatives give what the seed says
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, require_equals = true, value_parser = ["on", "off"])]
    pub(crate) virtual_random: String,
    /// Let one wait on a condition in N end for no reason; 0 for none
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) spurious: u32,
    /// Let time-outs fire while other threads could still run
    #[arg(long)]
    pub(crate) eager_timeouts: bool,
    #[command(flatten)]
    pub(crate) interventions: InterveneArgs,
}

impl ControlArgs {
    /// The world that was asked for.
    pub(crate) fn world(&self, seed: u64) -> World {
        World {
            virtual_time: self.virtual_time == "on",
            random: (self.virtual_random == "on").then_some(seed),
            spurious: self.spurious,
            eager_timeouts: self.eager_timeouts,
            ..World::default()
        }
    }

    /// What is to be done about bugs.
    pub(crate) fn interventions(&self) -> Result<Asked, Failure> {
        self.interventions.collect()
    }
}

/// What is to be done about bugs while a program runs.
#[derive(Debug, Args)]
pub(crate) struct InterveneArgs {
    /// Run with the guard of these invariants, or of a plan that has one
    #[arg(long, value_name = "FILE")]
    pub(crate) guard: Option<PathBuf>,
    /// Run with these atomic sections healed
    #[arg(long, value_name = "FILE")]
    pub(crate) heal: Option<PathBuf>,
    /// Run with these locks enforced
    #[arg(long, value_name = "FILE")]
    pub(crate) enforce: Option<PathBuf>,
}

impl InterveneArgs {
    /// Whether anything is to be done.
    pub(crate) fn is_any(&self) -> bool {
        self.guard.is_some() || self.heal.is_some() || self.enforce.is_some()
    }

    /// All of them, or why not.
    pub(crate) fn collect(&self) -> Result<Asked, Failure> {
        let mut all = Asked::default();
        for (kind, file) in
            [(Intervene::Guard, &self.guard), (Intervene::Heal, &self.heal), (Intervene::Enforce, &self.enforce)]
        {
            all.add(kind, file.as_deref()).map_err(|error| Failure::usage(&error))?;
        }
        Ok(all)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge replay .selvedge/clips/prog-1a2b3c4d.clip\n  \
    selvedge replay --gdb --until T1@12 prog.clip\n  selvedge replay -n 50 prog.clip\n\n\
    Exit code 66 where the run fails as it did when the clip was made, 1 where it does not.")]
pub(crate) struct ReplayArgs {
    /// The clip
    pub(crate) clip: PathBuf,
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
    /// The clip
    pub(crate) clip: PathBuf,
    /// Where the smaller clip goes
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Most runs
    #[arg(long, default_value_t = selvedge_drive::minimize::DEFAULT_BUDGET, value_name = "N")]
    pub(crate) budget: u32,
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

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge demo --keep demo")]
pub(crate) struct DemoArgs {
    /// Keep the program and its runs in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub(crate) out: PathBuf,
}

/// `T1@12`.
fn event(text: &str) -> Result<(ThreadIx, u32), String> {
    let wrong = || "use a thread and its point, as in T1@12".to_owned();
    let (thread, point) = text.strip_prefix('T').unwrap_or(text).split_once('@').ok_or_else(wrong)?;
    Ok((ThreadIx(thread.parse().map_err(|_| wrong())?), point.parse().map_err(|_| wrong())?))
}

/// `10`, `10s`, `500ms`, `2m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "us" => 0.000_001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("use a number and ms, s, m or h, as in 10s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "use a number and ms, s, m or h, as in 10s".to_owned())?;
    let time = Duration::try_from_secs_f64(number * factor).map_err(|_| "too long".to_owned())?;
    if time.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let parsed = |words: &[&str]| match Cli::try_parse_from(words).expect("parses").command {
            Command::Record(args) => (args.runs as usize, args.guest),
            Command::Explore(args) => (args.jobs, args.guest),
            other => panic!("{other:?}"),
        };
        let guest = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(parsed(&["selvedge", "record", "-n5", "./p", "-n", "7"]), (5, guest(&["./p", "-n", "7"])));
        assert_eq!(parsed(&["selvedge", "record", "--", "./p", "--", "x"]), (1, guest(&["./p", "--", "x"])));
        assert_eq!(parsed(&["selvedge", "explore", "-j3", "--", "./p", "-j9"]), (3, guest(&["./p", "-j9"])));
        assert_eq!(parsed(&["selvedge", "explore", "-j", "2", "p", "--seed"]), (2, guest(&["p", "--seed"])));
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("selvedge {}", command.get_name())), "{}", command.get_name());
        }
    }

    #[test]
    fn durations() {
        let cases = [("10", 10_000), ("1.5s", 1500), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "x", "10 s", "0", "-1", "1d", "1e400"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
