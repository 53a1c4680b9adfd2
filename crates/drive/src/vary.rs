//! Recorded runs under varied schedules: the same program and input, so that what differs is the order of its threads.
//!
//! Strategies take turns, because each has bugs that it hardly ever meets: chance at every point (random, POS) finds what
//! needs many switches, priorities (PCT) what needs one switch for long. The first run has no switches but those that
//! the program asks for.

use std::path::PathBuf;
use std::time::Duration;

use selvedge_sched::{Spec, StrategyKind};

use crate::clip::Clip;
use crate::control::World;
use crate::controlled::Prepared;
use crate::hunt::{HuntError, Recorded, record_clip};
use crate::replay::Alone;

/// How to make runs.
#[derive(Clone, Debug)]
pub struct VaryOptions {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// A shell command that says whether a run passed.
    pub oracle: Option<String>,
    /// Most time for a run.
    pub timeout: Duration,
    /// Most steps of a run.
    pub most_steps: u64,
    /// What the world looks like.
    pub world: World,
    /// Whether runs collect a graph instead of a trace: events of a context, and bits of an address below a location's
    /// number.
    pub graph: Option<(u8, u8)>,
}

/// Makes runs, one after the other.
#[derive(Debug)]
pub struct Variety<'a> {
    prepared: &'a Prepared,
    base: Clip,
    seed: u64,
    timeout: Duration,
    how: Alone,
    number: u32,
    /// Steps of the longest run so far.
    longest: u64,
    scratch: PathBuf,
}

impl<'a> Variety<'a> {
    /// Nothing has run yet; files of runs go below `name` in the program's own folder.
    pub fn new(prepared: &'a Prepared, options: &VaryOptions, name: &str) -> Variety<'a> {
        Variety {
            base: prepared.clip(options.world, options.most_steps, options.oracle.clone()),
            seed: options.seed,
            timeout: options.timeout,
            how: Alone { record: options.graph.is_none(), graph: options.graph, ..Alone::default() },
            number: 0,
            longest: 0,
            scratch: prepared.scratch.path().join(name),
            prepared,
        }
    }

    /// The program.
    pub fn prepared(&self) -> &'a Prepared {
        self.prepared
    }

    /// Records another run and hands it to `look`; its files go when `look` is done.
    pub fn next<T>(&mut self, look: impl FnOnce(&Recorded) -> T) -> Result<T, HuntError> {
        let dir = self.scratch.join(format!("run-{}", self.number));
        let clip = Clip { by_strategy: spec(self.seed, self.number, self.longest), ..self.base.clone() };
        self.number = self.number.wrapping_add(1);
        let recorded = record_clip(clip, &dir, self.timeout, self.how)?;
        self.longest = self.longest.max(recorded.clip.steps);
        let looked = look(&recorded);
        drop(recorded);
        std::fs::remove_dir_all(&dir).map_err(HuntError::Dir)?;
        Ok(looked)
    }
}

/// Who says which thread runs, in the run with this number.
fn spec(seed: u64, number: u32, longest: u64) -> Option<Spec> {
    let turn = number.checked_sub(1)?;
    let (kind, depth) = match turn % 4 {
        0 => (StrategyKind::Random, 3),
        1 => (StrategyKind::Pos, 3),
        2 => (StrategyKind::Pct, 2),
        _ => (StrategyKind::Pct, 3),
    };
    let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    Some(Spec { kind, seed, depth, length: longest.max(2), ..Spec::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_take_turns_and_seeds_differ() {
        assert_eq!(spec(1, 0, 9), None);
        let specs: Vec<Spec> = (1..9).filter_map(|number| spec(1, number, 9)).collect();
        let kinds = |at: usize| specs[at].kind;
        assert_eq!([kinds(0), kinds(1), kinds(2)], [StrategyKind::Random, StrategyKind::Pos, StrategyKind::Pct]);
        assert!(specs[0].kind == specs[4].kind && specs[0].seed != specs[4].seed);
        assert_ne!(spec(1, 1, 9).map(|spec| spec.seed), spec(2, 1, 9).map(|spec| spec.seed));
    }
}
