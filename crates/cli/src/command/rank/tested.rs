//! Runs against a testing graph: what they do that no test did.

use std::io::Write as _;

use selvedge_analyze::graph::deployed::{Surprise, Tested, Watch};
use selvedge_analyze::graph::rank::Evidence;
use selvedge_analyze::graph::{Graph, Rules};
use selvedge_drive::plan::DEFAULT_MEMORY_LIMIT_MB;
use selvedge_drive::program::hex;
use selvedge_drive::rank::Collected;
use selvedge_drive::run::Stop;
use selvedge_drive::watch::{WatchOptions, watch};
use selvedge_findings::{ExitCode, Program, RankedPoint, Tally};
use selvedge_report::ranking::{Ground, why};

use super::lines::Lines;
use super::{has_contexts, in_plan, prepared, usage, with_ranking, write_report};
use crate::args::RankArgs;
use crate::messages::{Failure, note};

/// Reports what the runs do beyond a testing graph.
pub(super) fn against(
    args: &RankArgs,
    baseline: Graph,
    collected: &Collected,
    all: &Graph,
    program: &Program,
    lines: &mut Lines,
) -> Result<u8, Failure> {
    let tested = Tested::new(baseline, |build_id, offset| lines.number(build_id, offset));
    if !tested.graph().images().iter().any(|image| all.images().contains(image)) {
        note("the testing graph is of another build: everything is new to it");
    }
    let found = tested
        .beyond(all, args.threshold, |build_id, offset| lines.number(build_id, offset))
        .map_err(|error| usage(error.to_string()))?;
    let points = named(&found, &tested, all, lines)?;
    tell(points.get(..args.top.min(points.len())).unwrap_or_default())?;
    conclude(&collected.tally, found.len(), args.threshold);
    write_report(args.json.as_deref(), &with_ranking(program, collected.tally, points))?;
    Ok(if found.is_empty() { ExitCode::Success.code() } else { ExitCode::Findings.code() })
}

/// Runs the program once, and reports while it runs what it does beyond a testing graph.
pub(super) fn watched(args: &RankArgs, baseline: Graph, stop: &Stop) -> Result<u8, Failure> {
    let kind = baseline.kind();
    if kind.rules != Rules::Live {
        return Err(usage("a program can be watched with a testing graph of `--collector live` only".to_owned()));
    }
    let (store, guest, prepared) = prepared(args, stop)?;
    let mut lines = Lines::new(&[(&prepared.program.build_id, prepared.program.path.as_path())]);
    if !baseline.images().contains(&prepared.program.build_id) {
        note("the testing graph is of another build: everything is new to it");
    }
    let tested = Tested::new(baseline, |build_id, offset| lines.number(build_id, offset));
    let (_, dir) = store.new_run().map_err(|error| Failure::usage(&error))?;
    let options = WatchOptions {
        dir,
        graph: in_plan(kind),
        memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
        every: args.every,
        timeout: None,
    };
    let mut watching = Watch::new(tested, args.threshold);
    let mut points: Vec<RankedPoint> = Vec::new();
    let mut problem = None;
    let ended = watch(&prepared, &guest, &options, stop, &mut |graph, process| {
        for module in process.file().modules() {
            lines.code.add(&module.build_id, &module.path);
        }
        let found = watching.look(graph, |build_id, offset| lines.number(build_id, offset));
        let told = found.map_err(|error| Failure::internal(&error)).and_then(|found| {
            let new = named(&found, watching.tested(), graph, &lines)?;
            tell(&new)?;
            points.extend(new);
            Ok(())
        });
        if let Err(failure) = told {
            problem.get_or_insert(failure);
        }
    });
    let (end, _) = ended.map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    if let Some(failure) = problem {
        return Err(failure);
    }
    let mut tally = Tally::default();
    tally.add(&end.outcome());
    note(&format!("looked {} times", watching.looks()));
    conclude(&tally, watching.told(), args.threshold);
    let program =
        Program { path: prepared.program.path.display().to_string(), build_id: hex(&prepared.program.build_id) };
    for (at, point) in points.iter_mut().enumerate() {
        point.rank = u32::try_from(at + 1).unwrap_or(u32::MAX);
    }
    write_report(args.json.as_deref(), &with_ranking(&program, tally, points))?;
    Ok(if watching.told() > 0 { ExitCode::Findings.code() } else { end.outcome().exit_code() })
}

/// What is new as code points with names, the most surprising first.
fn named(found: &[Surprise], tested: &Tested, live: &Graph, lines: &Lines) -> Result<Vec<RankedPoint>, Failure> {
    // The images that edges of the surprises are in.
    let new = live.difference(tested.graph()).map_err(|error| Failure::internal(&error))?;
    let ground = Ground { failing: live.runs(), passing: 0, has_contexts: has_contexts(live) };
    let mut points = Vec::new();
    for surprise in found {
        let evidence = Evidence {
            from: surprise.edge.from,
            to: surprise.edge.to,
            weight: surprise.score,
            failing: surprise.edge.count.runs,
            passing: 0,
            pair_passes: false,
            is_missing: false,
        };
        let Some((source, edge)) = lines.source(surprise.point).zip(lines.edge(new.images(), &evidence)) else {
            continue;
        };
        points.push(RankedPoint {
            rank: u32::try_from(points.len() + 1).unwrap_or(u32::MAX),
            file: source.file.clone(),
            line: source.line,
            function: source.function.clone(),
            score: surprise.score,
            why: format!("{}; never in {} tests", why(&edge, ground), tested.graph().runs()),
            evidence: vec![edge],
        });
    }
    Ok(points)
}

fn tell(points: &[RankedPoint]) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    for point in points {
        let place = point.evidence.first().map_or("?", |edge| edge.to.place.as_str());
        let function = point.function.as_ref().map_or_else(String::new, |function| format!(" in {function}"));
        writeln!(out, "New at {place}{function} (surprise {:.2})", point.score)?;
        writeln!(out, "   {}.", point.why)?;
    }
    Ok(out.flush()?)
}

fn conclude(tally: &Tally, points: usize, threshold: f64) {
    let runs = if tally.total() == 1 { "1 run".to_owned() } else { format!("{} runs", tally.total()) };
    let word = if points == 1 { "code point" } else { "code points" };
    note(&format!("{runs}; {points} {word} past the threshold of {threshold}"));
}
