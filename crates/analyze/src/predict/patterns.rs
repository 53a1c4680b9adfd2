//! Patterns of access anomalies as data (section 3): sequences of equal length that say of each event whose it is, which
//! variable it accesses, in which atomic region, and how.
//!
//! The patterns that are searched for by default are in `patterns.toml`, in the form of a user's own file. Those of
//! Vaziri, Tip and Dolby (POPL 2006) and Hammer et al. (ICSE 2008) are numbered there as in the latter's table, the
//! last three being the additions; which of the two-variable ones were in the older list does not matter here.
//!
//! Departures from the paper's form [E, T, SV, AR, AT]: E only names the events and may be left out; a pattern says in which
//! [`Scope`]s its regions may be; a data race says that its events are next at once (`adjacent`), which the paper
//! says in prose; order violations need a word on what did not happen (`reordered`) and on the first and the last write
//! of a variable (`at`).

use selvedge_findings::Kind;

use super::graph::Scope;
use super::patterns_file;
use crate::history::Op;

/// How an event of a pattern accesses its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// Either.
    Any,
}

impl Access {
    /// Whether an operation is such an access. An update is both.
    pub const fn fits(self, op: Op) -> bool {
        match self {
            Access::Read => op.reads(),
            Access::Write => op.writes(),
            Access::Any => op.is_access(),
        }
    }
}

/// Where in the life of its variable an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Anywhere.
    Any,
    /// It is the variable's first write ([`super::graph::Graph::first_write`]).
    First,
    /// It is the variable's last write: a block that is freed, a thing that is torn down.
    Last,
}

/// One event of a pattern. Threads, variables and regions are numbered from 0 by first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose.
    pub thread: u8,
    /// Of which variable.
    pub variable: u8,
    /// In which atomic region.
    pub region: u8,
    /// How.
    pub access: Access,
    /// When.
    pub at: At,
}

/// A pattern.
///
/// [`patterns_file::parse`] sees to its invariants: two to sixteen steps of at least two threads; every region is of
/// one thread; the first and the last write of a variable are writes; two steps if it is `adjacent` or `unless_race`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What users call it.
    pub name: String,
    /// What sort of bug it is.
    pub kind: Kind,
    /// The events, in the order that goes wrong.
    pub steps: Vec<Step>,
    /// Where its regions are looked for.
    pub scopes: Vec<Scope>,
    /// Whether the two events are next at once: a data race. Two atomics do not race.
    pub adjacent: bool,
    /// Whether the order must be one that did not happen.
    pub reordered: bool,
    /// Whether the events are of different places in the source.
    pub distinct: bool,
    /// Whether the two events must not be able to race.
    pub unless_race: bool,
}

/// How a pattern is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Two threads, one variable, an event each.
    Pair,
    /// An event of one thread between two of another, one variable.
    Triple,
    /// Two units, two variables: 1 | 1 2 | 2.
    Nested,
    /// 1 | 2 1 | 2.
    Reversed,
    /// 1 | 2 | 2 | 1.
    Crossed,
    /// Anything else.
    General,
}

impl Pattern {
    /// Its shape.
    pub fn shape(&self) -> Shape {
        let units: Vec<(u8, u8)> = self.steps.iter().map(|step| (step.thread, step.region)).collect();
        let variables: Vec<u8> = self.steps.iter().map(|step| step.variable).collect();
        let anchored = self.steps.iter().any(|step| step.at != At::Any);
        match (&*units, &*variables) {
            ([(0, 0), (1, 1)], [0, 0]) => Shape::Pair,
            _ if anchored || self.reordered || self.distinct => Shape::General,
            ([(0, 0), (1, 1), (0, 0)], [0, 0, 0]) => Shape::Triple,
            ([(0, 0), (1, 1), (1, 1), (0, 0)], [0, 0, 1, 1]) => Shape::Nested,
            ([(0, 0), (1, 1), (1, 1), (0, 0)], [0, 1, 0, 1]) => Shape::Reversed,
            ([(0, 0), (1, 1), (0, 0), (1, 1)], [0, 1, 1, 0]) => Shape::Crossed,
            _ => Shape::General,
        }
    }

    /// What it is called where its regions are found in a scope.
    pub fn name_in(&self, scope: Option<Scope>) -> String {
        match scope {
            None | Some(Scope::Region) => self.name.clone(),
            Some(scope) => format!("{} {}", scope.name(), self.name),
        }
    }
}

/// The patterns that are searched for by default.
pub fn standard() -> Vec<Pattern> {
    patterns_file::parse(include_str!("patterns.toml")).expect("our own patterns are well-formed: a test reads them")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn standard_patterns() {
        let mut shapes = BTreeMap::new();
        for pattern in standard() {
            *shapes.entry(pattern.shape()).or_insert(0) += 1;
        }
        let expected = [
            (Shape::Pair, 3 + 4 + 3),
            (Shape::Triple, 5),
            (Shape::Nested, 9),
            (Shape::Reversed, 9),
            (Shape::Crossed, 9),
        ];
        assert_eq!(shapes, BTreeMap::from(expected));
    }

    /// The two-variable patterns are exactly the ways in which two units conflict in a cycle.
    #[test]
    fn atomic_set_patterns_are_the_unserializable_ones() {
        for pattern in standard().iter().filter(|pattern| pattern.kind == Kind::AtomicSetViolation) {
            let mut edges = [false; 2];
            for (i, a) in pattern.steps.iter().enumerate() {
                for b in &pattern.steps[i + 1..] {
                    let writes = a.access == Access::Write || b.access == Access::Write;
                    if a.thread != b.thread && a.variable == b.variable && writes {
                        edges[usize::from(a.thread)] = true;
                    }
                }
            }
            assert_eq!(edges, [true; 2], "{}", pattern.name);
        }
    }

    #[test]
    fn names() {
        let names: Vec<String> = standard().into_iter().map(|pattern| pattern.name).collect();
        for name in ["R-W-W", "W1|R1-R2|W2", "W1|R2-R1|W2", "R1|W1-W2|W2", "R1|W2|R2|W1", "use after teardown"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
    }
}
