//! Findings on their way to the user: suppressed ones are left out, texts go where they were asked for, and what is left
//! decides how the command ends.

use std::io::{self, Write};
use std::path::Path;

use selvedge_findings::suppression::entry_for;
use selvedge_findings::{Access, ExitCode, Finding, Report, Runs};

use crate::args::OutputArgs;
use crate::command::output;
use crate::command::page::Extra;
use crate::messages::{Failure, note};
use crate::sieve::Sieve;

/// Where a command brings its findings.
pub(crate) struct Outlet<'a> {
    args: &'a OutputArgs,
    command: &'static str,
    sieve: Sieve,
    text: Box<dyn Write>,
    new_only: bool,
    extra: Extra<'static>,
}

impl<'a> Outlet<'a> {
    /// Reads suppressions and opens the log: what is wrong with them is said before anything is run.
    pub(crate) fn open(args: &'a OutputArgs, command: &'static str) -> Result<Outlet<'a>, Failure> {
        let sieve = Sieve::open(&args.findings.suppressions)?;
        let text = text(args.findings.log_path.as_deref())?;
        Ok(Outlet { args, command, sieve, text, new_only: false, extra: Extra::default() })
    }

    /// The same; with `new_only` what a baseline has is told in the JSON alone, and decides nothing.
    pub(crate) fn only_new(self, new_only: bool) -> Outlet<'a> {
        Outlet { new_only, ..self }
    }

    /// Whether a finding is suppressed, and so not to be shown.
    pub(crate) fn hides(&mut self, finding: &Finding) -> bool {
        self.sieve.hides(finding)
    }

    /// Shows a text about findings.
    pub(crate) fn show(&mut self, text: &str) -> Result<(), Failure> {
        match &self.args.findings.strip_path_prefix {
            Some(prefix) if !prefix.is_empty() => write!(self.text, "{}", stripped_text(text, prefix))?,
            _ => write!(self.text, "{text}")?,
        }
        Ok(self.text.flush()?)
    }

    /// What a page is to have beside the findings.
    pub(crate) fn add(&mut self, extra: Extra<'static>) {
        self.extra = extra;
    }

    /// Writes the report everywhere it was asked for, and gives the exit code; `otherwise` is that of a command that found
    /// nothing.
    pub(crate) fn finish(mut self, mut report: Report, otherwise: u8) -> Result<u8, Failure> {
        report.findings.retain(|finding| !self.sieve.hides(finding));
        report.suppressed = self.sieve.count();
        self.sieve.tell();
        let asked = &self.args.findings;
        if let Some(prefix) = asked.strip_path_prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            strip(&mut report, prefix);
        }
        if let Some(file) = &asked.gen_suppressions {
            generate(file, &report)?;
        }
        output::deliver(&report, self.new_only, self.args, self.command, &self.extra)?;
        if asked.log_path.is_some() && std::env::var("TSAN_OPTIONS").is_ok_and(|options| options.contains("log_path="))
        {
            // Whoever asked in this way, as CTest does, counts lines of ThreadSanitizer's.
            for finding in report.findings.iter().filter(|finding| finding.is_error()) {
                writeln!(self.text, "WARNING: ThreadSanitizer: {} (pid={})", finding.title(), std::process::id())?;
            }
        }
        self.text.flush()?;
        if report.findings.iter().filter(|finding| finding.is_error()).any(is_nameless) {
            let program = &report.program.path;
            note(&format!(
                "places have no file and line: `{program}` has no debug information; build it with -g, and do not strip it"
            ));
        }
        let decides = |finding: &Finding| finding.is_error() && !(self.new_only && finding.known == Some(true));
        if !report.findings.iter().any(decides) {
            return Ok(otherwise);
        }
        if asked.abort_on_error {
            let _ = io::stdout().flush();
            std::process::abort();
        }
        Ok(match asked.exit_from.as_str() {
            "guest" if otherwise == ExitCode::Success.code() => of_runs(&report.runs),
            "guest" => otherwise,
            _ => asked.exit_code,
        })
    }
}

