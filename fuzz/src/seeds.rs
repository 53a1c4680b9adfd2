//! First inputs, made when a target starts and never kept.
//!
//! `cargo xtask fuzz` names the folder in `SELVEDGE_FUZZ_SEEDS`; without it nothing is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_analyze::graph::file::to_bytes;
use selvedge_analyze::graph::{Access, Kind, Site, Step as GraphStep, Steps, Touch};
use selvedge_events::hooks::{HookIx, by_name};
use selvedge_events::pack::{Small, wide};
use selvedge_events::site_table::{Entry, Form};
use selvedge_events::{Acquire, EventKind, Mode, Primitive, event, plan};
use selvedge_image::embed::with_table;
use selvedge_image::{Image, Reach, find_sites, table_bytes};
use selvedge_trace::StackCopy;
use selvedge_trace::write::{Stream, TraceBuilder};

use selvedge_drive::clip::{Clip, ClipInputs, bare};
use selvedge_drive::control::World;
use selvedge_drive::failure::{Signature, Wrong};
use selvedge_drive::plan::ImageSpec;
use selvedge_findings::{Harm, Outcome};
use selvedge_sched::text::Schedule;
use selvedge_sched::{Spec, Step as Choice};

use crate::recipe::Step;

/// Where seeds are wanted.
fn folder() -> Option<PathBuf> {
    std::env::var_os("SELVEDGE_FUZZ_SEEDS").map(PathBuf::from)
}

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    if let Err(error) = fs::write(&path, bytes) {
        eprintln!("cannot write the seed {}: {error}", path.display());
    }
}

/// Writes the seeds of `trace_reader`: two files, and recipes with every kind of event and every step.
pub fn trace() {
    let Some(folder) = folder() else { return };
    put(&folder, "empty-file", &TraceBuilder::new().finish());
    let mut stream = Stream::default();
    stream.push(0x1234).access(1, 0x7f00_0000_1000, Some(5000)).access(2, 0x7f00_0000_1008, None);
    stream.range(2, 0x7f00_0000_1010, 24, true, None).range(2, 0x7f00_0000_1010, 1 << 16, false, Some(6000));
    for kind in event::KINDS {
        let how = u64::from(Acquire::of(Primitive::Mutex, Mode::Exclusive).pack()) << 48;
        stream.wide(kind, 10_000 + 300 * kind as u64, 1, [how | 0x5000, 64, 0]);
    }
    stream.pop(1);
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x50_0000, &[7; 20], "bank")
        .sites(0, &[(1, 16, "__tsan_read4"), (2, 32, "__tsan_write8")]);
    let stack = StackCopy { sp: 0x7ffc_0000_1000, bytes: vec![1; 100], ..StackCopy::default() };
    file.survey(1, &[1 << 34 | 1 << 32 | 9, 1 << 34 | 1]).stack(1, &stack).stream(0, &stream);
    put(&folder, "small-file", &file.finish());
    put(&folder, "recipe-log", &log_recipe(0, stream.words()));
    for kind in event::KINDS {
        let words = [Small::Epoch(3).pack(), wide(kind, 4096, 1), 0x5000, 64, 3];
        let len = 2 + usize::from(kind.words());
        put(
            &folder,
            &format!("recipe-{}", kind.name()),
            &log_recipe(kind as u8 % 4, words.get(..len).unwrap_or(&words)),
        );
    }
    put(&folder, "recipe-steps", &all_steps(stream.words()));
}

fn log_recipe(thread: u8, words: &[u64]) -> Vec<u8> {
    let words = words.get(..255).unwrap_or(words);
    let mut recipe = vec![Step::Log as u8, thread, 0, words.len() as u8];
    recipe.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    recipe
}

/// A recipe that takes every step once.
fn all_steps(words: &[u64]) -> Vec<u8> {
    let mut recipe = vec![Step::Module as u8, 0];
    recipe.extend([0x40_0000_u64.to_le_bytes(), 0x50_0000_u64.to_le_bytes()].concat());
    recipe.extend(*b"\x04\x04\x01\x02\x03\x04bank");
    recipe.extend([Step::Sites as u8, 0, 1, 1, 0, 0, 0, 16, 0, 0, 0, 0]);
    recipe.extend([Step::Survey as u8, 1, 0, 0, 0, 1, 9, 0, 0, 0, 5, 0, 0, 0]);
    recipe.extend(log_recipe(0, words));
    recipe.extend([Step::Live as u8, 1, 1, 0, 13, 0, 0, 0]);
    recipe.extend([0x5000_u64.to_le_bytes(), 0x40_1000_u64.to_le_bytes()].concat());
    recipe.push(2);
    recipe.extend([Small::Epoch(3).pack().to_le_bytes(), wide(EventKind::ThreadExit, 9000, 0).to_le_bytes()].concat());
    recipe.push(Step::Clocks as u8);
    recipe.extend([0_u64, 0, 3000, 1000].map(u64::to_le_bytes).concat());
    recipe.extend([Step::Counter as u8, 3, 1, 0, 0, 0, 0, 0, 0, 0]);
    recipe.extend([Step::Foreign as u8, 77, 0, 2, 1, 2, Step::Hole as u8, 1]);
    recipe.extend([Step::Patch as u8, 8, 16, 0, 0, 2, 0xff, 0xff]);
    recipe
}

