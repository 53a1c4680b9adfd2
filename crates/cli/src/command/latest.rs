//! The clip that is meant where none is named: the latest.

use std::path::{Path, PathBuf};

use selvedge_drive::controlled::latest_clip;
use selvedge_drive::store::DEFAULT_DIR;
use selvedge_findings::ExitCode;

use crate::messages::{Failure, note};

/// The clip that was named, or the latest of the runs in this directory.
pub(crate) fn clip_or_latest(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let path = latest_clip(Path::new(DEFAULT_DIR)).ok_or_else(|| Failure::Error {
        code: ExitCode::Usage.code(),
        text: format!("no clip is named, and there is none in {DEFAULT_DIR}/clips: explore and hunt keep them there"),
    })?;
    note(&format!("the latest clip: {}", path.display()));
    Ok(path)
}
