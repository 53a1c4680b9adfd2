//! Reads an ELF image: where it calls the hooks ([`sites`]), the site table that travels inside it
//! ([`mod@embed`]), which functions have a body without hooks ([`bodies`]), what each site is called across rebuilds ([`site_key`]), which source line and inline stack an
//! instruction has ([`lines`]), what a data address is called ([`variables`]), what an address on a stack is ([`unwinder`],
//! [`locals`]), where its functions lie ([`functions`]),
//! how control flows through them ([`mod@cfg`]) and between them ([`call_graph`]), what their sites access
//! ([`operands`]), and what stands beside code without instrumentation ([`foreign`]).
//!
//! Every public offset counts from the image's load base (the lowest `PT_LOAD` address), as the
//! site table's do; link-time addresses stay inside the crate. Nothing here runs the image, maps it
//! or asks the network; what cannot be read is an error with an offset, or a counter.
//!
//! Limits: ELF64, little-endian, x86-64. All decoding of machine code is in one module (`x86`);
//! another architecture is a second module of that shape.

#![forbid(unsafe_code)]

pub mod bodies;
pub mod call_graph;
pub mod callers;
pub mod cfg;
mod declared;
mod demangle;
mod dwarf;
mod elf;
pub mod embed;
mod evaluate;
pub mod foreign;
pub mod functions;
pub mod image;
pub mod index;
pub mod lines;
pub mod locals;
pub mod lock_calls;
pub mod marks;
pub mod operands;
pub mod site_key;
pub mod site_list;
pub mod sites;
mod types;
pub mod unwinder;
pub mod variables;
mod x86;

pub use bodies::{Apart, Reach, join};
pub use call_graph::CallGraph;
pub use callers::direct_callers;
pub use cfg::{Callee, Cfg, Code};
pub use embed::{EmbedError, embed, read_table};
pub use evaluate::{Memory, Registers};
pub use foreign::beside_foreign_code;
pub use functions::{Function, FunctionGroup, Functions, Part};
pub use image::{Image, ImageProblem, OpenImageError};
pub use index::{IndexError, IndexSummary, Loaded, Origin, index, load_or_build};
pub use lines::{Frame, LineCounters, Symboliser};
pub use locals::{Locals, StackFrame};
pub use lock_calls::{LockCall, lock_calls};
pub use marks::{Mark, MarkKind, marked_sites, marks};
pub use operands::{Operands, Place, PlaceRoot};
pub use site_key::{call_keys, site_keys};
pub use site_list::{SiteInfo, SiteList};
pub use sites::{SiteCounters, Sites, find_sites, table_bytes};
pub use unwinder::{Unwinder, Unwound};
pub use variables::{VariableName, Variables};
