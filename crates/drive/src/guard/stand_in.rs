//! STAND-INS until the analysis has them.
use selvedge_analyze::invariant::Invariants;

pub(crate) trait Ext {
    fn members(&self) -> usize;
    fn merge(&mut self, other: &Invariants);
}

impl Ext for Invariants {
    fn members(&self) -> usize {
        self.sites.values().map(|site| site.members.len() + usize::from(site.nil)).sum()
    }
    fn merge(&mut self, other: &Invariants) {
        self.runs += other.runs;
        for (key, more) in &other.sites {
            let site = self.sites.entry(key.clone()).or_default();
            site.nil |= more.nil;
            site.hits += more.hits;
            site.members.extend(more.members.iter().cloned());
            site.touches.extend(more.touches.iter().cloned());
        }
        self.colours.extend(other.colours.iter().cloned());
    }
}

pub(crate) fn has_converged(curve: &[usize]) -> bool {
    curve.len() >= 10 && curve.iter().rev().take(10).all(|new| *new == 0)
}
