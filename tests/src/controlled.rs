//! Programs under a controlled schedule: the same server and control file as `selvedge explore` uses, so that a test
//! sees output, ending and the gate's own account of every single run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::control::{ControlRequest, Log, World};
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::plan::PlanSpec;
use selvedge_drive::program::Program as Guest;
use selvedge_drive::run::{End, Stop};
use selvedge_drive::server::{Inputs, Server};
use selvedge_drive::store::Store;
use selvedge_drive::survey::{SurveyRequest, survey};
use selvedge_events::control::RunState;
use selvedge_events::plan::Observe;
use selvedge_sched::{Spec, StrategyKind};
use thiserror::Error;

use crate::directives::{Deadlock, Ending};
use crate::program::Program;
use crate::run::{Outcome, Run};
use crate::toolchain::Built;

/// The strategies that every program must hold under.
pub fn strategies() -> [StrategyKind; 4] {
    [StrategyKind::Random, StrategyKind::Pct, StrategyKind::Pos, StrategyKind::RoundRobin]
}

/// A program that cannot be run under control.
#[derive(Debug, Error)]
#[error("cannot {doing}: {why}")]
pub struct ControlledError {
    doing: &'static str,
    why: String,
}

fn failed(doing: &'static str) -> impl FnOnce(&dyn std::error::Error) -> ControlledError {
    move |error| {
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            why += &format!(": {error}");
            cause = error.source();
        }
        ControlledError { doing, why }
    }
}

/// What came of one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How the program ended, and what it said.
    pub outcome: Outcome,
    /// How far the gate came.
    pub state: RunState,
    /// Choices made.
    pub steps: u64,
    /// A digest of all of them.
    pub digest: u64,
    /// Times that a thread blocked where the model does not look.
    pub hidden: u64,
}

/// A program that was surveyed and waits for schedules.
#[derive(Debug)]
pub struct Controlled {
    server: Server,
    timeout: Duration,
    length: u64,
}

impl Controlled {
    /// Surveys a program once and starts its server. `dir` is to be its own.
    pub fn start(
        selvedge: &Path,
        built: &Built,
        env: &[(String, String)],
        dir: &Path,
        timeout: Duration,
    ) -> Result<Controlled, ControlledError> {
        let store = dir.join("store");
        let mut command: Vec<OsString> =
            [selvedge.as_os_str(), "record".as_ref(), "--survey-only".as_ref(), "--timeout".as_ref()]
                .map(Into::into)
                .into();
        command.push(format!("{}s", timeout.as_secs()).into());
        command.extend(["--out".into(), store.clone().into_os_string(), "--".into()]);
        command.extend(built.command());
        let survey_run = Run { command, env: env.to_vec(), dir: dir.join("survey"), timeout: timeout * 3 };
        survey_run.execute().map_err(|error| failed("survey")(&error))?;

        let store = Store::create(&store).map_err(|error| failed("open the store")(&error))?;
        let program =
            Guest::find(built.executable.as_os_str(), "".as_ref()).map_err(|error| failed("find it")(&error))?;
        let mut words = built.command().into_iter();
        let guest = selvedge_drive::run::Guest { program: words.next().unwrap_or_default(), args: words.collect() };
        let stop = Stop::default();
        let request = SurveyRequest {
            guest: &guest,
            program: &program,
            store: &store,
            runs: 1,
            fresh: false,
            timeout: Some(timeout),
            memory_limit_mb: 256,
            stop: &stop,
        };
        let surveyed = survey(&request, &mut GuestInput::Reopen("/dev/null".into()), &mut |_| ());
        let (images, _) = surveyed.map_err(|error| failed("read the survey")(&error))?.arm_controlled();

        let files = dir.join("server");
        let cwd = dir.join("controlled-cwd");
        for path in [&files, &cwd] {
            fs::create_dir_all(path).map_err(|error| failed("make a directory")(&error))?;
        }
        let ours = |key: &OsString| {
            let key = key.to_string_lossy();
            key.starts_with("SELVEDGE_") || key.starts_with("HOSTILE_")
        };
        let own = env.iter().map(|(key, value)| (OsString::from(key), OsString::from(value)));
        let inputs = Inputs {
            program: built.executable.clone(),
            argv: built.command(),
            dir: cwd,
            env: std::env::vars_os().filter(|(key, _)| !ours(key)).chain(own).collect(),
            stdin: PathBuf::from("/dev/null"),
        };
        let mut plan = PlanSpec::new(Observe::Nothing, &files);
        plan.images = images;
        let server = Server::start(&inputs, &plan, &files).map_err(|error| failed("start")(&error))?;
        Ok(Controlled { server, timeout, length: 1000 })
    }

