//! Recording: survey, arm, run as often as asked, label and keep.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use selvedge_events::control::RunState;
use selvedge_events::plan::Observe;
use selvedge_findings::{ExitCode, Outcome, Tally};
use selvedge_trace::{OpenRunError, Run};

use crate::arm::Armed;
use crate::clip::{Clip, ClipError, ClipInputs};
use crate::control::{Answer, ControlFile, ControlRequest};
use crate::explore::inputs_here;
use crate::guard::keys::ImageFile;
use crate::guest_input::GuestInput;
use crate::intervene::{Asked, InterveneError, Interventions};
use crate::plan::{DEFAULT_MEMORY_LIMIT_MB, DEFAULT_TRACE_LIMIT, ImageSpec, PlanSpec, WritePlanError};
use crate::program::{FindProgramError, Program, hex};
use crate::run::{Guest, GuestOutput, RunGuestError, RunRequest, Stop, ask_oracle, run_guest};
use crate::store::{RunRecord, RunStart, Store, StoreError, Totals, write_whole};
use crate::survey::{SurveyError, SurveyRequest, Surveyed, survey, survey_plan};

/// What to do with a program.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Recorded runs.
    pub runs: u32,
    /// Most time for each run.
    pub timeout: Option<Duration>,
    /// A shell command that says whether a run passed.
    pub oracle: Option<String>,
    /// Survey runs.
    pub survey_runs: u32,
    /// Whether to survey even if a kept survey would do.
    pub resurvey: bool,
    /// What comes after the survey.
    pub then: Then,
    /// Most bytes of trace per process.
    pub trace_limit: u64,
    /// Memory that the runtime may use for itself, in MiB.
    pub memory_limit_mb: u32,
    /// Who decides which thread runs; `None` leaves it to the system.
    pub control: Option<ControlRequest>,
    /// What is done about bugs.
    pub interventions: Asked,
}

/// What comes after the survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Recorded runs.
    Record,
    /// Nothing.
    Nothing,
    /// The plan of a survey is written to this file, for programs that are started by hand; nothing runs here.
    WriteSurveyPlan(PathBuf),
    /// The plan of a recording is written to this file, for programs that are started by hand.
    WritePlan(PathBuf),
}

