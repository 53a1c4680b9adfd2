//! `selvedge guard`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use selvedge_analyze::invariant::SiteKey;
use selvedge_analyze::invariant::group::{ACCESS_NS, GroupShare, Heat, hooks_ns};
use selvedge_drive::guard::choose::{Choice, choose};
use selvedge_drive::guard::compile::{Guard, GuardHow, Mode};
use selvedge_drive::guard::deploy::{Deployed, deploy};
use selvedge_drive::guard::file::load;
use selvedge_drive::guard::keys::{Keyed, images_of, mark_asked};
use selvedge_drive::guard::switching::switching;
use selvedge_drive::guard::violations::{ReadLogsError, Violations};
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, run_guest};
use selvedge_drive::store::Store;
use selvedge_events::guard::LogCounter;
use selvedge_findings::suppression::Subject;
use selvedge_findings::{ExitCode, Report, Runs};
use selvedge_report::violation::write_violation;

use crate::args::GuardArgs;
use crate::command::guarding::{self, counted};
use crate::messages::{Failure, note};
use crate::sieve::Sieve;

/// Guards a program, writes a plan that does, or explains what a guard noted.
pub(crate) fn run(args: &GuardArgs) -> Result<u8, Failure> {
    if let Some(log) = &args.log {
        return explain(args, log);
    }
    let Some(invariants) = &args.invariants else { return Ok(ExitCode::Usage.code()) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name =
        args.program.as_ref().map(|program| program.as_os_str()).or(args.guest.first().map(|name| name.as_os_str()));
    let Some(name) = name else {
        let text = "which program? give its command after --, or with --plan its file after --program";
        return Err(Failure::Error { code: ExitCode::Usage.code(), text: text.to_owned() });
    };
    let program = Program::find(name, &path).map_err(|error| Failure::usage(&error))?;
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let images = Keyed::load_all(&images_of(&program));
    let guard = compile(args, invariants, &images)?;
    let deployed = deploy(&store, &guard, &images, (&program, invariants), args.plan.as_deref())
        .map_err(|error| Failure::usage(&error))?;
    if args.plan.is_some() {
        return planned(args, &guard, &deployed);
    }
    let mut words = args.guest.iter().cloned();
    words.next();
    let guest = Guest { program: program.path.into_os_string(), args: words.collect() };
    let stop = Stop::on_signals();
    let request =
        RunRequest { guest: &guest, plan: &deployed.plan, output: GuestOutput::Inherit, timeout: None, stop: &stop };
    let (end, _) = run_guest(&request, &mut GuestInput::once()).map_err(|error| Failure::usage(&error))?;
    summary(&deployed.logs)?;
    Ok(if stop.is_set() { 130 } else { end.outcome().exit_code() })
}

/// Groups that are left out and told one by one.
const GROUPS_TOLD: usize = 5;

/// The guard that was asked for; says what is not guarded.
fn compile(args: &GuardArgs, file: &Path, images: &[Keyed]) -> Result<Guard, Failure> {
    let mut invariants = load(file).map_err(|error| Failure::usage(&error))?;
    mark_asked(&mut invariants, images);
    let heat = (!args.all).then_some(Heat::above(args.bias));
    let selection = guarding::selection(&args.only, &args.except)?;
    guarding::say_idle(&selection, &invariants);
    let switching = switching(&invariants, images);
    let chosen = choose(&invariants, &Choice { heat, switching, selection, asked_only: args.asked });
    for group in chosen.left_out.iter().take(GROUPS_TOLD) {
        note(&left_out(group, invariants.time));
    }
    let rest = chosen.left_out.get(GROUPS_TOLD..).unwrap_or_default();
    if !rest.is_empty() {
        let sites: usize = rest.iter().map(|group| group.sites.len()).sum();
        let share: f64 = rest.iter().map(|group| group.proportion * 100.0).sum();
        let groups = counted(rest.len(), "more group");
        note(&format!("left out: {groups} of {}, together with {share:.0} %", counted(sites, "site")));
    }
    if let Some(costs) = chosen.costs {
        note(&format!(
            "nothing that threads share can be guarded for 1 % of the program's time: what is guarded now may take up to {:.0} % of it; \
             --only and --except choose",
            costs * 100.0
        ));
    }
    if !chosen.loosened.is_empty() {
        note(&format!(
            "{} followed sites that are left out, and may follow anything now; \
             `selvedge train` with the same --only and --except makes them tight",
            counted(chosen.loosened.len(), "site")
        ));
    }
    if chosen.invariants.sites.is_empty() && !invariants.sites.is_empty() {
        let text = match chosen.left_out.is_empty() {
            true => {
                "nothing is left to guard: no two threads share what is chosen, or the program asks for nothing; \
                     try --all, or train with more runs"
            }
            false => {
                "nothing is left to guard: all that threads share is so hot that the program would take twice as long, or longer; \
                      --all guards it all the same, --only what you doubt"
            }
        };
        return Err(Failure::Error { code: ExitCode::Usage.code(), text: text.to_owned() });
    }
    let unsettled = chosen.invariants.sites.values().filter(|site| site.unsettled).count();
    if unsettled > 0 {
        note(&format!(
            "{} may follow anything: training had not seen all that they follow; more of it may tell",
            counted(unsettled, "site")
        ));
    }
    let how = GuardHow { mode: if args.watch { Mode::Watch } else { Mode::Guard }, stall: args.stall };
    let guard = Guard::of(&chosen.invariants, images, &how).map_err(|error| Failure::usage(&error))?;
    if !guard.fit.missing.is_empty() {
        note(&guard.fit.to_string());
    }
    Ok(guard)
}

/// That a group is not guarded, and what it would take.
fn left_out(group: &GroupShare, time: u64) -> String {
    let sites = counted(group.sites.len(), "site");
    let first = group.sites.first().map_or("", |key| key.0.as_str());
    let functions: BTreeSet<&str> = group.sites.iter().filter_map(SiteKey::outer_function).collect();
    let share = group.cost() as f64 / time.max(1) as f64 * 100.0;
    // Of two reasons the one that weighs more.
    if time > 0 && hooks_ns(group.hooks) > group.hits.saturating_mul(ACCESS_NS) && !functions.is_empty() {
        const NAMED: usize = 3;
        let named: Vec<&str> = functions.iter().take(NAMED).copied().collect();
        let more = if functions.len() > NAMED { ", …" } else { "" };
        let their = if functions.len() == 1 { "which is hot and" } else { "which are hot and" };
        return format!(
            "left out: {sites} in {}{more}, {their} would run with hooks: about {share:.0} % of the program's time; \
             --all guards them too",
            named.join(", ")
        );
    }
    format!(
        "left out: {sites} with {:.0} % of all shared accesses ({first}, …): they would slow the program down; \
         --all guards them too",
        group.proportion * 100.0
    )
}

fn planned(args: &GuardArgs, guard: &Guard, deployed: &Deployed) -> Result<u8, Failure> {
    let words: Vec<_> = args.guest.iter().map(|word| word.to_string_lossy()).collect();
    let command = if words.is_empty() { "PROGRAM".to_owned() } else { words.join(" ") };
    let mut out = anstream::stdout().lock();
    writeln!(out, "{} guarded; {}", counted(guard.sites.len(), "site"), guard.fit)?;
    writeln!(out, "start:    SELVEDGE_PLAN={} {command}", deployed.plan.display())?;
    writeln!(out, "look:     selvedge guard --log {}", deployed.logs.display())?;
    writeln!(out, "try it:   selvedge explore --guard {} -- {command}", deployed.plan.display())?;
    Ok(ExitCode::Success.code())
}

/// What the guard did, where it did anything.
fn summary(logs: &Path) -> Result<(), Failure> {
    let all = match Violations::read(logs) {
        Ok(all) => all,
        Err(ReadLogsError::None { .. }) => {
            note("the program left no log: it was not guarded; was it built with selvedge?");
            return Ok(());
        }
        Err(error) => return Err(Failure::internal(&error)),
    };
    // How it is done is for `--log` to say.
    const INSIDE: [LogCounter; 3] = [LogCounter::Splits, LogCounter::Given, LogCounter::TakenAway];
    for (counter, count, text) in &all.counters {
        if !INSIDE.contains(counter) {
            note(&format!("{count} {text}"));
        }
    }
    if !all.pairs.is_empty() {
        note(&format!("{}; look at them: selvedge guard --log {}", counted(all.pairs.len(), "pair"), logs.display()));
    }
    Ok(())
}

/// Explains the violations of a log.
fn explain(args: &GuardArgs, log: &Path) -> Result<u8, Failure> {
    let all = Violations::read(log).map_err(|error| Failure::usage(&error))?;
    let known = load(&all.names.invariants).ok();
    if known.is_none() {
        note(&format!("`{}` is gone: what belongs is not shown", all.names.invariants.display()));
    }
    let mut sieve = Sieve::open(&args.suppressions)?;
    let mut told = guarding::told(&all, known.as_ref(), log, args.program.as_deref());
    told.retain(|one| {
        let finding = one.finding();
        !sieve.hides_subject(&Subject { kind: None, ..Subject::of(&finding) }, &finding.id)
    });
    let mut out = anstream::stdout().lock();
    for one in &told {
        write_violation(one, &mut out)?;
    }
    for (_, count, text) in &all.counters {
        writeln!(out, "{count} {text}")?;
    }
    if told.is_empty() {
        writeln!(out, "no violations in {}", counted(all.processes, "process").replace("processs", "processes"))?;
    }
    out.flush()?;
    sieve.tell();
    if let Some(file) = &args.json {
        let findings: Vec<_> = told.iter().map(selvedge_report::violation::Violation::finding).collect();
        let program = selvedge_findings::Program {
            path: all.names.program.display().to_string(),
            build_id: all.names.build_id.clone(),
        };
        let runs = Runs { total: all.processes as u64, ..Runs::default() };
        let mut report = Report::new(program, runs, findings);
        report.suppressed = sieve.count();
        let text = serde_json::to_vec_pretty(&report).map_err(|error| Failure::internal(&error))?;
        std::fs::write(file, text).map_err(|error| Failure::usage(&error))?;
    }
    Ok(if told.is_empty() { ExitCode::Success.code() } else { ExitCode::Findings.code() })
}
