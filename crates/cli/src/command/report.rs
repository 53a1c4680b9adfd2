//! `selvedge report`.

use std::path::Path;

use selvedge_findings::{ExitCode, Report};

use crate::args::ReportArgs;
use crate::messages::Failure;
use crate::outlet::Outlet;

/// Writes findings that are known in other forms; a page beside them where nothing is asked for.
pub(crate) fn run(mut args: ReportArgs) -> Result<u8, Failure> {
    let report = read(&args.findings)?;
    let asked = &mut args.output;
    let nothing = asked.html.is_none() && asked.json.is_none() && asked.sarif.is_none() && asked.junit.is_none();
    if nothing && !asked.github {
        asked.html = Some(args.findings.with_extension("html"));
    }
    Outlet::open(&args.output, "report")?.finish(report, ExitCode::Success.code())
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
