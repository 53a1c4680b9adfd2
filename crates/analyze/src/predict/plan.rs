//! Patterns made ready for the search: tables from what two, three or four events do to the patterns that they fit.
//!
//! Where several patterns of one kind fit the same events (an update both reads and writes), the first in the list is
//! taken.

use selvedge_findings::Kind;

use super::graph::Scope;
use super::patterns::{At, Pattern, Shape, Step};
use crate::history::Op;

/// A pattern and where its regions are: four times the pattern's index, plus the scope.
pub(crate) type PlanNo = u32;

/// The number of a pattern in a scope; pairs have none.
pub(crate) fn plan_no(pattern: usize, scope: Option<Scope>) -> PlanNo {
    pattern as u32 * 4 + scope.map_or(3, |scope| scope as u32)
}

/// What it stands for.
pub(crate) fn of_plan(plan: PlanNo) -> (usize, Option<Scope>) {
    (plan as usize / 4, Scope::ALL.get(plan as usize % 4).copied())
}

/// What an access does, apart from being atomic.
pub(crate) const fn act(op: Op) -> usize {
    match (op.reads(), op.writes()) {
        (_, false) => 0,
        (false, true) => 1,
        (true, true) => 2,
    }
}

/// An operation that does it.
const ACTS: [Op; 3] = [Op::Read, Op::Write, Op::AtomicUpdate];

/// A pattern of two events of one variable.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) plan: PlanNo,
    pub(crate) steps: [Step; 2],
    pub(crate) adjacent: bool,
    pub(crate) reordered: bool,
    pub(crate) distinct: bool,
    pub(crate) unless_race: bool,
}

/// Three acts in a row, as an index.
pub(crate) const fn acts3(acts: [usize; 3]) -> usize {
    (acts[0] * 3 + acts[1]) * 3 + acts[2]
}

/// Four.
pub(crate) const fn acts4(acts: [usize; 4]) -> usize {
    ((acts[0] * 3 + acts[1]) * 3 + acts[2]) * 3 + acts[3]
}

/// All patterns, by shape.
#[derive(Debug)]
pub(crate) struct Plans {
    /// Pairs without an anchor, by what the first and the second event do.
    pub(crate) pairs: [[Vec<Pair>; 3]; 3],
    /// Pairs of which one event is a variable's first or last write.
    pub(crate) anchored: Vec<Pair>,
    /// By scope and acts.
    pub(crate) triples: [Vec<Vec<PlanNo>>; 3],
    /// By arrangement (nested, reversed, crossed), scope and acts.
    pub(crate) sets: [[Vec<Vec<PlanNo>>; 3]; 3],
    /// Indices of all others.
    pub(crate) general: Vec<usize>,
    /// Whether there are sets at all.
    pub(crate) any_sets: bool,
}

impl Plans {
    pub(crate) fn new(patterns: &[Pattern]) -> Plans {
        let shapes: Vec<Shape> = patterns.iter().map(Pattern::shape).collect();
        let mut pairs: [[Vec<Pair>; 3]; 3] = Default::default();
        let mut anchored = Vec::new();
        let mut general = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            match shapes[index] {
                Shape::Pair => {
                    let pair = Pair {
                        plan: plan_no(index, None),
                        steps: [pattern.steps[0], pattern.steps[1]],
                        adjacent: pattern.adjacent,
                        reordered: pattern.reordered,
                        distinct: pattern.distinct,
                        unless_race: pattern.unless_race,
                    };
                    if pair.steps.iter().any(|step| step.at != At::Any) {
                        anchored.push(pair);
                    } else {
                        add_pair(&mut pairs, patterns, pair);
                    }
                }
                Shape::General => general.push(index),
                _ => {}
            }
        }
        let table = |shape, scope, len| table(patterns, &shapes, shape, scope, len);
        let triples = Scope::ALL.map(|scope| table(Shape::Triple, scope, 3));
        let sets = [Shape::Nested, Shape::Reversed, Shape::Crossed]
            .map(|shape| Scope::ALL.map(|scope| table(shape, scope, 4)));
        let any_sets = sets.iter().flatten().flatten().any(|plans| !plans.is_empty());
        Plans { pairs, anchored, triples, sets, general, any_sets }
    }
}

fn add_pair(pairs: &mut [[Vec<Pair>; 3]; 3], patterns: &[Pattern], pair: Pair) {
    let kind = |pair: &Pair| patterns[of_plan(pair.plan).0].kind;
    for (a, first) in ACTS.into_iter().enumerate() {
        for (b, second) in ACTS.into_iter().enumerate() {
            let fits = pair.steps[0].access.fits(first) && pair.steps[1].access.fits(second);
            let list = &mut pairs[a][b];
            if fits && list.len() < 32 && list.iter().all(|other| kind(other) != kind(&pair)) {
                list.push(pair.clone());
            }
        }
    }
}

/// The patterns of one shape and scope by what their events do.
fn table(patterns: &[Pattern], shapes: &[Shape], shape: Shape, scope: Scope, len: usize) -> Vec<Vec<PlanNo>> {
    (0..3_usize.pow(len as u32))
        .map(|mut index| {
            let mut ops = vec![Op::Read; len];
            for op in ops.iter_mut().rev() {
                *op = ACTS[index % 3];
                index /= 3;
            }
            let mut plans = Vec::new();
            let mut kinds: Vec<Kind> = Vec::new();
            for (number, pattern) in patterns.iter().enumerate() {
                let fits = shapes[number] == shape
                    && pattern.scopes.contains(&scope)
                    && pattern.steps.iter().zip(&ops).all(|(step, op)| step.access.fits(*op));
                if fits && !kinds.contains(&pattern.kind) {
                    kinds.push(pattern.kind);
                    plans.push(plan_no(number, Some(scope)));
                }
            }
            plans
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::patterns::standard;

    #[test]
    fn tables() {
        let patterns = standard();
        let plans = Plans::new(&patterns);
        let names = |plans: &[PlanNo]| -> Vec<String> {
            plans.iter().map(|plan| of_plan(*plan)).map(|(index, scope)| patterns[index].name_in(scope)).collect()
        };
        let (r, w, u) = (0, 1, 2);
        assert_eq!(names(&plans.triples[0][acts3([r, w, w])]), ["R-W-W"]);
        assert_eq!(names(&plans.triples[2][acts3([r, w, r])]), ["split R-W-R"]);
        assert_eq!(names(&plans.triples[0][acts3([r, r, w])]), [""; 0]);
        assert_eq!(names(&plans.triples[0][acts3([u, u, r])]), ["R-W-R"]);
        assert_eq!(names(&plans.sets[0][1][acts4([w, r, r, w])]), ["unlocked W1|R1-R2|W2"]);
        assert_eq!(names(&plans.sets[2][0][acts4([w, r, r, w])]), [""; 0]);
        assert_eq!(plans.pairs[r][r].len(), 0);
        assert_eq!(plans.pairs[r][w].len(), 2);
        assert_eq!(plans.anchored.len(), 4);
        assert!(plans.general.is_empty());
        assert_eq!(of_plan(plan_no(7, None)), (7, None));
    }
}
