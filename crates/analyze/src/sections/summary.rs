//! What a call does to a variable: which accesses may be the first, which the last, which stores the first, and
//! whether there may be none.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::{Item, Lane, Shape, Walk};
use super::{Function, Mode, Place, Program};

/// Most variables of a function that its callers hear of.
const MOST_PLACES: usize = 256;
/// Most sites that are told for one variable.
const MOST_SITES: usize = 64;

/// The summaries of all functions.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    by_function: Vec<BTreeMap<Place, Item>>,
    left_out: u64,
}

impl Summaries {
    /// Of all functions, in an order that has callees first; a call against the order, in a recursion, has none.
    pub(super) fn new(program: &Program, order: &[usize]) -> Summaries {
        let mut out = Summaries { by_function: vec![BTreeMap::new(); program.functions.len()], left_out: 0 };
        for at in order {
            let Some(function) = program.functions.get(*at) else { continue };
            let shape = Shape::new(function);
            let mut places = BTreeMap::new();
            for (place, lane) in out.lanes(function).into_iter().filter(|(place, _)| place.is_known_outside()) {
                let item = whole(&shape, &lane);
                if places.len() >= MOST_PLACES || item.first.len() > MOST_SITES || item.last.len() > MOST_SITES {
                    out.left_out += 1;
                    continue;
                }
                places.insert(place, item);
            }
            if let Some(slot) = out.by_function.get_mut(*at) {
                *slot = places;
            }
        }
        out
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// For every variable of a function: what its blocks do to it.
    pub(super) fn lanes(&self, function: &Function) -> BTreeMap<Place, Lane> {
        let mut lanes: BTreeMap<Place, Lane> = BTreeMap::new();
        let reachable = reachable(function);
        for (at, block) in function.blocks.iter().enumerate().filter(|(at, _)| reachable.contains(at)) {
            for access in &block.accesses {
                lanes.entry(access.place.clone()).or_default().push(at, Item::of(access.site, access.mode));
            }
            let Some(call) = &block.call else { continue };
            // Several places of the callee may be one to the caller.
            let mut here: BTreeMap<Place, Item> = BTreeMap::new();
            for (place, item) in self.by_function.get(call.function).into_iter().flatten() {
                if let Some(place) = place.in_caller(&call.arguments) {
                    match here.get_mut(&place) {
                        Some(known) => known.add(item),
                        None => {
                            here.insert(place, item.clone());
                        }
                    }
                }
            }
            for (place, item) in here {
                lanes.entry(place).or_default().push(at, item);
            }
        }
        lanes
    }
}

/// The blocks that can be come to.
pub(super) fn reachable(function: &Function) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    let mut work = vec![function.entry];
    while let Some(at) = work.pop() {
        if let Some(block) = function.blocks.get(at).filter(|_| out.insert(at)) {
            work.extend(&block.successors);
        }
    }
    out
}

/// The blocks that may be come to again: all in circles, and those behind circles.
pub(super) fn circles(function: &Function) -> BTreeSet<usize> {
    // A block with nothing before it is in no circle; without it, the next may have nothing.
    let mut out = reachable(function);
    let mut into: BTreeMap<usize, usize> = BTreeMap::new();
    let next = |at: usize| function.blocks.get(at).into_iter().flat_map(|block| &block.successors).copied();
    for at in &out {
        for to in next(*at) {
            *into.entry(to).or_default() += 1;
        }
    }
    let mut work: Vec<usize> = out.iter().copied().filter(|at| !into.contains_key(at)).collect();
    while let Some(at) = work.pop() {
        out.remove(&at);
        for to in next(at) {
            if let Some(count) = into.get_mut(&to) {
                *count -= 1;
                if *count == 0 {
                    work.push(to);
                }
            }
        }
    }
    out
}

/// What a whole function does to a variable.
fn whole(shape: &Shape<'_>, lane: &Lane) -> Item {
    let walk = Walk::new(shape, lane);
    let (first, passes) = walk.whole(|item| item.passes, |item| item.first.clone());
    let (stores, only_loads) = walk.whole(|item| item.only_loads, |item| item.stores.clone());
    let mut last: BTreeSet<(u32, Mode)> = BTreeSet::new();
    for (at, item) in lane.items() {
        if walk.may_return_after(at) {
            last.extend(&item.last);
        }
    }
    Item { first, last, passes, stores, only_loads }
}

/// All functions, callees before callers where there is no recursion.
pub(super) fn bottom_up(program: &Program) -> Vec<usize> {
    let mut seen = vec![false; program.functions.len()];
    let mut out = Vec::new();
    let callees = |at: usize| {
        let blocks = program.functions.get(at).map_or(&[][..], |function| &function.blocks);
        blocks.iter().filter_map(|block| block.call.as_ref()).map(|call| call.function)
    };
    let mut visit = |at: usize| seen.get_mut(at).is_some_and(|seen| !std::mem::replace(seen, true));
    for root in 0..program.functions.len() {
        if !visit(root) {
            continue;
        }
        let mut path = vec![(root, callees(root))];
        while let Some((at, rest)) = path.last_mut() {
            match rest.next() {
                Some(next) if visit(next) => path.push((next, callees(next))),
                Some(_) => {}
                None => {
                    out.push(*at);
                    path.pop();
                }
            }
        }
    }
    out
}
