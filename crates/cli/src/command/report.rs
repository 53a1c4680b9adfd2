//! `selvedge report`.

use std::path::Path;

use selvedge_findings::{ExitCode, Report};

use crate::args::{OutputArgs, ReportArgs};
use crate::command::output;
use crate::messages::Failure;

/// Writes findings that are known in other forms; a page beside them where nothing is asked for.
pub(crate) fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let report = read(&args.findings)?;
    let asked = &args.output;
    let nothing = asked.html.is_none() && asked.json.is_none() && asked.sarif.is_none() && asked.junit.is_none();
    if nothing && !asked.github {
        let html = Some(args.findings.with_extension("html"));
        output::deliver(&report, &OutputArgs { html, ..OutputArgs::default() }, "report")?;
    } else {
        output::deliver(&report, asked, "report")?;
    }
    Ok(ExitCode::Success.code())
}

/// Reads what `--json` wrote.
pub(crate) fn read(file: &Path) -> Result<Report, Failure> {
    let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
    let text = std::fs::read(file).map_err(|error| usage(format!("cannot read `{}`: {error}", file.display())))?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| {
        usage(format!(
            "`{}` is no file of findings ({error}): --json of hunt, explore and others writes one",
            file.display()
        ))
    })?;
    if report.version != selvedge_findings::report::VERSION {
        return Err(usage(format!(
            "`{}` has version {} of findings, and this selvedge reads {}: use the one that wrote it",
            file.display(),
            report.version,
            selvedge_findings::report::VERSION
        )));
    }
    Ok(report)
}
