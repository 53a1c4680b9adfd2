//! The program under test: where it is, and which build it is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use selvedge_findings::ExitCode;
use selvedge_image::{Image, ImageProblem};

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file, resolved.
    pub path: PathBuf,
    /// Its build-id; empty where it has none, as a script.
    pub build_id: Vec<u8>,
    /// Whether another program interprets it.
    pub is_script: bool,
    /// What tells it apart from other builds: the build-id, else size and time of the file.
    pub identity: String,
}

/// Why a program was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindProgramError {
    /// There is no such file.
    #[error("`{name}` was not found: {hint}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// What to do.
        hint: String,
    },
    /// It is no program.
    #[error("`{}` cannot be executed: it must be a file with execute permission", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// It is neither a program nor a script.
    #[error("`{}` is no program: it is {what}; give the program itself", path.display())]
    NoProgram {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        what: &'static str,
    },
    /// It is a program for another machine.
    #[error("`{}` cannot be run under selvedge: it is {what}; build it for 64-bit x86", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
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
        let by_path = Path::new(name);
        let has_slash = name.as_encoded_bytes().contains(&b'/');
        let not_found = || {
            let name = name.to_string_lossy().into_owned();
            let hint = match !has_slash && is_executable(&Path::new(".").join(by_path)) {
                true => format!("programs without a slash are looked for along PATH; did you mean `./{name}`?"),
                false => "give its path, or check PATH".to_owned(),
            };
            FindProgramError::NotFound { name, hint }
        };
        let file = if has_slash {
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
        let (build_id, is_script) = look_at(&path).map_err(|error| match error {
            FindProgramError::Read { source, .. } => read(source),
            other => other,
        })?;
        let identity = if build_id.is_empty() {
            let meta = fs::metadata(&path).map_err(read)?;
            format!("file-{:x}-{:x}-{:x}", meta.len(), meta.mtime(), meta.mtime_nsec())
        } else {
            hex(&build_id)
        };
        Ok(Program { path, build_id, identity, is_script })
    }
}

impl FindProgramError {
    /// The exit code for it, as shells have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            FindProgramError::NotFound { .. } => ExitCode::NotFound.code(),
            _ => ExitCode::CannotStart.code(),
        }
    }
}

/// The build-id of a file, and whether it is a script; or why the system or we cannot run it.
fn look_at(path: &Path) -> Result<(Vec<u8>, bool), FindProgramError> {
    let bytes = fs::read(path).map_err(|source| FindProgramError::Read { path: path.to_owned(), source })?;
    let no_program = |what| Err(FindProgramError::NoProgram { path: path.to_owned(), what });
    if bytes.starts_with(b"#!") {
        return Ok((Vec::new(), true));
    }
    if bytes.is_empty() {
        return no_program("empty");
    }
    let is_text = bytes.iter().take(512).all(|byte| matches!(byte, 9..=13 | 32..=126 | 128..));
    let foreign = |what: String| Err(FindProgramError::Foreign { path: path.to_owned(), what });
    match Image::from_bytes(path, bytes) {
        Ok(image) => Ok((image.build_id().to_vec(), false)),
        Err(ImageProblem::NotElf) if is_text => no_program("a text without `#!` in its first line"),
        Err(ImageProblem::NotElf) => no_program("not in a form that Linux runs"),
        Err(ImageProblem::Is32Bit) => foreign("a 32-bit program".to_owned()),
        Err(ImageProblem::BigEndian) => foreign("a program for a big-endian machine".to_owned()),
        Err(ImageProblem::OtherArchitecture { machine }) => foreign(format!("a program for {}", machine_name(machine))),
        Err(ImageProblem::NotLinked { .. }) => no_program("an object file or a core dump, not a linked program"),
        // What is odd and can still be started is for the system to judge.
        Err(_) => Ok((Vec::new(), false)),
    }
}

/// The machines that users have.
fn machine_name(machine: u16) -> String {
    match machine {
        3 => "32-bit x86".to_owned(),
        40 => "32-bit Arm".to_owned(),
        183 => "64-bit Arm (aarch64)".to_owned(),
        243 => "RISC-V".to_owned(),
        21 => "PowerPC".to_owned(),
        22 => "IBM Z".to_owned(),
        other => format!("another machine (number {other} in its ELF header)"),
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
