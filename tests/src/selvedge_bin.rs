//! Finding the `selvedge` binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// Why there is no binary to test.
#[derive(Debug, Error)]
pub enum FindError {
    /// `SELVEDGE_BIN` names nothing.
    #[error("SELVEDGE_BIN names {0}, which is no file")]
    NoSuchFile(PathBuf),
    /// It had to be built, and that failed.
    #[error("`cargo build -p selvedge-cli` failed; build it, or set SELVEDGE_BIN\n{0}")]
    Build(String),
    /// It was built, but is not where it should be.
    #[error("`cargo build -p selvedge-cli` made no `selvedge` in {0}")]
    NotBuilt(PathBuf),
}

/// The binary that `SELVEDGE_BIN` names, else the one beside the running test, else a new build.
pub fn find_selvedge() -> Result<PathBuf, FindError> {
    if let Some(named) = std::env::var_os("SELVEDGE_BIN") {
        let named = PathBuf::from(named);
        // Programs run in directories of their own, so the path must not depend on this one.
        let absolute = named.canonicalize();
        return absolute.map_err(|_| FindError::NoSuchFile(named));
    }
    // Always asked of cargo, which does nothing when it is fresh: a stale one would test yesterday's runtime.
    build()?;
    let target = target_dir();
    let built = target.join("debug/selvedge");
    if built.is_file() { Ok(built) } else { Err(FindError::NotBuilt(target)) }
}

/// `target`, above `target/PROFILE/deps/TEST`.
fn target_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let target = test.ancestors().nth(3);
    target.unwrap_or(Path::new("target")).to_owned()
}

fn build() -> Result<(), FindError> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["build", "-p", "selvedge-cli", "--target-dir"])
        .arg(target_dir())
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    match cargo.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(FindError::Build(text.into_owned()))
        }
        Err(error) => Err(FindError::Build(error.to_string())),
    }
}
