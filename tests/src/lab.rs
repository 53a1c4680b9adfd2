//! One situation: a scratch directory, the tool under test, bounded runs.
//!
//! What goes wrong in here is a failed test, so methods panic with what they know.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::Ending;
use crate::program::{Folder, Program, programs_dir};
use crate::run::{Outcome, Run};
use crate::selvedge_bin::find_selvedge;
use crate::toolchain::Toolchain;
use crate::trace_json::Trace;

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A place to try something; removed at the end, kept after a failure.
#[derive(Debug)]
pub struct Lab {
    dir: Option<TempDir>,
    path: PathBuf,
    selvedge: PathBuf,
    runs: AtomicU32,
}

impl Default for Lab {
    fn default() -> Lab {
        Lab::new()
    }
}

impl Lab {
    /// A fresh directory, and the tool; it is built once for all labs of a test binary.
    pub fn new() -> Lab {
        static SELVEDGE: OnceLock<PathBuf> = OnceLock::new();
        let selvedge = SELVEDGE.get_or_init(|| find_selvedge().unwrap_or_else(|error| panic!("{error}")));
        let dir = tempfile::Builder::new().prefix("selvedge-lab-").tempdir().expect("a temporary directory");
        // Resolved, because that is how programs are named in traces.
        let path = dir.path().canonicalize().expect("it is there");
        Lab { dir: Some(dir), path, selvedge: selvedge.clone(), runs: AtomicU32::new(0) }
    }

    /// The tool under test.
    pub fn selvedge(&self) -> &Path {
        &self.selvedge
    }

    /// A path in the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// A program of `programs/`, as `clean/bank_transfer.c`.
    pub fn program(&self, name: &str) -> Program {
        let folder = Folder::ALL.into_iter().find(|folder| name.starts_with(folder.name()));
        let folder = folder.unwrap_or_else(|| panic!("{name} is in no folder of programs"));
        Program::read(folder, programs_dir().join(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds a C or C++ program natively.
    pub fn native(&self, name: &str) -> PathBuf {
        self.build(&Toolchain::native(), name, "native")
    }

    /// Builds a C or C++ program with the wrapper.
    pub fn wrapped(&self, name: &str) -> PathBuf {
        self.build(&Toolchain::native().wrapped_by(&self.selvedge), name, "wrapped")
    }

    fn build(&self, toolchain: &Toolchain, name: &str, dir: &str) -> PathBuf {
        let built = toolchain.build(&self.program(name), &self.path(dir));
        built.unwrap_or_else(|error| panic!("{name}: {error}")).executable
    }

    /// Runs a command to its end, in a fresh directory.
    pub fn run<W: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = W>) -> Outcome {
        self.run_with(command, &[])
    }

    /// As [`Lab::run`], with variables added to the environment.
    pub fn run_with<W: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = W>, env: &[(&str, &Path)]) -> Outcome {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut words: Vec<OsString> = command.into_iter().map(|word| word.as_ref().to_owned()).collect();
        if !env.is_empty() {
            // Through env(1), since values need not be text.
            let mut before = vec![OsString::from("env")];
            before.extend(env.iter().map(|(name, value)| {
                let mut pair = OsString::from(format!("{name}="));
                pair.push(value);
                pair
            }));
            words.splice(0..0, before);
        }
        let run = Run { command: words, env: Vec::new(), dir: self.path(format!("run-{number}")), timeout: LIMIT };
        run.execute().unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
    }

    /// Runs a shell script in the lab's folder, with the tool as `$S`; it must end with this code.
    pub fn sh(&self, code: i32, script: &str) -> Outcome {
        let dir = self.path("");
        let script = format!("cd \"$D\"; {script}");
        let done = self.run_with(["sh", "-c", &script], &[("S", self.selvedge()), ("D", &dir)]);
        assert_eq!(done.ending, Ending::Exit(code), "{script}\n{}{}", done.stdout, done.stderr);
        done
    }

    /// Runs the tool.
    pub fn tool<W: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = W>) -> Outcome {
        let args = args.into_iter().map(|word| word.as_ref().to_owned());
        self.run(std::iter::once(self.selvedge.clone().into_os_string()).chain(args))
    }

    /// Records one run of a command into the store `out` below the directory.
    pub fn record<W: AsRef<OsStr>>(&self, out: impl AsRef<Path>, guest: impl IntoIterator<Item = W>) -> Outcome {
        let mut words: Vec<OsString> = ["record", "--timeout", "20s", "--out"].map(OsString::from).to_vec();
        words.push(self.path(out).into_os_string());
        words.push("--".into());
        words.extend(guest.into_iter().map(|word| word.as_ref().to_owned()));
        self.tool(words)
    }

    /// Reads the latest run of a store below the directory; it must have one process.
    pub fn latest(&self, out: impl AsRef<Path>) -> Trace {
        let args =
            [OsStr::new("trace"), "--json".as_ref(), "--out".as_ref(), self.path(out).as_os_str()].map(OsStr::to_owned);
        self.only_trace(&self.tool(args))
    }

    /// Reads one trace file; it must be readable.
    pub fn trace_file(&self, file: &Path) -> Trace {
        let args = [OsStr::new("trace"), "--json".as_ref(), file.as_os_str()].map(OsStr::to_owned);
        self.only_trace(&self.tool(args))
    }

    fn only_trace(&self, outcome: &Outcome) -> Trace {
        let mut traces = Trace::parse(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        assert_eq!(traces.len(), 1, "one process: {} {}", outcome.ending, outcome.stderr);
        traces.remove(0)
    }

    /// The trace files of a run of a store below the directory.
    pub fn trace_files(&self, out: impl AsRef<Path>, run: u32) -> Vec<PathBuf> {
        let dir = self.path(out).join("runs").join(format!("{run:04}"));
        let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trace."))).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            let kept = dir.keep();
            eprintln!("kept: {}; open a run in it with `selvedge trace --out STORE`", kept.display());
        }
    }
}
