//! Colours, learnt: variables that correct runs access together become one location to the guard.
//!
//! Paper: Zhang et al., TSE 2016, section 5.2.5, leaves variables that belong together to ColorSafe (Lucia et al., ISCA 2010), whose
//! colours people choose. Here they are found as MUVI (Lu et al., SOSP 2007) finds correlations, from dynamic accesses rather than
//! from the text of functions.
//!
//! A colour is a number of bytes for each of its sites, which added to the address of an access lead to a representative
//! ([`super::Colour`]). So the variables of a colour lie at fixed distances, and a site that has one touches one of them only:
//!
//! - A *class* has the sites that touched one location, and those that touched another location of one of these. It stands for a
//!   global variable, or for a field of all objects of a kind.
//! - Two accesses are *near* where the same thread made them in one outermost critical section, or with few accesses to
//!   shared locations in between. Classes `A` and `B` are *correlated* at a distance where most accesses to either have the other near,
//!   at that distance and in the same heap block or image: at least [`Options::support`] of them, and
//!   [`Options::percent`] of all. Or as many of the sites of either have it near: a site that does so in [`Options::usual`] of a
//!   hundred of its accesses, and in [`Options::percent`] of those that follow one and the same site of another thread. For who tests one
//!   variable and then uses another does not come to the use where the test has shown what others did.
//! - What a thread does while it is the only one does not count: setting up touches one at a time.
//! - Both are written by somebody, and two threads share both; global variables, in all runs together: one run may take a way on which
//!   one thread alone comes to them.
//!
//! The representative is the largest variable, the first of several: what is shifted to it then lies inside it, and touches nothing
//! that follows it.
//!
//! It is meant to miss rather than to invent, since a wrong colour makes the guard stall where it should not. No colour has: a class
//! correlated with itself (a site that touches two of the variables), contradicting distances, stack variables, more than
//! [`Options::variables`] variables or [`Options::sites`] sites. Sites that touched several locations in one access (copies, fills) get
//! no shift; they may touch a colour where they touch the representative too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::accesses::{Home, Location, Run, ThreadEvent};
use super::{Colour, SiteKey};

/// When variables belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Fewest accesses to each that have the other near.
    pub support: u64,
    /// How many of a hundred accesses to each have the other near.
    pub percent: u64,
    /// How many of a hundred accesses at one site have the other near, where it depends on what others did before.
    pub usual: u64,
    /// How many accesses to shared locations before and after one are near.
    pub window: usize,
    /// Most variables of a colour.
    pub variables: usize,
    /// Most sites of a colour.
    pub sites: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { support: 4, percent: 80, usual: 30, window: 8, variables: 8, sites: 64 }
    }
}

/// Most locations of a critical section that are all near each other.
const MOST_IN_SECTION: usize = 64;

/// A colour, with sites by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its sites with their shifts in bytes.
    pub sites: BTreeMap<u32, i32>,
    /// One location of each variable, in the order of addresses. For names.
    pub variables: Vec<Location>,
}

impl Found {
    /// The same with names; `None` where a site has none, or two have the same but other shifts.
    pub fn named(&self, name: &str, key: impl Fn(u32) -> Option<SiteKey>) -> Option<Colour> {
        let mut sites = BTreeMap::new();
        for (site, shift) in &self.sites {
            if sites.insert(key(*site)?, *shift).is_some_and(|other| other != *shift) {
                return None;
            }
        }
        Some(Colour { name: name.to_owned(), sites })
    }
}

/// Makes colour `b` a part of colour `a`, whose representative lies `apart` bytes before that of `b`. False, and nothing is
/// changed, where there are no two such colours or a site would have two shifts.
pub fn merge(colours: &mut Vec<Colour>, a: usize, b: usize, apart: i32) -> bool {
    let (Some(first), Some(second)) = (colours.get(a), colours.get(b)) else { return false };
    if a == b {
        return false;
    }
    let mut sites = first.sites.clone();
    for (site, shift) in &second.sites {
        let Some(shift) = shift.checked_sub(apart) else { return false };
        if sites.insert(site.clone(), shift).is_some_and(|other| other != shift) {
            return false;
        }
    }
    let name = format!("{}, {}", first.name, second.name);
    if let Some(first) = colours.get_mut(a) {
        *first = Colour { name, sites };
    }
    colours.remove(b);
    true
}

