//! Who waits for whom: the shortest circle in the wait-for graph.

use std::collections::{BTreeMap, VecDeque};

use selvedge_events::ThreadIx;

/// Why one thread waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It holds the lock.
    Holds(u64),
    /// It has to end.
    Ends,
    /// Nobody else is left who might wake it.
    Wakes,
}

/// Whom each thread waits for.
pub(super) type Graph = BTreeMap<ThreadIx, Vec<(ThreadIx, Why)>>;

/// The shortest circle that `fits`, beginning at the lowest thread of it: each thread with why it waits for the
/// next. Among circles of equal length the one with the lowest thread.
pub(super) fn shortest(graph: &Graph, fits: impl Fn(&[(ThreadIx, Why)]) -> bool) -> Vec<(ThreadIx, Why)> {
    let mut best: Vec<(ThreadIx, Why)> = Vec::new();
    for start in graph.keys() {
        let found = from(graph, *start, &fits);
        if !found.is_empty() && (best.is_empty() || found.len() < best.len()) {
            best = found;
        }
    }
    best
}

/// The shortest circle through `start` that fits.
fn from(graph: &Graph, start: ThreadIx, fits: &impl Fn(&[(ThreadIx, Why)]) -> bool) -> Vec<(ThreadIx, Why)> {
    let mut paths: VecDeque<Vec<(ThreadIx, Why)>> = VecDeque::new();
    let mut seen = vec![start];
    let mut at = (start, Vec::new());
    loop {
        let (thread, path) = at;
        for (next, why) in graph.get(&thread).map_or(&[][..], Vec::as_slice) {
            let longer: Vec<(ThreadIx, Why)> = path.iter().copied().chain([(thread, *why)]).collect();
            if *next == start && fits(&longer) {
                return longer;
            }
            if !seen.contains(next) {
                seen.push(*next);
                let mut queued = longer;
                // The last entry says where the path has come to; its reason is not known yet.
                queued.push((*next, Why::Ends));
                paths.push_back(queued);
            }
        }
        let Some(mut path) = paths.pop_front() else { return Vec::new() };
        let Some((thread, _)) = path.pop() else { return Vec::new() };
        at = (thread, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32, Why)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to, why) in edges {
            graph.entry(ThreadIx(*from)).or_default().push((ThreadIx(*to), *why));
        }
        graph
    }

    fn found(edges: &[(u32, u32, Why)]) -> Vec<(u32, Why)> {
        shortest(&graph(edges), |_| true).into_iter().map(|(thread, why)| (thread.0, why)).collect()
    }

    #[test]
    fn circles_are_found_and_the_shortest_is_taken() {
        use Why::*;
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[(0, 1, Ends), (1, 2, Holds(7))]), []);
        assert_eq!(found(&[(3, 3, Holds(7))]), [(3, Holds(7))]);
        // Main waits for one of the two, and is no part of it.
        let two = [(0, 1, Ends), (1, 2, Holds(8)), (2, 1, Holds(7))];
        assert_eq!(found(&two), [(1, Holds(8)), (2, Holds(7))]);
        let three = [(1, 2, Holds(1)), (2, 3, Holds(2)), (3, 1, Holds(3))];
        assert_eq!(found(&three), [(1, Holds(1)), (2, Holds(2)), (3, Holds(3))]);
        // A writer waits for several readers.
        let readers = [(1, 4, Holds(5)), (1, 3, Holds(5)), (1, 2, Holds(5)), (2, 1, Holds(6))];
        assert_eq!(found(&readers), [(1, Holds(5)), (2, Holds(6))]);
        let longer_and_shorter = [(0, 1, Ends), (1, 2, Ends), (2, 0, Holds(1)), (2, 3, Holds(2)), (3, 2, Holds(3))];
        assert_eq!(found(&longer_and_shorter), [(2, Holds(2)), (3, Holds(3))]);
    }

    #[test]
    fn circles_that_do_not_fit_are_passed_over() {
        use Why::*;
        let edges = [(0, 1, Ends), (1, 0, Wakes), (1, 2, Wakes), (2, 1, Holds(4))];
        let locked = |path: &[(ThreadIx, Why)]| path.iter().any(|(_, why)| matches!(why, Holds(_)));
        let circle: Vec<u32> = shortest(&graph(&edges), locked).iter().map(|(thread, _)| thread.0).collect();
        assert_eq!(circle, [1, 2]);
    }
}
