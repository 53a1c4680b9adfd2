//! Keys of sites: the same after a rebuild of unchanged code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_image::{SiteList, Symboliser, load_or_build, site_keys};

use crate::support::{Bench, INSTRUMENT, c_compilers, have};

/// `put` is never cloned for its caller: it is compiled the same whoever calls it.
const HEADER: &str = "
static inline __attribute__((always_inline)) int get(int *at) { return *at; }
static __attribute__((noinline, noclone)) void put(int *at, int value) {
    *at = value;
}
";

const BANK: &str = "
static int
balance, limit;
static __attribute__((noinline)) void init(void) {
    balance = get(&limit);
    put(&limit, 7);
}
__attribute__((noinline)) int withdraw(int amount) {
    if (balance < amount)
        return 0;
    balance -= amount; balance += get(&limit); balance += get(&limit);
    return __atomic_fetch_add(&limit, 1, __ATOMIC_SEQ_CST);
}
int main(void) {
    init();
    return withdraw(3);
}
";

const ABOVE: &str = "
static int audits;
__attribute__((noinline)) int audit(void) {
    put(&audits, audits + 1);
    return audits;
}
";

const OTHER: &str = "
#include \"list.h\"
static int other;
static __attribute__((noinline)) void init(void) {
    other = get(&other);
    put(&other, 7);
}
void elsewhere(void) { init(); }
";

const CPP: &str = "
namespace things {
template <typename T> struct Stack {
    T items[8];
    int top = 0;
    void push(T item) { items[top++] = item; }
    T pop() { return items[--top]; }
};
Stack<long> longs;
Stack<int> ints;
namespace {
__attribute__((noinline)) void hidden() { ints.items[7] += 1; }
}
}
using namespace things;
__attribute__((noinline)) long both(int x) {
    hidden();
    longs.push(x);
    ints.push(x);
    return longs.pop() + ints.pop();
}
int main(int argc, char **) { return (int)both(argc); }
";

