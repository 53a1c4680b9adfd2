//! A program as placement sees it: functions of blocks, and in each block what matters, in order.
//!
//! Everything else is left out: arithmetic, private memory, what decides a branch. A control-flow graph of a binary and its
//! site table make one; so does a test by hand.
//!
//! Placement works on [`Flow`]s: one *node* for each item, one for each block without items, one for the exit. The
//! paper's labels are our nodes. Cost: linear in items, blocks and edges.

use std::fmt;

/// Makes a number of its own sort.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            pub(super) fn ix(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number! {
    /// A function of a [`Program`].
    FunctionId
}
number! {
    /// A block of a function. Block 0 is where it is entered.
    BlockId
}
number! {
    /// A node of a function's [`Flow`].
    NodeId
}
number! {
    /// An abstract variable: a global, or a field of all heap objects of one class, or several that belong together.
    VariableId
}
number! {
    /// A class of the program's own locks.
    LockId
}
number! {
    /// A class of things that threads wait for: conditions, ends of threads, barriers, semaphores.
    ConditionId
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes, or reads and writes.
    Write,
}

/// Something that a block does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// An access to a shared variable.
    Access {
        /// Which.
        variable: VariableId,
        /// How.
        access: Access,
    },
    /// A call. An indirect one has all functions that it can lead to.
    Call {
        /// Whom; not empty.
        targets: Vec<FunctionId>,
    },
    /// A lock of the program is taken. Both modes of a reader-writer lock count as exclusive.
    Acquire(LockId),
    /// It is given back.
    Release(LockId),
    /// The thread waits for another one, otherwise than for a lock: a condition, a join, a barrier, a semaphore.
    Wait {
        /// For what.
        condition: ConditionId,
        /// The lock that is given back while it waits, as a condition's mutex is.
        lock: Option<LockId>,
    },
    /// Those who wait for the condition may go on. Means nothing to placement.
    Signal(ConditionId),
}

/// A block: its items, and where it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// What it does, in order.
    pub items: Vec<Item>,
    /// The blocks that can come next. With none, the function is left: by a return, an exception or the end of the thread.
    pub next: Vec<BlockId>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name, for people.
    pub name: String,
    /// Its blocks; the first is the entry.
    pub blocks: Vec<Block>,
    /// Whether code that the program does not show may call it: the first function of a thread, a callback.
    pub called_from_outside: bool,
}

/// A class of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockClass {
    /// Its name, for people.
    pub name: String,
    /// Whether it is one lock, as a global mutex is, rather than one in each object.
    pub single: bool,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// An item of a block, by its number in it.
    Item(BlockId, u32),
    /// A block without items.
    Block(BlockId),
    /// Where the function has been left.
    Exit,
}

/// The nodes of a function and the edges between them. The exit is the last node.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    places: Vec<Place>,
    next: Vec<Vec<NodeId>>,
    before: Vec<Vec<NodeId>>,
    /// By block: its first node.
    first: Vec<NodeId>,
}

impl Flow {
    fn new(function: &Function) -> Flow {
        let mut flow = Flow::default();
        let mut last = Vec::new();
        for (number, block) in function.blocks.iter().enumerate() {
            let id = BlockId(number as u32);
            flow.first.push(NodeId(flow.places.len() as u32));
            if block.items.is_empty() {
                flow.places.push(Place::Block(id));
            }
            flow.places.extend((0..block.items.len()).map(|item| Place::Item(id, item as u32)));
            last.push(NodeId(flow.places.len() as u32 - 1));
        }
        let exit = NodeId(flow.places.len() as u32);
        flow.places.push(Place::Exit);
        flow.next = vec![Vec::new(); flow.places.len()];
        flow.before = vec![Vec::new(); flow.places.len()];
        for ((block, &first), &last) in function.blocks.iter().zip(&flow.first.clone()).zip(&last) {
            for node in first.0..last.0 {
                flow.connect(NodeId(node), NodeId(node + 1));
            }
            for next in &block.next {
                flow.connect(last, flow.first[next.ix()]);
            }
            if block.next.is_empty() {
                flow.connect(last, exit);
            }
        }
        flow
    }

    fn connect(&mut self, from: NodeId, to: NodeId) {
        if !self.next[from.ix()].contains(&to) {
            self.next[from.ix()].push(to);
            self.before[to.ix()].push(from);
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none, which never is.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.places.len() as u32).map(NodeId)
    }

