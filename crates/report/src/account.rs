//! The account of a finding: what a run of its clip shows of it, kept for whoever draws it. The interleaving as lines of
//! threads side by side, and a timeline of events, lock spans and what lets what go on.
//!
//! Made from the trace of a run under control. Events that touch nothing of another thread's have no place in it; of long
//! runs those nearest to the finding are kept, and what was left out is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use selvedge_events::ThreadIx;
use selvedge_events::hooks::Rw;
use selvedge_findings::{Access, Finding, Harm, Kind};

use crate::interleaving::{Chosen, Excerpt};
use crate::names::Names;
use crate::sheet::{Line, Shared, lines};
use crate::timeline::{Item, STEP, items};
use crate::values::Values;
use crate::view::{Filter, printable, views};

/// How much of a run an account keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Lines of the interleaving.
    pub lines: usize,
    /// Events of the timeline.
    pub events: usize,
}

/// What a run shows of a finding.
#[derive(Clone, Debug)]
pub struct Account {
    /// The threads of the interleaving: number and name.
    pub(crate) columns: Vec<(u32, String)>,
    pub(crate) lines: Vec<Line>,
    /// What a thread was about to do when the run ended, or waits for; and which access of the finding that is.
    pub(crate) undone: Vec<(u32, String, usize)>,
    pub(crate) timeline: Timeline,
    /// Whether the events were found by their source lines, in a run in which they may not be the ones that were seen.
    pub(crate) by_lines: bool,
}

/// Events in the order of the run, with what connects them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Number and name, in order of their numbers.
    pub(crate) threads: Vec<(u32, String)>,
    pub(crate) events: Vec<Spot>,
    /// From which event to which.
    pub(crate) arrows: Vec<(usize, usize)>,
    pub(crate) locks: Vec<LockSpan>,
    /// Events that concern several threads and are left out.
    pub(crate) cut: u64,
    /// Events that concern one thread alone.
    pub(crate) own: u64,
}

/// An event of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) number: u64,
    pub(crate) thread: u32,
    /// `write balance`.
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) place: String,
    pub(crate) function: String,
    pub(crate) is_marked: bool,
    /// Events that were left out right before it.
    pub(crate) gap: u64,
}

/// A span in which a thread holds a lock, from one event to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockSpan {
    pub(crate) thread: u32,
    pub(crate) from: usize,
    /// The last event; `None` where it is never given back.
    pub(crate) to: Option<usize>,
    pub(crate) name: String,
}

impl Account {
    /// Reads the trace of a run of the finding's clip; threads were switched at `switches`.
    pub fn of(names: &Names<'_>, finding: &Finding, switches: &[u64], extent: Extent) -> Account {
        let process = names.process();
        let shared = Shared::of(process);
        let mut marks: Vec<u64> = finding.accesses.iter().filter_map(|access| access.number).collect();
        let by_lines = marks.is_empty();
        if by_lines {
            marks = by_source(names, finding);
        }
        let hangs = finding.harm == Harm::Hang || matches!(finding.kind, Kind::Deadlock | Kind::LostWakeup);
        // The deciding ones matter; of a long schedule not every other.
        let switches = if marks.is_empty() { switches.iter().copied().take(8).collect() } else { Vec::new() };
        let last = if hangs || marks.is_empty() { 8 } else { 0 };
        let excerpt = Excerpt { switches, marks, last, ..Excerpt::default() };
        let mut chosen = Chosen::of(process, &shared, &excerpt);
        let undone = undone(finding);
        for (thread, ..) in &undone {
            let thread = ThreadIx(*thread);
            if !chosen.threads.contains(&thread) && process.thread(thread).is_some() {
                chosen.threads.push(thread);
                chosen.threads.sort_unstable();
            }
        }
        let mut kept = Vec::new();
        let row = |event: &selvedge_trace::Event| chosen.row(process, event);
        let done: Result<(), Infallible> = lines(names, &shared, &chosen.threads, extent.lines, &row, &mut |line| {
            kept.push(line);
            Ok(())
        });
        let Ok(()) = done;
        let name = |thread: &ThreadIx| (thread.0, printable(&names.thread_in_words(*thread)));
        Account {
            columns: chosen.threads.iter().map(name).collect(),
            lines: kept,
            undone,
            timeline: Timeline::of(names, &shared, &excerpt, extent.events),
            by_lines,
        }
    }
}

