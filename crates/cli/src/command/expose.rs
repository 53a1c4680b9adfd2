//! `selvedge expose`.

use std::path::PathBuf;

use selvedge_analyze::invariant::relax;
use selvedge_drive::clip::Clip;
use selvedge_drive::control::World;
use selvedge_drive::controlled::{Prepared, SurveyOptions, clips_dir, prepare};
use selvedge_drive::explore::DEFAULT_MOST_STEPS;
use selvedge_drive::guard::expose::{ExposeOptions, Exposed, Turned, expose};
use selvedge_drive::guard::file::{load, save};
use selvedge_drive::guard::site_names::SiteName;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::program::hex;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{Access, ExitCode, Finding, Kind, Program, Report, Status};
use selvedge_report::fingerprint::of_accesses;
use selvedge_report::shell::quoted;

use crate::args::ExposeArgs;
use crate::command::explain;
use crate::command::guarding::counted;
use crate::messages::{Failure, Live, note};
use crate::outlet::Outlet;

/// Turns orders around that correct runs always had; 66 where one of them did harm.
pub(crate) fn run(args: &ExposeArgs) -> Result<u8, Failure> {
    let mut outlet = Outlet::open(&args.output, "expose")?;
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut invariants = load(&args.invariants).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(args.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of 1"));
    let prepared = prepare(&store, &guest, &survey, &stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let world = World { random: Some(args.seed), ..World::default() };
    let base = prepared.clip(world, DEFAULT_MOST_STEPS, args.oracle.clone());
    let options = ExposeOptions { runs: args.runs, budget: args.budget, timeout: args.timeout, seed: args.seed };
    let mut live = Live::new();
    let exposed =
        expose(&prepared, &base, &invariants, &options, &stop, &mut |exposed| live.show(|| progress(exposed)))
            .map_err(|error| Failure::usage(&error))?;
    live.end();
    let mut findings = Vec::new();
    for turned in exposed.turned.iter() {
        if let Some(clip) = &turned.failed {
            let (text, finding) = harmful(turned, clip, &store, &prepared, args)?;
            if !outlet.hides(&finding) {
                outlet.show(&text)?;
            }
            findings.push(finding);
        }
    }
    let harmless: Vec<&Turned> = exposed.turned.iter().filter(|turned| turned.failed.is_none()).collect();
    let mut added = 0;
    for turned in &harmless {
        outlet.show(&format!("no harm seen: {} before {}\n", turned.then.0.place(), turned.before.0.place()))?;
        if args.relax {
            let members: Vec<_> = turned.members.iter().cloned().collect();
            added += relax(&mut invariants, &members);
        }
    }
    if added > 0 {
        save(&args.invariants, &invariants).map_err(|error| Failure::usage(&error))?;
        note(&format!("{} added to {}", counted(added, "member"), args.invariants.display()));
    } else if !harmless.is_empty() && !args.relax {
        note("where such an order is right, --relax takes it in");
    }
    note(&progress(&exposed));
    without_points(&exposed, args, invariants.sites.len()).iter().for_each(|line| note(line));
    if exposed.unrepeated > 0 {
        note(&format!(
            "{} did not come again by their schedule and are not shown",
            counted(exposed.unrepeated, "failure")
        ));
    }
    let otherwise = if stop.is_set() { 130 } else { ExitCode::Success.code() };
    outlet.finish(report(&prepared, &exposed, findings), otherwise)
}

/// Why there was nothing to turn around, where that is so, and what to do about it.
fn without_points(exposed: &Exposed, args: &ExposeArgs, sites: usize) -> Vec<String> {
    let file = args.invariants.display();
    let program: Vec<String> = args.guest.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let train = format!("selvedge train -o fresh.invariants -- {}", program.join(" "));
    match exposed {
        Exposed { passed: 0, .. } => {
            vec![
                "no recorded run passed: there was nothing to turn around; `selvedge hunt` looks for why runs fail"
                    .to_owned(),
            ]
        }
        Exposed { points: 1.., .. } => Vec::new(),
        Exposed { one_way: 0, .. } => vec![
            format!(
                "there is no order to turn around: of {} in {file}, each has come first, or both before and after what it follows",
                counted(sites, "site")
            ),
            format!(
                "what `relax` or `expose --relax` took in counts like a run; to look for orders as training saw them: {train}"
            ),
        ],
        Exposed { one_way, .. } => vec![
            format!(
                "there is no order to turn around: {} in {file} always came after others, and the program sees to that by making \
                 threads or waiting for them, or several threads come before, or no recorded run has it ({} passed)",
                counted(*one_way, "site"),
                exposed.passed
            ),
            "--runs N records more; `selvedge explore` tries orders without invariants".to_owned(),
        ],
    }
}

fn progress(exposed: &Exposed) -> String {
    let harm = exposed.turned.iter().filter(|turned| turned.failed.is_some()).count();
    format!(
        "{} of {} tried; {} turned around, {harm} of them with harm",
        exposed.tally.total(),
        counted(exposed.points, "point"),
        counted(exposed.turned.len(), "order")
    )
}

/// An order that did harm: the text, and the finding.
fn harmful(
    turned: &Turned,
    clip: &Clip,
    store: &Store,
    prepared: &Prepared,
    args: &ExposeArgs,
) -> Result<(String, Finding), Failure> {
    let access = |(site, thread): &(SiteName, u32)| Access {
        thread: *thread,
        op: site.verb().to_owned(),
        function: site.frame().map(|frame| frame.function.clone()),
        file: site.frame().and_then(|frame| frame.file.clone()),
        line: site.frame().and_then(|frame| frame.line),
        variable: None,
        ..Access::default()
    };
    let accesses = vec![access(&turned.then), access(&turned.before)];
    let id = of_accesses(Kind::OrderViolation, &accesses);
    let dir = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path: PathBuf = dir.join(format!("{name}-{}.clip", id.get(..8).unwrap_or(&id)));
    clip.save(&path).map_err(|error| Failure::usage(&error))?;
    let mut lines = vec![
        format!("The {} at {} by T{}", turned.then.0.verb(), turned.then.0.place(), turned.then.1),
        format!("came before the {} at {} by T{}", turned.before.0.verb(), turned.before.0.place(), turned.before.1),
        "Runs that passed always had it after; nothing sees to that.".to_owned(),
    ];
    let nothing = Interventions::default();
    lines.extend(explain::again(clip, &path, &nothing));
    let explained = explain::explain(clip, &nothing, None, &lines, args.timeout)?;
    let mut finding = Finding::new(id, Kind::OrderViolation, accesses);
    finding.status = Status::Confirmed;
    finding.harm = explained.finding.harm;
    finding.clip = Some(path.display().to_string());
    finding.replay = Some(explain::replay_command(&path));
    Ok((explained.text, finding))
}

fn report(prepared: &Prepared, exposed: &Exposed, findings: Vec<Finding>) -> Report {
    let program = Program {
        path: prepared.program.path.to_string_lossy().into_owned(),
        build_id: hex(&prepared.program.build_id),
    };
    Report::new(program, exposed.tally.into(), findings)
}
