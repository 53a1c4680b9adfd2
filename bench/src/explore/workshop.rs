//! Programs made ready: built with the wrapper and natively, surveyed once, their sites armed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge_corpus::{Command, Compiler, Program as Source, Variant, build};
use selvedge_drive::build::{RUST_TARGET, UNLOCK, rust_flags};
use selvedge_drive::controlled::{Prepared, scratch};
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::plan::DEFAULT_MEMORY_LIMIT_MB;
use selvedge_drive::program::Program;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::server::Inputs;
use selvedge_drive::store::Store;
use selvedge_drive::survey::{SurveyRequest, survey};

use crate::error::{Result, at, tool};
use crate::exec::run_tool;

/// Most time for a survey run: a buggy program may hang in it.
const SURVEY_LIMIT: Duration = Duration::from_secs(2);

/// Where programs are built and surveyed.
#[derive(Debug)]
pub struct Workshop {
    wrapped: Compiler,
    native: Compiler,
    store: Store,
    dir: PathBuf,
}

impl Workshop {
    /// Sets up below `work`, with this `selvedge`.
    pub fn open(work: &Path, selvedge: &Path) -> Result<Workshop> {
        let dir = work.join("explore");
        let folder = |name: &str| {
            let path = dir.join(name);
            at("create", &path, fs::create_dir_all(&path)).map(|()| path)
        };
        let out_dir = folder("wrapped")?;
        folder("clips")?;
        folder("run")?;
        // The wrapper links for `rustc` under its compiler name.
        let linker = dir.join("selvedge-cc");
        if linker.symlink_metadata().is_ok() {
            at("remove", &linker, fs::remove_file(&linker))?;
        }
        at("link", &linker, symlink(selvedge, &linker))?;
        let (unlock, value) = UNLOCK;
        let rustc = [format!("{unlock}={value}"), "rustc".to_owned(), format!("--target={RUST_TARGET}")];
        let rustc = rustc.into_iter().map(OsString::from).chain(rust_flags(&linker));
        Ok(Workshop {
            wrapped: Compiler {
                cc: Command::new(selvedge, ["cc"]),
                cxx: Command::new(selvedge, ["c++"]),
                rustc: Command::new("env", rustc),
                out_dir,
            },
            native: Compiler::native(folder("native")?),
            store: tool("open a store", Store::create(&dir.join("store")))?,
            dir,
        })
    }

    /// Where clips that are worth keeping go.
    pub fn clips(&self) -> PathBuf {
        self.dir.join("clips")
    }

    /// Builds a program of the corpus with the wrapper.
    pub fn wrapped(&self, source: &Source<'_>, variant: Variant) -> Result<PathBuf> {
        tool(format!("build {}", source.name), build(source, variant, &self.wrapped))
    }

    /// Builds a program of the corpus natively.
    pub fn native(&self, source: &Source<'_>, variant: Variant) -> Result<PathBuf> {
        tool(format!("build {} natively", source.name), build(source, variant, &self.native))
    }

    /// Builds a C or Rust file with the wrapper, under a name of its own.
    pub fn wrapped_file(&self, file: &Path, name: &str, flags: &[String]) -> Result<PathBuf> {
        let rust = file.extension() == Some(OsStr::new("rs"));
        let (command, usual): (_, &[&str]) = match rust {
            true => (&self.wrapped.rustc, &["-Copt-level=1", "-g", "--edition=2024"]),
            false => (&self.wrapped.cc, &["-O1", "-g", "-pthread"]),
        };
        let executable = self.wrapped.out_dir.join(name);
        run_tool(
            std::process::Command::new(&command.program)
                .args(&command.args)
                .args(usual)
                .args(flags)
                .arg(file)
                .arg("-o")
                .arg(&executable),
        )?;
        Ok(executable)
    }

    /// Surveys a program once and arms its sites; it reads nothing.
    pub fn prepare(&self, executable: &Path, args: &[String]) -> Result<Prepared> {
        let what = || format!("prepare {}", executable.file_name().unwrap_or_default().display());
        let program = tool(what(), Program::find(executable.as_os_str(), OsStr::new("")))?;
        let guest = Guest { program: program.path.clone().into(), args: args.iter().map(OsString::from).collect() };
        let scratch = tool(what(), scratch())?;
        let stdin = scratch.path().join("stdin");
        at("create", &stdin, fs::write(&stdin, []))?;
        let request = SurveyRequest {
            guest: &guest,
            program: &program,
            store: &self.store,
            runs: 1,
            fresh: true,
            timeout: Some(SURVEY_LIMIT),
            memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
            stop: &Stop::default(),
        };
        let surveyed = tool(what(), survey(&request, &mut GuestInput::Reopen(stdin.clone()), &mut |_| {}))?;
        let (images, armed) = surveyed.arm_controlled();
        let ours = |name: &OsString| name.to_string_lossy().starts_with("SELVEDGE_");
        let inputs = Inputs {
            argv: std::iter::once(guest.program).chain(guest.args).collect(),
            program: program.path.clone(),
            dir: self.dir.join("run"),
            env: std::env::vars_os().filter(|(name, _)| !ours(name)).collect(),
            stdin,
        };
        Ok(Prepared { program, inputs, stdin: Vec::new(), images, armed, surveyed, scratch })
    }
}

/// Does something for every item, as many at a time as there are processors, and keeps the order.
pub fn each<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    side_by_side(std::thread::available_parallelism().map_or(1, usize::from), items, act)
}

/// The same, so many at a time.
pub fn side_by_side<T: Sync, R: Send>(workers: usize, items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((number, item)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    items.get(number).map(|item| (number, item))
                } {
                    let result = act(item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(each(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
