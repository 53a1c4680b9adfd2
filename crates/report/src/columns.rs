//! Threads side by side: a column each, one event a row, with the source line where it can be read.
//!
//! What one thread does alone is of little interest: stretches of events that touch nothing another
//! thread touches are folded into one row.

use std::collections::BTreeMap;
use std::io::{self, Write};

use selvedge_events::{EventKind, ThreadIx};
use selvedge_trace::{Event, EventBody, Process};

use crate::names::{Names, Source};
use crate::values::Values;
use crate::view::{Filter, Stamp, View, printable, views};

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub struct ColumnOptions {
    /// Characters of a row.
    pub width: usize,
    /// Most rows.
    pub rows: usize,
}

impl Default for ColumnOptions {
    fn default() -> ColumnOptions {
        ColumnOptions { width: 110, rows: 200 }
    }
}

/// Threads beyond this many share no room on a screen; the first ones are shown.
const MAX_THREADS: usize = 6;

/// Writes a process in columns.
pub fn write_columns(process: &Process, options: ColumnOptions, out: &mut dyn Write) -> io::Result<()> {
    let threads: Vec<ThreadIx> =
        process.summary().threads.iter().map(|thread| thread.index).take(MAX_THREADS).collect();
    draw(&Names::new(process), &Shared::of(process), &threads, options, &|_| Row::Plain, out)
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// It has a row.
    Plain,
    /// It has a row that stands out.
    Marked,
    /// It is left out.
    Out,
}

/// Draws the events of some threads.
pub(crate) fn draw(
    names: &Names<'_>,
    shared: &Shared,
    threads: &[ThreadIx],
    options: ColumnOptions,
    row: &dyn Fn(&Event) -> Row,
    out: &mut dyn Write,
) -> io::Result<()> {
    let process = names.process();
    let width = (options.width.saturating_sub(12) / threads.len().max(1)).max(16);
    let filter = Filter::default();
    let values = Values::of(process);
    let mut table = Table { threads, width, rows: 0, most: options.rows, values, out };
    let title = |thread: &ThreadIx| {
        let path = process.thread(*thread).map(|thread| thread.path.clone()).unwrap_or_default();
        printable(&format!("{} ({path})", names.thread(*thread)))
    };
    table.row(if process.is_controlled() { "#" } else { "ns" }, &threads.iter().map(title).collect::<Vec<_>>())?;
    table.rule()?;
    let mut snippets = Snippets::default();
    let mut folded: Option<(ThreadIx, u64)> = None;
    let (mut skipped, mut left) = (0_u64, 0_u64);
    let first = process.nanos(process.summary().first);
    for view in views(names, &filter).filter(|view| threads.contains(&view.event.thread)) {
        if table.is_full() {
            left += 1;
            continue;
        }
        let row = row(&view.event);
        let private = !shared.matters(process, &view.event);
        if row == Row::Out {
            table.unfold(folded.take())?;
            skipped += u64::from(!private);
            continue;
        }
        table.skip(std::mem::take(&mut skipped))?;
        let thread = view.event.thread;
        match &mut folded {
            Some((folding, count)) if private && *folding == thread => *count += 1,
            _ => {
                table.unfold(folded.take())?;
                if private {
                    folded = Some((thread, 1));
                } else {
                    table.view(&view, first, row, &mut snippets)?;
                }
            }
        }
    }
    table.unfold(folded)?;
    table.skip(skipped)?;
    if left > 0 {
        writeln!(table.out, "… and {left} more events; `selvedge trace` prints them all")?;
    }
    Ok(())
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

struct Table<'a> {
    threads: &'a [ThreadIx],
    width: usize,
    rows: usize,
    most: usize,
    values: Values,
    out: &'a mut dyn Write,
}

impl Table<'_> {
    fn is_full(&self) -> bool {
        self.rows >= self.most
    }

    fn view(&mut self, view: &View, first: i128, row: Row, snippets: &mut Snippets) -> io::Result<()> {
        let what = match view.object_name() {
            "" if view.detail.is_empty() => view.op.to_owned(),
            "" => format!("{} {}", view.op, view.detail),
            name => format!("{} {name}{}", view.op, self.value(view)),
        };
        let mark = match row {
            Row::Marked => "> ",
            _ if view.is_timed() => "",
            _ => "~",
        };
        let time = match view.at {
            Stamp::Nanos(nanos) => format!("{mark}{}", nanos - first),
            Stamp::Number(number) => format!("{mark}{number}"),
        };
        self.cell(&time, view.event.thread, &what)?;
        // The source line below what it does; a thread's begin and end have none of their own.
        let own = !matches!(view.event.body, EventBody::ThreadStart { .. } | EventBody::ThreadExit);
        if let Some(snippet) = snippets.line(&view.source).filter(|_| own) {
            let line = view.source.line.unwrap_or(0);
            self.cell("", view.event.thread, &format!("  {line}: {snippet}"))?;
        }
        self.rows += 1;
        Ok(())
    }

    /// What an access found and left.
    fn value(&self, view: &View) -> String {
        match view.at {
            Stamp::Number(number) => self.values.text(number, !matches!(view.op, "read" | "atomic-load")),
            Stamp::Nanos(_) => String::new(),
        }
    }

    /// Writes one row for what was left out.
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match count {
            0 => Ok(()),
            1 => writeln!(self.out, "         … 1 event"),
            _ => writeln!(self.out, "         … {count} events"),
        }
    }

    /// Writes one row for what was held back.
    fn unfold(&mut self, folded: Option<(ThreadIx, u64)>) -> io::Result<()> {
        if let Some((thread, count)) = folded {
            self.cell("", thread, &format!("… {count} of its own"))?;
            self.rows += 1;
        }
        Ok(())
    }

    fn cell(&mut self, time: &str, thread: ThreadIx, text: &str) -> io::Result<()> {
        let cells: Vec<String> =
            self.threads.iter().map(|at| if *at == thread { printable(text) } else { String::new() }).collect();
        self.row(time, &cells)
    }

    fn row(&mut self, time: &str, cells: &[String]) -> io::Result<()> {
        let mut line = format!("{time:>10}");
        for cell in cells {
            line.push_str(" │ ");
            line.push_str(&fit(cell, self.width.saturating_sub(3)));
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    fn rule(&mut self) -> io::Result<()> {
        let mut line = "─".repeat(11);
        for _ in self.threads {
            line.push('┼');
            line.push_str(&"─".repeat(self.width.saturating_sub(1)));
        }
        writeln!(self.out, "{line}")
    }
}

/// Text cut or filled to a width.
fn fit(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return format!("{text:<width$}");
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Source lines of files that can be read.
#[derive(Default)]
struct Snippets {
    files: BTreeMap<String, Vec<String>>,
}

impl Snippets {
    fn line(&mut self, source: &Source) -> Option<String> {
        let (file, line) = (source.file.as_ref()?, source.line?.checked_sub(1)?);
        let lines = self.files.entry(file.clone()).or_insert_with(|| {
            let text = std::fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(|line| line.trim().to_owned()).collect()
        });
        lines.get(line as usize).filter(|line| !line.is_empty()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_cut_and_filled() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("äöü", 3), "äöü");
    }
}