/// The colours of correct runs, in the order of their first sites.
pub fn colours(runs: &[Run], options: &Options) -> Vec<Found> {
    let steps: Vec<Steps> = Steps::of_all(runs);
    let mut classes = Classes::default();
    for (run, steps) in runs.iter().zip(&steps) {
        classes.learn(run, steps);
    }
    let mut counts = Counts::default();
    for (run, steps) in runs.iter().zip(&steps) {
        counts.learn(run, steps, &mut classes, options);
    }
    let mut found: Vec<Found> = components(&counts.correlated(options))
        .into_iter()
        .filter(|component| component.len() <= options.variables)
        .filter_map(|component| {
            let size = |class: &u32| counts.examples.get(class).map_or(0, |location| location.size);
            let (&representative, &base) = component.iter().min_by_key(|(class, at)| (Reverse(size(class)), **at))?;
            if counts.wide.iter().any(|those| {
                !those.contains(&representative) && component.iter().any(|(class, _)| those.contains(class))
            }) {
                return None;
            }
            let mut sites = BTreeMap::new();
            for (class, at) in &component {
                let shift = i32::try_from(base - at).ok()?;
                sites.extend(classes.sites_of(*class).into_iter().map(|site| (site, shift)));
            }
            let mut order: Vec<(i64, u32)> = component.iter().map(|(class, at)| (*at, *class)).collect();
            order.sort_unstable();
            let variables = order.iter().filter_map(|(_, class)| counts.examples.get(class).copied()).collect();
            (sites.len() <= options.sites).then_some(Found { sites, variables })
        })
        .collect();
    found.sort_by_key(|found| found.sites.keys().next().copied());
    found
}

/// An access to one shared location.
#[derive(Clone, Copy, Debug)]
struct Step {
    thread: u32,
    site: u32,
    location: u64,
    index: u64,
    /// Whether there were other threads.
    accompanied: bool,
    /// The site of another thread's last access to the location.
    before: Option<u32>,
}

/// What of a run counts.
#[derive(Debug, Default)]
struct Steps {
    /// Accesses to one shared location each, of a block or image.
    narrow: Vec<Step>,
    /// The locations of each access to several, shared ones only.
    wide: Vec<Vec<u64>>,
    /// By shared location: the threads that touched it.
    threads: FxHashMap<u64, BTreeSet<u32>>,
}

impl Steps {
    fn of_all(runs: &[Run]) -> Vec<Steps> {
        // A site that once touched several locations never counts as one of a variable.
        let mut wide_sites = BTreeSet::new();
        for run in runs {
            for event in run.accesses.chunk_by(|a, b| a.index == b.index) {
                if let [first, _, ..] = event {
                    wide_sites.insert(first.site);
                }
            }
        }
        // What is shared of the global variables shows in all runs together.
        let touched: Vec<Touched> = runs.iter().map(Touched::of).collect();
        let mut globals = Globals::default();
        for (run, touched) in runs.iter().zip(&touched) {
            for (location, (threads, written)) in &touched.0 {
                if let Some(place) = run.location(*location).and_then(global) {
                    let known = globals.entry(place).or_default();
                    known.0.extend(threads);
                    known.1 |= written;
                }
            }
        }
        globals.retain(|_, (threads, written)| *written && threads.len() > 1);
        runs.iter().zip(touched).map(|(run, touched)| Steps::of(run, &wide_sites, touched, &globals)).collect()
    }

