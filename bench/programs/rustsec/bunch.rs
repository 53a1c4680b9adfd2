//@ crate: bunch 0.1.0
//@ advisory: RUSTSEC-2020-0130
//! A `Cell` is shared between threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::thread;

use bunch::Bunch;

#[test]
fn every_addition_counts() {
    let shared = Bunch::new();
    shared.push(Cell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let count = shared.get(0);
                count.set(count.get() + 1);
            });
        }
    });
    assert_eq!(shared.get(0).get(), 2);
}
