//! The search for patterns of any shape: any number of events, threads, regions and variables.
//!
//! A pattern falls into units, one for each of its atomic regions. For each unit the instances are collected that the
//! history has, one for each combination of locations, locksets and variables of a thread; then units are put together by
//! backtracking, unit after unit, with variables that agree and threads that agree or differ, locks that allow each
//! event where it is to stand, and nothing ordered against the pattern. The search is bounded by [`MAX_STEPS`].
//!
//! A unit's events are looked for among the last [`REACH`] different accesses of its thread.

use crate::history::EventNo;

use super::candidates::Finds;
use super::graph::{Graph, Scope};
use super::hash::Map;
use super::order::Strength;
use super::patterns::{At, Pattern};
use super::plan::plan_no;

/// How many instances a unit may have.
pub const MAX_INSTANCES: usize = 4096;
/// How many partial matches a pattern may cost.
pub const MAX_STEPS: u64 = 4 << 20;
/// How many different accesses of a thread a unit may reach over.
pub const REACH: usize = 12;

/// A unit of a pattern: which of its steps.
#[derive(Debug)]
struct Unit {
    steps: Vec<usize>,
}

/// A place in the history where a unit's accesses are.
#[derive(Clone, Debug)]
struct Instance {
    thread: u16,
    scope: Option<Scope>,
    events: Vec<EventNo>,
}

/// Searches for the patterns with these indices.
pub(crate) fn run(graph: &Graph<'_>, patterns: &[Pattern], which: &[usize], finds: &mut Finds) {
    for &index in which {
        let pattern = &patterns[index];
        let units = units(pattern);
        let mut full = false;
        let instances: Vec<Vec<Instance>> =
            units.iter().map(|unit| instances(graph, pattern, unit, &mut full)).collect();
        let mut join =
            Join { graph, pattern, index, units: &units, instances: &instances, chosen: Vec::new(), steps: 0, finds };
        join.next();
        if full || join.steps > MAX_STEPS {
            finds.dropped.general += 1;
        }
    }
}

fn units(pattern: &Pattern) -> Vec<Unit> {
    let regions = pattern.steps.iter().map(|step| step.region).max().unwrap_or(0);
    (0..=regions)
        .map(|region| Unit { steps: (0..pattern.steps.len()).filter(|i| pattern.steps[*i].region == region).collect() })
        .collect()
}

/// All places where a unit's accesses are, the last of those that are alike.
fn instances(graph: &Graph<'_>, pattern: &Pattern, unit: &Unit, full: &mut bool) -> Vec<Instance> {
    let mut found = Found { graph, pattern, unit, list: Vec::new(), index: Map::default(), full };
    let mut recent: Vec<Vec<EventNo>> = vec![Vec::new(); graph.history.threads as usize];
    for (number, event) in graph.history.events.iter().enumerate() {
        if !event.op.is_access() || !graph.contended(event.target) {
            continue;
        }
        let number = number as EventNo;
        let window = &mut recent[usize::from(event.thread)];
        let mut events = Vec::with_capacity(unit.steps.len());
        found.ending(window, number, &mut events);
        let alike = |other: &EventNo| {
            let other = graph.event(*other);
            other.target == event.target && other.location == event.location && other.op == event.op
        };
        if let Some(at) = window.iter().position(alike) {
            window.remove(at);
        } else if window.len() == REACH {
            window.remove(0);
        }
        window.push(number);
    }
    found.list
}

struct Found<'a, 'h> {
    graph: &'a Graph<'h>,
    pattern: &'a Pattern,
    unit: &'a Unit,
    list: Vec<Instance>,
    index: Map<Vec<u32>, u32>,
    full: &'a mut bool,
}

impl Found<'_, '_> {
    /// Instances whose last event is given, the others from a window; `events` are chosen from the last on.
    fn ending(&mut self, window: &[EventNo], event: EventNo, events: &mut Vec<EventNo>) {
        let step = self.unit.steps.len() - 1 - events.len();
        if !self.fits(step, event, events) {
            return;
        }
        events.push(event);
        if step == 0 {
            self.add(events);
        } else {
            for at in (0..window.len()).rev() {
                self.ending(&window[..at], window[at], events);
            }
        }
        events.pop();
    }

