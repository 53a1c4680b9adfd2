//! The search on one variable: pairs and triples (section 5.2, Algorithms 1 and 2).
//!
//! Accesses that are alike (thread, operation, location, lockset) form a *group*, pairs of accesses in one region that
//! are alike (groups, fewest locks between them, scope) form a *unit*. All static conditions (types, locks) are decided
//! once for two groups, or for a unit and a group. What is left is the partial order, and of each group and unit only the
//! latest instance matters for it: if an event is not ordered after the latest, it is certainly one to
//! pair with, and if it is, then it is after all earlier ones too. So each variable is walked once, no list of instances
//! is kept, and nothing is missed; [`CREDIT`] and [`PATIENCE`] bound the work for an access. What is found three times
//! over is no longer looked for.
//!
//! Departures from the paper:
//! - Algorithm 1 asks for locksets whose intersection is *not* empty; it means empty.
//! - Algorithm 2 looks for a place between the two accesses that is independent of the third. We ask that the third is not
//!   ordered before the first nor after the second, and compare its locks with the fewest that are held between them. This also
//!   admits an interleaving that happened, which the paper reports separately.
//! - A pair in a region: an access with the last read, the last write and the first access of the variable in it.
//! - Order violations need no compatible locks, since whole critical sections may change places.

use crate::history::{EventNo, Op};

use super::candidates::{Finds, Offer};
use super::graph::{Graph, Scope};
use super::hash::Map;
use super::lockset::LocksetNo;
use super::order::Strength;
use super::patterns::At;
use super::plan::{Pair, Plans, act, acts3};

/// How many groups of accesses a variable may have.
pub const MAX_GROUPS: usize = 192;
/// From how many groups on only [`MAX_THREADS`] threads count that do the same.
pub const MANY_GROUPS: usize = 64;
/// See [`MANY_GROUPS`].
pub const MAX_THREADS: usize = 3;
/// How many units.
pub const MAX_UNITS: usize = 128;
/// How many other groups, and how many units, an access is compared with when the credit is used up; they take turns.
pub const MAX_CHECKS: usize = 16;
/// How many comparisons there are to begin with; each access adds [`MAX_CHECKS`] of them.
pub const CREDIT: i64 = 1 << 22;

/// Accesses of one variable that are alike.
#[derive(Clone, Copy, Debug)]
struct Group {
    thread: u16,
    /// An index of [`OPS`].
    op: u8,
    location: u32,
    lockset: LocksetNo,
    last: EventNo,
}

/// What a group is compared with; apart from it because groups are walked more often.
#[derive(Debug, Default)]
struct Relations {
    /// Groups of other threads that may be paired with this one.
    rivals: Vec<Rival>,
    /// Links to units between whose events this group may come.
    links: Vec<u32>,
    turn: usize,
    link_turn: usize,
}

/// Another group, and what is still looked for: bits over [`Plans::pairs`].
#[derive(Clone, Copy, Debug)]
struct Rival {
    group: u32,
    /// With the other's event first.
    after: u32,
    /// With this group's event first, which did not happen.
    before: u32,
    /// Not again before this event.
    quiet: EventNo,
    misses: u32,
}

/// Pairs of accesses that are alike.
#[derive(Debug, Default)]
struct Unit {
    groups: [u32; 2],
    gap: LocksetNo,
    scope: u8,
    last: [EventNo; 2],
    links: Vec<u32>,
    turn: usize,
}

/// A unit and a group that may come between, and what is still looked for: bits over [`Plans::triples`].
#[derive(Clone, Copy, Debug)]
struct Link {
    unit: u32,
    group: u32,
    wanted: u32,
    strength: Strength,
    quiet: EventNo,
    misses: u32,
}

/// What a thread last did to the variable.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// One more than the variable that this is about.
    variable: u32,
    read: Option<(EventNo, u32)>,
    write: Option<(EventNo, u32)>,
    /// The first access of the region that the thread is in.
    first: Option<(EventNo, u32)>,
}

