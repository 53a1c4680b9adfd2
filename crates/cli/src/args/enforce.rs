//! `selvedge profile` and `selvedge enforce`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use selvedge_drive::store::DEFAULT_DIR;

use super::shared::{StoreArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge profile -n 40 -- ./prog input.txt\n  \
    selvedge profile --out prog.profile 3 4 5          from recorded runs\n  \
    selvedge profile --together head,tail -- ./prog    these two belong together\n\n\
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
    /// Two variables that belong together, whatever runs show; may be given again
    #[arg(long, value_name = "NAME,NAME", value_parser = two_names)]
    pub(crate) together: Vec<(String, String)>,
    /// Two variables that do not belong together; `*` for the second means: with none. May be given again
    #[arg(long, value_name = "NAME,NAME", value_parser = two_names)]
    pub(crate) apart: Vec<(String, String)>,
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
    selvedge enforce prog.profile --explain --svg order.svg -- ./prog\n  \
    selvedge enforce prog.profile --verify .selvedge/clips/prog-1a2b3c4d.clip\n  \
    selvedge enforce prog.profile --verify-bounded -- ./prog\n\n\
    No other thread comes between the accesses of a pair. The exit code is the program's own; with --verify, 66 where a clip \
    still fails, and with --verify-bounded where a schedule does.")]
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
    /// Enforce all pairs, also those that would slow the program down
    #[arg(long)]
    pub(crate) all: bool,
    /// With --explain: write the order of locks to NAME-before.dot and NAME-after.dot, for Graphviz
    #[arg(long, value_name = "NAME", requires = "explain")]
    pub(crate) graph: Option<String>,
    /// With --explain: draw the order of locks, before circles were broken and after
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub(crate) svg: Option<PathBuf>,
    /// Replay these clips, which fail, with the locks; may be given again
    #[arg(long, value_name = "CLIP", num_args = 1.., conflicts_with_all = ["guest", "plan"])]
    pub(crate) verify: Vec<PathBuf>,
    /// Try every schedule with up to N preemptions, without the locks and with them
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", conflicts_with_all = ["verify", "plan", "explain"])]
    pub(crate) verify_bounded: Option<u32>,
    /// With --verify-bounded: most schedules of each search
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "verify_bounded")]
    pub(crate) schedules: u64,
    /// With --verify-bounded: a shell command that says whether a run passed (exit code 0)
    #[arg(long, value_name = "COMMAND", requires = "verify_bounded")]
    pub(crate) oracle: Option<String>,
    /// With --verify and --verify-bounded: end a run after this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "verify")]
    pub(crate) guest: Vec<OsString>,
}

/// `NAME,NAME`; names of C++ may have commas inside brackets.
fn two_names(text: &str) -> Result<(String, String), String> {
    let mut depth = 0_i32;
    for (at, char) in text.char_indices() {
        match char {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                let (first, second) = (text[..at].trim(), text[at + 1..].trim());
                if first.is_empty() || second.is_empty() {
                    break;
                }
                return Ok((first.to_owned(), second.to_owned()));
            }
            _ => {}
        }
    }
    Err("expected two names with a comma between, as a profile has them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::two_names;

    #[test]
    fn names_may_have_commas_of_their_own() {
        let two = |text| two_names(text).ok();
        let names = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(two("head,tail"), names("head", "tail"));
        assert_eq!(two("map<int, int>::size, head"), names("map<int, int>::size", "head"));
        assert_eq!([two("head"), two("head,"), two(",tail")], [None, None, None]);
    }
}
