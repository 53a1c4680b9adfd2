//! What several tests of histories use. Each uses a part of it.
#![allow(dead_code, clippy::allow_attributes, reason = "each test file is a crate of its own")]

pub(crate) mod explore;
pub(crate) mod random;
pub(crate) mod std_form;
