//! Ranked code points: where the bug most likely is, and what says so.

use serde::{Deserialize, Serialize};

/// A code point of a ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedPoint {
    /// Its place, from 1.
    pub rank: u32,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// From 0 to 1; more is more likely to be the bug.
    pub score: f64,
    /// What speaks for it, in words.
    pub why: String,
    /// The edges that speak for it, the strongest first.
    pub evidence: Vec<RankedEdge>,
}

/// Communication between two accesses of different threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedEdge {
    /// The earlier access; nothing where no thread had written yet.
    pub from: Option<RankedNode>,
    /// The later one.
    pub to: RankedNode,
    /// Failing runs that have it; all runs that have it, where nobody said how they ended.
    pub failing: u32,
    /// Passing runs that have it.
    pub passing: u32,
    /// Whether passing runs have the pair of places, be it in other contexts.
    pub pair_passes: bool,
    /// Whether it speaks for the bug where it does not happen.
    pub is_missing: bool,
}

/// A place in the code, and what its thread had lately seen of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedNode {
    /// `FILE:LINE`, as far as it is known.
    pub place: String,
    /// The function.
    pub function: Option<String>,
    /// `read`, `write` or `access`.
    pub access: String,
    /// The last communication events of its thread, oldest first: `LcRd`, `LcWr`, `RmRd`, `RmWr`.
    pub context: Vec<String>,
}
