//! From a profile and a build to locks: places and orders them, and says which hook does what.
//!
//! A release on an edge is done at the first hook of the block that the edge leads to, after an item at the thread's next hook. A block
//! without a hook leaves it to those that follow, as far as the lock is not needed there, and else to the function's end: held for longer
//! than it must be, never shorter.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::atomicity::heat::{LeftOut, cool};
use selvedge_analyze::atomicity::order::{DEFAULT_WORK, Resolved, resolve_with};
use selvedge_analyze::atomicity::place::{Action as Placed, Anchor, Mode, SlotId, anchor};
use selvedge_analyze::atomicity::profile::Profile;
use selvedge_analyze::atomicity::program::{BlockId, FunctionId, NodeId, Place, ProgramError};
use selvedge_events::enforce::{Action, DEFAULT_WAIT_NS, PATIENCE};
use selvedge_events::plan::POINT_AFTER;
use selvedge_image::Loaded;

use super::code::ReadBuild;
use super::model::{Hook, Model};
use super::table::{PointSpec, TableSpec};
use super::thin::thin;
use crate::arm::ImageSites;
use crate::guard::keys::ImageFile;
use crate::plan::ImageSpec;

/// Locks for one build.
#[derive(Debug)]
pub struct Enforced {
    /// Which build.
    pub build_id: Vec<u8>,
    /// The program that they were placed in.
    pub model: Model,
    /// Where they are.
    pub resolved: Resolved,
    pub(super) loaded: Loaded,
    sites: ImageSites,
    /// By ordinal of a site, and one more than the function that it is part of: what is done there. A site of a bare function is part of several.
    points: BTreeMap<u32, BTreeMap<u32, PointSpec>>,
    calls: BTreeMap<u32, PointSpec>,
    /// Releases that are left to the end of their functions.
    pub late: usize,
    /// What would cost too much.
    pub left_out: LeftOut,
    /// Whether waiting may take only its part of a run.
    limited: bool,
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// An access.
    Offset(u64),
    /// A call, by where it returns to.
    Returns(u64),
}

/// Why there are no locks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnforceError {
    /// The program cannot be read.
    #[error("cannot read the program, or it was built anew since it was looked at")]
    Image,
    /// Its graphs make no sense.
    #[error("the program's code cannot be understood")]
    Program(#[from] ProgramError),
    /// All that there is would cost too much.
    #[error(
        "what the profile has would slow the program down too much (pairs: {pairs}); --all enforces it all the same"
    )]
    Hot {
        /// How many these are.
        pairs: usize,
    },
    /// There is no pair to keep.
    #[error(
        "the profile has no pairs for this program ({unknown} are not in this build); \
         make one with `selvedge profile -n 40 -- PROGRAM`"
    )]
    Nothing {
        /// Pairs that the build does not have.
        unknown: usize,
    },
}

impl Enforced {
    /// The locks of a profile for the program, which is the first of the files, without what would cost too much.
    pub fn of(profile: &Profile, files: &[ImageFile]) -> Result<Enforced, EnforceError> {
        let limited = profile.time > 0;
        let (profile, left_out) = cool(profile);
        match Enforced::all_of(&profile, files) {
            Err(EnforceError::Nothing { .. }) if left_out.pairs() > 0 => {
                Err(EnforceError::Hot { pairs: left_out.pairs() })
            }
            enforced => Ok(Enforced { left_out, limited, ..enforced? }),
        }
    }

    /// The same, whatever it costs.
    pub fn all_of(profile: &Profile, files: &[ImageFile]) -> Result<Enforced, EnforceError> {
        let file = files.first().ok_or(EnforceError::Image)?;
        let build = ReadBuild::load(&file.path, &file.build_id).ok_or(EnforceError::Image)?;
        let model = Model::of(&build, profile)?;
        if model.bound.pairs.is_empty() {
            return Err(EnforceError::Nothing { unknown: model.bound.unknown.len() });
        }
        let resolved = resolve_with(&model.program, model.bound.pairs.clone(), &model.together, DEFAULT_WORK);
        let sites = ImageSites::of(&build.loaded);
        let mut enforced = Enforced {
            build_id: file.build_id.clone(),
            model,
            resolved,
            sites,
            loaded: build.loaded,
            points: BTreeMap::new(),
            calls: BTreeMap::new(),
            late: 0,
            left_out: LeftOut::default(),
            limited: false,
        };
        enforced.anchor_all();
        Ok(enforced)
    }

