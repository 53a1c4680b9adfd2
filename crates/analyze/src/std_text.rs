//! RAPID's `std` text becomes a [`History`]: one event a line, `T1|w(x)|12`.
//!
//! ```text
//! line      = thread "|" op [ "|" location ]
//! op        = word "(" operand ")" | "begin" | "end"
//! word      = "r" | "w" | "acq" | "rel" | "fork" | "join" | "begin" | "end"
//!           | "req" | "dummy" | "branch" | "enter" | "exit"      (read and left out)
//! ```
//!
//! Names are any bytes but `|` and line ends. `begin` and `end` are [`Op::Enter`] and [`Op::Exit`]. Empty lines are passed over.
//!
//! Text that is not of this form is an error with its place. A trace that is of this form and cannot have happened is read
//! all the same, with a [`Diagnostic`] for each thing that is wrong:
//!
//! - A lock that its holder takes again counts once.
//! - A lock that is released by who does not hold it, or taken while another holds it, is not a lock: its
//!   acquisitions take, its releases post an object, which keeps their order, and predicts nothing that depends on exclusion.
//! - Events of a thread after its join are left out, and so is the fork of a thread that had events before.
//! - What is open at the end stays open.
//!
//! Cost: one pass over the bytes; 20 bytes for each event, and what [`Names`] costs for each name.

use std::fmt;

use selvedge_events::{Mode, Primitive};

use crate::history::{Event, EventNo, History, Op};
use crate::import::locks::{Change, Locks};
use crate::names::Names;

/// Diagnostics that are kept; more are only counted.
const MAX_DIAGNOSTICS: usize = 1000;

/// Why text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}")]
pub struct StdError {
    /// The line, from 1.
    pub line: u64,
    /// The byte of the line, from 1.
    pub column: u64,
    /// What should be there.
    pub expected: &'static str,
}

/// A history with the names of what is in it. A source of the history is the number of a line, from 0.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The history.
    pub history: History,
    /// Names of threads.
    pub threads: Names,
    /// Names of variables.
    pub variables: Names,
    /// Names of locks.
    pub locks: Names,
    /// Names of locations.
    pub locations: Names,
    /// For each object of the history the lock that is one.
    pub objects: Vec<u32>,
    /// What is wrong with the trace, in order of lines (those that are known at the end come last).
    pub diagnostics: Vec<Diagnostic>,
    /// Diagnostics beyond those listed.
    pub more_diagnostics: u64,
    /// Lines of words that mean nothing to a history.
    pub passed_over: u64,
}

impl Imported {
    /// The line of an event, from 0.
    pub fn line(&self, number: EventNo) -> Option<u64> {
        self.history.sources.get(number as usize).copied()
    }
}

/// Something that cannot have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub problem: Problem,
    /// The thread, lock or region that it is about; empty where there is none.
    pub name: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem.sentence())?;
        if self.name.is_empty() { Ok(()) } else { write!(f, ": {}", self.name) }
    }
}

/// What can be wrong with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// A lock is released by a thread that does not hold it.
    ReleaseOfUnheld,
    /// A lock is taken while another thread holds it.
    AcquireOfHeld,
    /// A lock is taken by the thread that holds it.
    Reentrant,
    /// A thread is forked that had events before, or was forked before.
    LateFork,
    /// A thread forks or joins itself.
    Itself,
    /// A thread is joined again.
    SecondJoin,
    /// A thread has an event after it was joined.
    AfterJoin,
    /// A region ends that did not begin.
    UnopenedRegion,
    /// The file ends in the middle of a line.
    CutLine,
    /// A lock is held at the end.
    UnclosedLock,
    /// A region is open at the end.
    UnclosedRegion,
}

impl Problem {
    /// What is wrong, and what was made of it.
    pub const fn sentence(self) -> &'static str {
        match self {
            Problem::ReleaseOfUnheld => {
                "a release by a thread that does not hold the lock; the lock is taken as an object"
            }
            Problem::AcquireOfHeld => {
                "an acquisition while another thread holds the lock; the lock is taken as an object"
            }
            Problem::Reentrant => "an acquisition by the thread that holds the lock; left out, with its release",
            Problem::LateFork => "a fork of a thread that is there already; left out",
            Problem::Itself => "a thread forks or joins itself; left out",
            Problem::SecondJoin => "a second join; left out",
            Problem::AfterJoin => "an event of a thread after its join; left out",
            Problem::UnopenedRegion => "the end of a region that did not begin; left out",
            Problem::CutLine => "the file ends inside a line; left out",
            Problem::UnclosedLock => "a lock that is still held at the end",
            Problem::UnclosedRegion => "a region that is still open at the end",
        }
    }
}

