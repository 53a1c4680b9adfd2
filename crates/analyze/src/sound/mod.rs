//! Predictions that come with a proof: a reordering of the history that can be run.

pub mod validator;

pub use validator::{Flaw, Rule, Validator};
