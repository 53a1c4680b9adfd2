//! A communication graph as a value: nodes and edges in order, each with how often it was seen.
//!
//! A node is a site and the context in which it ran; an edge says that what the first node wrote (or read) met what the
//! second did. Graphs of runs add up ([`Graph::union`]), and what one has beyond another is a graph again
//! ([`Graph::difference`]). Both are one pass over sorted rows, so the sum does not depend on the order of runs.
//!
//! Sites are (build-id, offset): graphs of different builds can be added, but say nothing about each other.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use super::context::{Context, Depth};

/// An image of a graph: its build-id.
pub type BuildId = Vec<u8>;

/// A place in the code of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Site {
    /// Which of [`Graph::images`].
    pub image: u16,
    /// From its load base.
    pub offset: u32,
}

/// A site in a context, or [`Node::NOBODY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u64);

impl Node {
    /// What no thread has written since the program began: the source of reads that nobody came before.
    pub const NOBODY: Node = Node(0);

    const IMAGE_BITS: u32 = 64 - 32 - CONTEXT_BITS;

    /// Most images of a graph.
    pub const MOST_IMAGES: usize = 1 << Node::IMAGE_BITS;

    /// A site in a context.
    pub fn new(site: Site, context: Context) -> Node {
        let image = u64::from(site.image) << (32 + CONTEXT_BITS);
        Node(image | u64::from(site.offset) << CONTEXT_BITS | u64::from(context.bits()))
    }

    /// The site; `None` for [`Node::NOBODY`].
    pub fn site(self) -> Option<Site> {
        if self == Node::NOBODY {
            return None;
        }
        let image = (self.0 >> (32 + CONTEXT_BITS)) as u16;
        Some(Site { image, offset: (self.0 >> CONTEXT_BITS) as u32 })
    }

    /// The context; empty for [`Node::NOBODY`].
    pub fn context(self) -> Context {
        Context::from_bits((self.0 & ((1 << CONTEXT_BITS) - 1)) as u32).unwrap_or(Context::EMPTY)
    }

    /// As a number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Node::bits`], for a graph of so many images.
    pub fn from_bits(bits: u64, images: usize) -> Option<Node> {
        let node = Node(bits);
        let is_whole = Context::from_bits((bits & ((1 << CONTEXT_BITS) - 1)) as u32).is_some();
        let is_known = node.site().is_some_and(|site| usize::from(site.image) < images);
        (node == Node::NOBODY || (is_whole && is_known)).then_some(node)
    }

    fn moved(self, image: u16) -> Node {
        match self.site() {
            Some(site) => Node::new(Site { image, ..site }, self.context()),
            None => self,
        }
    }
}

const CONTEXT_BITS: u32 = 20;
const _: () = assert!(CONTEXT_BITS >= Context::BITS);

/// How often something was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// In how many runs.
    pub runs: u32,
    /// How many times, in all runs.
    pub times: u64,
    /// When for the first time, as the number of an access of its run; the sum over these runs.
    pub first: u64,
}

impl Count {
    /// When it is first seen, in the mean.
    pub fn mean_first(&self) -> f64 {
        self.first as f64 / f64::from(self.runs.max(1))
    }

    fn plus(self, other: Count) -> Count {
        Count {
            runs: self.runs.saturating_add(other.runs),
            times: self.times.saturating_add(other.times),
            first: self.first.saturating_add(other.first),
        }
    }

    /// Of one run: seen again, or seen for the first time.
    fn again(&mut self, when: u64) {
        if self.runs == 0 {
            *self = Count { runs: 1, times: 0, first: when };
        }
        self.times += 1;
        self.first = self.first.min(when);
    }
}

/// A node with its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The node.
    pub node: Node,
    /// How often an edge began or ended there.
    pub count: Count,
}

/// An edge with its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeRow {
    /// Who came first.
    pub from: Node,
    /// Who came after, in another thread.
    pub to: Node,
    /// How often.
    pub count: Count,
}

impl EdgeRow {
    /// Both ends: what tells edges apart.
    pub const fn key(&self) -> (Node, Node) {
        (self.from, self.to)
    }
}

/// How wide the memory is that counts as one location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// Four bytes: two `int`s side by side are two variables.
    #[default]
    Word,
    /// Sixty-four bytes, as caches have it.
    Line,
}

