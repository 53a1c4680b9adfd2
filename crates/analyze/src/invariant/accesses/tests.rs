//! Traces made by the builder, as invariants read them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;
use selvedge_events::EventKind as K;
use selvedge_events::pack::{self, Small, object, pc_payload};
use selvedge_events::{Acquire as How, Mode, Order, Primitive, SiteId};
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{Place, Process, TraceFile};

use super::*;
use crate::invariant::rivals::{Ai, Invariant};

const BASE: u64 = 0x40_0000;
const GLOBAL: u64 = BASE + 0x4000;
const HEAP: u64 = 0x7000_0000_1000;
const LOCK: u64 = 0x5000;

const SITES: &[(u32, u32, &str)] = &[
    (0, 0x10, "__tsan_read1"),
    (1, 0x14, "__tsan_write1"),
    (2, 0x18, "__tsan_read4"),
    (3, 0x1c, "__tsan_write4"),
    (4, 0x20, "__tsan_read8"),
    (5, 0x24, "__tsan_write8"),
    (6, 0x28, "__tsan_read_write4"),
    (7, 0x2c, "__tsan_atomic32_fetch_add"),
    (8, 0x30, "__tsan_read_range"),
];
const SIZES: [u64; 7] = [1, 1, 4, 4, 8, 8, 4];

#[derive(Default)]
struct Steps {
    streams: BTreeMap<u32, Stream>,
    time: u64,
}

impl Steps {
    fn tick(&mut self, thread: u32) -> (u64, &mut Stream) {
        self.time += 1;
        (self.time << pack::TICK_SHIFT, self.streams.entry(thread).or_default())
    }

    fn access(&mut self, thread: u32, site: u32, addr: u64) -> &mut Steps {
        let (time, stream) = self.tick(thread);
        stream.access(site, addr, Some(time));
        self
    }

    fn range(&mut self, thread: u32, addr: u64, size: u64, write: bool) -> &mut Steps {
        let (time, stream) = self.tick(thread);
        stream.range(8, addr, size, write, Some(time));
        self
    }

    fn event(&mut self, thread: u32, kind: K, words: [u64; 2]) -> &mut Steps {
        let (time, stream) = self.tick(thread);
        let payload = if kind.at_site() { 7 } else { pc_payload(0, 0x100 + 4 * kind as u32) };
        stream.wide(kind, time, payload, [words[0], words[1], 0]);
        self
    }

    fn lock(&mut self, thread: u32, kind: K, how: How) -> &mut Steps {
        self.event(thread, kind, [object(LOCK, how.pack()), 0])
    }

    fn operation(&mut self, thread: u32, number: u32) -> &mut Steps {
        self.streams.entry(thread).or_default().raw(Small::Operation(number).pack());
        self
    }

    fn process(&self) -> Process {
        let mut file = TraceBuilder::new();
        file.controlled().module(0, BASE, BASE + 0x1_0000, &[1; 20], "/bin/x").sites(0, SITES);
        for (thread, stream) in &self.streams {
            file.stream(*thread, stream);
        }
        Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.1.0"))
    }

    fn run(&self) -> Run {
        accesses(&self.process(), usize::MAX, number)
    }
}

/// Sites keep their numbers, code is numbered from 1000.
fn number(place: Place) -> Option<u32> {
    match place {
        Place::Site(SiteId(id)) => Some(id),
        Place::Code { offset, .. } => Some(1000 + offset),
        Place::Unknown => None,
    }
}

fn mutex() -> How {
    How::of(Primitive::Mutex, Mode::Exclusive)
}

#[test]
fn what_an_access_is() {
    let mut steps = Steps::default();
    steps.operation(1, 5).access(1, 2, GLOBAL).operation(1, 6).access(1, 3, GLOBAL).access(2, 6, GLOBAL);
    steps.event(2, K::Atomic, [object(GLOBAL, 5), 0]);
    let run = steps.run();
    let said: Vec<_> =
        run.accesses.iter().map(|a| (a.thread, a.location, a.site, a.read, a.write, a.index, a.operation)).collect();
    assert_eq!(
        said,
        [
            (1, 0, 2, true, false, 0, 5),
            (1, 0, 3, false, true, 1, 6),
            (2, 0, 6, true, true, 2, 0),
            (2, 0, 7, true, true, 3, 0)
        ]
    );
    assert_eq!(run.locations, [Location { home: Home::Image(0), offset: 0x4000, size: 4 }]);
    assert!(!run.cut);
}

