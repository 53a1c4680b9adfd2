//! Running other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// The cargo that runs us.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Runs a command and fails where it fails.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("cannot start {}: {error}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed ({status})", name(command)).into()) }
}

/// Runs a command for what it prints; its messages go to ours.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", name(command)))?;
    if !output.status.success() {
        return Err(format!("{} failed ({})", name(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether a program can be started.
pub(crate) fn exists(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The command as one would type it, without its environment.
fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    format!("`{}`", words.join(" "))
}
