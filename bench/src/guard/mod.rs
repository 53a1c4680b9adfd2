//! How well guards detect and tolerate the bugs of the corpus, and what they say of programs without a bug.
//!
//! ```text
//! workshop (built, surveyed) ─▶ training ─┬─▶ kernel: runs without, watched, guarded; rivals over traces; clips ─┐
//!                                         ├─▶ quiet: programs without a bug, watched and guarded ────────────────┼─▶ page, JSON
//!                                         └─▶ real: a curve of pbzip2 ───────────────────────────────────────────┘
//! ```
//!
//! Apart from that, `cost`: how much slower guarded programs are.

pub mod cost;
pub mod kernel;
pub mod options;
pub mod page;
pub mod patterns;
pub mod quiet;
pub mod real;
pub mod rivals;
pub mod runs;
pub mod tables;
pub mod training;
