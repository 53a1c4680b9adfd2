//! Traces made by the builder, imported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;
use selvedge_analyze::import::{self, Imported, LeftOut, Options, Sort};
use selvedge_analyze::{Event, History, Op};
use selvedge_events::EventKind as K;
use selvedge_events::pack::{self, object, pc_payload};
use selvedge_events::{Acquire as How, Mode, Order, Primitive, ThreadIx};
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{EventRef, Place, Process, TraceFile};

const X: u64 = 0x7000_0000_1000;
const L: u64 = 0x5000;
const M: u64 = 0x5100;
const COND: u64 = 0x5200;
const OBJECT: u64 = 0x5300;

const SITES: &[(u32, u32, &str)] = &[
    (0, 0x10, "__tsan_read4"),
    (1, 0x14, "__tsan_write4"),
    (2, 0x18, "__tsan_read8"),
    (3, 0x1c, "__tsan_write8"),
    (4, 0x20, "__tsan_atomic32_load"),
    (5, 0x24, "__tsan_atomic32_store"),
    (6, 0x28, "__tsan_atomic32_fetch_add"),
    (7, 0x2c, "__tsan_atomic32_compare_exchange_strong"),
    (8, 0x30, "__tsan_atomic_thread_fence"),
    (9, 0x34, "__tsan_atomic_signal_fence"),
    (10, 0x38, "__tsan_read_write4"),
    (11, 0x3c, "__tsan_read1"),
    (12, 0x40, "__tsan_write1"),
];
const READ4: u32 = 0;
const WRITE4: u32 = 1;
const READ8: u32 = 2;
const WRITE8: u32 = 3;
const RANGE: u32 = 11;

/// A run under control: every step is the next event of all.
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
        stream.range(RANGE, addr, size, write, Some(time));
        self
    }

    fn event(&mut self, thread: u32, kind: K, words: [u64; 2]) -> &mut Steps {
        let (time, stream) = self.tick(thread);
        let payload = if kind.at_site() { 8 } else { pc_payload(0, 0x100 + 4 * kind as u32) };
        stream.wide(kind, time, payload, [words[0], words[1], 0]);
        self
    }

    fn atomic(&mut self, thread: u32, site: u32, addr: u64, order: Order, failure: Order, failed: bool) -> &mut Steps {
        let (time, stream) = self.tick(thread);
        let payload = u64::from(site) | if failed { pack::PAYLOAD_FLAG } else { 0 };
        stream.wide(K::Atomic, time, payload, [object(addr, order as u16 | (failure as u16) << 3), 0, 0]);
        self
    }

    fn lock(&mut self, thread: u32, kind: K, addr: u64, how: How) -> &mut Steps {
        self.event(thread, kind, [object(addr, how.pack()), 0])
    }

    fn process(&self) -> Process {
        let mut file = TraceBuilder::new();
        file.controlled().module(0, 0x40_0000, 0x41_0000, &[1; 20], "/bin/x").sites(0, SITES);
        for (thread, stream) in &self.streams {
            file.stream(*thread, stream);
        }
        Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.1.0"))
    }

    fn import(&self) -> Imported {
        checked(import::import(&self.process(), &Options::default()))
    }

    fn import_all(&self) -> Imported {
        checked(import::import(&self.process(), &Options { keep_private: true, ..Options::default() }))
    }
}

fn mutex() -> How {
    How::of(Primitive::Mutex, Mode::Exclusive)
}

fn shared() -> How {
    How::of(Primitive::Rwlock, Mode::Shared)
}

fn busy() -> How {
    How { bounded: true, result: 16, ..mutex() }
}

/// Checks all that a history promises.
fn checked(imported: Imported) -> Imported {
    let history = &imported.history;
    check(history);
    assert_eq!(imported.indices.len(), history.len());
    assert_eq!(imported.variables.len(), history.variables as usize);
    assert_eq!(imported.locks.len(), history.locks as usize);
    assert_eq!(imported.objects.len(), history.objects as usize);
    assert_eq!(imported.locations.len(), history.locations as usize);
    assert_eq!(imported.threads.len(), history.threads as usize);
    for (number, variable) in imported.variables.iter().enumerate() {
        let first = history.events.iter().position(|event| event.op.is_access() && event.target == number as u32);
        assert_eq!(first, Some(variable.first as usize));
    }
    imported
}

