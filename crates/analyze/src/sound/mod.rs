//! Predictions that come with a proof: a reordering of the history that can be run.

mod ideals;
mod index;
mod pair;
pub mod shb;
pub mod sync_preserving;
pub mod validator;

pub use pair::RacePair;
pub use sync_preserving::SyncPreserving;
pub use validator::{Flaw, Rule, Validator};
