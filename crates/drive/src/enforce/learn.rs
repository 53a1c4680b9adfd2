//! A recorded run becomes a profile.
//!
//! Variables are globals by name, and heap blocks by where they were allocated and the offset in them; what is far into a block counts as
//! one. Each object is looked at by itself. Stacks have no names that last and are left out. Locks have classes of the same sort.
//!
//! Two variables that belong together ([`super::groups`]) are also looked at as one, beside each of them.
//!
//! Memory that only one thread touches, here or within a kilobyte, says nothing and is passed over; what accesses do there is counted by site, since a
//! lock at a site is taken whatever it touches.
//!
//! What a bare function does (see [`super::code`]) is done by the activation of its caller, which a run does not name: it is the function whose call
//! the code has at the innermost return address, or the one that other events of the activation were in, or the only one that calls the bare
//! function. A thread that begins in a bare function has one activation, of that function.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use selvedge_analyze::atomicity::profile::{Frame, Hold, Learner, Profile, ProfileNames, Touch};
use selvedge_analyze::atomicity::program::Access;
use selvedge_analyze::atomicity::together::Nearby;
use selvedge_events::ThreadIx;
use selvedge_events::hooks::Rw;
use selvedge_trace::state::{Heap, Locksets};
use selvedge_trace::{ContextId, Event, EventBody, Place, Process};

use super::code::{Label, ReadBuild};
use super::groups::{Groups, Wherein};

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
    /// By frame: its function, where it is known.
    functions: Vec<Option<String>>,
    /// The activation of a bare function that nobody called.
    root: u64,
}

/// A place in the code.
#[derive(Clone, Debug)]
struct Point {
    /// The function around it.
    function: String,
    /// Its key there.
    key: String,
    /// The only caller of that function, if it is bare and has one.
    only_caller: Option<String>,
    is_bare: bool,
}

/// A place as a key.
fn number_of(place: Place) -> Option<(u32, u32)> {
    match place {
        Place::Code { module, offset } => Some((module.0, offset)),
        Place::Site(site) => Some((u32::MAX, site.0)),
        Place::Unknown => None,
    }
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
    /// By place: what is there, `None` where nothing is known.
    points: BTreeMap<(u32, u32), Option<Point>>,
    /// By address: the variable that was touched there, and the object that it is part of.
    touched: BTreeMap<u64, (u32, Wherein)>,
    /// By lock and when it was taken: its class.
    classes: BTreeMap<(u64, u64), Option<u32>>,
    groups: &'a Groups,
    /// By variable: the groups that it is in.
    in_groups: BTreeMap<u32, Vec<u32>>,
    /// By group: objects of it that were touched.
    grouped: BTreeSet<(u32, u64)>,
    /// When the last access was.
    time: u64,
    /// When each thread was last heard of, and how long all were busy.
    heard: HashMap<u32, u64>,
    /// [`next_hooks`], and the number of the event.
    until: Vec<u64>,
    number: usize,
    busy: u64,
    shared: Shared,
    /// By place: accesses that were passed over.
    passed: BTreeMap<(u32, u32), u64>,
}

/// Which memory several threads touch, by kilobytes.
#[derive(Debug, Default)]
struct Shared(HashMap<u64, u32>);

/// The mark of memory that several threads touch.
const SEVERAL: u32 = u32::MAX;

impl Shared {
    fn of(process: &Process) -> Shared {
        let mut shared = Shared::default();
        for event in process.events() {
            if let Some(access) = process.access(&event) {
                let mark = shared.0.entry(access.addr / FAR).or_insert(event.thread.0);
                if *mark != event.thread.0 {
                    *mark = SEVERAL;
                }
            }
        }
        shared
    }

    /// Whether an address, or one within a kilobyte, is: a block's variables that belong together are no farther apart.
    fn has(&self, addr: u64) -> bool {
        let at = addr / FAR;
        (at.saturating_sub(1)..=at + 1).any(|at| self.0.get(&at) == Some(&SEVERAL))
    }
}

/// The profile of one recorded process, with these variables taken together.
pub fn learn(process: &Process, builds: &mut Builds, program: &str, groups: &Groups) -> Profile {
    let mut reading = Reading::new(process, builds, groups);
    reading.shared = Shared::of(process);
    reading.until = next_hooks(process);
    for event in process.events() {
        reading.event(&event);
        reading.number += 1;
    }
    reading.finish(program)
}

