//! Which compiler is behind the wrapper, and what it is.
//!
//! The compiler is `$SELVEDGE_CC` or `$SELVEDGE_CXX` (split as a shell would), else `cc` or `c++`; a shim named after
//! a compiler stands for the compiler of that name. A search of `PATH` passes over ourselves, under whatever name; a
//! compiler named outright that turns out to be us is an error, because it would run for ever.
//!
//! Launchers (`ccache gcc`) and their masquerade (a `gcc` that is a link to ccache) become `ccache /path/of/gcc`, so that the
//! launcher does not search `PATH` and find us. Its identity is asked once per compiler file and kept in the cache directory.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::plan::{CompilerId, Family};

/// Which front end is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driver {
    /// `selvedge cc`.
    C,
    /// `selvedge c++`.
    Cxx,
    /// A shim that bears a compiler's own name, such as `gcc` or `clang++-19`.
    Named(OsString),
}

impl Driver {
    /// The front end that a program name stands for: `selvedge-cc`, `selvedge-c++`, or a compiler's name.
    /// `None` if the name is something else, such as `selvedge` itself.
    pub fn from_program_name(argv0: &OsStr) -> Option<Self> {
        let name = Path::new(argv0).file_name()?;
        match name.to_str()? {
            "selvedge-cc" => Some(Self::C),
            "selvedge-c++" => Some(Self::Cxx),
            text if is_compiler_name(text) => Some(Self::Named(name.to_owned())),
            _ => None,
        }
    }
}

/// The plain names of compilers we wrap.
pub(super) const COMPILER_NAMES: &[&str] = &["cc", "gcc", "c++", "g++", "clang", "clang++"];

/// `gcc`, `gcc-12`, `x86_64-linux-gnu-g++-12`, `clang++-19` …
pub(super) fn is_compiler_name(name: &str) -> bool {
    let name =
        name.strip_prefix("x86_64-linux-gnu-").or_else(|| name.strip_prefix("x86_64-pc-linux-gnu-")).unwrap_or(name);
    let plain = match name.rsplit_once('-') {
        Some((plain, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
            plain
        }
        _ => name,
    };
    COMPILER_NAMES.contains(&plain)
}

/// What the wrapper takes from its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `SELVEDGE_CC`.
    pub cc: Option<OsString>,
    /// `SELVEDGE_CXX`.
    pub cxx: Option<OsString>,
    /// `PATH`.
    pub path: OsString,
    /// `SELVEDGE_SHIMS`: the directory that `selvedge build` put at the front of `PATH`.
    pub shims: Option<PathBuf>,
    /// `SELVEDGE_COMPILE_COMMANDS`: where each compilation is to be noted.
    pub compile_commands: Option<PathBuf>,
    /// `SELVEDGE_BODIES`: how many bodies functions get.
    pub bodies: Bodies,
}

/// How many bodies the functions of C and C++ files get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bodies {
    /// Two where that can be had, else one.
    #[default]
    Two,
    /// The same, and it is said why a file has one.
    TwoSaid,
    /// One, with hooks.
    One,
}

impl Environment {
    /// Reads it from this process. Empty variables count as unset.
    pub fn from_process() -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            cc: var("SELVEDGE_CC"),
            cxx: var("SELVEDGE_CXX"),
            path: var("PATH").unwrap_or_default(),
            shims: var("SELVEDGE_SHIMS").map(PathBuf::from),
            compile_commands: var("SELVEDGE_COMPILE_COMMANDS").map(PathBuf::from),
            bodies: match var("SELVEDGE_BODIES").as_deref().and_then(OsStr::to_str) {
                Some("one") => Bodies::One,
                Some("why") => Bodies::TwoSaid,
                _ => Bodies::Two,
            },
        }
    }

    /// `PATH` without the shims.
    pub fn path_without_shims(&self) -> OsString {
        let Some(shims) = &self.shims else {
            return self.path.clone();
        };
        let kept = std::env::split_paths(&self.path).filter(|dir| dir != shims);
        std::env::join_paths(kept).unwrap_or_else(|_| self.path.clone())
    }
}

