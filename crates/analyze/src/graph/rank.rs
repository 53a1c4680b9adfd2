//! Which code points are most likely to be the bug.
//!
//! A code point is what the caller says that a site belongs to: a source line, or a function. Input are graphs of single
//! runs, with labels where somebody judged the runs.
//!
//! NOTE \[Scores\]
//!
//! **Paper** (section 5). Where runs are labelled, each failing run's graph is first reduced to the edges that no passing run has. Then
//! a code point ranks by how rare its rarest context is: the least F(p, x) / F(p, *) over the contexts x of its
//! nodes, F counting runs. The formula as printed sums these fractions over all contexts; with one measure in both parts
//! that is 1 for every code point, so the sum is read as the words around it have it: "code points that executed in rare
//! contexts are ranked higher".
//!
//! Section 6.2.3 admits an artefact: reducing a graph also reduces F(p, *), so the guilty context is the less rare the
//! more of the others are gone. And section 6.2.4 names two sources of noise: rare but harmless orders, and whatever comes
//! after the bug, whose contexts are rare because the bug's were. The other scores keep all counts as they were
//! collected, and know the time.
//!
//! **Rare.** A node or edge weighs 1 - r, where r is the share of *all* runs that have it; where runs are labelled, those that a
//! passing run has weigh nothing.
//!
//! **Suspicious.** A node or edge weighs the share of failing runs that have it less that of passing runs, and never less than
//! nothing. Without labels it is the same as rare.
//!
//! What should have happened and did not is as telling (the paper's Figure 2): an edge that passing runs have more often weighs
//! that much in the failing runs that lack it (suspicious), and without labels an edge weighs the share of runs that have
//! it in those that lack it (both). Its time is just after that at which the others have it. Where the same two sites meet in
//! the run in other contexts, only contexts are missing, and it weighs three quarters: contexts change with all that came
//! before. In a failing run that never came to the edge's later site it weighs a tenth: the run ended before, or went another
//! way, because of something else.
//!
//! In both, every run (every failing run, where there are labels) is walked from its beginning. What has weight w gives w to its
//! code points, as far as nothing before it explains the run already: each moment leaves 1 - 0.9 w of what was left
//! before. So a failure is charged to what went wrong first, not to what followed from it: not to the
//! assertion that noticed. An edge gives half of its weight to where it comes from: the later access is where
//! things went another way. A code point's score is the sum over runs, times 0.9, divided by their number: at most 1.
//!
//! Cost: one pass over the rows of each run. Its moments are sorted only as far as something is left to charge: the first
//! few hundred that tell much leave nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::context::Context;
use super::value::{BuildId, Count, EdgeRow, Graph, Node, NodeRow, Site, UnlikeError};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// As it should.
    Passed,
    /// With the bug.
    Failed,
    /// Nobody said.
    Unknown,
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// What it did.
    pub graph: &'a Graph,
    /// How it ended.
    pub label: Label,
}

/// How code points are scored: see NOTE \[Scores\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// As in the paper.
    Paper,
    /// By rarity, the first of each run most.
    Rare,
    /// By what tells failing runs from passing ones, the first of each run most.
    #[default]
    Suspicious,
}

impl Score {
    /// All of them.
    pub const ALL: [Score; 3] = [Score::Paper, Score::Rare, Score::Suspicious];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Score::Paper => "paper",
            Score::Rare => "rare",
            Score::Suspicious => "suspicious",
        }
    }
}

/// The caller's number of a code point.
pub type PointNo = u32;

/// A code point with its score; more is more likely to be the bug.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Which.
    pub point: PointNo,
    /// From 0 to 1.
    pub score: f64,
    /// What speaks for it, the strongest first.
    pub evidence: Vec<Evidence>,
}

