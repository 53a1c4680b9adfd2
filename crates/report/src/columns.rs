//! Threads side by side, as text: a column each, one event a row, with the source line where it can be read.

use std::io::{self, Write};

use selvedge_events::ThreadIx;
use selvedge_trace::{Event, Process};

use crate::names::Names;
use crate::sheet::{EventLine, Line, Row, Shared, lines};
use crate::view::printable;

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
    let mut table = Table { threads, width, out };
    let title = |thread: &ThreadIx| {
        let path = process.thread(*thread).map(|thread| thread.path.clone()).unwrap_or_default();
        printable(&format!("{} ({path})", names.thread(*thread)))
    };
    table.row(if process.is_controlled() { "#" } else { "ns" }, &threads.iter().map(title).collect::<Vec<_>>())?;
    table.rule()?;
    lines(names, shared, threads, options.rows, row, &mut |line| table.line(&line))
}

struct Table<'a> {
    threads: &'a [ThreadIx],
    width: usize,
    out: &'a mut dyn Write,
}

impl Table<'_> {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        match line {
            Line::Event(event) => self.event(event),
            Line::Own(thread, count) => self.cell("", *thread, &format!("… {count} of its own")),
            Line::Skipped(1) => writeln!(self.out, "         … 1 event"),
            Line::Skipped(count) => writeln!(self.out, "         … {count} events"),
            Line::More(left) => {
                writeln!(self.out, "… and {left} more events; `selvedge trace` prints them all")
            }
        }
    }

    fn event(&mut self, event: &EventLine) -> io::Result<()> {
        let what = match event.object.as_str() {
            "" if event.detail.is_empty() => event.op.to_owned(),
            "" => format!("{} {}", event.op, event.detail),
            name => format!("{} {name}{}", event.op, event.value),
        };
        let mark = match event.row {
            Row::Marked => "> ",
            _ if event.is_timed => "",
            _ => "~",
        };
        self.cell(&format!("{mark}{}", event.at), event.thread, &what)?;
        // The source line below what it does.
        match &event.snippet {
            Some((line, snippet)) => self.cell("", event.thread, &format!("  {line}: {snippet}")),
            None => Ok(()),
        }
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
