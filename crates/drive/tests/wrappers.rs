//! The compiler wrappers against real compilers and build systems.
//!
//! The test program is its own wrapper: called as `selvedge-cc`, `gcc` and so on (through links) it wraps, called as
//! `selvedge build -- …` it builds, otherwise it runs the tests. Therefore it has a `main` of its own (`harness = false`), which
//! answers the few options that `cargo test` and `cargo nextest` use. A stand-in runtime with counting hooks is compiled on the spot.
//! Tools that are not installed skip their tests and say so.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use selvedge_drive::build::{Build, Driver, Environment, RuntimeFiles, Wrapper};

const HOME_VARIABLE: &str = "SELVEDGE_TEST_HOME";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let argv0 = args.first().cloned().unwrap_or_default();
    if let Some(driver) = Driver::from_program_name(&argv0) {
        return ExitCode::from(act_as_compiler(driver, &args[1..]));
    }
    if Path::new(&argv0).file_name() == Some(OsStr::new("selvedge")) {
        return ExitCode::from(act_as_build(&args[1..]));
    }
    run_tests(&args[1..])
}

fn home() -> PathBuf {
    std::env::var_os(HOME_VARIABLE).expect("the fixture sets the test home").into()
}

fn act_as_compiler(driver: Driver, args: &[OsString]) -> u8 {
    let home = home();
    let runtime = RuntimeFiles {
        object: home.join("runtime/rt.o"),
        dynamic_list: home.join("runtime/hooks.list"),
        shared_stub: home.join("runtime/stub.o"),
        include: home.join("runtime/include"),
    };
    let own = std::env::current_exe().expect("a running program has a path");
    let log = home.join("linked.log");
    let mut post_link = |image: &Path| -> Result<(), Box<dyn std::error::Error>> {
        if std::env::var_os("SELVEDGE_TEST_POST_LINK_FAILS").is_some() {
            return Err("the test said so".into());
        }
        let mut line = fs::read(&log).unwrap_or_default();
        line.extend_from_slice(image.as_os_str().as_bytes());
        line.push(b'\n');
        Ok(fs::write(&log, line)?)
    };
    let wrapper = Wrapper {
        driver,
        runtime: &runtime,
        cache_dir: &home.join("cache"),
        own_executable: &own,
        environment: Environment::from_process(),
        post_link: &mut post_link,
    };
    match wrapper.run(args) {
        Ok(exit) => exit.code(),
        Err(error) => {
            eprintln!("selvedge cc: {error}");
            error.exit_code()
        }
    }
}

/// `selvedge build [--compile-commands FILE] -- CMD…`
fn act_as_build(args: &[OsString]) -> u8 {
    let split = args.iter().position(|arg| arg == "--").expect("the tests give a `--`");
    let file = args[..split].iter().position(|arg| arg == "--compile-commands").map(|at| PathBuf::from(&args[at + 1]));
    let build = Build {
        command: &args[split + 1..],
        executable: &std::env::current_exe().expect("a running program has a path"),
        shim_dir: &home().join("shims"),
        compile_commands: file.as_deref(),
    };
    match build.run(&Environment::from_process()) {
        Ok(exit) => exit.code(),
        Err(error) => {
            eprintln!("selvedge build: {error}");
            error.exit_code()
        }
    }
}

/// How a test ended, if it did not panic.
enum Verdict {
    Passed,
    Skipped(String),
}

type Test = fn(&Fixture) -> Verdict;

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as Test)),*] };
}

const TESTS: &[(&str, Test)] = tests![
    compile_only_then_link
    compile_and_link_at_once
    preprocessed_input_and_saved_temporaries
    shared_library_in_either_program
    shared_library_that_binds_symbolically
    static_is_refused
    address_sanitizer_is_refused
    thirty_two_bit_is_refused
    thread_sanitizer_given
    opt_outs_are_kept
    undefined_sanitizer_stays
    response_files
    thread_sanitizer_in_a_response_file
    dependency_files
    preprocessing_and_standard_input
    assembler_output_passes
    assembler_input
    questions_pass
    exit_codes_and_messages_pass
    link_time_optimisation
    every_linker
    cxx_exceptions
    cxx_linked_by_cc
    precompiled_headers
    relocatable_link
    freestanding_program
    odd_file_names
    output_to_nowhere
    failing_site_table_is_a_warning
    identity_is_asked_once
    cache_that_cannot_be_written
    compiler_variable_with_options
    ourselves_as_the_compiler
    own_name_on_path_is_passed_over
    missing_compiler
    clang_14
    clang_19
    launched_by_ccache
    ccache_behind_the_wrapper
    masquerading_ccache
    autoconf_with_cc
    libtool_shared_library
    cmake_project
    meson_project
    build_with_hard_coded_gcc
    build_passes_exit_codes
    build_writes_compile_commands
    build_with_ccache_masquerade
    build_keeps_the_chosen_compiler
];