/// An edge that speaks for a code point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Who came first.
    pub from: Node,
    /// Who came after.
    pub to: Node,
    /// How much it added to the score, before sharing.
    pub weight: f64,
    /// Failing runs that have it; all runs, where nobody said how they ended.
    pub failing: u32,
    /// Passing runs that have it.
    pub passing: u32,
    /// Whether passing runs have the pair of sites in some contexts.
    pub pair_passes: bool,
    /// Whether it speaks for the bug where it does *not* happen.
    pub is_missing: bool,
}

/// The code points in order, the most likely first; equal ones in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// The code points.
    pub points: Vec<Ranked>,
    /// The images that nodes of the evidence are in.
    pub images: Vec<BuildId>,
    /// Failing runs; all runs, where nobody said how they ended.
    pub failing: u32,
    /// Passing runs.
    pub passing: u32,
}

impl Ranking {
    /// Where a code point stands, from 1; among equals, in the mean. `None` where it is not ranked.
    pub fn place_of(&self, wanted: impl Fn(PointNo) -> bool) -> Option<f64> {
        let best = self.points.iter().find(|ranked| wanted(ranked.point))?.score;
        let before = self.points.iter().filter(|ranked| ranked.score > best).count();
        let equal = || self.points.iter().filter(|ranked| (ranked.score - best).abs() < f64::EPSILON);
        let right = equal().filter(|ranked| wanted(ranked.point)).count();
        let wrong = equal().count() - right;
        // Of `wrong` others in any order among `right` that are wanted, the first wanted one comes after so many.
        Some(before as f64 + wrong as f64 / (right as f64 + 1.0) + 1.0)
    }
}

/// Evidence that is kept of each code point.
const MOST_EVIDENCE: usize = 3;

/// How much of a run its first suspicious moment explains, where it is as suspicious as can be.
const EXPLAINS: f64 = 0.9;

/// What an edge gives to where it comes from.
const SOURCE: f64 = 0.5;

/// What a missing edge weighs where its two sites meet in other contexts.
const OTHERWISE: f32 = 0.75;

/// What a missing edge weighs in a failing run that never came to its later site.
const UNREACHED: f32 = 0.1;

/// Ranks code points; `point_of` says which one an offset of an image belongs to.
pub fn rank(
    samples: &[Sample<'_>],
    score: Score,
    mut point_of: impl FnMut(&BuildId, u32) -> PointNo,
) -> Result<Ranking, UnlikeError> {
    let Some(first) = samples.first() else { return Ok(Ranking::default()) };
    let kind = first.graph.kind();
    let of = |label: Label| samples.iter().filter(move |sample| sample.label == label).map(|sample| sample.graph);
    // Labels help where there are both; what nobody judged is then left out.
    let is_labelled = of(Label::Passed).next().is_some() && of(Label::Failed).next().is_some();
    let chosen: Vec<&Graph> = match is_labelled {
        true => of(Label::Failed).collect(),
        false => samples.iter().map(|sample| sample.graph).collect(),
    };
    let suspects = Graph::summed(chosen.iter().copied(), kind)?;
    let passed = match is_labelled {
        true => Graph::summed(of(Label::Passed), kind)?,
        false => Cow::Owned(Graph::empty(kind)),
    };
    // One list of images for all.
    let images = suspects.all_images(&passed)?;
    let (suspects, passed) = (suspects.with_images(&images), passed.with_images(&images));
    let runs: Vec<Cow<'_, Graph>> = chosen.iter().map(|graph| graph.with_images(&images)).collect();
    let mut points = Points {
        of: FxHashMap::default(),
        last: None,
        numbers: FxHashMap::default(),
        names: Vec::new(),
        point_of: &mut point_of,
        images: &images,
    };
    let scored = match score {
        Score::Paper => by_paper(&runs, &passed, is_labelled, &mut points)?,
        Score::Rare | Score::Suspicious => {
            let weigh = Weigh { score, is_labelled, failing: suspects.runs(), passing: passed.runs() };
            by_weight(&runs, &suspects, &passed, weigh, &mut points)
        }
    };
    let mut ranking =
        Ranking { points: scored, failing: suspects.runs(), passing: passed.runs(), images: images.clone() };
    for evidence in ranking.points.iter_mut().flat_map(|ranked| &mut ranked.evidence) {
        evidence.failing = suspects.edge(evidence.from, evidence.to).runs;
        evidence.passing = passed.edge(evidence.from, evidence.to).runs;
        evidence.pair_passes = passed.has_sites(evidence.from.site(), evidence.to.site());
    }
    ranking.points.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.point.cmp(&b.point)));
    Ok(ranking)
}

