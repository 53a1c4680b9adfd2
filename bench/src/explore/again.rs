//! What was found, again: replays of a clip, and the clip made smaller.

use std::time::Duration;

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::minimize::{DEFAULT_BUDGET, minimize};
use selvedge_drive::replay::{Replayed, bench, replay};
use serde::Serialize;

use crate::error::{Result, tool, without_paths};

/// Most time of a replay.
const LIMIT: Duration = Duration::from_secs(30);

/// A failure, replayed and made smaller.
#[derive(Debug, Clone, Serialize)]
pub struct Again {
    /// What went wrong.
    pub failure: String,
    /// The strategy that found it.
    pub way: &'static str,
    /// Replays of what was found.
    pub replays: Replays,
    /// Its switches, and those that stop a thread which could go on.
    pub before: Switches,
    /// The same of the smaller clip.
    pub after: Switches,
    /// Whether no switch of it can be spared.
    pub minimal: bool,
    /// Runs that this took.
    pub runs: u32,
    /// Replays of the smaller clip.
    pub smaller_replays: Replays,
    /// The smaller schedule.
    pub schedule: String,
}

/// How replays came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Replays {
    /// How many were made.
    pub of: u32,
    /// Failed in the same way.
    pub same: u32,
    /// Failed in the same way with every choice the same.
    pub exact: u32,
}

impl Replays {
    /// Whether all were the same in every choice.
    pub fn all(&self) -> bool {
        self.exact == self.of
    }
}

/// Switches of a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// All.
    pub all: usize,
    /// Those that stop a thread which could go on.
    pub preemptive: usize,
}

impl Switches {
    fn of(clip: &Clip) -> Switches {
        Switches { all: clip.script.len(), preemptive: clip.preemptions() }
    }
}

/// Replays a clip, makes it smaller, and replays that.
pub fn again(way: &'static str, clip: &Clip, replays: u32) -> Result<Again> {
    let what = || format!("replay {}", clip.program.display());
    let dir = tool(what(), scratch())?;
    let mut bench = tool(what(), bench(clip, &Interventions::default(), &dir.path().join("server"), LIMIT))?;
    let mut repeat = |clip: &Clip| {
        let mut count = Replays { of: replays, same: 0, exact: 0 };
        for _ in 0..replays {
            let replayed: Replayed = tool(what(), replay(clip, &mut bench))?;
            count.same += u32::from(replayed.is_as(clip));
            count.exact += u32::from(replayed.is_as(clip) && replayed.is_exact(clip));
        }
        Ok(count)
    };
    let replays = repeat(clip)?;
    let smaller_bench = dir.path().join("smaller");
    let mut minimizer = tool(what(), self::bench(clip, &Interventions::default(), &smaller_bench, LIMIT))?;
    let smaller = tool(format!("minimize {}", clip.program.display()), minimize(clip, &mut minimizer, DEFAULT_BUDGET))?;
    Ok(Again {
        failure: clip.wrong.as_ref().map_or_else(String::new, |wrong| without_paths(&wrong.signature.detail)),
        way,
        replays,
        before: Switches::of(clip),
        after: Switches::of(&smaller.clip),
        minimal: smaller.minimal,
        runs: smaller.runs,
        smaller_replays: repeat(&smaller.clip)?,
        schedule: smaller.clip.schedule().to_string(),
    })
}
