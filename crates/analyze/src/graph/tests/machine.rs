//! The simulated hardware: a table of tiny runs, and an unlimited cache against the plain rules.

use proptest::prelude::*;

use super::text::{edges, steps};
use crate::graph::mesi::{Machine, Work};
use crate::graph::{Access, Depth, Kind, Rules, Step, Steps, Touch};

const MESI: Rules = Rules::Mesi;

fn run(text: &str, machine: Machine) -> (Vec<String>, Work) {
    let (graph, work) = steps(text).graph_of(Kind { rules: MESI, ..Kind::default() }, machine);
    (edges(&graph), work)
}

#[test]
fn messages_make_edges() {
    let cases: [(&str, &[&str]); 8] = [
        // A read that memory serves; a second one hits.
        ("T1 r x 1; T1 r x 2", &["nobody > 1[-]"]),
        // A write miss, then a transfer.
        ("T1 w x 1; T2 r x 2", &["1[-] > 2[-]"]),
        // An invalidation.
        ("T1 w x 1; T2 w x 2", &["1[-] > 2[-]"]),
        // An invalidation of a clean copy: nobody has written what is given up.
        ("T1 r x 1; T2 w x 2", &["nobody > 1[-]", "nobody > 2[-]"]),
        // A silent write to an exclusive line leaves no metadata: the source is lost.
        ("T1 r x 1; T1 w x 2; T2 r x 3", &["nobody > 1[-]", "nobody > 3[-]"]),
        // The second write to a modified line leaves those of the first.
        ("T1 w x 1; T1 w x 2; T2 r x 3", &["1[-] > 3[-]"]),
        // An upgrade: the reader before it is told.
        ("T1 w x 1; T2 r x 2; T1 w x 3; T2 r x 4", &["1[-] > 2[-]", "1[-] > 3[RmRd]", "3[RmRd] > 4[LcRd,RmWr]"]),
        // One line.
        ("T1 w s.a 1; T2 r s.b 2", &["1[-] > 2[-]"]),
    ];
    for (text, expected) in cases {
        assert_eq!(run(text, Machine::default()).0, expected, "{text}");
    }
}

#[test]
fn what_is_evicted_comes_from_memory() {
    let small = Machine { cache_bytes: 64, ways: 1, ..Machine::default() };
    let (edges, work) = run("T1 w x 1; T1 w y 2; T2 r x 3", small);
    assert_eq!((edges, work.evictions), (vec!["nobody > 3[-]".to_owned()], 1));
    // The least recently used goes first.
    let two = Machine { cache_bytes: 128, ways: 2, ..Machine::default() };
    let (edges, _) = run("T1 w x 1; T1 w y 2; T1 w x 3; T1 w z 4; T2 r x 5; T2 r y 6", two);
    assert_eq!(edges, ["nobody > 6[LcRd]", "1[-] > 5[-]"]);
}

#[test]
fn a_full_table_traps_and_drops_what_comes_meanwhile() {
    let tiny = Machine { table: 1, trap_accesses: 2, ..Machine::default() };
    let (edges, work) = run("T1 r a 1; T1 r b 2; T1 r c 3; T1 r d 4", tiny);
    assert_eq!((work.table, work.traps, work.dropped), (2, 2, 2));
    assert_eq!(edges, ["nobody > 1[-]", "nobody > 4[-]"].map(str::to_owned).to_vec());
}

#[test]
fn threads_of_one_processor_do_not_communicate() {
    let one = Machine { processors: 1, ..Machine::default() };
    assert_eq!(run("T1 w x 1; T2 r x 2", one).0, Vec::<String>::new());
}

#[test]
fn the_columns_of_table_5_are_counted() {
    let (_, work) = run("T1 r x 1; T2 r x 2; T2 w x 3; T1 w x 4; T1 w y 5", Machine::default());
    assert_eq!((work.read_misses, work.write_misses, work.upgrades, work.metadata), (2, 2, 1, 3));
    assert_eq!((work.accesses, work.table), (5, 4));
}

proptest! {
    /// Where every thread has a processor, all fits, every value is written before it is read and never twice in a row
    /// by one thread, and no thread reads it twice, the hardware misses nothing that the software sees at this width, but for edges from
    /// a read to a write.
    #[test]
    fn without_limits_it_sees_transfers_as_the_coherent_rules_do(
        accesses in proptest::collection::vec((0_u32..3, 0_u32..50, 0_u64..3, any::<bool>()), 0..40)
    ) {
        let mut run = Steps { images: vec![vec![1]], steps: Vec::new() };
        for variable in 0..3 {
            let site = crate::graph::Site { image: 0, offset: 100 };
            run.steps.push(Step::Access(Access { thread: 9, site, addr: variable << 6, size: 4, touch: Touch::Write }));
        }
        let mut last = [9; 3];
        let mut has = std::collections::BTreeSet::new();
        for (thread, offset, variable, writes) in accesses {
            // A second write of the owner would leave metadata of the first.
            let writes = writes && last[variable as usize] != thread;
            if writes {
                last[variable as usize] = thread;
                has.retain(|(_, other)| *other != variable);
            } else if !has.insert((thread, variable)) {
                continue;
            }
            let touch = if writes { Touch::Write } else { Touch::Read };
            let site = crate::graph::Site { image: 0, offset: 2 * offset + u32::from(writes) };
            run.steps.push(Step::Access(Access { thread, site, addr: variable << 6, size: 4, touch }));
        }
        let kind = Kind { depth: Depth::NONE, granularity: crate::graph::Granularity::Line, rules: Rules::Coherent };
        let is_write = |node: crate::graph::Node| {
            node.site().is_some_and(|site| site.offset == 100 || site.offset % 2 == 1)
        };
        let from_writes = |graph: &crate::graph::Graph| -> Vec<_> {
            graph.edges().iter().filter(|row| is_write(row.from)).map(|row| row.key()).collect()
        };
        let software = from_writes(&run.graph(kind));
        let hardware = from_writes(&run.graph_of(kind, Machine::default()).0);
        prop_assert_eq!(software, hardware);
    }
}
