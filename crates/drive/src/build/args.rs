//! What a compiler command line asks for: a pure classifier of gcc and clang arguments.
//!
//! It reads words that are already free of response files ([`super::expand`]) and touches neither files nor the
//! environment. It does not judge whether a command is valid: what it does not know it takes for an option without a separate
//! argument, and the compiler has the last word. What to do about the answer is decided in [`super::plan`].

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::options::{self, Language};

/// What the compiler is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A question (`--version`, `-###`, `-print-…`), assembler output (`-S`) or nothing to work on: not our business.
    Passthrough,
    /// Stop after preprocessing or checking (`-E`, `-M`, `-MM`, `-fsyntax-only`).
    Preprocess,
    /// Make object files or precompiled headers.
    Compile,
    /// Link what is already compiled.
    Link,
    /// Sources to a linked result in one command.
    CompileAndLink,
}

/// What a link makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// A program.
    Executable,
    /// `-shared`.
    SharedLibrary,
    /// `-r`: an object file.
    Relocatable,
}

/// What the command says about `-fsanitize=thread`; the last word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadSanitizer {
    /// Nothing.
    Unmentioned,
    /// Switched on.
    On,
    /// Switched off: the user leaves this file out.
    Off,
}

/// One input of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The file as written; `-` is standard input.
    pub path: PathBuf,
    /// Its language, by `-x` or by its name.
    pub language: Language,
}

/// A classified command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// What is asked for.
    pub action: Action,
    /// The inputs in order.
    pub inputs: Vec<Input>,
    /// The value of the last `-o`.
    pub output: Option<PathBuf>,
    /// What a link would make.
    pub product: Product,
    /// What is said about `-fsanitize=thread`.
    pub thread_sanitizer: ThreadSanitizer,
    /// A sanitizer in force that cannot share a program with our hooks.
    pub exclusive_sanitizer: Option<String>,
    /// The values of `-fsanitize-coverage=`, in order.
    pub coverage: Vec<OsString>,
    /// The option that asks for a fully static program.
    pub static_option: Option<OsString>,
    /// The option that asks for a machine other than x86-64.
    pub foreign_machine: Option<OsString>,
    /// Code for a kernel or for no operating system: compiled without hooks.
    pub freestanding: bool,
    /// Whether a program made by this link has a C library and the usual start-up.
    pub hosted_link: bool,
    /// A `-g…` option settles the debug information.
    pub debug_chosen: bool,
    /// `-flto` is in force.
    pub lto: bool,
    /// The linker is told to write a build-id.
    pub build_id: bool,
    /// `-Bsymbolic` or `-Bsymbolic-functions`: calls bind inside the library.
    pub symbolic: bool,
    /// A version script decides what is exported.
    pub version_script: bool,
}

impl CommandLine {
    /// Where a link writes.
    pub fn linked_output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("a.out"))
    }

    /// Whether the compiler proper will run and should emit hooks.
    pub fn wants_hooks(&self) -> bool {
        self.thread_sanitizer != ThreadSanitizer::Off
            && !self.freestanding
            && self.inputs.iter().any(|i| i.language.is_instrumentable())
    }

    /// Whether the linker runs.
    pub fn links(&self) -> bool {
        matches!(self.action, Action::Link | Action::CompileAndLink)
    }
}

/// Classifies a command line that is already free of response files. The program name is not part of it.
pub fn classify(args: &[OsString]) -> CommandLine {
    let mut scan = Scan::default();
    for word in Words::new(args) {
        match word {
            Word::Input(path) => scan.input(path),
            Word::Option { name, value } => scan.option(name, value),
        }
    }
    scan.finish()
}

/// One step through a command line.
pub(super) enum Word<'a> {
    Input(&'a OsStr),
    /// An option as written, with its separate argument if it takes one and there is one.
    Option {
        name: &'a OsStr,
        value: Option<&'a OsStr>,
    },
}

/// Pairs options with their separate arguments.
pub(super) struct Words<'a> {
    rest: std::slice::Iter<'a, OsString>,
}

impl<'a> Words<'a> {
    pub(super) fn new(args: &'a [OsString]) -> Self {
        Self { rest: args.iter() }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let word = self.rest.next()?.as_os_str();
        if word == "-" || !word.as_bytes().starts_with(b"-") {
            return Some(Word::Input(word));
        }
        let separate = word.to_str().is_some_and(|w| options::SEPARATE.contains(&w));
        let value = if separate { self.rest.next().map(OsString::as_os_str) } else { None };
        Some(Word::Option { name: word, value })
    }
}

