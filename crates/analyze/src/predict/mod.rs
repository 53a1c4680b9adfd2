//! Prediction of access anomalies by patterns, after Huang and Zhang, "Persuasive prediction of concurrency access
//! anomalies" (PECAN, ISSTA 2011): what did not happen in a history but fits a pattern of what goes wrong, and the order of
//! events that is to bring it about.
//!
//! | here | in the paper |
//! |---|---|
//! | [`order`], [`lockset`] | the constraint model, 4.2; its compact encoding, 5.1 |
//! | [`graph`] | the partial and temporal order graph, 4.3; atomic regions, 4.1 |
//! | [`patterns`], [`patterns_file`], `patterns.toml` | the specification of anomalies, 3 |
//! | [`search`], [`sets`], [`general`] | the pattern-directed search, 5.2, for one, two and any number of variables |
//! | [`candidates`], [`predictions`] | anomalies, unique by source locations, 8.2 |
//! | [`mod@schedule`] | schedule generation, 6 |
//!
//! Finds: races, unserializable accesses to one variable and to two, accesses in an order that nothing fixes, and what users
//! write down themselves. Never says that what it found is possible: every candidate is to be proved or tried. Cannot see:
//! what no thread did in the history; anomalies of more than two variables, unless a user's pattern names them; what its
//! limits cut off, which [`Dropped`] counts. Each module says where it departs from the paper.
//!
//! Cost: near-linear, whatever the patterns. Accesses that are alike are compared once and then by their latest
//! instances.

pub mod candidates;
pub mod general;
pub mod graph;
mod hash;
pub mod lockset;
pub mod order;
pub mod patterns;
pub mod patterns_file;
mod plan;
pub mod predictions;
pub mod schedule;
pub mod search;
pub mod sets;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod text;

pub use candidates::{Candidate, Dropped};
pub use graph::{Graph, Scope};
pub use order::{PartialOrder, Strength};
pub use patterns::Pattern;
pub use patterns_file::PatternsError;
pub use predictions::{Options, Predictions, predict};
pub use schedule::{Scheduler, schedule};
