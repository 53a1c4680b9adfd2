//! Prediction by patterns.

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
mod text;

pub use candidates::{Candidate, Dropped};
pub use graph::{Graph, Scope};
pub use order::{PartialOrder, Strength};
pub use patterns::Pattern;
pub use predictions::{Options, Predictions, predict};
pub use schedule::{Scheduler, schedule};
