//! Building instrumented programs: the compiler wrappers behind `selvedge cc`, `selvedge c++` and `selvedge build`.

mod args;
mod command;
mod compile_commands;
mod compiler;
mod options;
mod plan;
mod response;
mod wrapper;

pub use args::{Action, CommandLine, Input, Product, ThreadSanitizer, classify};
pub use command::{Build, BuildError};
pub use compile_commands::NoteError;
pub use compiler::{Compiler, Driver, Environment, FindCompilerError, IdentifyError};
pub use options::Language;
pub use plan::{CompilerId, Family, Plan, Refusal, RuntimeFiles, plan};
pub use response::expand;
pub use wrapper::{Exit, PostLink, WrapError, Wrapper};
