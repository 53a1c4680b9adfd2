//! A hang in ThreadSanitizer's familiar shape: a `WARNING:` line, paragraphs with stacks, a `SUMMARY:` line.

use std::io::{self, Write};

use selvedge_events::ThreadIx;

use super::{Because, BlockedThread, Hang, HangKind, HeldLock, Lost, ThreadState, Wait, WaitKind};
use crate::names::Source;
use crate::view::{printable, short_name};

const RULE: &str = "==================";

/// Writes a hang of the process with this number. `more` are lines to stand before the summary, such as the command
/// that makes it happen again.
pub fn write_hang(hang: &Hang, pid: u32, more: &[String], out: &mut dyn Write) -> io::Result<()> {
    let (title, word) = hang.title();
    writeln!(out, "{RULE}")?;
    line(out, &format!("WARNING: Selvedge: {title} (pid={pid})"))?;
    line(out, &format!("  {}", hang.gist()))?;
    let told = hang.told();
    for index in &told {
        if let Some(thread) = hang.thread(*index) {
            writeln!(out)?;
            write_thread(hang, thread, out)?;
        }
    }
    if let Some(Lost { sent: Some((sender, stack)), waiter, .. }) = &hang.lost {
        let what = hang.thread(*waiter).and_then(BlockedThread::wait).map(woke).unwrap_or_default();
        let (sender, waiter) = (hang.name(*sender), hang.name(*waiter));
        writeln!(out)?;
        line(out, &format!("  Thread {sender} {what}{}, before {waiter} waited:", at(stack)))?;
        write_stack(stack, out)?;
    }
    let rest = hang.threads.iter().filter(|thread| !told.contains(&thread.thread));
    for thread in rest.filter(|thread| thread.state != ThreadState::Ended) {
        writeln!(out)?;
        write_thread(hang, thread, out)?;
    }
    for index in &told {
        if let Some((parent, stack)) = hang.thread(*index).and_then(|thread| thread.created.as_ref()) {
            writeln!(out)?;
            let (name, parent) = (hang.name(*index), hang.name(*parent));
            line(out, &format!("  Thread {name} created by {parent} at:"))?;
            write_stack(stack, out)?;
        }
    }
    writeln!(out)?;
    for text in more {
        line(out, &format!("  {text}"))?;
    }
    line(out, &format!("SUMMARY: Selvedge: {word} {}", hang.places().join(" and ")))?;
    writeln!(out, "{RULE}")
}

fn line(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable(text.trim_end()))
}

/// Writes a stack as ThreadSanitizer does.
pub(crate) fn write_stack(stack: &[Source], out: &mut dyn Write) -> io::Result<()> {
    for (number, frame) in stack.iter().enumerate() {
        let function = short_name(frame.function.as_deref().unwrap_or("??"));
        line(out, &format!("    #{number} {function} {}", frame.place()))?;
    }
    if stack.is_empty() {
        line(out, "    (no stack: the trace does not say)")?;
    }
    Ok(())
}

fn at(stack: &[Source]) -> String {
    Source::of_stack(stack).map(|source| format!(" at {}", source.in_words())).unwrap_or_default()
}

/// `FILE:LINE in FUNCTION`, with directories.
fn full(source: &Source) -> String {
    let function = source.function.as_deref().map(|function| format!(" in {function}"));
    format!("{}{}", source.line_place(), function.unwrap_or_default())
}

impl Hang {
    fn name(&self, index: ThreadIx) -> String {
        self.thread(index).map_or_else(|| format!("T{index}"), |thread| thread.name.clone())
    }