/// The code points of sites, asked for once each, and numbered as they come.
struct Points<'a> {
    of: FxHashMap<Site, u32>,
    last: Option<(Site, u32)>,
    numbers: FxHashMap<PointNo, u32>,
    /// The caller's numbers.
    names: Vec<PointNo>,
    point_of: &'a mut dyn FnMut(&BuildId, u32) -> PointNo,
    images: &'a [BuildId],
}

impl Points<'_> {
    fn of(&mut self, node: Node) -> Option<u32> {
        let site = node.site()?;
        // Rows ascend: the site of the last one is often that of the next.
        if let Some((_, known)) = self.last.filter(|(last, _)| *last == site) {
            return Some(known);
        }
        let number = self.look_up(site)?;
        self.last = Some((site, number));
        Some(number)
    }

    fn look_up(&mut self, site: Site) -> Option<u32> {
        if let Some(known) = self.of.get(&site) {
            return Some(*known);
        }
        let name = (self.point_of)(self.images.get(usize::from(site.image))?, site.offset);
        let next = u32::try_from(self.names.len()).ok()?;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        self.of.insert(site, number);
        Some(number)
    }

    fn name(&self, number: u32) -> PointNo {
        self.names.get(number as usize).copied().unwrap_or(PointNo::MAX)
    }
}

fn share(runs: u32, of: u32) -> f32 {
    (f64::from(runs) / f64::from(of.max(1))) as f32
}

/// How much something says against the runs that have it.
#[derive(Clone, Copy)]
struct Weigh {
    score: Score,
    is_labelled: bool,
    failing: u32,
    passing: u32,
}

impl Weigh {
    fn of(self, failing: u32, passing: u32) -> f32 {
        match (self.is_labelled, self.score) {
            (true, Score::Suspicious) => (share(failing, self.failing) - share(passing, self.passing)).max(0.0),
            (true, _) if passing > 0 => 0.0,
            _ => 1.0 - share(failing + passing, self.failing + self.passing),
        }
    }

    /// The same, for a run that lacks it.
    fn missing(self, failing: u32, passing: u32) -> f32 {
        match self.is_labelled {
            true => (share(passing, self.passing) - share(failing, self.failing)).max(0.0),
            false => share(failing, self.failing),
        }
    }

    /// Whether runs are told by what they lack.
    fn tells_missing(self) -> bool {
        !self.is_labelled || self.score == Score::Suspicious
    }
}

/// A node or an edge of a run when it was first seen there, or an edge when it was missed.
#[derive(Clone, Copy)]
struct Moment {
    /// In 1/256 accesses: graphs of several runs have times in between.
    when: u64,
    weight: f32,
    to: u32,
    /// [`NOWHERE`] for a node, and for an edge from nobody.
    from: u32,
    /// Which edge: of the run, or past its edges, of those that it may lack. [`NOWHERE`] for a node.
    edge: u32,
}

/// No code point, or no edge.
const NOWHERE: u32 = u32::MAX;

fn when(count: Count) -> u64 {
    count.first.saturating_mul(256) / u64::from(count.runs.max(1))
}

