//! Which stacks were kept, and where their threads are now.
//!
//! A stack is kept when its thread makes another. From then on its frames are left one by one, and others take their
//! place. Those that the thread came through by the same calls then and now are as they were: a function that is called again from the same
//! place has its variables where it had them.

use std::collections::BTreeMap;

use selvedge_events::ThreadIx;

use crate::context::ContextId;
use crate::event::{Event, EventBody};

/// What is known of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptStack {
    /// The number of its copy ([`crate::TraceFile::stack`]).
    pub number: u32,
    /// Through which calls the thread came there.
    pub then: ContextId,
    /// Through which calls it came to its latest event.
    pub now: ContextId,
}

/// The last stack of each thread that was kept.
#[derive(Debug, Default)]
pub struct KeptStacks {
    threads: BTreeMap<ThreadIx, KeptStack>,
}

impl KeptStacks {
    /// Follows an event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event.body {
            EventBody::ThreadCreate { stack: Some(number), .. } => {
                self.threads.insert(event.thread, KeptStack { number, then: event.context, now: event.context });
            }
            EventBody::ThreadExit => {
                self.threads.remove(&event.thread);
            }
            _ => {
                if let Some(stack) = self.threads.get_mut(&event.thread) {
                    stack.now = event.context;
                }
            }
        }
    }

    /// Each thread's.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadIx, KeptStack)> + '_ {
        self.threads.iter().map(|(thread, stack)| (*thread, *stack))
    }
}
