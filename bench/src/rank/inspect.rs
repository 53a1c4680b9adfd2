//! Ranks the runs of a kernel and counts the code points that come before a guilty line.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::graph::rank::{Label, PointNo, Ranking, Sample, Score, rank};
use selvedge_analyze::graph::value::BuildId;
use selvedge_analyze::graph::{Depth, Granularity, Graph, Kind, Rules};
use selvedge_corpus::Guilty;
use selvedge_report::code_points::CodePoints;
use serde::Serialize;

use super::gather::Observed;
use crate::error::{Result, tool};

/// A way to collect and score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// What graphs are of.
    pub kind: Kind,
    /// How they are scored.
    pub score: Score,
}

impl Way {
    /// The paper's, with a collector and a context.
    pub fn paper(collector: Collector, context: u8) -> Way {
        Way { kind: collector.kind(Rules::Paper, context), score: Score::Paper }
    }

    /// Ours.
    pub fn ours(collector: Collector, context: u8) -> Way {
        Way { kind: collector.kind(Rules::Coherent, context), score: Score::Suspicious }
    }
}

/// Who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Collector {
    /// The simulated hardware.
    Mesi,
    /// Software, by line.
    Line,
    /// Software, by word.
    Word,
    /// The runtime, by word, without a trace. The paper has none such.
    Live,
}

impl Collector {
    /// In the order of the paper's columns.
    pub const ALL: [Collector; 3] = [Collector::Mesi, Collector::Line, Collector::Word];

    fn kind(self, rules: Rules, context: u8) -> Kind {
        let depth = Depth::new(context).unwrap_or_default();
        match self {
            Collector::Mesi => Kind { depth, granularity: Granularity::Line, rules: Rules::Mesi },
            Collector::Line => Kind { depth, granularity: Granularity::Line, rules },
            Collector::Word => Kind { depth, granularity: Granularity::Word, rules },
            Collector::Live => Kind { depth, granularity: Granularity::Word, rules: Rules::Live },
        }
    }
}

/// What it took to find the bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Inspected {
    /// Trials in which a guilty line was ranked at all.
    pub found: u32,
    /// Trials.
    pub trials: u32,
    /// Code points looked at, the guilty one included, in the mean of the trials that found it.
    pub lines: f64,
    /// Functions looked at.
    pub functions: f64,
}

impl Inspected {
    fn add(&mut self, place: Option<(f64, f64)>) {
        self.trials += 1;
        if let Some((lines, functions)) = place {
            self.found += 1;
            let share = 1.0 / f64::from(self.found);
            self.lines += (lines - self.lines) * share;
            self.functions += (functions - self.functions) * share;
        }
    }

    /// Whether every trial found it.
    pub fn is_found(&self) -> bool {
        self.found == self.trials && self.trials > 0
    }

    /// For a table.
    pub fn cell(&self) -> String {
        match self.found {
            0 => "-".to_owned(),
            found if found < self.trials => format!("{:.1} in {found} of {}", self.lines, self.trials),
            _ => format!("{:.1} ({:.1})", self.lines, self.functions),
        }
    }
}

/// A kernel with its runs.
#[derive(Debug)]
pub struct Kernel<'a> {
    /// The runs, in the order in which they were made.
    pub runs: &'a [Observed],
    /// Names of sites.
    pub code: &'a CodePoints,
    /// The guilty lines.
    pub guilty: &'a [Guilty],
    /// Trials.
    pub trials: usize,
    /// Runs of each sort in a labelled trial, and of all sorts in an unlabelled one.
    pub size: usize,
}

/// Source lines as code points.
struct Lines<'a> {
    code: &'a CodePoints,
    numbers: BTreeMap<(String, u32), PointNo>,
    functions: Vec<String>,
    lines: Vec<u32>,
}

impl Lines<'_> {
    fn number(&mut self, image: &BuildId, offset: u32) -> PointNo {
        let source = self.code.source(image, offset);
        let key = (source.file_name().unwrap_or_default(), source.line.unwrap_or(0));
        let next = PointNo::try_from(self.lines.len()).unwrap_or(PointNo::MAX);
        let line = key.1;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.lines.push(line);
            self.functions.push(source.function.clone().unwrap_or_default());
        }
        number
    }
}

