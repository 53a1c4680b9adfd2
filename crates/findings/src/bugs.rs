//! Bugs: findings that have one root cause.
//!
//! One missing lock shows in many ways: as races of every pair of accesses, as what comes between a read and a write, as orders that
//! were meant otherwise. Whoever mends it mends all of them, so they are told as one. Two findings are *related* where
//! - they share an access: the same line of the same function, of the same variable as far as that is known;
//! - they are about the same variable in the same functions;
//! - the program failed in the same way, and they share a line or a variable;
//! - one of them was said to belong to the other ([`Finding::group`]).
//!
//! Errors that are related, be it through others, are one bug. An atomic-set violation is about several variables, and what is no
//! error (untried predictions, orders that did no harm) was not seen to be wrong: these join the bug that they are related to and never make one
//! bug of two. What was refuted belongs to none.
//!
//! Everything here depends on what the findings say, never on the order in which they come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::report::{Access, Finding, Harm, Kind, Status};

/// Findings with one root cause, by their places in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The one with the best evidence.
    pub lead: usize,
    /// The others, those with better evidence first.
    pub others: Vec<usize>,
}

/// How much a harm matters; more is worse.
pub fn severity(harm: Harm) -> u8 {
    match harm {
        Harm::NoneSeen => 0,
        Harm::Hang => 1,
        Harm::Oracle => 2,
        Harm::WrongExit => 3,
        Harm::Assertion => 4,
        Harm::Crash => 5,
    }
}

/// The bugs of these findings: the most harmful first, of those the best known. Refuted findings are in none.
pub fn bugs(findings: &[Finding]) -> Vec<Bug> {
    let known: Vec<Known<'_>> = findings.iter().map(Known::of).collect();
    let mut best: Vec<usize> = (0..findings.len()).collect();
    best.sort_by_cached_key(|at| findings.get(*at).map(evidence));
    let of = |at: usize| known.get(at).filter(|known| known.finding.status != Status::Refuted);
    let rank = |at: usize| of(at).map(|known| rank(known.finding));

    let mut bugs: Vec<Vec<usize>> = Vec::new();
    for turn in [Rank::Error, Rank::SetError, Rank::Remark] {
        let mut rest = Vec::new();
        let mut met = Met::default();
        for (number, bug) in bugs.iter().enumerate() {
            bug.iter().filter_map(|at| of(*at)).for_each(|known| met.add(known, number));
        }
        let mut joined = Vec::new();
        for (at, known) in best.iter().filter_map(|at| Some((*at, of(*at)?))).filter(|(at, _)| rank(*at) == Some(turn))
        {
            // Of several the first, as it has the better evidence.
            match met.all(known).into_iter().min() {
                Some(bug) => joined.push((bug, at)),
                None => rest.push((at, known)),
            }
        }
        for (bug, at) in joined {
            bugs.get_mut(bug).into_iter().for_each(|bug| bug.push(at));
        }
        bugs.extend(parts(&rest));
    }
    let place: BTreeMap<usize, usize> = best.iter().copied().zip(0..).collect();
    bugs.iter_mut().for_each(|bug| bug.sort_by_key(|at| place.get(at).copied()));
    bugs.sort_by_key(|bug| bug.first().and_then(|at| place.get(at).copied()));
    bugs.into_iter()
        .filter_map(|bug| bug.split_first().map(|(lead, others)| Bug { lead: *lead, others: others.to_vec() }))
        .collect()
}

/// What a finding can do: make bugs, or join them. Each sort joins those before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Error,
    SetError,
    Remark,
}

fn rank(finding: &Finding) -> Rank {
    match (finding.is_error(), finding.kind) {
        (true, Kind::AtomicSetViolation) => Rank::SetError,
        (true, _) => Rank::Error,
        (false, _) => Rank::Remark,
    }
}

