//! Where to hold a thread so that an order which correct runs always had is turned around: the paper's Algorithm 3.
//!
//! Paper: Zhang et al., TSE 2016, section 4.1. Where the belonging set of `S` is just `{P}`, and `S` is not in that of `P`, the program
//! may mean `P` to come before `S` without seeing to it. Holding the thread of `P` just before shows. Where it holds locks at
//! `P`, it is held before it takes the first of them, since `S` may need one.
//!
//! Departures:
//! - The paper has every execution of an instruction stall. A point here names one step of one run, which a schedule can hold: the
//!   *first* `P` at the location. Were a later one held, the first would still come before `S`.
//! - A lock that was given back before `P` is not held, whatever the order of the releases (the paper removes the releasing
//!   instruction from a set of acquiring ones and leaves open which that removes).
//! - Where making or waiting for threads has `P` come before `S`, the program does see to it, and there is no point.
//! - [`role_points`] goes beyond the paper: sets with several members that are all one thread's.
//!
//! What it does not know: that `S` comes after `P` for other reasons, because its thread is woken after `P`, say. Holding is futile
//! there, and finds nothing.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::accesses::{Access, LockEvent, Run, ThreadEvent};
use super::rivals::Ai;
use super::rivals::view::views;

/// Where to hold a thread, and what is to come first instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallingPoint {
    /// The site that is to be delayed.
    pub before: u32,
    /// The site that is to come first.
    pub then: u32,
    /// The thread to hold.
    pub thread: u32,
    /// The operation of that thread to hold it before: the access, or where it takes the first of the locks that it holds there;
    /// 0 where that is not known.
    pub operation: u32,
    /// Where that operation is in the code, where that has a number.
    pub site: Option<u32>,
    /// The lock that the operation takes; `None` where it is the access itself.
    pub lock: Option<u64>,
    /// The number of the operation in the merged order of the run.
    pub index: u64,
    /// In which run.
    pub run: usize,
}

/// The stalling points of Algorithm 3, each pair of sites once for every place at which to hold, in the order of the runs.
pub fn stalling_points(runs: &[Run], learnt: &Ai) -> Vec<StallingPoint> {
    let orders = orders(learnt, |_, members| members.len() == 1);
    find(runs, &orders, false)
}

/// Stalling points beyond the paper: sites whose set has several members, none of them nil, which only threads of one role run, a
/// role that does not run the site itself; and the site is in none of their sets. All of those accesses come
/// before the site's, so the first one at the location is held. Locations at which several threads of the role
/// were before are left out: holding one of them would not turn anything around.
///
/// `role` says what a thread of a run is: where it was made, say. Points of single members are not repeated.
pub fn role_points(runs: &[Run], learnt: &Ai, role: impl Fn(usize, u32) -> u32) -> Vec<StallingPoint> {
    let mut roles: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for access in &run.accesses {
            roles.entry(access.site).or_default().insert(role(number, access.thread));
        }
    }
    let orders = orders(learnt, |site, members| {
        let theirs: BTreeSet<u32> = members.iter().filter_map(|member| roles.get(member)).flatten().copied().collect();
        members.len() > 1 && theirs.len() == 1 && roles.get(&site).is_some_and(|own| own.is_disjoint(&theirs))
    });
    find(runs, &orders, true)
}

/// How many sites always came after accesses of other threads, and never before one of these: without them there are no points,
/// whatever runs are made.
pub fn one_way(learnt: &Ai) -> usize {
    orders(learnt, |_, members| !members.is_empty()).len()
}

/// Sites that always came after their members, and never before one; of those that are `wanted`.
fn orders(learnt: &Ai, wanted: impl Fn(u32, &BTreeSet<u32>) -> bool) -> BTreeMap<u32, BTreeSet<u32>> {
    let precedes = |site: u32, member: &u32| learnt.sets.get(member).is_some_and(|set| set.contains(&Some(site)));
    let order = |(site, set): (&u32, &BTreeSet<Option<u32>>)| {
        // None of them is nil.
        let members: BTreeSet<u32> = set.iter().copied().collect::<Option<_>>()?;
        let holds = !members.iter().any(|member| precedes(*site, member)) && wanted(*site, &members);
        holds.then_some((*site, members))
    };
    learnt.sets.iter().filter_map(order).collect()
}

