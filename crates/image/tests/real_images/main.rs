//! Tests on images that the real compilers and linkers of this machine make.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bodies;
mod damage;
mod embed;
mod graphs;
mod keys;
mod lines;
mod sites;
mod stacks;
mod support;
mod variables;
