//! What `hunt` and `predict` say about what they found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_analyze::predict::Pattern;
use selvedge_drive::clip::Clip;
use selvedge_drive::confirm::{Effort, Happened, Verdict};
use selvedge_drive::controlled::{clips_dir, scratch};
use selvedge_drive::hunt::{Figures, Hunted, Step, Tried};
use selvedge_drive::intervene::Interventions;
use selvedge_drive::program::hex;
use selvedge_drive::replay::{Alone, ready};
use selvedge_drive::store::Store;
use selvedge_findings::{Access, ExitCode, Finding, Harm, Kind, Program, Report, Status};
use selvedge_report::Names;
use selvedge_report::anomaly::{Anomaly, Told};
use selvedge_report::columns::ColumnOptions;
use selvedge_report::fingerprint::of_accesses;
use selvedge_report::hang::{Hang, write_hang};
use selvedge_report::names::Source;
use selvedge_report::view::{Filter, View, views};
use selvedge_trace::Run;

use crate::args::TryArgs;
use crate::command::explain;
use crate::command::page::Extra;
use crate::command::trace::width;
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

/// The live line of a hunt.
pub(crate) fn progress(live: &mut Live, step: Step<'_>) {
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

/// A finding that was made to happen, ready to be shown.
struct Shown {
    text: String,
    finding: Finding,
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
    let (mut findings, mut shown, mut quiet, mut alike) = (Vec::new(), 0_u32, 0_u32, 0_u32);
    let mut told: Vec<(String, u32)> = Vec::new();
    let foretold = Foretold::of(hunted);
    for tried in ordered(hunted) {
        let Some(Verdict::Confirmed(happened)) = &tried.verdict else {
            findings.push(foretold.finding(tried));
            continue;
        };
        let harmless = happened.clip.wrong.is_none();
        if harmless && !args.all && !tried.prediction.kind.is_wrong_by_itself() {
            findings.push(foretold.finding(tried));
            quiet += 1;
            continue;
        }
        let name = program.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let signature = happened.clip.signature().map(|signature| signature.detail.clone());
        let again = signature.map_or(0, |signature| count(&mut told, signature));
        if again > ALIKE && tried.prediction.kind != Kind::DataRace && !args.all {
            let mut finding = foretold.finding(tried);
            keep(&mut finding, &happened.clip, &clips, &name)?;
            findings.push(finding);
            alike += 1;
            continue;
        }
        let all = show(tried, happened, &clips, &name, args.timeout)?;
        if all.is_empty() {
            findings.push(foretold.finding(tried));
            continue;
        }
        for Shown { text, finding } in all {
            // Patterns overlap: a race is one finding, whichever access comes first.
            if findings.iter().any(|known: &Finding| known.id == finding.id && known.status == Status::Confirmed) {
                continue;
            }
            if !outlet.hides(&finding) {
                outlet.show(&text)?;
                shown += 1;
            }
            findings.push(finding);
        }
    }
    note_failed(hunted, &clips)?;
    outlet.add(Extra { notes: summary(hunted, shown, quiet, alike), ..Extra::default() });
    let failed = hunted.recorded.iter().any(|run| run.clip.wrong.is_some());
    let otherwise = if failed { ExitCode::SomeFailed } else { ExitCode::Success };
    outlet.finish(report(program, hunted, findings), otherwise.code())
}

/// Clips of those findings of a hunt whose ids are wanted, kept in the store: each finding as it was made to happen, and
/// the lines that say how to make it happen again.
pub(crate) fn clips_of(
    hunted: &Hunted,
    store: &Store,
    program: &Clip,
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<String, (Finding, Vec<String>)>, Failure> {
    let clips = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = program.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let foretold = Foretold::of(hunted);
    let mut all = BTreeMap::new();
    for tried in &hunted.tried {
        let Some(Verdict::Confirmed(happened)) = &tried.verdict else { continue };
        let mut finding = foretold.finding(tried);
        // Harm is worth more than the first clip.
        let better = all.get(&finding.id).is_none_or(|(known, _): &(Finding, _)| known.harm == Harm::NoneSeen);
        if wanted.contains(&finding.id) && better {
            let lines = keep(&mut finding, &happened.clip, &clips, &name)?;
            all.insert(finding.id.clone(), (finding, lines));
        }
    }
    Ok(all)
}

/// How often this was said, with this time.
fn count(told: &mut Vec<(String, u32)>, what: String) -> u32 {
    match told.iter_mut().find(|(known, _)| *known == what) {
        Some((_, count)) => {
            *count += 1;
            *count
        }
        None => {
            told.push((what, 1));
            1
        }
    }
}

/// Findings that end in the same way: so many are shown, the others counted.
const ALIKE: u32 = 2;

/// Those that did harm first; of these the ones that say most about why.
fn ordered(hunted: &Hunted) -> Vec<&Tried> {
    let mut tried: Vec<&Tried> = hunted.tried.iter().collect();
    tried.sort_by_key(|tried| {
        let kind = match tried.prediction.kind {
            Kind::Deadlock => 0,
            Kind::LostWakeup => 1,
            Kind::AtomicityViolation => 2,
            Kind::AtomicSetViolation => 3,
            Kind::OrderViolation => 4,
            Kind::DataRace => 5,
            _ => 6,
        };
        match &tried.verdict {
            Some(Verdict::Confirmed(happened)) => {
                (0, happened.clip.wrong.is_none(), tried.prediction.proof.is_none(), kind, happened.clip.script.len())
            }
            _ => (1, true, true, kind, 0),
        }
    });
    tried
}

/// What a confirmed prediction is told as. One that ended in a hang is two findings: who waits for whom, and the order that
/// led there.
fn show(
    tried: &Tried,
    happened: &Happened,
    clips: &Path,
    program: &str,
    timeout: Duration,
) -> Result<Vec<Shown>, Failure> {
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let how = Alone { record: true, ..Alone::default() };
    let clip = &happened.clip;
    ready(clip, &Interventions::default(), dir.path(), how)
        .map_err(explain::usage)?
        .run(timeout)
        .map_err(explain::usage)?;
    let Ok(run) = Run::open(dir.path()) else { return Ok(Vec::new()) };
    let Some(process) = run.processes.iter().find(|process| process.is_controlled()) else { return Ok(Vec::new()) };
    let names = Names::new(process);
    let harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    let proved = tried.prediction.proof.as_ref().map(|proof| proof.relation.name());
    let pattern = tried.prediction.pattern.as_str();
    let told = |finding: &mut Finding| {
        finding.proved = proved.map(str::to_owned);
        finding.pattern = Some(pattern.to_owned());
        keep(finding, clip, clips, program)
    };
    let mut all = Vec::new();
    let hang = (harm == Harm::Hang).then(|| Hang::of(&names)).flatten();
    if let Some((mut finding, hang)) = hang.map(|hang| (hang.finding(), hang))
        && !finding.accesses.is_empty()
    {
        let lines = told(&mut finding)?;
        let mut text = Vec::new();
        write_hang(&hang, process.file().header().pid, &lines, &mut text)?;
        all.push(Shown { text: String::from_utf8_lossy(&text).into_owned(), finding });
    }
    if !all.is_empty() && matches!(tried.prediction.kind, Kind::Deadlock | Kind::LostWakeup) {
        return Ok(all);
    }
    let anomaly = Told {
        kind: tried.prediction.kind,
        pattern,
        proved,
        numbers: &happened.shown.numbers,
        never: happened.shown.never.map(|at| (at.thread, at.place)),
        harm,
        harm_words: clip.wrong.as_ref().map(|wrong| wrong.words.as_str()),
    };
    if let Some(anomaly) = Anomaly::of(&names, anomaly) {
        let mut finding = anomaly.finding(process);
        let lines = told(&mut finding)?;
        let mut text = Vec::new();
        let options = ColumnOptions { width: width(), ..ColumnOptions::default() };
        anomaly.write(&names, &lines, options, &mut text)?;
        all.push(Shown { text: String::from_utf8_lossy(&text).into_owned(), finding });
    }
    Ok(all)
}

/// Keeps the clip of a finding; the lines that say how to make it happen again.
fn keep(finding: &mut Finding, clip: &Clip, clips: &Path, program: &str) -> Result<Vec<String>, Failure> {
    let path = clips.join(format!("{program}-{}.clip", finding.id.get(..8).unwrap_or("finding")));
    clip.save(&path).map_err(|error| Failure::usage(&error))?;
    finding.harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    finding.clip = Some(path.display().to_string());
    finding.replay = Some(format!("selvedge replay {}", path.display()));
    Ok(explain::again(clip, &path, &Interventions::default()))
}

/// Predictions in the names of the runs that they are from, for the JSON.
struct Foretold {
    /// By run, then by number in its merged order.
    accesses: Vec<BTreeMap<u64, Access>>,
}

impl Foretold {
    fn of(hunted: &Hunted) -> Foretold {
        let mut wanted: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); hunted.recorded.len()];
        for tried in &hunted.tried {
            if let Some(wanted) = wanted.get_mut(tried.run) {
                wanted.extend(&tried.events);
            }
        }
        let accesses = hunted.recorded.iter().zip(&wanted).map(|(run, wanted)| match run.process() {
            Some(process) => accesses(process, wanted),
            None => BTreeMap::new(),
        });
        Foretold { accesses: accesses.collect() }
    }

    fn finding(&self, tried: &Tried) -> Finding {
        let known = self.accesses.get(tried.run);
        let of = |event: &u64| known.and_then(|known| known.get(event)).cloned();
        let mut finding = as_finding(tried.prediction.kind, tried.events.iter().filter_map(of).collect());
        finding.proved = tried.prediction.proof.as_ref().map(|proof| proof.relation.name().to_owned());
        finding.pattern = Some(tried.prediction.pattern.clone());
        match &tried.verdict {
            Some(Verdict::Confirmed(_)) => finding.status = Status::Confirmed,
            Some(Verdict::Refuted(why)) => {
                finding.status = Status::Refuted;
                finding.refuted = Some(why.name().to_owned());
            }
            None => finding.status = Status::Predicted,
        }
        finding
    }
}

