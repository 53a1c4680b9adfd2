//! What it costs, beside ThreadSanitizer.

use crate::columns::{Build, Column, Compiler, Mode};

const fn column(key: &'static str, title: &'static str, build: Build, mode: Mode) -> Column {
    Column { key, title, build, mode }
}

/// The columns: detection at the default budget and at 5 %, for both compilers, beside their ThreadSanitizers.
pub const COLUMNS: &[Column] = {
    use Build::{Native, Tsan, Wrapped};
    use Compiler::{Clang, Gcc};
    &[
        column("native", "native", Native(Gcc), Mode::Plain),
        column("disarmed", "disarmed", Wrapped(Gcc), Mode::Plain),
        column("detect-5", "detect 5 %", Wrapped(Gcc), Mode::Detect("5%")),
        column("detect", "detect", Wrapped(Gcc), Mode::Detect("25%")),
        column("tsan", "gcc TSan", Tsan(Gcc), Mode::Plain),
        column("native-clang", "native, clang", Native(Clang), Mode::Plain),
        column("disarmed-clang", "disarmed, clang", Wrapped(Clang), Mode::Plain),
        column("detect-clang", "detect, clang", Wrapped(Clang), Mode::Detect("25%")),
        column("tsan-clang", "clang TSan", Tsan(Clang), Mode::Plain),
    ]
};

/// The rows.
pub const ROWS: &[&str] = &["fft", "queue", "map", "pbzip2", "memcached", "zstd"];
