//! Invariants as a text that people read, compare and keep beside their code.
//!
//! ```text
//! selvedge-invariants 5
//! program bank
//! runs 40
//! time 52000000
//! hooks 1400000 audit
//!
//! colour account.balance, account.limit
//!   shift -8 bank.c:withdraw+4:9:r4
//!
//! site bank.c:withdraw+3:12:w4
//!   hits 80
//!   asked
//!   unsettled
//!   after nil
//!   after bank.c:deposit+1:13:w4
//!   directly after bank.c:main+5:3:w4
//!   beyond bank.c:withdraw+3:12:w4
//!   touches bank.c:main+7:5:r4
//!
//! section bank.c:withdraw+2:5:lock
//!   entered 80
//!   first 80 -24 bank.c:withdraw+3:12:w4
//!
//! end
//! ```
//!
//! One thing a line, sites and what belongs to them by key, so that a change of the set is a change of one line. Blank lines
//! and lines that begin with `#` are ignored, and so is the indentation. The last line tells a file that was cut off.
//! In keys, blanks, control characters and `%` are written `%` and two digits for each byte.
//!
//! Version 1 had no `time`, version 2 no `hooks`, version 4 no `unsettled`. Up to version 3 a thread had come after its own access also where it had only taken turns with
//! others at one site ([`super::recorder`]). All are read; what is read of those belongs in either way of counting.
//!
//! What is written is normalised ([`Invariants::normalise`]): of `touches` only what the groups need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thiserror::Error;

use super::{Belonging, Colour, First, Invariants, Section, SiteKey};

/// The version of the form.
pub const VERSION: u32 = 5;
/// The first version in which threads that take turns at one site count as everybody.
const IN_TURN: u32 = 4;
/// The oldest version that is read.
const OLDEST: u32 = 1;
/// Most bytes of a file.
pub const MOST_BYTES: usize = 1 << 28;
/// Most sites, colours and lines in a block.
pub const MOST_ENTRIES: usize = 1 << 20;
/// Most bytes of a name.
pub const LONGEST_NAME: usize = 4096;

const MAGIC: &str = "selvedge-invariants";

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
    #[error("not a file of invariants: the first line is not \"{MAGIC} {VERSION}\"; give what `selvedge train` wrote")]
    Foreign,
    /// Of another version.
    #[error(
        "version {0} of the form; this selvedge reads version {VERSION}: train again, or use the selvedge that wrote it"
    )]
    Version(String),
    /// Bytes that are no text.
    #[error("not text (UTF-8): the file is damaged; take it from where it was made, or train again")]
    NotText,
    /// The file is too large.
    #[error("more than {MOST_BYTES} bytes: no invariants are that large; give what `selvedge train` wrote")]
    TooLarge,
    /// Too many of something.
    #[error("more than {MOST_ENTRIES} entries: no invariants are that many; give what `selvedge train` wrote")]
    TooMany,
    /// The last line is missing.
    #[error("the file is cut off: its last line is not \"end\"; take it from where it was made, or train again")]
    CutOff,
    /// Something behind the last line.
    #[error("{0:?} stands behind \"end\": take it out, or move it above")]
    Behind(String),
    /// An unknown word.
    #[error(
        "{0:?} is not known: write program, runs, time, hooks, colour, site, hits, asked, unsettled, after, touches, directly, beyond, shift, section, entered, first or end"
    )]
    Word(String),
    /// A word that belongs to a block.
    #[error("{word:?} belongs below a line with {below:?}")]
    Astray {
        /// The word.
        word: &'static str,
        /// What it belongs to.
        below: &'static str,
    },
    /// No number where one should be.
    #[error("{0:?} is no number that can be here: write digits")]
    Number(String),
    /// No key where one should be.
    #[error("{0:?} is no site key: write one, without blanks")]
    Key(String),
    /// A name that is too long.
    #[error("a name of more than {LONGEST_NAME} bytes: shorten it")]
    LongName,
    /// Twice.
    #[error("{0:?} is there a second time: keep one of them")]
    Twice(String),
}

