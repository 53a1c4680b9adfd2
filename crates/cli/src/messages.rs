//! Everything that the command says on standard error, and how failures become exit codes.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use selvedge_findings::ExitCode;

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of our output went away: nothing is wrong.
    OutputClosed,
    /// Anything else.
    Error {
        /// The exit code.
        code: u8,
        /// What, why, and what to do next.
        text: String,
    },
}

impl Failure {
    /// A failure with this exit code.
    pub(crate) fn new(code: u8, error: &dyn Error) -> Failure {
        Failure::Error { code, text: chain(error) }
    }

    /// A wrong use of the command.
    pub(crate) fn usage(error: &dyn Error) -> Failure {
        Failure::new(ExitCode::Usage.code(), error)
    }

    /// Something that should not have happened.
    pub(crate) fn internal(error: &dyn Error) -> Failure {
        Failure::new(ExitCode::Internal.code(), error)
    }

    /// Prints it and gives the exit code.
    pub(crate) fn report(&self) -> u8 {
        match self {
            Failure::OutputClosed => ExitCode::Success.code(),
            Failure::Error { code, text } => {
                anstream::eprintln!("selvedge: \x1b[1;31merror:\x1b[0m {text}");
                *code
            }
        }
    }
}

/// Failures to write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Error { code: ExitCode::Internal.code(), text: format!("cannot write the output: {error}") },
        }
    }
}

/// An error and its causes, each once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// A line for the user that is no error.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("selvedge: {text}");
}

/// A line that the next one overwrites; only on a terminal.
pub(crate) fn status(text: &str) {
    anstream::eprint!("\rselvedge: {text}\x1b[K");
}

/// Ends a line that would be overwritten.
pub(crate) fn end_status() {
    anstream::eprintln!();
}

/// The live line of a long command: on a terminal several times a second, else now and then.
#[derive(Debug)]
pub(crate) struct Live {
    terminal: bool,
    shown: Option<Instant>,
    lines: u32,
}

impl Live {
    /// Nothing was shown yet.
    pub(crate) fn new() -> Live {
        Live { terminal: io::stderr().is_terminal() && std::env::var_os("CI").is_none(), shown: None, lines: 0 }
    }

    /// Shows where things are, if it is time to.
    pub(crate) fn show(&mut self, line: impl FnOnce() -> String) {
        // Rarer and rarer where lines stay.
        let pause =
            if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5 << self.lines.min(6)) };
        if self.shown.get_or_insert_with(Instant::now).elapsed() < pause {
            return;
        }
        self.shown = Some(Instant::now());
        self.lines += 1;
        if self.terminal { status(&line()) } else { note(&line()) }
    }

    /// What follows stands on a line of its own.
    pub(crate) fn end(&self) {
        if self.terminal && self.lines > 0 {
            end_status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the run")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_told_once() {
        let error = Outer(io::Error::other("disk on fire"));
        assert_eq!(chain(&error), "cannot open the run: disk on fire");
        let Failure::Error { code, .. } = Failure::usage(&error) else { panic!("an error") };
        assert_eq!(code, 2);
    }

    #[test]
    fn a_closed_pipe_is_success() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::OutputClosed));
        assert_eq!(failure.report(), 0);
    }
}
