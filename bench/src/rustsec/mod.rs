//! Data races that the RustSec advisory database tells of, in published versions of crates: each has a small test of ours
//! (`bench/programs/rustsec`), hunted by `cargo selvedge hunt`, and its clips replayed. The crates are fetched by exact version.

pub mod advisory;
pub mod hunted;
pub mod page;
