//! What guarding costs: native, disarmed, guarded without what is too hot (the default), and with every shared access
//! guarded, all beside each other in one run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use selvedge_drive::guard::log::{LogFile, logs_in};
use selvedge_events::guard::{FLAG_LEARN, Log, LogCounter};
use serde::Serialize;

use crate::bars::{Bar, Verdict, of_guards, over};
use crate::columns::{COLUMNS, Column, LESSON_SECONDS, SMALL_LESSONS, Tools, WHOLE_LESSONS};
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::{Measured, Missing, measure_in};
use crate::options::Options;
use crate::rows::{ROWS, Row};
use crate::table::{write, write_json};
use crate::{exec, place};

/// The programs.
const PROGRAMS: [&str; 6] = ["lu", "lu_blocked", "fft", "pbzip2", "memcached", "zstd"];

/// The columns.
const BESIDE: [&str; 4] = ["native", "disarmed", "guard", "guard-all"];

/// The paper's Table 3 for the same kernels: slow-down with bias, and without.
const PAPER: [(&str, f64, f64); 2] = [("lu", 2.3, 17.1), ("fft", 2.2, 14.5)];

/// Runs of each cell: where a hundredth is the bar, few do not tell.
pub const RUNS: usize = 15;

/// What a guard did in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Guarded {
    /// Sites that are guarded.
    pub sites: u32,
    /// Accesses that were about to follow one that does not belong.
    pub violations: u64,
    /// Of these, those that waited.
    pub stalls: u64,
    /// Accesses that were not checked for want of memory.
    pub unchecked: u64,
}

impl Guarded {
    /// Of a run that left its logs in a folder, beside those of its training.
    pub fn of_run(dir: &Path) -> Option<Guarded> {
        let files = logs_in(dir).ok()?;
        let mut all = files.iter().filter_map(LogFile::log).filter(|log| log.flags & FLAG_LEARN == 0).peekable();
        all.peek()?;
        Some(all.fold(Guarded::default(), |sum, log| sum.and(&log)))
    }

    fn and(self, log: &Log<'_>) -> Guarded {
        use LogCounter as C;
        let ends = [C::Resolved, C::TimedOut, C::Mutual, C::Futile];
        Guarded {
            sites: self.sites.max(log.sites),
            violations: self.violations + log.counter(C::Violations),
            stalls: self.stalls + ends.map(|end| log.counter(end)).iter().sum::<u64>(),
            unchecked: self.unchecked + log.counter(C::NoMemory),
        }
    }
}

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Cost {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// Whether the small inputs were used.
    pub quick: bool,
    /// Runs of each cell.
    pub runs: usize,
    /// Peak memory in KiB below which nothing can be told.
    pub memory_floor_kib: u64,
    /// The programs.
    pub rows: Vec<Measured>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Time that all this took.
    pub seconds: f64,
}

fn columns() -> Vec<Column> {
    COLUMNS.iter().filter(|column| BESIDE.contains(&column.key)).copied().collect()
}

