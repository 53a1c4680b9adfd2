//! A predicted anomaly that was made to happen, told: what came between what, the interleaving, each event with its
//! values, locks and stack, why nothing keeps it from happening, what it did, and how to see it again.

use std::collections::BTreeSet;
use std::io::{self, Write};

use selvedge_events::ThreadIx;
use selvedge_events::hooks::Rw;
use selvedge_findings::{Access, Finding, Harm, Kind, Status};
use selvedge_trace::state::{Heap, Held, Locksets};
use selvedge_trace::{Event, EventBody, EventRef, Place, Process};

use crate::columns::ColumnOptions;
use crate::critical::Side;
use crate::fingerprint::of_accesses;
use crate::hang::write_stack;
use crate::interleaving::{Excerpt, write_interleaving};
use crate::names::{Names, Source};
use crate::values::Values;
use crate::view::printable;

/// What is known of an anomaly beside the trace that shows it.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// What sort of bug.
    pub kind: Kind,
    /// The pattern that it matches.
    pub pattern: &'a str,
    /// The relation that proved it before anything was run.
    pub proved: Option<&'a str>,
    /// Numbers of its events in the trace, in the order that goes wrong.
    pub numbers: &'a [u64],
    /// The last event, where the run failed before it could come: whose, and where.
    pub never: Option<(ThreadIx, Place)>,
    /// What it did.
    pub harm: Harm,
    /// The same in the words of the run.
    pub harm_words: Option<&'a str>,
}

/// An anomaly with its names.
#[derive(Debug)]
pub struct Anomaly<'a> {
    told: Told<'a>,
    sides: Vec<Taken>,
}

/// An event of an anomaly, and what held when it happened.
#[derive(Debug)]
struct Taken {
    side: Side,
    /// `None` where it never came.
    number: Option<u64>,
    /// Locks held: name, where each was taken, and whether it is shared with others.
    locks: Vec<(String, Option<Source>, u64)>,
    value: String,
}

impl Taken {
    fn access(&self) -> Access {
        let holds = self.locks.iter().map(|(name, source, _)| selvedge_findings::Held {
            lock: name.clone(),
            taken: source.as_ref().map(Source::brief),
        });
        let value = Some(self.value.trim().to_owned()).filter(|value| !value.is_empty());
        Access { value, holds: holds.collect(), ..self.side.access() }
    }
}

