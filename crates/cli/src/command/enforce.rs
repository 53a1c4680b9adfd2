//! `selvedge enforce`.

use std::io::Write as _;
use std::path::Path;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::enforce::compile::Enforced;
use selvedge_drive::enforce::deploy::{counters, deploy};
use selvedge_drive::enforce::file::load;
use selvedge_drive::guard::keys::images_of;
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::program::Program;
use selvedge_drive::replay::{bench, replay};
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, run_guest};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome};

use crate::args::EnforceArgs;
use crate::messages::{Failure, note};

/// Enforces a profile, writes a plan that does, explains where locks are, or tries clips with them.
pub(crate) fn run(args: &EnforceArgs) -> Result<u8, Failure> {
    if !args.verify.is_empty() {
        return verify(args);
    }
    let profile = load(&args.profile).map_err(|error| Failure::usage(&error))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = args.guest.first().cloned().unwrap_or_default();
    let program = Program::find(&name, &path).map_err(|error| Failure::usage(&error))?;
    let enforced = Enforced::of(&profile, &images_of(&program)).map_err(|error| Failure::usage(&error))?;
    if args.explain {
        return explain(args, &enforced);
    }
    note(&enforced.fit());
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let deployed = deploy(&store, &enforced, args.plan.as_deref()).map_err(|error| Failure::usage(&error))?;
    if args.plan.is_some() {
        let words: Vec<_> = args.guest.iter().map(|word| word.to_string_lossy()).collect();
        let mut out = anstream::stdout().lock();
        writeln!(out, "start:    SELVEDGE_PLAN={} {}", deployed.plan.display(), words.join(" "))?;
        return Ok(ExitCode::Success.code());
    }
    let mut words = args.guest.iter().cloned();
    words.next();
    let guest = Guest { program: program.path.into_os_string(), args: words.collect() };
    let stop = Stop::on_signals();
    let request =
        RunRequest { guest: &guest, plan: &deployed.plan, output: GuestOutput::Inherit, timeout: None, stop: &stop };
    let (end, _) = run_guest(&request, &mut GuestInput::once()).map_err(|error| Failure::usage(&error))?;
    for (count, text) in counters(&deployed.logs) {
        note(&format!("{count} {text}"));
    }
    Ok(if stop.is_set() { 130 } else { end.outcome().exit_code() })
}

fn explain(args: &EnforceArgs, enforced: &Enforced) -> Result<u8, Failure> {
    write!(anstream::stdout().lock(), "{}", enforced.explain())?;
    if let Some(name) = &args.graph {
        for (when, text) in ["before", "after"].iter().zip(enforced.dot()) {
            std::fs::write(Path::new(&format!("{name}-{when}.dot")), text).map_err(|error| Failure::usage(&error))?;
        }
    }
    Ok(ExitCode::Success.code())
}

fn verify(args: &EnforceArgs) -> Result<u8, Failure> {
    let profile = load(&args.profile).map_err(|error| Failure::usage(&error))?;
    let mut failing = 0;
    for path in &args.verify {
        let clip = Clip::load(path).map_err(|error| Failure::usage(&error))?;
        let enforced = Enforced::of(&profile, &clip.files()).map_err(|error| Failure::usage(&error))?;
        let mut interventions = Interventions::default();
        interventions.enforce(&enforced, &clip.images).map_err(|error| Failure::usage(&error))?;
        let dir = scratch().map_err(|error| Failure::internal(&error))?;
        let mut bench = bench(&clip, &interventions, &dir.path().join("server"), args.timeout)
            .map_err(|error| Failure::usage(&error))?;
        let outcome = replay(&clip, &mut bench).map_err(|error| Failure::usage(&error))?.outcome;
        let passes = outcome == Outcome::Pass;
        failing += u32::from(!passes);
        let word = if passes { "passes" } else { "still fails" };
        writeln!(anstream::stdout().lock(), "{word}: {}", path.display())?;
    }
    Ok(if failing == 0 { ExitCode::Success.code() } else { ExitCode::Findings.code() })
}
