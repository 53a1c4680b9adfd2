//! A lock for rare, short, allocation-free sections: slot and module tables.
//!
//! Never taken on an access path and never held across a call to a real function (rule 4). It gives up
//! rather than wait for ever: a signal handler may have interrupted the holder, or a fork may have
//! left it locked; what then happens is the caller's degraded path.

use core::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Debug)]
pub struct Spin(AtomicBool);

/// Proof that the lock is held.
#[derive(Debug)]
pub struct Held<'a>(&'a Spin);

impl Spin {
    /// An open lock.
    pub const fn new() -> Spin {
        Spin(AtomicBool::new(false))
    }

    /// Tries for a bounded time.
    pub fn lock(&self) -> Option<Held<'_>> {
        for round in 0..100_000_u32 {
            // Pairs with the release in `drop`.
            if self.0.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Held(self));
            }
            if round > 100 && !crate::sink::is_sealed() {
                crate::sys::sched_yield();
            } else {
                core::hint::spin_loop();
            }
        }
        None
    }

    /// Tries for seconds: for a lock that is always given back, by holders that may be kept from running.
    pub fn lock_patiently(&self) -> Option<Held<'_>> {
        for _ in 0..50_000_u32 {
            for _ in 0..100 {
                // Pairs with the release in `drop`.
                if self.0.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(Held(self));
                }
                core::hint::spin_loop();
            }
            if !crate::sink::is_sealed() {
                crate::sys::nap(100_000);
            }
        }
        None
    }

    /// Tries once.
    pub fn try_lock(&self) -> Option<Held<'_>> {
        // Pairs with the release in `drop`.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Held(self))
    }

    /// Opens the lock whoever holds it: for the only thread of a forked child.
    pub fn force_open(&self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::new()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire in `lock`.
        self.0.0.store(false, Ordering::Release);
    }
}
