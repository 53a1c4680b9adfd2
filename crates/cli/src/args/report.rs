//! `selvedge report` and `selvedge view`.

use std::path::PathBuf;

use clap::Args;

use super::output::OutputArgs;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  selvedge report findings.json\n  selvedge report findings.json --html bugs.html\n  \
    selvedge report findings.json --sarif findings.sarif --junit findings.xml\n\n\
    Takes what --json wrote. For a page, the clips of the findings are run once more where they are still there: the \
    interleavings and timelines come from these runs. Nothing is looked for anew. Exit code 66 where there are \
    errors among the findings."
)]
pub(crate) struct ReportArgs {
    /// The findings
    #[arg(value_name = "FINDINGS")]
    pub(crate) findings: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  selvedge view bugs.html\n  selvedge view findings.json\n  \
    selvedge view --port 8123 reports/\n\n\
    Serves on this machine only, until it is interrupted. A file of findings is made into a page first; of a directory \
    the pages in it can be seen, and nothing else. Pages work from disk too: this is for those who sit elsewhere and \
    forward a port.")]
pub(crate) struct ViewArgs {
    /// A page, a file of findings, or a directory with such files
    #[arg(value_name = "FILE|DIR", default_value = ".")]
    pub(crate) what: PathBuf,
    /// The port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// End after the first page was fetched
    #[arg(long)]
    pub(crate) once: bool,
}