impl Granularity {
    /// Bits of an address below the location's number.
    pub const fn shift(self) -> u32 {
        match self {
            Granularity::Word => 2,
            Granularity::Line => 6,
        }
    }

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::Word => "word",
            Granularity::Line => "line",
        }
    }
}

/// How a graph was collected; only graphs of one kind add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// Events of a context.
    pub depth: Depth,
    /// The width of a location.
    pub granularity: Granularity,
    /// What counts as communication.
    pub rules: Rules,
}

/// What counts as communication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// As the paper's software does it (section 4.1): every access to what another thread wrote last.
    Paper,
    /// As caches without limits would do it: see [`super::software`].
    #[default]
    Coherent,
    /// As the paper's hardware does it (section 4.2): see [`super::mesi`].
    Mesi,
    /// As the runtime does it while the program runs: see [`super::live`].
    Live,
}

impl Rules {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Rules::Paper => "paper",
            Rules::Coherent => "coherent",
            Rules::Mesi => "mesi",
            Rules::Live => "live",
        }
    }
}

/// Two graphs were not collected alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graphs were not collected alike: context, granularity or collector differ, or they have too many images")]
pub struct UnlikeError;

/// A communication graph. Rows ascend and are unique; every end of an edge but [`Node::NOBODY`] is a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    pub(super) kind: Kind,
    pub(super) images: Vec<BuildId>,
    pub(super) runs: u32,
    pub(super) nodes: Vec<NodeRow>,
    pub(super) edges: Vec<EdgeRow>,
}

/// How large a graph is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Edges.
    pub edges: usize,
    /// Sites, whatever the context.
    pub sites: usize,
    /// Pairs of sites, whatever the context.
    pub site_pairs: usize,
}

impl Graph {
    /// A graph of nothing: adding it changes nothing.
    pub fn empty(kind: Kind) -> Graph {
        Graph { kind, ..Graph::default() }
    }

    /// How it was collected.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The images that its sites are in, ascending.
    pub fn images(&self) -> &[BuildId] {
        &self.images
    }

    /// How many runs it is of.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Its nodes, ascending.
    pub fn nodes(&self) -> &[NodeRow] {
        &self.nodes
    }

    /// Its edges, ascending.
    pub fn edges(&self) -> &[EdgeRow] {
        &self.edges
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        let mut sites: Vec<Site> = self.nodes.iter().filter_map(|row| row.node.site()).collect();
        sites.dedup();
        let mut pairs: Vec<(Option<Site>, Option<Site>)> =
            self.edges.iter().map(|row| (row.from.site(), row.to.site())).collect();
        pairs.sort_unstable();
        pairs.dedup();
        Size { nodes: self.nodes.len(), edges: self.edges.len(), sites: sites.len(), site_pairs: pairs.len() }
    }

    /// Whether it has this edge.
    pub fn has(&self, from: Node, to: Node) -> bool {
        self.edges.binary_search_by_key(&(from, to), EdgeRow::key).is_ok()
    }

    /// Whether it has an edge between these sites, in whatever contexts; `None` is nobody.
    pub fn has_sites(&self, from: Option<Site>, to: Option<Site>) -> bool {
        self.met_by(from).any(|met| met == to)
    }

