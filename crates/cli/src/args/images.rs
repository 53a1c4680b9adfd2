//! Looking at a program or library.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge sites ./prog --function withdraw")]
pub(crate) struct SitesArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
    /// Only sites in functions whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only sites whose hook's name contains this, such as write4 or atomic
    #[arg(long, value_name = "NAME")]
    pub(crate) hook: Option<String>,
    /// JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge sections ./prog --variable balance\n\n\
    Found in the code alone, without a run: a load and the store that follows it, a test and the use behind it, and \
    accesses that follow each other. For each end it is told what other threads may do meanwhile.")]
pub(crate) struct SectionsArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
    /// Only sections of variables whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) variable: Option<String>,
    /// Only sections that begin in functions whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only sections of this pattern: load-and-store, test-and-use or consecutive
    #[arg(long, value_name = "PATTERN", value_parser = ["load-and-store", "test-and-use", "consecutive"])]
    pub(crate) pattern: Option<String>,
    /// Write them to this file as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write all sections to this file by the names of their sites, for `selvedge heal`; what is not meant can be cut out
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: selvedge index ./prog\n\n\
    The compiler wrapper does this after linking; it is needed again after a tool has changed the file.")]
pub(crate) struct IndexArgs {
    /// The program or shared library
    pub(crate) image: PathBuf,
}
