//! `selvedge minimize`.

use std::io::Write as _;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::minimize::minimize;
use selvedge_drive::replay::{bench, written_down};
use selvedge_findings::ExitCode;

use crate::args::MinimizeArgs;
use crate::command::explain::{again, explain, smaller_path, usage};
use crate::command::latest::clip_or_latest;
use crate::command::replay::TIMEOUT;
use crate::messages::{Failure, note};

/// Makes a clip smaller, and says which order decides.
pub(crate) fn run(args: &MinimizeArgs) -> Result<u8, Failure> {
    let named = clip_or_latest(args.clip.as_deref())?;
    let clip = Clip::load(&named).map_err(|error| Failure::usage(&error))?;
    if clip.wrong.is_none() {
        note("the clip's run did not fail: there is nothing to keep while making it smaller");
        return Ok(ExitCode::Usage.code());
    }
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let mut bench = bench(&clip, &Interventions::default(), &dir.path().join("server"), TIMEOUT).map_err(usage)?;
    let Some(clip) = written_down(&clip, &mut bench).map_err(usage)? else {
        note(
            "the clip names a strategy whose schedule is too long to be written down, or ends in another way now, so it cannot \
             be made smaller: explore with pct or bounded",
        );
        return Ok(ExitCode::Usage.code());
    };
    let small = minimize(&clip, &mut bench, args.budget).map_err(usage)?;
    if small.failing_log.is_empty() {
        note("the clip does not fail any more: replay it to see where it goes another way");
        return Ok(ExitCode::SomeFailed.code());
    }
    let path = args.output.clone().unwrap_or_else(|| smaller_path(&named));
    small.clip.save(&path).map_err(|error| Failure::usage(&error))?;
    let mut lines = vec![format!(
        "{} switches ({} preemptive) became {} ({} preemptive) in {} runs{}",
        clip.script.len(),
        clip.preemptions(),
        small.clip.script.len(),
        small.clip.preemptions(),
        small.runs,
        if small.minimal { "" } else { "; the budget ran out, more may go" }
    )];
    if small.clip.script.is_empty() {
        lines.push("It fails without any switch: each thread runs until it waits.".to_owned());
    }
    lines.extend(again(&small.clip, &path, &Interventions::default()));
    let explained = explain(&small.clip, &Interventions::default(), Some(&small), &lines, TIMEOUT)?;
    write!(anstream::stdout().lock(), "{}", explained.text)?;
    Ok(ExitCode::Success.code())
}
