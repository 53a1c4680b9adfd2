//! Detecting: runs of a program in which threads wait with their accesses announced, and races are seen in the act.
//!
//! Survey and arm as for a recording, but nothing is recorded: the runtime leaves a log ([`selvedge_trace::detect_log`]).
//! Each run learns from those before ([`lessons`]): near misses and races get more of the noise.

pub mod checked;
pub mod hot;
pub mod lessons;
pub mod payload;
pub mod refine;
pub mod watch;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use selvedge_analyze::sections::text::SectionFile;
use selvedge_events::bytes::checksum;
use selvedge_events::detect::{
    Aim, BranchHits, FLAG_ATOMICS, FLAG_EAGER, FLAG_SECTIONS, FLAG_VALUES, FLAG_VOLATILE, Heuristic, LOG_COUNTERS_ALL,
    LogCounter, NoiseKind, Part,
};
use selvedge_events::plan::{Intervene, Observe};
use selvedge_findings::{Outcome, Tally};
use selvedge_image::{Image, MarkKind, marks};
use selvedge_trace::DetectLog;
use selvedge_trace::detect_log::{ActRace, ActViolation, LoadedImage};

use crate::arm::ImageSites;
use crate::guest_input::GuestInput;
use crate::plan::{DEFAULT_MEMORY_LIMIT_MB, ImageSpec, PlanSpec};
use crate::program::{Program, hex};
use crate::record::RecordError;
use crate::run::{End, Guest, GuestOutput, RunRequest, Stop, ask_oracle, run_guest};
use crate::store::{Store, StoreError, write_whole};
use crate::survey::{SurveyRequest, own_time, survey};
use checked::{Branch, Checked};
use hot::Hot;
use lessons::Lessons;
use payload::NoiseSpec;
use watch::{SMALL_BUDGET, Wanted, WatchedSite, begin_off, watched};

/// How threads wait and where.
#[derive(Clone, Debug)]
pub struct DetectOptions {
    /// Runs.
    pub runs: u32,
    /// How threads wait.
    pub noise: NoiseKind,
    /// Where.
    pub heuristic: Heuristic,
    /// Waits in a thousand accesses; `None`: few, and more when a thread begins.
    pub strength: Option<u16>,
    /// The same at suspects.
    pub aimed: u16,
    /// How long, about; `None`: short in one run, longer in the next (`DURATIONS`).
    pub duration: Option<Duration>,
    /// Most overhead, in millionths of the processor time.
    pub budget: Option<u32>,
    /// Decides all that is left to chance; the next run has the next seed.
    pub seed: u64,
    /// Whether to begin with what earlier commands learnt.
    pub again: bool,
    /// Whether runs learn from those before.
    pub learn: bool,
    /// What is watched beside plain accesses.
    pub wanted: Wanted,
    /// Whether values that changed while nobody was seen are told.
    pub values: bool,
    /// Most time for each run.
    pub timeout: Option<Duration>,
    /// Survey runs.
    pub survey_runs: u32,
    /// Whether to survey even if a kept survey would do.
    pub resurvey: bool,
    /// Write the plan here and run nothing.
    pub plan_only: Option<PathBuf>,
    /// Whether the program's output is thrown away.
    pub silent: bool,
    /// Runs made before, which decides how long threads wait.
    pub first_run: u32,
    /// Atomic sections to check.
    pub sections: Option<SectionFile>,
    /// Says how a run went, where its exit does not.
    pub oracle: Option<String>,
    /// What the program reads; our own standard input where nothing is named.
    pub stdin: Option<PathBuf>,
}

impl Default for DetectOptions {
    fn default() -> DetectOptions {
        DetectOptions {
            runs: 1,
            noise: NoiseKind::Sleep,
            heuristic: Heuristic::Random,
            strength: None,
            aimed: 500,
            duration: None,
            budget: Some(250_000),
            seed: 1,
            again: false,
            learn: true,
            wanted: Wanted::default(),
            values: false,
            timeout: None,
            survey_runs: 1,
            resurvey: false,
            plan_only: None,
            silent: false,
            first_run: 0,
            sections: None,
            oracle: None,
            stdin: None,
        }
    }
}

