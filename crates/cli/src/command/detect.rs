//! `selvedge detect`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use selvedge_analyze::sections::text::{self, SectionFile};
use selvedge_drive::confirm::Effort;
use selvedge_drive::control::World;
use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::detect::watch::Wanted;
use selvedge_drive::detect::{Broken, DetectOptions, Detected, Found, Step, detect};
use selvedge_drive::explore::DEFAULT_MOST_STEPS;
use selvedge_drive::hunt::{HuntOptions, base_clip, hunt};
use selvedge_drive::program::hex;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_events::detect::{Heuristic, LOG_COUNTERS_ALL, LogCounter, NoiseKind};
use selvedge_findings::{ExitCode, Finding, Harm, Kind, Program, Report};
use selvedge_report::in_act::{Images, InAct, SitePlace};
use selvedge_report::in_section::InSection;
use selvedge_report::shell::quoted;

use crate::args::DetectArgs;
use crate::command::guarding::counted;
use crate::command::hot;
use crate::command::made;
use crate::command::seen::{self, Seen};
use crate::messages::{Failure, Live, note};
use crate::outlet::{Outlet, of_runs};

/// Detects; exit code 66 where there are findings.
pub(crate) fn run(args: DetectArgs) -> Result<u8, Failure> {
    let mut outlet = Outlet::open(&args.output, "detect")?;
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.iter().cloned();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let options = DetectOptions {
        runs: args.runs,
        noise: NoiseKind::by_name(&args.noise).unwrap_or(NoiseKind::Sleep),
        heuristic: Heuristic::by_name(&args.heuristic).unwrap_or(Heuristic::Random),
        strength: args.strength,
        duration: args.duration,
        budget: args.overhead.0,
        seed: args.seed,
        again: args.again,
        wanted: Wanted { atomics: args.atomics, volatile: args.volatile },
        values: args.values,
        timeout: args.timeout,
        survey_runs: args.survey_runs,
        resurvey: args.resurvey,
        plan_only: args.plan_only.clone(),
        sections: args.sections.as_deref().map(read_sections).transpose()?,
        oracle: args.oracle.clone(),
        ..DetectOptions::default()
    };
    let (mut live, stop) = (Live::new(), Stop::on_signals());
    let mut each = |step: Step<'_>| match step {
        Step::Surveying { run, of } => note(&format!("survey run {run} of {of}")),
        Step::Watching { sites, suspects: 0 } => note(&format!("watching {sites} sites")),
        Step::Watching { sites, suspects } => note(&format!("watching {sites} sites, {suspects} of them suspects")),
        Step::Hot(functions) => hot::told(functions).iter().for_each(|line| note(line)),
        Step::Checking { sections, missing, declared } => note(&checking(sections, missing, declared)),
        Step::PlanWritten { logs } => note(&format!(
            "start the program with SELVEDGE_PLAN={}; logs go to {}",
            args.plan_only.as_deref().unwrap_or(Path::new("")).display(),
            logs.display()
        )),
        Step::Ran { detected, of } => {
            live.show(|| progress(detected, of));
            let found = |one: &Shown<'_>| !outlet.hides(&one.finding);
            if args.output.findings.halt_on_error && shown(detected).iter().any(found) {
                stop.set();
            }
        }
        _ => {}
    };
    let detected =
        detect(&store, &guest, &options, &stop, &mut each).map_err(|error| Failure::new(error.exit_code(), &error))?;
    live.end();
    if args.plan_only.is_some() {
        return Ok(ExitCode::Success.code());
    }
    let shown = shown(&detected);
    let sections = sections_shown(&detected);
    let all = shown.iter().map(|one| &one.finding).chain(sections.iter().map(|one| &one.finding));
    let ids: BTreeSet<String> = all.map(|finding| finding.id.clone()).collect();
    let clips = if args.no_clip || ids.is_empty() || detected.stopped {
        None
    } else {
        Some(pursue(&store, &guest, args.seed, &ids))
    };
    let mut all = tell_races(shown, &again(&args), clips.as_ref())?;
    all.extend(tell_sections(sections, &again(&args), clips.as_ref())?);
    let (hidden, all): (Vec<Seen>, Vec<Seen>) = all.into_iter().partition(|one| outlet.hides(&one.finding));
    let (text, bugs) = seen::told(&all);
    outlet.show(&text)?;
    summary(&detected, (all.len(), bugs.len()), &options);
    let mut findings = seen::grouped(&all, &bugs);
    findings.extend(hidden.into_iter().map(|one| one.finding));
    if args.counters {
        for (_, name, sentence) in LOG_COUNTERS_ALL {
            note(&format!("{:>14}  {sentence}", detected.counters.get(name).copied().unwrap_or(0)));
        }
    }
    let program = Program { path: detected.program.to_string_lossy().into_owned(), build_id: hex(&detected.build_id) };
    // A broken section that is shown counts, whether or not it did harm: somebody said that it is one.
    let asked = &args.output.findings;
    let broken = findings.iter().any(|finding| finding.kind == Kind::AtomicityViolation && !outlet.hides(finding));
    // Of a program that ran once and is clean, its own code.
    let otherwise = match detected.last {
        _ if broken && asked.exit_from != "guest" => asked.exit_code,
        _ if detected.stopped => 130,
        Some(outcome) if detected.tally.total() == 1 => outcome.exit_code(),
        _ => of_runs(&detected.tally.into()),
    };
    outlet.finish(Report::new(program, detected.tally.into(), findings), otherwise)
}

