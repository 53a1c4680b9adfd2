//! `selvedge rank`.

mod lines;
mod tested;

use std::io::Write as _;
use std::path::Path;

use selvedge_analyze::graph::rank::{Label, PointNo, Ranking, Sample, Score, rank};
use selvedge_analyze::graph::{Depth, Granularity, Graph, Kind, Rules, file};
use selvedge_drive::controlled::{Prepared, SurveyOptions, prepare};
use selvedge_drive::hunt::Recorded;
use selvedge_drive::program::hex;
use selvedge_drive::rank::{
    CollectOptions, Collected, Judged, Labels, collect_program, collect_recorded, collect_runs,
};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_drive::vary::VaryOptions;
use selvedge_findings::{ExitCode, Program, RankedEdge, RankedPoint, Report, Tally};
use selvedge_report::names::Source;
use selvedge_report::ranking::{Ground, whole_why, write_ranking};
use selvedge_report::ranking_svg::{Drawn, draw, picture};

use self::lines::Lines;
use crate::args::RankArgs;
use crate::command::graph::{how, read, write, write_exports};
use crate::command::output::write_page;
use crate::command::page::Extra;
use crate::messages::{Failure, Live, note};

/// Ranks code points from recorded runs, or from a program.
pub(crate) fn run(args: &RankArgs) -> Result<u8, Failure> {
    if args.label.as_deref() == Some("oracle") && args.oracle.is_none() && !args.guest.is_empty() {
        return Err(usage("--label oracle needs --oracle COMMAND".to_owned()));
    }
    let score = Score::ALL.into_iter().find(|score| score.name() == args.score).unwrap_or_default();
    let kind = kind(args, score);
    let labels = if args.label.as_deref() == Some("none") { Labels::Nothing } else { Labels::Outcome };
    let stop = Stop::on_signals();
    let baseline = args.baseline.as_deref().map(read).transpose()?;
    let kind = baseline.as_ref().map_or(Ok(kind), |tested| agreed(tested, kind))?;
    let baseline = match (args.watch, baseline) {
        (true, Some(baseline)) => return tested::watched(args, baseline, &stop),
        (_, baseline) => baseline,
    };
    let (collected, program) = collected(args, kind, labels, &stop)?;
    if collected.runs.is_empty() {
        return Err(usage("no run left a trace that threads communicate in".to_owned()));
    }
    let mut lines = Lines::new(&collected.images.iter().map(|(id, path)| (id, path.as_path())).collect::<Vec<_>>());
    let all = sum(collected.runs.iter(), kind)?;
    save(args, &collected, kind)?;
    write_exports(&all, &lines.code, args.dot.as_deref(), args.graph_json.as_deref())?;
    let code = match baseline {
        Some(baseline) => tested::against(args, baseline, &collected, &all, &program, &mut lines)?,
        None => ranked(args, score, &collected, &all, &program, &mut lines)?,
    };
    Ok(if stop.is_set() && code == ExitCode::Success.code() { 130 } else { code })
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

fn kind(args: &RankArgs, score: Score) -> Kind {
    let rules = match (args.collector.as_str(), score) {
        ("mesi", _) => Rules::Mesi,
        ("live", _) => Rules::Live,
        (_, Score::Paper) => Rules::Paper,
        _ => Rules::Coherent,
    };
    let granularity = match (args.granularity.as_str(), rules) {
        ("line", _) | (_, Rules::Mesi) => Granularity::Line,
        _ => Granularity::Word,
    };
    Kind { depth: Depth::new(args.context).unwrap_or_default(), granularity, rules }
}

/// Runs are held against a testing graph as it was collected; who asks for something else is told.
fn agreed(tested: &Graph, asked: Kind) -> Result<Kind, Failure> {
    let kind = tested.kind();
    if asked == kind || asked == Kind::default() {
        return Ok(kind);
    }
    Err(usage(format!(
        "the testing graph has {}; leave out --context, --granularity, --collector and --score, or give the same",
        how(tested)
    )))
}

/// What a plan says about a graph of this kind.
fn in_plan(kind: Kind) -> (u8, u8) {
    (kind.depth.events(), u8::try_from(kind.granularity.shift()).unwrap_or(2))
}

/// The graphs, and what they are of.
fn collected(args: &RankArgs, kind: Kind, labels: Labels, stop: &Stop) -> Result<(Collected, Program), Failure> {
    if args.guest.is_empty() {
        let store = Store::open(&args.store.out);
        if args.recorded.is_empty() {
            return Err(usage("name recorded runs, or a program after `--`: selvedge rank -- ./prog".to_owned()));
        }
        let collected = collect_runs(&store, &args.recorded, kind, labels).map_err(|error| Failure::usage(&error))?;
        let (build_id, path) = collected
            .images
            .first_key_value()
            .map_or_else(Default::default, |(id, path)| (hex(id), path.display().to_string()));
        return Ok((collected, Program { path, build_id }));
    }
    let (_, _, prepared) = prepared(args, stop)?;
    let options = CollectOptions {
        runs: args.runs,
        budget: args.budget,
        kind,
        labels,
        vary: VaryOptions {
            seed: args.seed,
            oracle: args.oracle.clone(),
            timeout: args.timeout,
            most_steps: args.max_steps,
            world: args.control.world(args.seed),
            graph: (kind.rules == Rules::Live).then(|| in_plan(kind)),
        },
    };
    let mut live = Live::new();
    let collected = collect_program(&prepared, &options, stop, &mut |tally| {
        live.show(|| format!("{} runs, {} pass, {} fail, {} hang", tally.total(), tally.pass, tally.fail, tally.hang));
    });
    live.end();
    let collected = collected.map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    let program = Program {
        path: prepared.program.path.to_string_lossy().into_owned(),
        build_id: hex(&prepared.program.build_id),
    };
    Ok((collected, program))
}

/// The program, surveyed.
fn prepared(args: &RankArgs, stop: &Stop) -> Result<(Store, Guest, Prepared), Failure> {
    let store = Store::create(&args.store.out).map_err(|error| Failure::usage(&error))?;
    let mut words = args.guest.clone().into_iter();
    let guest = Guest { program: words.next().unwrap_or_default(), args: words.collect() };
    let survey = SurveyOptions { runs: args.survey_runs, fresh: args.resurvey, timeout: Some(args.timeout) };
    let mut surveying = |run| note(&format!("survey run {run} of {}", args.survey_runs));
    let prepared = prepare(&store, &guest, &survey, stop, &mut surveying)
        .map_err(|error| Failure::new(error.exit_code(), &error))?;
    Ok((store, guest, prepared))
}

fn sum<'a>(runs: impl Iterator<Item = &'a Judged>, kind: Kind) -> Result<Graph, Failure> {
    Graph::sum(runs.map(|run| &run.graph), kind).map_err(|error| Failure::internal(&error))
}

