//! Which function of a linked image is whose body, and through which bodies each site is reached.
//!
//! A hooked function is entered from its plain body, where the runtime has written a jump there, or from other hooked code: so
//! its *entrances* are its own plain body, and those of all hooked functions that branch to it, or whose plain bodies have inlined it. An inner function has only
//! the latter.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::bytes::u64_at;
use selvedge_events::site_table::{Body, Entry, ROOM, Range, Table};

use super::join::{BEFORE_ROOM, CALLS, ROW, SECTION};
use crate::functions::{Function, Functions, Part};
use crate::image::Image;
use crate::x86::{self, Target};

/// A row of the section that joining writes, as offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    /// The room in the plain body.
    pub(crate) room: Option<u64>,
    /// The hooked body's begin.
    pub(crate) hooked: Option<u64>,
}

/// What an image says of its bodies; nothing where its files were not joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    pub(crate) rows: Vec<Row>,
}

impl Bodies {
    pub(crate) fn new(image: &Image) -> Bodies {
        let rows = pairs(image, SECTION).into_iter().map(|(room, hooked)| Row { room, hooked });
        Bodies { rows: rows.filter(|row| row.room.is_some() || row.hooked.is_some()).collect() }
    }
}

/// How the sites of an image are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The functions with two bodies.
    pub bodies: Vec<Body>,
    /// Sites by first ordinal and count, with the bodies that lead to them, ascending.
    pub ranges: Vec<(u32, u32, Vec<u32>)>,
}

impl Reach {
    /// Of an image with its functions and sites.
    pub fn new(image: &Image, functions: &Functions, entries: &[Entry]) -> Reach {
        let rows = Bodies::new(image).rows;
        if rows.is_empty() {
            return Reach::default();
        }
        let narrow = |offset: u64| u32::try_from(offset).ok();
        let bodies =
            rows.iter().filter_map(|row| Some(Body { room: narrow(row.room?)?, hooked: narrow(row.hooked?)? }));
        let mut bodies: Vec<Body> = bodies.collect();
        bodies.sort_unstable();
        bodies.dedup();
        // By group of functions: the bodies that lead there.
        let group = |offset: u64| functions.at(offset).map(|function| function.group);
        let mut entrances: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for hooked in rows.iter().filter_map(|row| row.hooked) {
            entrances.extend(group(hooked).map(|group| (group, BTreeSet::new())));
        }
        for (number, body) in (0_u32..).zip(&bodies) {
            if let Some(own) = group(u64::from(body.hooked)).and_then(|group| entrances.get_mut(&group)) {
                own.insert(number);
            }
        }
        let mut calls = hooked_calls(image, functions);
        for (caller, callee) in inlined(image) {
            let first = bodies.partition_point(|body| u64::from(body.room) < callee);
            let own = bodies.get(first).filter(|body| u64::from(body.room) <= callee + BEFORE_ROOM as u64);
            let hooked = own.and_then(|body| group(u64::from(body.hooked)));
            if let (Some(caller), Some(callee)) = (group(caller), hooked) {
                calls.entry(caller).or_default().insert(callee);
            }
        }
        spread(&mut entrances, &calls);
        let mut ranges: Vec<(u32, u32, Vec<u32>)> = Vec::new();
        for function in functions.all().iter().filter(|function| function.part != Part::Plain) {
            let Some(bodies) = entrances.get(&function.group) else { continue };
            let ordinal = |offset: u64| entries.partition_point(|entry| u64::from(entry.offset) < offset);
            let (first, end) = (ordinal(function.start), ordinal(function.end));
            if let (Ok(first), Ok(sites @ 1..)) = (u32::try_from(first), u32::try_from(end - first)) {
                ranges.push((first, sites, bodies.iter().copied().collect()));
            }
        }
        Reach { bodies, ranges }
    }

    /// As a table has it.
    pub(crate) fn of_table(table: &Table<'_>) -> Reach {
        let range = |range: Range| (range.first, range.sites, table.entrances(&range).collect());
        Reach { bodies: table.bodies().collect(), ranges: table.ranges().map(range).collect() }
    }

