//! The part of a run under control that explains how it failed: the events around its switches and its last ones, in
//! columns. What lies between is counted.

use std::collections::BTreeSet;
use std::io::{self, Write};

use selvedge_events::ThreadIx;
use selvedge_trace::{Event, Process};

use crate::columns::{ColumnOptions, draw};
use crate::names::Names;
use crate::sheet::{Row, Shared};

/// Which part.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// Numbers of events where threads were switched: `critical::switch_numbers`.
    pub switches: Vec<u64>,
    /// Numbers of events that are to stand out, such as those of the critical pair.
    pub marks: Vec<u64>,
    /// Events shown on both sides of each of these.
    pub around: usize,
    /// Events shown from the end.
    pub last: usize,
}

impl Default for Excerpt {
    fn default() -> Excerpt {
        Excerpt { switches: Vec::new(), marks: Vec::new(), around: 3, last: 8 }
    }
}

/// Threads that share a screen.
const MAX_THREADS: usize = 6;

/// Writes the excerpt. Events that touch nothing of another thread's do not count.
pub fn write_interleaving(
    process: &Process,
    excerpt: &Excerpt,
    options: ColumnOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shared = Shared::of(process);
    let chosen = Chosen::of(process, &shared, excerpt);
    draw(&Names::new(process), &shared, &chosen.threads, options, &|event| chosen.row(process, event), out)
}

/// The events of an excerpt.
pub(crate) struct Chosen<'a> {
    excerpt: &'a Excerpt,
    /// Their numbers.
    shown: BTreeSet<u64>,
    /// Their threads, as many as share a screen.
    pub(crate) threads: Vec<ThreadIx>,
}

impl<'a> Chosen<'a> {
    pub(crate) fn of(process: &Process, shared: &Shared, excerpt: &'a Excerpt) -> Chosen<'a> {
        let matters: Vec<(u64, ThreadIx)> = process
            .events()
            .filter(|event| shared.matters(process, event))
            .map(|event| (process.number(event.time), event.thread))
            .collect();
        let mut shown: BTreeSet<u64> = BTreeSet::new();
        let mut threads: Vec<ThreadIx> = Vec::new();
        let wanted = excerpt.switches.iter().chain(&excerpt.marks);
        let near = wanted.map(|number| matters.partition_point(|(at, _)| at < number));
        let windows = near.map(|at| at.saturating_sub(excerpt.around)..at.saturating_add(excerpt.around));
        for window in windows.chain(std::iter::once(matters.len().saturating_sub(excerpt.last)..matters.len())) {
            let window = window.start..window.end.min(matters.len());
            for (number, thread) in matters.get(window).unwrap_or(&[]) {
                shown.insert(*number);
                if !threads.contains(thread) {
                    threads.push(*thread);
                }
            }
        }
        threads.sort_unstable();
        threads.truncate(MAX_THREADS);
        Chosen { excerpt, shown, threads }
    }

    /// What becomes of an event.
    pub(crate) fn row(&self, process: &Process, event: &Event) -> Row {
        match process.number(event.time) {
            number if self.excerpt.marks.contains(&number) => Row::Marked,
            number if self.shown.contains(&number) => Row::Plain,
            _ => Row::Out,
        }
    }
}
