//! Rendering: what a trace says, for people and for programs.
//!
//! [`names`] gives addresses and code places the names that a person uses; [`view`] turns an event into
//! named fields; [`text`], [`json`], [`columns`] and [`std`](mod@std_form) write those, and [`summary`]
//! writes what holds for the trace as a whole. Nothing here decides anything: it reads the model and
//! writes to what it is given.
//!
//! Runs that hang are explained: [`hang`] says who waits for whom. Findings have ids ([`fingerprint`]) that are the
//! same everywhere.

#![forbid(unsafe_code)]

pub mod columns;
pub mod fingerprint;
pub mod hang;
pub mod json;
pub mod names;
pub mod std_form;
pub mod summary;
pub mod text;
pub mod view;

pub use names::Names;
pub use view::{Filter, View};
