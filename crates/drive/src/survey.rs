//! Survey runs: which sites touch memory that threads share.
//!
//! What they saw is kept per build-id and arguments, and used again as long as all images are the
//! same. An image that carries no site table shows itself only once it is loaded; then the survey runs
//! again with a plan that brings the table along.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_events::plan::Observe;
use selvedge_events::{HookIx, bytes, site_table};
use selvedge_image::Image;
use selvedge_trace::survey::Seen;
use selvedge_trace::{OpenRunError, Run, Survey};
use serde::{Deserialize, Serialize};

use crate::arm::{Armed, ImageSites, arm, arm_controlled};
use crate::guard::keys::ImageFile;
use crate::guest_input::GuestInput;
use crate::own_time::{idle_plan, timed};
use crate::plan::{ImageSpec, PlanSpec, WritePlanError};
use crate::program::{Program, hex, unhex};
use crate::run::{End, Guest, GuestOutput, RunGuestError, RunRequest, Stop, run_guest};
use crate::store::{Store, StoreError, write_whole};
use crate::untraced::Untraced;

/// Version of the survey file.
///
/// 1: first.
const VERSION: u32 = 2;

/// Why there is no survey.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurveyError {
    /// A file of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan.
    #[error("cannot write the survey's plan")]
    Plan(#[from] WritePlanError),
    /// The guest.
    #[error(transparent)]
    Guest(#[from] RunGuestError),
    /// The trace.
    #[error("cannot read what the survey run left")]
    Trace(#[source] OpenRunError),
    /// No process left a trace.
    #[error("`{}` left no trace: {why}", program.display())]
    NotInstrumented {
        /// The program.
        program: PathBuf,
        /// Why, and what to do.
        why: Untraced,
    },
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

/// What to survey.
#[derive(Debug)]
pub struct SurveyRequest<'a> {
    /// The program and its arguments.
    pub guest: &'a Guest,
    /// Its file.
    pub program: &'a Program,
    /// Where surveys are kept.
    pub store: &'a Store,
    /// How many runs.
    pub runs: u32,
    /// Whether to survey even if a kept survey would do.
    pub fresh: bool,
    /// Most time for each run.
    pub timeout: Option<Duration>,
    /// Memory that the runtime may use for itself, in MiB.
    pub memory_limit_mb: u32,
    /// Set when the user wants to stop.
    pub stop: &'a Stop,
}

/// A survey with the images that it speaks of.
#[derive(Debug)]
pub struct Surveyed {
    /// What was seen.
    pub survey: Survey,
    /// The instrumented images.
    pub images: Vec<ImageSites>,
    /// Runs that it sums up.
    pub runs: u32,
    /// Whether it was kept from before.
    pub kept: bool,
    /// How the last run ended, where there was one.
    pub end: Option<End>,
    /// Whether a run could not write what it saw: the survey is then not kept.
    pub lost: bool,
    /// Whether the runs were started by hand.
    pub by_hand: bool,
}

impl Surveyed {
    /// Where the images are.
    pub fn files(&self) -> Vec<ImageFile> {
        self.images.iter().map(ImageFile::from).collect()
    }

    /// Chooses and numbers the sites to arm; none where nothing is known of what ran.
    pub fn arm(&self) -> (Vec<ImageSpec>, Armed) {
        if self.lost {
            return (self.images.iter().filter_map(ImageSites::table_spec).collect(), Armed::default());
        }
        arm(&self.survey, &self.images)
    }

    /// As [`Surveyed::arm`], for controlled runs.
    pub fn arm_controlled(&self) -> (Vec<ImageSpec>, Armed) {
        if self.lost {
            return self.arm();
        }
        arm_controlled(&self.survey, &self.images)
    }
}

/// How many runs that a signal ended are made again.
const MOST_CUT: u32 = 3;

/// Surveys a program, or takes the kept survey.
pub fn survey(
    request: &SurveyRequest<'_>,
    input: &mut GuestInput,
    each: &mut dyn FnMut(u32),
) -> Result<Surveyed, SurveyError> {
    let file = request.store.survey_file(&key(request));
    if !request.fresh
        && let Some((survey, runs)) = load(&file)
        && runs >= request.runs
        && let Some(images) = images_of(&survey, request.program)
    {
        return Ok(Surveyed { survey, images, runs, kept: true, end: None, lost: false, by_hand: false });
    }
    if !request.fresh
        && let Some((survey, runs)) = by_hand(request)
        && let Some(images) = images_of(&survey, request.program)
    {
        return Ok(Surveyed { survey, images, runs, kept: true, end: None, lost: false, by_hand: true });
    }
    let mut tables = own_table(request);
    let mut survey = Survey::default();
    let mut images = Vec::new();
    let (mut done, mut cut, mut whole, mut end, mut lost) = (0, 0, false, None, false);
    while done < request.runs.max(1) {
        each(done + 1);
        let (ended, written) = run_once(request, &tables, input, &mut survey)?;
        end = Some(ended);
        whole |= !matches!(ended, End::Signal(_));
        lost |= !written;
        images = images_of(&survey, request.program).unwrap_or_default();
        let known = tables.len();
        for spec in images.iter().filter_map(ImageSites::table_spec) {
            tables.entry(spec.build_id.clone()).or_insert(spec);
        }
        // A run that met an image without its table does not count, unless that was all it could do; nor does one
        // that a crash cut short, as often as that may be chance.
        let is_cut = matches!(ended, End::Signal(_)) && cut < MOST_CUT;
        cut += u32::from(is_cut);
        if tables.len() == known && !is_cut {
            done += 1;
        }
    }
    if !whole {
        survey.doubt();
    }
    if !lost {
        save(&file, &survey, done)?;
    }
    Ok(Surveyed { survey, images, runs: done, kept: false, end, lost, by_hand: false })
}

/// How long the surveyed program takes by itself, in nanoseconds of processor time: as a run with nothing armed tells, which is made once
/// for a survey. `None` where it does not end within its time.
pub fn own_time(request: &SurveyRequest<'_>, input: &mut GuestInput) -> Result<Option<u64>, SurveyError> {
    let file = request.store.survey_file(&key(request)).with_extension("time");
    if !request.fresh
        && let Some(known) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok())
    {
        return Ok(Some(known).filter(|time| *time > 0));
    }
    let create = |source| StoreError::Create { path: request.store.dir().to_owned(), source };
    let dir = tempfile::Builder::new().prefix("time-").tempdir_in(request.store.dir()).map_err(create)?;
    let plan = dir.path().join("plan");
    write_whole(&plan, &idle_plan(dir.path())?)?;
    let run = RunRequest {
        guest: request.guest,
        plan: &plan,
        output: GuestOutput::Files(dir.path().to_owned()),
        timeout: request.timeout,
        stop: request.stop,
    };
    let time = timed(|| run_guest(&run, input))?;
    if request.stop.is_set() {
        return Err(SurveyError::Stopped);
    }
    write_whole(&file, format!("{}\n", time.unwrap_or(0)).as_bytes())?;
    Ok(time)
}

/// The table of a program that carries none.
fn own_table(request: &SurveyRequest<'_>) -> BTreeMap<Vec<u8>, ImageSpec> {
    let own = ImageSites::load(&request.program.path, &request.program.build_id);
    let spec = own.as_ref().and_then(ImageSites::table_spec);
    spec.into_iter().map(|spec| (spec.build_id.clone(), spec)).collect()
}

/// The plan of a survey whose traces go to `dir`.
fn plan_into(
    request: &SurveyRequest<'_>,
    tables: &BTreeMap<Vec<u8>, ImageSpec>,
    dir: &Path,
) -> Result<Vec<u8>, WritePlanError> {
    let mut plan = PlanSpec::new(Observe::Survey, dir);
    plan.memory_limit_mb = request.memory_limit_mb;
    plan.images = tables.values().cloned().collect();
    plan.to_bytes()
}

/// The plan under which a program that is started by hand is surveyed into `dir`.
pub fn survey_plan(request: &SurveyRequest<'_>, dir: &Path) -> Result<Vec<u8>, WritePlanError> {
    plan_into(request, &own_table(request), dir)
}

/// What surveys that were made by hand saw of this program, all together.
fn by_hand(request: &SurveyRequest<'_>) -> Option<(Survey, u32)> {
    let run = Run::open(&request.store.dir().join("survey/direct")).ok()?;
    let mut survey = Survey::default();
    for process in &run.processes {
        survey.add_process(process);
    }
    let seen = survey.images().get(&request.program.build_id).is_some_and(|image| !image.sites.is_empty());
    seen.then(|| (survey, u32::try_from(run.processes.len()).unwrap_or(u32::MAX)))
}

/// Makes one run; the answer says how it ended, and whether it could write what it saw.
fn run_once(
    request: &SurveyRequest<'_>,
    tables: &BTreeMap<Vec<u8>, ImageSpec>,
    input: &mut GuestInput,
    survey: &mut Survey,
) -> Result<(End, bool), SurveyError> {
    let create = |source| StoreError::Create { path: request.store.dir().to_owned(), source };
    let dir = tempfile::Builder::new().prefix("survey-").tempdir_in(request.store.dir()).map_err(create)?;
    let plan_file = dir.path().join("plan");
    write_whole(&plan_file, &plan_into(request, tables, dir.path())?)?;
    let run = RunRequest {
        guest: request.guest,
        plan: &plan_file,
        output: GuestOutput::Files(dir.path().to_owned()),
        timeout: request.timeout,
        stop: request.stop,
    };
    let (end, _) = run_guest(&run, input)?;
    if request.stop.is_set() {
        return Err(SurveyError::Stopped);
    }
    let run = match Run::open(dir.path()) {
        Err(OpenRunError::Empty { .. }) => {
            let program = request.program.path.clone();
            return Err(SurveyError::NotInstrumented { why: Untraced::of(&program), program });
        }
        other => other.map_err(SurveyError::Trace)?,
    };
    for process in &run.processes {
        survey.add_process(process);
    }
    let written = run.processes.iter().any(|process| process.file().has_survey());
    Ok((end, written))
}

/// The instrumented images of a survey; `None` where one is not the same any more. The program is the file that is to be run: the
/// surveyed one of that build-id may be a copy of it that was stripped.
fn images_of(survey: &Survey, program: &Program) -> Option<Vec<ImageSites>> {
    let mut images = Vec::new();
    for (build_id, image) in survey.images() {
        let path = if *build_id == program.build_id { &program.path } else { &image.path };
        match ImageSites::load_if_instrumented(path, build_id, !image.sites.is_empty()) {
            Some(sites) if !sites.entries.is_empty() => images.push(sites),
            None if !image.sites.is_empty() => return None,
            _ => {}
        }
    }
    Some(images)
}

impl ImageSites {
    /// As [`ImageSites::load`], but does not search images that name no hook.
    fn load_if_instrumented(path: &Path, build_id: &[u8], surely: bool) -> Option<ImageSites> {
        if !surely {
            let file = std::fs::read(path).ok()?;
            let names = |needle: &[u8]| file.windows(needle.len()).any(|window| window == needle);
            if !names(b"__tsan_") || Image::from_bytes(path, file).is_err() {
                return None;
            }
        }
        ImageSites::load(path, build_id)
    }
}

/// Names a survey: which build, with which arguments.
fn key(request: &SurveyRequest<'_>) -> String {
    let mut argv = Vec::new();
    for arg in &request.guest.args {
        argv.extend(arg.as_bytes());
        argv.push(0);
    }
    format!("{}-{:016x}", request.program.identity, bytes::checksum(&argv))
}

/// What is kept: offsets, hooks, flags and hits of the sites that ran.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    hooks: u32,
    runs: u32,
    images: Vec<KeptImage>,
}