/// Why no compiler could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum FindCompilerError {
    /// The compiler's name leads nowhere.
    #[error(
        "no compiler named `{}` on PATH; install one, or name another in {variable}", name.display()
    )]
    NotFound {
        /// The name searched for.
        name: OsString,
        /// The variable that overrides it.
        variable: &'static str,
    },
    /// The compiler named is this wrapper.
    #[error(
        "the compiler `{}` is selvedge itself, which would call itself for ever; \
         name a real compiler in {variable}", path.display()
    )]
    Ourselves {
        /// The file that is us.
        path: PathBuf,
        /// The variable that names the compiler.
        variable: &'static str,
    },
    /// The variable's value has an unclosed quote.
    #[error("{variable} is not a command: a quote is left open in `{}`; close it", value.display())]
    Quote {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: OsString,
    },
}

/// Why a compiler could not be identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// It could not be started.
    #[error("cannot start the compiler `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is not one we know.
    #[error(
        "`{}` is neither gcc nor clang (it does not list their macros for `-dM -E`); \
         name one of them in SELVEDGE_CC or SELVEDGE_CXX", program.display()
    )]
    Unknown {
        /// The program.
        program: PathBuf,
    },
}

/// A compiler as a command: a launcher perhaps, the compiler's path, perhaps fixed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The words; the first is a path.
    words: Vec<OsString>,
    /// The index of the compiler itself among them.
    compiler: usize,
}

impl Compiler {
    /// Finds the compiler for `driver`. `own` is the running executable, which is never chosen.
    ///
    /// # Errors
    /// If there is none, if it is `own`, or if the variable that names it cannot be split.
    pub fn find(driver: &Driver, env: &Environment, own: &Path) -> Result<Self, FindCompilerError> {
        let (variable, value, default) = match driver {
            Driver::C => ("SELVEDGE_CC", env.cc.as_ref(), OsStr::new("cc")),
            Driver::Cxx => ("SELVEDGE_CXX", env.cxx.as_ref(), OsStr::new("c++")),
            Driver::Named(name) => ("SELVEDGE_CC", None, name.as_os_str()),
        };
        let search = Search { path: env.path_without_shims(), own: fs::metadata(own).ok(), variable };
        let words = match value {
            Some(value) => split_command(value, variable)?,
            None => vec![default.to_owned()],
        };
        search.resolve(words)
    }

    /// The command's words: program first.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// The compiler itself, without a launcher before it.
    fn itself(&self) -> &[OsString] {
        &self.words[self.compiler..]
    }

    /// Says which compiler this is, from the cache if its files have not changed. A cache that cannot be
    /// written costs time, nothing else.
    ///
    /// # Errors
    /// If the compiler does not start or is neither gcc nor clang.
    pub fn identify(&self, cache_dir: &Path) -> Result<CompilerId, IdentifyError> {
        let key = self.cache_key();
        let file = cache_dir.join(format!("compiler-{:016x}", fnv1a(&key)));
        if let Some(id) = fs::read(&file).ok().and_then(|text| parse_cached(&text, &key)) {
            return Ok(id);
        }
        let id = self.ask()?;
        let mut text = cached_head(id).into_bytes();
        text.extend_from_slice(&key);
        // Losing the race for the cache, or having none, is harmless.
        drop(write_whole(&file, &text));
        Ok(id)
    }

    /// Everything that identity depends on: the words, and each named file's path, time and size.
    fn cache_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for word in self.itself() {
            key.extend_from_slice(word.as_bytes());
            if let Ok(meta) = fs::metadata(word) {
                let stamp = (meta.mtime(), meta.mtime_nsec(), meta.size(), meta.ino());
                key.extend_from_slice(format!(" {stamp:?}").as_bytes());
            }
            key.push(b'\n');
        }
        key
    }

    fn ask(&self) -> Result<CompilerId, IdentifyError> {
        let itself = self.itself();
        let program = PathBuf::from(&itself[0]);
        let output = Command::new(&program)
            .args(&itself[1..])
            .args(["-dM", "-E", "-x", "c", "/dev/null"])
            .stdin(Stdio::null())
            .output();
        match output {
            Ok(output) => identity_from_macros(&output.stdout).ok_or(IdentifyError::Unknown { program }),
            Err(source) => Err(IdentifyError::Start { program, source }),
        }
    }
}

/// Programs that run the compiler named after them.
const LAUNCHERS: &[&str] = &["ccache", "sccache", "distcc", "icecc"];

fn is_launcher(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| LAUNCHERS.contains(&name))
}

