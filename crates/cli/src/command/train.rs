//! `selvedge train`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::{Invariants, converge, group, learn};
use selvedge_drive::control::World;
use selvedge_drive::controlled::{SurveyOptions, prepare};
use selvedge_drive::guard::colours::learn_colours;
use selvedge_drive::guard::file::{load, save};
use selvedge_drive::guard::keyring::Keyring;
use selvedge_drive::guard::train::{Schedules, TrainOptions, Trained, train};
use selvedge_drive::program::hex;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{ExitCode, Outcome, Program, Report, Runs};
use selvedge_trace::Run;

use crate::args::TrainArgs;
use crate::command::guarding::{self, counted};
use crate::command::output::write_page;
use crate::command::page::Extra;
use crate::messages::{Failure, Live, note};

/// Learns invariants, from runs of a program or from recorded ones.
pub(crate) fn run(args: &TrainArgs) -> Result<u8, Failure> {
    if args.guest.is_empty() { from_runs(args) } else { from_program(args) }
}

fn from_program(args: &TrainArgs) -> Result<u8, Failure> {
    let store = Store::create(&args.store).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let output = args.output.clone().unwrap_or_else(|| default_output(Path::new(&guest.program)));
    let known = known(args, &output)?;
    let stop = Stop::on_signals();
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of {}", args.survey_runs));
    let prepared = prepare(&store, &guest, &survey, &stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    let mut options = TrainOptions {
        runs: args.runs.unwrap_or(if args.until_converged { MOST_RUNS } else { RUNS }),
        until_converged: args.until_converged,
        enough: None,
        oracle: args.oracle.clone(),
        timeout: args.timeout,
        schedules: match (args.free_only, args.controlled_only) {
            (true, _) => Schedules::Free,
            (_, true) => Schedules::Controlled,
            _ => Schedules::Both,
        },
        seed: args.seed,
        most_steps: selvedge_drive::explore::DEFAULT_MOST_STEPS,
        world: World { random: Some(args.seed), ..World::default() },
        colours: known.colours.clone(),
        selection: guarding::selection(&args.only, &args.except)?,
    };
    match args.colours.as_str() {
        "none" => {}
        "auto" => {
            options.colours = learn_colours(&prepared, &options, &stop).map_err(|error| Failure::internal(&error))?;
            for colour in &options.colours {
                note(&format!("guarded as one: {}", colour.name));
            }
        }
        file => options.colours = load(Path::new(file)).map_err(|error| Failure::usage(&error))?.colours,
    }
    let mut live = Live::new();
    let trained = train(&prepared, known, &options, &stop, &mut |trained| live.show(|| progress(trained, &options)))
        .map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    live.end();
    if trained.silent > 0 {
        note(&format!("{} passing runs left no log: they ended before the program began", trained.silent));
    }
    if trained.not_logged > 0 {
        note(&format!("{} pairs did not fit in the logs and were not learnt", trained.not_logged));
    }
    let Trained { invariants, tally, curve, .. } = trained;
    if curve.is_empty() {
        let text = format!("no run passed ({} failed, {} hung): nothing was learnt", tally.fail, tally.hang);
        return Err(Failure::Error { code: ExitCode::SomeFailed.code(), text });
    }
    let runs = format!(
        "{} runs in {:.1} s: {} passed, {} failed, {} hung; only those that passed count",
        tally.total(),
        trained.elapsed.as_secs_f64(),
        tally.pass,
        tally.fail,
        tally.hang
    );
    let doubted = match trained.doubted {
        0 => String::new(),
        count => format!(
            "\n{} left out: runs that fail show them, and runs that pass hardly ever do",
            counted(count, "member")
        ),
    };
    let unsettled = match trained.unsettled {
        0 => String::new(),
        count => format!(
            "\n{} may follow anything: what they follow was something new again and again, so they are guarded against nothing",
            counted(count, "site")
        ),
    };
    let runs = format!("{runs}{doubted}{unsettled}");
    let command = args.guest.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    finish(&output, invariants, &curve, &runs, &command)?;
    let program = Program {
        path: prepared.program.path.to_string_lossy().into_owned(),
        build_id: hex(&prepared.program.build_id),
    };
    write_curve(args, &Report::new(program, tally.into(), Vec::new()), &curve)?;
    Ok(if stop.is_set() { 130 } else { ExitCode::Success.code() })
}

/// Runs to make, unless asked otherwise.
const RUNS: u32 = 200;
/// Most runs to make where it is the curve that decides.
const MOST_RUNS: u32 = 5000;

fn from_runs(args: &TrainArgs) -> Result<u8, Failure> {
    let store = Store::open(&args.store);
    let selection = guarding::selection(&args.only, &args.except)?;
    let mut keyring = Keyring::default();
    let (mut curve, mut left_out, mut program) = (Vec::new(), 0, None);
    let mut learnt = Vec::new();
    let colours = match args.colours.as_str() {
        "none" | "auto" => Default::default(),
        file => load(Path::new(file)).map_err(|error| Failure::usage(&error))?.colours,
    };
    for name in &args.recorded {
        let path = store.find(name).map_err(|error| Failure::usage(&error))?;
        let record = name.parse().ok().and_then(|id| store.record(id));
        if record.as_ref().is_some_and(|record| record.outcome != Outcome::Pass) {
            left_out += 1;
            continue;
        }
        program = program.or(record.map(|record| record.program));
        let run = Run::open(&path).map_err(|error| Failure::usage(&error))?;
        let mut all = Invariants { runs: 1, ..Invariants::default() };
        for process in &run.processes {
            let mut key = |place| keyring.key(process, place).filter(|key| selection.keeps(key));
            let mut one = learn(process, &mut key, &colours);
            one.runs = 0;
            all.merge(&one);
        }
        learnt.push(all);
    }
    if keyring.is_empty() {
        let text = "no invariants can be learnt: none of the runs passed, or their programs were built anew since";
        return Err(Failure::Error { code: ExitCode::Usage.code(), text: text.to_owned() });
    }
    let program = program.unwrap_or_else(|| "program".to_owned());
    let output = args.output.clone().unwrap_or_else(|| default_output(Path::new(&program)));
    let mut invariants = known(args, &output)?;
    if invariants.program.is_empty() {
        let name = Path::new(&program).file_name().unwrap_or_default();
        invariants.program = name.to_string_lossy().into_owned();
    }
    for run in &learnt {
        curve.push(converge::fold(&mut invariants, run));
    }
    let runs = format!("{} recorded runs, {left_out} left out because they did not pass", learnt.len());
    finish(&output, invariants, &curve, &runs, &program)?;
    let runs = Runs { total: learnt.len() as u64, pass: learnt.len() as u64, ..Runs::default() };
    let report = Report::new(Program { path: program, build_id: String::new() }, runs, Vec::new());
    write_curve(args, &report, &curve)?;
    Ok(ExitCode::Success.code())
}

/// Writes the page that was asked for.
fn write_curve(args: &TrainArgs, report: &Report, curve: &[usize]) -> Result<(), Failure> {
    match &args.html {
        Some(file) => write_page(file, report, &Extra { curve, ..Extra::default() }),
        None => Ok(()),
    }
}

/// `NAME.invariants`, here.
fn default_output(program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    PathBuf::from(format!("{name}.invariants"))
}

/// What the file has already, where that is to be kept.
fn known(args: &TrainArgs, output: &Path) -> Result<Invariants, Failure> {
    if args.merge && output.exists() {
        return load(output).map_err(|error| Failure::usage(&error));
    }
    Ok(Invariants::default())
}

fn progress(trained: &Trained, options: &TrainOptions) -> String {
    let tally = &trained.tally;
    format!(
        "{}/{} runs, {} pass, {} fail, {} hang; {}, {} without a new one",
        tally.total(),
        options.runs,
        tally.pass,
        tally.fail,
        tally.hang,
        counted(trained.invariants.members(), "member"),
        converge::quiet_runs(&trained.curve)
    )
}

/// Writes the file, and says what is in it and what to do with it.
fn finish(
    output: &Path,
    mut invariants: Invariants,
    curve: &[usize],
    runs: &str,
    command: &str,
) -> Result<(), Failure> {
    invariants.normalise();
    save(output, &invariants).map_err(|error| Failure::usage(&error))?;
    let groups = group::groups(&invariants);
    let shared = groups.iter().filter(|group| group.is_shared).count();
    let mut out = anstream::stdout().lock();
    write!(out, "{}", converge::plot(curve))?;
    let verdict = if converge::is_converged(curve, None) {
        "converged".to_owned()
    } else {
        let wanted = converge::default_quiet(curve.len());
        format!("not converged: that takes {wanted} runs without a new member; add runs with --merge -n {wanted}")
    };
    writeln!(out, "{verdict}")?;
    writeln!(
        out,
        "{runs}\n{}, {}, {} ({shared} shared between threads)\nwritten to {}",
        counted(invariants.sites.len(), "site"),
        counted(invariants.members(), "member"),
        counted(groups.len(), "group"),
        output.display()
    )?;
    writeln!(out, "try it:  selvedge explore --guard {} -- {command}", output.display())?;
    writeln!(out, "use it:  selvedge guard {} -- {command}", output.display())?;
    out.flush()?;
    Ok(())
}