/// For each event, when its thread next came to a hook where a lock can be given back, or blocked; nothing for runs under control.
fn next_hooks(process: &Process) -> Vec<u64> {
    let mut until = Vec::new();
    if process.is_controlled() {
        return until;
    }
    let mut waiting: HashMap<u32, Vec<usize>> = HashMap::new();
    for (number, event) in process.events().enumerate() {
        until.push(0);
        let waiting = waiting.entry(event.thread.0).or_default();
        match event.body {
            EventBody::Alloc { .. } | EventBody::Free { .. } => continue,
            _ if process.access(&event).is_some() => {
                let now = u64::try_from(process.nanos(event.time)).unwrap_or(0);
                for number in waiting.drain(..) {
                    until[number] = now;
                }
                waiting.push(number);
            }
            // What blocks gives back first, and how long it blocks says nothing.
            _ => waiting.clear(),
        }
    }
    until
}

/// Accesses of a run that are looked at for variables that belong together.
const MOST_NEARBY: usize = 500_000;

/// What variables a recorded process accessed near each other; `numbers` are those of their names.
pub fn nearby(process: &Process, builds: &mut Builds, numbers: &mut dyn FnMut(&str) -> u32) -> Vec<Nearby> {
    let groups = Groups::default();
    let mut reading = Reading::new(process, builds, &groups);
    let mut all = Vec::new();
    for event in process.events() {
        reading.follow(&event);
        reading.state(&event);
        let Some(access) = process.access(&event) else { continue };
        let Some((variable, wherein)) = reading.variable(access.addr) else { continue };
        reading.touched.insert(access.addr, (variable, wherein));
        let (Some(object), Some(name)) = (wherein.object(), reading.variables.names.get(variable as usize)) else {
            continue;
        };
        let section = reading.held.held(event.thread).iter().map(|held| held.since.index).min();
        let (thread, writes) = (event.thread.0, access.rw != Rw::Read);
        all.push(Nearby { thread, variable: numbers(name), object, section, writes });
        if all.len() == MOST_NEARBY {
            break;
        }
    }
    all
}

impl<'a> Reading<'a> {
    fn new(process: &'a Process, builds: &'a mut Builds, groups: &'a Groups) -> Reading<'a> {
        Reading {
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
            groups,
            in_groups: BTreeMap::new(),
            grouped: BTreeSet::new(),
            time: 0,
            heard: HashMap::new(),
            until: Vec::new(),
            number: 0,
            busy: 0,
            shared: Shared::default(),
            passed: BTreeMap::new(),
        }
    }
}

impl Reading<'_> {
    /// Follows heap and locks.
    fn state(&mut self, event: &Event) {
        if let EventBody::Free { addr } | EventBody::Alloc { addr, .. } = event.body
            && let Some(block) = self.heap.block_of(addr.0).copied()
        {
            let end = block.addr.saturating_add(block.size);
            while let Some((&at, &(variable, _))) = self.touched.range(block.addr..end).next() {
                self.touched.remove(&at);
                self.learner.gone(variable, at);
                for group in self.in_groups.get(&variable).into_iter().flatten() {
                    if self.grouped.remove(&(*group, block.addr)) {
                        self.learner.gone(*group, block.addr);
                    }
                }
            }
        }
        self.heap.apply(event);
        self.held.apply(event);
    }

    fn event(&mut self, event: &Event) {
        self.hear(event);
        self.follow(event);
        self.state(event);
        self.lock(event);
        let Some(access) = self.process.access(event) else { return };
        if !self.shared.has(access.addr) && self.process.module_of(access.addr).is_none() {
            return self.pass_over(event);
        }
        let Some(((variable, wherein), point)) = self.variable(access.addr).zip(self.point(event.place)) else {
            return;
        };
        self.touched.insert(access.addr, (variable, wherein));
        let holds = self.holding(event.thread);
        let does = if access.rw == Rw::Read { Access::Read } else { Access::Write };
        let Some(mut calls) = self.threads.remove(&event.thread.0) else { return };
        let function = self.function_of(&mut calls, &point);
        let label = self.labels.of((function, point.key.clone()));
        if calls.frames.is_empty() && point.is_bare {
            calls.frames.push(Frame { activation: calls.root, label });
        } else if let Some(last) = calls.frames.last_mut() {
            last.label = label;
        }
        let at = self.nanos(event);
        let until = self.until.get(self.number).copied().unwrap_or(0);
        let touch = Touch { thread: event.thread.0, access: does, context: &calls.frames, holds: &holds, at, until };
        self.learner.touch(variable, access.addr, &touch);
        self.sites.entry(variable).or_default().insert(point.key.clone());
        for group in self.groups_of(variable) {
            let Some(object) = wherein.object() else { continue };
            self.learner.touch(group, object, &touch);
            self.grouped.insert((group, object));
            self.sites.entry(group).or_default().insert(point.key.clone());
        }
        calls.frames.truncate(calls.pcs.len());
        self.threads.insert(event.thread.0, calls);
    }

