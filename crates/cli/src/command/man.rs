//! `selvedge man`.

use std::io::Write as _;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use selvedge_findings::ExitCode;

use crate::args::{Cli, ManArgs};
use crate::messages::{Failure, note};

/// Prints a page, or writes all of them.
pub(crate) fn run(args: &ManArgs) -> Result<u8, Failure> {
    let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
    let pages = pages();
    if let Some(dir) = &args.out {
        let cannot = |error: std::io::Error| usage(format!("cannot write to `{}`: {error}", dir.display()));
        std::fs::create_dir_all(dir).map_err(cannot)?;
        for (name, page) in &pages {
            std::fs::write(dir.join(format!("{name}.1")), page).map_err(cannot)?;
        }
        note(&format!("{} pages written to {}", pages.len(), dir.display()));
        return Ok(ExitCode::Success.code());
    }
    let name = args.command.as_ref().map_or_else(|| "selvedge".to_owned(), |command| format!("selvedge-{command}"));
    let (_, page) = pages
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| usage(format!("there is no page {name}: `selvedge --help` lists the commands")))?;
    std::io::stdout().lock().write_all(page)?;
    Ok(ExitCode::Success.code())
}

/// Every page, by its name.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let subs = all.get_subcommands().filter(|command| !command.is_hide_set());
    let subs: Vec<Command> = subs
        .map(|sub| sub.clone().name(format!("selvedge-{}", sub.get_name())).version(env!("CARGO_PKG_VERSION")))
        .collect();
    let page = |command: Command| {
        let name = command.get_name().to_owned();
        let mut page = Vec::new();
        // Writing to memory does not fail.
        let _ = Man::new(command).manual("Selvedge").render(&mut page);
        (name, page)
    };
    std::iter::once(all).chain(subs).map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags_and_examples() {
        let pages = pages();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("selvedge-{}", command.get_name());
            let (_, page) = pages.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
            let text = String::from_utf8_lossy(page).replace('\\', "");
            assert!(text.contains(".TH") && text.contains(".SH SYNOPSIS") && text.contains("Example"), "{name}");
            for flag in command.get_arguments().filter_map(|arg| arg.get_long()) {
                assert!(text.contains(&format!("--{flag}")), "{name} --{flag}");
            }
        }
        assert!(pages.iter().any(|(name, _)| name == "selvedge"));
    }
}
