//! Building instrumented programs: the compiler wrappers behind `selvedge cc`, `selvedge c++`, `selvedge build` and
//! `cargo selvedge`.

mod args;
mod command;
mod compile_commands;
mod compiler;
mod options;
mod plan;
mod response;
mod rust;
mod rustc;
mod twice;
mod wrapper;

pub use args::{Action, CommandLine, Input, Product, ThreadSanitizer, classify};
pub(crate) use command::place;
pub use command::{Build, BuildError};
pub use compile_commands::NoteError;
pub use compiler::{Bodies, Compiler, Driver, Environment, FindCompilerError, IdentifyError};
pub use options::Language;
pub use plan::{CompilerId, Family, Plan, Refusal, RuntimeFiles, plan};
pub use response::expand;
pub use rust::{RUST_FLAGS, RUST_TARGET, UNLOCK, rust_flags};
pub use rustc::{INNER_RUSTDOC, INNER_WRAPPER, RustError, RustTool, RustWrapper};
pub use wrapper::{Exit, PostLink, WrapError, Wrapper};
