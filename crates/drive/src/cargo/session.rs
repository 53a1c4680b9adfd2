//! A Cargo that compiles through our wrappers.
//!
//! The target is explicit, so Cargo tells us apart what runs while building (no target) from what is built. The target
//! directory is one of our own below the package's, so that ordinary builds stay fresh. A wrapper or a documentation tool that the
//! user had chosen goes behind ours.
//!
//! With the sources of the standard library at hand (`rust-src`), Cargo can build that with instrumentation too
//! ([`StandardLibrary`]); this is unstable in Cargo, so the whole build is then unlocked, build scripts as well.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::launch::{self, Launch, RUNNER};
use crate::build::{Exit, INNER_RUSTDOC, INNER_WRAPPER, RUST_TARGET, place};

/// What unlocks Cargo's own unstable options.
pub(super) const STD_UNLOCK: &str = "RUSTC_BOOTSTRAP";

/// Which standard library programs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardLibrary {
    /// The toolchain's own, as it is.
    Shipped,
    /// Built from its sources with instrumentation.
    Instrumented,
}

/// Why Cargo was not run.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The links to our program could not be made.
    #[error("cannot prepare the compiler wrappers in `{}`; check that it can be written", dir.display())]
    Shims {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no Cargo.
    #[error("cannot start `{}`; install Rust (rustup.rs), or name Cargo in CARGO", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Cargo knows no package here. It said why.
    #[error("Cargo does not know this package: {0}")]
    Metadata(String),
    /// Another machine.
    #[error("`{0}` is not a target that can be instrumented; only {RUST_TARGET} is")]
    Target(String),
    /// There are no sources of the standard library.
    #[error(
        "there are no sources of the standard library in `{}`; add them with `rustup component add rust-src`, or leave \
         --build-std away", sysroot.display()
    )]
    NoSources {
        /// Where the toolchain is.
        sysroot: PathBuf,
    },
    /// What the runner wrote cannot be read.
    #[error("cannot read how Cargo starts its programs")]
    Launches(#[source] io::Error),
}

impl SessionError {
    /// The exit code for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::Metadata(_) => 101,
            Self::Target(_) | Self::NoSources { .. } => 2,
            Self::Shims { .. } | Self::Launches(_) => 70,
        }
    }
}

/// Cargo with our wrappers, for one package.
#[derive(Debug, Clone)]
pub struct Session {
    cargo: OsString,
    shims: PathBuf,
    target_dir: PathBuf,
    /// The user's own wrapper.
    wrapper: Option<OsString>,
    standard_library: StandardLibrary,
}

/// The part of Cargo's metadata that matters here.
#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

impl Session {
    /// Makes ready to build what Cargo's `options` choose. `executable` is our own program, which `shims` gets links to.
    ///
    /// # Errors
    /// If there is no Cargo or no package, if the target is another machine, or if there are no sources for the standard
    /// library that is wanted.
    pub fn new(
        executable: &Path,
        shims: &Path,
        options: &[OsString],
        standard_library: StandardLibrary,
    ) -> Result<Session, SessionError> {
        if let Some(target) = value_of(options, &["--target"])
            && target != RUST_TARGET
        {
            return Err(SessionError::Target(target.to_string_lossy().into_owned()));
        }
        let links = ["selvedge-cc", "selvedge-rustc", "selvedge-rustdoc", RUNNER];
        std::fs::create_dir_all(shims)
            .and_then(|()| links.iter().try_for_each(|name| place(&shims.join(name), executable)))
            .map_err(|source| SessionError::Shims { dir: shims.to_owned(), source })?;
        let cargo = set("CARGO").unwrap_or("cargo".into());
        let manifest = value_of(options, &["--manifest-path"]);
        let chosen = value_of(options, &["--target-dir"]).map(PathBuf::from);
        let parent = match chosen {
            Some(dir) => std::path::absolute(&dir).unwrap_or(dir),
            None => metadata(&cargo, manifest)?.target_directory,
        };
        if standard_library == StandardLibrary::Instrumented {
            find_sources()?;
        }
        // One directory for each standard library: they would push each other out.
        let name = match standard_library {
            StandardLibrary::Shipped => "selvedge",
            StandardLibrary::Instrumented => "selvedge-std",
        };
        let wrapper = set("RUSTC_WRAPPER").or_else(|| configured_wrapper(&cargo));
        Ok(Session { cargo, shims: shims.to_owned(), target_dir: parent.join(name), wrapper, standard_library })
    }

    /// Cargo, for a subcommand with the user's own words after it.
    pub fn command(&self, subcommand: &[&str], words: &[OsString]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(subcommand).arg("--target").arg(RUST_TARGET).arg("--target-dir").arg(&self.target_dir);
        if self.standard_library == StandardLibrary::Instrumented {
            command.arg("-Zbuild-std").env(STD_UNLOCK, "1");
        }
        command.args(without(words, &["--target", "--target-dir"]));
        command.env("RUSTC_WRAPPER", self.shims.join("selvedge-rustc"));
        match &self.wrapper {
            Some(wrapper) => command.env(INNER_WRAPPER, wrapper),
            None => command.env_remove(INNER_WRAPPER),
        };
        if let Some(rustdoc) = set("RUSTDOC") {
            command.env(INNER_RUSTDOC, rustdoc);
        }
        command.env("RUSTDOC", self.shims.join("selvedge-rustdoc"));
        command
    }

