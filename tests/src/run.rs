//! One run of one program: a fresh working directory, captured output, a time limit.
//!
//! Output goes to files, not pipes: a daemon that outlives its parent cannot keep the reader
//! waiting. The program leads a process group of its own, and only that group is ever killed: when
//! its time is over, and when the leader has ended but is not yet reaped, so that the number
//! cannot have passed to a stranger.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use thiserror::Error;

use crate::directives::Ending;

/// What to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The command line, program first.
    pub command: Vec<OsString>,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// A directory to own: the program works in `cwd` below it, output lies beside that.
    pub dir: PathBuf,
    /// How long it may take.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Its standard output; bytes that are no text are replaced.
    pub stdout: String,
    /// Its standard error output, likewise.
    pub stderr: String,
}

/// A run that could not be made.
#[derive(Debug, Error)]
#[error("cannot {doing} {what}")]
pub struct RunError {
    doing: &'static str,
    what: String,
    source: std::io::Error,
}

impl Run {
    /// Runs it to its end or to the end of its time.
    pub fn execute(&self) -> Result<Outcome, RunError> {
        let cwd = self.dir.join("cwd");
        fs::create_dir_all(&cwd).map_err(failed("create", &cwd))?;
        let (out_path, err_path) = (self.dir.join("stdout"), self.dir.join("stderr"));
        let ending = self.wait_for(&cwd, &out_path, &err_path)?;
        let read = |path: &PathBuf| match fs::read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(failed("read", path)(error)),
        };
        Ok(Outcome { ending, stdout: read(&out_path)?, stderr: read(&err_path)? })
    }

    fn wait_for(&self, cwd: &PathBuf, out: &PathBuf, err: &PathBuf) -> Result<Ending, RunError> {
        let program = PathBuf::from(self.command.first().cloned().unwrap_or_default());
        let mut command = Command::new(&program);
        command
            .args(self.command.iter().skip(1))
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(create_appending(out)?)
            .stderr(create_appending(err)?)
            .process_group(0);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("SELVEDGE_") || text.starts_with("HOSTILE_") {
                command.env_remove(&name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));

        let mut child = command.spawn().map_err(failed("start", &program))?;
        let leader = Pid::from_child(&child);
        let ended = wait_unreaped(leader, self.timeout)
            .map_err(|e| failed("wait for", &program)(std::io::Error::from_raw_os_error(e.raw_os_error())));
        // Whoever is left of the group: the leader itself when its time is over, or what a leader
        // that ended left behind. An empty group is no error.
        let _ = kill_process_group(leader, Signal::KILL);
        child.wait().map_err(failed("reap", &program))?;
        ended
    }
}

/// Waits until the process ends, and leaves it unreaped: its number stays its own.
fn wait_unreaped(pid: Pid, timeout: Duration) -> rustix::io::Result<Ending> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = waitid(WaitId::Pid(pid), options)? {
            return Ok(ending(&status));
        }
        if start.elapsed() >= timeout {
            return Ok(Ending::Hang);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn ending(status: &WaitIdStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Ending::Exit(status),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Hang,
    }
}

fn create_appending(path: &PathBuf) -> Result<File, RunError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(failed("create", path))
}

fn failed(doing: &'static str, what: &std::path::Path) -> impl FnOnce(std::io::Error) -> RunError {
    let what = what.display().to_string();
    move |source| RunError { doing, what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds: u64) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let run = Run {
            command: ["sh", "-c", script].map(OsString::from).to_vec(),
            env: vec![("WARP".into(), "weft".into())],
            dir: dir.path().to_owned(),
            timeout: Duration::from_secs(seconds),
        };
        run.execute().unwrap()
    }

    #[test]
    fn output_and_ending_are_captured() {
        let outcome = shell("echo $WARP; echo no >&2; exit 5", 10);
        assert_eq!(outcome.ending, Ending::Exit(5));
        assert_eq!((&*outcome.stdout, &*outcome.stderr), ("weft\n", "no\n"));
        assert_eq!(shell("kill -SEGV $$", 10).ending, Ending::Signal(11));
    }

    #[test]
    fn a_hang_is_killed_and_what_it_started_too() {
        let start = Instant::now();
        assert_eq!(shell("sleep 60 & sleep 60", 1).ending, Ending::Hang);
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_a_leader_leaves_behind_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("late");
        shell(&format!("(sleep 1; echo x > {}) & exit 0", file.display()), 10);
        thread::sleep(Duration::from_millis(1500));
        assert!(!file.exists());
    }
}
