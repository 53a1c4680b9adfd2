//! The columns: with what a program is built, and how the built program is started.
//!
//! This is the only module of `overhead` that knows the `selvedge` command. What it assumes:
//!
//! - `selvedge cc ARGS`, `selvedge c++ ARGS`: drop-in compilers over `$SELVEDGE_CC`, `$SELVEDGE_CXX`;
//! - `selvedge record --survey-only --plan-only FILE --out DIR -- PROG`: writes to FILE a plan whose run surveys into DIR;
//! - `selvedge record --plan-only FILE --out DIR -- PROG`: the same for a recorded run, armed by the surveys in DIR;
//! - `SELVEDGE_PLAN=FILE PROG ARGS`: one run under the plan, without the command in between;
//! - `selvedge profile DIR/direct --out FILE`, `selvedge enforce FILE --plan FILE --out DIR -- PROG`: a profile of recorded runs, and the
//!   plan of a run with its locks;
//! - a DIR that holds surveys can be copied, and several surveys in one DIR add up;
//! - `selvedge trace --json --summary DIR/direct`: a line for each process, with numeric `events` and `bytes`.
//!
//! The plans of controlled runs and of graphs come from the library ([`controlled`]): the command has none to start by hand.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::enforce::kernel::Placed;
use crate::enforce::programs::Locked;
use crate::error::{BenchError, Result, at};
use crate::exec::run_tool;
use crate::guard::cost::Guarded;
use crate::rank::programs::GraphSize;
use crate::rows::Sample;
use crate::{apt, controlled, place};

/// The compiler under a column; bars are per compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compiler {
    /// The machine's `gcc`.
    Gcc,
    /// `clang-19`.
    Clang,
}

impl Compiler {
    /// The C and C++ commands.
    pub fn commands(self) -> (&'static str, &'static str) {
        match self {
            Compiler::Gcc => ("gcc", "g++"),
            Compiler::Clang => ("clang-19", "clang++-19"),
        }
    }
}

/// How a program is compiled and linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Build {
    /// The plain compiler.
    Native(Compiler),
    /// `selvedge cc` over the compiler.
    Wrapped(Compiler),
    /// The compiler's own ThreadSanitizer.
    Tsan(Compiler),
}

impl Build {
    /// The compiler underneath.
    pub fn compiler(self) -> Compiler {
        match self {
            Build::Native(c) | Build::Wrapped(c) | Build::Tsan(c) => c,
        }
    }

    /// A name for folders.
    pub fn name(self) -> String {
        let (cc, _) = self.compiler().commands();
        match self {
            Build::Native(_) => format!("native-{cc}"),
            Build::Wrapped(_) => format!("selvedge-{cc}"),
            Build::Tsan(_) => format!("tsan-{cc}"),
        }
    }
}

/// How a built program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As it is.
    Plain,
    /// Under a plan that surveys.
    Survey,
    /// Under a plan that records, armed by an earlier survey.
    Record,
    /// Under a plan that collects a communication graph, armed likewise.
    Graph,
    /// Under a plan by which a guard learns, armed likewise.
    Learn,
    /// Guarded by what earlier runs taught, without what is too hot.
    Guard,
    /// Guarded, every shared access.
    GuardAll,
    /// With locks around the pairs that were atomic in an earlier, recorded run.
    Enforce,
    /// Under a plan by which the random strategy says who runs, armed likewise.
    Controlled,
    /// Under Helgrind.
    Helgrind,
    /// Under a plan that detects within this budget, armed likewise.
    Detect(&'static str),
}

impl Mode {
    /// Whether runs are armed by an earlier survey.
    pub fn is_armed(self) -> bool {
        match self {
            Mode::Plain | Mode::Survey | Mode::Helgrind => false,
            Mode::Record
            | Mode::Graph
            | Mode::Learn
            | Mode::Guard
            | Mode::GuardAll
            | Mode::Enforce
            | Mode::Controlled
            | Mode::Detect(_) => true,
        }
    }
}

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The name in raw results and bars.
    pub key: &'static str,
    /// The name in the table.
    pub title: &'static str,
    /// How the program is built.
    pub build: Build,
    /// How it is started.
    pub mode: Mode,
}

impl Column {
    /// The column that this one's slow-down is relative to.
    pub fn baseline(self) -> &'static str {
        match self.build.compiler() {
            Compiler::Gcc => "native",
            Compiler::Clang => "native-clang",
        }
    }
}