/// Writes invariants.
pub fn write(all: &Invariants) -> String {
    let mut all = all.clone();
    all.normalise();
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{MAGIC} {VERSION}\n{}\nruns {}", named("program", &all.program), all.runs);
    if all.time > 0 {
        let _ = writeln!(out, "time {}", all.time);
    }
    for (function, hooks) in &all.hooks {
        let _ = writeln!(out, "hooks {hooks} {}", key_text(&SiteKey(function.clone())));
    }
    for colour in &all.colours {
        let _ = writeln!(out, "\n{}", named("colour", &colour.name));
        for (key, shift) in &colour.sites {
            let _ = writeln!(out, "  shift {shift} {}", key_text(key));
        }
    }
    for (key, site) in &all.sites {
        let _ = writeln!(out, "\nsite {}\n  hits {}", key_text(key), site.hits);
        if site.asked {
            out.push_str("  asked\n");
        }
        if site.unsettled {
            out.push_str("  unsettled\n");
        }
        for one in site.predecessors() {
            let word = match (site.allows(one, false), site.allows(one, true)) {
                (true, true) => "after",
                (true, false) => "directly after",
                _ => "beyond",
            };
            let _ = writeln!(out, "  {word} {}", one.map_or_else(|| "nil".to_owned(), key_text));
        }
        for other in &site.touches {
            let _ = writeln!(out, "  touches {}", key_text(other));
        }
    }
    for (key, section) in &all.sections {
        let _ = writeln!(out, "\nsection {}\n  entered {}", key_text(key), section.entered);
        for (site, first) in &section.first {
            let distance = first.distance.map_or_else(|| "varies".to_owned(), |distance| distance.to_string());
            let _ = writeln!(out, "  first {} {distance} {}", first.count, key_text(site));
        }
    }
    out.push_str("\nend\n");
    out
}

/// Reads invariants.
pub fn parse(bytes: &[u8]) -> Result<Invariants, TextError> {
    let mut parser = Parser::default();
    if bytes.len() > MOST_BYTES {
        return Err(TextError { line: 1, problem: Problem::TooLarge });
    }
    let mut line = 0;
    for bytes in bytes.split(|byte| *byte == b'\n') {
        line += 1;
        let text = std::str::from_utf8(bytes).map_err(|_| TextError { line, problem: Problem::NotText })?;
        parser.line(line, text.trim()).map_err(|problem| TextError { line, problem })?;
    }
    parser.finish().map_err(|problem| TextError { line, problem })
}

#[derive(Default)]
struct Parser {
    all: Invariants,
    block: Block,
    has_program: bool,
    has_runs: bool,
    has_time: bool,
    is_ended: bool,
    version: u32,
}

/// What the lines below belong to.
#[derive(Default)]
enum Block {
    #[default]
    None,
    Colour(Colour),
    Site(SiteKey, Belonging, Hits),
    Section(SiteKey, Section),
}

#[derive(Default, PartialEq, Eq)]
enum Hits {
    #[default]
    Open,
    Said,
}

