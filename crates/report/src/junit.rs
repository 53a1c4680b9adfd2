//! Findings as JUnit XML: a suite for the program, a test case for each sort of bug, which fails where there are errors of it.

use selvedge_findings::bugs::named;
use selvedge_findings::{Finding, Kind, Report};

use crate::brief::place;

/// The findings as a JUnit document, those with one root cause as one. What was predicted and not tried fails nothing and is
/// told as output.
pub fn junit(report: &Report) -> String {
    let bugs: Vec<(&Finding, usize)> = named(&report.findings)
        .iter()
        .filter_map(|bug| Some((report.findings.get(bug.lead)?, bug.others.len())))
        .collect();
    let errors = |kind: Kind| bugs.iter().filter(move |(lead, _)| lead.kind == kind && lead.is_error());
    let failures = Kind::ALL.iter().filter(|kind| errors(**kind).next().is_some()).count();
    let name = escape(&report.program.path);
    let tests = Kind::ALL.len();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!("<testsuites name=\"selvedge\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n"));
    text.push_str(&format!("  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n"));
    for kind in Kind::ALL {
        text.push_str(&format!("    <testcase classname=\"{name}\" name=\"{}\"", kind.name()));
        let mut body = String::new();
        let all: Vec<&(&Finding, usize)> = errors(*kind).collect();
        if let Some((first, _)) = all.first() {
            let more = if all.len() == 1 { String::new() } else { format!(" and {} more", all.len() - 1) };
            body.push_str(&format!(
                "      <failure type=\"{}\" message=\"{}{more}\">",
                kind.name(),
                escape(&first.title())
            ));
            all.iter().for_each(|(lead, others)| body.push_str(&escape(&told(lead, *others))));
            body.push_str("</failure>\n");
        }
        let remarks = bugs.iter().filter(|(lead, _)| lead.kind == *kind && lead.is_told() && !lead.is_error());
        let remarks: String = remarks.map(|(lead, others)| told(lead, *others)).collect();
        if !remarks.is_empty() {
            body.push_str(&format!("      <system-out>{}</system-out>\n", escape(&remarks)));
        }
        match body.is_empty() {
            true => text.push_str("/>\n"),
            false => text.push_str(&format!(">\n{body}    </testcase>\n")),
        }
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn told(finding: &Finding, others: usize) -> String {
    let mut text = format!("{} [{}]\n", finding.title(), finding.id);
    for access in &finding.accesses {
        text.push_str(&format!("  T{} {} {}", access.thread, access.op, access.variable.as_deref().unwrap_or("")));
        text.push_str(&format!(" at {}\n", place(access)));
    }
    text.push_str(&format!("  harm: {}\n", finding.harm.words()));
    if let Some(replay) = &finding.replay {
        text.push_str(&format!("  again: {replay}\n"));
    }
    if others > 0 {
        text.push_str(&format!("  and {others} more of the same root cause\n"));
    }
    text
}

/// Text in XML 1.0, which has no place for most control characters, escaped or not.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use selvedge_findings::{Access, Program, Runs, Status};

    use super::*;

    #[test]
    fn a_sort_of_bug_fails_once_and_remarks_fail_nothing() {
        let finding = |kind, status, function: &str| {
            let access = Access { function: Some(function.into()), op: "read".into(), ..Access::default() };
            let mut finding = Finding::new("id".into(), kind, vec![access]);
            finding.status = status;
            finding
        };
        let mut same = finding(Kind::OrderViolation, Status::Confirmed, "not told apart");
        same.group = Some("b".into());
        let mut second = finding(Kind::DataRace, Status::Confirmed, "b");
        second.group = Some("b".into());
        let findings = vec![
            finding(Kind::DataRace, Status::Confirmed, "operator<"),
            second,
            same,
            finding(Kind::Deadlock, Status::Predicted, "c\u{1b}"),
            finding(Kind::LostWakeup, Status::Refuted, "never told"),
        ];
        let program = Program { path: "a&b".into(), build_id: String::new() };
        let text = junit(&Report::new(program, Runs::default(), findings));
        assert!(text.contains("tests=\"6\" failures=\"1\""), "{text}");
        assert_eq!(text.matches("<failure ").count(), 1);
        assert!(text.contains("message=\"data race in operator&lt; / operator&lt; and 1 more\""), "{text}");
        assert!(text.contains("<system-out>deadlock in c?"), "{text}");
        assert!(text.contains("classname=\"a&amp;b\"") && !text.contains("never told"));
        assert!(text.contains("and 1 more of the same root cause") && !text.contains("not told apart"), "{text}");
        assert_eq!(
            text.matches("<testcase").count(),
            text.matches("/>\n").count() + text.matches("</testcase>").count()
        );
    }
}
