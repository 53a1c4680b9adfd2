//! Exploring: run a program under many schedules, keep what fails.
//!
//! Runs are numbered; what a run does depends on its number and the options alone, so that any number of servers
//! gives the same findings. The first run follows the default policy: it tells how long runs are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge_events::control::RunState;
use selvedge_events::plan::Observe;
use selvedge_findings::{Outcome, Tally};
use selvedge_sched::bounded::Search;
use selvedge_sched::determinism::{Difference, first_difference};
use selvedge_sched::source::Source as _;
use selvedge_sched::{Spec, Step, StrategyKind};

use crate::clip::Clip;
use crate::control::{ControlRequest, Log, World};
use crate::controlled::Prepared;
use crate::differs;
use crate::failure::{Signature, Wrong, outcome, wrong};
use crate::intervene::Interventions;
use crate::plan::{ImageSpec, PlanSpec};
use crate::run::{End, RunGuestError, Stop, ask_oracle};
use crate::server::{ControlledRun, Inputs, Server, ServerError};

/// How schedules are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// By chance: a strategy of the runtime's, seeded anew for each run.
    Sampled(StrategyKind),
    /// All schedules with up to so many preemptions.
    Bounded(u32),
}

/// How to explore.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// How schedules are chosen.
    pub strategy: Strategy,
    /// PCT: ordering constraints of the bugs looked for.
    pub depth: u32,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Most schedules.
    pub schedules: u64,
    /// Most time.
    pub budget: Option<Duration>,
    /// Whether the first failure ends it.
    pub stop_on_first: bool,
    /// A shell command that says whether a run passed.
    pub oracle: Option<String>,
    /// Most time for a run.
    pub timeout: Duration,
    /// Most steps of a run.
    pub most_steps: u64,
    /// What the world looks like.
    pub world: World,
    /// Servers at once.
    pub jobs: usize,
    /// What is done about bugs.
    pub interventions: Interventions,
    /// Whether each schedule is run twice, to see whether the program depends on it alone.
    pub check_determinism: bool,
}

impl Default for ExploreOptions {
    fn default() -> ExploreOptions {
        ExploreOptions {
            strategy: Strategy::Sampled(StrategyKind::Random),
            depth: 3,
            seed: 1,
            schedules: 1000,
            budget: None,
            stop_on_first: false,
            oracle: None,
            timeout: Duration::from_secs(10),
            most_steps: DEFAULT_MOST_STEPS,
            world: World::default(),
            jobs: 1,
            interventions: Interventions::default(),
            check_determinism: false,
        }
    }
}

/// Steps past which a run counts as endless, unless asked otherwise.
pub const DEFAULT_MOST_STEPS: u64 = 5_000_000;

/// Why exploring ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// A server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The oracle.
    #[error(transparent)]
    Oracle(#[from] RunGuestError),
    /// A directory for a server.
    #[error("cannot make a directory for controlled runs")]
    Dir(#[source] std::io::Error),
}

/// A way in which the program fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub wrong: Wrong,
    /// The label of its runs.
    pub outcome: Outcome,
    /// The number of the first schedule that showed it, from 1.
    pub first: u64,
    /// How many schedules did.
    pub count: u64,
    /// That schedule.
    pub script: Vec<Step>,
    /// The strategy that made it.
    pub spec: Spec,
    /// That run.
    pub run: ControlledRun,
}

/// What exploring has found so far.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// How runs ended.
    pub tally: Tally,
    /// The ways in which they failed.
    pub failures: BTreeMap<Signature, Failure>,
    /// Time taken.
    pub elapsed: Duration,
    /// Whether every schedule within the bound was run.
    pub complete: bool,
    /// Whether there are no schedules beyond the bound.
    pub exhaustive: bool,
    /// Runs in which control was lost.
    pub gave_up: u64,
    /// Steps of the longest run.
    pub longest: u64,
    /// Times that a thread was seen to block where the model does not look.
    pub hidden_blocks: u64,
    /// Runs whose log had no room for all switches: their clips name the strategy instead.
    pub cut: u64,
    /// How two runs of one schedule differed, in words: the program depends on more than the schedule. A bounded search ends there.
    pub nondeterministic: Option<String>,
    /// The first schedule that failed, from 1.
    pub first_failure: Option<u64>,
}