impl Parser {
    fn line(&mut self, number: usize, text: &str) -> Result<(), Problem> {
        if number == 1 {
            let version = text.strip_prefix(MAGIC).map(str::trim);
            self.version = version.and_then(|version| version.parse::<u32>().ok()).unwrap_or(0);
            return match version.and_then(|version| version.parse::<u32>().ok()) {
                Some(OLDEST..=VERSION) => Ok(()),
                Some(version) => Err(Problem::Version(version.to_string())),
                None => Err(Problem::Foreign),
            };
        }
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if self.is_ended {
            return Err(Problem::Behind(excerpt(text)));
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim_start();
        match word {
            "program" => {
                self.close()?;
                once(&mut self.has_program, word)?;
                self.all.program = parse_name(rest)?;
            }
            "runs" => {
                self.close()?;
                once(&mut self.has_runs, word)?;
                self.all.runs = parse_number(rest)?;
            }
            "time" => {
                self.close()?;
                once(&mut self.has_time, word)?;
                self.all.time = parse_number(rest)?;
            }
            "hooks" => {
                self.close()?;
                let (hooks, function) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let (hooks, SiteKey(function)) = (parse_number(hooks)?, parse_key(function.trim_start())?);
                if self.all.hooks.insert(function, hooks).is_some() {
                    return Err(Problem::Twice(excerpt(rest)));
                }
                bounded(self.all.hooks.len())?;
            }
            "colour" => {
                self.close()?;
                self.block = Block::Colour(Colour { name: parse_name(rest)?, sites: BTreeMap::new() });
            }
            "site" => {
                self.close()?;
                let key = parse_key(rest)?;
                if self.all.sites.contains_key(&key) {
                    return Err(Problem::Twice(excerpt(rest)));
                }
                self.block = Block::Site(key, Belonging::default(), Hits::Open);
            }
            "end" if rest.is_empty() => {
                self.close()?;
                self.is_ended = true;
            }
            "end" => return Err(Problem::Behind(excerpt(rest))),
            "section" => {
                self.close()?;
                let key = parse_key(rest)?;
                if self.all.sections.contains_key(&key) {
                    return Err(Problem::Twice(excerpt(rest)));
                }
                self.block = Block::Section(key, Section::default());
            }
            "entered" => {
                self.section("entered")?.entered = parse_number(rest)?;
            }
            "first" => {
                let mut words = rest.splitn(3, char::is_whitespace);
                let mut word = || words.next().unwrap_or("").trim();
                let (count, distance, key) = (word(), word(), word());
                let count = parse_number(count)?;
                let distance = if distance == "varies" { None } else { Some(parse_number(distance)?) };
                let key = parse_key(key)?;
                let section = self.section("first")?;
                if section.first.insert(key, First { count, distance }).is_some() {
                    return Err(Problem::Twice(excerpt(rest)));
                }
                bounded(section.first.len())?;
            }
            "shift" => {
                let Block::Colour(colour) = &mut self.block else {
                    return Err(Problem::Astray { word: "shift", below: "colour" });
                };
                let (shift, key) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let shift = parse_number(shift)?;
                if colour.sites.insert(parse_key(key.trim_start())?, shift).is_some() {
                    return Err(Problem::Twice(excerpt(key)));
                }
                bounded(colour.sites.len())?;
            }
            "hits" => {
                let (site, hits) = self.site("hits")?;
                if std::mem::replace(hits, Hits::Said) == Hits::Said {
                    return Err(Problem::Twice("hits".to_owned()));
                }
                site.hits = parse_number(rest)?;
            }
            "after" => self.belongs("after", rest, &[false, true])?,
            "beyond" => self.belongs("beyond", rest, &[true])?,
            "directly" => {
                let rest = rest.strip_prefix("after").ok_or_else(|| Problem::Word(excerpt(text)))?;
                self.belongs("directly", rest.trim_start(), &[false])?;
            }
            "asked" if rest.is_empty() => {
                let (site, _) = self.site("asked")?;
                site.asked = true;
            }
            "unsettled" if rest.is_empty() => {
                let (site, _) = self.site("unsettled")?;
                site.unsettled = true;
            }
            "touches" => {
                let (site, _) = self.site("touches")?;
                site.touches.insert(parse_key(rest)?);
                bounded(site.touches.len())?;
            }
            word => return Err(Problem::Word(excerpt(word))),
        }
        Ok(())
    }

    /// A line that says what belongs, in these contexts.
    fn belongs(&mut self, word: &'static str, rest: &str, contexts: &[bool]) -> Result<(), Problem> {
        let one = if rest == "nil" { None } else { Some(parse_key(rest)?) };
        let (site, _) = self.site(word)?;
        for own in contexts {
            site.add(one.as_ref(), *own);
        }
        bounded(site.len() / 2)
    }

    fn site(&mut self, word: &'static str) -> Result<(&mut Belonging, &mut Hits), Problem> {
        match &mut self.block {
            Block::Site(_, site, hits) => Ok((site, hits)),
            _ => Err(Problem::Astray { word, below: "site" }),
        }
    }

    fn section(&mut self, word: &'static str) -> Result<&mut Section, Problem> {
        match &mut self.block {
            Block::Section(_, section) => Ok(section),
            _ => Err(Problem::Astray { word, below: "section" }),
        }
    }

    fn close(&mut self) -> Result<(), Problem> {
        match std::mem::take(&mut self.block) {
            Block::None => {}
            Block::Section(key, section) => {
                self.all.sections.insert(key, section);
                bounded(self.all.sections.len())?;
            }
            Block::Colour(colour) => drop(self.all.colours.insert(colour)),
            Block::Site(key, site, _) => drop(self.all.sites.insert(key, site)),
        }
        bounded(self.all.sites.len().max(self.all.colours.len()))
    }

    fn finish(mut self) -> Result<Invariants, Problem> {
        if !self.is_ended {
            return Err(Problem::CutOff);
        }
        if self.version < IN_TURN {
            in_turn(&mut self.all);
        }
        Ok(self.all)
    }
}

/// What came after an access of the thread's own may have come in turn: where a site follows itself.
fn in_turn(all: &mut Invariants) {
    let follows_itself = |key: &SiteKey, site: &Belonging| site.direct.contains(&Some(key.clone()));
    let turns: BTreeSet<Option<SiteKey>> =
        all.sites.iter().filter(|(key, site)| follows_itself(key, site)).map(|(key, _)| Some(key.clone())).collect();
    for site in all.sites.values_mut() {
        site.direct.extend(site.beyond.intersection(&turns).cloned());
    }
}

fn once(seen: &mut bool, word: &str) -> Result<(), Problem> {
    if std::mem::replace(seen, true) { Err(Problem::Twice(word.to_owned())) } else { Ok(()) }
}

fn bounded(entries: usize) -> Result<(), Problem> {
    if entries > MOST_ENTRIES { Err(Problem::TooMany) } else { Ok(()) }
}

/// So much of a text as a message can show.
fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::Number(excerpt(text)))
}