const fn column(key: &'static str, title: &'static str, build: Build, mode: Mode) -> Column {
    Column { key, title, build, mode }
}

/// All columns, in the order of the table.
pub const COLUMNS: &[Column] = {
    use Build::{Native, Tsan, Wrapped};
    use Compiler::{Clang, Gcc};
    &[
        column("native", "native", Native(Gcc), Mode::Plain),
        column("disarmed", "disarmed", Wrapped(Gcc), Mode::Plain),
        column("survey", "survey", Wrapped(Gcc), Mode::Survey),
        column("record", "record", Wrapped(Gcc), Mode::Record),
        column("graph", "graph", Wrapped(Gcc), Mode::Graph),
        column("guard", "guard", Wrapped(Gcc), Mode::Guard),
        column("guard-all", "guard, all", Wrapped(Gcc), Mode::GuardAll),
        column("enforce", "enforce", Wrapped(Gcc), Mode::Enforce),
        column("controlled", "controlled", Wrapped(Gcc), Mode::Controlled),
        column("tsan", "gcc TSan", Tsan(Gcc), Mode::Plain),
        column("native-clang", "native, clang", Native(Clang), Mode::Plain),
        column("disarmed-clang", "disarmed, clang", Wrapped(Clang), Mode::Plain),
        column("record-clang", "record, clang", Wrapped(Clang), Mode::Record),
        column("tsan-clang", "clang TSan", Tsan(Clang), Mode::Plain),
        column("helgrind", "Helgrind", Native(Gcc), Mode::Helgrind),
    ]
};

/// A compiler command with what must be added to every compilation and every link.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The C command, as words.
    pub cc: Vec<String>,
    /// The C++ command, as words.
    pub cxx: Vec<String>,
    /// Compile flags.
    pub cflags: Vec<&'static str>,
    /// Link flags.
    pub ldflags: Vec<&'static str>,
    /// Environment of every compilation and link.
    pub env: Vec<(&'static str, &'static str)>,
}

impl Toolchain {
    /// The wrapper over a compiler.
    pub fn wrapped(selvedge: &Path, compiler: Compiler) -> Toolchain {
        let (cc, cxx) = compiler.commands();
        let words = |language: &str| vec![selvedge.display().to_string(), language.to_owned()];
        Toolchain {
            cc: words("cc"),
            cxx: words("c++"),
            cflags: vec!["-O2", "-g"],
            ldflags: Vec::new(),
            env: vec![("SELVEDGE_CC", cc), ("SELVEDGE_CXX", cxx)],
        }
    }

    /// A command that runs `words` with this tool chain's environment.
    pub fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(self.env.iter().copied());
        command
    }
}

/// Finds, builds or installs what the columns need, and remembers what could not be had.
#[derive(Debug)]
pub struct Tools {
    selvedge: std::result::Result<PathBuf, String>,
    clang: std::result::Result<(), String>,
    valgrind: std::result::Result<(), String>,
    gcc: std::result::Result<(), String>,
}

impl Tools {
    /// Looks for every tool once.
    pub fn find() -> Self {
        let said = |result: Result<()>| result.map_err(|e| e.brief());
        Tools {
            selvedge: place::selvedge().map_err(|e| e.brief()),
            clang: said(clang()),
            valgrind: said(valgrind()),
            gcc: said(apt::ensure_tool("g++", &["gcc", "g++"])),
        }
    }

    /// The `selvedge` binary.
    pub fn selvedge(&self) -> std::result::Result<&Path, String> {
        self.selvedge.as_deref().map_err(Clone::clone)
    }

    /// Whether Valgrind is there.
    pub fn valgrind(&self) -> std::result::Result<(), String> {
        self.valgrind.clone()
    }

    /// Why a column cannot be measured on this machine, when it cannot.
    pub fn unavailable(&self, column: Column) -> Option<String> {
        let mut needs = vec![match column.build.compiler() {
            Compiler::Gcc => self.gcc.as_ref().err(),
            Compiler::Clang => self.clang.as_ref().err(),
        }];
        if matches!(column.build, Build::Wrapped(_)) {
            needs.push(self.selvedge.as_ref().err());
        }
        if column.mode == Mode::Helgrind {
            needs.push(self.valgrind.as_ref().err());
        }
        needs.into_iter().flatten().next().cloned()
    }

