//! What becomes of findings, for every command that has some: which are left out, where the text goes, how the command ends.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;

/// What becomes of findings.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Findings")]
pub(crate) struct FindingsArgs {
    /// Leave out findings that this file names, in the form of ThreadSanitizer or Valgrind; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) suppressions: Vec<PathBuf>,
    /// Add an entry for each finding that is shown to this file of suppressions
    #[arg(long, value_name = "FILE")]
    pub(crate) gen_suppressions: Option<PathBuf>,
    /// Write the text of findings to PATH.PID instead of standard output; `stdout` and `stderr` are these
    #[arg(long, value_name = "PATH")]
    pub(crate) log_path: Option<PathBuf>,
    /// Take this, and what comes before it, off the names of source files
    #[arg(long, value_name = "PREFIX")]
    pub(crate) strip_path_prefix: Option<String>,
    /// Stop at the first finding
    #[arg(long, default_value = "no", default_missing_value = "yes", num_args = 0..=1, require_equals = true, value_name = "yes|no", value_parser = BoolishValueParser::new())]
    pub(crate) halt_on_error: bool,
    /// Where there are findings, end with SIGABRT instead of an exit code
    #[arg(long, default_value = "no", default_missing_value = "yes", num_args = 0..=1, require_equals = true, value_name = "yes|no", value_parser = BoolishValueParser::new())]
    pub(crate) abort_on_error: bool,
    /// The exit code where there are findings
    #[arg(long, value_name = "N", default_value_t = 66)]
    pub(crate) exit_code: u8,
    /// What the exit code tells of: findings, or only how the program's runs ended
    #[arg(long, value_name = "WHAT", default_value = "findings", value_parser = ["findings", "guest"])]
    pub(crate) exit_from: String,
}