fn by_weight(
    runs: &[Cow<'_, Graph>],
    suspects: &Graph,
    passed: &Graph,
    weigh: Weigh,
    points: &mut Points<'_>,
) -> Vec<Ranked> {
    // What a run may lack.
    let usual = if weigh.is_labelled { passed } else { suspects };
    let mut tally: Vec<Charged> = Vec::new();
    let mut moments: Vec<Moment> = Vec::new();
    for run in runs {
        moments.clear();
        let nodes = joined(run.nodes(), suspects.nodes(), passed.nodes(), |row: &NodeRow| row.node, |row| row.count);
        for (row, failing, passing) in nodes {
            let weight = weigh.of(failing, passing);
            if let Some(to) = points.of(row.node).filter(|_| weight > 0.0) {
                moments.push(Moment { when: when(row.count), weight, to, from: NOWHERE, edge: NOWHERE });
            }
        }
        let mut edge = |row: &EdgeRow, when: u64, weight: f32, edge: usize| {
            if let Some(to) = points.of(row.to).filter(|_| weight > 0.0) {
                let from = points.of(row.from).unwrap_or(NOWHERE);
                moments.push(Moment { when, weight, to, from, edge: u32::try_from(edge).unwrap_or(NOWHERE) });
            }
        };
        let edges = joined(run.edges(), suspects.edges(), passed.edges(), EdgeRow::key, |row| row.count);
        for (at, (row, failing, passing)) in edges.enumerate() {
            edge(&row, when(row.count), weigh.of(failing, passing), at);
        }
        if weigh.tells_missing() {
            let reached = weigh.is_labelled.then(|| Reached::new(run));
            let missed = joined(usual.edges(), suspects.edges(), run.edges(), EdgeRow::key, |row| row.count);
            for (at, (row, failing, _)) in missed.enumerate().filter(|(_, (_, _, own))| *own == 0) {
                let unreached = reached.as_ref().is_some_and(|reached| !reached.has(row.to));
                let weight = weigh.missing(failing, row.count.runs) * if unreached { UNREACHED } else { 1.0 };
                // After what happens then, so that it explains what follows only.
                edge(&row, when(row.count) + 128, weight, run.edges().len() + at);
            }
        }
        tally.resize_with(points.names.len(), Charged::default);
        let charging = Charging { run, usual: usual.edges(), met: FxHashMap::default(), left: 1.0, tally: &mut tally };
        charging.charge(&mut moments);
    }
    let ranked = |(number, charged): (usize, Charged)| Ranked {
        point: points.name(u32::try_from(number).unwrap_or(NOWHERE)),
        score: charged.sum * EXPLAINS / runs.len().max(1) as f64,
        evidence: charged.best,
    };
    tally.into_iter().enumerate().filter(|(_, charged)| charged.sum > 0.0).map(ranked).collect()
}

/// What a code point was charged with.
#[derive(Default)]
struct Charged {
    sum: f64,
    best: Vec<Evidence>,
}

impl Charged {
    /// Keeps an edge, if it is among the strongest. Without labels one may be odd where it is, in one run, and where it is not, in
    /// another: the stronger of the two is told.
    fn keep(&mut self, edge: &EdgeRow, weight: f64, is_missing: bool) {
        let (from, to) = edge.key();
        match self.best.iter_mut().find(|known| (known.from, known.to) == (from, to)) {
            Some(known) if known.weight >= weight => {}
            Some(known) => (known.weight, known.is_missing) = (weight, is_missing),
            None => {
                self.best.push(Evidence { from, to, weight, failing: 0, passing: 0, pair_passes: false, is_missing });
            }
        }
        self.best.sort_by(|a, b| b.weight.total_cmp(&a.weight).then((a.from, a.to).cmp(&(b.from, b.to))));
        self.best.truncate(MOST_EVIDENCE);
    }
}

/// The sites that a run came to.
struct Reached(FxHashSet<Option<Site>>);

impl Reached {
    fn new(run: &Graph) -> Reached {
        let sites = run.nodes().chunk_by(|a, b| a.node.site() == b.node.site());
        Reached(sites.filter_map(|rows| rows.first()).map(|row| row.node.site()).collect())
    }

    fn has(&self, node: Node) -> bool {
        self.0.contains(&node.site())
    }
}

/// Moments that are sorted at first; twice as many each time after that.
const FIRST_MOMENTS: usize = 1024;

/// A run while it is charged to its code points, the first moments most.
struct Charging<'a> {
    run: &'a Graph,
    /// What the run may lack.
    usual: &'a [EdgeRow],
    /// Which sites the edges of a site lead to in the run, of the sites that were asked for.
    met: FxHashMap<Option<Site>, FxHashSet<Option<Site>>>,
    /// How much of the run is not explained yet.
    left: f64,
    tally: &'a mut [Charged],
}

