//! `selvedge demo`: a small buggy program, built, recorded, shown, and made to fail on demand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::build::{Driver, Exit};
use selvedge_drive::controlled::{SurveyOptions, prepare, scratch};
use selvedge_drive::explore::{ExploreOptions, explore};
use selvedge_drive::intervene::Interventions;
use selvedge_drive::minimize::minimize;
use selvedge_drive::record::{RecordOptions, Step, record};
use selvedge_drive::replay::{bench, replay};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome};
use selvedge_report::columns::{ColumnOptions, write_columns};
use selvedge_trace::Run;

use crate::args::DemoArgs;
use crate::command::{cc, trace};
use crate::messages::Failure;

const SOURCE: &str = include_str!("../../demo/account.c");
/// Runs to record: the bug shows itself in most of them.
const RUNS: u32 = 10;

/// Time for a run.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Builds, records and explains.
pub(crate) fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let temporary =
        tempfile::Builder::new().prefix("selvedge-demo-").tempdir().map_err(|error| Failure::internal(&error))?;
    let dir = args.keep.as_deref().unwrap_or(temporary.path());
    let create = |error: std::io::Error| Failure::usage(&error);
    std::fs::create_dir_all(dir).map_err(create)?;
    let dir = dir.canonicalize().map_err(create)?;
    let mut out = std::io::stdout().lock();

    writeln!(
        out,
        "Two threads draw 80 from an account that holds 100. Each step is locked, the two together are not:\n"
    )?;
    for line in SOURCE
        .lines()
        .skip_while(|line| !line.starts_with("static int covers"))
        .take_while(|line| !line.starts_with("int main"))
    {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "It is built with `selvedge cc -O1 -g account.c -o account -pthread` and recorded with")?;
    writeln!(out, "`selvedge record -n {RUNS} -- ./account`.\n")?;
    out.flush()?;

    let program = build(&dir)?;
    let store = Store::create(&dir.join("runs")).map_err(|error| Failure::usage(&error))?;
    let guest = Guest { program: program.into_os_string(), args: Vec::new() };
    let options = RecordOptions { runs: RUNS, timeout: Some(TIMEOUT), ..RecordOptions::default() };
    let mut shown: Option<(u32, Outcome)> = None;
    let mut each = |step: Step<'_>| {
        if let Step::Ran { record, .. } = step
            && shown.as_ref().is_none_or(|(_, outcome)| *outcome == Outcome::Pass)
        {
            shown = Some((record.id, record.outcome));
        }
    };
    let recorded = record(&store, &guest, &options, &Stop::on_signals(), &mut each)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    writeln!(out, "{}\n", recorded.progress)?;
    let Some((id, outcome)) = shown else { return Ok(recorded.exit_code()) };
    let run = Run::open(&store.run_dir(id)).map_err(|error| Failure::internal(&error))?;
    for process in &run.processes {
        write_columns(process, ColumnOptions { width: trace::width(), ..ColumnOptions::default() }, &mut out)?;
    }
    writeln!(out)?;
    if outcome == Outcome::Pass {
        writeln!(
            out,
            "This time one was served before the other asked. Another order takes 160 out of 100: run it again."
        )?;
    } else {
        writeln!(
            out,
            "Run {id} went wrong. Read downwards: both threads read `balance` in covers() and find 100, before either"
        )?;
        writeln!(out, "writes it in take(). Both checks were true when they were made, and 160 is taken out of 100.")?;
        writeln!(
            out,
            "No access is unlocked, so a race detector is silent; what is missing is that check and withdrawal are one."
        )?;
    }
    on_demand(&store, &guest, &mut out)?;
    writeln!(out, "\nNext:")?;
    writeln!(
        out,
        "  selvedge cc -O1 -g prog.c -o prog -pthread    build your own program (or: selvedge build -- make)"
    )?;
    writeln!(out, "  selvedge record -n 100 -- ./prog              record a hundred runs")?;
    writeln!(out, "  selvedge runs                                 see which ones failed")?;
    writeln!(out, "  selvedge trace 1 --variable balance           follow one variable through a run")?;
    writeln!(out, "  selvedge explore -- ./prog                    make it fail, and keep how")?;
    out.flush()?;
    Ok(0)
}

/// Schedules to try.
const SCHEDULES: u64 = 200;
/// Replays of the one that fails.
const REPLAYS: u32 = 20;

/// Explores the program, makes the failing schedule small, and replays it.
fn on_demand(store: &Store, guest: &Guest, out: &mut impl Write) -> Result<(), Failure> {
    let internal = |error: &dyn std::error::Error| Failure::internal(error);
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(TIMEOUT) };
    let prepared = prepare(store, guest, &survey, &stop, &mut |_| {}).map_err(|error| internal(&error))?;
    let options = ExploreOptions { schedules: SCHEDULES, ..ExploreOptions::default() };
    let explored = explore(&prepared, &options, &stop, &mut |_| {}).map_err(|error| internal(&error))?;
    writeln!(
        out,
        "\nNow on demand. `selvedge explore -- ./account` runs one thread at a time and chooses which: {} of {} schedules",
        explored.tally.fail,
        explored.schedules()
    )?;
    let Some(failure) = explored.failures.values().min_by_key(|failure| failure.first) else {
        return Ok(writeln!(out, "failed; more would find it.")?);
    };
    let clip = failure.clip(&prepared, &options);
    let dir = scratch().map_err(|error| internal(&error))?;
    let mut bench = bench(&clip, &Interventions::default(), dir.path(), TIMEOUT).map_err(|error| internal(&error))?;
    let small = minimize(&clip, &mut bench, 1000).map_err(|error| internal(&error))?;
    let mut same = 0;
    for _ in 0..REPLAYS {
        same += u32::from(replay(&small.clip, &mut bench).map_err(|error| internal(&error))?.is_as(&small.clip));
    }
    writeln!(out, "fail. The first of them, made small by `selvedge minimize`, is the schedule")?;
    writeln!(out, "\n    {}\n", small.clip.schedule())?;
    if small.clip.script.is_empty() {
        writeln!(out, "which has no switch at all: it fails when each thread simply runs until it waits or sleeps.")?;
    } else {
        writeln!(out, "(`1@4-2`: thread 1, about to make its 4th step, hands over to thread 2).")?;
    }
    writeln!(out, "Replayed {REPLAYS} times, it fails {same} times.")?;
    Ok(())
}

fn build(dir: &Path) -> Result<PathBuf, Failure> {
    let (source, program) = (dir.join("account.c"), dir.join("account"));
    std::fs::write(&source, SOURCE).map_err(|error| Failure::usage(&error))?;
    let mut args: Vec<std::ffi::OsString> = ["-O1", "-g", "-pthread", "-o"].map(Into::into).to_vec();
    args.extend([program.clone().into(), source.into()]);
    match cc::compile(Driver::C, &args)? {
        Exit::Code(0) => Ok(program),
        _ => {
            let text = "the demonstration could not be built: the compiler's own message is above".to_owned();
            Err(Failure::Error { code: ExitCode::BuildFailed.code(), text })
        }
    }
}
