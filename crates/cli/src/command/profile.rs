//! `selvedge profile`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use selvedge_analyze::atomicity::profile::{Atomicity, Profile};
use selvedge_drive::control::World;
use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::enforce::file::{load, save};
use selvedge_drive::enforce::groups::{Grouping, Groups, Said, prune};
use selvedge_drive::enforce::learn::{Builds, learn, nearby};
use selvedge_drive::enforce::profile::{ProfileOptions, profile};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome};
use selvedge_trace::Run;

use crate::args::ProfileArgs;
use crate::command::guarding::counted;
use crate::messages::{Failure, Live, note};

/// Runs to make, unless asked otherwise.
const RUNS: u32 = 40;

/// Learns which pairs are atomic, from runs of a program or from recorded ones.
pub(crate) fn run(args: &ProfileArgs) -> Result<u8, Failure> {
    let known = match &args.output {
        Some(output) if args.merge && output.exists() => Some(load(output).map_err(|error| Failure::usage(&error))?),
        _ => None,
    };
    let groups = known.as_ref().map(Groups::of_profile).unwrap_or_default();
    let (mut learnt, program, runs, passed) =
        if args.guest.is_empty() { from_runs(args, groups)? } else { from_program(args, groups)? };
    if passed == 0 {
        let text = format!("no run passed: nothing was learnt ({runs})");
        return Err(Failure::Error { code: ExitCode::SomeFailed.code(), text });
    }
    let output = args.output.clone().unwrap_or_else(|| default_output(Path::new(&program)));
    if args.merge && output.exists() {
        learnt.merge(&load(&output).map_err(|error| Failure::usage(&error))?);
    }
    save(&output, &learnt).map_err(|error| Failure::usage(&error))?;
    let count = |wanted| learnt.atomic_pairs().filter(|(.., atomicity)| *atomicity == wanted).count();
    let (exclusive, read) = (count(Atomicity::Exclusive), count(Atomicity::Read));
    let single = || learnt.variables.values().filter(|variable| variable.members.is_empty());
    let open = single().filter(|variable| variable.locks.is_empty()).count();
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "{runs}\n{} shared between threads, {open} without a lock of their own\n{} that no lock keeps: \
         {exclusive} exclusive, {read} read\nwritten to {}",
        counted(single().count(), "variable"),
        counted(exclusive + read, "atomic pair"),
        output.display()
    )?;
    for variable in learnt.variables.values().filter(|variable| !variable.members.is_empty()) {
        let members: Vec<&str> = variable.members.iter().map(String::as_str).collect();
        writeln!(out, "belong together: {}  (--apart {})", members.join(", "), members.join(","))?;
    }
    out.flush()?;
    for (a, b) in &args.together {
        let has = |name: &str, members: &std::collections::BTreeSet<String>| members.contains(name);
        if !learnt.variables.values().any(|variable| has(a, &variable.members) && has(b, &variable.members)) {
            note(&format!(
                "--together {a},{b}: no run that passed has a pair of them that no other thread came between"
            ));
        }
    }
    Ok(ExitCode::Success.code())
}

/// What was learnt, from which program, how the runs went, and how many count.
type Learnt = (Profile, String, String, usize);

fn said(args: &ProfileArgs) -> Said {
    Said { together: args.together.clone(), apart: args.apart.clone() }
}

fn from_program(args: &ProfileArgs, groups: Groups) -> Result<Learnt, Failure> {
    let store = Store::create(&args.store).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: 1, fresh: false, timeout: Some(args.timeout) };
    let prepared = prepare(&store, &guest, &survey, &stop, &mut |_| {})
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let world = World { random: Some(args.seed), ..World::default() };
    let base = prepared.clip(world, selvedge_drive::explore::DEFAULT_MOST_STEPS, args.oracle.clone());
    let runs = args.runs.unwrap_or(RUNS);
    let options = ProfileOptions { runs, seed: args.seed, timeout: args.timeout, said: said(args), groups };
    let mut live = Live::new();
    let mut show = |done: &selvedge_drive::enforce::profile::Profiled| {
        live.show(|| format!("{}/{} runs, {} pass", done.tally.total(), options.runs, done.tally.pass));
    };
    let done = profile(&prepared, &base, &options, &stop, &mut show).map_err(|error| Failure::internal(&error))?;
    live.end();
    let tally = done.tally;
    let runs = format!(
        "{}: {} passed, {} failed, {} hung; only those that passed count",
        counted(usize::try_from(tally.total()).unwrap_or(usize::MAX), "run"),
        tally.pass,
        tally.fail,
        tally.hang
    );
    let passed = usize::try_from(tally.pass).unwrap_or(usize::MAX);
    Ok((done.profile, guest.program.to_string_lossy().into_owned(), runs, passed))
}

fn from_runs(args: &ProfileArgs, mut groups: Groups) -> Result<Learnt, Failure> {
    let store = Store::open(&args.store);
    let (mut all, mut builds) = (Profile::default(), Builds::default());
    let (mut passed, mut left_out, mut program) = (0, 0, None);
    let (mut grouping, mut opened) = (Grouping::default(), Vec::new());
    for name in &args.recorded {
        let path = store.find(name).map_err(|error| Failure::usage(&error))?;
        let record = name.parse().ok().and_then(|id| store.record(id));
        if record.as_ref().is_some_and(|record| record.outcome != Outcome::Pass) {
            left_out += 1;
            continue;
        }
        program = program.or(record.map(|record| record.program));
        let named = program.clone().unwrap_or_else(|| "program".to_owned());
        let base = Path::new(&named).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let run = Run::open(&path).map_err(|error| Failure::usage(&error))?;
        for process in &run.processes {
            let accesses = nearby(process, &mut builds, &mut |name| grouping.number(name));
            grouping.run(accesses);
        }
        opened.push((run, base));
        passed += 1;
    }
    grouping.decide(&said(args)).iter().for_each(|(a, b)| groups.insert(a, b));
    for (run, base) in &opened {
        for process in &run.processes {
            all.merge(&learn(process, &mut builds, base, &groups));
        }
    }
    prune(&mut all);
    if builds.is_empty() && passed > 0 {
        note("the programs of these runs were built anew since: nothing can be named");
    }
    let runs = format!("{}, {left_out} left out because they did not pass", counted(passed, "recorded run"));
    Ok((all, program.unwrap_or_else(|| "program".to_owned()), runs, passed))
}

/// `NAME.profile`, here.
fn default_output(program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    PathBuf::from(format!("{name}.profile"))
}
