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
