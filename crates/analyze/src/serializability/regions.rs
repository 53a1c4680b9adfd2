//! Where atomic regions begin and end.

use crate::history::{Event, History, Op};

use super::Regions;

/// What an event is to the regions of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Border {
    /// Neither.
    None,
    /// A region begins with it.
    Begins,
    /// A region ends with it.
    Ends,
}

/// Follows the regions of all threads.
#[derive(Clone, Debug)]
pub(super) struct Borders {
    announced: bool,
    /// By thread: how many regions are open.
    depth: Vec<u32>,
}

impl Borders {
    pub(super) fn new(history: &History, regions: Regions) -> Borders {
        let announced = match regions {
            Regions::Announced => true,
            Regions::CriticalSections => false,
            Regions::Auto => history.events.iter().any(|event| event.op == Op::Enter),
        };
        Borders { announced, depth: vec![0; history.threads as usize] }
    }

    /// Goes past an event. An end without a beginning is none.
    pub(super) fn step(&mut self, event: &Event) -> Border {
        let (begins, ends) = match self.announced {
            true => (event.op == Op::Enter, event.op == Op::Exit),
            false => (event.op.acquires(), event.op.releases()),
        };
        let depth = &mut self.depth[usize::from(event.thread)];
        if begins {
            *depth += 1;
            return if *depth == 1 { Border::Begins } else { Border::None };
        }
        if ends && *depth > 0 {
            *depth -= 1;
            return if *depth == 0 { Border::Ends } else { Border::None };
        }
        Border::None
    }
}
