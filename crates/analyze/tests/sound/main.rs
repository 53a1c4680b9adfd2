//! The sound analyses against each other and against the exact answer.

mod generate;
mod oracle;
mod shb;
mod sync_preserving;
mod validator;
mod witness;
