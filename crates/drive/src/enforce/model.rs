//! A build as placement sees it: its functions with what matters in them, and which hook stands before each thing.
//!
//! In it are the functions that touch a profiled variable, take or give back a lock, wait, or call such a function. Which variables an access
//! touches is known from the profile, and from the code where it names a global. Which locks a call is about, the same; calls of
//! which neither says it are about one lock that stands for all others.
//!
//! A bare function (see [`super::code`]) is a part of every function that calls it, once in each: a call leads into it, and it leads on to what follows
//! any of its calls. Where it may also be called otherwise, it is a function too.
//!
//! Too much rather than too little: a call through a pointer may lead to every function whose address is taken; locks that one call is
//! about are one class; both sides of a copy are written.
//!
//! Cannot see: accesses to heap variables that no profiled run made, unless the same function makes another to the same place.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::atomicity::bind::{Bound, bind};
use selvedge_analyze::atomicity::profile::Profile;
use selvedge_analyze::atomicity::program::{
    Access, Block, BlockId, ConditionId, Function, FunctionId, Item, LockClass, LockId, NodeId, Program, ProgramError,
    VariableId,
};
use selvedge_events::hooks::{AtomicOp, HookClass, Rw};
use selvedge_image::cfg::Leave;
use selvedge_image::{CallGraph, Callee, Cfg, Code, Operands, Place, PlaceRoot};

use super::code::ReadBuild;

/// The hook that stands before an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// A site, by ordinal.
    Site(u32),
    /// A call, by where it returns to: the callee's entry, or the runtime's own function.
    Call(u32),
}

/// Where a function of the model is in the build.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// The ordinals of its function entries and exits.
    pub doors: Vec<u32>,
    /// By block and item: its hook.
    pub hooks: Vec<Vec<Hook>>,
    /// By block: its first site, where it has one.
    pub first_site: Vec<Option<u32>>,
    /// The sites of bare functions that are part of it.
    pub borrowed: BTreeSet<u32>,
    /// Whether it is a bare function itself.
    pub is_bare: bool,
}

/// A build, ready for placement.
#[derive(Debug)]
pub struct Model {
    /// The program.
    pub program: Program,
    /// By function: where it is.
    pub homes: Vec<Home>,
    /// The profile's pairs in it.
    pub bound: Bound,
    /// Variables that belong together; each set has one lock.
    pub together: Vec<Vec<VariableId>>,
}

/// Variables that have one lock at most because they belong together.
const MOST_TOGETHER: usize = 8;

const TAKES: [&str; 18] = [
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "mtx_lock",
    "mtx_trylock",
    "mtx_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_clockrdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_clockwrlock",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "__cxa_guard_acquire",
];
const GIVES: [&str; 6] = [
    "pthread_mutex_unlock",
    "mtx_unlock",
    "pthread_rwlock_unlock",
    "pthread_spin_unlock",
    "__cxa_guard_release",
    "__cxa_guard_abort",
];
const CONDITIONS: [&str; 5] =
    ["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait"];
const WAITS: [&str; 10] = [
    "pthread_join",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "thrd_join",
    "pthread_barrier_wait",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "_ZNSt6thread4joinEv",
    "pthread_once",
];

/// Classes of locks, those that one call is about being one.
#[derive(Debug, Default)]
struct Classes {
    names: Vec<String>,
    same: Vec<usize>,
    numbers: BTreeMap<String, usize>,
}

impl Classes {
    fn root(&self, mut at: usize) -> usize {
        while let Some(next) = self.same.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }

    fn of<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> usize {
        let mut all = names.into_iter().map(|name| match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = self.names.len();
                self.names.push(name.to_owned());
                self.same.push(number);
                self.numbers.insert(name.to_owned(), number);
                number
            }
        });
        let all: Vec<usize> = all.by_ref().collect();
        let first = all.first().map_or(0, |first| self.root(*first));
        for other in all {
            let other = self.root(other);
            if let Some(same) = self.same.get_mut(other) {
                *same = first;
            }
        }
        first
    }
}

/// What a call by name does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Takes,
    Gives,
    Waits { mutex: bool },
}

fn does(callee: &Callee) -> Option<Does> {
    let Callee::Name(name) = callee else { return None };
    let name = name.as_str();
    Some(match name {
        _ if TAKES.contains(&name) => Does::Takes,
        _ if GIVES.contains(&name) => Does::Gives,
        _ if CONDITIONS.contains(&name) => Does::Waits { mutex: true },
        _ if WAITS.contains(&name) => Does::Waits { mutex: false },
        _ => return None,
    })
}