/// What never came: what a thread waits for, or was about to do.
fn undone(finding: &Finding) -> Vec<(u32, String, usize)> {
    if finding.accesses.iter().all(|access| access.number.is_none()) && finding.harm != Harm::Hang {
        return Vec::new();
    }
    let never = finding.accesses.iter().enumerate().filter(|(_, access)| access.number.is_none());
    let text = |(at, access): (usize, &Access)| {
        let object = access.variable.as_deref().unwrap_or("");
        let what = match (access.op.as_str(), object) {
            ("join", _) => "waits for the end of another thread".to_owned(),
            ("lock" | "lock-shared" | "wait", object) if finding.harm == Harm::Hang => {
                format!("waits for {}", if object.is_empty() { "it" } else { object })
            }
            (op, object) => format!("never came to {} {object}", op.replace('-', " ")),
        };
        (access.thread, printable(what.trim_end()), at)
    };
    never.map(text).collect()
}

/// The two events of a run that are nearest to each other among those at the source lines of a finding's two accesses:
/// of different threads, on the same memory.
fn by_source(names: &Names<'_>, finding: &Finding) -> Vec<u64> {
    /// Events of one source line that are looked at.
    const MOST: usize = 2000;
    let [one, two] = finding.accesses.as_slice() else { return Vec::new() };
    let process = names.process();
    let filter = Filter::default();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for view in views(names, &filter) {
        let Some(touched) = process.access(&view.event) else { continue };
        let range = (touched.addr, touched.addr.saturating_add(touched.size.max(1)));
        let here = |access: &Access| {
            access.line.is_some() && access.line == view.source.line && access.file == view.source.file
        };
        let event = (process.number(view.event.time), view.event.thread, range, touched.rw != Rw::Read);
        for (access, found) in [(one, &mut first), (two, &mut second)] {
            if here(access) && found.len() < MOST {
                found.push(event);
            }
        }
    }
    let any_order = finding.kind == Kind::DataRace;
    let mut best: Option<(u64, u64)> = None;
    for a in &first {
        for b in &second {
            let meets = a.2.0 < b.2.1 && b.2.0 < a.2.1 && (a.3 || b.3) && a.1 != b.1;
            let nearer = best.is_none_or(|(x, y)| a.0.abs_diff(b.0) < x.abs_diff(y));
            if meets && nearer && (any_order || a.0 < b.0) {
                best = Some((a.0, b.0));
            }
        }
    }
    best.map(|(a, b)| vec![a.min(b), a.max(b)]).unwrap_or_default()
}

impl Timeline {
    fn of(names: &Names<'_>, shared: &Shared, excerpt: &Excerpt, most: usize) -> Timeline {
        let process = names.process();
        if !process.is_controlled() {
            return Timeline::default();
        }
        let all: Vec<u64> = process
            .events()
            .filter(|event| shared.matters(process, event))
            .map(|event| process.number(event.time))
            .collect();
        let kept = nearest(&all, excerpt, most);
        let mut timeline = Timeline {
            cut: (all.len() - kept.len()) as u64,
            own: process.summary().events.saturating_sub(all.len() as u64),
            ..Timeline::default()
        };
        let values = Values::of(process);
        let mut arrows: BTreeMap<u64, usize> = BTreeMap::new();
        let mut open: BTreeMap<u64, (u32, u64, String)> = BTreeMap::new();
        let mut spans: Vec<(u32, u64, Option<u64>, String)> = Vec::new();
        let mut skipped = 0;
        let filter = Filter::default();
        let done: Result<(), Infallible> = items(names, &filter, &mut |item| {
            match item {
                Item::Event { thread, at, name, args, from, to } => {
                    let number = at / STEP;
                    if kept.contains(&number) {
                        let here = timeline.events.len();
                        let arg = |wanted: &str| {
                            let found = args.iter().find(|(name, _)| *name == wanted);
                            found.map(|(_, value)| value.clone()).unwrap_or_default()
                        };
                        let writes = !name.starts_with("read") && !name.starts_with("atomic-load");
                        timeline.arrows.extend(from.and_then(|id| Some((*arrows.get(&id)?, here))));
                        if let Some(id) = to {
                            arrows.insert(id, here);
                        }
                        timeline.events.push(Spot {
                            number,
                            thread,
                            value: values.text(number, writes).trim().to_owned(),
                            place: brief(&arg("place")),
                            function: arg("function"),
                            is_marked: excerpt.marks.contains(&number),
                            gap: std::mem::take(&mut skipped),
                            what: in_words(&name),
                        });
                    } else if all.binary_search(&number).is_ok() {
                        skipped += 1;
                    }
                }
                Item::Taken { span, thread, at, name } => {
                    open.insert(span, (thread, at / STEP, name));
                }
                Item::Given { span, at, is_end, .. } => {
                    if let Some((thread, from, name)) = open.remove(&span) {
                        spans.push((thread, from, (!is_end).then_some(at / STEP), name));
                    }
                }
            }
            Ok(())
        });
        let Ok(()) = done;
        let last = process.summary().events;
        timeline.locks = spans.into_iter().filter_map(|span| timeline.span(span, last)).collect();
        timeline.locks.sort_by_key(|span| (span.thread, span.from));
        let shown: BTreeSet<u32> = timeline.events.iter().map(|event| event.thread).collect();
        let name = |thread: &u32| (*thread, printable(&names.thread_in_words(ThreadIx(*thread))));
        timeline.threads = shown.iter().map(name).collect();
        timeline
    }

