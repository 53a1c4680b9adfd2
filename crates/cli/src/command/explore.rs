//! `selvedge explore`.

use selvedge_drive::control::World;
use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::explore::{ExploreOptions, Explored, Strategy, default_jobs, explore};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_sched::StrategyKind;

use crate::args::ExploreArgs;
use crate::messages::{Failure, end_status, note, status};

/// Runs a program under many schedules.
pub(crate) fn run(args: ExploreArgs) -> Result<u8, Failure> {
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.timeout) };
    let prepared = prepare(&store, &guest, &survey, &stop, &mut |run| note(&format!("survey run {run}")))
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let strategy = match args.strategy.as_str() {
        "bounded" => Strategy::Bounded(args.preemptions),
        name => Strategy::Sampled(StrategyKind::from_name(name).unwrap_or(StrategyKind::Random)),
    };
    let options = ExploreOptions {
        strategy,
        depth: args.depth,
        seed: args.seed,
        schedules: args.schedules,
        budget: args.budget,
        stop_on_first: args.stop_on_first,
        oracle: args.oracle,
        timeout: args.timeout,
        most_steps: args.max_steps,
        world: World::default(),
        jobs: args.jobs.unwrap_or_else(default_jobs),
    };
    let mut each = |explored: &Explored| {
        if explored.schedules() % 50 == 0 {
            status(&format!(
                "{} schedules, {} failures, {} distinct, {:.0}/s",
                explored.schedules(),
                explored.tally.fail + explored.tally.hang,
                explored.failures.len(),
                explored.rate()
            ));
        }
    };
    let explored = explore(&prepared.inputs, &prepared.images, &options, prepared.scratch.path(), &stop, &mut each)
        .map_err(|error| Failure::internal(&error))?;
    end_status();
    note(&format!(
        "{} schedules, {} pass, {} fail, {} hang, {:.0}/s, longest {} steps, complete {}, hidden {}, cut {}, first {:?} {:?}",
        explored.schedules(),
        explored.tally.pass,
        explored.tally.fail,
        explored.tally.hang,
        explored.rate(),
        explored.longest,
        explored.complete,
        explored.hidden_blocks,
        explored.cut,
        explored.first_failure,
        explored.nondeterministic
    ));
    for failure in explored.failures.values() {
        note(&format!(
            "first {} count {}: {:?} {} ({} switches)",
            failure.first,
            failure.count,
            failure.signature.harm,
            failure.signature,
            failure.script.len()
        ));
    }
    Ok(0)
}
