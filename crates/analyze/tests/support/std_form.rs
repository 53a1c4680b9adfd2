//! Recorded traces in RAPID's `std` text, with exact answers beside them.
//!
//! The folder is that of `SELVEDGE_TRACES`, or `shared/traces` beside the workspace.

use std::path::PathBuf;

use selvedge_analyze::{History, std_text};

/// The folder, where there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("SELVEDGE_TRACES").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("passed over: no recorded traces (set SELVEDGE_TRACES)");
    None
}

/// The history of a trace.
pub(crate) fn parse(text: &str) -> History {
    std_text::parse(text.as_bytes()).expect("a recorded trace is well-formed").history
}