    fn anchor_all(&mut self) {
        let mut slots = 0;
        for (number, placed) in (0..).zip(std::mem::take(&mut self.resolved.placement.functions)) {
            let id = FunctionId(number);
            let flow = self.model.program.flow(id).clone();
            if placed.before.iter().any(|actions| !actions.is_empty()) {
                // Its doors must be armed, so that activations are known.
                let doors = self.model.homes.get(number as usize).map(|home| home.doors.clone()).unwrap_or_default();
                doors.into_iter().for_each(|door| {
                    self.point(door, number);
                });
            }
            for node in flow.nodes() {
                for action in placed.before.get(node.0 as usize).into_iter().flatten() {
                    let Some(anchor) = anchor(&flow, node, action) else { continue };
                    let live = |block: BlockId, slot: SlotId| {
                        let first = flow.node(block, 0);
                        first.is_none_or(|node| placed.constraints_at(node).any(|constraint| constraint.slot == slot))
                    };
                    self.put(number, anchor, &lowered(action, slots), &|block| live(block, slot_of(action)));
                }
            }
            slots += u32::try_from(placed.slots.len()).unwrap_or(u32::MAX);
            self.resolved.placement.functions.push(placed);
        }
        // Callees of calls at which something is done must be armed too: their entries are the hooks.
        let mut doors = BTreeSet::new();
        for (function, home) in self.model.program.functions().iter().zip(&self.model.homes) {
            for (block, hooks) in function.blocks.iter().zip(&home.hooks) {
                for (item, hook) in block.items.iter().zip(hooks) {
                    if let (selvedge_analyze::atomicity::program::Item::Call { targets }, Hook::Call(returns)) =
                        (item, hook)
                        && self.calls.contains_key(returns)
                    {
                        doors.extend(targets.iter().copied());
                    }
                }
            }
        }
        for target in doors {
            let doors = self.model.homes.get(target.0 as usize).map(|home| home.doors.clone()).unwrap_or_default();
            doors.into_iter().for_each(|door| {
                self.point(door, target.0);
            });
        }
        thin(self.points.values_mut().flat_map(BTreeMap::values_mut).chain(self.calls.values_mut()));
        self.tell_apart();
    }

    /// A site of a bare function at which something is done has a point for each function that it is part of, which must be known by its doors.
    fn tell_apart(&mut self) {
        for (number, home) in (0..).zip(self.model.homes.clone()) {
            let own = home.hooks.iter().flatten().filter_map(|hook| match hook {
                Hook::Site(ordinal) if home.is_bare => Some(*ordinal),
                _ => None,
            });
            let all: BTreeSet<u32> = home.borrowed.iter().copied().chain(own).collect();
            let done: Vec<u32> = all.into_iter().filter(|ordinal| self.points.contains_key(ordinal)).collect();
            if done.is_empty() {
                continue;
            }
            for ordinal in done.into_iter().chain(home.doors) {
                self.point(ordinal, number);
            }
        }
    }

    fn point(&mut self, ordinal: u32, function: u32) -> &mut PointSpec {
        let point = self.points.entry(ordinal).or_default().entry(function + 1).or_default();
        point.function = function + 1;
        point
    }

