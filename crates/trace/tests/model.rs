//! Files made by the builder, read back through the model.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use selvedge_events::counters::Counter;
use selvedge_events::event::KINDS;
use selvedge_events::hooks::Rw;
use selvedge_events::interpose::Slot;
use selvedge_events::pack::{self, Small, object, pc_payload};
use selvedge_events::trace_file::survey;
use selvedge_events::{Acquire, EventKind, GuestAddr, Mode, ModuleIx, Order, Primitive, SiteId, ThreadIx, Ticks};
use selvedge_trace::model::verb;
use selvedge_trace::state::{Heap, LockChange, Locksets};
use selvedge_trace::std_text::{StdSummary, write_std};
use selvedge_trace::survey::Seen;
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{Event, EventBody, Exactness, Place, Process, StackCopy, Survey, TraceFile};

const MUTEX: u64 = 0x5000;
const COND: u64 = 0x5100;
const BALANCE: u64 = 0x40_4010;

fn process(file: &TraceBuilder) -> Process {
    Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.100.0"))
}

fn lock() -> u64 {
    object(MUTEX, Acquire::of(Primitive::Mutex, Mode::Exclusive).pack())
}

/// Main makes a thread; both add to the balance under a lock; main joins.
fn account() -> TraceBuilder {
    use EventKind::*;
    let pc = |offset| pc_payload(0, offset);
    let none = u64::from(u32::MAX) << 32;
    let mut main = Stream::default();
    main.wide(ThreadStart, 32, pack::NO_PC, [none, 0, 0])
        .push(0x40_1100)
        .wide(ThreadCreate, 96, pc(0x110), [1, 0, 0])
        .wide(ThreadName, 128, pc(0x112), [1, u64::from_le_bytes(*b"deposit\0"), 0])
        .wide(Acquire, 3200, pc(0x120), [lock(), 0, 0])
        .access(0, BALANCE, Some(3232))
        .access(1, BALANCE, None)
        .wide(Release, 3296, pc(0x130), [lock(), 0, 0])
        .wide(ThreadJoin, 9600, pc(0x140), [1, 0, 0])
        .wide(Free, 9632, pc(0x150), [0x7000_0000_1000, 0, 0]);
    let mut child = Stream::default();
    child
        .wide(ThreadStart, 320, pack::NO_PC, [1, 0, 0])
        .wide(Alloc, 640, pc(0x210), [0x7000_0000_1000, 24, 0])
        .wide(Acquire, 3296, pc(0x220), [lock(), 0, 0])
        .access(0, BALANCE, Some(3328))
        .access(1, BALANCE, Some(3360))
        .access(2, 0x7000_0000_1008, Some(3392))
        .wide(Release, 3424, pc(0x230), [lock(), 0, 0])
        .wide(ThreadExit, 6400, pack::NO_PC, [0; 3]);
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[0xab; 20], "/bin/account")
        .sites(0, &[(0, 0x124, "__tsan_read4"), (1, 0x128, "__tsan_write4"), (2, 0x228, "__tsan_atomic64_fetch_add")])
        .counter(Counter::Signals, 3)
        .stream(0, &main)
        .hole(2)
        .stream(1, &child);
    file
}

#[test]
fn the_merged_order_respects_time_and_instants() {
    let process = process(&account());
    let events: Vec<Event> = process.events().collect();
    assert_eq!(events.len(), 17);
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    // The release of one thread and the acquisition of another at the same time.
    let at = |time| events.iter().filter(move |event| event.time == Ticks(time)).map(|event| event.body.kind());
    assert_eq!(at(3296).collect::<Vec<_>>(), [EventKind::Release, EventKind::Acquire]);
    let untimed: Vec<_> = events.iter().filter(|event| event.exactness == Exactness::Between).collect();
    assert_eq!(untimed.len(), 1);
    assert_eq!(untimed[0].time, Ticks(3264), "half-way between its neighbours");
    assert_eq!(process.summary().timed, 16);
}