/// Lines that are taken at once.
const BATCH: usize = 16;

/// Reads a trace.
pub fn parse(text: &[u8]) -> Result<Imported, StdError> {
    let mut parser = Parser::default();
    let mut lines = Lines { rest: text, number: 0 };
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut end = None;
        while batch.len() < BATCH && end.is_none() {
            match lines.next() {
                Ok(Some(line)) => batch.push(line),
                Ok(None) => end = Some(None),
                Err(bad) => end = Some(Some(bad)),
            }
        }
        for line in &batch {
            if let Word::Access(_) = line.word {
                parser.imported.variables.warm(line.operand);
            }
        }
        for line in batch.drain(..) {
            let number = line.number + 1;
            parser.line(line).map_err(|Bad { column, expected }| StdError {
                line: number,
                column: column as u64 + 1,
                expected,
            })?;
        }
        match end {
            None => {}
            Some(None) => return Ok(parser.finish()),
            Some(Some(_)) if lines.number > 0 && !lines.rest.contains(&b'\n') => {
                parser.diagnose(lines.number, Problem::CutLine, String::new());
                return Ok(parser.finish());
            }
            Some(Some(Bad { column, expected })) => {
                return Err(StdError { line: lines.number + 1, column: column as u64 + 1, expected });
            }
        }
    }
}

/// A line that is not of the form.
struct Bad {
    column: usize,
    expected: &'static str,
}

/// A word of the text.
#[derive(Clone, Copy)]
enum Word {
    Access(Op),
    Acquire,
    Release,
    Thread(Op),
    Region(Op),
    Nothing,
}

/// A thread while the text is read.
#[derive(Clone, Copy, Default)]
struct Thread {
    begun: bool,
    joined: bool,
    /// Regions that it is in.
    regions: u32,
    /// The line of the last region that it entered.
    entered: u64,
}

#[derive(Default)]
struct Parser {
    imported: Imported,
    holders: Locks,
    /// For each lock the line where it was last taken.
    taken: Vec<u64>,
    threads: Vec<Thread>,
}

const WORD: &str = "r, w, acq, rel, fork, join, begin or end";

/// A line taken apart.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// From 0.
    number: u64,
    thread: &'a [u8],
    word: Word,
    operand: &'a [u8],
    /// Where the operand begins.
    column: usize,
    location: &'a [u8],
}

/// Lines that are yet to be read.
struct Lines<'a> {
    rest: &'a [u8],
    /// The number of the next one.
    number: u64,
}

impl<'a> Lines<'a> {
    /// Takes the next line that is not empty; stays at one that is not of the form.
    #[inline]
    fn next(&mut self) -> Result<Option<Line<'a>>, Bad> {
        while !self.rest.is_empty() {
            let (line, len) = split(self.rest)?;
            let number = self.number;
            self.rest = self.rest.get(len..).unwrap_or_default();
            self.number += 1;
            if let Some(line) = line {
                return Ok(Some(Line { number, ..line }));
            }
        }
        Ok(None)
    }
}