fn check(history: &History) {
    assert_eq!(history.sources.len(), history.len());
    assert!(history.sources.is_sorted());
    let mut begun: BTreeSet<u32> = BTreeSet::new();
    let mut joined: BTreeSet<u32> = BTreeSet::new();
    let mut owners: BTreeMap<u32, u16> = BTreeMap::new();
    let mut readers: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
    for event in &history.events {
        let Event { op, thread, target, location, .. } = *event;
        assert!(u32::from(thread) < history.threads && location < history.locations, "{event:?}");
        assert!(!joined.contains(&u32::from(thread)), "an event after the join");
        begun.insert(u32::from(thread));
        let most = match op {
            _ if op.is_access() => history.variables,
            _ if op.acquires() || op.releases() => history.locks,
            Op::Fork | Op::Join => history.threads,
            _ if op.posts() || op.takes() => history.objects,
            _ => 1,
        };
        assert!(target < most, "{event:?}");
        let inside = readers.entry(target).or_default();
        match op {
            Op::Fork => assert!(begun.insert(target), "an event before the fork"),
            Op::Join => assert!(joined.insert(target)),
            Op::Acquire => assert!(inside.is_empty() && owners.insert(target, thread).is_none()),
            Op::Release => assert_eq!(owners.remove(&target), Some(thread)),
            Op::AcquireShared => assert!(!owners.contains_key(&target) && inside.insert(thread)),
            Op::ReleaseShared => assert!(inside.remove(&thread)),
            _ => {}
        }
    }
}

/// The history as (thread, op, target).
fn told(imported: &Imported) -> Vec<(u16, Op, u32)> {
    imported.history.events.iter().map(|event| (event.thread, event.op, event.target)).collect()
}

#[test]
fn two_threads_and_a_lock() {
    let mut steps = Steps::default();
    steps
        .event(0, K::ThreadStart, [u64::from(u32::MAX) << 32, 0])
        .event(0, K::ThreadCreate, [1, 0])
        .event(1, K::ThreadStart, [1, 0])
        .lock(0, K::Acquire, L, mutex())
        .access(0, READ4, X)
        .access(0, WRITE4, X)
        .lock(0, K::Release, L, mutex())
        .lock(1, K::Acquire, L, mutex())
        .access(1, 10, X)
        .lock(1, K::Release, L, mutex())
        .event(1, K::ThreadExit, [0, 0])
        .event(0, K::ThreadJoin, [1, 0]);
    let imported = steps.import();
    use Op::*;
    let expect = [
        (0, Fork, 1),
        (0, Acquire, 0),
        (0, Read, 0),
        (0, Write, 0),
        (0, Release, 0),
        (1, Acquire, 0),
        (1, Read, 0),
        (1, Write, 0),
        (1, Release, 0),
        (0, Join, 1),
    ];
    assert_eq!(told(&imported), expect);
    assert_eq!(imported.events, 12);
    assert_eq!(imported.history.sources, [1, 3, 4, 5, 6, 7, 8, 8, 9, 11]);
    assert_eq!(imported.event_ref(5), Some(EventRef { thread: ThreadIx(1), index: 1 }));
    assert_eq!(imported.event_ref(6), imported.event_ref(7));
    assert_eq!(imported.place(2), Some(Place::Site(selvedge_events::SiteId(READ4))));
    assert_eq!((imported.variables[0].addr, imported.variables[0].size, imported.variables[0].first), (X, 4, 2));
    assert_eq!(imported.locks[0].addr, L);
    assert_eq!(imported.left_out, LeftOut::default());
}

#[test]
fn an_access_is_cut_by_later_ones() {
    let mut steps = Steps::default();
    // Cut by a write that comes after; reads of parts are reads of the whole.
    steps.access(0, WRITE8, X).access(1, READ4, X).access(1, 12, X + 5).range(0, X - 2, 4, false);
    let imported = steps.import_all();
    let cells: Vec<(u64, u32)> =
        imported.variables.iter().map(|variable| (variable.addr - (X - 2), variable.size)).collect();
    assert_eq!(cells, [(2, 5), (7, 1), (8, 2), (0, 2)]);
    use Op::*;
    let expect = [(0, Write, 0), (0, Write, 1), (0, Write, 2), (1, Read, 0), (1, Write, 1), (0, Read, 3), (0, Read, 0)];
    assert_eq!(told(&imported), expect);
    assert_eq!(imported.history.sources, [0, 0, 0, 1, 2, 3, 3]);
    let imported = steps.import();
    assert_eq!(imported.variables.len(), 2, "what one thread touches is left out");
    assert_eq!(imported.left_out.private, 2);
}