#[test]
fn threads_have_parents_names_and_paths() {
    let process = process(&account());
    let summary = process.summary();
    assert_eq!(summary.events, 17);
    let [main, child] = summary.threads.as_slice() else { panic!("{summary:?}") };
    assert_eq!((main.path.as_str(), main.parent, main.name.as_deref()), ("main", None, None));
    assert_eq!((child.path.as_str(), child.parent), ("main/1", Some(ThreadIx(0))));
    assert_eq!(child.display_name(), "deposit");
    assert_eq!((child.first, child.last, child.ended), (Some(Ticks(320)), Some(Ticks(6400)), true));
    assert_eq!((summary.first, summary.last), (Ticks(32), Ticks(9632)));
}

#[test]
fn accesses_know_their_site_and_context() {
    let process = process(&account());
    let event = process.events().find(|event| event.time == Ticks(3232)).expect("the read");
    assert_eq!(event.site(), Some(SiteId(0)));
    assert_eq!(event.body, EventBody::Access { addr: GuestAddr(BALANCE) });
    let access = process.access(&event).expect("an access");
    assert_eq!((access.size, access.rw, access.atomic), (4, Rw::Read, false));
    assert_eq!(verb(&process, &event), "read");
    let (module, offset) = process.code(event.place).expect("known code");
    assert_eq!((module.path.as_path(), offset), (Path::new("/bin/account"), 0x124));
    assert_eq!(process.contexts().frames(event.context), [0x40_1100]);
    assert_eq!(process.place_of(0x40_1100), Place::Code { module: ModuleIx(0), offset: 0x1100 });
    assert_eq!(process.place_of(0x1100), Place::Unknown);
}

#[test]
fn clocks_convert() {
    let process = process(&account());
    assert_eq!(process.nanos(Ticks(9600)), 3200);
    assert!((process.tick_nanos() - 32.0 / 3.0).abs() < 1e-9);
    let mut file = TraceBuilder::new();
    file.clocks((77, 5), (77, 5));
    let process = Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::new());
    assert_eq!(process.nanos(Ticks(77)), 0, "no second reading: no division by zero");
}

#[test]
fn under_control_a_time_is_a_number_and_the_order_is_exact() {
    use EventKind::*;
    let at = |number: u64| number << pack::TICK_SHIFT;
    let (mut main, mut child) = (Stream::default(), Stream::default());
    // An acquisition before a release: only time counts, whatever the instants say.
    main.wide(ThreadStart, at(1), pack::NO_PC, [u64::from(u32::MAX) << 32, 0, 0])
        .wide(ThreadCreate, at(2), pc_payload(0, 0x111), [1, 0, 0])
        .access(0, BALANCE, Some(at(5)))
        .access(1, BALANCE, Some(at(7)));
    child
        .wide(ThreadStart, at(3), pack::NO_PC, [1, 0, 0])
        .push(0x40_1100)
        .access(0, BALANCE, Some(at(4)))
        .access(1, BALANCE, Some(at(6)))
        .push(0x40_1200);
    let mut file = TraceBuilder::new();
    file.controlled()
        .module(0, 0x40_0000, 0x41_0000, &[7; 20], "/bin/account")
        .sites(0, &[(0, 0x124, "__tsan_read4"), (1, 0x128, "__tsan_write4")])
        .stream(0, &main)
        .stream(1, &child);
    let process = process(&file);
    assert!(process.is_controlled());
    assert_eq!(process.exactness(), "made under control: all events are in one order");
    let order: Vec<(u64, u32)> = process.events().map(|event| (process.number(event.time), event.thread.0)).collect();
    assert_eq!(order, [(1, 0), (2, 0), (3, 1), (4, 1), (5, 0), (6, 1), (7, 0)]);
    let child = process.thread(ThreadIx(1)).expect("the child");
    assert_eq!(child.created.map(|(place, _)| place), Some(Place::Code { module: ModuleIx(0), offset: 0x111 }));
    assert_eq!(process.contexts().frames(child.context), [0x40_1200, 0x40_1100], "also what follows its last event");
}