impl Explored {
    /// Schedules run.
    pub fn schedules(&self) -> u64 {
        self.tally.total()
    }

    /// Schedules in a second.
    pub fn rate(&self) -> f64 {
        self.schedules() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, done: Done, prepared: &Prepared) {
        // One that was cut short says nothing.
        if done.outcome == Outcome::Unknown {
            return;
        }
        self.tally.add(&done.outcome);
        self.longest = self.longest.max(done.run.answer.steps);
        self.hidden_blocks += done.run.answer.hidden_blocks;
        self.cut += u64::from(done.run.answer.lost > 0);
        self.gave_up += u64::from(done.run.answer.state == RunState::GaveUp);
        // Finding the lines takes a while, and one difference is enough.
        if let (None, Some(difference)) = (&self.nondeterministic, &done.difference) {
            let how = differs::difference_of(prepared, difference);
            self.nondeterministic = Some(format!("two runs of schedule {} {how}", done.number));
        }
        let Some(wrong) = done.wrong else { return };
        self.first_failure = Some(self.first_failure.map_or(done.number, |first| first.min(done.number)));
        let script = || switches(&done.run);
        match self.failures.get_mut(&wrong.signature) {
            Some(known) => {
                known.count += 1;
                if done.number < known.first {
                    known.first = done.number;
                    known.script = script();
                    known.run = done.run;
                    known.spec = done.spec;
                    known.wrong = wrong;
                }
            }
            None => {
                let script = script();
                let signature = wrong.signature.clone();
                let failure = Failure {
                    wrong,
                    outcome: done.outcome,
                    first: done.number,
                    count: 1,
                    script,
                    spec: done.spec,
                    run: done.run,
                };
                self.failures.insert(signature, failure);
            }
        }
    }
}

impl Failure {
    /// The failure as a clip of a program that is explored like this.
    pub fn clip(&self, prepared: &Prepared, options: &ExploreOptions) -> Clip {
        Clip {
            script: if self.run.answer.lost > 0 { Vec::new() } else { self.script.clone() },
            by_strategy: (self.run.answer.lost > 0).then_some(self.spec),
            outcome: self.outcome,
            wrong: Some(self.wrong.clone()),
            steps: self.run.answer.steps,
            digest: self.run.answer.digest,
            ..prepared.clip(options.world, options.most_steps, options.oracle.clone())
        }
    }
}

/// The choices of a run that the default policy would not have made.
pub fn switches(run: &ControlledRun) -> Vec<Step> {
    let steps = run.answer.log.iter().map(|point| point.step);
    steps.filter(|step| !step.has(selvedge_sched::schedule::flags::DEFAULT)).collect()
}

/// One run that is over.
struct Done {
    number: u64,
    outcome: Outcome,
    wrong: Option<Wrong>,
    run: ControlledRun,
    spec: Spec,
    /// How a second run of the schedule differed.
    difference: Option<Difference>,
}

/// Time that a run has at least.
const LEAST: Duration = Duration::from_millis(50);

/// A server with what it needs to make and judge runs.
#[derive(Debug)]
pub struct Bench<'a> {
    server: Server,
    oracle: Option<&'a str>,
    timeout: Duration,
    /// When runs are cut short, whatever their time.
    deadline: Option<Instant>,
}

