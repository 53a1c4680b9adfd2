//! Graphs for other tools: Graphviz's DOT, and a shape that serialises to JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::value::{Count, Graph, Kind, Node, Site};

/// A graph with names, for JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// How it was collected.
    pub kind: Kind,
    /// How many runs it is of.
    pub runs: u32,
    /// The nodes.
    pub nodes: Vec<ExportedNode>,
    /// The edges.
    pub edges: Vec<ExportedEdge>,
}

/// A node with its name.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedNode {
    /// Where in the source, or in the code.
    pub site: String,
    /// What its thread had lately seen, oldest first, in the paper's words.
    pub context: Vec<&'static str>,
    /// How often.
    #[serde(flatten)]
    pub count: Count,
}

/// An edge between nodes, by their number; `null` is nobody.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedEdge {
    /// Who came first.
    pub from: Option<usize>,
    /// Who came after.
    pub to: Option<usize>,
    /// How often.
    #[serde(flatten)]
    pub count: Count,
}

/// The graph for JSON; `name` says what a site is called.
pub fn exported(graph: &Graph, name: impl Fn(Site) -> String) -> Exported {
    let index = |node: Node| graph.nodes().binary_search_by_key(&node, |row| row.node).ok();
    let node = |row: &super::value::NodeRow| ExportedNode {
        site: row.node.site().map_or_else(String::new, &name),
        context: row.node.context().events().map(super::context::Comm::name).collect(),
        count: row.count,
    };
    let edge =
        |row: &super::value::EdgeRow| ExportedEdge { from: index(row.from), to: index(row.to), count: row.count };
    Exported {
        kind: graph.kind(),
        runs: graph.runs(),
        nodes: graph.nodes().iter().map(node).collect(),
        edges: graph.edges().iter().map(edge).collect(),
    }
}

/// The graph in Graphviz's language; `name` says what a site is called.
pub fn dot(graph: &Graph, name: impl Fn(Site) -> String) -> String {
    let mut out = String::from("digraph communication {\n  node [shape=box, fontname=\"monospace\"];\n");
    let id = |node: Node| match node.site() {
        Some(_) => format!("n{:x}", node.bits()),
        None => "nobody".to_owned(),
    };
    if graph.edges().iter().any(|row| row.from == Node::NOBODY) {
        out.push_str("  nobody [shape=plaintext];\n");
    }
    for row in graph.nodes() {
        let site = row.node.site().map_or_else(String::new, &name).replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(out, "  {} [label=\"{site}\\n{}\"];", id(row.node), row.node.context());
    }
    for row in graph.edges() {
        let _ = writeln!(out, "  {} -> {} [label=\"{}\"];", id(row.from), id(row.to), row.count.runs);
    }
    out.push_str("}\n");
    out
}
