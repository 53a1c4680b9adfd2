//! The command line.

mod build;
mod detect;
mod enforce;
mod explore;
mod findings;
mod graph;
mod guard;
mod heal;
mod hunt;
mod images;
mod output;
mod rank;
mod record;
mod report;
mod shared;
mod shell;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::build::{BuildArgs, DemoArgs};
pub(crate) use self::detect::{DetectArgs, RefineArgs};
pub(crate) use self::enforce::{EnforceArgs, ProfileArgs};
pub(crate) use self::explore::{ExploreArgs, MinimizeArgs, ReplayArgs};
pub(crate) use self::graph::GraphArgs;
pub(crate) use self::guard::{ExposeArgs, GuardArgs, PatchArgs, RelaxArgs, TrainArgs};
pub(crate) use self::heal::HealArgs;
pub(crate) use self::hunt::{HuntArgs, PredictArgs, TryArgs};
pub(crate) use self::images::{IndexArgs, SectionsArgs, SitesArgs};
pub(crate) use self::output::OutputArgs;
pub(crate) use self::rank::RankArgs;
pub(crate) use self::record::{RecordArgs, RunsArgs, TraceArgs};
pub(crate) use self::report::{ReportArgs, ViewArgs};
pub(crate) use self::shell::{CompletionsArgs, ManArgs, ReferenceArgs};

/// Finds, proves, explains and tolerates concurrency bugs in native programs.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version, arg_required_else_help = true, after_help = EXITS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Use this profile of .config/selvedge.toml
    #[arg(id = "use-profile", long = "profile", value_name = "NAME", global = true, help_heading = "Everywhere")]
    pub(crate) profile: Option<String>,
    /// Use this file instead of the nearest .config/selvedge.toml
    #[arg(id = "use-config", long = "config", value_name = "FILE", global = true, help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Whether text is coloured; NO_COLOR, CLICOLOR_FORCE and CARGO_TERM_COLOR say so too
    #[arg(long, value_name = "WHEN", global = true, help_heading = "Everywhere", value_parser = ["auto", "always", "never"])]
    pub(crate) color: Option<String>,
    /// 1 says which settings are in force, and where they are from
    #[arg(long, value_name = "N", default_value_t = 0, global = true, help_heading = "Everywhere")]
    pub(crate) verbosity: u8,
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
    /// Builds, tests and hunts Cargo packages: the same as `cargo selvedge`, which has the help
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  selvedge cargo test\n  selvedge cargo hunt --test NAME"
    )]
    Cargo {
        /// What comes after `cargo selvedge`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
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
    /// Drop atomic sections that correct runs show not to be meant
    Refine(RefineArgs),
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
    /// Adds communication graphs that were kept, takes them away from each other, and exports them
    Graph(GraphArgs),
    /// Sees races in the act: runs a program with a little noise, and looks who meets whom
    Detect(DetectArgs),
    /// Writes known findings as a page, or in another form
    Report(ReportArgs),
    /// Serves pages of findings to a browser on this machine
    View(ViewArgs),
    /// Lists recorded runs
    Runs(RunsArgs),
    /// Prints a recorded run as an interleaving of its threads
    Trace(TraceArgs),
    /// Builds a small program that passes its tests, and hunts the bug in it
    Demo(DemoArgs),
    /// Prints completions for a shell
    Completions(CompletionsArgs),
    /// Prints manual pages, or writes all of them to a directory
    Man(ManArgs),
    /// Prints a page of docs/reference that is made from the command line's own table
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory as _;

    use super::shared::duration;
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
