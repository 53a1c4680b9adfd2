//@ crate: lock_api 0.4.1
//@ crate: parking_lot 0.11.0
//@ advisory: RUSTSEC-2020-0070
//! A `Cell` behind a mapped guard is shared between threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::thread;

use parking_lot::{Mutex, MutexGuard};

#[test]
fn every_addition_counts() {
    let lock = Mutex::new(Cell::new(0));
    let shared = MutexGuard::map(lock.lock(), |cell| cell);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| shared.set(shared.get() + 1));
        }
    });
    assert_eq!(shared.get(), 2);
}
