//! Made traces of processes that can do no more, and what is said about them. Their image does not exist, so places
//! are offsets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use selvedge_events::interpose::Slot;
use selvedge_events::pack::{self, object, pc_payload};
use selvedge_events::{Acquire, EventKind, Mode, Order, Primitive, ThreadIx};
use selvedge_report::Names;
use selvedge_report::hang::{Because, Hang, HangKind, ThreadState, WaitKind, write_hang};
use selvedge_trace::write::{PendingCall, Stream, TraceBuilder};
use selvedge_trace::{Process, TraceFile};

const BASE: u64 = 0x40_0000;
const M: u64 = BASE + 0x5000;
const N: u64 = BASE + 0x5100;
const C: u64 = BASE + 0x5200;

/// Sites of atomic operations.
const CAS: u32 = 1;
const SWAP: u32 = 2;

/// A run in the making: what threads do one after the other, and what they are stuck in.
#[derive(Default)]
struct Story {
    threads: BTreeMap<u32, (Stream, Option<PendingCall>)>,
    number: u64,
}

impl Story {
    /// Main makes this many others.
    fn new(others: u32) -> Story {
        let mut story = Story::default();
        story.event(0, EventKind::ThreadStart, u64::from(u32::MAX) << 32, 0);
        for thread in 1..=others {
            story.event(0, EventKind::ThreadCreate, u64::from(thread), 0).event(
                thread,
                EventKind::ThreadStart,
                u64::from(thread),
                0,
            );
        }
        story
    }

    fn event(&mut self, thread: u32, kind: EventKind, first: u64, second: u64) -> &mut Story {
        self.number += 1;
        let at = self.number << pack::TICK_SHIFT;
        let pc = if kind == EventKind::ThreadStart { pack::NO_PC } else { pc_payload(0, 0x100 + self.number as u32) };
        let (stream, _) = self.threads.entry(thread).or_default();
        stream.wide(kind, at, pc, [first, second, 0]);
        self
    }

    fn lock(&mut self, thread: u32, lock: u64) -> &mut Story {
        let how = Acquire::of(Primitive::Mutex, Mode::Exclusive);
        self.event(thread, EventKind::Acquire, object(lock, how.pack()), 0)
    }

    fn read_lock(&mut self, thread: u32, lock: u64) -> &mut Story {
        let how = Acquire::of(Primitive::Rwlock, Mode::Shared);
        self.event(thread, EventKind::Acquire, object(lock, how.pack()), 0)
    }

    fn unlock(&mut self, thread: u32, lock: u64) -> &mut Story {
        let how = Acquire::of(Primitive::Mutex, Mode::Exclusive);
        self.event(thread, EventKind::Release, object(lock, how.pack()), 0)
    }

    fn wait(&mut self, thread: u32, cond: u64, mutex: u64) -> &mut Story {
        self.event(thread, EventKind::WaitBegin, cond, mutex).stuck(thread, Slot::pthread_cond_wait, cond)
    }

    fn signal(&mut self, thread: u32, cond: u64) -> &mut Story {
        self.event(thread, EventKind::Signal, cond, 0)
    }

    /// An atomic operation of 32 bits.
    fn atomic(&mut self, thread: u32, site: u32, word: u64, order: Order, success: bool) -> &mut Story {
        self.number += 1;
        let payload = u64::from(site) | if success { 0 } else { pack::PAYLOAD_FLAG };
        let (stream, _) = self.threads.entry(thread).or_default();
        stream.wide(EventKind::Atomic, self.number << pack::TICK_SHIFT, payload, [object(word, order as u16), 0, 0]);
        self
    }

    /// Locks as Rust's standard library does where nobody is in the way.
    fn rust_lock(&mut self, thread: u32, word: u64) -> &mut Story {
        self.atomic(thread, CAS, word, Order::Acquire, true)
    }

    /// Fails to, and waits; what is done to the word inside the library is not seen.
    fn rust_wait(&mut self, thread: u32, word: u64) -> &mut Story {
        self.atomic(thread, CAS, word, Order::Acquire, false);
        self.event(thread, EventKind::FutexWaitBegin, object(word, 0), 0)
    }

    fn rust_unlock(&mut self, thread: u32, word: u64) -> &mut Story {
        self.atomic(thread, SWAP, word, Order::Release, true)
    }

    fn ends(&mut self, thread: u32) -> &mut Story {
        self.event(thread, EventKind::ThreadExit, 0, 0)
    }

    fn stuck(&mut self, thread: u32, slot: Slot, object: u64) -> &mut Story {
        self.number += 1;
        let pc = BASE + 0x100 + self.number;
        self.threads.entry(thread).or_default().1 = Some((slot as u32, object, pc));
        self
    }

