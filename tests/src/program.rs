//! A test program on disk: its folder, name, language and directives.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::directives::{DirectiveError, Directives};

/// A folder of `programs/`; the folder is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Legal programs that do what breaks tools.
    Hostile,
    /// Correct, ordinary programs.
    Clean,
    /// Programs with a data race at the lines marked `//~ race`.
    Race,
    /// Programs that check what synchronisation promises, for runs under control.
    Controlled,
    /// Programs that end in a deadlock under control, in every schedule or in some.
    Deadlock,
}

impl Folder {
    /// All folders.
    pub const ALL: [Folder; 5] = [Folder::Hostile, Folder::Clean, Folder::Race, Folder::Controlled, Folder::Deadlock];

    /// The folder's name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Folder::Hostile => "hostile",
            Folder::Clean => "clean",
            Folder::Race => "race",
            Folder::Controlled => "controlled",
            Folder::Deadlock => "deadlock",
        }
    }
}

/// One test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Folder and file, as `hostile/fork_busy.c`; how reports and `known_gaps.tsv` name it.
    pub name: String,
    /// The source file.
    pub source: PathBuf,
    /// What the source says about itself.
    pub directives: Directives,
}

/// A program that cannot be read.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// The file or folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A directive is wrong.
    #[error("{path}: {source}")]
    Directive {
        /// The program's source.
        path: PathBuf,
        /// What is wrong.
        source: DirectiveError,
    },
}

impl Program {
    /// Reads the program in `source`, which lies in `folder`.
    pub fn read(folder: Folder, source: PathBuf) -> Result<Program, ProgramError> {
        let text =
            fs::read_to_string(&source).map_err(|error| ProgramError::Read { path: source.clone(), source: error })?;
        let directives = Directives::parse(&text)
            .map_err(|error| ProgramError::Directive { path: source.clone(), source: error })?;
        let file = source.file_name().unwrap_or_default().to_string_lossy();
        Ok(Program { name: format!("{}/{file}", folder.name()), directives, source })
    }

    /// All programs of a folder, by name. Companion libraries (`lib_*`) and headers are none.
    pub fn all_in(folder: Folder) -> Result<Vec<Program>, ProgramError> {
        let dir = programs_dir().join(folder.name());
        let unreadable = |error| ProgramError::Read { path: dir.clone(), source: error };
        let mut sources = Vec::new();
        for entry in fs::read_dir(&dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if is_program(&path) {
                sources.push(path);
            }
        }
        sources.sort();
        let programs = sources.into_iter();
        programs.map(|path| Program::read(folder, path)).collect()
    }

    /// Whether the program is built by Cargo and not by a C or C++ compiler.
    pub fn is_rust(&self) -> bool {
        self.directives.rust || self.has_extension("rs")
    }

    /// Whether the program is C++.
    pub fn is_cxx(&self) -> bool {
        self.has_extension("cpp")
    }

    /// The file name without its extension: the name of the executable.
    pub fn stem(&self) -> String {
        let stem = self.source.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// The source of a companion library.
    pub fn companion(&self, file: &str) -> PathBuf {
        self.source.with_file_name(file)
    }

    fn has_extension(&self, extension: &str) -> bool {
        self.source.extension().is_some_and(|e| e == extension)
    }
}

/// Where the programs lie.
pub fn programs_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

fn is_program(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["c", "cpp", "rs"].contains(&extension.as_ref()) && !name.starts_with("lib_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_headers_are_no_programs() {
        assert!(is_program(Path::new("hostile/fork_busy.c")));
        assert!(is_program(Path::new("clean/pool.rs")));
        assert!(!is_program(Path::new("hostile/lib_counter.c")));
        assert!(!is_program(Path::new("hostile/check.h")));
    }
}
