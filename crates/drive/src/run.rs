//! Runs a guest once under a plan, and says how it ended.
//!
//! The guest gets a process group of its own, so that a time-out takes down everything it started; only
//! a guest on a terminal stays in ours, where it may read. Our interrupt is the guest's end too, and
//! what it wrote until then is kept. A guest that exceeds its time is asked to end and then killed:
//! traces are shared mappings, so nothing that was recorded is lost.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use selvedge_events::plan;
use selvedge_findings::Outcome;

use crate::guest_input::GuestInput;

/// Time between asking a guest to end and killing it.
const GRACE: Duration = Duration::from_millis(500);
/// How long after a guest's end its output may still be on the way.
const LINGER: Duration = Duration::from_millis(300);

/// Signals that come within this time of the first are one wish to stop.
const AT_ONCE: Duration = Duration::from_millis(300);

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The program, as it was given.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Where a guest's output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestOutput {
    /// To ours.
    Inherit,
    /// To the files `stdout` and `stderr` of a directory.
    Files(PathBuf),
    /// To both.
    Tee(PathBuf),
}

/// How to run.
#[derive(Debug)]
pub struct RunRequest<'a> {
    /// What.
    pub guest: &'a Guest,
    /// The plan's file.
    pub plan: &'a Path,
    /// Where output goes.
    pub output: GuestOutput,
    /// Most time.
    pub timeout: Option<Duration>,
    /// Set when the user wants to stop.
    pub stop: &'a Stop,
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It had to be stopped: time was up.
    TimedOut,
    /// The user stopped it.
    Interrupted,
}

impl End {
    /// The label that the end alone gives.
    pub fn outcome(self) -> Outcome {
        match self {
            End::Code(code) => Outcome::of_code(code),
            End::Signal(signal) => Outcome::of_signal(signal),
            End::TimedOut => Outcome::Hang,
            End::Interrupted => Outcome::Unknown,
        }
    }
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => End::Code(-1),
        }
    }
}

