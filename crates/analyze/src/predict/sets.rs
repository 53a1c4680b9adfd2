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
use super::search::{NO_GROUP, patience};

/// With how many earlier accesses of its thread an access is paired.
pub const WINDOW: usize = 8;
/// How many pairs of variables are kept.
pub const MAX_PAIRS_OF_VARIABLES: usize = 1 << 19;
/// How many pairs of variables that were first met at the same two locations are kept.
pub const MAX_PAIRS_AT_LOCATIONS: u32 = 64;
/// How many units two variables may have.
pub const MAX_UNITS: usize = 64;
/// With how many other units a new instance is compared when little credit is left; they take turns.
pub const MAX_CHECKS: usize = 8;
/// How many units are kept.
pub const MAX_ALL_UNITS: usize = 1 << 20;
/// How much work there is to begin with, and how much each access adds. Looking up a pair and comparing two units
/// cost 1 each, a new unit [`NEW`].
/// A program repeats its pairs; a history that does not is not worth more.
pub const CREDIT: i64 = 4 << 20;
/// See [`CREDIT`].
pub const CREDIT_PER_ACCESS: i64 = 8;
/// See [`CREDIT`].
pub const NEW: i64 = 48;

/// An access that a thread made not long ago.
#[derive(Clone, Copy, Debug)]
struct Recent {
    event: EventNo,
    variable: u32,
    group: u32,
}

/// Pairs of accesses that are alike.
#[derive(Debug)]
struct Unit {
    thread: u16,
    /// Whether the first access is of the variable with the smaller number.
    upwards: bool,
    scope: Scope,
    ops: [Op; 2],
    locksets: [LocksetNo; 2],
    gap: LocksetNo,
    last: [EventNo; 2],
    links: Vec<Link>,
    turn: u32,
}

/// Another unit and what is looked for with it: for each of [`FORMS`] bits over [`Plans::sets`].
#[derive(Clone, Copy, Debug)]
struct Link {
    unit: u32,
    wanted: u32,
    quiet: EventNo,
    misses: u32,
    strength: Strength,
}

/// How the events of two units follow each other: of which unit each is, 0 for the one whose link it is.
type Form = [u8; 4];

/// Around the other, within it, and across it, before it or after it.
const FORMS: [Form; 4] = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0]];

/// How many patterns may fit one form.
const BITS: usize = 8;

/// The events of two units in the order of a form.
fn arrange<T: Copy>(form: Form, mine: [T; 2], theirs: [T; 2]) -> [T; 4] {
    let units = [mine, theirs];
    let first = usize::from(form[0]);
    let [a, b] = units[first];
    let [c, d] = units[1 - first];
    if form[1] == form[2] { [a, c, d, b] } else { [a, c, b, d] }
}

/// The search, with its working memory.
#[derive(Debug)]
pub(crate) struct Sets<'a, 'h> {
    graph: &'a Graph<'h>,
    plans: &'a Plans,
    /// The number of each event's group.
    groups: &'a [u32],
    finds: &'a mut Finds,
    /// The last accesses of each thread, the latest last.
    recent: Vec<Vec<Recent>>,
    units: Vec<Unit>,
    /// By the two groups, the fewest locks between them, and the scope.
    index: Map<(u64, u64), u32>,
    pairs: Map<u64, u32>,
    /// The units of each pair of variables.
    of_pair: Vec<Vec<u32>>,
    at_locations: Map<u64, u32>,
    credit: i64,
}

