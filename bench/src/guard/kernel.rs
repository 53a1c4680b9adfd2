//! One program with a bug: how often it fails without a guard, with the guard watching, with the guard, and with the guard of the paper.

use std::collections::BTreeSet;
use std::time::Instant;

use selvedge_analyze::invariant::Invariants;
use selvedge_corpus::Kernel;
use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::Bench;
use selvedge_drive::guard::colours::learn_colours;
use selvedge_drive::guard::compile::Mode;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::Stop;
use selvedge_sched::Spec;
use serde::Serialize;

use super::options::Amounts;
use super::rivals::{Chosen, Traced, compare, spread};
use super::runs::{Counted, Failing, LEARNT, Subject, asked, passes};
use super::training::{Training, as_in_the_paper, how, trained};
use crate::error::{BenchError, Result, tool};

/// Schedules that are tried for a passing one to learn from, for each that is wanted.
const TRIES: u64 = 20;

/// A guard under the schedules.
#[derive(Debug, Clone, Serialize)]
pub struct Guarded {
    /// It watches.
    pub watched: Counted,
    /// It stalls.
    pub stalled: Counted,
}

/// Failing schedules, replayed.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Clips {
    /// Those that fail again without a guard.
    pub failing: u64,
    /// Of these, with a pass under the guard.
    pub passing: u64,
}

/// A program with a bug, measured.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: String,
    /// The shape of its bug.
    pub shape: String,
    /// Variables that are guarded as one.
    pub colours: Vec<String>,
    /// What was learnt.
    pub training: Training,
    /// Without a guard.
    pub without: Counted,
    /// The guard.
    pub ours: Guarded,
    /// The paper's guard: no colours, no context bit, no waits before locks.
    pub plain: Guarded,
    /// The guard without colours, where there are some.
    pub uncoloured: Option<Guarded>,
    /// The other invariants.
    pub traced: Traced,
    /// Failing schedules.
    pub clips: Clips,
    /// Time that all this took.
    pub seconds: f64,
}

/// Measures a program.
pub fn measure(kernel: &Kernel, prepared: &Prepared, amounts: &Amounts) -> Result<Measured> {
    let begin = Instant::now();
    let subject = Subject::new(prepared)?;
    let options = how(amounts.training, subject.schedules.most_steps);
    let colours = tool("learn colours", learn_colours(prepared, &options, &Stop::default()))?;
    let names: Vec<String> = colours.iter().map(|colour| colour.name.clone()).collect();
    let plainly = trained(&subject, amounts.training, BTreeSet::new())?;
    let learnt = if colours.is_empty() { plainly.clone() } else { trained(&subject, amounts.training, colours)? };
    let training = Training::of(&learnt);
    if training.passed == 0 {
        return Err(BenchError::Wrong(format!("none of {} training runs passed", training.runs)));
    }
    let mut server = subject.server(&Interventions::default(), "without")?;
    let (without, failing) = subject.without(amounts.runs, &mut server)?;
    let ours = guarded(&subject, &learnt.invariants, amounts.runs, "ours")?;
    let plain = guarded(&subject, &as_in_the_paper(&plainly.invariants), amounts.runs, "plain")?;
    let uncoloured = || guarded(&subject, &plainly.invariants, amounts.runs, "uncoloured");
    let uncoloured = if names.is_empty() { None } else { Some(uncoloured()?) };
    let clips = clips(&subject, &learnt.invariants, &failing, &mut server)?;
    let chosen = chosen(&subject, amounts, &failing, training.passed.min(amounts.learnt), &mut server)?;
    let traced = compare(&subject, &chosen, LEARNT, &mut server)?;
    Ok(Measured {
        name: kernel.name.clone(),
        language: kernel.language.to_string(),
        shape: kernel.shape.clone(),
        colours: names,
        training,
        without,
        ours,
        plain,
        uncoloured,
        traced,
        clips,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

fn guarded(subject: &Subject<'_>, invariants: &Invariants, runs: u64, name: &str) -> Result<Guarded> {
    let of = |mode, way: &str| subject.guarded(runs, &subject.guard(invariants, mode)?, &format!("{name}-{way}"));
    Ok(Guarded { watched: of(Mode::Watch, "watched")?, stalled: of(Mode::Guard, "stalled")? })
}

/// Replays failing schedules by their switches alone, as a clip does, without a guard and with it.
fn clips(
    subject: &Subject<'_>,
    invariants: &Invariants,
    failing: &[Failing],
    without: &mut Bench<'_>,
) -> Result<Clips> {
    let guard = subject.guard(invariants, Mode::Guard)?;
    let mut with = subject.server(&subject.beside(&guard)?, "clips")?;
    let mut clips = Clips::default();
    for script in failing.iter().filter_map(|failing| failing.script.as_ref()) {
        let request = asked(Spec::default(), script.clone(), subject.schedules.most_steps);
        if !passes(without, &request)? {
            clips.failing += 1;
            clips.passing += u64::from(passes(&mut with, &request)?);
        }
    }
    Ok(clips)
}

/// Which schedules are recorded: as many passing ones to learn from as the guard learnt from, and some of those that were judged.
fn chosen(
    subject: &Subject<'_>,
    amounts: &Amounts,
    failing: &[Failing],
    wanted: usize,
    server: &mut Bench<'_>,
) -> Result<Chosen> {
    let series = subject.schedules.series(LEARNT);
    let mut learnt = Vec::new();
    for number in 0..wanted as u64 * TRIES {
        if learnt.len() >= wanted {
            break;
        }
        if passes(server, &series.request(number))? {
            learnt.push(number);
        }
    }
    let failed: BTreeSet<u64> = failing.iter().map(|failing| failing.number).collect();
    let passed: Vec<u64> = (0..amounts.runs).filter(|number| !failed.contains(number)).collect();
    let failed: Vec<u64> = failed.into_iter().collect();
    Ok(Chosen { learnt, failing: spread(&failed, amounts.traces), passing: spread(&passed, amounts.traces / 2) })
}
