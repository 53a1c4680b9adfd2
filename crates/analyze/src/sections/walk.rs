//! One variable in one function: what its blocks do to it, and the ways between.

use std::collections::{BTreeMap, BTreeSet};

use super::{Exit, Function, Mode};

/// Something that may touch the variable: an access, or a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    /// Accesses that may be the first in it.
    pub(super) first: BTreeSet<(u32, Mode)>,
    /// Accesses that may be the last in it.
    pub(super) last: BTreeSet<(u32, Mode)>,
    /// Whether it may come and go without one.
    pub(super) passes: bool,
    /// Stores that may be the first in it.
    pub(super) stores: BTreeSet<(u32, Mode)>,
    /// Whether it may come and go without a store.
    pub(super) only_loads: bool,
}

impl Item {
    /// A single access.
    pub(super) fn of(site: u32, mode: Mode) -> Item {
        let one = BTreeSet::from([(site, mode)]);
        let stores = if mode.writes() { one.clone() } else { BTreeSet::new() };
        Item { first: one.clone(), last: one, passes: false, stores, only_loads: !mode.writes() }
    }

    /// Another name of the variable in the same call: which comes first is not known.
    pub(super) fn add(&mut self, other: &Item) {
        self.first.extend(&other.first);
        self.last.extend(&other.last);
        self.passes &= other.passes;
        self.stores.extend(&other.stores);
        self.only_loads &= other.only_loads;
    }
}

/// The items of a variable, by block and in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    blocks: BTreeMap<usize, Vec<Item>>,
}

impl Lane {
    pub(super) fn push(&mut self, block: usize, item: Item) {
        self.blocks.entry(block).or_default().push(item);
    }

    /// All items with their places: (block, position in it).
    pub(super) fn items(&self) -> impl Iterator<Item = ((usize, usize), &Item)> {
        self.blocks
            .iter()
            .flat_map(|(block, items)| items.iter().enumerate().map(move |(at, item)| ((*block, at), item)))
    }

    /// The block of the only item, where there is but one.
    pub(super) fn only_block(&self) -> Option<usize> {
        let mut blocks = self.blocks.iter();
        match (blocks.next(), blocks.next()) {
            (Some((block, items)), None) if items.len() == 1 => Some(*block),
            _ => None,
        }
    }

    fn of(&self, block: usize) -> &[Item] {
        self.blocks.get(&block).map_or(&[], Vec::as_slice)
    }
}

/// Where a walk came.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    /// The accesses that it was looking for.
    pub(super) ends: BTreeSet<(u32, Mode)>,
    /// Where it can no longer come to one.
    pub(super) exits: BTreeSet<Exit>,
}

/// A function, ready for walks.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    function: &'a Function,
    /// By block: those before it.
    before: Vec<Vec<usize>>,
}

impl<'a> Shape<'a> {
    pub(super) fn new(function: &'a Function) -> Shape<'a> {
        let mut before = vec![Vec::new(); function.blocks.len()];
        for (at, block) in function.blocks.iter().enumerate() {
            for next in &block.successors {
                if let Some(list) = before.get_mut(*next) {
                    list.push(at);
                }
            }
        }
        Shape { function, before }
    }

    fn reached(&self) -> Reached {
        let none = vec![false; self.function.blocks.len()];
        Reached { entered: none.clone(), is_through: none, ..Reached::default() }
    }
}

/// Walks a function for one variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    shape: &'a Shape<'a>,
    function: &'a Function,
    lane: &'a Lane,
}

/// What a look at an item says.
enum Look {
    /// Stop here.
    Stop,
    /// Go on.
    Pass,
}

