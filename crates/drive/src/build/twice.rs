//! Which compilations are made twice, for functions with two bodies ([`selvedge_image::bodies`]), and by which commands.
//!
//! Pure: words in, words out. The plain compilation has the user's flags and as little else as possible; what both get keeps
//! them exchangeable:
//! - Every function and variable has a section of its own, so that every reference between them is a relocation.
//! - gcc must not let a caller know which registers its callee leaves alone, or how it aligns the stack: the callee may be
//!   the other body.
//! - Both see the same source: `__SANITIZE_THREAD__` is defined in both. clang's `__has_feature(thread_sanitizer)` is true
//!   in both, too: the plain compilation has the sanitizer, with all of its instrumentation switched off.
//!
//! A command with side outputs whose names the driver derives (dependencies of a program, `-save-temps`), whose steps are
//! told (`-v` while linking: Bazel reads the linker's name from it), or whose object is not the last word (link-time
//! optimisation, profiles), compiles once.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::args::{Action, CommandLine, Word, Words};
use super::options::Language;
use super::plan::{CompilerId, Family, without_thread_runtime};

/// Oldest compilers with all of the flags.
const OLDEST: [(Family, u32); 2] = [(Family::Gcc, 9), (Family::Clang, 11)];

/// Options with which a file is compiled once.
const ONCE: &[&str] = &[
    "-save-temps",
    "--save-temps",
    "-gsplit-dwarf",
    "--coverage",
    "-coverage",
    "-fprofile-",
    "-fcs-profile-",
    "-fauto-profile",
    "-ftest-coverage",
    "-pg",
    "-fpatchable-function-entry",
    "-finstrument-functions",
    "-fwhole-program",
    "-fsplit-stack",
    "-mcmodel=medium",
    "-mcmodel=large",
    "-fdump-",
    "-ftime-trace",
    "-fstack-usage",
    "-fcallgraph-info",
    "-aux-info",
    "-dump",
    "-fmodule",
    "-emit-llvm",
    "-fembed-bitcode",
    "-x",
    "--language",
    "-wrapper",
    "-Wa,-a",
];

/// Options of a command that writes dependencies.
const DEPENDENCIES: &[&str] = &["-M", "-Wp,-M", "--write-dependencies", "--write-user-dependencies"];

/// Bytes of words that a system surely takes: those of a response file are more than one command can have.
const MOST: usize = 512 << 10;