/// How long threads wait, run by run, where nothing else was asked for: what is close together is found soonest by many
/// short waits, what is far apart only by long ones.
const DURATIONS: [Duration; 4] =
    [Duration::from_micros(200), Duration::from_millis(2), Duration::from_millis(20), Duration::from_millis(60)];
/// Waits in a thousand accesses, where nothing else was asked for.
const USUAL_STRENGTH: u16 = 20;
/// How close in time a near miss is.
const WINDOW_NS: u32 = 2_000_000;

/// A pair of sites that raced.
#[derive(Clone, Debug)]
pub struct Found {
    /// As it was first seen.
    pub race: ActRace,
    /// The images of that process.
    pub images: Vec<LoadedImage>,
    /// The run and its seed.
    pub run: u32,
    /// The seed of its noise.
    pub seed: u64,
    /// How often in all runs.
    pub count: u64,
    /// In how many runs.
    pub runs: u32,
}

/// A broken section.
#[derive(Clone, Debug)]
pub struct Broken {
    /// As it was first seen.
    pub violation: ActViolation,
    /// The images of that process.
    pub images: Vec<LoadedImage>,
    /// The seed of that run's noise.
    pub seed: u64,
    /// How often in all runs.
    pub count: u64,
    /// In how many runs.
    pub runs: u32,
    /// Of these, runs that did not pass.
    pub failed: u32,
}

