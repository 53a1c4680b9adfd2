//! The driver of enforcement: runs become a profile, a profile and a build become locks.
//!
//! [`code`] reads a build: its graphs, and the names of its accesses and calls. [`learn`] makes a profile of a recorded run, [`profile`] of
//! many, [`groups`] has the variables that belong together. [`model`] is the program that placement works on, [`compile`] the table that the runtime keeps to,
//! [`suppress`] the locks of a hunt.

pub mod code;
pub mod compile;
pub mod deploy;
pub mod explain;
pub mod file;
pub mod groups;
pub mod learn;
pub mod model;
pub mod profile;
pub mod suppress;
pub mod table;
pub mod thin;
