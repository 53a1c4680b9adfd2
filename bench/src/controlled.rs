//! Plans that the command does not write, for runs that are started by hand: of a controlled run, of one that collects a
//! graph, of one that a guard learns from, and of one that is guarded by what it learnt. All are armed by the surveys in a
//! folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_analyze::invariant::group::Heat;
use selvedge_drive::control::{ControlFile, ControlRequest, Log, World};
use selvedge_drive::guard::choose::{Choice, choose};
use selvedge_drive::guard::compile::{Guard, GuardHow};
use selvedge_drive::guard::keys::Keyed;
use selvedge_drive::guard::log::{learnt, logs_in};
use selvedge_drive::guard::switching::{hooks_of, switching};
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::plan::{DEFAULT_MEMORY_LIMIT_MB, ImageSpec, PlanSpec};
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_drive::survey::{SurveyRequest, Surveyed, survey};
use selvedge_events::guard::FLAG_LEARN;
use selvedge_events::plan::{Intervene, Observe};
use selvedge_sched::{Spec, StrategyKind};

use crate::columns::OWN_TIME;
use crate::error::{BenchError, Result, at, tool};

/// The first argument of a program of ours that is asked for a plan; FILE, DIR and PROG follow.
pub const ARGUMENT: &str = "--controlled-plan";

/// The same for the plan of a run that collects a graph.
pub const GRAPH_ARGUMENT: &str = "--graph-plan";

/// The same for the plan of a run that a guard learns from.
pub const LEARN_ARGUMENT: &str = "--learn-plan";

/// The same for the plan of a guarded run, without what is too hot; the folder has what was learnt.
pub const GUARD_ARGUMENT: &str = "--guard-plan";

/// The same with every shared access guarded.
pub const GUARD_ALL_ARGUMENT: &str = "--guard-all-plan";

/// Writes the plan that a command line asks for; `None` where it asks for none.
pub fn asked(args: &[String]) -> Option<Result<()>> {
    let [what, file, dir, program] = args else { return None };
    let (file, dir, program) = (Path::new(file), Path::new(dir), Path::new(program));
    Some(match what.as_str() {
        ARGUMENT => write_plan(file, dir, program),
        GRAPH_ARGUMENT => write_graph_plan(file, dir, program),
        LEARN_ARGUMENT => write_learn_plan(file, dir, program),
        GUARD_ARGUMENT => write_guard_plan(file, dir, program, false),
        GUARD_ALL_ARGUMENT => write_guard_plan(file, dir, program, true),
        _ => return None,
    })
}

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

/// What a guard learns with, and what it knows of the program.
fn learner(dir: &Path, program: &Path) -> Result<(Guard, Vec<Keyed>)> {
    let surveyed = surveyed(dir, program)?;
    let images = Keyed::load_all(&surveyed.files());
    let guard = Guard::learning(&images, &surveyed.arm().0, &BTreeSet::new(), &|_| true);
    Ok((guard, images))
}

/// Writes to `file` the plan of a guard that learns into `dir`, which has surveys of the program.
pub fn write_learn_plan(file: &Path, dir: &Path, program: &Path) -> Result<()> {
    let (guard, images) = learner(dir, program)?;
    write_guard(file, dir, &guard, &images)
}

/// Writes to `file` the plan of a guarded run; `dir` has what runs taught. With `all`, nothing is too hot.
pub fn write_guard_plan(file: &Path, dir: &Path, program: &Path, all: bool) -> Result<()> {
    let (learner, images) = learner(dir, program)?;
    let keys: Vec<_> = learner.sites.iter().map(|site| &site.key).collect();
    let locks: Vec<_> = images.iter().flat_map(|image| image.locks.iter().cloned()).collect();
    let mut logs = at("read", dir, logs_in(dir))?;
    // A guarded run before this one has left its own there.
    logs.retain(|file| file.log().is_some_and(|log| log.flags & FLAG_LEARN != 0));
    let mut learnt = learnt(&logs, &keys, &locks).ok_or_else(|| BenchError::Wrong("nothing was learnt".to_owned()))?;
    // What counts is how hot sites are in one run.
    learnt.runs = logs.len() as u64;
    let own_time = dir.join(OWN_TIME);
    let times = at("read", &own_time, fs::read_to_string(&own_time))?;
    let mut times = times.split(' ').map(|time| time.parse::<u64>().unwrap_or(0));
    learnt.time = times.next().unwrap_or(0);
    // The survey was of a whole run; what was learnt from is some of these and many small ones.
    let lessons = learnt.time as f64 / times.next().unwrap_or(0).max(1) as f64;
    let hooks = hooks_of(&surveyed(dir, program)?.survey, &images);
    learnt.hooks = hooks.into_iter().map(|(function, hooks)| (function, (hooks as f64 * lessons) as u64)).collect();
    let heat = if all { None } else { Some(Heat::default()) };
    let chosen = choose(&learnt, &Choice { heat, switching: switching(&learnt, &images), ..Choice::default() });
    let guard = tool("make a guard", Guard::of(&chosen.invariants, &images, &GuardHow::default()))?;
    write_guard(file, dir, &guard, &images)
}

fn write_guard(file: &Path, dir: &Path, guard: &Guard, images: &[Keyed]) -> Result<()> {
    let (table, specs) = guard.alone(images);
    let mut plan = PlanSpec::new(Observe::Nothing, dir);
    plan.interventions = vec![(Intervene::Guard, tool("write a table", table.to_bytes())?)];
    plan.images = specs;
    at("write", file, fs::write(file, tool("write a plan", plan.to_bytes())?))
}

/// The sites that the surveys arm.
fn armed(dir: &Path, program: &Path) -> Result<Vec<ImageSpec>> {
    Ok(surveyed(dir, program)?.arm().0)
}

fn surveyed(dir: &Path, program: &Path) -> Result<Surveyed> {
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
    tool("read the survey", survey(&request, nothing, &mut |_| {}))
}
