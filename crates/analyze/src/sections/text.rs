//! Atomic sections as a text that people read, compare, cut and keep beside their code.
//!
//! ```text
//! selvedge-sections 1
//! program bank
//! runs 40
//!
//! section load-and-store bank.c:deposit+3:12:r8
//!   variable balance
//!   end reads bank.c:deposit+5:13:w8
//!
//! end
//! ```
//!
//! One thing a line, sections by pattern and the key of the site that they begin with, so that a change of the set is a
//! change of few lines. An end says what other threads may do meanwhile: `nothing`, `reads`, `writes`. Blank lines and
//! lines that begin with `#` are ignored, and so is the indentation. The last line tells a file that was cut off.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thiserror::Error;

use super::{Kind, Remote};

/// The version of the form.
pub const VERSION: u32 = 1;
/// Most bytes of a file.
pub const MOST_BYTES: usize = 1 << 28;
/// How a file begins.
pub const MAGIC: &str = "selvedge-sections";

/// Sections by the names of their sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionFile {
    /// Whose they are.
    pub program: String,
    /// Correct runs that they stood.
    pub runs: u64,
    /// By the key of their begin, and pattern.
    pub sections: BTreeMap<(String, Kind), KeyedSection>,
}

/// A section by the names of its sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedSection {
    /// The variable, for people.
    pub variable: String,
    /// By the key of an end: what others may do meanwhile.
    pub ends: BTreeMap<String, Remote>,
}

impl SectionFile {
    /// Takes in the sections of another file: all that either has. Where both know an end, only what both allow is
    /// forbidden no more.
    pub fn merge(&mut self, other: &SectionFile) {
        self.runs = self.runs.saturating_add(other.runs);
        if self.program.is_empty() {
            self.program.clone_from(&other.program);
        }
        for (key, section) in &other.sections {
            let known = self.sections.entry(key.clone()).or_insert_with(|| section.clone());
            for (end, allowed) in &section.ends {
                let both = known.ends.entry(end.clone()).or_insert(*allowed);
                *both = Remote { reads: both.reads && allowed.reads, writes: both.writes && allowed.writes };
            }
        }
    }
}

/// Why a text is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct TextError {
    /// From 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The first line is another.
    #[error(
        "not a file of sections: the first line is not \"{MAGIC} {VERSION}\"; make one with `selvedge sections PROGRAM -o FILE`"
    )]
    Foreign,
    /// Bytes that are no text.
    #[error("not text (UTF-8): the file is damaged")]
    NotText,
    /// The file is too large.
    #[error("more than {MOST_BYTES} bytes: no program has so many sections")]
    TooLarge,
    /// The last line is missing.
    #[error("the file is cut off: its last line is not \"end\"")]
    CutOff,
    /// A line that means nothing.
    #[error("{0:?} is not known: write program, runs, section PATTERN KEY, variable, end WHAT KEY or end")]
    Line(String),
    /// A line that belongs to a section.
    #[error("{0:?} belongs below a line with \"section\"")]
    Astray(String),
    /// Twice.
    #[error("{0:?} is there a second time: keep one of them")]
    Twice(String),
}

/// The word for a pattern.
pub const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::LoadAndStore => "load-and-store",
        Kind::TestAndUse => "test-and-use",
        Kind::Consecutive => "consecutive",
    }
}

fn kind_of(word: &str) -> Option<Kind> {
    [Kind::LoadAndStore, Kind::TestAndUse, Kind::Consecutive].into_iter().find(|kind| kind_word(*kind) == word)
}

/// The word for what others may do.
pub const fn remote_word(remote: Remote) -> &'static str {
    match (remote.reads, remote.writes) {
        (true, true) => "anything",
        (true, false) => "reads",
        (false, true) => "writes",
        (false, false) => "nothing",
    }
}

fn remote_of(word: &str) -> Option<Remote> {
    let flags = [(true, true), (true, false), (false, true), (false, false)];
    flags.map(|(reads, writes)| Remote { reads, writes }).into_iter().find(|remote| remote_word(*remote) == word)
}

/// One line of text, without anything that would end it.
fn line_of(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// Writes sections.
pub fn write(all: &SectionFile) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{MAGIC} {VERSION}\nprogram {}\nruns {}", line_of(&all.program), all.runs);
    for ((key, kind), section) in &all.sections {
        let _ = writeln!(out, "\nsection {} {key}\n  variable {}", kind_word(*kind), line_of(&section.variable));
        for (end, allowed) in &section.ends {
            let _ = writeln!(out, "  end {} {end}", remote_word(*allowed));
        }
    }
    out.push_str("\nend\n");
    out
}

