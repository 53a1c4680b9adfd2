//! The search against plain definitions on small random histories, and schedules against their rules.

use std::collections::BTreeSet;

use proptest::prelude::*;
use selvedge_findings::Kind;

use super::rules::{broken, possible, reaches};
use crate::history::{Event, EventNo, History, Op};
use crate::predict::patterns::{Access, At, Shape, standard};
use crate::predict::sets::WINDOW;
use crate::predict::text::show;
use crate::predict::{Graph, Options, Pattern, Scheduler, Scope, predict};
use crate::prediction::Goal;

/// What may happen in a history.
#[derive(Clone, Copy, Debug)]
struct Sort {
    threads: u16,
    variables: u32,
    locks: u32,
    atomics: bool,
    posts: bool,
    /// Threads are made and awaited, wait for conditions, announce regions, and take steps of several events.
    rich: bool,
}

/// A history from dice: each step chooses a thread and an operation that is possible then. Locks are nested.
fn history(sort: Sort, dice: &[(u8, u8, u8, u8)]) -> History {
    let mut history = History {
        threads: u32::from(sort.threads),
        variables: sort.variables,
        locks: sort.locks,
        objects: 3,
        locations: 64,
        ..History::default()
    };
    let mut holders: Vec<Vec<(u16, bool)>> = vec![Vec::new(); sort.locks as usize];
    let mut stacks: Vec<Vec<(u32, bool)>> = vec![Vec::new(); usize::from(sort.threads)];
    let threads = usize::from(sort.threads);
    let (mut begun, mut ended) = (vec![!sort.rich; threads], vec![false; threads]);
    begun[0] = true;
    // What a thread waits for, and whether it was woken.
    let mut waiting: Vec<Option<(u32, bool)>> = vec![None; threads];
    let mut announced = vec![false; threads];
    for &(thread, what, target, place) in dice {
        let thread = u16::from(thread) % sort.threads;
        let me = usize::from(thread);
        if ended[me] {
            continue;
        }
        if !begun[me] {
            begun[me] = true;
            history.sources.push(history.len() as u64);
            history.events.push(Event::new(0, Op::Fork, u32::from(thread), 40));
            if ended[0] {
                ended[me] = true;
            }
            continue;
        }
        let lock = u32::from(target) % sort.locks;
        let variable = u32::from(target) % sort.variables;
        let place = u32::from(place) % 3;
        let stack = &mut stacks[usize::from(thread)];
        let (op, target) = match what % 16 {
            0..=2 => {
                let shared = what % 16 == 2;
                let holders = &mut holders[lock as usize];
                let free = if shared { holders.iter().all(|(_, shared)| *shared) } else { holders.is_empty() };
                if !free || stack.iter().any(|(held, _)| *held == lock) {
                    continue;
                }
                holders.push((thread, shared));
                stack.push((lock, shared));
                (if shared { Op::AcquireShared } else { Op::Acquire }, lock)
            }
            3..=5 => {
                let Some((lock, shared)) = stack.pop() else { continue };
                holders[lock as usize].retain(|(holder, _)| *holder != thread);
                (if shared { Op::ReleaseShared } else { Op::Release }, lock)
            }
            _ if waiting[me].is_some() => match waiting[me].take() {
                Some((object, true)) => (Op::Woken, object),
                unwoken => {
                    waiting[me] = unwoken;
                    continue;
                }
            },
            13 if sort.rich => match place {
                0 => {
                    waiting[me] = Some((2, false));
                    (Op::Wait, 2)
                }
                1 => {
                    waiting.iter_mut().flatten().for_each(|wait| wait.1 = true);
                    (Op::Broadcast, 2)
                }
                _ => {
                    announced[me] = !announced[me];
                    (if announced[me] { Op::Enter } else { Op::Exit }, 0)
                }
            },
            14 if sort.rich && place == 0 => {
                let child = variable as usize + 1;
                if thread != 0 || child >= threads || !begun[child] || ended[child] || waiting[child].is_some() {
                    continue;
                }
                ended[child] = true;
                (Op::Join, child as u32)
            }
            6 if sort.posts => (if place == 0 { Op::Take } else { Op::Post }, lock % 2),
            7 if sort.atomics => ([Op::AtomicRead, Op::AtomicWrite, Op::AtomicUpdate][place as usize], variable),
            8..=11 => (Op::Read, variable),
            _ => (Op::Write, variable),
        };
        // An instruction does one thing.
        let location = op as u32 * 3 + place;
        let before = history.events.last();
        let together =
            sort.rich && place == 2 && op.is_access() && before.is_some_and(|e| e.thread == thread && e.op.is_access());
        let number = history.len() as u64;
        history.sources.push(if together { history.sources[history.len() - 1] } else { number });
        history.events.push(Event::new(thread, op, target, location));
    }
    history
}

