//! A recorded run becomes a profile.
//!
//! Variables are globals by name, and heap blocks by where they were allocated and the offset in them; what is far into a block counts as
//! one. Each object is looked at by itself. Stacks have no names that last and are left out. Locks have classes of the same sort.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::atomicity::profile::{Frame, Hold, Learner, Profile, ProfileNames, Touch};
use selvedge_analyze::atomicity::program::Access;
use selvedge_events::ThreadIx;
use selvedge_events::hooks::Rw;
use selvedge_trace::state::{Heap, Locksets};
use selvedge_trace::{ContextId, Event, EventBody, Place, Process};

use super::code::{Label, ReadBuild};

/// Offsets in heap blocks past which all bytes are one variable.
const FAR: u64 = 1024;

/// The builds of recorded runs, read when first met.
#[derive(Debug, Default)]
pub struct Builds(BTreeMap<Vec<u8>, Option<ReadBuild>>);

impl Builds {
    fn of(&mut self, process: &Process, place: Place) -> Option<(&ReadBuild, u32)> {
        let (module, offset) = match place {
            Place::Code { module, offset } => (process.module(module)?, offset),
            other => process.code(other)?,
        };
        let load = || ReadBuild::load(&module.path, &module.build_id);
        let build = self.0.entry(module.build_id.clone()).or_insert_with(load).as_ref()?;
        Some((build, offset))
    }

    /// Whether no image that was asked about could be read.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(Option::is_none)
    }
}

/// Numbers for names.
#[derive(Debug)]
struct Numbered<T> {
    names: Vec<T>,
    numbers: BTreeMap<T, u32>,
}

impl<T: Ord + Clone> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered { names: Vec::new(), numbers: BTreeMap::new() }
    }

    fn of(&mut self, name: T) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

/// What is known of a thread's calls: the context, its return addresses with the outermost first, and the functions that are
/// active, each with the call that the next one was entered by.
#[derive(Debug, Default)]
struct Calls {
    context: ContextId,
    pcs: Vec<u64>,
    frames: Vec<Frame>,
}

struct Reading<'a> {
    process: &'a Process,
    builds: &'a mut Builds,
    learner: Learner,
    labels: Numbered<Label>,
    variables: Numbered<String>,
    locks: Numbered<String>,
    sites: BTreeMap<u32, BTreeSet<String>>,
    calls: BTreeMap<String, BTreeSet<String>>,
    threads: BTreeMap<u32, Calls>,
    next: u64,
    heap: Heap,
    held: Locksets,
    /// By label place: its number, `None` where it has none.
    points: BTreeMap<(u32, u32, bool), Option<u32>>,
    /// By address: the variable that was touched there.
    touched: BTreeMap<u64, u32>,
    /// By lock and when it was taken: its class.
    classes: BTreeMap<(u64, u64), Option<u32>>,
}

/// The profile of one recorded process.
pub fn learn(process: &Process, builds: &mut Builds, program: &str) -> Profile {
    let mut reading = Reading {
        process,
        builds,
        learner: Learner::default(),
        labels: Numbered::new(),
        variables: Numbered::new(),
        locks: Numbered::new(),
        sites: BTreeMap::new(),
        calls: BTreeMap::new(),
        threads: BTreeMap::new(),
        next: 0,
        heap: Heap::default(),
        held: Locksets::default(),
        points: BTreeMap::new(),
        touched: BTreeMap::new(),
        classes: BTreeMap::new(),
    };
    for event in process.events() {
        reading.event(&event);
    }
    reading.finish(program)
}