/// The first line of the text, unless it is empty, and its length with its end.
#[inline]
fn split(text: &[u8]) -> Result<(Option<Line<'_>>, usize), Bad> {
    let bad = |column, expected| Err(Bad { column, expected });
    // Names are short: looking at byte after byte is as fast as anything.
    let thread_end = find(text, 0, |byte| matches!(byte, b'|' | b'\n'));
    if text.get(thread_end) != Some(&b'|') {
        let content = text.get(..thread_end).unwrap_or(text);
        if content.is_empty() || content == b"\r" {
            return Ok((None, thread_end + 1));
        }
        return bad(content.trim_ascii_end().len(), "`|` after the thread");
    }
    if thread_end == 0 {
        return bad(0, "the name of a thread");
    }
    let word_begin = thread_end + 1;
    let word_end = find(text, word_begin, |byte| matches!(byte, b'(' | b'|' | b'\n'));
    let mut op_end = word_end;
    if text.get(word_end) == Some(&b'(') {
        op_end = find(text, word_end, |byte| matches!(byte, b'|' | b'\n'));
    }
    let mut line_end = op_end;
    if text.get(op_end) == Some(&b'|') {
        line_end = find(text, op_end + 1, |byte| byte == b'\n');
    }
    let trimmed = |begin: usize, end: usize| match text.get(begin..end).unwrap_or_default() {
        [name @ .., b'\r'] if end == line_end => name,
        name => name,
    };
    let location = if op_end < line_end { trimmed(op_end + 1, line_end) } else { &[] };
    let (word, operand) = if word_end == op_end {
        (trimmed(word_begin, word_end), &[][..])
    } else {
        let operand = match trimmed(word_end + 1, op_end) {
            [operand @ .., b')'] => operand,
            operand => return bad(word_end + 1 + operand.len(), "`)` after the operand"),
        };
        (text.get(word_begin..word_end).unwrap_or_default(), operand)
    };
    let word = match word {
        b"r" => Word::Access(Op::Read),
        b"w" => Word::Access(Op::Write),
        b"acq" => Word::Acquire,
        b"rel" => Word::Release,
        b"fork" => Word::Thread(Op::Fork),
        b"join" => Word::Thread(Op::Join),
        b"begin" => Word::Region(Op::Enter),
        b"end" => Word::Region(Op::Exit),
        b"req" | b"dummy" | b"branch" | b"enter" | b"exit" => Word::Nothing,
        _ => return bad(word_begin, WORD),
    };
    if operand.is_empty() && !matches!(word, Word::Region(_) | Word::Nothing) {
        return bad(word_end, if word_end == op_end { "`(` after the word" } else { "an operand" });
    }
    let thread = text.get(..thread_end).unwrap_or_default();
    let line = Line { number: 0, thread, word, operand, column: word_end + 1, location };
    Ok((Some(line), line_end + 1))
}

impl Parser {
    #[inline]
    fn line(&mut self, line: Line<'_>) -> Result<(), Bad> {
        let thread = self.thread(line.thread)?;
        if self.imported.history.len() >= u32::MAX as usize {
            return Err(Bad { column: 0, expected: "at most 4294967295 events" });
        }
        let Line { number, word, operand, column, location, .. } = line;
        self.event(number, thread, word, operand, location).map_err(|expected| Bad { column, expected })
    }

    /// The number of a thread.
    #[inline]
    fn thread(&mut self, name: &[u8]) -> Result<u16, Bad> {
        let number = self.imported.threads.number(name);
        if number as usize >= self.threads.len() {
            self.threads.push(Thread::default());
        }
        u16::try_from(number).map_err(|_| Bad { column: 0, expected: "at most 65536 threads" })
    }

