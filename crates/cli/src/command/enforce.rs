//! `selvedge enforce`.

use std::io::Write as _;
use std::path::Path;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::{SurveyOptions, prepare, scratch};
use selvedge_drive::enforce::compile::Enforced;
use selvedge_drive::enforce::deploy::{counters, deploy, waited};
use selvedge_drive::enforce::file::load;
use selvedge_drive::explore::{ExploreOptions, Explored, Strategy, explore as search};
use selvedge_drive::guard::keys::images_of;
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::program::Program;
use selvedge_drive::replay::{bench, replay};
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, run_guest};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome};
use selvedge_report::lock_order_svg::{Panel, draw};

use crate::args::EnforceArgs;
use crate::messages::{Failure, Live, note};

/// Locks whose waits are told after a run.
const MOST_WAITS: usize = 5;

/// Enforces a profile, writes a plan that does, explains where locks are, or tries clips with them.
pub(crate) fn run(args: &EnforceArgs) -> Result<u8, Failure> {
    if !args.verify.is_empty() {
        return verify(args);
    }
    let profile = load(&args.profile).map_err(|error| Failure::usage(&error))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = args.guest.first().cloned().unwrap_or_default();
    let program = Program::find(&name, &path).map_err(|error| Failure::usage(&error))?;
    let place = if args.all { Enforced::all_of } else { Enforced::of };
    let enforced = place(&profile, &images_of(&program)).map_err(|error| Failure::usage(&error))?;
    if args.explain {
        return explain(args, &enforced);
    }
    if let Some(preemptions) = args.verify_bounded {
        return verify_bounded(args, &enforced, preemptions);
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
    for line in enforced.waits(&waited(&deployed.logs)).iter().take(MOST_WAITS) {
        note(line);
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
    if let Some(path) = &args.svg {
        let titles = ["Before circles were broken", "After"];
        let panels = titles.into_iter().zip(enforced.drawn()).map(|(title, order)| {
            let locks = order.locks.into_iter().map(|lock| (lock.name, lock.is_inserted)).collect();
            Panel { title, locks, edges: order.edges }
        });
        std::fs::write(path, draw(&panels.collect::<Vec<_>>())).map_err(|error| Failure::usage(&error))?;
    }
    Ok(ExitCode::Success.code())
}

fn verify(args: &EnforceArgs) -> Result<u8, Failure> {
    let profile = load(&args.profile).map_err(|error| Failure::usage(&error))?;
    let mut failing = 0;
    for path in &args.verify {
        let clip = Clip::load(path).map_err(|error| Failure::usage(&error))?;
        let place = if args.all { Enforced::all_of } else { Enforced::of };
        let enforced = place(&profile, &clip.files()).map_err(|error| Failure::usage(&error))?;
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

/// Section 11.1 of the paper: every schedule with a few preemptions, without the locks and with them.
fn verify_bounded(args: &EnforceArgs, enforced: &Enforced, preemptions: u32) -> Result<u8, Failure> {
    note(&enforced.fit());
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.iter().cloned();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(args.timeout) };
    let prepared = prepare(&store, &guest, &survey, &stop, &mut |_| {})
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let mut with = Interventions::default();
    with.enforce(enforced, &prepared.images).map_err(|error| Failure::usage(&error))?;
    let mut failing = 0;
    for (word, interventions) in [("without the locks", Interventions::default()), ("with the locks", with)] {
        let options = ExploreOptions {
            strategy: Strategy::Bounded(preemptions),
            schedules: args.schedules,
            oracle: args.oracle.clone(),
            timeout: args.timeout,
            interventions,
            ..ExploreOptions::default()
        };
        let mut live = Live::new();
        let shown = |done: &Explored| format!("{word}: {} schedules, {} fail", done.schedules(), failed(done));
        let done = search(&prepared, &options, &stop, &mut |done| live.show(|| shown(done)))
            .map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
        live.end();
        let most = if preemptions == 1 { "1 preemption".to_owned() } else { format!("{preemptions} preemptions") };
        let whole = match (&done.nondeterministic, done.complete) {
            (Some(why), _) => format!("not all with up to {most}, the program did not repeat: {why}"),
            (None, true) => format!("all with up to {most}"),
            (None, false) => format!("not all with up to {most}, see --schedules"),
        };
        let mut out = anstream::stdout().lock();
        writeln!(out, "{word}: {} schedules ({whole}): {} fail", done.schedules(), failed(&done))?;
        failing = failed(&done);
        if stop.is_set() {
            return Ok(130);
        }
    }
    Ok(if failing == 0 { ExitCode::Success.code() } else { ExitCode::Findings.code() })
}

fn failed(done: &Explored) -> u64 {
    done.tally.fail + done.tally.hang
}
