//! The critical pair: the two events whose order decides between a run that fails and one that passes.
//!
//! Minimising ends with two schedules that differ in one switch. The switch holds one operation of a thread back
//! and lets others go ahead. [`Deciding`] says that in terms of the failing run's trace, whose events are numbered;
//! [`CriticalPair`] is the operation that was held back and the one of those ahead of it that matters: best one
//! that comes between two accesses of the thread and cannot be moved out from there (the unserializable triples
//! of one variable), else the first that conflicts, else the first.
//!
//! Cannot see: which variable an operation would have touched that the failing run never came to, unless it was
//! met at the same site before; and conflicts through memory that was not armed.

mod deciding;

use std::io::{self, Write};

use selvedge_events::hooks::Rw;
use selvedge_events::{Mode, ThreadIx};
use selvedge_findings::{Access, Finding, Harm, Kind, Status};
use selvedge_trace::model::{MemoryAccess, verb};
use selvedge_trace::state::Heap;
use selvedge_trace::{ContextId, Event, EventBody, Place, Process};

pub use deciding::{Deciding, switch_numbers};

use crate::fingerprint::{Fingerprint, place};
use crate::hang::write_stack;
use crate::names::{Names, Source, Variable};
use crate::view::{printable, view};

/// The events whose order decides.
#[derive(Clone, Debug)]
pub struct CriticalPair {
    /// What was held back.
    pub delayed: Side,
    /// What went ahead of it.
    pub ahead: Side,
    /// What the thread that was held back did to the same memory before, where the other comes between.
    pub earlier: Option<Side>,
    /// Whether the two conflict.
    pub conflicts: bool,
}

/// One event of a pair.
#[derive(Clone, Debug)]
pub struct Side {
    /// Whose.
    pub thread: ThreadIx,
    /// What the thread is called in a sentence.
    pub name: String,
    /// Its number; `None` for an operation that was never done.
    pub number: Option<u64>,
    /// What it does: `read`, `write`, `lock`, …
    pub op: String,
    /// To what.
    pub variable: Option<Variable>,
    /// The calls that led there, innermost first.
    pub stack: Vec<Source>,
}

impl CriticalPair {
    /// Finds the pair in the trace of the failing run. `None` where nothing went ahead.
    pub fn of(names: &Names<'_>, deciding: &Deciding) -> Option<CriticalPair> {
        let found = Search::run(names, deciding);
        let delayed = found.delayed?;
        let target = found.target;
        let triple = target.as_ref().zip(found.earlier.as_ref()).and_then(|(target, (before, earlier))| {
            let between = |(touch, _): &&(Touch, Side)| unserializable(before, touch, target);
            let (_, ahead) = found.ahead.iter().find(between)?;
            Some((ahead.clone(), earlier.clone()))
        });
        if let Some((ahead, earlier)) = triple {
            return Some(CriticalPair { delayed, ahead, earlier: Some(earlier), conflicts: true });
        }
        let conflict = target.and_then(|target| found.ahead.iter().find(|(touch, _)| touch.conflicts(&target)));
        let ahead = conflict.map(|(_, side)| side.clone()).or(found.first)?;
        Some(CriticalPair { delayed, ahead, earlier: None, conflicts: conflict.is_some() })
    }

    /// What decides, in one sentence.
    pub fn sentence(&self) -> String {
        let (delayed, ahead) = (&self.delayed, &self.ahead);
        let first = format!("In the failing run {}'s {}", ahead.name, ahead.in_words(true));
        if let (Some(earlier), Some(_)) = (&self.earlier, delayed.number) {
            let (one, two) = (earlier.op_in_words(), delayed.op_in_words());
            let places = format!("{} ({}) and {two} ({})", one, earlier.brief(), delayed.brief());
            return format!("{first} comes between {}'s {places} of it; in the passing run it does not.", delayed.name);
        }
        let second = format!("{}'s {}", delayed.name, delayed.in_words(!self.conflicts));
        match delayed.number {
            Some(_) => format!("{first} comes before {second}; in the passing run {} goes first.", delayed.name),
            None => format!("{first} comes, and {second} never does; in the passing run {} goes first.", delayed.name),
        }
    }

    /// The numbers of its events.
    pub fn numbers(&self) -> Vec<u64> {
        self.earlier.iter().chain([&self.ahead, &self.delayed]).filter_map(|side| side.number).collect()
    }

