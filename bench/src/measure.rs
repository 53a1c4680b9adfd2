//! The measurement: every column of a row in turn, round after round, so that whatever else the machine does hits all
//! columns alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::bars::to_f64;
use crate::columns::{Build, COLUMNS, Column, Runner, Tools};
use crate::error::{BenchError, Result};
use crate::options::Options;
use crate::rows::{Bench, Row, Sample, Size, runs_small};

/// Runs of the native program at the small size, as the base of the columns that run small.
const SMALL_BASE_RUNS: usize = 3;

/// One cell: the runs of a row in a column.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The column's key.
    pub column: &'static str,
    /// Why there is no figure: the column is not there, or a run went wrong.
    pub missing: Option<Missing>,
    /// The runs, in order.
    pub runs: Vec<Sample>,
    /// Native runs at the same small size, for a column that runs small.
    pub small_base: Vec<Sample>,
}

/// Why a cell has no figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// The tool is not on this machine.
    Unavailable(String),
    /// Building, running or checking failed.
    Failed(String),
    /// It takes longer than one wants to wait.
    TooLong(String),
}

/// A measured row.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The row's key.
    pub row: &'static str,
    /// The version of a fetched program.
    pub version: Option<String>,
    /// One cell for each column.
    pub cells: Vec<Cell>,
    #[serde(skip)]
    described: Row,
}

impl Measured {
    /// The row that was measured.
    pub fn described(&self) -> &Row {
        &self.described
    }

    /// The cell of a column.
    pub fn cell(&self, key: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.column == key)
    }

    /// Median and best slow-down of a column against its baseline.
    pub fn slowdown(&self, column: Column) -> Option<(f64, f64)> {
        let cell = self.cell(column.key)?;
        let base = self.base(column)?;
        Some((
            ratio(seconds(&cell.runs, median)?, seconds(base, median)?)?,
            ratio(seconds(&cell.runs, least)?, seconds(base, least)?)?,
        ))
    }

    /// Median peak memory of a column in KiB, and against its baseline.
    pub fn memory(&self, column: Column) -> Option<(f64, f64)> {
        let peak = |runs: &[Sample]| median(runs.iter().map(|s| to_f64(s.peak_kib)).collect());
        let have = peak(&self.cell(column.key)?.runs)?;
        Some((have, ratio(have, peak(self.base(column)?)?)?))
    }

    /// Median seconds of a column.
    pub fn median_seconds(&self, key: &str) -> Option<f64> {
        seconds(&self.cell(key)?.runs, median)
    }

    /// Median processor time of a column over another's: on a busy machine worth more than seconds are.
    pub fn busy_over(&self, key: &str, base: &str) -> Option<f64> {
        let processor = |key| {
            let runs = &self.cell(key).filter(|cell| cell.missing.is_none())?.runs;
            median(runs.iter().map(|run| run.processor).collect())
        };
        ratio(processor(key)?, processor(base)?)
    }

    /// The slowest native run over the fastest: what differences smaller than this are worth.
    pub fn spread(&self) -> Option<f64> {
        let runs = &self.cell("native")?.runs;
        ratio(seconds(runs, most)?, seconds(runs, least)?)
    }

    fn base(&self, column: Column) -> Option<&[Sample]> {
        if runs_small(column.mode) {
            return Some(&self.cell(column.key)?.small_base);
        }
        Some(&self.cell(column.baseline())?.runs)
    }
}

