//! Graphs of many runs with their labels: of runs that were recorded, or of a program under varied schedules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_analyze::graph::rank::Label;
use selvedge_analyze::graph::value::BuildId;
use selvedge_analyze::graph::{Graph, Kind, collect};
use selvedge_findings::{Outcome, Tally};
use selvedge_trace::{OpenRunError, Process, Run};

use crate::controlled::Prepared;
use crate::hunt::{HuntError, Recorded};
use crate::run::Stop;
use crate::store::{RunRecord, Store, StoreError};
use crate::vary::{Variety, VaryOptions};

/// Whether runs are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// By how they ended, or what the oracle said.
    Outcome,
    /// Not at all.
    Nothing,
}

/// How to collect from a program.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// Runs: half of them failing and half passing, as far as that can be had, where they are told apart.
    pub runs: u32,
    /// Most time.
    pub budget: Duration,
    /// What sort of graphs.
    pub kind: Kind,
    /// Whether runs are told apart.
    pub labels: Labels,
    /// How runs are made.
    pub vary: VaryOptions,
}

/// A run's graph and label.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What it did.
    pub graph: Graph,
    /// How it ended.
    pub label: Label,
}

/// Graphs of runs.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// The runs.
    pub runs: Vec<Judged>,
    /// How they ended.
    pub tally: Tally,
    /// Files of the images that their sites are in.
    pub images: BTreeMap<BuildId, PathBuf>,
    /// Time taken.
    pub elapsed: Duration,
}

impl Collected {
    fn add(&mut self, process: Option<&Process>, outcome: &Outcome, kind: Kind, labels: Labels) {
        self.tally.add(outcome);
        let Some(process) = process else { return };
        for module in process.file().modules() {
            self.images.entry(module.build_id.clone()).or_insert_with(|| module.path.clone());
        }
        let label = match (labels, outcome) {
            (Labels::Nothing, _) | (_, Outcome::Unknown) => Label::Unknown,
            (_, Outcome::Pass) => Label::Passed,
            _ => Label::Failed,
        };
        self.runs.push(Judged { graph: collect(process, kind), label });
    }

    fn count(&self, label: Label) -> usize {
        self.runs.iter().filter(|run| run.label == label).count()
    }
}

/// Collects from the runs that a hunt recorded.
pub fn collect_recorded(recorded: &[Recorded], kind: Kind) -> Collected {
    let mut collected = Collected::default();
    for run in recorded {
        collected.add(run.process(), &run.clip.outcome, kind, Labels::Outcome);
    }
    collected
}

/// Runs made for each one that was asked for, while there are none of one sort.
const MOST_FOR_ONE: u32 = 20;

/// Collects from a program under varied schedules.
pub fn collect_program(
    prepared: &Prepared,
    options: &CollectOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Tally),
) -> Result<Collected, HuntError> {
    let begin = Instant::now();
    let mut variety = Variety::new(prepared, &options.vary, "rank");
    let mut collected = Collected::default();
    let half = (options.runs as usize).div_ceil(2);
    let mut made = 0;
    while made < options.runs.saturating_mul(MOST_FOR_ONE) && begin.elapsed() < options.budget && !stop.is_set() {
        let is_enough = match options.labels {
            Labels::Nothing => made >= options.runs,
            Labels::Outcome => collected.count(Label::Failed) >= half && collected.count(Label::Passed) >= half,
        };
        if is_enough {
            break;
        }
        made += 1;
        variety.next(|recorded| {
            let outcome = recorded.clip.outcome;
            let is_known = match outcome {
                Outcome::Pass => collected.count(Label::Passed) >= half,
                _ => collected.count(Label::Failed) >= half,
            };
            // More of one sort than of the other would only weigh more.
            let process = recorded.process().filter(|_| options.labels == Labels::Nothing || !is_known);
            collected.add(process, &outcome, options.kind, options.labels);
        })?;
        each(&collected.tally);
    }
    collected.elapsed = begin.elapsed();
    Ok(collected)
}

/// Why recorded runs could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// There is no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] OpenRunError),
}

/// Collects from recorded runs; of a run of several processes, the one with the most events counts.
pub fn collect_runs(store: &Store, runs: &[String], kind: Kind, labels: Labels) -> Result<Collected, CollectError> {
    let begin = Instant::now();
    let mut collected = Collected::default();
    for name in runs {
        let path = store.find(name)?;
        let run = Run::open(&path)?;
        let outcome = recorded_outcome(&path);
        let process = run.processes.iter().max_by_key(|process| process.summary().events);
        collected.add(process, &outcome, kind, labels);
    }
    collected.elapsed = begin.elapsed();
    Ok(collected)
}

/// How a run ended that has a record.
fn recorded_outcome(dir: &Path) -> Outcome {
    let text = std::fs::read(dir.join("run.json")).unwrap_or_default();
    serde_json::from_slice(&text).map_or(Outcome::Unknown, |record: RunRecord| record.outcome)
}
