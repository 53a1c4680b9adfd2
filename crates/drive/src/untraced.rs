//! Why a program left no trace, as far as its file tells, and what to do about it.
//!
//! The file is only looked at after the fact: a program without instrumentation may well load libraries that have it.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Why a program left no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untraced {
    /// It has rights of its own: the runtime takes no orders from whoever starts it.
    Privileged,
    /// It is a script, and nothing that it started left a trace.
    Script,
    /// It has the compiler's own ThreadSanitizer in it.
    OtherRuntime,
    /// It has no dynamic linker.
    Static,
    /// It was built without us.
    Plain,
}

impl Untraced {
    /// Looks at a program's file.
    pub fn of(path: &Path) -> Untraced {
        let bytes = std::fs::read(path).unwrap_or_default();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        if is_privileged(path) {
            Untraced::Privileged
        } else if bytes.starts_with(b"#!") {
            Untraced::Script
        } else if has(b"libtsan.so") || has(b"ThreadSanitizer: failed to") {
            Untraced::OtherRuntime
        } else if is_static(&bytes) {
            Untraced::Static
        } else {
            Untraced::Plain
        }
    }
}

impl fmt::Display for Untraced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Untraced::Privileged => {
                "it is set-user-ID or set-group-ID, and such a program takes no plans from whoever starts it; \
                 try a copy of it without that bit (`cp` makes one)"
            }
            Untraced::Script => {
                "it is a script, and nothing that it started was built with selvedge; \
                 build what it starts with `selvedge cc`, `selvedge c++` or `selvedge build`"
            }
            Untraced::OtherRuntime => {
                "it was linked with the compiler's own ThreadSanitizer; \
                 link it with `selvedge cc` or `selvedge c++` (-fsanitize=thread may stay)"
            }
            Untraced::Static => {
                "it is statically linked, and selvedge works through the dynamic linker; \
                 build it with `selvedge cc`, `selvedge c++` or `selvedge build`, without -static"
            }
            Untraced::Plain => {
                "it was not built with selvedge; build it with `selvedge cc`, `selvedge c++` or `selvedge build`"
            }
        })
    }
}

/// Whether the program runs with the rights of somebody else.
fn is_privileged(path: &Path) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    std::fs::metadata(path).is_ok_and(|meta| {
        (meta.mode() & SET_USER != 0 && meta.uid() != user) || (meta.mode() & SET_GROUP != 0 && meta.gid() != group)
    })
}

/// Whether a 64-bit ELF program names no dynamic linker.
fn is_static(bytes: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, len: usize| -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..len)?.copy_from_slice(bytes.get(at..at.checked_add(len)?)?);
        Some(u64::from_le_bytes(word))
    };
    let headers = || -> Option<bool> {
        let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        for index in 0..count {
            let at = usize::try_from(offset.checked_add(size * index)?).ok()?;
            if number(at, 4)? == u64::from(PT_INTERP) {
                return Some(false);
            }
        }
        Some(true)
    };
    bytes.starts_with(b"\x7fELF") && headers().unwrap_or(false)
}
