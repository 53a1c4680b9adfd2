//@ crate: convec 2.0.1
//@ advisory: RUSTSEC-2020-0125
//! A `Cell` is shared between threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::thread;

use convec::AoVec;

#[test]
fn every_addition_counts() {
    let shared = AoVec::new();
    shared.push(Cell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let count = shared.get(0).unwrap();
                count.set(count.get() + 1);
            });
        }
    });
    assert_eq!(shared.get(0).unwrap().get(), 2);
}
