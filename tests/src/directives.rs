//! The `//@` directives at the head of a test program, and its `//~` marks.
//!
//! Directives are the first lines of a file; the first line that is none ends them.
//!
//! | directive | meaning | default |
//! |---|---|---|
//! | `//@ flags: -lm` | compiler and linker flags, after the source file | none |
//! | `//@ exit: 3` | ends by exiting with this status | `0` |
//! | `//@ signal: SIGABRT` | ends by this signal | |
//! | `//@ needs: jemalloc` | skipped, with a message, where that is missing | nothing |
//! | `//@ timeout: 20` | seconds that a native run may take | `20` |
//! | `//@ env: K=V` | an environment variable, spaces allowed | none |
//! | `//@ companion: lib.c shared` | a shared library to build; its path becomes an argument | none |
//! | `//@ deadlock: some` | under control, `every` schedule or `some` deadlock | none does |
//! | `//@ hidden` | under control, threads block where the model does not look | none does |
//! | `//@ world` | under control, what comes from outside decides too: two runs may differ | they do not |
//! | `//@ plain: lib.c` | an object or library that is built without instrumentation | none |
//! | `//@ rust` | a Rust program | by file name |

use std::time::Duration;

use rustix::process::Signal;
use thiserror::Error;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By exiting with this status.
    Exit(i32),
    /// By the signal of this number.
    Signal(i32),
    /// Not at all: it was still running when its time was over, and was killed.
    Hang,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exit(status) => write!(f, "exit {status}"),
            Ending::Signal(number) => match SIGNALS.iter().find(|s| s.1.as_raw() == *number) {
                Some((name, _)) => f.write_str(name),
                None => write!(f, "signal {number}"),
            },
            Ending::Hang => f.write_str("hang"),
        }
    }
}

/// Something outside the compiler that a program is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The jemalloc allocator.
    Jemalloc,
    /// The mimalloc allocator.
    Mimalloc,
    /// A compiler with OpenMP.
    Openmp,
}

impl Need {
    const ALL: [(&'static str, Need); 3] =
        [("jemalloc", Need::Jemalloc), ("mimalloc", Need::Mimalloc), ("openmp", Need::Openmp)];

    /// The flags with which an empty program must build for the need to be met.
    pub fn probe_flags(self) -> &'static [&'static str] {
        match self {
            Need::Jemalloc => &["-ljemalloc"],
            Need::Mimalloc => &["-lmimalloc"],
            Need::Openmp => &["-fopenmp"],
        }
    }

    /// What to install where the need is not met.
    pub fn remedy(self) -> &'static str {
        match self {
            Need::Jemalloc => "install libjemalloc-dev",
            Need::Mimalloc => "install libmimalloc-dev",
            Need::Openmp => "install the compiler's OpenMP runtime (libgomp or libomp-dev)",
        }
    }
}

/// What a program says about its building, running and ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directives {
    /// Flags for the compiler, after the source file.
    pub flags: Vec<String>,
    /// How the program ends natively.
    pub ending: Ending,
    /// What must be there to build it.
    pub needs: Vec<Need>,
    /// How long a native run may take.
    pub timeout: Duration,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// Sources, beside the program's, of shared libraries to build.
    pub companions: Vec<String>,
    /// Which schedules deadlock.
    pub deadlock: Deadlock,
    /// Whether threads block where the model does not look; such runs need not be the same twice.
    pub hidden: bool,
    /// Whether what comes from outside decides too.
    pub world: bool,
    /// Sources, beside the program's, that are compiled natively and linked in.
    pub plain: Vec<String>,
    /// Whether the file says that it is a Rust program.
    pub rust: bool,
}

/// Which schedules of a program end in a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlock {
    /// None.
    None,
    /// At least one, and not all.
    Some,
    /// All.
    Every,
}

impl Default for Directives {
    fn default() -> Self {
        Directives {
            flags: Vec::new(),
            ending: Ending::Exit(0),
            needs: Vec::new(),
            timeout: Duration::from_secs(20),
            env: Vec::new(),
            companions: Vec::new(),
            deadlock: Deadlock::None,
            hidden: false,
            world: false,
            plain: Vec::new(),
            rust: false,
        }
    }
}

/// A directive that cannot be understood.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}: `{text}`")]
pub struct DirectiveError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
    /// The directive as written.
    pub text: String,
}