/// A race as it is shown: all pairs of sites that read the same in the source.
struct Shown<'a> {
    first: &'a Found,
    in_act: InAct,
    finding: Finding,
    count: u64,
    runs: u32,
}

/// Clips, by the findings' ids, or why there are none.
type Clips = Result<BTreeMap<String, (Finding, Vec<String>)>, String>;

/// Most time for looking for schedules.
const CLIP_BUDGET: Duration = Duration::from_secs(10);

/// Looks for schedules that make these races happen again, as a hunt does.
fn pursue(store: &Store, guest: &Guest, seed: u64, ids: &BTreeSet<String>) -> Clips {
    note("looking for schedules that make it happen again");
    let timeout = Duration::from_secs(5);
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(timeout) };
    let stop = Stop::default();
    let prepared = prepare(store, guest, &survey, &stop, &mut |_| {}).map_err(|error| error.to_string())?;
    let options = HuntOptions {
        runs: 4,
        budget: CLIP_BUDGET,
        keep_back: Duration::ZERO,
        oracle: None,
        seed,
        effort: Effort { chances: 2, limit: Duration::from_secs(2), timeout, seed },
        most_steps: DEFAULT_MOST_STEPS,
        world: World { random: Some(seed), ..World::default() },
        patterns: Vec::new(),
        jobs: 1,
    };
    let hunted = hunt(&prepared, &options, None, &stop, &mut |_| {}).map_err(|error| error.to_string())?;
    let clips = made::clips_of(&hunted, store, &base_clip(&prepared, &options), ids);
    clips.map_err(|_| "clips cannot be written".to_owned())
}

/// Everything that was seen, once for each place in the source.
fn shown(detected: &Detected) -> Vec<Shown<'_>> {
    let images = Images::default();
    let site = |id: u32| {
        let site = detected.sites.get(id as usize)?;
        Some(SitePlace { path: &site.path, build_id: &site.build_id, offset: site.offset })
    };
    let mut shown: BTreeMap<String, Shown<'_>> = BTreeMap::new();
    let mut order = Vec::new();
    for found in &detected.found {
        let in_act = InAct::of(&images, &found.race, &found.images, &site);
        let finding = in_act.finding();
        match shown.get_mut(&finding.id) {
            Some(known) => {
                known.count += found.count;
                known.runs = known.runs.max(found.runs);
            }
            None => {
                order.push(finding.id.clone());
                let one =
                    Shown { first: found, in_act, finding: finding.clone(), count: found.count, runs: found.runs };
                shown.insert(finding.id, one);
            }
        }
    }
    order.into_iter().filter_map(|id| shown.remove(&id)).collect()
}

