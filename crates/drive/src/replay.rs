//! Replaying clips: the same schedule on the same build with the same inputs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_events::ThreadIx;
use selvedge_events::control::RunState;
use selvedge_events::plan::Observe;
use selvedge_findings::Outcome;
use selvedge_sched::replay::Matching;
use selvedge_sched::{Spec, Step, StrategyKind};

use crate::clip::{Clip, ClipError};
use crate::control::{Answer, ControlFile, ControlRequest, Log};
use crate::explore::{Bench, ExploreError, switches};
use crate::failure::Wrong;
use crate::intervene::Interventions;
use crate::plan::{PlanSpec, WritePlanError};
use crate::run::End;
use crate::server::{ControlledRun, Inputs, command_of};

/// Why a clip was not replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The clip.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The run.
    #[error(transparent)]
    Run(#[from] ExploreError),
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// Files.
    #[error("cannot prepare the replay")]
    Prepare(#[source] io::Error),
    /// The program.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The run.
    pub run: ControlledRun,
    /// Its label.
    pub outcome: Outcome,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

impl Replayed {
    /// Whether it ended as the clip says.
    pub fn is_as(&self, clip: &Clip) -> bool {
        self.wrong.as_ref().map(|wrong| &wrong.signature) == clip.signature()
            && (clip.wrong.is_some() || self.outcome == clip.outcome)
    }

    /// Whether every choice was the clip's.
    pub fn is_exact(&self, clip: &Clip) -> bool {
        self.run.answer.digest == clip.digest
    }
}

/// What is asked of a run that replays this script.
pub fn request(clip: &Clip, script: &[Step], log: Log) -> ControlRequest {
    ControlRequest {
        spec: clip.by_strategy.unwrap_or(Spec {
            kind: StrategyKind::Replay,
            matching: Matching::ByThread,
            ..Spec::default()
        }),
        script: script.to_vec(),
        log,
        most_steps: clip.most_steps,
        until: None,
        world: clip.world,
    }
}

/// A server for runs of a clip's program; files go to `dir`.
pub fn bench<'a>(
    clip: &'a Clip,
    interventions: &Interventions,
    dir: &Path,
    timeout: Duration,
) -> Result<Bench<'a>, ReplayError> {
    clip.check_build()?;
    std::fs::create_dir_all(dir).map_err(ReplayError::Prepare)?;
    let inputs = clip.unpack(dir).map_err(ReplayError::Prepare)?;
    Ok(Bench::start(&inputs, &clip.images, interventions, dir, clip.oracle.as_deref(), timeout)?)
}

/// Replays a clip.
pub fn replay(clip: &Clip, bench: &mut Bench<'_>) -> Result<Replayed, ReplayError> {
    let (run, outcome, wrong) = bench.run(&request(clip, &clip.script, Log::Switches))?;
    Ok(Replayed { run, outcome, wrong })
}

/// A clip that names a strategy, with the switches that it makes instead: `None` where they are more than a clip can list, or the run ends in
/// another way.
pub fn written_down(clip: &Clip, bench: &mut Bench<'_>) -> Result<Option<Clip>, ReplayError> {
    if clip.by_strategy.is_none() {
        return Ok(Some(clip.clone()));
    }
    let again = replay(clip, bench)?;
    if again.run.answer.lost > 0 || !again.is_as(clip) {
        return Ok(None);
    }
    Ok(Some(Clip { script: switches(&again.run), by_strategy: None, digest: again.run.answer.digest, ..clip.clone() }))
}

/// A replay in a process of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone {
    /// A thread and its point at which to stop.
    pub until: Option<(ThreadIx, u32)>,
    /// Whether to leave a trace.
    pub record: bool,
    /// Whether to collect a graph instead: events of a context, and bits of an address below a location's number.
    pub graph: Option<(u8, u8)>,
    /// Whether the guest has our output.
    pub inherit: bool,
}

/// A replay that is ready to start: the command, and the control file that will have the answer.
#[derive(Debug)]
pub struct Ready {
    /// The command.
    pub command: Command,
    /// Its control file.
    pub control: ControlFile,
    /// What the program is started with.
    pub inputs: Inputs,
    /// The plan.
    pub plan_file: PathBuf,
}

/// Prepares a replay in a process of its own; its files and trace go to `dir`.
pub fn ready(clip: &Clip, interventions: &Interventions, dir: &Path, how: Alone) -> Result<Ready, ReplayError> {
    clip.check_build()?;
    let inputs = clip.unpack(dir).map_err(ReplayError::Prepare)?;
    let control = ControlFile::create(&dir.join("control"), 1 << 20).map_err(ReplayError::Prepare)?;
    let mut asked = request(clip, &clip.script, Log::All);
    asked.until = how.until;
    control.ask(&asked, false).map_err(ReplayError::Prepare)?;
    let observe = match how {
        Alone { graph: Some(_), .. } => Observe::Graph,
        Alone { record: true, .. } => Observe::Record,
        _ => Observe::Nothing,
    };
    let mut plan = PlanSpec::new(observe, dir);
    plan.graph = how.graph.unwrap_or(plan.graph);
    plan.images = interventions.armed(&clip.images);
    plan.control = Some(control.in_plan());
    plan.interventions = interventions.in_plan();
    let plan_file = dir.join("plan");
    std::fs::write(&plan_file, plan.to_bytes()?).map_err(ReplayError::Prepare)?;
    let mut command = command_of(&inputs, &plan_file);
    command.stdin(std::fs::File::open(&inputs.stdin).map_err(ReplayError::Prepare)?);
    if !how.inherit {
        // An interrupt of ours is not for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let output = |name| std::fs::File::create(dir.join(name)).map(Stdio::from).map_err(ReplayError::Prepare);
        command.stdout(output("stdout")?).stderr(output("stderr")?);
    }
    Ok(Ready { command, control, inputs, plan_file })
}

impl Ready {
    /// Runs it, at most so long.
    pub fn run(mut self, timeout: Duration) -> Result<(End, Answer), ReplayError> {
        let start = |source| ReplayError::Start { program: self.inputs.program.clone(), source };
        let mut child = self.command.spawn().map_err(start)?;
        let begin = std::time::Instant::now();
        let end = loop {
            match child.try_wait().map_err(ReplayError::Prepare)? {
                Some(status) => break End::from(status),
                None if begin.elapsed() >= timeout => {
                    let _ = child.kill();
                    child.wait().map_err(ReplayError::Prepare)?;
                    break End::TimedOut;
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        Ok((end, self.control.answer().map_err(ReplayError::Prepare)?))
    }
}

/// Whether the gate itself ended a run.
pub fn ended_by_gate(answer: &Answer) -> bool {
    matches!(answer.state, RunState::Deadlock | RunState::StepLimit | RunState::Until)
}