    /// A thread is busy from one event to the next; what takes long is counted for a little: it waits for others, or for the world.
    fn hear(&mut self, event: &Event) {
        const MOST_NS: u64 = 1_000_000;
        let now = self.nanos(event);
        if let Some(last) = self.heard.insert(event.thread.0, now) {
            self.busy = self.busy.saturating_add(now.saturating_sub(last).min(MOST_NS));
        }
    }

    /// When something happened; 0 in a run under control, which has an order and no time.
    fn nanos(&mut self, event: &Event) -> u64 {
        if self.process.is_controlled() {
            return 0;
        }
        let nanos = u64::try_from(self.process.nanos(event.time)).unwrap_or(0);
        self.time = self.time.max(nanos);
        nanos
    }

    /// The function whose activation an access belongs to.
    fn function_of(&mut self, calls: &mut Calls, point: &Point) -> String {
        let Some(last) = calls.functions.last_mut() else { return point.function.clone() };
        if !point.is_bare {
            *last = Some(point.function.clone());
        } else if last.is_none() {
            let returns = calls.pcs.last().map(|pc| self.process.place_of(*pc));
            let called = returns.and_then(|place| {
                let (build, offset) = self.builds.of(self.process, place)?;
                build.symbol(build.callee(offset)?)
            });
            *last = called.or_else(|| point.only_caller.clone());
        }
        last.clone().unwrap_or_else(|| point.function.clone())
    }

    /// The groups of a variable, as variables.
    fn groups_of(&mut self, variable: u32) -> Vec<u32> {
        if let Some(known) = self.in_groups.get(&variable) {
            return known.clone();
        }
        let name = self.variables.names.get(variable as usize).cloned().unwrap_or_default();
        let groups = self.groups.of(&name).map(|group| self.variables.of(group)).collect::<Vec<_>>();
        self.in_groups.insert(variable, groups.clone());
        groups
    }

    /// Keeps the active functions of the event's thread.
    fn follow(&mut self, event: &Event) {
        let mut calls = self.threads.remove(&event.thread.0).unwrap_or_default();
        if calls.root == 0 {
            self.next += 1;
            calls.root = self.next;
        }
        let mut same = calls.pcs.len();
        if calls.context != event.context {
            calls.context = event.context;
            let mut pcs = self.process.contexts().frames(event.context);
            pcs.reverse();
            same = pcs.iter().zip(&calls.pcs).take_while(|(new, old)| new == old).count();
            calls.pcs = pcs;
        }
        let kept = (event.kept as usize).min(calls.pcs.len());
        calls.frames.truncate(kept);
        calls.functions.truncate(kept);
        // The last that stays may have been left by another call than before.
        let first = calls.frames.len().min(same.saturating_sub(1));
        for number in first..calls.pcs.len() {
            let called = calls.pcs.get(number + 1).map(|pc| self.process.place_of(*pc));
            let point = called.and_then(|place| self.point(place));
            let function = point.as_ref().map(|point| point.function.clone());
            let label = point.map_or(u32::MAX, |point| self.labels.of((point.function, point.key)));
            if let (Some(frame), Some(known)) = (calls.frames.get_mut(number), calls.functions.get_mut(number)) {
                frame.label = label;
                *known = known.take().or(function);
            } else {
                self.next += 1;
                calls.frames.push(Frame { activation: self.next, label });
                calls.functions.push(function);
            }
        }
        self.threads.insert(event.thread.0, calls);
    }

