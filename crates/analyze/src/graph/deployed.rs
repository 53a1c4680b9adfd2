//! Deployed runs against the testing graph (section 5): what they do that no test did.
//!
//! The paper ranks the edges beyond the testing graph as if they were all there is. But some code points have new contexts in every run,
//! and others had none for the last hundred tests; only there is a new one news. How likely a new edge was is known from testing: of all times that a
//! run had an edge into a code point, the share of edges that only one run ever had (Good and Turing's estimate of what
//! is still unseen, with one made-up sighting of each kind). One less that is how surprising it is now, and past a
//! threshold it is reported.

use std::collections::{BTreeMap, BTreeSet};

use super::rank::PointNo;
use super::value::{BuildId, EdgeRow, Graph, UnlikeError};

/// How surprising an edge must be by default.
pub const THRESHOLD: f64 = 0.9;

/// A code point that does something new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surprise {
    /// Which.
    pub point: PointNo,
    /// From 0 to 1.
    pub score: f64,
    /// The first of its new edges.
    pub edge: EdgeRow,
    /// How many new edges lead to it.
    pub edges: usize,
}

/// What a testing graph says about code points.
#[derive(Clone, Debug)]
pub struct Tested {
    graph: Graph,
    /// By code point: sightings of edges into it in testing, and of those that only one run had.
    points: BTreeMap<PointNo, (u64, u64)>,
}

impl Tested {
    /// Learns from a testing graph; `point_of` says which code point an offset of an image belongs to.
    pub fn new(graph: Graph, mut point_of: impl FnMut(&BuildId, u32) -> PointNo) -> Tested {
        let mut points: BTreeMap<PointNo, (u64, u64)> = BTreeMap::new();
        for row in graph.edges() {
            if let Some(point) = point(&graph, row, &mut point_of) {
                let (all, once) = points.entry(point).or_default();
                *all += u64::from(row.count.runs);
                *once += u64::from(row.count.runs == 1);
            }
        }
        Tested { graph, points }
    }

    /// The testing graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How surprising a new edge into this code point is.
    pub fn surprise(&self, point: PointNo) -> f64 {
        let (all, once) = self.points.get(&point).copied().unwrap_or_default();
        1.0 - (once as f64 + 1.0) / (all as f64 + 2.0)
    }

    /// The code points of a deployed run that are past the threshold, the most surprising first.
    pub fn beyond(
        &self,
        live: &Graph,
        threshold: f64,
        mut point_of: impl FnMut(&BuildId, u32) -> PointNo,
    ) -> Result<Vec<Surprise>, UnlikeError> {
        let new = live.difference(&self.graph)?;
        let mut found: BTreeMap<PointNo, Surprise> = BTreeMap::new();
        for row in new.edges() {
            let Some(point) = point(&new, row, &mut point_of) else { continue };
            let score = self.surprise(point);
            if score < threshold {
                continue;
            }
            let known = found.entry(point).or_insert(Surprise { point, score, edge: *row, edges: 0 });
            known.edges += 1;
            if row.count.mean_first() < known.edge.count.mean_first() {
                known.edge = *row;
            }
        }
        let mut found: Vec<Surprise> = found.into_values().collect();
        let first = |surprise: &Surprise| surprise.edge.count.mean_first();
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(first(a).total_cmp(&first(b))));
        Ok(found)
    }
}

/// Looks at a run that goes on, again and again, and tells each code point once.
///
/// Bounded: it remembers the code points that it told, at most [`Watch::MOST`] of them, and nothing of the graphs.
#[derive(Clone, Debug)]
pub struct Watch {
    tested: Tested,
    threshold: f64,
    told: BTreeSet<PointNo>,
    looks: u64,
}

impl Watch {
    /// Code points beyond which nothing more is told: a run that surprises everywhere is not what was tested.
    pub const MOST: usize = 1024;

    /// Nothing was told yet.
    pub fn new(tested: Tested, threshold: f64) -> Watch {
        Watch { tested, threshold, told: BTreeSet::new(), looks: 0 }
    }

    /// What was learned in testing.
    pub fn tested(&self) -> &Tested {
        &self.tested
    }

    /// How often it looked.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Code points told so far.
    pub fn told(&self) -> usize {
        self.told.len()
    }

    /// Looks at the graph of the run so far; the code points that are new since the last look.
    pub fn look(
        &mut self,
        live: &Graph,
        point_of: impl FnMut(&BuildId, u32) -> PointNo,
    ) -> Result<Vec<Surprise>, UnlikeError> {
        self.looks += 1;
        let mut found = self.tested.beyond(live, self.threshold, point_of)?;
        found.retain(|surprise| self.told.len() < Watch::MOST && self.told.insert(surprise.point));
        Ok(found)
    }
}

/// The code point that an edge leads to.
fn point(graph: &Graph, row: &EdgeRow, point_of: &mut impl FnMut(&BuildId, u32) -> PointNo) -> Option<PointNo> {
    let site = row.to.site()?;
    Some(point_of(graph.images().get(usize::from(site.image))?, site.offset))
}
