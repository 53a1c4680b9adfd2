//! `known_gaps.tsv`: what is known to fail, and why.
//!
//! One row a line: program, mode, reason, separated by tabs; `#` starts a comment line. The mode is
//! a [`Mode`](crate::Mode) name, with `clang-` before it for programs built with clang.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::mode::Mode;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The program, as `hostile/fork_busy.c`.
    pub program: String,
    /// The mode in which it fails.
    pub mode: String,
    /// Why.
    pub reason: String,
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    rows: BTreeMap<(String, String), Gap>,
}

/// A row that cannot be understood.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("known_gaps.tsv, line {line}: {problem}")]
pub struct GapsError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Gaps {
    /// The rows in the repository.
    pub fn load() -> Result<Gaps, GapsError> {
        Gaps::parse(include_str!("../known_gaps.tsv"))
    }

    /// Reads rows from text.
    pub fn parse(text: &str) -> Result<Gaps, GapsError> {
        let mut rows = BTreeMap::new();
        for (index, row) in text.lines().enumerate() {
            if row.trim().is_empty() || row.starts_with('#') {
                continue;
            }
            let gap = parse_row(row).map_err(|problem| GapsError { line: index + 1, problem })?;
            let key = (gap.program.clone(), gap.mode.clone());
            if rows.insert(key, gap).is_some() {
                return Err(GapsError { line: index + 1, problem: "program and mode are listed twice" });
            }
        }
        Ok(Gaps { rows })
    }

    /// The row of a program in a mode.
    pub fn find(&self, program: &str, mode: &str) -> Option<&Gap> {
        self.rows.get(&(program.to_owned(), mode.to_owned()))
    }

    /// All rows, by program and mode.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.rows.values()
    }
}

fn parse_row(row: &str) -> Result<Gap, &'static str> {
    let mut columns = row.split('\t').map(str::trim);
    let (Some(program), Some(mode), Some(reason), None) =
        (columns.next(), columns.next(), columns.next(), columns.next())
    else {
        return Err("a row has three columns: program, mode, reason");
    };
    // Under control there is no other way to run than the test's own.
    if mode != "controlled" && Mode::from_name(mode.strip_prefix("clang-").unwrap_or(mode)).is_none() {
        return Err("unknown mode");
    }
    if reason.is_empty() {
        return Err("a row gives its reason");
    }
    Ok(Gap { program: program.to_owned(), mode: mode.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_program_and_mode() {
        let text = "# head\n\nhostile/a.c\trecord\tno fibers yet\nhostile/a.c\tclang-disarmed\tx\n";
        let gaps = Gaps::parse(text).unwrap();
        let reason = |mode| gaps.find("hostile/a.c", mode).map(|g| g.reason.as_str());
        assert_eq!(reason("record"), Some("no fibers yet"));
        assert_eq!(reason("clang-disarmed"), Some("x"));
        assert_eq!(reason("disarmed"), None);
    }

    #[test]
    fn bad_rows_are_refused() {
        for (text, line) in [
            ("a.c\trecord", 1),
            ("#\na.c\tsomehow\twhy", 2),
            ("a.c\trecord\t", 1),
            ("a.c\trecord\tx\na.c\trecord\ty", 2),
        ] {
            assert_eq!(Gaps::parse(text).expect_err(text).line, line, "{text}");
        }
    }
}
