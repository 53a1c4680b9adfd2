//! `selvedge heal`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::heal::{Healing, Source};
use selvedge_drive::intervene::heal_source;
use selvedge_drive::plan::PlanSpec;
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, run_guest};
use selvedge_drive::store::Store;
use selvedge_events::heal::{How, LOG_COUNTERS_ALL, LOG_PREFIX, Log};
use selvedge_events::plan::{Intervene, Observe};
use selvedge_findings::ExitCode;

use crate::args::HealArgs;
use crate::command::guarding::counted;
use crate::messages::{Failure, note};

/// Heals a program, or writes a plan that does.
pub(crate) fn run(args: &HealArgs) -> Result<u8, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut words = args.guest.iter().cloned();
    let program = Program::find(&words.next().unwrap_or_default(), &path).map_err(|error| Failure::usage(&error))?;
    let bytes = std::fs::read(&args.source).map_err(|error| Failure::usage(&error))?;
    let source = heal_source(&args.source, &bytes).map_err(|error| Failure::usage(&error))?;
    let how = How::from_name(&args.kind).unwrap_or_default();
    let otherwise = How::from_name(&args.otherwise).unwrap_or(How::Sleep);
    let wait = u64::try_from(args.wait.as_nanos()).unwrap_or(u64::MAX);
    let healing = Healing::of(&program.path, &source, how, otherwise, wait).map_err(|error| Failure::usage(&error))?;
    if healing.missing > 0 {
        note(&format!("{} that the file speaks of have no sections in this build", healing.missing));
    }
    if healing.sections.is_empty() {
        let text = match &source {
            Source::Findings(report) if report.findings.is_empty() => "nothing to heal: the file has no findings",
            _ => "nothing to heal: the code has no atomic section there",
        };
        return Err(Failure::Error { code: ExitCode::Usage.code(), text: text.to_owned() });
    }
    // Sections of several patterns may be at the same lines.
    let refused = healing.sections.iter().filter_map(|section| Some((section, section.refused.as_ref()?)));
    let refused: BTreeSet<String> = refused
        .map(|(section, why)| {
            format!("no lock for {}: {why}; others are kept out by {}", section.place, by(section.how))
        })
        .collect();
    refused.iter().for_each(|line| note(line));
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let logs = store.new_heal().map_err(|error| Failure::usage(&error))?;
    let (table, images) = healing.alone();
    let mut plan = PlanSpec::new(Observe::Nothing, &logs);
    plan.interventions = vec![(Intervene::Heal, table.to_bytes().map_err(|error| Failure::usage(&error))?)];
    plan.images = images;
    let bytes = plan.to_bytes().map_err(|error| Failure::usage(&error))?;
    let file = args.plan.clone().unwrap_or_else(|| logs.join("plan"));
    std::fs::write(&file, &bytes).map_err(|error| Failure::usage(&error))?;
    let file = file.canonicalize().unwrap_or(file);
    if args.plan.is_some() {
        let words: Vec<_> = args.guest.iter().map(|word| word.to_string_lossy()).collect();
        let mut out = anstream::stdout().lock();
        writeln!(out, "{} healed", counted(healing.sections.len(), "section"))?;
        writeln!(out, "start:    SELVEDGE_PLAN={} {}", file.display(), words.join(" "))?;
        return Ok(ExitCode::Success.code());
    }
    let guest = Guest { program: program.path.into_os_string(), args: words.collect() };
    let stop = Stop::on_signals();
    let request = RunRequest { guest: &guest, plan: &file, output: GuestOutput::Inherit, timeout: None, stop: &stop };
    let (end, _) = run_guest(&request, &mut GuestInput::once()).map_err(|error| Failure::usage(&error))?;
    summary(&logs)?;
    Ok(if stop.is_set() { 130 } else { end.outcome().exit_code() })
}

/// How others are kept out, in words.
fn by(how: How) -> &'static str {
    match how {
        How::Lock => "a lock",
        How::Yield => "giving turns away",
        How::Sleep => "sleeping",
        How::Priority => "stepping behind the others",
    }
}

/// What healing did, all processes together.
fn summary(logs: &Path) -> Result<(), Failure> {
    let mut sums = vec![0_u64; LOG_COUNTERS_ALL.len()];
    for entry in std::fs::read_dir(logs)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(LOG_PREFIX.as_bytes()) {
            continue;
        }
        let bytes = std::fs::read(entry.path())?;
        let Some(log) = Log::parse(&bytes) else { continue };
        for (sum, (counter, ..)) in sums.iter_mut().zip(LOG_COUNTERS_ALL) {
            *sum += log.counter(*counter);
        }
    }
    for (sum, (_, _, text)) in sums.iter().zip(LOG_COUNTERS_ALL).filter(|(sum, _)| **sum > 0) {
        note(&format!("{sum} {text}"));
    }
    Ok(())
}