    /// A lock span among the events that are kept.
    fn span(&self, (thread, from, to, name): (u32, u64, Option<u64>, String), last: u64) -> Option<LockSpan> {
        let at = |number: u64| self.events.partition_point(|event| event.number < number);
        let begin = at(from);
        let end = at(to.unwrap_or(last).saturating_add(1)).checked_sub(1)?;
        let name = name.strip_prefix("holds ").unwrap_or(&name).to_owned();
        (begin <= end && begin < self.events.len()).then(|| LockSpan { thread, from: begin, to: to.map(|_| end), name })
    }
}

/// `atomic-load x` as `atomic load x`.
fn in_words(name: &str) -> String {
    match name.split_once(' ') {
        Some((op, object)) => format!("{} {object}", op.replace('-', " ")),
        None => name.replace('-', " "),
    }
}

/// `FILE:LINE` without directories.
fn brief(place: &str) -> String {
    place.rsplit('/').next().unwrap_or(place).to_owned()
}

/// Of the events that matter, those nearest to the marks, the switches and the end.
fn nearest(all: &[u64], excerpt: &Excerpt, most: usize) -> BTreeSet<u64> {
    if all.len() <= most {
        return all.iter().copied().collect();
    }
    let anchors: Vec<usize> = match excerpt.marks.is_empty() && excerpt.switches.is_empty() {
        true => vec![all.len()],
        false => excerpt
            .marks
            .iter()
            .chain(&excerpt.switches)
            .map(|number| all.partition_point(|at| at < number))
            .chain((excerpt.last > 0).then_some(all.len()))
            .collect(),
    };
    let far = |at: usize| anchors.iter().map(|anchor| anchor.abs_diff(at)).min().unwrap_or(0);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| far(*at));
    order.into_iter().take(most).filter_map(|at| all.get(at).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_run_the_nearest_events_are_kept() {
        let all: Vec<u64> = (1..=100).collect();
        let excerpt = Excerpt { marks: vec![50], last: 0, ..Excerpt::default() };
        let kept: Vec<u64> = nearest(&all, &excerpt, 5).into_iter().collect();
        assert_eq!(kept, [48, 49, 50, 51, 52]);
        let ends: Vec<u64> = nearest(&all, &Excerpt { last: 8, ..Excerpt::default() }, 3).into_iter().collect();
        assert_eq!(ends, [98, 99, 100]);
        assert_eq!(nearest(&all, &excerpt, 100).len(), 100);
    }

    #[test]
    fn what_never_came_is_said_by_what_it_is() {
        let access = |op: &str, number| Access {
            thread: 1,
            op: op.to_owned(),
            variable: Some("b".to_owned()),
            number,
            ..Access::default()
        };
        let mut finding = Finding::new("f".into(), Kind::Deadlock, vec![access("lock", Some(3)), access("lock", None)]);
        finding.harm = Harm::Hang;
        assert_eq!(undone(&finding), [(1, "waits for b".to_owned(), 1)]);
        finding.harm = Harm::Crash;
        finding.accesses = vec![access("write", Some(3)), access("read", None)];
        assert_eq!(undone(&finding), [(1, "never came to read b".to_owned(), 1)]);
        finding.accesses = vec![access("write", None), access("read", None)];
        assert!(undone(&finding).is_empty(), "nothing is known of a run");
    }
}
