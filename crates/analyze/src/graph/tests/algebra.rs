//! Sums, differences and files of random runs, against plain definitions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::graph::collect::Step;
use crate::graph::file::{from_bytes, to_bytes};
use crate::graph::{
    Access, Comm, Context, Count, Depth, EdgeRow, Granularity, Graph, Kind, Node, NodeRow, Rules, Site, Steps, Touch,
    convergence,
};

/// A run of three threads over four variables, in one of two builds.
fn runs() -> impl Strategy<Value = Steps> {
    let access = (0_u32..3, 0_u32..6, 0_u64..4, any::<bool>());
    (proptest::collection::vec(access, 0..40), 0_u8..2).prop_map(|(accesses, build)| {
        let step = |(thread, offset, variable, writes)| {
            Step::Access(Access {
                thread,
                site: Site { image: 0, offset },
                addr: 0x1000 + variable * 4,
                size: 4,
                touch: if writes { Touch::Write } else { Touch::Read },
            })
        };
        Steps { images: vec![vec![build]], steps: accesses.into_iter().map(step).collect() }
    })
}

fn kinds() -> impl Strategy<Value = Kind> {
    let rules = prop_oneof![Just(Rules::Paper), Just(Rules::Coherent)];
    let granularity = prop_oneof![Just(Granularity::Word), Just(Granularity::Line)];
    (0_u8..=8, granularity, rules).prop_map(|(depth, granularity, rules)| Kind {
        depth: Depth::new(depth).expect("small"),
        granularity,
        rules,
    })
}

/// Section 4.1 as it is written, with lists instead of tables.
fn plain(steps: &Steps, kind: Kind) -> BTreeSet<(Node, Node)> {
    let mut edges = BTreeSet::new();
    let mut contexts: BTreeMap<u32, Vec<Comm>> = BTreeMap::new();
    let mut writes: Vec<(u64, u32, Node)> = Vec::new();
    let node = |site, events: &[Comm]| {
        let context = events.iter().fold(Context::EMPTY, |context, event| context.push(*event, kind.depth));
        Node::new(site, context)
    };
    for step in &steps.steps {
        let Step::Access(access) = step else { continue };
        let location = access.addr >> kind.granularity.shift();
        let here = node(access.site, contexts.entry(access.thread).or_default());
        let last = writes.iter().rev().find(|(at, ..)| *at == location).copied();
        if let Some((_, thread, writer)) = last.filter(|(_, thread, _)| *thread != access.thread) {
            edges.insert((writer, here));
            let (local, remote) = match access.touch {
                Touch::Read => (Comm::LocalRead, Comm::RemoteRead),
                Touch::Write => (Comm::LocalWrite, Comm::RemoteWrite),
            };
            contexts.entry(access.thread).or_default().push(local);
            contexts.entry(thread).or_default().push(remote);
        }
        if access.touch == Touch::Write {
            writes.push((location, access.thread, here));
        }
    }
    edges
}

fn keys(graph: &Graph) -> BTreeSet<(Node, Node)> {
    graph.edges().iter().map(|row| row.key()).collect()
}

fn is_well_formed(graph: &Graph) -> bool {
    let ends: BTreeSet<Node> = graph.edges().iter().flat_map(|row| [row.from, row.to]).collect();
    let nodes: BTreeSet<Node> = graph.nodes().iter().map(|row| row.node).collect();
    graph.edges().is_sorted_by(|a, b| a.key() < b.key())
        && graph.nodes().is_sorted_by(|a, b| a.node < b.node)
        && ends.into_iter().filter(|node| *node != Node::NOBODY).collect::<BTreeSet<_>>() == nodes
}

