//! `selvedge relax`.

use std::collections::BTreeSet;
use std::io::Write as _;

use selvedge_analyze::invariant::{Invariants, SiteKey, relax};
use selvedge_drive::guard::choose::{Choice, choose};
use selvedge_drive::guard::compile::{Guard, GuardHow, Mode};
use selvedge_drive::guard::deploy::deploy;
use selvedge_drive::guard::file::{load, save};
use selvedge_drive::guard::keys::{Keyed, images_of};
use selvedge_drive::guard::log::take_logs;
use selvedge_drive::guard::site_names::{SiteName, SiteNames};
use selvedge_drive::guard::violations::Violations;
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, ask_oracle, run_guest};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome, Tally};

use crate::args::RelaxArgs;
use crate::command::guarding::{self, counted};
use crate::messages::{Failure, Live, note};

/// Pairs that are to belong, with what they are called.
type Pairs = BTreeSet<((SiteKey, Option<SiteKey>), String)>;

/// Takes violations into invariants.
pub(crate) fn run(args: &RelaxArgs) -> Result<u8, Failure> {
    let mut invariants = load(&args.invariants).map_err(|error| Failure::usage(&error))?;
    let selection = guarding::selection(&args.only, &[])?;
    guarding::say_idle(&selection, &invariants);
    let mut pairs = Pairs::new();
    if args.auto {
        pairs = of_passing_runs(args, &invariants)?;
    }
    for log in &args.logs {
        let all = Violations::read(log).map_err(|error| Failure::usage(&error))?;
        pairs.extend(pairs_of(&all));
    }
    pairs.retain(|((site, _), _)| selection.keeps(site));
    let mut out = anstream::stdout().lock();
    let mut added = 0;
    for (pair, words) in &pairs {
        let new = relax(&mut invariants, std::slice::from_ref(pair));
        added += usize::from(new > 0);
        writeln!(out, "{} {words}", if new > 0 { "added:  " } else { "known:  " })?;
    }
    if added > 0 {
        let output = args.output.as_ref().unwrap_or(&args.invariants);
        save(output, &invariants).map_err(|error| Failure::usage(&error))?;
        writeln!(out, "{} added to {}", counted(added, "pair"), output.display())?;
    } else {
        writeln!(out, "nothing to add")?;
    }
    out.flush()?;
    Ok(ExitCode::Success.code())
}

/// What logs say is to belong.
fn pairs_of(all: &Violations) -> Pairs {
    let place = |site: u32| all.names.get(site).map_or_else(|| "nothing".to_owned(), SiteName::place);
    let pair = |pair: &selvedge_drive::guard::violations::Violation| {
        let site = all.names.key(pair.site)?;
        let words = format!("{} after {} ({} times)", place(pair.site), place(pair.other), pair.count);
        Some(((site, all.names.key(pair.other)), words))
    };
    all.pairs.iter().filter_map(pair).collect()
}

/// Runs the program under a guard that lets nobody wait; violations of runs that passed are to belong.
fn of_passing_runs(args: &RelaxArgs, invariants: &Invariants) -> Result<Pairs, Failure> {
    let usage = |error: &dyn std::error::Error| Failure::usage(error);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = args.guest.first().cloned().unwrap_or_default();
    let program = Program::find(&name, &path).map_err(|error| usage(&error))?;
    let store = Store::create(&args.store.out).map_err(|error| usage(&error))?;
    let images = Keyed::load_all(&images_of(&program));
    let chosen = choose(invariants, &Choice::default()).invariants;
    let how = GuardHow { mode: Mode::Watch, ..GuardHow::default() };
    let guard = Guard::of(&chosen, &images, &how).map_err(|error| usage(&error))?;
    note(&guard.fit.to_string());
    let deployed =
        deploy(&store, &guard, &images, (&program, &args.invariants), None).map_err(|error| usage(&error))?;
    let names = SiteNames::load(&deployed.logs).unwrap_or_default();
    let guest = Guest { program: program.path.into_os_string(), args: args.guest.iter().skip(1).cloned().collect() };
    let stop = Stop::on_signals();
    let mut input = GuestInput::many(deployed.logs.join("stdin"));
    let mut pairs = Pairs::new();
    let mut tally = Tally::default();
    let mut live = Live::new();
    for _ in 0..args.runs {
        if stop.is_set() {
            break;
        }
        let request = RunRequest {
            guest: &guest,
            plan: &deployed.plan,
            output: GuestOutput::Files(deployed.logs.clone()),
            timeout: Some(args.timeout),
            stop: &stop,
        };
        let (end, _) = run_guest(&request, &mut input).map_err(|error| usage(&error))?;
        let outcome = match (&args.oracle, end.outcome()) {
            (Some(oracle), Outcome::Pass | Outcome::Fail { .. }) => {
                ask_oracle(oracle, &deployed.logs, end).map_err(|error| usage(&error))?
            }
            (_, ended) => ended,
        };
        tally.add(&outcome);
        let logs = take_logs(&deployed.logs).map_err(|error| usage(&error))?;
        if outcome == Outcome::Pass {
            pairs.extend(pairs_of(&Violations::of(&logs, names.clone())));
        }
        live.show(|| {
            format!("{}/{} runs, {} pass, {}", tally.total(), args.runs, tally.pass, counted(pairs.len(), "pair"))
        });
    }
    live.end();
    note(&format!(
        "{} runs: {} passed, {} failed, {} hung; violations of those that failed are left out",
        tally.total(),
        tally.pass,
        tally.fail,
        tally.hang
    ));
    Ok(pairs)
}
