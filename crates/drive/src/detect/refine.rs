//! Refines a file of sections by runs: `selvedge refine`.
//!
//! Each round is some runs under noise with what is left of the file; rounds end when enough correct runs have changed nothing
//! ([`selvedge_analyze::sections::refine`]).

use selvedge_analyze::sections::refine::{Refinement, Walked};
use selvedge_analyze::sections::text::SectionFile;
use selvedge_findings::{Outcome, Tally};

use super::{DetectOptions, Detected, Step, detect};
use crate::record::RecordError;
use crate::run::{Guest, Stop};
use crate::store::Store;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Correct runs without a change.
    pub quiet: u32,
    /// Most runs.
    pub runs: u32,
}

/// What came of it.
#[derive(Debug)]
pub struct Refined {
    /// The sections, and what was learnt.
    pub refinement: Refinement,
    /// How runs ended.
    pub tally: Tally,
    /// Whether nothing changed any more.
    pub settled: bool,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Runs of a round.
const ROUND: u32 = 5;

/// Refines; `each` hears of every round.
pub fn refine(
    store: &Store,
    guest: &Guest,
    file: SectionFile,
    options: &DetectOptions,
    until: Until,
    stop: &Stop,
    each: &mut dyn FnMut(&Refined),
) -> Result<Refined, RecordError> {
    let mut out =
        Refined { refinement: Refinement::new(file), tally: Tally::default(), settled: false, stopped: false };
    while !out.settled && !out.stopped && out.tally.total() < u64::from(until.runs) {
        let made = u32::try_from(out.tally.total()).unwrap_or(u32::MAX);
        // What is seen for the first time is marked: the file is checked whole.
        let whole = SectionFile { runs: 0, ..out.refinement.file.clone() };
        let round = DetectOptions {
            runs: ROUND.min(until.runs - made),
            seed: options.seed.wrapping_add(made.into()),
            first_run: made,
            sections: Some(whole),
            silent: true,
            ..options.clone()
        };
        let detected = detect(store, guest, &round, stop, &mut |_: Step<'_>| {})?;
        out.stopped = detected.stopped;
        for run in &detected.each {
            out.tally.add(&run.outcome.unwrap_or(Outcome::Unknown));
            if out.settled {
                continue;
            }
            let passed = run.outcome == Some(Outcome::Pass);
            out.refinement.learn(passed, walked(&detected, run));
            out.settled = out.refinement.quiet >= until.quiet;
        }
        each(&out);
        if detected.each.is_empty() {
            break;
        }
    }
    Ok(out)
}

fn walked<'a>(detected: &'a Detected, run: &'a super::OneRun) -> impl Iterator<Item = Walked<'a>> {
    detected.branches.iter().zip(&run.branches).map(|(branch, hits)| Walked {
        section: &branch.section,
        end: &branch.end,
        seen: hits.seen > 0,
        broken: hits.broken > 0,
    })
}