fn dice(most: usize) -> impl Strategy<Value = Vec<(u8, u8, u8, u8)>> {
    proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 0..most)
}

/// The partial order by closure over its edges.
fn closure(history: &History, atomics: bool) -> Vec<Vec<bool>> {
    let events = &history.events;
    let mut before = vec![vec![false; events.len()]; events.len()];
    for j in 0..events.len() {
        for i in 0..j {
            let (a, b) = (&events[i], &events[j]);
            let posted = matches!(a.op, Op::Post | Op::Signal | Op::Broadcast)
                && matches!(b.op, Op::Take | Op::Woken)
                && a.target == b.target;
            let read = atomics
                && b.op.is_atomic()
                && b.op.reads()
                && a.op.is_atomic()
                && a.op.writes()
                && a.target == b.target
                && events[i + 1..j].iter().all(|c| !(c.op.writes() && c.target == b.target));
            let made = a.op == Op::Fork && a.target == u32::from(b.thread);
            let awaited = b.op == Op::Join && b.target == u32::from(a.thread);
            before[i][j] = a.thread == b.thread || posted || read || made || awaited;
        }
        for i in 0..j {
            for k in i + 1..j {
                if before[i][k] && before[k][j] {
                    before[i][j] = true;
                }
            }
        }
    }
    before
}

/// The locks that a thread holds when it comes to each event.
fn held(history: &History) -> Vec<Vec<(u32, bool)>> {
    let mut threads = vec![Vec::new(); history.threads as usize];
    let mut all = Vec::new();
    for event in &history.events {
        let held: &mut Vec<(u32, bool)> = &mut threads[usize::from(event.thread)];
        all.push(held.clone());
        if event.op.acquires() {
            held.push((event.target, event.op == Op::AcquireShared));
        } else if event.op.releases() {
            held.retain(|(lock, _)| *lock != event.target);
        }
    }
    all
}

fn compatible(a: &[(u32, bool)], b: &[(u32, bool)]) -> bool {
    a.iter().all(|(lock, shared)| b.iter().all(|(other, too)| lock != other || *shared && *too))
}

/// What is to be found, by trying all events for all steps.
struct Naive<'h> {
    history: &'h History,
    graph: Graph<'h>,
    full: Vec<Vec<bool>>,
    firm: Vec<Vec<bool>>,
    held: Vec<Vec<(u32, bool)>>,
    found: BTreeSet<(String, Vec<u32>)>,
}

