//! Any bytes as an image with a site table inside; what does not begin like an image, as a table.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use selvedge_fuzz::{elf_mutation, image, seeds, table};

fuzz_target!(init: seeds::site_table(), |input: &[u8]| {
    if input.starts_with(b"\x7fELF") {
        image::exercise(input);
    } else {
        table::exercise(input);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let field =
        seed.is_multiple_of(2) && data.get_mut(..size).is_some_and(|bytes| elf_mutation::mutate_field(bytes, seed / 2));
    if field { size } else { fuzzer_mutate(data, size, max_size) }
});
