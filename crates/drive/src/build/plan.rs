//! From a classified command line to the command that is really run.
//!
//! Pure: words in, words out. The rules, and why they are so:
//! - Hooks are a matter of compiling, the runtime is a matter of linking. `-fsanitize=thread` must never be in force when
//!   the driver links, or it pulls in the compiler's own runtime. `-fsanitize-coverage=` does the same in clang.
//! - Where one command does both, the flag goes to the compiler proper behind the driver's back: by a specs file for gcc, by
//!   `-Xclang` for clang. That keeps one process and every file name the driver derives (`-MD`, `-save-temps`, coverage notes).
//! - Precompiled headers get the flags of a compilation: clang refuses a header compiled without them, and gcc 12 crashes on it.
//! - gcc instruments late, in the link step, under `-flto`; there a file's own `-fno-sanitize=thread` would be lost. So gcc's
//!   compilations get `-fno-lto`. clang instruments while it compiles; its LTO stays.
//! - Our object goes after the user's objects and libraries: its interposers are weak, so a `malloc` or a
//!   `pthread_mutex_lock` that the program brings itself (even a weak one, even from an archive) is found first. It starts
//!   from `.preinit_array`, before every constructor wherever it stands. It reaches the linker through `-Xlinker`, so that a
//!   preceding `-x c` or the driver's naming rules never see it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::args::{Action, CommandLine, Product, ThreadSanitizer};

/// The files of the runtime that a link needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFiles {
    /// The runtime, one relocatable object: goes into executables.
    pub object: PathBuf,
    /// A dynamic list that names the symbols an executable exports to its libraries.
    pub dynamic_list: PathBuf,
    /// Weak hooks that do nothing (atomics are performed): goes into shared libraries and into programs without a
    /// C library. It must need no other library.
    pub shared_stub: PathBuf,
    /// The directory of `selvedge.h`.
    pub include: PathBuf,
}

/// Which compiler it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// GNU.
    Gcc,
    /// LLVM.
    Clang,
}

/// A compiler's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompilerId {
    /// Whose compiler it is.
    pub family: Family,
    /// Its major version.
    pub major: u32,
}

/// What will be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The arguments for the real compiler.
    pub args: Vec<OsString>,
    /// The image that exists afterwards and wants a site table.
    pub linked: Option<PathBuf>,
}

/// Why a command is refused. Each text says what, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A fully static program was asked for.
    #[error(
        "cannot link a static program (`{}`): the runtime sees threads and locks through the dynamic linker; \
         link without it (static libraries, `-static-libgcc` and `-static-libstdc++` are fine)", option.display()
    )]
    Static {
        /// The option that asks for it.
        option: OsString,
    },
    /// Another sanitizer's instrumentation was asked for.
    #[error(
        "cannot combine with `-fsanitize={name}`: its instrumentation and its runtime exclude those for threads; \
         make a separate build without it (`undefined` is fine)"
    )]
    Sanitizer {
        /// The sanitizer's name.
        name: String,
    },
    /// Code for another machine was asked for.
    #[error(
        "cannot build for `{}`: the runtime exists for 64-bit x86 only; build for x86-64, \
         or use the plain compiler for this target", option.display()
    )]
    Machine {
        /// The option that asks for it.
        option: OsString,
    },
}

/// What gcc's compiler proper gets from the specs file instead of from the driver's command line.
/// The empty last item keeps gcc from gluing the next specs text to our last option.
pub(super) const GCC_SPECS: &str = "*cc1_options:\n+ %{flto*:-fno-lto} -fsanitize=thread %{E:}\n\n";

/// The flags that hold for both families, each with the spelling that undoes it.
const COMMON_FLAGS: &[(&str, &str)] = &[
    ("-fno-omit-frame-pointer", "-fomit-frame-pointer"),
    ("-fno-optimize-sibling-calls", "-foptimize-sibling-calls"),
    ("-fno-jump-tables", "-fjump-tables"),
];

/// Every basic block, none pruned: clang's `trace-pc` alone leaves out blocks that others imply, gcc's never does.
const CLANG_COVERAGE: &str = "-fsanitize-coverage=bb,no-prune,trace-pc";

