//! Orders of a graph's blocks: reverse postorder, dominators and post-dominators.
//!
//! Dominators by the iterative algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm", 2001).
//! Post-dominators are the same on the reversed graph, with one more node that all exits lead to; a block from which
//! no exit can be reached has none.

use super::{BlockIx, Cfg, number};

/// The (post-)dominators of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominators {
    /// The nearest dominator by block; the root's is itself. `None` where the block cannot be reached.
    nearest: Vec<Option<usize>>,
    /// The node that stands for the world outside, in the reversed graph.
    outside: Option<usize>,
}

impl Dominators {
    pub(super) fn forward(cfg: &Cfg) -> Dominators {
        let successors: Vec<Vec<usize>> =
            cfg.blocks.iter().map(|block| block.successors.iter().map(|edge| edge.to.at()).collect()).collect();
        Dominators { nearest: nearest(&successors, cfg.entry.map(BlockIx::at)), outside: None }
    }

    pub(super) fn backward(cfg: &Cfg) -> Dominators {
        let outside = cfg.blocks.len();
        let mut reversed: Vec<Vec<usize>> =
            cfg.predecessors.iter().map(|list| list.iter().map(|block| block.at()).collect()).collect();
        let leaving = cfg.blocks.iter().enumerate().filter(|(_, block)| !block.leaves.is_empty());
        reversed.push(leaving.map(|(at, _)| at).collect());
        Dominators { nearest: nearest(&reversed, Some(outside)), outside: Some(outside) }
    }

    /// The nearest dominator of a block other than itself; `None` for the root, for blocks whose only dominator is the
    /// world outside, and for those that cannot be reached.
    pub fn nearest(&self, block: BlockIx) -> Option<BlockIx> {
        let nearest = self.nearest.get(block.at()).copied().flatten()?;
        (nearest != block.at() && Some(nearest) != self.outside).then(|| number(nearest))
    }

    /// Whether every path to `block` goes through `by`; a block dominates itself.
    pub fn dominates(&self, by: BlockIx, block: BlockIx) -> bool {
        let mut at = block;
        if self.nearest.get(block.at()).copied().flatten().is_none() {
            return false;
        }
        loop {
            if at == by {
                return true;
            }
            match self.nearest(at) {
                Some(next) => at = next,
                None => return false,
            }
        }
    }
}

/// The nearest dominators of a graph given by its successors.
fn nearest(successors: &[Vec<usize>], root: Option<usize>) -> Vec<Option<usize>> {
    let count = successors.len();
    let mut nearest = vec![None; count];
    let next = |at: usize| successors.get(at).into_iter().flatten().copied();
    let order = reverse_postorder(count, root, next);
    let mut rank = vec![usize::MAX; count];
    let mut before = vec![Vec::new(); count];
    for (position, at) in order.iter().enumerate() {
        if let Some(rank) = rank.get_mut(*at) {
            *rank = position;
        }
        for to in next(*at) {
            if let Some(list) = before.get_mut(to) {
                list.push(*at);
            }
        }
    }
    if let Some(slot) = root.and_then(|root| nearest.get_mut(root)) {
        *slot = root;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for at in order.iter().skip(1) {
            let known = before.get(*at).into_iter().flatten();
            let known = known.filter(|from| nearest.get(**from).is_some_and(Option::is_some));
            let new = known.copied().reduce(|one, other| meet(&nearest, &rank, one, other));
            if let Some(slot) = nearest.get_mut(*at)
                && *slot != new
            {
                *slot = new;
                changed = true;
            }
        }
    }
    nearest
}

fn meet(nearest: &[Option<usize>], rank: &[usize], one: usize, other: usize) -> usize {
    let rank = |at: usize| rank.get(at).copied().unwrap_or(usize::MAX);
    let up = |at: usize| nearest.get(at).copied().flatten().unwrap_or(at);
    let (mut one, mut other) = (one, other);
    while one != other {
        if rank(one) > rank(other) {
            one = up(one);
        } else {
            other = up(other);
        }
    }
    one
}

/// The nodes that can be reached from `root`, each before its successors, loops aside.
pub(super) fn reverse_postorder<I: Iterator<Item = usize>>(
    count: usize,
    root: Option<usize>,
    successors: impl Fn(usize) -> I,
) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut visit = |at: usize| seen.get_mut(at).is_some_and(|seen| !std::mem::replace(seen, true));
    let mut out = Vec::new();
    let mut path: Vec<(usize, I)> = Vec::new();
    if let Some(root) = root.filter(|root| visit(*root)) {
        path.push((root, successors(root)));
    }
    while let Some((at, rest)) = path.last_mut() {
        match rest.next() {
            Some(next) if visit(next) => path.push((next, successors(next))),
            Some(_) => {}
            None => {
                out.push(*at);
                path.pop();
            }
        }
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether `to` can be reached from `root` without `without`.
    fn reaches(successors: &[Vec<usize>], root: usize, to: usize, without: Option<usize>) -> bool {
        let mut seen = vec![false; successors.len()];
        let mut work = vec![root];
        while let Some(at) = work.pop() {
            if Some(at) != without && !std::mem::replace(&mut seen[at], true) {
                work.extend(&successors[at]);
            }
        }
        seen[to]
    }

    proptest! {
        #[test]
        fn a_dominator_is_what_cannot_be_avoided(
            successors in proptest::collection::vec(proptest::collection::vec(0..9_usize, 0..4), 9)
        ) {
            let all = Dominators { nearest: nearest(&successors, Some(0)), outside: None };
            for block in 0..9 {
                for by in 0..9 {
                    let reached = reaches(&successors, 0, block, None);
                    let plain = reached && (by == block || !reaches(&successors, 0, block, Some(by)));
                    prop_assert_eq!(all.dominates(number(by), number(block)), plain, "{} {}", by, block);
                }
            }
        }
    }

    #[test]
    fn an_order_has_heads_before_bodies() {
        let graph = [vec![1], vec![2, 3], vec![1], vec![], vec![0]];
        let order = reverse_postorder(5, Some(0), |at| graph[at].iter().copied());
        assert_eq!(order, [0, 1, 3, 2]);
        assert!(reverse_postorder(5, None, |at| graph[at].iter().copied()).is_empty());
    }
}
