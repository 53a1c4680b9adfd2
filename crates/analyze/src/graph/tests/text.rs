//! Runs written as text: `T1 w str 10; T2 r str 20` is a thread, what it does, to which variable, at which line.
//!
//! A variable is eight bytes; names that begin alike up to a dot lie in one line of a cache.

use std::collections::BTreeMap;

use crate::graph::{Access, Graph, Kind, Node, Site, Software, Steps, Touch, collect::Step};

/// The steps of a text.
pub(super) fn steps(text: &str) -> Steps {
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    let mut steps = Steps { images: vec![vec![0xab]], steps: Vec::new() };
    for step in text.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let words: Vec<&str> = step.split_whitespace().collect();
        let [thread, op, variable, line] = words[..] else { panic!("`{step}` is no step") };
        let group = variable.split('.').next().unwrap_or(variable);
        let next = 0x1000 + 64 * lines.len() as u64;
        let base = *lines.entry(group).or_insert(next);
        let members = places.keys().filter(|name| name.split('.').next() == Some(group)).count() as u64;
        let addr = *places.entry(variable).or_insert(base + 8 * members);
        steps.steps.push(Step::Access(Access {
            thread: thread[1..].parse().expect("a thread"),
            site: Site { image: 0, offset: line.parse().expect("a line") },
            addr,
            size: 8,
            touch: if op == "r" { Touch::Read } else { Touch::Write },
        }));
    }
    steps
}

/// The graph of a text.
pub(super) fn graph(text: &str, kind: Kind) -> Graph {
    let steps = steps(text);
    let mut software = Software::new(kind, steps.images.clone());
    for step in &steps.steps {
        let Step::Access(access) = step else { continue };
        software.access(access);
    }
    software.finish()
}

/// `10[RmRd]`: a line and its context.
pub(super) fn node(node: Node) -> String {
    match node.site() {
        Some(site) => format!("{}[{}]", site.offset, node.context()),
        None => "nobody".to_owned(),
    }
}

/// All edges of a graph as text.
pub(super) fn edges(graph: &Graph) -> Vec<String> {
    let edge = |row: &crate::graph::EdgeRow| format!("{} > {}", node(row.from), node(row.to));
    graph.edges().iter().map(edge).collect()
}