/// Writes sources, compiles them in the order given and links them, all in a directory of that name.
fn build(bench: &Bench, compiler: &str, directory: &str, flags: &[&str], sources: &[(&str, String)]) -> PathBuf {
    let directory = bench.path(directory);
    for (name, text) in sources {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let program = directory.join("program");
    let is_source = |name: &&str| !name.ends_with(".h") && !name.ends_with(".inc");
    let objects = sources.iter().map(|(name, _)| *name).filter(is_source).map(|name| {
        let object = directory.join(format!("{}.o", name.replace('/', "-")));
        let mut command = Command::new(compiler);
        command.args(INSTRUMENT).args(flags).args(["-c", "-I.", "-w", name, "-o"]).arg(&object);
        let output = command.current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        object
    });
    let objects: Vec<PathBuf> = objects.chain([bench.path("standin.o")]).collect();
    bench.run(Command::new(compiler).args(objects).args(["-Wl,--build-id", "-pthread", "-o"]).arg(&program));
    program
}

/// Each key with the site's hook and line.
fn keys(path: &Path) -> BTreeMap<String, (&'static str, Option<u32>)> {
    let loaded = load_or_build(path).unwrap();
    let keys = site_keys(&loaded);
    assert_eq!(keys.len(), loaded.entries.len());
    let symboliser = Symboliser::new(&loaded.image);
    let sites = SiteList::new(&loaded.entries, &symboliser);
    let places = sites.iter().map(|site| (site.hook.name, site.frames[0].line));
    let by_key: BTreeMap<_, _> = keys.iter().cloned().zip(places).collect();
    assert_eq!(by_key.len(), keys.len(), "two sites have one key");
    assert!(keys.iter().all(|key| !key.contains(char::is_whitespace) && !key.is_empty()), "{keys:?}");
    by_key
}

/// That every key of `before` names the same hook in `after`, on a line `by` further down where it was in `file`.
fn same(before: &Path, after: &Path, file: &str, by: u32) {
    let (before, after) = (keys(before), keys(after));
    assert!(before.len() > 10, "{before:?}");
    for (key, (hook, line)) in &before {
        let (hook_after, line_after) = after.get(key).unwrap_or_else(|| panic!("{key} is not in {after:#?}"));
        // What the compiler makes by itself stands on the last line.
        let is_made = key.contains("_sub_I");
        let by = if key.starts_with(&format!("{file}:")) && !is_made { by } else { 0 };
        assert_eq!(hook, hook_after, "{key}");
        assert!(is_made || line.map(|line| line + by) == *line_after, "{key}");
    }
}

fn lines(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap()
}

#[test]
fn keys_survive_rebuilds_of_unchanged_code() {
    let bench = Bench::new();
    let header = || ("list.h", HEADER.to_owned());
    let bank = |above: &str| ("bank.c", format!("#include \"list.h\"\n{above}{BANK}"));
    for compiler in c_compilers() {
        for level in ["-O0", "-O2"] {
            let directory = |what: &str| format!("{compiler}{level}/{what}");
            let build =
                |what: &str, sources: &[(&str, String)]| build(&bench, compiler, &directory(what), &[level], sources);
            let before = build("before", &[header(), bank("")]);
            same(&before, &build("elsewhere/deep", &[header(), bank("")]), "bank.c", 0);
            same(&before, &build("above", &[header(), bank(ABOVE)]), "bank.c", lines(ABOVE));
            let other = || ("other.c", OTHER.to_owned());
            same(&before, &build("first", &[header(), other(), bank(ABOVE)]), "bank.c", lines(ABOVE));
            same(&before, &build("last", &[header(), bank(""), other()]), "bank.c", 0);
        }
    }
}

#[test]
fn keys_say_where_and_what() {
    let bench = Bench::new();
    for compiler in c_compilers() {
        let sources = [("list.h", HEADER.to_owned()), ("bank.c", format!("#include \"list.h\"\n{BANK}"))];
        let all = keys(&build(&bench, compiler, compiler, &["-O0"], &sources));
        // The columns are the compiler's own.
        let without_column = |key: &str| {
            let (rest, does) = key.rsplit_once(':').unwrap();
            format!("{}:{does}", rest.rsplit_once(':').map_or(rest, |(rest, _)| rest))
        };
        let seen: BTreeSet<String> = all.keys().map(|key| without_column(key)).collect();
        for wanted in [
            "bank.c:withdraw+1:r4",
            "bank.c:withdraw+4:add4",
            "bank.c:init+1:w4",
            "list.h:withdraw/get+0:r4",
            "list.h:withdraw/get+0:r4#2",
            "list.h(bank.c):init/get+0:r4",
            "list.h(bank.c):put+1:w4",
        ] {
            assert!(seen.contains(wanted), "{compiler}: no {wanted} in {seen:#?}");
        }
    }
}

#[test]
fn keys_of_cpp_survive_with_templates_and_inlining() {
    let bench = Bench::new();
    for compiler in ["g++", "clang++"].into_iter().filter(|tool| have(tool)) {
        for level in ["-O0", "-O2"] {
            let build = |what: &str, text: String| {
                build(&bench, compiler, &format!("{compiler}{level}/{what}"), &[level], &[("stack.cpp", text)])
            };
            let above = "int unused(int x) {\n    static int kept;\n    return kept += x;\n}\n";
            let before = build("before", CPP.to_owned());
            same(&before, &build("above", format!("{above}{CPP}")), "stack.cpp", lines(above));
            let inlined = "stack.cpp:both/things::Stack<long>::push+0:";
            let plain = "stack.cpp:things::Stack<long>::push+0:";
            let wanted = if level == "-O0" { plain } else { inlined };
            let all = keys(&before);
            for wanted in [wanted, "stack.cpp:things::(anonymous_namespace)::hidden+0:"] {
                assert!(all.keys().any(|key| key.starts_with(wanted)), "{wanted} {all:#?}");
            }
        }
    }
}

#[test]
fn files_of_one_name_are_told_apart() {
    let bench = Bench::new();
    let text = |name: &str| {
        format!("static int x;\nstatic void init(void) {{ x++; }}\nvoid {name}(void) {{ init(); x--; }}\n")
    };
    let main = "void a(void), b(void);\nint main(void) { a(); b(); }\n";
    let main = || ("main.c", main.to_owned());
    let starts = |all: &BTreeMap<String, _>, begin: &str| all.keys().any(|key| key.starts_with(begin));
    // As units of their own.
    let sources = [main(), ("a/util.c", text("a")), ("b/util.c", text("b"))];
    let all = keys(&build(&bench, "gcc", "units", &["-O0"], &sources));
    for begin in ["a/util.c:init+0:", "b/util.c:init+0:", "util.c:a+0:", "util.c:b+0:"] {
        assert!(starts(&all, begin), "no {begin} in {all:#?}");
    }
    assert_eq!(all, keys(&build(&bench, "gcc", "moved/units", &["-O0"], &sources)));
    // As parts of others.
    let sources = [
        main(),
        ("one.c", "#include \"a/util.inc\"\n".to_owned()),
        ("two.c", "#include \"b/util.inc\"\n".to_owned()),
        ("a/util.inc", text("a")),
        ("b/util.inc", text("b")),
    ];
    let all = keys(&build(&bench, "gcc", "parts", &["-O0"], &sources));
    for begin in ["util.inc(one.c):init+0:", "util.inc(two.c):init+0:", "util.inc:a+0:", "util.inc:b+0:"] {
        assert!(starts(&all, begin), "no {begin} in {all:#?}");
    }
}

#[test]
fn without_debug_information_code_offsets_serve() {
    let bench = Bench::new();
    let sources = [("list.h", HEADER.to_owned()), ("bank.c", format!("#include \"list.h\"\n{BANK}"))];
    let program = build(&bench, "gcc", "bare", &["-O1"], &sources);
    let bare = program.with_extension("bare");
    bench.run(Command::new("strip").arg("-g").arg("-o").arg(&bare).arg(&program));
    let all = keys(&bare);
    assert!(all.keys().all(|key| key.starts_with("?:")), "{all:#?}");
    let of_withdraw: Vec<&String> = all.keys().filter(|key| key.starts_with("?:withdraw@")).collect();
    assert!(of_withdraw.iter().any(|key| key.ends_with(":add4")), "{of_withdraw:?}");
    // Stripped of everything, only the embedded table knows the sites.
    selvedge_image::index(&program).unwrap();
    let stripped = program.with_extension("stripped");
    bench.run(Command::new("strip").arg("-s").arg("-o").arg(&stripped).arg(&program));
    let nameless = keys(&stripped);
    assert_eq!(nameless.len(), all.len());
    assert!(nameless.keys().all(|key| key.starts_with("?:@")), "{nameless:#?}");
}

#[test]
fn split_debug_information_serves_and_its_loss_is_no_danger() {
    let bench = Bench::new();
    let sources = [("list.h", HEADER.to_owned()), ("bank.c", format!("#include \"list.h\"\n{BANK}"))];
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let whole = keys(&build(&bench, "gcc", "whole", &["-O1", version], &sources));
        let split = build(&bench, "gcc", "split", &["-O1", version, "-gsplit-dwarf"], &sources);
        assert_eq!(keys(&split), whole);
        std::fs::remove_file(split.with_file_name("bank.c.dwo")).unwrap();
        let left = keys(&split);
        // Lines are still there; where functions begin is not.
        assert!(left.keys().any(|key| key.starts_with("bank.c:withdraw@")), "{left:#?}");
    }
}

#[test]
fn keys_of_rust_have_no_hashes() {
    let (one, other) = (Bench::new(), Bench::new());
    let (one, other) = (keys(&one.rust_program()), keys(&other.rust_program()));
    assert_eq!(one, other);
    let own: Vec<&String> = one.keys().filter(|key| key.starts_with("bank.rs:")).collect();
    assert!(own.iter().any(|key| key.contains("+")), "{own:?}");
    let is_hash = |part: &str| {
        part.len() == 17 && part.starts_with('h') && part.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit())
    };
    assert!(!one.keys().any(|key| key.split(|c: char| !c.is_alphanumeric()).any(is_hash)));
}
