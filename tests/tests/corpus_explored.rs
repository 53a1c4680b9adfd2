//! The corpus under controlled schedules: a spread of its bugs is found, what is found comes again choice by choice, and
//! the fixed twins pass; from passing runs, a spread of its bugs is made to happen on the guilty lines, and the fixed twins
//! are not accused. The whole corpus is a measurement, `bench`'s `explore` and `hunt`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use selvedge_corpus::{Command, Compiler, Corpus, Kernel, Variant, build, load};
use selvedge_drive::clip::Clip;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::replay::{bench, replay};
use selvedge_findings::{Finding, Harm, Kind, Report, Status};
use selvedge_itest::{Ending, JOBS, Lab, Outcome, instrumented_rustc};

/// All languages, patterns and harms.
const KERNELS: [&str; 13] = [
    "apache-refcount",
    "hawknl-shutdown",
    "lost-notify",
    "mysql-binlog-order",
    "mysql-proc-info",
    "web-crawler",
    "zsnes-late-init",
    "jigsaw-event-queue",
    "mozilla-text-frame",
    "pbzip2-teardown",
    "account",
    "join-while-holding",
    "raytracer-checksum",
];

/// Exit code of a command that found something.
const FINDINGS: Ending = Ending::Exit(66);

#[test]
fn bugs_are_found_and_come_again_and_fixed_twins_pass() {
    judge(&KERNELS, |name| {
        let kernel = corpus().kernels.iter().find(|kernel| kernel.name == *name).ok_or("not in the corpus")?;
        let clip = found(kernel)?;
        replays(&clip, 3)?;
        passes(kernel)
    });
}

/// Of these, passing runs are enough.
const HUNTED: [&str; 12] = [
    "bank-account",
    "hawknl-shutdown",
    "nested-monitor",
    "transmission-bandwidth",
    "mysql-binlog-order",
    "mysql-proc-info",
    "jigsaw-event-queue",
    "double-checked-lock",
    "pbzip2-teardown",
    "string-buffer",
    "join-while-holding",
    "lost-notify",
];

#[test]
fn bugs_are_confirmed_from_passing_runs_and_fixed_twins_are_not_accused() {
    judge(&HUNTED, |name| {
        let kernel = corpus().kernels.iter().find(|kernel| kernel.name == *name).ok_or("not in the corpus")?;
        let lines: BTreeSet<u32> = kernel.guilty.iter().map(|guilty| guilty.line).collect();
        let is_guilty = |finding: &&Finding| {
            let on =
                finding.accesses.iter().filter_map(|access| access.line).filter(|line| lines.contains(line)).count();
            on >= finding.accesses.len().clamp(1, 2)
        };
        let buggy = hunted(kernel, Variant::Buggy)?;
        if !buggy.iter().filter(is_guilty).any(|finding| finding.harm != Harm::NoneSeen) {
            return Err(format!("nothing harmful on the guilty lines {lines:?} in {buggy:#?}"));
        }
        let accused = |finding: &&Finding| finding.harm != Harm::NoneSeen || finding.kind == Kind::DataRace;
        match hunted(kernel, Variant::Fixed)?.iter().find(accused) {
            Some(finding) => Err(format!("the fixed twin is accused of {finding:#?}")),
            None => Ok(()),
        }
    });
}

/// What a hunt confirms.
fn hunted(kernel: &Kernel, variant: Variant) -> Result<Vec<Finding>, String> {
    let executable = built(kernel, variant)?;
    let lab = Lab::new();
    let (json, store) = (lab.path("found.json"), lab.path("store"));
    let options = ["hunt", "--runs", "8", "--budget", "40", "--json"].map(OsString::from);
    let options = options.into_iter().chain([json.clone().into(), "--out".into(), store.into(), "--".into()]);
    let guest = [executable.into_os_string()].into_iter().chain(kernel.args.iter().map(OsString::from));
    let outcome = lab.tool(options.chain(guest));
    let text = fs::read(&json).map_err(|_| outcome.stderr)?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    Ok(report.findings.into_iter().filter(|finding| finding.status == Status::Confirmed).collect())
}

