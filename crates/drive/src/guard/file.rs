//! Files of invariants.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::Invariants;
use selvedge_analyze::invariant::text::{self, TextError};

use crate::store::{StoreError, write_whole};

/// Why a file of invariants cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvariantsError {
    /// It cannot be read.
    #[error("cannot read the invariants `{0}`, which `selvedge train -o {0} -- PROGRAM` writes", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("`{}`, {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong.
        source: TextError,
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
    text::parse(bytes).map_err(|source| InvariantsError::Syntax { path: path.to_owned(), source })
}

/// Writes a file of invariants.
pub fn save(path: &Path, invariants: &Invariants) -> Result<(), InvariantsError> {
    Ok(write_whole(path, text::write(invariants).as_bytes())?)
}
