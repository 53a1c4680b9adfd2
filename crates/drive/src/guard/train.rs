//! Training: runs of a program under a guard that learns, and what those that passed showed.
//!
//! Paper: Zhang et al., "A Lightweight System for Detecting and Tolerating Concurrency Bugs" (TSE 2016), section 4.1:
//! invariants come from runs that are known to be correct. Departure: half of the runs are under control, by strategies in
//! turn, so that orders which are rare in free runs are met in few runs. A run that failed teaches nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_analyze::invariant::doubt::{Doubts, Showed};
use selvedge_analyze::invariant::group::{ACCESS_NS, FELT, hooks_ns};
use selvedge_analyze::invariant::select::Selection;
use selvedge_analyze::invariant::{Colour, Invariants, SiteKey, converge};
use selvedge_events::guard::LogCounter;
use selvedge_events::plan::{Intervene, Observe};
use selvedge_findings::{Outcome, Tally};
use selvedge_sched::{Spec, StrategyKind};

use crate::control::{ControlRequest, Log, World};
use crate::controlled::Prepared;
use crate::explore::{Bench, ExploreError};
use crate::guard::compile::Guard;
use crate::guard::keys::{Keyed, mark_asked};
use crate::guard::log::{LogFile, learnt, take_logs};
use crate::guard::switching::hooks_of;
use crate::guest_input::GuestInput;
use crate::intervene::Interventions;
use crate::own_time::{idle_plan, timed};
use crate::plan::{ImageSpec, PlanSpec, WritePlanError};
use crate::run::{End, Guest, GuestOutput, RunGuestError, RunRequest, Stop, ask_oracle, run_guest};
use selvedge_image::LockCall;

/// How to train.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Most runs.
    pub runs: u32,
    /// Whether to stop when runs show nothing new any more.
    pub until_converged: bool,
    /// Passing runs that are enough.
    pub enough: Option<usize>,
    /// A shell command that says whether a run passed.
    pub oracle: Option<String>,
    /// Most time for each run.
    pub timeout: Duration,
    /// Which runs are made.
    pub schedules: Schedules,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Most steps of a controlled run.
    pub most_steps: u64,
    /// What the world looks like under control.
    pub world: World,
    /// Variables that belong together.
    pub colours: BTreeSet<Colour>,
    /// Sites to learn about.
    pub selection: Selection,
}

/// Who decides which thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedules {
    /// The system and strategies, in turn.
    #[default]
    Both,
    /// The system.
    Free,
    /// Strategies.
    Controlled,
}

impl Schedules {
    /// The strategy of a run, or `None` where the system decides.
    fn strategy(self, number: u32) -> Option<StrategyKind> {
        const TURNS: [StrategyKind; 3] = [StrategyKind::Random, StrategyKind::Pct, StrategyKind::Pos];
        let turn = match self {
            Schedules::Free => return None,
            Schedules::Both if number.is_multiple_of(2) => return None,
            Schedules::Both => number / 2,
            Schedules::Controlled => number,
        };
        TURNS.iter().cycle().nth(turn as usize % TURNS.len()).copied()
    }
}

