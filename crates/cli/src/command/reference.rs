//! `selvedge reference`: pages of docs/reference that are made from the command line's own table.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use selvedge_findings::ExitCode;

use crate::args::{Cli, ReferenceArgs};
use crate::messages::Failure;
use crate::settings::options;

/// Prints a page.
pub(crate) fn run(args: &ReferenceArgs) -> Result<u8, Failure> {
    let page = if args.page == "options" { options::page() } else { commands() };
    std::io::stdout().lock().write_all(page.as_bytes())?;
    Ok(ExitCode::Success.code())
}

/// Every command with its flags.
fn commands() -> String {
    let mut all = Cli::command().disable_help_subcommand(true).term_width(100);
    all.build();
    let mut text = "# Commands\n\n\
        *Written by `cargo xtask gen` from `crates/cli/src/args`: change the code, then run it again.*\n\n\
        | command | what it does |\n| --- | --- |\n"
        .to_owned();
    let shown: Vec<&Command> = all.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    for command in &shown {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let anchor = command.get_name().replace('+', "");
        let _ = writeln!(text, "| [`{}`](#selvedge-{anchor}) | {} |", command.get_name(), cell(&about));
    }
    let _ = write!(text, "\n## Everywhere\n\n{}", flags(all.get_arguments().filter(|arg| arg.is_global_set())));
    for command in shown {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = write!(text, "\n## selvedge {}\n\n{about}.\n\n```text\n{usage}\n```\n\n", command.get_name());
        let own: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_global_set()).collect();
        if own.iter().any(|arg| is_shown(arg)) {
            let _ = writeln!(text, "{}", flags(own.into_iter()));
        }
        if let Some(after) = command.get_after_help() {
            let _ = writeln!(text, "```text\n{after}\n```");
        }
    }
    text
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_long(), Some("help" | "version"))
}

fn flags<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut text = "| argument | default | what it is |\n| --- | --- | --- |\n".to_owned();
    for arg in args.filter(|arg| is_shown(arg)) {
        let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        let value = arg.get_value_names().map(|names| names.join(" ")).filter(|_| takes).unwrap_or_default();
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
            (None, Some(long)) => format!("--{long} {value}"),
            (Some(short), None) => format!("-{short} {value}"),
            (None, None) => value,
        };
        let default: Vec<String> = arg
            .get_default_values()
            .iter()
            .filter(|_| takes)
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        let default = if default.is_empty() { "-".to_owned() } else { format!("`{}`", default.join(" ")) };
        let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let possible: Vec<String> =
            arg.get_possible_values().iter().filter(|_| takes).map(|value| value.get_name().to_owned()).collect();
        if !possible.is_empty() && possible != ["true", "false"] {
            let _ = write!(help, " ({})", possible.join(", "));
        }
        let _ = writeln!(text, "| `{}` | {} | {} |", cell(name.trim()), cell(&default), cell(&help));
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_flag_is_on_the_page() {
        let page = commands();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let section = format!("\n## selvedge {}\n", command.get_name());
            let (_, rest) = page.split_once(&section).unwrap_or_else(|| panic!("{section}"));
            let section = rest.split("\n## ").next().unwrap_or_default();
            for flag in command.get_arguments().filter(|arg| is_shown(arg)).filter_map(|arg| arg.get_long()) {
                assert!(section.contains(&format!("--{flag}")), "{} --{flag}", command.get_name());
            }
        }
    }
}
