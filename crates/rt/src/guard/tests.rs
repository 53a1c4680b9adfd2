//! Cells and what is recorded in them, by oracles and by threads that meet.

extern crate std;
use std::boxed::Box;
use std::vec::Vec;
use std::{thread, vec};

use super::*;

/// A thread's state as the pool gives it out.
fn state(index: u32) -> Box<ThreadState> {
    // SAFETY: all fields are integers, for which zero is a value; the block is of that layout.
    let mut state = unsafe {
        Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<ThreadState>()).cast::<ThreadState>())
    };
    state.index = index;
    state.mark = recorder::thread_mark(index);
    owner::enter(&mut state);
    state
}

/// The cells that an access to these bytes of a word goes to.
fn cells(word: u64, from: u64, to: u64) -> Option<&'static [AtomicU64]> {
    recorder::block(word >> (REGION_SHIFT - 3), true)?.cells_of(
        word as usize,
        (from & 7) as usize,
        (to - from) as usize,
    )
}

/// Takes a table into use by which site 1 follows nil only, and all others anything.
fn guarded() {
    static BEGUN: std::sync::Once = std::sync::Once::new();
    BEGUN.call_once(|| {
        const SITES: u32 = 9;
        let bits_at = 64 + SITES * 16;
        let mut bytes = vec![0_u8; bits_at as usize];
        bytes[..8].copy_from_slice(b"SLVGUARD");
        let mut put = |at: u32, value: u32| bytes[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        for (at, value) in [(8, 1), (12, 64), (28, SITES), (32, 64), (36, 64)] {
            put(at, value);
        }
        for site in 1..=SITES {
            let count = if site == 1 { 0 } else { SITES };
            for (field, value) in [1, count, bits_at, 3].into_iter().enumerate() {
                put(64 + (site - 1) * 16 + field as u32 * 4, value);
            }
        }
        bytes.extend([0xff; 8]);
        begin(Box::leak(bytes.into_boxed_slice()), &[], 1024).expect("sound");
    });
}

/// An access of so many bytes as armed sites make it.
fn short<const SIZE: u64>(addr: u64, site: u32) {
    let target = crate::entry::quick::target(SIZE as u8).expect("a size of a word or less");
    // SAFETY: the entry is a function of these arguments.
    let target: extern "C" fn(u64, u32) = unsafe { core::mem::transmute(target) };
    target(addr, site);
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What a byte's cell says, given all accesses to that byte.
fn oracle(past: &[(u32, u32)], thread: u32) -> (u32, bool) {
    let before = past.iter().rev().find(|(who, _)| *who != thread).map_or(0, |(_, site)| *site);
    (before, recorder::tests::Last::of(past).is(thread))
}

/// Accesses of all sizes by several threads in turn, and memory that is freed: every byte knows its own past, however
/// words are split.
#[test]
fn every_byte_of_words_that_are_split_knows_its_own_past() {
    const AT: u64 = 0x11_0000_0000;
    recorder::begin(1024);
    let mut dice = Dice(5);
    for round in 0..300 {
        let base = AT + round * 256;
        let mut states: Vec<_> = (0..3).map(state).collect();
        let mut past = vec![Vec::new(); 32];
        for _ in 0..60 {
            let (who, site) = (dice.below(3) as u32, 1 + dice.below(9) as u32);
            let size = 1 << dice.below(5);
            let from = dice.below(33 - size);
            if dice.below(20) == 0 {
                let word = from & !7;
                recorder::forget(base + word, 8);
                (word..word + 8).for_each(|byte| past[byte as usize].clear());
                continue;
            }
            for byte in 0..32 {
                let looked = look_at(&mut states[who as usize], base + byte, site).expect("memory");
                let expected = oracle(&past[byte as usize], who);
                assert_eq!((looked.before, looked.own), expected, "round {round}, a look at byte {byte}");
            }
            let state = &mut states[who as usize];
            let (addr, end) = (base + from, base + from + size);
            for word in addr >> 3..=(end - 1) >> 3 {
                let (first, last) = (addr.max(word << 3), end.min((word + 1) << 3));
                let cells = cells(word, first, last).expect("memory");
                // One cell stands for all bytes.
                for (byte, cell) in (first..last).zip(cells.iter().cycle()) {
                    let reading = recorder::read(cell.load(Ordering::Relaxed), state.mark, site);
                    let expected = oracle(&past[(byte - base) as usize], who);
                    assert_eq!((reading.before, reading.own), expected, "round {round}, byte {}", byte - base);
                }
            }
            attempt(state, addr, size, site, How::Force).expect("forced");
            (from..from + size).for_each(|byte| past[byte as usize].push((who, site)));
        }
    }
}

/// Threads hammer one word with accesses of several sizes: whatever a byte's cell says, it was written so.
#[test]
fn cells_hold_what_was_written_however_threads_meet() {
    const AT: u64 = 0x12_0000_0000;
    const THREADS: u32 = 4;
    recorder::begin(1024);
    for round in 0..40 {
        let base = AT + round * 8;
        thread::scope(|scope| {
            for who in 0..THREADS {
                scope.spawn(move || {
                    let (mut state, mut dice) = (state(who), Dice(u64::from(who) + round * 7));
                    for _ in 0..500 {
                        let size = 1 << dice.below(4);
                        let from = dice.below(9 - size);
                        let site = 1 + who + THREADS * dice.below(50) as u32;
                        attempt(&mut state, base + from, size, site, How::Force).expect("forced");
                        let cells = cells(base >> 3, base + from, base + from + size).expect("memory");
                        for cell in cells {
                            let now = cell.load(Ordering::Relaxed);
                            let as_other = recorder::read(now, recorder::thread_mark(99), 1);
                            let last = recorder::thread_of(as_other.before_thread);
                            assert_eq!((as_other.before - 1) % THREADS, last, "the site is one of the thread's");
                            let as_last = recorder::read(now, as_other.before_thread, 1);
                            assert!(as_last.own && as_last.before_thread != as_other.before_thread);
                            let second = recorder::thread_of(as_last.before_thread);
                            assert!(as_last.before == 0 || (as_last.before - 1) % THREADS == second);
                        }
                    }
                });
            }
        });
    }
}

/// A word is split while others access it: none of their last accesses is lost.
#[test]
fn a_word_that_is_split_meanwhile_loses_no_access() {
    const AT: u64 = 0x13_0000_0000;
    recorder::begin(1024);
    for round in 0..1000 {
        let addr = AT + round * 8;
        let start = std::sync::Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                attempt(&mut state(1), addr, 1, 11, How::Force).expect("forced");
            });
            start.wait();
            attempt(&mut state(2), addr, 8, 22, How::Force).expect("forced");
        });
        let mut third = state(3);
        let cell = look_at(&mut third, addr, 1).expect("memory");
        let older = {
            let cells = cells(addr >> 3, addr, addr + 1).expect("memory");
            recorder::read(cells[0].load(Ordering::Relaxed), cell.before_thread, 1).before
        };
        let mut both = [cell.before, older];
        both.sort_unstable();
        assert_eq!(both, [11, 22], "round {round}");
    }
}

