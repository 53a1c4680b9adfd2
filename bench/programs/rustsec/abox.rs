//@ crate: abox 0.4.0
//@ advisory: RUSTSEC-2020-0121
//! A `Cell` is shared between threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::thread;

use abox::AtomicBox;

#[test]
fn every_addition_counts() {
    let shared = AtomicBox::new(Cell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let count = shared.get();
                count.set(count.get() + 1);
            });
        }
    });
    assert_eq!(shared.get().get(), 2);
}
