//! Round robin: each thread runs for a number of points, then the next one in the circle.

use selvedge_events::ThreadIx;

use crate::moment::{Moment, Standing, Threads, next_in_circle};

/// Round robin.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    quantum: u32,
    /// Moments at which the current thread went on, since it was last switched to.
    used: u32,
}

impl RoundRobin {
    /// Turns of `quantum` points (at least one).
    pub fn new(quantum: u32) -> Self {
        Self { quantum: quantum.max(1), used: 0 }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &impl Threads) -> ThreadIx {
        self.used = self.used.saturating_add(1);
        if moment.standing == Standing::Ready && self.used < self.quantum {
            return moment.current;
        }
        self.used = 0;
        next_in_circle(moment.current, threads)
    }
}