#[test]
fn who_reads_a_part_conflicts_with_that_part_only() {
    let mut steps = Steps::default();
    // Read before there is a boundary, both ways; then written in parts.
    steps
        .access(0, WRITE8, X)
        .access(1, READ4, X)
        .access(2, READ4, X + 4)
        .range(0, X + 16, 16, false)
        .range(1, X + 18, 4, false)
        .access(3, WRITE4, X + 4)
        .access(3, WRITE4, X + 24);
    let imported = steps.import_all();
    let of = |thread: u16| {
        let mine = imported.history.events.iter().filter(move |event| event.thread == thread);
        mine.map(|event| imported.variables[event.target as usize].addr - X).collect::<Vec<_>>()
    };
    assert_eq!((of(1), of(2), of(3)), (vec![0, 16], vec![4], vec![4, 24]));
    assert_eq!(of(0), [0, 4, 16, 24, 28]);
}

#[test]
fn what_nobody_writes_is_left_out() {
    let mut steps = Steps::default();
    steps.access(0, READ4, X).access(1, READ4, X).access(0, WRITE4, X + 8).access(0, READ4, X + 8);
    let imported = steps.import();
    assert!(imported.history.is_empty());
    assert_eq!((imported.left_out.private, imported.history.variables), (4, 0));
    assert_eq!(steps.import_all().history.len(), 4);
}

#[test]
fn blocks_at_one_address_are_told_apart_and_freed() {
    let mut steps = Steps::default();
    for round in 0..2 {
        steps
            .event(0, K::Alloc, [X, 24])
            .access(0, WRITE8, X + 8)
            .access(0, WRITE8, X + 16)
            .access(1 + round, READ8, X + 8)
            .event(0, K::Free, [X, 0]);
    }
    let imported = steps.import();
    use Op::*;
    let expect = [(0, Write, 0), (1, Read, 0), (0, Write, 0), (0, Write, 1), (2, Read, 1), (0, Write, 1)];
    assert_eq!(told(&imported), expect, "only what another thread touched is written by free");
    assert_eq!(imported.left_out.private, 2);
    // With private accesses too, free still writes only what is shared.
    assert_eq!(steps.import_all().history.len(), 8);
}

#[test]
fn a_free_by_another_thread_is_a_write_and_what_is_used_after_it_is_the_same() {
    let mut steps = Steps::default();
    steps
        .event(0, K::Alloc, [X, 4])
        .access(0, READ4, X)
        .event(1, K::Free, [X, 0])
        .access(0, READ4, X)
        .event(1, K::Alloc, [X, 4])
        .access(1, WRITE4, X);
    assert_eq!(told(&steps.import()), [(0, Op::Read, 0), (1, Op::Write, 0), (0, Op::Read, 0)]);
}

#[test]
fn locks_in_a_new_block_are_new() {
    let mut steps = Steps::default();
    for _ in 0..2 {
        steps
            .event(0, K::Alloc, [L - 16, 64])
            .lock(0, K::Acquire, L, mutex())
            .lock(0, K::Release, L, mutex())
            .lock(0, K::Acquire, M, mutex())
            .lock(0, K::Release, M, mutex());
    }
    let locks: Vec<u64> = steps.import().locks.iter().map(|lock| lock.addr).collect();
    assert_eq!(locks, [L, M, L]);
    steps.lock(0, K::Destroy, M, mutex()).lock(0, K::Acquire, M, mutex());
    assert_eq!(steps.import().locks.len(), 4);
}

