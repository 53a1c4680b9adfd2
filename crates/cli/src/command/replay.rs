//! `selvedge replay`.

use std::process::Command;
use std::time::Duration;

use selvedge_drive::clip::Clip;
use selvedge_drive::control::{Answer, DivergedAt};
use selvedge_drive::controlled::scratch;
use selvedge_drive::differs;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::replay::{Alone, Replayed, bench, ended_by_gate, ready, replay};
use selvedge_events::control::{DivergenceKind, RunState, SeatState};
use selvedge_findings::ExitCode;
use selvedge_sched::moment::NO_SITE;

use crate::args::ReplayArgs;
use crate::command::latest::clip_or_latest;
use crate::messages::{Failure, note};

/// Replays a clip: 66 where it fails as it did, 1 where it does not.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    let interventions = args.interventions.collect()?;
    let clip = Clip::load(&clip_or_latest(args.clip.as_deref())?).map_err(|error| Failure::usage(&error))?;
    let usage = |error: selvedge_drive::replay::ReplayError| Failure::new(ExitCode::Usage.code(), &error);
    let interventions = interventions.beside(&clip.images, &clip.files()).map_err(|error| Failure::usage(&error))?;
    interventions.fits.iter().for_each(|line| note(line));
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    if args.gdb {
        return under_gdb(args, &clip, &interventions, dir.path());
    }
    if let Some(until) = args.until {
        let how = Alone { until: Some(until), inherit: true, ..Alone::default() };
        let (_, answer) =
            ready(&clip, &interventions, dir.path(), how).map_err(usage)?.run(args.timeout).map_err(usage)?;
        return Ok(stopped(&answer, until));
    }
    let mut bench = bench(&clip, &interventions, &dir.path().join("server"), args.timeout).map_err(usage)?;
    let mut same = 0;
    let mut last = None;
    for _ in 0..args.times {
        let replayed = replay(&clip, &mut bench).map_err(usage)?;
        same += u32::from(replayed.is_as(&clip));
        last = Some(replayed);
    }
    let Some(last) = last else { return Ok(ExitCode::Success.code()) };
    if args.times == 1 {
        show_output(bench.dir());
    }
    tell(&clip, &last, same, args.times);
    Ok(if same < args.times {
        ExitCode::SomeFailed.code()
    } else if clip.wrong.is_some() {
        ExitCode::Findings.code()
    } else {
        ExitCode::Success.code()
    })
}

/// The guest's own words.
fn show_output(dir: &std::path::Path) {
    use std::io::Write as _;
    let bytes = |name| std::fs::read(dir.join(name)).unwrap_or_default();
    // Whoever closed our output does not want it.
    let _ = std::io::stdout().write_all(&bytes("stdout"));
    let _ = std::io::stderr().write_all(&bytes("stderr"));
}

fn tell(clip: &Clip, last: &Replayed, same: u32, times: u32) {
    let what = clip.wrong.as_ref().map_or_else(|| clip.outcome.to_string(), ToString::to_string);
    if same == times {
        let often = if times == 1 { String::new() } else { format!(" {times} times out of {times}") };
        note(&format!("replayed{often}: {what}"));
    } else {
        let came = last.wrong.as_ref().map_or_else(|| last.outcome.to_string(), ToString::to_string);
        note(&format!("{same} of {times} replays ended as the clip says ({what}); the last one: {came}"));
    }
    let answer = &last.run.answer;
    if let Some(at) = &answer.divergence {
        note(&format!("it went another way at {}", place(at, clip)));
    } else if answer.unmet > 0 {
        note(&format!("{} switches of the schedule were not reached", answer.unmet));
    } else if !last.is_exact(clip) {
        note("the switches were all met, but not every choice between them was the same");
    }
    if answer.hidden_blocks > 0 {
        note(&format!("{} times a thread blocked where selvedge does not look", answer.hidden_blocks));
    }
}

/// Where a replay went another way, what was expected there and what came.
fn place(at: &DivergedAt, clip: &Clip) -> String {
    let files = clip.files();
    let line = |site| differs::place(&clip.images, &files, site);
    let site = |(kind, site): (selvedge_sched::OpKind, selvedge_events::SiteId)| match site {
        NO_SITE => kind.name().to_owned(),
        site => format!("{} at {}", kind.name(), line(site).unwrap_or_else(|| format!("site {}", site.0))),
    };
    let event = format!("T{}@{} (step {})", at.thread, at.point, at.step);
    match at.how() {
        Some(DivergenceKind::NotEnabled) => format!("{event}: the thread to switch to could not run"),
        Some(DivergenceKind::Unexpected) => {
            format!("{event}: expected {}, came {}", site(at.expected), site(at.came))
        }
        Some(DivergenceKind::Passed) => format!("{event}: the thread was not stuck there"),
        None => event,
    }
}

fn stopped(answer: &Answer, until: (selvedge_events::ThreadIx, u32)) -> u8 {
    if answer.state != RunState::Until {
        let why = if ended_by_gate(answer) { "nothing could run before that" } else { "the run ended before that" };
        note(&format!("T{}@{} was not reached: {why}", until.0, until.1));
        return ExitCode::SomeFailed.code();
    }
    note(&format!("stopped at T{}@{}, step {}", until.0, until.1, answer.steps));
    for seat in answer.threads.iter().filter(|seat| !matches!(seat.state, SeatState::Empty | SeatState::Ended)) {
        let what = match seat.state {
            SeatState::Ready => "about to",
            SeatState::Outside => "outside, in",
            _ => "blocked in",
        };
        note(&format!("  T{}@{} {what} {}", seat.thread, seat.points, seat.kind.name()));
    }
    ExitCode::Success.code()
}

/// Hands the run over to a debugger, which stops at the point that was asked for.
fn under_gdb(
    args: &ReplayArgs,
    clip: &Clip,
    interventions: &Interventions,
    dir: &std::path::Path,
) -> Result<u8, Failure> {
    let how = Alone { until: args.until, inherit: true, ..Alone::default() };
    let ready = ready(clip, interventions, dir, how).map_err(|error| Failure::usage(&error))?;
    let mut gdb = Command::new("gdb");
    gdb.args(["--quiet", "-ex", "set confirm off", "-ex", "set breakpoint pending on"]);
    gdb.arg("-ex").arg(format!("set environment SELVEDGE_PLAN {}", ready.plan_file.display()));
    gdb.arg("-ex").arg(format!("set cwd {}", ready.inputs.dir.display()));
    gdb.arg("-ex").arg(format!("run < {}", ready.inputs.stdin.display()));
    gdb.args(&args.gdb_args).arg("--args").arg(&ready.inputs.program).args(ready.inputs.argv.iter().skip(1));
    let status = gdb.status().map_err(|error| {
        note("gdb could not be started: install it, or leave --gdb out");
        Failure::new(ExitCode::CannotStart.code(), &error)
    })?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ExitCode::Internal.code()))
}

/// Time for one replay, unless asked otherwise.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
