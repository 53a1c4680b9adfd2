//! The search on two variables: atomic sets (sections 3 and 5.2).
//!
//! All variables that are accessed in one atomic region belong together, so each access is paired with the last few
//! different accesses of its thread that it shares a region with. Pairs that are alike form a unit, as in
//! [`super::search`]; units of different threads on the same two variables are compared once, and then their latest
//! instances whenever one of them gets a new one.
//!
//! What is missed: pairs with more than [`WINDOW`] other accesses between; instances other than the latest where
//! the two regions overlap in the history; what the limits below cut off, which is counted.

use crate::history::{EventNo, Op};

use super::candidates::{Finds, Offer};
use super::graph::{Graph, Scope};
use super::hash::Map;
use super::lockset::LocksetNo;
use super::order::Strength;
use super::plan::{PlanNo, Plans, act, acts4};

/// With how many earlier accesses of its thread an access is paired.
pub const WINDOW: usize = 8;
/// How many pairs of variables are kept.
pub const MAX_PAIRS_OF_VARIABLES: usize = 1 << 20;
/// How many pairs of variables that were first met at the same two locations are kept.
pub const MAX_PAIRS_AT_LOCATIONS: u32 = 64;
/// How many units two variables may have.
pub const MAX_UNITS: usize = 32;

/// An access that a thread made not long ago.
#[derive(Clone, Copy, Debug)]
struct Recent {
    event: EventNo,
    variable: u32,
    location: u32,
    op: Op,
}

/// Pairs of accesses that are alike.
#[derive(Debug)]
struct Unit {
    thread: u16,
    /// Whether the first access is of the variable with the smaller number.
    upwards: bool,
    scope: Scope,
    ops: [Op; 2],
    locations: [u32; 2],
    locksets: [LocksetNo; 2],
    gap: LocksetNo,
    last: [EventNo; 2],
    links: Vec<Link>,
}

/// Another unit and what is looked for with it.
#[derive(Debug)]
struct Link {
    unit: u32,
    strength: Strength,
    quiet: EventNo,
    wanted: Vec<(Form, PlanNo)>,
}

/// How the events of two units follow each other: of which unit each is, 0 for the one whose link it is.
type Form = [u8; 4];

const OUTER: Form = [0, 1, 1, 0];
const INNER: Form = [1, 0, 0, 1];
const FIRST: Form = [0, 1, 0, 1];
const SECOND: Form = [1, 0, 1, 0];

/// The events of two units in the order of a form.
fn arrange<T: Copy>(form: Form, mine: [T; 2], theirs: [T; 2]) -> [T; 4] {
    let units = [mine, theirs];
    let mut used = [0; 2];
    form.map(|unit| {
        let unit = usize::from(unit);
        used[unit] += 1;
        units[unit][used[unit] - 1]
    })
}

/// The search, with its working memory.
#[derive(Debug)]
pub(crate) struct Sets<'a, 'h> {
    graph: &'a Graph<'h>,
    plans: &'a Plans,
    finds: &'a mut Finds,
    /// The last accesses of each thread, the latest last.
    recent: Vec<Vec<Recent>>,
    index: Map<u64, u32>,
    pairs: Vec<Vec<Unit>>,
    at_locations: Map<u64, u32>,
}

impl<'a, 'h> Sets<'a, 'h> {
    pub(crate) fn new(graph: &'a Graph<'h>, plans: &'a Plans, finds: &'a mut Finds) -> Sets<'a, 'h> {
        Sets {
            graph,
            plans,
            finds,
            recent: vec![Vec::with_capacity(WINDOW + 1); graph.history.threads as usize],
            index: Map::default(),
            pairs: Vec::new(),
            at_locations: Map::default(),
        }
    }

    /// Searches the whole history.
    pub(crate) fn run(&mut self) {
        if !self.plans.any_sets {
            return;
        }
        let history = self.graph.history;
        for (number, event) in history.events.iter().enumerate() {
            if event.op.is_access() && self.graph.contended(event.target) {
                let access =
                    Recent { event: number as EventNo, variable: event.target, location: event.location, op: event.op };
                self.access(event.thread, access);
            }
        }
    }

    fn access(&mut self, thread: u16, access: Recent) {
        let mut recent = std::mem::take(&mut self.recent[usize::from(thread)]);
        let mut like = None;
        for (at, earlier) in recent.iter().enumerate() {
            if earlier.variable != access.variable {
                if let Some(scope) = self.graph.scope(earlier.event, access.event) {
                    self.pair(thread, *earlier, access, scope);
                }
            } else if earlier.location == access.location && earlier.op == access.op {
                like = Some(at);
            }
        }
        if let Some(at) = like {
            recent.remove(at);
        } else if recent.len() == WINDOW {
            recent.remove(0);
        }
        recent.push(access);
        self.recent[usize::from(thread)] = recent;
    }

