//! The corpus under the tool: every program builds with the wrapper, behaves when disarmed, and a recording of
//! a buggy kernel shows its guilty lines.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use selvedge_corpus::{Command, Compiler, Corpus, Harm, Kernel, Outcome, Program, Variant, build, load, run};
use selvedge_itest::{Ending, JOBS, Lab, Trace, instrumented_rustc, programs_dir};

/// How long a recorded run may take, as the command line has it.
const TIMEOUT: &str = "10s";

/// One executable to make, and what its runs may show.
struct Job<'a> {
    program: Program<'a>,
    variant: Variant,
    /// The kernel, where this is its buggy variant.
    buggy: Option<&'a Kernel>,
}

impl Job<'_> {
    fn name(&self) -> String {
        format!("{} ({})", self.program.name, self.variant.stem())
    }

    /// Whether a run may end so: buggy kernels may fail, in their own way.
    fn allows(&self, outcome: Outcome) -> bool {
        let harm: Option<Harm> = self.buggy.map(|kernel| kernel.harm);
        outcome == Outcome::Pass || (harm.is_some() && outcome.harm() == harm)
    }
}

fn jobs(corpus: &Corpus) -> Vec<Job<'_>> {
    let kernels = corpus.kernels.iter().flat_map(|kernel| {
        [(Variant::Buggy, Some(kernel)), (Variant::Fixed, None)].map(|(variant, buggy)| Job {
            program: kernel.program(),
            variant,
            buggy,
        })
    });
    let correct = corpus.correct.iter();
    let correct = correct.map(|correct| Job { program: correct.program(), variant: Variant::Correct, buggy: None });
    kernels.chain(correct).collect()
}

fn corpus() -> &'static Corpus {
    static CORPUS: OnceLock<Corpus> = OnceLock::new();
    CORPUS.get_or_init(|| {
        // Resolved, because that is how sources are named in traces.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
        let root = root.canonicalize().expect("the corpus is there");
        load(&root).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// All executables by the order of [`jobs`], or why there is none; built once for all tests.
fn executables() -> &'static [Result<PathBuf, String>] {
    static BUILT: OnceLock<Vec<Result<PathBuf, String>>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let lab = Lab::new();
        let out_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus-recorded");
        fs::create_dir_all(&out_dir).expect("created");
        let rustc = instrumented_rustc(lab.selvedge(), &out_dir).expect("linked");
        let compiler = Compiler {
            cc: Command::new(lab.selvedge(), ["cc"]),
            cxx: Command::new(lab.selvedge(), ["c++"]),
            rustc: Command::new(rustc[0].clone(), rustc[1..].iter().cloned()),
            out_dir,
        };
        let jobs = jobs(corpus());
        each(&jobs, |job| build(&job.program, job.variant, &compiler).map_err(|error| error.to_string()))
    })
}

/// Does something for every job, [`JOBS`] at a time, and keeps the order.
fn each<T: Send>(jobs: &[Job<'_>], act: impl Fn(&Job<'_>) -> T + Sync) -> Vec<T> {
    each_indexed(jobs, |_, job| act(job))
}

fn each_indexed<T: Send>(jobs: &[Job<'_>], act: impl Fn(usize, &Job<'_>) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some((index, job)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(index).map(|job| (index, job))
                } {
                    let result = act(index, job);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.expect("every job was done")).collect()
}

/// Judges every executable; all complaints come in one list.
fn judge_all(judge: impl Fn(&Job<'_>, &Path) -> Result<(), String> + Sync) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let jobs = jobs(corpus());
    let built = executables();
    let verdicts = each_indexed(&jobs, |index, job| match &built[index] {
        Ok(executable) => judge(job, executable),
        Err(error) => Err(format!("does not build: {error}")),
    });
    let complaints: Vec<String> = jobs
        .iter()
        .zip(verdicts)
        .filter_map(|(job, verdict)| verdict.err().map(|complaint| format!("{}: {complaint}", job.name())))
        .collect();
    assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), jobs.len(), complaints.join("\n"));
}

#[test]
fn every_program_behaves_when_disarmed() {
    judge_all(|job, executable| {
        let run = run(executable, job.program.args, job.program.timeout).map_err(|error| error.to_string())?;
        if !job.allows(run.outcome) {
            return Err(format!("ended by {:?}: {}", run.outcome, run.stderr));
        }
        match run.stderr.contains("selvedge") {
            true => Err(format!("the tool speaks without being asked: {}", run.stderr)),
            false => Ok(()),
        }
    });
}

