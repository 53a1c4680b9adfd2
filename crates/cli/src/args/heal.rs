//! `selvedge heal`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shared::{StoreArgs, duration};

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
