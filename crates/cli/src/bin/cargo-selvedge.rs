//! `cargo selvedge`: hands its words to `selvedge cargo`, which is the program beside it or on `PATH`.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Cargo names the subcommand again.
    if words.first().is_some_and(|word| word == "selvedge") {
        words.remove(0);
    }
    let beside = std::env::current_exe().ok().and_then(|own| own.canonicalize().ok());
    let beside = beside.map(|own| own.with_file_name("selvedge")).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("selvedge"));
    let error = Command::new(&program).arg("cargo").args(words).exec();
    anstream::eprintln!(
        "selvedge: \x1b[1;31merror:\x1b[0m cannot start `{}`: {error}; put `selvedge` beside `cargo-selvedge` or on PATH",
        program.display()
    );
    ExitCode::from(127)
}