/// Splits a variable's value. A value that is a file's path as a whole needs no quotes, even with spaces in it.
fn split_command(value: &OsStr, variable: &'static str) -> Result<Vec<OsString>, FindCompilerError> {
    if value.as_bytes().contains(&b'/') && Path::new(value).is_file() {
        return Ok(vec![value.to_owned()]);
    }
    match shlex::bytes::split(value.as_bytes()) {
        Some(words) if !words.is_empty() => Ok(words.into_iter().map(OsString::from_vec).collect()),
        _ => Err(FindCompilerError::Quote { variable, value: value.to_owned() }),
    }
}

/// One search for a compiler.
struct Search {
    path: OsString,
    own: Option<Metadata>,
    variable: &'static str,
}

impl Search {
    fn resolve(&self, mut words: Vec<OsString>) -> Result<Compiler, FindCompilerError> {
        let program = self.program(&words[0], |_| true)?;
        let target = fs::canonicalize(&program).unwrap_or_else(|_| program.clone());
        if is_launcher(&program) && words.len() > 1 {
            let compiler = self.program(&words[1], |_| true)?;
            words[0] = program.into();
            words[1] = compiler.into();
            return Ok(Compiler { words, compiler: 1 });
        }
        if !is_launcher(&program) && is_launcher(&target) {
            let name = program.file_name().unwrap_or_default().to_owned();
            let compiler = self.program(&name, |path| !fs::canonicalize(path).is_ok_and(|path| is_launcher(&path)))?;
            words[0] = compiler.into();
            words.insert(0, target.into());
            return Ok(Compiler { words, compiler: 1 });
        }
        words[0] = program.into();
        Ok(Compiler { words, compiler: 0 })
    }

    /// The file that `name` stands for. A name with a slash stands for itself; another is searched on `PATH`.
    fn program(&self, name: &OsStr, fits: impl Fn(&Path) -> bool) -> Result<PathBuf, FindCompilerError> {
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            if self.is_own(&path) {
                let variable = self.variable;
                return Err(FindCompilerError::Ourselves { path, variable });
            }
            return Ok(path);
        }
        let mut own = None;
        for dir in std::env::split_paths(&self.path) {
            let path = dir.join(name);
            if !is_executable(&path) || !fits(&path) {
                continue;
            }
            if self.is_own(&path) {
                own.get_or_insert(path);
                continue;
            }
            return Ok(path);
        }
        let variable = self.variable;
        Err(match own {
            Some(path) => FindCompilerError::Ourselves { path, variable },
            None => FindCompilerError::NotFound { name: name.to_owned(), variable },
        })
    }

    fn is_own(&self, path: &Path) -> bool {
        match (&self.own, fs::metadata(path)) {
            (Some(own), Ok(other)) => own.dev() == other.dev() && own.ino() == other.ino(),
            _ => false,
        }
    }
}

/// Whether a file can be run by somebody.
pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// Reads family and version off the predefined macros. clang defines gcc's macros too, so it is asked first; other compilers that
/// imitate gcc give themselves away by macros of their own.
fn identity_from_macros(text: &[u8]) -> Option<CompilerId> {
    let text = String::from_utf8_lossy(text);
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (macro_name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
            (macro_name == name).then_some(value)
        })
    };
    let number = |name| value(name)?.parse().ok();
    if ["__INTEL_COMPILER", "__TINYC__", "__NVCOMPILER", "__chibicc__"].iter().any(|name| value(name).is_some()) {
        return None;
    }
    if let Some(major) = number("__clang_major__") {
        let family = Family::Clang;
        return Some(CompilerId { family, major });
    }
    let family = Family::Gcc;
    number("__GNUC__").map(|major| CompilerId { family, major })
}

fn cached_head(id: CompilerId) -> String {
    let family = match id.family {
        Family::Gcc => "gcc",
        Family::Clang => "clang",
    };
    format!("selvedge compiler 1 {family} {}\n", id.major)
}

fn parse_cached(text: &[u8], key: &[u8]) -> Option<CompilerId> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = text.split_at(end + 1);
    if rest != key {
        return None;
    }
    let head = std::str::from_utf8(head).ok()?.trim_end();
    let (family, major) = head.strip_prefix("selvedge compiler 1 ")?.split_once(' ')?;
    let family = match family {
        "gcc" => Family::Gcc,
        "clang" => Family::Clang,
        _ => return None,
    };
    let major = major.parse().ok()?;
    Some(CompilerId { family, major })
}

/// Writes a file so that no reader sees half of it.
pub(super) fn write_whole(file: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = fs::File::create(&temporary)
        .and_then(|mut out| out.write_all(content))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written
}

/// FNV-1a: names cache files. The full key is inside, so a collision costs a new question, not a wrong answer.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
