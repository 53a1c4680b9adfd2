//! Findings beyond the terminal: writes what `--html`, `--json`, `--sarif`, `--junit` and `--github` ask for.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use selvedge_findings::{ExitCode, Report};
use selvedge_report::github::annotations;
use selvedge_report::junit::junit;
use selvedge_report::sarif::{SarifOptions, sarif};

use crate::args::OutputArgs;
use crate::command::page::{Extra, page};
use crate::messages::{Failure, note};

/// Writes the findings of a command everywhere they were asked for; with `new_only` what a baseline has is in the JSON alone, which
/// may be the next baseline. A page also has something `extra`.
pub(crate) fn deliver(
    report: &Report,
    new_only: bool,
    args: &OutputArgs,
    command: &str,
    extra: &Extra<'_>,
) -> Result<(), Failure> {
    if let Some(file) = &args.json {
        write(file, &serde_json::to_vec_pretty(report).map_err(|error| Failure::internal(&error))?)?;
    }
    let mut report = report.clone();
    report.findings.retain(|finding| !(new_only && finding.known == Some(true)));
    let report = &report;
    if let Some(file) = &args.sarif {
        let options = SarifOptions { version: env!("CARGO_PKG_VERSION"), root: &root(), suite: command };
        let log = sarif(report, &options);
        write(file, &serde_json::to_vec_pretty(&log).map_err(|error| Failure::internal(&error))?)?;
    }
    if let Some(file) = &args.junit {
        write(file, junit(report).as_bytes())?;
    }
    if let Some(file) = &args.html {
        write_page(file, report, extra)?;
    }
    if args.github || std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        let mut out = std::io::stdout().lock();
        for line in annotations(report, &root()) {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Writes a page, and says how to see it.
pub(crate) fn write_page(file: &Path, report: &Report, extra: &Extra<'_>) -> Result<(), Failure> {
    write(file, page(report, extra).as_bytes())?;
    note(&format!("open {} in a browser, or: selvedge view {}", file.display(), file.display()));
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, bytes).map_err(|error| {
        let text = format!("cannot write the findings to `{}`: {error}", file.display());
        Failure::Error { code: ExitCode::Usage.code(), text }
    })
}

/// The root of the sources, from which services name files: the checkout that we are in, else where we are.
fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().find(|dir| dir.join(".git").exists());
    above.map(Path::to_owned).unwrap_or(here)
}
