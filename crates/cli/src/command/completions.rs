//! `selvedge completions`.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use selvedge_findings::ExitCode;

use crate::args::{Cli, CompletionsArgs};
use crate::messages::Failure;

/// Prints the completions of a shell.
pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    std::io::stdout().lock().write_all(&script(args.shell))?;
    Ok(ExitCode::Success.code())
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "selvedge", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).expect("text");
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(script.contains("suppressions"), "{shell}");
        }
    }
}
