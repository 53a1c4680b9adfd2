//! Tests inside a test program: listed, chosen, and run one at a time.
//!
//! Rust's own harness lists its tests (`--list --format terse`), takes filters, and runs one test alone (`--exact NAME`); others
//! that nextest can work with do the same. A program that answers with anything else has no harness and is one test as it is.
//! The harness runs even a single test in a thread of its own; its output is not captured, so that what a failing test says is seen.

use std::io;
use std::path::PathBuf;

use super::launch::Launch;

/// A test, and how to run it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its name; `None` where the whole program is the test.
    pub name: Option<String>,
    /// How its program is started.
    pub launch: Launch,
}

impl Test {
    /// The program and its arguments.
    pub fn command(&self) -> (PathBuf, Vec<String>) {
        let args = match &self.name {
            Some(name) => {
                ["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"].map(str::to_owned).into()
            }
            None => self.launch.args.clone(),
        };
        (self.launch.program.clone(), args)
    }
}

/// The tests of a program that its arguments choose.
///
/// # Errors
/// If the program does not start.
pub fn tests_in(launch: &Launch) -> io::Result<Vec<Test>> {
    let mut command = launch.command(&launch.program);
    let output = command.args(["--list", "--format", "terse"]).args(&launch.args).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let test = |name: Option<&str>| Test { name: name.map(str::to_owned), launch: launch.clone() };
    Ok(match listed(&text).filter(|_| output.status.success()) {
        Some(names) => names.into_iter().map(|name| test(Some(name))).collect(),
        None => vec![test(None)],
    })
}

/// The names in a list; `None` if it is not one.
fn listed(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match line.rsplit_once(": ")? {
            (name, "test") => names.push(name),
            (_, "benchmark") => {}
            _ => return None,
        }
    }
    Some(names)
}

/// The test that a line of the harness's output says has failed.
pub fn failed_test(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_from_other_output() {
        assert_eq!(listed(""), Some(vec![]));
        assert_eq!(listed("a::b: test\nc: test\n"), Some(vec!["a::b", "c"]));
        assert_eq!(listed("fast: benchmark\n"), Some(vec![]));
        assert_eq!(listed("hello world\n"), None);
        assert_eq!(listed("a: test\ndone: yes\n"), None);
    }

    #[test]
    fn failures_are_read_from_the_harness_lines() {
        assert_eq!(failed_test("test pool::drains ... FAILED\n"), Some("pool::drains"));
        assert_eq!(failed_test("test strict - should panic ... FAILED"), Some("strict"));
        assert_eq!(failed_test("test pool::drains ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