/// Whether accesses are known by their offset in the program alone.
fn is_nameless(finding: &Finding) -> bool {
    let has_place = |access: &Access| access.file.is_some() || access.event.is_some();
    !finding.accesses.is_empty() && !finding.accesses.iter().any(has_place)
}

/// How runs ended, as an exit code.
pub(crate) fn of_runs(runs: &Runs) -> u8 {
    let code = match runs {
        Runs { fail: 1.., .. } => ExitCode::SomeFailed,
        Runs { hang: 1.., .. } => ExitCode::Hang,
        _ => ExitCode::Success,
    };
    code.code()
}

/// Where texts go.
fn text(log: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    match log.and_then(Path::to_str) {
        None if log.is_none() => Ok(Box::new(anstream::stdout())),
        Some("stdout") => Ok(Box::new(anstream::stdout())),
        Some("stderr") => Ok(Box::new(anstream::stderr())),
        _ => {
            let mut path = log.unwrap_or(Path::new("")).as_os_str().to_owned();
            path.push(format!(".{}", std::process::id()));
            let file = std::fs::File::create(&path).map_err(|error| Failure::Error {
                code: ExitCode::Usage.code(),
                text: format!("cannot write the log `{}`: {error}; name another with --log-path", path.display()),
            })?;
            Ok(Box::new(anstream::StripStream::new(file)))
        }
    }
}

/// A path without a prefix and what comes before it.
fn stripped<'a>(path: &'a str, prefix: &str) -> &'a str {
    path.find(prefix).map_or(path, |at| &path[at + prefix.len()..])
}

fn strip(report: &mut Report, prefix: &str) {
    for access in report.findings.iter_mut().flat_map(|finding| &mut finding.accesses) {
        let files = access.stack.iter_mut().map(|frame| &mut frame.file).chain([&mut access.file]);
        for file in files.flatten() {
            *file = stripped(file, prefix).to_owned();
        }
    }
}

/// A text whose words, where they are paths, have no prefix.
fn stripped_text(text: &str, prefix: &str) -> String {
    let is_in_path = |c: char| !c.is_whitespace() && !"()`'\"".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let begin = rest[..at]
            .rfind(|c| !is_in_path(c))
            .map_or(0, |end| end + rest[end..].chars().next().map_or(0, char::len_utf8));
        out.push_str(&rest[..begin]);
        rest = &rest[at + prefix.len()..];
    }
    out.push_str(rest);
    out
}

/// Adds an entry for each finding that the file does not name yet.
fn generate(file: &Path, report: &Report) -> Result<(), Failure> {
    let usage = |error: io::Error| Failure::Error {
        code: ExitCode::Usage.code(),
        text: format!("cannot write the suppressions `{}`: {error}", file.display()),
    };
    let known = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(usage(error)),
    };
    let mut text = known.clone();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut added = 0;
    for finding in report.findings.iter().filter(|finding| finding.is_error()) {
        if !text.lines().any(|line| line.trim() == format!("id:{}", finding.id)) {
            text.push_str(&entry_for(finding));
            added += 1;
        }
    }
    std::fs::write(file, text).map_err(usage)?;
    let entries = if added == 1 { "1 entry".to_owned() } else { format!("{added} entries") };
    note(&format!("{entries} added to {0}; `--suppressions {0}` leaves these findings out", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_off_paths() {
        assert_eq!(stripped("/home/me/src/a.c", "/src/"), "a.c");
        assert_eq!(stripped("a.c", "/src/"), "a.c");
        let text = "at /home/me/src/a.c:8 (/home/me/src/b/c.c:9) and `/x/src/d.c`, not src/e.c\n";
        assert_eq!(stripped_text(text, "/src/"), "at a.c:8 (b/c.c:9) and `d.c`, not src/e.c\n");
    }

    #[test]
    fn runs_have_a_code() {
        let runs = |fail, hang| Runs { total: 3, pass: 3 - fail - hang, fail, hang };
        assert_eq!([of_runs(&runs(0, 0)), of_runs(&runs(1, 1)), of_runs(&runs(0, 1))], [0, 1, 124]);
    }
}
