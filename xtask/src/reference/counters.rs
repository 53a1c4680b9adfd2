//! `counters.md`.

use selvedge_events::counters::COUNTERS;
use selvedge_events::trace_file::at;

use super::{code, head, table};

pub(super) fn page() -> String {
    let rows = COUNTERS.iter().map(|(counter, key, sentence)| {
        let offset = at::COUNTERS + 8 * *counter as usize;
        vec![offset.to_string(), code(key), (*sentence).to_owned()]
    });
    let rows = table(&["offset", "key", "what it counts"], rows);
    format!(
        "{}
What the runtime lost, skipped or did differently is counted, never hidden. The counters lie in the header of
the trace file, so they are there after a crash too; reports show those that are not zero.

{rows}",
        head("Counters", "`crates/events/src/counters.rs`")
    )
}
