//! A trace as JSON lines: for each process a header object, then one object per event. Fields are only
//! added within a version.

use std::io::{self, Write};

use selvedge_trace::{ContextId, Run};
use serde::Serialize;

use crate::names::Names;
use crate::text::TextOptions;
use crate::view::{Stamp, View, views};

/// Version of the lines.
///
/// 1: first.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Header<'a> {
    version: u32,
    r#type: &'static str,
    pid: u32,
    program: String,
    build_id: String,
    events: u64,
    bytes: u64,
    timed_events: u64,
    /// Whether events are numbered in one order; they then have `order` instead of `time_ns`.
    controlled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tick_ns: Option<f64>,
    threads: Vec<ThreadLine<'a>>,
    counters: Vec<(&'static str, u64)>,
    damages: Vec<String>,
    blocked: Vec<BlockedLine>,
}

#[derive(Serialize)]
struct ThreadLine<'a> {
    index: u32,
    path: &'a str,
    name: Option<&'a str>,
    parent: Option<u32>,
    events: u64,
}

#[derive(Serialize)]
struct BlockedLine {
    thread: u32,
    function: &'static str,
    object: String,
    place: String,
}

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    thread: u32,
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<i64>,
    timed: bool,
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    context: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Writes a run.
pub fn write_json(run: &Run, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let limit = options.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    for process in &run.processes {
        let names = Names::new(process);
        line(out, &header(&names))?;
        if options.summary_only {
            continue;
        }
        for view in views(&names, &options.filter).take(limit) {
            line(out, &event(&view))?;
        }
    }
    Ok(())
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn header<'a>(names: &Names<'a>) -> Header<'a> {
    let process = names.process();
    let (file, summary) = (process.file(), process.summary());
    let program = file.modules().first();
    let blocked = process.blocked().into_iter().map(|blocked| BlockedLine {
        thread: blocked.thread.0,
        function: blocked.function,
        object: format!("{:#x}", blocked.object),
        place: names.source(blocked.place, ContextId::ROOT).place(),
    });
    Header {
        version: VERSION,
        r#type: "trace",
        pid: file.header().pid,
        program: program.map(|module| module.path.display().to_string()).unwrap_or_default(),
        build_id: program
            .map(|module| module.build_id.iter().map(|byte| format!("{byte:02x}")).collect())
            .unwrap_or_default(),
        events: summary.events,
        bytes: summary.bytes,
        timed_events: summary.timed,
        controlled: process.is_controlled(),
        tick_ns: (!process.is_controlled()).then(|| process.tick_nanos()),
        threads: summary
            .threads
            .iter()
            .map(|thread| ThreadLine {
                index: thread.index.0,
                path: &thread.path,
                name: thread.name.as_deref(),
                parent: thread.parent.map(|parent| parent.0),
                events: thread.events,
            })
            .collect(),
        counters: file.header().counters().map(|(_, sentence, value)| (sentence, value)).collect(),
        damages: file.damages().iter().map(ToString::to_string).collect(),
        blocked: blocked.collect(),
    }
}

fn event(view: &View) -> EventLine<'_> {
    let (event, source) = (&view.event, &view.source);
    let (order, time_ns) = match view.at {
        Stamp::Number(number) => (Some(number), None),
        Stamp::Nanos(nanos) => (None, Some(i64::try_from(nanos).unwrap_or(i64::MAX))),
    };
    EventLine {
        r#type: "event",
        thread: event.thread.0,
        index: event.index,
        order,
        time_ns,
        timed: view.is_timed(),
        op: view.op,
        variable: view.object.as_ref().map(|(name, _)| name.as_str()),
        address: view.size.and(view.object.as_ref()).map(|(_, addr)| format!("{addr:#x}")),
        size: view.size,
        detail: &view.detail,
        function: source.function.as_deref(),
        file: source.file.as_deref(),
        line: source.line,
        column: source.column,
        context: event.context.0,
        operation: Some(event.operation).filter(|number| *number > 0),
        before: event.before,
    }
}
