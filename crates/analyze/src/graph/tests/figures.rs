//! The paper's examples: what its graphs show, and what they do not show without context.

use super::text::{edges, graph, steps};
use crate::graph::{Depth, Granularity, Graph, Kind, Rules};

const PAPER: Kind = Kind { depth: DEPTH, granularity: Granularity::Word, rules: Rules::Paper };
const DEPTH: Depth = match Depth::new(5) {
    Some(depth) => depth,
    None => Depth::NONE,
};

fn without_context(kind: Kind) -> Kind {
    Kind { depth: Depth::NONE, ..kind }
}

/// Figure 4: a string and its length. Lines: 1 and 2 write them, 3 and 4 read them.
const RIGHT: [&str; 2] = [
    "T1 w str 1; T1 w len 2; T2 r str 3; T2 r len 4; T1 w str 1; T1 w len 2; T2 r str 3; T2 r len 4",
    "T1 w str 1; T1 w len 2; T1 w str 1; T1 w len 2; T2 r str 3; T2 r len 4",
];
/// The second update comes between the two reads.
const WRONG: &str = "T1 w str 1; T1 w len 2; T2 r str 3; T1 w str 1; T1 w len 2; T2 r len 4";

fn only_wrong(kind: Kind) -> Vec<String> {
    let right = RIGHT.map(|text| graph(text, kind));
    let right = Graph::sum(&right, kind).expect("alike");
    edges(&graph(WRONG, kind).difference(&right).expect("alike"))
}

#[test]
fn figure_4_without_context_the_wrong_run_has_no_edge_of_its_own() {
    assert_eq!(only_wrong(without_context(PAPER)), Vec::<String>::new());
}

#[test]
fn figure_5_with_context_it_has() {
    assert_eq!(only_wrong(PAPER), ["2[RmRd] > 4[LcRd]"]);
}

#[test]
fn figure_5_contexts_are_those_of_the_text() {
    // "the first operation on the left (write to str) was executed after two remote reads [...] so the context at that
    // point is (RmRd, RmRd)", here of data that the thread had written before.
    let run = "T1 w str 1; T1 w len 2; T2 r str 3; T2 r len 4; T2 w x 5; T1 w str 1; T1 w len 2; T2 r len 4";
    assert_eq!(edges(&graph(run, PAPER)), ["1[-] > 3[-]", "2[-] > 4[LcRd]", "2[RmRd,RmRd] > 4[LcRd,LcRd]"],);
    // Where both threads write, the write is an event of both.
    let both = "T2 w str 9; T1 r str 8; T1 w str 1; T1 w len 2; T2 r len 4";
    assert_eq!(edges(&graph(both, PAPER)), ["2[LcRd,LcWr] > 4[RmRd,RmWr]", "9[-] > 1[LcRd]", "9[-] > 8[-]"]);
}

/// Figure 3: MySQL's log, closed and opened again; line 3 asks whether it is open.
#[test]
fn figure_3_an_edge_of_the_wrong_run_only_needs_no_context() {
    let kind = without_context(PAPER);
    let right = ["T1 w type 1; T1 w type 2; T2 r type 3", "T2 r type 3; T1 w type 1; T1 w type 2"];
    let right = Graph::sum(&right.map(|text| graph(text, kind)), kind).expect("alike");
    let wrong = graph("T1 w type 1; T2 r type 3; T1 w type 2", kind);
    assert_eq!(edges(&wrong.difference(&right).expect("alike")), ["1[-] > 3[-]"]);
}

/// Figure 2: the identifier is read before it is written.
#[test]
fn figure_2_a_read_that_comes_too_early_is_an_edge_from_nobody() {
    let (right, wrong) = ("T1 w id 1; T2 r id 2", "T2 r id 2; T1 w id 1");
    assert_eq!(edges(&graph(wrong, PAPER)), Vec::<String>::new());
    let kind = Kind { rules: Rules::Coherent, ..PAPER };
    assert_eq!(edges(&graph(right, kind)), ["1[-] > 2[-]"]);
    assert_eq!(edges(&graph(wrong, kind)), ["nobody > 2[-]", "2[-] > 1[-]"]);
}

#[test]
fn one_who_waits_in_a_loop_fills_contexts_only_by_the_papers_rules() {
    let run = "T1 w go 1; T2 r go 2; T2 r go 2; T2 r go 2; T1 w x 3; T2 r x 4";
    assert_eq!(edges(&graph(run, PAPER)).last().map(String::as_str), Some("3[RmRd,RmRd,RmRd] > 4[LcRd,LcRd,LcRd]"));
    let kind = Kind { rules: Rules::Coherent, ..PAPER };
    assert_eq!(edges(&graph(run, kind)), ["1[-] > 2[-]", "1[-] > 2[LcRd]", "3[RmRd] > 4[LcRd]"]);
}

#[test]
fn a_value_that_was_its_own_all_the_time_comes_from_nobody_only_to_others() {
    let kind = Kind { rules: Rules::Coherent, ..PAPER };
    assert_eq!(edges(&graph("T1 r x 1; T1 w x 2", kind)), Vec::<String>::new());
    assert_eq!(edges(&graph("T1 r x 1; T2 w x 2", kind)), ["nobody > 1[-]", "1[-] > 2[-]"]);
    assert_eq!(edges(&graph("T1 r x 1", kind)), ["nobody > 1[-]"]);
}

#[test]
fn lines_join_what_lies_side_by_side() {
    let run = "T1 w s.a 1; T2 r s.b 2";
    assert_eq!(edges(&graph(run, PAPER)), Vec::<String>::new());
    assert_eq!(edges(&graph(run, Kind { granularity: Granularity::Line, ..PAPER })), ["1[-] > 2[-]"]);
}

#[test]
fn counts_say_how_often_and_when() {
    let run = graph("T1 w x 1; T2 r x 2; T2 r x 2", without_context(PAPER));
    let edge = run.edges().first().expect("one edge");
    assert_eq!((edge.count.runs, edge.count.times, edge.count.first), (1, 2, 2));
    assert_eq!(run.node(edge.from).first, 1, "the writer's own time");
    let twice = run.union(&run).expect("alike");
    assert_eq!(twice.edges()[0].count.runs, 2);
    assert!((twice.edges()[0].count.mean_first() - 2.0).abs() < 1e-9);
}

#[test]
fn memory_that_is_allocated_anew_was_written_by_nobody() {
    let steps = steps("T1 w x 1; T2 r x 2");
    let kind = Kind { rules: Rules::Coherent, ..PAPER };
    let mut reused = steps.clone();
    reused.steps.insert(1, crate::graph::Step::Allocate { addr: 0x1000, size: 8 });
    assert_eq!(edges(&steps.graph(kind)), ["1[-] > 2[-]"]);
    assert_eq!(edges(&reused.graph(kind)), ["nobody > 2[-]"]);
}