    fn of(run: &Run, wide_sites: &BTreeSet<u32>, touched: Touched, globals: &Globals) -> Steps {
        let sharing = |(location, (threads, written)): (u64, (BTreeSet<u32>, bool))| {
            let place = run.location(location)?;
            let threads = match global(place) {
                Some(at) => globals.get(&at)?.0.clone(),
                None => Some(threads).filter(|all| written && all.len() > 1 && place.home != Home::Elsewhere)?,
            };
            Some((location, threads))
        };
        let threads: FxHashMap<u64, BTreeSet<u32>> = touched.0.into_iter().filter_map(sharing).collect();
        let mut steps = Steps { threads, ..Steps::default() };
        let mut others = Others::of(run);
        // By location: the last access, and the last one of another thread than that.
        let mut last: FxHashMap<u64, [Option<(u32, u32)>; 2]> = FxHashMap::default();
        for event in run.accesses.chunk_by(|a, b| a.index == b.index) {
            let shared: Vec<u64> =
                event.iter().map(|access| access.location).filter(|at| steps.threads.contains_key(at)).collect();
            match (event.first(), shared.first()) {
                (Some(first), Some(_)) if wide_sites.contains(&first.site) => steps.wide.push(shared),
                (Some(first), Some(location)) => {
                    let [newer, older] = last.entry(*location).or_default();
                    if newer.is_some_and(|(thread, _)| thread != first.thread) {
                        *older = *newer;
                    }
                    *newer = Some((first.thread, first.site));
                    steps.narrow.push(Step {
                        thread: first.thread,
                        site: first.site,
                        location: *location,
                        index: first.index,
                        accompanied: others.at(first.index),
                        before: older.map(|(_, site)| site),
                    });
                }
                _ => {}
            }
        }
        steps
    }
}

/// By location: who touched it, and whether it was written.
#[derive(Debug, Default)]
struct Touched(FxHashMap<u64, (BTreeSet<u32>, bool)>);

impl Touched {
    fn of(run: &Run) -> Touched {
        let mut touched = Touched::default();
        for access in &run.accesses {
            let (threads, written) = touched.0.entry(access.location).or_default();
            threads.insert(access.thread);
            *written |= access.write;
        }
        touched
    }
}

/// By global variable: who touched it in any of the runs, and whether it was written.
type Globals = BTreeMap<(u32, u64), (BTreeSet<u32>, bool)>;

/// The image and offset of a global variable.
fn global(place: &Location) -> Option<(u32, u64)> {
    match place.home {
        Home::Image(image) => Some((image, place.offset)),
        _ => None,
    }
}

/// Whether there are several threads, along a run.
#[derive(Debug)]
struct Others<'a> {
    events: std::iter::Peekable<std::slice::Iter<'a, ThreadEvent>>,
    count: usize,
}

impl<'a> Others<'a> {
    fn of(run: &'a Run) -> Others<'a> {
        // Where nobody is known to have made them, they may have been there all along.
        let unknown = !run.threads.iter().any(|event| event.made);
        Others { events: run.threads.iter().peekable(), count: usize::from(unknown) }
    }

    /// Whether there are at an index, which is not before the last one.
    fn at(&mut self, index: u64) -> bool {
        while let Some(event) = self.events.next_if(|event| event.index < index) {
            self.count = if event.made { self.count + 1 } else { self.count.saturating_sub(1) };
        }
        self.count > 0
    }
}

/// Sites that belong to one variable, as disjoint sets.
#[derive(Debug, Default)]
struct Classes {
    parents: BTreeMap<u32, u32>,
    /// A site of each global variable: by image and offset.
    globals: BTreeMap<(u32, u64), u32>,
}

impl Classes {
    fn learn(&mut self, run: &Run, steps: &Steps) {
        let mut sites: FxHashMap<u64, u32> = FxHashMap::default();
        for step in &steps.narrow {
            self.parents.entry(step.site).or_insert(step.site);
            let other = *sites.entry(step.location).or_insert(step.site);
            self.unite(step.site, other);
            if let Some(place) = run.location(step.location).and_then(global) {
                let other = *self.globals.entry(place).or_insert(step.site);
                self.unite(step.site, other);
            }
        }
    }

