//! What reading a trace and predicting from it costs.
//!
//! ```text
//! shapes ─▶ generate (valid histories) ─▶ files (our format, RAPID's text) ─┐
//! real (pbzip2, memcached, zstd, recorded) ─────────────────────────────────┼─▶ one (a process each) ─▶ page, JSON
//! analyses (a line each) ───────────────────────────────────────────────────┘
//! ```

pub mod analyses;
pub mod exact;
pub mod files;
pub mod generate;
pub mod one;
pub mod options;
pub mod page;
pub mod real;
pub mod shapes;
