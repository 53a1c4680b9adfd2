//! Graphs on disk: small enough to be shipped with a program (the paper: below 1 MB).
//!
//! ```text
//! SELVGRPH             8 bytes
//! version, context depth, granularity, rules, runs
//! images               their number; for each the length and bytes of its build-id
//! sites, edges         their numbers
//! sites                for each how far it is above the last one, how many contexts it has, and how far each is above the last
//! edges                of nobody, then of each site: how many sites they lead to and how far each is above the last;
//!                      then for each context of the site how many edges, and for each of them how many of these sites
//!                      further it leads, how many of that site's contexts further, and its count
//! nodes                for each the count, as it differs from what its edges have
//! checksum             8 bytes, of all before
//! ```
//!
//! Numbers up to the number of edges are in groups of seven bits, lowest first, with the top bit set on all but the last;
//! from the sites on they are by `coder`, each sort of number a column of its own. A count is runs, times and first. An edge's ends
//! take about a byte: a site has few partners, and each of them few contexts. What a node's edges have is the most
//! runs of one, the sum of times, and the least first: in a graph of one run nodes cost next to nothing.

use rustc_hash::FxHashMap;
use selvedge_events::bytes::checksum;

use super::coder::{Column, Decoder, Encoder};
use super::context::{Context, Depth};
use super::value::{Count, EdgeRow, Granularity, Graph, Kind, Node, NodeRow, Rules, Site};

const MAGIC: [u8; 8] = *b"SELVGRPH";

/// Version of the form.
///
/// 1: first; still read. 2: by column, arithmetic coding.
pub const VERSION: u64 = 2;

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
    let sites = graph.nodes.chunk_by(|a, b| a.node.site() == b.node.site());
    put(&mut out, sites.count() as u64);
    put(&mut out, graph.edges.len() as u64);
    out.extend(coded(graph));
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a graph.
pub fn from_bytes(bytes: &[u8]) -> Result<Graph, ReadGraphError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(ReadGraphError::NotAGraph)?;
    let version = Bytes(rest).number().ok_or(ReadGraphError::Damaged)?;
    if !(1..=VERSION).contains(&version) {
        return Err(ReadGraphError::Version { found: version });
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(ReadGraphError::Damaged)?;
    if checksum(body) != u64::from_le_bytes(*sum) {
        return Err(ReadGraphError::Damaged);
    }
    body.get(MAGIC.len()..).and_then(|body| read(Bytes(body))).ok_or(ReadGraphError::Damaged)
}

fn read(mut bytes: Bytes<'_>) -> Option<Graph> {
    let version = bytes.number()?;
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
    if version == 1 {
        return read_first_version(graph, bytes);
    }
    let (sites, edges) = (bytes.number()?, bytes.number()?);
    decoded(graph, sites, edges, bytes.0)
}

/// The columns of the coded part.
#[derive(Default)]
struct Columns {
    site: Column,
    contexts: Column,
    context: Column,
    partners: Column,
    partner: Column,
    degree: Column,
    further: Column,
    to: Column,
    edge: CountColumns,
    node: CountColumns,
}

/// Those of a count.
#[derive(Default)]
struct CountColumns {
    runs: Column,
    times: Column,
    first: Column,
}

/// A site as a number that ascends as nodes do.
fn site_number(site: Site) -> u64 {
    u64::from(site.image) << 32 | u64::from(site.offset)
}

/// What the edges of each node have together, by the node's number.
struct Met(Vec<Count>);

impl Met {
    fn of(nodes: usize) -> Met {
        Met(vec![Count { runs: 0, times: 0, first: u64::MAX }; nodes])
    }

    fn add(&mut self, node: usize, edge: Count) {
        if let Some(met) = self.0.get_mut(node) {
            met.runs = met.runs.max(edge.runs);
            met.times = met.times.wrapping_add(edge.times);
            met.first = met.first.min(edge.first);
        }
    }
}

/// A difference either way, small where it is small.
const fn zigzag(from: u64, to: u64) -> u64 {
    let by = to.wrapping_sub(from);
    by << 1 ^ (0_u64.wrapping_sub(by >> 63))
}

const fn unzigzag(from: u64, by: u64) -> u64 {
    from.wrapping_add(by >> 1 ^ (0_u64.wrapping_sub(by & 1)))
}