    /// The tool chain of a build.
    pub fn toolchain(&self, build: Build) -> Result<Toolchain> {
        let (cc, cxx) = build.compiler().commands();
        let words = |word: &str| vec![word.to_owned()];
        let mut chain = Toolchain {
            cc: words(cc),
            cxx: words(cxx),
            cflags: vec!["-O2", "-g"],
            ldflags: Vec::new(),
            env: Vec::new(),
        };
        match build {
            Build::Native(_) => {}
            Build::Tsan(_) => {
                chain.cflags.push("-fsanitize=thread");
                chain.ldflags.push("-fsanitize=thread");
            }
            Build::Wrapped(compiler) => {
                let selvedge =
                    self.selvedge().map_err(|why| BenchError::Missing { tool: "selvedge".to_owned(), why })?;
                chain = Toolchain::wrapped(selvedge, compiler);
            }
        }
        Ok(chain)
    }
}

fn clang() -> Result<()> {
    let packages = ["clang-19", "libclang-rt-19-dev"];
    apt::ensure_tool("clang++-19", &packages)?;
    // The compiler may be there without its sanitizer runtimes.
    let runtime = run_tool(Command::new("clang-19").arg("-print-file-name=libclang_rt.tsan.a"))?;
    let alternative = run_tool(Command::new("clang-19").arg("-print-file-name=libclang_rt.tsan-x86_64.a"))?;
    if [runtime, alternative].iter().any(|p| Path::new(p.trim()).is_file()) {
        return Ok(());
    }
    apt::install("the ThreadSanitizer runtime of clang-19", &packages)
}

/// Valgrind needs the debug symbols of the C library's loader.
fn valgrind() -> Result<()> {
    apt::ensure_tool("valgrind", &["valgrind", "libc6-dbg"])
}

/// Most small runs that a guard learns from, before those of full size.
pub const SMALL_LESSONS: usize = 60;

/// Seconds after which no further lesson of either size begins: a program that learns may be very slow.
pub const LESSON_SECONDS: u64 = 60;

/// Small recorded runs that a profile is made of.
pub const PROFILED: usize = 5;

/// Most runs of full size that it learns from then.
pub const WHOLE_LESSONS: usize = 6;

/// In the folder of what was learnt: processor time in nanoseconds that the runs it was learnt from take by themselves, and
/// that of one of full size.
pub const OWN_TIME: &str = "own-time";

/// What a recorded run left behind.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Trace {
    /// Recorded events; `None` when the command could not tell.
    pub events: Option<u64>,
    /// Bytes of the trace, as the command counts them; else the growth of the folder.
    pub bytes: u64,
}

/// Starts one program in one column, as often as it is asked to.
#[derive(Debug)]
pub struct Runner {
    mode: Mode,
    tsan: bool,
    selvedge: Option<PathBuf>,
    /// Where runs are kept; made anew by [`Runner::begin`].
    out: PathBuf,
    /// A folder that holds surveys, copied for each recorded run.
    surveyed: Option<PathBuf>,
    surveyed_bytes: u64,
    plans: u32,
    /// What was placed for the plan with locks.
    placed: Option<Placed>,
}

impl Runner {
    /// A runner for a column that keeps its runs below `dir`.
    pub fn new(column: Column, tools: &Tools, dir: &Path) -> Self {
        Runner {
            mode: column.mode,
            tsan: matches!(column.build, Build::Tsan(_)),
            selvedge: tools.selvedge().ok().map(Path::to_owned),
            out: dir.join("out"),
            surveyed: None,
            surveyed_bytes: 0,
            plans: 0,
            placed: None,
        }
    }

    /// The folder that the runs' files go to.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Whether runs leave a trace.
    pub fn records(&self) -> bool {
        self.mode == Mode::Record
    }

    /// Whether runs are armed by an earlier survey.
    pub fn is_armed(&self) -> bool {
        self.mode.is_armed()
    }

    /// Whether runs are controlled.
    pub fn controls(&self) -> bool {
        self.mode == Mode::Controlled
    }