/// By function and site: the variables that are touched.
type Accesses = BTreeMap<u32, BTreeMap<u32, BTreeSet<u32>>>;

/// A function while it is put together.
struct Parts<'a> {
    accesses: &'a Accesses,
    ids: &'a BTreeMap<u32, FunctionId>,
    /// By bare function that is part of it: its first block.
    entries: BTreeMap<u32, BlockId>,
    /// By bare function: the blocks that follow its calls.
    continued: BTreeMap<u32, BTreeSet<BlockId>>,
}

fn size(graph: &Cfg) -> u32 {
    u32::try_from(graph.blocks().len()).unwrap_or(u32::MAX)
}

/// The bare function that a call leads to.
fn bare_callee(build: &ReadBuild, call: &selvedge_image::cfg::Call) -> Option<u32> {
    match call.callee {
        Callee::Function(group) if build.is_bare(group) => Some(group),
        _ => None,
    }
}

struct Making<'a> {
    build: &'a ReadBuild,
    profile: &'a Profile,
    /// By a site's key: the variables that it touches.
    touches: BTreeMap<&'a str, BTreeSet<u32>>,
    by_name: BTreeMap<&'a str, u32>,
    /// By name of a variable: its number and those of the groups that it is in.
    numbers: BTreeMap<&'a str, BTreeSet<u32>>,
    classes: Classes,
    calls: CallGraph,
    operands: BTreeMap<u32, Operands>,
}

