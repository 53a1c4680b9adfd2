//! Prediction by patterns.

pub mod graph;
mod hash;
pub mod lockset;
pub mod order;
#[cfg(test)]
mod text;

pub use graph::{Graph, Scope};
pub use order::{PartialOrder, Strength};
