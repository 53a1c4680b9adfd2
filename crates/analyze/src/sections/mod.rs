//! Atomic sections that the code itself suggests (Letko, Vojnar and Křena, "AtomRace", PADTAD 2008, section 4).
//!
//! A section belongs to one variable: it begins at one access and ends at one of several others, or by leaving every path
//! to them. For each end it says what other threads may do to the variable meanwhile. Three patterns:
//! - *load and store*: the first load of a variable, and the store that follows it, with any number of loads between
//!   (section 4.1);
//! - *test and use*: a load whose value decides a branch, and the last loads behind the branch (section 4.1);
//! - *consecutive accesses*: an access and each one that may be the next to the same variable (section 4.2).
//!
//! Works on graphs of functions given as plain values; calls of known functions are looked into by summaries (which
//! accesses of a variable may be the first and the last in a call, and whether a call may go without any), so a
//! section may begin in a callee and end in its caller.
//!
//! Departures from the paper:
//! - "The same variable" is the same [`Place`]: machine code has no fields. That two places are one object is for the
//!   run to say, which knows addresses.
//! - A load and a store need not be of one statement; refinement by correct runs is there to drop what is not meant.
//! - A section is left where no end can be reached any more, not only in handlers of exceptions.
//!
//! Never reports: sections of a function's own frame; one that nobody could break (all is allowed at all ends).
//!
//! Cannot see: other names of the same variable; calls through pointers and into recursion, which are taken not to touch
//! it. A section that may end in its own function and, behind a return, in a caller is left at the return: it is not
//! checked on that path. What was cut for size is counted.
//!
//! Cost: for each variable of a function, its accesses times the blocks between them.

pub mod assure;
mod place;
pub mod refine;
mod summary;
mod table;
pub mod text;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use place::{Place, Root};
pub use table::{Mode, Remote, allowed};

use summary::{Summaries, bottom_up};
use walk::{Item, Lane, Passage, Shape, Walk};

/// Functions to look for sections in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// All functions; calls name them by their position.
    pub functions: Vec<Function>,
}

/// A function's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// The block that is entered.
    pub entry: usize,
}

/// A block: accesses, then perhaps a call, then the next blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it begins, for the reader.
    pub start: u64,
    /// The first site in it at which a run can tell that it was entered.
    pub site: Option<u32>,
    /// Its accesses, in order.
    pub accesses: Vec<Access>,
    /// The call that it ends with.
    pub call: Option<Call>,
    /// Places whose values decide where it goes next.
    pub tests: Vec<Place>,
    /// Where it may go next.
    pub successors: Vec<usize>,
    /// Whether it may return.
    pub returns: bool,
    /// Whether it may leave the function in another way: by an exception, or with the program's end.
    pub leaves: bool,
    /// Whether it reads memory that other threads may write, or operates on it atomically.
    pub looks: bool,
    /// The call that it ends with, where that may synchronise.
    pub risk: Option<Risk>,
}

/// A call that may synchronise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Of a function outside the program, which is not known to be harmless.
    Named(String),
    /// Of whatever a pointer names, or of code that is not known.
    Unknown,
}

/// One access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Its site.
    pub site: u32,
    /// To what.
    pub place: Place,
    /// How.
    pub mode: Mode,
}

/// A call of a known function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: usize,
    /// Its arguments, as far as they are known.
    pub arguments: Vec<Option<Place>>,
}

/// Which pattern a section follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A load and the store that follows.
    LoadAndStore,
    /// A load that is tested and the loads that rely on the test.
    TestAndUse,
    /// An access and the next one.
    Consecutive,
}

/// Where a section may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// After the access of this site.
    pub site: u32,
    /// What others may do meanwhile.
    pub allowed: Remote,
}

/// Where a section is left without coming to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Exit {
    /// The begin of the block.
    pub block: u64,
    /// The first site in it.
    pub site: Option<u32>,
    /// Whether it is left when this block leaves its function, not when it is entered.
    pub leaves: bool,
}

/// An atomic section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Section {
    /// The access that it begins with.
    pub entry: u32,
    /// Its pattern.
    pub kind: Kind,
    /// How the entry accesses the variable.
    pub mode: Mode,
    /// The variable, as the entry's own function names it where that is known.
    pub variable: Place,
    /// The function in which it was found, by position; the outermost where there are several.
    pub function: usize,
    /// Ends, by site.
    pub ends: Vec<End>,
    /// Exits, by block.
    pub exits: Vec<Exit>,
}

