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

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::sim::{Op, private, run};

    fn order(program: &[Vec<Op>], quantum: u32) -> Vec<u32> {
        let mut round_robin = RoundRobin::new(quantum);
        run(program, |moment, sim| round_robin.choose(moment, sim)).executed.iter().map(|done| done.0).collect()
    }

    #[test]
    fn turns_have_their_length() {
        let program = vec![private(0, 4), private(1, 4)];
        // The first moment is thread 0's already: its first turn has one operation less.
        for (quantum, expected) in [
            (0, [1, 0, 1, 0, 1, 0, 1, 0]),
            (1, [1, 0, 1, 0, 1, 0, 1, 0]),
            (2, [0, 1, 1, 0, 0, 1, 1, 0]),
            (3, [0, 0, 1, 1, 1, 0, 0, 1]),
            (9, [0, 0, 0, 0, 1, 1, 1, 1]),
        ] {
            assert_eq!(order(&program, quantum), expected, "{quantum}");
        }
    }

    #[test]
    fn a_thread_that_yields_gives_up_the_rest_of_its_turn() {
        let program = vec![vec![Op::Spin(0)], vec![Op::Read(0), Op::Write(0), Op::Read(0)]];
        assert_eq!(order(&program, 2), [0, 1, 1, 0, 1]);
    }
}