    /// The pair as a confirmed finding, with this harm.
    pub fn finding(&self, harm: Harm) -> Finding {
        let kind = if self.earlier.is_some() { Kind::AtomicityViolation } else { Kind::OrderViolation };
        let sides = || self.earlier.iter().chain([&self.ahead, &self.delayed]);
        let mut print = Fingerprint::new(if self.earlier.is_some() { "atomicity" } else { "order" });
        for side in sides() {
            let variable = side.variable.as_ref().filter(|variable| variable.is_lasting);
            print.add(&side.op);
            print.add(&place(side.own()));
            print.add(variable.map_or("", |variable| &variable.name));
        }
        let mut finding = Finding::new(print.id(), kind, sides().map(Side::access).collect());
        finding.status = Status::Confirmed;
        finding.harm = harm;
        finding.gist = Some(self.sentence());
        finding
    }
}

impl Side {
    pub(crate) fn of(names: &Names<'_>, heap: &Heap, event: Event) -> Side {
        let process = names.process();
        let seen = view(names, heap, event);
        let memory = process.access(&event).map(|access| access.addr).or_else(|| object(&event));
        let variable = match memory {
            Some(addr) => Some(names.variable_at(addr, heap)),
            None => seen.object.map(|(name, _)| Variable { name, is_lasting: false }),
        };
        Side {
            thread: event.thread,
            name: names.thread_in_words(event.thread),
            number: Some(process.number(event.time)),
            op: verb(process, &event).to_owned(),
            variable,
            stack: names.stack(event.place, event.context),
        }
    }

    /// An access that would have come here and never did.
    pub(crate) fn never(
        names: &Names<'_>,
        thread: ThreadIx,
        place: Place,
        op: &str,
        variable: Option<Variable>,
    ) -> Side {
        let context = names.process().thread(thread).map_or(ContextId::ROOT, |thread| thread.context);
        let name = names.thread_in_words(thread);
        Side { thread, name, number: None, op: op.to_owned(), variable, stack: names.stack(place, context) }
    }

    /// An operation that was never done.
    fn undone(names: &Names<'_>, deciding: &Deciding, variable: Option<Variable>) -> Option<Side> {
        let (kind, site) = deciding.operation?;
        let thread = names.process().thread(deciding.delayed);
        let context = thread.map_or(ContextId::ROOT, |thread| thread.context);
        Some(Side {
            thread: deciding.delayed,
            name: names.thread_in_words(deciding.delayed),
            number: None,
            op: kind.name().to_owned(),
            variable,
            stack: site.map(|site| names.stack(Place::Site(site), context)).unwrap_or_default(),
        })
    }

    pub(crate) fn op_in_words(&self) -> String {
        self.op.replace('-', " ")
    }

    pub(crate) fn own(&self) -> Option<&Source> {
        Source::of_stack(&self.stack)
    }

    pub(crate) fn brief(&self) -> String {
        self.own().map_or_else(|| "?".to_owned(), Source::brief)
    }

    /// "write of `balance` at bank.c:10".
    fn in_words(&self, with_variable: bool) -> String {
        let mut text = self.op_in_words();
        if let Some(variable) = self.variable.as_ref().filter(|_| with_variable) {
            text.push_str(&format!(" of `{}`", variable.name));
        }
        if !self.stack.is_empty() {
            text.push_str(&format!(" at {}", self.brief()));
        }
        text
    }

    pub(crate) fn access(&self) -> Access {
        Access {
            thread: self.thread.0,
            op: self.op.clone(),
            variable: self.variable.as_ref().map(|variable| variable.name.clone()),
            number: self.number,
            ..Source::access_of(&self.stack)
        }
    }
}

/// Writes a pair: the sentence, then each event with its stack.
pub fn write_pair(pair: &CriticalPair, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {}", printable(&pair.sentence()))?;
    let sides = pair.earlier.iter().chain([&pair.ahead, &pair.delayed]);
    for side in sides {
        let number = side.number.map_or_else(|| "never done".to_owned(), |number| format!("event #{number}"));
        let variable = side.variable.as_ref().map(|variable| format!(" `{}`", variable.name)).unwrap_or_default();
        writeln!(out)?;
        let line = format!("  Thread {}: {}{variable} ({number}):", side.name, side.op_in_words());
        writeln!(out, "{}", printable(&line))?;
        write_stack(&side.stack, out)?;
    }
    Ok(())
}

/// What an event does, for telling conflicts.
#[derive(Clone, Copy, Debug)]
struct Touch {
    range: (u64, u64),
    changes: bool,
}

impl Touch {
    fn of(process: &Process, event: &Event) -> Option<Touch> {
        if let Some(MemoryAccess { addr, size, rw, .. }) = process.access(event) {
            return Some(Touch { range: (addr, addr.saturating_add(size.max(1))), changes: rw != Rw::Read });
        }
        let object = object(event)?;
        let looks = match event.body {
            EventBody::Acquire { how, .. } => how.mode == Mode::Shared,
            _ => false,
        };
        Some(Touch { range: (object, object + 1), changes: !looks })
    }

