//! Copied blocks are in the trace with their sizes, whichever form their records have.

use selvedge_itest::{Ending, Lab};

/// As in the program.
const BURST: usize = 40;
const SIZES: [u64; 6] = [1, 8, 4095, 4096, 65535, 65536];

#[test]
fn copies_of_every_size_are_recorded_as_they_happened() {
    let lab = Lab::new();
    let program = lab.wrapped("clean/block_copies.c");
    assert_eq!(lab.record("store", [&program]).ending, Ending::Exit(0));
    let trace = lab.latest("store");
    let copies = trace.events.iter().filter(|event| event.function.as_deref() == Some("copy") && event.size.is_some());
    let have: Vec<_> = copies.map(|e| (e.op.as_str(), e.variable.as_deref(), e.size)).collect();
    let want: Vec<_> = SIZES
        .iter()
        .flat_map(|size| [("read", Some("from[0]"), Some(*size)), ("write", Some("to[0]"), Some(*size))].repeat(BURST))
        .collect();
    assert_eq!(have, want);
}
