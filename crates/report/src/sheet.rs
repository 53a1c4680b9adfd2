//! What is shown of a run with its threads side by side: the lines, whoever draws them.
//!
//! What one thread does alone is of little interest: stretches of events that touch nothing another thread touches are
//! one line. [`crate::columns`] draws lines as text, [`crate::account`] keeps them for a page.

use std::collections::BTreeMap;

use selvedge_events::{EventKind, ThreadIx};
use selvedge_trace::{Event, EventBody, Process};

use crate::names::{Names, Source};
use crate::values::Values;
use crate::view::{Filter, Stamp, View, printable, views};

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// It has a line.
    Plain,
    /// It has a line that stands out.
    Marked,
    /// It is left out.
    Out,
}

/// A line of the sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// An event.
    Event(Box<EventLine>),
    /// Events of a thread that concern nobody else.
    Own(ThreadIx, u64),
    /// Events that were left out.
    Skipped(u64),
    /// Events after the last line that there is room for.
    More(u64),
}

/// An event with all that is shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventLine {
    pub(crate) thread: ThreadIx,
    /// Its number, or nanoseconds since the first event.
    pub(crate) at: String,
    /// Whether the time is its own.
    pub(crate) is_timed: bool,
    /// Its number in a run under control.
    pub(crate) number: Option<u64>,
    pub(crate) row: Row,
    pub(crate) op: &'static str,
    /// What it does it to.
    pub(crate) object: String,
    /// What it found and left: ` = 3`, ` 3 → 4`.
    pub(crate) value: String,
    /// More about it, where it has no object.
    pub(crate) detail: String,
    /// The line in the source, and its text.
    pub(crate) snippet: Option<(u32, String)>,
    /// `FILE:LINE`.
    pub(crate) place: String,
    pub(crate) function: String,
}

/// Goes through the events of some threads and hands on at most `most` lines of events, and what was left out between.
pub(crate) fn lines<E>(
    names: &Names<'_>,
    shared: &Shared,
    threads: &[ThreadIx],
    most: usize,
    row: &dyn Fn(&Event) -> Row,
    each: &mut dyn FnMut(Line) -> Result<(), E>,
) -> Result<(), E> {
    let process = names.process();
    let filter = Filter::default();
    let maker = Maker { values: Values::of(process), first: process.nanos(process.summary().first) };
    let mut snippets = Snippets::default();
    let mut folded: Option<(ThreadIx, u64)> = None;
    let (mut skipped, mut left, mut rows) = (0_u64, 0_u64, 0_usize);
    let own = |folded: Option<(ThreadIx, u64)>, rows: &mut usize, each: &mut dyn FnMut(Line) -> Result<(), E>| {
        folded.map_or(Ok(()), |(thread, count)| {
            *rows += 1;
            each(Line::Own(thread, count))
        })
    };
    for view in views(names, &filter).filter(|view| threads.contains(&view.event.thread)) {
        if rows >= most {
            left += 1;
            continue;
        }
        let row = row(&view.event);
        let private = !shared.matters(process, &view.event);
        if row == Row::Out {
            own(folded.take(), &mut rows, each)?;
            skipped += u64::from(!private);
            continue;
        }
        if skipped > 0 {
            each(Line::Skipped(std::mem::take(&mut skipped)))?;
        }
        let thread = view.event.thread;
        match &mut folded {
            Some((folding, count)) if private && *folding == thread => *count += 1,
            _ => {
                own(folded.take(), &mut rows, each)?;
                if private {
                    folded = Some((thread, 1));
                } else {
                    each(Line::Event(Box::new(maker.line(&view, row, &mut snippets))))?;
                    rows += 1;
                }
            }
        }
    }
    own(folded, &mut rows, each)?;
    if skipped > 0 {
        each(Line::Skipped(skipped))?;
    }
    if left > 0 {
        each(Line::More(left))?;
    }
    Ok(())
}

struct Maker {
    values: Values,
    /// Of the first event.
    first: i128,
}

impl Maker {
    fn line(&self, view: &View, row: Row, snippets: &mut Snippets) -> EventLine {
        // A thread's begin and end have no source line of their own.
        let own = !matches!(view.event.body, EventBody::ThreadStart { .. } | EventBody::ThreadExit);
        let snippet = snippets.line(&view.source).filter(|_| own);
        let (at, number) = match view.at {
            Stamp::Nanos(nanos) => ((nanos - self.first).to_string(), None),
            Stamp::Number(number) => (number.to_string(), Some(number)),
        };
        let writes = !matches!(view.op, "read" | "atomic-load");
        EventLine {
            thread: view.event.thread,
            at,
            is_timed: view.is_timed(),
            number,
            row,
            op: view.op,
            object: printable(view.object_name()),
            value: number.map(|number| self.values.text(number, writes)).unwrap_or_default(),
            detail: printable(&view.detail),
            snippet: snippet.map(|text| (view.source.line.unwrap_or(0), printable(&text))),
            place: printable(&view.source.brief()),
            function: printable(view.source.function.as_deref().unwrap_or("")),
        }
    }
}

/// Which memory more than one thread touches.
pub(crate) struct Shared {
    /// By eight-byte word: the only thread, or `None` for several.
    words: BTreeMap<u64, Option<ThreadIx>>,
}

impl Shared {
    pub(crate) fn of(process: &Process) -> Shared {
        let mut words = BTreeMap::new();
        for event in process.events() {
            if let Some(access) = process.access(&event) {
                let owner = words.entry(access.addr >> 3).or_insert(Some(event.thread));
                if *owner != Some(event.thread) {
                    *owner = None;
                }
            }
        }
        Shared { words }
    }

    pub(crate) fn matters(&self, process: &Process, event: &Event) -> bool {
        use EventKind::*;
        match process.access(event) {
            Some(access) => self.words.get(&(access.addr >> 3)).is_none_or(Option::is_none),
            None => !matches!(
                event.body.kind(),
                Alloc | Free | BlockBegin | BlockEnd | Note | Load | Unload | ThreadName | Block | ThreadDetach
            ),
        }
    }
}

/// Source lines of files that can be read.
#[derive(Default)]
pub(crate) struct Snippets {
    files: BTreeMap<String, Vec<String>>,
}

impl Snippets {
    /// The text of a source line, without what is around it.
    pub(crate) fn line(&mut self, source: &Source) -> Option<String> {
        self.text(source.file.as_deref()?, source.line?).filter(|line| !line.is_empty())
    }

    fn text(&mut self, file: &str, line: u32) -> Option<String> {
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            let text = std::fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(|line| line.trim().to_owned()).collect()
        });
        lines.get(line.checked_sub(1)? as usize).cloned()
    }
}