/// Where each order can be turned around; `one_thread` leaves out locations at which several threads were in its first part.
fn find(runs: &[Run], orders: &BTreeMap<u32, BTreeSet<u32>>, one_thread: bool) -> Vec<StallingPoint> {
    let mut points = Vec::new();
    let mut known = BTreeSet::new();
    for (number, run) in runs.iter().enumerate() {
        let outermost = outermost(run);
        let mut lives = Lives::default();
        let mut births = run.threads.iter().peekable();
        // By location and site: the first access of each thread.
        let mut first: FxHashMap<(u64, u32), BTreeMap<u32, usize>> = FxHashMap::default();
        for (at, access, view) in views(&run.accesses) {
            while let Some(event) = births.next_if(|event| event.index < access.index) {
                lives.learn(event);
            }
            let members = orders.get(&access.site).filter(|members| {
                // A run that does not fit shows no order.
                view.remote.is_some_and(|remote| members.contains(&remote.site))
            });
            let there: Vec<(u32, usize)> = members
                .into_iter()
                .flatten()
                .filter_map(|member| first.get(&(access.location, *member)))
                .flatten()
                .map(|(thread, at)| (*thread, *at))
                .filter(|(thread, _)| *thread != access.thread)
                .collect();
            let threads: BTreeSet<u32> = there.iter().map(|(thread, _)| *thread).collect();
            if let Some(held) = there.iter().map(|(_, at)| *at).min().and_then(|at| run.accesses.get(at))
                && (threads.len() == 1 || !one_thread)
                && !lives.ordered(held, access)
            {
                let lock = outermost.get(&(held.thread, held.index));
                let point = StallingPoint {
                    before: held.site,
                    then: access.site,
                    thread: held.thread,
                    operation: lock.map_or(held.operation, |lock| lock.operation),
                    site: lock.map_or(Some(held.site), |lock| lock.site),
                    lock: lock.map(|lock| lock.lock),
                    index: lock.map_or(held.index, |lock| lock.index),
                    run: number,
                };
                if known.insert((point.before, point.then, lock.is_some(), point.site)) {
                    points.push(point);
                }
            }
            first.entry((access.location, access.site)).or_default().entry(access.thread).or_insert(at);
        }
    }
    points
}

/// What has to come before a thread's next step, by making threads and waiting for them.
#[derive(Default)]
struct Lives {
    /// By thread: of other threads, the last step that comes before.
    before: BTreeMap<u32, BTreeMap<u32, u64>>,
}

impl Lives {
    fn learn(&mut self, event: &ThreadEvent) {
        let (from, to) = if event.made { (event.thread, event.other) } else { (event.other, event.thread) };
        let mut known = self.before.get(&from).cloned().unwrap_or_default();
        known.insert(from, event.index);
        let before = self.before.entry(to).or_default();
        for (thread, index) in known {
            let last = before.entry(thread).or_default();
            *last = index.max(*last);
        }
    }

    fn ordered(&self, first: &Access, then: &Access) -> bool {
        let last = self.before.get(&then.thread).and_then(|before| before.get(&first.thread));
        last.is_some_and(|last| first.index <= *last)
    }
}