    /// Where the function has been left.
    pub fn exit(&self) -> NodeId {
        NodeId(self.places.len() as u32 - 1)
    }

    /// What a node stands for.
    pub fn place(&self, node: NodeId) -> Option<Place> {
        self.places.get(node.ix()).copied()
    }

    /// The nodes that can come after a node.
    pub fn next(&self, node: NodeId) -> &[NodeId] {
        self.next.get(node.ix()).map_or(&[], Vec::as_slice)
    }

    /// The nodes that can come before a node.
    pub fn before(&self, node: NodeId) -> &[NodeId] {
        self.before.get(node.ix()).map_or(&[], Vec::as_slice)
    }

    /// The node of an item of a block; of a block without items, its only node.
    pub fn node(&self, block: BlockId, item: u32) -> Option<NodeId> {
        let node = NodeId(self.first.get(block.ix())?.0 + item);
        let here = match self.place(node)? {
            Place::Item(of, number) => of == block && number == item,
            Place::Block(of) => of == block,
            Place::Exit => false,
        };
        here.then_some(node)
    }

    /// Whether a node is the first of its block.
    pub fn begins_block(&self, node: NodeId) -> bool {
        matches!(self.place(node), Some(Place::Item(_, 0) | Place::Block(_)))
    }
}

/// Why functions are not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A function has no block to enter.
    #[error("function {function} has no blocks")]
    NoBlocks {
        /// Its name.
        function: String,
    },
    /// A number of another thing is too large.
    #[error("function {function}, block {}: there is no {what} {number}", block.0)]
    Unknown {
        /// The function's name.
        function: String,
        /// The block.
        block: BlockId,
        /// What is meant.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// A call that leads nowhere.
    #[error("function {function}, block {}: a call of nobody", block.0)]
    EmptyCall {
        /// The function's name.
        function: String,
        /// The block.
        block: BlockId,
    },
}

/// Functions, with the flow of each. Every number in it is in range.
#[derive(Clone, Debug, Default)]
pub struct Program {
    functions: Vec<Function>,
    flows: Vec<Flow>,
    variables: Vec<String>,
    locks: Vec<LockClass>,
    conditions: u32,
}

impl Program {
    /// Checks the numbers and makes the flows.
    ///
    /// # Errors
    /// When a function has no blocks, or a number is out of range.
    pub fn new(
        functions: Vec<Function>,
        variables: Vec<String>,
        locks: Vec<LockClass>,
        conditions: u32,
    ) -> Result<Program, ProgramError> {
        let counts = [functions.len(), variables.len(), locks.len(), conditions as usize];
        for function in &functions {
            if function.blocks.is_empty() {
                return Err(ProgramError::NoBlocks { function: function.name.clone() });
            }
            for (number, block) in function.blocks.iter().enumerate() {
                check(function, BlockId(number as u32), block, counts)?;
            }
        }
        let flows = functions.iter().map(Flow::new).collect();
        Ok(Program { functions, flows, variables, locks, conditions })
    }

    /// The functions, by number.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All numbers of functions.
    pub fn function_ids(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.functions.len() as u32).map(FunctionId)
    }

    /// A function's flow. `function` is one of this program.
    pub fn flow(&self, function: FunctionId) -> &Flow {
        &self.flows[function.ix()]
    }

    /// The names of variables, by number.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The classes of locks, by number.
    pub fn locks(&self) -> &[LockClass] {
        &self.locks
    }

    /// How many conditions there are.
    pub fn conditions(&self) -> u32 {
        self.conditions
    }

    /// What a node does; nothing for a block without items and the exit.
    pub fn item(&self, function: FunctionId, node: NodeId) -> Option<&Item> {
        match self.flows.get(function.ix())?.place(node)? {
            Place::Item(block, item) => {
                self.functions.get(function.ix())?.blocks.get(block.ix())?.items.get(item as usize)
            }
            Place::Block(_) | Place::Exit => None,
        }
    }

    /// The functions that a node calls.
    pub fn targets(&self, function: FunctionId, node: NodeId) -> &[FunctionId] {
        match self.item(function, node) {
            Some(Item::Call { targets }) => targets,
            _ => &[],
        }
    }

    /// A node's name for people, such as `withdraw 2.1`: the second item of block 2.
    pub fn name(&self, function: FunctionId, node: NodeId) -> String {
        let name = self.functions.get(function.ix()).map_or("?", |function| function.name.as_str());
        match self.flows.get(function.ix()).and_then(|flow| flow.place(node)) {
            Some(Place::Item(block, item)) => format!("{name} {}.{item}", block.0),
            Some(Place::Block(block)) => format!("{name} {}", block.0),
            Some(Place::Exit) => format!("{name} exit"),
            None => format!("{name} ?"),
        }
    }
}

