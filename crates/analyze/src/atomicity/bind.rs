//! A profile's names become points of a program.
//!
//! A profile may be older than the build: what is not found is said, not guessed. Cost: linear in pairs.

use super::place::Pair;
use super::profile::{Atomicity, PairKey, Profile};
use super::program::{FunctionId, NodeId, VariableId};

/// What a profile's pairs are in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The pairs that are to be enforced.
    pub pairs: Vec<Pair>,
    /// Pairs that the program does not have, with their variables: a name is unknown, or the points are of different functions.
    pub unknown: Vec<(String, PairKey)>,
}

/// Looks up the pairs of a profile that are to be enforced. `variable` and `point` know the program's names; a point is given with the
/// name of its function and the variable, several of which one access may touch.
pub fn bind(
    profile: &Profile,
    variable: impl Fn(&str) -> Option<VariableId>,
    point: impl Fn(VariableId, &str, &str) -> Option<(FunctionId, NodeId)>,
) -> Bound {
    let mut bound = Bound::default();
    for (name, key, atomicity) in profile.atomic_pairs() {
        let points = variable(name).map(|variable| {
            let [first, second] = [&key.first, &key.second].map(|label| point(variable, &key.function, label));
            (variable, first, second)
        });
        match points {
            Some((variable, Some((function, first)), Some((same, second)))) if function == same => {
                let exclusive = atomicity == Atomicity::Exclusive;
                bound.pairs.push(Pair { function, variable, first, second, exclusive });
            }
            _ => bound.unknown.push((name.to_owned(), key.clone())),
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_found_is_said() {
        let text = "selvedge-atomicity 1\nvariable x\nlocks\npair read f 1 2\npair exclusive f 1 3\npair none f 2 2\n\
                    pair read g 1 2\nvariable y\nlocks\npair read f 1 2\n";
        let profile = Profile::from_text(text).unwrap();
        let variable = |name: &str| (name == "x").then_some(VariableId(0));
        let point = |_: VariableId, function: &str, label: &str| {
            let node = NodeId(label.parse().ok().filter(|node| *node < 3)?);
            // The second point of g is in another function now.
            Some((FunctionId(u32::from(function == "g" && node.0 == 2)), node))
        };
        let bound = bind(&profile, variable, point);
        let pair = Pair {
            function: FunctionId(0),
            variable: VariableId(0),
            first: NodeId(1),
            second: NodeId(2),
            exclusive: false,
        };
        assert_eq!(bound.pairs, [pair]);
        let unknown: Vec<String> =
            bound.unknown.iter().map(|(v, k)| format!("{v} {} {}", k.function, k.second)).collect();
        assert_eq!(unknown, ["x f 3", "x g 2", "y f 2"]);
    }
}