/// The search, with its working memory.
#[derive(Debug)]
pub(crate) struct Search<'a, 'h> {
    graph: &'a Graph<'h>,
    plans: &'a Plans,
    finds: &'a mut Finds,
    groups: Vec<Group>,
    /// One for each group, and some more that are kept for their memory.
    relations: Vec<Relations>,
    group_index: Option<Map<(u16, u8, u32, u32), u32>>,
    units: Vec<Unit>,
    unit_count: usize,
    unit_index: Option<Map<(u32, u32, u32, u8), u32>>,
    links: Vec<Link>,
    recent: Vec<Recent>,
    /// For each event that was searched a number that all accesses of its group share, and no others.
    pub(crate) numbers: Vec<u32>,
    numbered: u32,
    credit: i64,
    wants: Wants,
}

/// What is wanted of two groups: bits over [`Plans::pairs`], by what the first and the second event do, whether this order
/// is not the one that happened, whether the two can race, and whether they are of one location.
type Wants = [[[[[u32; 2]; 2]; 2]; 3]; 3];

fn wants(plans: &Plans) -> Wants {
    let mut wants = Wants::default();
    for (first, row) in wants.iter_mut().enumerate() {
        for (second, cell) in row.iter_mut().enumerate() {
            for (bit, pair) in plans.pairs[first][second].iter().enumerate() {
                for (turned, race, same) in (0..8).map(|i| (i >> 2, i >> 1 & 1, i & 1)) {
                    let fits = (!pair.adjacent || race == 1)
                        && !(pair.unless_race && race == 1)
                        && (!pair.reordered || turned == 1)
                        && !(pair.distinct && same == 1);
                    cell[turned][race][same] |= u32::from(fits) << bit;
                }
            }
        }
    }
    wants
}

/// The number of events that are in no group.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// Up to so many groups or units are searched one by one.
const FEW: usize = 16;

/// The numbers of [`Op`]s that are accesses.
const OPS: [Op; 5] = [Op::Read, Op::Write, Op::AtomicRead, Op::AtomicWrite, Op::AtomicUpdate];

const _: () = assert!(OPS[0] as u8 == 0 && OPS[1] as u8 == 1 && OPS[2] as u8 == 2);
const _: () = assert!(OPS[3] as u8 == 3 && OPS[4] as u8 == 4);

impl<'a, 'h> Search<'a, 'h> {
    pub(crate) fn new(graph: &'a Graph<'h>, plans: &'a Plans, finds: &'a mut Finds) -> Search<'a, 'h> {
        Search {
            graph,
            plans,
            finds,
            groups: Vec::new(),
            relations: Vec::new(),
            group_index: None,
            units: Vec::new(),
            unit_count: 0,
            unit_index: None,
            links: Vec::new(),
            recent: vec![Recent::default(); graph.history.threads as usize],
            numbers: vec![NO_GROUP; graph.history.len()],
            numbered: 0,
            credit: CREDIT,
            wants: wants(plans),
        }
    }

    /// Searches all variables.
    pub(crate) fn run(&mut self) {
        for variable in 0..self.graph.history.variables {
            self.variable(variable);
        }
    }

    fn variable(&mut self, variable: u32) {
        let graph = self.graph;
        let events = graph.of_variable(variable);
        self.groups.clear();
        self.unit_count = 0;
        (self.group_index, self.unit_index) = (None, None);
        self.links.clear();
        for &event in events {
            let Some(group) = self.group(event) else {
                self.finds.dropped.groups += 1;
                continue;
            };
            self.credit = (self.credit + MAX_CHECKS as i64).min(CREDIT);
            self.numbers[event as usize] = self.numbered + group;
            self.at_the_beginning(group as usize, event);
            self.with_rivals(group, event);
            self.between(group, event);
            self.pairs_with(variable, group, event);
            self.groups[group as usize].last = event;
            if graph.last_write(variable) == Some(event) {
                self.at_the_end(event);
            }
        }
        self.numbered += self.groups.len() as u32;
    }

