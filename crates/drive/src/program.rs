//! The program under test: where it is, and which build it is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use selvedge_image::Image;

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file, resolved.
    pub path: PathBuf,
    /// Its build-id; empty where it has none, as a script.
    pub build_id: Vec<u8>,
    /// What tells it apart from other builds: the build-id, else size and time of the file.
    pub identity: String,
}

/// Why a program was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindProgramError {
    /// There is no such file.
    #[error("`{name}` was not found: give its path, or check PATH")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// It is no program.
    #[error("`{}` cannot be executed: it must be a file with execute permission", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be looked at.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Program {
    /// Finds a program as the system would: by path, or along `PATH` where the name has no slash.
    pub fn find(name: &OsStr, path: &OsStr) -> Result<Program, FindProgramError> {
        let not_found = || FindProgramError::NotFound { name: name.to_string_lossy().into_owned() };
        let by_path = Path::new(name);
        let file = if name.as_encoded_bytes().contains(&b'/') {
            by_path.exists().then(|| by_path.to_owned()).ok_or_else(not_found)?
        } else {
            let mut places = std::env::split_paths(path).map(|dir| dir.join(by_path));
            places.find(|file| is_executable(file)).ok_or_else(not_found)?
        };
        if !is_executable(&file) {
            return Err(FindProgramError::NotExecutable { path: file });
        }
        let read = |source| FindProgramError::Read { path: file.clone(), source };
        let path = file.canonicalize().map_err(read)?;
        let build_id = Image::open(&path).map(|image| image.build_id().to_vec()).unwrap_or_default();
        let identity = if build_id.is_empty() {
            let meta = fs::metadata(&path).map_err(read)?;
            format!("file-{:x}-{:x}-{:x}", meta.len(), meta.mtime(), meta.mtime_nsec())
        } else {
            hex(&build_id)
        };
        Ok(Program { path, build_id, identity })
    }
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The inverse of [`hex`].
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |sum, digit| sum << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_round_trips() {
        assert_eq!(unhex(&hex(&[0, 0x1f, 0xff])), Some(vec![0, 0x1f, 0xff]));
        assert_eq!((unhex("abc"), unhex("zz"), unhex("")), (None, None, Some(vec![])));
    }

    #[test]
    fn programs_are_found_along_path_and_refused_with_a_reason() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        assert!(Program::find("sh".as_ref(), &path).expect("found").path.is_absolute());
        for (name, expect) in [
            ("no-such-program", "was not found"),
            ("./no-such", "was not found"),
            ("/etc/passwd", "execute permission"),
        ] {
            let error = Program::find(name.as_ref(), &path).expect_err(name).to_string();
            assert!(error.contains(expect), "{error}");
        }
    }
}
