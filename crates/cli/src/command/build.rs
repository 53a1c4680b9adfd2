//! `selvedge build`.

use selvedge_drive::build::{Build, Environment};

use crate::args::BuildArgs;
use crate::messages::Failure;
use crate::runtime;

/// Runs a build command with our compilers in front.
pub(crate) fn run(args: &BuildArgs) -> Result<u8, Failure> {
    // Before a thousand compilers try at once.
    runtime::unpack().map_err(|error| Failure::internal(&error))?;
    let executable = std::env::current_exe()?;
    let build = Build {
        command: &args.command,
        executable: &executable,
        shim_dir: &runtime::cache_dir().join("shims"),
        compile_commands: args.compile_commands.as_deref(),
    };
    match build.run(&Environment::from_process()) {
        Ok(exit) => Ok(exit.code()),
        Err(error) => Err(Failure::new(error.exit_code(), &error)),
    }
}
