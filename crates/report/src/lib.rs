//! Rendering: what a trace says, for people and for programs.
//!
//! [`names`] gives addresses and code places the names that a person uses; [`view`] turns an event into
//! named fields; [`text`], [`json`], [`columns`] and [`std`](mod@std_form) write those, and [`summary`]
//! writes what holds for the trace as a whole. Nothing here decides anything: it reads the model and
//! writes to what it is given.
//!
//! Runs under control that failed are explained: [`hang`] says who waits for whom, [`critical`] which two events
//! decide, [`interleaving`] shows the events around them. Both come with findings whose ids ([`fingerprint`]) are the
//! same everywhere. [`violation`] is what a guard noted.
//!
//! [`html`] is a page of findings for people; [`account`] is what a run of a finding's clip adds to it.

#![forbid(unsafe_code)]

pub mod account;
pub mod anomaly;
pub mod brief;
pub mod code_points;
pub mod columns;
pub mod critical;
pub mod fingerprint;
pub mod github;
pub mod hang;
pub mod html;
pub mod in_act;
pub mod in_section;
pub mod interleaving;
pub mod json;
pub mod junit;
pub mod lock_order_svg;
pub mod names;
pub mod ranking;
pub mod ranking_svg;
pub mod sarif;
mod sheet;
pub mod shell;
mod stacks;
pub mod std_form;
pub mod summary;
pub mod text;
pub mod timeline;
pub mod values;
pub mod view;
pub mod violation;

pub use names::Names;
pub use view::{Filter, View};
