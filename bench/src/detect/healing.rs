//! Healing: how many schedules of each program fail without it and with each kind, under control, so that the schedules are the
//! same number of provoked runs each time and nothing is left to the machine.

use std::time::Duration;

use selvedge_corpus::{Kernel, Program, Variant};
use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::{DEFAULT_MOST_STEPS, explore};
use selvedge_drive::heal::{Healing, Source};
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::Stop;
use selvedge_drive::sections;
use selvedge_events::heal::{DEFAULT_WAIT_NS, How};
use serde::Serialize;

use crate::error::{Result, tool};
use crate::explore::find::WAYS;
use crate::explore::workshop::Workshop;

/// Most time of one cell: a program that hangs is slow.
const CELL_LIMIT: Duration = Duration::from_secs(45);

/// How the schedules of a program ended.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Ends {
    /// Schedules that were run.
    pub runs: u64,
    /// Of these, failed.
    pub fail: u64,
    /// Of these, hung: every thread waits, or a run had no end.
    pub hang: u64,
}

impl Ends {
    /// The part that did not pass, in percent.
    pub fn percent(&self) -> f64 {
        (self.fail + self.hang) as f64 * 100.0 / self.runs.max(1) as f64
    }
}

/// What came of healing a program.
#[derive(Debug, Clone, Serialize)]
pub struct HealRow {
    /// Its name.
    pub name: String,
    /// Its pattern; none where it is correct.
    pub pattern: Option<String>,
    /// Its atomic sections, all of which are healed.
    pub sections: usize,
    /// Those that a lock may be put around.
    pub locks: usize,
    /// Without healing.
    pub without: Ends,
    /// With healing: by kind, in the order of [`How::ALL`]; only the first for correct programs.
    pub with: Vec<Ends>,
}

fn ends(prepared: &Prepared, interventions: Interventions, schedules: u64) -> Result<Ends> {
    let mut options = WAYS[0].options(7, schedules);
    options.budget = Some(CELL_LIMIT);
    options.interventions = interventions;
    options.timeout = Duration::from_secs(5);
    // Whoever waits for a lock takes steps: healed runs are long, and not hung.
    options.most_steps = DEFAULT_MOST_STEPS;
    let explored = tool("explore", explore(prepared, &options, &Stop::default(), &mut |_| {}))?;
    let tally = explored.tally;
    Ok(Ends { runs: tally.total(), fail: tally.fail + tally.unknown, hang: tally.hang })
}

fn row(
    name: String,
    pattern: Option<String>,
    source: &Program<'_>,
    variant: Variant,
    workshop: &Workshop,
    schedules: u64,
) -> Result<HealRow> {
    let program = workshop.wrapped(source, variant)?;
    let prepared = workshop.prepare(&program, source.args)?;
    let file = tool("find sections", sections::file(&program))?;
    let kinds: &[How] = if pattern.is_some() { &How::ALL } else { &How::ALL[..1] };
    let mut row = HealRow {
        name,
        pattern,
        sections: 0,
        locks: 0,
        without: ends(&prepared, Interventions::default(), schedules)?,
        with: Vec::new(),
    };
    for how in kinds {
        let source = Source::Sections(file.clone());
        let healing = tool("heal", Healing::of(&program, &source, *how, How::Sleep, DEFAULT_WAIT_NS))?;
        if *how == How::Lock {
            row.sections = healing.sections.len();
            row.locks = healing.sections.iter().filter(|section| section.how == How::Lock).count();
        }
        let interventions = tool("heal", Interventions::heal(&healing, &prepared.images))?;
        row.with.push(ends(&prepared, interventions, schedules)?);
    }
    Ok(row)
}

/// Heals a kernel, with each kind.
pub fn kernel(kernel: &Kernel, workshop: &Workshop, schedules: u64) -> Result<HealRow> {
    let pattern = Some(kernel.pattern.to_string());
    row(kernel.name.clone(), pattern, &kernel.program(), Variant::Buggy, workshop, schedules)
}

/// Heals a correct program or fixed twin, with locks.
pub fn correct(source: &Program<'_>, variant: Variant, workshop: &Workshop, schedules: u64) -> Result<HealRow> {
    let name = if variant == Variant::Fixed { format!("{} (fixed)", source.name) } else { source.name.to_owned() };
    row(name, None, source, variant, workshop, schedules)
}
