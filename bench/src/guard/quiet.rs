//! One program without a bug: whatever a guard notes there is a false alarm, and no run may fail with it.

use std::time::Instant;

use selvedge_drive::controlled::Prepared;
use selvedge_drive::guard::colours::learn_colours;
use selvedge_drive::guard::compile::Mode;
use selvedge_drive::run::Stop;
use serde::Serialize;

use super::options::Amounts;
use super::runs::{Counted, Subject};
use super::training::{Training, how, trained};
use crate::error::{Result, tool};

/// A program without a bug, measured.
#[derive(Debug, Clone, Serialize)]
pub struct Quiet {
    /// Its name.
    pub name: String,
    /// What was learnt; `None` where no two threads share anything.
    pub training: Option<Training>,
    /// Under the schedules, watched.
    pub watched: Counted,
    /// In free runs, watched.
    pub watched_free: Counted,
    /// Under the schedules, guarded.
    pub guarded: Counted,
    /// In free runs, guarded.
    pub guarded_free: Counted,
    /// Time that all this took.
    pub seconds: f64,
}

impl Quiet {
    /// All watched runs.
    pub fn all_watched(&self) -> Counted {
        self.watched.clone().and(&self.watched_free)
    }

    /// All runs.
    pub fn all(&self) -> Counted {
        self.all_watched().and(&self.all_guarded())
    }

    /// All guarded runs.
    pub fn all_guarded(&self) -> Counted {
        self.guarded.clone().and(&self.guarded_free)
    }
}

/// Measures a program: half of the runs watched, half guarded; half of each under schedules, half free.
pub fn measure(name: &str, prepared: &Prepared, amounts: &Amounts) -> Result<Quiet> {
    let begin = Instant::now();
    let subject = Subject::new(prepared)?;
    let options = how(amounts.training, subject.schedules.most_steps);
    let colours = tool("learn colours", learn_colours(prepared, &options, &Stop::default()))?;
    let learnt = match trained(&subject, amounts.training, colours) {
        Err(error) if error.line().contains("nothing to guard") => None,
        learnt => Some(learnt?),
    };
    let mut quiet = Quiet {
        name: name.to_owned(),
        training: learnt.as_ref().map(Training::of),
        watched: Counted::default(),
        watched_free: Counted::default(),
        guarded: Counted::default(),
        guarded_free: Counted::default(),
        seconds: 0.0,
    };
    if let Some(learnt) = &learnt {
        let watch = subject.guard(&learnt.invariants, Mode::Watch)?;
        let guard = subject.guard(&learnt.invariants, Mode::Guard)?;
        let quarter = amounts.quiet / 4;
        quiet.watched = subject.guarded(quarter, &watch, "watched")?;
        quiet.watched_free = subject.free(quarter, &watch, "watched-free")?;
        quiet.guarded = subject.guarded(quarter, &guard, "guarded")?;
        quiet.guarded_free = subject.free(quarter, &guard, "guarded-free")?;
    }
    quiet.seconds = begin.elapsed().as_secs_f64();
    Ok(quiet)
}
