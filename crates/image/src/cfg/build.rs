//! From decoded instructions to blocks and edges.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::bytes::{u32_at, u64_at};
use selvedge_events::hooks::HookClass;
use selvedge_events::site_table::Form;

use super::code::{Callee, Code};
use super::unwind::{Landing, Pads};
use super::{Block, BlockIx, Call, Cfg, Edge, EdgeKind, GraphCounters, Leave, number};
use crate::image::Bound;
use crate::x86::Target;
use crate::x86::flow::{Flow, JumpTable, Step};

/// Most entries that are read of a jump table.
const MAX_TABLE: u64 = 4096;

/// The graph of one function.
pub(super) fn build(code: &Code<'_>, group: u32) -> Cfg {
    let mut counters = GraphCounters::default();
    let mut parts = Vec::new();
    for function in code.ranges(group) {
        let (steps, invalid) = code.steps(function);
        counters.undecodable_bytes += invalid;
        let pads = code.unwinding.pads(code.image, function.start + code.image.base());
        parts.push(Stretch { steps, pads });
    }
    let mut builder = Builder {
        code,
        tables: parts.iter().flat_map(|part| &part.steps).filter_map(table_of).collect(),
        starts: parts.iter().flat_map(|part| &part.steps).map(|step| step.at).collect(),
        counters,
        blocks: Vec::new(),
    };
    let entry = code.entry(group);
    let leaders = builder.leaders(&parts, entry);
    for part in &parts {
        builder.cut(part, &leaders);
    }
    builder.finish(group, entry)
}

/// A part of the function.
struct Stretch {
    steps: Vec<Step>,
    pads: Pads,
}

/// A block with addresses for numbers.
struct Raw {
    start: u64,
    end: u64,
    only_padding: bool,
    successors: Vec<(u64, EdgeKind)>,
    leaves: Vec<Leave>,
    call: Option<Call>,
    anywhere: bool,
}

struct Builder<'c, 'a> {
    code: &'c Code<'a>,
    tables: BTreeSet<u64>,
    /// Where instructions begin.
    starts: BTreeSet<u64>,
    counters: GraphCounters,
    blocks: Vec<Raw>,
}

impl Builder<'_, '_> {
    /// Where blocks begin.
    fn leaders(&self, parts: &[Stretch], entry: Option<u64>) -> BTreeSet<u64> {
        let mut out: BTreeSet<u64> = entry.into_iter().collect();
        for part in parts {
            out.extend(part.steps.first().map(|step| step.at));
            out.extend(part.pads.all());
            for step in &part.steps {
                match step.flow {
                    Flow::Plain | Flow::Padding => continue,
                    Flow::Call(_) if self.is_hook(step) => continue,
                    Flow::Jump(Target::Direct(to)) | Flow::Branch(to) => out.extend([to]),
                    Flow::Computed(Some(table)) => out.extend(self.entries_of(table)),
                    _ => {}
                }
                out.insert(step.next);
            }
        }
        out.retain(|at| self.starts.contains(at));
        out
    }

    /// Whether a call is a site: what it calls does its work and comes back, whatever is armed.
    fn is_hook(&self, step: &Step) -> bool {
        self.site(step).is_some_and(|form| !form.is_tail())
    }

    fn site(&self, step: &Step) -> Option<Form> {
        let offset = u32::try_from(step.at.checked_sub(self.code.image.base())?).ok()?;
        let at = self.code.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        self.code.entries.get(at).map(|entry| entry.form)
    }

    /// Whether a jump to a hook is the function's return.
    fn is_exit_hook(&self, step: &Step) -> bool {
        let offset = step.at.checked_sub(self.code.image.base()).and_then(|offset| u32::try_from(offset).ok());
        let at = offset.and_then(|at| self.code.entries.binary_search_by_key(&at, |entry| entry.offset).ok());
        let hook = at.and_then(|at| self.code.entries.get(at)).and_then(|entry| entry.hook.get());
        hook.is_some_and(|hook| !matches!(hook.class, HookClass::Init | HookClass::Annotation))
    }