    fn names(&self, threads: &[ThreadIx]) -> String {
        let named: Vec<String> = threads.iter().map(|index| self.name(*index)).collect();
        match named.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            Some((last, _)) => last.clone(),
            None => String::new(),
        }
    }

    /// What the hang is called in its first line, and in its last.
    fn title(&self) -> (String, &'static str) {
        let because = |wanted: fn(&Because) -> bool| self.cycle.iter().any(|link| wanted(&link.next));
        match self.kind {
            HangKind::Deadlock => {
                let sort = if because(|next| *next == Because::Wakes) {
                    "a lock is held during a wait"
                } else if self.cycle.len() == 1 && because(|next| *next == Because::Ends) {
                    "a thread joins itself"
                } else if self.cycle.len() == 1 {
                    "a thread waits for a lock that it holds"
                } else if because(|next| *next == Because::Ends) {
                    "threads wait for each other"
                } else {
                    "lock-order inversion"
                };
                (format!("deadlock ({sort})"), "deadlock")
            }
            HangKind::LostWakeup => {
                let waiter = self.lost.as_ref().and_then(|lost| self.thread(lost.waiter));
                let object = waiter.and_then(BlockedThread::wait).map(object).unwrap_or_default();
                (format!("lost wake-up of {object}"), "lost-wakeup")
            }
            HangKind::Stuck if self.kept_from().is_some() => ("hang (a lock is never given back)".to_owned(), "hang"),
            HangKind::Stuck => ("hang".to_owned(), "hang"),
        }
    }

    /// What sort of hang it is, and the hang in one sentence.
    pub(super) fn in_words(&self) -> String {
        let (title, _) = self.title();
        let (first, rest) = title.split_at(title.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}. {}.", first.to_uppercase(), self.gist().trim_end_matches(['.', ':']))
    }

    /// The hang in one sentence.
    fn gist(&self) -> String {
        match (self.kind, &self.lost) {
            (HangKind::Deadlock, _) => self.circle(),
            (HangKind::LostWakeup, Some(lost)) => self.why_lost(lost),
            _ if let Some((waiter, ender)) = self.kept_from() => {
                let waits = waiter.wait().map(phrase).unwrap_or_default();
                format!("{} {waits}, which {} took and has ended with", waiter.name, ender.name)
            }
            _ if self.sleepers() > 1 => format!(
                "{} threads sleep, each until another one wakes it, and nobody is left who could: most likely they hold locks that the \
                 others want. Who holds which cannot be seen where a lock's word is not the one that is slept on (parking_lot's). What every \
                 thread does:",
                self.sleepers()
            ),
            _ => {
                let running = self.threads.iter().any(|thread| thread.state == ThreadState::Running);
                let what = if running { "The process does not end" } else { "No thread can go on" };
                format!("{what}, and nothing that was recorded shows why. What every thread does:")
            }
        }
    }

    /// A deadlock's circle, drawn in words.
    fn circle(&self) -> String {
        let only_locks = self.cycle.iter().all(|link| matches!(link.next, Because::Holds(_)));
        if let ([link], true) = (self.cycle.as_slice(), only_locks) {
            let wait = self.thread(link.thread).and_then(BlockedThread::wait).map(object).unwrap_or_default();
            let surely = self.surely(link);
            return format!("{} waits for {wait}, which it {surely}holds itself", self.name(link.thread));
        }
        let target = |link: &super::Link| self.thread(link.thread).and_then(BlockedThread::wait).map(name_of);
        let next = self.cycle.iter().cycle().skip(1);
        if only_locks {
            let mut text = String::new();
            for (number, (link, next)) in self.cycle.iter().zip(next).enumerate() {
                let wanted = target(link).unwrap_or_default();
                if number == 0 {
                    let held = self.cycle.last().and_then(target).unwrap_or_default();
                    text = format!("Cycle in lock order: T{}: {held}", link.thread);
                }
                text.push_str(&format!(" -> {wanted}"));
                if number + 1 < self.cycle.len() {
                    text.push_str(&format!(" ({}held by T{})", self.surely(link), next.thread));
                }
            }
            return text;
        }
        let part = |(link, next): (&super::Link, &super::Link)| {
            let waits = self.thread(link.thread).and_then(BlockedThread::wait).map(phrase).unwrap_or_default();
            let next = format!("T{}", next.thread);
            match link.next {
                Because::Holds(_) => format!("T{} {waits} ({}held by {next})", link.thread, self.surely(link)),
                Because::Ends => format!("T{} waits for the end of {next}", link.thread),
                Because::Wakes => format!("T{} {waits}, which {next} might signal", link.thread),
            }
        };
        format!("Cycle: {}", self.cycle.iter().zip(next).map(part).collect::<Vec<_>>().join(", "))
    }

    /// How sure it is that what a thread of the circle waits for is held by the next.
    fn surely(&self, link: &super::Link) -> &'static str {
        self.thread(link.thread).and_then(BlockedThread::wait).map_or("", surely)
    }

    fn why_lost(&self, lost: &Lost) -> String {
        let Some(wait) = self.thread(lost.waiter).and_then(BlockedThread::wait) else { return String::new() };
        let waiter = self.name(lost.waiter);
        match (&lost.sent, wait.what, lost.count) {
            (Some((sender, _)), ..) => {
                let sender = self.name(*sender);
                format!(
                    "{sender} {} when nobody waited; {waiter} has waited since, and nobody is left to wake it",
                    woke(wait)
                )
            }
            (None, WaitKind::Semaphore, count) => {
                format!("{waiter} {}: posted {}, and nobody is left to post again", phrase(wait), times(count))
            }
            (None, _, 0) => {
                format!("{waiter} {}, which nobody has ever woken, and nobody is left to do so", phrase(wait))
            }
            (None, _, count) => {
                format!("{waiter} {}: woken {} for others, and nobody is left to wake it", phrase(wait), times(count))
            }
        }
    }

    /// The threads that make up the hang, in its order.
    fn told(&self) -> Vec<ThreadIx> {
        match (&self.lost, self.kind) {
            (Some(lost), _) => vec![lost.waiter],
            (None, HangKind::Stuck) => self.kept_from().map(|(waiter, _)| waiter.thread).into_iter().collect(),
            _ => self.cycle.iter().map(|link| link.thread).collect(),
        }
    }

    /// The places for the summary line.
    fn places(&self) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        let told = self.told();
        let mut stacks: Vec<&[Source]> =
            told.iter().filter_map(|index| self.thread(*index)).map(|thread| thread.stack.as_slice()).collect();
        if told.is_empty() {
            let left = self.threads.iter().filter(|thread| thread.state != ThreadState::Ended);
            stacks.extend(left.map(|thread| thread.stack.as_slice()));
        }
        if let Some(Lost { sent: Some((_, stack)), .. }) = &self.lost {
            stacks.push(stack);
        }
        for stack in stacks {
            if let Some(place) = Source::of_stack(stack).map(full)
                && !places.contains(&place)
            {
                places.push(place);
            }
        }
        places
    }
}

