//! Running a child: wall time, peak memory, time limit, a floor under the free disk space.
//!
//! Peak memory is `ru_maxrss` of the child. Linux lets a child inherit the peak of the process that started it (the
//! two share an address space until `exec`), so this process stays small and [`memory_floor`] says below which figure
//! nothing can be told.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::{BenchError, Result, at};

/// How often the free disk space is looked at while a child runs.
const DISK_CHECK: Duration = Duration::from_millis(250);

/// When a child is stopped.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest wall time.
    pub time: Duration,
    /// A folder and the free bytes that must stay on its disk.
    pub disk: Option<(PathBuf, u64)>,
}

impl Limits {
    /// A limit on time only.
    pub fn time(time: Duration) -> Self {
        Limits { time, disk: None }
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// Stopped by us at the time limit.
    TimeLimit,
    /// Stopped by us because the disk was filling up.
    DiskLimit,
}

impl Ending {
    fn words(self) -> String {
        match self {
            Ending::Exit(code) => format!("exited with {code}"),
            Ending::Signal(number) => format!("was killed by signal {number}"),
            Ending::TimeLimit => "was stopped at the time limit".to_owned(),
            Ending::DiskLimit => "was stopped because the disk was filling up".to_owned(),
        }
    }
}

/// What one child cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From just before the start to the end.
    pub wall: Duration,
    /// Peak resident memory in KiB.
    pub peak_kib: u64,
    /// Processor time, its own and its children's.
    pub processor: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// A child that runs, in a process group of its own, its output going to files.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ended: OwnedFd,
    started: Instant,
    what: String,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts `command`; standard output and error go to `NAME.out` and `NAME.err` in `logs`.
    pub fn start(mut command: Command, name: &str, logs: &Path) -> Result<Self> {
        at("create", logs, fs::create_dir_all(logs))?;
        let (out, err) = (logs.join(format!("{name}.out")), logs.join(format!("{name}.err")));
        command.stdin(Stdio::null());
        command.stdout(at("create", &out, File::create(&out))?);
        command.stderr(at("create", &err, File::create(&err))?);
        command.process_group(0);
        let program = PathBuf::from(command.get_program());
        let started = Instant::now();
        let child = at("start", &program, command.spawn())?;
        let ended = pidfd_open(pid_of(&child)?, PidfdFlags::empty())
            .map_err(|e| BenchError::System("open a pidfd", e.into()))?;
        let what = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Running { child, ended, started, what, out, err })
    }

    /// Whether the child has ended already; it stays unreaped.
    pub fn has_ended(&self) -> Result<bool> {
        self.poll_for(Duration::ZERO)
    }

    /// Asks the child to end.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits for the end, or brings it about at a limit.
    pub fn wait(self, limits: &Limits) -> Result<Cost> {
        let mut stopped = None;
        loop {
            let left = limits.time.saturating_sub(self.started.elapsed());
            let slice = if stopped.is_some() {
                Duration::from_secs(5)
            } else if limits.disk.is_some() {
                left.min(DISK_CHECK)
            } else {
                left
            };
            if self.poll_for(slice)? {
                break;
            }
            let reason = if self.started.elapsed() >= limits.time {
                Some(Ending::TimeLimit)
            } else if limits.disk.as_ref().is_some_and(|(at, floor)| free_bytes(at) < *floor) {
                Some(Ending::DiskLimit)
            } else {
                None
            };
            if let Some(reason) = reason {
                stopped.get_or_insert(reason);
                self.signal(Signal::KILL)?;
            }
        }
        let wall = self.started.elapsed();
        let (status, peak_kib, processor) = reap(&self.child)?;
        let ending = stopped.unwrap_or(if libc::WIFEXITED(status) {
            Ending::Exit(libc::WEXITSTATUS(status))
        } else {
            Ending::Signal(libc::WTERMSIG(status))
        });
        Ok(Cost { wall, peak_kib, processor, ending })
    }

    /// Waits and demands exit status 0.
    pub fn quiet(self, limits: &Limits) -> Result<Cost> {
        let (what, err) = (self.what.clone(), self.err.clone());
        let cost = self.wait(limits)?;
        match cost.ending {
            Ending::Exit(0) => Ok(cost),
            Ending::TimeLimit => Err(BenchError::TooLong { what, seconds: limits.time.as_secs() }),
            ending => Err(BenchError::Failed { what, how: ending.words(), log: read_tail(&err) }),
        }
    }

    /// The same, with the text that the child wrote to standard output.
    pub fn succeed(self, limits: &Limits) -> Result<(Cost, String)> {
        let out = self.out.clone();
        let cost = self.quiet(limits)?;
        Ok((cost, at("read", &out, fs::read_to_string(&out))?))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match kill_process_group(pid_of(&self.child)?, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(BenchError::System("signal a child", e.into())),
        }
    }

    fn poll_for(&self, time: Duration) -> Result<bool> {
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.ended, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(BenchError::System("wait for a child", e.into())),
        }
    }
}

