//! Annotations for programs that are built with Selvedge (`cargo selvedge`): what the code means, where it cannot be seen.
//!
//! Without Selvedge they do nothing. Marks are a few bytes of data that nobody reads; calls look for a hook of the runtime,
//! find none and go on: a load, a test, no call. No dependencies, no `std`; on other machines than x86-64 Linux nothing is left
//! of them at all.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
//!
//! static SOLD: AtomicU32 = AtomicU32::new(0);
//!
//! // Meant to be one step. A hunt looks for schedules in which others come between.
//! let number = selvedge::atomic! {
//!     let number = SOLD.load(SeqCst);
//!     SOLD.store(number + 1, SeqCst);
//!     number
//! };
//! assert_eq!(number, 0);
//! ```
//!
//! They mean the same as those of `selvedge.h` for C and C++, and as the hooks of ThreadSanitizer that they go through.

#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]

mod hooks;

use core::fmt;

/// Code that is meant to be atomic: no other thread should come between its accesses. Its value is the block's.
///
/// Nothing is locked and nobody waits. Analyses take the block for an atomic region, as they take the code under a lock, and try
/// to break it.
///
/// ```
/// let mut last = 6;
/// let next = selvedge::atomic!({
///     last += 1;
///     last
/// });
/// assert_eq!(next, 7);
/// ```
///
/// The block is no function: `return`, `break` and `?` leave it as usual.
///
/// ```
/// fn first(words: &[&str]) -> Option<usize> {
///     selvedge::atomic! {
///         let word = words.first()?;
///         Some(word.len())
///     }
/// }
/// assert_eq!(first(&["one"]), Some(3));
/// assert_eq!(first(&[]), None);
/// ```
#[macro_export]
macro_rules! atomic {
    ($($body:tt)*) => {{
        // A name of its own for every time that the region is entered.
        let __object = 0_u8;
        let __region = $crate::Region::enter(&__object);
        $($body)*
    }};
}

/// An atomic region that is left when it is dropped; [`atomic!`] makes one.
#[must_use = "the region ends when this is dropped"]
pub struct Region<'a> {
    object: &'a u8,
}

impl<'a> Region<'a> {
    /// Enters a region. Its `object` has an address that no other thread uses meanwhile: a local variable.
    #[inline]
    pub fn enter(object: &'a u8) -> Self {
        hooks::locked(object);
        Self { object }
    }
}

impl Drop for Region<'_> {
    #[inline]
    fn drop(&mut self) {
        hooks::unlock(self.object);
    }
}

impl fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Region")
    }
}

/// What this thread did so far happens before what another does after [`happens_after`] on the same object. For orders that are
/// made where the hooks do not reach: in assembly, through a device, by another process.
///
/// ```
/// let page = [0_u8; 64];
/// selvedge::happens_before(&page);
/// ```
#[inline]
pub fn happens_before<T: ?Sized>(object: &T) {
    hooks::release(object);
}

/// The other end of [`happens_before`].
///
/// ```
/// let page = [0_u8; 64];
/// selvedge::happens_after(&page);
/// ```
#[inline]
pub fn happens_after<T: ?Sized>(object: &T) {
    hooks::acquire(object);
}

/// The guard is to watch all accesses to this object, wherever they are; learnt in training runs.
///
/// ```
/// let balance = 7_u64;
/// selvedge::guard_address(&balance);
/// ```
#[inline]
pub fn guard_address<T: ?Sized>(object: &T) {
    hooks::guard_address(object);
}

/// The guard is to watch all accesses of this function to memory that threads share.
///
/// ```
/// fn withdraw(balance: &mut u64, amount: u64) {
///     selvedge::guard_function!();
///     *balance -= amount;
/// }
/// let mut balance = 9;
/// withdraw(&mut balance, 2);
/// assert_eq!(balance, 7);
/// ```
#[macro_export]
macro_rules! guard_function {
    () => {
        $crate::__mark!(1)
    };
}

/// The guard is to watch all accesses of this block of code, from the last branch to the next.
///
/// ```
/// let mut sum = 0;
/// for n in 0..3 {
///     selvedge::guard_block!();
///     sum += n;
/// }
/// assert_eq!(sum, 3);
/// ```
#[macro_export]
macro_rules! guard_block {
    () => {
        $crate::__mark!(2)
    };
}

/// A mark: where it stands, and what it asks for. Data beside the code, no code.
#[doc(hidden)]
#[macro_export]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
macro_rules! __mark {
    ($kind:literal) => {
        // SAFETY: no instruction is emitted and nothing is touched; the section is a row of data about this place.
        unsafe {
            ::core::arch::asm!(
                "771:",
                ".pushsection .selvedge.marks,\"a\",@progbits",
                ".balign 4",
                ".long 771b - .",
                concat!(".long ", $kind),
                ".popsection",
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

#[doc(hidden)]
#[macro_export]
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
macro_rules! __mark {
    ($kind:literal) => {
        ()
    };
}
