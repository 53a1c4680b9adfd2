//! Schedules until the first failure, for every strategy and seed.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_drive::clip::Clip;
use selvedge_drive::control::World;
use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::{ExploreOptions, Strategy, explore};
use selvedge_drive::failure::Signature;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::Stop;
use selvedge_sched::StrategyKind;
use serde::Serialize;

use super::options::Amounts;
use crate::bars::to_f64;
use crate::error::{Result, tool};
use crate::measure::median;

/// Most time of one try, beyond which its schedules are few and said so.
const TRY_LIMIT: Duration = Duration::from_secs(15);
/// A run with more choices hangs. Corpus programs have a few thousand; the command line allows more.
pub const MOST_STEPS: u64 = 100_000;

/// A strategy with what it needs.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// The strategy.
    pub strategy: Strategy,
    /// Whether chance decides; the others do the same every time.
    pub seeded: bool,
}

/// All strategies, in the order of the table.
pub const WAYS: [Way; 5] = [
    Way { name: "random", strategy: Strategy::Sampled(StrategyKind::Random), seeded: true },
    Way { name: "pct", strategy: Strategy::Sampled(StrategyKind::Pct), seeded: true },
    Way { name: "pos", strategy: Strategy::Sampled(StrategyKind::Pos), seeded: true },
    Way { name: "round-robin", strategy: Strategy::Sampled(StrategyKind::RoundRobin), seeded: false },
    Way { name: "bounded", strategy: Strategy::Bounded(2), seeded: false },
];

impl Way {
    /// Options as `selvedge explore` has them where nothing else is said, but for [`MOST_STEPS`].
    pub fn options(&self, seed: u64, schedules: u64) -> ExploreOptions {
        ExploreOptions {
            strategy: self.strategy,
            depth: 3,
            seed,
            schedules,
            budget: None,
            stop_on_first: false,
            oracle: None,
            timeout: Duration::from_secs(10),
            most_steps: MOST_STEPS,
            world: World { random: Some(seed), ..World::default() },
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            interventions: Interventions::default(),
            check_determinism: false,
        }
    }
}

/// One search, from the first schedule to the first failure or the limit.
#[derive(Debug, Clone, Serialize)]
pub struct Try {
    /// The seed.
    pub seed: u64,
    /// The number of the first schedule that failed, from 1.
    pub first: Option<u64>,
    /// Schedules that were run.
    pub schedules: u64,
    /// Time that it took.
    pub seconds: f64,
}

/// The searches of a strategy.
#[derive(Debug, Clone, Serialize)]
pub struct Searched {
    /// The strategy's name.
    pub way: &'static str,
    /// One for each seed.
    pub tries: Vec<Try>,
    /// Why a bounded search ended early.
    pub nondeterministic: Option<String>,
}

impl Searched {
    /// The median number of schedules; `None` where the middle search found nothing.
    pub fn schedules(&self) -> Option<f64> {
        let never = f64::INFINITY;
        median(self.tries.iter().map(|t| t.first.map_or(never, to_f64)).collect()).filter(|m| m.is_finite())
    }

    /// The median time.
    pub fn seconds(&self) -> Option<f64> {
        median(self.tries.iter().map(|t| t.seconds).collect())
    }

    /// What stands in the table.
    pub fn cell(&self) -> String {
        match self.schedules() {
            Some(schedules) => format!("{schedules:.0}"),
            None => {
                let fewest = self.tries.iter().filter(|t| t.first.is_none()).map(|t| t.schedules).min();
                format!(">{}", fewest.unwrap_or(0))
            }
        }
    }
}

/// What the searches of all strategies found in a program.
#[derive(Debug)]
pub struct Found {
    /// By strategy.
    pub searched: Vec<Searched>,
    /// Each way in which it failed, with the strategy that showed it first.
    pub failures: BTreeMap<Signature, (&'static str, Clip)>,
    /// Steps of the longest run.
    pub longest: u64,
}

/// The strategy that needed the fewest schedules; among equals the fastest.
pub fn best(searched: &[Searched]) -> Option<&Searched> {
    let key = |s: &Searched| (s.schedules(), s.seconds());
    let found = searched.iter().filter(|s| s.schedules().is_some());
    found.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal))
}

/// Searches a program with every strategy.
pub fn find(prepared: &Prepared, amounts: &Amounts) -> Result<Found> {
    let mut found = Found { searched: Vec::new(), failures: BTreeMap::new(), longest: 0 };
    for way in WAYS {
        let mut searched = Searched { way: way.name, tries: Vec::new(), nondeterministic: None };
        for seed in 1..=if way.seeded { amounts.seeds } else { 1 } {
            let mut options = way.options(seed, amounts.schedules);
            options.stop_on_first = true;
            options.budget = Some(TRY_LIMIT);
            let explored = tool(
                format!("explore {}", prepared.program.path.display()),
                explore(prepared, &options, &Stop::default(), &mut |_| {}),
            )?;
            found.longest = found.longest.max(explored.longest);
            for (signature, failure) in &explored.failures {
                let clip = || (way.name, failure.clip(prepared, &options));
                found.failures.entry(signature.clone()).or_insert_with(clip);
            }
            searched.tries.push(Try {
                seed,
                first: explored.first_failure,
                schedules: explored.schedules(),
                seconds: explored.elapsed.as_secs_f64(),
            });
            searched.nondeterministic = searched.nondeterministic.or(explored.nondeterministic);
        }
        found.searched.push(searched);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(firsts: &[Option<u64>]) -> Searched {
        let tries = firsts.iter().map(|first| Try { seed: 1, first: *first, schedules: 1000, seconds: 1.0 });
        Searched { way: "random", tries: tries.collect(), nondeterministic: None }
    }

    #[test]
    fn a_median_beyond_the_limit_says_so() {
        let cases: [(&[Option<u64>], &str); 4] = [
            (&[Some(3), Some(5), None], "5"),
            (&[Some(3), None, None], ">1000"),
            (&[Some(4), Some(6)], "5"),
            (&[None], ">1000"),
        ];
        for (firsts, cell) in cases {
            assert_eq!(searched(firsts).cell(), cell, "{firsts:?}");
        }
    }
}
