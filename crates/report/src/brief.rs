//! A finding told from itself alone: where no run is at hand that could be shown.

use std::io::{self, Write};

use selvedge_findings::{Access, Finding};

use crate::view::{printable, short_name};

/// `bank.c:17`, or the function where no line is known.
pub fn place(access: &Access) -> String {
    let file = access.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    match (file, access.line, &access.function) {
        (Some(file), Some(line), _) => format!("{file}:{line}"),
        (_, _, Some(function)) => function.clone(),
        _ => "?".to_owned(),
    }
}

/// The places of a finding, each once, in its order.
pub fn places(finding: &Finding) -> String {
    let mut places: Vec<String> = Vec::new();
    for place in finding.accesses.iter().map(place) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.join(", ")
}

/// One line: `data race in deposit / withdraw (bank.c:8, bank.c:17)`.
pub fn line(finding: &Finding) -> String {
    let places = places(finding);
    let text = if places.is_empty() { finding.title() } else { format!("{} ({places})", finding.title()) };
    printable(&text)
}

/// Writes it in ThreadSanitizer's familiar shape; `harm` is what it did in the words of the run, and `lines` stand before the
/// summary.
pub fn write_finding(finding: &Finding, harm: Option<&str>, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    let rule = "==================";
    writeln!(out, "{rule}\nWARNING: Selvedge: {}", printable(&finding.title()))?;
    for access in &finding.accesses {
        let variable = access.variable.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let text = format!("Thread T{}: {}{variable} at {}:", access.thread, access.op, place(access));
        writeln!(out, "\n  {}", printable(&text))?;
        for (number, frame) in access.stack.iter().enumerate() {
            let function = short_name(frame.function.as_deref().unwrap_or("??"));
            let file = frame.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
            let at = match (file, frame.line) {
                (Some(file), Some(line)) => format!(" {file}:{line}"),
                _ => String::new(),
            };
            writeln!(out, "    #{number} {}", printable(&format!("{function}{at}")))?;
        }
    }
    writeln!(out, "\n  Harm: {}", printable(harm.unwrap_or_else(|| finding.harm.words())))?;
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "SUMMARY: Selvedge: {}\n{rule}", line(finding))
}

#[cfg(test)]
mod tests {
    use selvedge_findings::{Frame, Kind};

    use super::*;

    #[test]
    fn a_finding_without_a_run_is_told_in_the_same_shape() {
        let frame =
            Frame { function: Some("put".into()), file: Some("/s/a.c".into()), line: Some(4), ..Frame::default() };
        let access = |line| Access {
            op: "write".into(),
            function: Some("put".into()),
            file: Some("/s/a.c".into()),
            line,
            variable: Some("n\u{1b}".into()),
            stack: vec![frame.clone()],
            ..Access::default()
        };
        let finding = Finding::new("f".into(), Kind::DataRace, vec![access(Some(4)), access(None), access(Some(4))]);
        let mut text = Vec::new();
        write_finding(&finding, Some("it broke"), &["Again: x".into()], &mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        assert!(text.starts_with("==================\nWARNING: Selvedge: data race in put / put\n"), "{text}");
        for expect in ["Thread T0: write `n?` at a.c:4:\n    #0 put a.c:4", "Harm: it broke\n  Again: x\nSUMMARY"] {
            assert!(text.contains(expect), "no `{expect}` in {text}");
        }
        assert!(
            text.ends_with("SUMMARY: Selvedge: data race in put / put (a.c:4, put)\n==================\n"),
            "{text}"
        );
    }
}