    /// The places in this function that a table leads to.
    fn entries_of(&self, table: JumpTable) -> Vec<u64> {
        let image = self.code.image;
        let stride = if table.relative { 4 } else { 8 };
        let mut out = Vec::new();
        for entry in 0..MAX_TABLE {
            let at = table.at.wrapping_add(entry * stride);
            // The next table begins where this one must have ended.
            if entry > 0 && self.tables.contains(&at) {
                break;
            }
            let bytes = at.checked_sub(image.base()).and_then(|at| image.loaded_bytes(at, stride as usize));
            let to = if table.relative {
                let distance = bytes.and_then(|bytes| u32_at(bytes, 0));
                distance.map(|distance| table.at.wrapping_add_signed(i64::from(distance.cast_signed())))
            } else {
                let slot = image.slots().binary_search_by_key(&at, |row| row.0).ok();
                match slot.and_then(|slot| image.slots().get(slot)) {
                    Some((_, Bound::Address(vaddr))) => Some(*vaddr),
                    _ => bytes.and_then(|bytes| u64_at(bytes, 0)),
                }
            };
            match to.filter(|to| self.starts.contains(to)) {
                Some(to) => out.push(to),
                None => break,
            }
        }
        out
    }

    /// Cuts a part into blocks.
    fn cut(&mut self, part: &Stretch, leaders: &BTreeSet<u64>) {
        let mut open: Option<Raw> = None;
        for step in &part.steps {
            if leaders.contains(&step.at)
                && let Some(mut block) = open.take()
            {
                block.successors.push((step.at, EdgeKind::FallThrough));
                self.blocks.push(block);
            }
            let mut block = open.take().unwrap_or(Raw {
                start: step.at,
                end: step.at,
                only_padding: true,
                successors: Vec::new(),
                leaves: Vec::new(),
                call: None,
                anywhere: false,
            });
            block.end = step.next;
            block.only_padding &= step.flow == Flow::Padding;
            if self.ends(&mut block, step, &part.pads) {
                self.blocks.push(block);
            } else {
                open = Some(block);
            }
        }
        if let Some(mut block) = open {
            // Runs off the end: into what lies behind, or it never gets there.
            self.step_to(&mut block, part.steps.last().map_or(0, |step| step.next), EdgeKind::FallThrough);
            self.blocks.push(block);
        }
    }

    /// Adds what an instruction does to its block; answers whether the block ends with it.
    fn ends(&mut self, block: &mut Raw, step: &Step, pads: &Pads) -> bool {
        match step.flow {
            Flow::Plain | Flow::Padding => return false,
            Flow::Return => block.leaves.push(Leave::Return),
            Flow::Trap => block.leaves.push(Leave::Trap),
            Flow::Jump(_) if self.is_exit_hook(step) => block.leaves.push(Leave::Return),
            Flow::Jump(target) => self.jump(block, target, EdgeKind::Jump),
            Flow::Branch(to) => {
                self.jump(block, Target::Direct(to), EdgeKind::Taken);
                self.step_to(block, step.next, EdgeKind::NotTaken);
            }
            Flow::Computed(table) => {
                let found = table.map(|table| self.entries_of(table)).unwrap_or_default();
                if found.is_empty() {
                    self.counters.unknown_jumps += 1;
                    block.anywhere = true;
                    block.leaves.push(Leave::Unknown);
                } else {
                    self.counters.tables += 1;
                    block.successors.extend(found.into_iter().map(|to| (to, EdgeKind::Table)));
                }
            }
            Flow::Call(_) if self.is_hook(step) => return false,
            Flow::Call(target) => {
                let callee = target.and_then(|target| self.code.callee(target)).unwrap_or(Callee::Unknown);
                let returns = self.code.returns(&callee);
                if returns {
                    self.step_to(block, step.next, EdgeKind::CallReturn);
                } else {
                    block.leaves.push(Leave::NoReturn);
                }
                match pads.at(step.next - 1) {
                    Landing::Outside => block.leaves.push(Leave::Unwind),
                    Landing::Pad { at, always } => {
                        self.step_to(block, at, EdgeKind::Unwind);
                        if !always {
                            block.leaves.push(Leave::Unwind);
                        }
                    }
                    Landing::Nowhere => {}
                }
                block.call = Some(Call { at: step.at - self.code.image.base(), callee, returns });
            }
        }
        true
    }