#[test]
fn accesses_are_cut_where_others_end() {
    let mut steps = Steps::default();
    steps.access(1, 5, GLOBAL).access(2, 0, GLOBAL + 2);
    let run = steps.run();
    let touched: Vec<_> = run.accesses.iter().map(|access| (access.index, access.location)).collect();
    assert_eq!(touched, [(0, 0), (0, 1), (0, 2), (1, 1)]);
    let sizes: Vec<_> = run.locations.iter().map(|location| (location.offset, location.size)).collect();
    assert_eq!(sizes, [(0x4000, 2), (0x4002, 1), (0x4003, 5)]);
}

#[test]
fn blocks_begin_anew() {
    let mut steps = Steps::default();
    steps.event(1, K::Alloc, [HEAP, 16]).access(1, 3, HEAP + 4).event(1, K::Free, [HEAP, 0]);
    steps.access(2, 3, HEAP + 4).event(2, K::Alloc, [HEAP, 16]).access(2, 3, HEAP + 4).access(1, 3, 0x9000);
    let run = steps.run();
    let locations: Vec<_> = run.accesses.iter().map(|access| access.location).collect();
    assert_eq!(locations, [0, 1, 2, 3]);
    let homes: Vec<_> = run.locations.iter().map(|location| (location.home, location.offset)).collect();
    assert_eq!(
        homes,
        [(Home::Block(0), 4), (Home::Elsewhere, HEAP + 4), (Home::Block(1), 4), (Home::Elsewhere, 0x9000)]
    );
}

#[test]
fn locks_with_their_operations() {
    let mut steps = Steps::default();
    let busy = How { bounded: true, result: 16, ..mutex() };
    steps.operation(1, 3).lock(1, K::Acquire, mutex()).operation(1, 4).access(1, 3, GLOBAL);
    steps.operation(2, 9).lock(2, K::Acquire, busy);
    steps.operation(1, 5).lock(1, K::Release, mutex());
    let run = steps.run();
    let said: Vec<_> = run.locks.iter().map(|l| (l.thread, l.operation, l.index, l.lock, l.acquires)).collect();
    assert_eq!(said, [(1, 3, 0, LOCK, true), (1, 5, 3, LOCK, false)], "a failed attempt takes nothing");
    assert_eq!(
        run.locks[0].site,
        number(Place::Code { module: selvedge_events::ModuleIx(0), offset: 0x100 + 4 * K::Acquire as u32 })
    );
}

#[test]
fn locks_that_are_misused_or_waited_with() {
    let locks = |steps: &Steps| steps.run().locks.iter().map(|l| (l.thread, l.lock, l.acquires)).collect::<Vec<_>>();
    let mut misused = Steps::default();
    misused.lock(1, K::Acquire, mutex()).lock(2, K::Release, mutex()).lock(1, K::Release, mutex());
    assert_eq!(locks(&misused), [(1, LOCK, true), (2, LOCK, false), (1, LOCK, false)]);
    let mut waits = Steps::default();
    waits.lock(1, K::Acquire, mutex()).event(1, K::WaitBegin, [object(0x6000, 0), object(LOCK, 0)]);
    waits.event(1, K::WaitEnd, [object(0x6000, 0), object(LOCK, 0)]).lock(1, K::Release, mutex());
    assert_eq!(locks(&waits), [(1, LOCK, true), (1, LOCK, false), (1, LOCK, true), (1, LOCK, false)]);
}

#[test]
fn locks_made_of_atomics_are_locks_and_accesses() {
    let mut steps = Steps::default();
    for thread in [1, 2] {
        for (order, before) in [(Order::Acquire, 0), (Order::Release, 1)] {
            steps.streams.entry(thread).or_default().raw(Small::Before { upper: false, half: before }.pack());
            steps.event(thread, K::Atomic, [object(GLOBAL, order as u16), 0]);
        }
    }
    let run = steps.run();
    let locks: Vec<_> = run.locks.iter().map(|l| (l.thread, l.index, l.lock, l.acquires)).collect();
    assert_eq!(locks, [(1, 0, GLOBAL, true), (1, 1, GLOBAL, false), (2, 2, GLOBAL, true), (2, 3, GLOBAL, false)]);
    assert_eq!(run.accesses.len(), 4);
}