#[test]
fn counters_come_with_their_sentences() {
    let process = process(&account());
    let counters: Vec<_> = process.file().header().counters().collect();
    assert_eq!(counters, [(Counter::Signals, "signals handled", 3)]);
}

#[test]
fn locksets_follow_locks_waits_and_recursion() {
    use EventKind::*;
    let again = object(
        MUTEX,
        selvedge_events::Acquire { result: 16, ..selvedge_events::Acquire::of(Primitive::Mutex, Mode::Exclusive) }
            .pack(),
    );
    let mut stream = Stream::default();
    for (kind, words) in [
        (Acquire, [lock(), 0, 0]),
        (Acquire, [again, 0, 0]),
        (Acquire, [lock(), 0, 0]),
        (WaitBegin, [COND, MUTEX, 0]),
        (WaitEnd, [COND, MUTEX, 0]),
        (Release, [lock(), 0, 0]),
        (Release, [lock(), 0, 0]),
    ] {
        stream.wide(kind, 32, pack::NO_PC, words);
    }
    let mut file = TraceBuilder::new();
    file.stream(0, &stream);
    let mut locks = Locksets::default();
    let held: Vec<(usize, bool)> = process(&file)
        .events()
        .map(|event| {
            let unseen = matches!(locks.apply(&event), Some(LockChange::GivenUnseen { .. }));
            (locks.held(ThreadIx(0)).len(), unseen)
        })
        .collect();
    let expect = [(1, false), (1, false), (1, false), (0, false), (1, false), (0, false), (0, true)];
    assert_eq!(held, expect);
}

#[test]
fn heap_blocks_live_from_malloc_to_free() {
    let process = process(&account());
    let mut heap = Heap::default();
    let mut seen = Vec::new();
    for event in process.events() {
        heap.apply(&event);
        seen.push(heap.block_of(0x7000_0000_1017).map(|block| (block.size, block.alloc.thread)));
        assert_eq!(heap.block_of(0x7000_0000_1018), None, "one past the end");
    }
    assert_eq!(seen.first(), Some(&None));
    assert!(seen.contains(&Some((24, ThreadIx(1)))));
    assert_eq!(seen.last(), Some(&None));
}

#[test]
fn stacks_are_read_as_they_were_written() {
    let stack =
        StackCopy { thread: ThreadIx(0), pc: 0x40_0123, sp: 0x7ffc_0000, fp: 0x7ffc_0040, bytes: (0..200).collect() };
    let mut file = TraceBuilder::new();
    file.stack(1, &stack).stack(7, &StackCopy::default());
    let process = process(&file);
    let file = process.file();
    assert_eq!(file.stack(1).as_ref(), Some(&stack));
    assert_eq!(file.stack(7), Some(StackCopy::default()));
    assert_eq!((file.stack(0), file.stack(2)), (None, None));
    assert_eq!(file.damages(), []);
    assert_eq!(stack.word(0x7ffc_0008), Some(0x0f0e_0d0c_0b0a_0908));
    for outside in [0, 0x7ffb_ffff, 0x7ffc_0000 + 193, u64::MAX] {
        assert_eq!(stack.word(outside), None, "{outside:#x}");
    }
}

#[test]
fn a_kept_stack_knows_where_its_thread_is() {
    use EventKind::{Once, ThreadCreate, ThreadExit};
    let mut main = Stream::default();
    main.push(0x40_0100)
        .push(0x40_0200)
        .wide(ThreadCreate, 32, pc_payload(0, 0x111), [1, 3, 0])
        .pop(1)
        .wide(Once, 64, pc_payload(0, 0x111), [0, 0, 0])
        // One that was not kept changes nothing.
        .wide(ThreadCreate, 96, pc_payload(0, 0x111), [2, 0, 0])
        .wide(ThreadExit, 128, pc_payload(0, 0x111), [0; 3]);
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[1], "/bin/account").stream(0, &main);
    let process = process(&file);
    let mut heap = Heap::default();
    let mut seen = Vec::new();
    for event in process.events() {
        heap.apply(&event);
        let frames = |context| process.contexts().frames(context).len();
        seen.push(heap.stacks().iter().map(|(_, kept)| (kept.number, frames(kept.then), frames(kept.now))).next());
    }
    assert_eq!(seen, [Some((3, 2, 2)), Some((3, 2, 1)), Some((3, 2, 1)), None]);
}