    fn fits(&self, step: usize, number: EventNo, later: &[EventNo]) -> bool {
        let steps = &self.pattern.steps;
        let mine = &steps[self.unit.steps[step]];
        let event = self.graph.event(number);
        let at = match mine.at {
            At::Any => true,
            At::First => self.graph.first_write(event.target) == Some(number),
            At::Last => self.graph.last_write(event.target) == Some(number),
        };
        // `later` runs backwards from the unit's last step.
        let agree = later.iter().enumerate().all(|(i, other)| {
            let theirs = &steps[self.unit.steps[self.unit.steps.len() - 1 - i]];
            (theirs.variable == mine.variable) == (self.graph.event(*other).target == event.target)
        });
        at && agree && mine.access.fits(event.op)
    }

    fn add(&mut self, backwards: &[EventNo]) {
        let events: Vec<EventNo> = backwards.iter().rev().copied().collect();
        let scope = match &*events {
            [_] => None,
            [first, .., last] => match self.graph.scope(*first, *last) {
                Some(scope) if self.pattern.scopes.contains(&scope) => Some(scope),
                _ => return,
            },
            [] => return,
        };
        let thread = self.graph.event(events[0]).thread;
        let mut key = vec![u32::from(thread)];
        for event in &events {
            let access = self.graph.event(*event);
            key.extend([access.target, access.location, access.op as u32, self.graph.lockset(*event)]);
        }
        match self.index.get(&key) {
            Some(at) => self.list[*at as usize].events = events,
            None if self.list.len() == MAX_INSTANCES => *self.full = true,
            None => {
                self.index.insert(key, self.list.len() as u32);
                self.list.push(Instance { thread, scope, events });
            }
        }
    }
}

struct Join<'a, 'h> {
    graph: &'a Graph<'h>,
    pattern: &'a Pattern,
    index: usize,
    units: &'a [Unit],
    instances: &'a [Vec<Instance>],
    chosen: Vec<&'a Instance>,
    steps: u64,
    finds: &'a mut Finds,
}

impl Join<'_, '_> {
    fn next(&mut self) {
        let unit = self.chosen.len();
        if unit == self.units.len() {
            self.found();
            return;
        }
        let instances = self.instances;
        for instance in &instances[unit] {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            if (0..unit).all(|other| self.agree(other, self.chosen[other], unit, instance)) {
                self.chosen.push(instance);
                self.next();
                self.chosen.pop();
            }
        }
    }

    /// Whether two units can be where they are, as far as those two go.
    fn agree(&self, a: usize, first: &Instance, b: usize, second: &Instance) -> bool {
        let steps = &self.pattern.steps;
        let (mine, theirs) = (&self.units[a].steps, &self.units[b].steps);
        let same_thread = steps[mine[0]].thread == steps[theirs[0]].thread;
        if same_thread != (first.thread == second.thread) {
            return false;
        }
        mine.iter().zip(&first.events).all(|(i, event)| {
            theirs.iter().zip(&second.events).all(|(j, other)| {
                let (x, y) = (self.graph.event(*event), self.graph.event(*other));
                let variables = (steps[*i].variable == steps[*j].variable) == (x.target == y.target);
                let strength = if x.op.is_atomic() || y.op.is_atomic() { Strength::Firm } else { Strength::Full };
                let (before, after) = if i < j { (*event, *other) } else { (*other, *event) };
                variables && event != other && !self.graph.order.before(after, before, strength)
            })
        }) && (same_thread || self.room(mine, first, theirs, second) && self.room(theirs, second, mine, first))
    }

    /// Whether the locks of one unit let each event of another happen where it is to.
    fn room(&self, outer: &[usize], around: &Instance, inner: &[usize], within: &Instance) -> bool {
        inner.iter().zip(&within.events).all(|(step, event)| {
            let after = outer.partition_point(|other| other < step);
            if after == 0 || after == outer.len() {
                return true;
            }
            let gap = self.graph.gap(around.events[after - 1], around.events[after]);
            self.graph.locksets.compatible(gap, self.graph.lockset(*event))
        })
    }

    fn found(&mut self) {
        let mut events = vec![0; self.pattern.steps.len()];
        for (unit, instance) in self.units.iter().zip(&self.chosen) {
            for (step, event) in unit.steps.iter().zip(&instance.events) {
                events[*step] = *event;
            }
        }
        if self.pattern.reordered && events.is_sorted() {
            return;
        }
        let locations: Vec<u32> = events.iter().map(|event| self.graph.event(*event).location).collect();
        if self.pattern.distinct && (1..locations.len()).any(|i| locations[..i].contains(&locations[i])) {
            return;
        }
        let scope = self.chosen.iter().filter_map(|instance| instance.scope).max();
        self.finds.offer(self.graph, plan_no(self.index, scope), &events);
    }
}
