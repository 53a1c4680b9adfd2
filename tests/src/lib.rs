//! End-to-end tests of Selvedge on small native programs.
//!
//! `programs/` holds the programs; the folder is the verdict: `hostile` (legal programs that
//! do what breaks tools), `clean` (correct, ordinary) and `race` (guilty lines marked `//~ race`).
//! A program states how it is built and how it ends in `//@` directives ([`Directives`]).
//!
//! Native behaviour is the expectation. A test builds a program twice ([`Toolchain`]), natively
//! and with the wrapper under test, runs both ([`Run`]) and compares standard output and ending
//! ([`compare`]). The wrapped program is run in one of three ways ([`Mode`]).
//!
//! Tests of one situation rather than of a folder work in a [`Lab`]: a scratch directory with the tool under test,
//! where runs are bounded and traces are read back as data ([`Trace`]).
//!
//! A [`Guarding`] is a plan that guards a program by a table of the test's own making.
//!
//! A [`Subject`] is recorded under schedules that a test chooses ([`Controlled`]).
//!
//! Pages are looked at in a [`Browser`].
//!
//! Pages of documentation are run as their readers would ([`run_page`]).
//!
//! Failures are gathered over all programs into one list ([`Report`]); what is known to fail is
//! listed in `known_gaps.tsv` ([`Gaps`]), and a row that starts to pass is a failure as well.

mod browser;
mod compare;
mod controlled;
mod directives;
mod gaps;
mod guarding;
mod lab;
mod mode;
mod page;
mod program;
mod recorded;
mod run;
mod rust;
mod selvedge_bin;
mod suite;
mod toolchain;
mod trace_json;

pub use browser::Browser;
pub use compare::{Mismatch, compare};
pub use controlled::{Controlled, ControlledError, Effort, Seen, check_controlled, check_deadlock, strategies};
pub use directives::{Deadlock, DirectiveError, Directives, Ending, Need, guilty_lines};
pub use gaps::{Gap, Gaps, GapsError};
pub use guarding::{Deployed, Guarding};
pub use lab::Lab;
pub use mode::Mode;
pub use page::{Command as PageCommand, Step as PageStep, copy, run_page, steps as page_steps};
pub use program::{Folder, Program, ProgramError, programs_dir};
pub use recorded::{Recorded, Subject};
pub use run::{Outcome, Run, RunError};
pub use rust::instrumented_rustc;
pub use selvedge_bin::{FindError, find_selvedge};
pub use suite::{JOBS, Report, Verdict, check_against_native, check_directive, check_under_control, run_all};
pub use toolchain::{BuildError, Built, Toolchain, find_clang};
pub use trace_json::{Blocked, Event, Header, Thread, Trace};