/// An access that must not come at one of its bytes is recorded at none of them.
#[test]
fn an_access_is_recorded_everywhere_or_nowhere() {
    const AT: u64 = 0x14_0000_0000;
    recorder::begin(1024);
    guarded();
    let (mut one, mut two) = (state(1), state(2));
    for (from, size) in [(0, 8), (4, 8), (2, 4), (0, 16)] {
        let base = AT + from * 64;
        // Another thread was at the last byte only.
        attempt(&mut two, base + from + size - 1, 1, 2, How::Check).expect("belongs");
        let told = attempt(&mut one, base + from, size, 1, How::Check).expect_err("does not belong");
        assert_eq!((told.addr, told.before, told.own), (base + from + size - 1, 2, false));
        let again = attempt(&mut one, base + from, size, 1, How::Check).expect_err("does not belong");
        assert_eq!((again.addr, again.before, again.own), (told.addr, 2, false), "as if it had not been tried");
        recorder::forget(base, 64);
        attempt(&mut one, base + from, size, 1, How::Check).expect("belongs");
    }
}

/// Threads take the short way in turn, at words of one shape and of several, and memory is freed: every byte knows its own
/// past, whether a step was remembered or not.
#[test]
fn the_short_way_records_what_the_long_one_does() {
    const AT: u64 = 0x15_0000_0000;
    recorder::begin(1024);
    guarded();
    let mut dice = Dice(11);
    let mut states: Vec<_> = (0..3).map(state).collect();
    let before = crate::arch::tls_get();
    for round in 0..200_u64 {
        // Words of one shape are the common case; sixteen bytes are two words, and meet eight.
        let mixed = dice.below(4) == 0;
        let base = AT + round % 40 * 64;
        recorder::forget(base, 64);
        let mut past = vec![Vec::new(); 64];
        for _ in 0..200 {
            let (who, site) = (dice.below(3) as u32, 2 + dice.below(8) as u32);
            let size = if mixed { 1 << dice.below(5) } else { [4, 8, 16][round as usize % 3] };
            let from = dice.below(64 / size) * size;
            crate::arch::tls_set(core::ptr::from_mut(&mut *states[who as usize]) as usize);
            match size {
                1 => short::<1>(base + from, site),
                2 => short::<2>(base + from, site),
                4 => short::<4>(base + from, site),
                8 => short::<8>(base + from, site),
                _ => quick::pair(base + from, site),
            }
            crate::arch::tls_set(before);
            (from..from + size).for_each(|byte| past[byte as usize].push((who, site)));
            for byte in from..from + size {
                for other in 0..3 {
                    let looked = look_at(&mut states[other as usize], base + byte, site).expect("memory");
                    let expected = oracle(&past[byte as usize], other);
                    assert_eq!((looked.before, looked.own), expected, "round {round}, byte {byte}");
                }
            }
        }
    }
}