/// Why training ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A controlled run.
    #[error(transparent)]
    Controlled(#[from] ExploreError),
    /// A free run, or the oracle.
    #[error(transparent)]
    Free(#[from] RunGuestError),
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// Files.
    #[error("cannot prepare runs or read their logs")]
    Files(#[source] std::io::Error),
    /// There is nothing to learn about.
    #[error("no site of the program touches memory that threads share: there is nothing to guard")]
    NothingShared,
}

/// What training came to.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// What the runs that passed showed, with what was known before.
    pub invariants: Invariants,
    /// How the runs ended.
    pub tally: Tally,
    /// For each run that passed, how many members it showed that none before it had.
    pub curve: Vec<usize>,
    /// Which runs showed what.
    doubts: Doubts,
    /// Sites whose sets are not whole: they are guarded against nothing.
    pub unsettled: usize,
    /// Members that were left out because runs that fail show them, and runs that pass hardly ever do.
    pub doubted: usize,
    /// Runs that left no log: they ended before they began.
    pub silent: u32,
    /// Pairs that logs had no room for.
    pub not_logged: u64,
    /// Whether it ended because runs showed nothing new.
    pub converged: bool,
    /// Time taken.
    pub elapsed: Duration,
}

impl Trained {
    /// Takes in a run.
    fn add(&mut self, outcome: Outcome, is_exact: bool, run: Option<Invariants>) {
        self.tally.add(&outcome);
        if let Some(run) = &run {
            self.doubts.see(
                run,
                match (outcome, is_exact) {
                    (Outcome::Pass, true) => Showed::PassedExact,
                    (Outcome::Pass, false) => Showed::PassedFree,
                    _ => Showed::Failed,
                },
            );
        }
        let Some(run) = run.filter(|_| outcome == Outcome::Pass) else {
            self.silent += u32::from(outcome == Outcome::Pass);
            return;
        };
        self.curve.push(converge::fold(&mut self.invariants, &run));
    }

    /// Marks the sites whose sets are not whole, where these runs can tell; else what was known of that before stays. Of a program that fails
    /// what is rare may be what fails.
    fn settle(&mut self, known: &Invariants) {
        let (passed, failed) = self.doubts.runs();
        if passed >= converge::TELLING {
            let unsettled = match self.converged || failed > 0 {
                true => BTreeSet::new(),
                false => converge::unsettled(&self.invariants, &self.doubts.rare(known), passed),
            };
            self.invariants.sites.iter_mut().for_each(|(key, site)| site.unsettled = unsettled.contains(key));
        }
        self.unsettled = self.invariants.sites.values().filter(|site| site.unsettled).count();
    }
}

/// A program that learns: what its free and its controlled runs need.
#[derive(Debug)]
pub struct School<'a> {
    prepared: &'a Prepared,
    options: &'a TrainOptions,
    guard: Guard,
    images: Vec<Keyed>,
    plan_file: PathBuf,
    free_dir: PathBuf,
    controlled: Option<Bench<'a>>,
    controlled_dir: PathBuf,
    length: u64,
}

impl<'a> School<'a> {
    /// Makes everything ready in the program's scratch directory.
    pub fn open(prepared: &'a Prepared, options: &'a TrainOptions) -> Result<School<'a>, TrainError> {
        let images = Keyed::load_all(&prepared.surveyed.files());
        let wanted = |key: &SiteKey| options.selection.keeps(key);
        let guard = Guard::learning(&images, &prepared.images, &options.colours, &wanted);
        if guard.sites.is_empty() {
            return Err(TrainError::NothingShared);
        }
        let dir = |name| -> Result<PathBuf, TrainError> {
            let dir = prepared.scratch.path().join(name);
            std::fs::create_dir_all(&dir).map_err(TrainError::Files)?;
            Ok(dir)
        };
        let (free_dir, controlled_dir) = (dir("train-free")?, dir("train-controlled")?);
        let (table, specs) = guard.alone(&images);
        let plan_file = prepared.scratch.path().join("train-plan");
        std::fs::write(&plan_file, free_plan(table.to_bytes()?, specs, &free_dir)?).map_err(TrainError::Files)?;
        let mut controlled = None;
        if options.schedules != Schedules::Free {
            let table = guard.beside(&prepared.images).0.to_bytes()?;
            controlled = Some(Bench::start(
                &prepared.inputs,
                &prepared.images,
                &Interventions::guard(table),
                &controlled_dir,
                options.oracle.as_deref(),
                options.timeout,
            )?);
        }
        Ok(School { prepared, options, guard, images, plan_file, free_dir, controlled, controlled_dir, length: 0 })
    }

    /// Makes the run with this number; answers how it ended and what its processes noted.
    fn run(&mut self, number: u32, stop: &Stop) -> Result<(Outcome, Vec<LogFile>), TrainError> {
        let (outcome, dir): (Outcome, &Path) = match (self.options.schedules.strategy(number), &mut self.controlled) {
            (Some(kind), Some(bench)) => {
                let (run, outcome, _) = bench.run(&request(self.options, kind, number, self.length))?;
                self.length = self.length.max(run.answer.steps);
                (outcome, &self.controlled_dir)
            }
            _ => (self.run_free(stop)?, &self.free_dir),
        };
        Ok((outcome, take_logs(dir).map_err(TrainError::Files)?))
    }

    fn start(&self, plan: &Path, stop: &Stop) -> Result<(End, Duration), TrainError> {
        let args = self.prepared.inputs.argv.iter().skip(1).cloned().collect();
        let guest = Guest { program: self.prepared.program.path.clone().into_os_string(), args };
        let request = RunRequest {
            guest: &guest,
            plan,
            output: GuestOutput::Files(self.free_dir.clone()),
            timeout: Some(self.options.timeout),
            stop,
        };
        Ok(run_guest(&request, &mut GuestInput::Reopen(self.prepared.inputs.stdin.clone()))?)
    }

    /// Processor time in nanoseconds that the program takes by itself, as a run of it with nothing armed tells; 0 where it does not.
    fn own_time(&self, stop: &Stop) -> Result<u64, TrainError> {
        let plan = self.plan_file.with_extension("idle");
        std::fs::write(&plan, idle_plan(&self.free_dir)?).map_err(TrainError::Files)?;
        Ok(timed(|| self.start(&plan, stop))?.unwrap_or(0))
    }

    fn run_free(&self, stop: &Stop) -> Result<Outcome, TrainError> {
        let (end, _) = self.start(&self.plan_file, stop)?;
        let ended = end.outcome();
        Ok(match (&self.options.oracle, ended) {
            (Some(oracle), Outcome::Pass | Outcome::Fail { .. }) => ask_oracle(oracle, &self.free_dir, end)?,
            _ => ended,
        })
    }
}

