//! How many code points must be looked at before the bug is found: the rank paper's tables on our kernels of its workloads.
//!
//! [`paper`] has the paper's own numbers, [`gather`] makes runs, [`inspect`] ranks them and counts, [`large`] times graphs of
//! a million edges, [`programs`] measures large programs, [`page`] writes it all down.

pub mod gather;
pub mod inspect;
pub mod large;
pub mod page;
pub mod paper;
pub mod programs;