    /// The group of an event, new if need be.
    fn group(&mut self, number: EventNo) -> Option<u32> {
        let event = self.graph.event(number);
        let lockset = self.graph.lockset(number);
        let op = event.op as u8;
        let known = match &self.group_index {
            Some(index) => index.get(&(event.thread, op, event.location, lockset)).copied(),
            None => self
                .groups
                .iter()
                .position(|group| {
                    group.location == event.location
                        && group.thread == event.thread
                        && group.lockset == lockset
                        && group.op == op
                })
                .map(|at| at as u32),
        };
        if known.is_some() {
            return known;
        }
        let new = self.groups.len();
        if new >= MANY_GROUPS {
            let same = |group: &&Group| group.location == event.location && group.op == op && group.lockset == lockset;
            if new == MAX_GROUPS || self.groups.iter().filter(same).count() >= MAX_THREADS {
                return None;
            }
        }
        let (thread, location) = (event.thread, event.location);
        self.groups.push(Group { thread, op, location, lockset, last: number });
        if self.relations.len() == new {
            self.relations.push(Relations::default());
        }
        let relations = &mut self.relations[new];
        relations.rivals.clear();
        relations.links.clear();
        (relations.turn, relations.link_turn) = (0, 0);
        let key = |group: &Group| (group.thread, group.op, group.location, group.lockset);
        if self.groups.len() > FEW {
            let groups = &self.groups;
            let index = self
                .group_index
                .get_or_insert_with(|| groups.iter().enumerate().map(|(at, group)| (key(group), at as u32)).collect());
            index.insert(key(&groups[new]), new as u32);
        }
        self.introduce(new);
        Some(new as u32)
    }

    /// Finds a new group's rivals and the units that it may come between.
    fn introduce(&mut self, new: usize) {
        let (others, rest) = self.relations.split_at_mut(new);
        let relations = &mut rest[0];
        let group = &self.groups[new];
        for (number, other) in self.groups[..new].iter().enumerate() {
            if other.thread == group.thread {
                continue;
            }
            let (ours, theirs) = (OPS[usize::from(group.op)], OPS[usize::from(other.op)]);
            let free = self.graph.locksets.compatible(group.lockset, other.lockset);
            let race = free && !(ours.is_atomic() && theirs.is_atomic());
            let same_place = group.location == other.location;
            let wanted = |first: Op, second: Op, turned: bool| {
                self.wants[act(first)][act(second)][usize::from(turned)][usize::from(race)][usize::from(same_place)]
            };
            // The rival of the later event: in a rival's list its own group is the one that comes later.
            let mine = Rival {
                group: number as u32,
                after: wanted(theirs, ours, false),
                before: wanted(ours, theirs, true),
                quiet: 0,
                misses: 0,
            };
            let yours = Rival {
                group: new as u32,
                after: wanted(ours, theirs, false),
                before: wanted(theirs, ours, true),
                quiet: 0,
                misses: 0,
            };
            if mine.after | mine.before != 0 {
                relations.rivals.push(mine);
            }
            if yours.after | yours.before != 0 {
                others[number].rivals.push(yours);
            }
        }
        for unit in 0..self.unit_count {
            self.link(unit, new);
        }
    }

