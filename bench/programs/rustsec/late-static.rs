//@ crate: late-static 0.3.0
//@ advisory: RUSTSEC-2020-0102
//! A `Cell` is shared between threads.

use std::cell::Cell;
use std::thread;

use late_static::LateStatic;

static SHARED: LateStatic<Cell<u32>> = LateStatic::new();

#[test]
fn every_addition_counts() {
    // As its documentation asks: once, and before there are threads.
    unsafe { LateStatic::assign(&SHARED, Cell::new(0)) };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| SHARED.set(SHARED.get() + 1));
        }
    });
    assert_eq!(SHARED.get(), 2);
}