fn check(
    function: &Function,
    id: BlockId,
    block: &Block,
    [functions, variables, locks, conditions]: [usize; 4],
) -> Result<(), ProgramError> {
    let below = |what, number: u32, count: usize| {
        if (number as usize) < count {
            Ok(())
        } else {
            Err(ProgramError::Unknown { function: function.name.clone(), block: id, what, number })
        }
    };
    for next in &block.next {
        below("block", next.0, function.blocks.len())?;
    }
    for item in &block.items {
        match item {
            Item::Access { variable, .. } => below("variable", variable.0, variables)?,
            Item::Acquire(lock) | Item::Release(lock) => below("lock", lock.0, locks)?,
            Item::Signal(condition) => below("condition", condition.0, conditions)?,
            Item::Wait { condition, lock } => {
                below("condition", condition.0, conditions)?;
                lock.map_or(Ok(()), |lock| below("lock", lock.0, locks))?;
            }
            Item::Call { targets } => {
                if targets.is_empty() {
                    return Err(ProgramError::EmptyCall { function: function.name.clone(), block: id });
                }
                targets.iter().try_for_each(|target| below("function", target.0, functions))?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variable: u32) -> Item {
        Item::Access { variable: VariableId(variable), access: Access::Read }
    }

    #[test]
    fn a_flow_has_a_node_for_each_item_each_empty_block_and_the_exit() {
        let blocks = vec![
            Block { items: vec![read(0), read(0)], next: vec![BlockId(1), BlockId(2)] },
            Block { items: vec![], next: vec![BlockId(0)] },
            Block { items: vec![read(0)], next: vec![] },
        ];
        let function = Function { name: "f".into(), blocks, called_from_outside: true };
        let program = Program::new(vec![function], vec!["x".into()], vec![], 0).unwrap();
        let flow = program.flow(FunctionId(0));
        let next: Vec<Vec<u32>> = flow.nodes().map(|node| flow.next(node).iter().map(|n| n.0).collect()).collect();
        assert_eq!(next, [vec![1], vec![2, 3], vec![0], vec![4], vec![]]);
        assert_eq!(flow.node(BlockId(0), 1), Some(NodeId(1)));
        assert_eq!(flow.node(BlockId(0), 2), None);
        assert_eq!(flow.node(BlockId(1), 0), Some(NodeId(2)));
        assert_eq!(flow.before(NodeId(0)), [NodeId(2)]);
        assert_eq!(program.name(FunctionId(0), NodeId(1)), "f 0.1");
        assert!(flow.begins_block(NodeId(3)) && !flow.begins_block(NodeId(1)) && !flow.begins_block(NodeId(4)));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let with = |items: Vec<Item>, next: Vec<BlockId>| {
            let blocks = vec![Block { items, next }];
            let function = Function { name: "f".into(), blocks, called_from_outside: true };
            Program::new(vec![function], vec!["x".into()], vec![LockClass::default()], 1).map(|_| ())
        };
        let condition = ConditionId(0);
        assert!(with(vec![read(0), Item::Acquire(LockId(0)), Item::Wait { condition, lock: None }], vec![]).is_ok());
        assert!(with(vec![read(1)], vec![]).is_err());
        assert!(with(vec![Item::Release(LockId(1))], vec![]).is_err());
        assert!(with(vec![Item::Signal(ConditionId(1))], vec![]).is_err());
        assert!(with(vec![Item::Wait { condition, lock: Some(LockId(1)) }], vec![]).is_err());
        assert!(with(vec![Item::Call { targets: vec![] }], vec![]).is_err());
        assert!(with(vec![Item::Call { targets: vec![FunctionId(1)] }], vec![]).is_err());
        assert!(with(vec![], vec![BlockId(1)]).is_err());
        assert!(Program::new(vec![Function::default()], vec![], vec![], 0).is_err());
    }
}
