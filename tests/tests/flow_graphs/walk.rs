//! Whether graphs explain a run: a walk through them along the block hooks that a thread came by.
//!
//! What a hook says is only that its block ran. Between two hooks the thread may have gone through blocks without one,
//! returned from functions, called others, and come out of functions without instrumentation. So the walk is that of a
//! machine with a stack: it keeps every stack of frames that explains the hooks so far, each frame with its last
//! hook. A hook that no stack explains is an edge that the graphs lack.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::hooks::HookClass;
use selvedge_image::cfg::{BlockIx, Callee, Leave};
use selvedge_image::{CallGraph, Cfg, Code};

/// Most stacks that are kept.
const MOST_STACKS: usize = 4096;

/// What may come after a hook, or after a function's begin, before any other hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct After {
    /// Hooks in the same frame.
    pub(crate) hooks: BTreeSet<u32>,
    /// Functions of the image that may be called.
    calls: BTreeSet<u32>,
    /// Whether something is called that may call any function whose address is taken.
    calls_out: bool,
    /// Whether the function may return.
    returns: bool,
    /// Whether an exception may leave it.
    unwinds: bool,
}

/// What the graphs of an image say about block hooks.
#[derive(Debug)]
pub(crate) struct Explained {
    /// By the hook's ordinal: its function, and what may come next.
    pub(crate) after: BTreeMap<u32, (u32, After)>,
    /// By function: what may come first.
    first: BTreeMap<u32, After>,
    taken: BTreeSet<u32>,
    /// Whether frames may be left by exceptions.
    pub(crate) unwinding: bool,
}

impl Explained {
    pub(crate) fn new(code: &Code<'_>, graphs: &[Cfg], calls: &CallGraph, unwinding: bool) -> Explained {
        let mut after = BTreeMap::new();
        let mut first = BTreeMap::new();
        for graph in graphs {
            let walker = Reach { code, graph };
            let mut begin = After::default();
            begin.extend_from(&walker, graph.entry().into_iter().collect());
            first.insert(graph.group(), begin);
            for (at, block) in graph.numbered() {
                for hook in block.sites.clone().filter(|site| walker.is_block_hook(*site)) {
                    after.insert(hook, (graph.group(), walker.after(at, hook)));
                }
            }
        }
        let hooked: BTreeSet<u32> = after.values().map(|(group, _)| *group).collect();
        let mut out = Explained { after, first, taken: calls.address_taken().collect(), unwinding };
        out.see_through(&hooked);
        out
    }

    /// Functions without hooks are looked through: what they call, their callers call.
    fn see_through(&mut self, hooked: &BTreeSet<u32>) {
        let silent: BTreeMap<u32, After> = self
            .first
            .iter()
            .filter(|(group, _)| !hooked.contains(group))
            .map(|(at, one)| (*at, one.clone()))
            .collect();
        let all = self.after.values_mut().map(|(_, after)| after).chain(self.first.values_mut());
        for after in all {
            let mut work: Vec<u32> = after.calls.iter().copied().collect();
            let mut seen = BTreeSet::new();
            while let Some(group) = work.pop() {
                if let Some(inner) = silent.get(&group).filter(|_| seen.insert(group)) {
                    after.calls_out |= inner.calls_out;
                    work.extend(&inner.calls);
                    after.calls.extend(&inner.calls);
                }
            }
        }
    }

    fn group(&self, hook: u32) -> Option<u32> {
        self.after.get(&hook).map(|(group, _)| *group)
    }

    /// Whether a hook may be the first of its function.
    pub(crate) fn is_first(&self, hook: u32) -> bool {
        let first = self.group(hook).and_then(|group| self.first.get(&group));
        first.is_some_and(|first| first.hooks.contains(&hook))
    }