impl Reading<'_> {
    fn event(&mut self, event: &Event) {
        self.follow(event);
        if let EventBody::Free { addr } | EventBody::Alloc { addr, .. } = event.body
            && let Some(block) = self.heap.block_of(addr.0).copied()
        {
            let end = block.addr.saturating_add(block.size);
            while let Some((&at, &variable)) = self.touched.range(block.addr..end).next() {
                self.touched.remove(&at);
                self.learner.gone(variable, at);
            }
        }
        self.heap.apply(event);
        self.held.apply(event);
        self.lock(event);
        let Some(access) = self.process.access(event) else { return };
        let Some((variable, label)) = self.variable(access.addr).zip(self.point(event.place, true)) else { return };
        if let Some((_, key)) = self.labels.names.get(label as usize) {
            self.sites.entry(variable).or_default().insert(key.clone());
        }
        let holds = self.holding(event.thread);
        let does = if access.rw == Rw::Read { Access::Read } else { Access::Write };
        let Some(calls) = self.threads.get_mut(&event.thread.0) else { return };
        if let Some(last) = calls.frames.last_mut() {
            last.label = label;
        }
        let touch = Touch { thread: event.thread.0, access: does, context: &calls.frames, holds: &holds };
        self.learner.touch(variable, access.addr, &touch);
        self.touched.insert(access.addr, variable);
    }

    /// Keeps the active functions of the event's thread.
    fn follow(&mut self, event: &Event) {
        let mut calls = self.threads.remove(&event.thread.0).unwrap_or_default();
        let mut same = calls.pcs.len();
        if calls.context != event.context {
            calls.context = event.context;
            let mut pcs = self.process.contexts().frames(event.context);
            pcs.reverse();
            same = pcs.iter().zip(&calls.pcs).take_while(|(new, old)| new == old).count();
            calls.pcs = pcs;
        }
        calls.frames.truncate((event.kept as usize).min(calls.pcs.len()));
        // The last that stays may have been left by another call than before.
        let first = calls.frames.len().min(same.saturating_sub(1));
        for number in first..calls.pcs.len() {
            let called = calls.pcs.get(number + 1).map(|pc| self.process.place_of(*pc));
            let label = called.and_then(|place| self.point(place, false)).unwrap_or(u32::MAX);
            if let Some(frame) = calls.frames.get_mut(number) {
                frame.label = label;
            } else {
                self.next += 1;
                calls.frames.push(Frame { activation: self.next, label });
            }
        }
        self.threads.insert(event.thread.0, calls);
    }

    fn point(&mut self, place: Place, is_site: bool) -> Option<u32> {
        let (module, at) = match place {
            Place::Code { module, offset } => (module.0, offset),
            Place::Site(site) => (u32::MAX, site.0),
            Place::Unknown => return None,
        };
        if let Some(known) = self.points.get(&(module, at, is_site)) {
            return *known;
        }
        let found = self.builds.of(self.process, place).and_then(|(build, offset)| match place {
            Place::Site(_) => build.site(offset),
            _ => build.call(offset),
        });
        let number = found.map(|label| self.labels.of(label));
        self.points.insert((module, at, is_site), number);
        number
    }

    fn variable(&mut self, addr: u64) -> Option<u32> {
        if let Some(known) = self.touched.get(&addr) {
            return Some(*known);
        }
        let name = self.name(addr)?;
        Some(self.variables.of(name))
    }

    /// What memory is called.
    fn name(&mut self, addr: u64) -> Option<String> {
        if let Some(block) = self.heap.block_of(addr).copied() {
            let offset = addr - block.addr;
            let place = block.place;
            let (build, returns) = self.builds.of(self.process, place)?;
            let (_, key) = build.call(returns)?;
            return Some(if offset < FAR { format!("heap:{key}+{offset}") } else { format!("heap:{key}+") });
        }
        let module = self.process.module_of(addr)?;
        let (index, offset) = (module.index, addr - module.base);
        let (build, _) = self.builds.of(self.process, Place::Code { module: index, offset: 0 })?;
        build.variable(offset)
    }

    fn holding(&mut self, thread: ThreadIx) -> Vec<Hold> {
        let held: Vec<(u64, u64)> = self.held.held(thread).iter().map(|held| (held.lock, held.since.index)).collect();
        let mut holds = Vec::new();
        for (object, number) in held {
            let class = match self.classes.get(&(object, number)) {
                Some(class) => *class,
                None => {
                    let class = self.name(object).map(|name| self.locks.of(name));
                    self.classes.insert((object, number), class);
                    class
                }
            };
            holds.extend(class.map(|class| Hold { class, object, number }));
        }
        holds
    }

    /// Notes which lock a call is about.
    fn lock(&mut self, event: &Event) {
        let lock = match event.body {
            EventBody::Acquire { lock, .. } | EventBody::Release { lock, .. } => lock,
            EventBody::WaitEnd { mutex, .. } => mutex,
            _ => return,
        };
        let (name, label) = (self.name(lock.0), self.point(event.place, false));
        let key = label.and_then(|label| self.labels.names.get(label as usize)).map(|(_, key)| key.clone());
        if let (Some(name), Some(key)) = (name, key) {
            self.calls.entry(key).or_default().insert(name);
        }
    }

    fn finish(self, program: &str) -> Profile {
        let names = ProfileNames {
            program: program.to_owned(),
            variables: self.variables.names.iter().map(|name| (name.clone(), BTreeSet::new())).collect(),
            labels: self.labels.names,
            locks: self.locks.names,
        };
        let mut profile = self.learner.finish(&names);
        profile.calls = self.calls;
        for (number, sites) in self.sites {
            let name = self.variables.names.get(number as usize);
            if let Some(variable) = name.and_then(|name| profile.variables.get_mut(name)) {
                variable.sites = sites;
            }
        }
        profile
    }
}