/// Measures one row in all columns.
pub fn measure(row: Row, tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Measured {
    measure_in(COLUMNS, row, tools, options, say)
}

/// Measures one row in these columns.
pub fn measure_in(
    columns: &[Column],
    row: Row,
    tools: &Tools,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Measured {
    let mut measured = Measured { row: row.key, version: None, cells: Vec::new(), described: row };
    let limit = Duration::from_secs(options.limit);
    let bench = match Bench::prepare(row, &options.work, limit) {
        Ok(bench) => bench,
        Err(e) => {
            let why = Missing::Unavailable(e.brief());
            measured.cells = columns.iter().map(|c| empty(*c, Some(why.clone()))).collect();
            return measured;
        }
    };
    measured.version.clone_from(&bench.version);
    say(&format!("{}: building", row.key));
    let mut built = Vec::new();
    let mut lanes: Vec<Lane<'_>> = columns.iter().map(|c| Lane::new(*c, tools, &bench, &mut built)).collect();
    let size = if options.quick { Size::Quick } else { Size::Full };
    for at in 0..lanes.len() {
        let (before, [lane, ..]) = lanes.split_at_mut(at) else { break };
        let taught = before.iter().find(|other| {
            other.cell.missing.is_none() && other.program == lane.program && lane.runner.is_taught_as(&other.runner)
        });
        if let Some(taught) = taught {
            lane.attempt(|lane| lane.runner.adopt(&taught.runner));
        } else if lane.column.mode.is_armed() {
            say(&format!("{}: preparing {}", row.key, lane.column.title));
            let size = if runs_small(lane.column.mode) { Size::Quick } else { size };
            lane.attempt(|lane| lane.survey(size));
        }
    }
    for round in 0..options.runs {
        say(&format!("{}: round {} of {}", row.key, round + 1, options.runs));
        // Each round starts with another column, so that none always follows the same neighbour.
        let count = lanes.len();
        for step in 0..count {
            let lane = &mut lanes[(round + step) % count];
            if !runs_small(lane.column.mode) {
                lane.attempt(|lane| lane.run(size));
            }
        }
    }
    measure_small(&mut lanes, row, say);
    require_one_answer(&mut lanes);
    measured.cells = lanes.into_iter().map(|lane| lane.cell).collect();
    measured
}

/// The columns that are too slow for the full input: one run, with native runs of the same size around it.
fn measure_small(lanes: &mut [Lane<'_>], row: Row, say: &mut dyn FnMut(&str)) {
    let small: Vec<usize> = (0..lanes.len()).filter(|&i| runs_small(lanes[i].column.mode)).collect();
    for i in small {
        say(&format!("{}: {}, small input", row.key, lanes[i].column.title));
        let base = lanes[i].column.baseline();
        let native = lanes.iter().find(|lane| lane.column.key == base).map(|lane| lane.program.clone());
        let lane = &mut lanes[i];
        lane.attempt(|lane| {
            for _ in 0..SMALL_BASE_RUNS {
                let sample = lane.plain(native.as_deref(), Size::Quick)?;
                lane.cell.small_base.push(sample);
            }
            lane.run(Size::Quick)
        });
    }
}

/// All columns that ran the same input must have said the same.
fn require_one_answer(lanes: &mut [Lane<'_>]) {
    let Some(want) = lanes
        .iter()
        .find(|lane| lane.column.key == "native")
        .and_then(|lane| lane.cell.runs.first())
        .map(|sample| sample.said.clone())
    else {
        return;
    };
    for lane in lanes.iter_mut().filter(|l| !runs_small(l.column.mode)) {
        if let Some(other) = lane.cell.runs.iter().find(|s| s.said != want) {
            let error = BenchError::Wrong(format!("{:?}, natively {want:?}", other.said));
            lane.cell.missing = Some(Missing::Failed(error.brief()));
        }
    }
}

/// One column of the row that is being measured.
struct Lane<'a> {
    column: Column,
    bench: &'a Bench,
    program: PathBuf,
    runner: Runner,
    /// Starts the baseline's program.
    plain: Runner,
    cell: Cell,
}

impl<'a> Lane<'a> {
    /// A column, its program built unless one before it has the same.
    fn new(column: Column, tools: &Tools, bench: &'a Bench, built: &mut Vec<(Build, PathBuf)>) -> Self {
        let dir: &Path = &bench.dir().join(column.key);
        let native = COLUMNS.iter().find(|c| c.key == "native").copied();
        let mut lane = Lane {
            column,
            bench,
            program: PathBuf::new(),
            runner: Runner::new(column, tools, dir),
            plain: Runner::new(native.unwrap_or(column), tools, dir),
            cell: empty(column, tools.unavailable(column).map(Missing::Unavailable)),
        };
        lane.attempt(|lane| {
            let build: Build = lane.column.build;
            lane.program = match built.iter().find(|(known, _)| *known == build) {
                Some((_, program)) => program.clone(),
                None => bench.build(build, &tools.toolchain(build)?)?,
            };
            built.push((build, lane.program.clone()));
            Ok(())
        });
        lane
    }

    /// Does a step unless an earlier one failed; a failure is kept.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) {
        if self.cell.missing.is_none()
            && let Err(e) = step(self)
        {
            self.cell.missing = Some(match e {
                BenchError::TooLong { .. } => Missing::TooLong(e.brief()),
                _ => Missing::Failed(e.brief()),
            });
        }
    }

    fn survey(&mut self, size: Size) -> Result<()> {
        let (bench, program) = (self.bench, &self.program);
        self.runner.survey(|runner| bench.run(program, runner, size))?;
        if self.runner.learns() {
            let size_of = |whole| if whole { size } else { Size::Quick };
            self.runner.train(|runner, whole| bench.run(program, runner, size_of(whole)))?;
        }
        Ok(())
    }

    fn run(&mut self, size: Size) -> Result<()> {
        self.runner.begin()?;
        let sample = self.bench.run(&self.program, &mut self.runner, size);
        let (graph, locked, guarded) = (self.runner.graph(), self.runner.enforced(), self.runner.guarded());
        // The files go even when the run failed: a trace can be large.
        let trace = self.runner.finish();
        let mut sample = sample?;
        sample.trace = trace?;
        (sample.graph, sample.locked, sample.guarded) = (graph, locked, guarded);
        self.cell.runs.push(sample);
        Ok(())
    }

    /// Runs the program of the baseline.
    fn plain(&mut self, native: Option<&Path>, size: Size) -> Result<Sample> {
        self.bench.run(native.unwrap_or(&self.program), &mut self.plain, size)
    }
}

fn empty(column: Column, missing: Option<Missing>) -> Cell {
    Cell { column: column.key, missing, runs: Vec::new(), small_base: Vec::new() }
}

fn seconds(runs: &[Sample], of: impl Fn(Vec<f64>) -> Option<f64>) -> Option<f64> {
    of(runs.iter().map(|s| s.seconds).collect())
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// The middle of the values; the mean of the two middle ones when their number is even.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

fn least(values: Vec<f64>) -> Option<f64> {
    values.into_iter().min_by(f64::total_cmp)
}

fn most(values: Vec<f64>) -> Option<f64> {
    values.into_iter().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