/// Threads take the short way at once, while memory is cut into bytes: whatever a cell says, it was written so.
#[test]
fn the_short_way_is_exact_however_threads_meet() {
    const AT: u64 = 0x16_0000_0000;
    recorder::begin(1024);
    guarded();
    for round in 0..200 {
        let addr = AT + round * 8;
        let start = std::sync::Barrier::new(3);
        thread::scope(|scope| {
            for who in 0..3 {
                let start = &start;
                scope.spawn(move || {
                    let mut state = state(who);
                    crate::arch::tls_set(core::ptr::from_mut(&mut *state) as usize);
                    start.wait();
                    for turn in 0..100 {
                        // Each thread has sites of its own.
                        let site = 2 + who + 3 * (turn % 2);
                        if round % 2 == 1 && who == 2 && turn == 50 {
                            short::<1>(addr, site);
                        } else {
                            short::<8>(addr, site);
                        }
                    }
                    crate::arch::tls_set(0);
                });
            }
        });
        let mut fourth = state(3);
        let newest = look_at(&mut fourth, addr, 2).expect("memory");
        assert_eq!((newest.before - 2) % 3, recorder::thread_of(newest.before_thread));
        let mut last = state(recorder::thread_of(newest.before_thread));
        let older = look_at(&mut last, addr, 2).expect("memory");
        assert!(older.own && older.before_thread != newest.before_thread);
        assert!(older.before == 0 || (older.before - 2) % 3 == recorder::thread_of(older.before_thread));
        // Its last access of all is what the newest is known by.
        assert_eq!(newest.before, 2 + recorder::thread_of(newest.before_thread) + 3, "round {round}");
    }
}

/// A thread that uses memory alone comes to own it, and others come by: of every access the others learn, and it learns of all of theirs.
#[test]
fn what_an_owner_stores_is_seen_by_whoever_takes_it_away() {
    use std::sync::atomic::AtomicU32;
    const AT: u64 = 0x17_0000_0000;
    const SITES: u32 = 8;
    /// Accesses of a thread: its k-th one is at site `2 + k % 8`.
    const MANY: u32 = 4_000_000;
    recorder::begin(1024);
    guarded();
    let made = [const { AtomicU32::new(0) }; 2];
    let start = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for who in 0..2_u32 {
            let (made, start) = (&made, &start);
            scope.spawn(move || {
                let mut state = state(who);
                crate::arch::tls_set(core::ptr::from_mut(&mut *state) as usize);
                start.wait();
                let (own, theirs) = (&made[who as usize], &made[1 - who as usize]);
                let mut dice = Dice(u64::from(who));
                for turn in 0..MANY {
                    // A word of one's own most of the time, for a while in the granule of the one that both use now and then.
                    let shared = dice.below(1000) == 0;
                    let near = turn / 50_000 % 2 == who;
                    let addr = AT + if shared { 0 } else { 8 + u64::from(who) * 8 + if near { 0 } else { 1024 } };
                    let at = own.load(Ordering::Relaxed);
                    if shared {
                        let from = theirs.load(Ordering::SeqCst);
                        short::<8>(addr, 2 + at % SITES);
                        own.store(at + 1, Ordering::SeqCst);
                        // Looked at after the own access: what the other one did last is what it came after.
                        let reading = look_at(&mut state, addr, 2).expect("memory");
                        let to = theirs.load(Ordering::SeqCst) + 1;
                        if reading.before != 0 {
                            let seen = |made: u32| made > 0 && 2 + (made - 1) % SITES == reading.before;
                            assert!((from..=to).any(seen), "{who}: {} of {from}..={to}", reading.before);
                        } else {
                            assert_eq!(from, 0, "{who}");
                        }
                    } else {
                        short::<8>(addr, 2 + turn % SITES);
                    }
                }
                crate::arch::tls_set(0);
            });
        }
    });
    // Where the kernel helps, it was given and taken away several times.
    let misses = recorder::block(AT >> REGION_SHIFT, false)
        .expect("memory")
        .granule((AT >> 3) as usize)
        .owner
        .load(Ordering::Relaxed)
        & 0xffff;
    assert_eq!(owner::is_possible(), misses > 3, "taken away {misses} times");
}
