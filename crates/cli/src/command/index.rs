//! `selvedge index`.

use std::io::Write as _;

use crate::args::IndexArgs;
use crate::messages::Failure;

/// Writes the site table anew and says what is in it.
pub(crate) fn run(args: &IndexArgs) -> Result<u8, Failure> {
    let summary = selvedge_image::index(&args.image).map_err(|error| Failure::usage(&error))?;
    let mut out = std::io::stdout().lock();
    let state = if summary.changed { "written" } else { "already up to date" };
    writeln!(out, "{}: {} sites, {state}", args.image.display(), summary.sites)?;
    writeln!(out, "  build-id {}", if summary.build_id.is_empty() { "none" } else { &summary.build_id })?;
    for (class, count) in &summary.by_class {
        writeln!(out, "  {class:<12} {count}")?;
    }
    if summary.two_bodies > 0 {
        writeln!(out, "  {} functions have a body without hooks, too", summary.two_bodies)?;
    }
    Ok(0)
}