#[derive(Serialize, Deserialize)]
struct KeptImage {
    build_id: String,
    path: PathBuf,
    /// offset, hook, shared, on the stack, hits
    sites: Vec<(u32, u8, bool, bool, u32)>,
}

fn save(file: &Path, survey: &Survey, runs: u32) -> Result<(), SurveyError> {
    let image = |(build_id, image): (&Vec<u8>, &selvedge_trace::survey::SurveyedImage)| KeptImage {
        build_id: hex(build_id),
        path: image.path.clone(),
        sites: image.sites.iter().map(|(at, seen)| (*at, seen.hook.0, seen.shared, seen.on_stack, seen.hits)).collect(),
    };
    let images = survey.images().iter().map(image).collect();
    let kept = Kept { version: VERSION, hooks: site_table::VERSION, runs, images };
    let text = serde_json::to_vec(&kept)
        .map_err(|error| StoreError::Write { path: file.to_owned(), source: io::Error::from(error) })?;
    Ok(write_whole(file, &text)?)
}

/// A kept survey; `None` where there is none, or none that this version can use.
fn load(file: &Path) -> Option<(Survey, u32)> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    if kept.version != VERSION || kept.hooks != site_table::VERSION {
        return None;
    }
    let mut survey = Survey::default();
    for image in kept.images {
        let build_id = unhex(&image.build_id)?;
        survey.image(&build_id, &image.path);
        for (offset, hook, shared, on_stack, hits) in image.sites {
            let hook = HookIx(hook);
            hook.get()?;
            survey.add(&build_id, &image.path, offset, Seen { hook, shared, on_stack, hits });
        }
    }
    Some((survey, kept.runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surveys_are_kept_whole() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("x.survey");
        let mut survey = Survey::default();
        survey.image(&[7; 20], Path::new("/lib/c"));
        let seen = Seen { hook: HookIx(3), shared: true, on_stack: false, hits: 12 };
        survey.add(&[9; 20], Path::new("/bin/p"), 0x1234, seen);
        save(&file, &survey, 2).expect("saved");
        assert_eq!(load(&file), Some((survey, 2)));
        std::fs::write(&file, "{\"version\":99}").expect("written");
        assert_eq!(load(&file), None);
        assert_eq!(load(&dir.path().join("none")), None);
    }
}
