//! Side-by-side measurements: what Selvedge costs, next to native, ThreadSanitizer and Helgrind.
//!
//! Eight binaries: `overhead` (slow-downs and peak memory, all columns interleaved in one run), `hooks` (instructions for
//! each hook, which do not depend on how busy the machine is), `explore` (how soon the bugs of the corpus are found,
//! see [`explore`]), `hunt` (what hunts find there, see [`hunt`]), `guard` (how guards do there, see [`guard`]),
//! `rank` (what rankings take), `real` (what hunts show in programs that are not ours) and `predict` (how fast
//! traces are read and analysed, see [`predict`]).
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
pub mod controlled;
pub mod detect;
pub mod enforce;
pub mod error;
pub mod exec;
pub mod explore;
pub mod guard;
pub mod hooks;
pub mod hunt;
pub mod load;
pub mod machine;
pub mod measure;
pub mod options;
pub mod place;
pub mod predict;
pub mod rank;
pub mod real;
pub mod rows;
pub mod rustsec;
pub mod sources;
pub mod table;