    fn pair(&mut self, thread: u16, first: Recent, second: Recent, scope: Scope) {
        let upwards = first.variable < second.variable;
        let key = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let variables = key(first.variable.min(second.variable), first.variable.max(second.variable));
        let pair = match self.index.get(&variables) {
            Some(pair) => *pair as usize,
            None => {
                let met = self.at_locations.entry(key(first.location, second.location)).or_insert(0);
                if *met == MAX_PAIRS_AT_LOCATIONS || self.pairs.len() == MAX_PAIRS_OF_VARIABLES {
                    self.finds.dropped.variables += 1;
                    return;
                }
                *met += 1;
                self.index.insert(variables, self.pairs.len() as u32);
                self.pairs.push(Vec::new());
                self.pairs.len() - 1
            }
        };
        let events = [first.event, second.event];
        let (ops, locations) = ([first.op, second.op], [first.location, second.location]);
        let locksets = events.map(|event| self.graph.lockset(event));
        let gap = self.graph.gap(first.event, second.event);
        let known = self.pairs[pair].iter().position(|unit| {
            unit.locations == locations
                && unit.thread == thread
                && unit.upwards == upwards
                && unit.ops == ops
                && unit.scope == scope
                && unit.gap == gap
                && unit.locksets == locksets
        });
        let unit = match known {
            Some(unit) => unit,
            None if self.pairs[pair].len() == MAX_UNITS => {
                self.finds.dropped.units += 1;
                return;
            }
            None => {
                let links = Vec::new();
                let unit = Unit { thread, upwards, scope, ops, locations, locksets, gap, last: events, links };
                self.introduce(pair, unit)
            }
        };
        self.pairs[pair][unit].last = events;
        self.compare(pair, unit);
    }

    /// Adds a unit and links it with those of other threads, both ways.
    fn introduce(&mut self, pair: usize, mut new: Unit) -> usize {
        let units = &mut self.pairs[pair];
        let number = units.len();
        for (other_number, other) in units.iter_mut().enumerate().filter(|(_, other)| other.thread != new.thread) {
            let atomic = new.ops.iter().chain(&other.ops).any(|op| op.is_atomic());
            let strength = if atomic { Strength::Firm } else { Strength::Full };
            let link = |mine: &Unit, theirs: &Unit, unit: usize| {
                let wanted = wanted(self.graph, self.plans, mine, theirs);
                (!wanted.is_empty()).then_some(Link { unit: unit as u32, strength, quiet: 0, wanted })
            };
            let (there, here) = (link(&new, other, other_number), link(other, &new, number));
            new.links.extend(there);
            other.links.extend(here);
        }
        units.push(new);
        number
    }

    /// Compares a unit that has a new instance with the others.
    fn compare(&mut self, pair: usize, unit: usize) {
        let mut links = std::mem::take(&mut self.pairs[pair][unit].links);
        let mine = self.pairs[pair][unit].last;
        let mut done = false;
        for link in links.iter_mut().filter(|link| mine[1] >= link.quiet) {
            let theirs = self.pairs[pair][link.unit as usize].last;
            let mut wait = u32::MAX;
            link.wanted.retain(|(form, plan)| {
                let events = arrange(*form, mine, theirs);
                // Nothing may be ordered before what it is to follow.
                let possible = (0..4).all(|i| {
                    (i + 1..4)
                        .all(|j| form[i] == form[j] || !self.graph.order.before(events[j], events[i], link.strength))
                });
                if !possible {
                    wait = 1;
                    return true;
                }
                match self.finds.offer(self.graph, *plan, &events) {
                    Offer::Later(apart) => {
                        wait = wait.min(apart);
                        true
                    }
                    Offer::Enough => false,
                }
            });
            link.quiet = mine[1].saturating_add(wait);
            done |= link.wanted.is_empty();
        }
        if done {
            links.retain(|link| !link.wanted.is_empty());
        }
        self.pairs[pair][unit].links = links;
    }
}

/// The forms in which two units may follow each other as far as their accesses and locks go, and the patterns they fit.
fn wanted(graph: &Graph<'_>, plans: &Plans, mine: &Unit, theirs: &Unit) -> Vec<(Form, PlanNo)> {
    let scope = mine.scope.max(theirs.scope) as usize;
    let compatible = |gap, lockset| graph.locksets.compatible(gap, lockset);
    let around = |outer: &Unit, inner: &Unit| inner.locksets.iter().all(|lockset| compatible(outer.gap, *lockset));
    let across = |first: &Unit, second: &Unit| {
        compatible(first.gap, second.locksets[0]) && compatible(second.gap, first.locksets[1])
    };
    let forms: &[(Form, usize, bool)] = if mine.upwards == theirs.upwards {
        &[(OUTER, 0, around(mine, theirs)), (INNER, 0, around(theirs, mine))]
    } else {
        &[
            (OUTER, 1, around(mine, theirs)),
            (INNER, 1, around(theirs, mine)),
            (FIRST, 2, across(mine, theirs)),
            (SECOND, 2, across(theirs, mine)),
        ]
    };
    let mut wanted = Vec::new();
    for (form, arrangement, _) in forms.iter().filter(|(_, _, possible)| *possible) {
        let acts = arrange(*form, mine.ops, theirs.ops).map(act);
        wanted.extend(plans.sets[*arrangement][scope][acts4(acts)].iter().map(|plan| (*form, *plan)));
    }
    wanted
}
