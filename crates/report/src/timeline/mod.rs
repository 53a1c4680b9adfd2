//! A recorded run as a timeline for other viewers: a track for each thread, its events, the spans in which it holds locks,
//! and arrows from each release to what it lets go on.
//!
//! [`chrome`] and [`perfetto`] write the same items. Locks need not be given back in the order in which they were taken, but
//! slices of a track must nest: so lock spans have tracks of their own. Under control there is no time: an event's number
//! counts as microseconds.

pub mod chrome;
pub mod perfetto;
mod proto;

use std::collections::BTreeMap;

use selvedge_events::ThreadIx;
use selvedge_trace::state::{LockChange, Locksets};
use selvedge_trace::{EventBody, Process};

use crate::names::Names;
use crate::view::{Filter, Stamp, View, printable, views};

/// Something on a timeline, in the merged order of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// An event.
    Event {
        thread: u32,
        at: u64,
        name: String,
        /// What more there is to say.
        args: Vec<(&'static str, String)>,
        /// The arrow that ends here.
        from: Option<u64>,
        /// The arrow that begins here.
        to: Option<u64>,
    },
    /// A thread now holds a lock.
    Taken { span: u64, thread: u32, at: u64, name: String },
    /// It no longer does, or the trace ends.
    Given { span: u64, thread: u32, at: u64, is_end: bool },
}

/// Nanoseconds of one step of a run under control.
pub(crate) const STEP: u64 = 1000;

/// What an arrow leaves from, and the next event to which it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Knot {
    /// A lock, condition, semaphore, barrier, futex or annotated address.
    Object(u64),
    /// The begin of a thread.
    Begin(ThreadIx),
    /// The end of a thread.
    End(ThreadIx),
}

/// Follows a process and hands each item on.
pub(crate) fn items<E>(
    names: &Names<'_>,
    filter: &Filter,
    each: &mut dyn FnMut(Item) -> Result<(), E>,
) -> Result<(), E> {
    let mut locks = Locksets::default();
    let mut open: BTreeMap<(ThreadIx, u64), u64> = BTreeMap::new();
    let mut knots: BTreeMap<Knot, (ThreadIx, u64)> = BTreeMap::new();
    let (mut spans, mut arrows, mut last) = (0, 0, 0);
    for view in views(names, filter) {
        let (event, at) = (view.event, moment(&view));
        last = at.max(last);
        let (ends, begins) = knots_of(&event.body, event.thread);
        let arrow = ends.and_then(|knot| knots.get(&knot).copied());
        let from = arrow.filter(|(thread, _)| *thread != event.thread).map(|(_, arrow)| arrow);
        let to = begins.map(|knot| {
            arrows += 1;
            knots.insert(knot, (event.thread, arrows));
            arrows
        });
        each(Item::Event { thread: event.thread.0, at, name: name(&view), args: args(&view), from, to })?;
        let thread = event.thread;
        if matches!(event.body, EventBody::ThreadExit) {
            // What a thread still holds when it ends is shown up to there.
            for held in locks.held(thread) {
                if let Some(span) = open.remove(&(thread, held.lock)) {
                    each(Item::Given { span, thread: thread.0, at, is_end: false })?;
                }
            }
        }
        match locks.apply(&event) {
            Some(LockChange::Taken(held)) => {
                spans += 1;
                open.insert((thread, held.lock), spans);
                let name = match event.body {
                    EventBody::WaitEnd { mutex, .. } => format!("holds {:#x}", mutex.0),
                    _ => format!("holds {}", printable(view.object_name())),
                };
                each(Item::Taken { span: spans, thread: thread.0, at, name })?;
            }
            Some(LockChange::Given(held)) => {
                if let Some(span) = open.remove(&(thread, held.lock)) {
                    each(Item::Given { span, thread: thread.0, at, is_end: false })?;
                }
            }
            _ => {}
        }
    }
    for ((thread, _), span) in open {
        each(Item::Given { span, thread: thread.0, at: last, is_end: true })?;
    }
    Ok(())
}

/// The knot that an event goes on from, and the one that it ties.
fn knots_of(body: &EventBody, thread: ThreadIx) -> (Option<Knot>, Option<Knot>) {
    use EventBody as B;
    let object = |addr: u64| Some(Knot::Object(addr));
    match *body {
        B::ThreadCreate { child, .. } => (None, Some(Knot::Begin(child))),
        B::ThreadStart { .. } => (Some(Knot::Begin(thread)), None),
        B::ThreadExit => (None, Some(Knot::End(thread))),
        B::ThreadJoin { child: Some(child) } => (Some(Knot::End(child)), None),
        B::Acquire { lock, how } if how.held() => (object(lock.0), None),
        B::Release { lock, .. } => (None, object(lock.0)),
        B::Signal { cond } | B::Broadcast { cond } => (None, object(cond.0)),
        B::WaitEnd { cond, result: 0, .. } => (object(cond.0), None),
        B::SemPost { semaphore } => (None, object(semaphore.0)),
        B::SemWait { semaphore, result: 0 } => (object(semaphore.0), None),
        B::BarrierEnter { barrier } => (None, object(barrier.0)),
        B::BarrierLeave { barrier, .. } => (object(barrier.0), None),
        B::FutexWake { addr, .. } | B::HappensBefore { addr } => (None, object(addr.0)),
        B::FutexWaitEnd { addr, result: 0 } | B::HappensAfter { addr } => (object(addr.0), None),
        _ => (None, None),
    }
}

/// Nanoseconds on the timeline.
fn moment(view: &View) -> u64 {
    match view.at {
        Stamp::Number(number) => number.saturating_mul(STEP),
        Stamp::Nanos(nanos) => u64::try_from(nanos.max(0)).unwrap_or(u64::MAX),
    }
}

fn name(view: &View) -> String {
    match view.object_name() {
        "" => view.op.to_owned(),
        object => printable(&format!("{} {object}", view.op)),
    }
}

fn args(view: &View) -> Vec<(&'static str, String)> {
    let mut args = Vec::new();
    if view.source.function.is_some() || view.source.file.is_some() || view.source.code.is_some() {
        args.push(("place", printable(&view.source.line_place())));
    }
    if let Some(function) = &view.source.function {
        args.push(("function", printable(function)));
    }
    if !view.detail.is_empty() {
        args.push(("detail", printable(&view.detail)));
    }
    args
}

/// The file name of the program.
fn program(process: &Process) -> String {
    let module = process.file().modules().first();
    let name = module.and_then(|module| module.path.file_name()).map(|name| name.to_string_lossy().into_owned());
    printable(&name.unwrap_or_else(|| "program".to_owned()))
}
