//! What holds at an event: locks held by each thread, heap blocks alive.
//!
//! Both are followed along the merged order: hand every event to `apply`, then ask.

use std::collections::BTreeMap;

use selvedge_events::{Mode, Primitive, ThreadIx};

use crate::context::ContextId;
use crate::event::{Event, EventBody, EventRef, Place};
use crate::frames::KeptStacks;

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The lock's address.
    pub lock: u64,
    /// What it is.
    pub primitive: Primitive,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How many times over (recursive locks).
    pub depth: u32,
    /// The acquisition that counts: the outermost.
    pub since: EventRef,
}

/// The locks that each thread holds.
#[derive(Debug, Default)]
pub struct Locksets {
    threads: BTreeMap<ThreadIx, Vec<Held>>,
}

/// What an event did to a thread's lockset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// A lock is now held that was not.
    Taken(Held),
    /// A lock is no longer held.
    Given(Held),
    /// A lock was given that the trace never saw taken.
    GivenUnseen {
        /// Its address.
        lock: u64,
    },
}

impl Locksets {
    /// Follows an event; says what changed.
    pub fn apply(&mut self, event: &Event) -> Option<LockChange> {
        let id = event.id();
        match event.body {
            EventBody::Acquire { lock, how } if how.held() => self.take(id, lock.0, how.primitive, how.mode),
            EventBody::Release { lock, how } if how.result == 0 => self.give(id.thread, lock.0, false),
            // However often it is held, a wait releases the mutex once and for all.
            EventBody::WaitBegin { mutex, .. } => self.give(id.thread, mutex.0, true),
            EventBody::WaitEnd { mutex, .. } => self.take(id, mutex.0, Primitive::Mutex, Mode::Exclusive),
            EventBody::ThreadExit => {
                self.threads.remove(&id.thread);
                None
            }
            _ => None,
        }
    }

    /// The locks that a thread holds, in order of acquisition.
    pub fn held(&self, thread: ThreadIx) -> &[Held] {
        self.threads.get(&thread).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, since: EventRef, lock: u64, primitive: Primitive, mode: Mode) -> Option<LockChange> {
        let set = self.threads.entry(since.thread).or_default();
        if let Some(held) = set.iter_mut().find(|held| held.lock == lock) {
            held.depth = held.depth.saturating_add(1);
            return None;
        }
        let held = Held { lock, primitive, mode, depth: 1, since };
        set.push(held);
        Some(LockChange::Taken(held))
    }

    fn give(&mut self, thread: ThreadIx, lock: u64, fully: bool) -> Option<LockChange> {
        let set = self.threads.entry(thread).or_default();
        let Some(at) = set.iter().position(|held| held.lock == lock) else {
            return Some(LockChange::GivenUnseen { lock });
        };
        if let Some(held) = set.get_mut(at)
            && held.depth > 1
            && !fully
        {
            held.depth -= 1;
            return None;
        }
        Some(LockChange::Given(set.remove(at)))
    }
}

/// A heap block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// The allocation.
    pub alloc: EventRef,
    /// Where it was allocated.
    pub place: Place,
    /// Through which calls.
    pub context: ContextId,
}

/// The heap blocks alive, and beside them the frames of stacks that are known.
#[derive(Debug, Default)]
pub struct Heap {
    blocks: BTreeMap<u64, Block>,
    stacks: KeptStacks,
}

impl Heap {
    /// Follows an event.
    pub fn apply(&mut self, event: &Event) {
        self.stacks.apply(event);
        match event.body {
            EventBody::Alloc { addr, size } => {
                // Blocks that the new one covers were freed unseen.
                let end = addr.0.saturating_add(size);
                while let Some((start, _)) = self.blocks.range(addr.0..end.max(addr.0)).next_back() {
                    let start = *start;
                    self.blocks.remove(&start);
                }
                let (alloc, place, context) = (event.id(), event.place, event.context);
                self.blocks.insert(addr.0, Block { addr: addr.0, size, alloc, place, context });
            }
            EventBody::Free { addr } => {
                self.blocks.remove(&addr.0);
            }
            _ => {}
        }
    }

    /// The block that an address lies in.
    pub fn block_of(&self, addr: u64) -> Option<&Block> {
        let (_, block) = self.blocks.range(..=addr).next_back()?;
        (addr - block.addr < block.size).then_some(block)
    }

    /// The stacks of threads that made others.
    pub fn stacks(&self) -> &KeptStacks {
        &self.stacks
    }

    /// How many blocks are alive.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
