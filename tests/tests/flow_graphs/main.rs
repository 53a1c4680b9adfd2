//! Control-flow graphs against what runs really do: every block hook that a thread came by must follow from the one
//! before it along the edges of the graphs, whoever compiled the program.

mod walk;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use selvedge_drive::plan::{ImageSpec, PlanSpec};
use selvedge_events::hooks::HookClass;
use selvedge_events::plan::{ENV, Observe};
use selvedge_image::cfg::GraphCounters;
use selvedge_image::{
    CallGraph, Cfg, Code, Functions, Loaded, Operands, PlaceRoot, Reach, Symboliser, load_or_build, table_bytes,
};
use selvedge_itest::{Lab, find_clang, instrumented_rustc};
use selvedge_trace::event::EventBody;
use selvedge_trace::{Process, Run};

use walk::{Explained, Unexplained};

/// A program of the repository, below its root.
fn source(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = root.join(path);
    assert!(found.is_file(), "{path} is gone");
    found.canonicalize().expect("it is there")
}

/// Who compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compiler {
    Gcc,
    Clang,
    Rustc,
}

/// Compiles a program with the wrapper; `None` where there is no such compiler.
fn build(lab: &Lab, compiler: Compiler, source: &Path, flags: &[&str]) -> Option<PathBuf> {
    let out = lab.path("prog");
    let is_cxx = source.extension().is_some_and(|extension| extension == "cpp");
    let mut words: Vec<OsString> = Vec::new();
    match compiler {
        Compiler::Rustc => {
            words.extend(instrumented_rustc(lab.selvedge(), &lab.path("")).expect("linked"));
            words.push("--edition=2024".into());
        }
        Compiler::Gcc | Compiler::Clang => {
            let (cc, cxx) = match compiler {
                Compiler::Clang => find_clang()?,
                _ => ("gcc".to_owned(), "g++".to_owned()),
            };
            words.push("env".into());
            words.push(format!("SELVEDGE_CC={cc}").into());
            words.push(format!("SELVEDGE_CXX={cxx}").into());
            words.push(lab.selvedge().into());
            words.push(if is_cxx { "c++" } else { "cc" }.into());
            words.push("-pthread".into());
            if is_cxx {
                // Older compilers begin with less.
                words.push("-std=c++17".into());
            }
        }
    }
    words.push("-g".into());
    words.extend(flags.iter().map(OsString::from));
    words.extend([source.into(), "-o".into(), out.clone().into_os_string()]);
    let built = lab.run(words);
    assert!(out.is_file(), "{compiler:?} {flags:?} {}: {}", source.display(), built.stderr);
    Some(out)
}

