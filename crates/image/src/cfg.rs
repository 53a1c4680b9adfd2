//! The control-flow graph of a function, from its machine code.
//!
//! A block is code that is entered at its begin and left at its end. Jumps, branches, returns and calls end a block; a
//! call of a hook does not, because it is a *site* in the block. So a block holds its sites in order, and every other
//! place where control may go elsewhere lies between blocks. A function in parts (`foo` and `foo.cold`) is one graph.
//!
//! Finds: what jumps and branches say; landing pads of calls that throw, from the unwinder's tables; entries of jump
//! tables; calls that do not come back, by name or because nothing in the callee returns.
//!
//! Too much rather than too little: a computed jump without a table that can be read leads, by
//! [`EdgeKind::Unknown`] edges, to every block that nothing else leads to; a jump table may be read past its end; a
//! function that never returns although it has a `ret` is taken to return.
//!
//! Cannot see: `longjmp` and what signal handlers do; exceptions of plain instructions; code that is jumped
//! to from another function into its middle (counted).
//!
//! Cost: linear in the code; [`Code`] reads the unwinder's tables once, for all functions of an image.

mod build;
mod code;
mod order;
mod unwind;

use std::ops::Range;

use crate::functions::Functions;
use crate::index::Loaded;

pub use code::{Callee, Code};
pub use order::Dominators;

/// A block's number in its graph; blocks are numbered by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIx(pub u32);

impl BlockIx {
    fn at(self) -> usize {
        self.0 as usize
    }
}

/// Why control may go from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// Nothing stands between them.
    FallThrough,
    /// A jump.
    Jump,
    /// A branch that is taken.
    Taken,
    /// A branch that is not taken.
    NotTaken,
    /// A call came back.
    CallReturn,
    /// A call threw; the other block is its landing pad.
    Unwind,
    /// A jump through a table.
    Table,
    /// A computed jump that may lead there as well as anywhere.
    Unknown,
}

/// A way from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The block that is entered.
    pub to: BlockIx,
    /// Why.
    pub kind: EdgeKind,
}

/// How a block leaves the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Returns; also through the exit hook's tail jump.
    Return,
    /// Jumps to another function, which returns in its stead.
    TailCall(Callee),
    /// Its call may throw, and nothing here catches it.
    Unwind,
    /// Its call does not come back.
    NoReturn,
    /// The program ends here.
    Trap,
    /// A computed jump that may lead anywhere.
    Unknown,
}

/// The call that ends a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its offset.
    pub at: u64,
    /// Who is called.
    pub callee: Callee,
    /// Whether it may come back.
    pub returns: bool,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first byte, from the load base.
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// Ordinals of its sites, in the order in which they run.
    pub sites: Range<u32>,
    /// The call that it ends with.
    pub call: Option<Call>,
    /// Where it may go next, each place and reason once.
    pub successors: Vec<Edge>,
    /// How it may leave the function.
    pub leaves: Vec<Leave>,
}

/// What was not understood in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct GraphCounters {
    /// Computed jumps without a table that could be read.
    pub unknown_jumps: u32,
    /// Jumps through a table.
    pub tables: u32,
    /// Jumps into the middle of another function, or between instructions.
    pub strange_jumps: u32,
    /// Bytes that are no instruction.
    pub undecodable_bytes: u64,
}

impl std::ops::AddAssign for GraphCounters {
    fn add_assign(&mut self, other: GraphCounters) {
        self.unknown_jumps += other.unknown_jumps;
        self.tables += other.tables;
        self.strange_jumps += other.strange_jumps;
        self.undecodable_bytes += other.undecodable_bytes;
    }
}

/// The control-flow graph of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cfg {
    group: u32,
    entry: Option<BlockIx>,
    blocks: Vec<Block>,
    predecessors: Vec<Vec<BlockIx>>,
    counters: GraphCounters,
}

impl Cfg {
    /// The graph of the function with this group. For more than a few, make one [`Code`] and ask it.
    pub fn of(loaded: &Loaded, functions: &Functions, group: u32) -> Cfg {
        Code::new(loaded, functions).graph(group)
    }

    /// The function's group in [`Functions::groups`].
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Where the function is entered; `None` where it has no code.
    pub fn entry(&self) -> Option<BlockIx> {
        self.entry
    }

    /// All blocks, by address.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (BlockIx, &Block)> {
        self.blocks.iter().enumerate().map(|(at, block)| (number(at), block))
    }

    /// A block.
    pub fn block(&self, block: BlockIx) -> Option<&Block> {
        self.blocks.get(block.at())
    }

    /// The block around an offset.
    pub fn block_at(&self, offset: u64) -> Option<BlockIx> {
        let after = self.blocks.partition_point(|block| block.start <= offset);
        let at = after.checked_sub(1)?;
        self.blocks.get(at).filter(|block| offset < block.end).map(|_| number(at))
    }

    /// The block that holds a site.
    pub fn block_of_site(&self, ordinal: u32) -> Option<BlockIx> {
        self.numbered().find(|(_, block)| block.sites.contains(&ordinal)).map(|(at, _)| at)
    }

    /// Where a block may go next.
    pub fn successors(&self, block: BlockIx) -> impl DoubleEndedIterator<Item = &Edge> {
        self.block(block).into_iter().flat_map(|block| &block.successors)
    }

    /// The blocks that may come before a block, each once, by address.
    pub fn predecessors(&self, block: BlockIx) -> impl DoubleEndedIterator<Item = BlockIx> {
        self.predecessors.get(block.at()).into_iter().flatten().copied()
    }

    /// Every way out of the function.
    pub fn exits(&self) -> impl Iterator<Item = (BlockIx, &Leave)> {
        self.numbered().flat_map(|(at, block)| block.leaves.iter().map(move |leave| (at, leave)))
    }

    /// Every call of another function, with its block.
    pub fn calls(&self) -> impl Iterator<Item = (BlockIx, &Call)> {
        self.numbered().filter_map(|(at, block)| Some((at, block.call.as_ref()?)))
    }

    /// What was not understood.
    pub fn counters(&self) -> GraphCounters {
        self.counters
    }

    /// The blocks that can be reached from the entry, each before those that follow it, loops aside.
    pub fn reverse_postorder(&self) -> Vec<BlockIx> {
        order::reverse_postorder(self.blocks.len(), self.entry.map(BlockIx::at), |at| {
            self.blocks.get(at).into_iter().flat_map(|block| block.successors.iter().map(|edge| edge.to.at()))
        })
        .into_iter()
        .map(number)
        .collect()
    }

    /// Which blocks every path from the entry goes through.
    pub fn dominators(&self) -> Dominators {
        Dominators::forward(self)
    }

    /// Which blocks every path to an exit goes through.
    pub fn post_dominators(&self) -> Dominators {
        Dominators::backward(self)
    }
}

fn number(at: usize) -> BlockIx {
    BlockIx(u32::try_from(at).unwrap_or(u32::MAX))
}