/// How far the driver is told to go. A later row of the enum is a shorter way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stop {
    #[default]
    AfterLink,
    AfterObjects,
    AfterAssembler,
    AfterPreprocessor,
    BeforeAnything,
}

/// What has been seen so far.
#[derive(Default)]
struct Scan {
    stop: Stop,
    inputs: Vec<Input>,
    libraries: Vec<OsString>,
    language: Option<Language>,
    output: Option<PathBuf>,
    shared: bool,
    relocatable: bool,
    thread_mentioned: bool,
    sanitizers: BTreeSet<String>,
    coverage: Vec<OsString>,
    static_option: Option<OsString>,
    foreign_machine: Option<OsString>,
    freestanding: bool,
    no_start_files: bool,
    no_libc: bool,
    debug_chosen: bool,
    lto: bool,
    build_id: bool,
    symbolic: bool,
    version_script: bool,
    /// A linker option whose value comes in the next `-Xlinker` or `-Wl` word is waiting.
    linker_value_next: bool,
}

impl Scan {
    fn input(&mut self, path: &OsStr) {
        let language = self.language.unwrap_or_else(|| {
            let extension = Path::new(path).extension().map(OsStr::as_bytes);
            options::language_of_extension(extension.unwrap_or_default())
        });
        self.inputs.push(Input { path: path.into(), language });
    }

