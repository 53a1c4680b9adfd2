//! `exit-codes.md`.

use selvedge_findings::EXIT_CODES;

use super::{code, head, table};

pub(super) fn page() -> String {
    let rows = EXIT_CODES
        .iter()
        .map(|(exit, sentence)| vec![exit.code().to_string(), code(&format!("{exit:?}")), (*sentence).to_owned()]);
    let rows = table(&["code", "name", "when"], rows);
    format!(
        "{}
Where a program ran and there is nothing to report, its own exit code is passed through instead: 128 and the
signal's number where a signal ended it.

{rows}",
        head("Exit codes", "`crates/findings/src/exit.rs`")
    )
}
