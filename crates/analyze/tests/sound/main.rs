//! The sound analyses against each other and against the exact answer.

mod generate;
mod hostile;
mod oracle;
mod shares;
mod shb;
mod sync_preserving;
mod traces;
mod validator;
mod witness;
