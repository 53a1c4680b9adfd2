//! Orchestration: building instrumented programs, running them under plans, labelling the runs and
//! keeping what they leave behind.
//!
//! [`build`] is the compiler wrapper, [`cargo`] has Cargo build with it. [`plan`] writes what the runtime is to do, [`arm`] chooses the
//! sites for it from a survey, [`run`] runs a guest once, [`store`] keeps runs on disk, [`survey`] and
//! [`record`] put these together. [`sections`] lists the atomic sections that a program's code suggests.

#![forbid(unsafe_code)]

pub mod arm;
pub mod build;
pub mod cargo;
pub mod clip;
pub mod confirm;
pub mod control;
pub mod controlled;
pub mod course;
pub mod detect;
pub mod differs;
pub mod enforce;
pub mod explore;
pub mod failure;
pub mod guard;
pub mod guest_input;
pub mod heal;
pub mod hunt;
pub mod intervene;
pub mod minimize;
pub mod own_time;
pub mod plan;
pub mod program;
pub mod pursue;
pub mod rank;
pub mod record;
pub mod replay;
pub mod run;
pub mod sections;
pub mod server;
pub mod store;
pub mod survey;
pub mod untraced;
pub mod vary;
pub mod watch;
