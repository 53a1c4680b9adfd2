//! How Cargo would start a program: noted by a runner that starts nothing.
//!
//! A program or test that Cargo starts has a working directory, library paths and variables (`CARGO_MANIFEST_DIR`, what build
//! scripts set) that are Cargo's to know. So Cargo is asked to run it with a runner of ours in front ([`RUNNER`]), and
//! the runner writes down what it sees.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The name under which our program is the runner.
pub const RUNNER: &str = "selvedge-runner";
/// Where the runner writes.
pub(super) const FILE: &str = "SELVEDGE_LAUNCHES";

/// Variables that are there because of us.
const OURS: &[&str] = &[
    "PATH",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
    super::session::STD_UNLOCK,
    FILE,
    crate::build::INNER_WRAPPER,
    crate::build::INNER_RUSTDOC,
];

/// How Cargo would start a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it starts.
    pub dir: PathBuf,
    /// What its environment has that ours has not.
    pub env: BTreeMap<String, String>,
}

impl Launch {
    /// A command that starts where the program would, with what it would find there.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.dir).envs(&self.env);
        command
    }
}

/// The runner: writes down how it was asked to start the words.
///
/// # Errors
/// If that cannot be written, or nobody asked.
pub fn note_launch(words: &[OsString]) -> io::Result<()> {
    let file =
        std::env::var_os(FILE).ok_or_else(|| io::Error::other("the runner is called by `cargo selvedge` only"))?;
    let mut words = words.iter();
    let program = words.next().ok_or_else(|| io::Error::other("nothing to run"))?;
    let launch = Launch {
        program: std::path::absolute(program)?,
        args: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        dir: std::env::current_dir()?,
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    };
    let mut line = serde_json::to_vec(&launch)?;
    line.push(b'\n');
    File::options().append(true).create(true).open(file)?.write_all(&line)
}

/// What the runner noted, without what our own environment has anyway.
pub(super) fn noted(file: &Path) -> io::Result<Vec<Launch>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let mut launches = Vec::new();
    for line in text.lines() {
        let mut launch: Launch = serde_json::from_str(line)?;
        launch.env.retain(|name, value| {
            !OURS.contains(&name.as_str()) && std::env::var_os(name).is_none_or(|ours| ours != value.as_str())
        });
        launches.push(launch);
    }
    Ok(launches)
}
