//! Files of profiles.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_analyze::atomicity::ProfileError;
use selvedge_analyze::atomicity::profile::Profile;

use crate::store::{StoreError, write_whole};

/// Why a profile cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileFileError {
    /// It cannot be read.
    #[error("cannot read the profile `{}`", path.display())]
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
        source: ProfileError,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] StoreError),
}

/// Reads a profile.
pub fn load(path: &Path) -> Result<Profile, ProfileFileError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ProfileFileError::Read { path: path.to_owned(), source })?;
    Profile::from_text(&text).map_err(|source| ProfileFileError::Syntax { path: path.to_owned(), source })
}

/// Writes a profile.
pub fn save(path: &Path, profile: &Profile) -> Result<(), ProfileFileError> {
    Ok(write_whole(path, profile.to_text().as_bytes())?)
}