impl Naive<'_> {
    fn event(&self, event: usize) -> &Event {
        &self.history.events[event]
    }

    /// Whether events can come in an order as far as the partial order goes.
    fn free(&self, events: &[usize]) -> bool {
        let atomic = events.iter().any(|event| self.event(*event).op.is_atomic());
        let order = if atomic { &self.firm } else { &self.full };
        (0..events.len()).all(|i| {
            (i + 1..events.len())
                .all(|j| self.event(events[i]).thread == self.event(events[j]).thread || !order[events[j]][events[i]])
        })
    }

    /// Whether a thread can be at some place between two of its events while another is at an event.
    fn room(&self, first: usize, second: usize, event: usize) -> bool {
        let thread = self.event(first).thread;
        (first..=second)
            .filter(|at| self.event(*at).thread == thread && *at > first || *at == first)
            .any(|at| compatible(&self.held[at], &self.held[event]))
    }

    fn scope(&self, first: usize, second: usize) -> Option<Scope> {
        self.graph.scope(first as EventNo, second as EventNo)
    }

    /// Of those patterns of a kind that events fit, the first.
    fn fitting<'p>(&self, patterns: &'p [Pattern], shape: Shape, events: &[usize]) -> Option<&'p Pattern> {
        patterns.iter().filter(|pattern| pattern.shape() == shape).find(|pattern| {
            pattern.steps.iter().zip(events).all(|(step, event)| step.access.fits(self.event(*event).op))
        })
    }

    fn pairs(&mut self, patterns: &[Pattern]) {
        let count = self.history.len();
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            let (x, y) = (*self.event(a), *self.event(b));
            if a == b || !x.conflicts(&y) {
                continue;
            }
            let race = x.could_race(&y) && compatible(&self.held[a], &self.held[b]);
            let unordered = |order: &Vec<Vec<bool>>| !order[a][b] && !order[b][a];
            let loose = if x.op.is_atomic() || y.op.is_atomic() { &self.firm } else { &self.full };
            let (full, loose) = (unordered(&self.full), unordered(loose));
            let variable = x.target;
            let (first, last) = (self.graph.first_write(variable), self.graph.last_write(variable));
            // Of each kind the first is taken, and of those with a first or a last write.
            let mut taken: Vec<(Kind, [At; 2])> = Vec::new();
            for pattern in patterns.iter().filter(|pattern| pattern.shape() == Shape::Pair) {
                let anchors = [pattern.steps[0].at, pattern.steps[1].at];
                let anchored = anchors != [At::Any; 2];
                let at = |step: usize, event: usize| match pattern.steps[step].at {
                    At::Any => true,
                    At::First => first == Some(event as EventNo),
                    At::Last => last == Some(event as EventNo),
                };
                let fits =
                    pattern.steps[0].access.fits(x.op) && pattern.steps[1].access.fits(y.op) && at(0, a) && at(1, b);
                if !fits || taken.contains(&(pattern.kind, anchors)) {
                    continue;
                }
                let possible = (if pattern.adjacent { race && full } else { loose })
                    && !(pattern.unless_race && race)
                    && !(pattern.reordered && a < b)
                    && !(pattern.distinct && x.location == y.location);
                if possible {
                    self.found.insert((pattern.name.clone(), vec![x.location, y.location]));
                }
                if possible || !anchored {
                    taken.push((pattern.kind, anchors));
                }
            }
        }
    }

    fn triples(&mut self, patterns: &[Pattern]) {
        let count = self.history.len();
        for q in 0..count {
            let y = *self.event(q);
            if !y.op.is_access() || !self.graph.contended(y.target) {
                continue;
            }
            let earlier = |event: &usize| {
                let x = self.event(*event);
                x.thread == y.thread && x.op.is_access() && x.target == y.target
            };
            let mut firsts: BTreeSet<usize> = BTreeSet::new();
            firsts.extend((0..q).rev().filter(earlier).find(|event| self.event(*event).op.reads()));
            firsts.extend((0..q).rev().filter(earlier).find(|event| self.event(*event).op.writes()));
            firsts.extend((0..q).filter(earlier).find(|event| self.scope(*event, q) == Some(Scope::Region)));
            for p in firsts {
                let Some(scope) = self.scope(p, q) else { continue };
                for r in 0..count {
                    let x = *self.event(r);
                    if x.thread == y.thread || !x.op.is_access() || x.target != y.target {
                        continue;
                    }
                    let Some(pattern) = self.fitting(patterns, Shape::Triple, &[p, r, q]) else { continue };
                    if self.free(&[p, r, q]) && self.room(p, q, r) {
                        let locations = [p, r, q].map(|event| self.event(event).location).to_vec();
                        self.found.insert((pattern.name_in(Some(scope)), locations));
                    }
                }
            }
        }
    }

    /// All pairs of accesses in one region that are close enough.
    fn units(&self) -> Vec<(usize, usize, Scope)> {
        let mut units = Vec::new();
        for q in 0..self.history.len() {
            let y = *self.event(q);
            if !y.op.is_access() || !self.graph.contended(y.target) {
                continue;
            }
            let mut kinds = BTreeSet::new();
            for p in (0..q).rev() {
                let x = *self.event(p);
                if x.thread != y.thread || !x.op.is_access() || !self.graph.contended(x.target) {
                    continue;
                }
                let mut held = self.held[p].clone();
                held.sort_unstable();
                if !kinds.insert((x.target, x.location, x.op, held)) || kinds.len() > WINDOW {
                    continue;
                }
                if x.target != y.target
                    && let Some(scope) = self.scope(p, q)
                {
                    units.push((p, q, scope));
                }
            }
        }
        units
    }

    fn sets(&mut self, patterns: &[Pattern]) {
        let units = self.units();
        for &(p, q, outer) in &units {
            for &(r, s, inner) in &units {
                let (x, y) = (*self.event(p), *self.event(r));
                let same = x.target == y.target && self.event(q).target == self.event(s).target;
                let turned = x.target == self.event(s).target && y.target == self.event(q).target;
                if x.thread == y.thread || !(same || turned) {
                    continue;
                }
                let around = self.room(p, q, r) && self.room(p, q, s);
                let across = self.room(p, q, r) && self.room(r, s, q);
                let forms = [
                    (Shape::Nested, [p, r, s, q], same && around),
                    (Shape::Reversed, [p, r, s, q], turned && around),
                    (Shape::Crossed, [p, r, q, s], turned && across),
                ];
                for (shape, events, possible) in forms {
                    let Some(pattern) = self.fitting(patterns, shape, &events) else { continue };
                    if possible && self.free(&events) {
                        let locations = events.map(|event| self.event(event).location).to_vec();
                        self.found.insert((pattern.name_in(Some(outer.max(inner))), locations));
                    }
                }
            }
        }
    }
}

