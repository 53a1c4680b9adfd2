//! `selvedge patch`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::select::Selection;
use selvedge_drive::clip::Clip;
use selvedge_drive::control::World;
use selvedge_drive::controlled::{Prepared, SurveyOptions, of_clip, prepare};
use selvedge_drive::explore::{DEFAULT_MOST_STEPS, ExploreOptions};
use selvedge_drive::guard::compile::{GuardHow, Mode};
use selvedge_drive::guard::deploy::deploy;
use selvedge_drive::guard::file::save;
use selvedge_drive::guard::patch::{CheckOptions, Checked, Line, Patch, Target, check, make};
use selvedge_drive::guard::train::{Schedules, TrainOptions};
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Finding, Kind, Report};

use crate::args::PatchArgs;
use crate::command::explain;
use crate::command::guarding::counted;
use crate::command::latest::clip_or_latest;
use crate::messages::{Failure, Live, note};

/// What is to be patched.
struct Subject {
    prepared: Prepared,
    clip: Option<(Clip, PathBuf)>,
    target: Target,
}

/// Makes a guard for one bug, and checks it; 0 only where it held.
pub(crate) fn run(args: &PatchArgs) -> Result<u8, Failure> {
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let stop = Stop::on_signals();
    let subject = match &args.finding {
        Some(finding) => of_finding(args, finding)?,
        None if args.site.is_empty() => of_finding(args, &clip_or_latest(None)?)?,
        None => of_lines(args, &store, &stop)?,
    };
    let Subject { prepared, clip, target } = &subject;
    note(&format!("guarding {target} and what touches the same memory"));
    let world = clip.as_ref().map_or(World { random: Some(args.seed), ..World::default() }, |(clip, _)| clip.world);
    let oracle = clip.as_ref().map_or(&args.oracle, |(clip, _)| &clip.oracle).clone();
    let most_steps = clip.as_ref().map_or(DEFAULT_MOST_STEPS, |(clip, _)| clip.most_steps);
    let options = TrainOptions {
        runs: args.runs,
        until_converged: false,
        enough: None,
        oracle: oracle.clone(),
        timeout: args.timeout,
        schedules: Schedules::Controlled,
        seed: args.seed,
        most_steps,
        world,
        colours: BTreeSet::new(),
        selection: Selection::default(),
    };
    let explore = ExploreOptions {
        // Other schedules than those of the training.
        seed: args.seed.wrapping_add(0x5eed),
        oracle,
        timeout: args.timeout,
        most_steps,
        world,
        ..ExploreOptions::default()
    };
    let checks = CheckOptions { schedules: args.schedules, against: true, explore };
    let how = GuardHow { mode: Mode::Guard, stall: args.stall };
    let the_clip = clip.as_ref().map(|(clip, _)| clip);
    let patch =
        make(prepared, the_clip, target, (&options, &how), &checks, &stop).map_err(|error| Failure::usage(&error))?;
    let Patch { invariants, guard, images, .. } = &patch;
    let (file, plan) = outputs(args, &prepared.program.path);
    save(&file, invariants).map_err(|error| Failure::usage(&error))?;
    let deployed = deploy(&store, guard, images, (&prepared.program, &file), Some(&plan))
        .map_err(|error| Failure::usage(&error))?;
    note(&format!(
        "learnt from {}: {}, {}",
        counted(patch.runs, "passing run"),
        counted(invariants.sites.len(), "site"),
        counted(invariants.members(), "member")
    ));
    for colour in &invariants.colours {
        note(&format!("guarded as one: {}", colour.name));
    }
    if patch.tight {
        note(
            "more runs would let the failure pass; other orders that are right may have to wait, `selvedge relax` takes them in",
        );
    }
    let mut live = Live::new();
    let mut each = |tally: &selvedge_findings::Tally| {
        live.show(|| format!("checking: {}/{} schedules, {} pass", tally.total(), args.schedules, tally.pass));
    };
    let checked =
        check(guard, prepared, the_clip, &checks, &stop, &mut each).map_err(|error| Failure::usage(&error))?;
    live.end();
    let mut out = anstream::stdout().lock();
    for line in tell(&checked, clip.as_ref().map(|(_, path)| path.as_path())) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "invariants: {}", file.display())?;
    writeln!(out, "start with: SELVEDGE_PLAN={} {}", deployed.plan.display(), prepared.program.path.display())?;
    writeln!(out, "look at:    selvedge guard --log {}", deployed.logs.display())?;
    out.flush()?;
    Ok(match (checked.is_verified(), stop.is_set()) {
        (_, true) => 130,
        (true, false) => ExitCode::Success.code(),
        (false, false) => ExitCode::SomeFailed.code(),
    })
}

