//! Context-aware communication graphs: which instruction got its data from which, and what its thread had lately seen of
//! the others. Paper: Lucia and Ceze, "Finding concurrency bugs with context-aware communication graphs", MICRO 2009.
//!
//! [`context`] is what a thread has lately seen, [`value`] the graph with its sum and difference. Collectors:
//! [`software`] looks at all of memory, [`mesi`] is the paper's hardware as a simulator; [`collect()`] feeds them with a
//! recorded run. [`live`] reads what the runtime collected without a trace. [`rank`] says which code points are most likely to be the bug, [`deployed`] which do what they did not do in
//! testing. [`file`](mod@file) is the form on disk,
//! [`export`] are DOT and JSON.
//!
//! Cannot see: accesses that were not recorded, and values. A bug that always takes the same communication in the same
//! contexts as runs without it leaves no trace in a graph.

mod coder;
pub mod collect;
pub mod context;
pub mod deployed;
pub mod export;
pub mod file;
pub mod live;
pub mod mesi;
pub mod rank;
pub mod software;
pub mod value;

pub use collect::{Step, Steps, collect};
pub use context::{Comm, Context, Depth};
pub use software::{Access, Software, Touch};
pub use value::{Count, EdgeRow, Granularity, Graph, Kind, Node, NodeRow, Rules, Site, Size, convergence};

#[cfg(test)]
mod tests;
