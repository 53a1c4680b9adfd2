//! Traces of real programs: built and recorded once, as `overhead` does it, and kept.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::options::Options;
use crate::columns::{COLUMNS, Runner, Tools};
use crate::error::{BenchError, Result, at};
use crate::rows::{Bench, ROWS, Row, Size};

/// The rows of `overhead` that are recorded.
pub const PROGRAMS: [&str; 3] = ["pbzip2", "memcached", "zstd"];

/// Most time for a recorded run.
const LIMIT: Duration = Duration::from_secs(300);

/// The row of a program.
pub fn row(key: &str) -> Result<Row> {
    let row = ROWS.iter().find(|row| row.key == key).copied();
    row.ok_or_else(|| BenchError::Wrong(format!("there is no row {key}")))
}

/// The folder with the traces of a program, recorded when it is not there, and what was recorded.
pub fn record(row: Row, tools: &Tools, options: &Options) -> Result<(PathBuf, String)> {
    let kept = options.work.join("predict").join(row.key);
    let bench = Bench::prepare(row, &options.work, LIMIT)?;
    let title = bench.version.clone().unwrap_or_else(|| row.title.to_owned());
    if kept.exists() {
        return Ok((kept, title));
    }
    let column = COLUMNS.iter().find(|column| column.key == "record").copied();
    let column = column.ok_or_else(|| BenchError::Wrong("there is no column record".to_owned()))?;
    let program = bench.build(column.build, &tools.toolchain(column.build)?)?;
    let mut runner = Runner::new(column, tools, &bench.dir().join("predict"));
    // Small inputs: these are programs of many million events.
    runner.survey(|runner| bench.run(&program, runner, Size::Quick))?;
    runner.begin()?;
    bench.run(&program, &mut runner, Size::Quick)?;
    let made = runner.out().join("direct");
    if let Some(parent) = kept.parent() {
        at("create", parent, fs::create_dir_all(parent))?;
    }
    at("move", &made, fs::rename(&made, &kept))?;
    runner.finish()?;
    Ok((kept, title))
}
