//! The paper's Table 2: races per run and variables covered, by heuristic.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use selvedge_drive::detect::{DetectOptions, Detected, detect};
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_events::detect::Heuristic;
use serde::Serialize;

use crate::error::{Result, tool};

/// Where and how often threads wait.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The name in the table, as in the paper: heuristic, strength, duration.
    pub title: &'static str,
    heuristic: Heuristic,
    strength: u16,
    duration: Duration,
}

const fn column(title: &'static str, heuristic: Heuristic, strength: u16, us: u64) -> Column {
    Column { title, heuristic, strength, duration: Duration::from_micros(us) }
}

/// The paper's columns; durations in microseconds.
pub const COLUMNS: &[Column] = &[
    column("None", Heuristic::Random, 1000, 0),
    column("Rand 50/200", Heuristic::Random, 50, 200),
    column("Rand 150/200", Heuristic::Random, 150, 200),
    column("Loc 1000/200", Heuristic::Location, 1000, 200),
    column("Var 500/200", Heuristic::Variable, 500, 200),
    column("Var 500/600", Heuristic::Variable, 500, 600),
    column("Var 1000/200", Heuristic::Variable, 1000, 200),
];

/// One cell.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cell {
    /// Races per run.
    pub races: f64,
    /// Variables with a race, per run.
    pub variables: f64,
}

impl Cell {
    /// Of what was detected.
    pub fn of(detected: &Detected) -> Cell {
        let runs = detected.each.len().max(1) as f64;
        Cell {
            races: detected.each.iter().map(|run| run.races as f64).sum::<f64>() / runs,
            variables: detected.each.iter().map(|run| run.variables as f64).sum::<f64>() / runs,
        }
    }
}

/// Detects in a program with the library.
pub fn run(store: &Store, program: &Path, args: &[String], options: &DetectOptions) -> Result<Detected> {
    let guest = Guest { program: program.as_os_str().to_owned(), args: args.iter().map(OsString::from).collect() };
    let timeout = options.timeout.or(Some(Duration::from_secs(60)));
    let options = DetectOptions { silent: true, timeout, ..options.clone() };
    tool("detect", detect(store, &guest, &options, &Stop::default(), &mut |_| {}))
}

/// The cells of a program; what is suspected comes from an earlier run in this store.
pub fn cells(store: &Store, program: &Path, args: &[String], runs: u32) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for column in COLUMNS {
        let options = DetectOptions {
            runs,
            heuristic: column.heuristic,
            strength: Some(column.strength),
            aimed: column.strength,
            duration: Some(column.duration),
            again: column.heuristic != Heuristic::Random,
            learn: false,
            seed: 1000,
            ..DetectOptions::default()
        };
        cells.push(Cell::of(&run(store, program, args, &options)?));
    }
    Ok(cells)
}