impl Model {
    /// The model of a build for a profile.
    pub fn of(build: &ReadBuild, profile: &Profile) -> Result<Model, ProgramError> {
        let code = Code::new(&build.loaded, &build.functions);
        let wanted: BTreeSet<&str> = profile.atomic_pairs().map(|(name, ..)| name).collect();
        let by_name: BTreeMap<&str, u32> = wanted.iter().copied().zip(0..).collect();
        let mut touches: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (name, number) in &by_name {
            for site in profile.variables.get(*name).into_iter().flat_map(|variable| &variable.sites) {
                touches.entry(site).or_default().insert(*number);
            }
        }
        let mut numbers: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (name, number) in &by_name {
            numbers.entry(name).or_default().insert(*number);
            for member in profile.variables.get(*name).into_iter().flat_map(|variable| &variable.members) {
                numbers.entry(member).or_default().insert(*number);
            }
        }
        let operands = build.graphs.iter().map(|graph| (graph.group(), Operands::of(&code, graph))).collect();
        let calls = CallGraph::new(&code, &build.graphs);
        let mut making =
            Making { build, profile, touches, by_name, numbers, classes: Classes::default(), calls, operands };
        making.classes.of(["another lock"]);
        making.make(wanted.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl Making<'_> {
    fn make(&mut self, variables: Vec<String>) -> Result<Model, ProgramError> {
        let accesses: Accesses = self.build.graphs.iter().map(|graph| (graph.group(), self.accesses(graph))).collect();
        let called: BTreeSet<u32> = self
            .build
            .graphs
            .iter()
            .flat_map(|graph| self.calls.direct_callees(graph.group()).collect::<Vec<_>>())
            .collect();
        let outside: BTreeSet<u32> = (self.build.graphs.iter().map(Cfg::group))
            .filter(|group| self.calls.is_address_taken(*group) || !called.contains(group))
            .collect();
        let mut relevant = self.relevant(&accesses);
        relevant.retain(|group| !self.build.is_bare(*group) || outside.contains(group));
        let ids: BTreeMap<u32, FunctionId> = relevant.iter().copied().zip((0..).map(FunctionId)).collect();
        let (mut functions, mut homes) = (Vec::new(), Vec::new());
        for graph in self.build.graphs.iter().filter(|graph| ids.contains_key(&graph.group())) {
            let group = graph.group();
            let (blocks, home) = self.function(graph, &accesses, &ids);
            let name = self.build.symbol(group).unwrap_or_default();
            functions.push(Function { name, blocks, called_from_outside: outside.contains(&group) });
            homes.push(home);
        }
        // Classes have been united meanwhile.
        let mut roots: BTreeMap<usize, LockId> = BTreeMap::new();
        for number in 0..self.classes.names.len() {
            let next = LockId(u32::try_from(roots.len()).unwrap_or(u32::MAX));
            roots.entry(self.classes.root(number)).or_insert(next);
        }
        let lock = |number: u32| roots.get(&self.classes.root(number as usize)).copied().unwrap_or(LockId(0));
        for item in functions.iter_mut().flat_map(|function| &mut function.blocks).flat_map(|block| &mut block.items) {
            match item {
                Item::Acquire(id) | Item::Release(id) | Item::Wait { lock: Some(id), .. } => *id = lock(id.0),
                _ => {}
            }
        }
        let mut locks = vec![LockClass::default(); roots.len()];
        for (number, name) in self.classes.names.iter().enumerate() {
            let id = roots.get(&self.classes.root(number)).map_or(0, |id| id.0 as usize);
            if let Some(class) = locks.get_mut(id) {
                class.single = class.name.is_empty() && !name.starts_with("heap:") && number > 0 && !name.contains('[');
                class.name = if class.name.is_empty() { name.clone() } else { format!("{}, {name}", class.name) };
            }
        }
        let program = Program::new(functions, variables, locks, 1)?;
        let bound = self.bind(&program, &homes);
        let together = self.together(&bound);
        Ok(Model { program, homes, bound, together })
    }

    /// By site of a function: the variables that it touches.
    fn accesses(&self, graph: &Cfg) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut touched: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let operands = self.operands.get(&graph.group());
        let place = |ordinal: u32| operands.and_then(|operands| operands.sites.get(&ordinal));
        let mut places: BTreeMap<&Place, BTreeSet<u32>> = BTreeMap::new();
        let sites = || graph.blocks().iter().flat_map(|block| block.sites.clone());
        for ordinal in sites() {
            let key = self.build.site_keys.get(ordinal as usize).map_or("", String::as_str);
            let mut all = self.touches.get(key).cloned().unwrap_or_default();
            if let Some(place) = place(ordinal) {
                all.extend(self.global(place).and_then(|name| self.numbers.get(name.as_str())).into_iter().flatten());
                places.entry(place).or_default().extend(&all);
            }
            touched.insert(ordinal, all);
        }
        // The same place, by another way.
        for (ordinal, all) in &mut touched {
            all.extend(place(*ordinal).and_then(|place| places.get(place)).into_iter().flatten());
        }
        touched.retain(|ordinal, all| !all.is_empty() && self.access(*ordinal).is_some());
        touched
    }

    /// The global that a place is.
    fn global(&self, place: &Place) -> Option<String> {
        match (place.root, place.path.as_slice()) {
            (PlaceRoot::Image, [offset]) => self.build.variable(u64::try_from(*offset).ok()?),
            _ => None,
        }
    }

    fn access(&self, ordinal: u32) -> Option<Access> {
        let hook = self.build.loaded.entries.get(ordinal as usize)?.hook.get()?;
        Some(match hook.class {
            HookClass::Access { rw: Rw::Read, .. } | HookClass::Range { rw: Rw::Read } => Access::Read,
            HookClass::Atomic { op: AtomicOp::SignalFence | AtomicOp::ThreadFence, .. } => return None,
            HookClass::Atomic { op: AtomicOp::Load, .. } => Access::Read,
            HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Copy | HookClass::Libc => Access::Write,
            HookClass::Atomic { .. } => Access::Write,
            _ => return None,
        })
    }

    /// Variables that pairs are of and that belong together: a group and its members, as far as that reaches. Where it reaches too far, each has its own.
    fn together(&self, bound: &Bound) -> Vec<Vec<VariableId>> {
        let used: BTreeSet<u32> = bound.pairs.iter().map(|pair| pair.variable.0).collect();
        let mut sets: Vec<(BTreeSet<&str>, BTreeSet<u32>)> = Vec::new();
        for (name, number) in self.by_name.iter().filter(|(_, number)| used.contains(number)) {
            let members = self.profile.variables.get(*name).into_iter().flat_map(|variable| &variable.members);
            let mut names: BTreeSet<&str> = members.map(String::as_str).collect();
            if names.is_empty() {
                names.insert(name);
            }
            let mut numbers = BTreeSet::from([*number]);
            sets.retain(|(others, theirs)| {
                let apart = others.is_disjoint(&names);
                if !apart {
                    names.extend(others);
                    numbers.extend(theirs);
                }
                apart
            });
            sets.push((names, numbers));
        }
        let fits = sets.into_iter().filter(|(names, numbers)| numbers.len() > 1 && names.len() <= MOST_TOGETHER);
        fits.map(|(_, numbers)| numbers.into_iter().map(VariableId).collect()).collect()
    }

    /// The functions that matter: with their callers.
    fn relevant(&self, accesses: &Accesses) -> BTreeSet<u32> {
        let has_own = |graph: &&Cfg| {
            let touches = accesses.get(&graph.group()).is_some_and(|sites| !sites.is_empty());
            touches || graph.calls().any(|(_, call)| does(&call.callee).is_some())
        };
        let mut relevant: BTreeSet<u32> = self.build.graphs.iter().filter(has_own).map(Cfg::group).collect();
        loop {
            let calls_one = |graph: &&Cfg| {
                let known = relevant.contains(&graph.group());
                !known && self.calls.callees(graph.group()).iter().any(|callee| relevant.contains(callee))
            };
            let more: Vec<u32> = self.build.graphs.iter().filter(calls_one).map(Cfg::group).collect();
            if more.is_empty() {
                return relevant;
            }
            relevant.extend(more);
        }
    }

    fn function(&mut self, graph: &Cfg, accesses: &Accesses, ids: &BTreeMap<u32, FunctionId>) -> (Vec<Block>, Home) {
        let build = self.build;
        // Bare functions that it calls and that touch something: each has its blocks after the function's own.
        let touches = |group: u32| accesses.get(&group).is_some_and(|sites| !sites.is_empty());
        let callees: BTreeSet<u32> = graph.calls().filter_map(|(_, call)| bare_callee(build, call)).collect();
        let leave = BlockId(size(graph));
        let mut next = leave.0 + 1;
        let mut making = Parts { accesses, ids, entries: BTreeMap::new(), continued: BTreeMap::new() };
        let mut parts = Vec::new();
        for bare in build.graphs.iter().filter(|bare| callees.contains(&bare.group()) && touches(bare.group())) {
            making.entries.insert(bare.group(), BlockId(next));
            parts.push((bare, next));
            next += size(bare);
        }
        let (mut blocks, mut home) = (Vec::new(), Home { is_bare: build.is_bare(graph.group()), ..Home::default() });
        self.part(graph, 0, &BTreeSet::from([leave]), &mut making, (&mut blocks, &mut home));
        blocks.push(Block::default());
        home.first_site.push(None);
        home.hooks.push(Vec::new());
        for (bare, first) in parts {
            let ends = making.continued.remove(&bare.group()).unwrap_or_default();
            home.borrowed.extend(bare.blocks().iter().flat_map(|block| block.sites.clone()));
            self.part(bare, first, &ends, &mut making, (&mut blocks, &mut home));
        }
        (blocks, home)
    }

    /// The blocks of a function's own code, or of a bare one that is part of it: from `first` on, those that leave it leading to `ends`.
    fn part(
        &mut self,
        graph: &Cfg,
        first: u32,
        ends: &BTreeSet<BlockId>,
        making: &mut Parts<'_>,
        (blocks, home): (&mut Vec<Block>, &mut Home),
    ) {
        // The entry comes first; placement wants it so.
        let entry = graph.entry().map_or(0, |entry| entry.0);
        let renumber = |block: u32| match block {
            block if block == entry => BlockId(first),
            block if block < entry => BlockId(first + block + 1),
            block => BlockId(first + block),
        };
        let mut order: Vec<u32> = (0..size(graph)).collect();
        order.sort_by_key(|block| renumber(*block));
        let touched = making.accesses.get(&graph.group());
        for number in order {
            let Some(block) = graph.blocks().get(number as usize) else { continue };
            let (mut items, mut hooks) = (Vec::new(), Vec::new());
            for ordinal in block.sites.clone() {
                let class = self.build.loaded.entries.get(ordinal as usize).and_then(|entry| entry.hook.get());
                if class.is_some_and(|hook| matches!(hook.class, HookClass::Function { .. })) {
                    home.doors.push(ordinal);
                }
                let Some(access) = self.access(ordinal) else { continue };
                for variable in touched.and_then(|touched| touched.get(&ordinal)).into_iter().flatten() {
                    items.push(Item::Access { variable: VariableId(*variable), access });
                    hooks.push(Hook::Site(ordinal));
                }
            }
            let bare = block.call.as_ref().and_then(|call| bare_callee(self.build, call));
            let bare = bare.and_then(|bare| Some((bare, *making.entries.get(&bare)?)));
            if bare.is_none()
                && let Some(call) = &block.call
                && let Ok(returns) = u32::try_from(block.end)
                && let Some(item) = self.call_item(graph, number, call, returns, making.ids)
            {
                items.push(item);
                hooks.push(Hook::Call(returns));
            }
            let mut next: Vec<BlockId> = block.successors.iter().map(|edge| renumber(edge.to.0)).collect();
            // Functions that lock and wait do not throw, whatever the unwinder's tables allow; nor do those that call nothing.
            let calm = bare.is_some() || block.call.as_ref().is_some_and(|call| does(&call.callee).is_some());
            let leaves = block.leaves.iter().any(|leave| match leave {
                Leave::NoReturn | Leave::Trap => false,
                Leave::Unwind => !calm,
                _ => true,
            });
            if leaves && (!next.is_empty() || first > 0) {
                next.extend(ends);
            }
            // The program ends here: nothing comes after, not even the function's end.
            if !leaves && next.is_empty() && !block.leaves.is_empty() {
                next.push(renumber(number));
            }
            if let Some((bare, entry)) = bare {
                making.continued.entry(bare).or_default().extend(next.drain(..));
                next.push(entry);
            }
            next.sort_unstable();
            next.dedup();
            blocks.push(Block { items, next });
            let has_job = |ordinal: &u32| {
                let hook = self.build.loaded.entries.get(*ordinal as usize).and_then(|entry| entry.hook.get());
                let fits = |class| matches!(class, HookClass::Block | HookClass::Access { .. });
                hook.is_some_and(|hook| fits(hook.class))
            };
            home.first_site.push(block.sites.clone().find(has_job));
            home.hooks.push(hooks);
        }
    }

    fn call_item(
        &mut self,
        graph: &Cfg,
        block: u32,
        call: &selvedge_image::cfg::Call,
        returns: u32,
        ids: &BTreeMap<u32, FunctionId>,
    ) -> Option<Item> {
        let Some(does) = does(&call.callee) else {
            let targets: Vec<FunctionId> =
                self.calls.targets(call).iter().filter_map(|target| ids.get(target).copied()).collect();
            return (!targets.is_empty()).then_some(Item::Call { targets });
        };
        let argument = usize::from(does == Does::Waits { mutex: true });
        let arguments = self
            .operands
            .get(&graph.group())
            .and_then(|operands| operands.arguments.get(&selvedge_image::cfg::BlockIx(block))?.get(argument)?.as_ref());
        let named = arguments.and_then(|place| self.global(place));
        let seen =
            self.build.calls.get(&returns).and_then(|key| self.profile.calls.get(key)).cloned().unwrap_or_default();
        let names: BTreeSet<String> = if named.is_some() { named.into_iter().collect() } else { seen };
        let class = match names.is_empty() {
            true => 0,
            false => self.classes.of(names.iter().map(String::as_str)),
        };
        let lock = LockId(u32::try_from(class).unwrap_or(0));
        Some(match does {
            Does::Takes => Item::Acquire(lock),
            Does::Gives => Item::Release(lock),
            Does::Waits { mutex } => Item::Wait { condition: ConditionId(0), lock: mutex.then_some(lock) },
        })
    }

    fn bind(&self, program: &Program, homes: &[Home]) -> Bound {
        let mut points: BTreeMap<(&str, &str, Option<u32>), (FunctionId, NodeId)> = BTreeMap::new();
        for ((id, function), home) in program.function_ids().zip(program.functions()).zip(homes) {
            for (block, (contents, hooks)) in (0..).map(BlockId).zip(function.blocks.iter().zip(&home.hooks)) {
                for ((number, item), hook) in (0..).zip(&contents.items).zip(hooks) {
                    let Some(node) = program.flow(id).node(block, number) else { continue };
                    let (key, variable) = match (hook, item) {
                        (Hook::Site(ordinal), Item::Access { variable, .. }) => {
                            (self.build.site_keys.get(*ordinal as usize), Some(variable.0))
                        }
                        (Hook::Call(returns), _) => (self.build.calls.get(returns), None),
                        _ => continue,
                    };
                    if let Some(key) = key {
                        points.insert((&function.name, key, variable), (id, node));
                    }
                }
            }
        }
        let variable = |name: &str| self.by_name.get(name).copied().map(VariableId);
        bind(self.profile, variable, |variable, function, key| {
            let access = points.get(&(function, key, Some(variable.0)));
            access.or_else(|| points.get(&(function, key, None))).copied()
        })
    }
}