fn naive(history: &History, kinds: &[Kind]) -> BTreeSet<(String, Vec<u32>)> {
    let patterns = standard();
    let options = Options::default();
    let mut naive = Naive {
        history,
        graph: Graph::new(history, options.near),
        full: closure(history, true),
        firm: closure(history, false),
        held: held(history),
        found: BTreeSet::new(),
    };
    for kind in kinds {
        match kind {
            Kind::DataRace => naive.pairs(&patterns),
            Kind::AtomicityViolation => naive.triples(&patterns),
            Kind::AtomicSetViolation => naive.sets(&patterns),
            _ => {}
        }
    }
    naive.found
}

fn found(history: &History, kinds: &[Kind]) -> BTreeSet<(String, Vec<u32>)> {
    let found = predict(history, &Options::default());
    assert_eq!(found.dropped, Default::default());
    let candidates = found.candidates.into_iter().filter(|candidate| kinds.contains(&candidate.kind));
    candidates.map(|candidate| (candidate.pattern, candidate.locations)).collect()
}

fn same(history: &History, kinds: &[Kind]) -> Result<(), TestCaseError> {
    let (found, naive) = (found(history, kinds), naive(history, kinds));
    let more: Vec<_> = found.difference(&naive).collect();
    let fewer: Vec<_> = naive.difference(&found).collect();
    prop_assert!(more.is_empty() && fewer.is_empty(), "more {more:?}, fewer {fewer:?} in {}", show(history));
    Ok(())
}

const SMALL: Sort = Sort { threads: 3, variables: 2, locks: 2, atomics: true, posts: true, rich: false };
const RICH: Sort = Sort { rich: true, ..SMALL };

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pairs(dice in dice(40)) {
        let history = history(RICH, &dice);
        let kinds = [Kind::DataRace, Kind::OrderViolation];
        same(&history, &kinds)?;
    }

    #[test]
    fn triples(dice in dice(40)) {
        let history = history(RICH, &dice);
        let kinds = [Kind::AtomicityViolation];
        same(&history, &kinds)?;
    }

    /// Of overlapping regions only the latest instances are compared, which matters where something orders them.
    #[test]
    fn sets(dice in dice(28)) {
        let kinds = [Kind::AtomicSetViolation];
        let plain = history(Sort { atomics: false, posts: false, ..SMALL }, &dice);
        same(&plain, &kinds)?;
        let ordered = history(RICH, &dice);
        let (found, naive) = (found(&ordered, &kinds), naive(&ordered, &kinds));
        let more: Vec<_> = found.difference(&naive).collect();
        prop_assert!(more.is_empty(), "{more:?} in {}", show(&ordered));
    }

    /// Every schedule obeys the rules and reaches its goal.
    #[test]
    fn schedules(dice in dice(60)) {
        let history = history(RICH, &dice);
        let graph = Graph::new(&history, 256);
        let scheduler = Scheduler::new(&graph);
        for candidate in predict(&history, &Options::default()).candidates {
            for goal in &candidate.goals {
                if let Some(order) = scheduler.schedule(goal) {
                    prop_assert_eq!(broken(&history, &order, false), None, "{}", show(&history));
                    prop_assert!(reaches(&history, &order, goal), "{:?}: {:?} in {}", goal, order, show(&history));
                }
            }
        }
    }

    /// What some order reaches, a schedule reaches: with nested locks.
    #[test]
    fn schedules_miss_nothing(dice in dice(18)) {
        let history = history(RICH, &dice);
        let graph = Graph::new(&history, 256);
        let scheduler = Scheduler::new(&graph);
        for candidate in predict(&history, &Options::default()).candidates.iter().take(12) {
            for goal in &candidate.goals {
                let missed = scheduler.schedule(goal).is_none() && possible(&history, goal);
                prop_assert!(!missed, "{goal:?} in {}", show(&history));
            }
        }
    }

    /// The same history gives the same answer.
    #[test]
    fn determinism(dice in dice(60)) {
        let history = history(SMALL, &dice);
        let options = Options::default();
        prop_assert_eq!(predict(&history, &options), predict(&history, &options));
    }
}