    /// Runs one schedule.
    pub fn run(&mut self, kind: StrategyKind, seed: u64) -> Result<Seen, ControlledError> {
        let quantum = u32::try_from(seed).unwrap_or(1).max(1);
        let request = ControlRequest {
            spec: Spec { kind, seed, depth: 3, length: self.length, quantum, ..Spec::default() },
            script: Vec::new(),
            log: Log::Switches,
            most_steps: 10_000_000,
            until: None,
            world: World::default(),
        };
        let run = self.server.run(&request, self.timeout).map_err(|error| failed("run")(&error))?;
        if kind == StrategyKind::Replay {
            self.length = run.answer.steps.max(2);
        }
        let text = |name: &str| {
            let bytes = fs::read(self.server.dir().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let ending = match run.end {
            End::Code(code) => Ending::Exit(code),
            End::Signal(signal) => Ending::Signal(signal),
            End::TimedOut | End::Interrupted => Ending::Hang,
        };
        Ok(Seen {
            outcome: Outcome { ending, stdout: text("stdout"), stderr: text("stderr") },
            state: run.answer.state,
            steps: run.answer.steps,
            digest: run.answer.digest,
            hidden: run.answer.hidden_blocks,
        })
    }
}

/// How many schedules of each strategy, and whether each is run twice and must be the same.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Schedules of each strategy.
    pub schedules: u64,
    /// Whether the digests of two runs must be equal.
    pub twice: bool,
}

/// Runs a program under all strategies; what is wrong, if anything. It must end and print as natively in every
/// schedule.
pub fn check_controlled(
    controlled: &mut Controlled,
    program: &Program,
    native: &Outcome,
    effort: Effort,
) -> Result<(), String> {
    // Where something is hidden, every run takes as long as it needs to be noticed.
    let schedules = if program.directives.hidden { effort.schedules.min(2) } else { effort.schedules };
    for (kind, seed) in plan(schedules) {
        let place = || format!("{} schedule {seed}", kind.name());
        let seen = controlled.run(kind, seed).map_err(|error| error.to_string())?;
        if seen.state == RunState::Idle {
            return Err(format!("{}: not under control", place()));
        }
        let words =
            || seen.outcome.stderr.lines().rev().take(4).map(|line| format!("\nstderr: {line}")).collect::<String>();
        if seen.state != RunState::Running || seen.outcome.ending != native.ending {
            let (ending, state) = (seen.outcome.ending, seen.state);
            return Err(format!("{}: {state:?}, ended by {ending}, natively by {}{}", place(), native.ending, words()));
        }
        if seen.outcome.stdout != native.stdout {
            return Err(format!("{}: standard output differs: {:?}{}", place(), seen.outcome.stdout, words()));
        }
        // On a busy machine a thread that only has to wait for a processor may count as blocked. The run goes on, and
        // goes another way: of interest where two runs are to be the same.
        if effort.twice && seen.hidden > 0 && !program.directives.hidden {
            return Err(format!("{}: {} hidden blocks in {} steps", place(), seen.hidden, seen.steps));
        }
        if effort.twice && !program.directives.hidden && !program.directives.world {
            let again = controlled.run(kind, seed).map_err(|error| error.to_string())?;
            if (again.digest, again.steps) != (seen.digest, seen.steps) {
                return Err(format!("{}: {} steps, and {} when run again", place(), seen.steps, again.steps));
            }
        }
    }
    Ok(())
}

/// Runs a program that deadlocks under all strategies; what is wrong, if anything.
pub fn check_deadlock(controlled: &mut Controlled, program: &Program, effort: Effort) -> Result<(), String> {
    let (mut deadlocks, mut others) = (0, 0);
    for (kind, seed) in plan(effort.schedules) {
        let place = || format!("{} schedule {seed}", kind.name());
        let seen = controlled.run(kind, seed).map_err(|error| error.to_string())?;
        match (seen.state, seen.outcome.ending) {
            (RunState::Deadlock, _) => deadlocks += 1,
            (RunState::Running, Ending::Exit(0)) => others += 1,
            (state, ending) => return Err(format!("{}: {state:?}, ended by {ending}", place())),
        }
        if effort.twice {
            let again = controlled.run(kind, seed).map_err(|error| error.to_string())?;
            if (again.digest, again.steps) != (seen.digest, seen.steps) {
                return Err(format!("{}: {} steps, and {} when run again", place(), seen.steps, again.steps));
            }
        }
    }
    match program.directives.deadlock {
        Deadlock::Every if others > 0 => Err(format!("{others} of {} schedules do not deadlock", deadlocks + others)),
        Deadlock::Some if deadlocks == 0 => Err(format!("none of {others} schedules deadlocks")),
        Deadlock::Some if others == 0 => Err(format!("all of {deadlocks} schedules deadlock")),
        Deadlock::None => Err("its directive does not say that it deadlocks".to_owned()),
        _ => Ok(()),
    }
}

/// The default policy first, which says how long a run is; then every strategy.
fn plan(schedules: u64) -> impl Iterator<Item = (StrategyKind, u64)> {
    let seeds = move |kind| (1..=schedules).map(move |seed| (kind, seed));
    std::iter::once((StrategyKind::Replay, 0)).chain(strategies().into_iter().flat_map(seeds))
}
