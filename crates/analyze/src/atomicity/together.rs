//! Variables that belong together, learnt from runs that were right.
//!
//! Paper: section 5 leaves this to MUVI (Lu et al., SOSP 2007), which finds in the text of functions what is accessed together in most cases, and
//! makes it one abstract variable. Here it is found in what runs did, as the guard's colours are (`invariant::colour`), with two differences:
//! - **Names instead of distances.** The guard follows addresses, a profile follows names: two globals may belong together wherever
//!   they lie, two fields of a heap object if it is the same object.
//! - **Two at a time.** Belonging together is not handed on: a counter that is changed beside a flag and beside a pointer does not make flag and
//!   pointer three with it. An access to the counter would end the pair from the flag to the pointer, and the pair that matters is not seen.
//!
//! Two accesses are *near* where one thread made them in one outermost critical section, or with few accesses to shared variables
//! between. Two variables *belong together* if most accesses to one have the other near, and half of those to the other have the one: a
//! flag is looked at more often than what it guards. Both must be shared and written, over all runs together: in runs that are right, what a
//! flag guards may never be touched by two threads in one run.
//!
//! A wrong guess costs waiting, never the meaning of the program.
//!
//! Cost: accesses that are kept times the window.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest accesses that have the other near.
const SUPPORT: u64 = 4;
/// How many of a hundred accesses to one have the other near,
const MOST: u64 = 80;
/// and of those to the other the one.
const HALF: u64 = 50;
/// Accesses to shared variables before and after one that are near.
const WINDOW: usize = 8;
/// Variables of a critical section that are all near each other.
const MOST_IN_SECTION: usize = 64;
/// Most pairs of variables; those that are seen most often.
const MOST_PAIRS: usize = 64;

/// An access to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearby {
    /// Whose.
    pub thread: u32,
    /// The caller's number for the variable, the same in all runs.
    pub variable: u32,
    /// Which object the variable is part of; the same for all globals.
    pub object: u64,
    /// The outermost critical section that it is in.
    pub section: Option<u64>,
    /// Whether it writes.
    pub writes: bool,
}

/// The pairs of variables that belong together, each with the lower number first. `runs` are the accesses of each run, in order; globals
/// have the object 0.
pub fn together(runs: &[Vec<Nearby>]) -> BTreeSet<(u32, u32)> {
    let shared = shared(runs);
    let (mut total, mut near): (BTreeMap<u32, u64>, BTreeMap<(u32, u32), u64>) = Default::default();
    for run in runs {
        let mut threads: BTreeMap<u32, Vec<Nearby>> = BTreeMap::new();
        for access in run.iter().filter(|access| shared.contains(&access.variable)) {
            threads.entry(access.thread).or_default().push(*access);
        }
        for accesses in threads.values() {
            let mut sections: BTreeMap<(u64, u64), BTreeSet<u32>> = BTreeMap::new();
            for access in accesses {
                if let Some(section) = access.section {
                    sections.entry((section, access.object)).or_default().insert(access.variable);
                }
            }
            for (at, access) in accesses.iter().enumerate() {
                let around = at.saturating_sub(WINDOW)..accesses.len().min(at + WINDOW + 1);
                let window = accesses.get(around).unwrap_or_default().iter();
                let mut others: BTreeSet<u32> =
                    window.filter(|other| other.object == access.object).map(|other| other.variable).collect();
                let section = access.section.and_then(|section| sections.get(&(section, access.object)));
                others.extend(section.filter(|all| all.len() <= MOST_IN_SECTION).into_iter().flatten());
                others.remove(&access.variable);
                *total.entry(access.variable).or_default() += 1;
                for other in others {
                    *near.entry((access.variable, other)).or_default() += 1;
                }
            }
        }
    }
    let count = |a: u32, b: u32| near.get(&(a, b)).copied().unwrap_or(0);
    let percent = |a: u32, b: u32| count(a, b) * 100 / total.get(&a).copied().unwrap_or(0).max(1);
    let enough = |&(a, b): &(u32, u32)| {
        let (one, other) = (percent(a, b), percent(b, a));
        count(a, b).min(count(b, a)) >= SUPPORT && one.max(other) >= MOST && one.min(other) >= HALF
    };
    let mut found: Vec<(u32, u32)> = near.keys().copied().filter(|(a, b)| a < b).filter(enough).collect();
    found.sort_by_key(|&(a, b)| (Reverse(count(a, b) + count(b, a)), a, b));
    found.into_iter().take(MOST_PAIRS).collect()
}

