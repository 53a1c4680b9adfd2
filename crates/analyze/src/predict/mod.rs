//! Prediction by patterns.

pub mod graph;
mod hash;
pub mod lockset;
pub mod order;
pub mod patterns;
pub mod patterns_file;
#[cfg(test)]
mod text;

pub use graph::{Graph, Scope};
pub use order::{PartialOrder, Strength};
pub use patterns::Pattern;
