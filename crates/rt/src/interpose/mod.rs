//! Wrappers in front of libc, by family. A wrapper takes up to five arguments and the caller's address in
//! the sixth register; it notes what happens and calls the real function, whose result and `errno` it
//! leaves alone.

pub mod alloc;
pub mod block;
pub mod clock;
pub mod context;
pub mod futex;
pub mod lock;
pub mod process;
pub mod signal;
pub mod thread;
pub mod wait;

/// Wrappers by their C names, as the slot table wants them.
pub mod own {
    pub use super::alloc::*;
    pub use super::clock::*;
    pub use super::context::*;
    pub use super::futex::*;
    pub use super::lock::*;
    pub use super::process::*;
    pub use super::signal::*;
    pub use super::thread::*;
    pub use super::wait::*;
}

/// An integer register.
pub type Reg = usize;

/// Declares wrappers: `name(a, b; pc) => body`, where the body has the slot as `SLOT`.
macro_rules! wrappers {
    ($($name:ident($($arg:ident),*; $pc:ident) => $body:expr;)*) => { $(
        #[doc = concat!("In front of `", stringify!($name), "`.")]
        pub extern "C" fn $name(a: $crate::interpose::Reg, b: $crate::interpose::Reg, c: $crate::interpose::Reg,
            d: $crate::interpose::Reg, e: $crate::interpose::Reg, $pc: $crate::interpose::Reg) -> $crate::interpose::Reg {
            const SLOT: selvedge_events::interpose::Slot = selvedge_events::interpose::Slot::$name;
            wrappers!(@bind [a b c d e] $($arg)*);
            $body
        }
    )* };
    (@bind [$($rest:ident)*]) => { let _ = ($($rest,)*); };
    (@bind [$reg:ident $($rest:ident)*] $arg:ident $($args:ident)*) => {
        let $arg = $reg;
        wrappers!(@bind [$($rest)*] $($args)*);
    };
}
pub(crate) use wrappers;
