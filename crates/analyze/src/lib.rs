//! Learning from runs: pure functions over what was recorded. No input or output, no clocks, no chance of its own.
//!
//! A [`History`] is a trace in the form that analyses read: twelve bytes an event, dense numbers instead of addresses.
//! Each analysis is a module; what they have in common is [`prediction`]: something that did not happen, the
//! order of events that would show it, and what proves that order possible.

#![forbid(unsafe_code)]

pub mod atomicity;
mod clocks;
pub mod deadlock;
pub mod foresee;
pub mod graph;
pub mod history;
pub mod import;
pub mod invariant;
pub mod lost_wakeup;
pub mod names;
pub mod predict;
pub mod prediction;
mod rows;
pub mod sections;
pub mod serializability;
pub mod sound;
pub mod std_text;

pub use history::{Event, EventNo, History, Op};
pub use import::import;
pub use names::Names;
pub use prediction::{Goal, Prediction, Proof, Relation};
