//! The guard's driver: invariants become a table that the runtime checks by, and what it noted becomes invariants.
//!
//! [`table`] writes the table, [`keys`] names the sites of a build, [`compile`] puts both together.

pub mod compile;
pub mod file;
pub mod keys;
pub mod table;
