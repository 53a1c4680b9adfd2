//! `selvedge build -- CMD`: a whole build with our compilers in place of its own.
//!
//! `CC` and `CXX` name shims called `selvedge-cc` and `selvedge-c++`; build systems that hard-code a compiler's name meet a
//! shim of that name at the front of `PATH`. All shims are links to the CLI, which tells them apart by the name it
//! is called by. The directory outlives the build, because CMake and configure keep the compiler's path. Only compilers that exist
//! get a shim, so a search for `clang` still fails where there is none. `LD` stays as it is.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::compiler::{COMPILER_NAMES, Driver, Environment, is_compiler_name, is_executable};
use super::wrapper::Exit;

/// A build to run.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// The CLI, which the shims link to.
    pub executable: &'a Path,
    /// Where the shims are put: a directory of our own that stays after the build.
    pub shim_dir: &'a Path,
    /// A `compile_commands.json` to keep up to date.
    pub compile_commands: Option<&'a Path>,
}

/// Why the build was not run.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no command.
    #[error("no build command given; put it after `--`, as in `selvedge build -- make`")]
    NoCommand,
    /// The shims could not be made.
    #[error("cannot prepare the compiler shims in `{}`; check that it can be written", dir.display())]
    Shims {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The shim directory cannot be part of `PATH`.
    #[error("cannot put `{}` on PATH, because its name holds a colon; use another directory", dir.display())]
    Path {
        /// The directory.
        dir: PathBuf,
    },
    /// The command could not be started.
    #[error("cannot start the build command `{}`; check its name and PATH", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl BuildError {
    /// The exit code for it, as shells have it: 127 if the command is not there, 126 if it does not start, 2 if we are misused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::NoCommand | Self::Path { .. } => 2,
            Self::Shims { .. } => 70,
        }
    }
}

impl Build<'_> {
    /// Makes the shims and runs the command; its exit is the build's.
    ///
    /// # Errors
    /// If the shims cannot be made or the command cannot be started.
    pub fn run(self, environment: &Environment) -> Result<Exit, BuildError> {
        let Some((program, args)) = self.command.split_first() else {
            return Err(BuildError::NoCommand);
        };
        let dir = self.prepare(environment)?;
        let mut command = Command::new(program);
        command.args(args);
        for (name, value) in self.variables(environment, &dir)? {
            command.env(name, value);
        }
        // Nothing is left to do afterwards, so the command takes our place.
        let source = command.exec();
        Err(BuildError::Start { program: program.clone(), source })
    }

    /// What the build's environment gets on top of ours.
    fn variables(&self, environment: &Environment, dir: &Path) -> Result<Vec<(&'static str, OsString)>, BuildError> {
        let rest = std::env::split_paths(&environment.path).filter(|entry| entry != dir);
        let path = std::env::join_paths(std::iter::once(dir.to_owned()).chain(rest));
        let path = path.map_err(|_| BuildError::Path { dir: dir.to_owned() })?;
        let mut variables = vec![
            ("CC", word_for(dir, "selvedge-cc")),
            ("CXX", word_for(dir, "selvedge-c++")),
            ("PATH", path),
            ("SELVEDGE_SHIMS", dir.as_os_str().to_owned()),
        ];
        // A compiler the user had chosen stays chosen, behind the wrapper.
        for (ours, theirs, set) in [("SELVEDGE_CC", "CC", &environment.cc), ("SELVEDGE_CXX", "CXX", &environment.cxx)] {
            let chosen = std::env::var_os(theirs).filter(|value| !value.is_empty());
            match chosen {
                Some(value) if set.is_none() && !names_wrapper(&value) => {
                    variables.push((ours, value));
                }
                _ => {}
            }
        }
        if let Some(file) = self.compile_commands {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            variables.push(("SELVEDGE_COMPILE_COMMANDS", file.into()));
        }
        Ok(variables)
    }

    /// Brings the shim directory up to date and gives its absolute path.
    fn prepare(&self, environment: &Environment) -> Result<PathBuf, BuildError> {
        let fill = || {
            fs::create_dir_all(self.shim_dir)?;
            let dir = fs::canonicalize(self.shim_dir)?;
            let target = fs::canonicalize(self.executable)?;
            let wanted = shim_names(&environment.path, &dir);
            for entry in fs::read_dir(&dir)? {
                let name = entry?.file_name();
                let stale = name.to_str().is_some_and(is_compiler_name) && !wanted.contains(&name);
                if stale {
                    remove(&dir.join(name))?;
                }
            }
            for name in &wanted {
                place(&dir.join(name), &target)?;
            }
            Ok(dir)
        };
        fill().map_err(|source| BuildError::Shims { dir: self.shim_dir.to_owned(), source })
    }
}

/// How `CC` names a shim: by its path, which a build system may keep, unless that is more than one word to a shell or to
/// make. Then the name has to do; it is on `PATH`.
fn word_for(dir: &Path, name: &str) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if dir.as_os_str().as_bytes().iter().all(plain) { dir.join(name).into() } else { name.into() }
}

/// Our own two, and every compiler on `PATH` outside `dir`.
fn shim_names(path: &OsStr, dir: &Path) -> BTreeSet<OsString> {
    let mut names: BTreeSet<OsString> = ["selvedge-cc", "selvedge-c++"].map(OsString::from).into();
    for place in std::env::split_paths(path).filter(|place| place != dir) {
        // A directory that cannot be listed can still hold the plain names.
        names.extend(COMPILER_NAMES.iter().filter(|name| is_executable(&place.join(name))).map(OsString::from));
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(is_compiler_name) && is_executable(&place.join(&name)) {
                names.insert(name);
            }
        }
    }
    names
}

/// Makes `link` point to `target`, without a moment in which it does not exist.
pub(crate) fn place(link: &Path, target: &Path) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let mut name = link.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    symlink(target, &temporary)?;
    fs::rename(&temporary, link)
}

/// Another build may have removed it first.
fn remove(link: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn names_wrapper(value: &OsStr) -> bool {
    matches!(Driver::from_program_name(value), Some(Driver::C | Driver::Cxx))
}
