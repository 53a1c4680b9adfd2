//! The atomicity that correct runs show, as locks that cannot deadlock.
//!
//! Paper: Weeratunge, Zhang, Jagannathan, "Accentuating the Positive: Atomicity Inference and Enforcement Using Correct
//! Executions" (OOPSLA 2011). What it leaves open, or gets wrong, is in docs/design/enforcement.md; each module's
//! header names its departures.
//!
//! [`profile`] learns from traces which pairs of accesses nobody came between; [`heat`] leaves out what would cost too much; [`bind`] finds them in a build. [`place`] puts locks around them in a
//! [`program`]; [`order`] moves locks until no order of acquisitions goes round in a circle. [`enforced`] says what such
//! locks do, and [`interpret`] runs small programs with them, in every order.

pub mod bind;
mod bits;
pub mod enforced;
pub mod heat;
mod held;
pub mod interpret;
mod lock_order;
pub mod order;
pub mod place;
pub mod profile;
mod profile_text;
pub mod program;
mod rules;
mod summaries;
pub mod together;

pub use profile_text::{ProfileError, ProfileProblem};

#[cfg(test)]
mod tests;