proptest! {
    #[test]
    fn the_collector_does_what_section_4_1_says(steps in runs(), mut kind in kinds()) {
        kind.rules = Rules::Paper;
        let graph = steps.graph(kind);
        prop_assert!(is_well_formed(&graph));
        prop_assert_eq!(keys(&graph), plain(&steps, kind));
    }

    #[test]
    fn without_context_the_coherent_rules_only_add(steps in runs(), mut kind in kinds()) {
        kind.depth = Depth::NONE;
        kind.rules = Rules::Coherent;
        let coherent = steps.graph(kind);
        prop_assert!(is_well_formed(&coherent));
        kind.rules = Rules::Paper;
        prop_assert!(keys(&steps.graph(kind)).is_subset(&keys(&coherent)));
    }

    #[test]
    fn sums_do_not_depend_on_order_and_differences_leave_nothing_in_common(
        steps in proptest::collection::vec(runs(), 1..6), kind in kinds()
    ) {
        let graphs: Vec<Graph> = steps.iter().map(|steps| steps.graph(kind)).collect();
        let sum = Graph::sum(&graphs, kind).expect("alike");
        let reversed = Graph::sum(graphs.iter().rev(), kind).expect("alike");
        prop_assert_eq!(&sum, &reversed);
        let one_by_one = graphs.iter().try_fold(Graph::empty(kind), |sum, graph| sum.union(graph)).expect("alike");
        prop_assert_eq!(&sum, &one_by_one);
        prop_assert!(is_well_formed(&sum));
        prop_assert_eq!(sum.runs() as usize, graphs.len());
        for graph in &graphs {
            prop_assert!(graph.difference(&sum).expect("alike").edges().is_empty());
            let rest = sum.difference(graph).expect("alike");
            prop_assert!(is_well_formed(&rest));
            let again = rest.union(graph).expect("alike");
            prop_assert_eq!(keys(&again), keys(&sum));
            let aligned = graph.union(&Graph { images: sum.images().to_vec(), ..Graph::empty(kind) }).expect("alike");
            prop_assert!(keys(&rest).is_disjoint(&keys(&aligned)));
        }
    }

    #[test]
    fn files_round_trip_and_damage_is_seen(steps in proptest::collection::vec(runs(), 0..4), kind in kinds(), at: usize) {
        let graphs: Vec<Graph> = steps.iter().map(|steps| steps.graph(kind)).collect();
        let sum = Graph::sum(&graphs, kind).expect("alike");
        let bytes = to_bytes(&sum);
        prop_assert_eq!(from_bytes(&bytes), Ok(sum.clone()));
        // What one has beyond the others has nodes whose counts are not those of its edges.
        if let Some(first) = graphs.first() {
            let rest = sum.difference(first).expect("alike");
            prop_assert_eq!(from_bytes(&to_bytes(&rest)), Ok(rest));
        }
        let mut damaged = bytes.clone();
        let at = at % damaged.len();
        damaged[at] ^= 0x41;
        prop_assert!(from_bytes(&damaged).is_err());
        prop_assert!(from_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn strangers_bytes_are_refused_not_believed(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = from_bytes(&bytes);
        let mut body = vec![0, 0];
        body.append(&mut bytes);
        for version in [1, 2] {
            let mut whole = b"SELVGRPH".to_vec();
            whole.push(version);
            // Sometimes the beginning of a graph of one image, so that the rest is looked at.
            if body.len() % 2 == 0 {
                whole.extend_from_slice(&[5, 0, 1, 1, 1, 2, 7, 7]);
            }
            whole.extend_from_slice(&body);
            let sum = selvedge_events::bytes::checksum(&whole);
            whole.extend_from_slice(&sum.to_le_bytes());
            if let Ok(graph) = from_bytes(&whole) {
                prop_assert!(is_well_formed(&graph) || version == 1);
                prop_assert_eq!(from_bytes(&to_bytes(&graph)), Ok(graph));
            }
        }
    }

    #[test]
    fn runs_that_bring_nothing_new_add_nothing(steps in runs(), kind in kinds()) {
        let graph = steps.graph(kind);
        let shares = convergence(&[graph.clone(), graph.clone(), graph]).expect("alike");
        prop_assert_eq!(shares.len(), 3);
        prop_assert!(shares[1..].iter().all(|share| *share == 0.0) || steps.graph(kind).edges().is_empty());
    }
}

#[test]
fn graphs_that_were_collected_otherwise_do_not_add_up() {
    let (word, line) = (Kind::default(), Kind { granularity: Granularity::Line, ..Kind::default() });
    assert!(Graph::empty(word).union(&Graph::empty(line)).is_err());
    assert!(Graph::empty(word).difference(&Graph::empty(line)).is_err());
}

#[test]
fn a_file_of_a_later_version_says_so() {
    let mut bytes = to_bytes(&Graph::empty(Kind::default()));
    bytes[8] = 9;
    let error = from_bytes(&bytes).expect_err("refused").to_string();
    assert!(error.contains("version 9"), "{error}");
    assert!(from_bytes(b"hello").expect_err("refused").to_string().contains("no graph"));
}

/// Two nodes and an edge in two runs, as version 1 wrote them.
#[test]
fn a_file_of_the_first_version_is_still_read() {
    let site = |offset: u32| Site { image: 0, offset };
    let (from, to) = (Node::new(site(0x10), Context::EMPTY), Node::new(site(0x11), Context::EMPTY));
    let mut bytes = b"SELVGRPH".to_vec();
    bytes.extend_from_slice(&[1, 5, 0, 1, 2, 1, 2, 7, 8, 2]);
    // 0x10 << 20 | 1, and 1 << 20 above it; each with runs, times and first.
    bytes.extend_from_slice(&[0x81, 0x80, 0x80, 0x08, 2, 3, 4]);
    bytes.extend_from_slice(&[0x80, 0x80, 0x40, 2, 3, 5]);
    // From the first node to the second.
    bytes.extend_from_slice(&[1, 1, 2, 2, 3, 5]);
    let sum = selvedge_events::bytes::checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    let graph = from_bytes(&bytes).expect("a graph");
    assert_eq!((graph.runs(), graph.images()), (2, &[vec![7, 8]][..]));
    assert_eq!(graph.node(from), Count { runs: 2, times: 3, first: 4 });
    assert_eq!(graph.edge(from, to), Count { runs: 2, times: 3, first: 5 });
    assert_eq!(graph.edges().len(), 1);
}

/// As many sites, pairs, nodes and edges as the largest program of the paper's Table 5 (x264), in 25 runs.
#[test]
fn a_graph_as_large_as_the_papers_largest_takes_less_than_a_megabyte() {
    let graph = like(2347, 4799, 137_071, 25);
    let bytes = to_bytes(&graph);
    assert!(graph.edges().len() > 130_000, "{}", graph.edges().len());
    assert!(
        bytes.len() < 1_000_000,
        "{} for {} edges, {} nodes",
        bytes.len(),
        graph.edges().len(),
        graph.nodes().len()
    );
    assert_eq!(from_bytes(&bytes), Ok(graph));
}

/// A graph with so many sites, pairs of sites, and edges in so many runs.
fn like(sites: u64, pairs: u64, edges: u64, runs: u64) -> Graph {
    let mut state = 1_u64;
    let mut chance = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let node = |site: u64, context: u64| {
        let site = Site { image: 0, offset: u32::try_from(site * 37).expect("small") };
        Node::new(site, Context::from_bits(1 << 10 | u32::try_from(context).expect("small")).expect("whole"))
    };
    let pairs: Vec<(u64, u64)> = (0..pairs).map(|at| (at % sites, chance(sites))).collect();
    let mut graph = Graph { images: vec![vec![9; 20]], runs: u32::try_from(runs).expect("small"), ..Graph::default() };
    let mut rows = BTreeMap::new();
    while (rows.len() as u64) < edges {
        let (from, to) = pairs[usize::try_from(chance(pairs.len() as u64)).expect("small")];
        // Each site has some thirty contexts.
        let mut context = |site: u64| (site * 7 + chance(30) * 31) % 1024;
        let (from, to) = (node(from, context(from)), node(to, context(to)));
        let own = 1 + chance(runs);
        let times = own * (1 + chance(4)) * (1 + chance(9));
        let first = (0..own).map(|_| chance(1 << 20)).sum();
        rows.insert((from, to), Count { runs: u32::try_from(own).expect("small"), times, first });
    }
    let mut nodes = BTreeMap::<Node, Count>::new();
    for ((from, to), count) in &rows {
        graph.edges.push(EdgeRow { from: *from, to: *to, count: *count });
        for end in [from, to] {
            let node = nodes.entry(*end).or_insert(Count { runs: 0, times: 0, first: u64::MAX });
            node.runs = node.runs.max(count.runs);
            node.times += count.times;
            node.first = node.first.min(count.first + u64::from(count.runs) * 3);
        }
    }
    graph.nodes = nodes.into_iter().map(|(node, count)| NodeRow { node, count }).collect();
    graph
}