/// Measures the programs that are wanted.
pub fn measure(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Cost> {
    let begin = std::time::Instant::now();
    let rows: Vec<Row> = ROWS.iter().filter(|row| PROGRAMS.contains(&row.key)).copied().collect();
    let wanted = options.select(&rows, |row| row.key)?;
    let (tools, machine) = (Tools::find(), Machine::describe());
    let measured: Vec<Measured> =
        wanted.into_iter().map(|row| measure_in(&columns(), row, &tools, options, say)).collect();
    Ok(Cost {
        version: 1,
        machine,
        quick: options.quick,
        runs: options.runs,
        memory_floor_kib: exec::memory_floor(&options.work)?,
        bars: measured.iter().flat_map(of_guards).collect(),
        rows: measured,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

impl Cost {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# What guarding costs\n\nMade by `cargo run --release -p selvedge-bench --bin guard -- --cost --save` in {:.0} minutes. Raw runs: \
             `bench/results/guard-cost.json`. How well guards do is on [another page](guard.md). Slow-downs are against native of the same \
             compiler and flags (`-O2 -g`): the median, and the best run against the best native run in brackets. All columns were measured \
             in turn; rounds: {}{}.\n\n",
            self.seconds / 60.0,
            self.runs,
            if self.quick { ", small inputs" } else { "" }
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.bars(&mut page);
        self.slowdowns(&mut page);
        self.guards(&mut page);
        self.memory(&mut page);
        page
    }

    fn bars(&self, page: &mut String) {
        *page += "\n## Bars\n\n| program | what | figure | bar | | the paper | native spread |\n|---|---|---:|---:|---|---:|---:|\n";
        for bar in &self.bars {
            let verdict = match bar.verdict {
                Verdict::Met => "met",
                Verdict::Missed => "**MISSED**",
                Verdict::Unknown => "not measured",
            };
            let paper = PAPER.iter().find(|(row, ..)| *row == bar.row);
            let paper = match paper.map(|(_, bias, all)| if bar.what.contains("all") { all } else { bias }) {
                Some(figure) => format!("{figure}x"),
                None if bar.limit < 1.1 => "< 1 %, similar programs".to_owned(),
                None => String::new(),
            };
            let shown = |figure: Option<f64>| figure.map_or_else(|| "n/a".to_owned(), |figure| format!("{figure:.3}"));
            let _ = writeln!(
                page,
                "| {} | {} | {} | ≤ {} | {verdict} | {paper} | {} |",
                bar.row,
                bar.what,
                shown(bar.figure),
                bar.limit,
                shown(bar.native_spread)
            );
        }
        *page += "\nNative spread is the slowest native run over the fastest: an outcome closer to its bar than that is not settled. Functions \
                  without a guarded access run as the compiler made them; those with one are laid out for calls, most of which are not made.\n";
    }

    fn slowdowns(&self, page: &mut String) {
        *page += "\n## Slow-down\n\n| program | native, s | disarmed | guard | guard, all | guard / disarmed | the same, processor time |\n|---|---:|---:|---:|---:|---:|---:|\n";
        for row in &self.rows {
            let native = row.median_seconds("native").map_or_else(|| "n/a".to_owned(), |time| format!("{time:.3}"));
            let _ = write!(page, "| {} | {native} |", row.described().title);
            for column in columns().into_iter().filter(|column| column.key != "native") {
                let _ = write!(page, " {} |", figure(row, column, slowdown));
            }
            let beside =
                over(row, "guard", "disarmed").map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.3}x"));
            let busy =
                row.busy_over("guard", "disarmed").map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.3}x"));
            let _ = writeln!(page, " {beside} | {busy} |");
        }
        for row in &self.rows {
            for cell in &row.cells {
                let (Missing::Unavailable(why) | Missing::Failed(why) | Missing::TooLong(why)) = match &cell.missing {
                    Some(missing) => missing,
                    None => continue,
                };
                let _ = writeln!(page, "\n- {}, {}: {why}", row.row, cell.column);
            }
        }
    }

    fn guards(&self, page: &mut String) {
        let _ = write!(
            page,
            "\n## What was guarded\n\nLearnt from up to {SMALL_LESSONS} free runs of a small input and up to {WHOLE_LESSONS} of the whole, \
             of each only those that begin within {LESSON_SECONDS} s. "
        );
        *page += "The most of any run: violations, and stalls, which are part of the time.\n\n| program | | sites | violations | stalls | not checked |\n|---|---|---:|---:|---:|---:|\n";
        for row in &self.rows {
            for cell in row.cells.iter().filter(|cell| cell.column.starts_with("guard")) {
                let all: Vec<Guarded> = cell.runs.iter().filter_map(|run| run.guarded).collect();
                let most = |of: fn(&Guarded) -> u64| all.iter().map(of).max().unwrap_or(0);
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {} | {} | {} |",
                    row.described().title,
                    cell.column,
                    most(|one| one.sites.into()),
                    most(|one| one.violations),
                    most(|one| one.stalls),
                    most(|one| one.unchecked)
                );
            }
        }
    }

    fn memory(&self, page: &mut String) {
        *page +=
            "\n## Peak memory\n\n| program | native | disarmed | guard | guard, all |\n|---|---:|---:|---:|---:|\n";
        for row in &self.rows {
            let _ = write!(page, "| {} |", row.described().title);
            for column in columns() {
                let _ = write!(page, " {} |", figure(row, column, memory));
            }
            *page += "\n";
        }
        let _ = writeln!(
            page,
            "\nFigures at or below {:.1} MiB say only that the program needs no more than that.",
            self.memory_floor_kib as f64 / 1024.0
        );
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("guard-cost.md"), place::raw_results().join("guard-cost.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn figure(row: &Measured, column: Column, of: fn(&Measured, Column) -> Option<String>) -> String {
    match row.cell(column.key).and_then(|cell| cell.missing.as_ref()) {
        Some(Missing::Failed(_)) => "FAILED".to_owned(),
        Some(Missing::Unavailable(_) | Missing::TooLong(_)) => "n/a".to_owned(),
        None => of(row, column).unwrap_or_else(|| "n/a".to_owned()),
    }
}

fn slowdown(row: &Measured, column: Column) -> Option<String> {
    let (median, best) = row.slowdown(column)?;
    Some(format!("{median:.2}x ({best:.2}x)"))
}

fn memory(row: &Measured, column: Column) -> Option<String> {
    let (kib, ratio) = row.memory(column)?;
    Some(format!("{:.1} MiB ({ratio:.1}x)", kib / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_there() {
        assert_eq!(columns().len(), BESIDE.len());
        assert!(PROGRAMS.iter().all(|program| ROWS.iter().any(|row| row.key == *program)));
        assert!(PAPER.iter().all(|(program, ..)| PROGRAMS.contains(program)));
    }
}