impl Directives {
    /// Reads the directives at the head of a program's source.
    ///
    /// ```
    /// use selvedge_itest::{Directives, Ending};
    /// let d = Directives::parse("//@ flags: -lm\n//@ signal: SIGABRT\n// What it does.\n")?;
    /// assert_eq!(d.flags, ["-lm"]);
    /// assert_eq!(d.ending, Ending::Signal(6));
    /// # Ok::<(), selvedge_itest::DirectiveError>(())
    /// ```
    pub fn parse(source: &str) -> Result<Directives, DirectiveError> {
        let mut directives = Directives::default();
        let mut in_head = true;
        for (index, text) in source.lines().enumerate() {
            let fault = |problem| DirectiveError { line: index + 1, problem, text: text.to_owned() };
            let Some(directive) = text.strip_prefix("//@") else {
                in_head = false;
                continue;
            };
            if !in_head {
                return Err(fault("directive after the head of the file"));
            }
            let (key, value) = match directive.split_once(':') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => (directive.trim(), ""),
            };
            directives.set(key, value).map_err(fault)?;
        }
        Ok(directives)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "flags" => self.flags.extend(value.split_whitespace().map(str::to_owned)),
            "exit" => match value.parse() {
                Ok(status @ 0..=255) => self.ending = Ending::Exit(status),
                _ => return Err("an exit status is a number from 0 to 255"),
            },
            "signal" => {
                let signal = SIGNALS.iter().find(|s| s.0 == value);
                let signal = signal.ok_or("unknown signal")?;
                self.ending = Ending::Signal(signal.1.as_raw());
            }
            "needs" => {
                let need = Need::ALL.iter().find(|n| n.0 == value);
                self.needs.push(need.ok_or("unknown need")?.1);
            }
            "timeout" => match value.parse() {
                Ok(seconds @ 1..=600) => self.timeout = Duration::from_secs(seconds),
                _ => return Err("a timeout is a number of seconds from 1 to 600"),
            },
            "env" => {
                let (name, value) = value.split_once('=').ok_or("not of the form K=V")?;
                self.env.push((name.to_owned(), value.to_owned()));
            }
            "companion" => match value.split_once(' ') {
                Some((file, "shared")) => self.companions.push(file.to_owned()),
                _ => return Err("not of the form `FILE shared`"),
            },
            "deadlock" => match value {
                "some" => self.deadlock = Deadlock::Some,
                "every" => self.deadlock = Deadlock::Every,
                _ => return Err("`some` or `every`"),
            },
            "hidden" => self.hidden = true,
            "world" => self.world = true,
            "plain" => self.plain.push(value.to_owned()),
            "rust" => self.rust = true,
            _ => return Err("unknown directive"),
        }
        Ok(())
    }
}

/// The lines (counted from 1) that end in a `//~ KIND` mark, with their kind.
pub fn guilty_lines(source: &str) -> Vec<(usize, &str)> {
    let marked = source.lines().enumerate().filter_map(|(index, line)| {
        let (_, kind) = line.split_once("//~ ")?;
        Some((index + 1, kind.trim()))
    });
    marked.collect()
}

/// The signals by which a program may say that it ends.
const SIGNALS: [(&str, Signal); 14] = [
    ("SIGHUP", Signal::HUP),
    ("SIGINT", Signal::INT),
    ("SIGQUIT", Signal::QUIT),
    ("SIGILL", Signal::ILL),
    ("SIGTRAP", Signal::TRAP),
    ("SIGABRT", Signal::ABORT),
    ("SIGBUS", Signal::BUS),
    ("SIGFPE", Signal::FPE),
    ("SIGKILL", Signal::KILL),
    ("SIGSEGV", Signal::SEGV),
    ("SIGPIPE", Signal::PIPE),
    ("SIGALRM", Signal::ALARM),
    ("SIGTERM", Signal::TERM),
    ("SIGSYS", Signal::SYS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_directives_has_the_defaults() {
        let source = "// Just a program.\nint main(void) { return 0; }\n";
        assert_eq!(Directives::parse(source), Ok(Directives::default()));
        assert_eq!(Directives::parse(""), Ok(Directives::default()));
    }

    #[test]
    fn every_directive_is_read() {
        let source = "//@ flags: -lm  -ldl\n//@ flags: -O0\n//@ exit: 17\n//@ needs: jemalloc\n\
                      //@ needs: openmp\n//@ timeout: 40\n//@ env: A=b c=d\n//@ env: EMPTY=\n\
                      //@ companion: lib_x.c shared\n//@ rust\n//@ deadlock: some\n//@ hidden\n//@ world\n\
                      //@ plain: p.c\n// text\n";
        let expected = Directives {
            flags: vec!["-lm".into(), "-ldl".into(), "-O0".into()],
            ending: Ending::Exit(17),
            needs: vec![Need::Jemalloc, Need::Openmp],
            timeout: Duration::from_secs(40),
            env: vec![("A".into(), "b c=d".into()), ("EMPTY".into(), "".into())],
            companions: vec!["lib_x.c".into()],
            rust: true,
            deadlock: Deadlock::Some,
            hidden: true,
            world: true,
            plain: vec!["p.c".into()],
        };
        assert_eq!(Directives::parse(source), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (source, line, problem) in [
            ("//@ flag: -lm", 1, "unknown directive"),
            ("//@ rust\n//@ exit: 256", 2, "an exit status is a number from 0 to 255"),
            ("//@ exit:", 1, "an exit status is a number from 0 to 255"),
            ("//@ signal: ABRT", 1, "unknown signal"),
            ("//@ needs: everything", 1, "unknown need"),
            ("//@ timeout: 0", 1, "a timeout is a number of seconds from 1 to 600"),
            ("//@ env: NAME", 1, "not of the form K=V"),
            ("//@ companion: lib.c", 1, "not of the form `FILE shared`"),
            ("// text\n//@ exit: 3", 2, "directive after the head of the file"),
        ] {
            let error = Directives::parse(source).expect_err(source);
            assert_eq!((error.line, error.problem), (line, problem), "{source}");
        }
    }

    #[test]
    fn endings_are_worded_for_people() {
        assert_eq!(Ending::Exit(3).to_string(), "exit 3");
        assert_eq!(Ending::Signal(6).to_string(), "SIGABRT");
        assert_eq!(Ending::Signal(40).to_string(), "signal 40");
    }

    #[test]
    fn marks_are_found_with_their_kind() {
        let source = "int x;\nx++; //~ race\ny(); // ~ no\nz = x; //~ race-2\n";
        assert_eq!(guilty_lines(source), [(2, "race"), (4, "race-2")]);
    }
}