    /// The sites that edges of this one lead to, one for each edge; `None` is nobody.
    pub(super) fn met_by(&self, from: Option<Site>) -> impl Iterator<Item = Option<Site>> + '_ {
        let begin = self.edges.partition_point(|row| row.from.site() < from);
        let rest = self.edges.get(begin..).unwrap_or_default();
        rest.iter().take_while(move |row| row.from.site() == from).map(|row| row.to.site())
    }

    /// The count of a node; nothing for one that it does not have.
    pub fn node(&self, node: Node) -> Count {
        let found = self.nodes.binary_search_by_key(&node, |row| row.node).ok();
        found.and_then(|at| self.nodes.get(at)).map_or_else(Count::default, |row| row.count)
    }

    /// The count of an edge; nothing for one that it does not have.
    pub fn edge(&self, from: Node, to: Node) -> Count {
        let found = self.edges.binary_search_by_key(&(from, to), EdgeRow::key).ok();
        found.and_then(|at| self.edges.get(at)).map_or_else(Count::default, |row| row.count)
    }

    /// The sum of two graphs: what either has, with the counts of both.
    pub fn union(&self, other: &Graph) -> Result<Graph, UnlikeError> {
        let (mine, theirs, images) = self.aligned(other)?;
        Ok(Graph {
            kind: self.kind,
            images,
            runs: self.runs.saturating_add(other.runs),
            nodes: merged(
                &mine.nodes,
                &theirs.nodes,
                |row| row.node,
                |row, other| NodeRow { count: row.count.plus(other.count), ..row },
            ),
            edges: merged(&mine.edges, &theirs.edges, EdgeRow::key, |row, other| EdgeRow {
                count: row.count.plus(other.count),
                ..row
            }),
        })
    }

    /// The sum of many graphs, two by two, so that no row is copied more often than the logarithm of their number.
    pub fn sum<'a>(graphs: impl IntoIterator<Item = &'a Graph>, kind: Kind) -> Result<Graph, UnlikeError> {
        Graph::summed(graphs, kind).map(Cow::into_owned)
    }

    /// The sum of many graphs; one alone is its own sum.
    pub(super) fn summed<'a>(
        graphs: impl IntoIterator<Item = &'a Graph>,
        kind: Kind,
    ) -> Result<Cow<'a, Graph>, UnlikeError> {
        // Slot n has the sum of 2^n graphs.
        let mut slots: Vec<Option<Cow<'a, Graph>>> = Vec::new();
        for graph in graphs {
            let mut carry = Cow::Borrowed(graph);
            let mut at = 0;
            loop {
                match slots.get_mut(at) {
                    Some(slot) => match slot.take() {
                        Some(known) => carry = Cow::Owned(known.union(&carry)?),
                        None => {
                            *slot = Some(carry);
                            break;
                        }
                    },
                    None => {
                        slots.push(Some(carry));
                        break;
                    }
                }
                at += 1;
            }
        }
        let mut sums = slots.into_iter().flatten();
        let Some(first) = sums.next() else { return Ok(Cow::Owned(Graph::empty(kind))) };
        if first.kind != kind {
            return Err(UnlikeError);
        }
        sums.try_fold(first, |sum, graph| sum.union(&graph).map(Cow::Owned))
    }

    /// What it has beyond another: the edges that the other lacks, with their counts here, and the nodes that they meet.
    pub fn difference(&self, other: &Graph) -> Result<Graph, UnlikeError> {
        let (mine, theirs, images) = self.aligned(other)?;
        let mut others = theirs.edges.iter().map(EdgeRow::key).peekable();
        let is_new = |row: &&EdgeRow| {
            while others.next_if(|key| *key < row.key()).is_some() {}
            others.peek() != Some(&row.key())
        };
        let edges: Vec<EdgeRow> = mine.edges.iter().filter(is_new).copied().collect();
        let mut ends: Vec<Node> = edges.iter().flat_map(|row| [row.from, row.to]).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut ends = ends.into_iter().peekable();
        let is_met = |row: &&NodeRow| {
            while ends.next_if(|node| *node < row.node).is_some() {}
            ends.peek() == Some(&row.node)
        };
        let nodes = mine.nodes.iter().filter(is_met).copied().collect();
        Ok(Graph { kind: self.kind, images, runs: self.runs, nodes, edges })
    }

    /// Both with the numbers of one list of images.
    fn aligned<'a>(&'a self, other: &'a Graph) -> Result<Aligned<'a>, UnlikeError> {
        use Cow::Borrowed;
        if self.kind != other.kind {
            return Err(UnlikeError);
        }
        if self.images == other.images {
            return Ok((Borrowed(self), Borrowed(other), self.images.clone()));
        }
        let images = self.all_images(other)?;
        Ok((self.with_images(&images), other.with_images(&images), images))
    }

    /// The images of both.
    pub(super) fn all_images(&self, other: &Graph) -> Result<Vec<BuildId>, UnlikeError> {
        let mut images: Vec<BuildId> = self.images.iter().chain(&other.images).cloned().collect();
        images.sort_unstable();
        images.dedup();
        if images.len() > Node::MOST_IMAGES { Err(UnlikeError) } else { Ok(images) }
    }

    /// With the numbers of a longer list of images. The order stays, because both lists ascend.
    pub(super) fn with_images(&self, images: &[BuildId]) -> Cow<'_, Graph> {
        let number = |image: &BuildId| images.binary_search(image).ok().and_then(|at| u16::try_from(at).ok());
        let numbers: Vec<u16> = self.images.iter().filter_map(number).collect();
        if numbers.iter().enumerate().all(|(at, number)| usize::from(*number) == at) {
            return Cow::Borrowed(self);
        }
        let moved = |node: Node| {
            let image = node.site().and_then(|site| numbers.get(usize::from(site.image))).copied();
            image.map_or(node, |image| node.moved(image))
        };
        let node = |row: &NodeRow| NodeRow { node: moved(row.node), ..*row };
        let edge = |row: &EdgeRow| EdgeRow { from: moved(row.from), to: moved(row.to), ..*row };
        Cow::Owned(Graph {
            kind: self.kind,
            images: images.to_vec(),
            runs: self.runs,
            nodes: self.nodes.iter().map(node).collect(),
            edges: self.edges.iter().map(edge).collect(),
        })
    }
}

