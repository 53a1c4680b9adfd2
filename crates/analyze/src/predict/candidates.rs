//! What the search found: one candidate for each pattern and tuple of source locations, with a few places in the history
//! where it may be brought about, because one of them may turn out to be impossible.

use selvedge_findings::Kind;

use super::graph::{Graph, Scope};
use super::hash::Map;
use super::patterns::Pattern;
use super::plan::{PlanNo, of_plan};
use crate::history::EventNo;
use crate::prediction::{Goal, Prediction};

/// Something to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What sort of bug.
    pub kind: Kind,
    /// The name of the pattern, with its scope.
    pub pattern: String,
    /// Where its regions are; `None` where it has none.
    pub scope: Option<Scope>,
    /// The source locations of its events, in the order that goes wrong: no two candidates of a pattern share them.
    pub locations: Vec<u32>,
    /// Where in the history, the closest first: one to three.
    pub goals: Vec<Goal>,
    /// Whether the order of the first goal is the one that happened, or a race's two events did follow each other.
    pub seen: bool,
    /// How far apart in the history the events of the first goal are.
    pub span: u32,
    /// Whether locks are not nested around the events of the first goal.
    pub unnested: bool,
}

impl Candidate {
    /// One of its goals as a prediction that nothing proves.
    pub fn prediction(&self, goal: &Goal) -> Prediction {
        Prediction {
            kind: self.kind,
            pattern: self.pattern.clone(),
            goal: goal.clone(),
            proof: None,
            unnested: self.unnested,
        }
    }
}

/// What was left out because of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Sorts of access to one variable beyond [`super::search::MAX_GROUPS`] and [`super::search::MAX_THREADS`], counted
    /// by access.
    pub groups: u64,
    /// Sorts of pairs in one region beyond [`super::search::MAX_UNITS`], counted by pair.
    pub units: u64,
    /// Comparisons beyond [`super::search::MAX_CHECKS`] for one access.
    pub checks: u64,
    /// Pairs of variables beyond [`super::sets::MAX_PAIRS_OF_VARIABLES`] or
    /// [`super::sets::MAX_PAIRS_AT_LOCATIONS`], counted by pair of accesses.
    pub variables: u64,
    /// Steps of the search for patterns of unusual shape beyond [`super::general::MAX_STEPS`], counted by pattern.
    pub general: u64,
    /// Location tuples beyond the limit of a pattern, counted as often as met, or once for sorts of access that were
    /// not compared any more.
    pub candidates: u64,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Kept, or too like what is kept already; look again so many events on.
    Later(u32),
    /// No more are wanted of these locations.
    Enough,
}

/// How far, in events, a further instance must be from the first to be worth keeping.
const APART: [u32; 3] = [0, 32, 1024];

#[derive(Debug)]
struct Found {
    plan: PlanNo,
    /// The events of each instance.
    instances: Vec<Vec<EventNo>>,
}

/// Candidates while they are collected.
#[derive(Debug)]
pub(crate) struct Finds {
    found: Vec<Found>,
    /// By plan and up to four locations, two in a word.
    short: Map<(PlanNo, u64, u64), u32>,
    long: Map<(PlanNo, Box<[u32]>), u32>,
    per_pattern: Vec<u32>,
    limit: u32,
    pub(crate) dropped: Dropped,
}

impl Finds {
    pub(crate) fn new(patterns: usize, limit: u32) -> Finds {
        Finds {
            found: Vec::new(),
            short: Map::default(),
            long: Map::default(),
            per_pattern: vec![0; patterns],
            limit,
            dropped: Dropped::default(),
        }
    }

    /// Whether a pattern has as many location tuples as are kept.
    pub(crate) fn full(&self, plan: PlanNo) -> bool {
        self.per_pattern[of_plan(plan).0] >= self.limit
    }