/// Looks for the bug, and reads the clip of it.
fn found(kernel: &Kernel) -> Result<Found, String> {
    let executable = built(kernel, Variant::Buggy)?;
    let lab = Lab::new();
    let mut said = String::new();
    for strategy in ["random", "pct"] {
        let options = ["--stop-on-first", "--schedules", "300", "--strategy", strategy];
        let outcome = explore(&lab, &options, &executable, &kernel.args);
        if outcome.ending == FINDINGS {
            let clips = fs::read_dir(lab.path("store/clips")).map_err(|error| error.to_string())?;
            let clip = clips.flatten().next().ok_or("a finding without a clip")?.path();
            let clip = Clip::load(&clip).map_err(|error| error.to_string())?;
            return Ok(Found { clip, lab });
        }
        said += &outcome.stderr;
    }
    Err(format!("not found: {said}"))
}

/// A clip, and the directories that it speaks of.
struct Found {
    clip: Clip,
    lab: Lab,
}

fn replays(found: &Found, times: u32) -> Result<(), String> {
    let clip = &found.clip;
    let server = found.lab.path("server");
    let mut bench =
        bench(clip, &Interventions::default(), &server, Duration::from_secs(20)).map_err(|error| error.to_string())?;
    for time in 1..=times {
        let replayed = replay(clip, &mut bench).map_err(|error| error.to_string())?;
        if !replayed.is_as(clip) || !replayed.is_exact(clip) {
            let (was, is) = (&clip.wrong, &replayed.wrong);
            let divergence = &replayed.run.answer.divergence;
            return Err(format!("replay {time}: {was:?} became {is:?}, {divergence:?}; schedule {}", clip.schedule()));
        }
    }
    Ok(())
}

fn passes(kernel: &Kernel) -> Result<(), String> {
    let executable = built(kernel, Variant::Fixed)?;
    let outcome = explore(&Lab::new(), &["--schedules", "100"], &executable, &kernel.args);
    match (outcome.ending, schedules(&outcome)) {
        (Ending::Exit(0), Some(100)) => Ok(()),
        _ => Err(format!("the fixed twin: {}\n{}{}", outcome.ending, outcome.stdout, outcome.stderr)),
    }
}

#[test]
fn a_schedule_gives_the_same_events_every_time() {
    judge(&["apache-refcount", "jigsaw-event-queue", "account"], |name| {
        let kernel = corpus().kernels.iter().find(|kernel| kernel.name == *name).ok_or("not in the corpus")?;
        let executable = built(kernel, Variant::Fixed)?;
        let lab = Lab::new();
        let store = lab.path("store");
        let mut first: Option<String> = None;
        for run in 1..=4 {
            let mut words = ["record", "--controlled", "--seed", "7", "--out"].map(OsString::from).to_vec();
            words.extend([store.clone().into(), "--".into(), executable.clone().into()]);
            words.extend(kernel.args.iter().map(Into::into));
            let recorded = lab.tool(words);
            let text =
                lab.tool(["trace", "--std", "--out"].map(OsString::from).into_iter().chain([store.clone().into()]));
            if recorded.ending != Ending::Exit(0) || text.stdout.is_empty() {
                return Err(format!("run {run}: {}{}", recorded.stderr, text.stderr));
            }
            let first = first.get_or_insert_with(|| text.stdout.clone());
            if let Some((one, other)) = first.lines().zip(text.stdout.lines()).find(|(one, other)| one != other) {
                return Err(format!("run {run}: {one} became {other}"));
            }
            if *first != text.stdout {
                return Err(format!("run {run} has another length"));
            }
        }
        Ok(())
    });
}

