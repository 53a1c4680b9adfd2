//! The command `selvedge`: reads the command line, calls the libraries, and says what went wrong.
//!
//! Under the name of a compiler (`selvedge-cc`, `selvedge-c++`, or a shim that `selvedge build` made) it is
//! that compiler, and the whole command line is the compiler's; so it is with the names that `cargo selvedge` has Cargo call.

#![forbid(unsafe_code)]

mod args;
mod colour;
mod command;
mod messages;
mod outlet;
mod runtime;
mod settings;
mod sieve;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use selvedge_drive::build::{Driver, RustTool};
use selvedge_drive::cargo::RUNNER;

use crate::args::Command;
use crate::messages::Failure;

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let code = match run(&argv) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    };
    ExitCode::from(code)
}

fn run(argv: &[OsString]) -> Result<u8, Failure> {
    let name = argv.first().and_then(|name| Driver::from_program_name(name));
    if let (Some(driver), Some(rest)) = (name, argv.get(1..)) {
        return command::cc::run(driver, rest);
    }
    if let (Some(name), Some(rest)) = (argv.first(), argv.get(1..)) {
        if let Some(tool) = RustTool::from_program_name(name) {
            return command::rustc::run(tool, name, rest);
        }
        if Path::new(name).file_name().is_some_and(|name| name == RUNNER) {
            return command::rustc::runner(rest);
        }
    }
    // Everything after `cc` is the compiler's, also what looks like ours.
    if let (Some(word), Some(rest)) = (argv.get(1), argv.get(2..)) {
        match word.to_str() {
            Some("cc") => return command::cc::run(Driver::C, rest),
            Some("c++") => return command::cc::run(Driver::Cxx, rest),
            Some("cargo") => return command::cargo::run(rest),
            _ => {}
        }
    }
    colour::choose(None);
    let cli = settings::parse(argv)?;
    colour::choose(cli.color.as_deref());
    match cli.command {
        Command::Cc { args } => command::cc::run(Driver::C, &args),
        Command::Cxx { args } => command::cc::run(Driver::Cxx, &args),
        Command::Cargo { args } => command::cargo::run(&args),
        Command::Build(args) => command::build::run(&args),
        Command::Sections(args) => command::sections::run(&args),
        Command::Sites(args) => command::sites::run(&args),
        Command::Index(args) => command::index::run(&args),
        Command::Record(args) => command::record::run(args),
        Command::Explore(args) => command::explore::run(args),
        Command::Replay(args) => command::replay::run(&args),
        Command::Minimize(args) => command::minimize::run(&args),
        Command::Hunt(args) => command::hunt::run(args),
        Command::Detect(args) => command::detect::run(args),
        Command::Predict(args) => command::predict::run(&args),
        Command::Train(args) => command::train::run(&args),
        Command::Guard(args) => command::guard::run(&args),
        Command::Refine(args) => command::refine::run(&args),
        Command::Heal(args) => command::heal::run(&args),
        Command::Profile(args) => command::profile::run(&args),
        Command::Enforce(args) => command::enforce::run(&args),
        Command::Relax(args) => command::relax::run(&args),
        Command::Patch(args) => command::patch::run(&args),
        Command::Expose(args) => command::expose::run(&args),
        Command::Rank(args) => command::rank::run(&args),
        Command::Graph(args) => command::graph::run(&args),
        Command::Report(args) => command::report::run(args),
        Command::View(args) => command::view::run(&args),
        Command::Runs(args) => command::runs::run(&args),
        Command::Trace(args) => command::trace::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Completions(args) => command::completions::run(&args),
        Command::Man(args) => command::man::run(&args),
        Command::Reference(args) => command::reference::run(&args),
    }
}
