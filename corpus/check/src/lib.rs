//! The bug corpus as data: which programs there are, what is wrong with each, and how to build and run one.
//!
//! The programs live beside this package, one folder each, with a manifest that says where the bug comes
//! from and which lines are guilty. Tests of every other part use the corpus through this crate, so that the
//! manifests are read in one place and a mistake in one of them is an error with a file name.
//!
//! Three steps, one module each: [`manifest`] loads and checks, [`compile`] builds one variant of one program
//! with any compiler command, [`run()`] runs an executable with a time limit.

pub mod compile;
pub mod manifest;
pub mod run;

pub use compile::{BuildError, Command, Compiler, Variant, build};
pub use manifest::{
    Access, Corpus, Correct, Flags, Guilty, Harm, Kernel, Language, LoadCorpusError, Origin, Paper, Pattern, Program,
    load,
};
pub use run::{Outcome, Run, RunError, run};