#[test]
fn live_slots_are_read_once_and_tell_what_blocks() {
    let words = |time| {
        let mut stream = Stream::default();
        stream.wide(EventKind::ThreadExit, time, pack::NO_PC, [0; 3]);
        stream.words().to_vec()
    };
    let (first, second) = (words(32), words(64));
    let pending = Some((Slot::pthread_mutex_lock as u32, MUTEX, 0x40_0120));
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[1], "/bin/account")
        .live(&[(7, 0, &first, None), (8, 1, &second, pending), (u32::MAX, 0, &first, pending)])
        .log(7, 0, &first)
        .log(8, 0, &first);
    let process = process(&file);
    let events: Vec<_> = process.events().map(|event| (event.thread.0, event.time.0)).collect();
    assert_eq!(events, [(7, 32), (8, 32), (8, 64)]);
    let blocked = process.blocked();
    assert_eq!(blocked.len(), 1);
    assert_eq!((blocked[0].thread, blocked[0].function, blocked[0].object), (ThreadIx(8), "pthread_mutex_lock", MUTEX));
    assert_eq!(blocked[0].place, Place::Code { module: ModuleIx(0), offset: 0x120 });
}

#[test]
fn unknown_kinds_and_torn_records_are_skipped_and_counted() {
    let future = 2 | 99 << 2 | 2 << 9;
    let mut stream = Stream::default();
    stream.raw(future).raw(0x1111).raw(0).wide(EventKind::ThreadExit, 32, pack::NO_PC, [0; 3]);
    stream.raw(63 << 2);
    stream.raw(Small::Lost(5).pack());
    // A process killed in the middle of a record: its first word is stored last.
    stream.raw(0).raw(0xdead_beef);
    let mut file = TraceBuilder::new();
    file.stream(0, &stream).foreign(77, &[1; 5000]).log(0, 1, stream.words());
    let process = process(&file);
    let summary = process.summary();
    assert_eq!(summary.events, 2);
    assert_eq!((summary.left_out.unknown, summary.left_out.broken, summary.left_out.lost), (4, 2, 10));
    assert_eq!(process.file().foreign_chunks(), 1);
    assert_eq!(process.file().damages(), []);
}

#[test]
fn surveys_merge_as_a_union() {
    let mut file = TraceBuilder::new();
    file.module(0, 0x1000, 0x2000, &[9; 4], "/bin/p")
        .sites(0, &[(5, 0x10, "__tsan_read4"), (6, 0x20, "__tsan_func_entry"), (7, 0x30, "__tsan_write4")])
        .survey(5, &[survey::SHARED | survey::SEEN | 40, survey::ON_STACK | survey::SEEN | 2, 0]);
    let mut survey = Survey::default();
    survey.add_process(&process(&file));
    let sites = &survey.images()[&vec![9; 4]].sites;
    let flags: Vec<_> = sites.iter().map(|(offset, seen)| (*offset, seen.shared, seen.on_stack, seen.hits)).collect();
    assert_eq!(flags, [(0x10, true, false, 40), (0x20, false, true, 2)]);

    let mut other = Survey::default();
    let hook = sites[&0x10].hook;
    other.add(&[9; 4], Path::new("/bin/p"), 0x10, Seen { hook, shared: false, on_stack: true, hits: 99 });
    let (mut ab, mut ba) = (survey.clone(), other.clone());
    ab.merge(&other);
    ba.merge(&survey);
    assert_eq!(ab, ba, "commutative");
    let once = ab.clone();
    ab.merge(&other);
    assert_eq!(ab, once, "idempotent");
    assert_eq!((ab.seen_sites(), ab.shared_sites()), (2, 1));
}