    /// The points in the order of their sites, one for each; then those that count for other functions.
    fn numbered(&self) -> Vec<PointSpec> {
        let is_bare = |function: u32| {
            let home = function.checked_sub(1).and_then(|number| self.model.homes.get(number as usize));
            home.is_some_and(|home| home.is_bare)
        };
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        let count = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
        for points in self.points.values() {
            let mut all: Vec<PointSpec> = points.values().cloned().collect();
            // The last of a chain counts for everybody else: the function by itself, or nothing.
            all.sort_by_key(|point| is_bare(point.function));
            if all.len() > 1 && !all.last().is_some_and(|last| is_bare(last.function)) {
                all.push(PointSpec::default());
            }
            let mut others = all.split_off(all.len().min(1));
            if let (Some(head), false) = (all.first_mut(), others.is_empty()) {
                let mut next = count + u32::try_from(rest.len()).unwrap_or(u32::MAX) + 1;
                head.other = next;
                let last = others.len() - 1;
                for point in others.iter_mut().take(last) {
                    next += 1;
                    point.other = next;
                }
            }
            first.extend(all);
            rest.extend(others);
        }
        first.extend(rest);
        first
    }

    fn hook(&mut self, function: u32, hook: Hook) -> &mut PointSpec {
        match hook {
            Hook::Site(ordinal) => self.point(ordinal, function),
            Hook::Call(returns) => {
                let call = self.calls.entry(returns).or_default();
                call.function = function + 1;
                call
            }
        }
    }

    fn put(&mut self, function: u32, anchor: Anchor, actions: &[Action], live: &dyn Fn(BlockId) -> bool) {
        let home = self.model.homes.get(function as usize);
        let item = |block: BlockId, item: u32| {
            home.and_then(|home| home.hooks.get(block.0 as usize)?.get(item as usize).copied())
        };
        match anchor {
            Anchor::Before(block, number) => {
                if let Some(hook) = item(block, number) {
                    self.hook(function, hook).before.extend(actions);
                }
            }
            Anchor::After(block, number) => {
                if let Some(hook) = item(block, number) {
                    self.hook(function, hook).after.extend(actions);
                }
            }
            Anchor::Entry(block) => {
                for site in self.entries(function, block, live) {
                    self.point(site, function).before.extend(actions);
                }
            }
            // Leaving the function gives back everything.
            Anchor::Exit => {}
        }
    }

    /// The first hooks from a block's begin on.
    fn entries(&mut self, function: u32, block: BlockId, live: &dyn Fn(BlockId) -> bool) -> Vec<u32> {
        let (mut found, mut late) = (BTreeSet::new(), 0);
        let (mut seen, mut work) = (BTreeSet::from([block]), vec![block]);
        let home = self.model.homes.get(function as usize);
        let blocks = self.model.program.functions().get(function as usize).map_or(&[][..], |function| &function.blocks);
        while let Some(at) = work.pop() {
            if at != block && live(at) {
                late += 1;
                continue;
            }
            match home.and_then(|home| home.first_site.get(at.0 as usize).copied().flatten()) {
                Some(site) => {
                    found.insert(site);
                }
                None => {
                    let next = blocks.get(at.0 as usize).into_iter().flat_map(|block| &block.next);
                    work.extend(next.copied().filter(|next| seen.insert(*next)));
                }
            }
        }
        self.late += late;
        found.into_iter().collect()
    }

    /// Where an access or a call is in the code.
    pub(super) fn spot(&self, function: FunctionId, node: NodeId) -> Option<Spot> {
        let Place::Item(block, item) = self.model.program.flow(function).place(node)? else { return None };
        let home = self.model.homes.get(function.0 as usize)?;
        Some(match *home.hooks.get(block.0 as usize)?.get(item as usize)? {
            Hook::Site(ordinal) => Spot::Offset(u64::from(self.loaded.entries.get(ordinal as usize)?.offset)),
            Hook::Call(returns) => Spot::Returns(u64::from(returns)),
        })
    }