impl Charging<'_> {
    /// Charges the run, moment by moment.
    fn charge(mut self, moments: &mut [Moment]) {
        let (mut rest, mut most) = (moments, FIRST_MOMENTS);
        // Where nothing is left nothing is added.
        while !rest.is_empty() && self.left > 0.0 {
            let front = earliest(rest, most);
            let (next, later) = rest.split_at_mut(front);
            for part in &mut *next {
                part.weight *= self.otherwise(part);
            }
            next.sort_unstable_by_key(|moment| moment.when);
            for moment in next.chunk_by(|a, b| a.when == b.when) {
                self.charge_moment(moment);
            }
            (rest, most) = (later, most * 2);
        }
    }

    /// The edge of a moment, and whether the run lacks it.
    fn edge_of(&self, part: &Moment) -> Option<(EdgeRow, bool)> {
        let at = usize::try_from(part.edge).ok().filter(|_| part.edge != NOWHERE)?;
        match at.checked_sub(self.run.edges().len()) {
            Some(missed) => self.usual.get(missed).map(|row| (*row, true)),
            None => self.run.edges().get(at).map(|row| (*row, false)),
        }
    }

    /// What a moment weighs less because its sites meet in the run, only in other contexts.
    fn otherwise(&mut self, part: &Moment) -> f32 {
        let Some((row, true)) = self.edge_of(part) else { return 1.0 };
        let (run, from) = (self.run, row.from.site());
        let met = self.met.entry(from).or_insert_with(|| run.met_by(from).collect());
        if met.contains(&row.to.site()) { OTHERWISE } else { 1.0 }
    }

    fn charge_moment(&mut self, moment: &[Moment]) {
        let mut got: Vec<(u32, f64)> = Vec::new();
        let mut strongest: f64 = 0.0;
        for part in moment {
            let weight = f64::from(part.weight);
            strongest = strongest.max(weight);
            // What is left is nothing in the end; sorting a list for it is not worth the time.
            let edge = if self.left > 1e-6 { self.edge_of(part) } else { None };
            for (point, weight) in [(part.to, weight), (part.from, weight * SOURCE)] {
                let Some(charged) = self.tally.get_mut(point as usize) else { continue };
                match got.iter_mut().find(|(known, _)| *known == point) {
                    Some((_, most)) => *most = most.max(weight),
                    None => got.push((point, weight)),
                }
                if let Some((edge, is_missing)) = &edge {
                    charged.keep(edge, weight * self.left, *is_missing);
                }
            }
        }
        for (point, weight) in got {
            if let Some(charged) = self.tally.get_mut(point as usize) {
                charged.sum += weight * self.left;
            }
        }
        self.left *= 1.0 - EXPLAINS * strongest;
    }
}

/// Moves the earliest moments to the front, at least so many (or all), and says how many they are. None of the others is as early.
fn earliest(moments: &mut [Moment], least: usize) -> usize {
    if moments.len() <= least {
        return moments.len();
    }
    let last = moments.select_nth_unstable_by_key(least, |moment| moment.when).1.when;
    let mut front = least;
    for at in least..moments.len() {
        if moments.get(at).is_some_and(|moment| moment.when <= last) {
            moments.swap(front, at);
            front += 1;
        }
    }
    front
}