fn coded(graph: &Graph) -> Vec<u8> {
    let (mut out, mut columns) = (Encoder::new(), Columns::default());
    // For each node its site's number, and which of the site's contexts it has.
    let mut places: FxHashMap<Node, (u64, u64, usize)> = FxHashMap::default();
    places.reserve(graph.nodes.len());
    let sites: Vec<&[NodeRow]> = graph.nodes.chunk_by(|a, b| a.node.site() == b.node.site()).collect();
    let mut last = 0;
    let mut at = 0;
    for (number, site) in (0..).zip(&sites) {
        let here = site.first().and_then(|row| row.node.site()).map_or(0, site_number);
        out.number(&mut columns.site, here - last);
        last = here;
        out.number(&mut columns.contexts, site.len() as u64);
        let mut bits = 0;
        for (context, row) in (0..).zip(*site) {
            let now = row.node.context().bits();
            out.number(&mut columns.context, u64::from(now - bits));
            bits = now;
            places.insert(row.node, (number, context, at));
            at += 1;
        }
    }
    let place = |node: Node| places.get(&node).copied();
    let mut met = Met::of(graph.nodes.len());
    let mut edges = graph.edges.as_slice();
    let nobody = [NodeRow { node: Node::NOBODY, count: Count::default() }];
    for site in [&nobody[..]].into_iter().chain(sites) {
        let from = site.first().and_then(|row| row.node.site());
        let (own, rest) = edges.split_at(edges.partition_point(|row| row.from.site() <= from));
        edges = rest;
        let mut partners: Vec<u64> = own.iter().filter_map(|row| place(row.to)).map(|(site, ..)| site).collect();
        partners.sort_unstable();
        partners.dedup();
        out.number(&mut columns.partners, partners.len() as u64);
        let mut last = 0;
        for partner in &partners {
            out.number(&mut columns.partner, partner - last);
            last = *partner;
        }
        let mut own = own;
        for row in site {
            let (here, rest) = own.split_at(own.partition_point(|edge| edge.from <= row.node));
            own = rest;
            out.number(&mut columns.degree, here.len() as u64);
            let mut last = (0, 0);
            for edge in here {
                let Some((site, context, at)) = place(edge.to) else { continue };
                let partner = partners.binary_search(&site).unwrap_or_default() as u64;
                let begin = if partner == last.0 { last.1 } else { 0 };
                out.number(&mut columns.further, partner - last.0);
                out.number(&mut columns.to, context - begin);
                last = (partner, context + 1);
                out.number(&mut columns.edge.runs, u64::from(edge.count.runs));
                out.number(&mut columns.edge.times, edge.count.times);
                out.number(&mut columns.edge.first, edge.count.first);
                met.add(at, edge.count);
                if let Some((.., from)) = place(row.node) {
                    met.add(from, edge.count);
                }
            }
        }
    }
    for (row, met) in graph.nodes.iter().zip(met.0) {
        out.number(&mut columns.node.runs, zigzag(u64::from(met.runs), u64::from(row.count.runs)));
        out.number(&mut columns.node.times, zigzag(met.times, row.count.times));
        out.number(&mut columns.node.first, zigzag(met.first, row.count.first));
    }
    out.finish()
}

fn decoded(mut graph: Graph, sites: u64, edges: u64, bytes: &[u8]) -> Option<Graph> {
    let (mut bytes, mut columns) = (Decoder::new(bytes)?, Columns::default());
    // Where the nodes of each site are.
    let mut places: Vec<std::ops::Range<usize>> = Vec::new();
    let mut last: u64 = 0;
    for number in 0..sites {
        let step = bytes.number(&mut columns.site)?;
        (number == 0 || step > 0).then_some(())?;
        last = last.checked_add(step)?;
        let image = u16::try_from(last >> 32).ok().filter(|image| usize::from(*image) < graph.images.len())?;
        let site = Site { image, offset: (last & 0xffff_ffff) as u32 };
        let begin = graph.nodes.len();
        let mut bits: u32 = 0;
        for _ in 0..bytes.number(&mut columns.contexts)? {
            let step = u32::try_from(bytes.number(&mut columns.context)?).ok().filter(|step| *step > 0)?;
            bits = bits.checked_add(step)?;
            graph.nodes.push(NodeRow { node: Node::new(site, Context::from_bits(bits)?), count: Count::default() });
        }
        (graph.nodes.len() > begin).then_some(())?;
        places.push(begin..graph.nodes.len());
    }
    let mut met = Met::of(graph.nodes.len());
    let mut partners: Vec<&std::ops::Range<usize>> = Vec::new();
    // The site of nobody has one node, past all others.
    let nobody = graph.nodes.len()..graph.nodes.len() + 1;
    for site in [&nobody].into_iter().chain(&places) {
        partners.clear();
        let mut last: u64 = 0;
        for number in 0..bytes.number(&mut columns.partners)? {
            let step = bytes.number(&mut columns.partner)?;
            (number == 0 || step > 0).then_some(())?;
            last = last.checked_add(step)?;
            partners.push(places.get(usize::try_from(last).ok()?)?);
        }
        for at in site.clone() {
            let from = graph.nodes.get(at).map_or(Node::NOBODY, |row| row.node);
            let (mut partner, mut next): (u64, u64) = (0, 0);
            for _ in 0..bytes.number(&mut columns.degree)? {
                let further = bytes.number(&mut columns.further)?;
                if further > 0 {
                    partner = partner.checked_add(further)?;
                    next = 0;
                }
                let context = next.checked_add(bytes.number(&mut columns.to)?)?;
                next = context.checked_add(1)?;
                let place = *partners.get(usize::try_from(partner).ok()?)?;
                let to = place.start.checked_add(usize::try_from(context).ok()?).filter(|to| place.contains(to))?;
                let count = Count {
                    runs: u32::try_from(bytes.number(&mut columns.edge.runs)?).ok()?,
                    times: bytes.number(&mut columns.edge.times)?,
                    first: bytes.number(&mut columns.edge.first)?,
                };
                graph.edges.push(EdgeRow { from, to: graph.nodes.get(to)?.node, count });
                met.add(to, count);
                met.add(at, count);
            }
        }
    }
    for (row, met) in graph.nodes.iter_mut().zip(met.0) {
        let runs = unzigzag(u64::from(met.runs), bytes.number(&mut columns.node.runs)?);
        row.count = Count {
            runs: u32::try_from(runs).ok()?,
            times: unzigzag(met.times, bytes.number(&mut columns.node.times)?),
            first: unzigzag(met.first, bytes.number(&mut columns.node.first)?),
        };
    }
    (bytes.is_empty() && graph.edges.len() as u64 == edges).then_some(graph)
}

/// What follows the images in version 1.
fn read_first_version(mut graph: Graph, mut bytes: Bytes<'_>) -> Option<Graph> {
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