#[test]
fn threads_made_and_waited_for() {
    let mut steps = Steps::default();
    steps.event(0, K::ThreadCreate, [5, 0]).access(5, 3, GLOBAL).event(0, K::ThreadJoin, [5, 0]);
    assert_eq!(
        steps.run().threads,
        [
            ThreadEvent { thread: 0, index: 0, other: 5, made: true },
            ThreadEvent { thread: 0, index: 2, other: 5, made: false }
        ]
    );
}

#[test]
fn sites_without_a_number_are_left_out() {
    let mut steps = Steps::default();
    steps.access(1, 5, GLOBAL).access(1, 0, GLOBAL + 2);
    let run = accesses(&steps.process(), usize::MAX, |place| number(place).filter(|site| *site != 0));
    assert_eq!(run.accesses.len(), 1, "and do not cut");
}

#[test]
fn a_colour_is_one_location() {
    let mut steps = Steps::default();
    steps.event(1, K::Alloc, [HEAP, 16]).access(1, 3, HEAP + 4).access(2, 2, HEAP + 12).access(2, 0, HEAP + 13);
    let run = coloured(&steps.process(), usize::MAX, number, |site| if site == 2 { -8 } else { 0 });
    let touched: Vec<_> = run.accesses.iter().map(|access| (access.site, access.location)).collect();
    assert_eq!(touched, [(3, 0), (2, 0), (0, 1)]);
    let locations: Vec<_> = run.locations.iter().map(|location| (location.offset, location.size)).collect();
    assert_eq!(locations, [(4, 4), (13, 1)]);
}

#[test]
fn there_may_be_too_many() {
    let mut steps = Steps::default();
    steps.access(1, 5, GLOBAL).access(1, 0, GLOBAL + 2).access(1, 5, GLOBAL);
    let run = accesses(&steps.process(), 5, number);
    assert_eq!((run.accesses.len(), run.cut), (4, true));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Access { thread: u32, site: u32, at: u64 },
    Range { thread: u32, at: u64, size: u64, write: bool },
    Alloc,
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..4, 0u32..7, 0u64..24).prop_map(|(thread, site, at)| Step::Access { thread, site, at }),
        1 => (1u32..4, 0u64..16, 1u64..16, any::<bool>())
            .prop_map(|(thread, at, size, write)| Step::Range { thread, at, size, write }),
        1 => Just(Step::Alloc),
        1 => Just(Step::Free),
    ]
}

/// The block's bytes of those that steps touch.
const BLOCK: std::ops::Range<u64> = 8..20;

proptest! {
    /// Belonging sets over locations are those over bytes.
    #[test]
    fn locations_are_exact(all in prop::collection::vec(step(), 0..40)) {
        let mut steps = Steps::default();
        // By byte: site and thread of all accesses since it was new.
        let mut bytes: BTreeMap<u64, Vec<(u32, u32)>> = BTreeMap::new();
        let mut sets: BTreeMap<u32, BTreeSet<Option<u32>>> = BTreeMap::new();
        let mut there = false;
        for step in all {
            let (thread, site, at, size) = match step {
                Step::Access { thread, site, at } => {
                    steps.access(thread, site, HEAP + at);
                    (thread, site, at, SIZES[site as usize])
                }
                Step::Range { thread, at, size, write } => {
                    steps.range(thread, HEAP + at, size, write);
                    (thread, 8, at, size)
                }
                Step::Alloc | Step::Free => {
                    if matches!(step, Step::Alloc) {
                        steps.event(1, K::Alloc, [HEAP + BLOCK.start, BLOCK.end - BLOCK.start]);
                        there = true;
                    } else if std::mem::replace(&mut there, false) {
                        steps.event(1, K::Free, [HEAP + BLOCK.start, 0]);
                    } else {
                        continue;
                    }
                    bytes.retain(|at, _| !BLOCK.contains(at));
                    continue;
                }
            };
            for at in at..at + size {
                let before = bytes.entry(at).or_default();
                let remote = before.iter().rev().find(|(_, by)| *by != thread).map(|(site, _)| *site);
                sets.entry(site).or_default().insert(remote);
                before.push((site, thread));
            }
        }
        let mut ai = Ai::default();
        let run = steps.run();
        ai.learn(&run.accesses);
        prop_assert_eq!(&ai.sets, &sets);
        prop_assert_eq!(ai.first_violation(&run.accesses), None);
    }
}
