//! What `selvedge hunt` finds in the corpus: every program with a bug, its fixed twin, and the correct ones.

pub mod page;
pub mod program;