/// A broken section as it is shown.
struct SectionShown<'a> {
    first: &'a Broken,
    in_section: InSection,
    finding: Finding,
    count: u64,
    runs: u32,
    failed: u32,
}

/// Every broken section, once for each place in the source: of several patterns the first is told.
fn sections_shown(detected: &Detected) -> Vec<SectionShown<'_>> {
    let images = Images::default();
    let site = |id: u32| {
        let site = detected.sites.get(id as usize)?;
        Some(SitePlace { path: &site.path, build_id: &site.build_id, offset: site.offset })
    };
    let mut shown: Vec<SectionShown<'_>> = Vec::new();
    for broken in &detected.broken {
        let branch = detected.branches.get(broken.violation.branch as usize);
        let pattern = branch.map_or("declared by the program", |branch| text::kind_word(branch.section.1));
        let in_section = InSection::of(&images, &broken.violation, &broken.images, &site, pattern);
        let finding = in_section.finding();
        match shown.iter_mut().find(|known| known.finding.id == finding.id) {
            Some(known) => {
                known.count = known.count.max(broken.count);
                known.runs = known.runs.max(broken.runs);
                known.failed = known.failed.max(broken.failed);
            }
            None => shown.push(SectionShown {
                first: broken,
                in_section,
                finding,
                count: broken.count,
                runs: broken.runs,
                failed: broken.failed,
            }),
        }
    }
    shown
}

