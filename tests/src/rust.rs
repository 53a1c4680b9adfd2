//! Rust programs by plain `rustc`, with the wrapper as the linker.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A command that compiles as `rustc` does, with instrumentation: `env` and its arguments.
///
/// The wrapper links under its compiler name, a symbolic link in `dir`; so the runtime and the site table get
/// into the program. Block hooks come from LLVM's own coverage pass. Left to itself, LLVM leaves out a read
/// that a write to the same place follows, and half of every `x += 1` would not be seen.
pub fn instrumented_rustc(selvedge: &Path, dir: &Path) -> io::Result<Vec<OsString>> {
    let linker: PathBuf = dir.join("selvedge-cc");
    if let Err(error) = symlink(selvedge, &linker)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let mut linker_flag = OsString::from("-Clinker=");
    linker_flag.push(linker);
    let words = [
        "env",
        "RUSTC_BOOTSTRAP=1",
        "rustc",
        "--target=x86_64-unknown-linux-gnu",
        "-Zsanitizer=thread",
        "-Zexternal-clangrt",
        "-Cunsafe-allow-abi-mismatch=sanitizer",
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=3",
        "-Cllvm-args=-sanitizer-coverage-trace-pc",
        "-Cllvm-args=-tsan-instrument-read-before-write",
    ];
    Ok(words.into_iter().map(OsString::from).chain([linker_flag]).collect())
}
