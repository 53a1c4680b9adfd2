//! Manifests: typed, strict, and checked against the folder they describe.
//!
//! A folder with a `bug.toml` is a kernel, one with a `correct.toml` is a correct program, every other folder
//! is ignored. Unknown keys are errors: a misspelt key must not silently mean "default". The guilty lines are
//! named twice, in the manifest and by a marker in the source, and both must agree exactly.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// What a guilty line ends with in `buggy.*`.
pub const GUILTY_MARKER: &str = "//~ guilty";

/// Smallest and largest number of threads of a kernel, the main thread included.
const THREADS: std::ops::RangeInclusive<u32> = 2..=4;

/// Why the corpus could not be loaded. Every variant names the file.
#[derive(Debug, Error)]
pub enum LoadCorpusError {
    /// A file or folder could not be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A manifest is no valid TOML or does not fit the schema.
    #[error("{path}: not a valid manifest: {source}")]
    Parse {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A manifest is well formed but does not fit its folder.
    #[error("{path}: {reason}")]
    Invalid {
        /// The manifest.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

/// All programs, each list sorted by name.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Programs with a bug, and their fixed twins.
    pub kernels: Vec<Kernel>,
    /// Programs without a bug.
    pub correct: Vec<Correct>,
}

/// One kernel: `bug.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The folder; not part of the manifest.
    #[serde(skip)]
    pub dir: PathBuf,
    /// Name of the folder.
    pub name: String,
    /// One line for humans.
    pub title: String,
    /// Language of both variants.
    pub language: Language,
    /// Kind of bug.
    pub pattern: Pattern,
    /// Accesses or operations that make it up, in the notation of the corpus README.
    pub shape: String,
    /// How a failing run shows.
    pub harm: Harm,
    /// Whether it has a data race: two threads access a variable at once, one of them writes, and not all of these accesses are atomic.
    #[serde(default)]
    pub races: bool,
    /// Papers in whose evaluation the bug or its pattern occurs.
    pub papers: Vec<Paper>,
    /// Command-line arguments.
    pub args: Vec<String>,
    /// A run that takes longer hangs.
    pub timeout_ms: u64,
    /// Number of threads, the main thread included.
    pub threads: u32,
    /// Variables and locks that the bug is about.
    pub variables: Vec<String>,
    /// Where the bug comes from.
    pub origin: Origin,
    /// Lines that take part in the bug.
    pub guilty: Vec<Guilty>,
    /// Compiler flags beyond the usual ones.
    #[serde(default)]
    pub flags: Flags,
}

/// One correct program: `correct.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correct {
    /// The folder; not part of the manifest.
    #[serde(skip)]
    pub dir: PathBuf,
    /// Name of the folder.
    pub name: String,
    /// One line for humans.
    pub title: String,
    /// Language of the program.
    pub language: Language,
    /// Command-line arguments.
    pub args: Vec<String>,
    /// A run that takes longer hangs.
    pub timeout_ms: u64,
    /// Largest number of threads at one time, the main thread included.
    pub threads: u32,
    /// Kinds of synchronisation that it uses.
    pub primitives: Vec<String>,
    /// Compiler flags beyond the usual ones.
    #[serde(default)]
    pub flags: Flags,
}

/// Where a kernel's bug comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The program that had it, or `synthetic`.
    pub project: String,
    /// Number in the project's bug database or name in a paper's table.
    pub bug: Option<String>,
    /// Paper and table row, or the public description.
    pub source: String,
}

/// One line that takes part in the bug.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guilty {
    /// Source file in the kernel's folder.
    pub file: String,
    /// Line, counted from one.
    pub line: u32,
    /// Function that holds the line.
    pub function: String,
    /// What the line does.
    pub access: Access,
    /// Its part in the bug.
    pub role: String,
}

/// Compiler flags beyond the usual ones.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    /// Appended to the command line.
    #[serde(default)]
    pub extra: Vec<String>,
}

/// Declares an enum of words with one spelling for TOML and for display.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
        }
    };
}

words! {
    /// Source language.
    Language {
        /// C11 with GNU extensions.
        C = "c",
        /// C++17.
        Cxx = "c++",
        /// Rust, one file, standard library only.
        Rust = "rust",
    }
}

words! {
    /// Kind of bug; the words are those of findings.
    Pattern {
        /// Conflicting accesses that nothing orders.
        DataRace = "data-race",
        /// Accesses to one variable that should be one step.
        AtomicityViolation = "atomicity-violation",
        /// Accesses to several variables that should be one step.
        AtomicSetViolation = "atomic-set-violation",
        /// Accesses in an order that nothing enforces.
        OrderViolation = "order-violation",
        /// Threads that wait for each other.
        Deadlock = "deadlock",
        /// A signal that nobody waited for yet.
        LostWakeup = "lost-wakeup",
    }
}

words! {
    /// How a failing run shows.
    Harm {
        /// The program aborts itself: assertion, uncaught exception, `abort`.
        Assertion = "assertion",
        /// The program is killed by a memory fault.
        Crash = "crash",
        /// The program does not end.
        Hang = "hang",
        /// The program notices a wrong result and exits with code 1.
        WrongExit = "wrong-exit",
    }
}

words! {
    /// Paper, by the short name that the design uses.
    Paper {
        /// Prediction of access anomalies from one trace.
        Predict = "predict",
        /// Detection and healing of races at run time.
        Detect = "detect",
        /// Communication graphs and ranking.
        Rank = "rank",
        /// Anticipating invariants.
        Guard = "guard",
        /// Enforced pairwise atomicity.
        Enforce = "enforce",
    }
}