/// The same for clang's compiler proper, where 2 means basic blocks.
const CLANG_PROPER: &[&str] = &[
    "-fsanitize=thread",
    "-fsanitize-coverage-type=2",
    "-fsanitize-coverage-no-prune",
    "-fsanitize-coverage-trace-pc",
];

/// clang leaves out a read that a write to the same place follows; then `x++` would be a write only, and no thread could
/// ever come between its two halves. gcc never does. Accesses to `volatile` objects get hooks of their own.
const CLANG_READS: [&str; 4] = ["-mllvm", "-tsan-instrument-read-before-write", "-mllvm", "-tsan-distinguish-volatile"];

/// The same for gcc.
const GCC_VOLATILE: &str = "--param=tsan-distinguish-volatile=1";

/// gcc has `-Wtsan` (fences that the compiler's own runtime does not model; ours does) since this version.
const GCC_WITH_WTSAN: u32 = 11;

/// Decides what to run. `args` are the words as given, `expanded` the same without response files, `line` their
/// classification. `specs` is the specs file for gcc, if there is one.
///
/// # Errors
/// A [`Refusal`] if the result could not work.
pub fn plan(
    args: &[OsString],
    expanded: &[OsString],
    line: &CommandLine,
    compiler: CompilerId,
    runtime: &RuntimeFiles,
    specs: Option<&Path>,
) -> Result<Plan, Refusal> {
    let hooks = line.wants_hooks();
    if line.action == Action::Passthrough {
        return Ok(unchanged(args));
    }
    if line.action == Action::Preprocess {
        let mut plan = unchanged(args);
        // `__SANITIZE_THREAD__` and `__has_feature` must read as they will in the compilation; ccache relies on it.
        let plain = line.exclusive_sanitizer.is_none() && line.foreign_machine.is_none();
        if hooks && plain && line.thread_sanitizer == ThreadSanitizer::Unmentioned {
            plan.args.push("-fsanitize=thread".into());
        }
        return Ok(plan);
    }
    check(line)?;
    match line.action {
        Action::Compile => {
            let mut plan = unchanged(args);
            if hooks {
                plan.args.extend(compile_flags(expanded, line, compiler));
            }
            Ok(plan)
        }
        _ => Ok(link(args, expanded, line, compiler, runtime, specs)),
    }
}

fn unchanged(args: &[OsString]) -> Plan {
    Plan { args: args.to_vec(), linked: None }
}

fn check(line: &CommandLine) -> Result<(), Refusal> {
    let linked = line.links() && line.product != Product::Relocatable;
    if !linked && !line.wants_hooks() {
        return Ok(());
    }
    if let Some(name) = &line.exclusive_sanitizer {
        return Err(Refusal::Sanitizer { name: name.clone() });
    }
    if let Some(option) = &line.foreign_machine {
        let option = option.clone();
        return Err(Refusal::Machine { option });
    }
    match &line.static_option {
        Some(option) if linked && line.product == Product::Executable => {
            Err(Refusal::Static { option: option.clone() })
        }
        _ => Ok(()),
    }
}

/// The flags of a compilation that does not link.
fn compile_flags(args: &[OsString], line: &CommandLine, compiler: CompilerId) -> Vec<OsString> {
    let mut flags = Vec::new();
    if line.thread_sanitizer == ThreadSanitizer::Unmentioned {
        flags.push("-fsanitize=thread".into());
    }
    match compiler.family {
        Family::Gcc => {
            if line.lto {
                flags.push("-fno-lto".into());
            }
            if !has_coverage(line, "trace-pc") {
                flags.push("-fsanitize-coverage=trace-pc".into());
            }
        }
        Family::Clang => {
            let complete = ["bb", "no-prune", "trace-pc"];
            if !complete.iter().all(|item| has_coverage(line, item)) {
                flags.push(CLANG_COVERAGE.into());
            }
            if !args.iter().any(|arg| arg == CLANG_READS[1]) {
                flags.extend(CLANG_READS.map(OsString::from));
            }
        }
    }
    flags.extend(shared_flags(args, line, compiler));
    flags
}

