//! Side-by-side measurements: what Selvedge costs, next to native, ThreadSanitizer and Helgrind.
//!
//! Two binaries: `overhead` (slow-downs and peak memory, all columns interleaved in one run) and `hooks`
//! (instructions for each hook, which do not depend on how busy the machine is).
//!
//! ```text
//! options ─▶ rows (programs, how to build and check) ─┐
//!            columns (compilers, modes, commands) ────┼─▶ measure (round robin) ─▶ bars ─▶ table, JSON
//!            apt, fetch (what is not here yet) ───────┘
//! ```
//!
//! Everything the measurements assume about the `selvedge` command is in [`columns`].

pub mod apt;
pub mod bars;
pub mod callgrind;
pub mod columns;
pub mod error;
pub mod exec;
pub mod hooks;
pub mod load;
pub mod machine;
pub mod measure;
pub mod options;
pub mod place;
pub mod rows;
pub mod sources;
pub mod table;
