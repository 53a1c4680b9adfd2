//! Running an executable with a time limit, and naming how it ended.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::manifest::Harm;

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(1);

/// Numbers of the signals that name a kind of harm; the same on every Linux.
const SIGILL: i32 = 4;
const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code zero.
    Pass,
    /// Any other exit code.
    Exit(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Still running at the time limit, and killed.
    Hang,
}

impl Outcome {
    /// The harm that this outcome shows, if it is one that a kernel may have.
    pub fn harm(self) -> Option<Harm> {
        match self {
            Self::Exit(1) => Some(Harm::WrongExit),
            Self::Signal(SIGABRT) => Some(Harm::Assertion),
            Self::Signal(SIGSEGV | SIGBUS | SIGFPE | SIGILL) => Some(Harm::Crash),
            Self::Hang => Some(Harm::Hang),
            Self::Pass | Self::Exit(_) | Self::Signal(_) => None,
        }
    }

    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Pass,
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// One finished run.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// The program could not be run at all.
#[derive(Debug, Error)]
#[error("{}: cannot be run: {source}", .executable.display())]
pub struct RunError {
    executable: PathBuf,
    source: io::Error,
}

/// Runs `executable` and kills it after `limit`.
///
/// Output is read after the end, which is enough for programs that print a line: one that fills a pipe would
/// block and count as a hang.
pub fn run<S: AsRef<OsStr>>(executable: &Path, args: &[S], limit: Duration) -> Result<Run, RunError> {
    try_run(executable, args, limit).map_err(|source| RunError { executable: executable.to_owned(), source })
}

fn try_run<S: AsRef<OsStr>>(executable: &Path, args: &[S], limit: Duration) -> io::Result<Run> {
    let mut child = Command::new(executable)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + limit;
    let outcome = loop {
        if let Some(status) = child.try_wait()? {
            break Outcome::of(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break Outcome::Hang;
        }
        thread::sleep(POLL);
    };
    Ok(Run { outcome, stdout: drain(child.stdout.take())?, stderr: drain(child.stderr.take())? })
}

fn drain(pipe: Option<impl Read>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
