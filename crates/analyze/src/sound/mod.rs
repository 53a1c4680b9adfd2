//! Predictions that come with a proof: a reordering of the history that can be run.

mod arrange;
mod ideals;
mod index;
mod needs;
mod pair;
mod saturate;
pub mod shb;
pub mod sync_preserving;
pub mod validator;
pub mod witness;

pub use pair::RacePair;
pub use sync_preserving::SyncPreserving;
pub use validator::{Flaw, Rule, Validator};
pub use witness::{Effort, Prover, prove};