    /// Links a unit and a group if the group may come between the unit's events.
    fn link(&mut self, unit: usize, group: usize) {
        let (u, g) = (&self.units[unit], &self.groups[group]);
        let [p, q] = u.groups.map(|group| &self.groups[group as usize]);
        if p.thread == g.thread {
            return;
        }
        let ops = [p.op, g.op, q.op].map(|op| OPS[usize::from(op)]);
        let plans = &self.plans.triples[usize::from(u.scope)][acts3(ops.map(act))];
        if plans.is_empty() || !self.graph.locksets.compatible(u.gap, g.lockset) {
            return;
        }
        let mut wanted = 0;
        for (bit, plan) in plans.iter().enumerate() {
            let full = self.finds.full(*plan);
            self.finds.dropped.candidates += u64::from(full);
            wanted |= u32::from(!full) << bit;
        }
        if wanted == 0 {
            return;
        }
        let strength = if ops.iter().any(|op| op.is_atomic()) { Strength::Firm } else { Strength::Full };
        let number = self.links.len() as u32;
        self.links.push(Link { unit: unit as u32, group: group as u32, wanted, strength, quiet: 0, misses: 0 });
        self.units[unit].links.push(number);
        self.relations[group].links.push(number);
    }

    /// Compares an access with the latest of its rivals.
    fn with_rivals(&mut self, group: u32, event: EventNo) {
        let relations = &mut self.relations[group as usize];
        if relations.rivals.is_empty() {
            return;
        }
        let mut rivals = std::mem::take(&mut relations.rivals);
        let mut turn = relations.turn;
        let op = OPS[usize::from(self.groups[group as usize].op)];
        let mut done = false;
        for _ in 0..self.checks(rivals.len()) {
            turn = if turn + 1 >= rivals.len() { 0 } else { turn + 1 };
            let rival = &mut rivals[turn];
            if event < rival.quiet {
                continue;
            }
            let other = &self.groups[rival.group as usize];
            let (last, other_op) = (other.last, OPS[usize::from(other.op)]);
            let atomic = op.is_atomic() || other_op.is_atomic();
            let free = !self.graph.order.before(last, event, Strength::Full);
            let loose = free || (atomic && !self.graph.order.before(last, event, Strength::Firm));
            if !loose {
                rival.quiet = event.saturating_add(patience(&mut rival.misses));
                continue;
            }
            let plans = self.plans;
            let mut wait = u32::MAX;
            let orders = [
                (&plans.pairs[act(other_op)][act(op)], [last, event], &mut rival.after),
                (&plans.pairs[act(op)][act(other_op)], [event, last], &mut rival.before),
            ];
            for (pairs, events, wanted) in orders {
                for (bit, pair) in pairs.iter().enumerate() {
                    if *wanted >> bit & 1 == 0 {
                        continue;
                    }
                    if !free && pair.adjacent {
                        wait = 1;
                        continue;
                    }
                    match self.finds.offer(self.graph, pair.plan, &events) {
                        Offer::Later(apart) => wait = wait.min(apart),
                        Offer::Enough => *wanted &= !(1 << bit),
                    }
                }
            }
            rival.quiet = event.saturating_add(wait);
            done |= rival.after | rival.before == 0;
        }
        if done {
            rivals.retain(|rival| rival.after | rival.before != 0);
        }
        let relations = &mut self.relations[group as usize];
        (relations.rivals, relations.turn) = (rivals, turn);
    }

    /// Puts an access between the latest events of the units that its group may come between.
    fn between(&mut self, group: u32, event: EventNo) {
        let relations = &mut self.relations[group as usize];
        let mut links = std::mem::take(&mut relations.links);
        let mut turn = relations.link_turn;
        let mut done = false;
        for _ in 0..self.checks(links.len()) {
            turn = if turn + 1 >= links.len() { 0 } else { turn + 1 };
            let link = self.links[links[turn] as usize];
            if link.wanted == 0 {
                done = true;
            } else if event >= link.quiet {
                let [first, second] = self.units[link.unit as usize].last;
                if !self.graph.order.before(second, event, link.strength) {
                    self.offer(links[turn], [first, event, second]);
                } else {
                    self.miss(links[turn], event);
                }
            }
        }
        if done {
            links.retain(|link| self.links[*link as usize].wanted != 0);
        }
        let relations = &mut self.relations[group as usize];
        (relations.links, relations.link_turn) = (links, turn);
    }

