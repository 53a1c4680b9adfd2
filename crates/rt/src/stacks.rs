//! Stacks of threads that make threads, as they are at that moment: what is on them is what the new thread is mostly given,
//! and with the registers a reader can tell whose frame an address is in and which of its variables.
//!
//! Copied by the kernel, so that what is not mapped is no fault, and never further than the stack itself goes: not into the
//! environment above the first thread's, not into libc's own data above another's. The same calls at the same place make the
//! same frames, so a stack is written once however often it makes threads, and only so many are in all.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::bytes::u64_at;
use selvedge_events::counters::Counter;
use selvedge_events::plan::Observe;
use selvedge_events::trace_file::{CHUNK_HEADER, ChunkKind, PAGE, STACK, STACKS, at};

use crate::{arch, modules, sink, sys};

/// Bytes of a copy, with its header.
const ROOM: usize = (CHUNK_HEADER + STACK).next_multiple_of(PAGE);
/// How often a stack is looked at: a program that makes threads all the time is left alone after that.
const LOOKS: u32 = 4096;

/// What was written: a stack's number is its place and one. 0 where there is none yet.
static SEEN: [AtomicU64; STACKS] = [const { AtomicU64::new(0) }; STACKS];
static LOOKED: AtomicU32 = AtomicU32::new(0);
/// Where the first thread's stack ends: what is above came with the program.
static FIRST_END: AtomicUsize = AtomicUsize::new(0);

/// The first thread's stack ends here.
pub fn first_ends(at: usize) {
    FIRST_END.store(at, Ordering::Relaxed);
}

/// Keeps the stack of this thread, unless it was kept; its number, 0 where there is none.
#[cold]
#[inline(never)]
pub fn keep(thread: u32) -> u32 {
    if sink::observe() != Observe::Record || sink::is_sealed() {
        return 0;
    }
    if LOOKED.fetch_add(1, Ordering::Relaxed) >= LOOKS {
        sink::count(Counter::StacksFull, 1);
        return 0;
    }
    let Ok(buffer) = sys::mmap_anonymous(ROOM) else { return 0 };
    let number = copy(thread, buffer, arch::here());
    // SAFETY: ours, and not used again.
    unsafe { sys::munmap(buffer, ROOM) };
    number
}

/// Copies a stack to pages of ours and writes it where it is new.
fn copy(thread: u32, buffer: usize, [code, stack, frame]: [usize; 3]) -> u32 {
    let ends = [FIRST_END.load(Ordering::Relaxed), arch::thread_pointer(), stack.saturating_add(STACK)];
    let most = ends.into_iter().filter(|end| *end > stack).min().map_or(0, |end| end - stack);
    // SAFETY: `ROOM` bytes at `buffer` are ours, and `most` is at most `STACK`.
    let room = unsafe { core::slice::from_raw_parts_mut((buffer + CHUNK_HEADER) as *mut u8, most) };
    let len = sys::peek(stack, room);
    let Some(bytes) = room.get(..len).filter(|bytes| !bytes.is_empty()) else { return 0 };
    let (number, is_new) = number(mark(bytes, code, stack));
    if !is_new {
        return number;
    }
    for (at, value) in [(at::STACK_PC, code), (at::STACK_SP, stack), (at::STACK_FP, frame), (at::STACK_BYTES, len)] {
        // SAFETY: header fields of our buffer, aligned.
        unsafe { ((buffer + at) as *mut u64).write(value as u64) };
    }
    let pages = (CHUNK_HEADER + len).next_multiple_of(PAGE);
    // SAFETY: `pages` is at most `ROOM`.
    match unsafe { sink::write_pages(ChunkKind::Stack, thread, number, buffer, pages) } {
        Ok(_) => number,
        Err(why) => {
            sink::count(why, 1);
            0
        }
    }
}

/// What tells one stack from another: where it is, and the return addresses on it.
fn mark(bytes: &[u8], code: usize, stack: usize) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |mark: u64, value: u64| (mark ^ value).wrapping_mul(PRIME).rotate_left(29);
    let start = mix(mix(0xcbf2_9ce4_8422_2325, code as u64), stack as u64);
    let words = (0..bytes.len() as u64).step_by(8).filter_map(|at| Some((at, u64_at(bytes, at as usize)?)));
    let code = words.filter(|(_, word)| modules::is_known(*word));
    code.fold(start, |mark, (at, word)| mix(mix(mark, at), word)) | 1
}

/// The number of a stack, and whether it is new; 0 where there is no room for another.
fn number(mark: u64) -> (u32, bool) {
    for (number, seen) in (1..).zip(&SEEN) {
        match seen.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return (number, true),
            Err(known) if known == mark => return (number, false),
            Err(_) => {}
        }
    }
    sink::count(Counter::StacksFull, 1);
    (0, false)
}

/// In a forked child: its file has none yet.
pub fn after_fork() {
    SEEN.iter().for_each(|seen| seen.store(0, Ordering::Relaxed));
    LOOKED.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_copied() {
        let mut own = [0_u8; 64];
        let from = [7_u8; 64];
        assert_eq!(sys::peek(from.as_ptr() as usize, &mut own), 64);
        assert_eq!(own, from);
        assert_eq!(sys::peek(16, &mut own), 0);
        let pages = sys::mmap_anonymous(2 * PAGE).expect("two pages");
        // SAFETY: the second page is ours and unused.
        unsafe { sys::munmap(pages + PAGE, PAGE) };
        assert_eq!(sys::peek(pages + PAGE - 24, &mut own), 24);
    }

    #[test]
    fn equal_stacks_have_one_number() {
        let (first, is_new) = number(3);
        assert!(first > 0 && is_new);
        assert_eq!(number(3), (first, false));
        assert_ne!(number(5).0, first);
        for other in 0..STACKS as u64 * 2 {
            number(other * 2 + 101);
        }
        assert_eq!(number(9_999), (0, false));
        after_fork();
        assert_eq!(number(9_999), (1, true));
    }
}