    /// Events that fit a pattern, in its order.
    pub(crate) fn offer(&mut self, graph: &Graph<'_>, plan: PlanNo, events: &[EventNo]) -> Offer {
        let location = |event: EventNo| graph.event(event).location;
        let mut short = [u32::MAX; 4];
        let mut long = None;
        if events.len() <= short.len() {
            for (at, event) in short.iter_mut().zip(events) {
                *at = location(*event);
            }
        } else {
            long = Some((plan, events.iter().map(|event| location(*event)).collect::<Box<[u32]>>()));
        }
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let short = (plan, word(short[0], short[1]), word(short[2], short[3]));
        let known = match &long {
            None => self.short.get(&short),
            Some(long) => self.long.get(long),
        };
        let Some(&index) = known else {
            if self.full(plan) {
                self.dropped.candidates += 1;
                return Offer::Enough;
            }
            self.per_pattern[of_plan(plan).0] += 1;
            let index = self.found.len() as u32;
            match long {
                None => self.short.insert(short, index),
                Some(long) => self.long.insert(long, index),
            };
            self.found.push(Found { plan, instances: vec![events.to_vec()] });
            return Offer::Later(APART[1]);
        };
        let found = &mut self.found[index as usize];
        let kept = found.instances.len();
        if kept >= APART.len() {
            return Offer::Enough;
        }
        let wait = found.instances.iter().map(|other| {
            let elsewhere = graph.event(events[0]).target != graph.event(other[0]).target
                || events.iter().zip(other).any(|(a, b)| graph.event(*a).thread != graph.event(*b).thread);
            if elsewhere { 0 } else { APART[kept].saturating_sub(events[0].abs_diff(other[0])) }
        });
        let wait = wait.max().unwrap_or(0);
        if wait > 0 {
            return Offer::Later(wait);
        }
        found.instances.push(events.to_vec());
        if kept + 1 == APART.len() { Offer::Enough } else { Offer::Later(APART[kept + 1]) }
    }

    /// What was found: by kind, scope and closeness.
    pub(crate) fn into_candidates(self, graph: &Graph<'_>, patterns: &[Pattern]) -> (Vec<Candidate>, Dropped) {
        let candidate = |mut found: Found| {
            let (index, scope) = of_plan(found.plan);
            let pattern = &patterns[index];
            found.instances.sort_by_key(|events| span(events));
            let first = &found.instances[0];
            let goals = found.instances.iter().map(|events| match (pattern.adjacent, &**events) {
                (true, [a, b]) => Goal::Race(*a, *b),
                _ => Goal::Order(events.clone()),
            });
            let (low, high) = ends(first);
            Candidate {
                kind: pattern.kind,
                pattern: pattern.name_in(scope),
                scope,
                locations: first.iter().map(|event| graph.event(*event).location).collect(),
                goals: goals.collect(),
                seen: if pattern.adjacent { first[0] + 1 == first[1] } else { first.is_sorted() },
                span: span(first),
                unnested: first.iter().any(|event| {
                    let from = graph.outermost_lock(*event).unwrap_or(low).min(low);
                    graph.unnested(graph.event(*event).thread, from, high)
                }),
            }
        };
        let mut candidates: Vec<(usize, Candidate)> =
            self.found.into_iter().map(|found| (of_plan(found.plan).0, candidate(found))).collect();
        candidates.sort_by(|(i, a), (j, b)| {
            (a.kind, a.scope, i, a.span, &a.locations, &a.goals).cmp(&(
                b.kind,
                b.scope,
                j,
                b.span,
                &b.locations,
                &b.goals,
            ))
        });
        (candidates.into_iter().map(|(_, candidate)| candidate).collect(), self.dropped)
    }
}

fn ends(events: &[EventNo]) -> (EventNo, EventNo) {
    events.iter().fold((EventNo::MAX, 0), |(low, high), event| (low.min(*event), high.max(*event)))
}

fn span(events: &[EventNo]) -> u32 {
    let (low, high) = ends(events);
    high - low
}
