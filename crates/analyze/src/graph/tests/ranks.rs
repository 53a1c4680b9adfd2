//! Rankings: the paper's worked example, what the scores promise, and deployed runs.

use proptest::prelude::*;

use super::text::graph;
use crate::graph::deployed::{THRESHOLD, Tested, Watch};
use crate::graph::rank::{Label, Ranking, Sample, Score, rank};
use crate::graph::{Depth, Granularity, Graph, Kind, Rules};

const PAPER: Kind = Kind { depth: depth(5), granularity: Granularity::Word, rules: Rules::Paper };
const COHERENT: Kind = Kind { rules: Rules::Coherent, ..PAPER };

const fn depth(events: u8) -> Depth {
    match Depth::new(events) {
        Some(depth) => depth,
        None => Depth::NONE,
    }
}

/// Ranks texts of runs; lines are code points.
fn ranked(runs: &[(&str, Label)], kind: Kind, score: Score) -> Ranking {
    let graphs: Vec<(Graph, Label)> = runs.iter().map(|(text, label)| (graph(text, kind), *label)).collect();
    let samples: Vec<Sample<'_>> = graphs.iter().map(|(graph, label)| Sample { graph, label: *label }).collect();
    rank(&samples, score, |_, offset| offset).expect("alike")
}

fn lines(ranking: &Ranking) -> Vec<u32> {
    ranking.points.iter().map(|ranked| ranked.point).collect()
}

/// Figures 4 and 5: lines 1 and 2 write string and length, 3 and 4 read them; 9 is the end, which looks at the length in every
/// run.
const BEFORE: &str = "T2 r str 3; T2 r len 4; T1 w str 1; T1 w len 2; T0 r len 9";
const AFTER: &str = "T1 w str 1; T1 w len 2; T2 r str 3; T2 r len 4; T0 r len 9";
const BETWEEN: &str = "T2 r str 3; T1 w str 1; T1 w len 2; T2 r len 4; T0 r len 9";

#[test]
fn the_worked_example_needs_context_and_no_more() {
    use Label::{Failed, Passed, Unknown};
    let runs = |passed, failed| [(BEFORE, passed), (AFTER, passed), (AFTER, passed), (BETWEEN, failed)];
    let context_free = |kind| Kind { depth: Depth::NONE, ..kind };
    // (kind, score, labels, whether one of the four lines is first)
    let cases = [
        (PAPER, Score::Paper, (Passed, Failed), true),
        (PAPER, Score::Paper, (Unknown, Unknown), true),
        (context_free(PAPER), Score::Paper, (Passed, Failed), false),
        (COHERENT, Score::Paper, (Passed, Failed), true),
        (COHERENT, Score::Rare, (Passed, Failed), true),
        (COHERENT, Score::Suspicious, (Passed, Failed), true),
        (COHERENT, Score::Suspicious, (Unknown, Unknown), true),
    ];
    for (kind, score, (passed, failed), found) in cases {
        let ranking = ranked(&runs(passed, failed), kind, score);
        let first = lines(&ranking).first().is_some_and(|line| *line < 9);
        assert_eq!(first, found, "{score:?} {passed:?} {kind:?}: {:?}", ranking.points);
    }
}

#[test]
fn what_comes_first_explains_what_follows() {
    use Label::{Failed, Passed};
    // Line 8 reports the failure: it runs in every failing run and in no other.
    let runs = [
        ("T1 w id 1; T2 r id 2; T2 w reply 3; T0 r reply 7", Passed),
        ("T2 r id 2; T1 w id 1; T2 w reply 3; T0 r reply 7; T0 r reply 8", Failed),
    ];
    assert_eq!(lines(&ranked(&runs, COHERENT, Score::Suspicious)).first(), Some(&2));
    assert_eq!(lines(&ranked(&runs, COHERENT, Score::Rare)).first(), Some(&2));
    // The paper's score sees no order in time, and by its rules the read that came too early leaves no edge.
    assert_ne!(lines(&ranked(&runs, PAPER, Score::Paper)).first(), Some(&2));
}

#[test]
fn the_artefact_of_difference_graphs_is_gone() {
    use Label::{Failed, Passed};
    // Line 2 runs in many contexts and is guilty in one; line 5 runs in two that both only failing runs have. Reducing the
    // graphs leaves line 2 a single context, so by the paper's score nothing is less rare.
    let common = [
        "T1 w a 1; T2 r a 2",
        "T1 w a 1; T1 w z 6; T2 r z 7; T2 r a 2",
        "T1 w z 6; T2 r z 7; T2 w y 8; T1 r y 9; T1 w a 1; T2 r a 2",
    ];
    let wrong = [
        "T1 w z 6; T2 w y 8; T1 r y 9; T1 w a 1; T2 r a 2; T1 w b 4; T2 r b 5",
        "T1 w z 6; T2 w y 8; T1 r y 9; T1 w a 1; T2 r a 2; T1 w c 6; T2 r c 7; T1 w b 4; T2 r b 5",
    ];
    let mut runs: Vec<(&str, Label)> = common.iter().map(|text| (*text, Passed)).collect();
    runs.extend(wrong.iter().map(|text| (*text, Failed)));
    let paper = ranked(&runs, PAPER, Score::Paper);
    let place = |ranking: &Ranking, line| ranking.place_of(|point| point == line).expect("ranked");
    assert!(place(&paper, 5) < place(&paper, 2), "{:?}", lines(&paper));
    for score in [Score::Rare, Score::Suspicious] {
        let better = ranked(&runs, COHERENT, score);
        assert!(place(&better, 2) < place(&better, 5), "{score:?} {:?}", lines(&better));
    }
}

