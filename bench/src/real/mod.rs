//! What `selvedge hunt` shows in programs that are not ours: pbzip2, memcached and zstd, each with a real workload and a budget.
//!
//! Nothing false may be shown, so every bug that is shown must be explained: `notes.tsv` has a sentence or two for each, by the
//! functions and variables that it is about. A bug without a note is shown as not explained.

pub mod page;
pub mod program;
