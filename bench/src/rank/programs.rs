//! Large programs: how large their graphs are, and what collecting one costs beside recording and beside ThreadSanitizer, all in
//! one run.

use std::fmt::Write as _;
use std::path::Path;

use selvedge_analyze::graph::file::to_bytes;
use selvedge_analyze::graph::{Graph, live};
use selvedge_trace::Process;
use selvedge_trace::model::trace_files;
use serde::Serialize;

use crate::columns::{COLUMNS, Column, Tools};
use crate::measure::{Measured, Missing, measure_in};
use crate::options::Options;
use crate::rows::ROWS;

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

/// Measures the programs that are wanted.
pub fn measure(tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    measure_beside(&BESIDE, tools, options, say)
}

/// Measures the programs that are wanted in these columns, beside the native one.
pub fn measure_beside(beside: &[&str], tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    let columns: Vec<Column> =
        COLUMNS.iter().filter(|column| column.key == "native" || beside.contains(&column.key)).copied().collect();
    let rows = ROWS.iter().filter(|row| PROGRAMS.contains(&row.key));
    let wanted = rows.filter(|row| options.only.is_empty() || options.only.iter().any(|only| only == row.key));
    wanted.map(|row| measure_in(&columns, *row, tools, options, say)).collect()
}

/// The section of the page.
pub fn section(measured: &[Measured]) -> String {
    let mut page = "\n## Large programs\n\nThe graph of one run by word, with contexts of five events, collected by the runtime; of several runs the largest. Slow-downs \
                    are medians against the program without any of this (the paper: 13x to 5,000x).\n\n\
                    | program | code points | nodes | edges | file, bytes | graph | record | gcc TSan |\n|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for one in measured {
        let graphs = one.cell("graph").into_iter().flat_map(|cell| &cell.runs).filter_map(|run| run.graph);
        let size = graphs.max_by_key(|size| size.edges).unwrap_or_default();
        let _ = write!(page, "| {} | {} | {} | {} | {} |", one.row, size.sites, size.nodes, size.edges, size.bytes);
        for key in BESIDE {
            let column = COLUMNS.iter().find(|column| column.key == key);
            let told = column.and_then(|column| one.slowdown(*column)).map(|(median, _)| format!(" {median:.2}x |"));
            page += &told.unwrap_or_else(|| " n/a |".to_owned());
        }
        page += "\n";
    }
    for one in measured {
        for cell in &one.cells {
            if let Some(Missing::Unavailable(why) | Missing::Failed(why) | Missing::TooLong(why)) = &cell.missing {
                let _ = writeln!(page, "\n{}, {}: {why}", one.row, cell.column);
            }
        }
    }
    page
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
