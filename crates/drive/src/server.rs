//! Fork servers: a program that was loaded and patched once, and runs as often as it is told to.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use selvedge_events::plan;

use crate::control::{Answer, ControlFile, ControlRequest};
use crate::plan::{Control, PlanSpec, WritePlanError};
use crate::run::End;

/// What a controlled program is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments, its own name first.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub dir: PathBuf,
    /// Its environment, whole.
    pub env: Vec<(OsString, OsString)>,
    /// The file that it reads from.
    pub stdin: PathBuf,
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// Files and pipes.
    #[error("cannot prepare a controlled run")]
    Prepare(#[source] io::Error),
    /// It could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not answer.
    #[error(
        "`{}` does not serve controlled runs: it was not built with selvedge, or ended before its `main`",
        program.display()
    )]
    Silent {
        /// The program.
        program: PathBuf,
    },
}

/// How a controlled run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlledRun {
    /// As a process.
    pub end: End,
    /// As the gate saw it.
    pub answer: Answer,
    /// How long it took.
    pub duration: Duration,
}

/// A program that serves runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    commands: File,
    answers: File,
    control: ControlFile,
    stdin: File,
    outputs: [File; 2],
    dir: PathBuf,
    program: PathBuf,
}

/// Choices that a log has room for.
const LOG_CAPACITY: u64 = 1 << 20;

impl Server {
    /// Starts a program as a server; its files go to `dir`, which must be its own.
    pub fn start(inputs: &Inputs, plan: &PlanSpec, dir: &Path) -> Result<Server, ServerError> {
        let prepare = ServerError::Prepare;
        let control = ControlFile::create(&dir.join("control"), LOG_CAPACITY).map_err(prepare)?;
        let (commands_in, commands) = rustix::pipe::pipe().map_err(|why| prepare(why.into()))?;
        let (answers, answers_in) = rustix::pipe::pipe().map_err(|why| prepare(why.into()))?;
        for ours in [&commands, &answers] {
            rustix::io::fcntl_setfd(ours, rustix::io::FdFlags::CLOEXEC).map_err(|why| prepare(why.into()))?;
        }
        let mut plan = plan.clone();
        let server = Some((commands_in.as_raw_fd(), answers_in.as_raw_fd()));
        plan.control = Some(Control { server, ..control.in_plan() });
        let plan_file = dir.join("plan");
        std::fs::write(&plan_file, plan.to_bytes()?).map_err(prepare)?;
        let stdin = File::open(&inputs.stdin).map_err(prepare)?;
        let output =
            |name: &str| OpenOptions::new().read(true).append(true).create(true).open(dir.join(name)).map_err(prepare);
        let outputs = [output("stdout")?, output("stderr")?];
        let shared = |file: &File| file.try_clone().map(Stdio::from).map_err(prepare);
        let mut command = command_of(inputs, &plan_file);
        command.stdin(shared(&stdin)?).stdout(shared(&outputs[0])?).stderr(shared(&outputs[1])?);
        let start = |source| ServerError::Start { program: inputs.program.clone(), source };
        // An interrupt of ours is not for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(start)?;
        let file = |fd: OwnedFd| File::from(fd);
        Ok(Server {
            child,
            commands: file(commands),
            answers: file(answers),
            control,
            stdin,
            outputs,
            dir: dir.to_owned(),
            program: inputs.program.clone(),
        })
    }

    /// Makes one run. Output is in the files `stdout` and `stderr` of the server's directory until the next.
    pub fn run(&mut self, request: &ControlRequest, timeout: Duration) -> Result<ControlledRun, ServerError> {
        let silent = |_| ServerError::Silent { program: self.program.clone() };
        self.control.ask(request, true).map_err(ServerError::Prepare)?;
        self.stdin.seek(SeekFrom::Start(0)).map_err(ServerError::Prepare)?;
        for output in &self.outputs {
            output.set_len(0).map_err(ServerError::Prepare)?;
        }
        let begin = Instant::now();
        self.commands.write_all(&1_u32.to_le_bytes()).map_err(silent)?;
        let pid = number(&mut self.answers).map_err(silent)?;
        let mut timed_out = false;
        if !ready(&self.answers, timeout) {
            timed_out = true;
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended just now.
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let status = ExitStatus::from_raw(number(&mut self.answers).map_err(silent)?);
        let duration = begin.elapsed();
        let answer = self.control.answer().map_err(ServerError::Prepare)?;
        let end = if timed_out { End::TimedOut } else { End::from(status) };
        Ok(ControlledRun { end, answer, duration })
    }

    /// Where the last run's output is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server between two runs does nothing that would need an orderly end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that starts a program under a plan.
pub fn command_of(inputs: &Inputs, plan_file: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(&inputs.program);
    let mut argv = inputs.argv.iter();
    if let Some(name) = argv.next() {
        command.arg0(name);
    }
    command.args(argv).current_dir(&inputs.dir).env_clear().envs(inputs.env.iter().map(|(key, value)| (key, value)));
    command.env(plan::ENV, plan_file).env("DEBUGINFOD_URLS", "");
    command
}

fn number(from: &mut File) -> io::Result<i32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}

/// Whether something can be read within the time.
fn ready(file: &File, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&time)) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return true,
        }
    }
}