    /// Runs `job` once under a survey and keeps the result for the runs that follow.
    pub fn survey<T>(&mut self, mut job: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let mode = std::mem::replace(&mut self.mode, Mode::Survey);
        let result = self.begin().and_then(|()| job(self));
        self.mode = mode;
        let result = result?;
        let kept = self.out.with_file_name("surveyed");
        remove(&kept)?;
        at("move", &self.out, fs::rename(&self.out, &kept))?;
        self.surveyed_bytes = folder_bytes(&kept);
        self.surveyed = Some(kept);
        Ok(result)
    }

    /// Whether runs go by what earlier ones taught.
    pub fn learns(&self) -> bool {
        matches!(self.mode, Mode::Guard | Mode::GuardAll | Mode::Enforce)
    }

    /// Runs `job` so that a guard learns from it, or a profile, and keeps that for the runs that follow. It is told whether the run
    /// is to be one of the size that is measured.
    pub fn train(&mut self, mut job: impl FnMut(&mut Self, bool) -> Result<Sample>) -> Result<()> {
        // Orders that only a large input has would stall the guarded runs.
        let (learning, runs, whole) = if self.mode == Mode::Enforce {
            (Mode::Record, PROFILED, 0)
        } else {
            (Mode::Learn, SMALL_LESSONS, WHOLE_LESSONS)
        };
        let mode = std::mem::replace(&mut self.mode, learning);
        let result = self.begin().and_then(|()| {
            let small = lessons(runs, || job(self, false))?;
            Ok([(false, small), (true, lessons(whole, || job(self, true))?)])
        });
        // How long these runs take by themselves says what a guard may cost.
        self.mode = Mode::Plain;
        let own = result.and_then(|made| {
            made.into_iter().filter(|(_, made)| *made > 0).try_fold((0.0, 0.0), |(sum, last), (whole, made)| {
                let one = job(self, whole)?.processor;
                Ok((sum + one * made as f64, if whole { one } else { last }))
            })
        });
        self.mode = mode;
        let (all, whole) = own?;
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let file = self.out.join(OWN_TIME);
        at("write", &file, fs::write(&file, format!("{} {}", nanos(all), nanos(whole))))?;
        if mode == Mode::Enforce {
            let recorded = self.out.join("direct");
            run_tool(
                Command::new(self.selvedge_path()?).arg("profile").arg(&recorded).arg("--out").arg(self.profile()),
            )?;
            remove(&recorded)?;
        }
        let kept = self.out.with_file_name("surveyed");
        remove(&kept)?;
        at("move", &self.out, fs::rename(&self.out, &kept))?;
        self.surveyed_bytes = folder_bytes(&kept);
        self.surveyed = Some(kept);
        Ok(())
    }

    /// Goes by what the runner of another column, of the same build, was taught.
    pub fn adopt(&mut self, other: &Runner) -> Result<()> {
        let Some(taught) = &other.surveyed else { return Ok(()) };
        let kept = self.out.with_file_name("surveyed");
        remove(&kept)?;
        copy_folder(taught, &kept)?;
        self.surveyed_bytes = other.surveyed_bytes;
        self.surveyed = Some(kept);
        Ok(())
    }

    /// Whether what another runner was taught serves this one: both guard.
    pub fn is_taught_as(&self, other: &Runner) -> bool {
        let guards = |runner: &Runner| matches!(runner.mode, Mode::Guard | Mode::GuardAll);
        guards(self) && guards(other)
    }

    /// Where the profile is.
    pub fn profile(&self) -> PathBuf {
        self.out.join("bench.profile")
    }

    /// Prepares a fresh place for the next run.
    pub fn begin(&mut self) -> Result<()> {
        remove(&self.out)?;
        match (&self.surveyed, self.mode) {
            (
                Some(surveyed),
                Mode::Record
                | Mode::Graph
                | Mode::Controlled
                | Mode::Learn
                | Mode::Guard
                | Mode::GuardAll
                | Mode::Enforce
                | Mode::Detect(_),
            ) => copy_folder(surveyed, &self.out),
            _ => at("create", &self.out, fs::create_dir_all(&self.out)),
        }
    }

