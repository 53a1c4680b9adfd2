//! Sites in disjoint sets: who touches the same memory is in one (Tarjan, "Efficiency of a good but not linear set union
//! algorithm", 1975; by size, with path halving).

use std::collections::BTreeMap;

use super::{Invariants, SiteKey};

/// The sets so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DisjointSites {
    numbers: BTreeMap<SiteKey, usize>,
    /// Of each site a site nearer to its set's root; a root has itself.
    parents: Vec<usize>,
    /// Of each root, how many are in its set.
    sizes: Vec<usize>,
}

impl DisjointSites {
    /// Every site, united with its members.
    pub(super) fn of_members(all: &Invariants) -> DisjointSites {
        let mut sets = DisjointSites::default();
        for (key, site) in &all.sites {
            sets.number(key);
            for member in site.members() {
                sets.unite(key, member);
            }
        }
        sets
    }

    /// Every site, united with whoever touches the same memory.
    pub(super) fn of(all: &Invariants) -> DisjointSites {
        let mut sets = DisjointSites::of_members(all);
        for (key, site) in &all.sites {
            for other in &site.touches {
                sets.unite(key, other);
            }
        }
        sets
    }

    /// Makes two sets one; false where they are one already.
    pub(super) fn unite(&mut self, a: &SiteKey, b: &SiteKey) -> bool {
        let (a, b) = (self.number(a), self.number(b));
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return false;
        }
        let size = |root: usize| self.sizes.get(root).copied().unwrap_or(0);
        let (large, small) = if size(a) >= size(b) { (a, b) } else { (b, a) };
        let sum = size(a) + size(b);
        if let Some(parent) = self.parents.get_mut(small) {
            *parent = large;
        }
        if let Some(size) = self.sizes.get_mut(large) {
            *size = sum;
        }
        true
    }

    /// The sets, each by key, in order of their first sites.
    pub(super) fn sets(mut self) -> Vec<Vec<SiteKey>> {
        let numbers = std::mem::take(&mut self.numbers);
        let mut at: BTreeMap<usize, usize> = BTreeMap::new();
        let mut sets: Vec<Vec<SiteKey>> = Vec::new();
        for (key, number) in numbers {
            let at = *at.entry(self.root(number)).or_insert(sets.len());
            match sets.get_mut(at) {
                Some(set) => set.push(key),
                None => sets.push(vec![key]),
            }
        }
        sets
    }

    fn number(&mut self, key: &SiteKey) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.parents.len();
        self.numbers.insert(key.clone(), number);
        self.parents.push(number);
        self.sizes.push(1);
        number
    }

    fn root(&mut self, mut at: usize) -> usize {
        loop {
            let parent = self.parents.get(at).copied().unwrap_or(at);
            if parent == at {
                return at;
            }
            let above = self.parents.get(parent).copied().unwrap_or(parent);
            if let Some(parent) = self.parents.get_mut(at) {
                *parent = above;
            }
            at = above;
        }
    }
}
