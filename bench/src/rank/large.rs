//! How long graphs of a million edges take to add, subtract, rank and write: time of the one thread that does it, so that others on the
//! machine do not count.

use rustix::time::{ClockId, clock_gettime};
use selvedge_analyze::graph::file::{from_bytes, to_bytes};
use selvedge_analyze::graph::rank::{Label, Sample, Score, rank};
use selvedge_analyze::graph::{Access, Graph, Kind, Site, Step, Steps, Touch};
use serde::Serialize;

use crate::error::{Result, tool};

/// Milliseconds for each thing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Large {
    /// Edges of the larger graph.
    pub edges: usize,
    /// Nodes of it.
    pub nodes: usize,
    /// Adding two.
    pub union: f64,
    /// Subtracting one from the other.
    pub difference: f64,
    /// Ranking the code points of one against the other.
    pub rank: f64,
    /// Writing one.
    pub write: f64,
    /// Reading it.
    pub read: f64,
    /// Its bytes.
    pub bytes: usize,
}

/// A run with many edges: threads meet on many words at many sites in an order that a seed decides.
fn made(seed: u64, accesses: u64) -> Steps {
    let mut state = seed;
    let mut chance = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut steps = Steps { images: vec![vec![1; 20]], steps: Vec::new() };
    for _ in 0..accesses {
        let thread = u32::try_from(chance(8)).unwrap_or(0);
        let site = Site { image: 0, offset: u32::try_from(chance(20_000)).unwrap_or(0) * 16 };
        let touch = if chance(2) == 0 { Touch::Read } else { Touch::Write };
        steps.steps.push(Step::Access(Access { thread, site, addr: chance(4096) * 8, size: 4, touch }));
    }
    steps
}

/// Measures.
pub fn measure() -> Result<Large> {
    let kind = Kind::default();
    let (one, other) = (made(1, 900_000).graph(kind), made(2, 900_000).graph(kind));
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    };
    let ms = |begin: f64| now() - begin;
    let begin = now();
    let sum = tool("add graphs", one.union(&other))?;
    let union = ms(begin);
    let begin = now();
    let beyond: Graph = tool("subtract graphs", one.difference(&other))?;
    let difference = ms(begin);
    let samples = [Sample { graph: &one, label: Label::Failed }, Sample { graph: &other, label: Label::Passed }];
    let begin = now();
    let ranking = tool("rank", rank(&samples, Score::Suspicious, |_, offset| offset / 64))?;
    let ranked = ms(begin);
    let begin = now();
    let bytes = to_bytes(&one);
    let write = ms(begin);
    let begin = now();
    let again = tool("read a graph", from_bytes(&bytes))?;
    let read = ms(begin);
    // What is not looked at need not be done.
    std::hint::black_box((sum.edges().len(), beyond.edges().len(), ranking.points.len(), again.edges().len()));
    Ok(Large {
        edges: one.edges().len(),
        nodes: one.nodes().len(),
        union,
        difference,
        rank: ranked,
        write,
        read,
        bytes: bytes.len(),
    })
}