    /// The command that starts `program`; `prefix` goes before it (a simulator, say).
    pub fn command(&mut self, prefix: &[&str], program: &Path, args: &[String]) -> Result<Command> {
        let mut words: Vec<String> = prefix.iter().map(|&w| w.to_owned()).collect();
        let mut plan = None;
        match self.mode {
            Mode::Plain if self.tsan && wide_layout() => {
                words.extend(["setarch".to_owned(), "-R".to_owned()]);
            }
            Mode::Plain => {}
            Mode::Survey => plan = Some(self.plan(&["--survey-only"], program)?),
            Mode::Record => plan = Some(self.plan(&[], program)?),
            Mode::Graph => plan = Some(self.library_plan(controlled::GRAPH_ARGUMENT, program)?),
            Mode::Learn => plan = Some(self.kept_plan("learn", controlled::LEARN_ARGUMENT, program)?),
            Mode::Guard => plan = Some(self.kept_plan("guard", controlled::GUARD_ARGUMENT, program)?),
            Mode::GuardAll => plan = Some(self.kept_plan("guard", controlled::GUARD_ALL_ARGUMENT, program)?),
            Mode::Enforce => plan = Some(self.enforce_plan(program)?),
            Mode::Controlled => plan = Some(self.library_plan(controlled::ARGUMENT, program)?),
            Mode::Detect(budget) => {
                // As runs of one command have it: what is left to chance differs from run to run.
                let seed = (self.plans + 1).to_string();
                let words = ["detect", "--overhead", budget, "--seed", &seed, "--plan-only"];
                plan = Some(self.plan_of(&words, program)?)
            }
            Mode::Helgrind => {
                // Valgrind keeps 12 descriptors for itself and refuses any change of the hard limit; with this one, a server
                // that asks for the usual 1024 asks for what it has.
                words.extend(["prlimit", "--nofile=1036:1036"].map(str::to_owned));
                words.extend(["valgrind", "--tool=helgrind", "-q"].map(str::to_owned));
            }
        }
        words.push(program.display().to_string());
        words.extend_from_slice(args);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env_remove("SELVEDGE_PLAN");
        if let Some(plan) = plan {
            command.env("SELVEDGE_PLAN", plan);
        }
        if self.tsan {
            // In its favour: it looks for races but spends no time on wording them.
            command.env("TSAN_OPTIONS", "report_bugs=0:exitcode=0");
        }
        Ok(command)
    }

    /// What locks did in the runs since [`Runner::begin`].
    pub fn enforced(&self) -> Option<Locked> {
        let locked = (self.mode == Mode::Enforce).then(|| Locked::of_run(&self.out, &self.profile()))??;
        Some(Locked { placed: self.placed.clone(), ..locked })
    }

    /// What the guard did in the runs since [`Runner::begin`].
    pub fn guarded(&self) -> Option<Guarded> {
        if matches!(self.mode, Mode::Guard | Mode::GuardAll) { Guarded::of_run(&self.out) } else { None }
    }

    /// How large a graph the runs since [`Runner::begin`] left.
    pub fn graph(&self) -> Option<GraphSize> {
        if self.mode == Mode::Graph { GraphSize::of_run(&self.out) } else { None }
    }

    /// What the runs since [`Runner::begin`] left; the files are removed.
    pub fn finish(&mut self) -> Result<Option<Trace>> {
        let trace = self.records().then(|| self.summary());
        remove(&self.out)?;
        Ok(trace)
    }

    fn plan(&mut self, options: &[&str], program: &Path) -> Result<PathBuf> {
        self.plan_of(&[&["record"], options, &["--plan-only"]].concat(), program)
    }

    /// The plan with locks, which is made once: placing takes longer than a run.
    fn enforce_plan(&mut self, program: &Path) -> Result<PathBuf> {
        let kept = self.out.join("enforce.plan");
        if kept.is_file() {
            return Ok(kept);
        }
        self.placed = Some(Placed::of_files(&self.profile(), program)?);
        let profile = self.profile().into_os_string();
        let made = self.plan_of(&[OsStr::new("enforce"), &profile, OsStr::new("--plan")], program)?;
        self.keep(&made, kept)
    }

    /// A plan of the library that is the same for every run, made once.
    fn kept_plan(&mut self, name: &str, argument: &str, program: &Path) -> Result<PathBuf> {
        let kept = self.out.join(format!("{name}.plan"));
        if kept.is_file() {
            return Ok(kept);
        }
        let made = self.library_plan(argument, program)?;
        self.keep(&made, kept)
    }

    /// Keeps a plan that was made for the runs that follow.
    fn keep(&self, made: &Path, kept: PathBuf) -> Result<PathBuf> {
        at("move", &kept, fs::rename(made, &kept))?;
        if let Some(surveyed) = &self.surveyed {
            // With the folders that its logs go to.
            remove(surveyed)?;
            copy_folder(&self.out, surveyed)?;
        }
        Ok(kept)
    }