fn parse_key(text: &str) -> Result<SiteKey, Problem> {
    let bad = || Problem::Key(excerpt(text));
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(bad());
    }
    // No key has no text, but a value may.
    let text = if text == "%" { "" } else { text };
    Ok(SiteKey(unescape(text)?.ok_or_else(bad)?))
}

fn parse_name(text: &str) -> Result<String, Problem> {
    unescape(text)?.ok_or_else(|| Problem::Key(excerpt(text)))
}

/// `None` where an escape is wrong.
fn unescape(text: &str) -> Result<Option<String>, Problem> {
    let mut out = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    out.extend_from_slice(parts.next().unwrap_or("").as_bytes());
    for part in parts {
        let byte = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else { return Ok(None) };
        out.push(byte);
        out.extend_from_slice(part.get(2..).unwrap_or("").as_bytes());
    }
    if out.len() > LONGEST_NAME {
        return Err(Problem::LongName);
    }
    Ok(String::from_utf8(out).ok())
}

fn key_text(key: &SiteKey) -> String {
    match key.0.as_str() {
        "" => "%".to_owned(),
        // Not the nil that is nobody.
        "nil" => "%6eil".to_owned(),
        text => escape(text, char::is_whitespace),
    }
}

/// A word and a name, which may be empty.
fn named(word: &str, name: &str) -> String {
    format!("{word} {}", name_text(name)).trim_end().to_owned()
}

fn name_text(name: &str) -> String {
    // Blanks at the ends would be lost.
    let inner = name.trim_matches(' ');
    let (before, after) = name.split_once(inner).unwrap_or(("", ""));
    let inner = escape(inner, |c| c.is_whitespace() && c != ' ');
    format!("{}{inner}{}", "%20".repeat(before.len()), "%20".repeat(after.len()))
}

