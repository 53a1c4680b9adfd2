//! Colours of a program: variables that its passing runs access together.

use std::collections::BTreeSet;

use selvedge_analyze::invariant::Colour;
use selvedge_analyze::invariant::colour::{Options, colours};

use crate::controlled::Prepared;
use crate::guard::traced::{Numbers, name_of, record_passing};
use crate::guard::train::TrainOptions;
use crate::hunt::HuntError;
use crate::run::Stop;

/// Runs that colours are learnt from.
const RUNS: u32 = 30;

/// Records some controlled runs and learns colours from those that passed.
pub fn learn_colours(prepared: &Prepared, options: &TrainOptions, stop: &Stop) -> Result<BTreeSet<Colour>, HuntError> {
    let base = prepared.clip(options.world, options.most_steps, options.oracle.clone());
    let recorded = record_passing(prepared, &base, (RUNS, options.seed), options.timeout, stop)?;
    let mut numbers = Numbers::default();
    let processes: Vec<_> = recorded.iter().filter_map(|run| run.process()).collect();
    let runs: Vec<_> = processes.iter().map(|process| numbers.read(process)).collect();
    let Some(process) = processes.first() else { return Ok(BTreeSet::new()) };
    let named = colours(&runs, &Options::default()).into_iter().filter_map(|found| {
        let names: Vec<String> = found.variables.iter().map(|location| name_of(process, location)).collect();
        found.named(&names.join(", "), |site| numbers.key(site).cloned())
    });
    Ok(named.collect())
}
