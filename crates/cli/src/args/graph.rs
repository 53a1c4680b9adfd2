//! `selvedge graph`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  selvedge graph tested.graph                               how large it is, and what it is of\n  \
    selvedge graph monday.graph tuesday.graph -o tested.graph  the sum of both\n  \
    selvedge graph today.graph --minus tested.graph --dot new.dot --program ./prog\n\n\
    A graph is what `selvedge rank --save` keeps. Graphs add up in any order; only such as were collected alike do. \
    Graphs of several builds can be added, but say nothing about each other."
)]
pub(crate) struct GraphArgs {
    /// Graphs to add
    #[arg(required = true, value_name = "GRAPH")]
    pub(crate) graphs: Vec<PathBuf>,
    /// Leave out the edges that this graph has; may be given several times
    #[arg(long, value_name = "GRAPH")]
    pub(crate) minus: Vec<PathBuf>,
    /// Write what is left as a graph
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write it in Graphviz's language
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
    /// Write it as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// A program or library of the graph, for names in --dot and --json; may be given several times
    #[arg(long = "program", value_name = "FILE")]
    pub(crate) programs: Vec<PathBuf>,
}
