//! Where findings go, for every command that has some.

use std::path::PathBuf;

use clap::Args;

use super::findings::FindingsArgs;

/// Where findings go beside the terminal.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Report files")]
pub(crate) struct OutputArgs {
    /// Write a page for people to this file: one file that works from disk, with interleavings and timelines
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write all findings to this file, with what was refuted or did no harm; docs/reference/findings.schema.json has the form
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the findings to this file as SARIF 2.1.0, for code scanning
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,
    /// Write the findings to this file as JUnit XML: a test for each sort of bug
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print the findings as annotations of GitHub Actions; done without being asked where GITHUB_ACTIONS is true
    #[arg(long)]
    pub(crate) github: bool,
    #[command(flatten)]
    pub(crate) findings: FindingsArgs,
}

impl OutputArgs {
    /// The same files, wherever we are.
    pub(crate) fn absolute(self) -> OutputArgs {
        let absolute = |path: Option<PathBuf>| path.map(|path| std::path::absolute(&path).unwrap_or(path));
        OutputArgs {
            html: absolute(self.html),
            json: absolute(self.json),
            sarif: absolute(self.sarif),
            junit: absolute(self.junit),
            github: self.github,
            findings: self.findings,
        }
    }
}
