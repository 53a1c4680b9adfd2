//! Findings as workflow commands of GitHub Actions, which become annotations of the lines that they name.

use std::path::Path;

use selvedge_findings::bugs::named;
use selvedge_findings::{Finding, Report};

/// One line for each bug; files below `root` are named from there. Errors are errors, untried predictions notices.
pub fn annotations(report: &Report, root: &Path) -> Vec<String> {
    let bugs = named(&report.findings);
    let leads = bugs.iter().filter_map(|bug| Some((report.findings.get(bug.lead)?, bug.others.len())));
    leads.filter(|(lead, _)| lead.is_told()).map(|(lead, others)| annotation(lead, others, root)).collect()
}

fn annotation(finding: &Finding, others: usize, root: &Path) -> String {
    let command = if finding.is_error() { "error" } else { "notice" };
    let mut properties = Vec::new();
    let place = finding.accesses.iter().find_map(|access| Some((access.file.as_deref()?, access.line?, access.column)));
    if let Some((file, line, column)) = place {
        let file = Path::new(file);
        let file = file.strip_prefix(root).unwrap_or(file);
        properties.push(format!("file={}", property(&file.to_string_lossy())));
        properties.push(format!("line={line}"));
        properties.extend(column.map(|column| format!("col={column}")));
    }
    properties.push(format!("title={}", property(&finding.title())));
    let mut lines: Vec<String> = Vec::new();
    for access in &finding.accesses {
        let at = match (&access.file, access.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => access.function.clone().unwrap_or_else(|| "?".to_owned()),
        };
        lines.push(format!("T{} {} {} at {at}", access.thread, access.op, access.variable.as_deref().unwrap_or("")));
    }
    lines.push(format!("harm: {}; id {}", finding.harm.words(), finding.id));
    lines.extend(finding.replay.as_ref().map(|replay| format!("again: {replay}")));
    if others > 0 {
        lines.push(format!("and {others} more of the same root cause"));
    }
    format!("::{command} {}::{}", properties.join(","), data(&lines.join("\n")))
}

/// A message: what would end the line is escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property: what would end it, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use selvedge_findings::{Access, Kind, Program, Runs, Status};

    use super::*;

    #[test]
    fn annotations_name_the_line_and_stay_on_one() {
        let access = Access {
            thread: 1,
            op: "write".into(),
            function: Some("a::b<c, d>".into()),
            file: Some("/home/me/a,b.c".into()),
            line: Some(4),
            column: Some(2),
            variable: Some("x\n::error::".into()),
            ..Access::default()
        };
        let mut finding = Finding::new("1f".into(), Kind::DataRace, vec![access]);
        finding.status = Status::Confirmed;
        let mut refuted = finding.clone();
        refuted.status = Status::Refuted;
        finding.group = Some("1f".into());
        let same = finding.clone();
        let mut predicted = Finding::new("2f".into(), Kind::Deadlock, Vec::new());
        predicted.replay = Some("100%".into());
        let program = Program { path: "p".into(), build_id: String::new() };
        let report = Report::new(program, Runs::default(), vec![finding, same, refuted, predicted]);
        let lines = annotations(&report, Path::new("/home/me"));
        assert_eq!(
            lines,
            [
                "::error file=a%2Cb.c,line=4,col=2,title=data race in a%3A%3Ab<c%2C d> / a%3A%3Ab<c%2C d>::\
                 T1 write x%0A::error:: at /home/me/a,b.c:4%0Aharm: none seen; id 1f%0A\
                 and 1 more of the same root cause",
                "::notice title=deadlock::harm: none seen; id 2f%0Aagain: 100%25",
            ]
        );
    }
}
