//! Instrumented Rust: what is added to the arguments of `rustc` and `rustdoc`.
//!
//! The compiler's own ThreadSanitizer pass sets the hooks, LLVM's coverage pass the block hooks, and our C wrapper is the
//! linker, which brings the runtime in and has the site table written. Left to itself, LLVM leaves out a read that a write
//! to the same place follows, and half of every `x += 1` would not be seen; jump tables would hide branches from the
//! control-flow graph. All of that is a matter of unstable options, so `RUSTC_BOOTSTRAP` must be set for the one compiler
//! that gets them ([`UNLOCK`]).
//!
//! A crate is for the target when Cargo names a target for it: build scripts and procedural macros have none, and stay as
//! they are. The standard library that comes with the toolchain is not instrumented, hence `unsafe-allow-abi-mismatch`;
//! the hooks do not change how functions are called.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The only target that the runtime is made for.
pub const RUST_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The variable and value that unlock the options for one compiler.
pub const UNLOCK: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// What every instrumented crate is compiled with.
pub const RUST_FLAGS: &[&str] = &[
    "-Zsanitizer=thread",
    "-Zexternal-clangrt",
    "-Cunsafe-allow-abi-mismatch=sanitizer",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-trace-pc",
    "-Cllvm-args=-tsan-instrument-read-before-write",
    "-Cjump-tables=no",
];

/// What is added for any crate: the flags, and our wrapper as the linker.
pub fn rust_flags(linker: &Path) -> Vec<OsString> {
    let mut named = OsString::from("-Clinker=");
    named.push(linker);
    RUST_FLAGS.iter().map(OsString::from).chain([named]).collect()
}

/// What is added to a command line that Cargo made, for a crate of the target; `None` if the crate is not.
///
/// Debug information is added where none was asked for (a release build), and what is there is not stripped.
pub(super) fn additions(args: &[OsString], linker: &Path) -> Option<Vec<OsString>> {
    words(args).any(|(name, _)| name == b"--target").then(|| {
        let mut added = rust_flags(linker);
        if codegen(args, "debuginfo").is_none_or(|level| level == "0" || level == "none")
            && !words(args).any(|(name, _)| name == b"-g")
        {
            added.push("-Cdebuginfo=2".into());
        }
        added.push("-Cstrip=none".into());
        added
    })
}

/// The linker that the command line asks for: it goes behind the wrapper.
pub(super) fn chosen_linker(args: &[OsString]) -> Option<&OsStr> {
    codegen(args, "linker")
}

/// The value of the last `-C key=…`.
fn codegen<'a>(args: &'a [OsString], key: &str) -> Option<&'a OsStr> {
    let options = words(args).filter(|(name, _)| matches!(*name, b"-C" | b"--codegen"));
    let values = options.filter_map(|(_, value)| {
        let value = value.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value))
    });
    values.last()
}

/// Options with their values, as far as it matters here: `-C x`, `-Cx`, `--target x`, `--target=x`.
fn words(args: &[OsString]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = args.iter().map(|word| word.as_bytes());
    std::iter::from_fn(move || {
        let word = rest.next()?;
        Some(match word {
            b"-C" | b"--codegen" | b"--target" => (word, rest.next().unwrap_or_default()),
            _ => match (word.strip_prefix(b"-C"), word.iter().position(|byte| *byte == b'=')) {
                (Some(value), _) => (&word[..2], value),
                (None, Some(at)) if word.starts_with(b"--") => (&word[..at], &word[at + 1..]),
                _ => (word, &word[word.len()..]),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn only_crates_with_a_target_are_instrumented() {
        let linker = Path::new("/s/selvedge-cc");
        let cases = [
            ("--crate-name build_script_build build.rs -C opt-level=0", false),
            ("--crate-name x --crate-type proc-macro src/lib.rs", false),
            ("--crate-name x src/lib.rs --target x86_64-unknown-linux-gnu", true),
            ("--crate-name x src/lib.rs --target=x86_64-unknown-linux-gnu", true),
            ("-vV", false),
        ];
        for (text, wanted) in cases {
            let added = additions(&line(text), linker);
            assert_eq!(added.is_some(), wanted, "{text}");
            if let Some(added) = added {
                assert!(added.contains(&"-Clinker=/s/selvedge-cc".into()), "{text}");
            }
        }
    }

    #[test]
    fn debug_information_is_kept_or_added() {
        let adds = |text: &str| {
            let added = additions(&line(text), Path::new("l")).expect("a target");
            assert!(added.contains(&"-Cstrip=none".into()));
            added.contains(&"-Cdebuginfo=2".into())
        };
        assert!(adds("--target t -C opt-level=3 -C strip=debuginfo"));
        assert!(adds("--target t -Cdebuginfo=0"));
        assert!(!adds("--target t -C debuginfo=2"));
        assert!(!adds("--target t -C debuginfo=line-tables-only"));
        assert!(!adds("--target t -g"));
    }

    #[test]
    fn the_last_linker_counts() {
        assert_eq!(chosen_linker(&line("-C linker=clang --target t")), Some(OsStr::new("clang")));
        assert_eq!(chosen_linker(&line("-Clinker=a --codegen linker=b")), Some(OsStr::new("b")));
        assert_eq!(chosen_linker(&line("-C linker-flavor=gcc -o linker=x")), None);
    }
}
