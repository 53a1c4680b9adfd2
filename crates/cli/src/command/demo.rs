//! `selvedge demo`: a small buggy program, built, recorded and shown.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::build::{Driver, Exit};
use selvedge_drive::record::{RecordOptions, Step, record};
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
    let options = RecordOptions { runs: RUNS, timeout: Some(Duration::from_secs(10)), ..RecordOptions::default() };
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
    writeln!(out, "\nNext:")?;
    writeln!(
        out,
        "  selvedge cc -O1 -g prog.c -o prog -pthread    build your own program (or: selvedge build -- make)"
    )?;
    writeln!(out, "  selvedge record -n 100 -- ./prog              record a hundred runs")?;
    writeln!(out, "  selvedge runs                                 see which ones failed")?;
    writeln!(out, "  selvedge trace 1 --variable balance           follow one variable through a run")?;
    out.flush()?;
    Ok(0)
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
