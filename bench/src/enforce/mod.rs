//! How enforcing does: on the kernels of the paper's bugs, and what it costs on large programs.

pub mod kernel;
pub mod page;
pub mod programs;
