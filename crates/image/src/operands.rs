//! What the sites of a function access, as the function itself names it: a global, a field of what an argument points
//! to, a field of what a global points to.
//!
//! At a site the address is in the first argument register; where that comes from is followed back through registers and
//! the function's own frame, across all its blocks ([`Operands::of`]). Two sites with equal [`Place`]s access the
//! same variable, as far as the function can tell: a pointer that is loaded twice is taken to be the same pointer.
//!
//! Cannot see: which elements two different index computations name; slots of the frame that are changed through a
//! pointer which was given away earlier; what a function that was called changed in memory.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::hooks::{AtomicOp, HookClass};

use crate::cfg::{BlockIx, Cfg, Code};
use crate::x86::values::{Machine, Root, Roots, State, Value};

/// What a place is reached from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceRoot {
    /// The image: the first step of the path is an offset from its load base.
    Image,
    /// The function's n-th argument, from 1.
    Argument(u8),
    /// The function's own frame.
    Frame,
    /// The thread's own variables.
    Thread,
    /// Some value that the function computes, by a number that means nothing outside it.
    Local(u32),
}

/// An address or a value: from the root on, each step but the last adds a number and loads what lies there; the
/// last one only adds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where it begins.
    pub root: PlaceRoot,
    /// The steps; never empty.
    pub path: Vec<i64>,
}

impl Place {
    /// Whether the address itself lies in memory that other threads do not see by itself.
    pub fn is_private(&self) -> bool {
        self.path.len() == 1 && matches!(self.root, PlaceRoot::Frame | PlaceRoot::Thread)
    }
}

/// Longest path that is followed.
const LONGEST: usize = 6;

/// What a function's sites, branches and calls are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// By a site's ordinal: the address that it accesses.
    pub sites: BTreeMap<u32, Place>,
    /// By block: places whose values its branch depends on.
    pub tests: BTreeMap<BlockIx, Vec<Place>>,
    /// By block: the six integer arguments of the call that it ends with.
    pub arguments: BTreeMap<BlockIx, Vec<Option<Place>>>,
}

impl Operands {
    /// Follows the values of one function.
    pub fn of(code: &Code<'_>, graph: &Cfg) -> Operands {
        let mut out = Operands::default();
        let Some(entry) = graph.entry() else { return out };
        let mut walk = Walk {
            code,
            graph,
            machine: Machine::new(code.image().base()),
            roots: Roots::default(),
            before: vec![None; graph.blocks().len()],
        };
        walk.settle(entry);
        for (at, block) in graph.numbered() {
            let Some(mut state) = walk.before.get(at.0 as usize).cloned().flatten() else { continue };
            walk.run(at, &mut state, |ordinal, address, roots| {
                out.sites.extend(place(roots, address, LONGEST).map(|place| (ordinal, place)));
            });
            if let Some(call) = &block.call {
                let argument = |number| state.argument(number).and_then(|value| place(&walk.roots, value, LONGEST));
                out.arguments.insert(at, (0..6).map(argument).collect());
                state.call(call.at + code.image().base(), &mut walk.roots);
            }
            let tests = walk.tests(&state);
            if !tests.is_empty() {
                out.tests.insert(at, tests);
            }
        }
        out
    }
}

struct Walk<'a> {
    code: &'a Code<'a>,
    graph: &'a Cfg,
    machine: Machine,
    roots: Roots,
    /// By block: the state at its begin; `None` until it is reached.
    before: Vec<Option<State>>,
}

