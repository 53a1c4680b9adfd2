//! One file a command.

pub(crate) mod build;
pub(crate) mod cc;
pub(crate) mod demo;
pub(crate) mod detect;
pub(crate) mod enforce;
pub(crate) mod explain;
pub(crate) mod explore;
pub(crate) mod expose;
pub(crate) mod guard;
pub(crate) mod guarding;
pub(crate) mod hunt;
pub(crate) mod index;
pub(crate) mod minimize;
pub(crate) mod patch;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod pursued;
pub(crate) mod rank;
pub(crate) mod record;
pub(crate) mod relax;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod sections;
pub(crate) mod sites;
pub(crate) mod trace;
pub(crate) mod train;