/// Two graphs, and the images that the numbers of both are of.
type Aligned<'a> = (Cow<'a, Graph>, Cow<'a, Graph>, Vec<BuildId>);

/// Two ascending lists as one; rows with the same key are joined.
fn merged<T: Copy, K: Ord>(left: &[T], right: &[T], key: impl Fn(&T) -> K, join: impl Fn(T, T) -> T) -> Vec<T> {
    let mut rows = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => key(a).cmp(&key(b)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return rows,
        };
        match order {
            Ordering::Less => rows.extend(left.next()),
            Ordering::Greater => rows.extend(right.next()),
            Ordering::Equal => rows.extend(left.next().zip(right.next()).map(|(a, b)| join(*a, *b))),
        }
    }
}

/// How much each run added: the share of the sum so far that was new with it (Figure 7 of the paper).
pub fn convergence(runs: &[Graph]) -> Result<Vec<f64>, UnlikeError> {
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    let mut sum = Graph::empty(first.kind);
    let mut shares = Vec::new();
    for run in runs {
        let before = sum.edges.len();
        sum = sum.union(run)?;
        let new = sum.edges.len() - before;
        // The first run has no earlier ones to be held against: all of it is new.
        shares.push(if before == 0 { 1.0 } else { new as f64 / before as f64 });
    }
    Ok(shares)
}

/// The graph of one run while it is collected.
#[derive(Debug, Default)]
pub(super) struct Growing {
    images: Vec<BuildId>,
    nodes: BTreeMap<Node, Count>,
    edges: rustc_hash::FxHashMap<(Node, Node), Count>,
}

impl Growing {
    /// Nothing yet; sites are in these images.
    pub(super) fn new(images: Vec<BuildId>) -> Growing {
        Growing { images, ..Growing::default() }
    }

    /// What `from` did at one time met what `to` did at another.
    pub(super) fn edge(&mut self, (from, began): (Node, u64), (to, ended): (Node, u64)) {
        self.edges.entry((from, to)).or_default().again(ended);
        if from != Node::NOBODY {
            self.nodes.entry(from).or_default().again(began);
        }
        self.nodes.entry(to).or_default().again(ended);
    }

    /// An edge that was met so many times, first at one time that is all that is known of its ends.
    pub(super) fn edges_of_one_kind(&mut self, (from, to): (Node, Node), times: u64, when: u64) {
        self.edge((from, when), (to, when));
        let more = |count: &mut Count| count.times = count.times.saturating_add(times.saturating_sub(1));
        if let Some(count) = self.edges.get_mut(&(from, to)) {
            more(count);
        }
        for node in [from, to] {
            if let Some(count) = self.nodes.get_mut(&node) {
                more(count);
            }
        }
    }

    /// Edges so far.
    pub(super) fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The graph of a run.
    pub(super) fn finish(self, kind: Kind) -> Graph {
        let mut images = self.images.clone();
        images.sort_unstable();
        images.dedup();
        let number = |image: u16| {
            let id = self.images.get(usize::from(image));
            id.and_then(|id| images.binary_search(id).ok()).and_then(|at| u16::try_from(at).ok()).unwrap_or(image)
        };
        let moved = |node: Node| node.site().map_or(node, |site| node.moved(number(site.image)));
        let mut nodes: Vec<NodeRow> =
            self.nodes.iter().map(|(node, count)| NodeRow { node: moved(*node), count: *count }).collect();
        let edge = |((from, to), count): (&(Node, Node), &Count)| EdgeRow {
            from: moved(*from),
            to: moved(*to),
            count: *count,
        };
        let mut edges: Vec<EdgeRow> = self.edges.iter().map(edge).collect();
        nodes.sort_unstable_by_key(|row| row.node);
        edges.sort_unstable_by_key(EdgeRow::key);
        Graph { kind, images, runs: 1, nodes, edges }
    }
}
