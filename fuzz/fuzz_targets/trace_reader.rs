//! Any bytes as a trace file, or as a recipe for one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{recipe, seeds, trace};

fuzz_target!(init: seeds::trace(), |input: &[u8]| {
    trace::exercise(recipe::file(input));
});
