//! What controlled commands say about a failure: the clip made small, run once more with a record, and read.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::minimize::{Smaller, minimize};
use selvedge_drive::replay::{Alone, ReplayError, bench, ready, written_down};
use selvedge_drive::run::Stop;
use selvedge_events::bytes::checksum;
use selvedge_findings::{Finding, Harm, Kind, Status};
use selvedge_report::Names;
use selvedge_report::columns::ColumnOptions;
use selvedge_report::critical::{CriticalPair, Deciding, switch_numbers, write_pair};
use selvedge_report::hang::{Hang, write_hang};
use selvedge_report::interleaving::{Excerpt, write_interleaving};
use selvedge_report::shell::quoted;
use selvedge_sched::LoggedPoint;
use selvedge_trace::Run;

use crate::command::trace;
use crate::messages::Failure;

/// Switches past which a clip is not made small without being asked: each attempt is a run.
const MOST_SWITCHES: usize = 20_000;

/// A failure, as it is told and as it is kept.
#[derive(Debug)]
pub(crate) struct Explained {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) finding: Finding,
}

/// A few characters that name a failure.
pub(crate) fn short_id(clip: &Clip) -> String {
    let mut named = clip.program.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    if let Some(signature) = clip.signature() {
        named.extend(format!("{:?}", signature.harm).bytes());
        named.extend(signature.detail.bytes());
    }
    format!("{:08x}", checksum(&named) as u32)
}

/// Makes a clip small, where that is to be had in some runs and before it is to stop.
pub(crate) fn smaller(
    clip: &Clip,
    interventions: &Interventions,
    budget: u32,
    timeout: Duration,
    stop: &Stop,
) -> Result<Option<Smaller>, Failure> {
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let bench = bench(clip, interventions, &dir.path().join("server"), timeout).map_err(usage)?;
    let mut bench = bench.until(stop);
    let written = written_down(clip, &mut bench).map_err(usage)?;
    let Some(clip) = written.filter(|clip| clip.script.len() <= MOST_SWITCHES) else { return Ok(None) };
    let small = minimize(&clip, &mut bench, budget).map_err(usage)?;
    Ok(Some(small).filter(|small| !small.failing_log.is_empty()))
}

/// A replay that cannot be made is the clip's fault, or the program's.
pub(crate) fn usage(error: ReplayError) -> Failure {
    Failure::usage(&error)
}

/// Explains the failure of a clip: `lines` stand before the summary.
pub(crate) fn explain(
    clip: &Clip,
    interventions: &Interventions,
    critical: Option<&Smaller>,
    lines: &[String],
    timeout: Duration,
) -> Result<Explained, Failure> {
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let how = Alone { record: true, ..Alone::default() };
    let (_, answer) = ready(clip, interventions, dir.path(), how).map_err(usage)?.run(timeout).map_err(usage)?;
    let harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    // The process with the most threads is the one that was under control.
    let run = Run::open(dir.path()).ok();
    let process = run.as_ref().and_then(|run| run.processes.iter().max_by_key(|p| p.summary().threads.len()));
    if let Some(process) = process {
        let names = Names::new(process);
        if harm == Harm::Hang
            && let Some(hang) = Hang::of(&names)
        {
            let mut text = Vec::new();
            write_hang(&hang, process.file().header().pid, lines, &mut text)?;
            return Ok(Explained { text: String::from_utf8_lossy(&text).into_owned(), finding: hang.finding() });
        }
        let switch = critical.and_then(|small| small.critical.as_ref()).map(|critical| critical.switch);
        let deciding = switch.and_then(|switch| Deciding::of_switch(process, &answer.log, &switch));
        if let Some(pair) = deciding.and_then(|deciding| CriticalPair::of(&names, &deciding)) {
            let told = tell(clip, harm, lines, |out| {
                write_pair(&pair, out)?;
                writeln!(out)?;
                let excerpt = excerpt(process, &answer.log, pair.numbers());
                let options = ColumnOptions { width: trace::width(), ..ColumnOptions::default() };
                write_interleaving(process, &excerpt, options, out)
            })?;
            return Ok(Explained { text: told, finding: pair.finding(harm) });
        }
    }
    let mut finding = Finding::new(short_id(clip), fallback_kind(harm), Vec::new());
    finding.status = Status::Confirmed;
    finding.harm = harm;
    Ok(Explained { text: tell(clip, harm, lines, |_| Ok(()))?, finding })
}

fn excerpt(process: &selvedge_trace::Process, log: &[LoggedPoint], marks: Vec<u64>) -> Excerpt {
    let mut switches = switch_numbers(process, log);
    // The deciding ones matter; of a long schedule not every other.
    switches.truncate(8);
    Excerpt { switches, marks, ..Excerpt::default() }
}

/// What is left to say where nothing of the trace explains it: that an order of events decides.
fn fallback_kind(harm: Harm) -> Kind {
    if harm == Harm::Hang { Kind::Deadlock } else { Kind::OrderViolation }
}

/// What a harm is called.
fn headline(harm: Harm) -> &'static str {
    match harm {
        Harm::Assertion => "assertion failed",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "wrong exit code",
        Harm::Oracle => "the oracle refused the run",
        _ => "failure",
    }
}

/// A failure in ThreadSanitizer's familiar shape.
fn tell(
    clip: &Clip,
    harm: Harm,
    lines: &[String],
    middle: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<String, Failure> {
    let words = clip.wrong.as_ref().map_or("no failure", |wrong| wrong.words.as_str());
    let rule = "==================";
    let mut out = Vec::new();
    writeln!(out, "{rule}\nWARNING: Selvedge: {}\n  {words}", headline(harm))?;
    let mut body = Vec::new();
    middle(&mut body)?;
    if !body.is_empty() {
        writeln!(out)?;
        out.extend(body);
    }
    writeln!(out)?;
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    let words = if harm == Harm::Oracle { String::new() } else { format!(": {words}") };
    writeln!(out, "SUMMARY: Selvedge: {}{words}\n{rule}", headline(harm))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The lines that say how to make it happen again.
pub(crate) fn again(clip: &Clip, path: &Path, interventions: &Interventions) -> Vec<String> {
    /// A schedule that fits on a line is worth showing.
    const SHORT: usize = 12;
    let mut lines = Vec::new();
    if clip.script.len() <= SHORT && clip.by_strategy.is_none() {
        lines.push(format!("Schedule: {}", clip.schedule()));
    } else {
        lines.push(format!("Schedule: {} switches, {} of them preemptive", clip.script.len(), clip.preemptions()));
    }
    lines.push(format!("Again:    {}{}", replay_command(path), interventions.again));
    lines
}

/// The command that replays a clip, to be pasted where this one runs.
pub(crate) fn replay_command(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize());
    let below = here.ok().and_then(|here| path.strip_prefix(here).ok());
    format!("selvedge replay {}", quoted(&below.unwrap_or(path).to_string_lossy()))
}

/// Where the smaller clip of a clip goes.
pub(crate) fn smaller_path(path: &Path) -> PathBuf {
    path.with_extension("min.clip")
}
