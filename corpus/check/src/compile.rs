//! Building one variant of one program, natively or with any other compiler command.
//!
//! The flags are the same for every program (`-O1 -g -pthread -Wall`, C11 or C++17; optimisation level 1 for
//! Rust), because the guilty lines are only promised to be real memory accesses at that level. What differs is
//! the command: tests that need instrumented programs put their own in place of `cc`, `c++` and `rustc`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use thiserror::Error;

use crate::manifest::{Language, Program};

/// Which source of a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A kernel with its bug.
    Buggy,
    /// A kernel's fixed twin.
    Fixed,
    /// A correct program.
    Correct,
}

impl Variant {
    /// Stem of the source file.
    pub fn stem(self) -> &'static str {
        match self {
            Self::Buggy => "buggy",
            Self::Fixed => "fixed",
            Self::Correct => "correct",
        }
    }
}

/// A compiler command: a program, and arguments that come before all others.
#[derive(Debug, Clone)]
pub struct Command {
    /// Looked up like a shell would.
    pub program: OsString,
    /// For example `["cc"]` after a driver with subcommands, or `["-Werror"]`.
    pub args: Vec<OsString>,
}

impl Command {
    /// A command with arguments of its own.
    pub fn new<I: IntoIterator<Item = S>, S: Into<OsString>>(program: impl Into<OsString>, args: I) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }
}

/// The compilers for all languages, and where executables go.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// For C.
    pub cc: Command,
    /// For C++.
    pub cxx: Command,
    /// For Rust.
    pub rustc: Command,
    /// Existing folder for executables, named `PROGRAM.VARIANT`.
    pub out_dir: PathBuf,
}

impl Compiler {
    /// The system's own compilers.
    pub fn native(out_dir: impl Into<PathBuf>) -> Self {
        let plain = |program: &str| Command::new(program, [""; 0]);
        Self { cc: plain("cc"), cxx: plain("c++"), rustc: plain("rustc"), out_dir: out_dir.into() }
    }

    fn command(&self, language: Language) -> (&Command, &'static [&'static str]) {
        match language {
            Language::C => (&self.cc, &["-std=gnu11", "-O1", "-g", "-pthread", "-Wall"]),
            Language::Cxx => (&self.cxx, &["-std=c++17", "-O1", "-g", "-pthread", "-Wall"]),
            Language::Rust => (&self.rustc, &["-Copt-level=1", "-g"]),
        }
    }
}

/// Why a program was not built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The compiler could not be started.
    #[error("{}: cannot be started: {source}", .compiler.display())]
    Start {
        /// The command.
        compiler: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The compiler refused the program.
    #[error("{}: not compiled by {}:\n{stderr}", .file.display(), .compiler.display())]
    Refused {
        /// The source.
        file: PathBuf,
        /// The command.
        compiler: OsString,
        /// What it said.
        stderr: String,
    },
}

/// Builds one variant and returns the path of the executable.
pub fn build(program: &Program<'_>, variant: Variant, compiler: &Compiler) -> Result<PathBuf, BuildError> {
    let (command, flags) = compiler.command(program.language);
    let file = program.dir.join(variant.stem()).with_extension(program.language.extension());
    let executable = compiler.out_dir.join(format!("{}.{}", program.name, variant.stem()));
    let output = process::Command::new(&command.program)
        .args(&command.args)
        .args(flags)
        .args([file.as_os_str(), OsStr::new("-o"), executable.as_os_str()])
        .args(program.extra_flags)
        .output()
        .map_err(|source| BuildError::Start { compiler: command.program.clone(), source })?;
    if output.status.success() { Ok(executable) } else { Err(refused(&file, command, &output.stderr)) }
}

fn refused(file: &Path, command: &Command, stderr: &[u8]) -> BuildError {
    BuildError::Refused {
        file: file.to_owned(),
        compiler: command.program.clone(),
        stderr: String::from_utf8_lossy(stderr).into_owned(),
    }
}