impl<'a> Anomaly<'a> {
    /// Finds the events in the trace of the run that shows them. `None` where one is not there.
    pub fn of(names: &Names<'_>, told: Told<'a>) -> Option<Anomaly<'a>> {
        let process = names.process();
        let values = Values::of(process);
        let (mut heap, mut locksets) = (Heap::default(), Locksets::default());
        let mut found: Vec<Taken> = Vec::new();
        for event in process.events() {
            let number = process.number(event.time);
            // A freed block must still be named at its `free`.
            let freed = matches!(event.body, EventBody::Free { .. });
            if !freed {
                heap.apply(&event);
            }
            if told.numbers.contains(&number) {
                let held = locksets.held(event.thread).iter();
                let locks = held.map(|held| lock(names, &heap, held)).collect();
                let writes = process.access(&event).is_none_or(|access| access.rw != Rw::Read);
                let side = Side::of(names, &heap, event);
                found.push(Taken { side, number: Some(number), locks, value: values.text(number, writes) });
            }
            if freed {
                heap.apply(&event);
            }
            locksets.apply(&event);
        }
        let at = |number: &u64| found.iter().position(|taken| taken.number == Some(*number));
        let order: Option<Vec<usize>> = told.numbers.iter().map(at).collect();
        let mut slots: Vec<Option<Taken>> = found.into_iter().map(Some).collect();
        let sides: Option<Vec<Taken>> = order?.into_iter().map(|at| slots.get_mut(at).and_then(Option::take)).collect();
        let mut sides = sides?;
        if let Some((thread, place)) = told.never {
            // Of several variables nobody knows which it would have been.
            let one = told.kind != Kind::AtomicSetViolation;
            let variable = sides.first().filter(|_| one).and_then(|taken| taken.side.variable.clone());
            let side = Side::never(names, thread, place, access_at(process, place), variable);
            sides.push(Taken { side, number: None, locks: Vec::new(), value: String::new() });
        }
        Some(Anomaly { told, sides: Some(sides).filter(|sides| sides.len() > 1)? })
    }

    /// `atomicity violation in deposit / withdraw`: the functions sorted, so that one bug has one title.
    pub fn title(&self) -> String {
        let function = |taken: &Taken| taken.side.own().and_then(|source| source.function.clone());
        let functions: BTreeSet<String> = self.sides.iter().filter_map(function).collect();
        let functions: Vec<String> = functions.into_iter().collect();
        match functions.as_slice() {
            [] => self.told.kind.words().to_owned(),
            [one] => format!("{} in {one} / {one}", self.told.kind.words()),
            more => format!("{} in {}", self.told.kind.words(), more.join(" / ")),
        }
    }

    /// The finding for programs to read, from the trace that shows it.
    pub fn finding(&self, process: &Process) -> Finding {
        let accesses: Vec<Access> = self.sides.iter().map(Taken::access).collect();
        let mut finding = Finding::new(of_accesses(self.told.kind, &accesses), self.told.kind, accesses);
        finding.status = Status::Confirmed;
        finding.harm = self.told.harm;
        finding.proved = self.told.proved.map(str::to_owned);
        finding.pattern = Some(self.told.pattern.to_owned());
        finding.gist = Some(self.sentence());
        finding.why = Some(self.why(process));
        finding
    }

    /// What goes wrong, in one sentence.
    pub fn sentence(&self) -> String {
        let variable = |taken: &Taken| {
            taken.side.variable.as_ref().map_or_else(|| "it".to_owned(), |variable| format!("`{}`", variable.name))
        };
        let short = |taken: &Taken| format!("{} ({})", taken.side.op_in_words(), taken.side.brief());
        // A name in quotes and an apostrophe read badly together.
        let whose = |taken: &Taken| match taken.side.name.strip_suffix('\'').and_then(|name| name.split_once(" '")) {
            Some((number, name)) => format!("{number} ({name})"),
            None => taken.side.name.clone(),
        };
        match (self.told.kind, self.sides.as_slice()) {
            (Kind::DataRace | Kind::OrderViolation, [one, two]) if two.number.is_none() => format!(
                "{}'s {} of {} comes before {}'s {}, which never comes: the run fails first.",
                whose(one),
                short(one),
                variable(one),
                whose(two),
                short(two)
            ),
            (Kind::DataRace, [one, two]) => format!(
                "{}'s {} and {}'s {} of {} happen side by side: nothing orders them.",
                whose(one),
                short(one),
                whose(two),
                short(two),
                variable(two)
            ),
            (Kind::OrderViolation, [one, two]) => format!(
                "{}'s {} of {} comes before {}'s {}; in the recorded run it came after.",
                whose(one),
                short(one),
                variable(one),
                whose(two),
                short(two)
            ),
            (_, [before, between @ .., after]) if before.side.thread == after.side.thread && !between.is_empty() => {
                let middle: Vec<String> = between
                    .iter()
                    .map(|taken| format!("{}'s {} of {}", whose(taken), short(taken), variable(taken)))
                    .collect();
                let come = if middle.len() == 1 { "comes" } else { "come" };
                let (one, two) = (variable(before), variable(after));
                let ends = match one == two {
                    true => format!("{} and {} of it", short(before), short(after)),
                    false => format!("{} of {one} and {} of {two}", short(before), short(after)),
                };
                format!("{} {come} between {}'s {ends}.", middle.join(" and "), whose(before))
            }
            (_, sides) => {
                let all: Vec<String> = sides
                    .iter()
                    .map(|taken| format!("{}'s {} of {}", whose(taken), short(taken), variable(taken)))
                    .collect();
                format!("In this order: {}.", all.join(", then "))
            }
        }
    }

    /// Why nothing keeps it from happening.
    fn why(&self, process: &Process) -> String {
        let (Some(first), Some(last)) = (self.sides.first(), self.sides.last()) else { return String::new() };
        if first.side.thread == last.side.thread {
            let held_through = |lock: &&(String, Option<Source>, u64)| !given(process, first, last, lock.2);
            return match (first.locks.iter().find(held_through), first.locks.first()) {
                (Some((name, ..)), _) => {
                    format!("`{name}` is held throughout, but not by the thread that comes between.")
                }
                (None, Some((name, ..))) => {
                    format!("`{name}` is held at the first access and given back before the last: the two are not one.")
                }
                (None, None) => "No lock is held from the first access to the last.".to_owned(),
            };
        }
        let common = first.locks.iter().find(|lock| last.locks.iter().any(|other| other.2 == lock.2));
        match common {
            Some((name, ..)) => {
                format!("`{name}` is held at both, which keeps them apart but says nothing of which comes first.")
            }
            None => "No lock is held at both, and no thread start or end, wake-up, barrier or atomic operation orders \
                     them."
                .to_owned(),
        }
    }

    /// Writes it in ThreadSanitizer's familiar shape; `lines` stand before the summary.
    pub fn write(
        &self,
        names: &Names<'_>,
        lines: &[String],
        options: ColumnOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rule = "==================";
        let process = names.process();
        writeln!(out, "{rule}\nWARNING: Selvedge: {}", printable(&self.title()))?;
        writeln!(out, "  {}\n", printable(&self.sentence()))?;
        let excerpt = Excerpt { marks: self.told.numbers.to_vec(), last: 0, ..Excerpt::default() };
        write_interleaving(process, &excerpt, options, out)?;
        for taken in &self.sides {
            let number = taken.number.map_or_else(|| "never done".to_owned(), |number| format!("event #{number}"));
            let variable = taken.side.variable.as_ref().map(|variable| format!(" `{}`", variable.name));
            let line = format!(
                "  Thread {}: {}{}{} ({number}), {}:",
                taken.side.name,
                taken.side.op_in_words(),
                variable.unwrap_or_default(),
                taken.value,
                holding(&taken.locks)
            );
            writeln!(out, "\n{}", printable(&line))?;
            write_stack(&taken.side.stack, out)?;
        }
        writeln!(out, "\n  {}", printable(&self.why(process)))?;
        match self.told.proved {
            Some(relation) => {
                writeln!(out, "  Predicted from a run that passed, proved possible ({relation}), and made to happen.")?
            }
            None => writeln!(out, "  Predicted from a run that passed, and made to happen.")?,
        }
        match self.told.harm_words {
            Some(words) => writeln!(out, "  Harm: {}", printable(words))?,
            None => writeln!(out, "  Harm: none seen in the runs that showed it.")?,
        }
        for line in lines {
            writeln!(out, "  {line}")?;
        }
        let place = self.sides.first().map_or_else(String::new, |taken| taken.side.brief());
        writeln!(out, "SUMMARY: Selvedge: {} at {place}\n{rule}", printable(&self.title()))
    }
}