    /// The class of a site: the smallest of its sites.
    fn of(&mut self, site: u32) -> u32 {
        let (mut root, mut at) = (site, site);
        while let Some(parent) = self.parents.get(&root)
            && *parent != root
        {
            root = *parent;
        }
        while at != root {
            at = self.parents.insert(at, root).unwrap_or(root);
        }
        root
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.parents.insert(a.max(b), a.min(b));
    }

    fn sites_of(&mut self, class: u32) -> Vec<u32> {
        let all: Vec<u32> = self.parents.keys().copied().collect();
        all.into_iter().filter(|site| self.of(*site) == class).collect()
    }
}

/// How often classes are accessed, and near each other.
#[derive(Debug, Default)]
struct Counts {
    total: BTreeMap<u32, u64>,
    /// By class and site: how often it accesses the class after which other site.
    at_site: BTreeMap<u32, BTreeMap<u32, BTreeMap<Option<u32>, u64>>>,
    /// By site, the site before, other class and distance: how many of these accesses have the other near.
    together_at: BTreeMap<(u32, Option<u32>, u32, i64), u64>,
    /// By class, other class and distance: how many accesses to the class have the other near.
    together: BTreeMap<(u32, u32, i64), u64>,
    /// Pairs of which two threads share both, at the same place.
    shared: BTreeSet<(u32, u32, i64)>,
    /// The classes of every access to several locations.
    wide: BTreeSet<BTreeSet<u32>>,
    /// A location of each class: a largest one.
    examples: BTreeMap<u32, Location>,
}

impl Counts {
    fn learn(&mut self, run: &Run, steps: &Steps, classes: &mut Classes, options: &Options) {
        let mut class_of: FxHashMap<u64, u32> = FxHashMap::default();
        for step in &steps.narrow {
            let class = classes.of(step.site);
            class_of.insert(step.location, class);
            if let Some(location) = run.location(step.location) {
                let example = self.examples.entry(class).or_insert(*location);
                if location.size > example.size {
                    *example = *location;
                }
            }
        }
        for those in &steps.wide {
            self.wide.insert(those.iter().filter_map(|location| class_of.get(location).copied()).collect());
        }
        for mine in by_thread(run, steps).values() {
            let mut sections: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for (step, section) in mine {
                if let Some(section) = section {
                    sections.entry(*section).or_default().insert(step.location);
                }
            }
            for (at, (step, section)) in mine.iter().enumerate() {
                let Some(class) = class_of.get(&step.location).copied().filter(|_| step.accompanied) else { continue };
                *self
                    .at_site
                    .entry(class)
                    .or_default()
                    .entry(step.site)
                    .or_default()
                    .entry(step.before)
                    .or_default() += 1;
                *self.total.entry(class).or_default() += 1;
                let around = at.saturating_sub(options.window)..mine.len().min(at + options.window + 1);
                let mut near: BTreeSet<u64> =
                    mine.get(around).unwrap_or_default().iter().map(|(step, _)| step.location).collect();
                let section = section.and_then(|section| sections.get(&section));
                near.extend(section.filter(|all| all.len() <= MOST_IN_SECTION).into_iter().flatten());
                let pairs: BTreeMap<(u32, u32, i64), bool> = near
                    .into_iter()
                    .filter_map(|other| {
                        let (here, there) = (run.location(step.location)?, run.location(other)?);
                        let partner = *class_of.get(&other)?;
                        let distance = there.offset as i64 - here.offset as i64;
                        (here.home == there.home && partner != class)
                            .then(|| ((class, partner, distance), steps.share(step.location, other)))
                    })
                    .collect();
                for (pair, shared) in pairs {
                    *self.together.entry(pair).or_default() += 1;
                    *self.together_at.entry((step.site, step.before, pair.1, pair.2)).or_default() += 1;
                    if shared {
                        self.shared.insert(pair);
                    }
                }
            }
        }
    }

