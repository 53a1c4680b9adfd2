//! The random walk: at every moment, each enabled thread is as likely as any other.
//!
//! Every schedule has a chance, one that yields keeps its share too; long stretches of one thread are
//! rare, so a bug that needs them is (see [`pos`](crate::pos) and [`pct`](crate::pct)).

use selvedge_events::ThreadIx;

use crate::moment::{Moment, Threads, enabled};
use crate::rng::Rng;

/// The random walk.
#[derive(Clone, Debug)]
pub struct Random {
    rng: Rng,
}

impl Random {
    /// The walk of a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &impl Threads) -> ThreadIx {
        let count = enabled(threads).fold(0_u64, |count, _| count.wrapping_add(1));
        let pick = self.rng.below(count);
        let mut at = 0_u64;
        for thread in enabled(threads) {
            if at == pick {
                return thread;
            }
            at = at.wrapping_add(1);
        }
        moment.current
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::sim::{private, run};

    #[test]
    fn every_enabled_thread_has_the_same_chance() {
        let program = vec![private(0, 2), private(1, 2), private(2, 2), private(3, 2)];
        let mut first = [0_u32; 4];
        for seed in 0..8_000 {
            let mut random = Random::new(seed);
            first[run(&program, |moment, sim| random.choose(moment, sim)).executed[0].0 as usize] += 1;
        }
        // Each count has mean 2,000 and standard deviation 39.
        assert!(first.iter().all(|count| (1_840..2_160).contains(count)), "{first:?}");
    }
}
