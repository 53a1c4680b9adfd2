//! What gcc and clang options look like: the tables behind the classifier.
//!
//! Only options that change what the wrapper does, or that swallow the next word, are listed. Everything else is
//! opaque and handed on. A new compiler option needs a row here only if it takes its argument as a separate word.

/// Options that take the next word as their argument when spelled exactly like this.
pub(super) const SEPARATE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-A",
    "-B",
    "-F",
    "-G",
    "-T",
    "-e",
    "-u",
    "-z",
    "-include",
    "-include-pch",
    "-imacros",
    "-isystem",
    "-isystem-after",
    "-cxx-isystem",
    "-stdlib++-isystem",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-iquote",
    "-isysroot",
    "-imultilib",
    "-iframework",
    "-iframeworkwithsysroot",
    "-ivfsoverlay",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xclang",
    "-Xanalyzer",
    "-Xopenmp-target",
    "-Xarch_host",
    "-Xarch_device",
    "-mllvm",
    "-target",
    "-arch",
    "-aux-info",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-wrapper",
    "-framework",
    "-rpath",
    "-install_name",
    "-gcc-toolchain",
    "-resource-dir",
    "-serialize-diagnostics",
    "-working-directory",
    "-ccc-gcc-name",
    "-fmodule-name",
    "--param",
    "--sysroot",
    "--config",
    "--output",
    "--language",
    "--include",
    "--imacros",
    "--include-directory",
    "--library-directory",
    "--define-macro",
    "--undefine-macro",
    "--prefix",
    "--specs",
    "--entry",
    "--force-link",
    "--for-linker",
    "--for-assembler",
    "--assert",
    "--serialize-diagnostics",
];

/// Options that only ask the compiler something: nothing is compiled or linked.
pub(super) const QUESTIONS: &[&str] = &[
    "-###",
    "--version",
    "--help",
    "-help",
    "--help-hidden",
    "--target-help",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpmachine",
    "-dumpspecs",
    "-cc1",
    "-cc1as",
    "--analyze",
];

/// The same, for options that carry more text.
pub(super) const QUESTION_PREFIXES: &[&str] = &["-print-", "--print-", "--help=", "--autocomplete=", "-ccc-print-"];

/// Options that stop after preprocessing or checking. The instrumentation macro must still be defined.
pub(super) const PREPROCESS: &[&str] =
    &["-E", "-M", "-MM", "-fsyntax-only", "--preprocess", "--dependencies", "--user-dependencies"];

/// `-g…` options that settle whether there is debug information. (`-gz`, `-gcolumn-info` and their like do not.)
pub(super) const DEBUG_EXACT: &[&str] = &[
    "-g",
    "-g0",
    "-g1",
    "-g2",
    "-g3",
    "-gfull",
    "-gused",
    "-glldb",
    "-gsce",
    "-gdbx",
    "-gmlt",
    "-gline-tables-only",
    "-gline-directives-only",
    "-gsplit-dwarf",
    "-gmodules",
    "--debug",
];

/// The same, for families such as `-ggdb3` and `-gdwarf-4`.
pub(super) const DEBUG_PREFIXES: &[&str] = &["-ggdb", "-gdwarf", "-gstabs", "-gsplit-dwarf="];

/// Options that make instrumented code impossible to link: code for a kernel or for no operating system at all.
pub(super) const FREESTANDING: &[&str] = &["-ffreestanding", "-mcmodel=kernel", "-mkernel"];

/// Sanitizers whose instrumentation or shadow memory excludes ThreadSanitizer's hooks.
pub(super) const EXCLUSIVE_SANITIZERS: &[&str] = &[
    "address",
    "kernel-address",
    "hwaddress",
    "kernel-hwaddress",
    "memory",
    "kernel-memory",
    "leak",
    "dataflow",
    "memtag",
    "memtag-stack",
    "memtag-heap",
    "type",
    "scudo",
];

/// Start files: one of them on the command line means the program starts the usual way although
/// `-nostdlib` or `-nostartfiles` is given.
pub(super) const START_FILES: &[&str] = &["crt1.o", "Scrt1.o", "gcrt1.o", "rcrt1.o"];

/// The language of an input, as far as the wrapper cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// C, preprocessed or not.
    C,
    /// C++, preprocessed or not, modules included.
    Cxx,
    /// A C or C++ header that is to be precompiled.
    Header,
    /// Assembler: compiled by the driver, but never instrumented.
    Assembler,
    /// An object, archive, shared library or linker script.
    Linker,
    /// A language whose instrumentation is not ours: Fortran, Ada, Objective-C, LLVM bitcode …
    Other,
}

impl Language {
    /// Whether the compiler proper runs on such an input and emits hooks.
    pub fn is_instrumentable(self) -> bool {
        matches!(self, Self::C | Self::Cxx | Self::Header)
    }
}

/// The language of a file name that no `-x` covers. Case matters: `.C` is C++, `.S` is preprocessed assembler.
pub(super) fn language_of_extension(extension: &[u8]) -> Language {
    match extension {
        b"c" | b"i" => Language::C,
        b"cc" | b"cp" | b"cxx" | b"cpp" | b"CPP" | b"c++" | b"C" | b"CC" | b"ii" => Language::Cxx,
        b"cppm" | b"ccm" | b"cxxm" | b"c++m" | b"ixx" | b"iim" => Language::Cxx,
        b"h" | b"hh" | b"H" | b"hp" | b"hxx" | b"hpp" | b"HPP" | b"h++" | b"tcc" => Language::Header,
        b"s" | b"S" | b"sx" => Language::Assembler,
        b"m" | b"mi" | b"mm" | b"M" | b"mii" | b"f" | b"F" | b"for" | b"FOR" | b"fpp" | b"FPP" | b"f90" | b"F90"
        | b"f95" | b"F95" | b"f03" | b"F03" | b"f08" | b"F08" | b"ads" | b"adb" | b"d" | b"go" | b"ll" | b"bc"
        | b"cu" | b"hip" | b"cl" => Language::Other,
        _ => Language::Linker,
    }
}

/// The language named by `-x`; `None` for `none`, which gives the choice back to the file name.
pub(super) fn language_of_name(name: &[u8]) -> Option<Language> {
    match name {
        b"none" => None,
        b"c" | b"cpp-output" => Some(Language::C),
        b"c++" | b"c++-cpp-output" | b"c++-module" => Some(Language::Cxx),
        b"c-header" | b"c++-header" | b"c++-system-header" | b"c++-user-header" => Some(Language::Header),
        b"assembler" | b"assembler-with-cpp" => Some(Language::Assembler),
        _ => Some(Language::Other),
    }
}