fn save(args: &RankArgs, collected: &Collected, kind: Kind) -> Result<(), Failure> {
    let Some(path) = &args.save else { return Ok(()) };
    let tested = sum(collected.runs.iter().filter(|run| run.label != Label::Failed), kind)?;
    let bytes = file::to_bytes(&tested);
    write(path, &bytes)?;
    note(&format!(
        "{}: {} runs, {} nodes, {} edges, {} bytes",
        path.display(),
        tested.runs(),
        tested.nodes().len(),
        tested.edges().len(),
        bytes.len()
    ));
    Ok(())
}

fn ranked(
    args: &RankArgs,
    score: Score,
    collected: &Collected,
    all: &Graph,
    program: &Program,
    lines: &mut Lines,
) -> Result<u8, Failure> {
    let samples: Vec<Sample<'_>> =
        collected.runs.iter().map(|run| Sample { graph: &run.graph, label: run.label }).collect();
    let ranking = rank(&samples, score, |build_id, offset| lines.number(build_id, offset))
        .map_err(|error| Failure::internal(&error))?;
    let ground = Ground { failing: ranking.failing, passing: ranking.passing, has_contexts: has_contexts(all) };
    let points = named(&ranking, ground, lines);
    let tally = &collected.tally;
    note(&format!(
        "{} runs in {:.1} s: {} pass, {} fail, {} hang; {} nodes, {} edges",
        tally.total(),
        collected.elapsed.as_secs_f64(),
        tally.pass,
        tally.fail,
        tally.hang,
        all.nodes().len(),
        all.edges().len()
    ));
    if !ground.is_labelled() && args.label.as_deref() != Some("none") {
        note("runs of both sorts are needed to tell them apart; code points are ranked by rarity alone");
    }
    let mut out = anstream::stdout().lock();
    write_ranking(points.get(..args.top.min(points.len())).unwrap_or_default(), ground, &mut out)?;
    out.flush()?;
    let title = format!("{}: the top code points and who they meet", short(&program.path));
    let drawn = neighbourhood(&points, &ranking, all, lines);
    let top = ranking.points.iter().take(DRAWN_POINTS).filter_map(|ranked| lines.source(ranked.point));
    let top: Vec<String> = top.map(Source::brief).collect();
    if let Some(path) = &args.svg {
        write(path, draw(&title, &drawn, &top).as_bytes())?;
    }
    let report = with_ranking(program, collected.tally, points);
    if let Some(path) = &args.html {
        let graph = picture(&title, &drawn, &top);
        write_page(path, &report, &Extra { graph: Some(&graph), ..Extra::default() })?;
    }
    write_report(args.json.as_deref(), &report)?;
    let failed = tally.fail + tally.hang;
    Ok(if failed > 0 { ExitCode::Findings.code() } else { ExitCode::Success.code() })
}