fn key(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

impl<'a, 'h> Sets<'a, 'h> {
    pub(crate) fn new(graph: &'a Graph<'h>, plans: &'a Plans, groups: &'a [u32], finds: &'a mut Finds) -> Sets<'a, 'h> {
        Sets {
            graph,
            plans,
            groups,
            finds,
            recent: vec![Vec::with_capacity(WINDOW + 1); graph.history.threads as usize],
            units: Vec::new(),
            index: Map::default(),
            pairs: Map::default(),
            of_pair: Vec::new(),
            at_locations: Map::default(),
            credit: CREDIT,
        }
    }

    /// Searches the whole history.
    pub(crate) fn run(&mut self) {
        if !self.plans.any_sets {
            return;
        }
        for (number, &group) in self.groups.iter().enumerate() {
            if group != NO_GROUP {
                let event = number as EventNo;
                let access = self.graph.event(event);
                self.access(access.thread, Recent { event, variable: access.target, group });
            }
        }
    }

    fn access(&mut self, thread: u16, access: Recent) {
        let mut recent = std::mem::take(&mut self.recent[usize::from(thread)]);
        let mut like = None;
        self.credit = (self.credit + CREDIT_PER_ACCESS).min(CREDIT);
        for (at, earlier) in recent.iter().enumerate().rev() {
            if earlier.variable != access.variable {
                if let Some(scope) = self.graph.scope(earlier.event, access.event) {
                    self.pair(*earlier, access, scope);
                }
            } else if earlier.group == access.group {
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

    fn pair(&mut self, first: Recent, second: Recent, scope: Scope) {
        if self.credit < 0 {
            self.finds.dropped.units += 1;
            return;
        }
        self.credit -= 1;
        let gap = self.graph.gap(first.event, second.event);
        let alike = (key(first.group, second.group), key(gap, scope as u32));
        let unit = match self.index.get(&alike) {
            Some(unit) => *unit,
            None => {
                let Some(unit) = self.unit(first, second, scope, gap) else { return };
                self.index.insert(alike, unit);
                unit
            }
        };
        self.units[unit as usize].last = [first.event, second.event];
        self.compare(unit as usize);
    }

    /// A new unit, if there is room.
    fn unit(&mut self, first: Recent, second: Recent, scope: Scope, gap: LocksetNo) -> Option<u32> {
        let variables = key(first.variable.min(second.variable), first.variable.max(second.variable));
        let events = [first.event, second.event];
        let [a, b] = events.map(|event| self.graph.event(event));
        let pair = match self.pairs.get(&variables) {
            Some(pair) => *pair as usize,
            None => {
                let met = self.at_locations.entry(key(a.location, b.location)).or_insert(0);
                if *met == MAX_PAIRS_AT_LOCATIONS || self.of_pair.len() == MAX_PAIRS_OF_VARIABLES {
                    self.finds.dropped.variables += 1;
                    return None;
                }
                *met += 1;
                self.pairs.insert(variables, self.of_pair.len() as u32);
                self.of_pair.push(Vec::new());
                self.of_pair.len() - 1
            }
        };
        if self.of_pair[pair].len() == MAX_UNITS || self.units.len() == MAX_ALL_UNITS {
            self.finds.dropped.units += 1;
            return None;
        }
        let mut new = Unit {
            thread: a.thread,
            upwards: first.variable < second.variable,
            scope,
            ops: [a.op, b.op],
            locksets: events.map(|event| self.graph.lockset(event)),
            gap,
            last: events,
            links: Vec::new(),
            turn: 0,
        };
        self.credit -= NEW;
        let number = self.units.len() as u32;
        for &other_number in &self.of_pair[pair] {
            let other = &mut self.units[other_number as usize];
            if other.thread == new.thread {
                continue;
            }
            let atomic = new.ops.iter().chain(&other.ops).any(|op| op.is_atomic());
            let strength = if atomic { Strength::Firm } else { Strength::Full };
            let (mine, theirs) = wanted(self.graph, self.plans, self.finds, &new, other);
            let link = |unit, wanted| Link { unit, wanted, quiet: 0, misses: 0, strength };
            if mine != 0 {
                new.links.push(link(other_number, mine));
                other.links.push(link(number, theirs));
            }
        }
        self.units.push(new);
        self.of_pair[pair].push(number);
        Some(number)
    }

    /// Compares a unit that has a new instance with the others.
    fn compare(&mut self, unit: usize) {
        if self.units[unit].links.is_empty() {
            return;
        }
        let mut links = std::mem::take(&mut self.units[unit].links);
        let mine = &self.units[unit];
        let mut turn = mine.turn as usize;
        let mut done = false;
        let checks = if self.credit > CREDIT / 2 { links.len() } else { links.len().min(MAX_CHECKS) };
        self.credit -= checks as i64;
        for _ in 0..checks {
            turn = if turn + 1 >= links.len() { 0 } else { turn + 1 };
            let link = &mut links[turn];
            if mine.last[1] < link.quiet {
                continue;
            }
            let theirs = &self.units[link.unit as usize];
            let mut wait = u32::MAX;
            for (number, form) in FORMS.into_iter().enumerate() {
                if link.wanted >> (number * BITS) & 0xff == 0 {
                    continue;
                }
                let events = arrange(form, mine.last, theirs.last);
                if !self.possible(form, events, link.strength) {
                    wait = wait.min(patience(&mut link.misses));
                    continue;
                }
                for (bit, plan) in patterns(self.plans, mine, theirs, number).iter().enumerate() {
                    let bit = 1 << (number * BITS + bit);
                    if link.wanted & bit != 0 {
                        match self.finds.offer(self.graph, *plan, &events) {
                            Offer::Later(apart) => wait = wait.min(apart),
                            Offer::Enough => link.wanted &= !bit,
                        }
                    }
                }
            }
            link.quiet = mine.last[1].saturating_add(wait);
            done |= link.wanted == 0;
        }
        self.finds.dropped.checks += (links.len() - checks) as u64;
        if done {
            links.retain(|link| link.wanted != 0);
        }
        let unit = &mut self.units[unit];
        (unit.links, unit.turn) = (links, turn as u32);
    }

    /// Whether no event is ordered before what it is to follow.
    fn possible(&self, form: Form, events: [EventNo; 4], strength: Strength) -> bool {
        (0..3)
            .all(|i| (i + 1..4).all(|j| form[i] == form[j] || !self.graph.order.before(events[j], events[i], strength)))
    }
}

/// The patterns that two units fit in a form.
fn patterns<'p>(plans: &'p Plans, mine: &Unit, theirs: &Unit, form: usize) -> &'p [PlanNo] {
    let scope = mine.scope.max(theirs.scope) as usize;
    let arrangement = match (mine.upwards == theirs.upwards, form) {
        (true, 0 | 1) => 0,
        (false, 0 | 1) => 1,
        (false, _) => 2,
        (true, _) => return &[],
    };
    let acts = arrange(FORMS[form], mine.ops, theirs.ops).map(act);
    let plans = &plans.sets[arrangement][scope][acts4(acts)];
    &plans[..plans.len().min(BITS)]
}

/// What is wanted of two units as far as their accesses and locks go, seen from the one and from the other.
fn wanted(graph: &Graph<'_>, plans: &Plans, finds: &mut Finds, mine: &Unit, theirs: &Unit) -> (u32, u32) {
    let compatible = |gap, lockset| graph.locksets.compatible(gap, lockset);
    let around = |outer: &Unit, inner: &Unit| inner.locksets.iter().all(|lockset| compatible(outer.gap, *lockset));
    let across = |first: &Unit, second: &Unit| {
        compatible(first.gap, second.locksets[0]) && compatible(second.gap, first.locksets[1])
    };
    let mut bits = [0; 4];
    for (form, bits) in bits.iter_mut().enumerate() {
        let fitting = patterns(plans, mine, theirs, form);
        if fitting.is_empty() {
            continue;
        }
        let room = match form {
            0 => around(mine, theirs),
            1 => around(theirs, mine),
            2 => across(mine, theirs),
            _ => across(theirs, mine),
        };
        for (bit, plan) in fitting.iter().enumerate().filter(|_| room) {
            let full = finds.full(*plan);
            finds.dropped.candidates += u64::from(full);
            *bits |= u32::from(!full) << bit;
        }
    }
    let [a, b, c, d] = bits;
    (u32::from_le_bytes([a, b, c, d].map(|bits| bits as u8)), u32::from_le_bytes([b, a, d, c].map(|bits| bits as u8)))
}