    /// What is at a place: an access, or a call that returns to it.
    /// An access to memory of one thread: it counts, and says which function is active where that is not known yet.
    fn pass_over(&mut self, event: &Event) {
        let Some(place) = number_of(event.place) else { return };
        *self.passed.entry(place).or_default() += 1;
        let unknown = |calls: &Calls| calls.functions.last().is_some_and(Option::is_none);
        if self.threads.get(&event.thread.0).is_some_and(unknown)
            && let Some(point) = self.point(event.place).filter(|point| !point.is_bare)
            && let Some(last) = self.threads.get_mut(&event.thread.0).and_then(|calls| calls.functions.last_mut())
        {
            *last = Some(point.function);
        }
    }

    fn point(&mut self, place: Place) -> Option<Point> {
        let at = number_of(place)?;
        if let Some(known) = self.points.get(&at) {
            return known.clone();
        }
        let found = self.builds.of(self.process, place).and_then(|(build, offset)| match place {
            Place::Site(_) => {
                let (group, key) = (build.group(u64::from(offset))?, build.site(offset)?.to_owned());
                let only_caller = build.only_caller(group).and_then(|caller| build.symbol(caller));
                Some(Point { function: build.symbol(group)?, key, only_caller, is_bare: build.is_bare(group) })
            }
            _ => {
                let (function, key) = build.call(offset)?;
                Some(Point { function, key, only_caller: None, is_bare: false })
            }
        });
        self.points.insert(at, found.clone());
        found
    }

    fn variable(&mut self, addr: u64) -> Option<(u32, Wherein)> {
        if let Some(known) = self.touched.get(&addr) {
            return Some(*known);
        }
        let (name, wherein) = self.name(addr)?;
        Some((self.variables.of(name), wherein))
    }

    /// What memory is called, and what it is part of.
    fn name(&mut self, addr: u64) -> Option<(String, Wherein)> {
        if let Some(block) = self.heap.block_of(addr).copied() {
            let offset = addr - block.addr;
            let place = block.place;
            let (build, returns) = self.builds.of(self.process, place)?;
            let (_, key) = build.call(returns)?;
            return Some(match offset < FAR {
                true => (format!("heap:{key}+{offset}"), Wherein::Block(block.addr)),
                false => (format!("heap:{key}+"), Wherein::Many),
            });
        }
        let module = self.process.module_of(addr)?;
        let (index, offset) = (module.index, addr - module.base);
        let (build, _) = self.builds.of(self.process, Place::Code { module: index, offset: 0 })?;
        let name = build.variable(offset)?;
        let wherein = if name.contains('[') { Wherein::Many } else { Wherein::Global };
        Some((name, wherein))
    }

    fn holding(&mut self, thread: ThreadIx) -> Vec<Hold> {
        let held: Vec<(u64, u64)> = self.held.held(thread).iter().map(|held| (held.lock, held.since.index)).collect();
        let mut holds = Vec::new();
        for (object, number) in held {
            let class = match self.classes.get(&(object, number)) {
                Some(class) => *class,
                None => {
                    let class = self.name(object).map(|(name, _)| self.locks.of(name));
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
        let Some(point) = self.point(event.place) else { return };
        if let Some(last) = self.threads.get_mut(&event.thread.0).and_then(|calls| calls.functions.last_mut()) {
            *last = Some(point.function);
        }
        if let Some((name, _)) = self.name(lock.0) {
            self.calls.entry(point.key).or_default().insert(name);
        }
    }

    fn finish(self, program: &str) -> Profile {
        let names = ProfileNames {
            program: program.to_owned(),
            variables: self.variables.names.iter().map(|name| (name.clone(), self.groups.members(name))).collect(),
            labels: self.labels.names,
            locks: self.locks.names,
        };
        let mut profile = self.learner.finish(&names);
        profile.calls = self.calls;
        profile.time = self.time;
        profile.busy = self.busy;
        let key = |place: &(u32, u32)| Some(&self.points.get(place)?.as_ref()?.key);
        let mut passed: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, count) in &self.passed {
            *passed.entry(key(place).map_or("", String::as_str)).or_default() += count;
        }
        for (number, sites) in self.sites {
            let name = self.variables.names.get(number as usize);
            if let Some(variable) = name.and_then(|name| profile.variables.get_mut(name)) {
                variable.accesses += sites.iter().filter_map(|site| passed.get(site.as_str())).sum::<u64>();
                variable.sites = sites;
            }
        }
        profile
    }
}
