//! All that a program can do: every state that some interleaving leads to.

use std::collections::{BTreeSet, HashMap};

use crate::machine::{Program, Spot, State};

/// The states of a program and the steps between them.
#[derive(Debug)]
pub(crate) struct Everything {
    states: Vec<State>,
    /// For each state what can be done next, and where that leads.
    steps: Vec<Vec<(Spot, usize)>>,
    /// Pairs of accesses that are both next in some state, the lower thread first.
    pub(crate) races: BTreeSet<[Spot; 2]>,
    /// Acquisitions that wait for each other in a circle in some state, by thread.
    pub(crate) circles: BTreeSet<Vec<Spot>>,
    /// What is still to be done where nothing can be, by thread.
    dead_ends: BTreeSet<Vec<Spot>>,
}

impl Everything {
    /// Of a program.
    pub(crate) fn of(program: &Program) -> Everything {
        let first = State::new(program);
        let mut known = HashMap::from([(first.clone(), 0)]);
        let mut all = Everything {
            states: vec![first],
            steps: Vec::new(),
            races: BTreeSet::new(),
            circles: BTreeSet::new(),
            dead_ends: BTreeSet::new(),
        };
        while let Some(state) = all.states.get(all.steps.len()).cloned() {
            all.look_at(program, &state);
            let mut steps = Vec::new();
            for thread in (0..program.threads.len() as u8).filter(|thread| state.is_enabled(program, *thread)) {
                let mut after = state.clone();
                let spot = after.step(program, thread);
                let number = *known.entry(after).or_insert_with_key(|after| {
                    all.states.push(after.clone());
                    all.states.len() - 1
                });
                steps.push((spot, number));
            }
            all.steps.push(steps);
        }
        all
    }

    fn look_at(&mut self, program: &Program, state: &State) {
        let threads = program.threads.len() as u8;
        let next: Vec<Spot> =
            (0..threads).filter_map(|thread| state.next(program, thread)).map(|(spot, _)| spot).collect();
        for (at, one) in next.iter().enumerate() {
            let others = next[at + 1..].iter().filter(|other| program.could_race(*one, **other));
            self.races.extend(others.map(|other| [*one, *other]));
        }
        for start in 0..threads {
            let mut circle = vec![start];
            while let Some(holder) = circle.last().and_then(|last| state.waits_for(program, *last)) {
                if holder == start {
                    let spots = next.iter().filter(|spot| circle.contains(&spot.thread));
                    self.circles.insert(spots.copied().collect());
                }
                if circle.contains(&holder) {
                    break;
                }
                circle.push(holder);
            }
        }
        if !next.is_empty() && !(0..threads).any(|thread| state.is_enabled(program, thread)) {
            self.dead_ends.insert(next);
        }
    }

    /// Whether there is a state in which these two race.
    pub(crate) fn has_race(&self, spots: &[Spot]) -> bool {
        self.races.iter().any(|race| spots.len() == race.len() && race.iter().all(|spot| spots.contains(spot)))
    }

    /// Whether there is a run that does these in this order, whatever it does in between.
    pub(crate) fn has_order(&self, order: &[Spot]) -> bool {
        let Some(last) = order.last() else { return true };
        let mut seen = vec![false; self.states.len()];
        let mut open = vec![0];
        while let Some(number) = open.pop() {
            if std::mem::replace(&mut seen[number], true) {
                continue;
            }
            for (spot, to) in &self.steps[number] {
                let place = order.iter().position(|other| other == spot).unwrap_or(0);
                if order[..place].iter().all(|before| self.states[number].has_done(*before)) {
                    if spot == last {
                        return true;
                    }
                    open.push(*to);
                }
            }
        }
        false
    }

    /// Whether there is a run in which these are still to be done when nothing can be.
    pub(crate) fn has_dead_end(&self, stuck: &[Spot]) -> bool {
        self.dead_ends.iter().any(|end| stuck.iter().all(|spot| end.contains(spot)))
    }

    /// How many states there are.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}