#[test]
fn atomics_have_orders_and_failures() {
    let mut steps = Steps::default();
    use Order::*;
    steps
        .atomic(0, 5, X, Release, Relaxed, false)
        .atomic(1, 4, X, Acquire, Relaxed, false)
        .atomic(1, 6, X, AcqRel, Relaxed, false)
        .atomic(0, 7, X, AcqRel, Consume, false)
        .atomic(0, 7, X, AcqRel, Consume, true)
        .event(0, K::Fence, [SeqCst as u64, 0]);
    let (time, stream) = steps.tick(0);
    stream.wide(K::Fence, time, 9, [SeqCst as u64, 0, 0]);
    let told: Vec<(Op, Order)> = steps.import().history.events.iter().map(|event| (event.op, event.order)).collect();
    let expect = [
        (Op::AtomicWrite, Release),
        (Op::AtomicRead, Acquire),
        (Op::AtomicUpdate, AcqRel),
        (Op::AtomicUpdate, AcqRel),
        (Op::AtomicRead, Consume),
        (Op::Fence, SeqCst),
    ];
    assert_eq!(told, expect, "a signal fence orders nothing between threads");
}

#[test]
fn recursive_locks_count_once() {
    let mut steps = Steps::default();
    for kind in [K::Acquire, K::Acquire, K::Release, K::Release, K::Acquire] {
        steps.lock(0, kind, L, mutex());
    }
    let imported = steps.import();
    assert_eq!(told(&imported), [(0, Op::Acquire, 0), (0, Op::Release, 0), (0, Op::Acquire, 0)]);
    assert_eq!(imported.left_out.nested, 2);
}

#[test]
fn readers_are_inside_together() {
    let mut steps = Steps::default();
    let write = How::of(Primitive::Rwlock, Mode::Exclusive);
    steps
        .lock(0, K::Acquire, L, shared())
        .lock(1, K::Acquire, L, shared())
        .lock(0, K::Release, L, write)
        .lock(1, K::Release, L, write)
        .lock(0, K::Acquire, L, write)
        .lock(0, K::Release, L, write);
    use Op::*;
    let expect = [
        (0, AcquireShared, 0),
        (1, AcquireShared, 0),
        (0, ReleaseShared, 0),
        (1, ReleaseShared, 0),
        (0, Acquire, 0),
        (0, Release, 0),
    ];
    assert_eq!(told(&steps.import()), expect);
}

#[test]
fn a_lock_that_changes_hands_is_an_object() {
    let mut steps = Steps::default();
    steps
        .lock(0, K::Acquire, L, mutex())
        .lock(1, K::Release, L, mutex())
        .lock(1, K::Acquire, L, mutex())
        .lock(0, K::Acquire, M, mutex())
        .lock(0, K::Release, M, mutex());
    let imported = steps.import();
    use Op::*;
    assert_eq!(told(&imported), [(0, Take, 0), (1, Post, 0), (1, Take, 0), (0, Acquire, 1), (0, Release, 1)]);
    assert_eq!((imported.objects[0].sort, imported.objects[0].addr), (Sort::Lock, L));
    assert_eq!(imported.left_out.irregular_locks, 1);
    // The owner of a robust mutex died.
    let mut steps = Steps::default();
    steps.lock(0, K::Acquire, L, mutex()).lock(1, K::Acquire, L, How { result: 130, ..mutex() });
    assert_eq!(told(&steps.import()), [(0, Take, 0), (1, Take, 0)]);
}

#[test]
fn a_failed_attempt_reads_the_state_of_the_lock() {
    let mut steps = Steps::default();
    steps
        .lock(0, K::Acquire, M, mutex())
        .lock(0, K::Acquire, L, mutex())
        .lock(1, K::Acquire, L, busy())
        .lock(0, K::Release, L, mutex())
        .lock(0, K::Release, M, mutex());
    let imported = steps.import();
    use Op::*;
    let expect = [
        (0, Acquire, 0),
        (0, Acquire, 1),
        (0, AtomicWrite, 0),
        (1, AtomicRead, 0),
        (0, AtomicWrite, 0),
        (0, Release, 1),
        (0, Release, 0),
    ];
    assert_eq!(told(&imported), expect);
    assert!(imported.variables[0].is_state());
    assert_eq!(imported.variables[0].addr, L);
    assert!(imported.history.events.iter().all(|event| !event.op.is_atomic() || event.order == Order::Relaxed));
    assert_eq!(imported.history.sources, [0, 1, 1, 2, 3, 3, 4]);
    // So it is with semaphores.
    let mut steps = Steps::default();
    steps.event(0, K::SemPost, [OBJECT, 0]).event(0, K::SemWait, [OBJECT, 0]).event(
        1,
        K::SemWait,
        [object(OBJECT, 1), 0],
    );
    assert_eq!(
        told(&steps.import()),
        [(0, AtomicWrite, 0), (0, Post, 0), (0, Take, 0), (0, AtomicWrite, 0), (1, AtomicRead, 0)]
    );
}

