//! Graphs on disk: small enough to be shipped with a program (the paper: below 1 MB).
//!
//! ```text
//! SELVGRPH             8 bytes
//! version, context depth, granularity, rules, runs
//! images               their number; for each the length and bytes of its build-id
//! nodes                their number; for each how far its number is above the last one's, and its count
//! edges                their number; for each how far its first node's index is above the last edge's, its second node's
//!                      index (above the last one's where the first is the same), and its count
//! checksum             8 bytes, of all before
//! ```
//!
//! Numbers are in groups of seven bits, lowest first, with the top bit set on all but the last. A count is runs, times and
//! first. Node index 0 is nobody.

use rustc_hash::FxHashMap;
use selvedge_events::bytes::checksum;

use super::context::Depth;
use super::value::{Count, EdgeRow, Granularity, Graph, Kind, Node, NodeRow, Rules};

const MAGIC: [u8; 8] = *b"SELVGRPH";

/// Version of the form.
///
/// 1: first.
pub const VERSION: u64 = 1;

/// Why bytes are no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadGraphError {
    /// It begins otherwise.
    #[error("this is no graph: collect one with `selvedge rank --save FILE`")]
    NotAGraph,
    /// A later version wrote it.
    #[error("the graph is of version {found}, this selvedge reads {VERSION}: collect it anew")]
    Version {
        /// Its version.
        found: u64,
    },
    /// It is cut or changed.
    #[error("the graph is damaged")]
    Damaged,
}

/// The file's contents.
pub fn to_bytes(graph: &Graph) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let kind = graph.kind;
    let (granularity, rules) = (granularity_code(kind.granularity), rules_code(kind.rules));
    for number in [VERSION, u64::from(kind.depth.events()), granularity, rules, u64::from(graph.runs)] {
        put(&mut out, number);
    }
    put(&mut out, graph.images.len() as u64);
    for image in &graph.images {
        put(&mut out, image.len() as u64);
        out.extend_from_slice(image);
    }
    put(&mut out, graph.nodes.len() as u64);
    let mut last = 0;
    for row in &graph.nodes {
        put(&mut out, row.node.bits() - last);
        last = row.node.bits();
        put_count(&mut out, row.count);
    }
    put(&mut out, graph.edges.len() as u64);
    let numbers: FxHashMap<Node, u64> = graph.nodes.iter().map(|row| row.node).zip(1..).collect();
    let index = |node: Node| numbers.get(&node).copied().unwrap_or(0);
    let (mut from, mut to) = (0, 0);
    for row in &graph.edges {
        let ends = (index(row.from), index(row.to));
        put(&mut out, ends.0 - from);
        put(&mut out, if ends.0 == from { ends.1 - to } else { ends.1 });
        (from, to) = ends;
        put_count(&mut out, row.count);
    }
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a graph.
pub fn from_bytes(bytes: &[u8]) -> Result<Graph, ReadGraphError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(ReadGraphError::NotAGraph)?;
    let version = Bytes(rest).number().ok_or(ReadGraphError::Damaged)?;
    if version != VERSION {
        return Err(ReadGraphError::Version { found: version });
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(ReadGraphError::Damaged)?;
    if checksum(body) != u64::from_le_bytes(*sum) {
        return Err(ReadGraphError::Damaged);
    }
    body.get(MAGIC.len()..).and_then(|body| read(Bytes(body))).ok_or(ReadGraphError::Damaged)
}

fn read(mut bytes: Bytes<'_>) -> Option<Graph> {
    let _version = bytes.number()?;
    let depth = Depth::new(u8::try_from(bytes.number()?).ok()?)?;
    let codes = (bytes.number()?, bytes.number()?);
    let granularity = [Granularity::Word, Granularity::Line].into_iter().find(|g| granularity_code(*g) == codes.0)?;
    let rules =
        [Rules::Paper, Rules::Coherent, Rules::Mesi, Rules::Live].into_iter().find(|r| rules_code(*r) == codes.1)?;
    let runs = u32::try_from(bytes.number()?).ok()?;
    let mut graph = Graph { kind: Kind { depth, granularity, rules }, runs, ..Graph::default() };
    for _ in 0..bytes.length()?.min(Node::MOST_IMAGES) {
        let len = bytes.length()?;
        graph.images.push(bytes.take(len)?.to_vec());
    }
    graph.images.is_sorted_by(|a, b| a < b).then_some(())?;
    let nodes = bytes.length()?;
    graph.nodes.reserve(nodes);
    let mut last: u64 = 0;
    for _ in 0..nodes {
        let step = bytes.number().filter(|step| *step > 0)?;
        last = last.checked_add(step)?;
        let node = Node::from_bits(last, graph.images.len())?;
        graph.nodes.push(NodeRow { node, count: bytes.count()? });
    }
    let edges = bytes.length()?;
    graph.edges.reserve(edges);
    let (mut from, mut to): (u64, u64) = (0, 0);
    for _ in 0..edges {
        let step = bytes.number()?;
        let other = bytes.number()?;
        if step == 0 {
            // Edges ascend.
            (other > 0).then_some(())?;
            to = to.checked_add(other)?;
        } else {
            from = from.checked_add(step)?;
            to = other;
        }
        let node = |index: u64| match index.checked_sub(1) {
            Some(at) => graph.nodes.get(usize::try_from(at).ok()?).map(|row| row.node),
            None => Some(Node::NOBODY),
        };
        let (from, to) = (node(from)?, node(to).filter(|to| *to != Node::NOBODY)?);
        let count = bytes.count()?;
        graph.edges.push(EdgeRow { from, to, count });
    }
    bytes.0.is_empty().then_some(graph)
}

const fn granularity_code(granularity: Granularity) -> u64 {
    match granularity {
        Granularity::Word => 0,
        Granularity::Line => 1,
    }
}

const fn rules_code(rules: Rules) -> u64 {
    match rules {
        Rules::Paper => 0,
        Rules::Coherent => 1,
        Rules::Mesi => 2,
        Rules::Live => 3,
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_count(out: &mut Vec<u8>, count: Count) {
    put(out, u64::from(count.runs));
    put(out, count.times);
    put(out, count.first);
}

/// What is left of the bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            let part = u64::from(byte & 0x7f);
            number |= (part << shift >> shift == part).then_some(part << shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of things that take a byte at least, so that there cannot be more than bytes.
    fn length(&mut self) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= self.0.len()).then_some(length)
    }

    fn count(&mut self) -> Option<Count> {
        Some(Count { runs: u32::try_from(self.number()?).ok()?, times: self.number()?, first: self.number()? })
    }
}
