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
Where a program ran once and there is nothing to report, its own exit code is passed through instead: 128 and the
signal's number where a signal ended it.

{rows}
Findings win over how the program ended. `--exit-code N` (or `exitcode=N` in `SELVEDGE_OPTIONS`) gives findings another code;
`--exit-from guest` leaves them out of account; `--abort-on-error` ends with SIGABRT instead. A command that was interrupted
and found nothing until then ends with 130. Whoever closes our output early, as `head` does, causes no failure.
",
        head("Exit codes", "`crates/findings/src/exit.rs`")
    )
}