    /// Goes along the hooks of one thread; answers how many transitions within a frame were checked, or what is not
    /// explained.
    pub(crate) fn walk(&self, hooks: &[u32]) -> Result<usize, Unexplained> {
        let mut frames = Frames::default();
        let mut stacks = BTreeSet::from([Frames::EMPTY]);
        let mut within = 0;
        for (at, hook) in hooks.iter().enumerate() {
            let group = self.group(*hook).ok_or(Unexplained::NoSuchHook { at, hook: *hook })?;
            let mut next = BTreeSet::new();
            let is_first = self.is_first(*hook);
            let mut stayed = false;
            for stack in &stacks {
                let mut top = *stack;
                loop {
                    let Some((last, below)) = frames.get(top) else {
                        if is_first {
                            next.insert(frames.push(Frames::EMPTY, *hook));
                        }
                        break;
                    };
                    let Some((last_group, after)) = self.after.get(&last) else { break };
                    if *last_group == group && after.hooks.contains(hook) {
                        next.insert(frames.push(below, *hook));
                        stayed = true;
                    }
                    let called = after.calls.contains(&group) || (after.calls_out && self.taken.contains(&group));
                    if is_first && called {
                        next.insert(frames.push(top, *hook));
                    }
                    if !(after.returns || (self.unwinding && after.unwinds)) {
                        break;
                    }
                    top = below;
                }
            }
            if next.is_empty() {
                let mut top = stacks.first().copied();
                let mut below = Vec::new();
                while let Some((hook, next)) = top.and_then(|top| frames.get(top)) {
                    below.push(hook);
                    top = Some(next);
                }
                return Err(Unexplained::Step { at, hook: *hook, stack: below });
            }
            if next.len() > MOST_STACKS {
                return Err(Unexplained::TooMany { at });
            }
            within += usize::from(stayed);
            stacks = next;
        }
        Ok(within)
    }
}

/// Why a walk ended early.
#[derive(Debug)]
pub(crate) enum Unexplained {
    /// A hook is in no graph.
    NoSuchHook { at: usize, hook: u32 },
    /// No stack explains a hook; this is one of the stacks, innermost first.
    Step { at: usize, hook: u32, stack: Vec<u32> },
    /// Too many stacks explain the hooks.
    TooMany { at: usize },
}

/// Stacks that share their lower parts: number 0 is the empty one.
#[derive(Debug, Default)]
struct Frames {
    rows: Vec<(u32, usize)>,
    numbers: BTreeMap<(u32, usize), usize>,
}

impl Frames {
    const EMPTY: usize = 0;

    /// The last hook of the top frame, and the stack below.
    fn get(&self, stack: usize) -> Option<(u32, usize)> {
        self.rows.get(stack.checked_sub(1)?).copied()
    }

    fn push(&mut self, below: usize, hook: u32) -> usize {
        let rows = &mut self.rows;
        *self.numbers.entry((hook, below)).or_insert_with(|| {
            rows.push((hook, below));
            rows.len()
        })
    }
}

struct Reach<'a> {
    code: &'a Code<'a>,
    graph: &'a Cfg,
}

impl Reach<'_> {
    fn is_block_hook(&self, site: u32) -> bool {
        let entry = self.code.entries().get(site as usize).and_then(|entry| entry.hook.get());
        entry.is_some_and(|hook| hook.class == HookClass::Block)
    }

    /// What may come after a hook of a block.
    fn after(&self, block: BlockIx, hook: u32) -> After {
        let mut out = After::default();
        let rest = self.graph.block(block).map_or(0..0, |block| hook + 1..block.sites.end);
        match rest.clone().find(|site| self.is_block_hook(*site)) {
            Some(next) => {
                out.hooks.insert(next);
            }
            None => {
                let next = out.pass(self, block);
                out.extend_from(self, next);
            }
        }
        out
    }
}

impl After {
    /// Goes through the end of a block; answers the blocks behind it.
    fn pass(&mut self, reach: &Reach<'_>, block: BlockIx) -> Vec<BlockIx> {
        let Some(here) = reach.graph.block(block) else { return Vec::new() };
        if let Some(call) = &here.call {
            self.call(&call.callee);
        }
        for leave in &here.leaves {
            match leave {
                Leave::Return => self.returns = true,
                Leave::TailCall(callee) => {
                    self.returns = true;
                    self.call(callee);
                }
                Leave::Unwind | Leave::NoReturn => self.unwinds = true,
                Leave::Trap | Leave::Unknown => {}
            }
        }
        here.successors.iter().map(|edge| edge.to).collect()
    }

    fn call(&mut self, callee: &Callee) {
        match callee {
            Callee::Function(group) => {
                self.calls.insert(*group);
            }
            Callee::Name(_) | Callee::Unknown => self.calls_out = true,
        }
    }

    /// Goes on from these blocks to the next hooks.
    fn extend_from(&mut self, reach: &Reach<'_>, mut work: Vec<BlockIx>) {
        let mut seen = BTreeSet::new();
        while let Some(block) = work.pop() {
            if !seen.insert(block) {
                continue;
            }
            let sites = reach.graph.block(block).map_or(0..0, |block| block.sites.clone());
            match sites.clone().find(|site| reach.is_block_hook(*site)) {
                Some(hook) => {
                    self.hooks.insert(hook);
                }
                None => work.extend(self.pass(reach, block)),
            }
        }
    }
}
