//! One schedule again and again: the recorded events must be the same, byte for byte.
//!
//! What is compared is text without addresses and times: what is damaged; for every event its thread, number, kind and place, in the one
//! order that a controlled record has, and then RAPID's `std` form, which `selvedge trace --std` prints, with places by
//! number. There, variables and locks are numbered as they are first met, so that the addresses of a run do
//! not matter but their equality does.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::Bench;
use selvedge_drive::intervene::Interventions;
use selvedge_events::plan::Observe;
use selvedge_trace::std_text::write_std;
use selvedge_trace::{Event, Place, Run};
use serde::Serialize;

use super::alone::{Alone, random};
use crate::error::{Result, at, tool};

/// The seed of the schedule.
const SEED: u64 = 7;
/// Most time of a run.
const LIMIT: Duration = Duration::from_secs(30);

/// How alike the runs of one schedule were.
#[derive(Debug, Clone, Serialize)]
pub struct Repeated {
    /// The program.
    pub name: String,
    /// Whether it is not of the corpus.
    pub foreign: bool,
    /// Runs of the schedule, recorded and served each.
    pub of: u32,
    /// Events of the first.
    pub events: usize,
    /// Choices of the first.
    pub steps: u64,
    /// Recorded runs whose events are those of the first.
    pub identical: u32,
    /// Recorded runs whose choices are those of the first.
    pub same_choices: u32,
    /// Runs of a fork server whose choices are those of the first recorded run.
    pub served: u32,
    /// Times that a thread was taken to block where the model does not look, over all runs.
    pub hidden_blocks: u64,
    /// The first difference in the events.
    pub difference: Option<String>,
}

impl Repeated {
    /// Whether nothing differed.
    pub fn all(&self) -> bool {
        [self.identical, self.same_choices, self.served].iter().all(|count| *count == self.of)
    }
}

/// Runs a program `of` times under one schedule, recorded, and as often by a fork server.
pub fn repeat(name: &str, prepared: &Prepared, of: u32) -> Result<Repeated> {
    let dir = prepared.scratch.path();
    let alone = Alone::new(prepared, Observe::Record, &dir.join("repeat"))?;
    let request = random(SEED);
    let (_, answer) = alone.run(&request, LIMIT)?;
    let (first, events) = stream(&alone.traces())?;
    let digest = answer.digest;
    let mut repeated = Repeated {
        name: name.to_owned(),
        foreign: false,
        of,
        events,
        steps: answer.steps,
        identical: 1,
        same_choices: 1,
        served: 0,
        hidden_blocks: answer.hidden_blocks,
        difference: None,
    };
    for run in 2..=of {
        let (_, answer) = alone.run(&request, LIMIT)?;
        repeated.same_choices += u32::from(answer.digest == digest);
        repeated.hidden_blocks += answer.hidden_blocks;
        let (text, _) = stream(&alone.traces())?;
        match first_difference(&first, &text) {
            None => repeated.identical += 1,
            Some(difference) => {
                repeated.difference.get_or_insert_with(|| format!("run {run}, {difference}"));
            }
        }
    }
    let nothing = Interventions::default();
    let server = Bench::start(&prepared.inputs, &prepared.images, &nothing, &dir.join("repeat-served"), None, LIMIT);
    let mut server = tool("start a server", server)?;
    for _ in 0..of {
        let (run, ..) = tool("make a run", server.run(&request))?;
        repeated.served += u32::from(run.answer.digest == digest);
        repeated.hidden_blocks += run.answer.hidden_blocks;
    }
    Ok(repeated)
}

/// The events of a recorded run as text, and how many there are.
pub fn stream(traces: &Path) -> Result<(String, usize)> {
    let run = tool("read a trace", Run::open(traces))?;
    let mut text = String::new();
    let mut events = 0;
    for process in &run.processes {
        for damage in process.file().damages() {
            let _ = writeln!(text, "{damage}");
        }
        for event in process.events() {
            events += 1;
            let kind = event.body.kind();
            let _ = writeln!(text, "T{} {} {kind:?} {}", event.thread, event.index, place(&event));
        }
        let mut std = Vec::new();
        at("write", traces, write_std(process, &mut |_| true, &mut place, &mut std))?;
        text.push_str(&String::from_utf8_lossy(&std));
    }
    Ok((text, events))
}

fn place(event: &Event) -> String {
    match event.place {
        Place::Site(site) => format!("site {site}"),
        Place::Code { module, offset } => format!("module {}+{offset:#x}", module.0),
        Place::Unknown => "?".to_owned(),
    }
}

fn first_difference(one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let (mut a, mut b) = (one.lines(), other.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => {}
            (x, y) => return Some(format!("line {line}: `{}` became `{}`", x.unwrap_or("end"), y.unwrap_or("end"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n").unwrap(), "line 2: `b` became `c`");
        assert_eq!(first_difference("a\n", "a\nc\n").unwrap(), "line 2: `end` became `c`");
    }
}
