//! `selvedge-rustc` and `selvedge-rustdoc`: what Cargo calls in the place of the compiler and of the documentation tool.
//!
//! Cargo calls a wrapper with the compiler and its arguments, and asks it for the version too. The answer gets one more line,
//! [`RustWrapper::key`]: Cargo takes it into the fingerprint of every crate, so that programs are built anew when the runtime
//! that is linked into them, or a flag of ours, is another one. `rustdoc` gets the same flags for tests in documentation,
//! which it compiles and links itself.
//!
//! A build script may call the wrapper too, to find out what the compiler can do. It is left alone with its answer: with
//! unstable options unlocked, it would take the compiler for a nightly one.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rust::{self, UNLOCK};
use super::wrapper::Exit;

/// What Cargo takes our program for, by the name it is called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RustTool {
    /// `RUSTC_WRAPPER`.
    Compiler,
    /// `RUSTDOC`.
    Documentation,
}

impl RustTool {
    /// By the name of the program; `None` if it is called by another one.
    pub fn from_program_name(argv0: &OsStr) -> Option<Self> {
        match Path::new(argv0).file_name()?.to_str()? {
            "selvedge-rustc" => Some(Self::Compiler),
            "selvedge-rustdoc" => Some(Self::Documentation),
            _ => None,
        }
    }
}

/// The variable that holds the wrapper that the user had chosen.
pub const INNER_WRAPPER: &str = "SELVEDGE_RUSTC_WRAPPER";
/// The variable that holds the documentation tool that the user had chosen.
pub const INNER_RUSTDOC: &str = "SELVEDGE_RUSTDOC";

/// Why the compiler was not run.
#[derive(Debug, thiserror::Error)]
pub enum RustError {
    /// Cargo names the compiler, and nobody did.
    #[error("selvedge-rustc is called by Cargo, with the compiler's command line; use `cargo selvedge build`")]
    NoCompiler,
    /// It could not be started.
    #[error("cannot start `{}`; check that it can be run", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RustError {
    /// The exit code for it, as shells have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoCompiler => 2,
            Self::Start { .. } => 126,
        }
    }
}

/// A Rust compiler in disguise.
#[derive(Debug, Clone)]
pub struct RustWrapper {
    /// The C wrapper, by a name under which it is one.
    pub linker: PathBuf,
    /// What programs depend on that Cargo does not know of.
    pub key: String,
}

impl RustWrapper {
    /// Runs the tool for these arguments (without the program's name). Comes back only when there is more to say.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, tool: RustTool, args: &[OsString]) -> Result<Exit, RustError> {
        match tool {
            RustTool::Compiler => self.compiler(args),
            RustTool::Documentation => self.documentation(args),
        }
    }

    fn compiler(&self, words: &[OsString]) -> Result<Exit, RustError> {
        let (first, args) = words.split_first().ok_or(RustError::NoCompiler)?;
        let mut command = match set(INNER_WRAPPER) {
            Some(wrapper) => {
                let mut command = Command::new(wrapper);
                command.arg(first);
                command
            }
            None => Command::new(first),
        };
        command.args(args);
        if args.last().is_some_and(|word| word == "-vV") {
            return self.version(command);
        }
        // Set for crates that Cargo compiles, not for what a build script tries.
        if set("CARGO_CRATE_NAME").is_some() {
            self.instrument(&mut command, args);
        }
        Err(replace(command))
    }

    fn documentation(&self, args: &[OsString]) -> Result<Exit, RustError> {
        let mut command = Command::new(set(INNER_RUSTDOC).unwrap_or("rustdoc".into()));
        command.args(args);
        if args.iter().any(|word| word == "--test") {
            self.instrument(&mut command, args);
        }
        Err(replace(command))
    }

    fn instrument(&self, command: &mut Command, args: &[OsString]) {
        let Some(added) = rust::additions(args, &self.linker) else { return };
        command.args(added).env(UNLOCK.0, UNLOCK.1);
        if let Some(linker) = rust::chosen_linker(args)
            && set("SELVEDGE_CC").is_none()
        {
            command.env("SELVEDGE_CC", linker);
        }
    }

    fn version(&self, mut command: Command) -> Result<Exit, RustError> {
        let output = command.output().map_err(|source| start_error(&command, source))?;
        let mut text = output.stdout;
        if output.status.success() {
            text.extend_from_slice(format!("selvedge: {}\n", self.key).as_bytes());
        }
        // Whoever asked and does not listen needs no answer.
        drop(io::stdout().write_all(&text));
        drop(io::stderr().write_all(&output.stderr));
        Ok(output.status.into())
    }
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Becomes the command; comes back only with the reason why not.
fn replace(mut command: Command) -> RustError {
    let source = command.exec();
    start_error(&command, source)
}

fn start_error(command: &Command, source: io::Error) -> RustError {
    RustError::Start { program: command.get_program().into(), source }
}