impl<'a> Walk<'a> {
    pub(super) fn new(shape: &'a Shape<'a>, lane: &'a Lane) -> Walk<'a> {
        Walk { shape, function: shape.function, lane }
    }

    /// From behind an item: the wanted accesses of each item that is come to, going on over those that may be passed.
    pub(super) fn from(
        &self,
        start: (usize, usize),
        passes: impl Fn(&Item) -> bool,
        wanted: impl Fn(&Item) -> BTreeSet<(u32, Mode)>,
    ) -> Passage {
        let mut ends = BTreeSet::new();
        let mut reached = self.shape.reached();
        self.walk(start, &mut reached, |_, item| {
            let found = wanted(item);
            let any = !found.is_empty();
            ends.extend(found);
            (if passes(item) { Look::Pass } else { Look::Stop }, any)
        });
        Passage { ends, exits: self.exits(start.0, &reached) }
    }

    /// From behind an item to the items for which `ends` holds, going on over those that may be passed.
    pub(super) fn until(
        &self,
        start: (usize, usize),
        passes: impl Fn(&Item) -> bool,
        is_end: impl Fn((usize, usize), &Item) -> bool,
    ) -> Passage {
        let mut ends = BTreeSet::new();
        let mut reached = self.shape.reached();
        self.walk(start, &mut reached, |at, item| {
            if is_end(at, item) {
                ends.extend(&item.first);
                (Look::Stop, true)
            } else if passes(item) {
                (Look::Pass, false)
            } else {
                (Look::Stop, false)
            }
        });
        Passage { ends, exits: self.exits(start.0, &reached) }
    }

    /// From the function's begin: the wanted accesses of each item that is come to, going on over those that may be
    /// passed, and whether the function may return so.
    pub(super) fn whole(
        &self,
        passes: impl Fn(&Item) -> bool,
        wanted: impl Fn(&Item) -> BTreeSet<(u32, Mode)>,
    ) -> (BTreeSet<(u32, Mode)>, bool) {
        let mut found = BTreeSet::new();
        let mut reached = self.shape.reached();
        self.enter(self.function.entry, &mut reached, &mut |_, item| {
            found.extend(wanted(item));
            (if passes(item) { Look::Pass } else { Look::Stop }, true)
        });
        let returns = |block: &usize| self.function.blocks.get(*block).is_some_and(|block| block.returns);
        (found, reached.through.iter().any(returns))
    }

    /// Whether the function may return behind an item without touching the variable again.
    pub(super) fn may_return_after(&self, start: (usize, usize)) -> bool {
        let mut reached = self.shape.reached();
        self.walk(start, &mut reached, |_, item| (if item.passes { Look::Pass } else { Look::Stop }, false));
        let returns = |block: &usize| self.function.blocks.get(*block).is_some_and(|block| block.returns);
        reached.through.iter().any(returns)
    }

    /// The blocks whose end is come to from behind an item without touching the variable.
    pub(super) fn blocks_after(&self, start: (usize, usize)) -> Vec<usize> {
        let mut reached = self.shape.reached();
        self.walk(start, &mut reached, |_, item| (if item.passes { Look::Pass } else { Look::Stop }, false));
        reached.through
    }

    /// Items that can be come to from the function's begin, or from one that `skips` does not hold for, without
    /// any other between.
    pub(super) fn firsts(&self, skips: impl Fn(&Item) -> bool) -> BTreeSet<(usize, usize)> {
        let mut out = BTreeSet::new();
        let mut look = |here: (usize, usize), item: &Item| {
            out.insert(here);
            (if item.passes { Look::Pass } else { Look::Stop }, false)
        };
        self.enter(self.function.entry, &mut self.shape.reached(), &mut look);
        for (start, _) in self.lane.items().filter(|(_, item)| !skips(item)) {
            self.walk(start, &mut self.shape.reached(), &mut look);
        }
        out
    }

    /// Walks from behind an item.
    fn walk(
        &self,
        start: (usize, usize),
        reached: &mut Reached,
        mut look: impl FnMut((usize, usize), &Item) -> (Look, bool),
    ) {
        let (block, position) = start;
        self.block(block, position + 1, reached, &mut look);
        self.spread(reached, &mut look);
    }

    fn enter(&self, block: usize, reached: &mut Reached, look: &mut impl FnMut((usize, usize), &Item) -> (Look, bool)) {
        set(&mut reached.entered, block);
        reached.work.push(block);
        self.spread(reached, look);
    }

    fn spread(&self, reached: &mut Reached, look: &mut impl FnMut((usize, usize), &Item) -> (Look, bool)) {
        while let Some(block) = reached.work.pop() {
            self.block(block, 0, reached, look);
        }
    }

    /// Goes through a block from an item on.
    fn block(
        &self,
        block: usize,
        from: usize,
        reached: &mut Reached,
        look: &mut impl FnMut((usize, usize), &Item) -> (Look, bool),
    ) {
        for (position, item) in self.lane.of(block).iter().enumerate().skip(from) {
            let (next, wanted) = look((block, position), item);
            if wanted {
                reached.wanted.push(block);
            }
            match next {
                Look::Pass => {}
                Look::Stop => return,
            }
        }
        if set(&mut reached.is_through, block) {
            reached.through.push(block);
        }
        for next in self.function.blocks.get(block).into_iter().flat_map(|block| &block.successors) {
            if set(&mut reached.entered, *next) {
                reached.work.push(*next);
            }
        }
    }

    /// Where the walk that began in a block can no longer come to what it wanted.
    fn exits(&self, start: usize, reached: &Reached) -> BTreeSet<Exit> {
        // Blocks from whose begin something wanted can still be come to. The start's begin is not part of the walk
        // unless it came around.
        let mut live = vec![false; self.function.blocks.len()];
        let mut work = reached.wanted.clone();
        while let Some(block) = work.pop() {
            if set(&mut live, block) {
                let before = self.shape.before.get(block).into_iter().flatten().copied();
                work.extend(before.filter(|block| get(&reached.is_through, *block)));
            }
        }
        let exit = |block: usize, leaves: bool| {
            let found = self.function.blocks.get(block)?;
            Some(Exit { block: found.start, site: found.site, leaves })
        };
        let mut out = BTreeSet::new();
        for block in reached.through.iter().filter(|block| get(&live, **block) || **block == start) {
            let Some(found) = self.function.blocks.get(*block) else { continue };
            for next in found.successors.iter().filter(|next| !get(&live, **next)) {
                out.extend(exit(*next, false));
            }
            if found.returns || found.leaves {
                out.extend(exit(*block, true));
            }
        }
        out
    }
}

/// What a walk has come to.
#[derive(Debug, Default)]
struct Reached {
    entered: Vec<bool>,
    work: Vec<usize>,
    /// Blocks that were gone through to their end, each once.
    through: Vec<usize>,
    /// The same, by block.
    is_through: Vec<bool>,
    /// Blocks with something that was wanted.
    wanted: Vec<usize>,
}

/// Marks a block; answers whether it was not before.
fn set(marks: &mut [bool], block: usize) -> bool {
    marks.get_mut(block).is_some_and(|mark| !std::mem::replace(mark, true))
}

fn get(marks: &[bool], block: usize) -> bool {
    marks.get(block).copied().unwrap_or(false)
}