    /// The distance from one class to another, of those that are correlated. Of several distances, the smallest.
    fn correlated(&self, options: &Options) -> BTreeMap<(u32, u32), i64> {
        let often = |a: u32, b: u32, distance: i64| {
            let together = self.together.get(&(a, b, distance)).copied().unwrap_or_default();
            let total = self.total.get(&a).copied().unwrap_or_default();
            let share = |part: u64, whole: u64, percent: u64| part.saturating_mul(100) >= whole.saturating_mul(percent);
            let usually = |(site, after): (&u32, &BTreeMap<Option<u32>, u64>)| {
                let near = |before: &Option<u32>| {
                    self.together_at.get(&(*site, *before, b, distance)).copied().unwrap_or_default()
                };
                share(after.keys().map(near).sum(), after.values().sum(), options.usual)
                    && after.iter().any(|(before, total)| share(near(before), *total, options.percent))
            };
            let sites = self.at_site.get(&a);
            let near = sites.into_iter().flatten().filter(|site| usually(*site)).count() as u64;
            together >= options.support
                && (share(together, total, options.percent)
                    || share(near, sites.map_or(0, BTreeMap::len) as u64, options.percent))
        };
        let mut found: BTreeMap<(u32, u32), i64> = BTreeMap::new();
        for &(a, b, distance) in self.together.keys().filter(|(a, b, _)| a < b) {
            if self.shared.contains(&(a, b, distance)) && often(a, b, distance) && often(b, a, -distance) {
                let known = found.entry((a, b)).or_insert(distance);
                if distance.unsigned_abs() < known.unsigned_abs() {
                    *known = distance;
                }
            }
        }
        found
    }
}

impl Steps {
    /// Whether two threads touch both.
    fn share(&self, a: u64, b: u64) -> bool {
        match (self.threads.get(&a), self.threads.get(&b)) {
            (Some(a), Some(b)) => a.intersection(b).nth(1).is_some(),
            _ => false,
        }
    }
}

/// By thread: its accesses that count, each with its outermost critical section.
fn by_thread(run: &Run, steps: &Steps) -> BTreeMap<u32, Vec<(Step, Option<u64>)>> {
    let mut found: BTreeMap<u32, Vec<(Step, Option<u64>)>> = BTreeMap::new();
    // By thread: where the section began, and how many locks are held.
    let mut open: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    let mut locks = run.locks.iter().peekable();
    for step in &steps.narrow {
        while let Some(event) = locks.next_if(|event| event.index < step.index) {
            let (begin, depth) = open.entry(event.thread).or_default();
            if event.acquires {
                if *depth == 0 {
                    *begin = event.index;
                }
                *depth += 1;
            } else {
                *depth = depth.saturating_sub(1);
            }
        }
        let section = open.get(&step.thread).filter(|(_, depth)| *depth > 0).map(|(begin, _)| *begin);
        found.entry(step.thread).or_default().push((*step, section));
    }
    found
}

/// Classes that distances connect, each with its place from the first of them; without those whose distances contradict.
fn components(distances: &BTreeMap<(u32, u32), i64>) -> Vec<BTreeMap<u32, i64>> {
    let mut edges: BTreeMap<u32, Vec<(u32, i64)>> = BTreeMap::new();
    for (&(a, b), &distance) in distances {
        edges.entry(a).or_default().push((b, distance));
        edges.entry(b).or_default().push((a, -distance));
    }
    let mut done: BTreeSet<u32> = BTreeSet::new();
    let mut found = Vec::new();
    for &start in edges.keys() {
        if done.contains(&start) {
            continue;
        }
        let mut places = BTreeMap::from([(start, 0)]);
        let mut open = vec![start];
        let mut agrees = true;
        while let Some(class) = open.pop() {
            let at = places.get(&class).copied().unwrap_or_default();
            for &(next, distance) in edges.get(&class).into_iter().flatten() {
                match places.get(&next) {
                    Some(place) => agrees &= *place == at + distance,
                    None => {
                        places.insert(next, at + distance);
                        open.push(next);
                    }
                }
            }
        }
        done.extend(places.keys());
        // Two variables at one place would be one.
        let apart: BTreeSet<i64> = places.values().copied().collect();
        if agrees && apart.len() == places.len() {
            found.push(places);
        }
    }
    found
}

#[cfg(test)]
mod tests;