/// Writes the seeds of `clip_reader`: a clip with everything in it, and schedules.
pub fn clip() {
    let Some(folder) = folder() else { return };
    let script: Vec<Choice> = ["0@2-1", "1@4/0"].iter().filter_map(|text| switch(text)).collect();
    let clip = Clip {
        program: "/bin/bank".into(),
        build_id: vec![7; 20],
        inputs: ClipInputs {
            argv: vec!["bank".into(), "-x".into()],
            dir: "/tmp".into(),
            env: vec![("A".into(), "b".into())],
            stdin: vec![0, 0xff],
        },
        images: vec![ImageSpec { build_id: vec![1; 20], sites: vec![(0, 1), (3, 0)], table: vec![1, 2] }],
        files: Vec::new(),
        world: World::default(),
        most_steps: 1000,
        oracle: Some("true".into()),
        script,
        by_strategy: Some(Spec::default()),
        outcome: Outcome::of_code(3),
        wrong: Some(Wrong {
            signature: Signature { harm: Harm::Crash, detail: "SIGSEGV".into() },
            words: "SIGSEGV".into(),
        }),
        steps: 12,
        digest: 0xabcd,
    };
    put(&folder, "clip", clip.to_json().as_bytes());
    for (name, text) in [("empty", "s1:"), ("one", "s1:0@12-1"), ("some", "s1:0@12-1,1@3/0,2@1-1,1@65535/65535")] {
        put(&folder, name, text.as_bytes());
    }
}

/// Writes the seeds of `std_reader`: a trace with every word, and one with all that can be wrong.
pub fn text() {
    let Some(folder) = folder() else { return };
    let good = "T0|fork(T1)|1\nT0|begin|2\nT0|acq(L)|3\nT0|w(V1.2[3])|4\nT0|rel(L)|5\nT0|end|6\nT1|r(V1.2[3])|7\nT0|join(T1)|8\n";
    let odd =
        "T0|rel(L)|1\r\nT1|acq(M)|2\nT2|acq(M)|3\nT2|acq(M)|3\nT0|fork(T1)|\nT0|join(T2)\nT2|end\n\nT0|req(x)|9\nT0|w(";
    for (name, text) in [("good", good), ("odd", odd), ("not", "T0 reads x\n")] {
        put(&folder, name, text.as_bytes());
    }
}

/// Writes the seeds of `invariants_reader`: a file with every word, and ones with what can be wrong.
pub fn invariants() {
    let Some(folder) = folder() else { return };
    let good = "selvedge-invariants 3\nprogram bank\nruns 4\ntime 5000\nhooks 70000 f\n# both\ncolour a, b\n  shift -8 b.c:f+3:12:w4\n\
                site b.c:f+3:12:w4\n  hits 8\n  after nil\n  after b.c:g/h+1:2:r4#2\n  touches %6eil\nsite b.c:g/h+1:2:r4#2\nend\n";
    let odd = "selvedge-invariants 1\r\nsite a%20b\nafter a%2\nhits 99999999999999999999\nsite a\nsite a\nend\nend\n";
    for (name, text) in [("good", good), ("odd", odd), ("newer", "selvedge-invariants 99\n"), ("none", "")] {
        put(&folder, name, text.as_bytes());
    }
}

/// Writes the seeds of `graph_reader`: graphs of no, one and several runs, and one of the first version.
pub fn graphs() {
    let Some(folder) = folder() else { return };
    let run = |rounds: u64| {
        let steps = (0..rounds).map(|round| {
            let site = Site { image: 0, offset: (round % 7) as u32 * 16 };
            let touch = if round % 3 == 0 { Touch::Read } else { Touch::Write };
            GraphStep::Access(Access { thread: (round % 2) as u32, site, addr: round % 5 * 8, size: 4, touch })
        });
        Steps { images: vec![vec![7; 20]], steps: steps.collect() }.graph(Kind::default())
    };
    let first = b"SELVGRPH\x01\x05\x00\x01\x02\x01\x02\x07\x08\x00\x00........";
    put(&folder, "first-version", first);
    for rounds in [0, 4, 40, 400] {
        let graph = run(rounds);
        put(&folder, &format!("run-{rounds}"), &to_bytes(&graph));
        if let Ok(both) = graph.union(&run(rounds / 2)) {
            put(&folder, &format!("sum-{rounds}"), &to_bytes(&both));
        }
    }
}

fn switch(text: &str) -> Option<Choice> {
    let schedule: Schedule = format!("s1:{text}").parse().ok()?;
    schedule.first().map(bare)
}

