//! Runs of a kernel under varied schedules, until there are enough that pass and enough that fail.

use std::time::{Duration, Instant};

use selvedge_analyze::graph::{Graph, Steps, live};
use selvedge_drive::control::World;
use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::DEFAULT_MOST_STEPS;
use selvedge_drive::vary::{Variety, VaryOptions};
use selvedge_findings::Outcome;

use crate::error::{Result, tool};

/// One run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What it did to memory.
    pub steps: Steps,
    /// Whether it showed the bug.
    pub fails: bool,
    /// The graph that the runtime collected in a second run of the same schedule.
    pub live: Option<Graph>,
}

/// How many runs are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Runs that pass.
    pub passing: usize,
    /// Runs that fail.
    pub failing: usize,
    /// Runs in all, whatever they show.
    pub total: usize,
    /// Beyond so many runs, what there is must do.
    pub most: usize,
    /// Beyond this time too.
    pub time: Duration,
}

impl Wanted {
    fn is_met(&self, runs: &[Observed]) -> bool {
        let failing = runs.iter().filter(|run| run.fails).count();
        failing >= self.failing && runs.len() - failing >= self.passing && runs.len() >= self.total
    }
}

/// Makes runs.
pub fn gather(prepared: &Prepared, seed: u64, wanted: &Wanted) -> Result<Vec<Observed>> {
    let begin = Instant::now();
    let mut variety = Variety::new(prepared, &options(seed, None), "rank");
    let mut runs = Vec::new();
    while !wanted.is_met(&runs) && runs.len() < wanted.most && begin.elapsed() < wanted.time {
        let run = variety.next(|recorded| {
            let steps = recorded.process().map(Steps::of)?;
            Some(Observed { steps, fails: recorded.clip.outcome != Outcome::Pass, live: None })
        });
        runs.extend(tool("record a run", run)?);
    }
    Ok(runs)
}

/// Makes the same runs again, with graphs collected by the runtime instead of traces; how many ended otherwise.
pub fn gather_live(prepared: &Prepared, seed: u64, runs: &mut [Observed]) -> Result<usize> {
    let mut variety = Variety::new(prepared, &options(seed, Some((5, 2))), "live");
    let mut otherwise = 0;
    for run in runs {
        let again = variety.next(|recorded| {
            let graph = recorded.process().and_then(live::collected);
            (graph, recorded.clip.outcome != Outcome::Pass)
        });
        let (graph, fails) = tool("collect a graph", again)?;
        otherwise += usize::from(fails != run.fails);
        run.live = graph;
    }
    Ok(otherwise)
}

fn options(seed: u64, graph: Option<(u8, u8)>) -> VaryOptions {
    VaryOptions {
        seed,
        oracle: None,
        timeout: Duration::from_secs(10),
        most_steps: DEFAULT_MOST_STEPS,
        world: World { random: Some(seed), ..World::default() },
        graph,
    }
}
