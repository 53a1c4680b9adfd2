//! Cargo packages: built with instrumentation by Cargo itself, and started as Cargo starts them.
//!
//! [`Session`] is a Cargo that compiles through our wrappers, for an explicit target and in a target directory of its own.
//! [`split`] tells Cargo's options from those of a command of ours. [`Session::launches`] has Cargo build programs and tests
//! and say how it would start each; [`tests_in`] lists the tests of a program, so that each can be run alone.

mod harness;
mod launch;
mod line;
mod session;

pub use harness::{Test, failed_test, tests_in};
pub use launch::{Launch, RUNNER, note_launch};
pub use line::{OptionKind, Split, SplitError, split};
pub use session::{Session, SessionError, StandardLibrary};