impl Walk<'_> {
    /// Runs blocks until nothing changes: every location of a block's begin changes at most twice.
    fn settle(&mut self, entry: BlockIx) {
        let order = self.graph.reverse_postorder();
        let mut rank = vec![u32::MAX; self.graph.blocks().len()];
        for (position, block) in (0_u32..).zip(&order) {
            if let Some(rank) = rank.get_mut(block.0 as usize) {
                *rank = position;
            }
        }
        let first = State::new(&mut self.roots);
        if let Some(slot) = self.before.get_mut(entry.0 as usize) {
            *slot = Some(first);
        }
        let mut work: BTreeSet<(u32, BlockIx)> = BTreeSet::from([(0, entry)]);
        while let Some((_, at)) = work.pop_first() {
            let Some(mut state) = self.before.get(at.0 as usize).cloned().flatten() else { continue };
            self.run(at, &mut state, |_, _, _| {});
            if let Some(call) = self.graph.block(at).and_then(|block| block.call.as_ref()) {
                state.call(call.at + self.code.image().base(), &mut self.roots);
            }
            // Flags do not outlive their block here.
            state.compared = [None; 2];
            for edge in self.graph.successors(at) {
                let Some(slot) = self.before.get_mut(edge.to.0 as usize) else { continue };
                let changed = match slot {
                    Some(before) => before.join(&state, edge.to.0, &mut self.roots),
                    None => {
                        *slot = Some(state.clone());
                        true
                    }
                };
                if changed {
                    work.insert((rank.get(edge.to.0 as usize).copied().unwrap_or(u32::MAX), edge.to));
                }
            }
        }
    }

    /// Runs a block up to its call; tells the address at every site.
    fn run(&mut self, at: BlockIx, state: &mut State, mut site: impl FnMut(u32, Value, &Roots)) {
        let Some(block) = self.graph.block(at) else { return };
        let image = self.code.image();
        let end = block.call.as_ref().map_or(block.end, |call| call.at);
        let len = usize::try_from(end.saturating_sub(block.start)).unwrap_or(0);
        let Some(bytes) = image.loaded_bytes(block.start, len) else { return };
        let entries = self.code.entries();
        let mut ordinals = block.sites.clone().peekable();
        let base = image.base();
        self.machine.run(bytes, block.start + base, state, &mut self.roots, |vaddr, state, roots| {
            let offset = vaddr - base;
            let place_of = |ordinal: &u32| entries.get(*ordinal as usize).map_or(0, |entry| u64::from(entry.offset));
            while ordinals.next_if(|ordinal| place_of(ordinal) < offset).is_some() {}
            let Some(ordinal) = ordinals.next_if(|ordinal| place_of(ordinal) == offset) else { return };
            let class = entries.get(ordinal as usize).and_then(|entry| entry.hook.get()).map(|hook| hook.class);
            let accesses =
                matches!(class, Some(HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Atomic { .. }));
            if let Some(address) = state.argument(0).filter(|_| accesses) {
                site(ordinal, address, roots);
            }
            state.hook(vaddr, matches!(class, Some(HookClass::Atomic { op: AtomicOp::Load, .. })), roots);
        });
    }

    /// The places whose values the flags were set from.
    fn tests(&self, state: &State) -> Vec<Place> {
        let mut work: Vec<(Value, usize)> = state.compared.iter().flatten().map(|value| (*value, LONGEST)).collect();
        let mut out = BTreeSet::new();
        while let Some((value, left)) = work.pop() {
            let Some(left) = left.checked_sub(1) else { continue };
            match self.roots.get(value.root) {
                Root::Loaded(address) => out.extend(place(&self.roots, address, LONGEST)),
                Root::Sum(one, other) => work.extend([(one, left), (other, left)]),
                Root::Times(inner, _) | Root::Made(_, inner, _) => work.push((inner, left)),
                _ => {}
            }
        }
        out.into_iter().collect()
    }
}

/// A value as a path; `None` for a number.
fn place(roots: &Roots, value: Value, left: usize) -> Option<Place> {
    let local = || PlaceRoot::Local(value.root.number());
    let root = match roots.get(value.root) {
        Root::Zero => return None,
        Root::Image => PlaceRoot::Image,
        Root::Argument(number) => PlaceRoot::Argument(number),
        Root::Thread => PlaceRoot::Thread,
        Root::Frame => PlaceRoot::Frame,
        Root::Aligned(_) => PlaceRoot::Frame,
        // What the frame holds is known where it was stored; a pointer from elsewhere is just some pointer.
        Root::Loaded(inner) if left > 1 && !roots.is_frame(inner) => {
            let mut place = place(roots, inner, left - 1)?;
            place.path.push(value.plus);
            return Some(place);
        }
        _ => local(),
    };
    Some(Place { root, path: vec![value.plus] })
}