/// What was seen, without comfort.
fn tell(checked: &Checked, clip: Option<&Path>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((outcome, wrong)) = &checked.replayed {
        let path = clip.map_or_else(String::new, |path| path.display().to_string());
        let came = wrong.as_ref().map_or_else(|| outcome.to_string(), |wrong| format!("{outcome}: {wrong}"));
        lines.push(format!("{path} with the guard: {came}"));
    }
    let (with, without) = (&checked.with, &checked.without);
    lines.push(format!(
        "{} fresh schedules with the guard: {} passed, {} failed, {} hung",
        with.total(),
        with.pass,
        with.fail,
        with.hang
    ));
    lines.push(format!("the same without it: {} passed, {} failed, {} hung", without.pass, without.fail, without.hang));
    if let Some(wrong) = &checked.failure {
        lines.push(format!("the first failure with the guard: {wrong}"));
    }
    lines.push(if checked.is_verified() {
        "verified: no run with the guard failed".to_owned()
    } else {
        "not verified: do not rely on this guard".to_owned()
    });
    if without.fail + without.hang == 0 {
        lines.push("no fresh schedule failed without it either: they say little".to_owned());
    }
    lines
}

/// Where the invariants and the plan go.
fn outputs(args: &PatchArgs, program: &Path) -> (PathBuf, PathBuf) {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.patch.invariants")));
    let plan = file.with_extension("plan");
    (file, plan)
}

fn of_lines(args: &PatchArgs, store: &Store, stop: &Stop) -> Result<Subject, Failure> {
    let line = |text: &String| {
        let wrong = || Failure::Error {
            code: ExitCode::Usage.code(),
            text: format!("`{text}` is no place: write FILE:LINE, such as bank.c:17"),
        };
        Line::parse(text).ok_or_else(wrong)
    };
    let lines = args.site.iter().map(line).collect::<Result<BTreeSet<Line>, Failure>>()?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(args.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of 1"));
    let prepared = prepare(store, &guest, &survey, stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let target = Target { lines, functions: BTreeSet::new() };
    Ok(Subject { prepared, clip: None, target })
}

fn of_finding(args: &PatchArgs, finding: &Path) -> Result<Subject, Failure> {
    let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
    let mut path = finding.to_owned();
    let mut known = None;
    if let Some((file, id)) = findings_file(finding) {
        let one = finding_of(&file, id.as_deref())?;
        let clip = one.clip.clone().ok_or_else(|| {
            usage(format!("the finding {} of `{}` has no clip: hunt or explore makes them", one.id, file.display()))
        })?;
        path = PathBuf::from(clip);
        known = Some(one);
    }
    let clip = Clip::load(&path).map_err(|error| Failure::usage(&error))?;
    clip.check_build().map_err(|error| Failure::usage(&error))?;
    if clip.wrong.is_none() {
        return Err(usage(format!("`{}` did not fail: there is nothing to patch", path.display())));
    }
    let found = match known.filter(|finding| !finding.accesses.is_empty()) {
        Some(finding) => finding,
        None => {
            let nothing = Interventions::default();
            let small = explain::smaller(&clip, &nothing, 400, args.timeout, &Stop::default())?;
            let which = small.as_ref().map_or(&clip, |small| &small.clip);
            explain::explain(which, &nothing, small.as_ref(), &[], args.timeout)?.finding
        }
    };
    if matches!(found.kind, Kind::Deadlock | Kind::LostWakeup) {
        return Err(usage(format!(
            "a guard puts accesses in order; this failure is a {}, and no order of accesses keeps threads from it",
            found.kind.words()
        )));
    }
    let line = |access: &selvedge_findings::Access| Some(Line { file: access.file.clone()?, line: access.line? });
    let lines: BTreeSet<Line> = found.accesses.iter().filter_map(line).collect();
    if lines.is_empty() {
        return Err(usage("which accesses decide is not known: name their lines with --site FILE:LINE".to_owned()));
    }
    let prepared = of_clip(&clip).map_err(|error| Failure::new(error.exit_code(), &error))?;
    let functions = found.accesses.iter().filter_map(|access| access.function.clone()).collect();
    Ok(Subject { prepared, clip: Some((clip, path)), target: Target { lines, functions } })
}

/// `FILE.json`, or `FILE.json#ID`.
fn findings_file(finding: &Path) -> Option<(PathBuf, Option<String>)> {
    let text = finding.to_string_lossy();
    let (file, id) = match text.rsplit_once('#') {
        Some((file, id)) if !finding.exists() => (PathBuf::from(file), Some(id.to_owned())),
        _ => (finding.to_owned(), None),
    };
    file.extension().is_some_and(|extension| extension == "json").then_some((file, id))
}

fn finding_of(file: &Path, id: Option<&str>) -> Result<Finding, Failure> {
    let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
    let bytes = std::fs::read(file).map_err(|error| Failure::usage(&error))?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|error| Failure::usage(&error))?;
    let wanted = |finding: &Finding| id.map_or(finding.clip.is_some(), |id| finding.id.starts_with(id));
    let mut found: Vec<Finding> = report.findings.into_iter().filter(wanted).collect();
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    match ids.as_slice() {
        [_] => found.pop().ok_or_else(|| usage("no finding".to_owned())),
        [] => Err(usage(format!("`{}` has no such finding with a clip", file.display()))),
        several => Err(usage(format!("`{}` has several: {}; name one with #ID", file.display(), several.join(", ")))),
    }
}
