//! The vocabulary shared by the in-process runtime and everything that reads what it wrote.
//!
//! One tiny crate stands between producer and consumer: which hooks exist ([`hooks`]), which libc
//! functions are interposed ([`interpose`]), what happens in a run and at which instant
//! ([`event`]), how that is packed into words ([`pack`]), and how the three files that cross the
//! border are laid out: the site table inside an image ([`site_table`]), the plan that the runtime
//! maps ([`plan`]) and the trace that it writes ([`trace_file`]).
//!
//! No `std`, no dependencies, no `unsafe`: the runtime links it into strangers.

#![no_std]
#![forbid(unsafe_code)]

pub mod bytes;
pub mod control;
pub mod counters;
pub mod detect;
pub mod enforce;
pub mod event;
pub mod guard;
pub mod heal;
pub mod hooks;
pub mod id;
pub mod interpose;
pub mod pack;
pub mod plan;
pub mod site_table;
pub mod trace_file;

pub use event::{Acquire, EventKind, Instant, Mode, Order, Primitive};
pub use hooks::{HOOKS, Hook, HookClass, HookIx};
pub use id::{GuestAddr, ModuleIx, SiteId, ThreadIx, Ticks};