    fn meets(&self, other: &Touch) -> bool {
        self.range.0 < other.range.1 && other.range.0 < self.range.1
    }

    fn conflicts(&self, other: &Touch) -> bool {
        self.meets(other) && (self.changes || other.changes)
    }
}

/// Whether what comes between two accesses of one thread cannot be moved out from there.
fn unserializable(before: &Touch, between: &Touch, after: &Touch) -> bool {
    // A write between, unless both around it write and hide it; or a read of something half done.
    let hidden = before.changes && after.changes;
    before.meets(after) && between.meets(after) && between.meets(before) && (between.changes != hidden)
}

/// What a synchronisation is about.
pub(crate) fn object(event: &Event) -> Option<u64> {
    use EventBody as B;
    Some(match event.body {
        B::Acquire { lock, .. } | B::Release { lock, .. } => lock.0,
        B::WaitBegin { cond, .. } | B::WaitEnd { cond, .. } | B::Signal { cond } | B::Broadcast { cond } => cond.0,
        B::BarrierEnter { barrier } | B::BarrierLeave { barrier, .. } => barrier.0,
        B::SemPost { semaphore } | B::SemWait { semaphore, .. } => semaphore.0,
        B::FutexWaitBegin { addr, .. } | B::FutexWaitEnd { addr, .. } | B::FutexWake { addr, .. } => addr.0,
        B::Destroy { object, .. } | B::Once { object } => object.0,
        B::Free { addr } | B::Alloc { addr, .. } => addr.0,
        _ => return None,
    })
}

/// Most events that went ahead that are looked at with their names.
const MOST_AHEAD: usize = 10_000;

/// What one pass over the trace finds.
#[derive(Default)]
struct Search {
    delayed: Option<Side>,
    /// What the delayed operation touches.
    target: Option<Touch>,
    /// The last access of the delayed thread to that before.
    earlier: Option<(Touch, Side)>,
    /// What went ahead and touches something.
    ahead: Vec<(Touch, Side)>,
    /// The first that went ahead.
    first: Option<Side>,
}

impl Search {
    fn run(names: &Names<'_>, deciding: &Deciding) -> Search {
        let process = names.process();
        let number = |event: &Event| process.number(event.time);
        let mut found = Search::default();
        let delayed = deciding
            .event
            .and_then(|wanted| process.thread_events(deciding.delayed).find(|event| number(event) == wanted));
        let site = deciding.operation.and_then(|(_, site)| site);
        // What was never done would have touched what was touched there before.
        let model =
            delayed.or_else(|| process.events().filter(|event| event.site().is_some() && event.site() == site).last());
        found.target = model.and_then(|event| Touch::of(process, &event));
        let wanted = model.map(|event| event.id());
        let mut heap = Heap::default();
        for event in process.events() {
            let freed = matches!(event.body, EventBody::Free { .. });
            if !freed {
                heap.apply(&event);
            }
            let touch = Touch::of(process, &event);
            if wanted == Some(event.id()) {
                let side = Side::of(names, &heap, event);
                found.delayed = match delayed {
                    Some(_) => Some(side),
                    None => Side::undone(names, deciding, side.variable),
                };
            }
            let at = number(&event);
            let same = |touch: &Touch| found.target.as_ref().is_some_and(|target| target.meets(touch));
            if event.thread == deciding.delayed {
                if let Some(touch) = touch.filter(|touch| same(touch) && at < deciding.ahead.start) {
                    found.earlier = process.access(&event).map(|_| (touch, Side::of(names, &heap, event)));
                }
            } else if deciding.ahead.contains(&at) {
                let of_note =
                    touch.is_some() && !matches!(event.body, EventBody::Alloc { .. } | EventBody::Free { .. });
                if of_note && found.first.is_none() {
                    found.first = Some(Side::of(names, &heap, event));
                }
                if let Some(touch) = touch.filter(|touch| same(touch) && found.ahead.len() < MOST_AHEAD) {
                    found.ahead.push((touch, Side::of(names, &heap, event)));
                }
            }
            if freed {
                heap.apply(&event);
            }
        }
        if found.delayed.is_none() {
            found.delayed = Side::undone(names, deciding, None);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unserializable_triples_are_the_four() {
        let touch = |changes| Touch { range: (8, 12), changes };
        let wrong: Vec<(bool, bool, bool)> = (0..8_u8)
            .map(|bits| (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0))
            .filter(|(a, b, c)| unserializable(&touch(*a), &touch(*b), &touch(*c)))
            .collect();
        let (r, w) = (false, true);
        assert_eq!(wrong, [(r, w, r), (r, w, w), (w, r, w), (w, w, r)]);
        let elsewhere = Touch { range: (12, 16), changes: true };
        assert!(!unserializable(&touch(r), &elsewhere, &touch(r)));
    }
}