/// A run, in short.
#[derive(Clone, Debug, Default)]
pub struct OneRun {
    /// Times that two threads were seen at one location at once.
    pub races: u64,
    /// Addresses at which, by image and offset or by themselves.
    pub variables: usize,
    /// Seconds.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What came of each branch of the checked sections.
    pub branches: Vec<BranchHits>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Detected {
    /// How runs ended.
    pub tally: Tally,
    /// How the last one ended.
    pub last: Option<Outcome>,
    /// Every pair, as first seen.
    pub found: Vec<Found>,
    /// Every broken section, as first seen.
    pub broken: Vec<Broken>,
    /// The ways through the checked sections.
    pub branches: Vec<Branch>,
    /// All watched sites, by id.
    pub sites: Vec<WatchedSite>,
    /// Sums of all counters.
    pub counters: BTreeMap<&'static str, u64>,
    /// Each run.
    pub each: Vec<OneRun>,
    /// Suspects for the next time.
    pub suspects: usize,
    /// Time taken.
    pub elapsed: Duration,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// The program.
    pub program: PathBuf,
    /// Its build-id.
    pub build_id: Vec<u8>,
}

impl Detected {
    /// A sum.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        let name = LOG_COUNTERS_ALL.get(counter as usize).map_or("", |(_, name, _)| name);
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// What happens.
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
    Watching {
        /// How many.
        sites: usize,
        /// Of these, suspects.
        suspects: usize,
    },
    /// Functions that do not always run with hooks, for the budget's sake.
    Hot(&'a Hot),
    /// Sections are checked.
    Checking {
        /// How many.
        sections: usize,
        /// Asked for, and not in this build.
        missing: usize,
        /// Whether the program declares sections of its own.
        declared: bool,
    },
    /// A plan was written.
    PlanWritten {
        /// Where its logs go.
        logs: PathBuf,
    },
    /// A run ended.
    Ran {
        /// All so far.
        detected: &'a Detected,
        /// Of how many.
        of: u32,
    },
}

/// Detects.
pub fn detect(
    store: &Store,
    guest: &Guest,
    options: &DetectOptions,
    stop: &Stop,
    each: &mut dyn FnMut(Step<'_>),
) -> Result<Detected, RecordError> {
    let begin = Instant::now();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = Program::find(&guest.program, &path)?;
    let found = Guest { program: program.path.clone().into_os_string(), args: guest.args.clone() };
    let create = |source| StoreError::Create { path: store.dir().to_owned(), source };
    let scratch = tempfile::Builder::new().prefix("detect-").tempdir_in(store.dir()).map_err(create)?;
    let mut input = match &options.stdin {
        Some(file) => GuestInput::Reopen(file.clone()),
        None => GuestInput::many(scratch.path().join("stdin")),
    };
    let request = SurveyRequest {
        guest: &found,
        program: &program,
        store,
        runs: options.survey_runs,
        fresh: options.resurvey,
        timeout: options.timeout,
        memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
        stop,
    };
    let surveyed = survey(&request, &mut input, &mut |run| each(Step::Surveying { run, of: options.survey_runs }))?;
    let declared = surveyed.images.iter().any(declares);
    let checks = options.sections.is_some() || declared;
    // Sections may be of any accesses; which of them can race is for the runtime to tell.
    let wanted = if checks { Wanted { atomics: true, volatile: true } } else { options.wanted };
    let (mut images, mut sites) = watched(&surveyed, wanted);
    let checked = match &options.sections {
        Some(file) => Checked::of(&program.path, file)?,
        None => Checked::default(),
    };
    let watching = sites.len();
    let all = surveyed.survey.images().values().flat_map(|image| image.sites.values()).map(|site| u64::from(site.hits));
    // Sections are followed through calls, so their functions stay as they are.
    let hot = match options.budget.filter(|_| !checks) {
        Some(budget) => {
            let bodies = hot::bodies(&surveyed.images, &surveyed.survey, &images);
            let is_felt = hot::is_felt(&bodies);
            let known = if is_felt && !surveyed.by_hand { own_time(&request, &mut input)? } else { None };
            let time = known.unwrap_or_else(|| hot::presumed_time(&surveyed.survey));
            if is_felt { Hot::new(bodies, time, budget) } else { Hot::default() }
        }
        None => Hot::default(),
    };
    let begin_off = if hot.is_empty() { begin_off(all.sum(), &sites, options.budget) } else { 0 };
    let parts = checked.arm(&mut images, &mut sites);
    hot.arm(&mut images, u32::try_from(sites.len() + hot.count()).unwrap_or(u32::MAX));
    let branches = u32::try_from(checked.branches.len()).unwrap_or(u32::MAX);
    let armed = Armed { images, parts, branches, checks, begin_off, hot };
    let lessons_file = lessons_file(store, &program, &found);
    let mut lessons = if options.again { Lessons::load(&lessons_file) } else { Lessons::default() };
    each(Step::Watching { sites: watching, suspects: lessons.suspects() });
    each(Step::Hot(&armed.hot));
    let mut detected =
        Detected { sites, program: program.path.clone(), build_id: program.build_id.clone(), ..Detected::default() };
    if checks {
        each(Step::Checking { sections: checked.sections, missing: checked.missing, declared });
    }
    detected.branches.clone_from(&checked.branches);
    if let Some(file) = &options.plan_only {
        let logs = store.direct_dir()?;
        let plan = plan(options, 0, &armed, &detected.sites, &lessons, &logs)?;
        write_whole(file, &plan)?;
        each(Step::PlanWritten { logs });
        return Ok(detected);
    }
    for number in 0..options.runs {
        if stop.is_set() {
            detected.stopped = true;
            break;
        }
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(scratch.path()).map_err(create)?;
        let plan_file = dir.path().join("plan");
        write_whole(&plan_file, &plan(options, number, &armed, &detected.sites, &lessons, dir.path())?)?;
        let output = match options.runs == 1 && !options.silent && options.oracle.is_none() {
            true => GuestOutput::Inherit,
            false => GuestOutput::Files(dir.path().to_owned()),
        };
        let run = RunRequest { guest: &found, plan: &plan_file, output, timeout: options.timeout, stop };
        let (end, duration) = run_guest(&run, &mut input)?;
        detected.stopped = end == End::Interrupted;
        let outcome = match (&options.oracle, end.outcome()) {
            (Some(command), Outcome::Pass | Outcome::Fail { .. }) => ask_oracle(command, dir.path(), end)?,
            (_, outcome) => outcome,
        };
        detected.tally.add(&outcome);
        detected.last = Some(outcome);
        let logs = DetectLog::all_in(dir.path()).map_err(create)?;
        let mut one = OneRun { seconds: duration.as_secs_f64(), outcome: Some(outcome), ..OneRun::default() };
        for mut log in logs {
            name_images(&mut log, &surveyed.images);
            add(&mut detected, &mut one, &log, number);
            if options.learn {
                lessons.learn(&log, &detected.sites);
            }
        }
        detected.each.push(one);
        detected.elapsed = begin.elapsed();
        each(Step::Ran { detected: &detected, of: options.runs });
    }
    detected.suspects = lessons.suspects();
    if options.learn {
        save(&lessons_file, &lessons).map_err(create)?;
    }
    detected.elapsed = begin.elapsed();
    Ok(detected)
}

/// The executable is known to itself by a path that means another file to us.
fn name_images(log: &mut DetectLog, known: &[ImageSites]) {
    for image in &mut log.images {
        if let Some(known) = known.iter().find(|known| known.build_id == image.build_id) {
            image.path.clone_from(&known.path);
        }
    }
}

fn save(file: &std::path::Path, lessons: &Lessons) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(file, lessons.text())
}

/// Where what was learnt of a program with these arguments is kept.
fn lessons_file(store: &Store, program: &Program, guest: &Guest) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let mut argv = Vec::new();
    for arg in &guest.args {
        argv.extend(arg.as_bytes());
        argv.push(0);
    }
    store.dir().join("detect").join(format!("{}-{:016x}.suspects", hex(&program.build_id), checksum(&argv)))
}

/// What a run arms.
struct Armed {
    images: Vec<ImageSpec>,
    /// What ids are to sections.
    parts: Vec<Vec<Part>>,
    branches: u32,
    checks: bool,
    /// Ids below this begin switched off.
    begin_off: u32,
    hot: Hot,
}

/// Whether an image's code declares sections of its own.
fn declares(image: &ImageSites) -> bool {
    let Ok(image) = Image::open(&image.path) else { return false };
    marks(&image).iter().any(|mark| mark.kind == MarkKind::Section)
}

fn plan(
    options: &DetectOptions,
    run: u32,
    armed: &Armed,
    sites: &[WatchedSite],
    lessons: &Lessons,
    out_dir: &std::path::Path,
) -> Result<Vec<u8>, RecordError> {
    let seed = options.seed.wrapping_add(u64::from(run));
    let turn_number = options.first_run.wrapping_add(run);
    let turn = DURATIONS.get(turn_number as usize % DURATIONS.len()).copied().unwrap_or_default();
    let duration = options.duration.unwrap_or(turn);
    let strength = options.strength.unwrap_or(USUAL_STRENGTH);
    let is_small = options.budget.is_some_and(|budget| budget <= SMALL_BUDGET);
    let most = MOST_AIMED[usize::from(!is_small)];
    let flag = |on: bool, flag: u16| if on { flag } else { 0 };
    let noise = NoiseSpec {
        seed,
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        budget: options.budget.map(|budget| if armed.hot.is_empty() { budget } else { budget - budget / 4 }),
        window_ns: WINDOW_NS,
        strength,
        aimed: if options.heuristic == Heuristic::Random { options.aimed.max(strength) } else { strength },
        kind: options.noise,
        heuristic: options.heuristic,
        flags: flag(options.strength.is_none(), FLAG_EAGER)
            | flag(options.wanted.atomics, FLAG_ATOMICS)
            | flag(options.values, FLAG_VALUES)
            | flag(armed.checks, FLAG_SECTIONS)
            | flag(options.wanted.volatile, FLAG_VOLATILE),
        sites: aims(options.heuristic, most, seed, sites, lessons),
        ranges: if options.heuristic == Heuristic::Variable { lessons.ranges() } else { Vec::new() },
        parts: armed.parts.clone(),
        branches: armed.branches,
        begin_off: armed.begin_off,
        hot: armed.hot.of_run(options.seed, turn_number),
    };
    let mut plan = PlanSpec::new(Observe::Nothing, out_dir);
    plan.images.clone_from(&armed.images);
    plan.interventions = vec![(Intervene::Noise, noise.to_bytes()?)];
    Ok(plan.to_bytes()?)
}

/// Watched accesses of a run above which those that are met seldom would hardly ever have their turn.
const MANY: u64 = 1_000_000;
/// A site is met seldom that makes no more than one in so many of them: by the cold-region hypothesis that is where races are left (LiteRace,
/// PLDI 2009).
const RARE: u64 = 256;

/// Most suspects that noise is aimed at in one run, where the budget is small and where it is not: others have their turn in the next one.
const MOST_AIMED: [usize; 2] = [6, 16];

/// How each site is watched: suspects by chance as their weight says, `most` of them.
fn aims(heuristic: Heuristic, most: usize, seed: u64, sites: &[WatchedSite], lessons: &Lessons) -> Vec<Aim> {
    let all: u64 = sites.iter().map(|site| u64::from(site.hits)).sum();
    let part = (most as f64 / lessons.suspects().max(1) as f64).min(1.0);
    let is_rare = |site: &WatchedSite| all > MANY && u64::from(site.hits) <= all / RARE;
    let mut chance = seed;
    let mut aim = |site: &WatchedSite| {
        chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let draw = (chance >> 33) as f64 / (1_u64 << 31) as f64;
        match heuristic {
            // A race may be far from where its variable is: only where one was seen.
            Heuristic::Location if lessons.raced(site) => Aim::Aimed,
            Heuristic::Location => Aim::Quiet,
            Heuristic::Random if draw < lessons.weight(site) * part => Aim::Aimed,
            Heuristic::Variable if lessons.raced(site) => Aim::Aimed,
            Heuristic::Random if is_rare(site) => Aim::Rare,
            Heuristic::Random | Heuristic::Variable => Aim::Usual,
        }
    };
    sites.iter().map(&mut aim).collect()
}

fn add(detected: &mut Detected, one: &mut OneRun, log: &DetectLog, run: u32) {
    for (counter, name, _) in LOG_COUNTERS_ALL {
        let (sum, one) = (detected.counters.entry(name).or_default(), log.counter(*counter));
        *sum = if *counter == LogCounter::CheckPs { one.max(*sum) } else { *sum + one };
    }
    one.races += log.counter(LogCounter::Races);
    let mut places: Vec<u64> = log.races.iter().map(|race| race.sides[0].addr >> 3).collect();
    places.sort_unstable();
    places.dedup();
    one.variables += places.len();
    one.branches.resize(one.branches.len().max(log.branches.len()), BranchHits::default());
    for (sum, hits) in one.branches.iter_mut().zip(&log.branches) {
        sum.seen = sum.seen.saturating_add(hits.seen);
        sum.broken = sum.broken.saturating_add(hits.broken);
    }
    for violation in &log.violations {
        let is_same = |known: &ActViolation| {
            let sites = |one: &ActViolation| (one.branch, one.begin.site, one.sides.each_ref().map(|side| side.site));
            sites(known) == sites(violation)
        };
        let failed = u32::from(one.outcome != Some(Outcome::Pass));
        match detected.broken.iter_mut().find(|known| is_same(&known.violation)) {
            Some(known) => {
                known.count += u64::from(violation.count);
                known.runs += 1;
                known.failed += failed;
            }
            None => detected.broken.push(Broken {
                violation: violation.clone(),
                images: log.images.clone(),
                seed: log.seed,
                count: u64::from(violation.count),
                runs: 1,
                failed,
            }),
        }
    }
    for race in &log.races {
        let sites = |race: &ActRace| {
            let mut sites = race.sides.each_ref().map(|side| side.site);
            sites.sort_unstable();
            sites
        };
        let known = detected.found.iter_mut().find(|found| sites(&found.race) == sites(race));
        match known {
            Some(found) => {
                found.count += u64::from(race.count);
                found.runs += 1;
                // The better evidence: values that changed.
                if !changed(&found.race) && changed(race) {
                    found.race = race.clone();
                    found.images.clone_from(&log.images);
                    (found.run, found.seed) = (run, log.seed);
                }
            }
            None => detected.found.push(Found {
                race: race.clone(),
                images: log.images.clone(),
                run,
                seed: log.seed,
                count: u64::from(race.count),
                runs: 1,
            }),
        }
    }
}

fn changed(race: &ActRace) -> bool {
    race.values.is_some_and(|(old, new)| old != new)
}