/// The ranking of the runs that a hunt recorded.
pub(crate) fn of_recorded(recorded: &[Recorded]) -> Result<Vec<RankedPoint>, Failure> {
    let kind = Kind { depth: Depth::default(), granularity: Granularity::Word, rules: Rules::Coherent };
    let collected = collect_recorded(recorded, kind);
    let mut lines = Lines::new(&collected.images.iter().map(|(id, path)| (id, path.as_path())).collect::<Vec<_>>());
    let samples: Vec<Sample<'_>> =
        collected.runs.iter().map(|run| Sample { graph: &run.graph, label: run.label }).collect();
    let ranking = rank(&samples, Score::default(), |build_id, offset| lines.number(build_id, offset))
        .map_err(|error| Failure::internal(&error))?;
    Ok(named(&ranking, Ground { failing: ranking.failing, passing: ranking.passing, has_contexts: true }, &lines))
}

/// A report of runs and their ranking.
fn with_ranking(program: &Program, tally: Tally, points: Vec<RankedPoint>) -> Report {
    let mut report = Report::new(program.clone(), tally.into(), Vec::new());
    report.ranking = Some(points);
    report
}

/// Writes the ranking as JSON, where that is wanted.
fn write_report(path: Option<&Path>, report: &Report) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_vec_pretty(report).map_err(|error| Failure::internal(&error))?;
    write(path, &text)
}

fn short(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn named(ranking: &Ranking, ground: Ground, lines: &Lines) -> Vec<RankedPoint> {
    let mut points = Vec::new();
    for (at, ranked) in ranking.points.iter().enumerate() {
        let source = lines.source(ranked.point).cloned().unwrap_or_default();
        let evidence: Vec<RankedEdge> =
            ranked.evidence.iter().filter_map(|evidence| lines.edge(&ranking.images, evidence)).collect();
        points.push(RankedPoint {
            rank: u32::try_from(at + 1).unwrap_or(u32::MAX),
            file: source.file.clone(),
            line: source.line,
            function: source.function.clone(),
            score: ranked.score,
            why: whole_why(&evidence, ground),
            evidence,
        });
    }
    points
}

/// Code points of the picture.
const DRAWN_POINTS: usize = 4;
/// Edges of the picture that do not speak for the bug.
const DRAWN_USUAL: usize = 6;

/// What the picture shows: what speaks for the top code points, and what these do mostly.
fn neighbourhood(points: &[RankedPoint], ranking: &Ranking, all: &Graph, lines: &mut Lines) -> Vec<Drawn> {
    let is_labelled = ranking.passing > 0;
    let mut drawn: Vec<Drawn> = Vec::new();
    // Several sites of one line look the same: the first says it.
    let mut show = |one: Drawn| {
        let is_new = !drawn.iter().any(|known| (&known.edge.from, &known.edge.to) == (&one.edge.from, &one.edge.to));
        if is_new {
            drawn.push(one);
        }
        is_new
    };
    for edge in points.iter().take(DRAWN_POINTS).flat_map(|point| point.evidence.iter().take(2)) {
        show(Drawn::evidence(edge, is_labelled));
    }
    let top: Vec<PointNo> = ranking.points.iter().take(DRAWN_POINTS).map(|ranked| ranked.point).collect();
    let mut usual: Vec<_> = all.edges().iter().collect();
    usual.sort_by_key(|row| std::cmp::Reverse(row.count.runs));
    let mut left = DRAWN_USUAL;
    for row in usual {
        if left == 0 {
            break;
        }
        let site = row.to.site();
        let image = site.and_then(|site| all.images().get(usize::from(site.image)));
        let point = site.zip(image).map(|(site, image)| lines.number(image, site.offset));
        if !point.is_some_and(|point| top.contains(&point)) {
            continue;
        }
        let Some(to) = lines.node(all.images(), row.to) else { continue };
        let from = lines.node(all.images(), row.from);
        let edge = RankedEdge { from, to, failing: 0, passing: 0, pair_passes: true, is_missing: false };
        left -= usize::from(show(Drawn::usual(edge, row.count.runs)));
    }
    drawn
}

/// Whether its nodes have contexts.
fn has_contexts(graph: &Graph) -> bool {
    graph.kind().depth != Depth::NONE
}