impl Kernel<'_> {
    /// The graph of every run.
    pub fn graphs(&self, kind: Kind) -> Vec<Graph> {
        let empty = || Graph::empty(kind);
        let graph = |run: &Observed| match kind.rules {
            Rules::Live => run.live.clone().unwrap_or_else(empty),
            _ => run.steps.graph(kind),
        };
        self.runs.iter().map(graph).collect()
    }

    /// Trials with as many failing as passing runs.
    pub fn labelled(&self, way: Way) -> Result<Inspected> {
        let graphs = self.graphs(way.kind);
        let of = |fails: bool| -> Vec<&Graph> {
            self.runs.iter().zip(&graphs).filter(|(run, _)| run.fails == fails).map(|(_, graph)| graph).collect()
        };
        let (failing, passing) = (of(true), of(false));
        let mut inspected = Inspected::default();
        let trials = self.trials.min(failing.len() / self.size).min(passing.len() / self.size).max(1);
        for trial in 0..trials {
            let chosen = |graphs: &[&'_ Graph], label| -> Vec<(Label, Graph)> {
                let own = graphs.iter().skip(trial * self.size).take(self.size);
                own.map(|graph| (label, Graph::clone(graph))).collect()
            };
            let mut samples = chosen(&failing, Label::Failed);
            samples.extend(chosen(&passing, Label::Passed));
            inspected.add(self.place(&samples, way.score)?);
        }
        Ok(inspected)
    }

    /// Trials with runs as they come, at least one of which fails.
    pub fn unlabelled(&self, way: Way) -> Result<Inspected> {
        let graphs = self.graphs(way.kind);
        let mut inspected = Inspected::default();
        let mut from = 0;
        for _ in 0..self.trials {
            let fails = |from: usize| self.runs.iter().skip(from).take(self.size).any(|run| run.fails);
            while from + self.size < self.runs.len() && !fails(from) {
                from += 1;
            }
            let samples: Vec<(Label, Graph)> =
                graphs.iter().skip(from).take(self.size).map(|graph| (Label::Unknown, graph.clone())).collect();
            if samples.len() < self.size || !fails(from) {
                break;
            }
            inspected.add(self.place(&samples, way.score)?);
            from += self.size;
        }
        Ok(inspected)
    }

    /// Code points and functions up to the first guilty line.
    fn place(&self, runs: &[(Label, Graph)], score: Score) -> Result<Option<(f64, f64)>> {
        let mut lines = Lines { code: self.code, numbers: BTreeMap::new(), functions: Vec::new(), lines: Vec::new() };
        let samples: Vec<Sample<'_>> = runs.iter().map(|(label, graph)| Sample { graph, label: *label }).collect();
        let ranking = tool("rank", rank(&samples, score, |image, offset| lines.number(image, offset)))?;
        let is_guilty = |point: PointNo| {
            let line = lines.lines.get(point as usize);
            self.guilty.iter().any(|guilty| Some(&guilty.line) == line)
        };
        Ok(ranking.place_of(is_guilty).map(|place| (place, functions(&ranking, &lines, is_guilty))))
    }

    /// Of the code points that communicate in graphs of one kind, the share that those of another do not have.
    pub fn lost(&self, from: Kind, to: Kind) -> f64 {
        let points = |kind: Kind| -> BTreeSet<(String, u32)> {
            let mut points = BTreeSet::new();
            for graph in self.graphs(kind) {
                for site in graph.nodes().iter().filter_map(|row| row.node.site()) {
                    let Some(image) = graph.images().get(usize::from(site.image)) else { continue };
                    let source = self.code.source(image, site.offset);
                    points.insert((source.file_name().unwrap_or_default(), source.line.unwrap_or(0)));
                }
            }
            points
        };
        let (all, kept) = (points(from), points(to));
        let lost = all.iter().filter(|point| !kept.contains(*point)).count();
        lost as f64 / all.len().max(1) as f64
    }
}

/// Functions of the code points before the first guilty one, and its own.
fn functions(ranking: &Ranking, lines: &Lines<'_>, is_guilty: impl Fn(PointNo) -> bool) -> f64 {
    let Some(best) = ranking.points.iter().find(|ranked| is_guilty(ranked.point)) else { return 0.0 };
    let function = |point: PointNo| lines.functions.get(point as usize);
    let before = ranking.points.iter().filter(|ranked| ranked.score > best.score);
    let all: BTreeSet<_> = before.chain([best]).filter_map(|ranked| function(ranked.point)).collect();
    all.len() as f64
}
