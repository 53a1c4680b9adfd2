//! The corpus itself under test: the manifests are complete, every program builds without a warning, fixed
//! twins and correct programs never fail, and buggy kernels fail rarely when nobody interferes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use selvedge_corpus::{
    Command, Compiler, Corpus, Kernel, Language, LoadCorpusError, Outcome, Pattern, Program, Variant, build, load, run,
};

/// Runs of each executable.
const RUNS: usize = 20;

/// Failing runs that a buggy kernel may have among [`RUNS`]. Kernels are made to fail in at most two of a
/// hundred native runs, so four failures in twenty happen to one kernel in about two thousand test runs by
/// chance; a kernel that fails often is of no use, since any run would find its bug.
const MAX_BUGGY_FAILURES: usize = 3;

/// Programs that are built and run side by side: the machines that this must be quick on have two cores.
const WORKERS: usize = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn corpus() -> Corpus {
    load(&root()).unwrap_or_else(|error| panic!("{error}"))
}

fn out_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Compilers for which a warning is an error.
fn strict_compiler(name: &str) -> Compiler {
    Compiler {
        cc: Command::new("cc", ["-Werror"]),
        cxx: Command::new("c++", ["-Werror"]),
        rustc: Command::new("rustc", ["-Dwarnings"]),
        out_dir: out_dir(name),
    }
}

#[test]
fn corpus_covers_patterns_and_languages() {
    let corpus = corpus();
    assert!(corpus.kernels.len() >= 34, "only {} kernels", corpus.kernels.len());
    assert!(corpus.correct.len() >= 10, "only {} correct programs", corpus.correct.len());

    let mut languages: BTreeMap<Language, usize> = BTreeMap::new();
    for kernel in &corpus.kernels {
        *languages.entry(kernel.language).or_default() += 1;
    }
    let count = |language| languages.get(&language).copied().unwrap_or(0);
    assert!(count(Language::Cxx) >= 5 && count(Language::Rust) >= 5, "{languages:?}");
    assert!(2 * count(Language::C) > corpus.kernels.len(), "C is no majority: {languages:?}");

    let patterns: BTreeSet<Pattern> = corpus.kernels.iter().map(|kernel| kernel.pattern).collect();
    assert!(patterns.iter().eq(Pattern::ALL), "patterns are {patterns:?}");
}

#[test]
fn kernels_have_a_sensible_size() {
    for kernel in corpus().kernels {
        let lines = fs::read_to_string(kernel.dir.join(kernel.buggy_file())).unwrap().lines().count();
        assert!((30..=150).contains(&lines), "{}: {lines} lines", kernel.name);
    }
}

#[test]
fn readme_lists_every_program() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for kernel in corpus().kernels {
        let row = format!(
            "| {} | {} | {} | {} | {} | {} |",
            kernel.name,
            kernel.origin.bug.map_or(kernel.origin.project.clone(), |bug| format!("{}, {bug}", kernel.origin.project)),
            kernel.pattern,
            kernel.shape.replace('|', "\\|"),
            kernel.language,
            kernel.harm,
        );
        assert!(readme.contains(&row), "missing in the README: {row}");
    }
    for program in corpus().correct {
        assert!(readme.contains(&format!("| {} |", program.name)), "{} is missing", program.name);
    }
}

#[test]
fn markers_are_found_at_the_end_of_lines_only() {
    let text = "int a; //~ guilty\n/* //~ guilty */ int b;\nint c; //~ guilty  \n";
    assert_eq!(Kernel::marked_lines(text), BTreeSet::from([1, 3]));
}

#[test]
fn errors_name_the_file_and_the_reason() {
    let source = root().join("bank-account");
    let manifest = fs::read_to_string(source.join("bug.toml")).unwrap();
    let broken = [
        ("unknown key", format!("colour = \"red\"\n{manifest}"), "colour"),
        ("wrong pattern", manifest.replace("atomicity-violation", "bad-luck"), "bad-luck"),
        ("wrong name", manifest.replace("\"bank-account\"", "\"bank\""), "not the folder's"),
        ("wrong line", manifest.replacen("line = ", "line = 1", 1), "guilty lines are"),
    ];
    for (what, text, expected) in broken {
        let root = out_dir(&format!("broken-{}", what.replace(' ', "-")));
        let dir = root.join("bank-account");
        fs::create_dir_all(&dir).unwrap();
        for file in ["buggy.c", "fixed.c"] {
            fs::copy(source.join(file), dir.join(file)).unwrap();
        }
        fs::write(dir.join("bug.toml"), text).unwrap();
        let error = load(&root).expect_err(what).to_string();
        assert!(error.contains("bug.toml") && error.contains(expected), "{what}: {error}");
    }
    assert!(matches!(load(Path::new("no/such/folder")), Err(LoadCorpusError::Read { .. })));
}

/// One executable to make, and how often it may fail.
struct Job<'a> {
    program: Program<'a>,
    variant: Variant,
    may_fail: usize,
    kernel: Option<&'a Kernel>,
}

fn jobs(corpus: &Corpus) -> Vec<Job<'_>> {
    let kernels = corpus.kernels.iter().flat_map(|kernel| {
        [(Variant::Buggy, MAX_BUGGY_FAILURES), (Variant::Fixed, 0)].map(|(variant, may_fail)| Job {
            program: kernel.program(),
            variant,
            may_fail,
            kernel: Some(kernel),
        })
    });
    let correct = corpus.correct.iter().map(|correct| Job {
        program: correct.program(),
        variant: Variant::Correct,
        may_fail: 0,
        kernel: None,
    });
    kernels.chain(correct).collect()
}

/// Builds, runs, and returns what is wrong.
fn check(job: &Job<'_>, compiler: &Compiler) -> Result<(), String> {
    let name = format!("{} ({})", job.program.name, job.variant.stem());
    let executable = build(&job.program, job.variant, compiler).map_err(|error| error.to_string())?;
    let mut failures = Vec::new();
    for _ in 0..RUNS {
        let run = run(&executable, job.program.args, job.program.timeout).map_err(|error| error.to_string())?;
        if run.outcome == Outcome::Pass {
            if run.stdout.lines().count() != 1 {
                return Err(format!("{name}: prints {:?} instead of one line", run.stdout));
            }
            continue;
        }
        if let Some(kernel) = job.kernel.filter(|kernel| run.outcome.harm() != Some(kernel.harm)) {
            return Err(format!("{name}: ends with {:?}, its harm is {}", run.outcome, kernel.harm));
        }
        failures.push(run.outcome);
        if failures.len() > job.may_fail {
            return Err(format!("{name}: fails too often: {failures:?} {}", run.stderr));
        }
    }
    Ok(())
}

#[test]
fn programs_behave_natively() {
    let corpus = corpus();
    let jobs = jobs(&corpus);
    let compiler = strict_compiler("native");
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = check(job, &compiler) {
                        complaints.lock().unwrap().push(complaint);
                    }
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_missing_compiler_is_an_error() {
    let corpus = corpus();
    let mut compiler = Compiler::native(out_dir("missing"));
    compiler.cc = Command::new("no-such-compiler", [""; 0]);
    let kernel = corpus.kernels.iter().find(|kernel| kernel.language == Language::C).unwrap();
    let error = build(&kernel.program(), Variant::Buggy, &compiler).expect_err("nothing to compile with");
    assert!(error.to_string().contains("no-such-compiler"), "{error}");
}

#[test]
fn a_run_past_its_limit_hangs() {
    let run = run(Path::new("sleep"), &["30"], std::time::Duration::from_millis(50)).unwrap();
    assert_eq!(run.outcome, Outcome::Hang);
}