#[test]
fn evidence_names_the_edge_and_counts_runs() {
    use Label::{Failed, Passed};
    let runs = [(AFTER, Passed), (BEFORE, Passed), (BETWEEN, Failed), (BETWEEN, Failed)];
    let ranking = ranked(&runs, COHERENT, Score::Suspicious);
    assert_eq!((ranking.failing, ranking.passing), (2, 2));
    let evidence = || ranking.points.iter().flat_map(|ranked| &ranked.evidence);
    assert!(evidence().any(|edge| (edge.failing, edge.passing) == (2, 0)));
    assert!(evidence().all(|edge| (edge.failing < edge.passing) == edge.is_missing && edge.weight > 0.0));
}

#[test]
fn what_did_not_happen_is_told_too() {
    use Label::{Failed, Passed};
    // Nothing happens in the failing run that does not happen in the other.
    let runs = [("T1 w x 1; T2 r x 2; T1 w y 3; T2 r y 4", Passed), ("T1 w x 1; T2 r x 2; T1 w y 3", Failed)];
    let ranking = ranked(&runs, COHERENT, Score::Suspicious);
    assert_eq!(lines(&ranking), [4, 3]);
    assert!(ranking.points[0].evidence[0].is_missing);
    assert!(ranked(&runs, COHERENT, Score::Rare).points.is_empty());
}

#[test]
fn what_is_missing_weighs_less_where_only_contexts_are_or_where_the_run_never_came() {
    use Label::{Failed, Passed, Unknown};
    let weight = |failed: &str| {
        let runs = [("T1 w x 1; T2 r x 2; T1 w y 3; T2 r y 4", Passed), (failed, Failed)];
        let ranking = ranked(&runs, COHERENT, Score::Suspicious);
        let four = ranking.points.iter().find(|ranked| ranked.point == 4).expect("ranked");
        four.evidence.iter().find(|edge| edge.is_missing).expect("an edge is missing").weight
    };
    let is = |weight: f64, wanted: f64| assert!((weight / wanted - 1.0).abs() < 1e-3, "{weight}, not {wanted}");
    is(weight("T1 w x 1; T2 r x 2; T1 w y 3"), 0.1);
    // Both begin with something else, which explains as much of either run.
    let lacks = weight("T1 w x 1; T2 r x 2; T1 r z 7; T2 w z 8; T2 r y 4; T1 w y 3");
    is(weight("T1 w x 1; T2 r x 2; T1 r z 7; T2 w z 8; T1 w y 3; T2 r y 4"), 0.75 * lacks);
    // Without labels, a run that lacks what all others have is the odd one: both ends of what it lacks are ranked, and no other line.
    let whole = ("T1 w x 1; T2 r x 2; T1 w y 3; T2 r y 4", Unknown);
    let runs = [whole, whole, whole, ("T1 w x 1; T2 r x 2; T1 w y 3", Unknown)];
    let ranking = ranked(&runs, COHERENT, Score::Rare);
    assert_eq!(lines(&ranking), [3, 4]);
}

#[test]
fn equals_share_their_places() {
    let point = |point, score| crate::graph::rank::Ranked { point, score, evidence: Vec::new() };
    let ranking =
        Ranking { points: vec![point(1, 1.0), point(2, 0.5), point(3, 0.5), point(4, 0.5)], ..Ranking::default() };
    assert_eq!(ranking.place_of(|line| line == 1), Some(1.0));
    assert_eq!(ranking.place_of(|line| line == 3), Some(3.0));
    let two = ranking.place_of(|line| line == 3 || line == 2).expect("ranked");
    assert!((two - 7.0 / 3.0).abs() < 1e-9, "{two}");
    assert_eq!(ranking.place_of(|line| line == 9), None);
}

#[test]
fn nothing_ranks_to_nothing() {
    for score in Score::ALL {
        assert_eq!(ranked(&[], PAPER, score), Ranking::default());
        assert!(ranked(&[("T1 w x 1", Label::Failed)], PAPER, score).points.is_empty());
    }
}