    /// How many of so many comparisons are made.
    fn checks(&mut self, wanted: usize) -> usize {
        let checks = if self.credit > 0 { wanted } else { wanted.min(MAX_CHECKS) };
        self.credit -= checks as i64;
        self.finds.dropped.checks += (wanted - checks) as u64;
        checks
    }

    fn miss(&mut self, link: u32, event: EventNo) {
        let link = &mut self.links[link as usize];
        link.quiet = event.saturating_add(patience(&mut link.misses));
    }

    fn offer(&mut self, link: u32, events: [EventNo; 3]) {
        let link = &mut self.links[link as usize];
        let unit = &self.units[link.unit as usize];
        let acts = [unit.groups[0], link.group, unit.groups[1]]
            .map(|group| act(OPS[usize::from(self.groups[group as usize].op)]));
        let mut wait = u32::MAX;
        for (bit, plan) in self.plans.triples[usize::from(unit.scope)][acts3(acts)].iter().enumerate() {
            if link.wanted >> bit & 1 == 1 {
                match self.finds.offer(self.graph, *plan, &events) {
                    Offer::Later(apart) => wait = wait.min(apart),
                    Offer::Enough => link.wanted &= !(1 << bit),
                }
            }
        }
        link.quiet = events.into_iter().max().unwrap_or(0).saturating_add(wait);
    }

    /// Forms the pairs that end with an access.
    fn pairs_with(&mut self, variable: u32, group: u32, event: EventNo) {
        let g = &self.groups[group as usize];
        let (thread, op) = (usize::from(g.thread), OPS[usize::from(g.op)]);
        let recent = &mut self.recent[thread];
        if recent.variable != variable + 1 {
            *recent = Recent { variable: variable + 1, ..Recent::default() };
        }
        let Recent { read, write, first, .. } = *recent;
        let in_region = |earlier: (EventNo, u32)| self.graph.same_region(earlier.0, event);
        if !first.is_some_and(in_region) {
            recent.first = Some((event, group));
        }
        if op.reads() {
            recent.read = Some((event, group));
        }
        if op.writes() {
            recent.write = Some((event, group));
        }
        let first = first.filter(|first| in_region(*first));
        let mut seen = [None; 3];
        // The first comes first: what is ordered before it is ordered before the others too, which may be of its unit.
        for (at, earlier) in [first, write, read].into_iter().enumerate() {
            if let Some((earlier, with)) = earlier
                && !seen.contains(&Some(earlier))
            {
                seen[at] = Some(earlier);
                if let Some(scope) = self.graph.scope(earlier, event) {
                    self.pair([with, group], [earlier, event], scope);
                }
            }
        }
    }

    fn pair(&mut self, groups: [u32; 2], events: [EventNo; 2], scope: Scope) {
        let gap = self.graph.gap(events[0], events[1]);
        let Some(unit) = self.unit(groups, gap, scope as u8) else {
            self.finds.dropped.units += 1;
            return;
        };
        self.units[unit].last = events;
        let mut links = std::mem::take(&mut self.units[unit].links);
        let mut turn = self.units[unit].turn;
        let mut done = false;
        for _ in 0..self.checks(links.len()) {
            turn = if turn + 1 >= links.len() { 0 } else { turn + 1 };
            let link = self.links[links[turn] as usize];
            let other = self.groups[link.group as usize].last;
            if link.wanted == 0 {
                done = true;
            } else if events[1] >= link.quiet {
                if other > events[0] || !self.graph.order.before(other, events[0], link.strength) {
                    self.offer(links[turn], [events[0], other, events[1]]);
                } else {
                    self.miss(links[turn], events[1]);
                }
            }
        }
        if done {
            links.retain(|link| self.links[*link as usize].wanted != 0);
        }
        (self.units[unit].links, self.units[unit].turn) = (links, turn);
    }

