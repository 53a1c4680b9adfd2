//! The in-process runtime: what an instrumented program carries inside it.
//!
//! Ground rules. Code here runs inside strangers: before `main`, in signal handlers, after a thread's
//! death, between fork and exec.
//!
//! 1. No allocator, no locks of theirs, no unwinding, no `std`. The ways out are [`sys`] (raw system
//!    calls), [`arena`] (our own pages) and [`diag`] (a stack buffer and one write).
//! 2. Nothing happens without a plan: sites become nops, interposers jump straight to the real
//!    function, not a byte is printed.
//! 3. No panics: hot entries have no panicking path; the panic handler aborts with a message that says
//!    whose bug it is.
//! 4. `errno` is never touched (raw system calls do not), and no lock is held across a call to a real
//!    function. A thread writes only its own stream.
//! 5. A signal may arrive at any instruction. Short records are reserved with one instruction; the slow
//!    path has a busy mark, and what a handler would have recorded meanwhile is counted as dropped.
//! 6. No `static mut`. Shared state is atomics; per-thread state is reached only through
//!    [`thread_state::current`].
//! 7. Every loss is a counter with a sentence (`events::counters`).
//! 8. What cannot be done is skipped and counted; the guest goes on. See docs/design/runtime-rules.md for
//!    the invariants (I1 to I9) that the `SAFETY` comments cite.
//!
//! The crate is an ordinary `no_std` library for tests and lints; the CLI's build script compiles it
//! with the feature `object` (or `stub`) into one relocatable object whose only global symbols are the
//! hooks and interposers.

#![no_std]
#![cfg_attr(feature = "stub", expect(dead_code, reason = "the stub uses only the default entries"))]

pub mod arch;
pub mod arena;
mod bodies;
pub mod detect;
pub mod diag;
pub mod enforce;
pub mod entry;
pub mod gate;
pub mod graph;
pub mod guard;
pub mod heal;
#[cfg(not(feature = "stub"))]
pub mod interpose;
#[cfg(not(feature = "stub"))]
pub mod lifecycle;
pub mod modules;
pub mod patch;
pub mod real;
pub mod shadow;
pub mod sink;
pub mod spin;
pub mod stacks;
pub mod stream;
pub mod switch;
pub mod sys;
pub mod thread_state;

#[cfg(all(not(test), any(feature = "object", feature = "stub")))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    diag::fatal("internal error in the runtime; please report it")
}

#[cfg(all(not(test), any(feature = "object", feature = "stub")))]
mod personality {
    /// Referenced by the precompiled `core`, never called: we do not unwind.
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}
}
