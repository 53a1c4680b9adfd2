//! Any bytes as a clip, and as the text of a schedule.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{clip, seeds};

fuzz_target!(init: seeds::clip(), |input: &[u8]| {
    clip::exercise(input);
});
