//! What a run left behind, made readable.
//!
//! [`read`] opens a trace file and indexes its chunks; [`decode`] turns a thread's words into
//! [`Event`]s ([`event`]); [`model`] gives the process a shape (threads, modules, sites, merged order);
//! [`state`] follows what holds at an event (locks held, heap blocks alive), [`frames`] which frames of stacks are still
//! there. [`survey`] reads which
//! sites touched shared memory, [`std_text`] writes RAPID's text form, and [`write`](mod@write) builds valid
//! files in memory for tests and fuzzers.
//!
//! A file may come from a process that was killed, from a full disk or from a stranger. Damage is a
//! value ([`TraceDamage`]) with an offset; what lies outside the damage is still read. Nothing here
//! panics on any input, and [`limits`] bound what a file can make us allocate.

#![forbid(unsafe_code)]

pub mod context;
pub mod decode;
pub mod detect_log;
pub mod event;
pub mod frames;
pub mod header;
pub mod limits;
pub mod model;
pub mod read;
mod source;
pub mod state;
pub mod std_text;
pub mod summary;
pub mod survey;
mod words;
pub mod write;

pub use context::{ContextId, Contexts};
pub use decode::ThreadEvents;
pub use detect_log::DetectLog;
pub use event::{Event, EventBody, EventRef, Exactness, Place};
pub use model::{OpenRunError, Process, Run};
pub use read::{Module, OpenTraceError, Site, StackCopy, TraceDamage, TraceFile};
pub use survey::Survey;
