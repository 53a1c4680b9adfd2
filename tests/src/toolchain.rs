//! Compilers: the native ones, and whatever wraps them.
//!
//! A toolchain is a value: the words that stand for `cc` and `c++`, whose wrapper builds Rust programs, and the
//! environment to call them in. Both sides of a comparison get the same flags from here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::directives::Need;
use crate::program::Program;
use crate::rust::instrumented_rustc;

/// Flags for every C and C++ program, on both sides. Allocations are no builtins: a compiler would
/// else drop those whose block nobody reads, which are there to be made.
const FLAGS: [&str; 4] = ["-O1", "-g", "-pthread", "-fno-builtin-malloc"];

/// A set of compilers.
#[derive(Clone, Debug)]
pub struct Toolchain {
    cc: Vec<OsString>,
    cxx: Vec<OsString>,
    wrapper: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
}

/// A program made ready to run.
#[derive(Clone, Debug)]
pub struct Built {
    /// The executable.
    pub executable: PathBuf,
    /// The companion libraries, which are the program's arguments.
    pub companions: Vec<PathBuf>,
}

impl Built {
    /// The command line: executable, then companions.
    pub fn command(&self) -> Vec<OsString> {
        let words = std::iter::once(&self.executable).chain(&self.companions);
        words.map(|path| path.clone().into_os_string()).collect()
    }
}

/// A program that cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A need is not met: the program is to be skipped.
    #[error("needs {0:?}: {remedy}", remedy = .0.remedy())]
    Missing(Need),
    /// A file cannot be written or a compiler cannot be started.
    #[error("cannot use {what}: {source}")]
    Io {
        /// The file or the compiler.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The compiler refused.
    #[error("{command}\n{diagnostics}")]
    Compiler {
        /// The command line.
        command: String,
        /// What the compiler said.
        diagnostics: String,
    },
    /// Cargo built something, but named no executable.
    #[error("cargo named no executable:\n{0}")]
    NoExecutable(String),
}

impl Toolchain {
    /// The platform's own compilers.
    pub fn native() -> Toolchain {
        Toolchain::of("cc", "c++")
    }

    /// A C compiler and its C++ twin, called natively.
    pub fn of(cc: impl Into<OsString>, cxx: impl Into<OsString>) -> Toolchain {
        Toolchain { cc: vec![cc.into()], cxx: vec![cxx.into()], wrapper: None, env: Vec::new() }
    }

    /// The same compilers with extra flags in front, as `-fsanitize=thread`.
    pub fn with_flags(mut self, flags: &[&str]) -> Toolchain {
        self.cc.extend(flags.iter().map(OsString::from));
        self.cxx.extend(flags.iter().map(OsString::from));
        self
    }

    /// These compilers behind the wrapper: `selvedge cc`, `selvedge c++`, and `rustc` with the wrapper as its linker.
    pub fn wrapped_by(&self, selvedge: &Path) -> Toolchain {
        let wrapper = |language: &str| vec![selvedge.into(), language.into()];
        let first = |words: &[OsString]| words.first().cloned().unwrap_or_default();
        Toolchain {
            cc: wrapper("cc"),
            cxx: wrapper("c++"),
            wrapper: Some(selvedge.to_owned()),
            env: vec![("SELVEDGE_CC".into(), first(&self.cc)), ("SELVEDGE_CXX".into(), first(&self.cxx))],
        }
    }

    /// Builds a program and its companions into `dir`.
    pub fn build(&self, program: &Program, dir: &Path) -> Result<Built, BuildError> {
        fs::create_dir_all(dir).map_err(io(dir))?;
        for need in &program.directives.needs {
            self.probe(*need, dir)?;
        }
        if program.is_rust() {
            return self.build_rust(program, dir);
        }
        let mut companions = Vec::new();
        for file in &program.directives.companions {
            let source = program.companion(file);
            let library = dir.join(file).with_extension("so");
            self.compile(&source, &library, &["-fPIC", "-shared"], &[])?;
            companions.push(library);
        }
        let mut flags = program.directives.flags.clone();
        for file in &program.directives.plain {
            let library = dir.join(file).with_extension("plain.so");
            Toolchain::native().compile(&program.companion(file), &library, &["-fPIC", "-shared"], &[])?;
            flags.push(library.to_string_lossy().into_owned());
        }
        let executable = dir.join(program.stem());
        self.compile(&program.source, &executable, &[], &flags)?;
        Ok(Built { executable, companions })
    }