/// Who holds a futex is never more than a presumption.
fn surely(wait: &Wait) -> &'static str {
    if wait.what == WaitKind::Futex { "presumably " } else { "" }
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

/// "lock `journal`".
fn object(wait: &Wait) -> String {
    let noun = match wait.what {
        WaitKind::Lock => "lock",
        WaitKind::ReadLock | WaitKind::WriteLock => "reader-writer lock",
        WaitKind::SpinLock => "spin lock",
        WaitKind::Initialisation => "the initialisation of",
        WaitKind::Condition => "condition",
        WaitKind::Semaphore => "semaphore",
        WaitKind::Barrier => "barrier",
        WaitKind::Futex => "futex",
        _ => "",
    };
    format!("{noun} {}", name_of(wait)).trim().to_owned()
}

/// "signalled condition `full`".
fn woke(wait: &Wait) -> String {
    let verb = if wait.what == WaitKind::Condition { "signalled" } else { "woke" };
    format!("{verb} {}", object(wait))
}

fn name_of(wait: &Wait) -> String {
    match (&wait.object, wait.thread) {
        (Some(thing), _) => format!("`{}`", thing.variable.name),
        (None, Some(thread)) => format!("the end of T{thread}"),
        (None, None) => String::new(),
    }
}

/// "waits for lock `journal`".
fn phrase(wait: &Wait) -> String {
    match wait.what {
        WaitKind::ReadLock => format!("waits to read under {}", object(wait)),
        WaitKind::WriteLock => format!("waits to write under {}", object(wait)),
        WaitKind::Barrier => match wait.others {
            0 => format!("waits alone at {}", object(wait)),
            1 => format!("waits with one other at {}", object(wait)),
            others => format!("waits with {others} others at {}", object(wait)),
        },
        WaitKind::Join if wait.thread.is_none() => {
            "waits for the end of a thread that the trace does not know".to_owned()
        }
        WaitKind::Sleep => format!("sleeps in {}", wait.function),
        WaitKind::Signal => format!("waits for a signal in {}", wait.function),
        WaitKind::Io(Some(descriptor)) => format!("is in {} on descriptor {descriptor}", wait.function),
        WaitKind::Io(None) | WaitKind::Other => format!("is in {}", wait.function),
        _ => format!("waits for {}", object(wait)),
    }
}