    fn option(&mut self, name: &OsStr, value: Option<&OsStr>) {
        // Options are ASCII; one that is not UTF-8 carries a path or a macro, which never matters here unless it is `-o`.
        let bytes = name.as_bytes();
        if let Some(value) = value {
            self.option_with_value(bytes, value);
            return;
        }
        if let Some(joined) = bytes.strip_prefix(b"-o").filter(|rest| !rest.is_empty()) {
            self.output = Some(OsStr::from_bytes(joined).into());
            return;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        self.text_option(text);
    }

    fn option_with_value(&mut self, name: &[u8], value: &OsStr) {
        match name {
            b"-o" | b"--output" => self.output = Some(value.into()),
            b"-x" | b"--language" => self.language = options::language_of_name(value.as_bytes()),
            b"-l" => self.libraries.push(value.to_owned()),
            b"-Xlinker" | b"--for-linker" => self.linker_word(value.as_bytes()),
            b"-target" => self.target(value.as_bytes()),
            _ => {}
        }
    }

    fn text_option(&mut self, text: &str) {
        if options::QUESTIONS.contains(&text) || starts_with_any(text, options::QUESTION_PREFIXES) {
            self.stop_at(Stop::BeforeAnything);
        } else if options::PREPROCESS.contains(&text) {
            self.stop_at(Stop::AfterPreprocessor);
        } else if options::DEBUG_EXACT.contains(&text) || starts_with_any(text, options::DEBUG_PREFIXES) {
            self.debug_chosen = true;
        } else if options::FREESTANDING.contains(&text) {
            self.freestanding = true;
        } else {
            self.keyword(text);
        }
    }

    fn keyword(&mut self, text: &str) {
        match text {
            "-c" | "--compile" => self.stop_at(Stop::AfterObjects),
            "-S" | "--assemble" => self.stop_at(Stop::AfterAssembler),
            "-shared" | "--shared" => self.shared = true,
            "-r" => self.relocatable = true,
            "-static" | "--static" | "-static-pie" => self.static_option = Some(text.into()),
            "-m32" | "-mx32" | "-m16" => self.foreign_machine = Some(text.into()),
            "-m64" => self.foreign_machine = None,
            "-nostdlib" | "--no-standard-libraries" => {
                self.no_start_files = true;
                self.no_libc = true;
            }
            "-nostartfiles" => self.no_start_files = true,
            "-nodefaultlibs" | "-nolibc" => self.no_libc = true,
            "-flto" => self.lto = true,
            "-fno-lto" => self.lto = false,
            _ => self.joined(text),
        }
    }

    fn joined(&mut self, text: &str) {
        if let Some(list) = text.strip_prefix("-fsanitize=") {
            for name in list.split(',') {
                self.thread_mentioned |= name == "thread";
                self.sanitizers.insert(name.to_owned());
            }
        } else if let Some(list) = text.strip_prefix("-fno-sanitize=") {
            for name in list.split(',') {
                self.thread_mentioned |= matches!(name, "thread" | "all");
                self.sanitizers.retain(|s| s != name && name != "all");
            }
        } else if let Some(value) = text.strip_prefix("-fsanitize-coverage=") {
            self.coverage.push(value.into());
        } else if let Some(list) = text.strip_prefix("-Wl,") {
            for word in list.split(',') {
                self.linker_word(word.as_bytes());
            }
        } else if let Some(value) = text.strip_prefix("--for-linker=") {
            self.linker_word(value.as_bytes());
        } else if let Some(value) = text.strip_prefix("--target=") {
            self.target(value.as_bytes());
        } else if text.starts_with("-flto=") {
            self.lto = true;
        } else if let Some(value) = text.strip_prefix("-x") {
            self.language = options::language_of_name(value.as_bytes());
        } else if let Some(value) = text.strip_prefix("-l") {
            self.libraries.push(value.into());
        } else if let Some(value) = text.strip_prefix("--output=") {
            self.output = Some(value.into());
        } else if let Some(value) = text.strip_prefix("--language=") {
            self.language = options::language_of_name(value.as_bytes());
        }
    }

    /// One word that reaches the linker through `-Wl,` or `-Xlinker`.
    fn linker_word(&mut self, word: &[u8]) {
        if std::mem::take(&mut self.linker_value_next) {
            return;
        }
        let Ok(word) = std::str::from_utf8(word) else {
            return;
        };
        // The linker takes one dash or two before a long option.
        let long = word.trim_start_matches('-');
        match word {
            "-r" | "-i" | "-Ur" => self.relocatable = true,
            "-h" | "-e" | "-u" | "-z" | "-T" | "-m" | "-l" | "-L" | "-o" => {
                self.linker_value_next = true;
            }
            _ => match long {
                "relocatable" => self.relocatable = true,
                "shared" | "Bshareable" => self.shared = true,
                "build-id" => self.build_id = true,
                "Bsymbolic" | "Bsymbolic-functions" => self.symbolic = true,
                "version-script" => {
                    self.version_script = true;
                    self.linker_value_next = true;
                }
                "rpath" | "soname" | "rpath-link" | "dynamic-linker" | "entry" | "undefined" | "dynamic-list" => {
                    self.linker_value_next = true;
                }
                _ => {
                    if let Some(style) = long.strip_prefix("build-id=") {
                        // Without a build-id a site table cannot be found again, so `none` counts as not given.
                        self.build_id = style != "none";
                    }
                    self.version_script |= long.starts_with("version-script=");
                }
            },
        }
    }

    fn target(&mut self, triple: &[u8]) {
        let ours = triple.starts_with(b"x86_64-") || triple.starts_with(b"amd64-");
        self.foreign_machine = (!ours).then(|| {
            let mut option = OsString::from("--target=");
            option.push(OsStr::from_bytes(triple));
            option
        });
    }

    fn stop_at(&mut self, stop: Stop) {
        self.stop = self.stop.max(stop);
    }

    fn finish(self) -> CommandLine {
        let action = self.action();
        let thread = self.sanitizers.contains("thread");
        let exclusive = options::EXCLUSIVE_SANITIZERS.iter().find(|name| self.sanitizers.contains(**name));
        let has_start = !self.no_start_files
            || self.inputs.iter().any(|input| {
                let name = input.path.file_name().and_then(OsStr::to_str);
                name.is_some_and(|name| options::START_FILES.contains(&name))
            });
        let has_libc = !self.no_libc || self.libraries.iter().any(|name| name == "c");
        CommandLine {
            action,
            product: match (self.relocatable, self.shared) {
                (true, _) => Product::Relocatable,
                (false, true) => Product::SharedLibrary,
                (false, false) => Product::Executable,
            },
            thread_sanitizer: match (self.thread_mentioned, thread) {
                (_, true) => ThreadSanitizer::On,
                (true, false) => ThreadSanitizer::Off,
                (false, false) => ThreadSanitizer::Unmentioned,
            },
            exclusive_sanitizer: exclusive.map(|name| (*name).to_owned()),
            hosted_link: has_start && has_libc,
            inputs: self.inputs,
            output: self.output,
            coverage: self.coverage,
            static_option: self.static_option,
            foreign_machine: self.foreign_machine,
            freestanding: self.freestanding,
            debug_chosen: self.debug_chosen,
            lto: self.lto,
            build_id: self.build_id,
            symbolic: self.symbolic,
            version_script: self.version_script,
        }
    }

    fn action(&self) -> Action {
        let compiled = |input: &Input| input.language != Language::Linker;
        let headers_only =
            !self.inputs.is_empty() && self.inputs.iter().all(|input| input.language == Language::Header);
        match self.stop {
            Stop::BeforeAnything | Stop::AfterAssembler => Action::Passthrough,
            _ if self.inputs.is_empty() && self.libraries.is_empty() => Action::Passthrough,
            Stop::AfterPreprocessor => Action::Preprocess,
            Stop::AfterObjects => Action::Compile,
            Stop::AfterLink if headers_only => Action::Compile,
            Stop::AfterLink if self.inputs.iter().any(compiled) => Action::CompileAndLink,
            Stop::AfterLink => Action::Link,
        }
    }
}

fn starts_with_any(text: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> CommandLine {
        let args: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        classify(&args)
    }

    #[test]
    fn actions() {
        use Action::{Compile, CompileAndLink, Link, Passthrough, Preprocess};
        let cases = [
            ("", Passthrough),
            ("-v", Passthrough),
            ("-O2 -g", Passthrough),
            ("--version", Passthrough),
            ("--version x.c", Passthrough),
            ("-### x.c", Passthrough),
            ("-dumpversion", Passthrough),
            ("-dumpmachine", Passthrough),
            ("-dumpspecs", Passthrough),
            ("-print-search-dirs", Passthrough),
            ("-print-prog-name=ld", Passthrough),
            ("--print-file-name=libc.so", Passthrough),
            ("--help", Passthrough),
            ("--help=optimizers", Passthrough),
            ("-Wl,--version", Passthrough),
            ("-S x.c", Passthrough),
            ("-S -o - x.c", Passthrough),
            ("-cc1 x.c", Passthrough),
            ("-I dir.c -D x.c", Passthrough),
            ("-E x.c", Preprocess),
            ("-E -dM -x c /dev/null", Preprocess),
            ("-M x.c", Preprocess),
            ("-MM -MF x.d x.c", Preprocess),
            ("-S -E x.c", Preprocess),
            ("-fsyntax-only x.c", Preprocess),
            ("-E -", Preprocess),
            ("-c x.c", Compile),
            ("-v -c x.c", Compile),
            ("-MD -MF x.d -c x.c -o x.o", Compile),
            ("-c -x c -", Compile),
            ("-c x.s", Compile),
            ("x.h", Compile),
            ("-x c++-header x -o x.gch", Compile),
            ("-xc++-header x", Compile),
            ("x.c", CompileAndLink),
            ("-v x.c", CompileAndLink),
            ("-MD x.c y.o", CompileAndLink),
            ("x.S", CompileAndLink),
            ("-x c x.txt", CompileAndLink),
            ("-xc x.txt", CompileAndLink),
            ("-dumpbase x.c y.c", CompileAndLink),
            ("-o out x.o", Link),
            ("-x c -x none x.o", Link),
            ("x.o -lm", Link),
            ("-lm", Link),
            ("-shared x.o", Link),
            ("lib.a lib.so lib.so.1", Link),
            ("-Xlinker x.c y.o", Link),
            ("-include x.c y.o", Link),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text).action, expected, "{text}");
        }
    }

    #[test]
    fn languages() {
        use Language::{Assembler, C, Cxx, Header, Linker, Other};
        let cases: &[(&str, &[Language])] = &[
            ("a.c b.i", &[C, C]),
            ("a.cc a.cpp a.cxx a.C a.c++ a.ii", &[Cxx, Cxx, Cxx, Cxx, Cxx, Cxx]),
            ("a.s a.S a.sx", &[Assembler, Assembler, Assembler]),
            ("a.o a.a a.so a.so.1.2 a", &[Linker; 5]),
            ("a.f90 a.m a.adb a.ll", &[Other; 4]),
            ("a.h a.hpp", &[Header, Header]),
            ("-x c++ a.c -x none b.c", &[Cxx, C]),
            ("-xassembler-with-cpp a.c", &[Assembler]),
            ("-x fortran a.c", &[Other]),
            ("-x c -", &[C]),
            ("dir.c/x", &[Linker]),
        ];
        for (text, expected) in cases {
            let found: Vec<Language> = line(text).inputs.iter().map(|i| i.language).collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn outputs() {
        let cases = [
            ("x.c", "a.out"),
            ("x.c -o y", "y"),
            ("x.c -oy", "y"),
            ("x.c -o y -o z", "z"),
            ("x.c --output=y", "y"),
            ("x.c --output y", "y"),
            ("-o", "a.out"),
            ("-Xlinker -o x.c", "a.out"),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text).linked_output(), Path::new(expected), "{text}");
        }
    }

    #[test]
    fn products() {
        let cases = [
            ("x.o", Product::Executable),
            ("-pie x.o", Product::Executable),
            ("-shared-libgcc x.o", Product::Executable),
            ("-Wl,-rpath,/x x.o", Product::Executable),
            ("-Wl,-soname,-r x.o", Product::Executable),
            ("-shared x.o", Product::SharedLibrary),
            ("-Wl,-shared x.o", Product::SharedLibrary),
            ("-r x.o", Product::Relocatable),
            ("-Wl,-r x.o", Product::Relocatable),
            ("-Xlinker --relocatable x.o", Product::Relocatable),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text).product, expected, "{text}");
        }
    }

    #[test]
    fn sanitizers_follow_the_last_word() {
        use ThreadSanitizer::{Off, On, Unmentioned};
        let cases = [
            ("x.c", Unmentioned, None),
            ("-fsanitize=thread x.c", On, None),
            ("-fsanitize=undefined,thread x.c", On, None),
            ("-fsanitize=undefined x.c", Unmentioned, None),
            ("-fno-sanitize=thread x.c", Off, None),
            ("-fsanitize=thread -fno-sanitize=thread x.c", Off, None),
            ("-fno-sanitize=thread -fsanitize=thread x.c", On, None),
            ("-fsanitize=thread,address -fno-sanitize=all x.c", Off, None),
            ("-fsanitize=address x.c", Unmentioned, Some("address")),
            ("-fsanitize=undefined,memory x.c", Unmentioned, Some("memory")),
            ("-fsanitize=leak x.c", Unmentioned, Some("leak")),
            ("-fsanitize=address -fno-sanitize=address x.c", Unmentioned, None),
            ("-fsanitize-recover=address x.c", Unmentioned, None),
        ];
        for (text, thread, exclusive) in cases {
            let line = line(text);
            assert_eq!(line.thread_sanitizer, thread, "{text}");
            assert_eq!(line.exclusive_sanitizer.as_deref(), exclusive, "{text}");
        }
    }

    #[test]
    fn yes_or_no_facts() {
        type Fact = fn(&CommandLine) -> bool;
        let cases: &[(Fact, &str, &str)] = &[
            (|l| l.debug_chosen, "-g", "-gz"),
            (|l| l.debug_chosen, "-g0", "-gcolumn-info"),
            (|l| l.debug_chosen, "-ggdb3", "-gno-record-gcc-switches"),
            (|l| l.debug_chosen, "-gdwarf-4", "-gcc-toolchain x"),
            (|l| l.lto, "-flto=auto", "-flto -fno-lto"),
            (|l| l.build_id, "-Wl,--build-id", "-Wl,--build-id=none"),
            (|l| l.build_id, "-Xlinker --build-id=md5", "-Xlinker -z"),
            (|l| l.symbolic, "-Wl,-Bsymbolic-functions", "-Wl,-Bstatic"),
            (|l| l.version_script, "-Wl,--version-script=x", "-Wl,-z,defs"),
            (|l| l.freestanding, "-ffreestanding", "-fhosted"),
            (|l| l.hosted_link, "-nostdlib++", "-nostdlib"),
            (|l| l.hosted_link, "-nodefaultlibs -lc", "-nodefaultlibs"),
            (|l| l.hosted_link, "-nostdlib /l/crt1.o -lc", "-nostartfiles"),
            (|l| l.static_option.is_some(), "-static", "-static-libgcc"),
            (|l| l.static_option.is_some(), "-static-pie", "-Wl,-Bstatic"),
            (|l| l.foreign_machine.is_some(), "-m32", "-m32 -m64"),
            (|l| l.foreign_machine.is_some(), "--target=aarch64-linux-gnu", "-target x86_64-pc-linux-gnu"),
        ];
        for (fact, yes, no) in cases {
            assert!(fact(&line(yes)), "{yes}");
            assert!(!fact(&line(no)), "{no}");
        }
    }

    #[test]
    fn names_need_not_be_utf8() {
        let source = OsString::from_vec(b"\xff\xfe.c".to_vec());
        let output = OsString::from_vec(b"-o\xff".to_vec());
        let line = classify(&["-c".into(), source.clone(), output]);
        assert_eq!(line.action, Action::Compile);
        assert_eq!(line.inputs[0].path, Path::new(&source));
        assert_eq!(line.inputs[0].language, Language::C);
        assert_eq!(line.output, Some(PathBuf::from(OsString::from_vec(b"\xff".to_vec()))));
    }

    proptest! {
        #[test]
        fn any_words_are_classified(words in prop::collection::vec(prop::collection::vec(1u8.., 0..12), 0..12)) {
            let args: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            let line = classify(&args);
            prop_assert!(line.inputs.len() <= args.len());
        }

        #[test]
        fn opaque_options_change_nothing(at in 0usize..4, flag in "-[fWm][a-z]{1,3}9[a-z-]{0,8}") {
            let mut args: Vec<OsString> = ["-c", "x.c", "-ox.o"].map(OsString::from).into();
            let plain = classify(&args);
            args.insert(at, flag.into());
            prop_assert_eq!(classify(&args), plain);
        }
    }
}
