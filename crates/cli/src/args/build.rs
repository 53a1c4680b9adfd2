//! Building, and the example.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

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
#[command(after_help = "Example: selvedge demo --keep demo")]
pub(crate) struct DemoArgs {
    /// Keep the program and its runs in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}