impl<'a> Bench<'a> {
    /// Starts a server in a directory of its own.
    pub fn start(
        inputs: &Inputs,
        images: &[ImageSpec],
        interventions: &Interventions,
        dir: &Path,
        oracle: Option<&'a str>,
        timeout: Duration,
    ) -> Result<Bench<'a>, ExploreError> {
        std::fs::create_dir_all(dir).map_err(ExploreError::Dir)?;
        let mut plan = PlanSpec::new(Observe::Nothing, dir);
        plan.images = interventions.armed(images);
        plan.interventions = interventions.in_plan();
        Ok(Bench { server: Server::start(inputs, &plan, dir)?, oracle, timeout, deadline: None })
    }

    /// The same, with runs that are cut short when `stop` says so: nobody knows how such a run would have ended.
    pub fn until(mut self, stop: &Stop) -> Bench<'a> {
        self.deadline = stop.deadline();
        self
    }

    /// Makes a run and judges it.
    pub fn run(&mut self, request: &ControlRequest) -> Result<(ControlledRun, Outcome, Option<Wrong>), ExploreError> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).max(LEAST));
        let run = self.server.run(request, left.map_or(self.timeout, |left| left.min(self.timeout)))?;
        if run.end == End::TimedOut && left.is_some_and(|left| left < self.timeout) {
            return Ok((run, Outcome::Unknown, None));
        }
        let mut label = outcome(&run);
        if let (Some(oracle), Outcome::Pass | Outcome::Fail { .. }) = (self.oracle, label) {
            label = ask_oracle(oracle, self.server.dir(), run.end)?;
        }
        let wrong = wrong(&run, &label, self.server.dir());
        Ok((run, label, wrong))
    }

    /// Where the last run's output is.
    pub fn dir(&self) -> &Path {
        self.server.dir()
    }
}

/// What the run with this number is to do.
fn request(options: &ExploreOptions, kind: StrategyKind, number: u64, length: u64) -> ControlRequest {
    let kind = if number == 1 { StrategyKind::Replay } else { kind };
    let mut seed = options.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed ^= seed >> 31;
    // Turns of different lengths, or every run would be the same.
    let quantum = u32::try_from(number.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
    let spec = Spec { kind, seed, depth: options.depth, length, quantum, ..Spec::default() };
    ControlRequest {
        spec,
        script: Vec::new(),
        log: Log::Switches,
        most_steps: options.most_steps,
        until: None,
        world: options.world,
    }
}

/// Explores a program.
pub fn explore(
    prepared: &Prepared,
    options: &ExploreOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Explored),
) -> Result<Explored, ExploreError> {
    match options.strategy {
        Strategy::Sampled(kind) => sample(prepared, options, kind, stop, each),
        Strategy::Bounded(preemptions) => search(prepared, options, preemptions, stop, each),
    }
}

/// The server with this number.
fn bench<'a>(
    prepared: &Prepared,
    options: &'a ExploreOptions,
    job: usize,
    stop: &Stop,
) -> Result<Bench<'a>, ExploreError> {
    let dir = prepared.scratch.path().join(format!("server-{job}"));
    let oracle = options.oracle.as_deref();
    let bench =
        Bench::start(&prepared.inputs, &prepared.images, &options.interventions, &dir, oracle, options.timeout)?;
    Ok(bench.until(stop))
}

/// Makes the run with this number; a second time where that is asked for.
fn one(
    bench: &mut Bench<'_>,
    options: &ExploreOptions,
    kind: StrategyKind,
    number: u64,
    length: u64,
) -> Result<Done, ExploreError> {
    let mut request = request(options, kind, number, length);
    if options.check_determinism {
        request.log = Log::All;
    }
    let (run, outcome, wrong) = bench.run(&request)?;
    let mut difference = None;
    if options.check_determinism {
        let (again, ..) = bench.run(&request)?;
        difference = first_difference(&run.answer.log, &again.answer.log);
    }
    Ok(Done { number, outcome, wrong, run, spec: request.spec, difference })
}

fn is_over(options: &ExploreOptions, explored: &Explored, begin: Instant, stop: &Stop) -> bool {
    stop.is_set()
        || options.budget.is_some_and(|budget| begin.elapsed() >= budget)
        || (options.stop_on_first && !explored.failures.is_empty())
}

