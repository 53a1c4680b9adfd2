//! What is enforced and where, in words: which pair, by which lock, where it is taken, weakened and given back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use selvedge_analyze::atomicity::order::{Held, LockOrder, Unenforced};
use selvedge_analyze::atomicity::place::{Action, InsertedId, Pair};
use selvedge_analyze::atomicity::program::{FunctionId, NodeId, VariableId};
use selvedge_image::Symboliser;

use super::compile::{Enforced, Spot};
use super::deploy::Waited;

/// A lock in a picture of their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnLock {
    /// What it is called.
    pub name: String,
    /// Whether it is one of ours.
    pub is_inserted: bool,
}

/// The order of locks, for a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrawnOrder {
    /// The locks.
    pub locks: Vec<DrawnLock>,
    /// Which is held, which is wanted, and whether the edge is on a circle.
    pub edges: Vec<(usize, usize, bool)>,
}

impl Enforced {
    /// Locks with their pairs and what is done where, and what is left alone.
    pub fn explain(&self) -> String {
        let lines = Symboliser::new(&self.loaded.image);
        let mut text = String::new();
        let mut locks: BTreeMap<InsertedId, Vec<VariableId>> = BTreeMap::new();
        for (variable, lock) in &self.resolved.wanted.lock_of {
            locks.entry(*lock).or_default().push(*variable);
        }
        for (number, (lock, variables)) in (1..).zip(&locks) {
            let _ = writeln!(text, "lock {number}: {}", self.names(variables));
            let own = |pair: &&Pair| variables.contains(&pair.variable);
            for pair in self.resolved.wanted.pairs.iter().filter(own) {
                let _ = writeln!(text, "  keeps {}", self.pair(&lines, pair));
            }
            for line in self.actions(&lines, *lock) {
                let _ = writeln!(text, "  {line}");
            }
        }
        for (pair, why) in &self.resolved.unenforced {
            let why = match why {
                Unenforced::NoPath => "no path leads from one to the other",
                Unenforced::Circle => "its lock could deadlock",
                Unenforced::Crowded => "too many would be held at a time",
                Unenforced::Work => "its lock could deadlock, and there was no time to look for another way",
            };
            let _ = writeln!(text, "not enforced, {why}: {}", self.pair(&lines, pair));
        }
        for (variable, key, ns) in &self.left_out.long {
            let (first, second) = (&key.first, &key.second);
            let _ =
                writeln!(text, "left out, held for {} ms of a run: {variable}: {first} to {second}", ns / 1_000_000);
        }
        for (variable, ns, pairs) in &self.left_out.lingering {
            let ms = ns / 1_000_000;
            let _ = writeln!(text, "left out, held for {ms} ms of a run after accesses: {variable}, pairs: {pairs}");
        }
        for (variable, accesses, pairs) in &self.left_out.hot {
            let _ = writeln!(text, "left out, accessed {accesses} times in a run: {variable}, pairs: {pairs}");
        }
        for (variable, key) in &self.model.bound.unknown {
            let _ = writeln!(text, "not in this build: {variable}: {} to {}", key.first, key.second);
        }
        for merged in &self.resolved.merged {
            if !self.model.together.contains(merged) {
                let _ = writeln!(text, "one lock, or they could deadlock: {}", self.names(merged));
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

    /// What was waited for locks, in words.
    pub fn waits(&self, waited: &[Waited]) -> Vec<String> {
        let told = |one: &Waited| {
            let of = self.resolved.wanted.lock_of.iter().filter(|(_, lock)| lock.0 == one.lock);
            let names = self.names(&of.map(|(variable, _)| *variable).collect::<Vec<_>>());
            let times = if one.waits == 1 { "once".to_owned() } else { format!("{} times", one.waits) };
            if one.waits == 0 {
                return format!(
                    "the lock of {names} was given up: it is taken so often that it slows the program down too much"
                );
            }
            let end = match (one.given_up, one.too_often) {
                (0, 0) => "",
                (0, _) => ", then given up: it is taken so often that it slows the program down too much",
                _ => ", then given up: it slows the program down too much",
            };
            format!("waited {times}, {:.1} ms in all, for the lock of {names}{end}", one.ns as f64 / 1e6)
        };
        waited.iter().map(told).collect()
    }

    /// What is done to a lock, in the order of the code.
    fn actions(&self, lines: &Symboliser, wanted: InsertedId) -> Vec<String> {
        let mut all = Vec::new();
        for (id, placed) in (0..).map(FunctionId).zip(&self.resolved.placement.functions) {
            for (node, actions) in (0..).map(NodeId).zip(&placed.before) {
                for action in actions {
                    let (lock, what) = match action {
                        Action::Release(lock, _) => (lock, "given back before".to_owned()),
                        Action::Degrade(lock, _, mode) => (lock, format!("weakened to {mode} before")),
                        Action::Acquire { lock, mode, .. } => (lock, format!("taken ({mode}) before")),
                    };
                    if *lock == wanted {
                        all.push(format!("{what} {}", self.place(lines, id, node)));
                    }
                }
            }
        }
        // Several slots of one lock may be given back at one place.
        all.dedup();
        all
    }

    /// The order of locks before and after circles were broken, for Graphviz.
    pub fn dot(&self) -> [String; 2] {
        [&self.resolved.before, &self.resolved.after].map(|order| order.dot(&self.model.program))
    }

    /// The same for a picture.
    pub fn drawn(&self) -> [DrawnOrder; 2] {
        [&self.resolved.before, &self.resolved.after].map(|order| self.draw(order))
    }

    fn draw(&self, order: &LockOrder) -> DrawnOrder {
        let red: BTreeSet<Held> = order.circles().into_iter().flatten().collect();
        let locks: BTreeSet<Held> = order.edges.keys().flat_map(|(held, wanted)| [*held, *wanted]).collect();
        let numbers: BTreeMap<Held, usize> = locks.iter().copied().zip(0..).collect();
        let named = |held: &Held| match held {
            Held::Program(lock) => {
                let class = self.model.program.locks().get(lock.0 as usize);
                DrawnLock { name: class.map_or_else(|| "?".to_owned(), |class| class.name.clone()), is_inserted: false }
            }
            Held::Inserted(lock, mode) => {
                DrawnLock { name: format!("{} ({mode})", self.variable(lock.0)), is_inserted: true }
            }
        };
        let number = |held: &Held| numbers.get(held).copied().unwrap_or(0);
        let edges = order.edges.keys();
        DrawnOrder {
            locks: locks.iter().map(named).collect(),
            edges: edges.map(|(a, b)| (number(a), number(b), red.contains(a) && red.contains(b))).collect(),
        }
    }

    fn variable(&self, number: u32) -> &str {
        self.model.program.variables().get(number as usize).map_or("?", String::as_str)
    }

    /// Variables; a group is told by its members.
    fn names(&self, variables: &[VariableId]) -> String {
        let all: BTreeSet<&str> = variables.iter().flat_map(|one| self.variable(one.0).split(" + ")).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// `FILE:LINE function`, as far as it is known.
    fn place(&self, lines: &Symboliser, function: FunctionId, node: NodeId) -> String {
        let frame = match self.spot(function, node) {
            Some(Spot::Offset(offset)) => lines.frames(offset).into_iter().next(),
            Some(Spot::Returns(offset)) => lines.frames_of_return(offset).into_iter().next(),
            None => None,
        };
        let whole = || {
            let symbol = self.model.program.functions().get(function.0 as usize).map(|whole| whole.name.as_str());
            let found = lines.functions().all().iter().find(|one| one.symbol.as_deref() == symbol);
            found.map_or_else(|| symbol.unwrap_or("?").to_owned(), selvedge_image::Function::name)
        };
        match frame {
            Some(frame) => match (&frame.file, frame.line) {
                (Some(file), Some(line)) => format!("{}:{line} {}", short(file), frame.function),
                _ => frame.function,
            },
            None if node == self.model.program.flow(function).exit() => {
                format!("the end of {}", whole())
            }
            None => format!("what follows a branch in {}", whole()),
        }
    }

    fn pair(&self, lines: &Symboliser, pair: &Pair) -> String {
        let how = if pair.exclusive { "exclusive" } else { "others may read" };
        let [first, second] = [pair.first, pair.second].map(|node| self.place(lines, pair.function, node));
        format!("{} from {first} to {second} ({how})", self.variable(pair.variable.0))
    }
}

/// The last part of a path.
fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}
