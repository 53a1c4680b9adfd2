//! What is enforced and where, in words.

use std::fmt::Write as _;

use selvedge_analyze::atomicity::order::Unenforced;
use selvedge_analyze::atomicity::place::{Action, Pair};
use selvedge_analyze::atomicity::program::{FunctionId, NodeId};

use super::compile::Enforced;

impl Enforced {
    /// Pairs, the actions of each function, and what is left alone.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for pair in &self.resolved.wanted.pairs {
            let _ = writeln!(text, "{}", self.pair(pair));
        }
        for (pair, why) in &self.resolved.unenforced {
            let why = match why {
                Unenforced::NoPath => "no path leads from one to the other",
                Unenforced::Circle => "its lock could deadlock",
                Unenforced::Crowded => "too many would be held at a time",
            };
            let _ = writeln!(text, "not enforced, {why}: {}", self.pair(pair));
        }
        for (variable, key) in &self.model.bound.unknown {
            let _ = writeln!(text, "not in this build: {variable}: {} to {}", key.first, key.second);
        }
        for merged in &self.resolved.merged {
            let names: Vec<&str> = merged.iter().map(|variable| self.variable(variable.0)).collect();
            let _ = writeln!(text, "one lock, or they could deadlock: {}", names.join(", "));
        }
        for (id, placed) in (0..).map(FunctionId).zip(&self.resolved.placement.functions) {
            for (node, actions) in (0..).map(NodeId).zip(&placed.before) {
                for action in actions {
                    let what = match action {
                        Action::Release(lock, _) => format!("give back {}", self.variable(lock.0)),
                        Action::Degrade(lock, _, mode) => format!("weaken {} to {mode}", self.variable(lock.0)),
                        Action::Acquire { lock, mode, .. } => format!("take {} ({mode})", self.variable(lock.0)),
                    };
                    let _ = writeln!(text, "  before {}: {what}", self.place(id, node));
                }
            }
        }
        let [before, after] = [&self.resolved.unresolved, &self.resolved.placement].map(|placed| placed.counts());
        for (what, before, after) in [
            ("acquisitions for reading", before[0], after[0]),
            ("exclusive acquisitions", before[1], after[1]),
            ("releases", before[2], after[2]),
            ("weakenings", before[3], after[3]),
        ] {
            let _ = writeln!(text, "{what}: {before} before resolution, {after} after");
        }
        let _ = writeln!(text, "{}", self.fit());
        text
    }

    /// The order of locks before and after circles were broken, for Graphviz.
    pub fn dot(&self) -> [String; 2] {
        [&self.resolved.before, &self.resolved.after].map(|order| order.dot(&self.model.program))
    }

    fn variable(&self, number: u32) -> &str {
        self.model.program.variables().get(number as usize).map_or("?", String::as_str)
    }

    fn place(&self, function: FunctionId, node: NodeId) -> String {
        let named = self.named(function, node);
        named.map_or_else(|| self.model.program.name(function, node), |name| name.to_owned())
    }

    fn pair(&self, pair: &Pair) -> String {
        let how = if pair.exclusive { "exclusive" } else { "read" };
        let [first, second] = [pair.first, pair.second].map(|node| self.place(pair.function, node));
        format!("{} ({how}): {first} to {second}", self.variable(pair.variable.0))
    }
}
