//! `selvedge hunt`.

use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::hunt::{HuntOptions, base_clip, hunt};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::ExitCode;

use crate::args::HuntArgs;
use crate::command::pursued;
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;

/// Records a program under varied schedules, predicts, and makes what is predicted happen.
pub(crate) fn run(args: HuntArgs) -> Result<u8, Failure> {
    let outlet = Outlet::open(&args.trying.output, "hunt")?;
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    if args.control.interventions.is_any() {
        let text = "hunt looks for bugs in the program as it is: take --guard, --heal and --enforce away";
        return Err(Failure::Error { code: ExitCode::Usage.code(), text: text.to_owned() });
    }
    let patterns = pursued::patterns(&args.trying)?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.trying.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of {}", args.survey_runs));
    let prepared = prepare(&store, &guest, &survey, &stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let options = HuntOptions {
        runs: args.runs,
        budget: args.budget,
        oracle: args.trying.oracle.clone(),
        seed: args.seed,
        effort: pursued::effort(&args.trying, args.seed),
        most_steps: args.trying.max_steps,
        world: args.control.world(args.seed),
        patterns,
        jobs: args.trying.jobs,
    };
    let mut live = Live::new();
    let hunted = hunt(&prepared, &options, &stop, &mut |step| pursued::progress(&mut live, step));
    live.end();
    let hunted = hunted.map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    let code = pursued::tell(&hunted, &store, &base_clip(&prepared, &options), &args.trying, outlet)?;
    Ok(if stop.is_set() && code == ExitCode::Success.code() { 130 } else { code })
}