impl Section {
    /// Whether it goes around: it may end where it began, the next time.
    pub fn is_circular(&self) -> bool {
        self.ends.iter().any(|end| end.site == self.entry)
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// By entry, then pattern.
    pub all: Vec<Section>,
    /// Variables and accesses that summaries left out for their size.
    pub left_out: u64,
}

/// Finds the sections of a program.
pub fn find(program: &Program) -> Sections {
    let order = bottom_up(program);
    let summaries = Summaries::new(program, &order);
    let mut merged: BTreeMap<(u32, Kind), Section> = BTreeMap::new();
    // Callees first: the entry's own function names the variable.
    for at in order {
        let Some(function) = program.functions.get(at) else { continue };
        let lanes = summaries.lanes(function);
        let circles = summary::circles(function);
        let shape = Shape::new(function);
        for (place, lane) in &lanes {
            // One access that is never come to again is not a section, and the most frequent lane of all.
            if place.is_private() || lane.only_block().is_some_and(|block| !circles.contains(&block)) {
                continue;
            }
            let walk = Walk::new(&shape, lane);
            for found in consecutive(&walk, lane)
                .into_iter()
                .chain(load_and_store(&walk, lane))
                .chain(test_and_use(function, place, &walk, lane))
            {
                let section = merged.entry((found.entry, found.kind)).or_insert_with(|| Section {
                    entry: found.entry,
                    kind: found.kind,
                    mode: found.mode,
                    variable: place.clone(),
                    function: at,
                    ends: Vec::new(),
                    exits: Vec::new(),
                });
                section.ends.extend(found.ends);
                section.exits.extend(found.exits);
            }
        }
    }
    let mut all: Vec<Section> = merged.into_values().collect();
    for section in &mut all {
        section.ends.sort_unstable();
        section.ends.dedup();
        section.exits.sort_unstable();
        section.exits.dedup();
    }
    all.retain(|section| section.ends.iter().any(|end| end.allowed != Remote::ALL));
    Sections { all, left_out: summaries.left_out() }
}

/// A section as one function shows it.
struct Found {
    entry: u32,
    kind: Kind,
    mode: Mode,
    ends: BTreeSet<End>,
    exits: BTreeSet<Exit>,
}

impl Found {
    fn new(kind: Kind, entry: (u32, Mode), sites: &BTreeSet<(u32, Mode)>, exits: &BTreeSet<Exit>) -> Found {
        let end = |(site, mode): &(u32, Mode)| End { site: *site, allowed: allowed(entry.1, *mode) };
        Found { entry: entry.0, kind, mode: entry.1, ends: sites.iter().map(end).collect(), exits: exits.clone() }
    }
}

/// Every access and the next ones.
fn consecutive(walk: &Walk<'_>, lane: &Lane) -> Vec<Found> {
    let mut out = Vec::new();
    for (at, item) in lane.items() {
        if item.last.is_empty() {
            continue;
        }
        let passage = walk.from(at, |item| item.passes, |item| item.first.iter().copied().collect());
        if !passage.ends.is_empty() {
            let found = |entry: &(u32, Mode)| Found::new(Kind::Consecutive, *entry, &passage.ends, &passage.exits);
            out.extend(item.last.iter().map(found));
        }
    }
    out
}

/// The first loads, and the stores that follow.
fn load_and_store(walk: &Walk<'_>, lane: &Lane) -> Vec<Found> {
    let mut out = Vec::new();
    let firsts = walk.firsts(|item| item.stores.is_empty());
    for (at, item) in lane.items() {
        let loads: Vec<(u32, Mode)> = item.last.iter().copied().filter(|(_, mode)| *mode == Mode::Read).collect();
        // A call that stores may load again after it.
        if loads.is_empty() || (!firsts.contains(&at) && item.stores.is_empty()) {
            continue;
        }
        let passage = walk.from(at, |item| item.only_loads, |item| item.stores.clone());
        if !passage.ends.is_empty() {
            let found = |entry: &(u32, Mode)| Found::new(Kind::LoadAndStore, *entry, &passage.ends, &passage.exits);
            out.extend(loads.iter().map(found));
        }
    }
    out
}

/// Loads that decide a branch, and the last loads behind it.
fn test_and_use(function: &Function, place: &Place, walk: &Walk<'_>, lane: &Lane) -> Vec<Found> {
    let only_loads = |item: &Item| item.stores.is_empty();
    let tests = |block: usize| {
        function.blocks.get(block).is_some_and(|block| block.successors.len() > 1 && block.tests.contains(place))
    };
    if !(0..function.blocks.len()).any(tests) {
        return Vec::new();
    }
    let uses = |item: &Item| -> BTreeSet<(u32, Mode)> {
        if only_loads(item) { item.first.iter().copied().collect() } else { BTreeSet::new() }
    };
    let next_uses: BTreeMap<(usize, usize), Passage> = lane
        .items()
        .filter(|(_, item)| only_loads(item))
        .map(|(at, _)| (at, walk.from(at, |item| item.passes, uses)))
        .collect();
    let mut out = Vec::new();
    for (at, item) in lane.items() {
        let loads: Vec<(u32, Mode)> = item.last.iter().copied().filter(|(_, mode)| *mode == Mode::Read).collect();
        let Some(next) = next_uses.get(&at).filter(|next| !loads.is_empty() && !next.ends.is_empty()) else { continue };
        // The test must be of this load: nothing touches the variable between.
        if !walk.blocks_after(at).into_iter().any(tests) {
            continue;
        }
        let last = |at: (usize, usize), _: &Item| next_uses.get(&at).is_some_and(|next| next.ends.is_empty());
        let mut passage = walk.until(at, |item| item.passes || only_loads(item), last);
        // In a circle no load is the last one: the next ones end it then.
        if passage.ends.is_empty() {
            passage = next.clone();
        }
        let found = |entry: &(u32, Mode)| Found::new(Kind::TestAndUse, *entry, &passage.ends, &passage.exits);
        out.extend(loads.iter().map(found));
    }
    out
}

#[cfg(test)]
mod tests;