/// Writes the seeds of `plan_reader`: plans of every shape.
pub fn plan() {
    let Some(folder) = folder() else { return };
    let table = table();
    for (name, images) in [("no-image", 0_u32), ("one-image", 1), ("two-images", 2)] {
        for observe in 0..3_u8 {
            put(&folder, &format!("{name}-{observe}"), &a_plan(observe, images, &table));
        }
    }
}

fn a_plan(observe: u8, images: u32, table: &[u8]) -> Vec<u8> {
    let tail = (plan::HEADER + plan::IMAGE * images as usize) as u32;
    let (sites_at, table_at) = (tail + 8, tail + 24);
    let mut bytes = plan::MAGIC.to_vec();
    bytes.extend([plan::VERSION.to_le_bytes(), (plan::HEADER as u32).to_le_bytes()].concat());
    bytes.extend([0; 16]);
    bytes.extend([observe, 0, 0, plan::FLAG_ARM_ALL * (observe & 1)]);
    bytes.extend([images, plan::HEADER as u32, tail, 4, 64].map(u32::to_le_bytes).concat());
    bytes.extend((1_u64 << 30).to_le_bytes());
    bytes.resize(plan::HEADER, 0);
    for image in 0..images {
        bytes.extend([image as u8 + 1; 20]);
        bytes.extend([0; 12]);
        bytes.extend([20, sites_at, 2, table_at, table.len() as u32].map(u32::to_le_bytes).concat());
        bytes.extend([0; 12]);
    }
    bytes.extend(*b"/out\0\0\0\0");
    bytes.extend([0_u32, 5, 1, 6].map(u32::to_le_bytes).concat());
    bytes.extend(table);
    plan::seal(&mut bytes);
    bytes
}

/// Writes the seeds of `site_table`: tables, and images that the machine's compiler makes.
pub fn site_table() {
    let Some(folder) = folder() else { return };
    put(&folder, "table-empty", &table_bytes(&[], &[], &Reach::default()));
    put(&folder, "table", &table());
    for (name, flags) in IMAGES {
        match image(&folder, flags) {
            Some(bytes) => put(&folder, name, &bytes),
            None => eprintln!("no seed {name}: `{}` could not make it", compiler()),
        }
    }
}

/// A table with every form of call.
fn table() -> Vec<u8> {
    let hook = by_name("__tsan_read4").unwrap_or(HookIx(0));
    let entry = |number: u8| {
        let form = Form::from_u8(number)?;
        let mut code = [number; 8];
        for (to, from) in code.iter_mut().zip(form.opcode()) {
            *to = *from;
        }
        Some(Entry { offset: 0x1000 + 16 * u32::from(number), hook, form, code })
    };
    table_bytes(&[0xaa; 20], &(0..5).filter_map(entry).collect::<Vec<_>>(), &Reach::default())
}

/// Images and how they are compiled: little code, so that mutations hit something.
const IMAGES: [(&str, &[&str]); 3] = [
    ("image-library", &["-g", "-fPIC", "-shared"]),
    ("image-no-plt", &["-g1", "-fPIC", "-fno-plt", "-shared", "-Wl,--compress-debug-sections=zlib"]),
    ("image-stripped", &["-fPIC", "-shared", "-s"]),
];

const SOURCE: &str = "\
struct account { int id; long balance; struct { short low, high; } limits[3]; };
struct account accounts[4];
static long total;
int spare(int);
static inline __attribute__((always_inline)) void put(struct account *to, long sum) { to->balance += sum; total += sum; }
void deposit(int which, long sum) { if (sum > 0) put(&accounts[which & 3], sum); else __atomic_fetch_add(&total, sum, 5); }
int first(void) { return spare(accounts[0].limits[1].high) + __atomic_load_n(&accounts[1].id, 2); }
";

fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// An instrumented image with its table inside; hooks stay undefined.
fn image(folder: &Path, flags: &[&str]) -> Option<Vec<u8>> {
    let work = folder.parent()?;
    let (source, object, linked) = (work.join("seed.c"), work.join("seed.o"), work.join("seed.so"));
    fs::write(&source, SOURCE).ok()?;
    let mut compile = Command::new(compiler());
    compile.args(["-O1", "-fsanitize=thread", "-fsanitize-coverage=trace-pc", "-c"]).args(flags);
    compile.arg(&source).arg("-o").arg(&object);
    let mut link = Command::new(compiler());
    link.args(["-nostdlib", "-Wl,--build-id", "-Wl,-z,noseparate-code"])
        .args(flags)
        .arg(&object)
        .arg("-o")
        .arg(&linked);
    for command in [&mut compile, &mut link] {
        command.output().ok().filter(|output| output.status.success())?;
    }
    let image = Image::open(&linked).ok()?;
    let sites = find_sites(&image);
    let table = table_bytes(image.build_id(), &sites.entries, &sites.reach);
    with_table(&image, &table).ok()
}