    #[inline]
    fn event(
        &mut self,
        line: u64,
        thread: u16,
        word: Word,
        operand: &[u8],
        location: &[u8],
    ) -> Result<(), &'static str> {
        let known = &mut self.threads[usize::from(thread)];
        if known.joined {
            self.about_thread(line, Problem::AfterJoin, thread);
            return Ok(());
        }
        known.begun = true;
        let (op, target) = match word {
            Word::Access(op) => (op, self.imported.variables.number(operand)),
            Word::Acquire | Word::Release => {
                let lock = self.lock(operand);
                match self.change(line, thread, lock, matches!(word, Word::Acquire)) {
                    Some(op) => (op, lock),
                    None => return Ok(()),
                }
            }
            Word::Thread(op) => {
                let other = self.thread(operand).map_err(|bad| bad.expected)?;
                let known = &mut self.threads[usize::from(other)];
                let problem = match op {
                    _ if other == thread => Problem::Itself,
                    Op::Fork if known.begun => Problem::LateFork,
                    Op::Join if known.joined => Problem::SecondJoin,
                    _ => {
                        known.begun = true;
                        known.joined |= op == Op::Join;
                        self.push(line, thread, op, u32::from(other), location);
                        return Ok(());
                    }
                };
                self.about_thread(line, problem, other);
                return Ok(());
            }
            Word::Region(op) => {
                match op {
                    Op::Enter => (known.regions, known.entered) = (known.regions.saturating_add(1), line),
                    _ if known.regions == 0 => {
                        self.about_thread(line, Problem::UnopenedRegion, thread);
                        return Ok(());
                    }
                    _ => known.regions -= 1,
                }
                (op, 0)
            }
            Word::Nothing => {
                self.imported.passed_over += 1;
                return Ok(());
            }
        };
        self.push(line, thread, op, target, location);
        Ok(())
    }

    #[inline]
    fn push(&mut self, line: u64, thread: u16, op: Op, target: u32, location: &[u8]) {
        let location = self.imported.locations.number(location);
        self.imported.history.events.push(Event::new(thread, op, target, location));
        self.imported.history.sources.push(line);
    }

    fn lock(&mut self, name: &[u8]) -> u32 {
        let lock = self.imported.locks.number(name);
        if lock as usize >= self.taken.len() {
            self.holders.number(u64::from(lock), Primitive::Mutex);
            self.taken.push(0);
        }
        lock
    }

    /// Follows a lock; the event that it is.
    #[inline]
    fn change(&mut self, line: u64, thread: u16, lock: u32, acquires: bool) -> Option<Op> {
        let was_irregular = self.holders.all[lock as usize].irregular;
        let change = match acquires {
            true => self.holders.acquire(lock, thread, Mode::Exclusive),
            false => self.holders.release(lock, thread, false),
        };
        if self.holders.all[lock as usize].irregular && !was_irregular {
            let problem = if acquires { Problem::AcquireOfHeld } else { Problem::ReleaseOfUnheld };
            self.about_lock(line, problem, lock);
        }
        if change == Change::Nested {
            if acquires {
                self.about_lock(line, Problem::Reentrant, lock);
            }
            return None;
        }
        if acquires {
            self.taken[lock as usize] = line;
            return Some(Op::Acquire);
        }
        Some(Op::Release)
    }

    #[cold]
    fn about_thread(&mut self, line: u64, problem: Problem, thread: u16) {
        let name = self.imported.threads.text(u32::from(thread));
        self.diagnose(line, problem, name);
    }

    #[cold]
    fn about_lock(&mut self, line: u64, problem: Problem, lock: u32) {
        let name = self.imported.locks.text(lock);
        self.diagnose(line, problem, name);
    }

    fn diagnose(&mut self, line: u64, problem: Problem, name: String) {
        if self.imported.diagnostics.len() < MAX_DIAGNOSTICS {
            self.imported.diagnostics.push(Diagnostic { line: line + 1, problem, name });
        } else {
            self.imported.more_diagnostics += 1;
        }
    }

    fn finish(mut self) -> Imported {
        let mut objects = Vec::new();
        let mut as_objects = Vec::new();
        for (lock, line) in (0..).zip(std::mem::take(&mut self.taken)) {
            let held = &self.holders.all[lock as usize];
            as_objects.push(held.irregular.then_some(objects.len() as u32));
            if held.irregular {
                objects.push(lock);
            } else if held.is_held() {
                self.about_lock(line, Problem::UnclosedLock, lock);
            }
        }
        for thread in 0..self.threads.len() {
            if let Thread { regions: 1.., entered, .. } = self.threads[thread] {
                self.about_thread(entered, Problem::UnclosedRegion, thread as u16);
            }
        }
        let mut imported = self.imported;
        if !objects.is_empty() {
            for event in imported.history.events.iter_mut().filter(|event| event.op.acquires() || event.op.releases()) {
                if let Some(object) = as_objects[event.target as usize] {
                    let op = if event.op.acquires() { Op::Take } else { Op::Post };
                    *event = Event { op, target: object, ..*event };
                }
            }
        }
        let history = &mut imported.history;
        history.threads = imported.threads.len() as u32;
        history.variables = imported.variables.len() as u32;
        history.locks = imported.locks.len() as u32;
        history.objects = objects.len() as u32;
        history.locations = imported.locations.len() as u32;
        imported.objects = objects;
        imported
    }
}

/// Where the first byte from `from` on is for which `holds`, or the end.
#[inline]
fn find(text: &[u8], from: usize, holds: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().position(|byte| holds(*byte)).map_or(text.len(), |at| from + at)
}
