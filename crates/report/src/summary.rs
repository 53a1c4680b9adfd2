//! What holds for a trace as a whole: threads, sizes, how exact it is, what was lost, who was stuck.

use std::io::{self, Write};

use selvedge_events::ThreadIx;
use selvedge_events::plan::Observe;
use selvedge_events::trace_file::{FLAG_CLEAN_EXIT, FLAG_CUT, FLAG_SEALED};
use selvedge_trace::state::Heap;
use selvedge_trace::{ContextId, Process};

use crate::names::Names;
use crate::view::printable;

/// Writes the summary of one process.
pub fn write_summary(names: &Names<'_>, out: &mut dyn Write) -> io::Result<()> {
    let process = names.process();
    let (file, summary) = (process.file(), process.summary());
    let header = file.header();
    let program = file.modules().first().map_or_else(|| "?".into(), |module| module.path.display().to_string());
    writeln!(out, "process {} of {}", header.pid, printable(&program))?;
    if header.observe == Observe::Survey as u8 {
        writeln!(out, "  a survey: which sites touch shared memory; it has no events")?;
    }
    let each = summary.bytes as f64 / summary.events.max(1) as f64;
    // Events under control are numbered, and no time passes.
    let span = match process.is_controlled() {
        true => String::new(),
        false => {
            let nanos = process.nanos(summary.last) - process.nanos(summary.first);
            format!(" in {:.3} ms", nanos as f64 / 1e6)
        }
    };
    writeln!(
        out,
        "  {} threads, {} events{span}, {} bytes ({each:.1} bytes an event)",
        summary.threads.len(),
        summary.events,
        summary.bytes
    )?;
    if summary.events > 0 {
        writeln!(out, "  {}", process.exactness())?;
    }
    for thread in &summary.threads {
        let parent = thread.parent.map(|parent| format!(", made by {}", names.thread(parent))).unwrap_or_default();
        let label = printable(&names.thread(thread.index));
        writeln!(out, "  {label:<20} {:<12} {} events{}", thread.path, thread.events, printable(&parent))?;
    }
    let stuck = process.blocked();
    let heap = if stuck.is_empty() { Heap::default() } else { last_heap(process) };
    for blocked in stuck {
        let object = match u32::try_from(blocked.object) {
            Ok(thread) if blocked.function.contains("join") => names.thread(ThreadIx(thread)),
            _ => names.variable(blocked.object, &heap),
        };
        let source = names.source(blocked.place, ContextId::ROOT);
        let (thread, place) = (names.thread(blocked.thread), source.place());
        let text = format!("{thread} was in {}({object}) at {place} when the trace ended", blocked.function);
        writeln!(out, "  {}", printable(&text))?;
    }
    for (flag, text) in
        [(FLAG_SEALED, "the process sealed itself; later events may be missing"), (FLAG_CUT, "writing stopped early")]
    {
        if header.flags & flag != 0 {
            writeln!(out, "  {text}")?;
        }
    }
    if header.flags & FLAG_CLEAN_EXIT == 0 {
        writeln!(out, "  the process did not reach its end in an orderly way")?;
    }
    for (_, sentence, value) in header.counters() {
        writeln!(out, "  {value} {sentence}")?;
    }
    for (value, text) in [
        (summary.left_out.lost, "events lost, as the trace itself says"),
        (summary.left_out.unknown, "records of kinds that this version does not know"),
        (summary.left_out.broken, "records cut off or broken"),
        (file.foreign_chunks(), "chunks of kinds that this version does not know"),
    ] {
        if value > 0 {
            writeln!(out, "  {value} {text}")?;
        }
    }
    for damage in file.damages() {
        writeln!(out, "  {damage}")?;
    }
    if file.more_damages() > 0 {
        writeln!(out, "  {} more damaged places", file.more_damages())?;
    }
    for path in names.unusable_images() {
        let path = printable(&path.display().to_string());
        writeln!(out, "  no names from {path}: it is gone or was built anew since")?;
    }
    Ok(())
}

/// The heap as it was at the end, for naming what threads were stuck in.
fn last_heap(process: &Process) -> Heap {
    let mut heap = Heap::default();
    for event in process.events() {
        heap.apply(&event);
    }
    heap
}
