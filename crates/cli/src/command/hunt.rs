//! `selvedge hunt`: records, predicts, makes happen, watches, ranks and guards, in a budget; can be interrupted and go on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::{Prepared, SurveyOptions, clips_dir, prepare, prepare_with};
use selvedge_drive::hunt::kept::{Asked, Kept, VERSION};
use selvedge_drive::hunt::{HuntOptions, Hunted, base_clip, hunt};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::baseline::Baseline;
use selvedge_findings::{ExitCode, Finding, RankedPoint, Report};

use crate::args::{Cli, Command, HuntArgs};
use crate::command::bugs::{Bugs, HowShown};
use crate::command::guarding::counted;
use crate::command::phases::{self, Hunting};
use crate::command::pursued;
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;
use crate::settings;

/// Hunts, or goes on with a hunt.
pub(crate) fn run(args: HuntArgs) -> Result<u8, Failure> {
    let begin = Instant::now();
    if args.control.interventions.is_any() {
        let text = "hunt looks for bugs in the program as it is: take --guard, --heal and --enforce away; \
                    --locks places locks against what it finds";
        return Err(usage(text.to_owned()));
    }
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    if args.resume {
        return resume(args, &store, begin);
    }
    // What is no text cannot be kept as words; such a hunt does not go on.
    let words = std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<Vec<String>, _>>();
    let dir = std::env::current_dir().map_err(|error| Failure::internal(&error))?;
    let kept = match words {
        Ok(words) => Some(Kept::begin(&store, &Asked { version: VERSION, words, dir }).map_err(keeping)?),
        Err(_) => None,
    };
    go(&args, &store, kept, None, begin)
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

fn keeping(error: std::io::Error) -> Failure {
    usage(format!("cannot keep the hunt in the store: {error}"))
}

/// Goes on with the last hunt that has something left, as it was asked for; budget, outputs and baseline are this command's.
fn resume(args: HuntArgs, store: &Store, begin: Instant) -> Result<u8, Failure> {
    let Some((kept, asked)) = Kept::latest(store).map_err(keeping)? else {
        let text = "no hunt was interrupted or ran out of time here: start one with `selvedge hunt -- ./prog`";
        return Err(usage(text.to_owned()));
    };
    let words: Vec<OsString> =
        std::iter::once("selvedge".into()).chain(asked.words.iter().map(OsString::from)).collect();
    // As it was asked for: where it was, with the settings there.
    let output = args.trying.output.absolute();
    let absolute = |path: Option<PathBuf>| path.map(|path| std::path::absolute(&path).unwrap_or(path));
    let baseline = absolute(args.baseline);
    std::env::set_current_dir(&asked.dir).map_err(|error| Failure::usage(&error))?;
    let Cli { command: Command::Hunt(mut saved), .. } = settings::parse(&words)? else {
        return Err(usage(format!("the hunt in `{}` was asked for by another version", kept.dir().display())));
    };
    saved.budget = args.budget;
    saved.new_only = args.new_only;
    saved.baseline = baseline;
    saved.no_guard |= args.no_guard;
    saved.locks |= args.locks;
    saved.no_detect |= args.no_detect;
    saved.trying.verbose |= args.trying.verbose;
    saved.trying.all |= args.trying.all;
    saved.trying.output = output;
    let before = kept.recorded(0);
    let runs = (0..saved.runs).filter(|number| kept.recorded(*number).is_some()).count();
    note(&format!(
        "going on with `selvedge {}`: {} and {} are kept",
        asked.words.join(" "),
        counted(runs, "recorded run"),
        counted(kept.verdicts(), "verdict")
    ));
    let stdin = before.map(|run| run.clip.inputs.stdin);
    go(&saved, store, Some(kept), stdin, begin)
}

/// The whole hunt.
fn go(
    args: &HuntArgs,
    store: &Store,
    kept: Option<Kept>,
    stdin: Option<Vec<u8>>,
    begin: Instant,
) -> Result<u8, Failure> {
    let mut outlet = Outlet::open(&args.trying.output, "hunt")?.only_new(args.new_only);
    let baseline = args.baseline.as_deref().map(known).transpose()?;
    let patterns = pursued::patterns(&args.trying)?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.trying.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of {}", args.survey_runs));
    let prepared = match stdin {
        Some(stdin) => prepare_with(store, &guest, stdin, &survey, &stop, &mut surveying),
        None => prepare(store, &guest, &survey, &stop, &mut surveying),
    };
    let prepared = prepared.map_err(|error| Failure::new(error.exit_code(), &error))?;
    let detecting = if args.no_detect { Duration::ZERO } else { args.budget / 10 };
    let options = HuntOptions {
        runs: args.runs,
        budget: args.budget.saturating_sub(begin.elapsed() + detecting + args.budget / 20),
        keep_back: args.budget / 4 * (u32::from(!args.no_guard) + u32::from(args.locks)),
        oracle: args.trying.oracle.clone(),
        seed: args.seed,
        effort: pursued::effort(&args.trying, args.seed),
        most_steps: args.trying.max_steps,
        world: args.control.world(args.seed),
        patterns,
        jobs: args.trying.jobs,
    };
    let (mut live, halts) = (Live::new(), pursued::halts(&args.trying));
    let mut each = |step: selvedge_drive::hunt::Step<'_>| pursued::progress(&mut live, step, halts, &stop);
    let hunted = hunt(&prepared, &options, kept.as_ref(), &stop, &mut each);
    live.end();
    let mut hunted = hunted.map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    let clips = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let how = HowShown {
        program: &name,
        clips: &clips,
        all: args.trying.all,
        timeout: args.trying.timeout,
        until: Some(begin + args.budget + args.budget / 10 + Duration::from_secs(5)),
    };
    let mut bugs = Bugs::of(&hunted, &how, &mut outlet)?;
    let hunting = Hunting { args, store, guest: &guest, prepared: &prepared, stop: &stop, begin };
    phases::failed(&hunting, (&hunted, &clips), &mut bugs, &mut outlet)?;
    phases::detect(&hunting, detecting, &mut bugs, &mut outlet);
    let ranking = phases::rank(&hunting, &hunted)?;
    let seen = baseline.as_ref().map(|baseline| compare(baseline, &mut bugs, args.new_only));
    phases::guard(&hunting, &mut bugs);
    phases::locks(&hunting, &mut bugs);
    let program = base_clip(&prepared, &options);
    hunted.elapsed = begin.elapsed();
    let code = tell(args, &hunted, bugs, (ranking, seen), (&program, &clips), outlet)?;
    settle(kept, &hunted, &prepared, &stop);
    Ok(if stop.is_asked() && code == ExitCode::Success.code() { 130 } else { code })
}

/// The findings of a baseline.
fn known(file: &Path) -> Result<Baseline, Failure> {
    let bytes = std::fs::read(file)
        .map_err(|error| usage(format!("cannot read the baseline `{}`: {error}", file.display())))?;
    let report: Report = serde_json::from_slice(&bytes)
        .map_err(|error| usage(format!("the baseline `{}` is not what --json writes: {error}", file.display())))?;
    Ok(Baseline::of(&report))
}

/// What a comparison with a baseline came to.
struct Seen {
    known: usize,
    unseen: usize,
    /// Findings of known bugs, which are not shown.
    hidden: Vec<Finding>,
}

/// Marks what is known, and takes it from what is shown if only new bugs are wanted.
fn compare(baseline: &Baseline, bugs: &mut Bugs, new_only: bool) -> Seen {
    let unseen = baseline.unseen(bugs.shown.iter().flat_map(|bug| std::iter::once(&bug.lead).chain(&bug.others)));
    let (mut hidden, mut known) = (Vec::new(), 0);
    for mut bug in std::mem::take(&mut bugs.shown) {
        let is_known = baseline.knows(std::iter::once(&bug.lead).chain(&bug.others));
        known += usize::from(is_known);
        std::iter::once(&mut bug.lead).chain(&mut bug.others).for_each(|finding| finding.known = Some(is_known));
        if is_known && new_only {
            bugs.hidden += 1;
            hidden.push(bug.lead);
            hidden.extend(bug.others);
        } else {
            bugs.shown.push(bug);
        }
    }
    Seen { known, unseen, hidden }
}

/// Says everything, and gives the exit code.
fn tell(
    args: &HuntArgs,
    hunted: &Hunted,
    bugs: Bugs,
    (ranking, seen): (Option<Vec<RankedPoint>>, Option<Seen>),
    (program, clips): (&Clip, &Path),
    mut outlet: Outlet<'_>,
) -> Result<u8, Failure> {
    let suspicious = phases::ranking_text(ranking.as_deref());
    outlet.show(&bugs.text(&program.program, args.trying.verbose, &suspicious)?)?;
    pursued::note_failed(hunted, clips)?;
    bugs.mark_latest();
    pursued::summary(hunted, &bugs);
    let mut report = pursued::report(program, hunted, bugs.into_findings());
    report.ranking = ranking;
    let only_known = seen.as_ref().is_some_and(|seen| args.new_only && seen.known > 0);
    if let Some(seen) = seen {
        note(&format!(
            "baseline: {} seen again{}, {} not seen this time",
            counted(seen.known, "known bug"),
            if args.new_only && seen.known > 0 { " and not shown" } else { "" },
            seen.unseen
        ));
        report.findings.extend(seen.hidden);
    }
    let otherwise = if only_known { ExitCode::Success.code() } else { pursued::without_findings(hunted) };
    outlet.finish(report, otherwise)
}

/// Keeps a hunt that has something left to do; the files of one that has not go.
fn settle(kept: Option<Kept>, hunted: &Hunted, prepared: &Prepared, stop: &Stop) {
    let Some(kept) = kept else { return };
    if (hunted.out_of_time || stop.is_asked()) && !prepared.images.is_empty() {
        let why = if stop.is_asked() { "interrupted" } else { "out of time" };
        note(&format!(
            "{why}: `selvedge hunt --resume --budget TIME` goes on; so far it is kept in {}",
            kept.dir().display()
        ));
        return;
    }
    // Files that stay do no harm.
    let _ = kept.finish();
}
