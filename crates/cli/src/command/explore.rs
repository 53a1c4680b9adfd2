//! `selvedge explore`.

use std::path::PathBuf;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::{Prepared, SurveyOptions, clips_dir, prepare};
use selvedge_drive::explore::{ExploreOptions, Explored, Failure as Failed, Strategy, explore};
use selvedge_drive::program::hex;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Finding, Program, Report};
use selvedge_sched::StrategyKind;

use crate::args::ExploreArgs;
use crate::command::explain;
use crate::command::page::Extra;
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;

/// Runs a program under many schedules; each distinct failure becomes a clip and a finding.
pub(crate) fn run(args: ExploreArgs) -> Result<u8, Failure> {
    let mut outlet = Outlet::open(&args.output, "explore")?;
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let interventions = args.control.interventions()?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of {}", args.survey_runs));
    let prepared = prepare(&store, &guest, &survey, &stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let interventions =
        interventions.beside(&prepared.images, &prepared.surveyed.files()).map_err(|error| Failure::usage(&error))?;
    interventions.fits.iter().for_each(|line| note(line));
    let options = ExploreOptions {
        strategy: match args.strategy.as_str() {
            "bounded" => Strategy::Bounded(args.preemptions),
            name => Strategy::Sampled(StrategyKind::from_name(name).unwrap_or(StrategyKind::Random)),
        },
        depth: args.depth,
        seed: args.seed,
        schedules: args.schedules,
        budget: args.budget,
        stop_on_first: args.stop_on_first || args.output.findings.halt_on_error,
        oracle: args.oracle.clone(),
        timeout: args.timeout,
        most_steps: args.max_steps,
        world: args.control.world(args.seed),
        jobs: args.jobs,
        interventions,
        check_determinism: args.check_determinism,
    };
    let mut live = Live::new();
    let explored = explore(&prepared, &options, &stop, &mut |explored| live.show(|| progress(explored)))
        .map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    live.end();
    let clips = keep(&store, &prepared, &options, &explored)?;
    let mut findings = Vec::new();
    for (failed, clip, path) in &clips {
        let small = explain::smaller(clip, &options.interventions, BUDGET, args.timeout, &stop)?;
        let (clip, path) = match &small {
            Some(small) => (&small.clip, explain::smaller_path(path)),
            None => (clip, path.clone()),
        };
        if small.is_some() {
            clip.save(&path).map_err(|error| Failure::usage(&error))?;
        }
        let mut lines = vec![format!(
            "First in schedule {}; {} of {} schedules fail so.",
            failed.first,
            failed.count,
            explored.schedules()
        )];
        lines.extend(explain::again(clip, &path, &options.interventions));
        let mut explained = explain::explain(clip, &options.interventions, small.as_ref(), &lines, args.timeout)?;
        explained.finding.clip = Some(path.display().to_string());
        explained.finding.replay = Some(format!("{}{}", explain::replay_command(&path), options.interventions.again));
        if !outlet.hides(&explained.finding) {
            outlet.show(&explained.text)?;
        }
        findings.push(explained.finding);
    }
    let notes = summary(&explored, &options);
    notes.iter().for_each(|line| note(line));
    outlet.add(Extra { interventions: options.interventions.clone(), notes, ..Extra::default() });
    let otherwise = if stop.is_set() { 130 } else { ExitCode::Success.code() };
    outlet.finish(report(&prepared, &explored, findings), otherwise)
}

/// What to do about a program that does not depend on the schedule alone.
const NONDETERMINISTIC: &str = "look for what decides that there and is not the same in every run: the network, another \
                                process, a process id, an address that is hashed or compared (\"Reproducible runs\" in \
                                docs/guide/tuning.md); clips of such a program may not repeat";

/// Runs for making a failure small before it is shown.
const BUDGET: u32 = 400;

/// Keeps each distinct failure as a clip, in the order in which they were met.
fn keep<'a>(
    store: &Store,
    prepared: &Prepared,
    options: &ExploreOptions,
    explored: &'a Explored,
) -> Result<Vec<(&'a Failed, Clip, PathBuf)>, Failure> {
    /// Beyond it, more clips tell a user nothing.
    const MOST: usize = 16;
    let dir = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut failures: Vec<&Failed> = explored.failures.values().collect();
    failures.sort_by_key(|failure| failure.first);
    let mut kept = Vec::new();
    for failed in failures.into_iter().take(MOST) {
        let clip = failed.clip(prepared, options);
        let path = dir.join(format!("{name}-{}.clip", explain::short_id(&clip)));
        clip.save(&path).map_err(|error| Failure::usage(&error))?;
        kept.push((failed, clip, path));
    }
    Ok(kept)
}

fn report(prepared: &Prepared, explored: &Explored, findings: Vec<Finding>) -> Report {
    let program = Program {
        path: prepared.program.path.to_string_lossy().into_owned(),
        build_id: hex(&prepared.program.build_id),
    };
    Report::new(program, explored.tally.into(), findings)
}

/// What was done, and what the numbers mean.
fn summary(explored: &Explored, options: &ExploreOptions) -> Vec<String> {
    let tally = &explored.tally;
    let mut lines = vec![format!(
        "{} schedules in {:.1} s ({:.0}/s): {} pass, {} fail, {} hang; {}",
        explored.schedules(),
        explored.elapsed.as_secs_f64(),
        explored.rate(),
        tally.pass,
        tally.fail,
        tally.hang,
        distinct(explored.failures.len())
    )];
    match options.strategy {
        Strategy::Bounded(most) if explored.complete => {
            let all = if explored.exhaustive { "; there are no others" } else { "" };
            lines.push(format!("these are all schedules with at most {}{all}", preemptions(most)));
        }
        Strategy::Bounded(most) => {
            lines.push(format!("not all schedules with at most {} were run", preemptions(most)));
        }
        Strategy::Sampled(_) => {}
    }
    if let Some(why) = &explored.nondeterministic {
        lines.push(format!("the program does not depend on the schedule alone: {why}"));
        lines.push(NONDETERMINISTIC.to_owned());
    } else if options.check_determinism {
        lines.push("each schedule was run twice, and both runs were the same".to_owned());
    }
    if explored.hidden_blocks > 0 {
        lines.push(format!(
            "{} times a thread blocked where selvedge does not look; what followed is not exactly repeatable",
            explored.hidden_blocks
        ));
    }
    if explored.cut > 0 {
        lines.push(format!("{} runs had more switches than a clip can list; theirs name the strategy", explored.cut));
    }
    if explored.gave_up > 0 {
        lines.push(format!("in {} runs control was lost; they went on free", explored.gave_up));
    }
    lines
}

fn preemptions(count: u32) -> String {
    if count == 1 { "1 preemption".to_owned() } else { format!("{count} preemptions") }
}

fn distinct(count: usize) -> String {
    match count {
        0 => "no failures".to_owned(),
        1 => "1 distinct failure".to_owned(),
        count => format!("{count} distinct failures"),
    }
}

fn progress(explored: &Explored) -> String {
    let failures = explored.tally.fail + explored.tally.hang;
    format!(
        "{} schedules, {failures} failures, {} distinct, {:.0}/s",
        explored.schedules(),
        explored.failures.len(),
        explored.rate()
    )
}
