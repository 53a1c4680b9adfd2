//! Any bytes as a trace in RAPID's text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_fuzz::{seeds, text};

fuzz_target!(init: seeds::text(), |input: &[u8]| {
    text::exercise(input);
});