#[test]
fn waits_are_woken_or_not() {
    let mut steps = Steps::default();
    let timeout = object(COND, 110);
    steps
        .lock(0, K::Acquire, L, mutex())
        .event(0, K::WaitBegin, [COND, L])
        .event(1, K::Signal, [COND, 0])
        .event(0, K::WaitEnd, [COND, L])
        .event(0, K::WaitBegin, [COND, L])
        .event(0, K::WaitEnd, [COND, L])
        .event(0, K::WaitBegin, [COND, L])
        .event(1, K::Broadcast, [COND, 0])
        .event(0, K::WaitEnd, [timeout, L])
        .lock(0, K::Release, L, mutex());
    let imported = steps.import();
    use Op::*;
    let expect = [
        (0, Acquire, 0),
        (0, Release, 0),
        (0, Wait, 0),
        (1, Signal, 0),
        (0, Woken, 0),
        (0, Acquire, 0),
        (0, Release, 0),
        (0, Wait, 0),
        (0, Acquire, 0),
        (0, Release, 0),
        (0, Wait, 0),
        (1, Broadcast, 0),
        (0, Acquire, 0),
        (0, Release, 0),
    ];
    assert_eq!(told(&imported), expect);
    assert_eq!(imported.left_out.not_woken, 2);
    assert_eq!(imported.history.sources[1..6], [1, 1, 2, 3, 3]);
}

#[test]
fn a_barrier_is_an_object_a_generation() {
    let mut steps = Steps::default();
    let (enter, leave) = (K::BarrierEnter, K::BarrierLeave);
    // Thread 0 enters again before thread 1 is seen leaving.
    for (thread, kind) in
        [(0, enter), (1, enter), (0, leave), (0, enter), (1, leave), (1, enter), (1, leave), (0, leave)]
    {
        steps.event(thread, kind, [OBJECT, 0]);
    }
    use Op::*;
    let expect = [
        (0, Post, 0),
        (1, Post, 0),
        (0, Take, 0),
        (0, Post, 1),
        (1, Take, 0),
        (1, Post, 1),
        (1, Take, 1),
        (0, Take, 1),
    ];
    assert_eq!(told(&steps.import()), expect);
}

#[test]
fn other_objects_are_posted_and_taken() {
    let mut steps = Steps::default();
    let guard = How::of(Primitive::Guard, Mode::Exclusive);
    steps
        .event(0, K::Once, [OBJECT, 0])
        .event(1, K::Once, [OBJECT, 0])
        .lock(0, K::Acquire, L, guard)
        .lock(0, K::Release, L, guard)
        .event(1, K::Once, [L, 0])
        .event(0, K::FutexWake, [OBJECT, 1])
        .event(1, K::FutexWaitEnd, [OBJECT, 0])
        .event(1, K::FutexWaitEnd, [object(OBJECT, 1), 0])
        .event(0, K::HappensBefore, [OBJECT, 0])
        .event(1, K::HappensAfter, [OBJECT, 0]);
    let imported = steps.import();
    use Op::*;
    let expect = [
        (0, Post, 0),
        (1, Take, 0),
        (0, Acquire, 0),
        (0, Post, 1),
        (0, Release, 0),
        (1, Take, 1),
        (0, Post, 2),
        (1, Take, 2),
        (0, Post, 3),
        (1, Take, 3),
    ];
    assert_eq!(told(&imported), expect);
    let sorts: Vec<Sort> = imported.objects.iter().map(|object| object.sort).collect();
    assert_eq!(sorts, [Sort::Once, Sort::Once, Sort::Futex, Sort::Annotated]);
}