/// The plan of a free run: a guard, and nothing else.
pub fn free_plan(table: Vec<u8>, images: Vec<ImageSpec>, dir: &Path) -> Result<Vec<u8>, WritePlanError> {
    let mut plan = PlanSpec::new(Observe::Nothing, dir);
    plan.interventions = vec![(Intervene::Guard, table)];
    plan.images = images;
    plan.to_bytes()
}

/// What a controlled run is to do.
fn request(options: &TrainOptions, kind: StrategyKind, number: u32, length: u64) -> ControlRequest {
    let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    ControlRequest {
        spec: Spec { kind, seed, length: length.max(2), ..Spec::default() },
        script: Vec::new(),
        log: Log::Switches,
        most_steps: options.most_steps,
        until: None,
        world: options.world,
    }
}

/// Trains on top of what is known; `each` hears of every run.
pub fn train(
    prepared: &Prepared,
    known: Invariants,
    options: &TrainOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Trained),
) -> Result<Trained, TrainError> {
    let begin = Instant::now();
    let mut school = School::open(prepared, options)?;
    school.controlled = school.controlled.take().map(|bench| bench.until(stop));
    let mut trained = Trained { invariants: known.clone(), ..Trained::default() };
    if trained.invariants.program.is_empty() {
        let name = prepared.program.path.file_name().unwrap_or_default();
        trained.invariants.program = name.to_string_lossy().into_owned();
    }
    trained.invariants.colours.extend(options.colours.iter().cloned());
    let hooks = hooks_of(&prepared.surveyed.survey, &school.images);
    let met = hooks.values().fold(0_u64, |sum, hooks| sum.saturating_add(*hooks));
    let mut own_time = None;
    for number in 0..options.runs {
        if stop.is_set() {
            break;
        }
        let (outcome, logs) = school.run(number, stop)?;
        let locks: Vec<LockCall> = school.images.iter().flat_map(|image| image.locks.iter().cloned()).collect();
        let keys: Vec<&SiteKey> = school.guard.sites.iter().map(|site| &site.key).collect();
        let counted = |log: &LogFile| log.log().map_or(0, |log| log.counter(LogCounter::NotLogged));
        trained.not_logged += logs.iter().map(counted).sum::<u64>();
        let mut run = if logs.is_empty() { None } else { learnt(&logs, &keys, &locks) };
        if let Some(run) = &mut run {
            let hits = run.sites.values().fold(0_u64, |sum, site| sum.saturating_add(site.hits));
            let is_felt = hits > FELT || hooks_ns(met) > FELT * ACCESS_NS;
            if own_time.is_none() && is_felt {
                own_time = Some(school.own_time(stop)?);
            }
            run.time = own_time.unwrap_or(0);
            run.hooks.clone_from(&hooks);
        }
        trained.add(outcome, options.schedules.strategy(number).is_some(), run);
        trained.elapsed = begin.elapsed();
        each(&trained);
        if options.until_converged && converge::is_enough(&trained.curve, trained.elapsed) {
            trained.converged = true;
            break;
        }
        if options.enough.is_some_and(|enough| trained.curve.len() >= enough) {
            break;
        }
    }
    trained.doubted = trained.doubts.leave_out(&mut trained.invariants);
    trained.settle(&known);
    mark_asked(&mut trained.invariants, &school.images);
    Ok(trained)
}