    /// Whether an empty program builds with what the need asks for.
    fn probe(&self, need: Need, dir: &Path) -> Result<(), BuildError> {
        let source = dir.join("probe.c");
        fs::write(&source, "int main(void) { return 0; }\n").map_err(io(&source))?;
        let flags: Vec<String> = need.probe_flags().iter().map(|f| (*f).to_owned()).collect();
        match self.compile(&source, &dir.join("probe"), &[], &flags) {
            Err(BuildError::Compiler { .. }) => Err(BuildError::Missing(need)),
            other => other,
        }
    }

    fn compile(&self, source: &Path, output: &Path, before: &[&str], after: &[String]) -> Result<(), BuildError> {
        let is_cxx = source.extension().is_some_and(|e| e == "cpp");
        let mut command = self.command(if is_cxx { &self.cxx } else { &self.cc });
        command.args(FLAGS).args(before).arg(source).arg("-o").arg(output).args(after);
        finish(command).map(drop)
    }

    /// By `rustc` with the wrapper as its linker; natively by Cargo, with a package around the one file.
    fn build_rust(&self, program: &Program, dir: &Path) -> Result<Built, BuildError> {
        if let Some(wrapper) = &self.wrapper {
            let executable = dir.join(program.stem());
            let words = instrumented_rustc(wrapper, dir).map_err(io(dir))?;
            let mut command = self.command(&words);
            command.args(["--edition=2024", "-g", "-O"]).arg(&program.source).arg("-o").arg(&executable);
            finish(command)?;
            return Ok(Built { executable, companions: Vec::new() });
        }
        let name = program.stem().replace('_', "-");
        let source = dir.join("src");
        fs::create_dir_all(&source).map_err(io(&source))?;
        let main = source.join("main.rs");
        fs::copy(&program.source, &main).map_err(io(&main))?;
        let manifest = dir.join("Cargo.toml");
        let text = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [profile.release]\ndebug = true\n\n[workspace]\n"
        );
        fs::write(&manifest, text).map_err(io(&manifest))?;
        let mut command = self.command(&["cargo".into()]);
        command.args(["build", "--release", "--offline", "--quiet"]).arg("--message-format=json").current_dir(dir);
        // The package is nobody's member: what the test's own build set must not reach it.
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(name);
        }
        let messages = finish(command)?;
        let executable = executable_in(&messages).map(PathBuf::from);
        Ok(Built { executable: executable.ok_or(BuildError::NoExecutable(messages))?, companions: Vec::new() })
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut words = words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new("cc"), |w| w));
        command.args(words).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The newest clang on the path, with its C++ twin; plain `clang` is preferred.
pub fn find_clang() -> Option<(String, String)> {
    let versions = (14..=30).rev().map(|version| format!("-{version}"));
    versions
        .chain(std::iter::once(String::new()))
        .map(|suffix| (format!("clang{suffix}"), format!("clang++{suffix}")))
        .find(|(cc, cxx)| answers(cc) && answers(cxx))
}

fn answers(compiler: &str) -> bool {
    let mut command = Command::new(compiler);
    command.arg("--version").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a compiler; its standard output, or what it complained of.
fn finish(mut command: Command) -> Result<String, BuildError> {
    let line = format!("{command:?}");
    let output = command.output().map_err(|source| BuildError::Io { what: line.clone(), source })?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(BuildError::Compiler { command: line, diagnostics: format!("{stderr}{stdout}") })
}

/// The last executable that Cargo's JSON messages name.
fn executable_in(messages: &str) -> Option<&str> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    Some(rest.split_once('"')?.0)
}

fn io(what: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let what = what.display().to_string();
    move |source| BuildError::Io { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_in_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/a/b/prog","fresh":false}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable_in(messages), Some("/a/b/prog"));
        assert_eq!(executable_in("{}"), None);
    }

    #[test]
    fn a_wrapper_is_told_which_compilers_to_use() {
        let wrapped = Toolchain::of("clang", "clang++").wrapped_by(Path::new("/bin/selvedge"));
        assert_eq!(wrapped.cc, ["/bin/selvedge", "cc"]);
        assert_eq!(wrapped.cxx, ["/bin/selvedge", "c++"]);
        assert_eq!(wrapped.wrapper, Some("/bin/selvedge".into()));
        let cc = ("SELVEDGE_CC".into(), "clang".into());
        let cxx = ("SELVEDGE_CXX".into(), "clang++".into());
        assert_eq!(wrapped.env, [cc, cxx]);
    }
}
