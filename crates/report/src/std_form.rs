//! A trace in RAPID's `std` text form, with source lines as locations.

use std::io::{self, Write};

use selvedge_trace::std_text::{StdSummary, write_std};
use selvedge_trace::{Event, Process};

use crate::names::Names;
use crate::view::Filter;

/// Writes a process. Only the filter's threads are written; its variable does not matter here.
pub fn write_std_form(process: &Process, filter: &Filter, out: &mut dyn Write) -> io::Result<StdSummary> {
    let names = Names::new(process);
    let mut keep = |event: &Event| filter.wants_thread(process, event.thread);
    let mut locate = |event: &Event| {
        let source = names.source(event.place, event.context);
        match (&source.file, source.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => source.place(),
        }
    };
    write_std(process, &mut keep, &mut locate, out)
}
