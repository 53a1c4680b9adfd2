//! Recording a program under a schedule of our choice.
//!
//! What goes wrong in here is a failed test, so functions panic with what they know.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use selvedge_drive::control::{Answer, ControlFile, ControlRequest, Log, World};
use selvedge_drive::explore::inputs_here;
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::plan::{Control, DEFAULT_MEMORY_LIMIT_MB, ImageSpec, PlanSpec};
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::server::{Inputs, command_of};
use selvedge_drive::store::Store;
use selvedge_drive::survey::{SurveyRequest, survey};
use selvedge_events::control::RunState;
use selvedge_events::plan::Observe;
use selvedge_sched::{Spec, Step, StrategyKind};
use selvedge_trace::{Process, Run};

use crate::lab::Lab;

/// A program with its sites chosen.
#[derive(Debug)]
pub struct Subject {
    lab: Lab,
    inputs: Inputs,
    images: Vec<ImageSpec>,
}

/// A recorded run under control.
#[derive(Debug)]
pub struct Recorded {
    /// How the process ended.
    pub status: ExitStatus,
    /// What the gate says.
    pub answer: Answer,
    /// What was recorded.
    pub process: Process,
    /// The choices that the default policy would not have made.
    pub script: Vec<Step>,
}

/// Most time for a run: one that blocks where the gate does not look is ended, and its trace is there all the same.
const LIMIT: Duration = Duration::from_secs(3);

fn end_of(command: &mut Command) -> ExitStatus {
    let mut child = command.spawn().expect("starts");
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status;
        }
        if begin.elapsed() > LIMIT {
            child.kill().expect("a child of ours");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Recorded {
    /// Whether it came to where nothing could go on, as the gate or the time says.
    pub fn hangs(&self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        self.answer.state == RunState::Deadlock || self.status.signal() == Some(9)
    }
}

impl Subject {
    /// Builds a C program and surveys it with arguments with which it ends.
    pub fn new(source: &Path, survey_args: &[&str]) -> Subject {
        let lab = Lab::new();
        let program = lab.path("prog");
        let built = lab.tool(
            ["cc", "-O1", "-g", "-pthread", "-o"]
                .map(Into::into)
                .into_iter()
                .chain([program.clone(), source.to_owned()]),
        );
        assert!(program.is_file(), "{}: {}", source.display(), built.stderr);
        let store = Store::create(&lab.path("store")).expect("a store");
        let found = Program::find(program.as_os_str(), "".as_ref()).expect("it was built just now");
        let guest =
            Guest { program: program.clone().into_os_string(), args: survey_args.iter().map(Into::into).collect() };
        let request = SurveyRequest {
            guest: &guest,
            program: &found,
            store: &store,
            runs: 1,
            fresh: true,
            timeout: Some(Duration::from_secs(5)),
            memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
            stop: &Stop::default(),
        };
        let surveyed = survey(&request, &mut GuestInput::Reopen("/dev/null".into()), &mut |_| {}).expect("surveyed");
        let (images, _) = surveyed.arm();
        let argv = vec![program.clone().into_os_string()];
        let inputs = inputs_here(&program, argv, PathBuf::from("/dev/null")).expect("inputs");
        Subject { lab, inputs, images }
    }

    /// Records one run.
    pub fn record(&self, spec: Spec, script: &[Step]) -> Recorded {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(self.lab.path("store")).expect("a directory");
        let dir = dir.keep();
        let control = ControlFile::create(&dir.join("control"), 1 << 16).expect("a control file");
        let request = ControlRequest {
            spec,
            script: script.to_vec(),
            log: Log::All,
            most_steps: 100_000,
            until: None,
            world: World::default(),
        };
        control.ask(&request, false).expect("asked");
        let mut plan = PlanSpec::new(Observe::Record, &dir);
        plan.images = self.images.clone();
        plan.control = Some(Control { file: control.path().as_os_str().as_encoded_bytes().to_vec(), server: None });
        let plan_file = dir.join("plan");
        std::fs::write(&plan_file, plan.to_bytes().expect("a plan")).expect("written");
        let mut command: Command = command_of(&self.inputs, &plan_file);
        let status = end_of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        let answer = control.answer().expect("answered");
        let mut run = Run::open(&dir).expect("a trace");
        assert_eq!(run.processes.len(), 1, "one process");
        let is_switch = |step: &Step| !step.has(selvedge_sched::schedule::flags::DEFAULT);
        let script = answer.log.iter().map(|point| point.step).filter(is_switch).collect();
        Recorded { status, answer, process: run.processes.remove(0), script }
    }

    /// Records random schedules until one does what is wanted, beginning with this seed.
    pub fn find(&self, first_seed: u64, wanted: impl Fn(&Recorded) -> bool) -> Recorded {
        for seed in first_seed..first_seed + 500 {
            let run = self.record(Spec { kind: StrategyKind::Random, seed, ..Spec::default() }, &[]);
            if wanted(&run) {
                return run;
            }
        }
        panic!("no schedule does it");
    }
}