/// Events of a run, by their numbers in the merged order, as accesses of a finding.
pub(crate) fn accesses(process: &selvedge_trace::Process, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Access> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let names = Names::new(process);
    let filter = Filter::default();
    let wanted = (0_u64..).zip(views(&names, &filter)).filter(|(number, _)| wanted.contains(number));
    let access = |(number, view): (u64, View)| {
        let access = Access {
            thread: view.event.thread.0,
            op: view.op.to_owned(),
            function: view.source.function.clone(),
            file: view.source.file.clone(),
            line: view.source.line,
            column: view.source.column.filter(|column| *column > 0),
            variable: view.object.as_ref().map(|(name, _)| name.clone()),
            ..Source::access_of(&names.stack(view.event.place, view.event.context))
        };
        (number, access)
    };
    wanted.map(access).collect()
}

/// A prediction that nothing has confirmed.
pub(crate) fn as_finding(kind: Kind, accesses: Vec<Access>) -> Finding {
    Finding::new(of_accesses(kind, &accesses), kind, accesses)
}

/// Recorded runs that failed by themselves are clips too; one of each sort.
fn note_failed(hunted: &Hunted, clips: &Path) -> Result<(), Failure> {
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
        note(&format!("{runs} failed without being made to ({wrong}): selvedge replay {}", path.display()));
    }
    Ok(())
}

