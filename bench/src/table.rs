//! The page: tables in Markdown, and the raw results as JSON.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::bars::{Bar, Verdict, bytes_per_event, to_f64};
use crate::columns::{COLUMNS, Column};
use crate::error::{BenchError, Result, at};
use crate::machine::Machine;
use crate::measure::{Cell, Measured, Missing, median};
use crate::place;
use crate::rows::runs_small;

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Overhead {
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
    /// The rows.
    pub rows: Vec<Measured>,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Overhead {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = String::from("# Overhead\n\n");
        page += "Made by `cargo run --release -p selvedge-bench --bin overhead -- --save`. ";
        page += "Slow-downs are against native of the same compiler and flags (`-O2 -g`): the median, and the best run against the best native run in brackets. ";
        let _ = writeln!(
            page,
            "All columns were measured in turn in one invocation; rounds: {}{}. Raw runs: `bench/results/overhead.json`.\n",
            self.runs,
            if self.quick { ", small inputs" } else { "" }
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.slowdowns(&mut page);
        self.memory(&mut page);
        self.recording(&mut page);
        self.bars(&mut page);
        self.notes(&mut page);
        page
    }

    /// Writes the page and the raw results into the repository; where they are.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let page = place::result_pages().join("overhead.md");
        write(&page, &self.page())?;
        let raw = place::raw_results().join("overhead.json");
        write_json(&raw, self)?;
        Ok([page, raw])
    }

    fn slowdowns(&self, page: &mut String) {
        *page += "\n## Slow-down\n\n";
        self.grid(page, |row, column| {
            let (median, best) = row.slowdown(column)?;
            Some(format!("{median:.2}x ({best:.2}x)"))
        });
        let reasons = self.reasons();
        if !reasons.is_empty() {
            let _ = writeln!(page, "\n{}", reasons.join("\n"));
        }
    }

    fn memory(&self, page: &mut String) {
        *page += "\n## Peak memory\n\n";
        self.grid(page, |row, column| {
            let (kib, ratio) = row.memory(column)?;
            Some(format!("{:.1} MiB ({ratio:.1}x)", kib / 1024.0))
        });
        let _ = writeln!(
            page,
            "\nFigures at or below {:.1} MiB say only that the program needs no more than that.",
            to_f64(self.memory_floor_kib) / 1024.0
        );
    }

    /// A table of rows and columns; the reasons of cells without a figure stand below the first table.
    fn grid(&self, page: &mut String, figure: impl Fn(&Measured, Column) -> Option<String>) {
        let titles: Vec<&str> = COLUMNS.iter().map(|c| c.title).collect();
        let _ = writeln!(page, "| program | {} |", titles.join(" | "));
        let _ = writeln!(page, "|---|{}", "---:|".repeat(titles.len()));
        for row in &self.rows {
            let _ = write!(page, "| {} |", row.described().title);
            for column in COLUMNS {
                let cell = row.cell(column.key);
                let text = match cell.and_then(|c| c.missing.as_ref()) {
                    Some(Missing::Unavailable(_)) => "n/a".to_owned(),
                    Some(Missing::Failed(_)) => "FAILED".to_owned(),
                    Some(Missing::TooLong(_)) => "-".to_owned(),
                    None => figure(row, *column).unwrap_or_else(|| "n/a".to_owned()),
                };
                let _ = write!(page, " {text} |");
            }
            *page += "\n";
        }
    }

    /// Why cells are missing; a reason that holds for a whole column is given once.
    fn reasons(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for column in COLUMNS {
            let mut said: Vec<(String, Vec<&str>)> = Vec::new();
            for row in &self.rows {
                let Some(why) = row.cell(column.key).and_then(reason) else {
                    continue;
                };
                match said.iter_mut().find(|(text, _)| *text == why) {
                    Some((_, rows)) => rows.push(row.row),
                    None => said.push((why, vec![row.row])),
                }
            }
            for (why, rows) in said {
                let rows =
                    if rows.len() == self.rows.len() { String::new() } else { format!(" ({})", rows.join(", ")) };
                lines.push(format!("- {}{rows}: {why}", column.title));
            }
        }
        lines
    }

    fn recording(&self, page: &mut String) {
        *page += "\n## Recording\n\n| program | column | events | events/s | bytes | bytes/event |\n|---|---|---:|---:|---:|---:|\n";
        for row in &self.rows {
            for key in ["record", "record-clang"] {
                let Some(cell) = row.cell(key).filter(|c| c.missing.is_none()) else {
                    let _ = writeln!(page, "| {} | {key} | n/a | n/a | n/a | n/a |", row.described().title);
                    continue;
                };
                let traces = cell.runs.iter().filter_map(|s| Some((s.trace?, s.seconds)));
                let of = |f: &dyn Fn(u64, u64, f64) -> f64| {
                    let each =
                        traces.clone().map(|(t, s)| t.events.map(|e| f(e, t.bytes, s))).collect::<Option<Vec<f64>>>();
                    shown(each.and_then(median), 0)
                };
                let bytes = median(traces.clone().map(|(t, _)| to_f64(t.bytes)).collect());
                let _ = writeln!(
                    page,
                    "| {} | {key} | {} | {} | {} | {} |",
                    row.described().title,
                    of(&|events, _, _| to_f64(events)),
                    of(&|events, _, seconds| to_f64(events) / seconds),
                    shown(bytes, 0),
                    shown(bytes_per_event(row, key), 2),
                );
            }
        }
    }

    fn bars(&self, page: &mut String) {
        *page += "\n## Bars\n\n| program | what | figure | bar | | native spread |\n|---|---|---:|---:|---|---:|\n";
        for bar in &self.bars {
            let verdict = match bar.verdict {
                Verdict::Met => "met",
                Verdict::Missed => "**MISSED**",
                Verdict::Unknown => "not measured",
            };
            let _ = writeln!(
                page,
                "| {} | {} | {} | ≤ {} | {verdict} | {} |",
                bar.row,
                bar.what,
                shown(bar.figure, 3),
                bar.limit,
                shown(bar.native_spread, 2)
            );
        }
        let count = |verdict| self.bars.iter().filter(|b| b.verdict == verdict).count();
        let _ = writeln!(
            page,
            "\n{} met, {} missed, {} not measured. Bars that compare two tools are ratios of median times. \
             Native spread is the slowest native run over the fastest: an outcome closer to its bar than that is not settled.",
            count(Verdict::Met),
            count(Verdict::Missed),
            count(Verdict::Unknown)
        );
    }

    fn notes(&self, page: &mut String) {
        *page += "\n## Notes\n\n";
        *page += "- ThreadSanitizer runs with `report_bugs=0`: it looks for races but does not word them, which is in its favour.\n";
        *page += "- memcached: the time of a fixed number of requests over sixteen connections; the load generator shares the cores with the server.\n";
        *page += "- pbzip2 and memcached use the system's libbz2 and libevent, which no column instruments (Helgrind sees them).\n";
        *page += "- A survey or recorded run includes start-up and the writing of its files; making the plan is not included.\n";
        for column in COLUMNS.iter().filter(|c| runs_small(c.mode)) {
            let _ =
                writeln!(page, "- {}: one run of a small input, against native runs of the same input.", column.title);
        }
        for row in &self.rows {
            if let Some(version) = &row.version {
                let _ = writeln!(page, "- {}: {version}", row.described().title);
            }
        }
    }
}

/// Writes a text file, making its folder.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        at("create", parent, fs::create_dir_all(parent))?;
    }
    at("write", path, fs::write(path, text))
}

/// Writes a value as JSON, ending with a line end.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut json = serde_json::to_string_pretty(value)
        .map_err(|source| BenchError::Json { what: path.display().to_string(), source })?;
    json.push('\n');
    write(path, &json)
}

fn reason(cell: &Cell) -> Option<String> {
    Some(match cell.missing.as_ref()? {
        Missing::Unavailable(why) => format!("n/a: {why}"),
        Missing::Failed(why) => format!("FAILED: {why}"),
        Missing::TooLong(why) => why.clone(),
    })
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "n/a".to_owned(), |f| format!("{f:.digits$}"))
}
