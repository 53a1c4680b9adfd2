//! Predictions that come with a proof: a reordering of the history that can be run.

mod pair;
pub mod shb;
pub mod validator;

pub use pair::RacePair;
pub use validator::{Flaw, Rule, Validator};
