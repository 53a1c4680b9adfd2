//! Graphs of recorded runs.

use selvedge_events::hooks::Rw;
use selvedge_trace::{Event, EventBody, Process};

use super::mesi::{Machine, Mesi, Work};
use super::software::{Access, Software, Touch};
use super::value::{BuildId, Graph, Kind, Rules, Site};

/// The graph of one process of a recorded run.
pub fn collect(process: &Process, kind: Kind) -> Graph {
    match kind.rules {
        Rules::Live => super::live::collected(process).unwrap_or_else(|| Graph::empty(kind)),
        _ => Steps::of(process).graph(kind),
    }
}

/// What a run did to memory, in the order in which it happened: all that graphs of any kind are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The images that sites are in.
    pub images: Vec<BuildId>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access; the image of its site is of [`Steps::images`].
    Access(Access),
    /// A block is allocated.
    Allocate {
        /// Its first byte.
        addr: u64,
        /// Its bytes.
        size: u64,
    },
}

impl Steps {
    /// The steps of a recorded process.
    pub fn of(process: &Process) -> Steps {
        let mut steps = Steps::default();
        for event in process.events() {
            if let EventBody::Alloc { addr, size } = event.body {
                steps.steps.push(Step::Allocate { addr: addr.0, size });
            } else if let Some(access) = steps.access(process, &event) {
                steps.steps.push(Step::Access(access));
            }
        }
        steps
    }

    /// The graph of this kind.
    pub fn graph(&self, kind: Kind) -> Graph {
        if kind.rules == Rules::Mesi {
            return self.graph_of(kind, Machine::default()).0;
        }
        let mut software = Software::new(kind, self.images.clone());
        for step in &self.steps {
            match step {
                Step::Access(access) => software.access(access),
                Step::Allocate { addr, size } => software.allocate(*addr, *size),
            }
        }
        software.finish()
    }

    /// The graph that this machine would collect, and what it had to do for it.
    pub fn graph_of(&self, kind: Kind, machine: Machine) -> (Graph, Work) {
        let mut mesi = Mesi::new(kind.depth, machine, self.images.clone());
        for step in &self.steps {
            if let Step::Access(access) = step {
                mesi.access(access);
            }
        }
        mesi.finish()
    }

    /// An event as an access.
    fn access(&mut self, process: &Process, event: &Event) -> Option<Access> {
        let memory = process.access(event)?;
        let (module, offset) = process.code(event.place)?;
        let touch = match memory.rw {
            Rw::Read => Touch::Read,
            Rw::Write | Rw::ReadWrite => Touch::Write,
        };
        let image = match self.images.iter().position(|image| *image == module.build_id) {
            Some(number) => number,
            None => {
                self.images.push(module.build_id.clone());
                self.images.len() - 1
            }
        };
        let site = Site { image: u16::try_from(image).ok()?, offset };
        Some(Access { thread: event.thread.0, site, addr: memory.addr, size: memory.size, touch })
    }
}
