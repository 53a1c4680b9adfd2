//! Any bytes as a plan.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{plan, seeds};

fuzz_target!(init: seeds::plan(), |input: &[u8]| {
    plan::exercise(input);
});