/// `//@ count N=1 M=1: 1 3 7 all 10` are the schedules with at most 0, 1 and 2 preemptions, and with any number.
#[test]
fn bounded_search_runs_as_many_schedules_as_there_are_by_hand() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/programs/counted");
    judge(&["accesses.c", "lock.c", "three.c"], |name| {
        let source = programs.join(name);
        let text = fs::read_to_string(&source).map_err(|error| error.to_string())?;
        // The first is the smallest; the rest is the measurement's.
        let line = text.lines().find_map(|line| line.strip_prefix("//@ count")).ok_or("no count")?;
        let (sizes, numbers) = line.split_once(':').ok_or("no numbers")?;
        let lab = Lab::new();
        let executable = lab.path("counted");
        let mut words = ["cc", "-O1", "-g", "-pthread"].map(OsString::from).to_vec();
        words.extend(sizes.split_whitespace().map(|size| format!("-D{size}").into()));
        words.extend([source.into(), "-o".into(), executable.clone().into()]);
        let compiled = lab.tool(words);
        if compiled.ending != Ending::Exit(0) {
            return Err(compiled.stderr);
        }
        let (bounded, any) = numbers.split_once(" all ").map_or((numbers, None), |(front, any)| (front, Some(any)));
        let bounded = (0..).zip(bounded.split_whitespace());
        for (bound, number) in bounded.chain(any.map(|any| (1000, any.trim()))) {
            let by_hand: u64 = number.parse().map_err(|_| format!("{number} is no number"))?;
            let bound = u32::to_string(&bound);
            let options = ["--strategy", "bounded", "--preemptions", &bound, "--schedules", "10000"];
            let outcome = explore(&lab, &options, &executable, &[]);
            let complete = outcome.stderr.contains("these are all schedules");
            if schedules(&outcome) != Some(by_hand) || !complete {
                return Err(format!("{by_hand} schedules with {bound} preemptions by hand: {}", outcome.stderr));
            }
        }
        Ok(())
    });
}

fn explore(lab: &Lab, options: &[&str], executable: &Path, args: &[String]) -> Outcome {
    let mut words = vec![OsString::from("explore"), "--out".into(), lab.path("store").into()];
    words.extend(options.iter().map(OsString::from));
    words.extend(["--".into(), executable.into()]);
    words.extend(args.iter().map(Into::into));
    lab.tool(words)
}

/// How many schedules `selvedge explore` says that it ran.
fn schedules(outcome: &Outcome) -> Option<u64> {
    let (front, _) = outcome.stderr.rsplit_once(" schedules in ")?;
    front.rsplit(' ').next()?.parse().ok()
}

fn corpus() -> &'static Corpus {
    static CORPUS: OnceLock<Corpus> = OnceLock::new();
    CORPUS.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
        load(&root).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Builds a variant with the wrapper.
fn built(kernel: &Kernel, variant: Variant) -> Result<PathBuf, String> {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    // Two tests may want the same program at the same time.
    static ONE_AT_A_TIME: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let compiler = COMPILER.get_or_init(|| {
        let lab = Lab::new();
        let out_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus-explored");
        fs::create_dir_all(&out_dir).expect("created");
        let rustc = instrumented_rustc(lab.selvedge(), &out_dir).expect("linked");
        Compiler {
            cc: Command::new(lab.selvedge(), ["cc"]),
            cxx: Command::new(lab.selvedge(), ["c++"]),
            rustc: Command::new(rustc[0].clone(), rustc[1..].iter().cloned()),
            out_dir,
        }
    });
    let _turn = ONE_AT_A_TIME[usize::from(variant == Variant::Fixed)].lock().unwrap_or_else(PoisonError::into_inner);
    let ready = compiler.out_dir.join(format!("{}.{}", kernel.name, variant.stem()));
    static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let is_built = || BUILT.lock().unwrap_or_else(PoisonError::into_inner).contains(&ready);
    if is_built() {
        return Ok(ready);
    }
    let executable = build(&kernel.program(), variant, compiler).map_err(|error| error.to_string())?;
    BUILT.lock().unwrap_or_else(PoisonError::into_inner).push(executable.clone());
    Ok(executable)
}

/// Judges all, [`JOBS`] at a time; all complaints come in one list.
fn judge(names: &[&str], judge: impl Fn(&&str) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = judge(name) {
                        let mut complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
                        complaints.push(format!("{name}: {complaint}"));
                    }
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().unwrap_or_else(PoisonError::into_inner);
    complaints.sort();
    assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), names.len(), complaints.join("\n"));
}
