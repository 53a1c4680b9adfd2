//! Suppressions: findings that a user has seen, and does not want to see again.
//!
//! A file has one `TYPE:PATTERN` a line, as ThreadSanitizer's have; blocks of Valgrind's files are read too ([`parse()`]).
//! A suppression hides a finding of its type where its pattern is in the name of a function, file or module of one of the
//! calls that led there, or of a variable. `id:FINGERPRINT` hides exactly one finding, and is what we write ourselves.
//!
//! Departures from ThreadSanitizer: types for the bugs that it does not look for; a comment `expires=DATE` above an entry
//! ends it; `called_from_lib` looks at the whole stack, as we do not take part in calls. `mutex`, `thread` and `signal` are
//! read and hide nothing, because we report nothing of that sort.

mod date;
mod parse;
mod pattern;
mod subject;
mod valgrind;

use std::fmt;

pub use date::Date;
pub use parse::{ParseError, parse};
pub use pattern::{Glob, Pattern};
pub use subject::{Call, Subject};
pub use valgrind::Step;

use crate::report::{Finding, Kind};

macro_rules! sorts {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $text:literal;)*) => {
        /// What sort of finding a suppression is for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Sort { $($(#[doc = $doc])+ $name),* }

        impl Sort {
            /// Every sort, its word in a file, and what it hides.
            pub const ALL: &[(Sort, &str, &str)] = &[$((Sort::$name, $word, $text)),*];
        }
    };
}

sorts! {
    /// Data races.
    Race = "race", "data races";
    /// Data races, by the innermost call alone.
    RaceTop = "race_top", "data races, by the innermost call of an access alone";
    /// Misused mutexes.
    Mutex = "mutex", "nothing: misuse of mutexes is not reported here";
    /// Leaked threads.
    Thread = "thread", "nothing: leaks of threads are not reported here";
    /// Unsafe calls in signal handlers.
    Signal = "signal", "nothing: unsafe calls in signal handlers are not reported here";
    /// Data races below a library.
    CalledFromLib = "called_from_lib", "data races with an access that was called from a library, by its file name";
    /// Deadlocks.
    Deadlock = "deadlock", "deadlocks";
    /// Lost wake-ups.
    LostWakeup = "lost_wakeup", "lost wake-ups";
    /// Atomicity violations.
    Atomicity = "atomicity", "atomicity and atomic-set violations";
    /// Order violations.
    Order = "order", "order violations";
    /// Violations of a guard's invariants.
    Invariant = "invariant", "violations of a guard's invariants";
    /// One finding.
    Id = "id", "the one finding with this fingerprint; its first eight characters are enough";
}

impl Sort {
    /// By its word in a file.
    pub fn from_word(word: &str) -> Option<Sort> {
        Sort::ALL.iter().find(|(_, known, _)| *known == word).map(|(sort, ..)| *sort)
    }

    /// Its word in a file.
    pub fn word(self) -> &'static str {
        Sort::ALL.iter().find(|(sort, ..)| *sort == self).map_or("", |(_, word, _)| word)
    }

    /// Whether it can hide anything here.
    pub fn hides_something(self) -> bool {
        !matches!(self, Sort::Mutex | Sort::Thread | Sort::Signal)
    }

    /// Whether it is for findings of this kind.
    pub fn is_for(self, kind: Kind) -> bool {
        match self {
            Sort::Race | Sort::RaceTop | Sort::CalledFromLib => kind == Kind::DataRace,
            Sort::Deadlock => kind == Kind::Deadlock,
            Sort::LostWakeup => kind == Kind::LostWakeup,
            Sort::Atomicity => matches!(kind, Kind::AtomicityViolation | Kind::AtomicSetViolation),
            Sort::Order => kind == Kind::OrderViolation,
            Sort::Id => true,
            Sort::Mutex | Sort::Thread | Sort::Signal | Sort::Invariant => false,
        }
    }
}

/// What a suppression looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A name that a pattern matches.
    Name(Sort, Pattern),
    /// A fingerprint, or its beginning.
    Id(String),
    /// Calls, innermost first, as Valgrind has them.
    Calls(Sort, Vec<Step>),
}

/// A suppression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// What it looks for.
    pub rule: Rule,
    /// As the file has it: `race:deposit`, or the name of Valgrind's block.
    pub text: String,
    /// Its line, from 1.
    pub line: u32,
    /// The last day on which it counts.
    pub expires: Option<Date>,
    /// Where the bug is being worked on.
    pub bug: Option<String>,
}