/// Why a guest was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunGuestError {
    /// It could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// Its input or output could not be arranged.
    #[error("cannot arrange the program's input and output")]
    Streams(#[source] io::Error),
    /// Its end could not be awaited.
    #[error("cannot wait for the program")]
    Wait(#[source] io::Error),
    /// The oracle could not be run.
    #[error("cannot run the oracle `{command}`")]
    Oracle {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
}

/// Says when to stop: when the user wants to, or when a time is up.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Stops on interrupt and termination. One that comes `AT_ONCE` after the first, or later, ends us immediately; those before it are
    /// the same wish: `timeout` and some shells send a signal to the process and to its group.
    pub fn on_signals() -> Stop {
        let stop = Stop::default();
        let (ours, theirs) = UnixStream::pair().ok().unzip();
        // The order matters: the first signal finds the flag unset, sets it, and the next one ends us.
        let again = if ours.is_some() { Arc::default() } else { Arc::clone(&stop.asked) };
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let end = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again));
            let set = signal_hook::flag::register(signal, Arc::clone(&stop.asked));
            let theirs = theirs.as_ref().and_then(|theirs| theirs.try_clone().ok());
            let ring = theirs.map(|theirs| signal_hook::low_level::pipe::register(signal, theirs));
            // Without handlers an interrupt simply ends us.
            drop((end, set, ring));
        }
        if let Some(mut ours) = ours {
            std::thread::spawn(move || {
                if ours.read_exact(&mut [0]).is_ok() {
                    std::thread::sleep(AT_ONCE);
                    again.store(true, Ordering::Relaxed);
                }
            });
        }
        stop
    }

    /// Stops.
    pub fn set(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The same, and at this time at the latest.
    pub fn by(&self, deadline: Instant) -> Stop {
        let deadline = self.deadline.map_or(deadline, |known| known.min(deadline));
        Stop { asked: Arc::clone(&self.asked), deadline: Some(deadline) }
    }

    /// When it stops at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.is_asked() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether the user wants to.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Runs a guest; answers how it ended and how long that took.
pub fn run_guest(request: &RunRequest<'_>, input: &mut GuestInput) -> Result<(End, Duration), RunGuestError> {
    let own_group = !input.is_terminal();
    let (stdin, fed) = input.next().map_err(RunGuestError::Streams)?;
    let mut command = Command::new(&request.guest.program);
    command.args(&request.guest.args).env(plan::ENV, request.plan).env("DEBUGINFOD_URLS", "").stdin(stdin);
    if own_group {
        command.process_group(0);
    }
    match &request.output {
        GuestOutput::Inherit => {}
        GuestOutput::Files(dir) => {
            command.stdout(File::create(dir.join("stdout")).map_err(RunGuestError::Streams)?);
            command.stderr(File::create(dir.join("stderr")).map_err(RunGuestError::Streams)?);
        }
        GuestOutput::Tee(_) => {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
    }
    let begin = Instant::now();
    let start = |source| RunGuestError::Start { program: request.guest.program.clone(), source };
    let mut child = command.spawn().map_err(start)?;
    // The command holds our ends of the files.
    drop(command);
    if let Some(guest) = child.stdin.take().filter(|_| fed) {
        input.feed(guest).map_err(RunGuestError::Streams)?;
    }
    let copies = match &request.output {
        GuestOutput::Tee(dir) => Some(tee(&mut child, dir).map_err(RunGuestError::Streams)?),
        _ => None,
    };
    let end = wait(&mut child, own_group, request, begin).map_err(RunGuestError::Wait)?;
    let duration = begin.elapsed();
    if let Some(done) = copies {
        // A grandchild may hold the pipes open for ever.
        let deadline = Instant::now() + LINGER;
        for _ in 0..2 {
            let _ = done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
    Ok((end, duration))
}

fn wait(child: &mut Child, own_group: bool, request: &RunRequest<'_>, begin: Instant) -> io::Result<End> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let send = |signal| {
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = if own_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        }
    };
    let watch = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut stopped: Option<(End, Instant)> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            if stopped.is_some() {
                // What it started must not outlive it.
                send(Signal::KILL);
            }
            return Ok(stopped.map_or(status.into(), |(end, _)| end));
        }
        let now = Instant::now();
        match stopped {
            None if request.stop.is_set() => stopped = Some((End::Interrupted, now)),
            None if request.timeout.is_some_and(|most| now - begin >= most) => stopped = Some((End::TimedOut, now)),
            Some((_, when)) if now - when >= GRACE => send(Signal::KILL),
            _ => {}
        }
        if let Some((end, when)) = stopped
            && when == now
        {
            send(if end == End::Interrupted { Signal::INT } else { Signal::TERM });
        }
        let left = request.timeout.map_or(Duration::MAX, |most| most.saturating_sub(now - begin));
        let nap = left.clamp(Duration::from_millis(1), Duration::from_millis(50));
        match &watch {
            Some(watch) => {
                let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
                // Interrupted or not: the loop looks again.
                let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
            }
            None => std::thread::sleep(nap.min(Duration::from_millis(2))),
        }
    }
}

/// Copies a child's output to ours and to files; the receiver gets a message when each is done.
fn tee(child: &mut Child, dir: &Path) -> io::Result<mpsc::Receiver<()>> {
    let (done, finished) = mpsc::channel();
    if let Some(from) = child.stdout.take() {
        copy(from, File::create(dir.join("stdout"))?, io::stdout(), done.clone());
    }
    if let Some(from) = child.stderr.take() {
        copy(from, File::create(dir.join("stderr"))?, io::stderr(), done);
    }
    Ok(finished)
}

fn copy(
    mut from: impl Read + Send + 'static,
    mut file: File,
    mut ours: impl Write + Send + 'static,
    done: mpsc::Sender<()>,
) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            let Some(bytes) = buffer.get(..got) else { break };
            // Neither a full disk nor a closed pipe of ours may stop the guest.
            drop(file.write_all(bytes));
            drop(ours.write_all(bytes).and_then(|()| ours.flush()));
        }
        let _ = done.send(());
    });
}

/// Asks the user's oracle about a run. It is a shell command that finds the run's directory in
/// `SELVEDGE_RUN_DIR` (with the files `stdout` and `stderr`) and the guest's exit code in
/// `SELVEDGE_EXIT_CODE`; exit code 0 means that the run passed.
pub fn ask_oracle(command: &str, run_dir: &Path, end: End) -> Result<Outcome, RunGuestError> {
    let error = |source| RunGuestError::Oracle { command: command.to_owned(), source };
    let ended = end.outcome();
    let status = Command::new("sh")
        .args(["-c", command])
        .env("SELVEDGE_RUN_DIR", run_dir)
        .env("SELVEDGE_EXIT_CODE", ended.exit_code().to_string())
        .env_remove(plan::ENV)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(error)?;
    Ok(match ended {
        _ if status.success() => Outcome::Pass,
        Outcome::Fail { .. } => ended,
        _ => Outcome::Fail { code: None, signal: None },
    })
}
