//! The stable types of results: what other programs may read from ours.
//!
//! [`exit`] is the table of exit codes, [`outcome`] the label of a run, [`report`] the JSON that every
//! command with findings can write, [`ranking`] what rankings add to it, [`bugs`] which findings have one root cause, [`baseline`] which
//! are known already, [`suppression`] what users do not want to see again. Fields are only ever added; a change of meaning raises
//! [`report::VERSION`].

#![forbid(unsafe_code)]

pub mod baseline;
pub mod bugs;
pub mod exit;
pub mod outcome;
pub mod ranking;
pub mod report;
pub mod suppression;

pub use bugs::Bug;
pub use exit::{EXIT_CODES, ExitCode};
pub use outcome::{Outcome, Tally};
pub use ranking::{RankedEdge, RankedNode, RankedPoint};
pub use report::{Access, Figures, Finding, Frame, Guarded, Harm, Held, Kind, Program, Report, Runs, Status};