/// Findings in the order of their bugs, each with the id of the one that leads its bug; refuted ones come last and have none.
pub fn arrange(findings: Vec<Finding>) -> Vec<Finding> {
    let bugs = bugs(&findings);
    let mut slots: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    let mut arranged = Vec::with_capacity(slots.len());
    for bug in bugs {
        let id = slots.get(bug.lead).and_then(Option::as_ref).map(|lead| lead.id.clone());
        for at in std::iter::once(bug.lead).chain(bug.others) {
            if let Some(mut finding) = slots.get_mut(at).and_then(Option::take) {
                finding.group.clone_from(&id);
                arranged.push(finding);
            }
        }
    }
    let mut refuted: Vec<Finding> = slots.into_iter().flatten().collect();
    refuted.sort_by_cached_key(evidence);
    arranged.extend(refuted.into_iter().map(|finding| Finding { group: None, ..finding }));
    arranged
}

/// The bugs that findings name as theirs, in the order of the list. A finding that names none stands alone.
pub fn named(findings: &[Finding]) -> Vec<Bug> {
    let mut bugs: Vec<Bug> = Vec::new();
    let mut leads: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate() {
        let bug = finding.group.as_deref().and_then(|group| leads.get(group)).and_then(|bug| bugs.get_mut(*bug));
        match bug {
            Some(bug) => bug.others.push(at),
            None => {
                if let Some(group) = finding.group.as_deref() {
                    leads.insert(group, bugs.len());
                }
                bugs.push(Bug { lead: at, others: Vec::new() });
            }
        }
    }
    bugs
}

/// Whether two findings are related.
pub fn are_related(one: &Finding, other: &Finding) -> bool {
    Known::of(one).is_related(&Known::of(other))
}