/// Whether a lock was given back between two events of one thread.
fn given(process: &Process, first: &Taken, last: &Taken, lock: u64) -> bool {
    let number = |event: &Event| process.number(event.time);
    let (from, to) = (first.number.unwrap_or(0), last.number.unwrap_or(u64::MAX));
    process.thread_events(first.side.thread).filter(|event| (from..to).contains(&number(event))).any(
        |event| match event.body {
            EventBody::Release { lock: given, .. } => given.0 == lock,
            EventBody::WaitBegin { mutex, .. } => mutex.0 == lock,
            _ => false,
        },
    )
}

/// What the access at a place does.
fn access_at(process: &Process, place: Place) -> &'static str {
    let hook = match place {
        Place::Site(site) => process.site(site).and_then(|site| site.hook.get()),
        _ => None,
    };
    match hook.and_then(|hook| hook.access()).map(|(rw, _)| rw) {
        Some(Rw::Read) => "read",
        Some(Rw::Write) => "write",
        Some(Rw::ReadWrite) => "update",
        None => "access",
    }
}

fn lock(names: &Names<'_>, heap: &Heap, held: &Held) -> (String, Option<Source>, u64) {
    let EventRef { thread, index } = held.since;
    let taken = names.process().thread_events(thread).find(|event| event.index == index);
    let source = taken.and_then(|event| names.stack(event.place, event.context).into_iter().next());
    (names.variable(held.lock, heap), source, held.lock)
}

fn holding(locks: &[(String, Option<Source>, u64)]) -> String {
    if locks.is_empty() {
        return "holding no lock".to_owned();
    }
    let one = |(name, source, _): &(String, Option<Source>, u64)| match source {
        Some(source) => format!("`{name}` (taken at {})", source.brief()),
        None => format!("`{name}`"),
    };
    format!("holding {}", locks.iter().map(one).collect::<Vec<_>>().join(", "))
}