/// Files that can be read only once.
const STREAMS: &[&str] = &["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];

/// Options of a command that tells its steps: whoever asks how a program is linked reads the steps of one command.
const TELLS: [&str; 2] = ["-v", "--verbose"];

/// Both compilations.
const BOTH: [&str; 2] = ["-ffunction-sections", "-fdata-sections"];
const BOTH_GCC: [&str; 2] = ["-fno-ipa-ra", "-fno-ipa-stack-alignment"];
/// The plain one: room for a jump.
const ROOM: &str = "-fpatchable-function-entry=5";
const PLAIN_GCC: [&str; 1] = ["-D__SANITIZE_THREAD__=1"];
const PLAIN_CLANG: [&str; 9] = [
    "-fsanitize=thread",
    "-mllvm",
    "-tsan-instrument-memory-accesses=0",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-instrument-atomics=0",
    "-mllvm",
    "-tsan-instrument-memintrinsics=0",
];

/// Whether the files of a command can be compiled twice.
pub(super) fn applies(args: &[OsString], line: &CommandLine, compiler: CompilerId) -> bool {
    let is_new_enough = OLDEST.iter().any(|(family, major)| *family == compiler.family && compiler.major >= *major);
    let has = |words: &[&str]| {
        let starts = |arg: &OsString| words.iter().any(|word| arg.as_bytes().starts_with(word.as_bytes()));
        args.iter().any(starts)
    };
    let is_stream = |arg: &OsString| {
        STREAMS.iter().any(|name| arg.as_bytes().windows(name.len()).any(|part| part == name.as_bytes()))
    };
    let sources = || line.inputs.iter().filter(|input| input.language.is_instrumentable());
    let shape = match line.action {
        Action::Compile => line.inputs.len() == 1,
        Action::CompileAndLink => {
            let tells = args.iter().any(|arg| TELLS.iter().any(|word| arg == word));
            !has(DEPENDENCIES) && !tells && sources().count() > 0
        }
        _ => false,
    };
    shape
        && line.wants_hooks()
        && is_new_enough
        && sources().all(|input| input.language != Language::Header && input.path.as_os_str() != "-")
        && !(line.lto && compiler.family == Family::Clang)
        && !has(ONCE)
        && !args.iter().any(is_stream)
        && args.iter().map(|arg| arg.len() + 1).sum::<usize>() <= MOST
}

/// The object that a command to compile one file makes.
pub(super) fn object(line: &CommandLine) -> Option<PathBuf> {
    let derived = || Some(Path::new(line.inputs.first()?.path.file_name()?).with_extension("o"));
    line.output.clone().or_else(derived)
}

/// What the hooked compilation gets besides its hooks.
pub(super) fn hooked_flags(compiler: CompilerId) -> Vec<OsString> {
    let gcc = if compiler.family == Family::Gcc { &BOTH_GCC[..] } else { &[] };
    BOTH.iter().chain(gcc).map(OsString::from).collect()
}

/// The plain compilation of a command that compiles one file, into `output`.
pub(super) fn plain_args(args: &[OsString], line: &CommandLine, compiler: CompilerId, output: &Path) -> Vec<OsString> {
    let mut out = without(&without_thread_runtime(args), |name| {
        is_output(name) || DEPENDENCIES.iter().any(|word| name.as_bytes().starts_with(word.as_bytes()))
    });
    if !line.debug_chosen {
        out.push("-g".into());
    }
    out.extend(hooked_flags(compiler));
    out.push(ROOM.into());
    match compiler.family {
        Family::Gcc => {
            out.extend(PLAIN_GCC.map(OsString::from));
            if line.lto {
                out.push("-fno-lto".into());
            }
        }
        Family::Clang => out.extend(PLAIN_CLANG.map(OsString::from)),
    }
    out.extend(["-o".into(), output.into()]);
    out
}

/// The command that compiles one of the files of a command that compiles and links.
pub(super) fn compile_alone(args: &[OsString], source: &Path, compiler: CompilerId, output: &Path) -> Vec<OsString> {
    let is_library = |name: &OsStr| name.as_bytes().starts_with(b"-l");
    let mut out = Vec::new();
    for word in Words::new(&without(args, |name| is_output(name) || is_library(name))) {
        if let Word::Option { name, value } = word {
            out.push(name.to_owned());
            out.extend(value.map(OsStr::to_owned));
        }
    }
    if compiler.family == Family::Clang {
        // What is for the linker is not used here.
        out.push("-Wno-unused-command-line-argument".into());
    }
    out.extend(["-c".into(), source.into(), "-o".into(), output.into()]);
    out
}

/// The words with objects in the place of sources.
pub(super) fn link_instead(args: &[OsString], objects: &[(PathBuf, PathBuf)]) -> Vec<OsString> {
    let mut left: Vec<&(PathBuf, PathBuf)> = objects.iter().collect();
    let mut out = Vec::with_capacity(args.len());
    for word in Words::new(args) {
        match word {
            Word::Input(input) => {
                let made = left.iter().position(|(source, _)| source.as_os_str() == input);
                out.push(made.map_or_else(|| input.to_owned(), |at| left.remove(at).1.clone().into()));
            }
            Word::Option { name, value } => {
                out.push(name.to_owned());
                out.extend(value.map(OsStr::to_owned));
            }
        }
    }
    out
}

fn is_output(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b"-o") || bytes.starts_with(b"--output")
}