/// Connected parts of what is related.
fn parts(all: &[(usize, &Known<'_>)]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut part_of: Vec<usize> = Vec::new();
    let mut met = Met::default();
    for (number, (at, known)) in all.iter().enumerate() {
        // The parts that it makes one, with the parts that these went into.
        let mut joined: BTreeSet<usize> = BTreeSet::new();
        for other in met.all(known) {
            joined.insert(root(&part_of, other));
        }
        let one = joined.pop_first().unwrap_or(number);
        for part in joined {
            if let Some(part_of) = part_of.get_mut(part) {
                *part_of = one;
            }
            let moved = parts.get_mut(part).map(std::mem::take).unwrap_or_default();
            parts.get_mut(one).into_iter().for_each(|part| part.extend(&moved));
        }
        part_of.push(one);
        parts.push(Vec::new());
        parts.get_mut(one).into_iter().for_each(|part| part.push(*at));
        met.add(known, number);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn root(part_of: &[usize], mut at: usize) -> usize {
    while let Some(above) = part_of.get(at).filter(|above| **above != at) {
        at = *above;
    }
    at
}

/// Findings that were met, by what makes others related to them. The number of each is the caller's.
///
/// What [`Known::is_related`] says of two findings, this says of one and all that were met, without comparing each.
#[derive(Default)]
struct Met<'a> {
    by_key: BTreeMap<Key<'a>, BTreeSet<usize>>,
    /// Findings with an access there, and those that do not say of which variable.
    at: BTreeMap<Place<'a>, (BTreeSet<usize>, BTreeSet<usize>)>,
}

/// Findings that have one in common are related.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Id(&'a str),
    Access(Place<'a>, String),
    Variable(String, BTreeSet<&'a str>),
    FailedVariable(Harm, &'a str, String),
    FailedPlace(Harm, &'a str, Place<'a>),
}

impl<'a> Met<'a> {
    fn add(&mut self, known: &Known<'a>, number: usize) {
        for key in known.keys() {
            self.by_key.entry(key).or_default().insert(number);
        }
        for (place, variable) in &known.accesses {
            let (all, unnamed) = self.at.entry(*place).or_default();
            all.insert(number);
            if variable.is_none() {
                unnamed.insert(number);
            }
        }
    }

    /// Numbers of all that are related.
    fn all(&self, known: &Known<'a>) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for key in known.keys() {
            found.extend(self.by_key.get(&key).into_iter().flatten());
        }
        for (place, variable) in &known.accesses {
            let Some((all, unnamed)) = self.at.get(place) else { continue };
            found.extend(if variable.is_none() { all } else { unnamed });
        }
        found
    }
}

/// What makes one finding say more than another; less is better, and no two findings that differ are alike.
type Evidence = ((bool, Reverse<u8>, u8, bool, bool, u8, u64), (String, Kind, Option<String>, String));

/// Switches of a schedule that can still be followed by eye.
const FEW: u64 = 6;

fn evidence(finding: &Finding) -> Evidence {
    let status = match finding.status {
        Status::Confirmed => 0,
        Status::Predicted => 1,
        Status::Refuted => 2,
    };
    // Those that say most about why come first.
    let kind = match finding.kind {
        Kind::Deadlock => 0,
        Kind::LostWakeup => 1,
        Kind::AtomicityViolation => 2,
        Kind::OrderViolation => 3,
        Kind::AtomicSetViolation => 4,
        Kind::DataRace => 5,
    };
    let switches = finding.switches.unwrap_or(u64::MAX);
    let harm = Reverse(severity(finding.harm));
    let worth = (!finding.is_error(), harm, status, switches > FEW, finding.proved.is_none(), kind, switches);
    let same = format!("{:?} {:?}", finding.clip, finding.accesses);
    (worth, (finding.id.clone(), finding.kind, finding.pattern.clone(), same))
}

/// A line of a function in a file without its directories.
type Place<'a> = (&'a str, &'a str, u32);

/// What of a finding is compared.
struct Known<'a> {
    finding: &'a Finding,
    accesses: BTreeSet<(Place<'a>, Option<String>)>,
    functions: BTreeSet<&'a str>,
    variables: BTreeSet<String>,
}

impl<'a> Known<'a> {
    fn of(finding: &'a Finding) -> Known<'a> {
        let accesses = finding.accesses.iter().filter_map(|access| Some((place(access)?, variable(access)))).collect();
        let functions = finding.accesses.iter().filter_map(|access| access.function.as_deref()).collect();
        let variables = finding.accesses.iter().filter_map(variable).collect();
        Known { finding, accesses, functions, variables }
    }

    fn keys(&self) -> Vec<Key<'a>> {
        let finding = self.finding;
        let mut keys = vec![Key::Id(&finding.id)];
        keys.extend(finding.group.as_deref().map(Key::Id));
        for (place, variable) in &self.accesses {
            keys.extend(variable.clone().map(|variable| Key::Access(*place, variable)));
        }
        if !self.functions.is_empty() {
            keys.extend(self.variables.iter().map(|name| Key::Variable(name.clone(), self.functions.clone())));
        }
        if let Some(failure) = finding.failure.as_deref() {
            let variable = |name: &String| Key::FailedVariable(finding.harm, failure, name.clone());
            keys.extend(self.variables.iter().map(variable));
            keys.extend(self.accesses.iter().map(|(place, _)| Key::FailedPlace(finding.harm, failure, *place)));
        }
        keys
    }

    /// The definition; [`Met`] is the same for many.
    fn is_related(&self, other: &Known<'_>) -> bool {
        let (one, two) = (self.finding, other.finding);
        let belongs = |one: &Finding, two: &Finding| {
            one.group.as_ref().is_some_and(|group| *group == two.id || two.group.as_ref() == Some(group))
        };
        if one.id == two.id || belongs(one, two) || belongs(two, one) {
            return true;
        }
        let same = |(place, variable): &(Place<'_>, Option<String>)| {
            other
                .accesses
                .iter()
                .any(|(at, what)| at == place && (variable.is_none() || what.is_none() || what == variable))
        };
        if self.accesses.iter().any(same) {
            return true;
        }
        let variables = !self.variables.is_disjoint(&other.variables);
        if variables && !self.functions.is_empty() && self.functions == other.functions {
            return true;
        }
        let failed = one.failure.is_some() && one.failure == two.failure && one.harm == two.harm;
        let places = || self.accesses.iter().any(|(at, _)| other.accesses.iter().any(|(place, _)| place == at));
        failed && (variables || places())
    }
}

fn place(access: &Access) -> Option<Place<'_>> {
    let file = access.file.as_deref()?;
    Some((access.function.as_deref().unwrap_or(""), file.rsplit('/').next().unwrap_or(file), access.line?))
}

/// The variable, all elements of an array as one; nothing where the name is an address, which is another in every run.
fn variable(access: &Access) -> Option<String> {
    let name = access.variable.as_deref().filter(|name| !name.starts_with("0x") && !name.contains(":0x"))?;
    let mut plain = String::new();
    let mut inside = false;
    for c in name.chars() {
        inside = (inside || c == '[') && c != ']';
        if !(inside && c.is_ascii_digit()) {
            plain.push(c);
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `function:line variable`, in the file `a.c`.
    fn access(text: &str) -> Access {
        let (at, variable) = text.split_once(' ').unwrap_or((text, ""));
        let (function, line) = at.split_once(':').expect("function:line");
        Access {
            op: "read".into(),
            function: Some(function.into()),
            file: Some("/src/a.c".into()),
            line: line.parse().ok(),
            variable: Some(variable.to_owned()).filter(|name| !name.is_empty()),
            ..Access::default()
        }
    }

    fn finding(id: &str, kind: Kind, harm: Harm, accesses: &[&str]) -> Finding {
        let mut finding = Finding::new(id.into(), kind, accesses.iter().map(|text| access(text)).collect());
        finding.status = Status::Confirmed;
        finding.harm = harm;
        finding.failure = (harm != Harm::NoneSeen).then(|| "it failed".to_owned());
        finding
    }

    /// Ids of each bug's findings.
    fn ids(findings: &[Finding]) -> Vec<Vec<String>> {
        let id = |at: usize| findings[at].id.clone();
        bugs(findings).into_iter().map(|bug| std::iter::once(bug.lead).chain(bug.others).map(id).collect()).collect()
    }

    #[test]
    fn what_shares_an_access_is_one_bug_and_what_shares_a_name_is_not() {
        use Harm::NoneSeen;
        use Kind::{AtomicityViolation, DataRace, OrderViolation};
        let race = |id: &str, accesses: &[&str]| finding(id, DataRace, NoneSeen, accesses);
        let cases: Vec<(Vec<Finding>, &[&[&str]])> = vec![
            // A race, what comes between and an order of the same two lines.
            (
                vec![
                    race("a", &["put:8 n", "get:3 n"]),
                    finding("b", AtomicityViolation, Harm::Assertion, &["put:7 n", "get:3 n", "put:8 n"]),
                    finding("c", OrderViolation, Harm::Assertion, &["get:3 n", "put:7 n"]),
                ],
                &[&["b", "c", "a"]],
            ),
            // Another variable on the same line is another bug; an address is no name.
            (vec![race("a", &["f:1 x", "g:2 x"]), race("b", &["f:1 y", "g:2 y"])], &[&["a"], &["b"]]),
            (vec![race("a", &["f:1 0x10", "g:2 0x10"]), race("b", &["f:1 y", "h:2 y"])], &[&["a", "b"]]),
            // The same variable in the same functions; in others only where the failure is the same.
            (vec![race("a", &["f:1 x", "g:2 x"]), race("b", &["f:3 x", "g:4 x"])], &[&["a", "b"]]),
            (vec![race("a", &["f:1 x", "g:2 x"]), race("b", &["h:3 x", "k:4 x"])], &[&["a"], &["b"]]),
            (
                vec![
                    finding("a", DataRace, Harm::Crash, &["f:1 x", "g:2 x"]),
                    finding("b", DataRace, Harm::Crash, &["h:3 x", "k:4 x"]),
                ],
                &[&["a", "b"]],
            ),
            // Elements of an array.
            (vec![race("a", &["f:1 t[1].n", "g:2 t[1].n"]), race("b", &["f:3 t[9].n", "g:4 t[9].n"])], &[&["a", "b"]]),
            (
                vec![race("a", &["f:1 t[1].n", "g:2 t[1].n"]), race("b", &["f:3 t[1].m", "g:4 t[1].m"])],
                &[&["a"], &["b"]],
            ),
            // Nothing is known of either.
            (vec![race("a", &[]), race("b", &[])], &[&["a"], &["b"]]),
        ];
        for (findings, expected) in cases {
            assert_eq!(ids(&findings), expected, "{findings:?}");
        }
    }

    #[test]
    fn the_worst_and_best_known_comes_first() {
        use Kind::{DataRace, Deadlock, OrderViolation};
        let mut small = finding("small", OrderViolation, Harm::Crash, &["f:1 x", "g:2 x"]);
        small.switches = Some(2);
        let mut large = finding("large", OrderViolation, Harm::Crash, &["f:1 x", "g:3 x"]);
        large.switches = Some(9);
        let hang = finding("hang", Deadlock, Harm::Hang, &["a:1 m", "b:2 n"]);
        let race = finding("race", DataRace, Harm::NoneSeen, &["c:1 y", "d:2 y"]);
        let mut predicted = finding("predicted", DataRace, Harm::NoneSeen, &["e:1 z", "e:2 z"]);
        predicted.status = Status::Predicted;
        let all = [predicted, race, hang, large, small];
        assert_eq!(ids(&all), [vec!["small", "large"], vec!["hang"], vec!["race"], vec!["predicted"]]);
    }

    #[test]
    fn what_is_no_error_joins_and_never_makes_one_of_two() {
        let one = finding("one", Kind::DataRace, Harm::Crash, &["f:1 x", "g:2 x"]);
        let two = finding("two", Kind::DataRace, Harm::NoneSeen, &["h:3 y", "k:4 y"]);
        let mut bridge = finding("bridge", Kind::DataRace, Harm::NoneSeen, &["f:1 x", "h:3 y"]);
        bridge.status = Status::Predicted;
        let mut refuted = finding("refuted", Kind::DataRace, Harm::NoneSeen, &["f:1 x", "h:3 y"]);
        refuted.status = Status::Refuted;
        let all = vec![refuted, bridge, two, one];
        assert_eq!(ids(&all), [vec!["one", "bridge"], vec!["two"]]);
        let arranged = arrange(all);
        let groups: Vec<(&str, Option<&str>)> =
            arranged.iter().map(|finding| (finding.id.as_str(), finding.group.as_deref())).collect();
        let expected = [("one", Some("one")), ("bridge", Some("one")), ("two", Some("two")), ("refuted", None)];
        assert_eq!(groups, expected);
    }

    #[test]
    fn what_is_about_several_variables_joins_the_worst_and_makes_no_one_of_two() {
        let order = finding("order", Kind::OrderViolation, Harm::Crash, &["f:1 x", "g:2 x"]);
        let race = finding("race", Kind::DataRace, Harm::NoneSeen, &["h:3 y", "h:3 y"]);
        let set = finding("set", Kind::AtomicSetViolation, Harm::Crash, &["f:1 x", "g:2 x", "h:3 y", "h:3 y"]);
        assert_eq!(ids(&[set.clone(), race, order]), [vec!["order", "set"], vec!["race"]]);
        assert_eq!(ids(&[set]), [["set"]]);
    }

    #[test]
    fn what_is_said_to_belong_together_does() {
        let hang = finding("hang", Kind::Deadlock, Harm::Hang, &["a:1 m", "b:2 n"]);
        let mut order = finding("order", Kind::OrderViolation, Harm::Hang, &["f:1 x", "g:2 x"]);
        order.failure = Some("another".into());
        assert_eq!(ids(&[hang.clone(), order.clone()]).len(), 2);
        order.group = Some("hang".into());
        assert_eq!(ids(&[order, hang]), [["hang", "order"]]);
    }

    /// Few names, so that much is shared.
    fn some_finding() -> impl Strategy<Value = Finding> {
        let access = (0..3_u8, 1..4_u8, 0..3_u8).prop_map(|(function, line, variable)| {
            access(&format!("f{function}:{line} {}", ["x", "y", ""][usize::from(variable)]))
        });
        let kind = (0..Kind::ALL.len()).prop_map(|at| Kind::ALL[at]);
        let status = prop_oneof![Just(Status::Confirmed), Just(Status::Predicted), Just(Status::Refuted)];
        let harm = prop_oneof![Just(Harm::NoneSeen), Just(Harm::Crash), Just(Harm::Hang)];
        (kind, status, harm, prop::collection::vec(access, 0..3), 0..200_u16).prop_map(
            |(kind, status, harm, accesses, id)| {
                let mut finding = Finding::new(format!("{id}"), kind, accesses);
                (finding.status, finding.harm) = (status, harm);
                finding.failure = (harm != Harm::NoneSeen).then(|| format!("{harm:?}"));
                finding
            },
        )
    }

    proptest! {
        #[test]
        fn the_order_of_the_list_makes_no_difference(
            (given, shuffled) in prop::collection::vec(some_finding(), 0..12)
                .prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle()))
        ) {
            prop_assert_eq!(arrange(given), arrange(shuffled));
        }

        #[test]
        fn arranging_again_changes_nothing_and_nothing_is_lost(list in prop::collection::vec(some_finding(), 0..12)) {
            let once = arrange(list.clone());
            prop_assert_eq!(once.len(), list.len());
            prop_assert_eq!(&arrange(once.clone()), &once);
            let told: Vec<Finding> =
                once.iter().filter(|finding| finding.status != Status::Refuted).cloned().collect();
            prop_assert!(told.iter().all(|finding| finding.group.is_some()));
            prop_assert_eq!(named(&told), bugs(&told));
        }

        #[test]
        fn what_is_met_is_what_is_related(list in prop::collection::vec(some_finding(), 1..8)) {
            let known: Vec<Known<'_>> = list.iter().map(Known::of).collect();
            let mut met = Met::default();
            known.iter().enumerate().for_each(|(number, known)| met.add(known, number));
            for one in &known {
                let expected: BTreeSet<usize> =
                    (0..known.len()).filter(|other| one.is_related(&known[*other])).collect();
                prop_assert_eq!(met.all(one), expected);
            }
        }

        /// Against the definition: errors of one variable are in one bug where a chain of related ones leads from one to the other.
        #[test]
        fn errors_are_one_bug_where_a_chain_leads(list in prop::collection::vec(some_finding(), 0..10)) {
            let errors: Vec<Finding> = list.into_iter().filter(|one| rank(one) == Rank::Error).collect();
            let known: Vec<Known<'_>> = errors.iter().map(Known::of).collect();
            let mut reach: Vec<Vec<bool>> = known.iter()
                .map(|one| known.iter().map(|other| one.is_related(other)).collect())
                .collect();
            for middle in 0..reach.len() {
                for from in 0..reach.len() {
                    for to in 0..reach.len() {
                        reach[from][to] |= reach[from][middle] && reach[middle][to];
                    }
                }
            }
            let mut bug_of = vec![usize::MAX; errors.len()];
            for (number, bug) in bugs(&errors).iter().enumerate() {
                std::iter::once(&bug.lead).chain(&bug.others).for_each(|at| bug_of[*at] = number);
            }
            for from in 0..errors.len() {
                for to in 0..errors.len() {
                    prop_assert_eq!(bug_of[from] == bug_of[to], reach[from][to], "{} {}", from, to);
                }
            }
        }
    }
}
