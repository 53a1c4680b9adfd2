//! `selvedge refine`.

use selvedge_analyze::sections::text::{SectionFile, write};
use selvedge_drive::detect::DetectOptions;
use selvedge_drive::detect::refine::{Refined, Until, refine};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_events::detect::NoiseKind;
use selvedge_findings::ExitCode;

use crate::args::RefineArgs;
use crate::command::detect::read_sections;
use crate::command::guarding::counted;
use crate::messages::{Failure, Live, note};

/// Refines a file of sections, or merges some.
pub(crate) fn run(args: &RefineArgs) -> Result<u8, Failure> {
    let mut file = read_sections(&args.sections)?;
    for other in &args.merge {
        file.merge(&read_sections(other)?);
    }
    let output = args.output.as_ref().unwrap_or(&args.sections);
    let mut words = args.guest.iter().cloned();
    let Some(program) = words.next() else {
        if args.merge.is_empty() {
            let text = "nothing to do: name a program behind --, or files with --merge".to_owned();
            return Err(Failure::Error { code: ExitCode::Usage.code(), text });
        }
        std::fs::write(output, write(&file))?;
        note(&format!("{}; {}", counted(1 + args.merge.len(), "file"), kept(&file)));
        return Ok(ExitCode::Success.code());
    };
    let guest = Guest { program, args: words.collect() };
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let options = DetectOptions {
        noise: NoiseKind::by_name(&args.noise).unwrap_or(NoiseKind::Sleep),
        budget: args.overhead.0,
        seed: args.seed,
        oracle: args.oracle.clone(),
        timeout: Some(args.timeout),
        ..DetectOptions::default()
    };
    let until = Until { quiet: args.quiet, runs: args.runs };
    let mut live = Live::new();
    let mut each = |refined: &Refined| live.show(|| progress(refined, until));
    let refined = refine(&store, &guest, file, &options, until, &Stop::on_signals(), &mut each)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    live.end();
    std::fs::write(output, write(&refined.refinement.file))?;
    note(&format!(
        "{} runs, {} pass, {} fail, {} hang; {} not meant to be atomic; {}",
        refined.tally.total(),
        refined.tally.pass,
        refined.tally.fail,
        refined.tally.hang,
        counted(refined.refinement.pruned, "way"),
        kept(&refined.refinement.file)
    ));
    match (refined.tally.pass, refined.settled) {
        (0, _) => note("no run passed: nothing was learnt; say what a correct run is with --oracle"),
        (_, true) => note(&format!("the last {} changed nothing", counted(until.quiet as usize, "correct run"))),
        (_, false) => note(&format!("not settled yet: the last change was {} ago", quiet(&refined))),
    }
    Ok(if refined.stopped { 130 } else { ExitCode::Success.code() })
}

fn quiet(refined: &Refined) -> String {
    counted(refined.refinement.quiet as usize, "correct run")
}

fn kept(file: &SectionFile) -> String {
    let all = file.kept_sections();
    let ends: usize =
        all.map(|(_, section)| section.ends.keys().filter(|end| file.kept(section, end).is_some()).count()).sum();
    let sections = file.kept_sections().count();
    format!("{} with {} kept of {}", counted(sections, "section"), counted(ends, "end"), file.sections.len())
}

fn progress(refined: &Refined, until: Until) -> String {
    format!(
        "{} runs, {} pass; {} ways not meant; {} of {} correct runs without a change",
        refined.tally.total(),
        refined.tally.pass,
        refined.refinement.pruned,
        refined.refinement.quiet,
        until.quiet
    )
}