    /// Whether functions of the image have two bodies and nothing says which is whose, because the objects were stripped before
    /// they were linked: no function with sites has room for a jump, and others have.
    pub(crate) fn is_lost(&self, image: &Image, functions: &Functions, entries: &[Entry]) -> bool {
        if !self.ranges.is_empty() || entries.is_empty() {
            return false;
        }
        let has_room = |function: &Function| {
            let code = image.loaded_bytes(function.start, BEFORE_ROOM + ROOM.len()).unwrap_or_default();
            code.starts_with(&ROOM) || code.get(BEFORE_ROOM..) == Some(&ROOM)
        };
        let has_sites = |function: &Function| {
            let first = entries.partition_point(|entry| u64::from(entry.offset) < function.start);
            entries.get(first).is_some_and(|entry| u64::from(entry.offset) < function.end)
        };
        let (with, without): (Vec<&Function>, Vec<&Function>) =
            functions.all().iter().filter(|function| has_room(function)).partition(|function| has_sites(function));
        with.is_empty() && !without.is_empty()
    }

    /// As the site table has it, after the entries.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let words = self.bodies.iter().flat_map(|body| [body.room, body.hooked]);
        let mut out: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let entrances: Vec<u32> = self.ranges.iter().flat_map(|range| range.2.iter().copied()).collect();
        out.extend([count(self.ranges.len()), count(entrances.len())].into_iter().flat_map(u32::to_le_bytes));
        let mut at = 0;
        for (first, sites, bodies) in &self.ranges {
            let bodies = count(bodies.len());
            out.extend([*first, *sites, at, bodies].into_iter().flat_map(u32::to_le_bytes));
            at += bodies;
        }
        out.extend(entrances.into_iter().flat_map(u32::to_le_bytes));
        out
    }
}

/// Hooked bodies whose plain ones have inlined a function, and the begin of that, as offsets.
fn inlined(image: &Image) -> Vec<(u64, u64)> {
    pairs(image, CALLS).into_iter().filter_map(|(caller, callee)| Some((caller?, callee?))).collect()
}

/// The rows of two addresses of a section, as offsets; nothing for what was left out of the link.
fn pairs(image: &Image, section: &str) -> Vec<(Option<u64>, Option<u64>)> {
    let bytes = image.debug_bytes(section);
    let offset =
        |row: &[u8], at| u64_at(row, at).and_then(|vaddr| vaddr.checked_sub(image.base())).filter(|at| *at > 0);
    bytes.chunks_exact(ROW).map(|row| (offset(row, 0), offset(row, 8))).collect()
}

/// Hooked functions by those that branch to their hooked begin; all are groups.
fn hooked_calls(image: &Image, functions: &Functions) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut calls: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for function in functions.all().iter().filter(|function| function.part != Part::Plain && !function.is_runtime()) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        let Some(code) = image.loaded_bytes(function.start, len) else { continue };
        x86::branches(code, function.start + image.base(), |branch| {
            let Target::Direct(to) = branch.target else { return };
            let callee = to.checked_sub(image.base()).and_then(|to| functions.at(to));
            if let Some(callee) = callee.filter(|callee| callee.part != Part::Plain && callee.group != function.group) {
                calls.entry(function.group).or_default().insert(callee.group);
            }
        });
    }
    calls
}

/// Hands entrances on from callers to callees, until nothing changes.
fn spread(entrances: &mut BTreeMap<u32, BTreeSet<u32>>, calls: &BTreeMap<u32, BTreeSet<u32>>) {
    let mut work: Vec<u32> = entrances.keys().copied().collect();
    while let Some(caller) = work.pop() {
        let Some(from) = entrances.get(&caller).cloned() else { continue };
        for callee in calls.get(&caller).into_iter().flatten() {
            if let Some(to) = entrances.get_mut(callee) {
                let before = to.len();
                to.extend(&from);
                if to.len() > before {
                    work.push(*callee);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entrances_go_from_callers_to_callees() {
        let set = |rows: &[u32]| rows.iter().copied().collect::<BTreeSet<u32>>();
        let mut entrances = BTreeMap::from([(1, set(&[10])), (2, set(&[])), (3, set(&[30])), (4, set(&[]))]);
        // 1 -> 2 -> 4 -> 2, 3 -> 4; 9 is no hooked function.
        let calls = BTreeMap::from([(1, set(&[2, 9])), (2, set(&[4])), (4, set(&[2])), (3, set(&[4]))]);
        spread(&mut entrances, &calls);
        let all = set(&[10, 30]);
        assert_eq!(entrances, BTreeMap::from([(1, set(&[10])), (2, all.clone()), (3, set(&[30])), (4, all)]));
    }
}
