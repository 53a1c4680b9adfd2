//! Files of invariants.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::Invariants;

use crate::store::{StoreError, write_whole};

/// Why a file of invariants cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvariantsError {
    /// It cannot be read.
    #[error("cannot read the invariants `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("`{}` has no invariants: {what}; `selvedge train` makes such files", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong.
        what: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] StoreError),
}

/// Reads a file of invariants.
pub fn load(path: &Path) -> Result<Invariants, InvariantsError> {
    let bytes = std::fs::read(path).map_err(|source| InvariantsError::Read { path: path.to_owned(), source })?;
    parse(path, &bytes)
}

/// The invariants in these bytes; `path` is for messages.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Invariants, InvariantsError> {
    let syntax = |what: String| InvariantsError::Syntax { path: path.to_owned(), what };
    let text = std::str::from_utf8(bytes).map_err(|error| syntax(error.to_string()))?;
    from_text(text).map_err(syntax)
}

/// Writes a file of invariants.
pub fn save(path: &Path, invariants: &Invariants) -> Result<(), InvariantsError> {
    Ok(write_whole(path, to_text(invariants).as_bytes())?)
}

// STAND-INS until the analysis has a text form.
fn from_text(_text: &str) -> Result<Invariants, String> {
    Err("no text form yet".to_owned())
}

fn to_text(_invariants: &Invariants) -> String {
    String::new()
}
