//! The graph of locks, and of what else threads wait for: which abstract acquisitions can be on a circle at all.

use super::acquisitions::{Abstract, Node, Wanted};

/// The nodes that can be part of a circle: what they want and something that they have lie on a circle of the graph in
/// which everything that somebody has leads to what he wants.
pub(super) fn on_circles(nodes: &Abstract) -> Vec<Node> {
    let [locks, threads, objects] = nodes.counts();
    let vertices = (locks + threads + objects) as usize;
    let wanted_vertex = |wanted| match wanted {
        Wanted::Lock(hold) => hold.lock(),
        Wanted::End(thread) => locks + thread,
        Wanted::Wake(object) | Wanted::Post(object) => locks + threads + object,
    };
    // What a thread can be waited for, other than locks: its end, and what it posts, with the last post.
    let mut owed: Vec<Vec<(u32, u32)>> = vec![Vec::new(); threads as usize];
    for node in nodes.all() {
        let wanted = nodes.wanted(node);
        match wanted {
            Wanted::Lock(_) => {}
            Wanted::End(thread) => owed[thread as usize].push((wanted_vertex(wanted), u32::MAX)),
            Wanted::Wake(object) | Wanted::Post(object) => {
                for (thread, last) in nodes.posters(object) {
                    owed[usize::from(thread)].push((wanted_vertex(wanted), last));
                }
            }
        }
    }
    for owed in &mut owed {
        owed.sort_unstable();
        owed.dedup();
    }
    let has = |node: Node| {
        let first = nodes.events(node)[0];
        let owed = owed[usize::from(nodes.thread(node))].iter().filter(move |(_, last)| first < *last);
        nodes.held(node).iter().map(|hold| hold.lock()).chain(owed.map(|(vertex, _)| *vertex))
    };
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for node in nodes.all() {
        let to = wanted_vertex(nodes.wanted(node));
        edges.extend(has(node).map(|from| (from, to)));
    }
    edges.sort_unstable();
    edges.dedup();
    let component = components(vertices, &edges);
    let inside = |from: u32, to: u32| component[from as usize] == component[to as usize];
    let mut on_circle = vec![false; vertices];
    for &(from, to) in &edges {
        // An edge inside a component is on a circle, also one from a vertex to itself.
        if inside(from, to) {
            on_circle[to as usize] = true;
        }
    }
    nodes
        .all()
        .filter(|&node| {
            let to = wanted_vertex(nodes.wanted(node));
            on_circle[to as usize] && has(node).any(|from| inside(from, to))
        })
        .collect()
}

/// The strongly connected component of each vertex. After Kosaraju, without recursion.
fn components(vertices: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let forward = Adjacency::new(vertices, edges.iter().copied());
    let backward = Adjacency::new(vertices, edges.iter().map(|&(from, to)| (to, from)));
    let mut order = Vec::with_capacity(vertices);
    let mut seen = vec![false; vertices];
    for start in 0..vertices as u32 {
        forward.visit(start, &mut seen, |vertex| order.push(vertex));
    }
    let mut component = vec![0; vertices];
    let mut seen = vec![false; vertices];
    for &start in order.iter().rev() {
        backward.visit(start, &mut seen, |vertex| component[vertex as usize] = start);
    }
    component
}

/// A graph.
struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn new(vertices: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Adjacency {
        let mut starts = vec![0u32; vertices + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for i in 0..vertices {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[vertices] as usize];
        for (from, to) in edges {
            targets[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        Adjacency { starts, targets }
    }

    /// Depth first; a vertex is given when all that it leads to has been.
    fn visit(&self, start: u32, seen: &mut [bool], mut done: impl FnMut(u32)) {
        if std::mem::replace(&mut seen[start as usize], true) {
            return;
        }
        let mut stack = vec![(start, self.starts[start as usize])];
        while let Some((vertex, next)) = stack.last_mut() {
            if *next == self.starts[*vertex as usize + 1] {
                done(*vertex);
                stack.pop();
                continue;
            }
            let target = self.targets[*next as usize];
            *next += 1;
            if !std::mem::replace(&mut seen[target as usize], true) {
                stack.push((target, self.starts[target as usize]));
            }
        }
    }
}
