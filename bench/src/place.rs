//! Where things are: the repository, the work folder, the `selvedge` binary.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, Result, at};
use crate::exec::run_tool;

/// The repository's root folder.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The folder of the programs that are measured.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// The folder of raw results.
pub fn raw_results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The folder of the result pages.
pub fn result_pages() -> PathBuf {
    repository().join("docs/results")
}

/// Cargo's output folder.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The `selvedge` binary: `$SELVEDGE_BIN`, else the release build of this repository, brought up to date first.
pub fn selvedge() -> Result<PathBuf> {
    if let Some(given) = env::var_os("SELVEDGE_BIN") {
        let given = PathBuf::from(given);
        return given
            .canonicalize()
            .map_err(|e| BenchError::Missing { tool: "selvedge".to_owned(), why: format!("SELVEDGE_BIN: {e}") });
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_tool(Command::new(cargo).current_dir(repository()).args([
        "build",
        "--release",
        "--quiet",
        "--bin",
        "selvedge",
    ]))
    .map_err(|e| BenchError::Missing { tool: "selvedge".to_owned(), why: e.line() })?;
    Ok(target().join("release/selvedge"))
}

/// Makes the work folder; its absolute path, because children run in other folders.
pub fn work(given: &Path) -> Result<PathBuf> {
    at("create", given, std::fs::create_dir_all(given))?;
    at("find", given, given.canonicalize())
}