impl Default for RecordOptions {
    fn default() -> RecordOptions {
        RecordOptions {
            runs: 1,
            timeout: None,
            oracle: None,
            survey_runs: 1,
            resurvey: false,
            then: Then::Record,
            trace_limit: DEFAULT_TRACE_LIMIT,
            memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
            control: None,
            interventions: Asked::default(),
        }
    }
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The program.
    #[error(transparent)]
    Program(#[from] FindProgramError),
    /// The survey.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// A run.
    #[error(transparent)]
    Guest(#[from] RunGuestError),
    /// The control file of a controlled run.
    #[error("cannot write or read the control file")]
    Control(#[source] std::io::Error),
    /// The clip of a controlled run.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// A trace.
    #[error("cannot read what the run left")]
    Trace(#[source] OpenRunError),
    /// What was to be done about bugs.
    #[error(transparent)]
    Intervene(#[from] InterveneError),
    /// The program's code.
    #[error(transparent)]
    Image(#[from] selvedge_image::OpenImageError),
}

impl RecordError {
    /// The exit code for it.
    pub fn exit_code(&self) -> u8 {
        use std::io::ErrorKind::NotFound;
        match self {
            RecordError::Program(error) => error.exit_code(),
            RecordError::Guest(error) | RecordError::Survey(SurveyError::Guest(error)) => match error {
                RunGuestError::Start { source, .. } if source.kind() == NotFound => ExitCode::NotFound.code(),
                RunGuestError::Start { .. } => ExitCode::CannotStart.code(),
                _ => ExitCode::Internal.code(),
            },
            RecordError::Survey(SurveyError::NotInstrumented { .. }) => ExitCode::Usage.code(),
            // As a shell has it for an interrupted command.
            RecordError::Survey(SurveyError::Stopped) => 130,
            RecordError::Store(StoreError::Create { .. }) | RecordError::Intervene(_) => ExitCode::Usage.code(),
            _ => ExitCode::Internal.code(),
        }
    }
}

/// What happens while recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// A survey run begins.
    Surveying {
        /// Its number.
        run: u32,
        /// Of how many.
        of: u32,
    },
    /// Sites were chosen.
    Armed {
        /// From what.
        surveyed: &'a Surveyed,
        /// How many.
        armed: Armed,
    },
    /// What is done about bugs, and how it fits the program.
    Intervening(&'a Interventions),
    /// The plan of a recording was written.
    PlanWritten {
        /// Where.
        file: &'a Path,
        /// Where its traces go.
        traces: &'a Path,
    },
    /// A run ended.
    Ran {
        /// All runs so far.
        progress: &'a Progress,
        /// This one.
        record: &'a RunRecord,
    },
}

/// All runs so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How many there will be.
    pub total: u32,
    /// How they ended.
    pub tally: Tally,
    /// Their events.
    pub events: u64,
    /// Time since the first began.
    pub elapsed: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { pass, fail, hang, unknown } = self.tally;
        let done = self.tally.total();
        write!(f, "{done}/{} runs, {pass} pass, {fail} fail, {hang} hang", self.total)?;
        if unknown > 0 {
            write!(f, ", {unknown} unknown")?;
        }
        let pace = self.elapsed.as_secs_f64() / done.max(1) as f64;
        write!(f, ", {} events, {} s/run", Amount(self.events), short(pace))
    }
}

fn short(seconds: f64) -> String {
    if seconds < 0.1 { format!("{seconds:.3}") } else { format!("{seconds:.1}") }
}

/// A number with a unit that people read at a glance.
#[derive(Clone, Copy, Debug)]
pub struct Amount(pub u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        match self.0 {
            0..1000 => write!(f, "{}", self.0),
            1000..1_000_000 => write!(f, "{:.1} k", value / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} M", value / 1e6),
            _ => write!(f, "{:.1} G", value / 1e9),
        }
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// All runs.
    pub progress: Progress,
    /// The last run.
    pub last: Option<RunRecord>,
    /// Whether the user stopped it.
    pub stopped: bool,
}

impl Recorded {
    /// The exit code: the guest's own for a single run, else whether all passed.
    pub fn exit_code(&self) -> u8 {
        match &self.last {
            _ if self.stopped => 130,
            Some(only) if self.progress.total == 1 => only.outcome.exit_code(),
            _ if self.progress.tally.pass == self.progress.tally.total() => ExitCode::Success.code(),
            _ => ExitCode::SomeFailed.code(),
        }
    }
}

/// Surveys and records.
pub fn record(
    store: &Store,
    guest: &Guest,
    options: &RecordOptions,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Recorded, RecordError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = Program::find(&guest.program, &path)?;
    // What we found is what runs, also if PATH has something else by then.
    let found = Guest { program: program.path.clone().into_os_string(), args: guest.args.clone() };
    let copies = tempfile::tempdir_in(store.dir())
        .map_err(|source| StoreError::Create { path: store.dir().to_owned(), source })?;
    let mut input = GuestInput::many(copies.path().join("stdin"));
    let request = SurveyRequest {
        guest: &found,
        program: &program,
        store,
        runs: options.survey_runs,
        fresh: options.resurvey,
        timeout: options.timeout,
        memory_limit_mb: options.memory_limit_mb,
        stop,
    };
    if let Then::WriteSurveyPlan(file) = &options.then {
        let traces = store.direct_survey_dir()?;
        write_whole(file, &survey_plan(&request, &traces)?)?;
        let file = file.canonicalize().unwrap_or_else(|_| file.clone());
        each(Step::PlanWritten { file: &file, traces: &traces });
        return Ok(Recorded::default());
    }
    let surveyed = survey(&request, &mut input, &mut |run| each(Step::Surveying { run, of: options.survey_runs }))?;
    let (images, armed) = if options.control.is_some() { surveyed.arm_controlled() } else { surveyed.arm() };
    each(Step::Armed { surveyed: &surveyed, armed });
    let files = surveyed.files();
    let setting = Setting { interventions: options.interventions.beside(&images, &files)?, images, files };
    each(Step::Intervening(&setting.interventions));
    match &options.then {
        Then::Nothing => return Ok(Recorded::default()),
        Then::WritePlan(file) => {
            let traces = store.direct_dir()?;
            write_whole(file, &plan(options, &setting, &traces, None)?)?;
            // A program may be started elsewhere.
            let file = file.canonicalize().unwrap_or_else(|_| file.clone());
            each(Step::PlanWritten { file: &file, traces: &traces });
            return Ok(Recorded::default());
        }
        Then::Record | Then::WriteSurveyPlan(_) => {}
    }
    // What is read under control is kept with the schedule.
    if options.runs == 1 && surveyed.kept && options.control.is_none() {
        input = GuestInput::once();
    }
    let start = RunStart {
        program: program.path.to_string_lossy().into_owned(),
        argv: std::iter::once(&guest.program).chain(&guest.args).map(lossy).collect(),
        build_id: hex(&program.build_id),
    };
    let mut recorded = Recorded::default();
    recorded.progress.total = options.runs;
    let begin = Instant::now();
    for number in 0..options.runs {
        if stop.is_set() {
            recorded.stopped = true;
            break;
        }
        let one = record_once(store, &found, &start, options, number, &setting, stop, &mut input)?;
        recorded.progress.tally.add(&one.outcome);
        recorded.progress.events += one.totals.events;
        recorded.progress.elapsed = begin.elapsed();
        recorded.stopped = stop.is_set() && one.outcome == Outcome::Unknown;
        each(Step::Ran { progress: &recorded.progress, record: &one });
        recorded.last = Some(one);
    }
    Ok(recorded)
}

/// What all runs have.
struct Setting {
    images: Vec<ImageSpec>,
    files: Vec<ImageFile>,
    interventions: Interventions,
}

#[expect(clippy::too_many_arguments, reason = "the loop above is its only caller")]
fn record_once(
    store: &Store,
    guest: &Guest,
    start: &RunStart,
    options: &RecordOptions,
    number: u32,
    setting: &Setting,
    stop: &Stop,
    input: &mut GuestInput,
) -> Result<RunRecord, RecordError> {
    let (id, dir) = store.new_run()?;
    store.reserve(id)?;
    let plan_file = dir.join("plan");
    let control = match &options.control {
        Some(request) => {
            let file = ControlFile::create(&dir.join("control"), 0).map_err(RecordError::Control)?;
            let mut request = request.clone();
            request.spec.seed = request.spec.seed.wrapping_add(u64::from(number));
            file.ask(&request, false).map_err(RecordError::Control)?;
            Some((file, request))
        }
        None => None,
    };
    write_whole(&plan_file, &plan(options, setting, &dir, control.as_ref().map(|(file, _)| file))?)?;
    let output = match (options.runs, &options.oracle) {
        (1, None) => GuestOutput::Inherit,
        (1, Some(_)) => GuestOutput::Tee(dir.clone()),
        _ => GuestOutput::Files(dir.clone()),
    };
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let request = RunRequest { guest, plan: &plan_file, output, timeout: options.timeout, stop };
    let (end, duration) = run_guest(&request, input)?;
    let mut ended = end.outcome();
    let mut answered = None;
    if let Some((control, request)) = control {
        let answer = control.answer().map_err(RecordError::Control)?;
        if matches!(answer.state, RunState::Deadlock | RunState::StepLimit) {
            ended = Outcome::Hang;
        }
        // The clip below has what is worth keeping.
        let _ = std::fs::remove_file(control.path());
        answered = Some((answer, request));
    }
    let outcome = match (&options.oracle, ended) {
        (Some(command), ended @ (Outcome::Pass | Outcome::Fail { .. })) if !stop.is_set() || ended == Outcome::Pass => {
            ask_oracle(command, &dir, end)?
        }
        (_, ended) => ended,
    };
    if let Some((answer, request)) = answered {
        let stdin = input.contents().unwrap_or_default();
        clip(guest, start, setting, options, (&answer, &request), outcome, stdin)?.save(&dir.join(RUN_CLIP))?;
    }
    let totals = match Run::open(&dir) {
        Ok(run) => Totals::of(&run),
        Err(OpenRunError::Empty { .. }) => Totals::default(),
        Err(error) => return Err(RecordError::Trace(error)),
    };
    let record = RunRecord::new(id, start.clone(), outcome, duration, started, totals);
    store.save(&record)?;
    Ok(record)
}

/// The clip of a run that was recorded under control, in the run's directory.
pub const RUN_CLIP: &str = "run.clip";

/// The schedule of a controlled run, as the strategy that makes it.
fn clip(
    guest: &Guest,
    start: &RunStart,
    setting: &Setting,
    options: &RecordOptions,
    (answer, request): (&Answer, &ControlRequest),
    outcome: Outcome,
    stdin: Vec<u8>,
) -> Result<Clip, RecordError> {
    let program = PathBuf::from(&guest.program);
    let argv = start.argv.first().map(OsString::from).into_iter().chain(guest.args.iter().cloned());
    let inputs = inputs_here(&program, argv.collect(), PathBuf::new()).map_err(RecordError::Control)?;
    Ok(Clip {
        program,
        build_id: crate::program::unhex(&start.build_id).unwrap_or_default(),
        inputs: ClipInputs { argv: inputs.argv, dir: inputs.dir, env: inputs.env, stdin },
        images: setting.images.clone(),
        files: setting.files.clone(),
        world: request.world,
        most_steps: request.most_steps,
        oracle: options.oracle.clone(),
        script: Vec::new(),
        by_strategy: Some(request.spec),
        outcome,
        wrong: None,
        steps: answer.steps,
        digest: answer.digest,
    })
}

fn plan(
    options: &RecordOptions,
    setting: &Setting,
    out_dir: &Path,
    control: Option<&ControlFile>,
) -> Result<Vec<u8>, WritePlanError> {
    let mut plan = PlanSpec::new(Observe::Record, out_dir);
    plan.trace_limit = options.trace_limit;
    plan.memory_limit_mb = options.memory_limit_mb;
    plan.images.clone_from(&setting.images);
    plan.images = setting.interventions.armed(&plan.images);
    plan.control = control.map(ControlFile::in_plan);
    plan.interventions = setting.interventions.in_plan();
    plan.to_bytes()
}

fn lossy(arg: &OsString) -> String {
    arg.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_reads_at_a_glance() {
        let tally = Tally { pass: 11, fail: 1, hang: 0, unknown: 0 };
        let progress = Progress { total: 100, tally, events: 3_400_000, elapsed: Duration::from_millis(14_400) };
        assert_eq!(progress.to_string(), "12/100 runs, 11 pass, 1 fail, 0 hang, 3.4 M events, 1.2 s/run");
        let amounts = [(999, "999"), (1500, "1.5 k"), (2_000_000, "2.0 M"), (7_300_000_000, "7.3 G")];
        for (value, text) in amounts {
            assert_eq!(Amount(value).to_string(), text);
        }
    }

    #[test]
    fn exit_codes_follow_the_guest_or_the_tally() {
        let start = RunStart { program: String::new(), argv: vec![], build_id: String::new() };
        let ended = |outcome: Outcome, total: u32, stopped| {
            let mut recorded = Recorded { stopped, ..Recorded::default() };
            recorded.progress.total = total;
            recorded.progress.tally.add(&outcome);
            recorded.last = Some(RunRecord::new(1, start.clone(), outcome, Duration::ZERO, 0, Totals::default()));
            recorded.exit_code()
        };
        assert_eq!(ended(Outcome::of_code(7), 1, false), 7);
        assert_eq!(ended(Outcome::of_signal(6), 1, false), 134);
        assert_eq!(ended(Outcome::Hang, 1, false), 124);
        assert_eq!(ended(Outcome::of_code(7), 5, false), 1);
        assert_eq!(ended(Outcome::Pass, 5, false), 0);
        assert_eq!(ended(Outcome::Pass, 5, true), 130);
        assert_eq!(Recorded::default().exit_code(), 0);
    }
}
