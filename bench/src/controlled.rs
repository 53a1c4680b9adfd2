//! Plans that the command does not write, for runs that are started by hand: of a controlled run, and of one that collects a graph. Both are
//! armed by the surveys in a folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::control::{ControlFile, ControlRequest, Log, World};
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::plan::{DEFAULT_MEMORY_LIMIT_MB, ImageSpec, PlanSpec};
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_drive::survey::{SurveyRequest, survey};
use selvedge_events::plan::Observe;
use selvedge_sched::{Spec, StrategyKind};

use crate::error::{Result, at, tool};

/// The first argument of a program of ours that is asked for a plan; FILE, DIR and PROG follow.
pub const ARGUMENT: &str = "--controlled-plan";

/// The same for the plan of a run that collects a graph.
pub const GRAPH_ARGUMENT: &str = "--graph-plan";

/// Decides who runs.
const SEED: u64 = 1;

/// Writes to `file` a plan by which the random strategy says who runs; `dir` has surveys of the program.
pub fn write_plan(file: &Path, dir: &Path, program: &Path) -> Result<()> {
    let control = file.with_extension("control");
    let control = at("create", &control, ControlFile::create(&control, 1))?;
    let asked = ControlRequest {
        spec: Spec { kind: StrategyKind::Random, seed: SEED, ..Spec::default() },
        script: Vec::new(),
        log: Log::Switches,
        most_steps: u64::MAX,
        until: None,
        world: World { random: Some(SEED), ..World::default() },
    };
    at("write", control.path(), control.ask(&asked, false))?;
    let mut plan = PlanSpec::new(Observe::Nothing, dir);
    plan.images = armed(dir, program)?;
    plan.control = Some(control.in_plan());
    at("write", file, fs::write(file, tool("write a plan", plan.to_bytes())?))
}

/// Writes to `file` a plan by which the runtime collects a graph into `dir`, which has surveys of the program.
pub fn write_graph_plan(file: &Path, dir: &Path, program: &Path) -> Result<()> {
    let mut plan = PlanSpec::new(Observe::Graph, dir);
    plan.images = armed(dir, program)?;
    at("write", file, fs::write(file, tool("write a plan", plan.to_bytes())?))
}

/// The sites that the surveys arm.
fn armed(dir: &Path, program: &Path) -> Result<Vec<ImageSpec>> {
    let found = tool("find the program", Program::find(program.as_os_str(), OsStr::new("")))?;
    let request = SurveyRequest {
        guest: &Guest { program: program.into(), args: Vec::new() },
        program: &found,
        store: &Store::open(dir),
        runs: 1,
        fresh: false,
        timeout: Some(Duration::from_secs(10)),
        memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
        stop: &Stop::default(),
    };
    let nothing = &mut GuestInput::Reopen(PathBuf::from("/dev/null"));
    let (images, _) = tool("read the survey", survey(&request, nothing, &mut |_| {}))?.arm();
    Ok(images)
}