#[test]
fn fibers_are_switched_to() {
    let mut steps = Steps::default();
    steps
        .event(0, K::ThreadCreate, [1, 0])
        .event(1, K::ThreadStart, [1, 0])
        .access(0, WRITE4, X)
        .event(0, K::FiberSwitch, [1 | 1 << 32, 0])
        .access(1, WRITE4, X)
        .event(1, K::FiberSwitch, [0, 0])
        .access(0, WRITE4, X);
    use Op::*;
    let expect = [(0, Fork, 1), (0, Write, 0), (0, Post, 0), (1, Take, 0), (1, Write, 0), (0, Write, 0)];
    assert_eq!(told(&steps.import()), expect);
}

#[test]
fn annotations_are_respected() {
    let mut steps = Steps::default();
    steps
        .access(0, WRITE4, X)
        .access(1, READ4, X)
        .event(1, K::Ignore, [1, 0])
        .access(1, WRITE4, X)
        .event(1, K::Ignore, [0, 0])
        .access(1, WRITE8, X + 8)
        .access(0, READ8, X + 8)
        .event(0, K::Benign, [X + 8, 4]);
    let imported = steps.import();
    assert_eq!(imported.left_out.ignored, 1);
    let ops: Vec<Op> = imported.history.events.iter().map(|event| event.op).collect();
    use Op::*;
    assert_eq!(ops, [Write, Read, AtomicWrite, Write, AtomicRead, Read]);
    assert_eq!(imported.history.events[2].order, Order::Relaxed);
}

#[test]
fn what_is_out_of_turn_is_left_out() {
    let mut steps = Steps::default();
    steps
        .access(1, WRITE4, X)
        .event(0, K::ThreadCreate, [1, 0])
        .event(0, K::ThreadJoin, [1, 0])
        .access(1, WRITE4, X)
        .access(0, WRITE4, X)
        .event(0, K::ThreadJoin, [u64::from(u32::MAX), 0])
        .event(0, K::ThreadJoin, [0, 0]);
    let imported = steps.import();
    assert_eq!(told(&imported), [(0, Op::Write, 0), (1, Op::Join, 0), (1, Op::Write, 0)]);
    assert_eq!((imported.left_out.out_of_turn, imported.left_out.unknown_joins), (2, 2));
}

#[test]
fn what_is_too_much_is_cut() {
    let mut steps = Steps::default();
    steps.range(0, X, 8, true);
    for byte in 0..8 {
        steps.access(1, 12, X + byte);
    }
    for most in [0, 4, 8, 9, 12, 15, 16, 99] {
        let imported = import::import(&steps.process(), &Options { most_events: most, keep_private: false });
        let imported = checked(imported);
        assert!(imported.history.len() <= most as usize, "{most}");
        assert_eq!(imported.left_out.cut, most < 16, "{most}");
    }
    let mut steps = Steps::default();
    steps.range(0, X, u64::MAX, true).range(1, X, 1 << 40, true).event(0, K::Alloc, [X, 1 << 46]).event(
        0,
        K::Free,
        [X, 0],
    );
    let imported = steps.import();
    assert_eq!((imported.history.len(), imported.left_out.long), (2, 3));
}

#[test]
fn addresses_of_a_damaged_trace_are_survived() {
    let mut steps = Steps::default();
    for addr in [0, 1, (1 << 48) - 1, u64::MAX - 7, u64::MAX] {
        for thread in 0..2 {
            steps.event(thread, K::Alloc, [addr, 100_000]).access(thread, WRITE8, addr).access(thread, READ4, addr);
            steps.range(thread, addr, u64::MAX, true).event(thread, K::Alloc, [addr, u64::MAX]);
            steps.event(thread, K::Free, [addr, 0]);
        }
    }
    steps.import();
    steps.import_all();
}

#[test]
fn long_ranges_are_cut_like_others() {
    let mut steps = Steps::default();
    let size = 1 << 20;
    steps.range(0, X + 4, size, true);
    for at in (0..size).step_by(4096 * 16) {
        steps.access(1, READ8, X + 2048 + at);
    }
    steps.event(0, K::Alloc, [X + 8192, size / 2]).range(1, X, size, true).range(0, X + 3, size, false);
    let imported = steps.import_all();
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    for (event, source) in imported.history.events.iter().zip(&imported.history.sources) {
        *covered.entry(*source).or_default() += u64::from(imported.variables[event.target as usize].size);
    }
    let whole: Vec<u64> = covered.into_values().collect();
    assert_eq!((whole[0], whole[17]), (size, size), "writes have all their bytes");
    assert!(whole[1] >= 8 && whole[18] >= size);
    assert_eq!(whole.len(), 19);
}

