//! Variables that belong together: which ones, what a group is called, what people say about it.
//!
//! A group is a variable of its own in a profile, with its members listed. It is of two variables, see `analyze::atomicity::together`.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::atomicity::profile::Profile;
use selvedge_analyze::atomicity::together::{Nearby, together};

/// What a variable is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wherein {
    /// The image: there is one of it.
    Global,
    /// A heap block, by its address.
    Block(u64),
    /// An array: a name for many.
    Many,
}

impl Wherein {
    /// The object that variables of a group have in common; nothing where a name stands for many.
    pub fn object(self) -> Option<u64> {
        match self {
            Wherein::Global => Some(0),
            Wherein::Block(at) => Some(at),
            Wherein::Many => None,
        }
    }
}

/// Groups of two variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    pairs: BTreeSet<(String, String)>,
    of: BTreeMap<String, Vec<String>>,
}

/// What people say about groups.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Variables that belong together, whatever runs show.
    pub together: Vec<(String, String)>,
    /// Variables that do not.
    pub apart: Vec<(String, String)>,
}

fn name(a: &str, b: &str) -> String {
    format!("{a} + {b}")
}

impl Groups {
    /// Adds a group.
    pub fn insert(&mut self, a: &str, b: &str) {
        let (a, b) = (a.min(b), a.max(b));
        if a != b && self.pairs.insert((a.to_owned(), b.to_owned())) {
            for member in [a, b] {
                self.of.entry(member.to_owned()).or_default().push(name(a, b));
            }
        }
    }

    /// The groups that a profile has.
    pub fn of_profile(profile: &Profile) -> Groups {
        let mut groups = Groups::default();
        for variable in profile.variables.values() {
            if let [a, b] = variable.members.iter().collect::<Vec<_>>()[..] {
                groups.insert(a, b);
            }
        }
        groups
    }

    /// The groups that a variable is in.
    pub fn of(&self, variable: &str) -> impl Iterator<Item = String> {
        self.of.get(variable).into_iter().flatten().cloned().collect::<Vec<_>>().into_iter()
    }

    /// The members of a group; nothing if it is none.
    pub fn members(&self, group: &str) -> BTreeSet<String> {
        let parts = group.split_once(" + ");
        let known = parts.filter(|(a, b)| self.pairs.contains(&((*a).to_owned(), (*b).to_owned())));
        known.into_iter().flat_map(|(a, b)| [a.to_owned(), b.to_owned()]).collect()
    }

    /// All groups.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(a, b)| (a.as_str(), b.as_str()))
    }
}

/// Learns groups, run by run.
#[derive(Debug, Default)]
pub struct Grouping {
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
    runs: Vec<Vec<Nearby>>,
}

impl Grouping {
    /// The number of a name, the same in all runs.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Adds a run.
    pub fn run(&mut self, accesses: Vec<Nearby>) {
        self.runs.push(accesses);
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The groups, as people have overruled them.
    pub fn decide(&self, said: &Said) -> Groups {
        let mut groups = Groups::default();
        let is_apart = |a: &str, b: &str| {
            said.apart
                .iter()
                .any(|(x, y)| (x == a && (y == b || y == "*")) || (y == a && x == b) || (x == b && y == "*"))
        };
        for (a, b) in together(&self.runs) {
            let [a, b] = [a, b].map(|number| self.names.get(number as usize).map_or("", String::as_str));
            if !is_apart(a, b) {
                groups.insert(a, b);
            }
        }
        said.together.iter().for_each(|(a, b)| groups.insert(a, b));
        groups
    }
}

/// Leaves out groups that add nothing: without an atomic pair from one member to the other.
pub fn prune(profile: &mut Profile) {
    let sites = |name: &str| profile.variables.get(name).map(|variable| variable.sites.clone()).unwrap_or_default();
    let mut useless = Vec::new();
    for (name, variable) in profile.variables.iter().filter(|(_, variable)| variable.members.len() == 2) {
        let members: Vec<BTreeSet<String>> = variable.members.iter().map(|member| sites(member)).collect();
        let both = |first: &str, second: &str| {
            // A call may lead to either.
            let of = |key: &str| {
                [0, 1].map(|at: usize| {
                    !key_is_site(variable, key) || members.get(at).is_some_and(|own| own.contains(key))
                })
            };
            let ([a, b], [c, d]) = (of(first), of(second));
            (a && d) || (b && c)
        };
        if !variable.atomic_pairs().any(|(key, _)| both(&key.first, &key.second)) {
            useless.push(name.clone());
        }
    }
    useless.iter().for_each(|name| {
        profile.variables.remove(name);
    });
}

fn key_is_site(variable: &selvedge_analyze::atomicity::profile::Variable, key: &str) -> bool {
    variable.sites.contains(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(thread: u32, variable: u32) -> Nearby {
        Nearby { thread, variable, object: 0, section: None, writes: true }
    }

    #[test]
    fn people_have_the_last_word() {
        let mut grouping = Grouping::default();
        let [a, b] = ["a", "b"].map(|name| grouping.number(name));
        grouping.run((0..16).map(|n| near(n % 2, if n % 4 < 2 { a } else { b })).collect());
        let learnt = grouping.decide(&Said::default());
        assert_eq!(learnt.iter().collect::<Vec<_>>(), [("a", "b")]);
        assert_eq!(learnt.of("b").collect::<Vec<_>>(), ["a + b"]);
        assert_eq!(learnt.members("a + b").len(), 2);
        let pair = |a: &str, b: &str| vec![(a.to_owned(), b.to_owned())];
        let said = Said { together: pair("d", "c"), apart: pair("b", "a") };
        assert_eq!(grouping.decide(&said).iter().collect::<Vec<_>>(), [("c", "d")]);
        let none = Said { apart: pair("a", "*"), ..Said::default() };
        assert_eq!(grouping.decide(&none), Groups::default());
    }

    #[test]
    fn a_group_without_a_pair_between_its_members_goes() {
        let text = "selvedge-atomicity 1\nvariable a\nlocks\nsite 1\nvariable b\nlocks\nsite 2\n\
                    variable a%20+%20b\nmember a\nmember b\nlocks\nsite 1\nsite 2\n";
        let of = |pair: &str| {
            let mut profile = Profile::from_text(&format!("{text}{pair}\n")).unwrap();
            prune(&mut profile);
            profile.variables.len()
        };
        assert_eq!(of("pair read f 1 2"), 3);
        assert_eq!(of("pair read f 2 call"), 3);
        assert_eq!([of("pair read f 1 1"), of("pair none f 1 2"), of("")], [2, 2, 2]);
    }
}
