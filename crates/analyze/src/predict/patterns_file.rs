//! A user's own patterns, in TOML. Either all of a file is understood or nothing of it is used.
//!
//! ```toml
//! [[pattern]]
//! name = "stale check"             # not empty, not twice
//! kind = "atomicity-violation"     # data-race, atomicity-violation, atomic-set-violation, order-violation
//! T  = "t1-t2-t1"                  # threads: any names, joined by hyphens, one for each event
//! SV = "x-x-x"                     # shared variables
//! AR = "u1-u2-u1"                  # atomic regions; each is of one thread; what is left out: one for each thread
//! AT = "r-w-w"                     # accesses: r reads, w writes, * either
//! E  = "e1-e2-e3"                  # may be left out
//! scopes = ["region", "unlocked"]  # where regions are looked for; also "split"; what is left out: these two
//! adjacent = false                 # the two events are next at once
//! reordered = false                # only where it did not happen in this order
//! distinct = false                 # only where all events are of different places in the source
//! unless-race = false              # only where the two events cannot race
//! at = "any-first-any"             # first: the variable's first write, unless its thread was the last to read it; last: its last write; may be left out
//! ```
//!
//! A pattern has two to sixteen events of at least two threads.

use selvedge_findings::Kind;
use serde::Deserialize;
use toml::Spanned;

use super::graph::Scope;
use super::patterns::{Access, At, Pattern, Step};

/// Why a file of patterns is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct PatternsError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

/// The most events that a pattern may have.
pub const MAX_STEPS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    pattern: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: Spanned<String>,
    kind: Spanned<String>,
    #[serde(rename = "E")]
    events: Option<Spanned<String>>,
    #[serde(rename = "T")]
    threads: Spanned<String>,
    #[serde(rename = "SV")]
    variables: Spanned<String>,
    #[serde(rename = "AR")]
    regions: Option<Spanned<String>>,
    #[serde(rename = "AT")]
    accesses: Spanned<String>,
    scopes: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    adjacent: Option<Spanned<bool>>,
    #[serde(default)]
    reordered: bool,
    #[serde(default)]
    distinct: bool,
    #[serde(default)]
    unless_race: Option<Spanned<bool>>,
    at: Option<Spanned<String>>,
}

/// The patterns of a file.
///
/// # Errors
///
/// What is wrong first, and where.
pub fn parse(text: &str) -> Result<Vec<Pattern>, PatternsError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fault(text, at, error.message().to_owned())
    })?;
    let mut patterns: Vec<Pattern> = Vec::with_capacity(file.pattern.len());
    for entry in file.pattern {
        let entry = entry.into_inner();
        let name = entry.name.get_ref();
        if patterns.iter().any(|pattern| pattern.name == *name) {
            return Err(fault(text, entry.name.span().start, format!("there is another pattern `{name}`")));
        }
        patterns.push(read(text, &entry)?);
    }
    Ok(patterns)
}

