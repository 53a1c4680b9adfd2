//! `selvedge record`.

use std::io::IsTerminal as _;

use selvedge_drive::control::{ControlRequest, Log, World};
use selvedge_drive::record::{Amount, RecordOptions, Step, Then, record};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::{RunRecord, Store};
use selvedge_sched::{Spec, StrategyKind};

use crate::args::RecordArgs;
use crate::messages::{Failure, end_status, note, status};

/// Records runs; the exit code is the guest's own for a single run.
pub(crate) fn run(args: RecordArgs) -> Result<u8, Failure> {
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let then = match (args.plan_only, args.survey_only) {
        (Some(file), true) => Then::WriteSurveyPlan(file),
        (Some(file), false) => Then::WritePlan(file),
        (None, true) => Then::Nothing,
        (None, false) => Then::Record,
    };
    let options = RecordOptions {
        runs: args.runs,
        timeout: args.timeout,
        oracle: args.oracle,
        survey_runs: args.survey_runs,
        resurvey: args.resurvey,
        then,
        trace_limit: args.trace_limit_mb.saturating_mul(1 << 20),
        memory_limit_mb: args.memory_limit_mb,
        control: args.controlled.then(|| controlled(args.seed)),
        interventions: args.interventions.collect()?,
    };
    let terminal = std::io::stderr().is_terminal();
    let single = options.runs == 1;
    let mut each = |step: Step<'_>| {
        if !args.quiet {
            say(&step, single, terminal);
        }
    };
    let recorded = record(&store, &guest, &options, &Stop::on_signals(), &mut each)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    if let (Some(last), false) = (&recorded.last, args.quiet) {
        if !single && terminal {
            end_status();
        }
        // The place is worth saying where it is not the usual one.
        let usual = args.store.out.as_os_str() == selvedge_drive::store::DEFAULT_DIR;
        let place = if usual { String::new() } else { format!(" --out {}", args.store.out.display()) };
        note(&format!("look at it with `selvedge trace {}{place}`", last.id));
    }
    Ok(recorded.exit_code())
}

/// What a controlled recording asks for.
fn controlled(seed: u64) -> ControlRequest {
    ControlRequest {
        spec: Spec { kind: StrategyKind::Random, seed, ..Spec::default() },
        script: Vec::new(),
        log: Log::Switches,
        most_steps: u64::MAX,
        until: None,
        world: World { random: Some(seed), ..World::default() },
    }
}

fn say(step: &Step<'_>, single: bool, terminal: bool) {
    match step {
        Step::Surveying { run, of } => note(&format!("survey run {run} of {of}")),
        Step::Armed { surveyed, armed } => {
            let kept = if surveyed.kept { " (kept survey)" } else { "" };
            note(&format!(
                "{} of {} sites touch shared memory{kept}; arming {} accesses, {} atomics, {} function hooks \
                 ({} of them did not run)",
                surveyed.survey.shared_sites(),
                surveyed.survey.seen_sites(),
                armed.accesses,
                armed.atomics,
                armed.functions,
                armed.unseen
            ));
            if surveyed.lost {
                note(
                    "the survey could not be written (no space where runs are kept): only synchronisation is recorded",
                );
            }
            if armed.left_out > 0 {
                note(&format!("{} sites beyond the number that a trace can name are left out", armed.left_out));
            }
        }
        Step::Intervening(interventions) => interventions.fits.iter().for_each(|line| note(line)),
        Step::PlanWritten { file, traces } => {
            note(&format!(
                "start the program with SELVEDGE_PLAN={}; traces go to {}",
                file.display(),
                traces.display()
            ));
        }
        Step::Ran { record, .. } if single => note(&one(record)),
        Step::Ran { progress, .. } if terminal => status(&progress.to_string()),
        Step::Ran { progress, .. } => note(&progress.to_string()),
        _ => {}
    }
}

fn one(record: &RunRecord) -> String {
    let totals = &record.totals;
    format!(
        "run {}: {}, {} threads, {} events, {:.3} s",
        record.id,
        record.outcome,
        totals.threads,
        Amount(totals.events),
        record.seconds
    )
}