/// Two pairs of one unit end with the same access: that one of them has no room must not hide the other.
#[test]
fn the_first_of_a_region_is_not_hidden_by_the_last() {
    let event = |thread, op, target, location| Event::new(thread, op, target, location);
    let events = vec![
        event(0, Op::Fork, 2, 40),
        event(2, Op::Read, 1, 0),
        event(0, Op::Acquire, 0, 18),
        event(0, Op::Write, 1, 4),
        event(2, Op::AtomicWrite, 0, 10),
        event(0, Op::AtomicUpdate, 0, 14),
        event(0, Op::Write, 1, 4),
        event(0, Op::Write, 1, 5),
    ];
    let sources = (0..events.len() as u64).collect();
    let history = History { threads: 3, variables: 2, locks: 1, events, sources, ..History::default() };
    let kinds = [Kind::AtomicityViolation];
    assert!(naive(&history, &kinds).contains(&("W-R-W".to_owned(), vec![4, 0, 5])));
    same(&history, &kinds).expect("the same");
}

/// A thread goes on to where it is held before another takes for good the lock that it needs on its way.
#[test]
fn what_is_due_next_lets_others_go_on() {
    let text = crate::predict::text::parse;
    let history = text("T1 ar y; T1 acq l; T1 rel l; T1 ar x; T2 aw x; T2 acq l; T2 w y");
    let goal = Goal::Order(vec![4, 0, 6, 3]);
    assert!(possible(&history, &goal));
    let graph = Graph::new(&history, 256);
    let order = Scheduler::new(&graph).schedule(&goal).expect("an order");
    assert_eq!(broken(&history, &order, false), None);
    assert!(reaches(&history, &order, &goal), "{order:?}");
}

/// A pattern in a user's form finds what the built-in one of the same shape does.
#[test]
fn general_patterns_agree_with_quick_ones() {
    let text = crate::predict::text::parse;
    let history = text("T0 r x; T0 w x; T1 r x; T1 w x; T2 acq l; T2 r x; T2 w x; T2 rel l");
    let quick = standard().into_iter().filter(|pattern| pattern.name == "R-W-W").collect::<Vec<_>>();
    // Nothing tells this from the other but that its steps must be of different places, which they are.
    let slow: Vec<Pattern> = quick.iter().cloned().map(|pattern| Pattern { distinct: true, ..pattern }).collect();
    assert_eq!((quick[0].shape(), slow[0].shape()), (Shape::Triple, Shape::General));
    let run = |patterns: Vec<Pattern>| {
        let found = predict(&history, &Options { patterns, ..Options::default() });
        let goals = found.candidates.into_iter().map(|candidate| candidate.goals[0].clone());
        goals.collect::<BTreeSet<Goal>>()
    };
    let (quick, slow) = (run(quick), run(slow));
    assert_eq!(quick, slow);
    assert_eq!(quick.len(), 6);
    assert!(Access::Any.fits(Op::Write));
}