    /// How much of the profile is enforced, in a sentence.
    pub fn fit(&self) -> String {
        let (pairs, left) = (self.resolved.wanted.pairs.len(), self.resolved.unenforced.len());
        let unknown = self.model.bound.unknown.len();
        let locks: BTreeSet<u32> = self.resolved.wanted.lock_of.values().map(|lock| lock.0).collect();
        let many = |count: usize| if count == 1 { "" } else { "s" };
        let mut text = format!("{pairs} pair{} enforced by {} lock{}", many(pairs), locks.len(), many(locks.len()));
        if left > 0 {
            text += &format!("; {left} cannot be enforced");
        }
        if unknown > 0 {
            text += &format!("; {unknown} are not in this build");
        }
        let hot = self.left_out.pairs();
        if hot > 0 {
            text += &format!("; {hot} would cost too much and {} left out", if hot == 1 { "is" } else { "are" });
        }
        text
    }

    fn table(&self) -> TableSpec {
        let locks = self.resolved.wanted.lock_of.values().map(|lock| lock.0 + 1).max().unwrap_or(1);
        let calls = self.calls.iter().map(|(returns, call)| (*returns, call.clone())).collect();
        let patience = if self.limited { PATIENCE } else { 0 };
        TableSpec { wait_ns: DEFAULT_WAIT_NS, patience, locks, points: self.numbered(), ids: Vec::new(), calls }
    }

    /// Alone: the table, and the sites that it arms.
    pub fn alone(&self) -> (TableSpec, Vec<ImageSpec>) {
        let table = self.sites.table_spec().map(|spec| spec.table).unwrap_or_default();
        let sites = self.points.keys().copied().zip(1..).collect();
        (self.table(), vec![ImageSpec { build_id: self.build_id.clone(), sites, table }])
    }

    /// Beside others: the table, with the ids of sites that are armed already, and all sites: blocks and doors are armed too.
    pub fn beside(&self, armed: &[ImageSpec]) -> (TableSpec, Vec<ImageSpec>) {
        let mut specs = armed.to_vec();
        if !specs.iter().any(|spec| spec.build_id == self.build_id) {
            specs.extend(self.alone().1.into_iter().map(|spec| ImageSpec { sites: Vec::new(), ..spec }));
        }
        let ids = specs.iter().flat_map(|spec| spec.sites.iter().map(|(_, id)| id & !POINT_AFTER));
        let mut next = ids.max().map_or(0, |id| id + 1);
        let mut table = self.table();
        for spec in specs.iter_mut().filter(|spec| spec.build_id == self.build_id) {
            for (ordinal, number) in self.points.keys().zip(1_u32..) {
                let id = match spec.sites.iter().find(|(at, _)| at == ordinal) {
                    Some((_, id)) => id & !POINT_AFTER,
                    None => {
                        spec.sites.push((*ordinal, next));
                        next += 1;
                        next - 1
                    }
                };
                if table.ids.len() <= id as usize {
                    table.ids.resize(id as usize + 1, 0);
                }
                if let Some(slot) = table.ids.get_mut(id as usize) {
                    *slot = number;
                }
            }
            spec.sites.sort_unstable();
        }
        (table, specs)
    }
}

fn slot_of(action: &Placed) -> SlotId {
    match action {
        Placed::Release(_, slot) | Placed::Degrade(_, slot, _) | Placed::Acquire { slot, .. } => *slot,
    }
}

/// An action as the table has it; slots are numbered over all functions.
fn lowered(action: &Placed, first: u32) -> Vec<Action> {
    let mode = |mode: Mode| match mode {
        Mode::Read => 0,
        Mode::Update => 1,
        Mode::Exclusive => 2,
    };
    match action {
        Placed::Release(lock, slot) => vec![Action { what: 0, mode: 0, lock: lock.0, slot: first + slot.0 }],
        Placed::Degrade(lock, slot, to) => {
            vec![Action { what: 1, mode: mode(*to), lock: lock.0, slot: first + slot.0 }]
        }
        Placed::Acquire { lock, slot, mode: how, absorbs } => {
            let taken = Action { what: 2, mode: mode(*how), lock: lock.0, slot: first + slot.0 };
            let gone = absorbs.iter().map(|gone| Action { what: 0, mode: 0, lock: lock.0, slot: first + gone.0 });
            std::iter::once(taken).chain(gone).collect()
        }
    }
}
