//! What can go wrong in a measurement, and the helpers that word it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a measurement, or a part of it, could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file operation failed.
    #[error("{action} {}", path.display())]
    File {
        /// What was tried, as a verb: "read", "create".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A system call outside the file system failed.
    #[error("{0}")]
    System(&'static str, #[source] io::Error),
    /// A tool is not there and cannot be had.
    #[error("{tool} is missing: {why}")]
    Missing {
        /// The tool or package.
        tool: String,
        /// Why it cannot be had.
        why: String,
    },
    /// A command ended badly.
    #[error("{what} {how}{}", tail(log))]
    Failed {
        /// What was run, shortly.
        what: String,
        /// How it ended: "exited with 1".
        how: String,
        /// The end of what it printed.
        log: String,
    },
    /// A command took too long.
    #[error("{what} was stopped after {seconds} s")]
    TooLong {
        /// What was run, shortly.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// A program ran but its result is wrong.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// The command line cannot be understood.
    #[error("{0}")]
    Usage(String),
    /// A part of Selvedge, used as a library, failed.
    #[error("{what}")]
    Tool {
        /// What it was to do.
        what: String,
        /// Its reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// JSON could not be read or written.
    #[error("{what} is not the JSON that was expected")]
    Json {
        /// Whose JSON.
        what: String,
        /// The parser's reason.
        source: serde_json::Error,
    },
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, BenchError>;

impl BenchError {
    /// The error with its chain of causes in one line, for a table cell or a message.
    pub fn line(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The same for a page that is kept: no paths of this machine, and not too long.
    pub fn brief(&self) -> String {
        without_paths(&self.line())
    }
}

/// Adds the path to a file operation's error.
pub fn at<T>(action: &'static str, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| BenchError::File { action, path: path.to_owned(), source })
}

/// Says what a part of Selvedge was to do when it failed.
pub fn tool<T, E: std::error::Error + Send + Sync + 'static>(
    what: impl Into<String>,
    result: std::result::Result<T, E>,
) -> Result<T> {
    result.map_err(|source| BenchError::Tool { what: what.into(), source: Box::new(source) })
}

fn tail(log: &str) -> String {
    let last: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
    match last.len() {
        0 => String::new(),
        n => format!(": {}", last[n.saturating_sub(3)..].join(" / ")),
    }
}

/// A message for a page that is kept: paths are of this machine, their last part is enough.
pub fn without_paths(text: &str) -> String {
    let kept: Vec<&str> = text
        .split(' ')
        .map(|word| match word.rsplit_once('/') {
            Some((front, last)) if front.contains('/') || front.is_empty() => last,
            _ => word,
        })
        .filter(|word| !word.is_empty())
        .collect();
    let text = kept.join(" ");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The exit code of a measurement, after what went wrong was said.
pub fn exit_code(name: &str, usage: &str, result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("{name}: {}", error.line());
    match error {
        BenchError::Usage(_) => {
            eprint!("{usage}");
            ExitCode::from(2)
        }
        _ => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shortened() {
        assert_eq!(without_paths("cannot open /a/b/c.h: no"), "cannot open c.h: no");
        assert_eq!(without_paths("1/2 of a/b/c"), "1/2 of c");
    }
}
