//! Threads by every means that Rust programs use, in tests: right ones (`correct`) and ones with a bug (`buggy`).
