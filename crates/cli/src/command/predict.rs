//! `selvedge predict`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_analyze::foresee::{Foreseen, Outlook, every_race, foresee};
use selvedge_analyze::import::{Options, import};
use selvedge_analyze::std_text::{self, Imported as StdImported};
use selvedge_analyze::{Goal, History, Names, Op};
use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::hunt::{HuntOptions, Recorded};
use selvedge_drive::pursue::{Ground, pursue};
use selvedge_drive::record::RUN_CLIP;
use selvedge_drive::run::Stop;
use selvedge_drive::store::Store;
use selvedge_findings::{Access, ExitCode, Finding, Program, Report, Runs};
use selvedge_trace::Run;

use crate::args::PredictArgs;
use crate::command::{made, pursued};
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;

/// Predicts from recorded runs or from a text trace.
pub(crate) fn run(args: &PredictArgs) -> Result<u8, Failure> {
    let outlet = Outlet::open(&args.trying.output, "predict")?;
    match &args.std {
        Some(file) => from_text(args, file, outlet),
        None => from_runs(args, outlet),
    }
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

fn from_runs(args: &PredictArgs, outlet: Outlet<'_>) -> Result<u8, Failure> {
    let store = Store::open(&args.store.out);
    let patterns = pursued::patterns(&args.trying)?;
    let names = match args.runs.as_slice() {
        [] => match store.latest().map_err(|error| Failure::usage(&error))? {
            Some(id) => vec![id.to_string()],
            None => {
                let dir = args.store.out.display();
                return Err(usage(format!(
                    "no runs in `{dir}`: record one with `selvedge record --controlled -- ./prog`"
                )));
            }
        },
        runs => runs.to_vec(),
    };
    let (mut controlled, mut free) = (Vec::new(), Vec::new());
    for name in names {
        let path = store.find(&name).map_err(|error| Failure::usage(&error))?;
        let run = Run::open(&path).map_err(|error| Failure::usage(&error))?;
        let clip = path.join(RUN_CLIP);
        match run.processes.iter().any(|process| process.is_controlled()) && clip.exists() && !args.no_confirm {
            true => {
                let clip = Clip::load(&clip).map_err(|error| Failure::usage(&error))?;
                let events = run.processes.iter().map(|process| process.summary().events).sum();
                controlled.push(Recorded { clip, run, events, duration: Duration::ZERO });
            }
            false => free.push((name, run)),
        }
    }
    let mut listed = Vec::new();
    for (name, run) in &free {
        for process in &run.processes {
            let history = import(process, &Options::default()).history;
            let outlook = foresee(&history, &patterns);
            note(&format!("run {name}: {}", figures(&history, &outlook)));
            let events = |foreseen: &Foreseen| foreseen.prediction.goal.events();
            let source = |event: u32| history.sources.get(event as usize).copied();
            let wanted = outlook.foreseen.iter().flat_map(events).filter_map(source).collect();
            let known = made::accesses(process, &wanted);
            let named = |events: Vec<u64>, kind| {
                made::as_finding(kind, events.iter().filter_map(|event| known.get(event)).cloned().collect())
            };
            listed.extend(findings(&history, &outlook, named));
        }
        if !args.no_confirm {
            note(&format!("run {name} was not made under control, so nothing of it is tried; `selvedge hunt` does"));
        }
    }
    if controlled.is_empty() {
        return list(program_of(&free), listed, outlet);
    }
    let base = controlled.first().map(|run| Clip { by_strategy: None, ..run.clip.clone() });
    let Some(base) = base else { return Ok(0) };
    if controlled.iter().any(|run| (&run.clip.build_id, &run.clip.images) != (&base.build_id, &base.images)) {
        return Err(usage("the runs are of different builds or surveys: predict from each by itself".to_owned()));
    }
    let options = HuntOptions {
        runs: 0,
        budget: args.budget,
        keep_back: Duration::ZERO,
        oracle: args.trying.oracle.clone().or_else(|| base.oracle.clone()),
        seed: 1,
        effort: pursued::effort(&args.trying, 1),
        most_steps: args.trying.max_steps,
        world: base.world,
        patterns,
        jobs: args.trying.jobs,
    };
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let stop = Stop::on_signals();
    let (mut live, halts) = (Live::new(), pursued::halts(&args.trying));
    let mut each = |step: selvedge_drive::hunt::Step<'_>| pursued::progress(&mut live, step, halts, &stop);
    let ground = Ground { base: &base, dir: dir.path(), kept: None };
    let hunted = pursue(controlled, ground, &options, args.budget, &stop, &mut each);
    live.end();
    let hunted = hunted.map_err(|error| Failure::usage(&error))?;
    pursued::tell(&hunted, &store, &base, &args.trying, outlet)
}

fn program_of(runs: &[(String, Run)]) -> Program {
    let module = runs.iter().flat_map(|(_, run)| &run.processes).find_map(|process| process.file().modules().first());
    match module {
        Some(module) => Program {
            path: module.path.display().to_string(),
            build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        },
        None => Program { path: String::new(), build_id: String::new() },
    }
}

fn figures(history: &History, outlook: &Outlook<'_>) -> String {
    let proved = outlook.foreseen.iter().filter(|foreseen| foreseen.prediction.proof.is_some()).count();
    format!("{} events, {} predictions, {proved} proved", history.len(), outlook.foreseen.len())
}

/// The predictions of an outlook; `named` gives their accesses names, by source.
fn findings(
    history: &History,
    outlook: &Outlook<'_>,
    named: impl Fn(Vec<u64>, selvedge_findings::Kind) -> Finding,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for foreseen in &outlook.foreseen {
        let prediction = &foreseen.prediction;
        let source = |event: &u32| history.sources.get(*event as usize).copied();
        let events = prediction.goal.events().iter().filter_map(source).collect();
        let mut finding = named(events, prediction.kind);
        finding.proved = prediction.proof.as_ref().map(|proof| proof.relation.name().to_owned());
        finding.pattern = Some(prediction.pattern.clone());
        findings.push(finding);
    }
    findings
}

fn from_text(args: &PredictArgs, file: &Path, outlet: Outlet<'_>) -> Result<u8, Failure> {
    let patterns = pursued::patterns(&args.trying)?;
    let read = || match file.to_str() {
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        _ => std::fs::read(file),
    };
    let text = read().map_err(|error| usage(format!("cannot read `{}`: {error}", file.display())))?;
    let begin = Instant::now();
    let imported = std_text::parse(&text).map_err(|error| usage(format!("`{}`: {error}", file.display())))?;
    for diagnostic in imported.diagnostics.iter().take(MOST_DIAGNOSTICS) {
        note(&format!("{}: {diagnostic}", file.display()));
    }
    if let Some(more) = imported.diagnostics.len().checked_sub(MOST_DIAGNOSTICS).filter(|more| *more > 0) {
        note(&format!("and {more} more"));
    }
    let mut outlook = foresee(&imported.history, &patterns);
    add_every_race(&imported.history, &mut outlook);
    let elapsed = begin.elapsed().as_secs_f64();
    note(&format!("{} in {elapsed:.2} s", figures(&imported.history, &outlook)));
    let findings = findings(&imported.history, &outlook, |lines, kind| of_lines(&imported, &lines, kind));
    let program = Program { path: file.display().to_string(), build_id: String::new() };
    list(program, findings, outlet)
}

/// A text trace has no program behind it to name: beside one race for each pair of places, every access that can race is
/// told, as far as the trace is short enough to look at all.
fn add_every_race(history: &History, outlook: &mut Outlook<'_>) {
    if history.len() > MOST_EVENTS {
        return;
    }
    let known: BTreeSet<_> = outlook
        .foreseen
        .iter()
        .filter(|foreseen| foreseen.prediction.proof.is_some())
        .filter_map(|foreseen| match foreseen.prediction.goal {
            Goal::Race(one, two) => Some(one.max(two)),
            _ => None,
        })
        .collect();
    let new = every_race(history).into_iter().filter(|prediction| match prediction.goal {
        Goal::Race(one, two) => !known.contains(&one.max(two)),
        _ => true,
    });
    outlook.foreseen.extend(new.map(|prediction| Foreseen { prediction, seen: false }));
}

/// Events of a text trace of which every race is told.
const MOST_EVENTS: usize = 100_000;

/// Beyond these, more of them tell a user nothing.
const MOST_DIAGNOSTICS: usize = 10;

/// A prediction in the names of a text trace.
fn of_lines(imported: &StdImported, lines: &[u64], kind: selvedge_findings::Kind) -> Finding {
    let history = &imported.history;
    let access = |line: &u64| {
        let event = history.sources.binary_search(line).ok().and_then(|at| history.events.get(at));
        let name = |names: &Names, number: u32| names.get(number).is_some().then(|| names.text(number));
        Access {
            thread: event.map_or(0, |event| u32::from(event.thread)),
            op: event.map_or_else(String::new, |event| op(event.op).to_owned()),
            function: None,
            file: None,
            line: None,
            variable: event.and_then(|event| match event.op.is_access() {
                true => name(&imported.variables, event.target),
                false => name(&imported.locks, event.target),
            }),
            event: Some(*line),
            ..Access::default()
        }
    };
    let accesses: Vec<Access> = lines.iter().map(access).collect();
    let id = format!(
        "{}-{}",
        kind.words().replace(' ', "-"),
        lines.iter().map(u64::to_string).collect::<Vec<_>>().join("-")
    );
    Finding::new(id, kind, accesses)
}

fn op(op: Op) -> &'static str {
    match op {
        Op::Read | Op::AtomicRead => "read",
        Op::Write | Op::AtomicWrite => "write",
        Op::AtomicUpdate => "read-write",
        Op::Acquire | Op::AcquireShared => "lock",
        Op::Release | Op::ReleaseShared => "unlock",
        Op::Fork => "fork",
        Op::Join => "join",
        Op::Enter => "begin",
        Op::Exit => "end",
        _ => "sync",
    }
}

/// Prints predictions that were not tried, and writes them to the file that was asked for.
fn list(program: Program, findings: Vec<Finding>, mut outlet: Outlet<'_>) -> Result<u8, Failure> {
    let mut out = String::new();
    for finding in &findings {
        if outlet.hides(finding) {
            continue;
        }
        let proved =
            finding.proved.as_deref().map_or_else(|| "to be tried".to_owned(), |name| format!("proved: {name}"));
        let pattern = finding.pattern.as_deref().unwrap_or("");
        let _ = writeln!(out, "{} ({pattern}; {proved})", finding.kind.words());
        for access in &finding.accesses {
            let place = match (access.event, &access.file, access.line) {
                (Some(event), ..) => format!("line {}", event + 1),
                (None, Some(file), Some(line)) => format!("{file}:{line}"),
                _ => access.function.clone().unwrap_or_else(|| "?".to_owned()),
            };
            let variable = access.variable.as_deref().unwrap_or("");
            let _ = writeln!(out, "  T{} {} {variable} ({place})", access.thread, access.op);
        }
    }
    outlet.show(&out)?;
    outlet.finish(Report::new(program, Runs::default(), findings), ExitCode::Success.code())
}