    fn process(&self) -> Process {
        let mut file = TraceBuilder::new();
        file.controlled().module(0, BASE, BASE + 0x1_0000, &[0xab; 20], "/no/such/prog");
        let hook = |site: u32, name: &'static str| (site, 0x900 + site, name);
        file.sites(0, &[hook(CAS, "__tsan_atomic32_compare_exchange_strong"), hook(SWAP, "__tsan_atomic32_exchange")]);
        let slots: Vec<_> =
            self.threads.iter().map(|(thread, (stream, stuck))| (*thread, 0, stream.words(), *stuck)).collect();
        file.live(&slots);
        Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.100.0"))
    }

    fn hang(&self) -> Hang {
        Hang::of(&Names::new(&self.process())).expect("a hang")
    }

    fn text(&self) -> String {
        let mut out = Vec::new();
        write_hang(&self.hang(), 100, &[], &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }
}

fn circle(hang: &Hang) -> Vec<u32> {
    hang.cycle.iter().map(|link| link.thread.0).collect()
}

fn kind_of(hang: &Hang, thread: u32) -> WaitKind {
    hang.thread(ThreadIx(thread)).and_then(|thread| thread.wait()).expect("it waits").what
}

#[test]
fn a_process_that_has_ended_does_not_hang() {
    let mut story = Story::new(1);
    story.ends(1).ends(0);
    assert!(Hang::of(&Names::new(&story.process())).is_none());
}

#[test]
fn a_circle_of_locks_is_the_same_in_whichever_threads() {
    let story = |one: u32, two: u32| {
        let mut story = Story::new(2);
        story.lock(one, M).lock(two, N);
        story.stuck(one, Slot::pthread_mutex_lock, N).stuck(two, Slot::pthread_mutex_lock, M);
        story.stuck(0, Slot::pthread_join, 1);
        story
    };
    let hang = story(1, 2).hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Deadlock, vec![1, 2]));
    assert_eq!(hang.cycle[0].next, Because::Holds(N));
    assert_eq!(hang.id(), story(2, 1).hang().id());
    let text = story(1, 2).text();
    assert!(
        text.contains("Cycle in lock order: T1: `prog+0x5000` -> `prog+0x5100` (held by T2) -> `prog+0x5000`\n"),
        "{text}"
    );
}

#[test]
fn a_thread_that_was_woken_waits_for_the_mutex_of_one_that_has_ended() {
    let mut story = Story::new(2);
    story.lock(1, M).wait(1, C, M).lock(2, M).signal(2, C).ends(2);
    let hang = story.hang();
    assert_eq!((hang.kind, kind_of(&hang, 1)), (HangKind::Stuck, WaitKind::Lock));
    let (waiter, holder) = hang.kept_from().expect("somebody took it along");
    assert_eq!((waiter.thread, holder.thread), (ThreadIx(1), ThreadIx(2)));
}

#[test]
fn who_holds_a_futex_is_presumed() {
    let mut story = Story::new(2);
    // Thread 2 had it before; thread 1 gave another one back.
    story.rust_lock(2, M).rust_unlock(2, M).rust_lock(1, C).rust_unlock(1, C);
    story.rust_lock(1, M).rust_lock(2, N);
    // That a lock is wanted is marked in its word.
    story.rust_wait(1, N).stuck(1, Slot::syscall, N).atomic(2, SWAP, M, Order::Acquire, true);
    story.rust_wait(2, M).stuck(2, Slot::syscall, M);
    let hang = story.hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Deadlock, vec![1, 2]));
    let text = story.text();
    let cycle = "Cycle in lock order: T1: `prog+0x5000` -> `prog+0x5100` (presumably held by T2) -> `prog+0x5000`\n";
    assert!(text.contains(cycle), "{text}");
    assert!(text.contains("  It presumably holds futex `prog+0x5000`, last taken at prog+0x901:\n"), "{text}");
}

#[test]
fn a_futex_that_was_waited_for_is_held_when_the_thread_goes_on() {
    let mut story = Story::new(3);
    story.rust_lock(3, M).rust_wait(1, M).rust_unlock(3, M);
    story.event(1, EventKind::FutexWaitEnd, object(M, 0), 0).rust_lock(2, N);
    story.rust_wait(1, N).stuck(1, Slot::syscall, N).rust_wait(2, M).stuck(2, Slot::syscall, M).ends(3);
    let hang = story.hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Deadlock, vec![1, 2]));
}

#[test]
fn a_futex_that_is_no_lock_is_held_by_nobody() {
    let mut story = Story::new(2);
    // A word that is set and waited for, and one whose lock was given back.
    story.atomic(2, SWAP, M, Order::Release, true).rust_lock(2, N).rust_unlock(2, N).ends(2);
    story.event(1, EventKind::FutexWaitBegin, object(M, 0), 0).stuck(1, Slot::syscall, M);
    story.stuck(0, Slot::pthread_join, 1);
    let hang = story.hang();
    assert_eq!(hang.kind, HangKind::LostWakeup);
    assert!(hang.threads.iter().all(|thread| thread.holds.is_empty()));
}