/// Runs a helper command to its end, quietly; its standard output.
pub fn run_tool(command: &mut Command) -> Result<String> {
    let what = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| BenchError::Missing { tool: what.clone(), why: e.to_string() })?;
    if !output.status.success() {
        let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
        log.push_str(&String::from_utf8_lossy(&output.stderr));
        return Err(BenchError::Failed { what, how: output.status.to_string(), log });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The peak memory, in KiB, that a child which does nothing seems to have.
pub fn memory_floor(logs: &Path) -> Result<u64> {
    let child = Running::start(Command::new("true"), "floor", logs)?;
    Ok(child.succeed(&Limits::time(Duration::from_secs(10)))?.0.peak_kib)
}

/// Free bytes on the disk of `path`; 0 when that cannot be known.
pub fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize))
}

fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let first = command.get_args().next().unwrap_or_default();
    format!("{} {}", name.to_string_lossy(), first.to_string_lossy()).trim_end().to_owned()
}

fn pid_of(child: &Child) -> Result<Pid> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| BenchError::System("name a child", io::ErrorKind::InvalidInput.into()))
}

/// Reaps the child; its wait status, its peak memory in KiB and its processor time.
fn reap(child: &Child) -> Result<(i32, u64, Duration)> {
    let pid = pid_of(child)?.as_raw_nonzero().get();
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `pid` is our own unreaped child, and both pointers are to live locals of the right types.
    let reaped = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    if reaped != pid {
        return Err(BenchError::System("reap a child", io::Error::last_os_error()));
    }
    let time = |of: libc::timeval| {
        Duration::from_secs(of.tv_sec.unsigned_abs()) + Duration::from_micros(of.tv_usec.unsigned_abs())
    };
    let processor = time(usage.ru_utime) + time(usage.ru_stime);
    Ok((status, u64::try_from(usage.ru_maxrss).unwrap_or(0), processor))
}

fn read_tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let from = bytes.len().saturating_sub(600);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn endings_are_told_apart() {
        let logs = tempfile::tempdir().unwrap();
        let cases = [("exit 3", Ending::Exit(3)), ("kill -9 $$", Ending::Signal(9)), ("sleep 30", Ending::TimeLimit)];
        for (script, want) in cases {
            let child = Running::start(shell(script), "case", logs.path()).unwrap();
            let cost = child.wait(&Limits::time(Duration::from_millis(300))).unwrap();
            assert_eq!(cost.ending, want, "{script}");
        }
    }

    #[test]
    fn a_filling_disk_stops_the_child() {
        let logs = tempfile::tempdir().unwrap();
        let limits = Limits { time: Duration::from_secs(20), disk: Some((logs.path().to_owned(), u64::MAX)) };
        let child = Running::start(shell("sleep 30"), "disk", logs.path()).unwrap();
        assert_eq!(child.wait(&limits).unwrap().ending, Ending::DiskLimit);
    }

    #[test]
    fn success_gives_the_output() {
        let logs = tempfile::tempdir().unwrap();
        let child = Running::start(shell("echo ok"), "echo", logs.path()).unwrap();
        let (cost, out) = child.succeed(&Limits::time(Duration::from_secs(5))).unwrap();
        assert_eq!(out, "ok\n");
        assert!(cost.peak_kib > 0);
    }
}