    /// Has a command write a plan; its last word asks for that.
    fn plan_of<W: AsRef<OsStr>>(&mut self, command: &[W], program: &Path) -> Result<PathBuf> {
        self.plans += 1;
        let file = self.out.join(format!("bench-{}.plan", self.plans));
        run_tool(
            Command::new(self.selvedge_path()?)
                .args(command)
                .arg(&file)
                .arg("--out")
                .arg(&self.out)
                .arg("--")
                .arg(program),
        )?;
        Ok(file)
    }

    fn library_plan(&mut self, argument: &str, program: &Path) -> Result<PathBuf> {
        self.plans += 1;
        let file = self.out.join(format!("bench-{}.plan", self.plans));
        // In a process of its own, because children inherit the peak of this one's memory.
        let ourselves = std::env::current_exe().map_err(|e| BenchError::System("find this program", e))?;
        run_tool(Command::new(ourselves).arg(argument).arg(&file).arg(&self.out).arg(program))?;
        Ok(file)
    }

    fn selvedge_path(&self) -> Result<&Path> {
        self.selvedge
            .as_deref()
            .ok_or_else(|| BenchError::Missing { tool: "selvedge".to_owned(), why: "not built".to_owned() })
    }

    fn summary(&self) -> Trace {
        let told = self.selvedge_path().and_then(|selvedge| {
            run_tool(Command::new(selvedge).args(["trace", "--json", "--summary"]).arg(self.out.join("direct")))
        });
        told.ok()
            .as_deref()
            .and_then(summed)
            .unwrap_or(Trace { events: None, bytes: folder_bytes(&self.out).saturating_sub(self.surveyed_bytes) })
    }
}

/// Makes up to `most` runs, as long as there is time; how many these were.
fn lessons(most: usize, mut run: impl FnMut() -> Result<Sample>) -> Result<usize> {
    let end = Instant::now() + Duration::from_secs(LESSON_SECONDS);
    let mut made = 0;
    while made < most && (made == 0 || Instant::now() < end) {
        run()?;
        made += 1;
    }
    Ok(made)
}

/// Events and bytes over the headers of all recorded processes.
fn summed(lines: &str) -> Option<Trace> {
    let (mut events, mut bytes) = (0, 0);
    for line in lines.lines() {
        let header: Value = serde_json::from_str(line).ok()?;
        let number = |key| header.get(key).and_then(Value::as_u64).unwrap_or(0);
        events += number("events");
        bytes += number("bytes");
    }
    (events > 0).then_some(Trace { events: Some(events), bytes })
}

/// Whether addresses are spread wider than older ThreadSanitizer runtimes can start with.
fn wide_layout() -> bool {
    fs::read_to_string("/proc/sys/vm/mmap_rnd_bits")
        .ok()
        .and_then(|bits| bits.trim().parse::<u32>().ok())
        .is_some_and(|bits| bits > 28)
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => at("remove", dir, Err(e)),
        _ => Ok(()),
    }
}

/// Copies a folder of plain files and folders.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    at("create", to, fs::create_dir_all(to))?;
    for entry in at("read", from, fs::read_dir(from))? {
        let entry = at("read", from, entry)?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = at("look at", &source, entry.file_type())?;
        if kind.is_dir() {
            copy_folder(&source, &copy)?;
        } else if kind.is_file() {
            at("copy", &source, fs::copy(&source, &copy))?;
        }
    }
    Ok(())
}

fn folder_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_baseline() {
        for column in COLUMNS {
            let base = COLUMNS.iter().find(|c| c.key == column.baseline()).unwrap();
            assert_eq!(base.build, Build::Native(column.build.compiler()));
            assert_eq!(base.mode, Mode::Plain);
        }
    }

    #[test]
    fn headers_are_summed() {
        let cases = [
            ("{\"events\":10,\"bytes\":70}\n{\"events\":5,\"bytes\":30}\n", Some((15, 100))),
            ("", None),
            ("text", None),
        ];
        for (lines, want) in cases {
            let have = summed(lines);
            assert_eq!(have.map(|t| (t.events.unwrap(), t.bytes)), want, "{lines}");
        }
    }
}
