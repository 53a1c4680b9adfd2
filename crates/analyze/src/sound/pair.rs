//! Two events that race, and which of them are worth telling.

use std::collections::HashSet;

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

/// Pairs of places that were told already; asked, never listed.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pairs: HashSet<(u32, u32)>,
    /// The last answers, by a few bits of the pair: most questions are repeated at once.
    recent: Vec<(u32, u32)>,
}

const RECENT: usize = 1 << 12;

impl Told {
    /// Whether this pair of places was told, in either order.
    pub(crate) fn contains(&mut self, one: u32, other: u32) -> bool {
        let pair = (one.min(other), one.max(other));
        let slot = slot(pair);
        if self.recent.get(slot) == Some(&pair) {
            return true;
        }
        let known = self.pairs.contains(&pair);
        if known {
            self.recent.resize(RECENT, (u32::MAX, u32::MAX));
            self.recent[slot] = pair;
        }
        known
    }

    /// Takes note of a pair of places; whether it is new.
    pub(crate) fn insert(&mut self, one: u32, other: u32) -> bool {
        !self.contains(one, other) && self.pairs.insert((one.min(other), one.max(other)))
    }
}

fn slot((one, other): (u32, u32)) -> usize {
    (one.wrapping_mul(0x9e37_79b1) ^ other.wrapping_mul(0x85eb_ca6b)) as usize >> 7 & (RECENT - 1)
}

/// The first pair of each pair of places.
pub(crate) fn unique_by_place(history: &History, mut pairs: Vec<RacePair>) -> Vec<RacePair> {
    pairs.sort_unstable_by_key(|pair| (pair.second, pair.first));
    let mut told = Told::default();
    let place = |number: EventNo| history.events[number as usize].location;
    pairs.retain(|pair| told.insert(place(pair.first), place(pair.second)));
    pairs
}
