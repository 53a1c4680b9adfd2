//! Who is at an access: thread, place, locks, stack; and where a heap block came from.
//!
//! Stacks are walked by frame pointers, within the bounds of the thread's own stack, which is mapped from the stack
//! pointer up. The wrapper builds with `-fno-omit-frame-pointer`; code that was built otherwise cuts a stack short.

use core::sync::atomic::{AtomicU64, Ordering};

use selvedge_events::detect::{FRAMES, LOCKS};

use super::slots::Access;
use crate::thread_state::ThreadState;

/// Locks that a thread's list has room for; deeper ones are not named.
pub const HELD: usize = 16;

/// A side of a race.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Who {
    /// What it accesses.
    pub access: Access,
    /// The armed id.
    pub site: u32,
    /// The thread.
    pub thread: u32,
    /// What is there, up to eight bytes.
    pub value: u64,
    /// How many locks.
    pub held: u32,
    /// How many frames.
    pub depth: u32,
    /// Locks that it holds, innermost first: address, and where taken.
    pub locks: [(u64, u64); LOCKS],
    /// Return addresses, innermost first.
    pub frames: [u64; FRAMES],
}

impl Who {
    /// Nobody.
    pub const NOBODY: Who = Who {
        access: Access { addr: 0, size: 0, writes: false, atomic: false },
        site: 0,
        thread: 0,
        value: 0,
        held: 0,
        depth: 0,
        locks: [(0, 0); LOCKS],
        frames: [0; FRAMES],
    };

    /// The calling thread, without its stack.
    pub fn here(state: &ThreadState, access: Access, site: u32) -> Who {
        let mut who = Who { access, site, thread: state.index, ..Who::NOBODY };
        let held = (state.detect.held as usize).min(HELD);
        let inner_first = state.detect.locks.iter().take(held).rev();
        for (room, lock) in who.locks.iter_mut().zip(inner_first) {
            *room = *lock;
            who.held += 1;
        }
        who
    }

    /// Adds the stack of the calling thread, of which the hook was called with these two registers.
    pub fn walk(&mut self, state: &ThreadState, at: Registers) {
        let (low, high) = state.detect.stack;
        let (mut frame, stack) = (at.frame, at.stack);
        let inside = |at: usize| {
            at >= low && at >= stack && at.is_multiple_of(8) && at.checked_add(16).is_some_and(|end| end <= high)
        };
        if stack == 0 || !inside(stack) {
            return;
        }
        let mut put = |pc: usize| {
            if let Some(room) = self.frames.get_mut(self.depth as usize) {
                *room = pc as u64;
                self.depth += 1;
                return true;
            }
            false
        };
        // SAFETY: I12: the stack pointer of the hook's caller lies in its thread's stack: all above it is mapped.
        put(unsafe { (stack as *const usize).read() });
        while inside(frame) {
            // SAFETY: I12: as above; `inside` says that both words are between the stack pointer and the stack's end.
            let (caller, pc) = unsafe { ((frame as *const usize).read(), (frame as *const usize).add(1).read()) };
            // Callers lie higher; anything else is no frame.
            if pc < 4096 || !put(pc) || caller <= frame {
                break;
            }
            frame = caller;
        }
    }

    /// Whether both hold a lock in common.
    pub fn shares_a_lock(&self, other: &Who) -> bool {
        let own = self.locks.iter().take(self.held as usize);
        own.into_iter().any(|(lock, _)| other.locks.iter().take(other.held as usize).any(|(theirs, _)| theirs == lock))
    }
}

/// Two registers at a hook's entry; zeros where they are not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// The frame pointer.
    pub frame: usize,
    /// The stack pointer, where the return address lies.
    pub stack: usize,
}

/// A lock was taken.
pub fn took(state: &mut ThreadState, lock: u64, pc: u64) {
    let held = state.detect.held as usize;
    if let Some(room) = state.detect.locks.get_mut(held) {
        *room = (lock, pc);
    }
    state.detect.held = state.detect.held.saturating_add(1);
}

/// A lock was given back.
pub fn gave(state: &mut ThreadState, lock: u64) {
    let held = (state.detect.held as usize).min(HELD);
    let list = state.detect.locks.get_mut(..held).unwrap_or(&mut []);
    if let Some(at) = list.iter().rposition(|(own, _)| *own == lock) {
        list.get_mut(at..).unwrap_or(&mut []).rotate_left(1);
        state.detect.held -= 1;
    } else if state.detect.held as usize > HELD {
        state.detect.held -= 1;
    }
}

/// A block of the heap: address, size, where it was allocated.
#[derive(Debug)]
struct Block {
    at: AtomicU64,
    size: AtomicU64,
    pc: AtomicU64,
}

/// Blocks that are remembered. One that meets another in its place is forgotten: names only.
const BLOCKS: usize = 1 << 14;
static BLOCK_TABLE: [Block; BLOCKS] =
    [const { Block { at: AtomicU64::new(0), size: AtomicU64::new(0), pc: AtomicU64::new(0) } }; BLOCKS];

fn place(block: u64) -> &'static Block {
    &BLOCK_TABLE[(block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % BLOCKS]
}

/// A block's life begins.
pub fn born(block: u64, size: u64, pc: u64) {
    let place = place(block);
    place.at.store(0, Ordering::Relaxed);
    place.size.store(size, Ordering::Relaxed);
    place.pc.store(pc, Ordering::Relaxed);
    place.at.store(block, Ordering::Release);
}

/// A block's life ends.
pub fn dies(block: u64) {
    let _ = place(block).at.compare_exchange(block, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// The block that an address lies in: where it was allocated, its address, its size.
pub fn block_of(addr: u64) -> (u64, u64, u64) {
    for block in &BLOCK_TABLE {
        let (at, size) = (block.at.load(Ordering::Acquire), block.size.load(Ordering::Relaxed));
        if at != 0 && addr >= at && addr - at < size {
            return (block.pc.load(Ordering::Relaxed), at, size);
        }
    }
    (0, 0, 0)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn blocks_are_found_from_inside() {
        born(0x10_0000, 64, 7);
        assert_eq!(block_of(0x10_003f), (7, 0x10_0000, 64));
        assert_eq!(block_of(0x10_0040), (0, 0, 0));
        dies(0x10_0000);
        assert_eq!(block_of(0x10_0000), (0, 0, 0));
    }

    #[test]
    fn locks_in_common_are_seen() {
        let mut one = Who { held: 2, ..Who::NOBODY };
        one.locks[..2].copy_from_slice(&[(0x10, 1), (0x20, 1)]);
        let mut two = Who { held: 1, ..Who::NOBODY };
        two.locks[0] = (0x20, 9);
        assert!(one.shares_a_lock(&two));
        two.locks[0] = (0x30, 9);
        assert!(!one.shares_a_lock(&two));
    }
}