/// Variables that are written, and that two threads touch: a global over all runs, another in one object of one run.
fn shared(runs: &[Vec<Nearby>]) -> BTreeSet<u32> {
    let written: BTreeSet<u32> =
        runs.iter().flatten().filter(|access| access.writes).map(|access| access.variable).collect();
    let mut threads: BTreeMap<(u32, u64, usize), BTreeSet<u32>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for access in run {
            let run = if access.object == 0 { 0 } else { number };
            threads.entry((access.variable, access.object, run)).or_default().insert(access.thread);
        }
    }
    let by_two = threads.into_iter().filter(|(_, threads)| threads.len() > 1).map(|((variable, ..), _)| variable);
    by_two.filter(|variable| written.contains(variable)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: u32, variable: u32, object: u64, section: Option<u64>, writes: bool) -> Nearby {
        Nearby { thread, variable, object, section, writes }
    }

    const FLAG: u32 = 0;
    const DATA: u32 = 1;
    const COUNT: u32 = 2;

    /// A flag, a count under a lock, and data that is used if the flag says so: either used, or taken down before.
    fn runtime(used: bool) -> Vec<Nearby> {
        let user = |variable, section, writes| access(1, variable, 0, section, writes);
        let ender = |variable, writes| access(2, variable, 0, Some(7), writes);
        let mut run = Vec::new();
        if used {
            run.extend([user(FLAG, None, false), user(COUNT, Some(3), true), user(DATA, None, false)]);
            run.push(ender(COUNT, true));
        } else {
            run.extend([ender(COUNT, true), ender(FLAG, true), ender(DATA, true)]);
            run.extend([user(FLAG, None, false), user(COUNT, Some(3), true)]);
        }
        run
    }

    #[test]
    fn a_flag_belongs_to_what_it_guards_though_no_run_shares_both() {
        let runs: Vec<_> = (0..10).map(|number| runtime(number % 2 == 0)).collect();
        assert!(together(&runs).contains(&(FLAG, DATA)));
        assert!(!together(&runs[..1]).contains(&(FLAG, DATA)), "once is no habit");
    }

    #[test]
    fn what_is_far_apart_or_private_or_never_written_does_not_belong_together() {
        let two = |object: u64, apart: usize, writes: bool| {
            let mut run = Vec::new();
            for thread in [1, 2] {
                for _ in 0..4 {
                    run.push(access(thread, FLAG, object, None, writes));
                    run.extend((0..apart).map(|n| access(thread, 10 + n as u32, object, None, true)));
                    run.push(access(thread, DATA, object, None, true));
                    run.extend((0..apart).map(|n| access(thread, 40 + n as u32, object, None, true)));
                }
            }
            together(&[run]).contains(&(FLAG, DATA))
        };
        assert!(two(0, 2, true) && two(9, 2, true));
        assert!(!two(0, 20, true), "far");
        assert!(!two(0, 2, false), "never written");
        let alone: Vec<_> = (0..9).flat_map(|_| [FLAG, DATA].map(|v| access(1, v, 0, None, true))).collect();
        assert!(together(&[alone]).is_empty(), "private");
        let objects: Vec<_> =
            (0..9).flat_map(|n| [access(n % 2, FLAG, 5, None, true), access(n % 2, DATA, 6, None, true)]).collect();
        assert!(together(&[objects]).is_empty(), "of different objects");
    }

    #[test]
    fn a_critical_section_is_near_however_long() {
        let mut run = Vec::new();
        for (thread, section) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
            run.push(access(thread, FLAG, 0, Some(section), true));
            run.extend((0..20).map(|n| access(thread, 10 + n, 0, Some(section), true)));
            run.push(access(thread, DATA, 0, Some(section), true));
        }
        assert!(together(&[run]).contains(&(FLAG, DATA)));
    }
}
