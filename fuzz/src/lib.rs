//! What the fuzz targets do, apart from libFuzzer: one module a target, and their seeds.
//!
//! A target is handed any bytes. It must answer, within bounds of time and memory, with a value or an
//! error; besides panics, the targets look for answers that contradict each other. Checksums are
//! repaired before the second try, or nothing behind them would ever be reached.
//!
//! `cargo xtask fuzz` builds and runs them.

#![forbid(unsafe_code)]

mod bytes;
pub mod clip;
pub mod elf_mutation;
pub mod graph;
pub mod image;
pub mod invariants;
pub mod plan;
pub mod recipe;
pub mod seeds;
pub mod table;
pub mod text;
pub mod trace;
