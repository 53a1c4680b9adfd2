//! `selvedge rank`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use selvedge_analyze::graph::deployed::{Surprise, Tested, Watch};
use selvedge_analyze::graph::rank::{Evidence, Label, PointNo, Ranking, Sample, Score, rank};
use selvedge_analyze::graph::value::BuildId;
use selvedge_analyze::graph::{Depth, Granularity, Graph, Kind, Node, Rules, export, file};
use selvedge_drive::controlled::{Prepared, SurveyOptions, prepare};
use selvedge_drive::hunt::Recorded;
use selvedge_drive::plan::DEFAULT_MEMORY_LIMIT_MB;
use selvedge_drive::program::hex;
use selvedge_drive::rank::{
    CollectOptions, Collected, Judged, Labels, collect_program, collect_recorded, collect_runs,
};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_drive::vary::VaryOptions;
use selvedge_drive::watch::{WatchOptions, watch};
use selvedge_findings::{ExitCode, Program, RankedEdge, RankedNode, RankedPoint, Report};
use selvedge_report::code_points::CodePoints;
use selvedge_report::names::Source;
use selvedge_report::ranking::{Ground, why, write_ranking};
use selvedge_report::ranking_svg::{Drawn, draw, picture};

use crate::args::RankArgs;
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
    if let (true, Some(baseline)) = (args.watch, &args.baseline) {
        return watched(args, baseline, &stop);
    }
    let (collected, program) = collected(args, kind, labels, &stop)?;
    if collected.runs.is_empty() {
        return Err(usage("no run left a trace that threads communicate in".to_owned()));
    }
    let mut lines = Lines::new(&collected.images.iter().map(|(id, path)| (id, path.as_path())).collect::<Vec<_>>());
    let all = sum(collected.runs.iter(), kind)?;
    save(args, &collected, kind)?;
    export(args, &all, &lines)?;
    let code = match &args.baseline {
        Some(baseline) => against(args, baseline, &collected, &mut lines)?,
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
    std::fs::write(path, &bytes).map_err(|error| Failure::usage(&error))?;
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

fn export(args: &RankArgs, all: &Graph, lines: &Lines) -> Result<(), Failure> {
    let name = |site: selvedge_analyze::graph::Site| {
        let image = all.images().get(usize::from(site.image)).cloned().unwrap_or_default();
        lines.code.source(&image, site.offset).brief()
    };
    if let Some(path) = &args.dot {
        std::fs::write(path, export::dot(all, name)).map_err(|error| Failure::usage(&error))?;
    }
    if let Some(path) = &args.graph_json {
        let text = serde_json::to_vec(&export::exported(all, name)).map_err(|error| Failure::internal(&error))?;
        std::fs::write(path, text).map_err(|error| Failure::usage(&error))?;
    }
    Ok(())
}

/// Source lines as code points.
struct Lines {
    code: CodePoints,
    numbers: BTreeMap<(String, Option<u32>), PointNo>,
    sources: Vec<Source>,
}

impl Lines {
    fn new(images: &[(&BuildId, &Path)]) -> Lines {
        let mut code = CodePoints::new();
        for (build_id, path) in images {
            code.add(build_id, path);
        }
        Lines { code, numbers: BTreeMap::new(), sources: Vec::new() }
    }

    fn number(&mut self, build_id: &BuildId, offset: u32) -> PointNo {
        let source = self.code.source(build_id, offset);
        let key = match (&source.file, source.line) {
            (Some(file), Some(line)) => (file.clone(), Some(line)),
            _ => (source.place(), None),
        };
        let next = PointNo::try_from(self.sources.len()).unwrap_or(PointNo::MAX);
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.sources.push(Source::clone(&source));
        }
        number
    }

    fn source(&self, point: PointNo) -> Option<&Source> {
        self.sources.get(point as usize)
    }

    fn node(&self, images: &[BuildId], node: Node) -> Option<RankedNode> {
        let site = node.site()?;
        let image = images.get(usize::from(site.image))?;
        let source = self.code.source(image, site.offset);
        Some(RankedNode {
            place: source.brief(),
            function: source.function.clone(),
            access: self.code.access(image, site.offset).to_owned(),
            context: node.context().events().map(|event| event.name().to_owned()).collect(),
        })
    }

    fn edge(&self, images: &[BuildId], evidence: &Evidence) -> Option<RankedEdge> {
        Some(RankedEdge {
            from: self.node(images, evidence.from),
            to: self.node(images, evidence.to)?,
            failing: evidence.failing,
            passing: evidence.passing,
            pair_passes: evidence.pair_passes,
            is_missing: evidence.is_missing,
        })
    }
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
    let ground = Ground { failing: ranking.failing, passing: ranking.passing };
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
    if let Some(path) = &args.svg {
        std::fs::write(path, draw(&title, &drawn)).map_err(|error| Failure::usage(&error))?;
    }
    let mut report = Report::new(program.clone(), collected.tally.into(), Vec::new());
    report.ranking = Some(points);
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&report).map_err(|error| Failure::internal(&error))?;
        std::fs::write(path, text).map_err(|error| Failure::usage(&error))?;
    }
    if let Some(path) = &args.html {
        let graph = picture(&title, &drawn);
        write_page(path, &report, &Extra { graph: Some(&graph), ..Extra::default() })?;
    }
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
    Ok(named(&ranking, Ground { failing: ranking.failing, passing: ranking.passing }, &lines))
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
            why: evidence.first().map_or_else(String::new, |edge| why(edge, ground)),
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
    let mut drawn: Vec<Drawn> = Vec::new();
    for point in points.iter().take(DRAWN_POINTS) {
        for edge in point.evidence.iter().take(2) {
            if !drawn.iter().any(|known| known.edge == *edge) {
                drawn.push(Drawn { edge: edge.clone(), is_evidence: true });
            }
        }
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
        let evidence = Evidence {
            from: row.from,
            to: row.to,
            weight: 0.0,
            failing: 0,
            passing: row.count.runs,
            pair_passes: true,
            is_missing: false,
        };
        let Some(edge) = lines.edge(all.images(), &evidence) else { continue };
        if drawn.iter().any(|known| (&known.edge.from, &known.edge.to) == (&edge.from, &edge.to)) {
            continue;
        }
        left -= 1;
        drawn.push(Drawn { edge, is_evidence: false });
    }
    drawn
}

