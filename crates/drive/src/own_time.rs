//! How long a program takes by itself: processor time of a run with nothing armed.

use std::path::Path;
use std::time::Duration;

use selvedge_events::plan::Observe;

use crate::plan::{PlanSpec, WritePlanError};
use crate::run::End;

/// The plan of such a run.
pub fn idle_plan(dir: &Path) -> Result<Vec<u8>, WritePlanError> {
    PlanSpec::new(Observe::Nothing, dir).to_bytes()
}

/// Makes a run; answers the nanoseconds that its processes used, or `None` where it did not come to its end.
pub fn timed<E>(run: impl FnOnce() -> Result<(End, Duration), E>) -> Result<Option<u64>, E> {
    let before = children_time();
    let (end, elapsed) = run()?;
    if matches!(end, End::TimedOut | End::Interrupted) {
        return Ok(None);
    }
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    Ok(Some(match children_time().zip(before).map(|(after, before)| after.saturating_sub(before)) {
        // Shorter than the kernel counts.
        None | Some(0) => elapsed,
        Some(time) => time,
    }))
}

/// Processor time of the children that have ended, in nanoseconds.
fn children_time() -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may have blanks; the times of children are fields 16 and 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(13).map(|field| field.parse::<u64>().ok());
    Some((times.next()?? + times.next()??) * TICK_NS)
}