/// The rows of a run with how many failing and passing runs have each; all three lists ascend.
fn joined<'a, T: Copy, K: Ord>(
    run: &'a [T],
    failing: &'a [T],
    passing: &'a [T],
    key: impl Fn(&T) -> K + 'a,
    count: impl Fn(&T) -> Count + 'a,
) -> impl Iterator<Item = (T, u32, u32)> + 'a {
    let (mut failing, mut passing) = (failing.iter().peekable(), passing.iter().peekable());
    run.iter().map(move |row| {
        let wanted = key(row);
        let runs = |rows: &mut std::iter::Peekable<std::slice::Iter<'_, T>>| {
            while rows.next_if(|other| key(other) < wanted).is_some() {}
            rows.peek().filter(|other| key(other) == wanted).map_or(0, |other| count(other).runs)
        };
        (*row, runs(&mut failing), runs(&mut passing))
    })
}

fn by_paper(
    runs: &[Cow<'_, Graph>],
    passed: &Graph,
    is_labelled: bool,
    points: &mut Points<'_>,
) -> Result<Vec<Ranked>, UnlikeError> {
    // How many runs have it, and the first edge that shows it.
    let mut seen: BTreeMap<(PointNo, Context), (u32, (Node, Node))> = BTreeMap::new();
    for run in runs {
        let reduced = if is_labelled { run.difference(passed)? } else { run.clone().into_owned() };
        let mut own: FxHashSet<(PointNo, Context)> = FxHashSet::default();
        for row in reduced.edges() {
            for node in [row.from, row.to] {
                let Some(point) = points.of(node) else { continue };
                if own.insert((point, node.context())) {
                    let entry = seen.entry((point, node.context())).or_insert((0, row.key()));
                    entry.0 += 1;
                }
            }
        }
    }
    let mut totals: BTreeMap<PointNo, u32> = BTreeMap::new();
    for ((point, _), (count, _)) in &seen {
        *totals.entry(*point).or_default() += count;
    }
    let mut ranked: BTreeMap<PointNo, Ranked> = BTreeMap::new();
    for ((point, _), (count, (from, to))) in &seen {
        let total = totals.get(point).copied().unwrap_or(1).max(1);
        let score = 1.0 - f64::from(*count) / f64::from(total);
        let evidence = Evidence {
            from: *from,
            to: *to,
            weight: score,
            failing: 0,
            passing: 0,
            pair_passes: false,
            is_missing: false,
        };
        let known = ranked.entry(*point).or_insert(Ranked { point: *point, score: f64::MIN, evidence: Vec::new() });
        if score > known.score {
            known.score = score;
        }
        known.evidence.push(evidence);
    }
    let mut ranked: Vec<Ranked> = ranked.into_values().collect();
    for point in &mut ranked {
        point.point = points.name(point.point);
        point.evidence.sort_by(|a, b| b.weight.total_cmp(&a.weight).then((a.from, a.to).cmp(&(b.from, b.to))));
        point.evidence.dedup_by_key(|evidence| (evidence.from, evidence.to));
        point.evidence.truncate(MOST_EVIDENCE);
    }
    Ok(ranked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Moment, earliest};

    proptest! {
        /// The front of a list is what sorting puts there, and no moment is cut in two.
        #[test]
        fn the_earliest_moments_come_first(times in proptest::collection::vec(0u64..40, 0..80), least in 0usize..90) {
            let part = |when: &u64| Moment { when: *when, weight: 1.0, to: 0, from: 0, edge: 0 };
            let mut moments: Vec<Moment> = times.iter().map(part).collect();
            let front = earliest(&mut moments, least);
            prop_assert!(front >= least.min(times.len()));
            let (next, later) = moments.split_at(front);
            let last = next.iter().map(|moment| moment.when).max();
            prop_assert!(later.iter().all(|moment| Some(moment.when) > last));
            let mut kept: Vec<u64> = moments.iter().map(|moment| moment.when).collect();
            let mut sorted = times.clone();
            kept.sort_unstable();
            sorted.sort_unstable();
            prop_assert_eq!(kept, sorted);
        }
    }
}
