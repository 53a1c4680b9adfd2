//! The guard's driver: invariants become a table that the runtime checks by, and what it noted becomes invariants.
//!
//! [`table`] writes the table, [`keys`] names the sites of a build, [`compile`] puts both together, [`deploy`] makes a plan of it.
//! [`choose`] says which sites are guarded, also by what code they [switch](switching).
//! [`train`] makes runs that learn and reads their logs ([`log`]); [`site_names`] says what the numbers in a log mean,
//! [`violations`] adds logs up. [`patch`] guards one bug, [`tolerate`] does so in a hunt. [`colours`] and [`expose`] learn from recorded
//! runs ([`traced`], [`keyring`]).

pub mod choose;
pub mod colours;
pub mod compile;
pub mod deploy;
pub mod expose;
pub mod file;
pub mod keyring;
pub mod keys;
pub mod log;
pub mod patch;
pub mod site_names;
pub mod switching;
pub mod table;
pub mod tolerate;
pub mod traced;
pub mod train;
pub mod violations;
