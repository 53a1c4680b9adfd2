//! Minimising clips: fewer switches with the same failure, and the one that decides.

use selvedge_sched::minimize::{Critical, Verdict, critical_switch, minimize as shrink};
use selvedge_sched::{LoggedPoint, Step, Switch};

use crate::clip::{Clip, bare};
use crate::control::Log;
use crate::explore::{Bench, switches};
use crate::replay::{ReplayError, request};

/// A clip made small.
#[derive(Clone, Debug)]
pub struct Smaller {
    /// The clip.
    pub clip: Clip,
    /// Whether no single switch of it can be left out.
    pub minimal: bool,
    /// Runs that were made.
    pub runs: u32,
    /// The switch that decides; `None` where the program fails without any.
    pub critical: Option<Critical>,
    /// Every choice of the failing run.
    pub failing_log: Vec<LoggedPoint>,
}

/// Most runs for a clip.
pub const DEFAULT_BUDGET: u32 = 5_000;

/// Makes a clip smaller. Fails only where runs cannot be made.
pub fn minimize(clip: &Clip, bench: &mut Bench<'_>, budget: u32) -> Result<Smaller, ReplayError> {
    let mut problem = None;
    let mut best: Option<(Vec<Switch>, Clip, Vec<LoggedPoint>)> = None;
    let mut run = |given: &[Switch]| {
        if problem.is_some() {
            return Verdict::Other;
        }
        let script: Vec<Step> = given.iter().map(bare).collect();
        match bench.run(&request(clip, &script, Log::All)) {
            Ok((run, outcome, wrong)) => {
                let verdict = match &wrong {
                    Some(wrong) if Some(&wrong.signature) == clip.signature() => Verdict::Fails,
                    Some(_) => Verdict::Other,
                    None if outcome == selvedge_findings::Outcome::Pass => Verdict::Passes,
                    None => Verdict::Other,
                };
                if verdict == Verdict::Fails && best.as_ref().is_none_or(|(known, ..)| given.len() <= known.len()) {
                    let mut small = clip.clone();
                    // As it was made: what the run did, not what it was told.
                    small.script = switches(&run);
                    small.steps = run.answer.steps;
                    small.digest = run.answer.digest;
                    small.outcome = outcome;
                    small.wrong = wrong;
                    best = Some((given.to_vec(), small, run.answer.log));
                }
                verdict
            }
            Err(error) => {
                problem = Some(error);
                Verdict::Other
            }
        }
    };
    let whole: Vec<Switch> = clip.script.iter().map(Step::switch).collect();
    // The clip itself first: what follows believes that it fails.
    run(&whole);
    let shrunk = shrink(&whole, budget, &mut run);
    let mut critical = None;
    let mut runs = shrunk.runs + 1;
    if !shrunk.schedule.is_empty() {
        let passing = Vec::new();
        if run(&passing) == Verdict::Passes {
            critical = critical_switch(&passing, &shrunk.schedule, 200, &mut run);
        }
        runs += 1 + critical.as_ref().map_or(0, |critical| critical.runs);
    }
    if let Some(problem) = problem {
        return Err(problem.into());
    }
    let (clip, failing_log) = best.map_or_else(|| (clip.clone(), Vec::new()), |(_, clip, log)| (clip, log));
    Ok(Smaller { clip, minimal: shrunk.minimal, runs, critical, failing_log })
}
