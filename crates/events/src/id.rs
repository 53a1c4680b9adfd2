//! Identifiers and units. Every number that crosses a crate border has a type.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A thread of one process, numbered in order of creation; the main thread is 0. Fibers are
    /// numbered in the same space: each is a thread of control of its own.
    ThreadIx(u32)
}
id! {
    /// An armed site of one run, as numbered by the plan (hot sites first) or, when everything is
    /// armed, by the runtime. The trace file's site chunks map it back to (image, offset).
    SiteId(u32)
}
id! {
    /// A loaded image of one run, in order of loading; the executable is 0.
    ModuleIx(u32)
}
id! {
    /// A time-stamp-counter reading.
    Ticks(u64)
}

/// An address in the guest. Never a pointer of ours.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestAddr(pub u64);

impl fmt::Debug for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
