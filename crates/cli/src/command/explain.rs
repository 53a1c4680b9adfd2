//! What controlled commands say about a failure.

use std::fmt::Write as _;
use std::path::Path;

use selvedge_drive::clip::Clip;
use selvedge_drive::explore::Failure as Failed;
use selvedge_events::bytes::checksum;
use selvedge_findings::{Finding, Harm, Kind, Status};

use crate::messages::Failure;

/// A few characters that name a failure.
pub(crate) fn short_id(clip: &Clip) -> String {
    let mut named = clip.program.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    if let Some(signature) = clip.signature() {
        named.extend(format!("{:?}", signature.harm).bytes());
        named.extend(signature.detail.bytes());
    }
    format!("{:08x}", checksum(&named) as u32)
}

/// A failure as a finding.
pub(crate) fn finding(clip: &Clip, path: &Path, _failed: &Failed) -> Result<Finding, Failure> {
    let harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    let kind = if harm == Harm::Hang { Kind::Deadlock } else { Kind::OrderViolation };
    let mut finding = Finding::new(short_id(clip), kind, Vec::new());
    finding.status = Status::Confirmed;
    finding.harm = harm;
    finding.clip = Some(path.display().to_string());
    Ok(finding)
}

/// What a harm is called.
pub(crate) fn headline(harm: Harm) -> &'static str {
    match harm {
        Harm::Assertion => "assertion failed",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "wrong exit code",
        Harm::Oracle => "the oracle refused the run",
        _ => "failure",
    }
}

/// A failure for people.
pub(crate) fn text(clip: &Clip, path: &Path, failed: Option<&Failed>, _finding: &Finding) -> Result<String, Failure> {
    let mut out = String::new();
    let (harm, detail) = clip
        .wrong
        .as_ref()
        .map_or((Harm::NoneSeen, "no failure"), |wrong| (wrong.signature.harm, wrong.words.as_str()));
    let line = "==================";
    let _ = writeln!(out, "{line}\nWARNING: Selvedge: {}", headline(harm));
    let _ = writeln!(out, "  {detail}");
    if let Some(failed) = failed {
        let _ = writeln!(out, "  first in schedule {}, in {} schedules altogether", failed.first, failed.count);
    }
    let preemptive = clip.preemptions();
    let _ = writeln!(out, "  {} switches, {preemptive} of them preemptive, in {} steps", clip.script.len(), clip.steps);
    const SHORT: usize = 12;
    if clip.script.len() <= SHORT {
        let _ = writeln!(out, "  schedule: {}", clip.schedule());
    }
    let _ = writeln!(out, "  again:    selvedge replay {}", path.display());
    let _ = writeln!(out, "  smaller:  selvedge minimize {}", path.display());
    let _ = writeln!(out, "SUMMARY: Selvedge: {}: {detail}\n{line}", headline(harm));
    Ok(out)
}