words! {
    /// What a guilty line does.
    Access {
        /// Reads the variable.
        Read = "read",
        /// Writes the variable.
        Write = "write",
        /// Takes a lock.
        Lock = "lock",
        /// Waits for a condition or a thread.
        Wait = "wait",
        /// Signals a condition.
        Signal = "signal",
    }
}

impl Language {
    /// File name extension of its sources.
    pub fn extension(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cpp",
            Self::Rust => "rs",
        }
    }
}

/// What building and running need to know, of a kernel or of a correct program.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Name of the folder.
    pub name: &'a str,
    /// The folder.
    pub dir: &'a Path,
    /// Language of the sources.
    pub language: Language,
    /// Compiler flags beyond the usual ones.
    pub extra_flags: &'a [String],
    /// Command-line arguments.
    pub args: &'a [String],
    /// A run that takes longer hangs.
    pub timeout: Duration,
}

impl Kernel {
    /// The part that building and running need.
    pub fn program(&self) -> Program<'_> {
        Program {
            name: &self.name,
            dir: &self.dir,
            language: self.language,
            extra_flags: &self.flags.extra,
            args: &self.args,
            timeout: Duration::from_millis(self.timeout_ms),
        }
    }

    /// Name of the file that holds the bug.
    pub fn buggy_file(&self) -> String {
        format!("buggy.{}", self.language.extension())
    }

    /// Lines of `text` that carry the marker, counted from one.
    pub fn marked_lines(text: &str) -> BTreeSet<u32> {
        (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.trim_end().ends_with(GUILTY_MARKER))
            .map(|(number, _)| number)
            .collect()
    }

    fn check(&self, path: &Path) -> Result<(), LoadCorpusError> {
        let invalid = |reason: String| LoadCorpusError::Invalid { path: path.to_owned(), reason };
        check_common(path, &self.dir, &self.name, self.timeout_ms)?;
        if !THREADS.contains(&self.threads) {
            return Err(invalid(format!("a kernel has 2 to 4 threads, not {}", self.threads)));
        }
        if self.variables.is_empty() || self.guilty.is_empty() {
            return Err(invalid("no variable or no guilty line".to_owned()));
        }
        let buggy = self.buggy_file();
        if let Some(other) = self.guilty.iter().find(|guilty| guilty.file != buggy) {
            return Err(invalid(format!("guilty file is {}, expected {buggy}", other.file)));
        }
        let fixed = format!("fixed.{}", self.language.extension());
        if !Self::marked_lines(&read(&self.dir.join(fixed))?).is_empty() {
            return Err(invalid("the fixed twin has guilty lines".to_owned()));
        }
        let text = read(&self.dir.join(&buggy))?;
        let marked = Self::marked_lines(&text);
        let listed: BTreeSet<u32> = self.guilty.iter().map(|guilty| guilty.line).collect();
        if marked != listed {
            return Err(invalid(format!("guilty lines are {listed:?} here and {marked:?} in {buggy}")));
        }
        match self.guilty.iter().find(|guilty| !text.contains(&guilty.function)) {
            Some(guilty) => Err(invalid(format!("there is no function {} in {buggy}", guilty.function))),
            None => Ok(()),
        }
    }
}

impl Correct {
    /// The part that building and running need.
    pub fn program(&self) -> Program<'_> {
        Program {
            name: &self.name,
            dir: &self.dir,
            language: self.language,
            extra_flags: &self.flags.extra,
            args: &self.args,
            timeout: Duration::from_millis(self.timeout_ms),
        }
    }

    fn check(&self, path: &Path) -> Result<(), LoadCorpusError> {
        check_common(path, &self.dir, &self.name, self.timeout_ms)?;
        let reason = if self.threads < 2 {
            "a program with one thread proves nothing"
        } else if self.primitives.is_empty() {
            "no primitive is named"
        } else {
            return read(&self.dir.join(format!("correct.{}", self.language.extension()))).map(drop);
        };
        Err(LoadCorpusError::Invalid { path: path.to_owned(), reason: reason.to_owned() })
    }
}

/// Loads every manifest under `root` and checks it against its folder.
pub fn load(root: &Path) -> Result<Corpus, LoadCorpusError> {
    let read_error = |source| LoadCorpusError::Read { path: root.to_owned(), source };
    let mut dirs = Vec::new();
    for entry in fs::read_dir(root).map_err(read_error)? {
        dirs.push(entry.map_err(read_error)?.path());
    }
    dirs.sort();

    let mut corpus = Corpus { kernels: Vec::new(), correct: Vec::new() };
    for dir in dirs {
        let (bug, correct) = (dir.join("bug.toml"), dir.join("correct.toml"));
        if bug.is_file() {
            let kernel = Kernel { dir, ..parse(&bug)? };
            kernel.check(&bug)?;
            corpus.kernels.push(kernel);
        } else if correct.is_file() {
            let program = Correct { dir, ..parse(&correct)? };
            program.check(&correct)?;
            corpus.correct.push(program);
        }
    }
    Ok(corpus)
}

fn check_common(path: &Path, dir: &Path, name: &str, timeout_ms: u64) -> Result<(), LoadCorpusError> {
    let reason = if dir.file_name().is_none_or(|folder| folder != name) {
        format!("name is {name}, which is not the folder's")
    } else if timeout_ms == 0 {
        "timeout is zero".to_owned()
    } else {
        return Ok(());
    };
    Err(LoadCorpusError::Invalid { path: path.to_owned(), reason })
}

fn read(path: &Path) -> Result<String, LoadCorpusError> {
    fs::read_to_string(path).map_err(|source| LoadCorpusError::Read { path: path.to_owned(), source })
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, LoadCorpusError> {
    toml::from_str(&read(path)?)
        .map_err(|source| LoadCorpusError::Parse { path: path.to_owned(), source: Box::new(source) })
}
