//! Calling contexts, each kept once.
//!
//! A context is a path in a tree: the caller's context and the return address of the call. Two
//! events with equal ids were reached by the same chain of calls, in whichever thread.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::limits;

/// A calling context of one process. [`ContextId::ROOT`] is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u32);

impl ContextId {
    /// No caller is known.
    pub const ROOT: ContextId = ContextId(0);
}

/// All contexts of a process, shared by the decoders of its threads.
#[derive(Debug, Default)]
pub struct Contexts {
    inner: Mutex<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    /// Node `id` is at `id - 1`. A node's parent has a smaller id.
    nodes: Vec<(ContextId, u64)>,
    /// Only looked up, never iterated.
    ids: HashMap<(ContextId, u64), ContextId>,
    cut: u64,
}

impl Contexts {
    /// The context entered from `parent` by the call that returns to `pc`.
    pub fn enter(&self, parent: ContextId, pc: u64) -> ContextId {
        let mut tree = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = tree.ids.get(&(parent, pc)) {
            return *id;
        }
        if tree.nodes.len() >= limits::MAX_CONTEXTS {
            tree.cut += 1;
            return parent;
        }
        tree.nodes.push((parent, pc));
        let id = ContextId(u32::try_from(tree.nodes.len()).unwrap_or(u32::MAX));
        tree.ids.insert((parent, pc), id);
        id
    }

    /// The return addresses of a context, innermost call first.
    pub fn frames(&self, context: ContextId) -> Vec<u64> {
        let tree = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = Vec::new();
        let mut at = context;
        while let Some((parent, pc)) = at.0.checked_sub(1).and_then(|at| tree.nodes.get(at as usize)) {
            frames.push(*pc);
            at = *parent;
        }
        frames
    }

    /// How many contexts were met so far.
    pub fn len(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).nodes.len()
    }

    /// Whether none was met.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls that were cut to their caller because of [`limits::MAX_CONTEXTS`].
    pub fn cut(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).cut
    }
}

/// One thread's place in the tree: where it is, and a small memory of where it was, so that calling
/// the same function again needs no lock.
#[derive(Debug)]
pub(crate) struct Stack {
    frames: Vec<ContextId>,
    /// Fewest frames since [`Stack::kept`] was last asked.
    low: usize,
    memory: Vec<(ContextId, u64, ContextId)>,
}

const MEMORY: usize = 256;

impl Stack {
    pub(crate) fn new() -> Stack {
        Stack { frames: Vec::new(), low: 0, memory: vec![(ContextId::ROOT, 0, ContextId::ROOT); MEMORY] }
    }

    pub(crate) fn top(&self) -> ContextId {
        self.frames.last().copied().unwrap_or(ContextId::ROOT)
    }

    pub(crate) fn push(&mut self, contexts: &Contexts, pc: u64) {
        let parent = self.top();
        if self.frames.len() >= limits::MAX_DEPTH {
            return;
        }
        let hash = (pc ^ u64::from(parent.0).wrapping_mul(0x9e37_79b9)) as usize;
        let entry = self.memory.get_mut((hash ^ hash >> 8) % MEMORY);
        let id = match entry {
            // The zeroed entry stands for (root, 0), which no call has.
            Some(entry) if (entry.0, entry.1) == (parent, pc) && pc != 0 => entry.2,
            Some(entry) => {
                let id = contexts.enter(parent, pc);
                *entry = (parent, pc, id);
                id
            }
            None => contexts.enter(parent, pc),
        };
        self.frames.push(id);
    }

    pub(crate) fn pop(&mut self, count: u32) {
        let left = self.frames.len().saturating_sub(count as usize);
        self.frames.truncate(left);
        self.low = self.low.min(left);
    }

    /// How many frames, from the bottom, have been there all the time since this was last asked.
    pub(crate) fn kept(&mut self) -> u32 {
        let kept = std::mem::replace(&mut self.low, self.frames.len());
        u32::try_from(kept).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_one_context() {
        let contexts = Contexts::default();
        let (mut one, mut two) = (Stack::new(), Stack::new());
        for stack in [&mut one, &mut two] {
            stack.push(&contexts, 10);
            stack.push(&contexts, 20);
            stack.push(&contexts, 30);
            stack.pop(1);
        }
        assert_eq!(one.top(), two.top());
        assert_eq!(contexts.frames(one.top()), [20, 10]);
        assert_eq!(contexts.len(), 3);
        one.pop(u32::MAX);
        assert_eq!(one.top(), ContextId::ROOT);
        assert_eq!(contexts.frames(ContextId(999)), [0; 0]);
    }

    #[test]
    fn a_call_that_was_left_and_made_again_is_not_kept() {
        let contexts = Contexts::default();
        let mut stack = Stack::new();
        stack.push(&contexts, 10);
        stack.push(&contexts, 20);
        assert_eq!(stack.kept(), 0);
        stack.push(&contexts, 30);
        assert_eq!(stack.kept(), 2);
        assert_eq!(stack.kept(), 3);
        stack.pop(2);
        stack.push(&contexts, 20);
        assert_eq!(stack.kept(), 1);
    }

    #[test]
    fn the_same_return_address_from_another_caller_is_another_context() {
        let contexts = Contexts::default();
        let mut stack = Stack::new();
        stack.push(&contexts, 10);
        stack.push(&contexts, 20);
        let nested = stack.top();
        stack.pop(2);
        stack.push(&contexts, 20);
        assert_ne!(nested, stack.top());
        stack.push(&contexts, 20);
        assert_eq!(contexts.frames(stack.top()), [20, 20]);
    }
}
