//! `selvedge demo`: a small program that passes its tests, and the bug that a hunt finds in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_drive::build::{Driver, Exit};
use selvedge_drive::confirm::{Effort, Verdict};
use selvedge_drive::control::World;
use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::explore::DEFAULT_MOST_STEPS;
use selvedge_drive::hunt::{HuntOptions, Hunted, base_clip, hunt};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::ExitCode;

use crate::args::{DemoArgs, OutputArgs, TryArgs};
use crate::command::{cc, pursued};
use crate::messages::Failure;
use crate::outlet::Outlet;

const SOURCE: &str = include_str!("../../demo/account.c");
/// Plain runs before the hunt: the bug hides in them.
const PLAIN: u32 = 200;
/// Runs to record.
const RUNS: u32 = 4;
/// Time for a run.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Builds, runs, hunts and explains.
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
    let shown = SOURCE.lines().skip_while(|line| !line.starts_with("static int covers"));
    for line in shown.take_while(|line| !line.starts_with("int main")) {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "It is built with `selvedge cc -O1 -g account.c -o account -pthread`.")?;
    out.flush()?;
    let program = build(&dir)?;
    let failed = plain(&program)?;
    writeln!(out, "Run {PLAIN} times by itself, it fails {failed} times: a test suite would call it correct.\n")?;
    writeln!(
        out,
        "`selvedge hunt -- ./account` records {RUNS} runs, looks in those that passed for orders of events that did not"
    )?;
    writeln!(out, "happen and could have, and makes them happen:\n")?;
    out.flush()?;

    let store = Store::create(&dir.join("runs")).map_err(|error| Failure::usage(&error))?;
    let (hunted, options, clip) = pursue(&store, &program)?;
    drop(out);
    let trying = TryArgs {
        oracle: None,
        timeout: TIMEOUT,
        each: options.effort.limit,
        chances: options.effort.chances,
        max_steps: options.most_steps,
        patterns: None,
        jobs: 1,
        all: false,
        verbose: false,
        output: OutputArgs::default(),
    };
    pursued::tell(&hunted, &store, &clip, &trying, Outlet::open(&trying.output, "demo")?)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\nNo access is unlocked, so a race detector is silent; what is missing is that check and withdrawal are one."
    )?;
    writeln!(out, "\nNext:")?;
    for (command, what) in [
        ("selvedge cc -O1 -g prog.c -o prog -pthread", "build your own program (or: selvedge build -- make)"),
        ("selvedge hunt -- ./prog", "find what its passing runs hide"),
        ("selvedge record -n 100 -- ./prog", "record a hundred runs"),
        ("selvedge explore -- ./prog", "try schedules, and keep those that fail"),
    ] {
        writeln!(out, "  {command:<46}{what}")?;
    }
    let confirmed = hunted.tried.iter().find_map(|tried| match &tried.verdict {
        Some(Verdict::Confirmed(happened)) if happened.clip.wrong.is_some() => Some(&happened.clip),
        _ => None,
    });
    match (confirmed, &args.keep) {
        (Some(_), None) => writeln!(
            out,
            "\nThe replay commands above work while the files are there: `selvedge demo --keep DIR` keeps them."
        )?,
        (Some(_), Some(_)) => writeln!(out, "\nThe replay commands above work as they stand.")?,
        (None, _) => writeln!(out, "\nThis time nothing was found; run it again.")?,
    }
    out.flush()?;
    Ok(0)
}

fn pursue(store: &Store, program: &Path) -> Result<(Hunted, HuntOptions, selvedge_drive::clip::Clip), Failure> {
    let stop = Stop::on_signals();
    let guest = Guest { program: program.as_os_str().to_owned(), args: Vec::new() };
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(TIMEOUT) };
    let prepared = prepare(store, &guest, &survey, &stop, &mut |_| {}).map_err(|error| Failure::internal(&error))?;
    let options = HuntOptions {
        runs: RUNS,
        budget: Duration::from_secs(30),
        keep_back: Duration::ZERO,
        oracle: None,
        seed: 1,
        effort: Effort { timeout: TIMEOUT, ..Effort::default() },
        most_steps: DEFAULT_MOST_STEPS,
        world: World::default(),
        patterns: Vec::new(),
        jobs: 1,
    };
    let hunted = hunt(&prepared, &options, None, &stop, &mut |_| {}).map_err(|error| Failure::internal(&error))?;
    let clip = base_clip(&prepared, &options);
    Ok((hunted, options, clip))
}

/// Runs the program by itself; how often it failed.
fn plain(program: &Path) -> Result<u32, Failure> {
    let mut failed = 0;
    for _ in 0..PLAIN {
        let status = Command::new(program).stdout(Stdio::null()).stdin(Stdio::null()).status();
        failed += u32::from(!status.map_err(|error| Failure::internal(&error))?.success());
    }
    Ok(failed)
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
