//! A trace as an interleaving: one line per event, in the merged order.

use std::io::{self, Write};

use selvedge_trace::{Place, Run};

use crate::names::Names;
use crate::summary::write_summary;
use crate::view::{Filter, View, printable, views};

/// What to print.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Which events.
    pub filter: Filter,
    /// Whether to leave out the events.
    pub summary_only: bool,
    /// Most lines per process.
    pub limit: Option<u64>,
}

/// Writes a run: for each process a summary, then its events.
pub fn write_text(run: &Run, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    for (number, process) in run.processes.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let names = Names::new(process);
        write_summary(&names, out)?;
        if options.summary_only {
            continue;
        }
        writeln!(out)?;
        let width = process.summary().threads.iter().map(|thread| names.thread(thread.index).chars().count());
        let width = width.max().unwrap_or(2).clamp(2, 20);
        let mut written = 0;
        for view in views(&names, &options.filter) {
            if options.limit.is_some_and(|limit| written >= limit) {
                writeln!(out, "… more events; the limit of {written} lines is reached")?;
                break;
            }
            write_line(&names, &view, width, out)?;
            written += 1;
        }
        if written == 0 {
            writeln!(out, "no events{}", if process.summary().events > 0 { " that match" } else { "" })?;
        }
    }
    Ok(())
}

fn write_line(names: &Names<'_>, view: &View, thread_width: usize, out: &mut dyn Write) -> io::Result<()> {
    // A tilde marks a time that is only known to lie between its neighbours'.
    let mark = if view.is_timed() { ' ' } else { '~' };
    let thread = printable(&names.thread(view.event.thread));
    let mut what = view.object_name().to_owned();
    if !view.detail.is_empty() {
        what = if what.is_empty() { view.detail.clone() } else { format!("{what} ({})", view.detail) };
    }
    let place = if view.event.place == Place::Unknown { String::new() } else { view.source.place() };
    let function = view.source.function.as_deref().unwrap_or("");
    let line = format!(
        "{:>15}{mark} {thread:<thread_width$}  {:<14} {:<32} {:<28} {function}",
        view.at,
        view.op,
        printable(&what),
        printable(&place),
    );
    writeln!(out, "{}", line.trim_end())
}