/// Reads sections.
pub fn parse(bytes: &[u8]) -> Result<SectionFile, TextError> {
    let wrong = |line: usize, problem: Problem| TextError { line, problem };
    if bytes.len() > MOST_BYTES {
        return Err(wrong(1, Problem::TooLarge));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(1, Problem::NotText))?;
    let mut lines = (1..).zip(text.lines().map(str::trim));
    if lines.next().map(|(_, line)| line) != Some(&format!("{MAGIC} {VERSION}")) {
        return Err(wrong(1, Problem::Foreign));
    }
    let mut out = SectionFile::default();
    let mut now: Option<(String, Kind)> = None;
    let mut last = 1;
    let mut is_whole = false;
    for (number, line) in lines {
        last = number;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let unknown = || wrong(number, Problem::Line(line.to_owned()));
        if is_whole {
            return Err(unknown());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let astray = || wrong(number, Problem::Astray(line.to_owned()));
        let rest = || line.split_once(' ').map_or("", |(_, rest)| rest.trim()).to_owned();
        match words.as_slice() {
            ["end"] => is_whole = true,
            ["program", ..] => out.program = rest(),
            ["runs", count] => out.runs = count.parse().map_err(|_| unknown())?,
            ["section", kind, key] => {
                let key = ((*key).to_owned(), kind_of(kind).ok_or_else(unknown)?);
                if out.sections.insert(key.clone(), KeyedSection::default()).is_some() {
                    return Err(wrong(number, Problem::Twice(line.to_owned())));
                }
                now = Some(key);
            }
            ["variable", ..] => {
                let section = now.as_ref().and_then(|key| out.sections.get_mut(key)).ok_or_else(astray)?;
                section.variable = rest();
            }
            ["end", allowed, key] => {
                let section = now.as_ref().and_then(|key| out.sections.get_mut(key)).ok_or_else(astray)?;
                let allowed = remote_of(allowed).ok_or_else(unknown)?;
                if section.ends.insert((*key).to_owned(), allowed).is_some() {
                    return Err(wrong(number, Problem::Twice(line.to_owned())));
                }
            }
            _ => return Err(unknown()),
        }
    }
    if is_whole { Ok(out) } else { Err(wrong(last, Problem::CutOff)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file() -> impl Strategy<Value = SectionFile> {
        let remote = (any::<bool>(), any::<bool>()).prop_map(|(reads, writes)| Remote { reads, writes });
        let ends = proptest::collection::btree_map("[a-z.:+#]{1,8}", remote, 0..4);
        let section = ("[a-z>*-]{0,8}", ends).prop_map(|(variable, ends)| KeyedSection { variable, ends });
        let kind = prop_oneof![Just(Kind::LoadAndStore), Just(Kind::TestAndUse), Just(Kind::Consecutive)];
        let sections = proptest::collection::btree_map(("[a-z.:+#]{1,8}", kind), section, 0..5);
        ("[a-z]{0,8}", any::<u64>(), sections).prop_map(|(program, runs, sections)| SectionFile {
            program,
            runs,
            sections,
        })
    }

    proptest! {
        #[test]
        fn sections_round_trip(file in file()) {
            prop_assert_eq!(parse(write(&file).as_bytes()), Ok(file));
        }

        #[test]
        fn merging_twice_is_merging_once(one in file(), other in file()) {
            let merged = |first: &SectionFile, second: &SectionFile| {
                let mut out = first.clone();
                out.merge(second);
                out.sections
            };
            let mut both = one.clone();
            both.merge(&other);
            prop_assert_eq!(merged(&both, &other), both.sections.clone());
            prop_assert_eq!(merged(&both, &one), both.sections);
        }

        #[test]
        fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let head = "selvedge-sections 1\n";
        let rows = [
            ("", 1, Problem::Foreign),
            ("selvedge-sections 2\nend", 1, Problem::Foreign),
            (&format!("{head}program x"), 2, Problem::CutOff),
            (&format!("{head}end reads a\nend"), 2, Problem::Astray("end reads a".to_owned())),
            (&format!("{head}section odd a\nend"), 2, Problem::Line("section odd a".to_owned())),
            (&format!("{head}end\nmore"), 3, Problem::Line("more".to_owned())),
            (
                &format!("{head}section consecutive a\nsection consecutive a\nend"),
                3,
                Problem::Twice("section consecutive a".to_owned()),
            ),
        ];
        for (text, line, problem) in rows {
            assert_eq!(parse(text.as_bytes()), Err(TextError { line, problem }), "{text}");
        }
        assert_eq!(parse(&[0xff]), Err(TextError { line: 1, problem: Problem::NotText }));
    }
}