fn escape(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c.is_control() || is_special(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(out, "%{byte:02x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::super::tests::{belonging, key, keys, some_invariants};
    use super::*;

    fn example() -> Invariants {
        let hooks = [("audit".to_owned(), 1_400_000)].into();
        let mut all =
            Invariants { program: "bank".to_owned(), runs: 40, time: 52_000_000, hooks, ..Invariants::default() };
        let (withdraw, deposit) = ("bank.c:withdraw+3:12:w4", "bank.c:deposit+1:13:w4");
        let colour = BTreeMap::from([(key(withdraw), -8), (key(deposit), 0)]);
        all.colours.insert(Colour { name: "balance, limit".to_owned(), sites: colour });
        let mut site =
            Belonging { touches: keys(&["bank.c:main+7:5:r4"]), hits: 80, asked: true, ..belonging(true, &[deposit]) };
        site.add(Some(&key(withdraw)), true);
        site.add(Some(&key("bank.c:main+5:3:w4")), false);
        all.sites.insert(key(withdraw), site);
        all.sites.insert(key(deposit), Belonging { hits: 7, unsettled: true, ..belonging(true, &[]) });
        all
    }

    const EXAMPLE: &str = "\
selvedge-invariants 5
program bank
runs 40
time 52000000
hooks 1400000 audit

colour balance, limit
  shift 0 bank.c:deposit+1:13:w4
  shift -8 bank.c:withdraw+3:12:w4

site bank.c:deposit+1:13:w4
  hits 7
  unsettled
  after nil

site bank.c:withdraw+3:12:w4
  hits 80
  asked
  after nil
  after bank.c:deposit+1:13:w4
  directly after bank.c:main+5:3:w4
  beyond bank.c:withdraw+3:12:w4
  touches bank.c:main+7:5:r4

end
";

    #[test]
    fn the_form_is_as_documented() {
        assert_eq!(write(&example()), EXAMPLE);
        assert_eq!(parse(EXAMPLE.as_bytes()), Ok(example()));
        // As an older selvedge wrote it.
        let mut known = example();
        known.sites.values_mut().for_each(|site| site.unsettled = false);
        let old = EXAMPLE.replace("invariants 5", "invariants 4").replace("  unsettled\n", "");
        assert_eq!(parse(old.as_bytes()), Ok(known.clone()));
        in_turn(&mut known);
        known.hooks.clear();
        let old = old.replace("invariants 4", "invariants 2").replace("hooks 1400000 audit\n", "");
        assert_eq!(parse(old.as_bytes()), Ok(known.clone()));
        known.time = 0;
        let old = old.replace("invariants 2", "invariants 1").replace("time 52000000\n", "");
        assert_eq!(parse(old.as_bytes()), Ok(known));
        let commented = EXAMPLE.replace('\n', "\r\n# a word\n").replace("  ", "\t");
        assert_eq!(parse(commented.as_bytes()), Ok(example()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let begin = "selvedge-invariants 2\n";
        let rows = [
            ("", 1, Problem::Foreign),
            ("hello\nend\n", 1, Problem::Foreign),
            ("selvedge-invariants 2x\nend\n", 1, Problem::Foreign),
            ("selvedge-invariants 6\nwhatever", 1, Problem::Version("6".to_owned())),
            ("selvedge-invariants 0\nend\n", 1, Problem::Version("0".to_owned())),
            (begin, 2, Problem::CutOff),
            ("selvedge-invariants 2\nsite a\n  hits 3", 3, Problem::CutOff),
            ("selvedge-invariants 2\nend\nsite a\n", 3, Problem::Behind("site a".to_owned())),
            ("selvedge-invariants 2\nend 3\n", 2, Problem::Behind("3".to_owned())),
            ("selvedge-invariants 2\n\naftr x\n", 3, Problem::Word("aftr".to_owned())),
            ("selvedge-invariants 2\nafter x\n", 2, Problem::Astray { word: "after", below: "site" }),
            ("selvedge-invariants 2\nsite a\nruns 1\nhits 3\n", 4, Problem::Astray { word: "hits", below: "site" }),
            ("selvedge-invariants 2\nsite a\nshift 3 b\n", 3, Problem::Astray { word: "shift", below: "colour" }),
            ("selvedge-invariants 2\nruns -1\n", 2, Problem::Number("-1".to_owned())),
            (
                "selvedge-invariants 2\nruns 18446744073709551616\n",
                2,
                Problem::Number("18446744073709551616".to_owned()),
            ),
            ("selvedge-invariants 2\ncolour c\nshift b 3\n", 3, Problem::Number("b".to_owned())),
            ("selvedge-invariants 2\nsite\n", 2, Problem::Key(String::new())),
            ("selvedge-invariants 2\nsite a b\n", 2, Problem::Key("a b".to_owned())),
            ("selvedge-invariants 2\nsite a%2\n", 2, Problem::Key("a%2".to_owned())),
            ("selvedge-invariants 2\nsite a%+1\n", 2, Problem::Key("a%+1".to_owned())),
            ("selvedge-invariants 2\nsite a%ff\n", 2, Problem::Key("a%ff".to_owned())),
            ("selvedge-invariants 2\nsite a\nsite b\nsite a\n", 4, Problem::Twice("a".to_owned())),
            ("selvedge-invariants 2\nsite a\nhits 1\nhits 1\n", 4, Problem::Twice("hits".to_owned())),
            ("selvedge-invariants 2\nruns 1\nruns 1\n", 3, Problem::Twice("runs".to_owned())),
            ("selvedge-invariants 2\ntime 1\ntime 1\n", 3, Problem::Twice("time".to_owned())),
            ("selvedge-invariants 4\nhooks 1 f\nhooks 1 f\n", 3, Problem::Twice("1 f".to_owned())),
            ("selvedge-invariants 4\nhooks f\n", 2, Problem::Number("f".to_owned())),
            ("selvedge-invariants 4\nhooks 3\n", 2, Problem::Key(String::new())),
            ("selvedge-invariants 2\ncolour c\nshift 3 b\nshift 3 b\n", 4, Problem::Twice("b".to_owned())),
        ];
        for (text, line, problem) in rows {
            assert_eq!(parse(text.as_bytes()), Err(TextError { line, problem }), "{text}");
        }
        assert_eq!(parse(b"selvedge-invariants 2\n\xff\n"), Err(TextError { line: 2, problem: Problem::NotText }));
        let long = format!("{begin}site {}\nend\n", "a".repeat(LONGEST_NAME + 1));
        assert_eq!(parse(long.as_bytes()), Err(TextError { line: 2, problem: Problem::LongName }));
        let mut all = Invariants::default();
        all.sites.insert(SiteKey("\u{1}".repeat(LONGEST_NAME)), Belonging::default());
        assert_eq!(parse(write(&all).as_bytes()), Ok(all));
        let message = parse(b"selvedge-invariants 6\n").unwrap_err().to_string();
        assert_eq!(
            message,
            "line 1: version 6 of the form; this selvedge reads version 5: train again, or use the selvedge that wrote it"
        );
    }

    #[test]
    fn in_older_files_turns_belong_either_way() {
        let text = |version| {
            let sites = "site r\n hits 9\n after r\n directly after nil\n\nsite w\n hits 1\n beyond r\n\nend\n";
            format!("selvedge-invariants {version}\n{sites}")
        };
        let direct = |version| -> Vec<Vec<Option<String>>> {
            let all = parse(text(version).as_bytes()).expect("read");
            all.sites
                .values()
                .map(|site| site.direct.iter().map(|key| key.clone().map(|key| key.0)).collect())
                .collect()
        };
        let r = || Some("r".to_owned());
        assert_eq!(direct(4), [vec![None, r()], vec![]]);
        assert_eq!(direct(3), [vec![None, r()], vec![r()]]);
    }

    /// Any text at all, with what needs care more often.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[ %#\\n\\ta\u{a0}]{0,5}", Just("nil".to_owned()), Just(String::new())]
    }

    fn odd_invariants() -> impl Strategy<Value = Invariants> {
        let key = || text().prop_map(SiteKey);
        let some = || btree_set(proptest::option::of(key()), 0..3);
        let site =
            (some(), some(), btree_set(key(), 0..3), any::<u64>()).prop_map(|(direct, beyond, touches, hits)| {
                Belonging { direct, beyond, touches, hits, asked: hits % 2 == 1, unsettled: hits % 3 == 1 }
            });
        let colour = (text(), btree_map(key(), any::<i32>(), 0..3)).prop_map(|(name, sites)| Colour { name, sites });
        (text(), any::<(u64, u64)>(), btree_map(key(), site, 0..4), btree_set(colour, 0..3)).prop_map(
            |(program, (runs, time), sites, colours)| {
                let first = sites.keys().map(|key| (key.clone(), First { count: runs, distance: Some(-1) }));
                let section = Section { entered: runs, first: first.collect() };
                let sections = sites.keys().take(2).map(|key| (key.clone(), section.clone())).collect();
                let hooks = sites.iter().map(|(key, site)| (key.0.clone(), site.hits)).collect();
                Invariants { program, runs, time, hooks, sites, colours, sections }
            },
        )
    }

    proptest! {
        #[test]
        fn all_comes_back(mut all in prop_oneof![some_invariants(), odd_invariants()]) {
            let text = write(&all);
            all.normalise();
            prop_assert_eq!(parse(text.as_bytes()), Ok(all.clone()));
            prop_assert_eq!(write(&all), text);
        }

        #[test]
        fn a_file_that_was_cut_off_is_refused(all in some_invariants(), cut in 0.0..1.0_f64) {
            let text = write(&all);
            let whole = text.trim_end().len();
            let cut = (whole as f64 * cut) as usize;
            prop_assert!(parse(&text.as_bytes()[..cut]).is_err());
        }

        #[test]
        fn damage_is_an_answer(all in some_invariants(), changes in vec((any::<u16>(), any::<u8>()), 0..8)) {
            let mut bytes = write(&all).into_bytes();
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            // What is still understood can be written.
            if let Ok(read) = parse(&bytes) {
                prop_assert!(parse(write(&read).as_bytes()).is_ok());
            }
        }

        #[test]
        fn foreign_bytes_are_refused(bytes in vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes).is_err());
        }
    }
}