/// By thread and index of an access under locks: where its thread took the one that it has held longest.
fn outermost(run: &Run) -> FxHashMap<(u32, u64), LockEvent> {
    let mut held: BTreeMap<u32, Vec<LockEvent>> = BTreeMap::new();
    let mut locks = run.locks.iter().peekable();
    let mut found = FxHashMap::default();
    for access in &run.accesses {
        while let Some(event) = locks.next_if(|event| event.index < access.index) {
            let mine = held.entry(event.thread).or_default();
            if event.acquires {
                mine.push(*event);
            } else if let Some(at) = mine.iter().rposition(|held| held.lock == event.lock) {
                mine.remove(at);
            }
        }
        if let Some(first) = held.get(&access.thread).and_then(|mine| mine.first()) {
            found.insert((access.thread, access.index), *first);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::rivals::Invariant;

    /// Steps such as `1w3`, thread 1 writing at site 3, or `1+7@9` and `1-7@9`, taking and giving lock 7 at site 9. A location may follow:
    /// `1w3:5`. `1>2` and `1<2` are thread 1 making and awaiting thread 2. Operations are counted in each thread, from 1.
    fn run(text: &str) -> Run {
        let mut run = Run::default();
        let mut operations: BTreeMap<u32, u32> = BTreeMap::new();
        for (step, index) in text.split_whitespace().zip(0..) {
            let at = step.find(['r', 'w', '+', '-', '<', '>']).expect("a kind");
            let thread: u32 = step[..at].parse().expect("a thread");
            let operation = *operations.entry(thread).and_modify(|number| *number += 1).or_insert(1);
            let (kind, rest) = step[at..].split_at(1);
            if matches!(kind, "<" | ">") {
                let other = rest.parse().expect("a thread");
                run.threads.push(ThreadEvent { thread, index, other, made: kind == ">" });
                continue;
            }
            if let Some((lock, site)) = rest.split_once('@') {
                run.locks.push(LockEvent {
                    thread,
                    operation,
                    index,
                    lock: lock.parse().expect("a lock"),
                    site: Some(site.parse().expect("a site")),
                    acquires: kind == "+",
                });
                continue;
            }
            let (site, location) = rest.split_once(':').unwrap_or((rest, "0"));
            run.accesses.push(Access {
                thread,
                location: location.parse().expect("a location"),
                site: site.parse().expect("a site"),
                write: kind == "w",
                read: kind == "r",
                index,
                operation,
            });
        }
        run
    }

    fn learnt(runs: &[Run]) -> Ai {
        let mut ai = Ai::default();
        for run in runs {
            ai.learn(&run.accesses);
        }
        ai
    }

    /// Before, then, thread, operation, site, lock.
    type Said = (u32, u32, u32, u32, Option<u32>, Option<u64>);

    fn said(points: &[StallingPoint]) -> Vec<Said> {
        points.iter().map(|p| (p.before, p.then, p.thread, p.operation, p.site, p.lock)).collect()
    }

    fn points(texts: &[&str]) -> Vec<Said> {
        let runs: Vec<Run> = texts.iter().map(|text| run(text)).collect();
        said(&stalling_points(&runs, &learnt(&runs)))
    }

    #[test]
    fn figure_9_holds_the_initialisation() {
        assert_eq!(points(&["1w9:1 1w1 2r2"]), [(1, 2, 1, 2, Some(1), None)]);
    }

    #[test]
    fn figure_10_holds_the_acquisition() {
        assert_eq!(points(&["1+7@1 1w2 1-7@3 2+7@4 2r5 2-7@6"]), [(2, 5, 1, 1, Some(1), Some(7))]);
    }

    #[test]
    fn the_earliest_of_several_locks() {
        let nested = ["1+6@10 1+7@11 1w2 1-7@12 1-6@13 2r5"];
        assert_eq!(points(&nested), [(2, 5, 1, 1, Some(10), Some(6))]);
        let crossed = ["1+6@10 1+7@11 1-6@12 1w2 1-7@13 2r5"];
        assert_eq!(points(&crossed), [(2, 5, 1, 2, Some(11), Some(7))], "what was given back is not held");
        let again = ["1+7@10 1+7@11 1-7@12 1w2 1-7@13 2r5"];
        assert_eq!(
            points(&again),
            [(2, 5, 1, 1, Some(10), Some(7))],
            "what was taken twice is held until it was given back twice"
        );
        let others = ["1w2 3+7@9 2r5 3-7@9"];
        assert_eq!(points(&others), [(2, 5, 1, 1, Some(2), None)], "nor is what others hold");
    }

    #[test]
    fn no_order_where_both_were_seen() {
        assert_eq!(points(&["1w1 2r2", "2r2 1w1"]), [], "nil belongs too");
        assert_eq!(points(&["1w1 2r2 1w1"]), [], "each belongs to the other");
        assert_eq!(points(&["3w3 1w1 2r2", "1w1 3w3 2r2"]).iter().filter(|said| said.1 == 2).count(), 0);
        assert_eq!(points(&["1w1 2w1"]), [], "nil belongs to the only site");
    }

    #[test]
    fn no_point_where_threads_are_made_or_awaited_in_between() {
        assert_eq!(points(&["1w1 1>2 2r2"]), []);
        assert_eq!(points(&["1>2 1w1 2r2"]), [(1, 2, 1, 2, Some(1), None)]);
        assert_eq!(points(&["1>2 2w1 1<2 1r2"]), []);
        assert_eq!(points(&["1>2 1>3 2w1 1<3 1r2"]), [(1, 2, 2, 1, Some(1), None)], "another was awaited");
        assert_eq!(points(&["1w1 1>2 2>3 3r2"]), [], "the maker's maker");
        assert_eq!(points(&["1>2 2>3 3w1 2<3 1<2 1>4 4r2"]), [], "awaited, then made");
    }

    #[test]
    fn the_first_of_a_loop_is_held() {
        assert_eq!(points(&["1w1 1w1 1w1 2r2"]), [(1, 2, 1, 1, Some(1), None)]);
    }

    #[test]
    fn a_point_for_each_place() {
        let texts = ["1w1 2r2 1w1:1 2r2:1", "1+7@9 1w1 1-7@8 2r2", "1w1 2r2"];
        assert_eq!(points(&texts), [(1, 2, 1, 1, Some(1), None), (1, 2, 1, 1, Some(9), Some(7))]);
        let runs: Vec<Run> = texts.iter().map(|text| run(text)).collect();
        let found: Vec<_> = stalling_points(&runs, &learnt(&runs)).iter().map(|p| (p.run, p.index)).collect();
        assert_eq!(found, [(0, 0), (1, 0)]);
    }

    #[test]
    fn runs_that_do_not_fit_have_no_points() {
        let ai = learnt(&[run("1w1 2r2")]);
        assert_eq!(said(&stalling_points(&[run("2r2 1w1"), run("3w3 2r2")], &ai)), []);
    }

    #[test]
    fn members_of_one_role() {
        let by_number = |_: usize, thread: u32| thread;
        let found = |texts: &[&str], role: &dyn Fn(usize, u32) -> u32| {
            let runs: Vec<Run> = texts.iter().map(|text| run(text)).collect();
            said(&role_points(&runs, &learnt(&runs), role))
        };
        // One branch or the other initialises; then something is read.
        let branches = ["1w1 2r3", "1w2 2r3"];
        assert_eq!(points(&branches), []);
        assert_eq!(found(&branches, &by_number), [(1, 3, 1, 1, Some(1), None), (2, 3, 1, 1, Some(2), None)]);
        // Both do, one after the other: the first is held.
        assert_eq!(found(&["1w1 1w2 2r3", "1w2 1w1 2r3"], &by_number).len(), 2);
        assert_eq!(
            found(&["1+7@9 1w1 1-7@8 1w2 2r3", "1w1 2r3"], &by_number),
            [(1, 3, 1, 1, Some(9), Some(7)), (1, 3, 1, 1, Some(1), None)]
        );
        // Two roles; one role that also reads; two threads of one role; a set with nil.
        assert_eq!(found(&["1w1 2r3", "4w2 2r3"], &by_number), []);
        assert_eq!(found(&branches, &|_, _| 0), []);
        assert_eq!(found(&["1w1 4w2 2r3", "4w2 1w1 2r3"], &|_, thread| u32::from(thread == 2)), []);
        assert_eq!(found(&["1w1 2r3", "1w2 2r3", "2r3"], &by_number), []);
        // One member is the paper's.
        assert_eq!(found(&["1w1 2r3"], &by_number), []);
    }
}
