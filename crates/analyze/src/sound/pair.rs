//! Two events that race, and which of them are worth telling.

use crate::history::{EventNo, History};
use crate::prediction::Goal;

/// Two accesses that can be next at once, in the order in which they happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RacePair {
    /// The one that came first.
    pub first: EventNo,
    /// The one that came second.
    pub second: EventNo,
}

impl RacePair {
    /// As something to prove.
    pub fn goal(self) -> Goal {
        Goal::Race(self.first, self.second)
    }
}

/// Pairs of places that were told already: asked often, never listed.
///
/// A table with open addressing and at least half of it empty.
#[derive(Debug)]
pub(crate) struct Told {
    pairs: Vec<u64>,
    count: usize,
}

const EMPTY: u64 = u64::MAX;

impl Default for Told {
    fn default() -> Told {
        Told { pairs: vec![EMPTY; 1 << 10], count: 0 }
    }
}

impl Told {
    /// Whether this pair of places was told, in either order.
    #[inline]
    pub(crate) fn contains(&self, one: u32, other: u32) -> bool {
        let pair = pair(one, other);
        self.pairs[self.slot(pair)] == pair
    }

    /// Takes note of a pair of places; whether it is new.
    pub(crate) fn insert(&mut self, one: u32, other: u32) -> bool {
        let pair = pair(one, other);
        let slot = self.slot(pair);
        if self.pairs[slot] == pair {
            return false;
        }
        self.pairs[slot] = pair;
        self.count += 1;
        if 2 * self.count > self.pairs.len() {
            let old = std::mem::take(&mut self.pairs);
            self.pairs = vec![EMPTY; 2 * old.len()];
            for pair in old.into_iter().filter(|&pair| pair != EMPTY) {
                let slot = self.slot(pair);
                self.pairs[slot] = pair;
            }
        }
        true
    }

    /// Where a pair is, or would be.
    #[inline]
    fn slot(&self, pair: u64) -> usize {
        let mask = self.pairs.len() - 1;
        let mut slot = (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.pairs[slot] != pair && self.pairs[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// One number for two places; places are fewer than 2³²−1.
fn pair(one: u32, other: u32) -> u64 {
    u64::from(one.min(other)) << 32 | u64::from(one.max(other))
}

/// The first pair of each pair of places.
pub(crate) fn unique_by_place(history: &History, mut pairs: Vec<RacePair>) -> Vec<RacePair> {
    pairs.sort_unstable_by_key(|pair| (pair.second, pair.first));
    let mut told = Told::default();
    let place = |number: EventNo| history.events[number as usize].location;
    pairs.retain(|pair| told.insert(place(pair.first), place(pair.second)));
    pairs
}