fn read(text: &str, entry: &Entry) -> Result<Pattern, PatternsError> {
    let name = entry.name.get_ref().clone();
    if name.trim().is_empty() {
        return Err(fault(text, entry.name.span().start, "a pattern needs a name".to_owned()));
    }
    let kind = match entry.kind.get_ref().as_str() {
        "data-race" => Kind::DataRace,
        "atomicity-violation" => Kind::AtomicityViolation,
        "atomic-set-violation" => Kind::AtomicSetViolation,
        "order-violation" => Kind::OrderViolation,
        other => {
            let what = format!(
                "a pattern cannot be of kind `{other}`: data-race, atomicity-violation, atomic-set-violation or order-violation"
            );
            return Err(fault(text, entry.kind.span().start, what));
        }
    };
    let threads = items(text, &entry.threads);
    let count = threads.len();
    if !(2..=MAX_STEPS).contains(&count) {
        let what = format!("a pattern has 2 to {MAX_STEPS} events, not {count}");
        return Err(fault(text, entry.threads.span().start, what));
    }
    let same_length = |value, what| sequence(text, value, what, count);
    if let Some(events) = &entry.events {
        let events = same_length(events, "E")?;
        numbers(text, &events)?;
        for (i, event) in events.iter().enumerate() {
            if events[..i].iter().any(|other| other.0 == event.0) {
                return Err(fault(text, event.1, format!("event `{}` is there twice", event.0)));
            }
        }
    }
    let variables = numbers(text, &same_length(&entry.variables, "SV")?)?;
    let accesses = same_length(&entry.accesses, "AT")?;
    let regions = entry.regions.as_ref().map(|regions| same_length(regions, "AR")).transpose()?;
    let ats = entry.at.as_ref().map(|at| same_length(at, "at")).transpose()?;
    let thread_numbers = numbers(text, &threads)?;
    if thread_numbers.iter().all(|thread| *thread == 0) {
        let what = "a pattern needs two threads at least".to_owned();
        return Err(fault(text, entry.threads.span().start, what));
    }
    let region_numbers = match &regions {
        Some(regions) => numbers(text, regions)?,
        None => thread_numbers.clone(),
    };
    let mut steps = Vec::with_capacity(count);
    for i in 0..count {
        let access = match accesses[i].0 {
            "r" => Access::Read,
            "w" => Access::Write,
            "*" => Access::Any,
            other => return Err(fault(text, accesses[i].1, format!("an access is r, w or *, not `{other}`"))),
        };
        let at = match ats.as_ref().map(|ats| ats[i]) {
            None | Some(("any", _)) => At::Any,
            Some(("first", _)) if access == Access::Write => At::First,
            Some(("last", _)) if access == Access::Write => At::Last,
            Some((word @ ("first" | "last"), place)) => {
                return Err(fault(text, place, format!("only a write can be the {word} write: AT has another access")));
            }
            Some((other, place)) => {
                return Err(fault(text, place, format!("`at` is any, first or last, not `{other}`")));
            }
        };
        let same_region = (0..i).find(|j| region_numbers[*j] == region_numbers[i]);
        if let (Some(j), Some(regions)) = (same_region, &regions)
            && thread_numbers[j] != thread_numbers[i]
        {
            let what =
                format!("atomic region `{}` is of thread `{}` and of `{}`", regions[i].0, threads[j].0, threads[i].0);
            return Err(fault(text, regions[i].1, what));
        }
        steps.push(Step { thread: thread_numbers[i], variable: variables[i], region: region_numbers[i], access, at });
    }
    let two = |flag: &Option<Spanned<bool>>, what: &str| match flag {
        Some(flag) if *flag.get_ref() && (count != 2 || steps[0].variable != steps[1].variable) => {
            let what = format!("`{what}` is for two events of one variable");
            Err(fault(text, flag.span().start, what))
        }
        Some(flag) => Ok(*flag.get_ref()),
        None => Ok(false),
    };
    let (adjacent, unless_race) = (two(&entry.adjacent, "adjacent")?, two(&entry.unless_race, "unless-race")?);
    Ok(Pattern {
        name,
        kind,
        scopes: scopes(text, entry.scopes.as_ref())?,
        adjacent,
        reordered: entry.reordered,
        distinct: entry.distinct,
        unless_race,
        steps,
    })
}

fn scopes(text: &str, given: Option<&Spanned<Vec<Spanned<String>>>>) -> Result<Vec<Scope>, PatternsError> {
    let Some(given) = given else { return Ok(vec![Scope::Region, Scope::Unlocked]) };
    if given.get_ref().is_empty() {
        return Err(fault(text, given.span().start, "a pattern needs a scope".to_owned()));
    }
    let mut scopes = Vec::new();
    for word in given.get_ref() {
        match Scope::ALL.into_iter().find(|scope| scope.name() == word.get_ref()) {
            Some(scope) => scopes.push(scope),
            None => {
                let what = format!("a scope is region, unlocked or split, not `{}`", word.get_ref());
                return Err(fault(text, word.span().start, what));
            }
        }
    }
    scopes.sort_unstable();
    scopes.dedup();
    Ok(scopes)
}

/// The items of a sequence that must have as many as the others.
fn sequence<'a>(
    text: &str,
    value: &'a Spanned<String>,
    what: &str,
    count: usize,
) -> Result<Vec<(&'a str, usize)>, PatternsError> {
    let items = items(text, value);
    if items.len() != count {
        let what = format!("{what} has {} items, T has {count}", items.len());
        return Err(fault(text, value.span().start, what));
    }
    Ok(items)
}

/// The items of a sequence and where each begins in the file.
fn items<'a>(text: &str, value: &'a Spanned<String>) -> Vec<(&'a str, usize)> {
    let span = value.span();
    let raw = text.get(span.clone()).unwrap_or("");
    // Where the value is written otherwise than as it is, its beginning must do.
    let plain = raw.len() == value.get_ref().len() + 2;
    let mut at = span.start + 1;
    let mut items = Vec::new();
    for item in value.get_ref().split('-') {
        let blank = item.len() - item.trim_start().len();
        items.push((item.trim(), if plain { at + blank } else { span.start }));
        at += item.len() + 1;
    }
    items
}

