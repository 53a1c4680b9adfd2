//! Rust programs by plain `rustc`, with the wrapper as the linker.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use selvedge_drive::build::{RUST_TARGET, UNLOCK, rust_flags};

/// A command that compiles as `rustc` does, with instrumentation: `env` and its arguments.
///
/// The wrapper links under its compiler name, a symbolic link in `dir`; so the runtime and the site table get
/// into the program.
pub fn instrumented_rustc(selvedge: &Path, dir: &Path) -> io::Result<Vec<OsString>> {
    let linker: PathBuf = dir.join("selvedge-cc");
    if let Err(error) = symlink(selvedge, &linker)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let (unlock, value) = UNLOCK;
    let words = ["env".into(), format!("{unlock}={value}"), "rustc".into(), format!("--target={RUST_TARGET}")];
    Ok(words.into_iter().map(OsString::from).chain(rust_flags(&linker)).collect())
}
