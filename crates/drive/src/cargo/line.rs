//! A command line with Cargo's options and ours mixed: which word is whose.
//!
//! `cargo selvedge hunt -p net --release --budget 30s -- parallel_reads`: Cargo chooses and builds, the hunt hunts, what follows `--`
//! is for the program. Where both know an option, it is the command's own. Pure.

use std::ffi::{OsStr, OsString};

/// Cargo's options that have a value.
const WITH_VALUE: &[&str] = &[
    "-p",
    "--package",
    "--exclude",
    "--bin",
    "--example",
    "--test",
    "-F",
    "--features",
    "--manifest-path",
    "--lockfile-path",
    "--profile",
    "--target",
    "--target-dir",
    "--config",
    "-Z",
    "--color",
];

/// Cargo's options that have none.
const ALONE: &[&str] = &[
    "-r",
    "--release",
    "--all-features",
    "--no-default-features",
    "--workspace",
    "--lib",
    "--bins",
    "--tests",
    "--examples",
    "--all-targets",
    "--locked",
    "--offline",
    "--frozen",
    "--ignore-rust-version",
    "-v",
    "-vv",
    "--verbose",
    "-q",
    "--quiet",
];

/// What an option of our own command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Nothing.
    Alone,
    /// A value.
    WithValue,
}

/// Whose the words are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Cargo's.
    pub cargo: Vec<OsString>,
    /// Our command's.
    pub ours: Vec<OsString>,
    /// Words that are no options.
    pub words: Vec<OsString>,
    /// What follows `--`.
    pub rest: Vec<OsString>,
}

impl Split {
    /// Whether a program is asked for, rather than tests.
    pub fn names_program(&self) -> bool {
        self.cargo.iter().any(|word| {
            let word = word.to_string_lossy();
            ["--bin", "--example"].iter().any(|name| word == *name || word.starts_with(&format!("{name}=")))
        })
    }

    /// Whether anything says which targets are meant.
    pub fn names_targets(&self) -> bool {
        let names = ["--lib", "--bins", "--tests", "--test", "--examples", "--all-targets"];
        let named = self.cargo.iter().any(|word| {
            let word = word.to_string_lossy();
            names.iter().any(|name| word == *name || word.starts_with(&format!("{name}=")))
        });
        named || self.names_program()
    }
}

/// Why a command line is not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SplitError {
    /// Nobody's option.
    #[error("`{0}` is an option neither of Cargo nor of this command; options of the program come after `--`")]
    Unknown(String),
    /// An option without its value.
    #[error("`{0}` needs a value")]
    NoValue(String),
}

/// Splits the words after the command's name. `own` knows the command's own options, by name with its dashes.
///
/// # Errors
/// If an option is nobody's, or has no value.
pub fn split(words: &[OsString], own: &dyn Fn(&str) -> Option<OptionKind>) -> Result<Split, SplitError> {
    let mut split = Split::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            split.rest.extend(rest.by_ref().cloned());
            break;
        }
        let text = word.to_string_lossy();
        if !text.starts_with('-') || text == "-" {
            split.words.push(word.clone());
            continue;
        }
        let (side, kind, joined) = whose(&text, own).ok_or_else(|| SplitError::Unknown(text.clone().into_owned()))?;
        let side = match side {
            Side::Ours => &mut split.ours,
            Side::Cargo => &mut split.cargo,
        };
        side.push(word.clone());
        if kind == OptionKind::WithValue && !joined {
            let value = rest.next().ok_or_else(|| SplitError::NoValue(text.into_owned()))?;
            side.push(OsStr::to_owned(value));
        }
    }
    Ok(split)
}

enum Side {
    Ours,
    Cargo,
}

/// Whose option it is, what it takes, and whether its value is in the same word.
fn whose(text: &str, own: &dyn Fn(&str) -> Option<OptionKind>) -> Option<(Side, OptionKind, bool)> {
    let long = text.starts_with("--");
    let (name, joined) = match text.split_once('=') {
        Some((name, _)) if long => (name, true),
        _ => (text, false),
    };
    let known = |name: &str| match own(name) {
        Some(kind) => Some((Side::Ours, kind)),
        None if WITH_VALUE.contains(&name) => Some((Side::Cargo, OptionKind::WithValue)),
        None if ALONE.contains(&name) => Some((Side::Cargo, OptionKind::Alone)),
        None => None,
    };
    if let Some((side, kind)) = known(name) {
        return Some((side, kind, joined));
    }
    // `-n20`, `-pnet`.
    let short = text.get(..2).filter(|_| !long && text.len() > 2)?;
    known(short).filter(|(_, kind)| *kind == OptionKind::WithValue).map(|(side, kind)| (side, kind, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunt(name: &str) -> Option<OptionKind> {
        match name {
            "--budget" | "-j" | "-n" => Some(OptionKind::WithValue),
            "--all" => Some(OptionKind::Alone),
            _ => None,
        }
    }

    fn line(text: &str) -> Result<Split, SplitError> {
        split(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>(), &hunt)
    }

    #[test]
    fn every_word_finds_its_side() {
        let cases = [
            ("--test pool --budget 30s", "--test pool", "--budget 30s", "", ""),
            ("--budget=30s -p net -n20 lost", "-p net", "--budget=30s -n20", "lost", ""),
            ("--all --release -- --exact a::b", "--release", "--all", "", "--exact a::b"),
            ("-pnet --features=a,b -j 2", "-pnet --features=a,b", "-j 2", "", ""),
            ("-- --release", "", "", "", "--release"),
            ("--budget --release", "", "--budget --release", "", ""),
        ];
        for (text, cargo, ours, words, rest) in cases {
            let split = line(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let joined = |words: &[OsString]| words.join(OsStr::new(" ")).to_string_lossy().into_owned();
            assert_eq!(joined(&split.cargo), cargo, "{text}");
            assert_eq!(joined(&split.ours), ours, "{text}");
            assert_eq!(joined(&split.words), words, "{text}");
            assert_eq!(joined(&split.rest), rest, "{text}");
        }
    }

    #[test]
    fn what_nobody_knows_is_told() {
        assert_eq!(line("--buget 3"), Err(SplitError::Unknown("--buget".into())));
        assert_eq!(line("-x"), Err(SplitError::Unknown("-x".into())));
        assert_eq!(line("--test"), Err(SplitError::NoValue("--test".into())));
    }

    #[test]
    fn targets_are_recognised() {
        assert!(line("--bin=a").is_ok_and(|split| split.names_program()));
        assert!(line("--example a").is_ok_and(|split| split.names_program()));
        assert!(line("--test a").is_ok_and(|split| split.names_targets() && !split.names_program()));
        assert!(line("-p a").is_ok_and(|split| !split.names_targets()));
    }
}
