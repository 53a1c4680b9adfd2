//! The page of `predict`, and its raw results.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::analyses::ANALYSES;
use super::exact::Exact;
use super::one::{Form, One};
use crate::error::Result;
use crate::machine::Machine;
use crate::{place, table};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Predict {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Traces with exact answers; empty where the folder is not there.
    pub exact: Vec<Exact>,
    /// What could not be measured.
    pub problems: Vec<String>,
}

/// The measurements of one trace in one form with one analysis.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// What the trace is.
    pub trace: String,
    /// Its form.
    pub form: Form,
    /// Bytes of its files.
    pub bytes: u64,
    /// The analysis.
    pub analysis: &'static str,
    /// The measurements, in order.
    pub runs: Vec<One>,
}

impl Cell {
    /// The best rate: whatever else the machine does only takes away.
    pub fn rate(&self) -> f64 {
        self.runs.iter().map(One::rate).fold(0.0, f64::max)
    }

    fn peak_kib(&self) -> u64 {
        self.runs.iter().map(|run| run.peak_kib).max().unwrap_or(0)
    }
}

/// What others do with such files.
const PEERS: &str = "\
## Others on such files

Events a second, parsing included; one run each of the whole process on a 2-core machine, of RAPID (Java) and LockFrame (C++). Sizes are those of \
recorded Java programs (3 M events), of a synthetic trace with many locks (1 M events, 50 locks, 12 % acquires) and of a larger \
one (5 M events).

| engine | 3 M, recorded | 1 M, synthetic, lock-heavy | 5 M, synthetic |
|---|---|---|---|
| RAPID, parsing only | 517–694 k | 415 k | 732–823 k |
| RAPID FastTrack | 239–347 k | 273 k | 360 k |
| RAPID SHB (epochs) | 269–495 k | 186 k | 322–369 k |
| RAPID WCP | 151–336 k | 39 k | 64–76 k |
| RAPID SyncP | 97–217 k | not done in 300 s, 9.5 GB | – |
| RAPID OSR | 120–248 k | not done in 300 s | – |
| LockFrame PWR | 737 k–1.13 M | 500 k | 495–577 k |
| AeroDrome (atomicity) | 247 k | 175 k | – |
";

impl Predict {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = String::from(
            "# Speed of predicting\n\n\
             Made by `cargo run --release -p selvedge-bench --bin predict -- --real --save`. Every figure is of a process of its own that opens the file, reads \
             it and analyses it: events of the trace for each second of processor time, all included, the best of the runs; and peak memory, \
             which for text includes the text. One thread. Raw runs: `bench/results/predict-speed.json`.\n\n",
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        let runs = self.cells.iter().map(|cell| cell.runs.len()).min().unwrap_or(0);
        let _ = writeln!(page, "- runs of each figure (`--runs`): {runs}");
        for form in Form::ALL {
            let title = match form {
                Form::Selvedge => "From our own trace files",
                Form::Text => "From RAPID's text",
            };
            let cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.form == form).collect();
            if cells.is_empty() {
                continue;
            }
            let _ = writeln!(page, "\n## {title}\n");
            page += "| trace | events | kept | file |";
            let keys: Vec<&str> = ANALYSES.iter().map(|row| row.key).collect();
            let shown: Vec<&str> =
                keys.into_iter().filter(|key| cells.iter().any(|cell| cell.analysis == *key)).collect();
            for key in &shown {
                let _ = write!(page, " {key} | memory |");
            }
            page += "\n|---|---:|---:|---:|";
            page += &"---:|---:|".repeat(shown.len());
            page.push('\n');
            let mut traces: Vec<&str> = cells.iter().map(|cell| &*cell.trace).collect();
            traces.dedup();
            for trace in traces {
                self.row(&mut page, trace, form, &shown);
            }
        }
        self.bars(&mut page);
        self.exact(&mut page);
        page.push('\n');
        page += PEERS;
        if !self.problems.is_empty() {
            let _ = writeln!(page, "\n## Not measured\n");
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    fn row(&self, page: &mut String, trace: &str, form: Form, shown: &[&str]) {
        let of = |key: &str| self.cells.iter().find(|c| c.trace == trace && c.form == form && c.analysis == key);
        let Some(any) = self.cells.iter().find(|cell| cell.trace == trace && cell.form == form) else { return };
        let (events, kept) = any.runs.first().map_or((0, 0), |run| (run.events, run.kept));
        let _ = write!(page, "| {trace} | {events} | {kept} | {} |", megabytes(any.bytes));
        for key in shown {
            let _ = match of(key) {
                Some(cell) => write!(page, " {:.2} M/s | {} |", cell.rate() / 1e6, megabytes(cell.peak_kib() << 10)),
                None => write!(page, " – | – |"),
            };
        }
        page.push('\n');
    }

    fn exact(&self, page: &mut String) {
        if self.exact.is_empty() {
            return;
        }
        *page += "\n## Against exact answers\n\n\
             Recorded traces of which every correct reordering was explored. Events that can race with an earlier one: how many there are, how many \
             each relation proves (each event at its strongest), and what is proved that the answer denies. Random histories are compared with an exhaustive \
             search in both directions by `cargo test -p selvedge-analyze --test sound`. Peers on a larger set of 48 such traces with 94 events: SHB 53, \
             SyncP 78, OSR 92 with 3 false.\n\n\
             | trace | racy events | shb | sync-preserving | lock-reversing | surplus |\n|---|---:|---:|---:|---:|---:|\n";
        for row in &self.exact {
            let [shb, keeping, reversing] = row.found;
            let _ =
                writeln!(page, "| {} | {} | {shb} | {keeping} | {reversing} | {} |", row.name, row.racy, row.surplus);
        }
    }

    /// Checks the bars on traces that are large enough to tell.
    fn bars(&self, page: &mut String) {
        let _ = writeln!(page, "\n## Bars\n");
        for analysis in ANALYSES {
            for (form, bar) in Form::ALL.into_iter().zip(analysis.bars) {
                let Some(bar) = bar else { continue };
                let cells = self.cells.iter().filter(|cell| {
                    cell.form == form
                        && cell.analysis == analysis.key
                        && cell.runs.iter().any(|run| run.events >= 900_000)
                });
                let Some(least) = cells.min_by(|one, two| one.rate().total_cmp(&two.rate())) else { continue };
                let verdict = if least.rate() >= bar { "reached" } else { "missed" };
                let _ = writeln!(
                    page,
                    "- {} from {}: {verdict}: at least {:.1} M/s wanted, {:.2} M/s the slowest ({})",
                    analysis.key,
                    form.key(),
                    bar / 1e6,
                    least.rate() / 1e6,
                    least.trace
                );
            }
        }
    }

    /// Writes the page and the raw results into the repository; where they are.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) =
            (place::result_pages().join("predict-speed.md"), place::raw_results().join("predict-speed.json"));
        table::write(&page, &self.page())?;
        table::write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
