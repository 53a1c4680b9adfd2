//! Graphs that the runtime collected while the program ran, without a trace (`rt::graph`).
//!
//! The rules are nearly [`super::Rules::Coherent`]; `rt::graph` says what bounded memory takes away. A node's time is that of its
//! first edge.

use selvedge_events::SiteId;
use selvedge_events::trace_file::graph::split;
use selvedge_trace::Process;

use super::context::{Context, Depth};
use super::value::{BuildId, Granularity, Graph, Growing, Kind, Node, Rules, Site};

/// The graph of a process that collected one; `None` for another. The process may still be running.
pub fn collected(process: &Process) -> Option<Graph> {
    let rows = process.file().graph()?;
    let depth = Depth::new(u8::try_from(rows.depth).ok()?)?;
    let granularity = if rows.shift == Granularity::Line.shift() { Granularity::Line } else { Granularity::Word };
    let mut images: Vec<BuildId> = Vec::new();
    let mut node = |word: u64| -> Option<Node> {
        let Some((id, context)) = split(word) else { return Some(Node::NOBODY) };
        let site = process.site(SiteId(id))?;
        let module = process.module(site.module)?;
        let image = images.iter().position(|image| *image == module.build_id).unwrap_or_else(|| {
            images.push(module.build_id.clone());
            images.len() - 1
        });
        let site = Site { image: u16::try_from(image).ok()?, offset: site.offset };
        Some(Node::new(site, Context::from_bits(context)?))
    };
    let mut edges = Vec::new();
    for row in &rows.rows {
        if let (Some(from), Some(to)) = (node(row.from), node(row.to).filter(|to| *to != Node::NOBODY)) {
            edges.push((from, to, row.times.max(1), row.before));
        }
    }
    let mut growing = Growing::new(images);
    for (from, to, times, before) in edges {
        growing.edges_of_one_kind((from, to), times, before);
    }
    Some(growing.finish(Kind { depth, granularity, rules: Rules::Live }))
}