fn lock_noun(held: &HeldLock) -> String {
    use selvedge_events::{Mode, Primitive};
    let noun = match (held.primitive, held.mode) {
        _ if held.presumed => "futex",
        (Primitive::Rwlock, Mode::Shared) => "reader-writer lock (reading)",
        (Primitive::Rwlock, Mode::Exclusive) => "reader-writer lock (writing)",
        (Primitive::Spin, _) => "spin lock",
        (Primitive::Guard | Primitive::Once, _) => "the initialisation of",
        _ => "lock",
    };
    format!("{noun} `{}`", held.lock.variable.name)
}

fn write_thread(hang: &Hang, thread: &BlockedThread, out: &mut dyn Write) -> io::Result<()> {
    let name = &thread.name;
    let place = at(&thread.stack);
    let what = match &thread.state {
        ThreadState::Running => format!("runs{place}"),
        ThreadState::Ended => "has ended".to_owned(),
        ThreadState::Blocked(wait) => {
            let waits = match wait.thread {
                Some(target) => format!("waits for the end of {}", hang.name(target)),
                None => phrase(wait),
            };
            let others: Vec<ThreadIx> =
                wait.held_by.iter().copied().filter(|holder| *holder != thread.thread).collect();
            let ended = |index: &ThreadIx| hang.thread(*index).is_some_and(|thread| thread.state == ThreadState::Ended);
            let holders = match (wait.what, others.as_slice()) {
                (WaitKind::Join, _) => String::new(),
                _ if others.len() < wait.held_by.len() && others.is_empty() => {
                    format!(", which it {}holds itself", surely(wait))
                }
                (_, []) => String::new(),
                (_, [one]) if ended(one) => format!(", which {} took and never gave back", hang.name(*one)),
                (_, others) => format!(", {}held by {}", surely(wait), hang.names(others)),
            };
            format!("{waits}{place}{holders}")
        }
    };
    line(out, &format!("  Thread {name} {what}:"))?;
    write_stack(&thread.stack, out)?;
    for held in &thread.holds {
        let (surely, last) = if held.presumed { ("presumably ", "last ") } else { ("", "") };
        line(out, &format!("  It {surely}holds {}, {last}taken{}:", lock_noun(held), at(&held.stack)))?;
        write_stack(&held.stack, out)?;
    }
    // Locks that somebody took with him.
    let wait = thread.wait();
    let left = hang.threads.iter().filter(|other| other.state == ThreadState::Ended);
    for other in left.filter(|other| wait.is_some_and(|wait| wait.held_by.contains(&other.thread))) {
        let lock = wait.and_then(|wait| wait.object.as_ref()).and_then(|thing| other.held(thing.addr));
        if let Some(held) = lock {
            line(out, &format!("  {} took it{} and has ended:", other.name, at(&held.stack)))?;
            write_stack(&held.stack, out)?;
        }
    }
    Ok(())
}
