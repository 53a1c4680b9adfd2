//! Any bytes as a file of a communication graph.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{graph, seeds};

fuzz_target!(init: seeds::graphs(), |input: &[u8]| {
    graph::exercise(input);
});
