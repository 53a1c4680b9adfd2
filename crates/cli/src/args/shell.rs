//! What is made from the command line's own table.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    selvedge completions bash > ~/.local/share/bash-completion/completions/selvedge\n  \
    selvedge completions zsh > ~/.zfunc/_selvedge\n  \
    selvedge completions fish > ~/.config/fish/completions/selvedge.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge man hunt | man -l -\n  selvedge man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
    /// The command; without it, the page of selvedge itself
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge reference commands")]
pub(crate) struct ReferenceArgs {
    /// The page
    #[arg(value_name = "PAGE", value_parser = ["commands", "options"])]
    pub(crate) page: String,
}