/// Says what was done; answers what a reader of the findings should know beside that.
fn summary(hunted: &Hunted, shown: u32, quiet: u32, alike: u32) -> Vec<String> {
    let mut limits = Vec::new();
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
    if alike > 0 {
        limits.push(format!("{alike} more end in the same way as one that is shown; --all shows them"));
    }
    if quiet > 0 {
        limits.push(format!("{quiet} orders that could be turned around did no harm; --all shows them"));
    }
    limits.iter().for_each(|line| note(line));
    if hunted.out_of_time {
        let left = hunted.tried.iter().filter(|tried| tried.verdict.is_none()).count();
        note(&format!("the time was up with {left} predictions untried; a longer --budget tries them"));
    }
    if figures.tally.pass == 0 {
        note("no recorded run passed, so nothing was predicted; `selvedge explore` looks into failing runs");
    }
    if shown == 0 && hunted.recorded.iter().any(|run| run.clip.wrong.is_some()) {
        note("no prediction came true that would say why runs failed: replay their clips");
    } else if shown == 0 {
        note("nothing to report");
    }
    limits
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

fn report(program: &Clip, hunted: &Hunted, findings: Vec<Finding>) -> Report {
    let program = Program { path: program.program.to_string_lossy().into_owned(), build_id: hex(&program.build_id) };
    let mut report = Report::new(program, hunted.figures.tally.into(), findings);
    report.figures = Some(in_json(hunted));
    report
}