    /// An edge to an address in this function.
    fn step_to(&mut self, block: &mut Raw, to: u64, kind: EdgeKind) {
        if self.starts.contains(&to) {
            block.successors.push((to, kind));
        } else if kind == EdgeKind::CallReturn {
            // A call at the very end does not come back, whatever it is.
            block.leaves.push(Leave::NoReturn);
        } else {
            self.counters.strange_jumps += 1;
            block.leaves.push(Leave::Unknown);
        }
    }

    /// A jump to here or elsewhere.
    fn jump(&mut self, block: &mut Raw, target: Target, kind: EdgeKind) {
        match target {
            Target::Direct(to) if self.starts.contains(&to) => block.successors.push((to, kind)),
            _ => {
                let callee = self.code.callee(target);
                self.counters.strange_jumps += u32::from(callee.is_none());
                block.leaves.push(Leave::TailCall(callee.unwrap_or(Callee::Unknown)));
            }
        }
    }

    /// Numbers the blocks.
    fn finish(mut self, group: u32, entry: Option<u64>) -> Cfg {
        let reached: BTreeSet<u64> =
            self.blocks.iter().flat_map(|block| &block.successors).map(|edge| edge.0).collect();
        let orphan = |block: &Raw| !reached.contains(&block.start) && Some(block.start) != entry;
        // What fills the room behind a jump is nobody's.
        self.blocks.retain(|block| !(block.only_padding && orphan(block)));
        self.blocks.sort_by_key(|block| block.start);
        let numbers: BTreeMap<u64, BlockIx> =
            self.blocks.iter().enumerate().map(|(at, block)| (block.start, number(at))).collect();
        let orphans: Vec<BlockIx> =
            self.blocks.iter().enumerate().filter(|(_, block)| orphan(block)).map(|(at, _)| number(at)).collect();
        let base = self.code.image.base();
        let mut predecessors: Vec<BTreeSet<BlockIx>> = vec![BTreeSet::new(); self.blocks.len()];
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (at, raw) in self.blocks.into_iter().enumerate() {
            let known =
                raw.successors.iter().filter_map(|(to, kind)| Some(Edge { to: *numbers.get(to)?, kind: *kind }));
            let mut successors: Vec<Edge> = known.collect();
            if raw.anywhere {
                successors.extend(orphans.iter().map(|to| Edge { to: *to, kind: EdgeKind::Unknown }));
            }
            successors.sort_unstable();
            successors.dedup();
            for edge in &successors {
                if let Some(list) = predecessors.get_mut(edge.to.at()) {
                    list.insert(number(at));
                }
            }
            let (start, end) = (raw.start - base, raw.end - base);
            let ordinal = |offset: u64| {
                let at = self.code.entries.partition_point(|entry| u64::from(entry.offset) < offset);
                u32::try_from(at).unwrap_or(u32::MAX)
            };
            blocks.push(Block {
                start,
                end,
                sites: ordinal(start)..ordinal(end),
                call: raw.call,
                successors,
                leaves: raw.leaves,
            });
        }
        Cfg {
            group,
            entry: entry.and_then(|entry| numbers.get(&entry).copied()),
            blocks,
            predecessors: predecessors.into_iter().map(|list| list.into_iter().collect()).collect(),
            counters: self.counters,
        }
    }
}

fn table_of(step: &Step) -> Option<u64> {
    match step.flow {
        Flow::Computed(Some(table)) => Some(table.at),
        _ => None,
    }
}
