//! Programs and placements as text, for tests.
//!
//! A function is `name: node; node; …` with a node `number what… -> next next`. Each node is a block with at most one item; the first
//! is the entry, one without next returns. What: `read x`, `write x`, `call f`, `call f|g`, `lock k`, `unlock k`, `wait c`, `wait c k`, `signal c`.

use std::collections::BTreeMap;

use super::super::place::{Action, Mode, Origin, Pair, Placement};
use super::super::program::{
    Access, Block, BlockId, ConditionId, Function, FunctionId, Item, LockClass, LockId, NodeId, Program, VariableId,
};

/// A program with the numbers that its text has.
pub(super) struct Written {
    pub(super) program: Program,
    functions: Vec<String>,
    /// By function: its labels, by block.
    labels: Vec<Vec<u32>>,
}

/// Gives names their numbers, as they come.
#[derive(Default)]
struct Numbers(Vec<String>);

impl Numbers {
    fn number(&mut self, name: &str) -> u32 {
        let known = self.0.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        }) as u32
    }
}

/// `roots` are called from outside.
pub(super) fn program(texts: &[&str], roots: &[&str]) -> Written {
    let (mut variables, mut locks, mut conditions) = (Numbers::default(), Numbers::default(), Numbers::default());
    let names: Vec<&str> = texts.iter().map(|text| text.split_once(':').unwrap().0).collect();
    let mut functions = Vec::new();
    let mut all_labels = Vec::new();
    for text in texts {
        let (name, body) = text.split_once(':').unwrap();
        let nodes: Vec<&str> = body.split(';').map(str::trim).filter(|node| !node.is_empty()).collect();
        let labels: Vec<u32> = nodes.iter().map(|node| node.split(' ').next().unwrap().parse().unwrap()).collect();
        let mut blocks = Vec::new();
        for node in nodes {
            let (what, next) = node.split_once("->").unwrap_or((node, ""));
            let words: Vec<&str> = what.split_whitespace().skip(1).collect();
            let item = match words[..] {
                [] => None,
                ["read", x] => Some(Item::Access { variable: VariableId(variables.number(x)), access: Access::Read }),
                ["write", x] => Some(Item::Access { variable: VariableId(variables.number(x)), access: Access::Write }),
                ["call", targets] => {
                    let number = |target| names.iter().position(|name| *name == target).unwrap() as u32;
                    Some(Item::Call { targets: targets.split('|').map(|target| FunctionId(number(target))).collect() })
                }
                ["lock", k] => Some(Item::Acquire(LockId(locks.number(k)))),
                ["unlock", k] => Some(Item::Release(LockId(locks.number(k)))),
                ["wait", c] => Some(Item::Wait { condition: ConditionId(conditions.number(c)), lock: None }),
                ["wait", c, k] => {
                    let lock = Some(LockId(locks.number(k)));
                    Some(Item::Wait { condition: ConditionId(conditions.number(c)), lock })
                }
                ["signal", c] => Some(Item::Signal(ConditionId(conditions.number(c)))),
                ref other => panic!("{other:?}"),
            };
            let block = |label: &str| labels.iter().position(|known| known.to_string() == label).unwrap() as u32;
            let next = next.split_whitespace().map(|label| BlockId(block(label))).collect();
            blocks.push(Block { items: item.into_iter().collect(), next });
        }
        functions.push(Function { name: name.into(), blocks, called_from_outside: roots.contains(&name) });
        all_labels.push(labels);
    }
    let locks = locks.0.into_iter().map(|name| LockClass { name, single: true }).collect();
    let program = Program::new(functions, variables.0, locks, conditions.0.len() as u32).unwrap();
    Written { program, functions: names.into_iter().map(str::to_owned).collect(), labels: all_labels }
}

impl Written {
    pub(super) fn function(&self, name: &str) -> FunctionId {
        FunctionId(self.functions.iter().position(|known| known == name).unwrap() as u32)
    }

    pub(super) fn node(&self, function: &str, label: u32) -> NodeId {
        let function = self.function(function);
        let block = self.labels[function.0 as usize].iter().position(|known| *known == label).unwrap() as u32;
        self.program.flow(function).node(BlockId(block), 0).unwrap()
    }

    fn label(&self, function: FunctionId, node: NodeId) -> String {
        let flow = self.program.flow(function);
        let labels = self.labels[function.0 as usize].iter().enumerate();
        let mut here = labels.filter(|(block, _)| flow.node(BlockId(*block as u32), 0) == Some(node));
        here.next().map_or("exit".into(), |(_, label)| label.to_string())
    }

    fn variable(&self, name: &str) -> VariableId {
        VariableId(self.program.variables().iter().position(|known| known == name).unwrap() as u32)
    }

    /// `foo x 2 7 R`: a pair of a function's variable.
    pub(super) fn pair(&self, text: &str) -> Pair {
        let [function, variable, first, second, mode] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let node = |label: &str| self.node(function, label.parse().unwrap());
        Pair {
            function: self.function(function),
            variable: self.variable(variable),
            first: node(first),
            second: node(second),
            exclusive: mode == "X",
        }
    }

    pub(super) fn pairs(&self, texts: &[&str]) -> Vec<Pair> {
        texts.iter().map(|text| self.pair(text)).collect()
    }

    /// What is placed in a function, by label: `+R x@2` takes the slot of node 2, `-x@2` gives it back, `R x@2` weakens it. A hoisted
    /// slot is `x^6` for the node that needs it. Absorbed slots follow in brackets.
    pub(super) fn placed(&self, placement: &Placement, function: &str) -> BTreeMap<String, Vec<String>> {
        let id = self.function(function);
        let placed = &placement.functions[id.0 as usize];
        let slot = |slot: u32| match placed.slots[slot as usize].origin {
            Origin::Head(variable, node) => {
                format!("{}@{}", self.program.variables()[variable.0 as usize], self.label(id, node))
            }
            Origin::Hoist(lock, node) => {
                format!("{}^{}", self.program.variables()[lock.0 as usize], self.label(id, node))
            }
        };
        let letter = |mode: Mode| match mode {
            Mode::Read => "R",
            Mode::Update => "U",
            Mode::Exclusive => "X",
        };
        let mut text = BTreeMap::new();
        for node in self.program.flow(id).nodes() {
            let actions = placed.before[node.0 as usize].iter().map(|action| match action {
                Action::Release(_, id) => format!("-{}", slot(id.0)),
                Action::Degrade(_, id, mode) => format!("{} {}", letter(*mode), slot(id.0)),
                Action::Acquire { slot: id, mode, absorbs, .. } => {
                    let absorbed: Vec<String> = absorbs.iter().map(|id| slot(id.0)).collect();
                    let absorbed =
                        if absorbed.is_empty() { String::new() } else { format!(" [{}]", absorbed.join(" ")) };
                    format!("+{} {}{absorbed}", letter(*mode), slot(id.0))
                }
            });
            let actions: Vec<String> = actions.collect();
            if !actions.is_empty() {
                text.insert(self.label(id, node), actions);
            }
        }
        text
    }
}

/// A placement as a test writes it: label and actions.
pub(super) fn expected(rows: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    rows.iter().map(|(label, actions)| (label.to_string(), actions.iter().map(|a| a.to_string()).collect())).collect()
}