    fn unit(&mut self, groups: [u32; 2], gap: LocksetNo, scope: u8) -> Option<usize> {
        let known = match &self.unit_index {
            Some(index) => index.get(&(groups[0], groups[1], gap, scope)).map(|at| *at as usize),
            None => self.units[..self.unit_count]
                .iter()
                .position(|unit| unit.groups == groups && unit.gap == gap && unit.scope == scope),
        };
        if known.is_some() {
            return known;
        }
        if self.unit_count == MAX_UNITS {
            return None;
        }
        let new = self.unit_count;
        if self.units.len() == new {
            self.units.push(Unit::default());
        }
        let unit = &mut self.units[new];
        unit.links.clear();
        (unit.groups, unit.gap, unit.scope, unit.turn) = (groups, gap, scope, 0);
        self.unit_count += 1;
        let key = |unit: &Unit| (unit.groups[0], unit.groups[1], unit.gap, unit.scope);
        if self.unit_count > FEW {
            let units = &self.units[..self.unit_count];
            let index = self
                .unit_index
                .get_or_insert_with(|| units.iter().enumerate().map(|(at, unit)| (key(unit), at as u32)).collect());
            index.insert(key(&units[new]), new as u32);
        }
        for group in 0..self.groups.len() {
            self.link(new, group);
        }
        Some(new)
    }

    /// A group's first access after the variable's first write: of its accesses it is the one least ordered after that.
    fn at_the_beginning(&mut self, group: usize, event: EventNo) {
        let anchor = self.graph.first_write(self.graph.event(event).target);
        let last = self.groups[group].last;
        if let Some(anchor) = anchor.filter(|anchor| *anchor < event && (last < *anchor || last == event)) {
            self.anchored(At::First, group, event, anchor);
        }
    }

    /// Each group's last access so far against the variable's last write.
    fn at_the_end(&mut self, anchor: EventNo) {
        for group in 0..self.groups.len() {
            self.anchored(At::Last, group, self.groups[group].last, anchor);
        }
    }

    fn anchored(&mut self, at: At, group: usize, event: EventNo, anchor: EventNo) {
        let (graph, plans) = (self.graph, self.plans);
        let (mine, other) = (graph.event(event), graph.event(anchor));
        if mine.thread == other.thread
            || event == anchor
            || !graph.order.unordered(event, anchor, strength(mine.op, other.op))
        {
            return;
        }
        let race =
            mine.could_race(other) && graph.locksets.compatible(self.groups[group].lockset, graph.lockset(anchor));
        let fits = |pair: &Pair, events: [EventNo; 2]| {
            pair.steps.iter().zip(events).all(|(step, number)| {
                step.access.fits(graph.event(number).op) && step.at == if number == anchor { at } else { At::Any }
            }) && (!pair.adjacent || race && graph.order.unordered(event, anchor, Strength::Full))
                && !(pair.unless_race && race)
                && (!pair.reordered || events[0] > events[1])
                && !(pair.distinct && mine.location == other.location)
        };
        for events in [[event, anchor], [anchor, event]] {
            if let Some(pair) = plans.anchored.iter().find(|pair| fits(pair, events)) {
                self.finds.offer(graph, pair.plan, &events);
            }
        }
    }
}

/// After how many events two sorts of accesses that were ordered so far are looked at again: at once the first
/// [`PATIENCE`] times, then ever more rarely.
pub(crate) fn patience(misses: &mut u32) -> u32 {
    *misses += 1;
    1 << misses.saturating_sub(PATIENCE).min(12)
}

/// How often two sorts of accesses may be found ordered before they are looked at more rarely.
pub const PATIENCE: u32 = 16;

/// With atomics the order that they make themselves does not count.
pub(crate) fn strength(a: Op, b: Op) -> Strength {
    if a.is_atomic() || b.is_atomic() { Strength::Firm } else { Strength::Full }
}
