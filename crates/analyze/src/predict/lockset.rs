//! The locks that a thread holds, in which mode, as one number.
//!
//! Two events exclude each other by a lock that both hold and one of them exclusively; two shared holds do not.

use super::hash::Map;

/// A set of held locks, interned.
pub type LocksetNo = u32;

/// All sets of locks that were ever held at once. Number 0 is the empty set.
#[derive(Debug)]
pub struct Locksets {
    /// Of each set its locks, ascending: twice the lock's number, plus one where it is shared.
    sets: Vec<Box<[u32]>>,
    known: Map<Box<[u32]>, LocksetNo>,
    /// From a set by a step (the hold, and whether it is taken) to a set.
    steps: Map<(LocksetNo, u32, bool), LocksetNo>,
}

/// No lock.
pub const EMPTY: LocksetNo = 0;

impl Locksets {
    /// With the empty set.
    pub(crate) fn new() -> Locksets {
        let mut known = Map::default();
        known.insert(Box::default(), EMPTY);
        Locksets { sets: vec![Box::default()], known, steps: Map::default() }
    }

    /// The set after a lock is taken or given back.
    pub(crate) fn step(&mut self, from: LocksetNo, lock: u32, shared: bool, taken: bool) -> LocksetNo {
        let hold = lock * 2 + u32::from(shared);
        if let Some(&to) = self.steps.get(&(from, hold, taken)) {
            return to;
        }
        let mut set = self.sets[from as usize].to_vec();
        set.retain(|&other| other / 2 != lock);
        if taken {
            set.push(hold);
            set.sort_unstable();
        }
        let set = set.into_boxed_slice();
        let to = match self.known.get(&set) {
            Some(&to) => to,
            None => {
                let to = self.sets.len() as LocksetNo;
                self.sets.push(set.clone());
                self.known.insert(set, to);
                to
            }
        };
        self.steps.insert((from, hold, taken), to);
        to
    }

    /// How many locks are in a set.
    pub fn size(&self, set: LocksetNo) -> usize {
        self.sets[set as usize].len()
    }

    /// The locks of a set and whether each is held in shared mode.
    pub fn locks(&self, set: LocksetNo) -> impl Iterator<Item = (u32, bool)> {
        self.sets[set as usize].iter().map(|hold| (hold / 2, hold % 2 == 1))
    }

    /// Whether the holders of the two can be where they are at the same time.
    pub fn compatible(&self, a: LocksetNo, b: LocksetNo) -> bool {
        if a == EMPTY || b == EMPTY {
            return true;
        }
        let (mut a, mut b) = (&*self.sets[a as usize], &*self.sets[b as usize]);
        while let (Some(x), Some(y)) = (a.first(), b.first()) {
            match (x / 2).cmp(&(y / 2)) {
                std::cmp::Ordering::Less => a = &a[1..],
                std::cmp::Ordering::Greater => b = &b[1..],
                std::cmp::Ordering::Equal if x % 2 == 1 && y % 2 == 1 => (a, b) = (&a[1..], &b[1..]),
                std::cmp::Ordering::Equal => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let mut sets = Locksets::new();
        let a = sets.step(EMPTY, 0, false, true);
        let ab = sets.step(a, 1, false, true);
        let b = sets.step(EMPTY, 1, false, true);
        let shared_b = sets.step(EMPTY, 1, true, true);
        let a_shared_b = sets.step(a, 1, true, true);
        assert_eq!(sets.step(ab, 0, false, false), b, "giving back in another order");
        assert_eq!(sets.step(shared_b, 1, true, false), EMPTY);
        for (x, y, compatible) in [
            (EMPTY, ab, true),
            (a, b, true),
            (a, ab, false),
            (b, shared_b, false),
            (shared_b, shared_b, true),
            (shared_b, a_shared_b, true),
            (a, a_shared_b, false),
        ] {
            assert_eq!(sets.compatible(x, y), compatible, "{x} {y}");
            assert_eq!(sets.compatible(y, x), compatible, "{y} {x}");
        }
    }
}