#[test]
fn deployed_runs_are_surprising_where_testing_had_settled() {
    let tests =
        [AFTER, BEFORE, AFTER, BEFORE, AFTER, BEFORE, AFTER, BEFORE, AFTER, BEFORE].map(|text| graph(text, COHERENT));
    let tested = Tested::new(Graph::sum(&tests, COHERENT).expect("alike"), |_, offset| offset);
    let beyond = |text, threshold| {
        let found = tested.beyond(&graph(text, COHERENT), threshold, |_, offset| offset).expect("alike");
        found.iter().map(|surprise| surprise.point).collect::<Vec<_>>()
    };
    assert_eq!(beyond(AFTER, 0.0), Vec::<u32>::new());
    assert!(beyond(BETWEEN, THRESHOLD).contains(&4), "{:?}", beyond(BETWEEN, 0.0));
    // A line that testing never saw is no news about threads.
    assert_eq!(beyond("T1 w str 50; T2 r str 51", THRESHOLD), Vec::<u32>::new());
    assert_eq!(beyond("T1 w str 50; T2 r str 51", 0.5), [51]);
}

#[test]
fn a_day_of_looks_tells_each_line_once_and_remembers_no_more_than_it_may() {
    let tests = [AFTER; 20].map(|text| graph(text, COHERENT));
    let tested = Tested::new(Graph::sum(&tests, COHERENT).expect("alike"), |_, offset| offset);
    let mut watch = Watch::new(tested, 0.0);
    let mut told = 0;
    // A look a second, each at a line that nobody saw before.
    for second in 0..86_400_u32 {
        let (from, to) = (100 + second, 1_000_000 + second);
        let live = graph(&format!("T1 w str {from}; T2 r str {to}"), COHERENT);
        told += watch.look(&live, |_, offset| offset).expect("alike").len();
        let again = watch.look(&live, |_, offset| offset).expect("alike");
        assert!(again.is_empty(), "{again:?}");
    }
    assert_eq!((told, watch.told(), watch.looks()), (Watch::MOST, Watch::MOST, 2 * 86_400));
}

#[test]
fn what_the_runtime_left_is_the_graph_of_its_run() {
    use selvedge_events::trace_file::graph::node;
    use selvedge_trace::write::TraceBuilder;
    let mut builder = TraceBuilder::new();
    builder.module(0, 0x1000, 0x9000, b"id", "/bin/p");
    builder.sites(0, &[(0, 0x10, "__tsan_write4"), (1, 0x20, "__tsan_read4")]);
    builder.graph(
        5,
        2,
        &[
            [node(0, 1), node(1, 1), 7, 1],
            [0, node(1, 1), 1, 0],
            // A row that is not whole yet, and one of a site that nobody described.
            [node(0, 1), 0, 0, 2],
            [node(9, 1), node(1, 1), 1, 3],
        ],
    );
    let file = selvedge_trace::TraceFile::from_bytes(builder.finish()).expect("a trace");
    let process = selvedge_trace::Process::new(file, "trace".into());
    let graph = crate::graph::live::collected(&process).expect("a graph");
    assert_eq!(super::text::edges(&graph), ["nobody > 32[-]", "16[-] > 32[-]"]);
    let counts: Vec<(u64, u64)> = graph.edges().iter().map(|row| (row.count.times, row.count.first)).collect();
    assert_eq!((counts, graph.runs(), graph.kind().rules), (vec![(1, 0), (7, 1)], 1, Rules::Live));
}

const RUNS: [&str; 6] =
    [BEFORE, AFTER, BETWEEN, "T1 w x 1; T2 r x 2; T2 w x 3; T1 r x 4", "T2 r x 2; T2 w x 3; T1 w x 1", "T1 w x 5"];

proptest! {
    #[test]
    fn the_order_of_runs_does_not_matter_and_scores_are_shares(
        picked in proptest::collection::vec((0_usize..6, 0_u8..3), 0..10),
        score in prop_oneof![Just(Score::Paper), Just(Score::Rare), Just(Score::Suspicious)],
        kind in prop_oneof![Just(PAPER), Just(COHERENT)],
    ) {
        let label = |code| [Label::Passed, Label::Failed, Label::Unknown][usize::from(code)];
        let runs: Vec<(&str, Label)> = picked.iter().map(|(text, code)| (RUNS[*text], label(*code))).collect();
        let mut turned = runs.clone();
        turned.reverse();
        let (one, other) = (ranked(&runs, kind, score), ranked(&turned, kind, score));
        prop_assert_eq!(one.points.len(), other.points.len());
        for ranked in &one.points {
            prop_assert!((0.0..=1.000_001).contains(&ranked.score), "{}", ranked.score);
            let same = other.points.iter().find(|same| same.point == ranked.point).expect("ranked in both");
            prop_assert!((same.score - ranked.score).abs() < 1e-6);
        }
        prop_assert!(one.points.is_sorted_by(|a, b| a.score >= b.score));
    }

    #[test]
    fn what_all_runs_have_is_nobodys_fault(picked in 0_usize..6, runs in 2_usize..6, labelled: bool) {
        let label = |at: usize| match labelled {
            true if at == 0 => Label::Failed,
            true => Label::Passed,
            false => Label::Unknown,
        };
        let runs: Vec<(&str, Label)> = (0..runs).map(|at| (RUNS[picked], label(at))).collect();
        for score in [Score::Rare, Score::Suspicious] {
            prop_assert!(ranked(&runs, COHERENT, score).points.is_empty());
        }
    }
}