/// The words without some options and their arguments.
fn without(args: &[OsString], is_out: impl Fn(&OsStr) -> bool) -> Vec<OsString> {
    let mut out = Vec::with_capacity(args.len());
    for word in Words::new(args) {
        match word {
            Word::Input(input) => out.push(input.to_owned()),
            Word::Option { name, .. } if is_out(name) => {}
            Word::Option { name, value } => {
                out.push(name.to_owned());
                out.extend(value.map(OsStr::to_owned));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::args::classify;
    use super::*;

    const GCC: CompilerId = CompilerId { family: Family::Gcc, major: 12 };
    const CLANG: CompilerId = CompilerId { family: Family::Clang, major: 19 };

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn text(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_str().expect("utf-8")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files_are_compiled_twice_where_nothing_else_depends_on_it() {
        let rows = [
            ("-c a.c", true),
            ("-O2 -MD -MF a.d -c a.cpp -o out/a.o", true),
            ("a.c b.cpp -o prog -pthread", true),
            ("a.c lib.o -lm", true),
            ("-c a.c b.c", false),
            ("-c a.S", false),
            ("-c a.h", false),
            ("-c -", false),
            ("-x c -c a.c", false),
            ("-MD a.c -o prog", false),
            ("a.c -o /dev/null -fuse-ld=gold -v", false),
            ("-v -c a.c", true),
            ("-save-temps -c a.c", false),
            ("--coverage -c a.c", false),
            ("-fno-sanitize=thread -c a.c", false),
            ("lib.o -o prog", false),
            ("-S a.c", false),
            ("-include /dev/fd/63 -c a.c", false),
            ("--write-dependencies a.c b.c -o prog", false),
        ];
        for (line, expected) in rows {
            let args = words(line);
            assert_eq!(applies(&args, &classify(&args), GCC), expected, "{line}");
        }
        let args = words("-flto -c a.c");
        assert!(applies(&args, &classify(&args), GCC) && !applies(&args, &classify(&args), CLANG));
        let old = CompilerId { family: Family::Gcc, major: 8 };
        let args = words("-c a.c");
        assert!(!applies(&args, &classify(&args), old));
    }

    #[test]
    fn the_plain_compilation_is_the_users_own() {
        let args = words("-O2 -MMD -MF a.d -MT a.o -fsanitize=thread,undefined -c a.c -o a.o");
        let plain = plain_args(&args, &classify(&args), GCC, Path::new("T"));
        assert_eq!(
            text(&plain),
            "-O2 -fsanitize=undefined -c a.c -g -ffunction-sections -fdata-sections -fno-ipa-ra \
             -fno-ipa-stack-alignment -fpatchable-function-entry=5 -D__SANITIZE_THREAD__=1 -o T"
        );
        let args = words("-g1 -oa.o -c a.c");
        let plain = text(&plain_args(&args, &classify(&args), CLANG, Path::new("T")));
        assert!(plain.starts_with("-g1 -c a.c -ffunction-sections -fdata-sections -fpatchable"), "{plain}");
        assert!(plain.contains("-fsanitize=thread -mllvm -tsan-instrument-memory-accesses=0"), "{plain}");
    }

    #[test]
    fn a_command_that_links_is_taken_apart() {
        let args = words("-O2 -I inc a.c x.o -lm b.c -Wl,-z,now -o prog");
        let alone = compile_alone(&args, Path::new("b.c"), GCC, Path::new("T/1.o"));
        assert_eq!(text(&alone), "-O2 -I inc -Wl,-z,now -c b.c -o T/1.o");
        let objects = [("a.c", "T/0.o"), ("b.c", "T/1.o")].map(|(from, to)| (from.into(), to.into()));
        assert_eq!(text(&link_instead(&args, &objects)), "-O2 -I inc T/0.o x.o -lm T/1.o -Wl,-z,now -o prog");
    }

    #[test]
    fn objects_have_the_names_that_drivers_give_them() {
        for (line, expected) in [("-c dir/a.cpp", "a.o"), ("-c a.c -o out/b.o", "out/b.o"), ("-c a.c -oc.o", "c.o")] {
            assert_eq!(object(&classify(&words(line))).as_deref(), Some(Path::new(expected)), "{line}");
        }
    }
}
