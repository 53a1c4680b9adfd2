//! Atomic sections as a text that people read, compare, cut and keep beside their code.
//!
//! ```text
//! selvedge-sections 2
//! program bank
//! runs 40
//!
//! section load-and-store bank.c:deposit+3:12:r8
//!   variable balance
//!   end reads bank.c:deposit+5:13:w8 seen
//!   end anything bank.c:deposit+7:14:r8 seen
//!
//! end
//! ```
//!
//! One thing a line, sections by pattern and the key of the site that they begin with, so that a change of the set is a
//! change of few lines. An end says what other threads may do meanwhile: `nothing`, `reads`, `writes`, `anything`; and whether a correct
//! run came to it (`seen`). Where `runs` is above 0 the file is refined: ends that were not seen, and those at which anything is
//! allowed, are there for the next refinement to know, and nobody keeps or checks them. Blank lines and lines that begin with `#`
//! are ignored, and so is the indentation. The last line tells a file that was cut off.
//!
//! Version 1 had no `seen`; it is read as a file that is not refined.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thiserror::Error;

use super::{Kind, Remote};

/// The version of the form.
pub const VERSION: u32 = 2;
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
    /// Ends that a correct run came to.
    pub seen: BTreeSet<String>,
}

impl SectionFile {
    /// Takes in another file: all sections and ends that either has. What either allows at an end is allowed: a correct run has shown
    /// it. The order does not matter, and neither does doing it twice.
    pub fn merge(&mut self, other: &SectionFile) {
        self.runs = self.runs.max(other.runs);
        // Of two names, whichever; but always the same.
        let name = |own: &mut String, other: &String| {
            if other > own {
                own.clone_from(other);
            }
        };
        name(&mut self.program, &other.program);
        for (key, section) in &other.sections {
            let known = self.sections.entry(key.clone()).or_default();
            name(&mut known.variable, &section.variable);
            known.seen.extend(section.seen.iter().cloned());
            for (end, allowed) in &section.ends {
                let both = known.ends.entry(end.clone()).or_insert(*allowed);
                *both = Remote { reads: both.reads || allowed.reads, writes: both.writes || allowed.writes };
            }
        }
    }

    /// What others may do at an end that is to be kept or checked; `None` for other ends.
    pub fn kept(&self, section: &KeyedSection, end: &str) -> Option<Remote> {
        let allowed = *section.ends.get(end)?;
        let is_kept = allowed != Remote::ALL && (self.runs == 0 || section.seen.contains(end));
        is_kept.then_some(allowed)
    }

    /// Sections with an end that is to be kept or checked.
    pub fn kept_sections(&self) -> impl Iterator<Item = (&(String, Kind), &KeyedSection)> {
        self.sections.iter().filter(|(_, section)| section.ends.keys().any(|end| self.kept(section, end).is_some()))
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
    #[error("{0:?} is not known: write program, runs, section PATTERN KEY, variable, end WHAT KEY [seen] or end")]
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
            let seen = if section.seen.contains(end) { " seen" } else { "" };
            let _ = writeln!(out, "  end {} {end}{seen}", remote_word(*allowed));
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
    let title = lines.next().map_or("", |(_, line)| line);
    if !(1..=VERSION).any(|version| title == format!("{MAGIC} {version}")) {
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
            ["end", allowed, key] | ["end", allowed, key, "seen"] => {
                let section = now.as_ref().and_then(|key| out.sections.get_mut(key)).ok_or_else(astray)?;
                let allowed = remote_of(allowed).ok_or_else(unknown)?;
                if words.len() == 4 {
                    section.seen.insert((*key).to_owned());
                }
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
        let section = ("[a-z>*-]{0,8}", ends, any::<u8>()).prop_map(|(variable, ends, seen)| {
            let is_seen = |at: usize| seen >> (at % 8) & 1 == 1;
            let seen = ends.keys().enumerate().filter(|(at, _)| is_seen(*at)).map(|(_, end)| end.clone()).collect();
            KeyedSection { variable, ends, seen }
        });
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
        fn merging_is_the_same_in_any_order_and_however_often(one in file(), two in file(), three in file()) {
            let merged = |first: &SectionFile, second: &SectionFile| {
                let mut out = first.clone();
                out.merge(second);
                out
            };
            let both = merged(&one, &two);
            prop_assert_eq!(&merged(&two, &one), &both);
            prop_assert_eq!(&merged(&both, &two), &both);
            prop_assert_eq!(&merged(&both, &one), &both);
            prop_assert_eq!(merged(&both, &three), merged(&one, &merged(&two, &three)));
        }

        #[test]
        fn a_merge_allows_what_either_does(one in file(), two in file()) {
            let mut both = one.clone();
            both.merge(&two);
            for (key, section) in &both.sections {
                for (end, allowed) in &section.ends {
                    let of = |file: &SectionFile| file.sections.get(key).and_then(|section| section.ends.get(end).copied());
                    let all = [of(&one), of(&two)];
                    prop_assert!(all.iter().any(Option::is_some));
                    prop_assert_eq!(allowed.reads, all.iter().flatten().any(|allowed| allowed.reads));
                    prop_assert_eq!(allowed.writes, all.iter().flatten().any(|allowed| allowed.writes));
                }
            }
        }

        #[test]
        fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let head = "selvedge-sections 2\n";
        let rows = [
            ("", 1, Problem::Foreign),
            ("selvedge-sections 3\nend", 1, Problem::Foreign),
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
