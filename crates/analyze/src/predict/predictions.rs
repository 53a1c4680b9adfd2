//! The way in: patterns in, candidates out.

use super::candidates::{Candidate, Dropped, Finds};
use super::general;
use super::graph::Graph;
use super::patterns::{self, Pattern};
use super::plan::Plans;
use super::search::Search;
use super::sets::Sets;
use crate::history::History;

/// What to search for and how far.
#[derive(Clone, Debug)]
pub struct Options {
    /// The patterns; of those of one kind that fit the same events the first is taken.
    pub patterns: Vec<Pattern>,
    /// How many of its own events a thread may do between two accesses that are thought to belong together without a region
    /// to say so.
    pub near: u32,
    /// How many location tuples of one pattern are kept.
    pub per_pattern: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { patterns: patterns::standard(), near: 256, per_pattern: 2_000 }
    }
}

/// What may be wrong, and what was not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    /// By kind, scope, pattern and closeness.
    pub candidates: Vec<Candidate>,
    /// What the limits cut off.
    pub dropped: Dropped,
}

/// Searches a history for patterns.
pub fn predict(history: &History, options: &Options) -> Predictions {
    search(&Graph::new(history, options.near), options)
}

/// The same, on a graph that is there already.
pub fn search(graph: &Graph<'_>, options: &Options) -> Predictions {
    let plans = Plans::new(&options.patterns);
    let mut finds = Finds::new(options.patterns.len(), options.per_pattern);
    let mut single = Search::new(graph, &plans, &mut finds);
    single.run();
    let groups = single.numbers;
    Sets::new(graph, &plans, &groups, &mut finds).run();
    general::run(graph, &options.patterns, &plans.general, &mut finds);
    let (candidates, dropped) = finds.into_candidates(graph, &options.patterns);
    Predictions { candidates, dropped }
}
