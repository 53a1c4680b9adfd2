//! One pass over all events of a process: how many, from when to when, who made whom.

use std::collections::BTreeMap;

use selvedge_events::{ThreadIx, Ticks};

use crate::context::ContextId;
use crate::decode::{LeftOut, ThreadEvents};
use crate::event::{EventBody, Exactness, Place};

/// What a pass over a process found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The threads, by index: those that left events and those that others made.
    pub threads: Vec<Thread>,
    /// Events.
    pub events: u64,
    /// Bytes of the words that threads stored.
    pub bytes: u64,
    /// Events whose own time is known.
    pub timed: u64,
    /// What the decoders left out.
    pub left_out: LeftOut,
    /// Time of the first event.
    pub first: Ticks,
    /// Time of the last event.
    pub last: Ticks,
}

/// A thread of control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub index: ThreadIx,
    /// Who made it.
    pub parent: Option<ThreadIx>,
    /// The name that the program gave it last.
    pub name: Option<String>,
    /// Its name by creation: `main`, `main/1`, `main/1/2`. The same on every run that creates threads
    /// in the same order. A thread that nobody announced is `foreign/INDEX`.
    pub path: String,
    /// Time of its first event; `None` where it left none.
    pub first: Option<Ticks>,
    /// Time of its last event.
    pub last: Option<Ticks>,
    /// Its events.
    pub events: u64,
    /// Whether its end was recorded.
    pub ended: bool,
    /// Where it was created: the creating thread's place and context.
    pub created: Option<(Place, ContextId)>,
    /// Its calling context after its last word.
    pub context: ContextId,
}

impl Thread {
    /// The program's name for it, else its creation path.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.path)
    }
}

/// What is gathered before threads can be named.
#[derive(Default)]
pub(crate) struct Gather {
    threads: BTreeMap<ThreadIx, Thread>,
    names: BTreeMap<ThreadIx, (Ticks, String)>,
    summary: Summary,
}

impl Gather {
    pub(crate) fn thread(&mut self, index: ThreadIx, events: ThreadEvents) {
        let mut events = events;
        let mut count = 0;
        let (mut first, mut last, mut ended) = (None, None, false);
        for event in events.by_ref() {
            count += 1;
            first.get_or_insert(event.time);
            last = Some(event.time);
            self.summary.timed += u64::from(event.exactness == Exactness::Timed);
            match event.body {
                EventBody::ThreadStart { parent } => {
                    let thread = self.entry(index);
                    // A thread cannot be made by itself or by a later one.
                    thread.parent = parent.filter(|parent| *parent < index).or(thread.parent);
                }
                EventBody::ThreadCreate { child, .. } if child > index => {
                    let child = self.entry(child);
                    child.parent.get_or_insert(index);
                    child.created.get_or_insert((event.place, event.context));
                }
                EventBody::ThreadName { thread, name } => self.name(thread, event.time, &name),
                EventBody::ThreadExit => ended = true,
                _ => {}
            }
        }
        self.summary.left_out += events.left_out();
        self.summary.events += count;
        self.summary.bytes += events.bytes();
        let context = events.context();
        let thread = self.entry(index);
        (thread.events, thread.first, thread.last, thread.ended) = (count, first, last, ended);
        thread.context = context;
    }

    fn entry(&mut self, index: ThreadIx) -> &mut Thread {
        self.threads.entry(index).or_insert_with(|| Thread {
            index,
            parent: None,
            name: None,
            path: String::new(),
            first: None,
            last: None,
            events: 0,
            ended: false,
            created: None,
            context: ContextId::ROOT,
        })
    }

    fn name(&mut self, thread: ThreadIx, time: Ticks, name: &[u8; 16]) {
        let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let name: String = String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).collect();
        let newer = self.names.get(&thread).is_none_or(|(then, _)| *then <= time);
        if newer && !name.is_empty() {
            self.names.insert(thread, (time, name));
        }
    }

    pub(crate) fn finish(mut self) -> Summary {
        let mut children: BTreeMap<ThreadIx, u32> = BTreeMap::new();
        let mut paths: BTreeMap<ThreadIx, String> = BTreeMap::new();
        // Parents come before their children, so one pass in order names all.
        for thread in self.threads.values_mut() {
            let parent = thread.parent.and_then(|parent| paths.get(&parent).map(|path| (parent, path)));
            thread.path = match parent {
                _ if thread.index == ThreadIx(0) => "main".to_owned(),
                // Names beyond this depth help nobody, and a hostile file could make them huge.
                Some((parent, path)) if path.len() < 256 => {
                    let number = children.entry(parent).or_default();
                    *number += 1;
                    format!("{path}/{number}")
                }
                _ => format!("foreign/{}", thread.index),
            };
            paths.insert(thread.index, thread.path.clone());
            thread.name = self.names.remove(&thread.index).map(|(_, name)| name);
        }
        let mut summary = self.summary;
        summary.threads = self.threads.into_values().collect();
        summary.first = summary.threads.iter().filter_map(|thread| thread.first).min().unwrap_or_default();
        summary.last = summary.threads.iter().filter_map(|thread| thread.last).max().unwrap_or_default();
        summary
    }
}