fn run_tests(args: &[OsString]) -> ExitCode {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("--list") {
        if !has("--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().filter_map(|arg| arg.to_str()).find(|arg| !arg.starts_with('-'));
    let chosen = TESTS.iter().filter(|(name, _)| match filter {
        Some(filter) if has("--exact") => *name == filter,
        Some(filter) => name.contains(filter),
        None => true,
    });
    if find("gcc").is_none() || find("g++").is_none() {
        println!("skipped: gcc or g++ not found");
        return ExitCode::SUCCESS;
    }
    let runtime = StandIn::compile();
    let mut failed = 0;
    for (name, test) in chosen {
        let fixture = Fixture::new(&runtime);
        let verdict = match catch_unwind(AssertUnwindSafe(|| test(&fixture))) {
            Ok(Verdict::Passed) => "ok".to_owned(),
            Ok(Verdict::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => {
                failed += 1;
                let kept = fixture.dir.keep();
                format!("FAILED (files kept in {})", kept.display())
            }
        };
        println!("test {name} ... {verdict}");
    }
    println!("{failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// A runtime that counts and does nothing else, with atomics performed.
struct StandIn {
    dir: tempfile::TempDir,
}

impl StandIn {
    fn compile() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("rt.c"), stand_in_source()).expect("writable");
        let list = "{ __tsan_*; __sanitizer_cov_*; selvedge_test_hits; };\n";
        fs::write(dir.path().join("hooks.list"), list).expect("writable");
        for (object, flags) in [("rt.o", &["-DCOUNT"][..]), ("stub.o", &["-DWEAK"])] {
            let done = Command::new("gcc")
                .args(["-O1", "-w", "-fPIC", "-c", "rt.c", "-o", object])
                .args(flags)
                .current_dir(dir.path())
                .status()
                .expect("gcc starts");
            assert!(done.success(), "the stand-in runtime does not compile");
        }
        Self { dir }
    }
}

fn stand_in_source() -> String {
    let mut text = String::from(
        "#ifdef COUNT\n\
         #include <stdio.h>\n\
         #include <stdlib.h>\n\
         long selvedge_test_hits;\n\
         #define HIT selvedge_test_hits++\n\
         __attribute__((destructor)) static void tell(void) {\n\
           if (getenv(\"SELVEDGE_TEST_TELL\")) fprintf(stderr, \"hits %s\\n\", selvedge_test_hits ? \"some\" : \"none\");\n\
         }\n\
         #else\n#define HIT\n#endif\n\
         #ifdef WEAK\n#define W __attribute__((weak))\n#else\n#define W\n#endif\n",
    );
    let mut plain = vec!["init".to_owned(), "func_entry".into(), "func_exit".into()];
    for access in ["read", "write", "unaligned_read", "unaligned_write"] {
        plain.extend([1, 2, 4, 8, 16].map(|size| format!("{access}{size}")));
    }
    for more in ["vptr_update", "vptr_read", "read_range", "write_range"] {
        plain.push(more.into());
    }
    for name in plain {
        text.push_str(&format!("W void __tsan_{name}(void) {{ HIT; }}\n"));
    }
    text.push_str(
        "W void __sanitizer_cov_trace_pc(void) { HIT; }\n\
         W void __tsan_atomic_thread_fence(int o) { __atomic_thread_fence(5); }\n\
         W void __tsan_atomic_signal_fence(int o) {}\n\
         W void *__tsan_memcpy(void *d, const void *s, unsigned long n) { void *r = d; __asm__ volatile(\"rep movsb\" : \"+D\"(d), \"+S\"(s), \"+c\"(n) :: \"memory\"); return r; }\n\
         W void *__tsan_memset(void *d, int c, unsigned long n) { void *r = d; __asm__ volatile(\"rep stosb\" : \"+D\"(d), \"+c\"(n) : \"a\"(c) : \"memory\"); return r; }\n\
         W void *__tsan_memmove(void *d, const void *s, unsigned long n) { volatile char *a = d; const volatile char *b = s;\n\
           if (a < b) while (n--) *a++ = *b++; else while (n--) a[n] = b[n]; return d; }\n",
    );
    for (bits, of) in [(8, "char"), (16, "short"), (32, "int"), (64, "long")] {
        let name = |op: &str| format!("__tsan_atomic{bits}_{op}");
        text.push_str(&format!(
            "W {of} {}({of} *p, int o) {{ HIT; return __atomic_load_n(p, 5); }}\n\
             W void {}({of} *p, {of} v, int o) {{ HIT; __atomic_store_n(p, v, 5); }}\n\
             W {of} {}({of} *p, {of} v, int o) {{ HIT; return __atomic_exchange_n(p, v, 5); }}\n",
            name("load"),
            name("store"),
            name("exchange"),
        ));
        for op in ["add", "sub", "and", "or", "xor", "nand"] {
            text.push_str(&format!(
                "W {of} {}({of} *p, {of} v, int o) {{ HIT; return __atomic_fetch_{op}(p, v, 5); }}\n",
                name(&format!("fetch_{op}")),
            ));
        }
        for kind in ["strong", "weak"] {
            text.push_str(&format!(
                "W int {}({of} *p, {of} *e, {of} v, int o, int f) \
                 {{ HIT; return __atomic_compare_exchange_n(p, e, v, 0, 5, 5); }}\n",
                name(&format!("compare_exchange_{kind}")),
            ));
        }
    }
    text
}

/// A directory of its own for each test, with spaces in its name, and the links that make us a compiler.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new(runtime: &StandIn) -> Self {
        let dir = tempfile::Builder::new().prefix("selvedge wrappers ").tempdir().expect("a temporary directory");
        let own = std::env::current_exe().expect("a running program has a path");
        fs::create_dir_all(dir.path().join("bin")).expect("writable");
        fs::create_dir_all(dir.path().join("work")).expect("writable");
        for name in ["selvedge-cc", "selvedge-c++", "selvedge"] {
            symlink(&own, dir.path().join("bin").join(name)).expect("links can be made");
        }
        symlink(runtime.dir.path(), dir.path().join("runtime")).expect("links can be made");
        Self { dir }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.dir.path().join("bin").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().expect("inside work")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.work().join(name)).expect(name);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A command in the work directory, with the links on `PATH` and nothing of the outer environment in the way.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut path = OsString::from(self.dir.path().join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env(HOME_VARIABLE, self.dir.path())
            .env("PATH", path)
            .env("CCACHE_DIR", self.dir.path().join("ccache"))
            .stdin(Stdio::null());
        for name in ["CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "SELVEDGE_CC", "SELVEDGE_CXX"] {
            command.env_remove(name);
        }
        for name in ["MAKEFLAGS", "SELVEDGE_SHIMS", "SELVEDGE_COMPILE_COMMANDS"] {
            command.env_remove(name);
        }
        command
    }

    fn cc(&self, args: &str) -> Output {
        output(self.command(self.bin("selvedge-cc")).args(args.split_whitespace()))
    }

    fn cc_ok(&self, args: &str) {
        ok(&self.cc(args), args);
    }

    fn cxx_ok(&self, args: &str) {
        let mut command = self.command(self.bin("selvedge-c++"));
        ok(&output(command.args(args.split_whitespace())), args);
    }

    /// Runs a made program: it must succeed; says whether it reached the counting runtime.
    fn run(&self, program: &str) -> Hits {
        let mut command = self.command(self.work().join(program));
        let out = output(command.env("SELVEDGE_TEST_TELL", "1"));
        ok(&out, program);
        match text(&out.stderr).trim() {
            "hits some" => Hits::Some,
            "hits none" => Hits::None,
            "" => Hits::NoRuntime,
            other => panic!("{program} said {other:?}"),
        }
    }

    fn linked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("linked.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

/// What a program run says about its runtime.
#[derive(Debug, PartialEq, Eq)]
enum Hits {
    Some,
    None,
    NoRuntime,
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn ok(out: &Output, what: &str) {
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{what}: {}\n{stdout}\n{stderr}", out.status);
}

#[track_caller]
fn refused(out: &Output, word: &str) {
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(word), "{stderr}");
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

macro_rules! need {
    ($($tool:expr),+) => {
        $(if find($tool).is_none() {
            return Verdict::Skipped(format!("{} not found", $tool));
        })+
    };
}

fn symbols(file: &Path) -> String {
    text(&output(Command::new("nm").arg(file)).stdout)
}

/// What the dynamic section and the notes say.
fn needed(file: &Path) -> String {
    text(&output(Command::new("readelf").args(["-dn"]).arg(file)).stdout)
}

const COUNTER: &str = "#include <pthread.h>\n\
    int shared; static void *add(void *p) { if (p) shared++; else shared--; return p; }\n\
    int main(void) { pthread_t t; pthread_create(&t, 0, add, &shared); pthread_join(t, 0); return shared - 1; }\n";

fn compile_only_then_link(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-O1 -c x.c -o x.o");
    let names = symbols(&f.work().join("x.o"));
    assert!(names.contains("__tsan_write4") && names.contains("__sanitizer_cov_trace_pc"));
    assert!(f.linked().is_empty());
    f.cc_ok("x.o -o x");
    assert_eq!(f.run("x"), Hits::Some);
    assert_eq!(f.linked(), ["x"]);
    let image = needed(&f.work().join("x"));
    assert!(image.contains("Build ID") && !image.contains("tsan"), "{image}");
    Verdict::Passed
}

fn compile_and_link_at_once(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-Wall -Werror -O2 x.c");
    assert_eq!(f.run("a.out"), Hits::Some);
    assert!(!needed(&f.work().join("a.out")).contains("tsan"));
    f.cc_ok("-xc x.c -ojoined");
    assert_eq!(f.run("joined"), Hits::Some);
    assert_eq!(f.linked(), ["a.out", "joined"]);
    Verdict::Passed
}

fn preprocessed_input_and_saved_temporaries(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-E x.c -o y.i");
    f.cc_ok("y.i -o y");
    assert_eq!(f.run("y"), Hits::Some);
    f.cc_ok("-save-temps -flto x.c -o z");
    assert_eq!(f.run("z"), Hits::Some);
    Verdict::Passed
}

const LIBRARY: &str = "int calls; int twice(int x) { calls++; return x > 3 ? 2 * x : x + x; }\n";
const LOADER: &str = "#include <dlfcn.h>\n#include <stdio.h>\n\
    int main(void) { void *l = dlopen(\"./libt.so\", RTLD_NOW); if (!l) { puts(dlerror()); return 1; }\n\
    int (*f)(int) = (int (*)(int))dlsym(l, \"twice\"); return f(21) - 42; }\n";

fn shared_library_in_either_program(f: &Fixture) -> Verdict {
    f.write("t.c", LIBRARY);
    f.write("main.c", LOADER);
    f.cc_ok("-shared -fPIC -Wl,-z,defs t.c -o libt.so");
    assert_eq!(f.linked(), ["libt.so"]);
    ok(&output(f.command("gcc").args(["main.c", "-o", "plain", "-ldl"])), "plain");
    assert_eq!(f.run("plain"), Hits::NoRuntime);
    // The program itself has no hooks, so every hit comes from the library.
    f.cc_ok("-fno-sanitize=thread main.c -o wrapped -ldl");
    assert_eq!(f.run("wrapped"), Hits::Some);
    Verdict::Passed
}

fn shared_library_that_binds_symbolically(f: &Fixture) -> Verdict {
    f.write("t.c", LIBRARY);
    f.write("main.c", LOADER);
    f.cc_ok("-fno-sanitize=thread main.c -o wrapped -ldl");
    f.cc_ok("-shared -fPIC -Wl,-Bsymbolic t.c -o libt.so");
    assert_eq!(f.run("wrapped"), Hits::Some);
    Verdict::Passed
}

fn static_is_refused(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    refused(&f.cc("-static x.c"), "cannot link a static program");
    refused(&f.cc("-static-pie x.c"), "static-pie");
    f.cc_ok("-static -c x.c");
    f.cc_ok("-static-libgcc x.o");
    Verdict::Passed
}

fn address_sanitizer_is_refused(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    refused(&f.cc("-fsanitize=address -c x.c"), "-fsanitize=address");
    refused(&f.cc("-fsanitize=undefined,leak x.c"), "-fsanitize=leak");
    Verdict::Passed
}

fn thirty_two_bit_is_refused(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    refused(&f.cc("-m32 -c x.c"), "-m32");
    Verdict::Passed
}

fn thread_sanitizer_given(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-fsanitize=thread x.c -o one");
    f.cc_ok("-fsanitize=thread -c x.c");
    f.cc_ok("-fsanitize=thread x.o -o two -ltsan");
    for program in ["one", "two"] {
        assert_eq!(f.run(program), Hits::Some);
        assert!(!needed(&f.work().join(program)).contains("tsan"));
    }
    Verdict::Passed
}

fn opt_outs_are_kept(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-fno-sanitize=thread -c x.c");
    assert!(!symbols(&f.work().join("x.o")).contains("__tsan"));
    f.cc_ok("x.o -o x");
    assert_eq!(f.run("x"), Hits::None);
    Verdict::Passed
}

fn undefined_sanitizer_stays(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-fsanitize=undefined,thread x.c -o x");
    assert_eq!(f.run("x"), Hits::Some);
    assert!(needed(&f.work().join("x")).contains("libubsan"));
    Verdict::Passed
}

fn response_files(f: &Fixture) -> Verdict {
    f.write("a b.c", COUNTER);
    f.write("outer.rsp", "-O1 @inner.rsp -o 'out put'");
    f.write("inner.rsp", "\"a b.c\"\n-Wall");
    f.cc_ok("@outer.rsp");
    assert_eq!(f.run("out put"), Hits::Some);
    assert_eq!(f.linked(), ["out put"]);
    f.write("static.rsp", "-static 'a b.c'");
    refused(&f.cc("@static.rsp"), "static");
    Verdict::Passed
}

fn thread_sanitizer_in_a_response_file(f: &Fixture) -> Verdict {
    f.write("a b.c", COUNTER);
    f.write("all.rsp", "-fsanitize=thread 'a b.c' -o x");
    f.cc_ok("@all.rsp");
    assert_eq!(f.run("x"), Hits::Some);
    assert!(!needed(&f.work().join("x")).contains("tsan"));
    Verdict::Passed
}

fn dependency_files(f: &Fixture) -> Verdict {
    f.write("x.h", "");
    f.write("x.c", &format!("#include \"x.h\"\n{COUNTER}"));
    f.cc_ok("-MD -c x.c -o x.o");
    f.cc_ok("-MMD -MF named.d -MT target -c x.c");
    f.cc_ok("-MD x.c -o prog");
    assert!(f.read("x.d").contains("x.h"));
    assert!(f.read("named.d").starts_with("target: x.c x.h"));
    assert!(f.read("prog.d").contains("x.h"), "named as without the wrapper");
    let listed = f.cc("-MM x.c");
    assert_eq!(text(&listed.stdout), "x.o: x.c x.h\n");
    Verdict::Passed
}

fn preprocessing_and_standard_input(f: &Fixture) -> Verdict {
    f.write("x.c", "#ifdef __SANITIZE_THREAD__\nint hooked;\n#endif\n");
    assert!(text(&f.cc("-E x.c").stdout).contains("hooked"));
    f.write("main.c", COUNTER);
    let source = fs::File::open(f.work().join("main.c")).expect("just written");
    let mut command = f.command(f.bin("selvedge-cc"));
    command.args(["-x", "c", "-", "-o", "x"]).stdin(source);
    ok(&output(&mut command), "-x c -");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn assembler_output_passes(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-S -O1 x.c -o ours.s");
    ok(&output(f.command("cc").args(["-S", "-O1", "x.c", "-o", "plain.s"])), "cc -S");
    assert_eq!(f.read("ours.s"), f.read("plain.s"));
    Verdict::Passed
}

fn assembler_input(f: &Fixture) -> Verdict {
    f.write("x.c", "int f(void); int main(void) { return f(); }\n");
    f.write(
        "f.S",
        "#ifdef __SANITIZE_THREAD__\n#error hooked\n#endif\n\
         .text\n.globl f\nf: xor %eax,%eax\nret\n.section .note.GNU-stack\n",
    );
    f.cc_ok("-c f.S");
    f.cc_ok("x.c f.o -o x");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn questions_pass(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    for question in
        ["--version", "-dumpmachine", "-dumpversion", "-print-search-dirs", "-v", "-###", "", "-Wl,--version"]
    {
        let ours = f.cc(question);
        let plain = output(f.command("cc").args(question.split_whitespace()));
        assert_eq!(ours.status, plain.status, "{question}");
        assert_eq!(text(&ours.stdout), text(&plain.stdout), "{question}");
    }
    Verdict::Passed
}

fn exit_codes_and_messages_pass(f: &Fixture) -> Verdict {
    f.write("bad.c", "int main(void) { return nothing; }\n");
    f.write("undefined.c", "int f(void); int main(void) { return f(); }\n");
    for (args, words) in [
        ("-c bad.c", "nothing"),
        ("bad.c", "nothing"),
        ("undefined.c", "undefined reference"),
        ("absent.c", "No such file"),
    ] {
        let out = f.cc(args);
        assert_eq!(out.status.code(), Some(1), "{args}");
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
    assert!(f.linked().is_empty());
    f.write("dies", "#!/bin/sh\ncase \"$*\" in *-dM*) echo '#define __GNUC__ 12';; *) kill -9 $$;; esac\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(f.work().join("dies"), mode).expect("own file");
    f.write("x.c", COUNTER);
    // Where nothing is left to do afterwards the compiler takes our place, and dies itself.
    for (args, code) in [("-c x.c", Some(137)), ("x.c", Some(137)), ("-x c -c x.c", None)] {
        let mut command = f.command(f.bin("selvedge-cc"));
        command.env("SELVEDGE_CC", f.work().join("dies")).args(args.split(' '));
        assert_eq!(output(&mut command).status.code(), code, "{args}");
    }
    Verdict::Passed
}

fn link_time_optimisation(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-O2 -flto -c x.c -o x.o");
    f.cc_ok("-O2 -flto x.o -o two");
    f.cc_ok("-O2 -flto=auto x.c -o one");
    for program in ["one", "two"] {
        assert_eq!(f.run(program), Hits::Some);
    }
    Verdict::Passed
}

fn every_linker(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.write("t.c", LIBRARY);
    let mut missing = Vec::new();
    for linker in ["bfd", "gold", "lld", "mold"] {
        // Debian names lld by its version only, unless a further package is installed.
        let versions = (11..30).rev().map(|major| format!("ld.{linker}-{major}"));
        let mut names = std::iter::once(format!("ld.{linker}")).chain(versions);
        let Some(program) = names.find_map(|name| find(&name)) else {
            missing.push(linker);
            continue;
        };
        symlink(program, f.bin(&format!("ld.{linker}"))).expect("links can be made");
        f.cc_ok(&format!("-fuse-ld={linker} x.c -o {linker}"));
        assert_eq!(f.run(linker), Hits::Some);
        let exported = text(&output(Command::new("nm").arg("-D").arg(f.work().join(linker))).stdout);
        assert!(exported.contains("T __tsan_write4"), "{linker}: {exported}");
        assert!(needed(&f.work().join(linker)).contains("Build ID"));
        f.cc_ok(&format!("-fuse-ld={linker} -shared -fPIC -Wl,-z,defs t.c -o {linker}.so"));
    }
    match missing.as_slice() {
        [] => Verdict::Passed,
        names => Verdict::Skipped(format!("ok, but not found: {}", names.join(", "))),
    }
}

const THROWER: &str = "#include <stdexcept>\n#include <atomic>\n#include <thread>\n#include <string>\n\
    std::atomic<int> n; static int f(int x) { if (x > 2) throw std::runtime_error(\"r\"); return x; }\n\
    int main() { std::thread t([] { n++; }); t.join(); try { f(n + 2); } catch (std::exception &e) { return std::string(e.what()) != \"r\"; } return 1; }\n";

fn cxx_exceptions(f: &Fixture) -> Verdict {
    f.write("x.cc", THROWER);
    f.cxx_ok("-O2 -Wall -Werror x.cc -o x");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn cxx_linked_by_cc(f: &Fixture) -> Verdict {
    f.write("x.cc", THROWER);
    f.cxx_ok("-c x.cc");
    f.cc_ok("x.o -lstdc++ -o x");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn precompiled_headers(f: &Fixture) -> Verdict {
    f.write("all.h", "#include <pthread.h>\nstatic inline int id(int x) { return x; }\n");
    f.write("x.c", COUNTER);
    f.cc_ok("-x c-header all.h -o all.h.gch");
    f.cc_ok("-Winvalid-pch -Werror -include all.h -c x.c");
    f.cc_ok("-Winvalid-pch -Werror -include all.h x.c -o x");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn relocatable_link(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("-c x.c");
    f.cc_ok("-r x.o -o y.o");
    assert!(symbols(&f.work().join("y.o")).contains("U __tsan_write4"));
    assert!(f.linked().is_empty());
    f.cc_ok("-r x.c -o z.o");
    f.cc_ok("z.o -o z");
    assert_eq!(f.run("z"), Hits::Some);
    Verdict::Passed
}

fn freestanding_program(f: &Fixture) -> Verdict {
    f.write(
        "x.c",
        "int g; void _start(void) { g++; __asm__ volatile(\"and $-16,%rsp; mov $60,%eax; xor %edi,%edi; syscall\"); }\n",
    );
    f.cc_ok("-nostdlib x.c -o x");
    assert_eq!(f.run("x"), Hits::NoRuntime);
    f.cc_ok("-ffreestanding -c x.c");
    assert!(!symbols(&f.work().join("x.o")).contains("__tsan"));
    Verdict::Passed
}

fn odd_file_names(f: &Fixture) -> Verdict {
    let source = OsString::from_vec(b"caf\xe9 x.c".to_vec());
    let object = OsString::from_vec(b"-ocaf\xe9 x.o".to_vec());
    fs::write(f.work().join(&source), COUNTER).expect("writable");
    let mut command = f.command(f.bin("selvedge-cc"));
    ok(&output(command.arg("-c").arg(&source).arg(object)), "not UTF-8");
    let mut command = f.command(f.bin("selvedge-cc"));
    let object = OsString::from_vec(b"caf\xe9 x.o".to_vec());
    ok(&output(command.arg(object).args(["-o", "it is, here"])), "comma");
    assert_eq!(f.run("it is, here"), Hits::Some);
    Verdict::Passed
}

fn output_to_nowhere(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    f.cc_ok("x.c -o /dev/null");
    assert!(f.linked().is_empty());
    Verdict::Passed
}

fn failing_site_table_is_a_warning(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    let mut command = f.command(f.bin("selvedge-cc"));
    let out = output(command.args(["x.c", "-o", "x"]).env("SELVEDGE_TEST_POST_LINK_FAILS", "1"));
    ok(&out, "link");
    assert!(text(&out.stderr).contains("warning: no site table for `x`: the test said so"));
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

/// A compiler that notes how often it is called.
fn counting_compiler(f: &Fixture, real: &str) -> PathBuf {
    let script = f.bin("counting");
    fs::write(&script, format!("#!/bin/sh\necho call >> calls\nexec {real} \"$@\"\n")).expect("writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).expect("own file");
    script
}

fn identity_is_asked_once(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    let compiler = counting_compiler(f, "gcc");
    // Each file is compiled twice.
    for calls in [3, 5, 7] {
        let mut command = f.command(f.bin("selvedge-cc"));
        ok(&output(command.args(["-c", "x.c"]).env("SELVEDGE_CC", &compiler)), "-c");
        assert_eq!(f.read("calls").lines().count(), calls);
    }
    Verdict::Passed
}

fn cache_that_cannot_be_written(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    fs::write(f.dir.path().join("cache"), "a file, not a directory").expect("writable");
    f.cc_ok("-O2 -flto x.c -o x");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn compiler_variable_with_options(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    let mut command = f.command(f.bin("selvedge-cc"));
    ok(&output(command.args(["x.c"]).env("SELVEDGE_CC", "gcc -O1 '-DNAME=a b'")), "words");
    assert_eq!(f.run("a.out"), Hits::Some);
    let mut command = f.command(f.bin("selvedge-cc"));
    refused(&output(command.args(["x.c"]).env("SELVEDGE_CC", "gcc 'open")), "quote");
    Verdict::Passed
}

fn ourselves_as_the_compiler(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    let own = f.bin("selvedge-cc");
    for value in [own.as_os_str(), OsStr::new("selvedge-cc")] {
        let mut command = f.command(&own);
        refused(&output(command.args(["x.c"]).env("SELVEDGE_CC", value)), "selvedge itself");
    }
    Verdict::Passed
}

fn own_name_on_path_is_passed_over(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    symlink(f.bin("selvedge-cc"), f.bin("cc")).expect("links can be made");
    ok(&output(f.command(f.bin("cc")).arg("x.c")), "cc");
    assert_eq!(f.run("a.out"), Hits::Some);
    let mut command = f.command(f.bin("cc"));
    refused(&output(command.arg("x.c").env("PATH", f.dir.path().join("bin"))), "selvedge itself");
    Verdict::Passed
}

fn missing_compiler(f: &Fixture) -> Verdict {
    let mut command = f.command(f.bin("selvedge-cc"));
    let out = output(command.arg("x.c").env("SELVEDGE_CC", "no-such-compiler"));
    assert_eq!(out.status.code(), Some(127));
    assert!(text(&out.stderr).contains("`no-such-compiler`"));
    Verdict::Passed
}

fn clang_14(f: &Fixture) -> Verdict {
    need!("clang-14");
    clang(f, "clang-14", "clang++-14")
}

fn clang_19(f: &Fixture) -> Verdict {
    need!("clang-19");
    clang(f, "clang-19", "clang++-19")
}

fn clang(f: &Fixture, cc: &str, cxx: &str) -> Verdict {
    f.write("x.c", COUNTER);
    f.write("x.cc", THROWER);
    f.write("all.h", "#include <pthread.h>\n");
    f.write("blocks.c", "int q(int); int f(int a) { q(1); if (a) q(2); q(3); return 0; }\n");
    let run = |args: &str, wrapper: &str| {
        let mut command = f.command(f.bin(wrapper));
        command.env("SELVEDGE_CC", cc).env("SELVEDGE_CXX", cxx);
        ok(&output(command.args(args.split_whitespace())), args);
    };
    run("-Wall -Werror -O2 -c x.c", "selvedge-cc");
    run("-Wall -Werror -fsanitize=thread x.o -o two", "selvedge-cc");
    run("-Wall -Werror -O2 x.c -o one", "selvedge-cc");
    run("-Wall -Werror -fsanitize=thread x.c -o given", "selvedge-cc");
    run("-Wall -Werror -O2 x.cc -o cxx", "selvedge-c++");
    run("-x c-header all.h -o all.h.pch", "selvedge-cc");
    run("-include all.h x.c -o pch", "selvedge-cc");
    run("-shared -fPIC -Wl,-z,defs x.c -o lib.so", "selvedge-cc");
    run("-save-temps x.c -o saved", "selvedge-cc");
    assert_eq!(f.run("saved"), Hits::Some);
    let lld = cc.replace("clang", "lld");
    if find(&format!("ld.{lld}")).is_some() {
        run("-flto -c x.c -o lto.o", "selvedge-cc");
        run(&format!("-flto -fuse-ld={lld} lto.o -o lto"), "selvedge-cc");
        assert_eq!(f.run("lto"), Hits::Some);
    }
    for program in ["one", "two", "given", "cxx", "pch"] {
        assert_eq!(f.run(program), Hits::Some);
        let names = symbols(&f.work().join(program));
        assert!(!names.contains("__sanitizer_print"), "a sanitizer runtime is linked");
    }
    // Entry, then-branch and join: three blocks, three hooks.
    run("-O1 -c blocks.c", "selvedge-cc");
    let listing = output(Command::new("objdump").arg("-dr").arg(f.work().join("blocks.o")));
    let hooks = text(&listing.stdout).matches("__sanitizer_cov_trace_pc").count();
    assert_eq!(hooks, 3);
    Verdict::Passed
}

fn ccache_hits(f: &Fixture) -> u32 {
    let stats = output(f.command("ccache").arg("--print-stats"));
    text(&stats.stdout)
        .lines()
        .filter(|line| line.contains("cache_hit"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok())
        .sum()
}

fn launched_by_ccache(f: &Fixture) -> Verdict {
    need!("ccache");
    f.write("x.c", COUNTER);
    for hits in [0, 1] {
        let mut command = f.command("ccache");
        command.arg(f.bin("selvedge-cc")).args(["-MD", "-c", "x.c", "-o", "x.o"]);
        ok(&output(&mut command), "ccache selvedge-cc");
        assert_eq!(ccache_hits(f), hits);
    }
    // What only the instrumented build sees must not be taken for unchanged.
    for value in ["1", "2"] {
        let text = format!("#ifdef __SANITIZE_THREAD__\nint hooked{value};\n#endif\n");
        f.write("m.c", &text);
        let mut command = f.command("ccache");
        ok(&output(command.arg(f.bin("selvedge-cc")).args(["-c", "m.c"])), "m.c");
        assert!(symbols(&f.work().join("m.o")).contains(&format!("hooked{value}")));
    }
    Verdict::Passed
}

fn ccache_behind_the_wrapper(f: &Fixture) -> Verdict {
    need!("ccache");
    f.write("x.c", COUNTER);
    // Each file is compiled twice.
    for hits in [0, 2] {
        let mut command = f.command(f.bin("selvedge-cc"));
        command.env("SELVEDGE_CC", "ccache gcc").args(["-c", "x.c"]);
        ok(&output(&mut command), "ccache gcc");
        assert_eq!(ccache_hits(f), hits);
    }
    let mut command = f.command(f.bin("selvedge-cc"));
    ok(&output(command.env("SELVEDGE_CC", "ccache gcc").args(["x.o", "-o", "x"])), "link");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn masquerading_ccache(f: &Fixture) -> Verdict {
    need!("ccache");
    let ccache = find("ccache").expect("just found");
    f.write("x.c", COUNTER);
    // First on PATH a `cc` that is ccache, then one that is us: each would find the other.
    fs::create_dir(f.dir.path().join("masquerade")).expect("writable");
    symlink(ccache, f.dir.path().join("masquerade/cc")).expect("links can be made");
    symlink(f.bin("selvedge-cc"), f.bin("cc")).expect("links can be made");
    let mut path = OsString::from(f.dir.path().join("masquerade"));
    path.push(":");
    path.push(f.dir.path().join("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    // Each file is compiled twice.
    for hits in [0, 2] {
        let mut command = f.command(f.bin("cc"));
        ok(&output(command.env("PATH", &path).args(["-c", "x.c"])), "masquerade");
        assert_eq!(ccache_hits(f), hits);
    }
    Verdict::Passed
}

fn autoconf_with_cc(f: &Fixture) -> Verdict {
    need!("autoconf", "make");
    f.write(
        "configure.ac",
        "AC_INIT([t],[1])\nAC_PROG_CC\nAC_PROG_CXX\nAC_C_BIGENDIAN\nAC_CHECK_SIZEOF([long])\nAC_CHECK_HEADERS([pthread.h no_such.h])\n\
         AC_CHECK_LIB([m],[cos])\nAC_CHECK_FUNCS([mmap no_such_function])\n\
         AC_RUN_IFELSE([AC_LANG_PROGRAM([],[return 0;])],[],[AC_MSG_ERROR([cannot run])])\n\
         AC_CONFIG_HEADERS([config.h])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    f.write("Makefile.in", "x: x.c\n\t@CC@ @CFLAGS@ x.c -o x @LIBS@\n");
    f.write("config.h.in", "#undef SIZEOF_LONG\n#undef HAVE_MMAP\n#undef HAVE_NO_SUCH_FUNCTION\n");
    f.write("x.c", COUNTER);
    ok(&output(&mut f.command("autoconf")), "autoconf");
    let mut configure = f.command("./configure");
    ok(&output(configure.args(["CC=selvedge-cc", "CXX=selvedge-c++"])), "configure");
    let config = f.read("config.h");
    assert!(config.contains("SIZEOF_LONG 8") && config.contains("HAVE_MMAP 1"), "{config}");
    assert!(config.contains("#undef HAVE_NO_SUCH_FUNCTION"), "{config}");
    ok(&output(&mut f.command("make")), "make");
    assert_eq!(f.run("x"), Hits::Some);
    Verdict::Passed
}

fn libtool_shared_library(f: &Fixture) -> Verdict {
    need!("autoreconf", "automake", "libtoolize", "make");
    f.write(
        "configure.ac",
        "AC_INIT([t],[1])\nAC_CONFIG_AUX_DIR([.])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_PROG_CXX\nAM_PROG_AR\nLT_INIT([disable-static])\n\
         AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    f.write(
        "Makefile.am",
        "lib_LTLIBRARIES = libt.la\nlibt_la_SOURCES = t.cc\nlibt_la_LDFLAGS = -no-undefined\n\
         bin_PROGRAMS = x\nx_SOURCES = x.c\nx_LDADD = libt.la\n",
    );
    f.write("t.cc", "#include <string>\nextern \"C\" int twice(int x) { return std::stoi(std::to_string(x)) * 2; }\n");
    f.write("x.c", "int twice(int); int main(void) { return twice(21) - 42; }\n");
    ok(&output(f.command("autoreconf").arg("-i")), "autoreconf");
    // libtool cannot cope with spaces in the name of a directory, so the work and the runtime get other names.
    let plain = tempfile::tempdir().expect("a temporary directory");
    symlink(f.dir.path(), plain.path().join("home")).expect("links can be made");
    let link = plain.path().join("w");
    fs::rename(f.work(), &link).expect("same file system");
    let step = |words: &str| {
        let mut words = words.split(' ');
        let mut command = f.command(words.next().expect("a program"));
        command.args(words).current_dir(&link).env(HOME_VARIABLE, plain.path().join("home"));
        ok(&output(&mut command), "libtool");
    };
    step("./configure CC=selvedge-cc CXX=selvedge-c++");
    step("make");
    step("./x");
    let names = symbols(&link.join(".libs/libt.so"));
    assert!(names.contains("W __tsan_func_entry"), "the stub is in the library");
    Verdict::Passed
}

fn cmake_project(f: &Fixture) -> Verdict {
    need!("cmake", "make");
    f.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(t C CXX)\nfind_package(Threads REQUIRED)\n\
         include(CheckCSourceRuns)\ncheck_c_source_runs(\"int main(void) { return 0; }\" RUNS)\n\
         if(NOT RUNS)\nmessage(FATAL_ERROR \"cannot run\")\nendif()\n\
         include(CheckIPOSupported)\ncheck_ipo_supported(RESULT ipo)\n\
         add_library(t SHARED t.c)\nadd_executable(x x.c)\ntarget_link_libraries(x t Threads::Threads)\n\
         add_executable(y y.cc)\ntarget_precompile_headers(y PRIVATE <string>)\ntarget_link_libraries(y Threads::Threads)\n",
    );
    f.write("t.c", LIBRARY);
    f.write("x.c", COUNTER);
    f.write("y.cc", THROWER);
    let mut setup = f.command("cmake");
    setup.args(["-S", ".", "-B", "b", "-G", "Unix Makefiles"]);
    setup.args(["-DCMAKE_C_COMPILER=selvedge-cc", "-DCMAKE_CXX_COMPILER=selvedge-c++"]);
    ok(&output(&mut setup), "cmake");
    ok(&output(f.command("cmake").args(["--build", "b"])), "cmake --build");
    assert_eq!(f.run("b/x"), Hits::Some);
    assert_eq!(f.run("b/y"), Hits::Some);
    Verdict::Passed
}

fn meson_project(f: &Fixture) -> Verdict {
    need!("meson", "ninja");
    f.write(
        "meson.build",
        "project('t', 'c', 'cpp')\ncc = meson.get_compiler('c')\n\
         assert(cc.run('int main(void) { return 0; }').returncode() == 0)\nassert(cc.sizeof('long') == 8)\n\
         t = shared_library('t', 't.c')\nexecutable('x', 'x.c', link_with: t, dependencies: dependency('threads'))\n\
         executable('y', 'y.cc', dependencies: dependency('threads'))\n",
    );
    f.write("t.c", LIBRARY);
    f.write("x.c", COUNTER);
    f.write("y.cc", THROWER);
    let mut setup = f.command("meson");
    setup.args(["setup", "b"]).env("CC", "selvedge-cc").env("CXX", "selvedge-c++");
    ok(&output(&mut setup), "meson setup");
    ok(&output(f.command("ninja").args(["-C", "b"])), "ninja");
    assert_eq!(f.run("b/x"), Hits::Some);
    assert_eq!(f.run("b/y"), Hits::Some);
    Verdict::Passed
}

fn build(f: &Fixture) -> Command {
    let mut command = f.command(f.bin("selvedge"));
    command.arg0("selvedge").arg("build");
    command
}

fn build_with_hard_coded_gcc(f: &Fixture) -> Verdict {
    need!("make");
    f.write("Makefile", "all:\n\tgcc -c x.c -o a.o\n\tgcc a.o -o a\n\t$(CC) x.c -o b\n\tg++ y.cc -o c\n");
    f.write("x.c", COUNTER);
    f.write("y.cc", THROWER);
    ok(&output(build(f).args(["--", "make"])), "make");
    for program in ["a", "b", "c"] {
        assert_eq!(f.run(program), Hits::Some);
    }
    assert!(!f.dir.path().join("shims/tcc").exists());
    Verdict::Passed
}

fn build_passes_exit_codes(f: &Fixture) -> Verdict {
    let out = output(build(f).args(["--", "sh", "-c", "exit 7"]));
    assert_eq!(out.status.code(), Some(7));
    let out = output(build(f).args(["--", "no-such-command"]));
    assert_eq!(out.status.code(), Some(127));
    let out = output(build(f).args(["--"]));
    assert_eq!(out.status.code(), Some(2));
    Verdict::Passed
}

fn build_writes_compile_commands(f: &Fixture) -> Verdict {
    need!("make");
    let sources: Vec<String> = (0..8).map(|n| format!("s{n}.c")).collect();
    for source in &sources {
        f.write(source, "int x;\n");
    }
    f.write("Makefile", "all: $(patsubst %.c,%.o,$(wildcard *.c))\n");
    for _ in 0..2 {
        let mut command = build(f);
        command.args(["--compile-commands", "cc.json", "--", "make", "-B", "-j8"]);
        ok(&output(&mut command), "make");
    }
    let json = f.read("cc.json");
    assert_eq!(json.matches("\"directory\"").count(), sources.len(), "{json}");
    assert!(json.starts_with("[\n{") && json.ends_with("}\n]\n"), "{json}");
    if find("python3").is_some() {
        ok(&output(f.command("python3").args(["-m", "json.tool", "cc.json"])), "valid JSON");
    }
    Verdict::Passed
}

fn build_with_ccache_masquerade(f: &Fixture) -> Verdict {
    need!("ccache");
    let ccache = find("ccache").expect("just found");
    f.write("x.c", COUNTER);
    let masquerade = f.dir.path().join("masquerade");
    fs::create_dir(&masquerade).expect("writable");
    symlink(ccache, masquerade.join("gcc")).expect("links can be made");
    let mut path = masquerade.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for words in ["gcc -c x.c", "ccache gcc -c x.c"] {
        let mut command = build(f);
        command.env("PATH", &path).args(["--", "sh", "-c", words]);
        ok(&output(&mut command), words);
        assert!(symbols(&f.work().join("x.o")).contains("__tsan_write4"));
        fs::remove_file(f.work().join("x.o")).expect("just made");
    }
    Verdict::Passed
}

fn build_keeps_the_chosen_compiler(f: &Fixture) -> Verdict {
    f.write("x.c", COUNTER);
    let compiler = counting_compiler(f, "/usr/bin/env gcc");
    let mut command = build(f);
    command.env("CC", compiler).args(["--", "sh", "-c", "\"$CC\" x.c"]);
    ok(&output(&mut command), "chosen");
    assert!(f.work().join("calls").exists());
    assert_eq!(f.run("a.out"), Hits::Some);
    Verdict::Passed
}