#[test]
fn std_text_is_what_rapid_reads() {
    let process = process(&account());
    let mut out = Vec::new();
    let mut locate =
        |event: &Event| process.code(event.place).map_or("?".into(), |(_, offset)| format!("a b|{offset:x}"));
    let summary = write_std(&process, &mut |_| true, &mut locate, &mut out).expect("memory");
    let expect = "T0|fork(T1)|a_b_10f\nT0|acq(L0)|a_b_11f\nT0|r(V0)|a_b_124\nT0|w(V0)|a_b_128\nT0|rel(L0)|a_b_12f\n\
                  T1|acq(L0)|a_b_21f\nT1|r(V0)|a_b_124\nT1|w(V0)|a_b_128\nT1|r(V1)|a_b_228\nT1|w(V1)|a_b_228\n\
                  T1|rel(L0)|a_b_22f\nT0|join(T1)|a_b_13f\n";
    assert_eq!(String::from_utf8(out).expect("text"), expect);
    assert_eq!(summary, StdSummary { lines: 12, left_out: 0 });
}

#[test]
fn std_text_cuts_overlapping_accesses_into_variables() {
    let mut stream = Stream::default();
    stream
        .access(0, 0x1000, Some(32))
        .access(1, 0x1004, Some(64))
        .wide(EventKind::Range, 96, 2 | pack::PAYLOAD_FLAG, [0x1000, 16, 0])
        .wide(EventKind::Acquire, 128, 0, [object(MUTEX, Acquire::of(Primitive::Rwlock, Mode::Shared).pack()), 0, 0])
        .wide(EventKind::Release, 160, 0, [object(MUTEX, Acquire::of(Primitive::Rwlock, Mode::Shared).pack()), 0, 0])
        .wide(EventKind::SemPost, 192, 0, [MUTEX, 0, 0]);
    let mut file = TraceBuilder::new();
    file.module(0, 0, 0x10, &[1], "p")
        .sites(0, &[(0, 1, "__tsan_read8"), (1, 2, "__tsan_write4"), (2, 3, "__tsan_write_range")])
        .stream(0, &stream);
    let mut out = Vec::new();
    let summary = write_std(&process(&file), &mut |_| true, &mut |_| "1".into(), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let operations: Vec<_> = text.lines().filter_map(|line| line.split('|').nth(1)).collect();
    let expect = ["r(V0)", "r(V1)", "w(V1)", "w(V0)", "w(V1)", "w(V2)", "acq(L0)", "rel(L0)", "acq(L0)", "rel(L0)"];
    assert_eq!(operations, expect);
    assert_eq!(summary.left_out, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Access { site: u32, addr: u64, pause: Option<u64> },
    Range { site: u32, addr: u64, size: u64, write: bool, pause: Option<u64> },
    Wide { kind: usize, pause: u64, words: [u64; 3] },
    Push(u64),
    Pop(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u32..1 << 14, 0_u64..1 << 47, proptest::option::of(0_u64..1 << 20))
            .prop_map(|(site, addr, pause)| Step::Access { site, addr, pause }),
        2 => (0_u32..1 << 14, 0_u64..1 << 47, 1_u64..1 << 12, any::<bool>(), proptest::option::of(0_u64..1 << 20))
            .prop_map(|(site, addr, size, write, pause)| Step::Range { site, addr, size, write, pause }),
        2 => (0..KINDS.len(), 0_u64..1 << 40, [0_u64..1 << 31, 0_u64..1 << 31, 0_u64..1 << 31])
            .prop_map(|(kind, pause, words)| Step::Wide { kind, pause, words }),
        1 => (1_u64..1 << 47).prop_map(Step::Push),
        1 => (0_u32..4).prop_map(Step::Pop),
    ];
    proptest::collection::vec(step, 0..400)
}

/// Site, address, size and whether it is a write, of every range.
fn ranges_of(events: &[Event]) -> Vec<(SiteId, GuestAddr, u64, bool)> {
    let range = |event: &Event| match event.body {
        EventBody::Range { addr, size, rw } => Some((event.site()?, addr, size, rw == Rw::Write)),
        _ => None,
    };
    events.iter().filter_map(range).collect()
}

proptest! {
    /// What is written is what is read: kinds, addresses, sites, contexts, and times to one tick.
    #[test]
    fn streams_round_trip(steps in steps(), chunk in 64_usize..300) {
        let mut stream = Stream::new(chunk);
        let mut now = 32_u64;
        let mut frames: Vec<u64> = Vec::new();
        let mut expect = Vec::new();
        let mut ranges = Vec::new();
        for step in &steps {
            match step {
                Step::Access { site, addr, pause } => {
                    now += pause.unwrap_or(0);
                    stream.access(*site, *addr, pause.map(|_| now));
                    expect.push((EventKind::Access, pause.map(|_| now), Some((*site, *addr)), frames.clone()));
                }
                Step::Range { site, addr, size, write, pause } => {
                    now += pause.unwrap_or(0);
                    stream.range(*site, *addr, *size, *write, pause.map(|_| now));
                    ranges.push((SiteId(*site), GuestAddr(*addr), *size, *write));
                    expect.push((EventKind::Range, pause.map(|_| now), None, frames.clone()));
                }
                Step::Wide { kind, pause, words } => {
                    let kind = KINDS[*kind];
                    now += pause;
                    stream.wide(kind, now, 5, *words);
                    let access = (kind == EventKind::Access).then_some((5, words[0]));
                    if kind == EventKind::Range {
                        ranges.push((SiteId(5), GuestAddr(words[0]), words[1], false));
                    }
                    expect.push((kind, Some(now), access, frames.clone()));
                }
                // The builder keeps the runtime's slack, not room for any depth.
                Step::Push(pc) if frames.len() < 32 => {
                    stream.push(*pc);
                    frames.push(*pc);
                }
                Step::Push(_) => {}
                Step::Pop(count) => {
                    stream.pop(*count);
                    frames.truncate(frames.len().saturating_sub(*count as usize));
                }
            }
        }
        let mut file = TraceBuilder::new();
        file.stream(3, &stream);
        let process = process(&file);
        let got: Vec<Event> = process.events().collect();
        prop_assert_eq!(got.len(), expect.len());
        prop_assert_eq!(process.summary().left_out, Default::default());
        let mut last = Ticks(0);
        for (index, (event, (kind, time, access, frames))) in got.iter().zip(&expect).enumerate() {
            prop_assert_eq!(event.index, index as u64);
            prop_assert_eq!(event.body.kind(), *kind);
            if let Some(time) = time {
                prop_assert_eq!(event.time, Ticks(time & !(pack::TICK - 1)));
            }
            prop_assert_eq!(event.exactness == Exactness::Timed, time.is_some());
            prop_assert!(event.time >= last);
            last = event.time;
            if let (Some((site, addr)), EventBody::Access { addr: got }) = (access, event.body) {
                prop_assert_eq!(event.site(), Some(SiteId(*site)));
                prop_assert_eq!(got, GuestAddr(*addr));
            }
            let mut chain = process.contexts().frames(event.context);
            chain.reverse();
            prop_assert_eq!(&chain, frames);
        }
        prop_assert_eq!(ranges_of(&got), ranges);
    }
}

#[test]
fn ranges_of_every_size_are_whole_again() {
    // Sizes, and how many words the records of an untimed and of a timed one take.
    let cases = [
        (0, 2, 2),
        (1, 1, 2),
        (4095, 1, 2),
        (4096, 2, 2),
        (65535, 2, 2),
        (65536, 3, 3),
        (1 << 32 | 8, 3, 3),
        (u64::MAX, 3, 3),
    ];
    let addr = 0x7f12_3456_7890;
    for (size, untimed, timed) in cases {
        for write in [false, true] {
            for (site, untimed) in [(0, untimed), ((1 << 14) - 1, untimed), (1 << 14, untimed.max(2))] {
                let mut stream = Stream::default();
                stream.access(1, addr, Some(64));
                let mut lengths = Vec::new();
                for time in [None, Some(96)] {
                    let before = stream.words().len();
                    stream.range(site, addr, size, write, time);
                    lengths.push(stream.words().len() - before);
                }
                assert_eq!(lengths, [untimed, timed], "{size} at site {site}");
                let mut file = TraceBuilder::new();
                file.stream(0, &stream);
                let process = process(&file);
                let events: Vec<Event> = process.events().collect();
                assert_eq!(ranges_of(&events), [(SiteId(site), GuestAddr(addr), size, write); 2]);
                assert_eq!(process.summary().left_out, Default::default());
                let access = process.access(&events[1]).map(|access| (access.addr, access.size));
                assert_eq!(access, Some((addr, size)));
            }
        }
    }
}

#[test]
fn a_repeated_range_has_its_size() {
    let payload = 7 | pack::PAYLOAD_FLAG;
    let first = pack::timeless(pack::wide_with(EventKind::Range, 1, 0, payload));
    let slot = pack::memo_slot(first, object(0x7000, 24)) as u8;
    let mut stream = Stream::default();
    stream.range(7, 0x7000, 24, true, Some(32));
    stream.raw(Small::Repeat { slot, time: pack::time_field(640) as u16, pops: 0 }.pack());
    let mut file = TraceBuilder::new();
    file.stream(0, &stream);
    let events: Vec<Event> = process(&file).events().collect();
    assert_eq!(ranges_of(&events), [(SiteId(7), GuestAddr(0x7000), 24, true); 2]);
}

#[test]
fn repeated_records_and_small_allocations_are_whole_again() {
    let payload = pc_payload(0, 0x120);
    let first = pack::wide(EventKind::Acquire, 32, payload);
    let slot = pack::memo_slot(pack::timeless(first), lock()) as u8;
    let mut stream = Stream::default();
    stream.push(0x40_1000).push(0x40_2000).wide(EventKind::Acquire, 32, payload, [lock(), 0, 0]);
    stream.raw(Small::Repeat { slot, time: pack::time_field(640) as u16, pops: 1 }.pack());
    stream.raw(Small::Push { pops: 1, pc: 0x40_3000 }.pack());
    stream.raw(pack::wide_with(EventKind::Alloc, 1, 960, payload)).raw(object(0x7000, 48));
    // Nothing is remembered there.
    stream.raw(Small::Repeat { slot: (slot + 1) % 64, time: 40, pops: 0 }.pack());
    let mut file = TraceBuilder::new();
    file.stream(0, &stream).log(0, 1, &[Small::Repeat { slot, time: 50, pops: 0 }.pack()]);
    let process = process(&file);
    let events: Vec<Event> = process.events().collect();
    let [taken, again, alloc] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((taken.body, taken.place), (again.body, again.place));
    assert_eq!((taken.time, again.time), (Ticks(32), Ticks(640)));
    assert_eq!(process.contexts().frames(again.context), [0x40_1000]);
    assert_eq!(alloc.body, EventBody::Alloc { addr: GuestAddr(0x7000), size: 48 });
    assert_eq!(process.contexts().frames(alloc.context), [0x40_3000]);
    assert_eq!(process.summary().left_out.broken, 2, "a chunk starts with nothing remembered");
}

#[test]
fn atomics_carry_orders_and_success() {
    let arg = Order::AcqRel as u16 | (Order::Acquire as u16) << 3;
    let mut stream = Stream::default();
    stream.wide(EventKind::Atomic, 32, 4 | pack::PAYLOAD_FLAG, [object(BALANCE, arg), 0, 0]);
    let mut file = TraceBuilder::new();
    file.sites(0, &[(4, 9, "__tsan_atomic32_compare_exchange_strong")]).stream(0, &stream);
    let process = process(&file);
    let event = process.events().next().expect("one");
    let expect =
        EventBody::Atomic { addr: GuestAddr(BALANCE), order: Order::AcqRel, failure: Order::Acquire, success: false };
    assert_eq!(event.body, expect);
    assert_eq!(process.access(&event).map(|access| access.rw), Some(Rw::Read), "a failed exchange writes nothing");
    assert_eq!(verb(&process, &event), "compare-exchange-failed");
}
