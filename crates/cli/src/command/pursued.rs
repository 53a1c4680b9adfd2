//! What `hunt` and `predict` say about what they found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_analyze::predict::Pattern;
use selvedge_drive::clip::Clip;
use selvedge_drive::confirm::{Effort, Verdict};
use selvedge_drive::controlled::clips_dir;
use selvedge_drive::hunt::{Figures, Hunted, Step};
use selvedge_drive::program::hex;
use selvedge_drive::run::Stop;
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Finding, Program, Report};

use crate::args::TryArgs;
use crate::command::bugs::{Bugs, HowShown};
use crate::command::explain;
use crate::command::guarding::counted;
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;

/// How hard to try, as the command line says.
pub(crate) fn effort(args: &TryArgs, seed: u64) -> Effort {
    Effort { chances: args.chances, limit: args.each, timeout: args.timeout, seed }
}

/// The user's patterns.
pub(crate) fn patterns(args: &TryArgs) -> Result<Vec<Pattern>, Failure> {
    let Some(file) = &args.patterns else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(file).map_err(|error| {
        let text = format!("cannot read the patterns `{}`: {error}", file.display());
        Failure::Error { code: ExitCode::Usage.code(), text }
    })?;
    selvedge_analyze::predict::patterns_file::parse(&text).map_err(|error| {
        let text = format!("`{}`: {error}", file.display());
        Failure::Error { code: ExitCode::Usage.code(), text }
    })
}

/// Whether to stop at the first finding. Which ones suppressions hide is known only when all are named.
pub(crate) fn halts(args: &TryArgs) -> bool {
    let asked = &args.output.findings;
    if asked.halt_on_error && !asked.suppressions.is_empty() {
        note("--halt-on-error: with suppressions every prediction is tried, to see which of them they hide");
    }
    asked.halt_on_error && asked.suppressions.is_empty()
}

/// The live line of a hunt, which stops at the first finding where `halts` says so.
pub(crate) fn progress(live: &mut Live, step: Step<'_>, halts: bool, stop: &Stop) {
    if let Step::Tried(figures) = step
        && halts
        && figures.errors > 0
    {
        stop.set();
    }
    live.show(|| match step {
        Step::Recorded(figures) => format!("{} runs recorded, {}", figures.tally.total(), outcomes(figures)),
        Step::Predicted(figures) => format!("{} predictions, {} proved", figures.predicted, figures.proved),
        Step::Tried(figures) => format!(
            "{} of {} predictions tried, {} happened, {} did harm",
            figures.tried, figures.predicted, figures.confirmed, figures.harmful
        ),
    });
}

fn outcomes(figures: &Figures) -> String {
    let tally = &figures.tally;
    format!("{} pass, {} fail, {} hang", tally.pass, tally.fail, tally.hang)
}

/// Prints what was found, writes what other programs are to read, and gives the exit code.
pub(crate) fn tell(
    hunted: &Hunted,
    store: &Store,
    program: &Clip,
    args: &TryArgs,
    mut outlet: Outlet<'_>,
) -> Result<u8, Failure> {
    let clips = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = program.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let how = HowShown { program: &name, clips: &clips, all: args.all, timeout: args.timeout, until: None };
    let bugs = Bugs::of(hunted, &how, &mut outlet)?;
    outlet.show(&bugs.text(&program.program, args.verbose, "")?)?;
    note_failed(hunted, &clips)?;
    bugs.mark_latest();
    summary(hunted, &bugs);
    outlet.finish(report(program, hunted, bugs.into_findings()), without_findings(hunted))
}

/// The exit code of a hunt that has no findings.
pub(crate) fn without_findings(hunted: &Hunted) -> u8 {
    let failed = hunted.recorded.iter().any(|run| run.clip.wrong.is_some());
    if failed { ExitCode::SomeFailed.code() } else { ExitCode::Success.code() }
}

/// Recorded runs that failed by themselves are clips too; one of each sort.
pub(crate) fn note_failed(hunted: &Hunted, clips: &Path) -> Result<(), Failure> {
    let mut told = Vec::new();
    for (run, wrong) in hunted.recorded.iter().filter_map(|run| Some((run, run.clip.wrong.as_ref()?))) {
        if told.contains(&&wrong.signature) {
            continue;
        }
        told.push(&wrong.signature);
        let path: PathBuf = clips.join(format!("recorded-{}.clip", explain::short_id(&run.clip)));
        run.clip.save(&path).map_err(|error| Failure::usage(&error))?;
        let alike = hunted.recorded.iter().filter(|other| other.clip.signature() == run.clip.signature()).count();
        let runs = if alike == 1 { "1 recorded run".to_owned() } else { format!("{alike} recorded runs") };
        note(&format!("{runs} failed without being made to ({wrong}): {}", explain::replay_command(&path)));
    }
    Ok(())
}

pub(crate) fn summary(hunted: &Hunted, bugs: &Bugs) {
    let (shown, quiet) = (bugs.shown.len(), bugs.quiet);
    let figures = &hunted.figures;
    let refuted = hunted.tried.iter().filter(|tried| matches!(tried.verdict, Some(Verdict::Refuted(_)))).count();
    note(&format!(
        "{} runs recorded ({}), {} events; {} predictions, {} proved; {} made to happen, {} with harm; {refuted} refuted; {:.1} s",
        figures.tally.total(),
        outcomes(figures),
        figures.events,
        figures.predicted,
        figures.proved,
        figures.confirmed,
        figures.harmful,
        hunted.elapsed.as_secs_f64()
    ));
    if quiet > 0 {
        note(&format!("{quiet} orders that could be turned around did no harm; --all shows them"));
    }
    if hunted.out_of_time {
        let left = hunted.tried.iter().filter(|tried| tried.verdict.is_none()).count();
        match left {
            0 => note("not all was done: there was no time to record every run"),
            left => note(&format!("not all was done: {} not tried", counted(left, "prediction"))),
        }
    }
    if figures.tally.pass == 0 {
        note("no recorded run passed, so nothing was predicted; `selvedge explore` looks into failing runs");
    }
    if shown == 0 && bugs.hidden > 0 {
        note("nothing new to report");
    } else if shown == 0 && hunted.recorded.iter().any(|run| run.clip.wrong.is_some()) {
        note("no prediction came true that would say why runs failed: replay their clips");
    } else if shown == 0 {
        note("nothing to report");
    }
}

fn in_json(hunted: &Hunted) -> selvedge_findings::Figures {
    let figures = &hunted.figures;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut told = selvedge_findings::Figures {
        threads: figures.threads.into(),
        variables: figures.variables.into(),
        events: figures.events,
        recording_ms: ms(figures.recording),
        analysis_ms: ms(figures.analysis),
        schedule_ms: ms(figures.scheduling) / figures.tried.max(1) as f64,
        proved: figures.proved,
        confirmed: figures.confirmed,
        first_try: figures.first_try,
        harmful: figures.harmful,
        ..selvedge_findings::Figures::default()
    };
    for tried in &hunted.tried {
        *told.predicted.entry(tried.prediction.kind).or_default() += 1;
        told.refuted += u64::from(matches!(tried.verdict, Some(Verdict::Refuted(_))));
        told.untried += u64::from(tried.verdict.is_none());
    }
    told
}

pub(crate) fn report(program: &Clip, hunted: &Hunted, findings: Vec<Finding>) -> Report {
    let program = Program { path: program.program.to_string_lossy().into_owned(), build_id: hex(&program.build_id) };
    let mut report = Report::new(program, hunted.figures.tally.into(), findings);
    report.figures = Some(in_json(hunted));
    report
}