/// Broken sections with their reports.
fn tell_sections(shown: Vec<SectionShown<'_>>, again: &str, clips: Option<&Clips>) -> Result<Vec<Seen>, Failure> {
    let mut seen = Vec::new();
    for one in shown {
        let how = match (one.failed, one.runs) {
            (0, _) => "which passed all the same: `selvedge refine` drops sections that are not meant".to_owned(),
            (failed, _) => format!("{failed} of which did not pass"),
        };
        let often = often(one.count, one.runs);
        let mut lines = vec![
            format!("Seen {often}, {how}; first with the noise of seed {}.", one.first.seed),
            format!("Look for it again: {again}"),
        ];
        let mut finding = one.finding;
        finding.replay = Some(again.to_owned());
        made_again(&mut finding, &mut lines, clips);
        let mut text = Vec::new();
        one.in_section.write(&lines, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        seen.push(Seen { finding, text, count: one.count, failed: one.failed, often });
    }
    Ok(seen)
}

/// `3 times in 2 runs`.
fn often(count: u64, runs: u32) -> String {
    format!("{} in {}", times(count, "time"), times(runs.into(), "run"))
}

fn times(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Adds the schedule that makes a finding happen again.
fn made_again(finding: &mut Finding, lines: &mut Vec<String>, clips: Option<&Clips>) {
    match clips {
        None => {}
        Some(Ok(clips)) => match clips.get(&finding.id) {
            Some((made, how)) => {
                (finding.harm, finding.clip, finding.replay) = (made.harm, made.clip.clone(), made.replay.clone());
                lines.push(match made.harm {
                    Harm::NoneSeen => "It was made to happen under control too:".to_owned(),
                    harm => format!("It was made to happen under control too; in that run {}:", harm.words()),
                });
                lines.extend(how.iter().cloned());
            }
            None => lines.push(NO_CLIP.to_owned()),
        },
        Some(Err(why)) => lines.push(format!("{NO_CLIP} ({why})")),
    }
}

/// A file of sections.
pub(crate) fn read_sections(file: &Path) -> Result<SectionFile, Failure> {
    let usage =
        |why: String| Failure::Error { code: ExitCode::Usage.code(), text: format!("{}: {why}", file.display()) };
    let bytes = std::fs::read(file).map_err(|error| usage(error.to_string()))?;
    text::parse(&bytes).map_err(|error| usage(error.to_string()))
}

fn checking(sections: usize, missing: usize, declared: bool) -> String {
    let mut words = match (sections, declared) {
        (0, true) => "checking the atomic sections that the program declares".to_owned(),
        (_, true) => format!("checking {sections} atomic sections, and those that the program declares"),
        (_, false) => format!("checking {sections} atomic sections"),
    };
    if missing > 0 {
        words.push_str(&format!("; {missing} that the file has are not in this build"));
    }
    words
}

/// Every race as a finding with its report, for a hunt that watched.
pub(crate) fn findings(detected: &Detected, guest: &Guest) -> Vec<(Finding, String)> {
    let words = std::iter::once(&guest.program).chain(&guest.args);
    let guest: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    let again =
        format!("selvedge detect --again --heuristic location --strength 1000 --runs 20 -- {}", guest.join(" "));
    let mut findings = Vec::new();
    for one in shown(detected) {
        let lines = vec![
            format!(
                "Seen {} in {}, first with the noise of seed {}.",
                times(one.count, "time"),
                times(one.runs.into(), "free run"),
                one.first.seed
            ),
            format!("Look for it again: {again}"),
        ];
        let mut finding = one.finding;
        finding.replay = Some(again.clone());
        let mut text = Vec::new();
        if one.in_act.write(&lines, &mut text).is_ok() {
            findings.push((finding, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    findings
}

/// Races with their reports.
fn tell_races(shown: Vec<Shown<'_>>, again: &str, clips: Option<&Clips>) -> Result<Vec<Seen>, Failure> {
    let mut seen = Vec::new();
    for one in shown {
        let often = often(one.count, one.runs);
        let mut lines = vec![
            format!("Seen {often}, first with the noise of seed {}.", one.first.seed),
            format!("Look for it again: {again}"),
        ];
        let mut finding = one.finding;
        finding.replay = Some(again.to_owned());
        made_again(&mut finding, &mut lines, clips);
        let mut text = Vec::new();
        one.in_act.write(&lines, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        seen.push(Seen { finding, text, count: one.count, failed: 0, often });
    }
    Ok(seen)
}

/// Where there is no clip.
const NO_CLIP: &str = "No schedule was found that makes it happen again; it was seen in a free run.";

fn again(args: &DetectArgs) -> String {
    let mut words = vec!["selvedge detect --again --heuristic location --strength 1000".to_owned()];
    if args.atomics {
        words.push("--atomics".to_owned());
    }
    if let Some(file) = &args.sections {
        words.push(format!("--sections {}", quoted(&file.to_string_lossy())));
    }
    words.push("--runs 20 --".to_owned());
    words.extend(args.guest.iter().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

fn progress(detected: &Detected, of: u32) -> String {
    let done = detected.tally.total();
    format!(
        "{done}/{of} runs, {} at {} of places",
        times(detected.counter(LogCounter::Races), "race"),
        counted(detected.found.len(), "pair")
    )
}

/// What was done and what it came to; of findings and bugs, those that are shown.
fn summary(detected: &Detected, (findings, bugs): (usize, usize), options: &DetectOptions) {
    let last = options.seed.wrapping_add(detected.tally.total().saturating_sub(1));
    note(&format!(
        "{} (seeds {} to {last}), {} pass, {} fail, {} hang; {}, {:.1} ms; {}, {}; {} for --again; {:.1} s",
        counted(usize::try_from(detected.tally.total()).unwrap_or(usize::MAX), "run"),
        options.seed,
        detected.tally.pass,
        detected.tally.fail,
        detected.tally.hang,
        times(detected.counter(LogCounter::Waits), "wait"),
        detected.counter(LogCounter::WaitedNs) as f64 / 1e6,
        times(detected.counter(LogCounter::Races), "race"),
        match detected.counter(LogCounter::Near) {
            1 => "1 near miss".to_owned(),
            near => format!("{near} near misses"),
        },
        counted(detected.suspects, "suspect"),
        detected.elapsed.as_secs_f64()
    ));
    if detected.counter(LogCounter::Entered) > 0 {
        note(&format!(
            "{} atomic sections began, {} came to an end, {} were broken",
            detected.counter(LogCounter::Entered),
            detected.counter(LogCounter::Ended),
            detected.counter(LogCounter::Violations)
        ));
    }
    match (findings, bugs) {
        (0, _) => note("nothing to report"),
        (1, _) => {}
        (findings, bugs) => note(&format!("{findings} findings of {}", counted(bugs, "bug"))),
    }
}