#[test]
fn every_program_is_recorded_with_its_guilty_lines() {
    let late_start = late_start();
    judge_all(|job, executable| {
        let lab = Lab::new();
        let (outcome, trace) = record(&lab, job, executable, TIMEOUT, &[])?;
        if !job.allows(outcome) {
            return Err(format!("recorded, it ended by {outcome:?}"));
        }
        if trace.header.threads.len() < 2 || !trace.header.damages.is_empty() || trace.counter("dropped") > 0 {
            return Err(format!("not whole: {:?}", trace.header));
        }
        let Some(kernel) = job.buggy else { return Ok(()) };
        let file = kernel.dir.join(kernel.buggy_file());
        let mut lines = trace.lines(&file);
        // A line that waits for another thread, say, is not reached in every order: one thread after the other
        // is made late. The survey is made in that order too, so each has a store of its own. On a busy machine the
        // others may be late as well: all orders have a second chance.
        for order in ORDERS.iter().chain(&ORDERS) {
            if kernel.guilty.iter().all(|guilty| lines.contains(&guilty.line)) {
                break;
            }
            let mut env = vec![("LD_PRELOAD", late_start), ("LATE_THREAD", Path::new(order.0))];
            env.extend(order.1.then_some(("LATE_LOCK", Path::new("1"))));
            let (_, trace) = record(&Lab::new(), job, executable, "1s", &env)?;
            lines.extend(trace.lines(&file));
        }
        let missing = kernel.guilty.iter().filter(|guilty| !lines.contains(&guilty.line));
        let missing: Vec<String> =
            missing.map(|guilty| format!("line {} ({} in {})", guilty.line, guilty.access, guilty.function)).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("no events at {}; there are at {lines:?}", missing.join(", "))),
        }
    });
}

/// Which thread is late, and whether at its first lock; see `late_start.c`.
const ORDERS: [(&str, bool); 6] = [("0", false), ("1", false), ("2", false), ("1", true), ("2", true), ("3", false)];

/// The library that makes a thread late; built once.
fn late_start() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late_start.so");
        let mut cc = process::Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC"]).arg(programs_dir().join("late_start.c")).arg("-o").arg(&library);
        assert!(cc.status().expect("cc starts").success());
        library
    })
}

/// Surveys and records one run, and reads the trace.
fn record(
    lab: &Lab,
    job: &Job<'_>,
    executable: &Path,
    timeout: &str,
    env: &[(&str, &Path)],
) -> Result<(Outcome, Trace), String> {
    let store = lab.path("store");
    let mut words = vec![lab.selvedge().as_os_str().to_owned()];
    words.extend(["record", "-n", "1", "--timeout", timeout, "--out"].map(OsString::from));
    words.extend([store.clone().into(), "--".into(), executable.into()]);
    words.extend(job.program.args.iter().map(Into::into));
    let recorded = lab.run_with(words, env);
    let read = lab.tool([OsString::from("trace"), "--json".into(), "--out".into(), store.into()]);
    let said = || format!("{}{}", recorded.stderr, read.stderr);
    let mut traces = Trace::parse(&read.stdout).map_err(|error| format!("{error}: {}", said()))?;
    match (traces.pop(), traces.is_empty()) {
        (Some(trace), true) => Ok((outcome(recorded.ending), trace)),
        _ => Err(format!("not the trace of one process: {}", said())),
    }
}

/// How a guest ended, from the exit code of `selvedge record`.
fn outcome(ending: Ending) -> Outcome {
    match ending {
        Ending::Exit(0) => Outcome::Pass,
        Ending::Exit(124) | Ending::Hang => Outcome::Hang,
        Ending::Exit(code @ 129..=192) => Outcome::Signal(code - 128),
        Ending::Exit(code) => Outcome::Exit(code),
        Ending::Signal(number) => Outcome::Signal(number),
    }
}

#[test]
fn exit_codes_of_the_recorder_are_understood() {
    assert_eq!(outcome(Ending::Exit(134)).harm(), Some(Harm::Assertion));
    assert_eq!(outcome(Ending::Exit(124)).harm(), Some(Harm::Hang));
    assert_eq!(outcome(Ending::Exit(1)).harm(), Some(Harm::WrongExit));
}
