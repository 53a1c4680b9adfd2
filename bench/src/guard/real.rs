//! The curve of a real program: pbzip2, free runs only.

use std::path::Path;
use std::time::Duration;

use selvedge_drive::guard::train::{Schedules, TrainOptions};
use serde::Serialize;

use super::training::{Training, how, on};
use crate::columns::{Build, Compiler, Toolchain};
use crate::error::{BenchError, Result};
use crate::explore::workshop::Workshop;
use crate::rows::{Bench, ROWS};

/// What is compressed in each run.
const BYTES: u64 = 2_000_000;
/// Most time of a run.
const LIMIT: Duration = Duration::from_secs(60);

/// A real program's training.
#[derive(Debug, Clone, Serialize)]
pub struct Real {
    /// What it is.
    pub name: String,
    /// What was learnt.
    pub training: Training,
    /// Time that it took.
    pub seconds: f64,
}

/// Trains pbzip2 with so many free runs.
pub fn pbzip2(workshop: &Workshop, work: &Path, selvedge: &Path, runs: u32) -> Result<Real> {
    let row = ROWS.iter().find(|row| row.key == "pbzip2").copied();
    let row = row.ok_or_else(|| BenchError::Wrong("there is no row pbzip2".to_owned()))?;
    let bench = Bench::prepare(row, work, LIMIT)?;
    let chain = Toolchain::wrapped(selvedge, Compiler::Gcc);
    let executable = bench.build(Build::Wrapped(Compiler::Gcc), &chain)?;
    let input = bench.input_of(BYTES)?.display().to_string();
    let args = ["-p2", "-b1", "-z", "-k", "-c", &input].map(str::to_owned);
    let prepared = workshop.prepare(&executable, &args)?;
    let options = TrainOptions {
        until_converged: false,
        schedules: Schedules::Free,
        timeout: LIMIT,
        ..how(runs, selvedge_drive::explore::DEFAULT_MOST_STEPS)
    };
    let trained = on(&prepared, &options)?;
    let name = bench.version.clone().unwrap_or_else(|| "pbzip2".to_owned());
    Ok(Real {
        name: format!("{name} -p2 -b1, 2 MB"),
        training: Training::of(&trained),
        seconds: trained.elapsed.as_secs_f64(),
    })
}