/// The flags that the driver may see whether it links or not.
fn shared_flags(args: &[OsString], line: &CommandLine, compiler: CompilerId) -> Vec<OsString> {
    let mut flags = Vec::new();
    if !line.debug_chosen {
        flags.push("-g".into());
    }
    for (flag, opposite) in COMMON_FLAGS {
        if !in_force(args, flag, opposite) {
            flags.push((*flag).into());
        }
    }
    let wtsan = compiler.family == Family::Gcc && compiler.major >= GCC_WITH_WTSAN;
    if wtsan && !in_force(args, "-Wno-tsan", "-Wtsan") {
        flags.push("-Wno-tsan".into());
    }
    // As old as that warning.
    if wtsan && !args.iter().any(|arg| arg == GCC_VOLATILE) {
        flags.push(GCC_VOLATILE.into());
    }
    flags
}

fn has_coverage(line: &CommandLine, wanted: &str) -> bool {
    line.coverage.iter().filter_map(|value| value.to_str()).any(|value| value.split(',').any(|item| item == wanted))
}

fn in_force(args: &[OsString], flag: &str, opposite: &str) -> bool {
    let last = args.iter().rev().find(|arg| *arg == flag || *arg == opposite);
    last.is_some_and(|arg| arg == flag)
}

fn link(
    args: &[OsString],
    expanded: &[OsString],
    line: &CommandLine,
    compiler: CompilerId,
    runtime: &RuntimeFiles,
    specs: Option<&Path>,
) -> Plan {
    let mut out = Vec::new();
    let linked = line.product != Product::Relocatable;
    let hosted = line.product == Product::Executable && line.hosted_link;
    let object = if hosted { &runtime.object } else { &runtime.shared_stub };
    let kept = without_stripping(&without_thread_runtime(expanded));
    // Response files are opened up only if something in them has to go.
    out.extend_from_slice(if kept.len() == expanded.len() && kept == expanded { args } else { &kept });
    // libtool finds our object in a trial link and then names it itself.
    if linked && !line.inputs.iter().any(|input| input.path == *object) {
        out.extend(["-Xlinker".into(), object.into()]);
    }

    if line.action == Action::CompileAndLink && line.wants_hooks() {
        out.extend(compiler_proper_flags(line, compiler, specs));
        out.extend(shared_flags(expanded, line, compiler));
    }
    if linked {
        if hosted || (line.symbolic && !line.version_script) {
            let mut list = OsString::from("--dynamic-list=");
            list.push(&runtime.dynamic_list);
            out.extend(["-Xlinker".into(), list]);
        }
        if !line.build_id {
            out.push("-Wl,--build-id=sha1".into());
        }
    }
    if hosted {
        out.extend(["-ldl".into(), "-lpthread".into()]);
    }
    Plan { args: out, linked: linked.then(|| line.linked_output().to_owned()) }
}

/// Hooks for a command that compiles and links: they must not be seen by the driver.
fn compiler_proper_flags(line: &CommandLine, compiler: CompilerId, specs: Option<&Path>) -> Vec<OsString> {
    match (compiler.family, specs) {
        (Family::Clang, _) => {
            let proper = CLANG_PROPER.iter().flat_map(|flag| ["-Xclang".into(), (*flag).into()]);
            proper.chain(CLANG_READS.map(OsString::from)).collect()
        }
        (Family::Gcc, Some(specs)) => {
            let mut option = OsString::from("-specs=");
            option.push(specs);
            vec![option, "-fsanitize-coverage=trace-pc".into()]
        }
        // Without a place for the specs file: reaches the compiler proper too, except for preprocessed inputs.
        (Family::Gcc, None) => {
            let mut flags = vec!["-Wp,-fsanitize=thread".into(), "-fsanitize-coverage=trace-pc".into()];
            if line.lto {
                flags.push("-fno-lto".into());
            }
            flags
        }
    }
}

/// Takes out what would make the driver link a sanitizer runtime for threads or coverage. What else a
/// `-fsanitize=` list holds stays.
pub(super) fn without_thread_runtime(args: &[OsString]) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::with_capacity(args.len());
    let mut value_follows = false;
    for arg in args {
        if std::mem::take(&mut value_follows) {
            out.push(arg.clone());
            continue;
        }
        let bytes = arg.as_bytes();
        value_follows = arg.to_str().is_some_and(|arg| super::options::SEPARATE.contains(&arg));
        if bytes == b"-ltsan" || bytes.starts_with(b"-fsanitize-coverage=") {
            continue;
        }
        let Some(list) = bytes.strip_prefix(b"-fsanitize=") else {
            out.push(arg.clone());
            continue;
        };
        let rest: Vec<&[u8]> = list.split(|byte| *byte == b',').filter(|name| *name != b"thread").collect();
        if !rest.is_empty() {
            let mut option = OsString::from("-fsanitize=");
            option.push(OsStr::from_bytes(&rest.join(&b',')));
            out.push(option);
        }
    }
    out
}