#[test]
fn a_thread_that_was_woken_waits_for_the_mutex() {
    let mut story = Story::new(2);
    story.lock(1, N).lock(1, M).wait(1, C, M).lock(2, M).signal(2, C).stuck(2, Slot::pthread_mutex_lock, N);
    let hang = story.hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Deadlock, vec![1, 2]));
    assert_eq!(kind_of(&hang, 1), WaitKind::Lock, "not the condition any more");
}

#[test]
fn a_signal_on_the_way_into_the_wait_is_lost() {
    let mut story = Story::new(2);
    story.lock(1, M).wait(1, C, M).signal(2, C).ends(2).stuck(0, Slot::pthread_join, 1);
    let hang = story.hang();
    assert_eq!((hang.kind, kind_of(&hang, 1)), (HangKind::LostWakeup, WaitKind::Condition));
    let sent = hang.lost.as_ref().and_then(|lost| lost.sent.as_ref());
    assert_eq!(sent.map(|(thread, _)| *thread), Some(ThreadIx(2)));
    let ops: Vec<String> = hang.finding().accesses.into_iter().map(|access| access.op).collect();
    assert_eq!(ops, ["signal", "wait"]);
}

#[test]
fn one_signal_wakes_one_waiter() {
    let mut story = Story::new(3);
    story.lock(1, M).wait(1, C, M).lock(2, M).wait(2, C, M);
    story.lock(3, M).signal(3, C).unlock(3, M).ends(3);
    story.event(1, EventKind::WaitEnd, C, M).unlock(1, M).ends(1);
    story.threads.entry(1).or_default().1 = None;
    story.stuck(0, Slot::pthread_join, 2);
    let hang = story.hang();
    assert_eq!(hang.kind, HangKind::LostWakeup);
    assert!(hang.lost.as_ref().is_some_and(|lost| lost.waiter == ThreadIx(2) && lost.sent.is_none()));
    assert!(story.text().contains("T2 waits for condition `prog+0x5200`: woken once for others"), "{}", story.text());
}

#[test]
fn a_futex_that_nobody_wakes() {
    let mut story = Story::new(1);
    story.event(1, EventKind::FutexWaitBegin, C, 0).stuck(1, Slot::syscall, C).stuck(0, Slot::pthread_join, 1);
    assert_eq!((story.hang().kind, kind_of(&story.hang(), 1)), (HangKind::LostWakeup, WaitKind::Futex));
    assert!(story.text().contains("which nobody has ever woken"), "{}", story.text());
}

#[test]
fn a_reader_waits_behind_a_writer_in_the_queue() {
    let mut story = Story::new(3);
    story.read_lock(1, M).lock(3, N);
    story.stuck(2, Slot::pthread_rwlock_wrlock, M).stuck(3, Slot::pthread_rwlock_rdlock, M);
    story.stuck(1, Slot::pthread_mutex_lock, N);
    let hang = story.hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Deadlock, vec![1, 3]));
    assert_eq!(kind_of(&hang, 3), WaitKind::ReadLock);
    assert!(story.text().contains("It holds reader-writer lock (reading) `prog+0x5000`"), "{}", story.text());
}

#[test]
fn a_thread_joins_itself() {
    let mut story = Story::new(1);
    story.stuck(1, Slot::pthread_join, 1).stuck(0, Slot::pthread_join, 1);
    assert_eq!(circle(&story.hang()), [1]);
    assert!(story.text().contains("deadlock (a thread joins itself)"), "{}", story.text());
}

#[test]
fn what_cannot_be_explained_is_listed() {
    let mut story = Story::new(2);
    story.lock(1, M).unlock(1, M).stuck(0, Slot::read, 5).stuck(2, Slot::poll, 0x7fff_1234_5678);
    let hang = story.hang();
    assert_eq!((hang.kind, &hang.threads[1].state), (HangKind::Stuck, &ThreadState::Running));
    let text = story.text();
    for expect in
        ["is in read on descriptor 5 at ", "Thread T1 runs at ", "Thread T2 is in poll at ", "SUMMARY: Selvedge: hang "]
    {
        assert!(text.contains(expect), "no `{expect}` in\n{text}");
    }
    assert!(!text.contains("7fff1234"), "{text}");
}

#[test]
fn damaged_words_do_no_harm() {
    let mut story = Story::new(1);
    story.stuck(0, Slot::pthread_join, u64::MAX).stuck(1, Slot::pthread_join, 77);
    let hang = story.hang();
    assert_eq!((hang.kind, circle(&hang)), (HangKind::Stuck, vec![]));
    assert!(story.text().contains("waits for the end of a thread that the trace does not know"), "{}", story.text());
}
