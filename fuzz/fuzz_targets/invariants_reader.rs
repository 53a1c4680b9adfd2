//! Any bytes as a file of invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{invariants, seeds};

fuzz_target!(init: seeds::invariants(), |input: &[u8]| {
    invariants::exercise(input);
});