/// Takes out what has the linker leave out symbols and debug information: reports are told by them, and which function is
/// whose body.
fn without_stripping(args: &[OsString]) -> Vec<OsString> {
    const STRIPS: [&str; 4] = ["-s", "-S", "--strip-all", "--strip-debug"];
    let strips = |word: &OsStr| STRIPS.iter().any(|strip| word == *strip);
    let mut out: Vec<OsString> = Vec::with_capacity(args.len());
    let mut words = args.iter().peekable();
    while let Some(arg) = words.next() {
        let is_for_linker = arg == "-Xlinker";
        if is_for_linker && words.next_if(|word| strips(word)).is_some() || arg == "-s" {
            continue;
        }
        let value = is_for_linker || arg.to_str().is_some_and(|arg| super::options::SEPARATE.contains(&arg));
        let Some(list) = arg.as_bytes().strip_prefix(b"-Wl,") else {
            out.push(arg.clone());
            out.extend(value.then(|| words.next().cloned()).flatten());
            continue;
        };
        let list: Vec<&[u8]> = list.split(|byte| *byte == b',').collect();
        let kept: Vec<&[u8]> = list.iter().copied().filter(|word| !strips(OsStr::from_bytes(word))).collect();
        if kept.len() == list.len() {
            out.push(arg.clone());
        } else if !kept.is_empty() {
            let mut option = OsString::from("-Wl,");
            option.push(OsStr::from_bytes(&kept.join(&b',')));
            out.push(option);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::args::classify;
    use super::*;

    const GCC: CompilerId = CompilerId { family: Family::Gcc, major: 12 };
    const OLD_GCC: CompilerId = CompilerId { family: Family::Gcc, major: 10 };
    const CLANG: CompilerId = CompilerId { family: Family::Clang, major: 19 };

    fn try_plan(compiler: CompilerId, text: &str) -> Result<Plan, Refusal> {
        let args: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        let runtime = RuntimeFiles {
            object: "RT".into(),
            dynamic_list: "LIST".into(),
            shared_stub: "STUB".into(),
            include: "INCLUDE".into(),
        };
        let specs = Some(Path::new("SPECS"));
        plan(&args, &args, &classify(&args), compiler, &runtime, specs)
    }

    fn planned(compiler: CompilerId, text: &str) -> String {
        let plan = try_plan(compiler, text).expect("accepted");
        let words: Vec<&str> = plan.args.iter().map(|arg| arg.to_str().expect("utf-8")).collect();
        words.join(" ")
    }

    const REST: &str = "-g -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-jump-tables -Wno-tsan \
                        --param=tsan-distinguish-volatile=1";
    const EXE: &str = "-Xlinker --dynamic-list=LIST -Wl,--build-id=sha1 -ldl -lpthread";

    #[test]
    fn commands() {
        let cases = [
            ("--version", "--version".to_owned()),
            ("-S x.c", "-S x.c".to_owned()),
            ("-E x.c", "-E x.c -fsanitize=thread".to_owned()),
            ("-E x.S", "-E x.S".to_owned()),
            ("-E -fsanitize=address x.c", "-E -fsanitize=address x.c".to_owned()),
            ("-c x.c", format!("-c x.c -fsanitize=thread -fsanitize-coverage=trace-pc {REST}")),
            ("-fsanitize=thread -c x.c", format!("-fsanitize=thread -c x.c -fsanitize-coverage=trace-pc {REST}")),
            ("-flto -c x.c", format!("-flto -c x.c -fsanitize=thread -fno-lto -fsanitize-coverage=trace-pc {REST}")),
            ("-c x.s", "-c x.s".to_owned()),
            ("-c -m32 x.S", "-c -m32 x.S".to_owned()),
            ("-fno-sanitize=thread -c x.c", "-fno-sanitize=thread -c x.c".to_owned()),
            ("-ffreestanding -c x.c", "-ffreestanding -c x.c".to_owned()),
            ("-r x.o -o y.o", "-r x.o -o y.o".to_owned()),
            ("x.o", format!("x.o -Xlinker RT {EXE}")),
            ("-fsanitize=thread x.o", format!("x.o -Xlinker RT {EXE}")),
            ("-fsanitize=thread,undefined x.o -ltsan", format!("-fsanitize=undefined x.o -Xlinker RT {EXE}")),
            ("x.c", format!("x.c -Xlinker RT -specs=SPECS -fsanitize-coverage=trace-pc {REST} {EXE}")),
            ("-fno-sanitize=thread x.c", format!("-fno-sanitize=thread x.c -Xlinker RT {EXE}")),
            ("-s -Wl,-S -Wl,-z,now,--strip-all -Xlinker -s x.o", format!("-Wl,-z,now x.o -Xlinker RT {EXE}")),
            ("-o -s x.o", format!("-o -s x.o -Xlinker RT {EXE}")),
            ("-shared x.o", "-shared x.o -Xlinker STUB -Wl,--build-id=sha1".to_owned()),
            (
                "-shared -nostdlib crti.o x.o -lc",
                "-shared -nostdlib crti.o x.o -lc -Xlinker STUB -Wl,--build-id=sha1".to_owned(),
            ),
            (
                "-shared -Wl,-Bsymbolic,--build-id x.o",
                "-shared -Wl,-Bsymbolic,--build-id x.o -Xlinker STUB -Xlinker --dynamic-list=LIST".to_owned(),
            ),
            ("-shared -nostdlib STUB x.o", "-shared -nostdlib STUB x.o -Wl,--build-id=sha1".to_owned()),
            ("-nostdlib start.o", "-nostdlib start.o -Xlinker STUB -Wl,--build-id=sha1".to_owned()),
        ];
        for (given, expected) in cases {
            assert_eq!(planned(GCC, given), expected, "{given}");
        }
    }

    #[test]
    fn clang_has_its_own_spellings() {
        let rest = REST.trim_end_matches(" -Wno-tsan --param=tsan-distinguish-volatile=1");
        let reads = CLANG_READS.join(" ");
        assert_eq!(
            planned(CLANG, "-flto -c x.c"),
            format!("-flto -c x.c -fsanitize=thread {CLANG_COVERAGE} {reads} {rest}")
        );
        let proper = "-Xclang -fsanitize=thread -Xclang -fsanitize-coverage-type=2 \
                      -Xclang -fsanitize-coverage-no-prune -Xclang -fsanitize-coverage-trace-pc";
        assert_eq!(planned(CLANG, "-fsanitize=thread x.c"), format!("x.c -Xlinker RT {proper} {reads} {rest} {EXE}"));
    }

    #[test]
    fn old_gcc_knows_no_wtsan() {
        assert!(!planned(OLD_GCC, "-c x.c").contains("-Wno-tsan"));
    }

    #[test]
    fn a_planned_compilation_needs_nothing_more() {
        for compiler in [GCC, OLD_GCC, CLANG] {
            for given in ["-c x.c", "-c -fomit-frame-pointer -g0 x.cc", "-flto -c x.c"] {
                let once = planned(compiler, given);
                assert_eq!(planned(compiler, &once), once);
            }
        }
    }

    #[test]
    fn refusals_say_what_why_and_what_to_do() {
        let cases = [
            ("-static x.o", "`-static`"),
            ("-static-pie x.c", "`-static-pie`"),
            ("-fsanitize=address -c x.c", "`-fsanitize=address`"),
            ("-fsanitize=memory x.o", "`-fsanitize=memory`"),
            ("-m32 -c x.c", "`-m32`"),
            ("--target=aarch64-linux-gnu x.o", "`--target=aarch64-linux-gnu`"),
        ];
        for (given, name) in cases {
            let text = try_plan(GCC, given).expect_err("refused").to_string();
            assert!(text.contains(name) && text.contains(';'), "{text}");
        }
        for fine in ["-static -c x.c", "-static -shared x.o", "-static -r x.o"] {
            assert!(try_plan(GCC, fine).is_ok(), "{fine}");
        }
    }
}
