//! An event with its names: what every renderer prints.

use std::fmt;
use std::rc::Rc;

use selvedge_events::interpose::INTERPOSED;
use selvedge_events::{ThreadIx, Ticks};
use selvedge_trace::model::verb;
use selvedge_trace::state::Heap;
use selvedge_trace::{Event, EventBody, Exactness, Process};

use crate::names::{Names, Source};

/// When an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nanoseconds since the process began.
    Nanos(i128),
    /// Its number in the one order of a run under control, from 1.
    Number(u64),
}

impl Stamp {
    /// The stamp of a time.
    pub fn of(process: &Process, time: Ticks) -> Stamp {
        match process.is_controlled() {
            true => Stamp::Number(process.number(time)),
            false => Stamp::Nanos(process.nanos(time)),
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Stamp::Nanos(nanos) => format!("{nanos} ns"),
            Stamp::Number(number) => format!("#{number}"),
        };
        f.pad(&text)
    }
}

/// An event with its names.
#[derive(Clone, Debug)]
pub struct View {
    /// The event.
    pub event: Event,
    /// When it was.
    pub at: Stamp,
    /// What it does.
    pub op: &'static str,
    /// What it does it to, and that thing's address.
    pub object: Option<(String, u64)>,
    /// Bytes, for accesses.
    pub size: Option<u64>,
    /// Anything more worth saying.
    pub detail: String,
    /// Where.
    pub source: Rc<Source>,
}

impl View {
    /// Whether the time is the event's own.
    pub fn is_timed(&self) -> bool {
        self.event.exactness == Exactness::Timed
    }

    /// The object's name, or nothing.
    pub fn object_name(&self) -> &str {
        self.object.as_ref().map_or("", |(name, _)| name)
    }
}

/// Which events are of interest.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Threads, by number, name or creation path; empty for all.
    pub threads: Vec<String>,
    /// Part of a variable's name, or `=` and the whole of it.
    pub variable: Option<String>,
}

impl Filter {
    /// Whether a thread is of interest.
    pub fn wants_thread(&self, process: &Process, thread: ThreadIx) -> bool {
        let matches = |wanted: &String| {
            let number = wanted.strip_prefix('T').unwrap_or(wanted).parse() == Ok(thread.0);
            let thread = process.thread(thread);
            number || thread.is_some_and(|thread| thread.path == *wanted || thread.name.as_deref() == Some(wanted))
        };
        self.threads.is_empty() || self.threads.iter().any(matches)
    }

    /// Whether a view is of interest.
    pub fn wants(&self, view: &View) -> bool {
        match self.variable.as_deref() {
            None => true,
            Some(wanted) => match wanted.strip_prefix('=') {
                Some(whole) => view.object_name() == whole,
                None => view.object_name().contains(wanted),
            },
        }
    }
}

/// All events of interest of a process, in the merged order, with their names.
pub fn views<'a>(names: &'a Names<'a>, filter: &'a Filter) -> impl Iterator<Item = View> + 'a {
    let process = names.process();
    let mut heap = Heap::default();
    let wanted: Vec<bool> =
        process.summary().threads.iter().map(|thread| filter.wants_thread(process, thread.index)).collect();
    let wants = move |thread: ThreadIx| {
        let threads = &process.summary().threads;
        let at = threads.binary_search_by_key(&thread, |thread| thread.index);
        at.ok().and_then(|at| wanted.get(at)).copied().unwrap_or(false)
    };
    let view = move |event: Event| {
        // A freed block must still be named at its `free`.
        let before = matches!(event.body, EventBody::Free { .. });
        if !before {
            heap.apply(&event);
        }
        let view = wants(event.thread).then(|| view(names, &heap, event)).filter(|view| filter.wants(view));
        if before {
            heap.apply(&event);
        }
        view
    };
    process.events().filter_map(view)
}

