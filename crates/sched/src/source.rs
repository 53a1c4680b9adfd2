//! Where the schedules of a series of runs come from.

use core::error::Error;
use core::fmt;

use crate::determinism::Difference;
use crate::schedule::LoggedPoint;
use crate::strategy::Spec;

/// A series of runs, each decided before it begins, perhaps by the runs before it.
pub trait Source {
    /// What a run is told.
    type Order: Clone;

    /// The next run, or `None` when there is nothing left to run.
    fn next(&mut self) -> Option<Self::Order>;

    /// The full log of the run that was asked for last. A fault means that the run did not do as it was
    /// told; the source goes on without it.
    fn learn(&mut self, log: &[LoggedPoint]) -> Result<(), Fault>;
}

/// How a run did not do as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Up to here it should have been the same as an earlier one, and was not: the program depends on
    /// something that is not under control.
    Diverged(Difference),
    /// Past its last switch, the run departed from the default policy.
    NotDefault {
        /// The number of the step in the log, from 0.
        step: usize,
        /// What it did.
        came: LoggedPoint,
    },
    /// The thread was asked about at this place before, or at a later one (NOTE \[Points and moments\] in
    /// [`moment`](crate::moment)): no switch can name it.
    Ambiguous {
        /// The number of the step in the log, from 0.
        step: usize,
        /// What it did.
        came: LoggedPoint,
    },
    /// It was not asked for.
    Unasked,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Diverged(difference) => write!(f, "two runs of one schedule differ at {difference}"),
            Fault::NotDefault { step, came } => {
                write!(f, "step {step} departs from the schedule: {}", came.step.switch())
            }
            Fault::Ambiguous { step, came } => {
                write!(f, "step {step} is not the first one at its place: {}", came.step.switch())
            }
            Fault::Unasked => f.write_str("a log of a run that was not asked for"),
        }
    }
}

impl Error for Fault {}

/// Runs of one strategy with one seed after the other.
#[derive(Clone, Debug)]
pub struct Seeds {
    next: Spec,
    left: u64,
}

impl Seeds {
    /// `runs` runs, the first with the spec's own seed.
    pub fn new(first: Spec, runs: u64) -> Self {
        Self { next: first, left: runs }
    }
}

impl Source for Seeds {
    type Order = Spec;

    fn next(&mut self) -> Option<Spec> {
        self.left = self.left.checked_sub(1)?;
        let spec = self.next;
        self.next.seed = spec.seed.wrapping_add(1);
        Some(spec)
    }

    fn learn(&mut self, _: &[LoggedPoint]) -> Result<(), Fault> {
        Ok(())
    }
}