/// The testing graph.
fn tested(baseline: &Path, lines: &mut Lines) -> Result<Tested, Failure> {
    let bytes = std::fs::read(baseline)
        .map_err(|error| usage(format!("cannot read the testing graph `{}`: {error}", baseline.display())))?;
    let graph = file::from_bytes(&bytes).map_err(|error| usage(format!("`{}`: {error}", baseline.display())))?;
    Ok(Tested::new(graph, |build_id, offset| lines.number(build_id, offset)))
}

/// Tells what runs do beyond a testing graph; `images` are those that edges of the surprises are in.
fn tell(found: &[Surprise], tests: u32, runs: u32, images: &[BuildId], lines: &Lines) -> Result<(), Failure> {
    let ground = Ground { failing: runs, passing: 0 };
    let mut out = anstream::stdout().lock();
    for surprise in found {
        let Some(source) = lines.source(surprise.point) else { continue };
        let evidence = Evidence {
            from: surprise.edge.from,
            to: surprise.edge.to,
            weight: surprise.score,
            failing: surprise.edge.count.runs,
            passing: 0,
            pair_passes: false,
            is_missing: false,
        };
        let Some(edge) = lines.edge(images, &evidence) else { continue };
        writeln!(out, "New at {} (surprise {:.2})", source.in_words(), surprise.score)?;
        writeln!(out, "   {}; never in {tests} tests.", why(&edge, ground))?;
    }
    Ok(out.flush()?)
}

/// Reports what the runs do beyond a testing graph.
fn against(args: &RankArgs, baseline: &Path, collected: &Collected, lines: &mut Lines) -> Result<u8, Failure> {
    let tested = tested(baseline, lines)?;
    let unlike =
        "the testing graph was collected otherwise: give the same --context, --granularity, --collector and --score";
    let all = sum(collected.runs.iter(), tested.graph().kind()).map_err(|_| usage(unlike.to_owned()))?;
    if !tested.graph().images().iter().any(|image| all.images().contains(image)) {
        note("the testing graph is of another build: everything is new to it");
    }
    let found = tested
        .beyond(&all, args.threshold, |build_id, offset| lines.number(build_id, offset))
        .map_err(|error| usage(error.to_string()))?;
    let images = all.difference(tested.graph()).map_err(|error| Failure::internal(&error))?.images().to_vec();
    let shown = found.get(..args.top.min(found.len())).unwrap_or_default();
    tell(shown, tested.graph().runs(), all.runs(), &images, lines)?;
    note(&format!("{} code points past the threshold of {}", found.len(), args.threshold));
    Ok(if found.is_empty() { ExitCode::Success.code() } else { ExitCode::Findings.code() })
}

/// Runs the program once, and reports while it runs what it does beyond a testing graph.
fn watched(args: &RankArgs, baseline: &Path, stop: &Stop) -> Result<u8, Failure> {
    let (store, guest, prepared) = prepared(args, stop)?;
    let mut lines = Lines::new(&[(&prepared.program.build_id, prepared.program.path.as_path())]);
    let tested = tested(baseline, &mut lines)?;
    let kind = tested.graph().kind();
    if kind.rules != Rules::Live {
        return Err(usage("a program can be watched with a testing graph of `--collector live` only".to_owned()));
    }
    let (_, dir) = store.new_run().map_err(|error| Failure::usage(&error))?;
    let options = WatchOptions {
        dir,
        graph: in_plan(kind),
        memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
        every: args.every,
        timeout: None,
    };
    let mut watching = Watch::new(tested, args.threshold);
    let mut problem = None;
    let ended = watch(&prepared, &guest, &options, stop, &mut |graph, process| {
        for module in process.file().modules() {
            lines.code.add(&module.build_id, &module.path);
        }
        let found = watching.look(graph, |build_id, offset| lines.number(build_id, offset));
        let tests = watching.tested().graph();
        let told = found.map_err(|error| Failure::internal(&error)).and_then(|found| {
            let images = graph.difference(tests).map_err(|error| Failure::internal(&error))?.images().to_vec();
            tell(&found, tests.runs(), 1, &images, &lines)
        });
        if let Err(failure) = told {
            problem.get_or_insert(failure);
        }
    });
    let (end, _) = ended.map_err(|error| Failure::new(ExitCode::Internal.code(), &error))?;
    if let Some(failure) = problem {
        return Err(failure);
    }
    note(&format!(
        "looked {} times; {} code points past the threshold of {}",
        watching.looks(),
        watching.told(),
        args.threshold
    ));
    Ok(if watching.told() > 0 { ExitCode::Findings.code() } else { end.outcome().exit_code() })
}
