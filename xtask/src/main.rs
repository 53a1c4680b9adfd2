//! `cargo xtask COMMAND`: the jobs of this repository that cargo has no word for.
//!
//! Each command is a module; [`ci`] strings them together as CI does.

mod ci;
mod command;
mod deps;
mod doc_comments;
mod fuzz;
mod reference;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a command ends with.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  deps-check                  check that our crates depend on each other only as the design says
  gen [--check]               write docs/reference from the tables in the code; --check: only compare
  fuzz [--seconds N]          run every fuzz target for N seconds (20)
  fuzz --replay TARGET FILE   run a fuzz target on one input
  ci                          run what CI runs";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["deps-check"] => deps::check(&root()),
        ["gen"] => reference::write(&root()),
        ["gen", "--check"] => reference::check(&root()),
        ["fuzz"] => fuzz::run(&root(), fuzz::DEFAULT_SECONDS),
        ["fuzz", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) if seconds > 0 => fuzz::run(&root(), seconds),
            _ => Err(format!("--seconds takes a whole number above zero, not `{seconds}`").into()),
        },
        ["fuzz", "--replay", target, file] => fuzz::replay(&root(), target, Path::new(file)),
        ["ci"] => ci::run(&root()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