/// Names an event, while these heap blocks are alive.
pub fn view(names: &Names<'_>, heap: &Heap, event: Event) -> View {
    let process = names.process();
    let mut detail = String::new();
    let memory = |addr: u64| Some((names.variable(addr, heap), addr));
    let named = |thread| Some((names.thread(thread), u64::from(thread.0)));
    let called = |slot: u16| INTERPOSED.get(usize::from(slot)).map_or("?", |row| row.name);
    let object = match event.body {
        EventBody::Access { addr } | EventBody::Free { addr } => memory(addr.0),
        EventBody::Range { addr, size, .. } => {
            detail = format!("{size} bytes");
            memory(addr.0)
        }
        EventBody::Atomic { addr, order, failure, success } => {
            detail = if success { order.name() } else { failure.name() }.to_owned();
            memory(addr.0)
        }
        EventBody::Fence { order } => {
            detail = order.name().to_owned();
            None
        }
        EventBody::Alloc { addr, size } => {
            detail = format!("{size} bytes");
            memory(addr.0)
        }
        EventBody::Acquire { lock, how } => {
            if !how.held() {
                detail = format!("error {}", how.result);
            } else if how.result != 0 {
                detail = "its owner died".to_owned();
            }
            memory(lock.0)
        }
        EventBody::Release { lock, .. } => memory(lock.0),
        EventBody::WaitBegin { cond, mutex } => {
            detail = format!("releases {}", names.variable(mutex.0, heap));
            memory(cond.0)
        }
        EventBody::WaitEnd { cond, mutex, result } => {
            detail = format!("holds {}", names.variable(mutex.0, heap));
            if result != 0 {
                detail.push_str(&format!(", error {result}"));
            }
            memory(cond.0)
        }
        EventBody::Signal { cond } | EventBody::Broadcast { cond } => memory(cond.0),
        EventBody::BarrierEnter { barrier } | EventBody::BarrierLeave { barrier, .. } => memory(barrier.0),
        EventBody::SemPost { semaphore } => memory(semaphore.0),
        EventBody::SemWait { semaphore, result } => {
            if result != 0 {
                detail = "failed".to_owned();
            }
            memory(semaphore.0)
        }
        EventBody::Destroy { object, .. } | EventBody::Once { object } => memory(object.0),
        EventBody::FutexWaitBegin { addr, .. }
        | EventBody::FutexWaitEnd { addr, .. }
        | EventBody::FutexWake { addr, .. } => memory(addr.0),
        EventBody::HappensBefore { addr } | EventBody::HappensAfter { addr } => memory(addr.0),
        EventBody::Benign { addr, size } => {
            detail = format!("{size} bytes");
            memory(addr.0)
        }
        EventBody::ThreadStart { parent } => {
            detail = parent.map(|parent| format!("made by {}", names.thread(parent))).unwrap_or_default();
            None
        }
        EventBody::ThreadCreate { child, .. } | EventBody::FiberSwitch { to: child, .. } => named(child),
        EventBody::ThreadJoin { child } | EventBody::ThreadDetach { child } => child.and_then(named),
        EventBody::ThreadName { thread, name } => {
            let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            detail = printable(&String::from_utf8_lossy(name));
            Some((format!("T{thread}"), u64::from(thread.0)))
        }
        EventBody::Note { slot, .. } | EventBody::BlockBegin { slot, .. } | EventBody::BlockEnd { slot } => {
            detail = called(slot).to_owned();
            None
        }
        EventBody::HandlerBegin { signal } | EventBody::HandlerEnd { signal } => {
            detail = format!("signal {signal}");
            None
        }
        EventBody::Fork { pid } => {
            detail = format!("process {pid}");
            None
        }
        EventBody::Load { module } | EventBody::Unload { module } => {
            detail = process.module(module).map(|module| module.path.display().to_string()).unwrap_or_default();
            None
        }
        EventBody::Ignore { begins, .. } => {
            detail = if begins { "begins" } else { "ends" }.to_owned();
            None
        }
        _ => None,
    };
    View {
        event,
        at: Stamp::of(process, event.time),
        op: verb(process, &event),
        object,
        size: process.access(&event).map(|access| access.size),
        detail,
        source: names.source(event.place, event.context),
    }
}

/// A function's name that fits on a line: of a long one the arguments of templates are left out.
pub fn short_name(name: &str) -> std::borrow::Cow<'_, str> {
    /// Characters of a name that nobody minds reading.
    const READABLE: usize = 80;
    if name.chars().count() <= READABLE {
        return name.into();
    }
    let mut short = String::new();
    let mut depth = 0_u32;
    for (at, c) in name.char_indices() {
        let before = &name[..at];
        // `operator<`, `operator<<`, `operator->`: no brackets.
        let is_operator = before.trim_end_matches(['<', '>', '-', '=']).ends_with("operator");
        let is_arrow = c == '>' && before.ends_with('-');
        match c {
            '<' if !is_operator => {
                if depth == 0 {
                    short.push_str("<…");
                }
                depth += 1;
            }
            '>' if depth > 0 && !is_operator && !is_arrow => {
                depth -= 1;
                if depth == 0 {
                    short.push('>');
                }
            }
            c if depth == 0 => short.push(c),
            _ => {}
        }
    }
    // Brackets that do not close are not what we took them for.
    if depth == 0 { short.into() } else { name.into() }
}

/// Text of the guest, with nothing in it that a terminal would obey.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn long_names_lose_what_is_between_brackets() {
        let long =
            "std::_Rb_tree<int, std::pair<int const, std::shared_ptr<std::string> >, std::less<int> >::find<int>(int)";
        assert_eq!(short_name(long), "std::_Rb_tree<…>::find<…>(int)");
        for same in ["std::map<int, int>::find", "main"] {
            assert_eq!(short_name(same), same);
        }
        let wide = "x".repeat(80);
        let operators = [
            (format!("bool {wide}::operator<(A<B> const&)"), format!("bool {wide}::operator<(A<…> const&)")),
            (format!("{wide}::operator<< <C>"), format!("{wide}::operator<< <…>")),
            (format!("{wide}::operator->"), format!("{wide}::operator->")),
            (format!("<{wide} as F<fn() -> u8>>::call"), "<…>::call".to_owned()),
            (format!("{wide}::f<broken"), format!("{wide}::f<broken")),
        ];
        for (name, short) in operators {
            assert_eq!(short_name(&name), short);
        }
    }
}