    /// Has Cargo build programs or tests, and says how it would start them.
    ///
    /// # Errors
    /// If Cargo cannot be started, or what was noted cannot be read. A build that failed is no error here: Cargo has said so.
    pub fn launches(&self, subcommand: &str, words: &[OsString]) -> Result<Result<Vec<Launch>, Exit>, SessionError> {
        let dir = tempfile::tempdir().map_err(SessionError::Launches)?;
        let file = dir.path().join("launches");
        let mut command = self.command(&[subcommand], words);
        let path = std::env::split_paths(&set("PATH").unwrap_or_default()).collect::<Vec<_>>();
        let path = std::env::join_paths(std::iter::once(self.shims.clone()).chain(path));
        let path = path.map_err(|error| SessionError::Launches(io::Error::other(error)))?;
        command.env("PATH", path).env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", RUNNER).env(launch::FILE, &file);
        // Results are ours to print.
        command.stdout(Stdio::null());
        let status = self.run(command)?;
        if status != Exit::Code(0) {
            return Ok(Err(status));
        }
        launch::noted(&file).map(Ok).map_err(SessionError::Launches)
    }

    /// Runs Cargo to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, mut command: Command) -> Result<Exit, SessionError> {
        match command.status() {
            Ok(status) => Ok(status.into()),
            Err(source) => Err(SessionError::Start { program: self.cargo.clone(), source }),
        }
    }

    /// Where instrumented programs are built.
    pub fn target_dir(&self) -> &Path {
        &self.target_dir
    }
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn metadata(cargo: &OsStr, manifest: Option<&OsStr>) -> Result<Metadata, SessionError> {
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = command.output().map_err(|source| SessionError::Start { program: cargo.to_owned(), source })?;
    let said = || {
        let text = String::from_utf8_lossy(&output.stderr);
        SessionError::Metadata(text.trim().trim_start_matches("error: ").to_owned())
    };
    if !output.status.success() {
        return Err(said());
    }
    serde_json::from_slice(&output.stdout).map_err(|_| said())
}

/// The wrapper that Cargo's configuration names. Cargo tells its configuration only when unlocked.
fn configured_wrapper(cargo: &OsStr) -> Option<OsString> {
    let mut command = Command::new(cargo);
    command.args(["-Zunstable-options", "config", "get", "--format", "json-value", "build.rustc-wrapper"]);
    let output = command.env(STD_UNLOCK, "1").stderr(Stdio::null()).output().ok()?;
    let value: String = serde_json::from_slice(&output.stdout).ok()?;
    (output.status.success() && !value.is_empty()).then(|| value.into())
}

fn find_sources() -> Result<(), SessionError> {
    let rustc = set("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(&rustc).args(["--print", "sysroot"]).output();
    let output = output.map_err(|source| SessionError::Start { program: rustc, source })?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let there = sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file();
    if there { Ok(()) } else { Err(SessionError::NoSources { sysroot }) }
}

/// The value of the last of these options that stands before `--`.
fn value_of<'a>(words: &'a [OsString], names: &[&str]) -> Option<&'a OsStr> {
    let mut found = None;
    let mut rest = words.iter().take_while(|word| *word != "--");
    while let Some(word) = rest.next() {
        if names.iter().any(|name| word == name) {
            found = rest.next().map(OsString::as_os_str);
        } else if let Some((name, value)) = word.to_str().and_then(|text| text.split_once('='))
            && names.contains(&name)
        {
            found = Some(OsStr::new(value));
        }
    }
    found
}

/// The words without these options, which have a value; what follows `--` is left alone.
fn without(words: &[OsString], names: &[&str]) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (before, after) = words.split_at(end);
    let mut kept = Vec::new();
    let mut rest = before.iter();
    while let Some(word) = rest.next() {
        if names.iter().any(|name| word == name) {
            rest.next();
        } else if !names.iter().any(|name| word.to_string_lossy().starts_with(&format!("{name}="))) {
            kept.push(word.clone());
        }
    }
    kept.extend_from_slice(after);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_are_found_before_the_dashes() {
        let value = |text: &str| value_of(&line(text), &["--target-dir"]).map(|v| v.to_string_lossy().into_owned());
        assert_eq!(value("-p x --target-dir a").as_deref(), Some("a"));
        assert_eq!(value("--target-dir=a --target-dir b").as_deref(), Some("b"));
        assert_eq!(value("-p x -- --target-dir a"), None);
    }

    #[test]
    fn options_are_taken_out_before_the_dashes() {
        let without = |text: &str| without(&line(text), &["--target"]).join(OsStr::new(" "));
        assert_eq!(without("--target t -p x"), "-p x");
        assert_eq!(without("-p x --target=t -- --target t"), "-p x -- --target t");
    }
}
