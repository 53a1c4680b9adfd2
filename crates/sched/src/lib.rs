//! Which thread runs next: strategies, and the schedule as a value.
//!
//! Under a controlled schedule one thread runs at a time. Before each access to an armed site and
//! each synchronisation a thread reaches a *point*; there, and where it blocks or exits, the gate
//! asks a strategy who goes on ([`moment`] says exactly what is asked, [`strategy`] who answers).
//! Choices that the default policy would not have made are the *schedule* ([`schedule`]): a short
//! value that [`replay`] turns into the same run again.
//!
//! The choice is pure: it depends on the [`Spec`] and on what was asked so far, never
//! on addresses, clocks or hash order.
//!
//! The default build allocates nothing and has no panics: it runs inside strangers. The feature
//! `search` adds what the driver needs: owned schedules and their text form, preemption-bounded
//! search, the check for uncontrolled nondeterminism, and minimising.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "search"))]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(any(test, feature = "search"))]
pub mod bounded;
#[cfg(any(test, feature = "search"))]
pub mod determinism;
#[cfg(any(test, feature = "search"))]
mod fair;
#[cfg(any(test, feature = "search"))]
pub mod minimize;
pub mod moment;
pub mod pct;
pub mod pos;
pub mod random;
pub mod replay;
pub mod rng;
pub mod round_robin;
pub mod schedule;
#[cfg(test)]
mod sim;
#[cfg(any(test, feature = "search"))]
pub mod source;
pub mod steer;
pub mod strategy;
#[cfg(any(test, feature = "search"))]
pub mod text;

#[cfg(any(test, feature = "search"))]
pub use bounded::Search;
#[cfg(any(test, feature = "search"))]
pub use determinism::{Difference, Twice, first_difference};
#[cfg(any(test, feature = "search"))]
pub use minimize::{Verdict, critical_switch, minimize};
pub use moment::{Moment, OpKind, Pending, Standing, Threads, default_choice};
pub use replay::{Divergence, Replay, Script};
pub use schedule::{LoggedPoint, Step, Switch, When};
#[cfg(any(test, feature = "search"))]
pub use source::{Fault, Seeds, Source};
pub use steer::{Leg, Steer};
pub use strategy::{Chooser, Spec, StrategyKind};
#[cfg(any(test, feature = "search"))]
pub use text::{ParseError, Schedule};