impl Suppression {
    /// Whether its time is over.
    pub fn is_expired(&self, today: Date) -> bool {
        self.expires.is_some_and(|last| today > last)
    }

    /// Whether it hides this.
    pub fn hides(&self, subject: &Subject<'_>) -> bool {
        match &self.rule {
            Rule::Id(id) => {
                subject.id.is_some_and(|known| known == id || (id.len() >= SHORTEST && known.starts_with(id)))
            }
            Rule::Name(sort, pattern) => subject.is_of(*sort) && subject.has(*sort, pattern),
            Rule::Calls(sort, steps) => {
                subject.is_of(*sort) && subject.stacks.iter().any(|stack| valgrind::covers(steps, stack))
            }
        }
    }
}

impl fmt::Display for Suppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Characters of a fingerprint that name a finding, as in names of clips.
pub const SHORTEST: usize = 8;

/// An entry for exactly this finding, with what a reader must know about it.
pub fn entry_for(finding: &Finding) -> String {
    let mut places: Vec<String> = finding
        .accesses
        .iter()
        .filter_map(|access| Some(format!("{}:{}", access.file.as_deref()?, access.line?)))
        .collect();
    places.dedup();
    let at = if places.is_empty() { String::new() } else { format!(", at {}", places.join(" and ")) };
    format!("# {}{at}\nid:{}\n", finding.title().replace(['\n', '\r'], " "), finding.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Access, Frame};

    fn race() -> Finding {
        let frame = |function: &str, file: &str, module: &str| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            module: Some(module.into()),
            ..Frame::default()
        };
        let access = |name: &str| Access {
            function: Some(name.into()),
            file: Some("src/bank.c".into()),
            line: Some(8),
            variable: Some("balance".into()),
            stack: vec![frame(name, "src/bank.c", "bank"), frame("teller", "src/office.c", "liboffice.so.1")],
            ..Access::default()
        };
        Finding::new("0123456789abcdef".into(), Kind::DataRace, vec![access("deposit"), access("withdraw")])
    }

    #[test]
    fn entries_hide_what_they_name_and_nothing_else() {
        let finding = race();
        let hides = [
            "race:deposit",
            "race:^deposit$",
            "race:with*",
            "race:office.c",
            "race:liboffice.so",
            "race:balance",
            "race:bal*ce$",
            "race_top:withdraw",
            "race_top:bank.c",
            "called_from_lib:liboffice.so",
            "id:0123456789abcdef",
            "id:01234567",
            "race:teller",
            "race:*",
            "{\n x\n Helgrind:Race\n fun:deposit\n}",
            "{\n x\n drd:ConflictingAccess\n ...\n obj:*/liboffice.so*\n}",
        ];
        let shows = [
            "race:deposits",
            "race:^posit",
            "race:deposi$",
            "race_top:teller",
            "race_top:office.c",
            "deadlock:deposit",
            "atomicity:deposit",
            "order:*",
            "invariant:*",
            "mutex:deposit",
            "called_from_lib:deposit",
            "id:0123456789abcdee",
            "{\n x\n Helgrind:Race\n fun:teller\n}",
            "{\n x\n Helgrind:LockOrder\n fun:deposit\n}",
            "{\n x\n Memcheck:Leak\n fun:deposit\n}",
        ];
        let hidden = |text: &str| {
            let all = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            all.iter().any(|one| one.hides(&Subject::of(&finding)))
        };
        for text in hides {
            assert!(hidden(text), "{text}");
        }
        for text in shows {
            assert!(!hidden(text), "{text}");
        }
    }

    #[test]
    fn each_kind_of_finding_has_a_sort() {
        for kind in Kind::ALL {
            let sorts = Sort::ALL.iter().filter(|(sort, ..)| *sort != Sort::Id && sort.is_for(*kind));
            assert!(sorts.count() > 0, "{kind:?}");
        }
    }

    #[test]
    fn what_is_written_for_a_finding_hides_it() {
        let finding = race();
        let text = entry_for(&finding);
        assert_eq!(text, "# data race in deposit / withdraw, at src/bank.c:8\nid:0123456789abcdef\n");
        let all = parse(&text).expect("our own form");
        assert!(matches!(all.as_slice(), [one] if one.hides(&Subject::of(&finding))));
    }
}