/// Runs a program with these hooks armed, and nothing else.
fn record(lab: &Lab, program: &Path, loaded: &Loaded, wanted: fn(HookClass) -> bool) -> Process {
    let dir = lab.path("trace");
    fs::create_dir_all(&dir).expect("created");
    let is_wanted = |at: &usize| loaded.entries[*at].hook.get().is_some_and(|hook| wanted(hook.class));
    let armed: Vec<u32> = (0..loaded.entries.len()).filter(is_wanted).map(|at| at as u32).collect();
    assert!(!armed.is_empty(), "no such hooks");
    let mut plan = PlanSpec::new(Observe::Record, &dir);
    plan.images = vec![ImageSpec {
        build_id: loaded.image.build_id().to_vec(),
        sites: armed.iter().zip(0_u32..).map(|(ordinal, id)| (*ordinal, id)).collect(),
        table: table_bytes(
            loaded.image.build_id(),
            &loaded.entries,
            &Reach::new(&loaded.image, &Functions::new(&loaded.image), &loaded.entries),
        ),
    }];
    let file = dir.join("plan");
    fs::write(&file, plan.to_bytes().expect("a plan")).expect("written");
    let mut command = Command::new(program);
    command.env(ENV, &file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().expect("it starts");
    assert!(status.code().is_some(), "{} ended by {status}", program.display());
    let mut run = Run::open(&dir).expect("a trace");
    assert_eq!(run.processes.len(), 1, "one process");
    run.processes.remove(0)
}

/// What a run of a program went through.
struct Walked {
    /// Transitions within a frame.
    within: usize,
    counters: GraphCounters,
    explained: Explained,
    hooks: Vec<Vec<u32>>,
}

/// Builds and runs a program, and walks its graphs; `None` where the compiler is not there.
fn walked(compiler: Compiler, path: &str, flags: &[&str]) -> Option<Walked> {
    let lab = Lab::new();
    let source = source(path);
    let program = build(&lab, compiler, &source, flags)?;
    let loaded = load_or_build(&program).expect("an image");
    let functions = Functions::new(&loaded.image);
    let code = Code::new(&loaded, &functions);
    let graphs: Vec<Cfg> = code.graphs().collect();
    let calls = CallGraph::new(&code, &graphs);
    let unwinding = source.extension().is_none_or(|extension| extension != "c");
    let explained = Explained::new(&code, &graphs, &calls, unwinding);
    let process = record(&lab, &program, &loaded, |class| class == HookClass::Block);
    let mut out = Walked { within: 0, counters: GraphCounters::default(), explained, hooks: Vec::new() };
    let hooked = graphs.iter().filter(|graph| {
        graph.blocks().iter().flat_map(|block| block.sites.clone()).any(|site| out.explained.after.contains_key(&site))
    });
    for graph in hooked {
        out.counters += graph.counters();
    }
    for thread in process.file().threads() {
        assert_eq!(process.file().thread_lost(thread), 0, "{path}: events were lost");
        let hooks: Vec<u32> = process
            .thread_events(thread)
            .filter(|event| matches!(event.body, EventBody::Block))
            .take(MOST_HOOKS)
            .map(|event| {
                let site = event.site().and_then(|site| process.site(site)).expect("an armed site");
                let ordinal = loaded.entries.binary_search_by_key(&site.offset, |entry| entry.offset);
                ordinal.expect("a site of the table") as u32
            })
            .collect();
        match out.explained.walk(&hooks) {
            Ok(within) => out.within += within,
            Err(problem) => {
                let symboliser = Symboliser::new(&loaded.image);
                let place = |hook: u32| {
                    let offset = u64::from(loaded.entries[hook as usize].offset);
                    let frame = symboliser.frames(offset).into_iter().next();
                    let line = frame.as_ref().and_then(|frame| frame.line).unwrap_or(0);
                    let name = functions.at(offset).map(|function| function.name()).unwrap_or_default();
                    format!("{offset:#x} {name} line {line}")
                };
                let told = match &problem {
                    Unexplained::NoSuchHook { at, hook } => format!("hook {at} is in no graph: {}", place(*hook)),
                    Unexplained::TooMany { at } => format!("too many stacks at hook {at}"),
                    Unexplained::Step { at, hook, stack } => {
                        let stack: Vec<String> = stack.iter().map(|hook| place(*hook)).collect();
                        format!("hook {at}, {}, does not follow from\n  {}", place(*hook), stack.join("\n  "))
                    }
                };
                panic!("{compiler:?} {flags:?} {path}, {thread:?}, {} hooks: {told}", hooks.len());
            }
        }
        out.hooks.push(hooks);
    }
    assert!(out.within > 0, "{path}: no transitions");
    assert_eq!(out.counters.strange_jumps, 0, "{path}");
    Some(out)
}

/// Most hooks of a thread that are walked.
const MOST_HOOKS: usize = 20_000;

const C: &[&str] = &[
    "tests/tests/flow_graphs/programs/shapes.c",
    "tests/programs/clean/bank_transfer.c",
    "tests/programs/clean/bounded_buffer.c",
    "tests/programs/clean/barrier_stencil.c",
    "corpus/linked-list/fixed.c",
    "corpus/hash-set/fixed.c",
    "corpus/correct-condvar-queue/correct.c",
    "corpus/correct-mutex-kinds/correct.c",
    "corpus/correct-barrier-sem/correct.c",
];

const CXX: &[&str] = &[
    "tests/tests/flow_graphs/programs/throws.cpp",
    "tests/programs/clean/task_queue.cpp",
    "tests/programs/hostile/throw_frames.cpp",
    "tests/programs/hostile/throw_callback.cpp",
    "corpus/correct-cpp-sync/correct.cpp",
    "corpus/array-list/fixed.cpp",
    "corpus/tree-set/fixed.cpp",
];

const RUST: &[&str] = &[
    "tests/tests/flow_graphs/programs/panics.rs",
    "tests/programs/clean/mutex_channels.rs",
    "corpus/account/fixed.rs",
    "corpus/merge-sort/fixed.rs",
    "corpus/correct-rust-sync/correct.rs",
];

/// Walks programs; answers what was not understood in them.
fn all(compiler: Compiler, sources: &[&str], flags: &[&str]) -> GraphCounters {
    let mut counters = GraphCounters::default();
    for path in sources {
        match walked(compiler, path, flags) {
            Some(walked) => {
                println!("{path}: {} transitions, {:?}", walked.within, walked.counters);
                counters += walked.counters;
            }
            None => println!("skipped: {compiler:?} is not there"),
        }
    }
    counters
}

#[test]
fn gcc_without_optimisation() {
    all(Compiler::Gcc, C, &["-O0"]);
    all(Compiler::Gcc, CXX, &["-O0"]);
}

#[test]
fn gcc_optimised() {
    all(Compiler::Gcc, C, &["-O2"]);
    all(Compiler::Gcc, CXX, &["-O2"]);
}

#[test]
fn clang_optimised() {
    all(Compiler::Clang, C, &["-O2"]);
    all(Compiler::Clang, CXX, &["-O2"]);
}

#[test]
fn rustc_in_both_profiles() {
    let counters = all(Compiler::Rustc, RUST, &["-O"]);
    assert!(counters.tables == 0 && counters.unknown_jumps == 0, "{counters:?}");
    // Where somebody wants jump tables all the same, all are read.
    let counters = all(Compiler::Rustc, RUST, &["-O", "-Cjump-tables=yes"]);
    assert!(counters.tables > 5 && counters.unknown_jumps == 0, "{counters:?}");
    all(Compiler::Rustc, &RUST[..1], &[]);
}

/// An access whose place is a global is to that global, at run time too.
/// Answers how many there were.
fn accesses_go_where_they_are_said_to(compiler: Compiler, path: &str, flags: &[&str]) -> usize {
    let lab = Lab::new();
    let Some(program) = build(&lab, compiler, &source(path), flags) else {
        println!("skipped: {compiler:?} is not there");
        return 0;
    };
    let loaded = load_or_build(&program).expect("an image");
    let functions = Functions::new(&loaded.image);
    let code = Code::new(&loaded, &functions);
    let mut places = BTreeMap::new();
    for graph in code.graphs() {
        places.extend(Operands::of(&code, &graph).sites);
    }
    let process = record(&lab, &program, &loaded, |class| matches!(class, HookClass::Access { .. }));
    let (mut globals, mut others, mut frames) = (0, 0, 0);
    for event in process.events() {
        let EventBody::Access { addr } = event.body else { continue };
        let site = event.site().and_then(|site| process.site(site)).expect("an armed site");
        let base = process.module(site.module).expect("a known image").base;
        let ordinal = loaded.entries.binary_search_by_key(&site.offset, |entry| entry.offset).expect("a site") as u32;
        let at = format!("{path} {compiler:?} {flags:?}: the site at {:#x}", site.offset);
        match places.get(&ordinal).map(|place| (place.root, place.path.as_slice())) {
            Some((PlaceRoot::Image, [offset])) => {
                assert_eq!(addr.0, base.wrapping_add_signed(*offset), "{at}");
                globals += 1;
            }
            Some((PlaceRoot::Frame, [_])) => {
                let module = process.module(site.module).expect("a known image");
                assert!(!(module.base..module.end).contains(&addr.0), "{at} is no global");
                frames += 1;
            }
            Some(_) => others += 1,
            None => panic!("{at} has no place"),
        }
    }
    println!("{path} {compiler:?} {flags:?}: {globals} globals, {frames} in frames, {others} others");
    globals
}

#[test]
fn globals_are_where_they_are_said_to_be() {
    let mut globals = 0;
    for path in [C[0], C[1], C[2]] {
        for (compiler, flags) in [(Compiler::Gcc, "-O0"), (Compiler::Gcc, "-O2"), (Compiler::Clang, "-O2")] {
            globals += accesses_go_where_they_are_said_to(compiler, path, &[flags]);
        }
    }
    globals += accesses_go_where_they_are_said_to(Compiler::Gcc, C[2], &["-O1", "-fno-pie", "-no-pie"]);
    globals += accesses_go_where_they_are_said_to(Compiler::Gcc, CXX[0], &["-O2"]);
    assert!(globals > 1000, "only {globals} accesses of globals");
}

/// The walk can fail: without a step that the run took, it does.
#[test]
fn an_edge_that_is_gone_is_missed() {
    for path in ["tests/programs/clean/bank_transfer.c", "corpus/hash-set/fixed.c"] {
        let mut walked = walked(Compiler::Gcc, path, &["-O1"]).expect("gcc is there");
        let mut taken = Vec::new();
        for pair in walked.hooks.iter().flat_map(|hooks| hooks.windows(2)) {
            let same = walked.explained.after.get(&pair[0]).is_some_and(|(_, after)| after.hooks.contains(&pair[1]));
            // The begin of a function may be a call as well.
            if same && !walked.explained.is_first(pair[1]) && !taken.contains(&(pair[0], pair[1])) {
                taken.push((pair[0], pair[1]));
            }
        }
        assert!(taken.len() > 3, "{path}: {taken:?}");
        let mut missed = 0;
        for (from, to) in &taken {
            let (_, after) = walked.explained.after.get_mut(from).expect("it was there");
            assert!(after.hooks.remove(to));
            missed += usize::from(walked.hooks.iter().any(|hooks| walked.explained.walk(hooks).is_err()));
            walked.explained.after.get_mut(from).expect("it was there").1.hooks.insert(*to);
        }
        assert_eq!(missed, taken.len(), "{path}: every edge that was taken is needed");
    }
}