/// One step of a random program over a little memory.
#[derive(Clone, Debug)]
enum Step {
    Access { thread: u32, at: u64, size: u64, write: bool },
    Alloc { at: u64, size: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u32, 0..64_u64, 1..20_u64, any::<bool>())
            .prop_map(|(thread, at, size, write)| Step::Access { thread, at, size, write }),
        1 => (0..3_u32, 0..64_u64, 4000..12_300_u64, any::<bool>())
            .prop_map(|(thread, at, size, write)| Step::Access { thread, at, size, write }),
        1 => (0..3_u32, 4000..12_300_u64, 1..20_u64, any::<bool>())
            .prop_map(|(thread, at, size, write)| Step::Access { thread, at, size, write }),
        1 => (0..64_u64, 0..30_u64).prop_map(|(at, size)| Step::Alloc { at, size }),
        1 => (0..6000_u64, 0..6000_u64).prop_map(|(at, size)| Step::Alloc { at, size }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a plain model: for each byte, the boundaries of its lifetime.
    #[test]
    fn variables_are_what_lies_between_boundaries(steps in prop::collection::vec(step(), 1..40)) {
        // Close to a page's end.
        let base = 0x7000_0000_0fe0_u64;
        let mut made = Steps::default();
        let mut life = vec![0_u32; 16_384];
        let mut accesses = Vec::new();
        for step in &steps {
            match *step {
                Step::Access { thread, at, size, write } => {
                    made.range(thread, base + at, size, write);
                    accesses.push((made.time - 1, at, size, life.clone()));
                }
                Step::Alloc { at, size } => {
                    made.event(0, K::Alloc, [base + at, size]);
                    for byte in at..at + size {
                        life[byte as usize] += 1;
                    }
                }
            }
        }
        let imported = made.import_all();
        // Which variable each byte of each access is.
        let mut seen: BTreeMap<(u64, u32), u32> = BTreeMap::new();
        for (source, at, size, life) in &accesses {
            let mut next = *at;
            for (event, _) in imported.history.events.iter().zip(&imported.history.sources).filter(|(_, s)| *s == source) {
                let variable = imported.variables[event.target as usize];
                let (start, end) = (variable.addr - base, variable.addr + u64::from(variable.size) - base);
                let (aligned, covers) = (start == next, start <= next && end > next);
                prop_assert!(if event.op == Op::Write { aligned } else { covers }, "in order and without gaps");
                for byte in start.max(next)..end.min(at + size) {
                    let known = *seen.entry((byte, life[byte as usize])).or_insert(event.target);
                    prop_assert_eq!(known, event.target, "one variable a byte and life");
                }
                prop_assert!(event.op == Op::Read || end <= at + size);
                next = end;
            }
            prop_assert!(next >= at + size);
        }
        // Neighbours are different variables only where there is a boundary.
        for ((byte, life), variable) in &seen {
            let Some(other) = seen.get(&(byte + 1, *life)) else { continue };
            let bounded = |at: u64, size: u64| at == byte + 1 || at + size == byte + 1;
            let cut = steps.iter().any(|step| match *step {
                Step::Access { at, size, .. } | Step::Alloc { at, size } => bounded(at, size),
            });
            prop_assert!(other == variable || cut);
        }
        // The default is the same without what cannot matter.
        let fewer = made.import();
        for event in &imported.history.events {
            let variable = imported.variables[event.target as usize];
            let of = imported.history.events.iter().filter(|other| other.target == event.target);
            let threads: BTreeSet<u16> = of.clone().map(|other| other.thread).collect();
            let matters = threads.len() > 1 && of.clone().any(|other| other.op.writes());
            let first = imported.history.sources[variable.first as usize];
            let kept = fewer.variables.iter().any(|kept| {
                (kept.addr, kept.size, fewer.history.sources[kept.first as usize]) == (variable.addr, variable.size, first)
            });
            prop_assert_eq!(kept, matters);
        }
    }
}