fn sample(
    prepared: &Prepared,
    options: &ExploreOptions,
    kind: StrategyKind,
    stop: &Stop,
    each: &mut dyn FnMut(&Explored),
) -> Result<Explored, ExploreError> {
    let begin = Instant::now();
    let mut explored = Explored::default();
    let mut first = bench(prepared, options, 0, stop)?;
    let done = one(&mut first, options, kind, 1, 0)?;
    let length = done.run.answer.steps.max(2);
    explored.add(done, prepared);
    let next = AtomicU64::new(2);
    let over = std::sync::atomic::AtomicBool::new(false);
    let mut problem = None;
    std::thread::scope(|scope| {
        let (send, results) = mpsc::sync_channel::<Result<Done, ExploreError>>(64);
        let jobs = options.jobs.clamp(1, 64).min(usize::try_from(options.schedules).unwrap_or(usize::MAX));
        let mut ready = Some(first);
        for job in 0..jobs {
            let (send, next, over) = (send.clone(), &next, &over);
            let mut own = ready.take();
            scope.spawn(move || {
                let mut work = || -> Result<Option<Done>, ExploreError> {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > options.schedules || over.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                    if own.is_none() {
                        own = Some(bench(prepared, options, job, stop)?);
                    }
                    let Some(bench) = &mut own else { return Ok(None) };
                    Ok(Some(one(bench, options, kind, number, length)?))
                };
                while let Some(result) = work().transpose() {
                    let failed = result.is_err();
                    if send.send(result).is_err() || failed {
                        break;
                    }
                }
            });
        }
        drop(send);
        while let Ok(result) = results.recv() {
            match result {
                Ok(done) => explored.add(done, prepared),
                Err(error) => {
                    problem.get_or_insert(error);
                    over.store(true, Ordering::Relaxed);
                }
            }
            explored.elapsed = begin.elapsed();
            each(&explored);
            if is_over(options, &explored, begin, stop) {
                over.store(true, Ordering::Relaxed);
            }
        }
    });
    explored.elapsed = begin.elapsed();
    match problem {
        Some(problem) => Err(problem),
        None => Ok(explored),
    }
}

fn search(
    prepared: &Prepared,
    options: &ExploreOptions,
    preemptions: u32,
    stop: &Stop,
    each: &mut dyn FnMut(&Explored),
) -> Result<Explored, ExploreError> {
    let begin = Instant::now();
    let mut explored = Explored::default();
    let mut bench = bench(prepared, options, 0, stop)?;
    let mut search = Search::new(preemptions);
    while explored.schedules() < options.schedules && !is_over(options, &explored, begin, stop) {
        let Some(schedule) = search.next() else {
            explored.complete = search.complete();
            explored.exhaustive = search.exhaustive();
            break;
        };
        let mut request = request(options, StrategyKind::Replay, 1, 0);
        request.script = schedule.iter().map(crate::clip::bare).collect();
        request.log = Log::All;
        let (run, outcome, wrong) = bench.run(&request)?;
        if let Err(why) = search.learn(&run.answer.log) {
            explored.nondeterministic = Some(differs::fault(prepared, &why));
        }
        let number = explored.schedules() + 1;
        explored.add(Done { number, outcome, wrong, run, spec: request.spec, difference: None }, prepared);
        explored.elapsed = begin.elapsed();
        each(&explored);
        if explored.nondeterministic.is_some() {
            break;
        }
    }
    Ok(explored)
}

/// The inputs of a program that is started here and now, with its standard input in a file.
pub fn inputs_here(program: &Path, argv: Vec<std::ffi::OsString>, stdin: PathBuf) -> std::io::Result<Inputs> {
    let ours = |key: &std::ffi::OsString| key.to_string_lossy().starts_with("SELVEDGE_");
    Ok(Inputs {
        program: program.to_owned(),
        argv,
        dir: std::env::current_dir()?,
        env: std::env::vars_os().filter(|(key, _)| !ours(key)).collect(),
        stdin,
    })
}
