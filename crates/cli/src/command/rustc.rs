//! Under the names that Cargo calls: the compiler, the documentation tool, the runner.

use std::ffi::OsString;

use selvedge_drive::build::{Exit, RUST_FLAGS, RustTool, RustWrapper};
use selvedge_drive::cargo::note_launch;

use crate::messages::Failure;
use crate::runtime;

/// Is the Rust compiler or `rustdoc`, for these arguments. The C wrapper lies beside us, by its own name.
pub(crate) fn run(tool: RustTool, argv0: &OsString, args: &[OsString]) -> Result<u8, Failure> {
    let flags = selvedge_events::bytes::checksum(RUST_FLAGS.concat().as_bytes());
    let wrapper = RustWrapper {
        linker: std::path::Path::new(argv0).with_file_name("selvedge-cc"),
        key: format!("{:016x}-{flags:016x}", runtime::key()),
    };
    wrapper.run(tool, args).map(Exit::code).map_err(|error| Failure::new(error.exit_code(), &error))
}

/// Is the runner that only notes what it would run.
pub(crate) fn runner(words: &[OsString]) -> Result<u8, Failure> {
    note_launch(words).map(|()| 0).map_err(|error| Failure::internal(&error))
}
