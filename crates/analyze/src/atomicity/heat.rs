//! What of a profile would cost too much to keep atomic, and is left out.
//!
//! The paper enforces every pair, and reports at most 17 %. Its programs share little outside their locks; where a hot variable is shared on
//! purpose, a lock at each of its accesses costs more than the program itself. As with a guard's bias, what is left out is said.
//!
//! - **Long pairs.** A lock that is held for some part of a run makes threads wait for each other that did not: a pair that lasted
//!   [`LONG_PART`] of the run, and [`LONG_NS`], goes.
//! - **Lingering.** A lock is given back where a thread next comes to a hook. Where an access is followed by a long stretch without one, such as a
//!   call into a library that was not built by us, its lock would be held for that long: a variable with as much of it as a long pair goes.
//! - **Hot variables.** Every access to a variable that has a pair takes its lock. The least accessed variables stay, as long as all
//!   together take no more than [`ACQUISITION_NS`] each in [`PART`] of the time that threads are busy; below [`FELT`] accesses nobody
//!   feels it.
//!
//! Times are those of recorded runs, which are longer than others. A run under control has none: of a profile that was made of
//! such runs alone nothing is left out.

use std::collections::BTreeSet;

use super::profile::{Atomicity, PairKey, Profile};

/// A pair is long where it lasted one in so many parts of the run.
pub const LONG_PART: u64 = 100;
/// And so long.
pub const LONG_NS: u64 = 1_000_000;
/// What taking a lock and giving it back takes.
pub const ACQUISITION_NS: u64 = 100;
/// Locks may take one in so many parts of a run.
pub const PART: u64 = 100;
/// Accesses in a run that cannot be felt.
pub const FELT: u64 = 10_000;

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Pairs, with their variables and how long they lasted in a run.
    pub long: Vec<(String, PairKey, u64)>,
    /// Variables, with how long locks would be held after accesses in a run, and their pairs.
    pub lingering: Vec<(String, u64, usize)>,
    /// Variables, with their accesses in a run and their pairs, the hottest first.
    pub hot: Vec<(String, u64, usize)>,
}

impl LeftOut {
    /// How many pairs that are.
    pub fn pairs(&self) -> usize {
        self.long.len() + self.hot.iter().chain(&self.lingering).map(|(.., pairs)| pairs).sum::<usize>()
    }
}

/// The profile without what would cost too much.
pub fn cool(all: &Profile) -> (Profile, LeftOut) {
    let (mut profile, mut left) = (all.clone(), LeftOut::default());
    if all.time == 0 {
        return (profile, left);
    }
    let is_long = |ns: u64| ns >= LONG_NS && ns >= all.time / LONG_PART;
    for (name, variable) in &mut profile.variables {
        let pairs = variable.atomic_pairs().count();
        if is_long(variable.lingers) && pairs > 0 {
            left.lingering.push((name.clone(), variable.lingers, pairs));
            variable.pairs.values_mut().for_each(|seen| seen.atomicity = Atomicity::None);
        }
        let atomic: BTreeSet<PairKey> = variable.atomic_pairs().map(|(key, _)| key.clone()).collect();
        for (key, seen) in variable.pairs.iter_mut().filter(|(key, _)| atomic.contains(*key)) {
            if is_long(seen.lasted) {
                seen.atomicity = Atomicity::None;
                left.long.push((name.clone(), key.clone(), seen.lasted));
            }
        }
    }
    let mut wanted: Vec<(u64, String)> = profile
        .variables
        .iter()
        .filter(|(_, variable)| variable.atomic_pairs().next().is_some())
        .map(|(name, variable)| (variable.accesses, name.clone()))
        .collect();
    wanted.sort();
    let busy = if all.busy > 0 { all.busy } else { all.time };
    let allowed = (busy / PART / ACQUISITION_NS).max(FELT);
    let mut sum = 0_u64;
    for (accesses, name) in wanted {
        sum = sum.saturating_add(accesses);
        let Some(variable) = profile.variables.get_mut(&name).filter(|_| sum > allowed) else { continue };
        left.hot.push((name, accesses, variable.atomic_pairs().count()));
        variable.pairs.values_mut().for_each(|seen| seen.atomicity = Atomicity::None);
    }
    left.hot.reverse();
    (profile, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A run of a second with variables, each of so many accesses, and one pair that lasted so long.
    fn profile(time: u64, rows: &[(&str, u64, u64)]) -> Profile {
        let mut text = "selvedge-atomicity 2\n".to_owned();
        if time > 0 {
            text += &format!("time {time}\n");
        }
        for (name, accesses, lasted) in rows {
            text += &format!("variable {name}\nlocks\naccesses {accesses}\npair read f 1 2\nlasted {lasted}\n");
        }
        Profile::from_text(&text).unwrap()
    }

    fn kept(profile: &Profile) -> Vec<&str> {
        profile.atomic_pairs().map(|(name, ..)| name).collect()
    }

    #[test]
    fn long_pairs_go() {
        let rows = [("a", 9, SECOND / 2), ("b", 9, SECOND / 101), ("c", 9, SECOND / 100)];
        let (cooled, left) = cool(&profile(SECOND, &rows));
        assert_eq!(kept(&cooled), ["b"]);
        let long: Vec<&str> = left.long.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!((long, left.hot.len(), left.pairs()), (vec!["a", "c"], 0, 2));
        // In a short run even half of it is nothing.
        let (cooled, left) = cool(&profile(SECOND / 1000, &[("a", 9, SECOND / 2000)]));
        assert_eq!((kept(&cooled), left), (vec!["a"], LeftOut::default()));
    }

    #[test]
    fn the_hottest_variables_go_until_the_rest_cannot_be_felt() {
        // A second has room for 100,000.
        let rows = [("a", 90_000, 1), ("b", 30_000, 1), ("c", 5_000_000, 1), ("d", 1000, 1)];
        let (cooled, left) = cool(&profile(SECOND, &rows));
        assert_eq!(kept(&cooled), ["b", "d"]);
        assert_eq!(left.hot, [("c".to_owned(), 5_000_000, 1), ("a".to_owned(), 90_000, 1)]);
        // Its threads were idle most of the time.
        let idle = Profile { busy: SECOND / 2, ..profile(SECOND, &rows) };
        assert_eq!(kept(&cool(&idle).0), ["b", "d"]);
        let idle = Profile { busy: SECOND / 4, ..idle };
        assert_eq!(kept(&cool(&idle).0), ["d"]);
        let (cooled, _) = cool(&profile(1000, &[("a", 10_000, 1)]));
        assert_eq!(kept(&cooled), ["a"]);
    }

    #[test]
    fn what_holds_locks_after_its_accesses_goes() {
        let mut all = profile(SECOND, &[("a", 9, 1), ("b", 9, 1)]);
        for (name, lingers) in [("a", SECOND / 100), ("b", SECOND / 101)] {
            all.variables.get_mut(name).unwrap().lingers = lingers;
        }
        let (cooled, left) = cool(&all);
        assert_eq!((kept(&cooled), left.pairs()), (vec!["b"], 1));
        assert_eq!(left.lingering, [("a".to_owned(), SECOND / 100, 1)]);
    }

    #[test]
    fn without_times_all_stay() {
        let all = profile(0, &[("a", u64::MAX, u64::MAX), ("b", u64::MAX, 1)]);
        assert_eq!(cool(&all), (all.clone(), LeftOut::default()));
    }
}