/// Numbers instead of names, by first use.
fn numbers(text: &str, items: &[(&str, usize)]) -> Result<Vec<u8>, PatternsError> {
    let mut names: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(items.len());
    for (name, at) in items {
        if name.is_empty() {
            return Err(fault(text, *at, "a name is missing".to_owned()));
        }
        let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        numbers.push(number as u8);
    }
    Ok(numbers)
}

#[cold]
fn fault(text: &str, at: usize, what: String) -> PatternsError {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    PatternsError { line, column: before[line_start..].chars().count() + 1, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::patterns::Shape;

    const GOOD: &str = r#"[[pattern]]
name = "stale check"
kind = "atomicity-violation"
T = "t1-t2-t1"
SV = "x-x-x"
AR = "u1-u2-u1"
AT = "r-w-w"
"#;

    #[test]
    fn a_pattern_as_in_the_paper() {
        let patterns = parse(GOOD).unwrap();
        assert_eq!(patterns.len(), 1);
        assert_eq!(patterns[0].shape(), Shape::Triple);
        assert_eq!(patterns[0].scopes, [Scope::Region, Scope::Unlocked]);
        assert_eq!(
            patterns[0].steps[1],
            Step { thread: 1, variable: 0, region: 1, access: Access::Write, at: At::Any }
        );
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn regions_may_be_left_out_and_length_is_free() {
        let text = r#"
            [[pattern]]
            name = "three threads"
            kind = "order-violation"
            T = "a - b - c - a - b"
            SV = "x-y-z-x-y"
            AT = "w-w-*-r-r"
            E = "1-2-3-4-5"
            reordered = true
        "#;
        let pattern = &parse(text).unwrap()[0];
        assert_eq!(pattern.shape(), Shape::General);
        assert_eq!(pattern.steps.iter().map(|step| step.region).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }

    /// Each row: what replaces what in the good file, and the error.
    #[test]
    fn errors_say_where() {
        let rows: &[(&str, &str, &str)] = &[
            ("r-w-w", "r-x-w", "line 7, column 9: an access is r, w or *, not `x`"),
            ("r-w-w", "r-w", "line 7, column 6: AT has 2 items, T has 3"),
            ("x-x-x", "x--x", "line 5, column 9: a name is missing"),
            ("u1-u2-u1", "u1-u1-u1", "line 6, column 10: atomic region `u1` is of thread `t1` and of `t2`"),
            ("t1-t2-t1", "t1-t1-t1", "line 4, column 5: a pattern needs two threads at least"),
            ("t1-t2-t1", "t1", "line 4, column 5: a pattern has 2 to 16 events, not 1"),
            ("atomicity-violation", "deadlock", "line 3, column 8: a pattern cannot be of kind `deadlock`"),
            ("stale check", " ", "line 2, column 8: a pattern needs a name"),
            ("AT = ", "adjacent = true\nAT = ", "line 7, column 12: `adjacent` is for two events of one variable"),
            ("AT = ", "at = \"any-first\"\nAT = ", "line 7, column 6: at has 2 items, T has 3"),
            ("AT = ", "at = \"first-any-any\"\nAT = ", "line 7, column 7: only a write can be the first write"),
            ("AT = ", "at = \"any-soon-any\"\nAT = ", "line 7, column 11: `at` is any, first or last, not `soon`"),
            (
                "AT = ",
                "scopes = [\"region\", \"all\"]\nAT = ",
                "line 7, column 21: a scope is region, unlocked or split",
            ),
            ("AT = ", "scopes = []\nAT = ", "line 7, column 10: a pattern needs a scope"),
            ("AT = ", "E = \"e-f-e\"\nAT = ", "line 7, column 10: event `e` is there twice"),
            ("AT = ", "colour = 3\nAT = ", "line 7, column 1: unknown field `colour`"),
            ("AT = \"r-w-w\"", "", "line 1, column 1: missing field `AT`"),
            ("\"r-w-w\"", "3", "line 7, column 6: invalid type"),
            ("\"r-w-w\"", "\"r-w-w", "line 7, column 12: "),
            ("[[pattern]]", "[[patern]]", "line 1, column 3: unknown field `patern`"),
        ];
        for (from, to, expected) in rows {
            let text = GOOD.replacen(from, to, 1);
            let error = parse(&text).expect_err(to).to_string();
            assert!(error.starts_with(expected), "{to}: {error}");
        }
        let twice = format!("{GOOD}\n{GOOD}");
        assert_eq!(parse(&twice).unwrap_err().to_string(), "line 10, column 8: there is another pattern `stale check`");
    }
}
