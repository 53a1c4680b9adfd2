//! Large programs: how large their graphs are, and what collecting one costs beside recording and beside ThreadSanitizer.
//!
//! Sizes are of the page of rankings: they do not depend on how busy the machine is. Costs do, and are a page of their own,
//! measured in one invocation in which all columns take turns.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use selvedge_analyze::graph::file::to_bytes;
use selvedge_analyze::graph::{Graph, live};
use selvedge_trace::Process;
use selvedge_trace::model::trace_files;
use serde::Serialize;

use crate::columns::{COLUMNS, Column, Tools};
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::{Measured, Missing, measure_in};
use crate::options::Options;
use crate::place;
use crate::rows::ROWS;
use crate::table::{write, write_json};

/// The programs.
pub const PROGRAMS: [&str; 3] = ["pbzip2", "memcached", "zstd"];

/// The columns, after the native one.
const BESIDE: [&str; 3] = ["graph", "record", "tsan"];

/// How large the graph of a run is; of several processes, the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphSize {
    /// Nodes.
    pub nodes: usize,
    /// Edges.
    pub edges: usize,
    /// Sites, whatever the context.
    pub sites: usize,
    /// Bytes of its file.
    pub bytes: usize,
}

impl GraphSize {
    /// The graph that a run left in a folder.
    pub fn of_run(dir: &Path) -> Option<GraphSize> {
        let files = trace_files(dir).ok()?;
        let graphs = files.iter().filter_map(|file| Process::open(file).ok()).filter_map(|one| live::collected(&one));
        graphs.map(|graph| GraphSize::of(&graph)).max_by_key(|size| size.edges)
    }

    fn of(graph: &Graph) -> GraphSize {
        let size = graph.size();
        GraphSize { nodes: size.nodes, edges: size.edges, sites: size.sites, bytes: to_bytes(graph).len() }
    }
}

/// Measures what collecting costs, beside the other columns.
pub fn measure_costs(tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    measure_beside(&BESIDE, tools, options, say)
}

/// Collects the graph of one run of each program.
pub fn measure_sizes(tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    measure_columns(&|key| key == "graph", tools, &Options { runs: 1, ..options.clone() }, say)
}

/// Measures the programs that are wanted in these columns, beside the native one.
pub fn measure_beside(beside: &[&str], tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    measure_columns(&|key| key == "native" || beside.contains(&key), tools, options, say)
}

fn measure_columns(
    wants: &dyn Fn(&str) -> bool,
    tools: &Tools,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Vec<Measured> {
    let columns: Vec<Column> = COLUMNS.iter().filter(|column| wants(column.key)).copied().collect();
    let rows = ROWS.iter().filter(|row| PROGRAMS.contains(&row.key));
    let wanted = rows.filter(|row| options.only.is_empty() || options.only.iter().any(|only| only == row.key));
    wanted.map(|row| measure_in(&columns, *row, tools, options, say)).collect()
}

/// The sizes, as a section of the page of rankings.
pub fn section(measured: &[Measured]) -> String {
    let mut page = "\n## Large programs\n\nThe graph of one run by word, with contexts of five events, collected by the runtime. What collecting costs: \
                    [costs](rank-cost.md).\n\n| program | version | code points | nodes | edges | file, bytes |\n|---|---|---:|---:|---:|---:|\n"
        .to_owned();
    for one in measured {
        let version = one.version.as_deref().unwrap_or("");
        match largest(one) {
            Some(size) => {
                let GraphSize { nodes, edges, sites, bytes } = size;
                let _ = writeln!(page, "| {} | {version} | {sites} | {nodes} | {edges} | {bytes} |", one.row);
            }
            None => {
                let _ = writeln!(page, "| {} | {version} | n/a | n/a | n/a | n/a |", one.row);
            }
        }
    }
    page + &missing(measured)
}

/// The largest graph of the runs.
fn largest(measured: &Measured) -> Option<GraphSize> {
    let runs = measured.cell("graph").into_iter().flat_map(|cell| &cell.runs);
    runs.filter_map(|run| run.graph).max_by_key(|size| size.edges)
}

/// What there is no figure of, and why.
fn missing(measured: &[Measured]) -> String {
    let mut told = String::new();
    for one in measured {
        for cell in &one.cells {
            if let Some(Missing::Unavailable(why) | Missing::Failed(why) | Missing::TooLong(why)) = &cell.missing {
                let _ = writeln!(told, "\n{}, {}: {why}", one.row, cell.column);
            }
        }
    }
    told
}

/// What collecting graphs costs.
#[derive(Debug, Serialize)]
pub struct Costs {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// Runs of each cell.
    pub runs: usize,
    /// Small inputs.
    pub is_quick: bool,
    /// The programs.
    pub programs: Vec<Measured>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Costs {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# What collecting graphs costs\n\nMade by `cargo run --release -p selvedge-bench --bin rank -- --cost --save` in {:.0} minutes. Raw \
             results: `bench/results/rank-cost.json`. What rankings are worth: [ranking](rank.md).\n\n",
            self.seconds / 60.0
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        if self.is_quick {
            page += "\nSmall inputs: these figures say only that everything works.\n";
        }
        let _ = writeln!(
            page,
            "\nSlow-downs are medians of {} runs against the same program built by gcc without any of this, in brackets the best run against the \
             best; all columns take turns in one invocation. *graph*: the runtime collects a graph by word with contexts of five events, and \
             writes no trace. *record*: it writes a trace. The paper's software collector took 13x to 5,000x. *noise*: the slowest native run \
             over the fastest.\n\n| program | native, s | graph | record | gcc TSan | noise | graph no slower than TSan |\n\
             |---|---:|---:|---:|---:|---:|---|",
            self.runs
        );
        for one in &self.programs {
            let native = one.median_seconds("native").map_or_else(|| "n/a".to_owned(), |median| format!("{median:.2}"));
            let _ = write!(page, "| {} | {native} |", one.row);
            for key in BESIDE {
                let told = slowdown(one, key).map(|(median, best)| format!(" {median:.2}x ({best:.2}x) |"));
                page += &told.unwrap_or_else(|| " n/a |".to_owned());
            }
            let noise = one.spread().map_or_else(|| "n/a".to_owned(), |spread| format!("{spread:.2}"));
            let verdict = match (slowdown(one, "graph"), slowdown(one, "tsan")) {
                (Some((graph, _)), Some((tsan, _))) if graph <= tsan => "met",
                (Some(_), Some(_)) => "**MISSED**",
                _ => "n/a",
            };
            let _ = writeln!(page, " {noise} | {verdict} |");
        }
        page + &missing(&self.programs)
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("rank-cost.md"), place::raw_results().join("rank-cost.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

/// Median and best slow-down in a column.
fn slowdown(measured: &Measured, key: &str) -> Option<(f64, f64)> {
    COLUMNS.iter().find(|column| column.key == key).and_then(|column| measured.slowdown(*column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_columns_are_there() {
        assert!(PROGRAMS.iter().all(|key| ROWS.iter().any(|row| row.key == *key)));
        assert!(BESIDE.iter().all(|key| COLUMNS.iter().any(|column| column.key == *key)));
        assert!(section(&[]).contains("| program |"));
    }
}
